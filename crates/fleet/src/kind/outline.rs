//! The document of a kind, read leniently: for clients, which may be older than their server.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::draft::items_of;
use super::filters::{Filter, read_filters};
use super::names::{self, Names};
use super::{Flux, schema, text};

/// The content of a kind's document. Parts that this release cannot read are left out.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The plural.
    pub name: String,
    pub singular: String,
    pub command: String,
    /// The last segment of its Flux endpoint; clusters have none.
    pub path: Option<String>,
    /// The cluster's array of references; clusters have none.
    pub references: Option<String>,
    pub description: String,
    /// The schemas of its properties.
    pub properties: Map<String, Value>,
    pub required: Vec<String>,
    pub filters: Vec<Filter>,
    /// The schemas of the fields that only a reference has.
    pub carried: BTreeMap<String, Value>,
    pub flux: Flux,
}

impl Outline {
    pub fn read(document: &Value) -> Outline {
        let given = document["kind"].as_str().unwrap_or_default();
        let schema = &document["schema"];
        let flux = Flux::read_leniently(&schema["x-flux"]);
        let name = flux.plural.clone().unwrap_or_else(|| names::plural(given));
        let names = Names::new(given, &name, &flux);
        let (items, _) = items_of(schema);
        let properties = items["properties"].as_object().into_iter().flatten();
        let required = items["required"].as_array().into_iter().flatten();
        Outline {
            singular: names.singular,
            command: names.command,
            path: names.path,
            references: names.references,
            description: text(document, "/metadata/description"),
            properties: properties
                .map(|(name, schema)| (name.clone(), normalised(schema)))
                .collect(),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
            filters: read_filters(schema, &mut Vec::new()),
            carried: flux
                .carried
                .iter()
                .map(|(name, schema)| (name.clone(), normalised(schema)))
                .collect(),
            name,
            flux,
        }
    }
}

/// A schema without Firestone's wrappers. A `$ref` becomes a schema that allows anything.
fn normalised(given: &Value) -> Value {
    schema::normalise(given, "", &|_| Ok(json!({})), &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::kind::{KINDS, built_in, name_of};
    use crate::log::{Head, Resource, State};

    #[test]
    fn the_built_in_kinds_are_read_as_the_strict_reader_reads_them() {
        let resources = built_in().iter().map(|document| Resource {
            kind: KINDS.into(),
            id: name_of(document).unwrap_or_default().into(),
            body: Json::new(document),
            origin: None,
        });
        let state = State {
            head: Head::default(),
            resources: resources.collect(),
            ..State::default()
        };
        let fleet = crate::Fleet::load(state).expect("the built-in kinds make a fleet");
        assert_eq!(
            fleet.kinds().iter().count(),
            built_in().len() + 3,
            "with profiles, guards and rollouts"
        );
        for kind in fleet.kinds().iter() {
            let outline = Outline::read(&kind.document.parse());
            assert_eq!(outline.name, *kind.name);
            assert_eq!(outline.singular, kind.singular);
            assert_eq!(outline.command, kind.command);
            assert_eq!(outline.path, kind.path);
            assert_eq!(outline.references, kind.references);
            assert_eq!(outline.description, kind.description);
            assert_eq!(outline.filters.len(), kind.filters.len());
            for (name, schema) in &outline.properties {
                let strict = &kind.schema["properties"][name];
                assert_eq!(schema["type"], strict["type"], "{name}");
                assert_eq!(schema["description"], strict["description"], "{name}");
            }
        }
    }

    #[test]
    fn any_document_can_be_read() {
        for odd in [
            json!(null),
            json!({"kind": 1, "schema": []}),
            json!({"kind": "x", "schema": {"properties": [], "required": 1, "query_params": {}, "x-flux": 1}}),
        ] {
            Outline::read(&odd);
        }
        let outline = Outline::read(&json!({"kind": "policy"}));
        assert_eq!(
            (outline.name.as_str(), outline.command.as_str()),
            ("policies", "policy")
        );
    }
}
