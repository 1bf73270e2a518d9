//! What came of it: evidence that clusters give, and the state that follows from it.
//!
//! Evidence is never part of the fleet: no reply depends on it, and it may be lost. [`Evidence`] is what is known about one
//! cluster, and merges with what another process knows, in any order. [`judge`] turns it into a state: a pure function of the
//! evidence, of what the cluster would be told now ([`Expected`]), and of the time.

mod event;
mod evidence;
mod expected;
mod judge;
mod moment;
mod observation;
mod report;

use std::fmt;

use serde::Serialize;

pub use self::event::{Event, EventError};
pub use self::evidence::{Evidence, News, Told};
pub use self::expected::{Expected, ExpectedInput, ExpectedKind};
pub use self::judge::{ClusterStatus, InputStatus, KindStatus, Lasting, ToldStatus, judge};
pub use self::moment::Moment;
pub use self::observation::{Health, InputRef, Object, Observation, Source};
pub use self::report::{Report, ReportError};

/// The state of a cluster or of an input, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has what it should have, and that is ready.
    Converged,
    /// It was told; whether it is ready is not known.
    Told,
    /// It was told an older reply than it would get now.
    Behind,
    /// It has never polled.
    Never,
    /// It has not polled for a while.
    Silent,
    /// Something on it is known not to be ready.
    Failing,
}

impl State {
    /// From the worst to the best, as lists have them.
    pub const ALL: [State; 6] = [
        State::Failing,
        State::Silent,
        State::Never,
        State::Behind,
        State::Told,
        State::Converged,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            State::Converged => "converged",
            State::Told => "told",
            State::Behind => "behind",
            State::Never => "never",
            State::Silent => "silent",
            State::Failing => "failing",
        }
    }

    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == text)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
