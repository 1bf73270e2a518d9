//! How a mirror stands to its origin: for `/ready`, the metrics, and the log.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fleet::log::Revision;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Task;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// What is served is what the origin has.
    Current,
    /// The origin is followed, and has more.
    Behind,
    /// It cannot be reached or used.
    Away,
    /// It is older, or of another history.
    Refused,
}

impl Standing {
    pub fn name(self) -> &'static str {
        match self {
            Standing::Current => "current",
            Standing::Behind => "behind",
            Standing::Away => "away",
            Standing::Refused => "refused",
        }
    }
}

#[derive(Debug)]
pub struct Status(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    standing: Standing,
    /// When what is served was last known to be the origin's state. By the clock of the day: it may be that of a file, or
    /// from before a restart.
    confirmed: Option<Timestamp>,
    origin: Option<Revision>,
}

impl Status {
    pub(super) fn new(confirmed: Option<Timestamp>) -> Self {
        Status(Mutex::new(Seen {
            standing: Standing::Away,
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

    /// How long ago what is served was known to be the origin's state.
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
    /// Notes where the mirror stands and why, and logs it unless that is what was logged last.
    pub(super) fn say(&mut self, standing: Standing, why: &str, log: impl FnOnce()) {
        self.status.seen().standing = standing;
        if self.said.as_deref() != Some(why) {
            self.said = Some(why.to_owned());
            log();
        }
    }
}
