//! Rollouts: changes to shared documents that go out wave by wave. A rollout holds patches; a cluster that is promoted is merged with the
//! patched documents, the others with the documents as they are.
//!
//! Who is promoted is a function of the cluster and the rollout ([`Rollout::wave_of`]), so that a promotion writes one small
//! document, whatever the size of the fleet. [`Active`] has the patched documents of all rollouts that run.

mod active;
mod gate;
mod moves;
mod steps;
mod wave;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::active::Stamp;
pub use self::active::{Active, Promoted};
pub use self::gate::{Counts, Gate, NotAGate, Share, Times, Verdict};
pub use self::moves::Wanted;
pub(crate) use self::moves::{Moved, demoted, moved, started};
pub use self::steps::{Action, Step};
pub(crate) use self::steps::{SERVER_FIELDS, begin, complete_gate};
pub use self::wave::{Percent, Wave, Waves};
use crate::document::Document;
use crate::json::Json;
use crate::log::Revision;

/// Where a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Running,
    Paused,
    /// Stopped by a gate, a deadline, or more removals than were confirmed.
    Halted,
    /// No cluster is promoted any more, but it may go on.
    Reverted,
    Completed,
    Aborted,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Halted => "halted",
            State::Reverted => "reverted",
            State::Completed => "completed",
            State::Aborted => "aborted",
        }
    }

    /// Whether the rollout has not ended.
    pub const fn is_active(self) -> bool {
        !matches!(self, State::Completed | State::Aborted)
    }
}

/// What happens when a gate fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    #[default]
    Halt,
    Revert,
}

/// The patch of one shared document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Patch {
    pub kind: Arc<str>,
    pub id: Arc<str>,
    pub value: Value,
}

/// A rollout, parsed.
#[derive(Debug)]
pub struct Rollout {
    pub document: Document,
    pub patches: Vec<Patch>,
    pub waves: Vec<Wave>,
    pub gate: Gate,
    pub on_failure: OnFailure,
    pub state: State,
    /// The position of the wave that was promoted last. None: no cluster is promoted.
    pub wave: Option<usize>,
    pub waiting_for: Option<String>,
    /// The wave that a person approved last.
    pub approved: Option<String>,
    /// The revision of each promotion, by the name of the wave.
    pub promotions: BTreeMap<String, Revision>,
    /// When state, wave or what it waits for changed last, in the format of revisions: the deadline of a gate begins then.
    pub since: Option<String>,
    /// Why it halted, or was reverted by its gate.
    pub message: Option<String>,
    /// On how many clusters something may be removed. None: as many as the removal budget allows.
    pub removals: Option<usize>,
}

impl Rollout {
    pub(crate) fn new(id: Arc<str>, body: Json) -> Result<Rollout, String> {
        #[derive(Deserialize)]
        struct Wire {
            operations: Vec<Patch>,
            waves: Vec<Wave>,
            #[serde(default)]
            gate: Value,
            #[serde(default)]
            on_failure: OnFailure,
            state: State,
            wave: Option<String>,
            waiting_for: Option<String>,
            approved: Option<String>,
            since: Option<String>,
            #[serde(default)]
            promotions: BTreeMap<String, Revision>,
            removals: Option<usize>,
            message: Option<String>,
        }
        let unreadable = |error: &dyn std::fmt::Display| format!("the rollout \"{id}\" cannot be read: {error}");
        let wire: Wire = serde_json::from_str(body.as_str()).map_err(|error| unreadable(&error))?;
        let gate = Gate::read(&wire.gate).map_err(|error| unreadable(&error))?;
        let wave = match &wire.wave {
            None => None,
            Some(name) => {
                let position = wire.waves.iter().position(|wave| wave.name == *name);
                Some(position.ok_or_else(|| unreadable(&format!("it has no wave \"{name}\"")))?)
            }
        };
        Ok(Rollout {
            document: Document::new(id, body),
            patches: wire.operations,
            waves: wire.waves,
            gate,
            on_failure: wire.on_failure,
            state: wire.state,
            wave,
            waiting_for: wire.waiting_for,
            approved: wire.approved,
            promotions: wire.promotions,
            since: wire.since,
            message: wire.message,
            removals: wire.removals,
        })
    }

    pub fn id(&self) -> &Arc<str> {
        &self.document.id
    }

    pub fn is_active(&self) -> bool {
        self.state.is_active()
    }

    /// The wave that is promoted next, if any is left.
    pub fn next_wave(&self) -> Option<&Wave> {
        self.waves.get(self.wave.map_or(0, |wave| wave + 1))
    }

    /// Whether both promote the same clusters, and change the same.
    pub(crate) fn promotes_as(&self, other: &Rollout) -> bool {
        self.wave == other.wave && self.is_same_change(other)
    }

    /// Whether both change the same, in the same waves.
    pub(crate) fn is_same_change(&self, other: &Rollout) -> bool {
        let [own, others] = [self, other].map(|rollout| rollout.document.body.fields().unwrap_or_default());
        ["operations", "waves"]
            .iter()
            .all(|field| own.text(field) == others.text(field))
    }

    /// Whether it patches a document.
    pub fn patches(&self, kind: &str, id: &str) -> bool {
        self.patches
            .iter()
            .any(|patch| &*patch.kind == kind && &*patch.id == id)
    }
}

/// The rollouts of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Rollouts {
    by_id: OrdMap<Arc<str>, Arc<Rollout>>,
    active: Option<Arc<Active>>,
}

impl Rollouts {
    pub fn get(&self, id: &str) -> Option<&Arc<Rollout>> {
        self.by_id.get(id)
    }

    /// Sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.by_id.values()
    }

    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.iter().filter(|rollout| rollout.is_active())
    }

    /// What those mean for clusters. None: there are none.
    pub fn active(&self) -> Option<&Arc<Active>> {
        self.active.as_ref()
    }

    /// Identifies what the rollouts mean for all clusters: as long as it is the same, nobody is promoted and nobody goes back.
    pub fn stamp(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.whole_stamp())
    }

    pub(crate) fn put(&mut self, id: Arc<str>, after: Option<Json>) -> Result<(), String> {
        match after {
            Some(body) => self.by_id.insert(id.clone(), Arc::new(Rollout::new(id, body)?)),
            None => self.by_id.remove(&id),
        };
        Ok(())
    }

    pub(crate) fn set_active(&mut self, active: Option<Active>) {
        self.active = active.map(Arc::new);
    }
}
