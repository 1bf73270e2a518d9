//! A kind's document, read on its own: what can be known without the other kinds.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::built_in::{built_in, is_built_in, is_server_kind, profile_kind, server_kind_of};
use super::check::check;
use super::cost::{self, Scales};
use super::filters::{Filter, read_filters};
use super::names::{Names, name_of};
use super::registry::Trust;
use super::settings::Flux;
use super::validate::{compile, describe};
use super::{CLUSTERS, Kind, PROFILES, schema, text};
use crate::document::Etag;
use crate::inputs::DESIRED;
use crate::json::Json;
use crate::refusal::{Violation, segment};

/// Properties that an input has for another purpose, or that have a meaning in a file of documents.
pub(super) const RESERVED_PROPERTIES: [&str; 5] = ["kind", "schema", "cluster", "provider", "_id"];
/// Those that only an input has for another purpose: a nested property may have such a name.
pub(super) const INPUT_PROPERTIES: [&str; 2] = ["cluster", "provider"];

/// The fields of a reference that say how it is merged. They never reach an input.
pub const EXCLUDED: &str = "excluded";
pub const ADDS: &str = "adds";

/// The properties of clusters that the code uses. A kind's file that leaves one out gets it from the built-in file.
pub(super) const CLUSTER_NEEDS: [(&str, &str); 7] = [
    ("id", "string"),
    ("cluster_name", "string"),
    ("cluster_dns", "string"),
    ("environment", "string"),
    ("labels", "object"),
    ("protected", "boolean"),
    ("patches", "object"),
];

/// How clusters and profiles refer to definitions of a kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    pub(super) singular: String,
    /// The array of references.
    pub(super) array: String,
    /// The schema of one reference of a cluster.
    pub(super) schema: Arc<Value>,
    /// The schema of one reference of a profile.
    in_profile: Arc<Value>,
}

/// What schemas take from the other kinds.
pub(super) struct Surroundings<'a> {
    /// How clusters and profiles refer to each kind, by singular.
    pub(super) references: &'a BTreeMap<String, Reference>,
    /// The schema of a cluster's patches, which profiles have too.
    pub(super) patches: &'a Value,
}

impl Reference {
    pub(super) fn by_singular(self) -> (String, Reference) {
        (self.singular.clone(), self)
    }
}

/// A kind's document, read on its own.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) names: Names,
    pub(super) flux: Flux,
    filters: Vec<Filter>,
    /// The schema of one document as given, completed by [`Draft::supply`].
    pub(super) items: Map<String, Value>,
    /// The pointer of that schema in the kind's document.
    pub(super) at: &'static str,
}

impl Draft {
    pub(super) fn read(document: &Value, trust: Trust) -> Result<Draft, Vec<Violation>> {
        if trust == Trust::Given && !is_built_in(document) {
            check_patterns(document)?;
        }
        let mut errors = Vec::new();
        let name = name_of(document).or_else(|error| server_kind_of(document).map(str::to_owned).ok_or(error));
        let name = name.unwrap_or_else(|error| {
            errors.push(error);
            String::new()
        });
        let schema = &document["schema"];
        let (items, at) = items_of(schema);
        let Some(items) = items.as_object() else {
            let detail = "a kind needs a schema: an object with `properties`, or an array of such objects";
            errors.push(Violation::new(at, detail));
            return Err(errors);
        };
        if items.get("type").is_some_and(|kind| kind != "object") {
            errors.push(Violation::new(
                format!("{at}/type"),
                "must be \"object\": documents are objects",
            ));
        }
        if !items.get("properties").is_some_and(Value::is_object) {
            let detail = "is required: the properties of the kind, as an object";
            errors.push(Violation::new(format!("{at}/properties"), detail));
        }
        let flux = Flux::read(schema, &mut errors);
        let filters = read_filters(schema, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let given = document["kind"].as_str().unwrap_or_default();
        let mut draft = Draft {
            names: Names::new(given, &name, &flux),
            flux,
            filters,
            items: items.clone(),
            at,
            name,
        };
        draft.supply();
        let errors = check(&draft);
        if errors.is_empty() { Ok(draft) } else { Err(errors) }
    }

    pub(super) fn properties(&self) -> &Map<String, Value> {
        self.items["properties"].as_object().expect("read() saw an object")
    }

    pub(super) fn is_clusters(&self) -> bool {
        self.name == CLUSTERS
    }

    fn is_profiles(&self) -> bool {
        self.name == PROFILES
    }

    /// Whether its documents have references to other kinds.
    pub(super) fn has_references(&self) -> bool {
        self.is_clusters() || self.is_profiles()
    }

    /// Adds the properties that a kind's file may leave out: the id, and those of clusters that the code uses.
    fn supply(&mut self) {
        let clusters = self.is_clusters();
        let properties = self.items["properties"].as_object_mut().expect("read() saw an object");
        if clusters {
            let shipped = &built_in()[0]["schema"]["items"]["properties"];
            for (name, expected) in CLUSTER_NEEDS {
                let mut property = properties.entry(name).or_insert_with(|| shipped[name].clone());
                if property.get("schema").is_some_and(Value::is_object) {
                    property = &mut property["schema"];
                }
                if let Value::Object(property) = property {
                    property.entry("type").or_insert_with(|| expected.into());
                }
            }
        }
        properties.entry("id").or_insert_with(|| schema::base_id().clone());
        let required = self.items.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            let needed: &[&str] = match clusters {
                true => &["id", "cluster_name", "cluster_dns", "environment"],
                false => &["id"],
            };
            for name in needed {
                if !required.iter().any(|given| given == name) {
                    required.push((*name).into());
                }
            }
        }
    }

    /// How clusters and profiles refer to definitions of this kind. None if its documents are not definitions.
    pub(super) fn reference(&self) -> Option<Reference> {
        Some(Reference {
            singular: self.names.singular.clone(),
            array: self.names.references.clone()?,
            schema: self.reference_schema(false).into(),
            in_profile: self.reference_schema(true).into(),
        })
    }

    /// Null leaves a field to what is merged before. A cluster's own reference gets the defaults of carried fields when it is
    /// written; one in a profile gets none, because they would beat what other profiles say.
    fn reference_schema(&self, in_profile: bool) -> Value {
        let ignored = &mut Vec::new();
        let unresolved = |_: &str| Err(String::new());
        let mut properties = Map::new();
        properties.insert("id".into(), json!({"type": "string", "minLength": 1, "maxLength": 253}));
        for (name, carried) in &self.flux.carried {
            let own = schema::normalise(carried, "/schema/x-flux/carried", &unresolved, ignored);
            let mut field = schema::nullable(&own);
            if let (Some(default), false) = (own.get("default"), in_profile) {
                field["default"] = default.clone();
            }
            properties.insert(name.clone(), field);
        }
        for name in &self.flux.overridable {
            let own = schema::normalise(&self.properties()[name], self.at, &unresolved, ignored);
            properties.insert(name.clone(), schema::nullable(&own));
        }
        properties.insert(EXCLUDED.into(), schema::base("excluded").clone());
        if in_profile {
            properties.insert(ADDS.into(), schema::base("adds").clone());
        }
        json!({"type": "object", "required": ["id"], "properties": properties, "additionalProperties": false})
    }

    /// The JSON Schema of its documents. None if the whole schema is a `$ref`.
    pub(super) fn schema(
        &self,
        surroundings: &Surroundings<'_>,
        resolve: &dyn Fn(&str) -> Result<Value, String>,
        errors: &mut Vec<Violation>,
    ) -> Option<Value> {
        let mut schema = schema::normalise(&Value::Object(self.items.clone()), self.at, resolve, errors);
        let properties = schema["properties"].as_object_mut()?;
        if self.has_references() {
            for reference in surroundings.references.values() {
                self.add_array(reference, properties, errors);
            }
        }
        if self.is_profiles() {
            let mut patches = surroundings.patches.clone();
            patches.as_object_mut().and_then(|patches| patches.remove("default"));
            properties.insert("patches".into(), patches);
        }
        // A kind's file may restrict the id, but never allow more than a path segment.
        if let Some(Value::Object(id)) = properties.get_mut("id") {
            id.remove("default");
            for (key, value) in schema::base_id().as_object().expect("an object") {
                id.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        Some(schema)
    }

    /// Adds the array of references to one kind to the properties of clusters or profiles.
    fn add_array(&self, reference: &Reference, properties: &mut Map<String, Value>, errors: &mut Vec<Violation>) {
        let array = &reference.array;
        let given = properties.get(array).unwrap_or(&Value::Null);
        let is_needed = CLUSTER_NEEDS.iter().any(|(name, _)| name == array);
        if is_needed || given.get("type").is_some_and(|kind| kind != "array") {
            let pointer = format!("{}/properties/{array}", self.at);
            let detail = format!("\"{array}\" is the array of references of a kind, and must be an array");
            errors.push(Violation::new(pointer, detail));
            return;
        }
        let mut field = given.as_object().cloned().unwrap_or_default();
        field.insert("type".into(), "array".into());
        let schema = if self.is_profiles() {
            &reference.in_profile
        } else {
            &reference.schema
        };
        field.insert("items".into(), Value::clone(schema));
        field
            .entry("description")
            .or_insert_with(|| format!("References to {array}.").into());
        properties.insert(array.clone(), field.into());
    }

    /// Compiles the kind. Fails if the schema cannot be compiled, or if there are `errors` already.
    pub(super) fn into_kind(
        self,
        document: &Value,
        origin: Option<Arc<str>>,
        schema: Value,
        mut errors: Vec<Violation>,
    ) -> Result<Kind, Vec<Violation>> {
        let mut reserved = reserved(&self.name, &self.flux);
        // Stores hold kinds from before it was reserved, with such a property.
        if self.names.path.is_some() && schema["properties"].get(DESIRED).is_none() {
            reserved.push(DESIRED);
        }
        let mut fixed: Map<String, Value> = reserved.iter().map(|name| ((*name).to_owned(), false.into())).collect();
        fixed.insert("id".into(), schema::base_id().clone());
        let validator = compile(&json!({"allOf": [schema, {"properties": fixed}]}))
            .map_err(|detail| errors.push(Violation::new(self.at, detail)));
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(default) = property.get("default")
                && let Ok(own) = compile(property)
                && let Some(error) = own.iter_errors(default).next()
            {
                let pointer = format!("{}/properties{}/default", self.at, segment(name));
                errors.push(Violation::new(pointer, describe(&error)));
            }
        }
        let (Ok(validator), true) = (validator, errors.is_empty()) else {
            return Err(errors);
        };
        let document_json = Json::new(document);
        Ok(Kind {
            reference: self.reference(),
            depends: false,
            cost: OnceLock::new(),
            path: self.names.path,
            references: self.names.references,
            command: self.names.command,
            description: text(document, "/metadata/description"),
            descriptions: document["descriptions"].clone(),
            filters: self.filters,
            etag: Etag::of(&document_json),
            document: document_json,
            origin,
            schema,
            validator,
            name: self.name.into(),
            singular: self.names.singular,
            flux: self.flux,
        })
    }
}

/// The schema of one document of a kind, and its pointer: the kind's schema, or that of its items.
pub(super) fn items_of(schema: &Value) -> (&Value, &'static str) {
    match schema["type"].as_str() {
        Some("array") => (&schema["items"], "/schema/items"),
        _ => (schema, "/schema"),
    }
}

/// The properties that a document may not have, even if its schema is open: an input would have them twice.
pub(super) fn reserved<'a>(name: &str, flux: &'a Flux) -> Vec<&'a str> {
    if name == CLUSTERS || is_server_kind(name) {
        return vec!["kind", "_id"];
    }
    let own = flux.carried.keys().chain(flux.nest.keys()).map(String::as_str);
    own.chain(flux.patches.then_some("patches"))
        .chain(reserved_names(flux))
        .collect()
}

/// The names that no property of a kind with these settings may have.
pub(super) fn reserved_names(flux: &Flux) -> impl Iterator<Item = &str> {
    let is_nested = |name: &str| flux.nest.values().flatten().any(|field| field == name);
    let names = RESERVED_PROPERTIES.into_iter();
    names.filter(move |name| !(INPUT_PROPERTIES.contains(name) && is_nested(name)))
}

/// Names in a kind's document that the merge needs for itself: fields of references, the mark of an input, and fields of profiles.
/// Only checked when a kind is put, because stores hold older kinds.
pub(crate) fn names_of_the_merge(document: &Value) -> Vec<Violation> {
    const FIELDS: [&str; 3] = [EXCLUDED, ADDS, DESIRED];
    let (items, at) = items_of(&document["schema"]);
    let settings = &document["schema"]["x-flux"];
    let places = [
        (&items["properties"], format!("{at}/properties")),
        (&settings["carried"], "/schema/x-flux/carried".to_owned()),
        (&settings["nest"], "/schema/x-flux/nest".to_owned()),
    ];
    let mut found = Vec::new();
    for (place, pointer) in places {
        for name in FIELDS.iter().filter(|name| place.get(**name).is_some()) {
            let detail = format!("\"{name}\" has a meaning of its own in references or inputs");
            found.push(Violation::new(format!("{pointer}/{name}"), detail));
        }
    }
    let own = &profile_kind()["schema"]["items"]["properties"];
    if let Some(array) = settings["references"].as_str().filter(|array| own.get(array).is_some()) {
        let detail = format!("\"{array}\" cannot be an array: profiles have a field of that name");
        found.push(Violation::new("/schema/x-flux/references", detail));
    }
    found
}

/// Checks the cost of the patterns of the settings, which are compiled when the settings are read.
fn check_patterns(document: &Value) -> Result<(), Vec<Violation>> {
    let mut scales = Scales::new(cost::MOST_WEIGHT);
    scales.settings(document);
    let errors: Vec<_> = scales.faults.into_iter().chain(scales.too_heavy).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
