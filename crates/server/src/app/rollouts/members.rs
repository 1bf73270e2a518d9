//! Who is in which wave of a rollout, and what it changes for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fleet::Fleet;
use fleet::log::Revision;
use fleet::rollout::{Rollout, Wave};
use fleet::snapshot::Cluster;

use crate::app::changed_inputs::{ChangedInputs, Shared};

/// A cluster that a rollout affects.
#[derive(Clone, Debug)]
pub(super) struct Affected {
    pub(super) id: Arc<str>,
    pub(super) wave: usize,
    /// Path, and the inputs that are new or other. Clusters with the same share it.
    pub(super) inputs: Arc<ChangedInputs>,
}

/// The clusters of a rollout. Most of it stays as it is when the fleet changes.
#[derive(Debug)]
pub(super) struct Members {
    fleet: Arc<Fleet>,
    /// Identifies the documents that the rollout patches.
    documents: u64,
    /// Identifies the other rollouts.
    others: u64,
    /// The waves that clusters were divided into.
    waves: Vec<Wave>,
    counts: Vec<usize>,
    /// Sorted by id.
    affected: Arc<[Affected]>,
}

impl Members {
    /// Who is in which wave now. `known` is what was found before.
    pub(super) fn of(fleet: &Arc<Fleet>, rollout: &Arc<Rollout>, known: Option<&Members>) -> Result<Members, String> {
        let mut counts = vec![0; rollout.waves.len()];
        let last = counts.len().saturating_sub(1);
        // One that ended has its last wave promoted, or none: what it did is in the log.
        let Some(active) = fleet.rollouts().active().filter(|_| rollout.is_active()) else {
            counts[last] = fleet.clusters().len();
            return Ok(Members {
                fleet: fleet.clone(),
                documents: 0,
                others: 0,
                waves: Vec::new(),
                counts,
                affected: Arc::default(),
            });
        };
        let documents = active.documents_of(rollout.id());
        let others = active.others(rollout.id());
        let known = known.filter(|known| known.is_comparable(fleet, documents, others) && known.waves == rollout.waves);
        let wave_of = |cluster: &Cluster| active.wave_of(rollout.id(), cluster).unwrap_or(last);
        let (mut gone, mut waves) = (HashSet::new(), HashMap::new());
        match known {
            Some(known) => {
                counts.clone_from(&known.counts);
                for (old, new) in fleet.clusters_since(&known.fleet) {
                    if let Some(old) = old {
                        counts[wave_of(old)] -= 1;
                        gone.insert(&*old.document().id);
                    }
                    if let Some(new) = new {
                        waves.insert(new.document().id.clone(), wave_of(new));
                    }
                }
            }
            None => waves.extend(
                fleet
                    .clusters()
                    .iter()
                    .map(|(id, cluster)| (id.clone(), wave_of(cluster))),
            ),
        }
        waves.values().for_each(|wave| counts[*wave] += 1);
        let found = find(fleet, rollout, &waves)?;
        let affected = match known {
            Some(known) if gone.is_empty() && found.is_empty() => known.affected.clone(),
            _ => {
                let before = known.map_or(&[][..], |known| &known.affected);
                let kept = before.iter().filter(|one| !gone.contains(&*one.id)).cloned();
                let mut affected: Vec<Affected> = kept.chain(found).collect();
                affected.sort_by(|one, other| one.id.cmp(&other.id));
                affected.into()
            }
        };
        Ok(Members {
            fleet: fleet.clone(),
            documents,
            others,
            waves: rollout.waves.clone(),
            counts,
            affected,
        })
    }

    /// Whether what is known of clusters that stay the same is still so.
    fn is_comparable(&self, fleet: &Fleet, documents: u64, others: u64) -> bool {
        let same_profiles = || {
            let all = |fleet: &Fleet| {
                fleet
                    .profiles()
                    .iter()
                    .map(|profile| profile.document.etag)
                    .collect::<Vec<_>>()
            };
            all(&self.fleet) == all(fleet)
        };
        self.documents == documents
            && self.others == others
            && Arc::ptr_eq(self.fleet.kinds(), fleet.kinds())
            && same_profiles()
    }

    pub(super) fn is_of(&self, fleet: &Fleet) -> bool {
        self.fleet.head() == fleet.head()
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
        let affected = self.affected.iter().filter(|one| existed(&one.id, one.wave)).cloned();
        Members {
            fleet: self.fleet.clone(),
            documents: self.documents,
            others: self.others,
            waves: self.waves.clone(),
            counts: self.counts.clone(),
            affected: affected.collect(),
        }
    }
}

/// What the rollout changes for some clusters, with their waves.
fn find(fleet: &Fleet, rollout: &Rollout, waves: &HashMap<Arc<str>, usize>) -> Result<Vec<Affected>, String> {
    if waves.is_empty() {
        return Ok(Vec::new());
    }
    let among = (waves.len() < fleet.clusters().len()).then(|| {
        let mut ids: Vec<Arc<str>> = waves.keys().cloned().collect();
        ids.sort_unstable();
        ids
    });
    let effect = fleet.rollout_effect(rollout.id(), among.as_deref())?;
    let mut shared = Shared::default();
    let affected = effect.clusters.iter().filter(|cluster| !cluster.inputs.is_empty());
    let affected = affected.filter_map(|cluster| {
        Some(Affected {
            wave: *waves.get(cluster.id())?,
            inputs: shared.of(cluster),
            id: cluster.id().clone(),
        })
    });
    Ok(affected.collect())
}

/// The revision at which a wave was promoted.
pub(super) fn promotion(rollout: &Rollout, wave: usize) -> Option<Revision> {
    rollout.promotions.get(&rollout.waves.get(wave)?.name).copied()
}
