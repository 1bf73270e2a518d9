//! Which clusters joined after their wave was promoted. The gate of the wave is about those that were there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};

use fleet::Fleet;
use fleet::log::Revision;
use fleet::rollout::Rollout;
use store::StoreError;
use tracing::warn;

use super::Rollouts;
use super::members::{Members, promotion};
use crate::app::App;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;
use crate::app::status::Judge;

/// The fleets right after promotions, by rollout and revision.
pub(super) type Promotions = HashMap<Arc<str>, BTreeMap<Revision, Arc<Fleet>>>;

impl App {
    /// The members that the gate counts.
    pub(super) fn counted(
        &self,
        turn: &Turn,
        judge: &Judge,
        rollout: &Rollout,
        members: &Arc<Members>,
    ) -> Result<Arc<Members>, ReadError> {
        let then = |revision| self.fleet_of_promotion(turn, rollout, revision);
        let mut fleets = HashMap::new();
        for (wave, revision) in promotions_before(judge, rollout) {
            fleets.insert(wave, then(revision)?);
        }
        Ok(without_joined(members, &fleets))
    }

    /// The same as far as the driver of this process knows it: a status must not read the log.
    pub(super) fn counted_as_known(&self, judge: &Judge, rollout: &Rollout, members: &Arc<Members>) -> Arc<Members> {
        let then = |(wave, revision)| Some((wave, self.known_promotion(rollout, revision)?));
        let fleets = promotions_before(judge, rollout).filter_map(then).collect();
        without_joined(members, &fleets)
    }

    fn known_promotion(&self, rollout: &Rollout, revision: Revision) -> Option<Arc<Fleet>> {
        let promotions = self.rollouts.promotions();
        promotions.get(rollout.id())?.get(&revision).cloned()
    }

    fn fleet_of_promotion(&self, turn: &Turn, rollout: &Rollout, revision: Revision) -> Result<Arc<Fleet>, ReadError> {
        if let Some(known) = self.known_promotion(rollout, revision) {
            return Ok(known);
        }
        let fleet = match self.fleet_at(turn, revision) {
            // The log no longer has the promotion. The first revision that it has is the next best.
            Err(ReadError::Store(StoreError::Compacted(begin))) => {
                warn!(rollout = %rollout.id(), %begin, "clusters that joined between the promotion and this revision are counted");
                self.fleet_at(turn, begin)?
            }
            found => found?,
        };
        let mut promotions = self.rollouts.promotions();
        let of_rollout = promotions.entry(rollout.id().clone()).or_default();
        // Those from before a revert.
        of_rollout.retain(|known, _| rollout.promotions.values().any(|promoted| promoted == known));
        of_rollout.insert(revision, fleet.clone());
        Ok(fleet)
    }
}

/// The waves, with the revisions of their promotions, after which clusters changed.
fn promotions_before(judge: &Judge, rollout: &Rollout) -> impl Iterator<Item = (usize, Revision)> {
    let changed = judge.fleet.clusters_changed().revision;
    let waves = 0..rollout.waves.len();
    let promoted = waves.filter_map(move |wave| Some((wave, promotion(rollout, wave)?)));
    promoted.filter(move |(_, revision)| changed > *revision)
}

/// `fleets`: those right after the promotions, by wave.
fn without_joined(members: &Arc<Members>, fleets: &HashMap<usize, Arc<Fleet>>) -> Arc<Members> {
    if fleets.is_empty() {
        return members.clone();
    }
    let existed = |id: &str, wave| {
        let fleet = fleets.get(&wave);
        fleet.is_none_or(|fleet| fleet.cluster(id).is_some())
    };
    Arc::new(members.present_at(existed))
}

impl Rollouts {
    pub(super) fn promotions(&self) -> MutexGuard<'_, Promotions> {
        self.promotions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
