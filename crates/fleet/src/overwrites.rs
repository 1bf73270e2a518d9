//! What a planned change overwrites: who last changed the document, and which fields go back to a value that they had before.

use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::diff::{Difference, differences, value_at};
use crate::json::Json;
use crate::log::{Author, Change, Revision};

/// A change of the log, without its documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub revision: Revision,
    pub author: Arc<Author>,
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Source", 4)?;
        out.serialize_field("revision", &self.revision)?;
        out.serialize_field("at", &self.author.at)?;
        out.serialize_field("actor", &self.author.actor)?;
        out.serialize_field("reason", &self.author.reason)?;
        out.end()
    }
}

/// A field that goes back to an earlier value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revert {
    /// As in [`Difference`]. Empty for a document that is created again after its deletion.
    pub pointer: String,
    /// The change that set the value which is overwritten.
    #[serde(flatten)]
    pub source: Source,
}

/// What one planned change overwrites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overwrites {
    /// The last change of the document. None: it is new, or the log no longer has the change.
    pub last_change: Option<Source>,
    pub reverts: Vec<Revert>,
}

/// Reads the earlier changes of one document, newest first.
#[derive(Debug)]
pub struct Search {
    /// The fields of an update whose planned value was not found yet, each with the change that set its present value.
    fields: Vec<(Difference, Option<Source>)>,
    creates: bool,
    found: Overwrites,
    /// Whether the beginning of the document was reached.
    begun: bool,
}

impl Search {
    pub fn of(planned: &Change) -> Self {
        let parsed = |body: &Option<Json>| body.as_ref().map(Json::parse);
        let fields = match (parsed(&planned.before), parsed(&planned.after)) {
            (Some(now), Some(then)) => differences(Some(&now), Some(&then)),
            _ => Vec::new(),
        };
        Search {
            fields: fields.into_iter().map(|field| (field, None)).collect(),
            creates: planned.before.is_none(),
            found: Overwrites::default(),
            begun: false,
        }
    }

    /// Adds the next older change of the document.
    pub fn add(&mut self, source: &Source, older: &Change) {
        if self.found.last_change.is_none() {
            self.found.last_change = Some(source.clone());
            if self.creates && older.after.is_none() {
                self.found.reverts.push(Revert {
                    pointer: String::new(),
                    source: source.clone(),
                });
            }
        }
        let (Some(before), Some(after)) = (&older.before, &older.after) else {
            // The document began, or had ended, here: fields had no values before.
            self.begun = true;
            self.fields.clear();
            return;
        };
        if self.fields.is_empty() {
            return;
        }
        let (before, after): (Value, Value) = (before.parse(), after.parse());
        let reverts = &mut self.found.reverts;
        self.fields.retain_mut(|(field, set_by)| {
            let earlier = value_at(&before, &field.pointer);
            if earlier == value_at(&after, &field.pointer) {
                return true;
            }
            let set_by = set_by.get_or_insert_with(|| source.clone());
            let is_back = earlier == field.after.as_ref();
            if is_back {
                reverts.push(Revert {
                    pointer: field.pointer.clone(),
                    source: set_by.clone(),
                });
            }
            !is_back
        });
    }

    /// Whether older changes can tell more.
    pub fn goes_on(&self) -> bool {
        self.found.last_change.is_none() || (!self.begun && !self.fields.is_empty())
    }

    /// The result, in the order of the fields.
    pub fn finish(mut self) -> Overwrites {
        self.found.reverts.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(before: Value, after: Value) -> Change {
        let body = |value: Value| (!value.is_null()).then(|| Json::from_canonical(value.to_string()));
        Change {
            kind: "clusters".into(),
            id: "a".into(),
            before: body(before),
            after: body(after),
            origin: None,
            unique: None,
            keeps_unique: false,
        }
    }

    /// `last change; pointer=revision …` of a planned change, after the given states of the document. The n-th state is that of
    /// revision n; null is a document that does not exist.
    fn found(states: &[Value], planned: Value) -> String {
        let now = states.last().cloned().unwrap_or_default();
        let mut search = Search::of(&change(now, planned));
        for (n, after) in states.iter().enumerate().rev() {
            if !search.goes_on() {
                break;
            }
            let before = if n > 0 { states[n - 1].clone() } else { Value::Null };
            if before == *after {
                continue;
            }
            let source = Source {
                revision: Revision(n as u64 + 1),
                author: Arc::default(),
            };
            search.add(&source, &change(before, after.clone()));
        }
        let found = search.finish();
        let last = found
            .last_change
            .map_or("-".to_owned(), |last| last.revision.to_string());
        let reverts: Vec<_> = found
            .reverts
            .iter()
            .map(|one| format!(" {}={}", one.pointer, one.source.revision))
            .collect();
        format!("{last};{}", reverts.concat())
    }

    #[test]
    fn a_field_that_goes_back_is_a_revert() {
        let tag = |tag: &str| json!({"id": "a", "tag": tag});
        assert_eq!(found(&[tag("1"), tag("2")], tag("1")), "2; /tag=2");
        assert_eq!(found(&[tag("1"), tag("2")], tag("3")), "2;");
        // A later change of another field hides nothing.
        let labelled = json!({"id": "a", "tag": "2", "label": "x"});
        assert_eq!(
            found(
                &[tag("1"), tag("2"), labelled],
                json!({"id": "a", "tag": "1", "label": "x"})
            ),
            "3; /tag=2"
        );
        // Nor does a second hotfix: the one that is overwritten is named.
        assert_eq!(found(&[tag("1"), tag("2"), tag("3")], tag("1")), "3; /tag=3");
    }

    #[test]
    fn fields_that_come_and_go_are_reverts_too() {
        let (without, with) = (json!({"id": "a"}), json!({"id": "a", "pin": "2"}));
        assert_eq!(found(&[without.clone(), with.clone()], without.clone()), "2; /pin=2");
        assert_eq!(found(&[with.clone(), without.clone()], with.clone()), "2; /pin=2");
        // The document did not exist before: that is no earlier value of its fields.
        assert_eq!(found(std::slice::from_ref(&with), without), "1;");
    }

    #[test]
    fn references_are_found_by_their_ids() {
        let refs = |tags: &[(&str, &str)]| json!({"refs": tags.iter().map(|(id, tag)| json!({"id": id, "tag": tag})).collect::<Vec<_>>()});
        let states = [
            refs(&[("x", "1"), ("y", "1")]),
            refs(&[("z", "9"), ("y", "2"), ("x", "1")]),
            refs(&[("z", "9"), ("y", "2"), ("x", "5")]),
        ];
        let planned = refs(&[("z", "9"), ("y", "1"), ("x", "1")]);
        assert_eq!(found(&states, planned), "3; /refs/x/tag=3 /refs/y/tag=2");
    }

    #[test]
    fn a_document_that_was_deleted_comes_back() {
        let document = json!({"id": "a"});
        assert_eq!(found(&[], document.clone()), "-;");
        assert_eq!(found(&[document.clone(), Value::Null], document.clone()), "2; =2");
        // To delete is not to go back to the time before the creation.
        assert_eq!(found(std::slice::from_ref(&document), Value::Null), "1;");
        let changed = json!({"id": "a", "tag": "1"});
        assert_eq!(found(&[document, changed], Value::Null), "2;");
    }
}
