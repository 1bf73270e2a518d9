//! Why a write is refused. Plain data: the HTTP layer turns it into a status and a problem document at the last step.

use std::borrow::Cow;

use serde::Serialize;

use crate::log::Digest;

/// One thing that is wrong, and where: a JSON pointer into the document that was sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    pub pointer: String,
    pub detail: String,
}

/// How many violations one refusal lists: enough for a person, and a reply that stays small whatever was sent.
pub const MOST_VIOLATIONS: usize = 200;

impl Violation {
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Violation {
            pointer: shorten(pointer.into(), MOST_DETAIL),
            detail: shorten(detail.into(), MOST_DETAIL),
        }
    }

    /// The same violation, seen from a document that holds this one at `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}

/// Names and values in what is sent may be a megabyte long; what is said about them is not.
pub fn shorten(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// How many characters the detail of an error has, at most.
pub const MOST_DETAIL: usize = 900;
/// How many characters of somebody's text an error repeats.
const MOST_QUOTED: usize = 200;

/// A name or value as an error repeats it: its beginning, and how long it is where that is not all of it.
pub fn quote(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()).into(),
        None => text.into(),
    }
}

/// One segment of a JSON pointer, escaped as RFC 6901 wants it.
pub fn segment(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The class of a refusal: the `type` of its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The document breaks its schema, or refers to what is not there.
    Invalid,
    /// No such resource or kind.
    NotFound,
    /// The id or the DNS name is taken.
    Exists,
    /// Something still refers to what would be removed.
    InUse,
    /// Some cluster's reply would break the ExternalService contract.
    Contract,
    /// A cluster that is marked as protected.
    Protected,
    /// The resource is not in the version that the request names.
    Stale,
    /// More clusters would lose something than anybody said was meant.
    RemovalBudget,
    /// The write would no longer do what its plan said.
    PlanChanged,
    /// What would be undone was changed again.
    Conflict,
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
            Reason::PlanChanged => "plan-changed",
            Reason::Conflict => "conflict",
        }
    }
}

/// What a change would remove, against the budget for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Removals {
    /// Clusters that the change itself takes something from: the number to confirm.
    pub count: usize,
    /// The same, with what was removed lately.
    pub window: usize,
    /// None: there is no budget.
    pub budget: Option<usize>,
}

/// A refused write: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub detail: String,
    pub errors: Vec<Violation>,
    /// The clusters that are in the way, for reasons that have some.
    pub clusters: Vec<String>,
    /// The resources that are in the way, as `kind/id`.
    pub resources: Vec<String>,
    /// For [`Reason::RemovalBudget`].
    pub removals: Option<Box<Removals>>,
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
        }
    }

    /// A write that does otherwise than was planned.
    pub fn plan_changed(now: Digest) -> Self {
        let detail = format!("the write would not do what was planned any more; its plan is now {now}");
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
            // Whoever looks for them stops here, too.
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

/// "a, b, c and 4 more": what a person can read of a long list.
pub fn some_of(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
