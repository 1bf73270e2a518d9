//! Rollouts that run: how far each wave has come, and the task that promotes the next one.

mod driver;
mod gates;
mod joined;
mod members;
mod plan;
mod steps;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fleet::Fleet;
use fleet::log::Revision;
use fleet::rollout::{Counts, Rollout, Verdict};
use fleet::status::{Lasting, State};

pub use self::driver::{Driver, drive};
use self::joined::Promotions;
use self::members::{Affected, Members};
pub use self::plan::{RolloutPlan, plans};
use super::App;
use super::errors::ReadError;
use super::reads::Turn;
use super::status::{Judge, Said};

/// What is remembered about rollouts between two looks.
#[derive(Debug)]
pub struct Rollouts {
    started: Instant,
    members: Mutex<HashMap<Arc<str>, Arc<Members>>>,
    promotions: Mutex<Promotions>,
    /// What the driver said last, in words, by rollout.
    words: Mutex<HashMap<Arc<str>, String>>,
}

impl Default for Rollouts {
    fn default() -> Self {
        Rollouts {
            started: Instant::now(),
            members: Mutex::default(),
            promotions: Mutex::default(),
            words: Mutex::default(),
        }
    }
}

/// How far a rollout has come.
#[derive(Debug)]
pub struct RolloutStatus {
    pub rollout: Arc<Rollout>,
    /// Why it does not go on, in words. None: it is not running, or nobody has looked yet.
    pub waits: Option<String>,
    pub waves: Vec<WaveStatus>,
}

/// How far one wave has come.
#[derive(Clone, Debug)]
pub struct WaveStatus {
    pub name: String,
    pub members: usize,
    pub promoted: bool,
    pub approve: bool,
    /// Of members that the rollout affects. Only `affected` before the promotion.
    pub counts: Counts,
}

impl App {
    /// How far a rollout has come, wave by wave.
    pub fn rollout_status(&self, turn: &Turn, id: &str) -> Result<RolloutStatus, ReadError> {
        let judge = self.judge();
        let rollout = judge.fleet.rollouts().get(id).cloned();
        let missing = || ReadError::NotFound(format!("there is no rollout \"{}\"", fleet::refusal::quote(id)));
        let rollout = rollout.ok_or_else(missing)?;
        let members = self.members(&judge, &rollout)?;
        turn.check()?;
        let counted = self.counted_as_known(&judge, &rollout, &members);
        let waves = self.waves(&judge, &rollout, &counted);
        let words = self.rollouts.words.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(RolloutStatus {
            waits: words
                .get(rollout.id())
                .filter(|_| rollout.state == fleet::rollout::State::Running)
                .cloned(),
            rollout,
            waves,
        })
    }

    /// Who is in which wave, and whom the rollout affects. Remembered until the fleet changes.
    fn members(&self, judge: &Judge, rollout: &Arc<Rollout>) -> Result<Arc<Members>, ReadError> {
        let lock = || self.rollouts.members.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(rollout.id()).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.is_of(&judge.fleet)) {
            return Ok(known.clone());
        }
        let members = Members::of(&judge.fleet, rollout, known.as_deref()).map_err(|_| ReadError::Internal)?;
        let members = Arc::new(members);
        if rollout.is_active() {
            lock().insert(rollout.id().clone(), members.clone());
        }
        Ok(members)
    }

    /// Forgets the members of rollouts that ended, and old ones of rollouts that nobody drives: they must not keep an old fleet.
    pub(super) fn forget_members(&self, fleet: &Fleet) {
        let mut all = self.rollouts.members.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, members| {
            let rollout = fleet.rollouts().get(id).filter(|rollout| rollout.is_active());
            let is_driven = |rollout: &Arc<Rollout>| rollout.state == fleet::rollout::State::Running;
            rollout.is_some_and(|rollout| is_driven(rollout) || members.is_of(fleet))
        });
        let is_driven = |id: &str| {
            let rollout = fleet.rollouts().get(id);
            rollout.is_some_and(|rollout| rollout.state == fleet::rollout::State::Running)
        };
        self.rollouts.promotions().retain(|id, _| is_driven(id));
    }

    fn waves(&self, judge: &Judge, rollout: &Rollout, members: &Members) -> Vec<WaveStatus> {
        let mut waves: Vec<WaveStatus> = rollout
            .waves
            .iter()
            .enumerate()
            .map(|(position, wave)| WaveStatus {
                name: wave.name.clone(),
                members: members.count(position),
                promoted: rollout.wave.is_some_and(|promoted| position <= promoted),
                approve: wave.approve,
                counts: Counts::default(),
            })
            .collect();
        for affected in members.affected() {
            let wave = &mut waves[affected.wave];
            match wave.promoted {
                true => {
                    let promoted_at = members::promotion(rollout, affected.wave);
                    self.count(judge, affected, promoted_at, &mut wave.counts);
                }
                false => wave.counts.affected += 1,
            }
        }
        waves
    }

    /// Counts one promoted cluster, by the evidence about the inputs that the rollout changes.
    fn count(&self, judge: &Judge, affected: &Affected, promoted_at: Option<Revision>, counts: &mut Counts) {
        let Some((state, is_told)) = self.progress_of(judge, affected, promoted_at) else {
            return;
        };
        counts.affected += 1;
        counts.told += usize::from(is_told);
        match state {
            State::Converged => counts.converged += 1,
            State::Failing => counts.failing += 1,
            // After a start, everyone looks as if they had been silent while we were away.
            State::Silent if self.rollouts.started.elapsed() < judge.silent_after => counts.unknown += 1,
            State::Silent => counts.silent += 1,
            State::Never => counts.unknown += 1,
            State::Behind | State::Told => {}
        }
    }

    /// How a promoted cluster is doing, and whether it was told. None: it is gone.
    fn progress_of(&self, judge: &Judge, affected: &Affected, promoted_at: Option<Revision>) -> Option<(State, bool)> {
        let cluster = judge.fleet.cluster(&affected.id)?;
        let paths = affected.inputs.iter().map(|(path, _)| &**path);
        let said = self
            .evidence
            .said_since(&judge.fleet, cluster, paths, promoted_at.unwrap_or_default());
        // Whoever has not asked since was not told: nothing has to be merged to know that, and after a promotion that is nearly everyone.
        if let Said::Nothing(last_poll) = said {
            let behind = Lasting {
                state: State::Behind,
                since: None,
            };
            return Some((behind.at_poll(last_poll, judge.now, judge.silent_after).0, false));
        }
        let (lasting, last_poll) = judge.lasting(&self.evidence, cluster, true);
        let (overall, _) = lasting.at_poll(last_poll, judge.now, judge.silent_after);
        Some(match overall {
            State::Converged => (State::Converged, true),
            State::Never => (State::Never, false),
            // It may have been hurt by what it was told, whatever it said before.
            State::Silent => (State::Silent, false),
            _ => judge.progress_on(&self.evidence, cluster, &affected.inputs),
        })
    }
}

/// The sum over promoted waves.
fn promoted(waves: &[WaveStatus]) -> Counts {
    let mut sum = Counts::default();
    for WaveStatus { counts, .. } in waves.iter().filter(|wave| wave.promoted) {
        sum.affected += counts.affected;
        sum.told += counts.told;
        sum.converged += counts.converged;
        sum.failing += counts.failing;
        sum.silent += counts.silent;
        sum.unknown += counts.unknown;
    }
    sum
}

/// A verdict in words.
fn words(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Passed => None,
        Verdict::Waits(what) | Verdict::Late(what) | Verdict::Fails(what) => Some(what.clone()),
    }
}
