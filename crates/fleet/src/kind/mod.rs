//! A kind of resource, as its one YAML document describes it. Validation, routes, the Flux endpoint, filters and OpenAPI are all
//! derived from it; adding a kind needs no Rust.
//!
//! `draft` reads one document, `check` checks it on its own, `registry` builds all kinds of a fleet together, and `cost` limits
//! what they may cost. `outline` reads a document leniently, for clients.

mod built_in;
mod check;
mod cost;
mod draft;
mod filters;
mod fixed;
mod names;
mod outline;
mod registry;
pub mod schema;
mod settings;
mod validate;

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use regex::Regex;
use serde_json::Value;

#[cfg(test)]
pub(crate) use self::built_in::built_in_kinds;
pub(crate) use self::built_in::is_built_in;
pub use self::built_in::{BUILT_IN, built_in, built_in_origin, is_server_kind, profile_kind, server_kinds};
use self::cost::{Cost, Scales};
use self::draft::Reference;
pub(crate) use self::draft::names_of_the_merge;
pub use self::draft::{ADDS, EXCLUDED};
pub use self::filters::Filter;
pub use self::fixed::FixedSchema;
pub use self::names::{name_of, plural, singular};
pub use self::outline::Outline;
pub use self::registry::Kinds;
pub(crate) use self::registry::{Failures, Source, Trust};
pub(crate) use self::settings::unknown_settings;
pub use self::settings::{Flux, Render};
use crate::document::Etag;
use crate::identity::IDENTITIES;
use crate::json::Json;

/// The one kind that the others are assigned to.
pub const CLUSTERS: &str = "clusters";
/// What clusters get by what they are: each has a selector, and references as clusters do.
pub const PROFILES: &str = "profiles";
/// Changes to shared documents that go out wave by wave.
pub const ROLLOUTS: &str = "rollouts";
/// Limits on what one write may do to clusters.
pub const GUARDS: &str = "guards";
/// Kinds are stored beside the resources, under this name.
pub const KINDS: &str = "kinds";
/// The DNS names of deleted clusters, whose replies are empty from then on.
pub const DECOMMISSIONS: &str = "decommissions";
/// The DNS names that clusters gave up, each with its last inputs.
pub const RELEASED_NAMES: &str = "released_names";

/// The singular of a kind of records about DNS names that no cluster has. Writes to clusters create and end these records; a
/// request can only delete one.
pub fn name_record(kind: &str) -> Option<&'static str> {
    match kind {
        DECOMMISSIONS => Some("decommission"),
        RELEASED_NAMES => Some("released name"),
        _ => None,
    }
}

/// Whether documents of this kind are written by routes of their own, and not by batches, files, rollback and undo: records of DNS
/// names follow from clusters, and a revoked token must stay revoked.
pub fn has_own_routes(kind: &str) -> bool {
    name_record(kind).is_some() || kind == IDENTITIES
}

/// Whether rollback and undo leave documents of this kind as they are: also those of guards, so that no way back ends a freeze.
pub fn stays_on_rollback(kind: &str) -> bool {
    has_own_routes(kind) || kind == GUARDS
}

/// A kind, read and checked.
pub struct Kind {
    /// The plural: the name in routes, records, batches and the cluster's array.
    pub name: Arc<str>,
    pub singular: String,
    pub command: String,
    /// The last segment of its Flux endpoint; clusters and the kinds of the server have none.
    pub path: Option<String>,
    /// The array of references of clusters and profiles; only definitions have one.
    pub references: Option<String>,
    pub description: String,
    pub descriptions: Value,
    pub filters: Vec<Filter>,
    pub flux: Flux,
    /// The document as it was given.
    pub document: Json,
    pub etag: Etag,
    pub origin: Option<Arc<str>>,
    /// The JSON Schema of its documents.
    pub schema: Value,
    validator: Validator,
    /// How clusters and profiles refer to its documents; they themselves have none.
    reference: Option<Reference>,
    /// Whether its schema contains schemas of other kinds.
    depends: bool,
    cost: OnceLock<Cost>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The text at a pointer of a document; empty if there is none.
fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

impl Kind {
    /// What the kind costs every process. Computed on demand, unless this process put the kind.
    pub(crate) fn cost(&self) -> Cost {
        *self.cost.get_or_init(|| match is_built_in(&self.document.parse()) {
            true => Cost::OF_OURS,
            false => self.weighed(),
        })
    }

    fn weighed(&self) -> Cost {
        Scales::new(usize::MAX).kind(&self.document.parse(), &self.schema, "")
    }

    /// Whether every document that is valid under `old` is valid under this kind too. False if only the documents can tell.
    pub(crate) fn accepts_all_of(&self, old: &Kind) -> bool {
        self.schema == old.schema && draft::reserved(&self.name, &self.flux) == draft::reserved(&old.name, &old.flux)
    }

    /// Everything that decides how inputs are made, apart from the documents: equal settings make equal inputs.
    pub(crate) fn input_settings(&self) -> (Value, Option<String>, Option<String>) {
        let settings = self.document.parse()["schema"]["x-flux"].take();
        (settings, self.path.clone(), self.references.clone())
    }

    /// The ids that a definition depends on; none if the kind has no dependencies.
    pub(crate) fn dependencies<'v>(&self, definition: &'v Value) -> impl Iterator<Item = &'v str> {
        let field = self.flux.depends_on.as_ref().and_then(|field| definition.get(field));
        let ids = field.and_then(Value::as_array).into_iter().flatten();
        ids.filter_map(Value::as_str)
    }

    /// The kind of object that Flux makes of a definition, if the kind's file says it.
    pub fn renders(&self, definition: &Value) -> Option<&str> {
        self.render(|field| definition.get(field))
            .map(|rule| rule.object.as_str())
    }

    /// The rule for an input with these fields.
    pub(crate) fn render<'v>(&self, fields: impl Fn(&str) -> Option<&'v Value>) -> Option<&Render> {
        let holds = |rule: &&Render| {
            let matches = |(field, pattern): (&String, &Regex)| {
                let text = fields(field).and_then(Value::as_str);
                text.is_some_and(|text| pattern.is_match(text))
            };
            rule.when.iter().all(matches)
        };
        self.flux.renders.iter().find(holds)
    }

    /// An upper bound on the length that the kind adds to an input, beyond its definition and its reference.
    pub(crate) fn carried_len(&self) -> usize {
        let carried = self
            .flux
            .carried
            .iter()
            .map(|(name, schema)| name.len() + schema.to_string().len());
        carried
            .chain(self.flux.nest.keys().map(String::len))
            .map(|length| length + 8)
            .sum()
    }

    /// Whether the kind has a scalar field of this name: a selector may name those, besides labels.
    pub fn is_scalar_field(&self, name: &str) -> bool {
        let scalar = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "number" | "boolean"));
        self.schema["properties"]
            .get(name)
            .is_some_and(|property| match &property["type"] {
                Value::Array(types) => types.iter().all(|kind| scalar(kind) || kind == "null"),
                one => scalar(one),
            })
    }
}
