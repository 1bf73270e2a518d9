//! What can be asked of a fleet: the operations of a batch. A single request is a batch of one.

mod batch;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::batch::{BatchRequest, MOST_OPERATIONS};

use crate::dangling::Dangling;
use crate::document::Etag;
use crate::identity::{Token, TokenId};
use crate::patch::Form;
use crate::rollout::Step;

/// One operation on one kind.
#[derive(Clone, Debug)]
pub struct Operation {
    pub kind: String,
    pub verb: Verb,
    pub if_match: Option<IfMatch>,
    /// Whether a cluster keeps the arrays of references that its document leaves out; else such a document is refused.
    pub keep_missing: bool,
    /// What wrote it, if that was not a request.
    pub origin: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub enum Verb {
    /// Refused if the id exists.
    Create {
        id: Option<String>,
        value: Value,
    },
    /// Refused if the id does not exist, except for kinds, which it creates.
    Replace {
        id: String,
        value: Value,
    },
    /// Creates or replaces.
    Apply {
        id: Option<String>,
        value: Value,
    },
    Merge {
        on: Target,
        form: Form,
        value: Value,
    },
    Delete {
        id: String,
        cascade: bool,
    },
    /// Adds references to a definition to clusters. An existing reference keeps the fields that `value` does not name.
    Assign {
        id: String,
        on: Target,
        value: Map<String, Value>,
    },
    Unassign {
        id: String,
        on: Target,
        drop_patches: bool,
    },
    /// Restores a resource as it was: missing, or exactly this document, without today's defaults.
    Restore {
        id: String,
        value: Option<Value>,
        /// What dangled in the restored state, and so may dangle again.
        dangled: Arc<Dangling>,
    },
    /// Adds a token to an identity.
    IssueToken {
        id: String,
        token: Token,
    },
    RevokeToken {
        id: String,
        token: TokenId,
    },
    /// Counts a cluster that is about to register with a join identity. Refused if the name or the DNS name is a decommissioned
    /// cluster's.
    Register {
        id: String,
        cluster: String,
        dns: String,
    },
    /// Moves a rollout.
    Step {
        id: String,
        step: Step,
        /// The wave that must be the next one.
        wave: Option<String>,
    },
    /// Sets and removes the patches of clusters for a definition.
    Patch {
        id: String,
        on: Target,
        set: Map<String, Value>,
        unset: Vec<String>,
    },
}

/// One resource, or the clusters that a selector matches.
#[derive(Clone, Debug)]
pub enum Target {
    Id(String),
    Selector(String),
}

/// The versions that a request accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    Any,
    OneOf(Vec<Etag>),
}

impl IfMatch {
    /// Reads an `If-Match` header. An entry that is not one of our tags matches nothing.
    pub fn parse(text: &str) -> IfMatch {
        if text.trim() == "*" {
            return IfMatch::Any;
        }
        let tags = text.split(',').filter_map(|tag| {
            let tag = tag.trim().trim_matches('"');
            let tag = tag.strip_suffix("-gzip").unwrap_or(tag);
            (tag.len() == 32).then(|| u128::from_str_radix(tag, 16).ok().map(Etag))?
        });
        IfMatch::OneOf(tags.collect())
    }

    pub fn accepts(&self, etag: Etag) -> bool {
        match self {
            IfMatch::Any => true,
            IfMatch::OneOf(tags) => tags.contains(&etag),
        }
    }
}

impl Operation {
    pub fn new(kind: impl Into<String>, verb: Verb) -> Self {
        Operation {
            kind: kind.into(),
            verb,
            if_match: None,
            keep_missing: false,
            origin: None,
        }
    }

    #[must_use]
    pub fn when(mut self, if_match: Option<IfMatch>) -> Self {
        self.if_match = if_match;
        self
    }

    #[must_use]
    pub fn keeping_missing(mut self, keep_missing: bool) -> Self {
        self.keep_missing = keep_missing;
        self
    }

    #[must_use]
    pub fn from(mut self, origin: &Arc<str>) -> Self {
        self.origin = Some(origin.clone());
        self
    }
}
