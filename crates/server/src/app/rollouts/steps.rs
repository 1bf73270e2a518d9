//! How the driver writes the steps that it takes.

use std::sync::{Arc, PoisonError};

use fleet::document::Etag;
use fleet::kind::ROLLOUTS;
use fleet::log::Author;
use fleet::operation::{IfMatch, Operation, Verb};
use fleet::refusal::Reason;
use fleet::rollout::{Rollout, Step};
use tracing::{info, warn};

use crate::app::App;
use crate::app::engine::{WriteError, WriteRequest};
use crate::metrics::StepLabels;

/// A step that is due, and why.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) rollout: Arc<Rollout>,
    pub(super) step: Step,
    pub(super) reason: String,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A guard refused it, with these words.
    Guarded(String),
    /// It was taken, or somebody else moved the rollout, or it halted.
    Otherwise,
}

impl App {
    /// Keeps what a rollout waits for, in words.
    pub(super) fn say(&self, rollout: &Rollout, what: Option<String>) {
        let mut all = self.rollouts.words.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Some(what) => all.insert(rollout.id().clone(), what),
            None => all.remove(rollout.id()),
        };
    }

    /// Takes a step. What a guard refuses waits; what removes more than was confirmed halts.
    pub(super) async fn take_step(&self, due: Due) -> Taken {
        let Due { rollout, step, reason } = due;
        let refusal = match self.write_step(&rollout, &step, reason, rollout.document.etag).await {
            Ok(()) => {
                self.metrics
                    .rollout_steps
                    .get_or_create(&StepLabels { step: step.name() })
                    .inc();
                info!(rollout = %rollout.id(), ?step, "a rollout moved");
                return Taken::Otherwise;
            }
            Err(WriteError::Refused(refusal)) => refusal,
            // The store is away, or busy: next time.
            Err(_) => return Taken::Otherwise,
        };
        let (next, taken) = match refusal.reason {
            // Somebody else moved it.
            Reason::Stale | Reason::WrongState | Reason::NotFound => return Taken::Otherwise,
            Reason::Guarded => {
                let guard = refusal
                    .exceeded
                    .as_ref()
                    .and_then(|exceeded| exceeded.guards.first())
                    .map(|limit| limit.id.to_string());
                let waiting = format!("guard/{}", guard.unwrap_or_default());
                self.say(&rollout, Some(refusal.detail.clone()));
                if rollout.waiting_for.as_deref() == Some(&*waiting) {
                    return Taken::Guarded(refusal.detail);
                }
                (Step::Wait(Some(waiting)), Taken::Guarded(refusal.detail.clone()))
            }
            _ => (Step::Halt(refusal.detail.clone()), Taken::Otherwise),
        };
        if let Err(WriteError::Refused(error)) = self
            .write_step(&rollout, &next, refusal.detail, rollout.document.etag)
            .await
        {
            warn!(rollout = %rollout.id(), ?error, "a rollout could not be stopped");
        }
        taken
    }

    async fn write_step(
        &self,
        rollout: &Rollout,
        step: &Step,
        reason: String,
        version: Etag,
    ) -> Result<(), WriteError> {
        let verb = Verb::Step {
            id: rollout.id().to_string(),
            step: step.clone(),
            wave: None,
        };
        let write = WriteRequest {
            operations: vec![Operation::new(ROLLOUTS, verb).when(Some(IfMatch::OneOf(vec![version])))],
            author: Author {
                at: crate::now(),
                actor: format!("rollout/{}", rollout.id()),
                request_id: crate::request_id(),
                reason: Some(reason),
                ..Author::default()
            },
            unguarded: step.is_safe(),
            ..WriteRequest::default()
        };
        self.write(write).await.map(|_| ())
    }
}
