//! What a write does to rollouts, as far as its judgement depends on it.

use std::sync::Arc;

use super::{Rollout, State};
use crate::effect::Effect;
use crate::json::Json;
use crate::kind::{CLUSTERS, ROLLOUTS};
use crate::log::Change;
use crate::snapshot::{Edit, Fleet};

/// The rollouts that a write starts: their plan is that of their completion.
pub(crate) fn started<'a>(after: &Fleet, changes: &'a [Change]) -> Vec<&'a Arc<str>> {
    let created = changes
        .iter()
        .filter(|change| &*change.kind == ROLLOUTS && change.before.is_none());
    let running = created.filter(|change| {
        after
            .rollouts()
            .get(&change.id)
            .is_some_and(|rollout| rollout.is_active())
    });
    running.map(|change| &change.id).collect()
}

/// A step of one rollout, and nothing else.
pub(crate) struct Moved {
    pub(crate) rollout: Arc<Rollout>,
    /// Whether clusters are promoted; else they go back.
    pub(crate) forward: bool,
}

/// The rollout that a write moves, if that is all it does.
pub(crate) fn moved(before: &Fleet, after: &Fleet, changes: &[Change]) -> Option<Moved> {
    let mut of_rollouts = changes.iter().filter(|change| &*change.kind == ROLLOUTS);
    let (change, None) = (of_rollouts.next()?, of_rollouts.next()) else {
        return None;
    };
    let (old, new) = (before.rollouts().get(&change.id)?, after.rollouts().get(&change.id)?);
    // Only a completion writes other documents.
    let is_complete = new.state == State::Completed;
    let is_part = |change: &Change| &*change.kind == ROLLOUTS || (is_complete && old.patches(&change.kind, &change.id));
    if !old.is_active() || !changes.iter().all(is_part) {
        return None;
    }
    let forward = new.state == State::Completed || (new.is_active() && new.wave > old.wave);
    let back = new.state != State::Completed && new.wave < old.wave;
    let rollout = new.clone();
    (forward || back).then_some(Moved { rollout, forward })
}

/// The clusters that a write takes out of a wave that was promoted, although the rollout does not move, and that are told something else
/// then. A cluster that overrides what the rollout changes may leave.
pub(crate) fn demoted(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Arc<str>> {
    let (Some(old), Some(new)) = (before.rollouts().active(), after.rollouts().active()) else {
        return Vec::new();
    };
    let stays = |rollout: &&Arc<Rollout>| {
        let now = after.rollouts().get(rollout.id());
        now.is_some_and(|now| now.is_active() && now.wave == rollout.wave)
    };
    let standing: Vec<_> = old
        .rollouts()
        .filter(stays)
        .filter_map(|rollout| Some((rollout.id(), rollout.wave?)))
        .collect();
    let written = changes.iter().filter(|change| &*change.kind == CLUSTERS);
    let demoted = written.filter(|change| {
        let (Some(then), Some(now)) = (before.cluster(&change.id), after.cluster(&change.id)) else {
            return false;
        };
        standing.iter().any(|(id, wave)| {
            let is_in = |place: Option<usize>| place.is_some_and(|place| place <= *wave);
            is_in(old.wave_of(id, then)) && !is_in(new.wave_of(id, now))
        })
    });
    let demoted: Vec<Arc<str>> = demoted.map(|change| change.id.clone()).collect();
    match demoted.is_empty() {
        true => demoted,
        false => Effect::changed(before, after, &demoted),
    }
}

impl Fleet {
    /// The same fleet with another wave of some rollouts promoted last. None: nobody is promoted.
    pub fn with_wave<'a>(
        &self,
        rollouts: impl IntoIterator<Item = &'a Arc<str>>,
        wave: Wanted,
    ) -> Result<Fleet, String> {
        let mut edit = Edit::new(self.clone());
        for id in rollouts {
            let Some(rollout) = self.rollouts().get(id) else {
                continue;
            };
            let mut document = rollout.document.body.parse();
            let wave = match wave {
                Wanted::Nobody => None,
                Wanted::Everyone => rollout.waves.last().map(|wave| wave.name.as_str()),
            };
            document["wave"] = wave.into();
            edit.put(ROLLOUTS, id.clone(), Some(Json::new(&document)), None)?;
        }
        edit.settle()
    }
}

impl Fleet {
    /// What a rollout changes for each cluster that it affects, promoted or not. Clusters that override what it changes are not in it.
    /// With `among`: only those of these clusters, which are sorted.
    pub fn rollout_effect(&self, id: &Arc<str>, among: Option<&[Arc<str>]>) -> Result<Effect, String> {
        let rollout = self.rollouts().get(id).ok_or("there is no such rollout")?;
        let body = Some(rollout.document.body.clone());
        let moved = Change {
            kind: ROLLOUTS.into(),
            id: id.clone(),
            before: body.clone(),
            after: body,
            origin: None,
            unique: None,
            keeps_unique: true,
        };
        let (before, after) = (
            self.with_wave([id], Wanted::Nobody)?,
            self.with_wave([id], Wanted::Everyone)?,
        );
        Ok(match among {
            None => Effect::of(&before, &after, &[moved]),
            Some(clusters) => Effect::among(&before, &after, &[moved], clusters),
        })
    }
}

/// Who is promoted in a fleet that is only imagined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Nobody,
    Everyone,
}
