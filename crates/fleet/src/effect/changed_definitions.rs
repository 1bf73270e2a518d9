//! Definitions that a change writes, and what they mean for the clusters that use them.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use memchr::memchr;
use serde_json::Value;

use super::Detail;
use super::lists::{List, ListEffect, inputs};
use crate::inputs::reference_id;
use crate::json::{self, FieldFinder};
use crate::kind::Kind;
use crate::profile::Baseline;
use crate::snapshot::{Cluster, ClusterSet, Definitions, Fleet, Seen};

/// Definitions of one kind that a change writes. The kind exists before and after.
pub(super) struct ChangedDefinitions<'a> {
    pub(super) path: Arc<str>,
    array: FieldFinder<'a>,
    /// The kind and its definitions, before and after.
    sides: [(&'a Kind, &'a Definitions); 2],
    ids: &'a BTreeSet<&'a str>,
    /// Whether Flux may make other objects of the inputs. Any field of a rule counts: a cluster may override the other fields, so what the
    /// definition alone would become says nothing.
    pub(super) objects_may_differ: bool,
    pub(super) dependencies_differ: bool,
}

impl<'a> ChangedDefinitions<'a> {
    pub(super) fn new(before: &'a Fleet, after: &'a Fleet, kind: &str, ids: &'a BTreeSet<&'a str>) -> Option<Self> {
        let side = |fleet: &'a Fleet| Some((&**fleet.kinds().get(kind)?, fleet.definitions(kind)?));
        let (old, new) = (side(before)?, side(after)?);
        let mut changed = ChangedDefinitions {
            path: new.0.path.as_deref()?.into(),
            array: FieldFinder::new(new.0.references.as_deref()?),
            sides: [old, new],
            ids,
            objects_may_differ: false,
            dependencies_differ: false,
        };
        changed.objects_may_differ = changed.differ_in(object_fields);
        changed.dependencies_differ = changed.differ_in(|kind| kind.flux.depends_on.iter().collect());
        Some(changed)
    }

    /// The clusters that refer to any of them, themselves or by a profile.
    pub(super) fn users(&self, fleet: &Fleet) -> ClusterSet {
        let kind = &self.sides[1].0.name;
        self.ids.iter().map(|id| fleet.users(kind, id)).collect()
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

    /// Of a cluster's own references, only those to these definitions: `{"<array>":[…]}`. Parsing whole documents would take most of the
    /// time of a plan.
    pub(super) fn pick(&self, cluster: &Cluster) -> String {
        let has_own = cluster.own(&self.sides[1].0.name) > 0;
        let array = has_own.then(|| self.array.array(&cluster.document().body));
        let mut text = String::from("{");
        json::write_str(self.array.name(), &mut text);
        text.push_str(":[");
        let mut separator = "";
        for reference in pick_references(array.flatten().unwrap_or("[]"), self.ids) {
            text.push_str(separator);
            text.push_str(reference);
            separator = ",";
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

/// The references of an array to some ids, as text. Only those that have an id in their text are parsed: to parse all of them
/// would take most of the time of a comparison.
pub(super) fn pick_references<'a, I: Borrow<str> + Ord>(array: &'a str, ids: &BTreeSet<I>) -> Vec<&'a str> {
    // Texts from elsewhere may have escapes.
    let has_escapes = memchr(b'\\', array.as_bytes()).is_some();
    let may_refer = |text: &&str| has_escapes || ids.iter().any(|id| text.contains(id.borrow()));
    let refers = |text: &&str| {
        let reference = serde_json::from_str::<Value>(text);
        reference.is_ok_and(|reference| ids.contains(reference_id(&reference)))
    };
    json::elements(array).filter(may_refer).filter(refers).collect()
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
