//! Profiles that are valid, and probably not what was meant.

use serde_json::Value;

use super::{Profile, Profiles};
use crate::diagnose::Diagnostic;
use crate::inputs::{reference_id, references};
use crate::kind::{ADDS, EXCLUDED, Kind, PROFILES};
use crate::snapshot::Fleet;

/// What is suspicious about one profile.
pub(crate) fn warnings(fleet: &Fleet, profile: &Profile) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut warn = |code: &'static str, detail: String| {
        found.push(Diagnostic {
            code,
            kind: PROFILES.to_owned(),
            id: profile.id().to_string(),
            detail,
        });
    };
    let unknown = profile.selector.labels_unknown_to(fleet);
    if let Some(key) = unknown.first() {
        warn(
            "unmatched",
            format!("selects by the label \"{key}\", which no cluster has"),
        );
    } else if fleet.profiles().count(profile.id()) == 0 {
        warn("unmatched", "matches no cluster".to_owned());
    }
    for kind in fleet.kinds().definitions() {
        let own = references(kind, profile.value()).iter();
        let excluding = own.filter(|reference| is_excluding(reference));
        for id in excluding.map(reference_id) {
            if !fleet.profiles().excludes_something(profile, kind, id) {
                let detail = format!(
                    "excludes the {} \"{id}\", which no profile before it brings",
                    kind.singular
                );
                warn("excludes", detail);
            }
        }
    }
    for (other, what) in fleet.profiles().contradictions(fleet, profile) {
        let detail = format!(
            "says something else about {what} than the profile \"{}\" of the same priority: the later id counts",
            other.id()
        );
        warn("contradiction", detail);
    }
    found
}

impl Profiles {
    /// Whether a profile that comes before `profile` on some cluster brings the definition.
    fn excludes_something(&self, profile: &Profile, kind: &Kind, id: &str) -> bool {
        let groups = self.groups.values().filter(|group| group.baseline.has(profile.id()));
        groups.map(|group| group.baseline.profiles()).any(|profiles| {
            let before = profiles.iter().take_while(|other| other.id() != profile.id());
            before
                .flat_map(|other| references(kind, other.value()))
                .any(|reference| reference_id(reference) == id && brings(reference))
        })
    }

    /// Profiles of the same priority that share a cluster with `profile`, each with a field that they disagree on.
    fn contradictions(&self, fleet: &Fleet, profile: &Profile) -> Vec<(&Profile, String)> {
        let same_priority = self
            .iter()
            .filter(|other| other.priority == profile.priority && other.id() != profile.id());
        let share = |other: &Profile| {
            let mut groups = self.groups.values();
            groups.any(|group| group.baseline.has(profile.id()) && group.baseline.has(other.id()))
        };
        let disagree = same_priority.filter_map(|other| Some((&**other, disagreement(fleet, profile, other)?)));
        disagree.filter(|(other, _)| share(other)).collect()
    }
}

fn is_excluding(reference: &Value) -> bool {
    reference.get(EXCLUDED) == Some(&Value::Bool(true))
}

fn brings(reference: &Value) -> bool {
    !is_excluding(reference) && reference.get(ADDS) != Some(&Value::Bool(false))
}

/// A field that two profiles give different values, or a definition that one brings and the other excludes.
fn disagreement(fleet: &Fleet, one: &Profile, other: &Profile) -> Option<String> {
    let differing = |one: &Value, other: &Value| {
        let fields = one.as_object().into_iter().flatten();
        let mut both = fields.filter_map(|(name, value)| Some((name, value, other.get(name)?)));
        let differs = both.find(|(_, one, other)| one != other && !one.is_null() && !other.is_null());
        differs.map(|(name, _, _)| name.clone())
    };
    for kind in fleet.kinds().definitions() {
        for reference in references(kind, one.value()) {
            let id = reference_id(reference);
            let mut others = references(kind, other.value()).iter();
            let Some(theirs) = others.find(|other| reference_id(other) == id) else {
                continue;
            };
            if (is_excluding(reference) && brings(theirs)) || (brings(reference) && is_excluding(theirs)) {
                return Some(format!("whether clusters have the {} \"{id}\"", kind.singular));
            }
            if let Some(field) = differing(reference, theirs) {
                return Some(format!("{field} of the {} \"{id}\"", kind.singular));
            }
        }
    }
    let patches = one.value().get("patches").and_then(Value::as_object);
    patches.into_iter().flatten().find_map(|(id, values)| {
        let theirs = other.value().get("patches")?.get(id)?;
        Some(format!("the patch \"{}\" of \"{id}\"", differing(values, theirs)?))
    })
}
