//! What can be asked of a fleet: the operations of a batch. A single request is a batch of one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dangling::Dangling;
use crate::document::Etag;
use crate::kind::CLUSTERS;
use crate::patch::Form;
use crate::refusal::{MOST_VIOLATIONS, Violation, shorten};

/// One operation on one kind.
#[derive(Clone, Debug)]
pub struct Operation {
    pub kind: String,
    pub verb: Verb,
    pub if_match: Option<IfMatch>,
    /// What asks for it, when that is not a request.
    pub origin: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub enum Verb {
    /// Refused when the id is there.
    Create {
        id: Option<String>,
        value: Value,
    },
    /// Refused when the id is not there; for kinds, which are put under their name, it makes them.
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
    /// Makes clusters refer to a definition; a reference that is there keeps what `value` does not name.
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
    /// Makes a resource what it was: not there, or this very document, whatever it lacks that a write of today would not.
    Restore {
        id: String,
        value: Option<Value>,
        /// What dangled in the state that is restored, and so may dangle again.
        dangled: Arc<Dangling>,
    },
    /// Sets and removes values that clusters give a definition.
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
    /// Reads an `If-Match` header. An entry that is no tag of ours matches nothing, as it should.
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
            origin: None,
        }
    }

    #[must_use]
    pub fn when(mut self, if_match: Option<IfMatch>) -> Self {
        self.if_match = if_match;
        self
    }

    #[must_use]
    pub fn from(mut self, origin: &Arc<str>) -> Self {
        self.origin = Some(origin.clone());
        self
    }
}

/// The body of `POST /batch`.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    pub reason: Option<String>,
    pub operations: Vec<Operation>,
}

/// How many operations one batch may have.
pub const MOST_OPERATIONS: usize = 10_000;

impl BatchRequest {
    /// Takes the body apart; it may be large, so its values are moved and not copied.
    pub fn parse(body: Value) -> Result<BatchRequest, Vec<Violation>> {
        let Value::Object(mut body) = body else {
            return Err(vec![Violation::new("", "a batch is an object with `operations`")]);
        };
        let mut errors = Vec::new();
        for name in body
            .keys()
            .filter(|name| !matches!(name.as_str(), "reason" | "operations"))
        {
            errors.push(Violation::new(
                crate::refusal::segment(name),
                "is not a property of a batch",
            ));
        }
        let reason = match body.get("reason") {
            None | Some(Value::Null) => None,
            Some(Value::String(reason)) => Some(reason.clone()),
            Some(_) => {
                errors.push(Violation::new("/reason", "is a string"));
                None
            }
        };
        let mut operations = Vec::new();
        match body.remove("operations") {
            Some(Value::Array(items)) if items.len() > MOST_OPERATIONS => {
                errors.push(Violation::new(
                    "/operations",
                    format!("at most {MOST_OPERATIONS} operations"),
                ));
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                for (n, item) in items.into_iter().enumerate() {
                    match read(item) {
                        Ok(operation) => operations.push(operation),
                        Err(found) => {
                            errors.extend(found.into_iter().map(|error| error.under(&format!("/operations/{n}"))));
                        }
                    }
                    if errors.len() >= MOST_VIOLATIONS {
                        break;
                    }
                }
            }
            _ => errors.push(Violation::new(
                "/operations",
                "a batch has an array of operations, at least one",
            )),
        }
        match errors.is_empty() {
            true => Ok(BatchRequest { reason, operations }),
            false => Err(errors),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    op: String,
    kind: String,
    id: Option<String>,
    value: Option<Value>,
    cluster: Option<String>,
    selector: Option<String>,
    set: Option<Map<String, Value>>,
    unset: Option<Vec<String>>,
    cascade: Option<bool>,
    drop_patches: Option<bool>,
    if_match: Option<String>,
}

fn read(item: Value) -> Result<Operation, Vec<Violation>> {
    let names: Vec<String> = item
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    if !item.is_object() {
        return Err(vec![Violation::new("", "an operation is an object")]);
    }
    // A variable that is not set is sent as null: it must not make an operation about something else, or unconditional.
    let nulls = ["id", "cluster", "selector", "if_match"]
        .into_iter()
        .filter(|name| item.get(name).is_some_and(Value::is_null));
    let nulls: Vec<_> = nulls
        .map(|name| Violation::new(format!("/{name}"), "is null: say what is meant, or leave it out"))
        .collect();
    if !nulls.is_empty() {
        return Err(nulls);
    }
    let unreadable = |error: serde_json::Error| vec![Violation::new("", shorten(error.to_string(), 300))];
    let mut wire: Wire = serde_json::from_value(item).map_err(unreadable)?;
    let mut errors = Vec::new();
    let allowed: &[&str] = match wire.op.as_str() {
        "create" | "replace" | "apply" => &["id", "value"],
        "merge" => &["id", "selector", "value"],
        "delete" => &["id", "cascade"],
        "assign" => &["id", "cluster", "selector", "value"],
        "unassign" => &["id", "cluster", "selector", "drop_patches"],
        "patch" => &["id", "cluster", "selector", "set", "unset"],
        _ => {
            let known = "one of create, replace, apply, merge, delete, assign, unassign, patch";
            return Err(vec![Violation::new("/op", known)]);
        }
    };
    for name in names.iter().map(String::as_str) {
        if !matches!(name, "op" | "kind" | "if_match") && !allowed.contains(&name) {
            errors.push(Violation::new(
                format!("/{name}"),
                format!("means nothing to \"{}\"", wire.op),
            ));
        }
    }
    let id = |errors: &mut Vec<Violation>| {
        wire.id.clone().unwrap_or_else(|| {
            errors.push(Violation::new("/id", "is required"));
            String::new()
        })
    };
    let given = wire.value.take();
    let (set, unset) = (wire.set.take(), wire.unset.take());
    let required = |given: Option<Value>, errors: &mut Vec<Violation>| {
        given.unwrap_or_else(|| {
            errors.push(Violation::new("/value", "is required"));
            Value::Null
        })
    };
    let target = |one: &Option<String>, name: &str, errors: &mut Vec<Violation>| match (one, &wire.selector) {
        (Some(id), None) => Target::Id(id.clone()),
        (None, Some(selector)) => Target::Selector(selector.clone()),
        _ => {
            errors.push(Violation::new(
                format!("/{name}"),
                format!("either \"{name}\" or \"selector\" is required"),
            ));
            Target::Id(String::new())
        }
    };
    let errors_ref = &mut errors;
    let verb = match wire.op.as_str() {
        "create" => Verb::Create {
            id: wire.id.clone(),
            value: required(given, errors_ref),
        },
        "replace" => {
            let value = required(given, errors_ref);
            let own = value.get("id").and_then(Value::as_str).map(str::to_owned);
            let id = wire.id.clone().or(own).unwrap_or_else(|| id(errors_ref));
            Verb::Replace { id, value }
        }
        "apply" => Verb::Apply {
            id: wire.id.clone(),
            value: required(given, errors_ref),
        },
        "merge" => {
            if wire.selector.is_some() && wire.kind != CLUSTERS {
                errors_ref.push(Violation::new("/selector", "selects clusters, and only those"));
            }
            let on = target(&wire.id, "id", errors_ref);
            Verb::Merge {
                on,
                form: Form::Merge,
                value: required(given, errors_ref),
            }
        }
        "delete" => Verb::Delete {
            id: id(errors_ref),
            cascade: wire.cascade.unwrap_or_default(),
        },
        "assign" => {
            let value = match given {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(overrides)) => overrides,
                Some(_) => {
                    errors_ref.push(Violation::new("/value", "overrides are an object"));
                    Map::new()
                }
            };
            Verb::Assign {
                id: id(errors_ref),
                on: target(&wire.cluster, "cluster", errors_ref),
                value,
            }
        }
        "unassign" => Verb::Unassign {
            id: id(errors_ref),
            on: target(&wire.cluster, "cluster", errors_ref),
            drop_patches: wire.drop_patches.unwrap_or_default(),
        },
        _ => {
            if set.is_none() && unset.is_none() {
                errors_ref.push(Violation::new("/set", "\"set\" or \"unset\" is required"));
            }
            Verb::Patch {
                id: id(errors_ref),
                on: target(&wire.cluster, "cluster", errors_ref),
                set: set.unwrap_or_default(),
                unset: unset.unwrap_or_default(),
            }
        }
    };
    let if_match = wire.if_match.as_deref().map(IfMatch::parse);
    if if_match.is_some() && wire.selector.is_some() {
        errors.push(Violation::new(
            "/if_match",
            "goes with one resource, not with a selector",
        ));
    }
    match errors.is_empty() {
        true => Ok(Operation::new(wire.kind, verb).when(if_match)),
        false => Err(errors),
    }
}
