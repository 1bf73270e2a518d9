//! The three forms of PATCH.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::inputs::reference_id;
use crate::json::{MOST_DEPTH, is_too_deep};
use crate::refusal::{Violation, segment};

/// The form of a PATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain JSON: objects merge, null clears, arrays of references merge by id, other arrays are replaced.
    Merge,
    /// RFC 7396, exactly.
    MergePatch,
    /// RFC 6902.
    JsonPatch,
}

/// An array of references, which [`Form::Merge`] merges by id.
#[derive(Clone, Copy, Debug)]
pub struct References<'a> {
    pub array: &'a str,
    /// The fields of a reference whose null is kept: absent, such a field would get its default again.
    pub carried: &'a BTreeMap<String, Value>,
}

/// Applies `patch` to `target`, in place.
pub fn apply(form: Form, arrays: &[References<'_>], target: &mut Value, patch: &Value) -> Result<(), Vec<Violation>> {
    match form {
        Form::Merge => {
            let mut errors = Vec::new();
            let Value::Object(fields) = patch else {
                return Err(vec![Violation::new("", "a patch must be an object")]);
            };
            for (name, value) in fields {
                match value {
                    Value::Array(items) => match arrays.iter().find(|one| one.array == name) {
                        Some(references) => references.merge(target, items, &mut errors),
                        None => merge_field(target, name, value),
                    },
                    value => merge_field(target, name, value),
                }
            }
            if errors.is_empty() { Ok(()) } else { Err(errors) }
        }
        Form::MergePatch => {
            json_patch::merge(target, patch);
            Ok(())
        }
        Form::JsonPatch => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| vec![Violation::new("", format!("is not a JSON Patch (RFC 6902): {error}"))])?;
            for (n, operation) in patch.0.iter().enumerate() {
                let refuse = |detail: &str| vec![Violation::new(format!("/{n}"), detail)];
                // Copy operations can double the document each time, so depth and size are checked after every operation.
                if operation.path().count() > MOST_DEPTH {
                    return Err(refuse("the path is too deep"));
                }
                json_patch::patch(target, std::slice::from_ref(operation))
                    .map_err(|error| refuse(&error.kind.to_string()))?;
                if is_too_deep(target) {
                    return Err(refuse("the document becomes too deep"));
                }
                if weight(target) > MOST_WEIGHT {
                    return Err(refuse("the document becomes too large"));
                }
            }
            Ok(())
        }
    }
}

const MOST_WEIGHT: usize = 1 << 20;

/// The number of values of a document plus the length of its strings.
fn weight(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            1 + fields
                .iter()
                .map(|(name, value)| name.len() + weight(value))
                .sum::<usize>()
        }
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::String(text) => 1 + text.len(),
        _ => 1,
    }
}

/// Merges one field, recursively; null clears it.
fn merge_field(target: &mut Value, name: &str, value: &Value) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("made one");
    match value {
        Value::Null => {
            fields.remove(name);
        }
        // Clearing fields of an absent object does not create the object.
        Value::Object(_) if !fields.contains_key(name) && only_clears(value) => {}
        Value::Object(inner) => {
            let field = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if !field.is_object() {
                *field = Value::Object(Map::new());
            }
            for (name, value) in inner {
                merge_field(field, name, value);
            }
        }
        other => {
            fields.insert(name.to_owned(), other.clone());
        }
    }
}

fn only_clears(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(inner) => !inner.is_empty() && inner.values().all(only_clears),
        _ => false,
    }
}

impl References<'_> {
    /// Merges an array of references by id. References that the patch does not name keep their content and position.
    fn merge(&self, target: &mut Value, items: &[Value], errors: &mut Vec<Violation>) {
        let mut result = match target.get(self.array) {
            Some(Value::Array(present)) => present.clone(),
            _ => Vec::new(),
        };
        for (n, item) in items.iter().enumerate() {
            let pointer = format!("{}/{n}", segment(self.array));
            let Some(fields) = item.as_object() else {
                errors.push(Violation::new(pointer, "a reference must be an object with an id"));
                continue;
            };
            let id = reference_id(item);
            if id.is_empty() {
                errors.push(Violation::new(format!("{pointer}/id"), "is required"));
                continue;
            }
            match fields.get("$patch") {
                None => match result.iter_mut().find(|present| reference_id(present) == id) {
                    Some(present) => self.merge_fields(present, fields),
                    None => {
                        let mut added = Value::Object(Map::new());
                        self.merge_fields(&mut added, fields);
                        result.push(added);
                    }
                },
                Some(Value::String(verb)) if verb == "delete" => result.retain(|present| reference_id(present) != id),
                Some(_) => errors.push(Violation::new(format!("{pointer}/$patch"), "must be \"delete\"")),
            }
        }
        merge_field(target, self.array, &Value::Array(result));
    }

    fn merge_fields(&self, reference: &mut Value, fields: &Map<String, Value>) {
        for (name, value) in fields {
            match (value, reference.get(name)) {
                // An explicit null (no override) stays.
                (Value::Null, Some(Value::Null)) => {}
                (Value::Null, _) if self.carried.contains_key(name) => reference[name] = Value::Null,
                _ => merge_field(reference, name, value),
            }
        }
    }
}
