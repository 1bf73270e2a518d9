//! Where in the request a problem is reported.
//!
//! Problems are found in documents: as they were sent, as merging left them, or at the end of the write. The caller needs a place
//! in what it sent. All translation is here.

use serde_json::Value;

use super::Draft;
use crate::inputs::reference_id;
use crate::operation::Verb;
use crate::patch::Form;
use crate::refusal::{Refusal, Violation, segment};

/// A problem of one operation, with pointers that are not into the request yet.
pub(super) enum Fault {
    /// The pointers are into the operation: `/id`, `/selector`.
    Operation(Refusal),
    /// The pointers are into the document or patch of the operation.
    Value(Vec<Violation>),
    /// The pointers are into the document that merging left.
    Merged { errors: Vec<Violation>, merged: Value },
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault::Operation(refusal)
    }
}

impl Fault {
    /// A problem of the document or patch of the operation.
    pub(super) fn value(pointer: &str, detail: impl Into<String>) -> Self {
        Fault::Value(vec![Violation::new(pointer, detail)])
    }
}

/// The problems that were found, if any.
pub(super) fn none_or_value(errors: Vec<Violation>) -> Result<(), Fault> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Fault::Value(errors)),
    }
}

impl Draft<'_> {
    /// A problem of the current operation, with pointers into the request.
    pub(super) fn in_request(&self, fault: Fault) -> Refusal {
        let refusal = match fault {
            Fault::Operation(refusal) => refusal,
            Fault::Value(errors) => self.invalid(errors, None),
            Fault::Merged { errors, merged } => self.invalid(errors, Some(&merged)),
        };
        refusal.under(&self.operation_pointer(self.current))
    }

    /// Where a problem of the end state is reported: at the operation that wrote the resource last. Only some operations carry
    /// the document that `pointer` is into.
    pub(super) fn blame(&self, kind: &str, id: &str, pointer: &str) -> String {
        let Some(touch) = self.touch(kind, id) else {
            return if self.rules.batch { "/operations" } else { "" }.to_owned();
        };
        let at = self.operation_pointer(touch.operation);
        match &self.operations[touch.operation].verb {
            Verb::Merge { value, form, .. } => {
                let merged = self.now().document(kind, id).filter(|_| *form == Form::Merge);
                let pointer = match merged {
                    Some(merged) => in_patch(pointer, &merged.body.parse(), value),
                    None => pointer.to_owned(),
                };
                format!("{at}{}{pointer}", self.value_pointer())
            }
            Verb::Create { .. } | Verb::Replace { .. } | Verb::Apply { .. } | Verb::Restore { .. } => {
                format!("{at}{}{pointer}", self.value_pointer())
            }
            Verb::IssueToken { .. } | Verb::RevokeToken { .. } | Verb::Register { .. } | Verb::Step { .. } => at,
            Verb::Delete { .. } | Verb::Assign { .. } | Verb::Unassign { .. } | Verb::Patch { .. } => at,
        }
    }

    fn operation_pointer(&self, operation: usize) -> String {
        match self.rules.batch {
            true => format!("/operations/{operation}"),
            false => String::new(),
        }
    }

    /// Where an operation has its document.
    pub(super) fn value_pointer(&self) -> &'static str {
        if self.rules.batch { "/value" } else { "" }
    }

    fn invalid(&self, errors: Vec<Violation>, merged: Option<&Value>) -> Refusal {
        let errors = errors.into_iter().map(|error| Violation {
            pointer: self.in_operation(&error.pointer, merged),
            detail: error.detail,
        });
        Refusal::invalid(errors.collect())
    }

    /// From a place in the document that the current operation writes to a place in the operation.
    fn in_operation(&self, pointer: &str, merged: Option<&Value>) -> String {
        let value = self.value_pointer();
        let operation = self.operation();
        match &operation.verb {
            Verb::Merge { value: patch, .. } => match merged {
                Some(merged) => format!("{value}{}", in_patch(pointer, merged, patch)),
                None => format!("{value}{pointer}"),
            },
            // The reference is made from the operation's value.
            Verb::Assign { .. } => {
                let kind = self.now().kinds().get(&operation.kind);
                let array = kind.and_then(|kind| kind.references.as_deref()).unwrap_or_default();
                let field = in_reference(pointer, array).unwrap_or_else(|| pointer.to_owned());
                format!("{value}{field}")
            }
            Verb::Patch { id, .. } => match pointer.strip_prefix(&format!("/patches{}", segment(id))) {
                Some(key) => format!("/set{key}"),
                None => format!("{value}{pointer}"),
            },
            _ => format!("{value}{pointer}"),
        }
    }
}

/// From a place in a merged document to the place in the patch that was merged. References keep their ids, not their positions.
fn in_patch(pointer: &str, merged: &Value, patch: &Value) -> String {
    let translated = || {
        let (array, rest) = pointer.strip_prefix('/')?.split_once('/')?;
        let (position, field) = split_segment(rest);
        let reference = merged.get(array)?.get(position.parse::<usize>().ok()?)?;
        let id = Some(reference_id(reference)).filter(|id| !id.is_empty())?;
        let mut sent = patch.get(array)?.as_array()?.iter();
        let position = sent.position(|item| reference_id(item) == id)?;
        Some(format!("/{array}/{position}{field}"))
    };
    translated().unwrap_or_else(|| pointer.to_owned())
}

/// From a place in an array of references to the place in one of them.
fn in_reference(pointer: &str, array: &str) -> Option<String> {
    let rest = pointer.strip_prefix(&segment(array))?.strip_prefix('/')?;
    let (_, field) = split_segment(rest);
    Some(field.to_owned())
}

/// The first segment, and the rest with its slash.
fn split_segment(pointer: &str) -> (&str, &str) {
    pointer.split_at(pointer.find('/').unwrap_or(pointer.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_in_a_merged_document_is_found_in_the_patch_by_the_id_of_the_reference() {
        let merged = json!({"namespaces": [{"id": "a"}, {"id": "b"}], "labels": {"x": 1}});
        let patch = json!({"namespaces": [{"id": "b"}], "labels": {"x": 1}});
        for (given, expected) in [
            ("/namespaces/1/enabled", "/namespaces/0/enabled"),
            ("/namespaces/1", "/namespaces/0"),
            ("/namespaces/0/enabled", "/namespaces/0/enabled"),
            ("/namespaces/7", "/namespaces/7"),
            ("/labels/x", "/labels/x"),
            ("", ""),
        ] {
            assert_eq!(in_patch(given, &merged, &patch), expected, "{given}");
        }
    }

    #[test]
    fn a_place_in_an_array_of_references_is_a_place_in_the_reference() {
        assert_eq!(in_reference("/a/3/b/c", "a").as_deref(), Some("/b/c"));
        assert_eq!(in_reference("/a/3", "a").as_deref(), Some(""));
        assert_eq!(in_reference("/a", "a"), None);
        assert_eq!(in_reference("/ab/3/c", "a"), None);
    }
}
