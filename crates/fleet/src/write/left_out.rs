//! Arrays of references that the document of a cluster leaves out, although the cluster has references there. A script that is
//! older than a kind must not uninstall that kind's definitions, so such a document is refused, or keeps the arrays.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Draft;
use super::pointers::{Fault, none_or_value};
use crate::inputs::references;
use crate::operation::Verb;
use crate::refusal::{LEAVES_OUT, Violation, segment, some_of};

/// The clusters of a batch whose documents leave something out, by array.
#[derive(Default)]
pub(super) struct LeftOut(BTreeMap<String, Losses>);

#[derive(Default)]
struct Losses {
    /// The first operation that leaves it out: the problem is reported there.
    operation: usize,
    clusters: Vec<String>,
    references: usize,
    /// Whether the operation has a way to keep the array.
    can_keep: bool,
}

impl LeftOut {
    fn add(&mut self, array: &str, (operation, verb): (usize, &Verb), cluster: &str, references: usize) {
        let losses = self.0.entry(array.to_owned()).or_insert_with(|| Losses {
            operation,
            can_keep: matches!(verb, Verb::Apply { .. }),
            ..Losses::default()
        });
        losses.clusters.push(cluster.to_owned());
        losses.references += references;
    }

    /// One problem for each array: the same for hundreds of clusters would hide all others.
    pub(super) fn violations(&self) -> impl Iterator<Item = Violation> {
        self.0.iter().map(|(array, losses)| {
            let pointer = format!("/operations/{}/value{}", losses.operation, segment(array));
            let owner = match losses.clusters.as_slice() {
                [_] => "the cluster has".to_owned(),
                many => format!("{} clusters ({}) have", many.len(), some_of(many)),
            };
            let keep = match losses.can_keep {
                true => "; to keep them, set \"keep_missing\"",
                false => "",
            };
            let count = losses.references;
            let detail = format!("{owner} {count} references {LEAVES_OUT}: to remove them, send []{keep}");
            Violation::new(pointer, detail)
        })
    }
}

impl Draft<'_> {
    /// Refuses to replace a cluster by a document that leaves out what the cluster has. In a batch, arrays are collected and
    /// refused at its end.
    pub(super) fn check_left_out(&mut self, id: &str, value: &Value) -> Result<(), Fault> {
        let Some(cluster) = self.now().cluster(id) else {
            return Ok(());
        };
        let present = cluster.document().body.parse();
        let unprotects = cluster.head().protected && value.get("protected").is_none();
        let lost = self.arrays_lost(&present, |array| value.get(array).is_none());
        let mut errors = Vec::new();
        for (array, count) in lost {
            match self.rules.batch {
                true => {
                    let operation = (self.current, &self.operations[self.current].verb);
                    self.left_out.add(&array, operation, id, count);
                }
                false => errors.push(Violation::new(
                    segment(&array),
                    format!("the cluster has {count} references {LEAVES_OUT}: to remove them, send []"),
                )),
            }
        }
        if unprotects {
            let detail = "the cluster is protected and the request leaves this out: to lift the protection, send false";
            errors.push(Violation::new("/protected", detail));
        }
        none_or_value(errors)
    }

    /// Gives a document the arrays of references that it leaves out and its cluster has.
    pub(super) fn keep_left_out(&self, id: &str, value: &mut Value) {
        let Some(cluster) = self.now().cluster(id) else {
            return;
        };
        let present = cluster.document().body.parse();
        for (array, _) in self.arrays_lost(&present, |array| value.get(array).is_none()) {
            value[array.as_str()] = present[array.as_str()].clone();
        }
    }

    /// Refuses a patch that clears an array of references with null: a client that writes its empty lists as null must not
    /// uninstall everything.
    pub(super) fn check_null_references(&self, present: &Value, patch: &Value) -> Result<(), Fault> {
        let lost = self.arrays_lost(present, |array| patch.get(array).is_some_and(Value::is_null));
        let errors = lost.into_iter().map(|(array, count)| {
            let detail =
                format!("null would remove all {count} references: remove each with \"$patch\": \"delete\", or PUT []");
            Violation::new(segment(&array), detail)
        });
        none_or_value(errors.collect())
    }

    /// The arrays of references that a cluster has and a request would lose, with how many references each holds.
    fn arrays_lost(&self, present: &Value, is_lost: impl Fn(&str) -> bool) -> Vec<(String, usize)> {
        let lost = self.now().kinds().definitions().filter_map(|kind| {
            let array = kind.references.as_deref()?;
            let count = references(kind, present).len();
            (count > 0 && is_lost(array)).then(|| (array.to_owned(), count))
        });
        lost.collect()
    }
}
