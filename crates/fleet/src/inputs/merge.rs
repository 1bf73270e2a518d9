//! The merge of one reference: the definition, the overrides that are not null over it, the fields that the reference carries,
//! patches, nesting, the cluster block.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::patches;
use crate::json;
use crate::kind::{Kind, Render};
use crate::snapshot::ClusterHead;

/// A definition as one cluster sees it, flat: before nesting and without the cluster block.
#[derive(Debug)]
pub struct Effective<'a> {
    kind: &'a Kind,
    fields: Vec<(&'a str, &'a Value)>,
    overridden: BTreeSet<&'a str>,
}

static NO_PATCHES: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

impl<'a> Effective<'a> {
    pub fn new(kind: &'a Kind, definition: &'a Value, reference: &'a Value, cluster: &'a Value) -> Self {
        let set = |name: &str| reference.get(name).filter(|value| !value.is_null());
        let mut overridden = BTreeSet::new();
        let mut fields: Vec<(&str, &Value)> = Vec::with_capacity(16);
        for (name, value) in definition.as_object().into_iter().flatten() {
            if !kind.flux.overridable.iter().any(|field| field == name) {
                fields.push((name, value));
            }
        }
        for name in &kind.flux.overridable {
            if let Some(value) = set(name) {
                overridden.insert(name.as_str());
                fields.push((name, value));
            } else if let Some(value) = definition.get(name) {
                fields.push((name, value));
            }
        }
        for (name, schema) in &kind.flux.carried {
            if let Some(value) = set(name).or_else(|| schema.get("default")) {
                fields.push((name, value));
            }
        }
        if kind.flux.patches {
            let patches = patches(kind, reference, cluster).unwrap_or(&NO_PATCHES);
            fields.push(("patches", patches));
        }
        Effective {
            kind,
            fields,
            overridden,
        }
    }

    pub(crate) fn kind(&self) -> &'a Kind {
        self.kind
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let mut fields = self.fields.iter();
        fields.find(|(field, _)| *field == name).map(|(_, value)| *value)
    }

    /// The fields that the cluster overrides.
    pub fn overridden(&self) -> impl Iterator<Item = &str> {
        self.overridden.iter().copied()
    }

    /// Whether Flux garbage-collects the input although it stays in the list.
    pub(crate) fn is_off(&self) -> bool {
        let off = &self.kind.flux.off;
        !off.is_empty() && off.iter().all(|(field, value)| self.get(field) == Some(value))
    }

    /// What Flux makes of the input, if the kind says it.
    pub(crate) fn render(&self) -> Option<&'a Render> {
        self.kind.render(|field| self.get(field))
    }

    /// Whether both give the same input for the same cluster. False if only the inputs can tell.
    pub(crate) fn is_same(&self, other: &Effective<'_>) -> bool {
        std::ptr::eq(self.kind, other.kind) && self.fields == other.fields
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| ((*name).to_owned(), (*value).clone()))
            .collect()
    }

    /// The object that a field goes into in the input, if any.
    pub(crate) fn target(&self, field: &str) -> Option<&'a str> {
        nested_in(self.kind, field)
    }

    /// The input: nested, and with the cluster block if a cluster is given.
    pub(crate) fn input(&self, cluster: Option<&'a ClusterHead>) -> Part<'a> {
        let mut parts: Vec<(&'a str, Part<'a>)> = Vec::with_capacity(self.fields.len() + 1);
        parts.extend(cluster.map(|head| ("cluster", cluster_block(self.kind, head))));
        for &(name, value) in &self.fields {
            let field = (name, Part::Value(value));
            let Some(target) = nested_in(self.kind, name) else {
                parts.push(field);
                continue;
            };
            match parts.iter_mut().find(|(part, _)| *part == target) {
                Some((_, Part::Object(inner))) => inner.push(field),
                _ => parts.push((target, Part::Object(vec![field]))),
            }
        }
        let mut input = Part::Object(parts);
        input.sort();
        input
    }
}

/// The object that a field of the input goes into, if any.
fn nested_in<'a>(kind: &'a Kind, field: &str) -> Option<&'a str> {
    let mut nest = kind.flux.nest.iter();
    let found = nest.find(|(_, fields)| fields.iter().any(|name| name == field));
    found.map(|(target, _)| target.as_str())
}

/// What every input of a kind says about its cluster.
pub(crate) fn cluster_block<'a>(kind: &Kind, head: &'a ClusterHead) -> Part<'a> {
    // Sorted, as every object of an input is.
    let mut fields = vec![
        ("dns", Part::Text(&head.dns)),
        ("environment", Part::Text(&head.environment)),
    ];
    let wanted = &kind.flux.cluster_labels;
    // Always there if the kind asks for labels, so that templates can look one up that a cluster does not have.
    if !wanted.is_empty() {
        let labels = head
            .labels
            .iter()
            .filter(|(name, _)| wanted.iter().any(|wanted| **wanted == **name));
        let labels = labels.map(|(name, value)| (&**name, Part::Text(value)));
        fields.push(("labels", Part::Object(labels.collect())));
    }
    fields.push(("name", Part::Text(&head.name)));
    Part::Object(fields)
}

/// An input or a part of it, borrowed from the documents that it is merged from.
#[derive(Debug, PartialEq)]
pub(crate) enum Part<'a> {
    Value(&'a Value),
    Text(&'a str),
    /// Fields, sorted by name.
    Object(Vec<(&'a str, Part<'a>)>),
}

impl Part<'_> {
    fn sort(&mut self) {
        if let Part::Object(fields) = self {
            fields.sort_unstable_by_key(|(name, _)| *name);
            fields.iter_mut().for_each(|(_, part)| part.sort());
        }
    }

    /// Whether it is an object with such a field.
    pub(super) fn has(&self, field: &str) -> bool {
        matches!(self, Part::Object(fields) if fields.iter().any(|(name, _)| *name == field))
    }

    /// Whether it is an object with this field set to false.
    pub(super) fn is_off(&self, field: &str) -> bool {
        let off = |part: &Part<'_>| matches!(part, Part::Value(Value::Bool(false)));
        matches!(self, Part::Object(fields) if fields.iter().any(|(name, part)| *name == field && off(part)))
    }

    /// Appends the part as canonical JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Part::Value(value) => json::write(value, out),
            Part::Text(text) => json::write_str(text, out),
            Part::Object(fields) => {
                out.push('{');
                for (n, (name, part)) in fields.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    json::write_str(name, out);
                    out.push(':');
                    part.write(out);
                }
                out.push('}');
            }
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::with_capacity(256);
        self.write(&mut text);
        text
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Part::Value(value) => (*value).clone(),
            Part::Text(text) => (*text).into(),
            Part::Object(fields) => {
                let fields = fields.iter().map(|(name, part)| ((*name).to_owned(), part.to_value()));
                Value::Object(fields.collect())
            }
        }
    }
}
