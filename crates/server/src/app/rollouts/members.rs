//! Who is in which wave of a rollout, and what it changes for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::ListEffect;
use fleet::log::{Head, Revision};
use fleet::rollout::Rollout;

/// A cluster that a rollout affects.
#[derive(Debug)]
pub(super) struct Affected {
    pub(super) id: Arc<str>,
    pub(super) wave: usize,
    /// Path, and the inputs that are new or other. Clusters with the same share it.
    pub(super) inputs: Arc<Inputs>,
}

/// Path, and the inputs that are new or other; none if something is removed.
pub(super) type Inputs = Vec<(Arc<str>, BTreeSet<String>)>;

/// The clusters of a rollout at one revision.
#[derive(Debug)]
pub(super) struct Members {
    at: Head,
    counts: Vec<usize>,
    affected: Vec<Affected>,
}

impl Members {
    pub(super) fn of(fleet: &Fleet, rollout: &Arc<Rollout>) -> Result<Members, String> {
        let mut counts = vec![0; rollout.waves.len()];
        let last = counts.len().saturating_sub(1);
        // One that ended has its last wave promoted, or none: what it did is in the log.
        let Some(active) = fleet.rollouts().active().filter(|_| rollout.is_active()) else {
            counts[last] = fleet.clusters().len();
            return Ok(Members {
                at: fleet.head(),
                counts,
                affected: Vec::new(),
            });
        };
        let mut waves = HashMap::new();
        for (id, cluster) in fleet.clusters() {
            let wave = active.wave_of(rollout.id(), cluster).unwrap_or(last);
            counts[wave] += 1;
            waves.insert(id.clone(), wave);
        }
        let mut shared: HashMap<Vec<(usize, usize)>, Arc<Inputs>> = HashMap::new();
        let effect = fleet.rollout_effect(rollout.id())?;
        let affected = effect.clusters.into_iter().filter(|cluster| !cluster.inputs.is_empty());
        let affected = affected.filter_map(|cluster| {
            let key = cluster
                .inputs
                .iter()
                .map(|(path, list)| (path.as_ptr().addr(), Arc::as_ptr(list).addr()));
            let inputs = shared
                .entry(key.collect())
                .or_insert_with(|| Arc::new(inputs(&cluster.inputs)));
            Some(Affected {
                wave: *waves.get(&cluster.id)?,
                inputs: inputs.clone(),
                id: cluster.id,
            })
        });
        Ok(Members {
            at: fleet.head(),
            counts,
            affected: affected.collect(),
        })
    }

    pub(super) fn is_of(&self, fleet: &Fleet) -> bool {
        self.at == fleet.head()
    }

    /// How many clusters are in a wave.
    pub(super) fn count(&self, wave: usize) -> usize {
        self.counts[wave]
    }

    pub(super) fn affected(&self) -> &[Affected] {
        &self.affected
    }

    /// The same, without clusters that joined after their wave was promoted: its gate is about those that were there.
    pub(super) fn present_at(&self, existed: impl Fn(&str, usize) -> bool) -> Members {
        let present = self.affected.iter().filter(|one| existed(&one.id, one.wave));
        let affected = present.map(|one| Affected {
            id: one.id.clone(),
            wave: one.wave,
            inputs: one.inputs.clone(),
        });
        Members {
            at: self.at,
            counts: self.counts.clone(),
            affected: affected.collect(),
        }
    }
}

fn inputs(lists: &[(Arc<str>, Arc<ListEffect>)]) -> Inputs {
    let present = lists.iter().map(|(path, list)| {
        let ids = list.present().map(str::to_owned).collect();
        (path.clone(), ids)
    });
    present.collect()
}

/// The revision at which a wave was promoted.
pub(super) fn promotion(rollout: &Rollout, wave: usize) -> Option<Revision> {
    rollout.promotions.get(&rollout.waves.get(wave)?.name).copied()
}
