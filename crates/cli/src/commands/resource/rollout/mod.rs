//! The commands of rollouts: start one, follow it, act on it.

mod actions;
mod history;
mod set;
mod start;
mod status;
pub(super) mod update;
mod wait;
mod waves;
mod words;

use fleet::kind::ROLLOUTS;

pub(super) use self::actions::{ABORT, APPROVE, COMPLETE, PAUSE, PROMOTE, RESUME, REVERT};
pub(super) use self::history::show as show_history;
pub(crate) use self::set::derived_id;
pub(crate) use self::start::new_rollout;
pub(super) use self::start::{PLAN, START};
pub(super) use self::status::VERB as STATUS;
pub(crate) use self::waves::slug;
pub(crate) use self::words::{shell, waiting_for, wave};
use crate::kinds::Kind;

/// Whether a kind is that of rollouts.
pub(super) fn is_of(kind: &Kind) -> bool {
    kind.name == ROLLOUTS
}

/// The fields of a rollout that may change after its start.
pub(super) const CHANGEABLE: [&str; 3] = ["description", "gate", "on_failure"];
