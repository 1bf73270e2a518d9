//! Documents in files: seeds, and resources that carry their kind with them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::kind::{self, KINDS};
use crate::operation::{Operation, Verb};
use crate::refusal::{Violation, segment};

/// The arrays of a seed, kinds first: the rest is held against them.
fn arrays(kinds: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let of_kinds = |wanted: bool| kinds.iter().filter(move |(kind, _)| (kind.as_str() == KINDS) == wanted);
    of_kinds(true).chain(of_kinds(false))
}

/// The operations that a seed asks for: one object, with an array per kind.
pub fn seed(document: &Value) -> Result<Vec<Operation>, Vec<Violation>> {
    let Value::Object(kinds) = document else {
        return Err(vec![Violation::new("", "a seed is one object with an array per kind")]);
    };
    let origin: Arc<str> = "seed".into();
    let mut errors = Vec::new();
    let mut operations = Vec::new();
    for (kind, items) in arrays(kinds) {
        let Value::Array(items) = items else {
            errors.push(Violation::new(segment(kind), "is an array of resources"));
            continue;
        };
        for value in items {
            let create = Verb::Create {
                id: None,
                value: value.clone(),
            };
            operations.push(Operation::new(kind, create).from(&origin));
        }
    }
    if errors.is_empty() { Ok(operations) } else { Err(errors) }
}

/// The place of the `n`th operation of a seed in its file: problems are found in operations, and fixed in files.
pub fn seed_place(document: &Value, n: usize) -> Option<String> {
    let mut rest = n;
    for (kind, items) in arrays(document.as_object()?) {
        let count = items.as_array()?.len();
        if rest < count {
            return Some(format!("{}/{rest}", segment(kind)));
        }
        rest -= count;
    }
    None
}

/// The operation that a document of a file asks for: a document with a `schema` is a kind, any other says its kind.
pub fn apply(mut document: Value) -> Result<Operation, Violation> {
    let Value::Object(fields) = &mut document else {
        return Err(Violation::new("", "a document is an object"));
    };
    if fields.contains_key("schema") {
        kind::name_of(&document)?;
        return Ok(Operation::new(
            KINDS,
            Verb::Apply {
                id: None,
                value: document,
            },
        ));
    }
    match fields.remove("kind") {
        Some(Value::String(kind)) => Ok(Operation::new(
            kind,
            Verb::Apply {
                id: None,
                value: document,
            },
        )),
        _ => Err(Violation::new(
            "/kind",
            "a document names its kind, as in \"kind\": \"clusters\"",
        )),
    }
}
