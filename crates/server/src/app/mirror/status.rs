//! The status of a mirror towards its origin, for `/ready`, the metrics and the log.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fleet::log::Revision;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::task::Task;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The mirror has the origin's state.
    Current,
    /// The mirror follows the origin, which has more revisions.
    Behind,
    /// The origin cannot be reached or used.
    Unavailable,
    /// The origin is older, or has another history.
    Refused,
}

impl Standing {
    pub fn name(self) -> &'static str {
        match self {
            Standing::Current => "current",
            Standing::Behind => "behind",
            Standing::Unavailable => "away",
            Standing::Refused => "refused",
        }
    }
}

#[derive(Debug)]
pub struct Status(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    standing: Standing,
    /// When the served state was last known to be the origin's. A time of day, since it may come from a file or from before a
    /// restart.
    confirmed: Option<Timestamp>,
    origin: Option<Revision>,
}

impl Status {
    pub(super) fn new(confirmed: Option<Timestamp>) -> Self {
        Status(Mutex::new(Seen {
            standing: Standing::Unavailable,
            confirmed,
            origin: None,
        }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    pub(super) fn confirm(&self, at: Timestamp) {
        let mut seen = self.seen();
        seen.standing = Standing::Current;
        seen.confirmed = Some(at);
    }

    pub(super) fn origin_is_at(&self, revision: Revision) {
        self.seen().origin = Some(revision);
    }

    pub fn standing(&self) -> Standing {
        self.seen().standing
    }

    /// How long ago the served state was known to be the origin's state.
    pub fn age(&self) -> Duration {
        let seen = self.seen();
        let age = seen.confirmed.map(|at| Timestamp::now().duration_since(at));
        age.and_then(|age| age.try_into().ok()).unwrap_or_default()
    }

    /// The last revision that the origin is known to have.
    pub fn origin(&self) -> Option<Revision> {
        self.seen().origin
    }

    /// What `/ready` says, to anybody: no names and no reasons.
    pub fn describe(&self) -> Value {
        let mut described = json!({"standing": self.standing().name()});
        if let Some(revision) = self.origin() {
            described["origin_revision"] = revision.0.into();
        }
        described
    }
}

impl Task {
    /// Sets the status, and logs the reason unless it was the last one logged.
    pub(super) fn log_once(&mut self, standing: Standing, why: &str, log: impl FnOnce()) {
        self.status.seen().standing = standing;
        if self.logged_reason.as_deref() != Some(why) {
            self.logged_reason = Some(why.to_owned());
            log();
        }
    }
}
