//! The plan of a rollout, wave by wave.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::guard::{Guard, GuardCheck, check_part};
use fleet::kind::{PROFILES, ROLLOUTS};
use fleet::log::Change;
use fleet::rollout::Rollout;
use serde::Serialize;

/// The most clusters that are listed as unaffected.
const MOST_LISTED: usize = 1000;

/// What a rollout would do when it is complete, wave by wave.
#[derive(Debug, Serialize)]
pub struct RolloutPlan {
    pub id: Arc<str>,
    pub waves: Vec<WavePlan>,
    pub unaffected: Unaffected,
}

#[derive(Debug, Serialize)]
pub struct WavePlan {
    pub name: String,
    pub approve: bool,
    pub members: usize,
    /// Members for which something changes.
    pub affected: usize,
    /// Members that lose something.
    pub removals: usize,
    /// The limits of the guards in force: one that is exceeded holds the wave.
    pub guards: Vec<GuardCheck>,
}

/// Clusters that have what the rollout changes, and override it.
#[derive(Debug, Default, Serialize)]
pub struct Unaffected {
    pub count: usize,
    pub clusters: Vec<Arc<str>>,
}

/// The plans of the rollouts that a write starts. `effect` is that of their completion, and `guards` are those in force.
pub fn plans(after: &Fleet, changes: &[Change], effect: &Effect, guards: &[&Arc<Guard>]) -> Vec<RolloutPlan> {
    let created = changes
        .iter()
        .filter(|change| &*change.kind == ROLLOUTS && change.before.is_none());
    let started = created.filter_map(|change| after.rollouts().get(&change.id));
    started
        .filter(|rollout| rollout.is_active())
        .map(|rollout| plan(after, rollout, effect, guards))
        .collect()
}

fn plan(after: &Fleet, rollout: &Arc<Rollout>, effect: &Effect, guards: &[&Arc<Guard>]) -> RolloutPlan {
    let of_wave = |wave: &fleet::rollout::Wave| WavePlan {
        name: wave.name.clone(),
        approve: wave.approve,
        members: 0,
        affected: 0,
        removals: 0,
        guards: Vec::new(),
    };
    let mut waves: Vec<WavePlan> = rollout.waves.iter().map(of_wave).collect();
    let users = users(after, rollout);
    let touched: HashSet<&Arc<str>> = effect
        .clusters
        .iter()
        .filter(|one| !one.inputs.is_empty())
        .map(|one| one.id())
        .collect();
    let losing: HashSet<&Arc<str>> = effect
        .clusters
        .iter()
        .filter(|one| one.loses())
        .map(|one| one.id())
        .collect();
    // The affected members of each wave, with whether they lose something.
    let mut affected: Vec<BTreeMap<&Arc<str>, bool>> = waves.iter().map(|_| BTreeMap::new()).collect();
    if let Some(active) = after.rollouts().active() {
        for (id, cluster) in after.clusters() {
            let number = active.wave_of(rollout.id(), cluster);
            let Some((number, wave)) = number.and_then(|number| Some((number, waves.get_mut(number)?))) else {
                continue;
            };
            wave.members += 1;
            if !users.contains(id) {
                continue;
            }
            wave.affected += usize::from(touched.contains(id));
            wave.removals += usize::from(losing.contains(id));
            if !guards.is_empty() && touched.contains(id) {
                affected[number].insert(id, losing.contains(id));
            }
        }
    }
    for (wave, affected) in waves.iter_mut().zip(&affected) {
        wave.guards = check_part(guards, after, affected);
    }
    let pinned: Vec<&Arc<str>> = users.iter().filter(|id| !touched.contains(id)).collect();
    RolloutPlan {
        id: rollout.id().clone(),
        waves,
        unaffected: Unaffected {
            count: pinned.len(),
            clusters: pinned.into_iter().take(MOST_LISTED).cloned().collect(),
        },
    }
}

/// The clusters that have a document which the rollout changes.
fn users(after: &Fleet, rollout: &Rollout) -> BTreeSet<Arc<str>> {
    let mut users = BTreeSet::new();
    for patch in &rollout.patches {
        match &*patch.kind {
            PROFILES => users.extend(after.ids(after.members(&patch.id))),
            kind => users.extend(after.ids(after.users(kind, &patch.id))),
        }
    }
    users
}
