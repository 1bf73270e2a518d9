//! The schemas that operations refer to.

use fleet::kind::{CLUSTERS, Kind, Kinds};
use fleet::selector::MOST_BYTES;
use serde_json::{Map, Value, json};

use super::convert::to_openapi;
use super::plan;
use crate::config::Mode;
use crate::http::observe::MOST_REASON;
use crate::http::problem::Problem;
use crate::http::request::MOST_NUMBER;

/// A schema of the components, by its name.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub fn text() -> Value {
    json!({"type": "string"})
}

pub fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = description.into();
    schema
}

pub fn integer() -> Value {
    json!({"type": "integer", "format": "int64"})
}

/// A number that the server reads.
pub fn number(least: u64) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": least, "maximum": MOST_NUMBER})
}

pub fn flag() -> Value {
    json!({"type": "boolean"})
}

pub fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object of which only the required fields are known.
pub fn object(required: &[&str], properties: Value) -> Value {
    let mut out = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        out["required"] = json!(required);
    }
    out
}

pub fn any_object() -> Value {
    json!({"type": "object"})
}

/// A selector. It also has bounds that a schema cannot express: 64 requirements, and 256 values in all of them.
pub fn selector() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MOST_BYTES})
}

/// The reason of a write in its body.
pub fn reason() -> Value {
    json!({"type": "string", "maxLength": MOST_REASON, "nullable": true, "description": "Why; kept in the log."})
}

/// All schemas of a server in this mode.
pub fn components(kinds: &Kinds, mode: Mode) -> Map<String, Value> {
    let mut schemas = Map::new();
    schemas.insert("problem".into(), Problem::schema());
    schemas.insert("removals".into(), plan::removals());
    schemas.insert("guard_limit".into(), plan::guard_limit());
    for kind in kinds.definitions() {
        schemas.insert(format!("{}_input", kind.singular), input(kind));
    }
    if mode == Mode::Crud {
        resources(kinds, &mut schemas);
        schemas.insert("change".into(), change());
        schemas.insert("revision".into(), revision());
        schemas.extend(plan::schemas().map(|(name, schema)| (name.to_owned(), schema)));
        schemas.extend(super::describe::changes::batch_schemas());
        schemas.extend(super::describe::identities::identity_schemas());
    }
    schemas
}

/// Each kind, and the references of clusters to it.
fn resources(kinds: &Kinds, schemas: &mut Map<String, Value>) {
    for kind in kinds.iter() {
        schemas.insert(kind.singular.clone(), to_openapi(&kind.schema));
    }
    let Some(clusters) = kinds.get(CLUSTERS) else { return };
    for kind in kinds.definitions() {
        let Some(array) = &kind.references else { continue };
        let name = format!("{}_ref", kind.singular);
        let mut schema = to_openapi(&clusters.schema["properties"][array]["items"]);
        if let Some(example) = kind.schema["properties"]["id"].get("example") {
            schema["properties"]["id"]["example"] = example.clone();
        }
        // The array of the cluster points to this schema instead of repeating it.
        if let Some(cluster) = schemas.get_mut(&clusters.singular) {
            cluster["properties"][array]["items"] = reference(&name);
        }
        schemas.insert(name, schema);
    }
}

pub fn change() -> Value {
    let document = json!({"type": "object", "nullable": true});
    json!({
        "type": "object",
        "description": "What one revision did to one resource.",
        "required": ["revision", "index", "at", "actor", "request_id", "action", "kind", "id", "before", "after", "reason"],
        "properties": {
            "revision": integer(),
            "index": described("The position of the change in its revision.", integer()),
            "at": {"type": "string", "format": "date-time"},
            "actor": text(),
            "request_id": text(),
            "action": {"type": "string", "enum": ["create", "update", "delete"]},
            "kind": text(),
            "id": text(),
            "origin": described("What wrote it, if it was not a request.", text()),
            "before": document,
            "after": document,
            "reason": {"type": "string", "nullable": true},
            "undoes": undoes(),
            "redoes": redoes(),
            "overrides": overrides(),
        },
    })
}

fn undoes() -> Value {
    described("The revision that it undoes, if it is an undo.", integer())
}

fn redoes() -> Value {
    described("The revision that it makes again, if it is a redo.", integer())
}

fn overrides() -> Value {
    described("The guards that its author overrode, if any.", array(text()))
}

fn revision() -> Value {
    let counts = json!({"create": integer(), "update": integer(), "delete": integer()});
    let counts = object(&["create", "update", "delete"], counts);
    let properties = json!({
        "revision": integer(),
        "at": {"type": "string", "format": "date-time"},
        "actor": text(),
        "request_id": text(),
        "reason": {"type": "string", "nullable": true},
        "undoes": undoes(),
        "redoes": redoes(),
        "overrides": overrides(),
        "undone_by": described("The later revision that undoes it. Absent: it was not undone, or redone since.", integer()),
        "redone_by": described("For an undo: the later revision that undoes it.", integer()),
        "changes": {
            "type": "object",
            "description": "How many resources it creates, updates and deletes, by kind.",
            "additionalProperties": counts,
        },
    });
    let required = ["revision", "at", "actor", "request_id", "reason", "changes"];
    described("A revision, without its documents.", object(&required, properties))
}

/// One input of a kind, as the merge makes it.
fn input(kind: &Kind) -> Value {
    let mut properties = Map::new();
    let fields = kind.schema["properties"].as_object().into_iter().flatten();
    for (name, property) in fields {
        properties.insert(name.clone(), to_openapi(property));
    }
    for (name, schema) in &kind.flux.carried {
        properties.insert(name.clone(), to_openapi(schema));
    }
    for (target, fields) in &kind.flux.nest {
        let inner = fields.iter().filter_map(|field| properties.remove_entry(field));
        let inner: Map<String, Value> = inner.collect();
        properties.insert(target.clone(), json!({"type": "object", "properties": inner}));
    }
    if kind.flux.patches {
        let patches = json!({"type": "object", "additionalProperties": true, "example": {"replicaCount": "3"}});
        properties.insert("patches".into(), patches);
    }
    let example = |example: &str| json!({"type": "string", "example": example});
    let cluster = json!({
        "name": example("demo-cluster-01"),
        "dns": example("demo-cluster-01.k8s.example.com"),
        "environment": example("dev"),
    });
    properties.insert("cluster".into(), object(&["name", "dns", "environment"], cluster));
    let mark = json!({
        "type": "string",
        "pattern": "^[0-9a-f]{16}$",
        "example": "6b1f0a5d93c2e874",
        "description": "A digest of the path and of the input without `desired`.",
    });
    let desired = object(&["input"], json!({"input": mark}));
    // A store may hold a kind from before the name was reserved, with such a property.
    properties
        .entry("desired")
        .or_insert_with(|| described("Only with marked=true.", desired));
    object(&["id", "cluster"], properties.into())
}
