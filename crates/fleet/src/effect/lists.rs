//! One list of inputs, compared before and after a change.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Detail;
use crate::diff::{Difference, differences};
use crate::inputs::{Effective, Part, cluster_block, reference_id, references};
use crate::json;
use crate::kind::{Kind, Render};
use crate::log::Digest;
use crate::released::Had;
use crate::snapshot::{ClusterHead, Seen};

/// What happens to one list of inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListEffect {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<InputEffect>,
    /// Whether the path is answered 404 afterwards: no kind has it any more.
    #[serde(skip_serializing_if = "is_false")]
    pub unanswered: bool,
    /// What Flux garbage-collects: inputs that are removed, turned off, rendered as another kind of object, or moved.
    #[serde(skip)]
    pub lost: Vec<String>,
    /// How many of the compared inputs Flux still has objects of afterwards.
    #[serde(skip)]
    left: usize,
    /// The content of each input that Flux makes new objects of: a plan covers that content, not only the id.
    #[serde(skip)]
    fresh: Vec<String>,
}

impl ListEffect {
    /// The inputs that are new or other than before.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        let changed = self.changed.iter().map(|input| input.id.as_str());
        self.added.iter().map(String::as_str).chain(changed)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputEffect {
    pub id: String,
    pub fields: Vec<Difference>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it.
fn is_false(value: &bool) -> bool {
    !value
}

/// An object that Flux makes: if any of this changes, Flux removes what it made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object<'a> {
    pub(crate) kind: &'a str,
    /// The source of its content.
    pub(crate) source: Option<&'a str>,
    /// Where its content goes, if not to the default place.
    pub(crate) place: Option<Cow<'a, str>>,
}

impl<'a> Object<'a> {
    fn new(rule: &'a Render, effective: &Effective<'_>) -> Self {
        let set = |field: &str| effective.get(field).filter(|value| !value.is_null());
        let mut place = String::new();
        for (field, default) in &rule.recreated_on {
            let default = default.as_deref().and_then(set);
            if let Some(value) = set(field).filter(|value| Some(*value) != default) {
                json::write_str(field, &mut place);
                json::write(value, &mut place);
            }
        }
        Object {
            kind: &rule.object,
            source: rule.source.as_deref(),
            place: (!place.is_empty()).then_some(place.into()),
        }
    }
}

/// One input, as far as the comparison needs it.
pub(crate) struct Input<'a> {
    pub(crate) id: &'a str,
    effective: Effective<'a>,
    /// What Flux makes of it, if the kind says that. The outer `None`: nothing, because the input is off.
    pub(crate) object: Option<Option<Object<'a>>>,
}

/// The inputs of one kind for a cluster with this document.
pub(crate) fn inputs<'a>(kind: &'a Kind, definitions: Seen<'a>, document: &'a Value) -> Vec<Input<'a>> {
    let references = references(kind, document).iter();
    let found = references.filter_map(|reference| {
        let id = reference_id(reference);
        let definition = definitions.get(id)?.value();
        let effective = Effective::new(kind, definition, reference, document);
        let object = || effective.render().map(|rule| Object::new(rule, &effective));
        let object = (!effective.is_off()).then(object);
        Some(Input { id, effective, object })
    });
    found.collect()
}

/// The inputs of one list, and the cluster block that all of them have.
pub(super) struct List<'a> {
    pub(super) inputs: Vec<Input<'a>>,
    /// None if the block cannot differ.
    pub(super) cluster: Option<&'a ClusterHead>,
}

impl List<'_> {
    fn position(&self, id: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.id == id)
    }

    /// The cluster block that each input of the list has.
    fn block(&self) -> Option<Part<'_>> {
        let kind = self.inputs.first()?.effective.kind();
        self.cluster.map(|head| cluster_block(kind, head))
    }

    fn input(&self, input: &Input<'_>) -> Value {
        input.effective.input(self.cluster).to_value()
    }
}

impl ListEffect {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty() && self.lost.is_empty()
    }

    /// Whether the list lost inputs and has none left.
    pub(super) fn is_emptied(&self) -> bool {
        !self.lost.is_empty() && self.left == 0
    }

    /// What stands for the list in the digest of an effect.
    pub(super) fn digest(&self) -> Digest {
        let text = serde_json::to_string(&(self, &self.fresh)).unwrap_or_default();
        Digest(Sha256::digest(text).into())
    }

    /// Compares two versions of a list.
    pub(super) fn of(old: &List<'_>, new: &List<'_>, detail: Detail) -> ListEffect {
        let mut effect = ListEffect {
            left: new.inputs.iter().filter(|input| input.object.is_some()).count(),
            ..ListEffect::default()
        };
        let same_block = old.block() == new.block();
        for (n, before) in old.inputs.iter().enumerate() {
            // Lists rarely change, so the same position is tried first.
            let position = match new.inputs.get(n) {
                Some(same) if same.id == before.id => Some(n),
                _ => new.position(before.id),
            };
            match position {
                None => effect.remove(before),
                Some(position) => {
                    let after = &new.inputs[position];
                    effect.compare_objects(before, after, detail);
                    let is_same = same_block && before.effective.is_same(&after.effective);
                    if detail == Detail::Full && !is_same {
                        effect.change(before.id, &old.input(before), &new.input(after));
                    }
                }
            }
        }
        if detail == Detail::Full {
            let added = new.inputs.iter().filter(|input| old.position(input.id).is_none());
            added.for_each(|input| effect.add(input));
        }
        effect
    }

    fn remove(&mut self, input: &Input<'_>) {
        self.removed.push(input.id.to_owned());
        if input.object.is_some() {
            self.lost.push(input.id.to_owned());
        }
    }

    fn add(&mut self, input: &Input<'_>) {
        self.added.push(input.id.to_owned());
        self.fresh.push(input.effective.input(None).to_text());
    }

    /// Another object means that Flux removes the old one and creates the new one.
    fn compare_objects(&mut self, before: &Input<'_>, after: &Input<'_>, detail: Detail) {
        if before.object == after.object {
            return;
        }
        if before.object.is_some() {
            self.lost.push(before.id.to_owned());
        }
        if after.object.is_some() && detail == Detail::Full {
            self.fresh.push(after.effective.input(None).to_text());
        }
    }

    fn change(&mut self, id: &str, before: &Value, after: &Value) {
        let fields = differences(Some(before), Some(after));
        if !fields.is_empty() {
            let id = id.to_owned();
            self.changed.push(InputEffect { id, fields });
        }
    }

    /// Counts the inputs that a released name had and the cluster that takes it does not have. The others are listed as added,
    /// like all inputs of that cluster.
    pub(super) fn compare_remembered(&mut self, had: &[Had], new: &[Input<'_>]) {
        let now: HashMap<&str, &Input<'_>> = new.iter().map(|input| (input.id, input)).collect();
        let is_kept = |had: &&Had| now.get(had.id.as_str()).is_some_and(|input| had.is_kept_by(input));
        for had in had.iter().filter(|had| !is_kept(had)) {
            self.removed.push(had.id.clone());
            self.lost.push(had.id.clone());
        }
    }
}
