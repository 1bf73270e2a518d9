//! The wire form of a batch: the body of `POST /batch`.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{IfMatch, Operation, Target, Verb};
use crate::kind::CLUSTERS;
use crate::patch::Form;
use crate::refusal::{MOST_VIOLATIONS, Violation, segment, shorten};

/// The body of `POST /batch`.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    pub reason: Option<String>,
    pub operations: Vec<Operation>,
}

/// The most operations of one batch.
pub const MOST_OPERATIONS: usize = 10_000;

impl BatchRequest {
    /// Reads the body. It may be large, so its values are moved and not copied.
    pub fn parse(body: Value) -> Result<BatchRequest, Vec<Violation>> {
        let Value::Object(mut body) = body else {
            return Err(vec![Violation::new("", "a batch must be an object with `operations`")]);
        };
        let is_unknown = |name: &&String| !matches!(name.as_str(), "reason" | "operations");
        let unknown = body.keys().filter(is_unknown);
        let mut errors: Vec<_> = unknown
            .map(|name| Violation::new(segment(name), "is not a property of a batch"))
            .collect();
        let reason = match body.remove("reason") {
            None | Some(Value::Null) => None,
            Some(Value::String(reason)) => Some(reason),
            Some(_) => {
                errors.push(Violation::new("/reason", "must be a string"));
                None
            }
        };
        let operations = read_all(body.remove("operations"), &mut errors);
        match errors.is_empty() {
            true => Ok(BatchRequest { reason, operations }),
            false => Err(errors),
        }
    }
}

fn read_all(given: Option<Value>, errors: &mut Vec<Violation>) -> Vec<Operation> {
    let mut refuse = |detail: String| {
        errors.push(Violation::new("/operations", detail));
        Vec::new()
    };
    let items = match given {
        Some(Value::Array(items)) if items.len() > MOST_OPERATIONS => {
            return refuse(format!("a batch has at most {MOST_OPERATIONS} operations"));
        }
        Some(Value::Array(items)) if !items.is_empty() => items,
        _ => return refuse("is required: an array with at least one operation".to_owned()),
    };
    let mut operations = Vec::with_capacity(items.len());
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
    operations
}

/// The fields of an operation that every verb has.
const COMMON: [&str; 3] = ["op", "kind", "if_match"];

/// The verbs, each with its other fields.
const VERBS: [(&str, &[&str]); 8] = [
    ("create", &["id", "value"]),
    ("replace", &["id", "value"]),
    ("apply", &["id", "value", "keep_missing"]),
    ("merge", &["id", "selector", "value"]),
    ("delete", &["id", "cascade"]),
    ("assign", &["id", "cluster", "selector", "value"]),
    ("unassign", &["id", "cluster", "selector", "drop_patches"]),
    ("patch", &["id", "cluster", "selector", "set", "unset"]),
];

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
    keep_missing: Option<bool>,
    if_match: Option<String>,
}

fn read(item: Value) -> Result<Operation, Vec<Violation>> {
    let Some(fields) = item.as_object() else {
        return Err(vec![Violation::new("", "an operation must be an object")]);
    };
    let names: Vec<String> = fields.keys().cloned().collect();
    check_nulls(fields)?;
    let unreadable = |error: serde_json::Error| vec![Violation::new("", shorten(error.to_string(), 300))];
    let wire: Wire = serde_json::from_value(item).map_err(unreadable)?;
    let Some((_, allowed)) = VERBS.iter().find(|(verb, _)| *verb == wire.op) else {
        let verbs: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).collect();
        return Err(vec![Violation::new(
            "/op",
            format!("must be one of {}", verbs.join(", ")),
        )]);
    };
    let mut reader = Reader {
        wire,
        errors: Vec::new(),
    };
    let is_unused = |name: &&str| !COMMON.contains(name) && !allowed.contains(name);
    for name in names.iter().map(String::as_str).filter(is_unused) {
        reader.refuse(
            &format!("/{name}"),
            format!("is not allowed with \"{}\"", reader.wire.op),
        );
    }
    let verb = reader.verb();
    let if_match = reader.wire.if_match.as_deref().map(IfMatch::parse);
    if if_match.is_some() && reader.wire.selector.is_some() {
        reader.refuse("/if_match", "is not allowed with a selector");
    }
    let keep_missing = reader.wire.keep_missing.unwrap_or_default();
    if keep_missing && reader.wire.kind != CLUSTERS {
        reader.refuse("/keep_missing", "is only allowed for clusters");
    }
    match reader.errors.is_empty() {
        true => Ok(Operation::new(reader.wire.kind, verb)
            .when(if_match)
            .keeping_missing(keep_missing)),
        false => Err(reader.errors),
    }
}

/// Refuses null where it would change what the operation is about: clients send it for a variable that is not set.
fn check_nulls(fields: &Map<String, Value>) -> Result<(), Vec<Violation>> {
    let names = ["id", "cluster", "selector", "if_match"].into_iter();
    let nulls = names.filter(|name| fields.get(*name).is_some_and(Value::is_null));
    let errors: Vec<_> = nulls
        .map(|name| Violation::new(format!("/{name}"), "must not be null: set it or leave it out"))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// An operation that is being read. A missing field is reported, and replaced by an empty one to find further problems.
struct Reader {
    wire: Wire,
    errors: Vec<Violation>,
}

impl Reader {
    fn refuse(&mut self, pointer: &str, detail: impl Into<String>) {
        self.errors.push(Violation::new(pointer, detail));
    }

    /// Reads the fields of the verb, which is one of [`VERBS`].
    fn verb(&mut self) -> Verb {
        match self.wire.op.as_str() {
            "create" => Verb::Create {
                id: self.wire.id.clone(),
                value: self.value(),
            },
            "replace" => {
                let value = self.value();
                let own = value.get("id").and_then(Value::as_str).map(str::to_owned);
                let id = self.wire.id.clone().or(own).unwrap_or_else(|| self.id());
                Verb::Replace { id, value }
            }
            "apply" => Verb::Apply {
                id: self.wire.id.clone(),
                value: self.value(),
            },
            "merge" => self.merge(),
            "delete" => Verb::Delete {
                id: self.id(),
                cascade: self.wire.cascade.unwrap_or_default(),
            },
            "assign" => {
                let value = self.overrides();
                Verb::Assign {
                    id: self.id(),
                    on: self.clusters(),
                    value,
                }
            }
            "unassign" => Verb::Unassign {
                id: self.id(),
                on: self.clusters(),
                drop_patches: self.wire.drop_patches.unwrap_or_default(),
            },
            _ => self.patch(),
        }
    }

    fn merge(&mut self) -> Verb {
        if self.wire.selector.is_some() && self.wire.kind != CLUSTERS {
            self.refuse("/selector", "is only allowed for clusters");
        }
        Verb::Merge {
            on: self.target("id", self.wire.id.clone()),
            form: Form::Merge,
            value: self.value(),
        }
    }

    fn patch(&mut self) -> Verb {
        let (set, unset) = (self.wire.set.take(), self.wire.unset.take());
        if set.is_none() && unset.is_none() {
            self.refuse("/set", "\"set\" or \"unset\" is required");
        }
        Verb::Patch {
            id: self.id(),
            on: self.clusters(),
            set: set.unwrap_or_default(),
            unset: unset.unwrap_or_default(),
        }
    }

    fn id(&mut self) -> String {
        self.wire.id.clone().unwrap_or_else(|| {
            self.refuse("/id", "is required");
            String::new()
        })
    }

    fn value(&mut self) -> Value {
        self.wire.value.take().unwrap_or_else(|| {
            self.refuse("/value", "is required");
            Value::Null
        })
    }

    fn overrides(&mut self) -> Map<String, Value> {
        match self.wire.value.take() {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(overrides)) => overrides,
            Some(_) => {
                self.refuse("/value", "must be an object: the overrides");
                Map::new()
            }
        }
    }

    fn clusters(&mut self) -> Target {
        self.target("cluster", self.wire.cluster.clone())
    }

    /// One resource, which the field `name` names, or a selector.
    fn target(&mut self, name: &str, id: Option<String>) -> Target {
        match (id, self.wire.selector.clone()) {
            (Some(id), None) => Target::Id(id),
            (None, Some(selector)) => Target::Selector(selector),
            _ => {
                let detail = format!("either \"{name}\" or \"selector\" is required");
                self.refuse(&format!("/{name}"), detail);
                Target::Id(String::new())
            }
        }
    }
}
