//! The life of a rollout: what each action and each step of the driver makes of its document.

use serde_json::{Value, json};

use super::{Gate, Rollout, State};
use crate::log::Revision;
use crate::refusal::{Reason, Refusal};

/// The fields of a rollout that only the server writes.
pub(crate) const SERVER_FIELDS: [&str; 9] = [
    "state",
    "wave",
    "cutoff",
    "since",
    "waiting_for",
    "promotions",
    "approved",
    "removals",
    "message",
];

/// What a person asks of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Approve,
    Pause,
    Resume,
    Promote,
    Revert,
    Complete,
    Abort,
}

impl Action {
    pub const ALL: [Action; 7] = [
        Action::Approve,
        Action::Pause,
        Action::Resume,
        Action::Promote,
        Action::Revert,
        Action::Complete,
        Action::Abort,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Action::Approve => "approve",
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Promote => "promote",
            Action::Revert => "revert",
            Action::Complete => "complete",
            Action::Abort => "abort",
        }
    }

    /// Whether it is about the next wave, which a request can name.
    pub const fn is_on_a_wave(self) -> bool {
        matches!(self, Action::Approve | Action::Promote)
    }

    /// Whether it stops a change: that is never refused by a guard.
    pub const fn is_safe(self) -> bool {
        matches!(self, Action::Pause | Action::Revert | Action::Abort)
    }
}

/// What happens to a rollout: by a person, or by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Action(Action),
    /// The next wave, because the gate has passed.
    Promote,
    /// Its gate has passed, and it waits for something that a person can change: an approval, the end of a guard. None: the gate no
    /// longer holds, and it waits for the gate again.
    Wait(Option<String>),
    Halt(String),
    /// By `on_failure: revert`.
    Revert(String),
}

impl Step {
    /// The action that does the same.
    fn action(&self) -> Option<Action> {
        match self {
            Step::Action(action) => Some(*action),
            Step::Promote => Some(Action::Promote),
            Step::Revert(_) => Some(Action::Revert),
            Step::Wait(_) | Step::Halt(_) => None,
        }
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Step::Action(action) => action.name(),
            Step::Promote => "promote",
            Step::Wait(_) => "wait",
            Step::Halt(_) => "halt",
            Step::Revert(_) => "revert",
        }
    }

    /// Whether it stops a change: that is never refused by a guard.
    pub fn is_safe(&self) -> bool {
        self.action().is_none_or(Action::is_safe)
    }
}

/// Writes out the fields that a gate leaves out.
pub(crate) fn complete_gate(document: &mut Value) {
    let gate = &mut document["gate"];
    if !gate.is_object() {
        *gate = json!({});
    }
    if gate.get("converged").is_none() && gate.get("told").is_none() {
        gate["converged"] = Gate::DEFAULT_SHARE.into();
    }
    for (field, text) in Gate::DEFAULTS {
        if gate.get(field).is_none() {
            gate[field] = serde_json::from_str(text).unwrap_or_default();
        }
    }
}

/// Completes a new rollout: the gate in full, and the server's fields.
pub(crate) fn begin(document: &mut Value, at: Option<&str>, removals: Option<usize>) {
    complete_gate(document);
    set(document, State::Running, None, 0, at);
    document["removals"] = removals.into();
    document["promotions"] = json!({});
    document["approved"] = Value::Null;
    document["message"] = Value::Null;
}

fn set(document: &mut Value, state: State, wave: Option<&str>, cutoff: u16, at: Option<&str>) {
    document["state"] = state.name().into();
    document["wave"] = wave.into();
    document["cutoff"] = cutoff.into();
    document["since"] = at.into();
    document["waiting_for"] = Value::Null;
}

impl Rollout {
    /// The document after a step, which becomes this revision. A completion writes the shared documents as well, which is up to the caller.
    /// `wave` is the one that the caller means, if it says so.
    pub(crate) fn after(
        &self,
        step: &Step,
        wave: Option<&str>,
        at: Option<&str>,
        revision: Revision,
    ) -> Result<Value, Refusal> {
        let mut document = self.document.body.parse();
        match step {
            Step::Wait(what) => {
                document["waiting_for"] = what.as_deref().into();
                document["since"] = at.into();
                return Ok(document);
            }
            Step::Halt(why) => {
                self.set_state(&mut document, State::Halted, at);
                document["message"] = why.as_str().into();
                return Ok(document);
            }
            Step::Revert(why) => document["message"] = why.as_str().into(),
            Step::Promote | Step::Action(_) => document["message"] = Value::Null,
        }
        let action = step.action().expect("the others returned");
        self.check_state(action)?;
        self.check_next(action, wave)?;
        match action {
            Action::Approve => {
                let wave = match self.next_wave() {
                    Some(wave) if self.must_approve(wave) => wave,
                    Some(wave) if wave.approve => {
                        return Err(self.wrong_state(action, &format!("{} is approved already", wave.name)));
                    }
                    _ => return Err(self.wrong_state(action, "its next wave needs no approval")),
                };
                document["approved"] = wave.name.as_str().into();
                // The time of waiting is no part of the deadline.
                if self.waiting_for.is_some() {
                    document["waiting_for"] = Value::Null;
                    document["since"] = at.into();
                }
            }
            Action::Pause => self.set_state(&mut document, State::Paused, at),
            Action::Resume => self.set_state(&mut document, State::Running, at),
            Action::Promote => {
                let next = self.wave.map_or(0, |wave| wave + 1);
                let Some(wave) = self.waves.get(next) else {
                    return Err(self.wrong_state(action, "every wave is promoted: complete it"));
                };
                let state = if self.state == State::Paused {
                    State::Paused
                } else {
                    State::Running
                };
                let cutoff = Rollout::cutoff(&self.waves, Some(next));
                set(&mut document, state, Some(&wave.name), cutoff, at);
                document["promotions"][&wave.name] = revision.0.into();
            }
            Action::Revert => {
                set(&mut document, State::Reverted, None, 0, at);
                document["promotions"] = json!({});
                document["approved"] = Value::Null;
            }
            Action::Abort => set(&mut document, State::Aborted, None, 0, at),
            Action::Complete => {
                let last = self.waves.last().map(|wave| wave.name.as_str());
                set(
                    &mut document,
                    State::Completed,
                    last,
                    Rollout::cutoff(&self.waves, Some(self.waves.len())),
                    at,
                );
            }
        }
        Ok(document)
    }

    /// Whether a wave waits for an approval that it does not have.
    pub fn must_approve(&self, wave: &super::Wave) -> bool {
        wave.approve && self.approved.as_deref() != Some(&wave.name)
    }

    fn set_state(&self, document: &mut Value, state: State, at: Option<&str>) {
        let wave = self.wave.map(|wave| self.waves[wave].name.as_str());
        set(document, state, wave, Rollout::cutoff(&self.waves, self.wave), at);
    }

    fn check_state(&self, action: Action) -> Result<(), Refusal> {
        let fits = match action {
            Action::Pause => self.state == State::Running || self.state == State::Halted,
            Action::Resume => matches!(self.state, State::Paused | State::Halted | State::Reverted),
            Action::Revert => self.is_active() && self.state != State::Reverted,
            Action::Approve | Action::Promote | Action::Complete | Action::Abort => self.is_active(),
        };
        match fits {
            true => Ok(()),
            false => Err(self.wrong_state(action, &format!("it is {}", self.state.name()))),
        }
    }

    /// Refuses an action on a wave that is not the next one: the request was made, or sent again, when another one was.
    fn check_next(&self, action: Action, wanted: Option<&str>) -> Result<(), Refusal> {
        let next = self.next_wave().map(|wave| wave.name.as_str());
        match (wanted, next) {
            (None, _) => Ok(()),
            (Some(wanted), Some(next)) if wanted == next => Ok(()),
            (Some(wanted), Some(next)) => {
                Err(self.wrong_state(action, &format!("its next wave is {next}, not {wanted}")))
            }
            (Some(_), None) => Err(self.wrong_state(action, "every wave is promoted")),
        }
    }

    fn wrong_state(&self, action: Action, why: &str) -> Refusal {
        let detail = format!("the rollout \"{}\" cannot {}: {why}", self.id(), action.name());
        Refusal::new(Reason::WrongState, detail)
    }
}
