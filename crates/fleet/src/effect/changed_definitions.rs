//! Definitions that a change writes, and what they mean for the clusters that use them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Detail;
use super::lists::{List, ListEffect, inputs};
use crate::inputs::reference_id;
use crate::json::{self, Json};
use crate::kind::Kind;
use crate::profile::Baseline;
use crate::snapshot::{ClusterSets, Definitions, Fleet, Seen};

/// Definitions of one kind that a change writes. The kind exists before and after.
pub(super) struct ChangedDefinitions<'a> {
    pub(super) path: &'a str,
    array: &'a str,
    /// The kind and its definitions, before and after.
    sides: [(&'a Kind, &'a Definitions); 2],
    ids: &'a BTreeSet<&'a str>,
}

impl<'a> ChangedDefinitions<'a> {
    pub(super) fn new(before: &'a Fleet, after: &'a Fleet, kind: &str, ids: &'a BTreeSet<&'a str>) -> Option<Self> {
        let side = |fleet: &'a Fleet| Some((&**fleet.kinds().get(kind)?, fleet.definitions(kind)?));
        let (old, new) = (side(before)?, side(after)?);
        Some(ChangedDefinitions {
            path: new.0.path.as_deref()?,
            array: new.0.references.as_deref()?,
            sides: [old, new],
            ids,
        })
    }

    /// The clusters that refer to any of them, before or after, themselves or by a profile.
    pub(super) fn users(&self, before: &Fleet, after: &Fleet) -> Vec<Arc<str>> {
        let kind = &self.sides[1].0.name;
        let mut users = ClusterSets::default();
        for id in self.ids {
            before.add_users(kind, id, &mut users);
            after.add_users(kind, id, &mut users);
        }
        users.sorted()
    }

    /// Whether Flux may make other objects of the inputs. Any field of a rule counts: a cluster may override the other fields, so
    /// what the definition alone would become says nothing.
    pub(super) fn objects_may_differ(&self) -> bool {
        self.differ_in(object_fields)
    }

    pub(super) fn dependencies_differ(&self) -> bool {
        self.differ_in(|kind| kind.flux.depends_on.iter().collect())
    }

    fn differ_in(&self, fields: fn(&Kind) -> Vec<&String>) -> bool {
        self.ids.iter().any(|id| {
            let [old, new] = self.sides.map(|(kind, definitions)| {
                let value = definitions.get(id)?.value();
                Some(
                    fields(kind)
                        .iter()
                        .map(|field| value[*field].clone())
                        .collect::<Vec<_>>(),
                )
            });
            old != new
        })
    }

    /// Of a cluster's document, only the references to these definitions: `{"<array>":[…]}`. Parsing whole documents would take
    /// most of the time of a plan.
    pub(super) fn pick(&self, document: &Json) -> String {
        let fields = document.fields().unwrap_or_default();
        let array = fields.text(self.array).unwrap_or("[]");
        let all: Vec<&RawValue> = serde_json::from_str(array).unwrap_or_default();
        let mut text = String::from("{");
        json::write_str(self.array, &mut text);
        text.push_str(":[");
        let mut separator = "";
        for raw in all {
            // A reference has the id in its text, whatever else is in it.
            if self.ids.len() == 1 && !self.ids.iter().any(|id| raw.get().contains(id)) {
                continue;
            }
            let reference: Value = serde_json::from_str(raw.get()).unwrap_or_default();
            if self.ids.contains(reference_id(&reference)) {
                text.push_str(separator);
                text.push_str(raw.get());
                separator = ",";
            }
        }
        text.push_str("]}");
        text
    }

    /// Compares the inputs of a cluster with these references and profiles.
    pub(super) fn compare(&self, picked: &str, profiles: &Baseline, detail: Detail) -> ListEffect {
        let [old, new] = self.sides.map(|(kind, _)| {
            let mut document: Value = serde_json::from_str(picked).unwrap_or_default();
            profiles.merge(kind, &mut document);
            document
        });
        let [old, new] = [(self.sides[0], &old), (self.sides[1], &new)].map(|((kind, definitions), document)| List {
            inputs: inputs(kind, Seen::present_in(kind, definitions), document),
            cluster: None,
        });
        ListEffect::of(&old, &new, detail)
    }
}

/// The fields of a definition that decide which object Flux makes of an input, and where.
pub(super) fn object_fields(kind: &Kind) -> Vec<&String> {
    let rules = kind.flux.renders.iter();
    let rules = rules.flat_map(|rule| {
        let places = rule.recreated_on.iter();
        let places = places.flat_map(|(field, default)| [Some(field), default.as_ref()].into_iter().flatten());
        rule.when.keys().chain(places)
    });
    rules.chain(kind.flux.off.keys()).collect()
}
