//! What the gate of a rollout says, and which step follows from it.

use std::sync::Arc;

use fleet::log::Revision;
use fleet::rollout::{Action, OnFailure, Rollout, State, Step, Times, Verdict};
use fleet::status::Moment;

use super::members::promotion;
use super::promoted;
use super::steps::Due;
use crate::app::App;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;
use crate::app::status::Judge;

/// What the gate of a rollout has shown so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Since when the gate has had enough, and the wave that it was.
    enough: Option<Enough>,
}

#[derive(Clone, Copy, Debug)]
struct Enough {
    wave: usize,
    /// When the wave was promoted: it may be promoted again after a revert.
    promoted: Option<Revision>,
    since: Moment,
}

impl Seen {
    /// The step of a rollout that is due.
    pub(super) fn due_step(&mut self, app: &App, turn: &Turn, id: &str) -> Result<Option<Due>, ReadError> {
        let judge = app.judge();
        let rollout = judge.fleet.rollouts().get(id);
        let Some(rollout) = rollout.filter(|rollout| rollout.state == State::Running) else {
            return Ok(None);
        };
        match rollout.wave {
            None => Ok(app.first_step(rollout)),
            Some(wave) => {
                let (verdict, counts) = self.judge_gate(app, turn, &judge, rollout, wave)?;
                let may_fall = app.has_watched(&judge, rollout);
                Ok(app.next_step(rollout, verdict, counts, may_fall))
            }
        }
    }

    /// What the gate of the promoted waves says, and the counts in words.
    fn judge_gate(
        &mut self,
        app: &App,
        turn: &Turn,
        judge: &Judge,
        rollout: &Arc<Rollout>,
        wave: usize,
    ) -> Result<(Verdict, String), ReadError> {
        let members = app.members(judge, rollout)?;
        let members = app.counted(turn, judge, rollout, &members)?;
        let waves = app.waves(judge, rollout, &members);
        let counts = promoted(&waves);
        let is_affected = waves[wave].counts.affected > 0;
        self.enough = rollout
            .gate
            .has_enough(&counts)
            .then(|| self.still_enough(judge, rollout, wave, is_affected));
        let times = Times {
            began: app.began(judge, rollout),
            enough_since: self.enough.map(|enough| enough.since),
            now: judge.now,
        };
        Ok((rollout.gate.judge(&counts, times), counts.to_string()))
    }

    /// Since when the gate has had enough, as it has now.
    fn still_enough(&self, judge: &Judge, rollout: &Rollout, wave: usize, is_affected: bool) -> Enough {
        let promoted = promotion(rollout, wave);
        let since = match self.enough {
            Some(known) if (known.wave, known.promoted) == (wave, promoted) => known.since,
            // A wave that changes nothing for anybody has nothing to soak: the time of the wave before it counts.
            Some(known) if !is_affected => known.since,
            _ => judge.now,
        };
        Enough { wave, promoted, since }
    }
}

impl App {
    /// The step of a rollout of which no wave is promoted.
    pub(super) fn first_step(&self, rollout: &Arc<Rollout>) -> Option<Due> {
        self.next_step(rollout, Verdict::Passed, "the first wave".to_owned(), false)
    }

    /// The step that follows from what the gate says. `may_fall`: a gate that has passed and no longer holds waits again.
    fn next_step(&self, rollout: &Arc<Rollout>, verdict: Verdict, reason: String, may_fall: bool) -> Option<Due> {
        self.say(rollout, super::words(&verdict));
        let (step, reason) = match verdict {
            Verdict::Waits(why) if rollout.waiting_for.is_some() && may_fall => (Step::Wait(None), why),
            Verdict::Waits(_) => return None,
            Verdict::Late(why) => (Step::Halt(why.clone()), why),
            Verdict::Fails(why) => match rollout.on_failure {
                OnFailure::Halt => (Step::Halt(why.clone()), why),
                OnFailure::Revert => (Step::Revert(why.clone()), why),
            },
            Verdict::Passed => match rollout.next_wave() {
                Some(wave) if rollout.must_approve(wave) => {
                    self.say(rollout, Some(format!("waits for approval of {}", wave.name)));
                    let waiting = format!("approval/{}", wave.name);
                    if rollout.waiting_for.as_deref() == Some(&*waiting) {
                        return None;
                    }
                    (Step::Wait(Some(waiting)), reason)
                }
                Some(_) => (Step::Promote, reason),
                None => (Step::Action(Action::Complete), reason),
            },
        };
        Some(Due {
            rollout: rollout.clone(),
            step,
            reason,
        })
    }

    /// When the deadline of a gate began. It does not run while the rollout waits for a person or a guard, whose gate has passed, nor in a
    /// process that has not watched for long enough to know.
    fn began(&self, judge: &Judge, rollout: &Rollout) -> Option<Moment> {
        let began = rollout.since.as_deref().and_then(Moment::parse);
        began.filter(|_| self.has_watched(judge, rollout) && rollout.waiting_for.is_none())
    }

    /// Whether this process has watched for so long that a gate which does not hold is no matter of lost evidence.
    fn has_watched(&self, judge: &Judge, rollout: &Rollout) -> bool {
        self.rollouts.started.elapsed() >= rollout.gate.grace(judge.silent_after)
    }
}
