//! Which version of each definition a cluster has, and what says so.

use crate::inputs::{Effective, reference_id, references};
use crate::kind::{EXCLUDED, Kind};
use crate::snapshot::View;
use serde_json::Value;

/// The version of one definition on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Of the definition.
    pub id: String,
    pub version: String,
    pub source: Source,
}

/// What sets a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The definition, as it is.
    Definition,
    /// A profile.
    Profile,
    /// The cluster's own reference.
    Cluster,
    /// The definition, as this rollout patches it.
    Rollout(String),
}

impl Source {
    pub const fn name(&self) -> &'static str {
        match self {
            Source::Definition => "definition",
            Source::Profile => "profile",
            Source::Cluster => "cluster",
            Source::Rollout(_) => "rollout",
        }
    }
}

impl Kind {
    /// The field whose value is a version: a tag or a version, one that clusters may override first.
    pub fn version_field(&self) -> Option<&str> {
        let is_version =
            |name: &&str| ["version", "tag"].contains(name) || name.ends_with("_version") || name.ends_with("_tag");
        let overridable = self.flux.overridable.iter().map(String::as_str);
        let all = self.schema["properties"].as_object().into_iter().flatten();
        overridable.chain(all.map(|(name, _)| name.as_str())).find(is_version)
    }
}

/// The versions of all definitions of a kind that a cluster has.
pub fn versions(kind: &Kind, field: &str, view: &View<'_>) -> Vec<Version> {
    let Some(definitions) = view.definitions(&kind.name) else {
        return Vec::new();
    };
    let merged = view.effective_for(kind);
    let own = view.baseline().map(|_| view.cluster().document().body.parse());
    let set = |reference: &Value| reference.get(field).filter(|value| !value.is_null()).cloned();
    let sets_itself = |id: &str| match &own {
        // Without profiles, the merged document is the cluster's own.
        None => true,
        Some(own) => {
            let mut own = references(kind, own).iter();
            own.any(|reference| reference_id(reference) == id && set(reference).is_some())
        }
    };
    let present = references(kind, &merged)
        .iter()
        .filter(|reference| reference.get(EXCLUDED) != Some(&Value::Bool(true)));
    let found = present.filter_map(|reference| {
        let id = reference_id(reference);
        let definition = definitions.get(id)?;
        // What is turned off is not there.
        if Effective::new(kind, definition.value(), reference, &merged).is_off() {
            return None;
        }
        let (version, source) = match set(reference) {
            Some(version) if sets_itself(id) => (version, Source::Cluster),
            Some(version) => (version, Source::Profile),
            None => {
                let version = definition.value().get(field).cloned().unwrap_or_default();
                // A rollout may patch something else of the definition.
                let present = definitions
                    .present(id)
                    .map(|present| present.value().get(field).cloned().unwrap_or_default());
                let patches = present.as_ref() != Some(&version);
                let rollout = definitions.rollout(id).filter(|_| patches);
                let source = rollout.map_or(Source::Definition, |rollout| Source::Rollout(rollout.to_owned()));
                (version, source)
            }
        };
        let version = match version {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        Some(Version {
            id: id.to_owned(),
            version,
            source,
        })
    });
    found.collect()
}
