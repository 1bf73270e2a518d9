//! Why a write is refused. Plain data; the HTTP layer turns it into a status and a problem document.

use std::borrow::Cow;

use serde::Serialize;

use crate::guard::GuardLimit;
use crate::log::Digest;

/// One problem, and its place: a JSON pointer into the document that was sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    pub pointer: String,
    pub detail: String,
}

/// The most violations of one refusal: enough for a person, and the reply stays small whatever was sent.
pub const MOST_VIOLATIONS: usize = 200;

impl Violation {
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Violation {
            pointer: shorten(pointer.into(), MOST_DETAIL),
            detail: shorten(detail.into(), MOST_DETAIL),
        }
    }

    /// The same violation, in a document that contains this one at `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}

/// Shortens a text. Names and values of a request may be a megabyte long; messages about them must not be.
pub fn shorten(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Part of the problem of a document that leaves out what its cluster has: the command line has a flag for that.
pub const LEAVES_OUT: &str = "that the request leaves out";

/// The most characters of the detail of an error.
pub const MOST_DETAIL: usize = 900;
/// The most characters of a name or value that an error repeats.
const MOST_QUOTED: usize = 200;

/// A name or value for an error message. A long one is cut, with its length.
pub fn quote(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()).into(),
        None => text.into(),
    }
}

/// One segment of a JSON pointer, escaped by RFC 6901.
pub fn segment(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The reason of a refusal: the `type` of its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The document breaks its schema, or refers to a missing resource.
    Invalid,
    /// No such resource or kind.
    NotFound,
    /// The id or the DNS name is taken.
    Exists,
    /// Something still refers to a resource that would be removed.
    InUse,
    /// A cluster's reply would break the ExternalService contract.
    Contract,
    /// A cluster is protected.
    Protected,
    /// The resource is not in the version that the request names.
    Stale,
    /// More clusters would lose something than the budget or the request allows.
    RemovalBudget,
    /// A guard in force allows less than the write does.
    Guarded,
    /// The effect is not the one of the reviewed plan.
    PlanChanged,
    /// A resource that would be undone was changed since.
    Conflict,
    /// The write reaches beyond the scope of its caller.
    OutOfScope,
    /// A rollout that runs changes the same.
    RolloutActive,
    /// The rollout is not in a state for that.
    WrongState,
    /// Clusters would leave the wave that they were promoted with.
    Demotion,
}

impl Reason {
    /// The name of the reason on the wire: the last segment of a problem's `type`, and the value in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Invalid => "invalid",
            Reason::NotFound => "not-found",
            Reason::Exists => "exists",
            Reason::InUse => "in-use",
            Reason::Contract => "contract",
            Reason::Protected => "protected",
            Reason::Stale => "stale",
            Reason::RemovalBudget => "removal-budget",
            Reason::Guarded => "guarded",
            Reason::PlanChanged => "plan-changed",
            Reason::Conflict => "conflict",
            Reason::OutOfScope => "out-of-scope",
            Reason::RolloutActive => "rollout-active",
            Reason::WrongState => "wrong-state",
            Reason::Demotion => "demotion",
        }
    }
}

/// The removals of a change, and the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Removals {
    /// The clusters that lose something by the change: the number to confirm.
    pub count: usize,
    /// The same, including recent removals.
    pub window: usize,
    /// None: there is no budget.
    pub budget: Option<usize>,
}

/// The limits of guards that a write exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub guards: Vec<GuardLimit>,
}

/// A refused write: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub detail: String,
    pub errors: Vec<Violation>,
    /// The clusters that are the cause, for reasons that have any.
    pub clusters: Vec<String>,
    /// The resources that are the cause, as `kind/id`.
    pub resources: Vec<String>,
    /// For [`Reason::RemovalBudget`].
    pub removals: Option<Box<Removals>>,
    /// For [`Reason::Guarded`].
    pub exceeded: Option<Box<Exceeded>>,
}

impl Refusal {
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Refusal {
            reason,
            detail: shorten(detail.into(), MOST_DETAIL),
            errors: Vec::new(),
            clusters: Vec::new(),
            resources: Vec::new(),
            removals: None,
            exceeded: None,
        }
    }

    /// The effect of a write is not the planned one. `now` is the digest of its plan now.
    pub fn plan_changed(now: Digest) -> Self {
        let detail = format!("the plan is out of date: the effect has changed; the plan is now {now}");
        Refusal::new(Reason::PlanChanged, detail)
    }

    pub fn at(reason: Reason, pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Refusal {
            errors: vec![Violation::new(pointer, detail.clone())],
            ..Refusal::new(reason, detail)
        }
    }

    pub fn invalid(mut errors: Vec<Violation>) -> Self {
        let count = match errors.len() {
            // The search for problems stops at this number, too.
            MOST_VIOLATIONS.. => format!("{MOST_VIOLATIONS} problems or more"),
            fewer => format!("{fewer} problems"),
        };
        errors.truncate(MOST_VIOLATIONS);
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", place(&one.pointer), one.detail),
            many => format!("{count}, the first at {}: {}", place(&many[0].pointer), many[0].detail),
        };
        Refusal {
            errors,
            ..Refusal::new(Reason::Invalid, detail)
        }
    }

    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        for error in &mut self.errors {
            error.pointer.insert_str(0, prefix);
        }
        self
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the document" } else { pointer }
}

/// A long list, shortened for a message: "a, b, c, d, e and 4 more".
pub fn some_of(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
