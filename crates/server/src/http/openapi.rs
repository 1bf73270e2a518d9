//! The OpenAPI document (3.0.3), made from the kinds that exist.
// Schemas are made where they are passed; references would only add ampersands.
#![allow(clippy::needless_pass_by_value)]

use fleet::kind::{CLUSTERS, DECOMMISSIONS, Kind, Kinds, RELEASED_NAMES};
use fleet::selector::MOST_BYTES;
use serde_json::{Map, Value, json};

use crate::config::Mode;

/// Describes every route of this mode.
pub fn document(kinds: &Kinds, mode: Mode) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    service_paths(&mut paths);
    flux_paths(kinds, &mut paths);
    if mode == Mode::Crud {
        for kind in kinds.iter() {
            schemas.insert(kind.singular.clone(), to_openapi(&kind.schema));
            resource_paths(kind, &mut paths);
        }
        for kind in kinds.definitions() {
            if let (Some(array), Some(clusters)) = (&kind.references, kinds.get(CLUSTERS)) {
                let mut reference = to_openapi(&clusters.schema["properties"][array]["items"]);
                if let Some(example) = kind.schema["properties"]["id"].get("example") {
                    reference["properties"]["id"]["example"] = example.clone();
                }
                schemas.insert(format!("{}_ref", kind.singular), reference);
            }
        }
        link_references(kinds, &mut schemas);
        admin_paths(&mut paths);
        feed_paths(&mut paths);
        schemas.insert("change".into(), change_schema());
        schemas.insert("dry_run".into(), dry_run_schema());
        schemas.extend(effect_schemas().map(|(name, schema)| (name.to_owned(), schema)));
    }
    schemas.insert("problem".into(), problem_schema());
    schemas.insert("removals".into(), removals_schema());
    for kind in kinds.definitions() {
        schemas.insert(format!("{}_input", kind.singular), input_schema(kind));
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "flux-resourceset",
            "description": "The desired state of a whole fleet of Kubernetes clusters behind one API.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0"},
        },
        "tags": tags(kinds, mode),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "read": {"type": "http", "scheme": "bearer", "description": "AUTH_TOKEN, or any token that writes"},
                "write": {"type": "http", "scheme": "bearer", "description": "CRUD_AUTH_TOKEN"},
            },
        },
    })
}

fn tags(kinds: &Kinds, mode: Mode) -> Value {
    let mut tags = vec![
        json!({"name": "flux", "description": "What Flux Operator polls."}),
        json!({"name": "service", "description": "Probes, metrics and this document."}),
    ];
    if mode == Mode::Crud {
        tags.push(json!({"name": "changes", "description": "Batches, and the log of every change."}));
        tags.push(json!({"name": "kinds", "description": "The kinds of resources themselves."}));
        for kind in kinds.iter() {
            let description = if kind.description.is_empty() {
                &*kind.name
            } else {
                &kind.description
            };
            tags.push(json!({"name": &*kind.name, "description": description}));
        }
    }
    Value::Array(tags)
}

/// The classes of diagnostics.
const DIAGNOSTICS: [&str; 8] = [
    "dangling",
    "stalled",
    "unused",
    "ignored",
    "contract",
    "template",
    "duplicate",
    "unmet",
];

/// What OpenAPI 3.0 takes from JSON Schema as it is.
const KEPT: [&str; 21] = [
    "default",
    "deprecated",
    "description",
    "enum",
    "example",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// JSON Schema has more than OpenAPI 3.0 knows: lists of types become `nullable` or `anyOf`, the rest is left out.
fn to_openapi(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("type", Value::Array(types)) => {
                        let named: Vec<_> = types.iter().filter(|kind| *kind != "null").collect();
                        if named.len() < types.len() {
                            out.insert("nullable".into(), true.into());
                        }
                        match named.as_slice() {
                            [one] => out.insert("type".into(), (*one).clone()),
                            many => out.insert("anyOf".into(), many.iter().map(|kind| json!({"type": kind})).collect()),
                        };
                    }
                    ("const", value) => {
                        out.insert("enum".into(), json!([value]));
                    }
                    ("properties", Value::Object(properties)) => {
                        let properties = properties
                            .iter()
                            .map(|(name, property)| (name.clone(), to_openapi(property)));
                        out.insert("properties".into(), properties.collect::<Map<_, _>>().into());
                    }
                    ("items" | "additionalProperties" | "not", value) => {
                        out.insert(key.clone(), to_openapi(value));
                    }
                    ("anyOf" | "oneOf" | "allOf", Value::Array(options)) => {
                        out.insert(key.clone(), options.iter().map(to_openapi).collect());
                    }
                    (key, value) if KEPT.contains(&key) => {
                        out.insert(key.to_owned(), value.clone());
                    }
                    _ => {}
                }
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

/// The cluster's arrays point at the schemas of the references instead of repeating them.
fn link_references(kinds: &Kinds, schemas: &mut Map<String, Value>) {
    let Some(cluster) = kinds.get(CLUSTERS).and_then(|kind| schemas.get_mut(&kind.singular)) else {
        return;
    };
    for kind in kinds.definitions() {
        if let Some(array) = &kind.references {
            let target = format!("#/components/schemas/{}_ref", kind.singular);
            cluster["properties"][array]["items"] = json!({"$ref": target});
        }
    }
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error, as RFC 9457 describes it.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "example": "/problems/invalid"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "Where: a JSON pointer into what was sent."},
                        "detail": {"type": "string"},
                    },
                },
            },
            "clusters": {"type": "array", "description": "The clusters that are in the way.", "items": {"type": "string"}},
            "resources": {"type": "array", "description": "The resources that are in the way, as kind/id.", "items": {"type": "string"}},
            "removals": {"$ref": "#/components/schemas/removals"},
        },
        "example": {
            "type": "/problems/invalid",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "/id: \"Team_Sandbox\" does not match \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"",
            "errors": [{"pointer": "/id", "detail": "\"Team_Sandbox\" does not match \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\""}],
        },
    })
}

fn dry_run_schema() -> Value {
    json!({
        "type": "object",
        "description": "The plan of a write: what it would do.",
        "required": ["plan", "base", "changes", "clusters", "totals", "removals", "relabelled", "warnings"],
        "properties": {
            "plan": {"type": "string", "description": "Stands for the effect, for If-Plan-Match."},
            "base": {"type": "integer", "description": "The revision it was judged against."},
            "changes": {"type": "array", "items": {"$ref": "#/components/schemas/change"}},
            "clusters": {"type": "array", "items": {"$ref": "#/components/schemas/cluster_effect"}},
            "totals": {"$ref": "#/components/schemas/effect_totals"},
            "removals": {
                "allOf": [
                    {"$ref": "#/components/schemas/removals"},
                    {"type": "object", "properties": {"clusters": {"type": "array", "items": {"type": "string"}}}},
                ],
            },
            "relabelled": {"$ref": "#/components/schemas/effect_relabelled"},
            "warnings": {"type": "array", "items": {"$ref": "#/components/schemas/effect_warning"}},
        },
    })
}

fn removals_schema() -> Value {
    json!({
        "type": "object",
        "description": "What a change takes from clusters, against REMOVAL_BUDGET.",
        "required": ["count", "window", "budget"],
        "properties": {
            "count": {"type": "integer", "description": "Clusters that the change itself takes something from: what X-Confirm-Removals confirms."},
            "window": {"type": "integer", "description": "The same, with what was removed within REMOVAL_WINDOW."},
            "budget": {"type": "integer", "nullable": true, "description": "null: there is none."},
        },
    })
}

/// The parts of a plan, which a difference between two revisions has too.
fn effect_schemas() -> [(&'static str, Value); 5] {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let ids = json!({"type": "array", "items": text});
    let any = json!({"nullable": true});
    let field = json!({"type": "object", "required": ["pointer"], "properties": {"pointer": text, "before": any, "after": any}});
    let changed = json!({
        "type": "object",
        "required": ["id", "fields"],
        "properties": {"id": text, "fields": {"type": "array", "items": field}},
    });
    let list = json!({
        "type": "object",
        "required": ["added", "removed", "changed"],
        "properties": {
            "added": ids, "removed": ids, "changed": {"type": "array", "items": changed},
            "unanswered": {"type": "boolean", "description": "No kind has the path any more: it is answered 404."},
        },
    });
    let cluster = json!({
        "type": "object",
        "description": "What a change does to one cluster's inputs.",
        "required": ["id", "dns", "environment", "deleted", "inputs"],
        "properties": {
            "id": text, "dns": text, "environment": text,
            "deleted": {"type": "boolean", "description": "Whether the change decommissions it."},
            "inputs": {"type": "object", "description": "By path.", "additionalProperties": list},
            "objects": {
                "description": "With manifests=true: the Kubernetes objects, as Kind/namespace/name.",
                "anyOf": [list, {"type": "object", "required": ["error"], "properties": {"error": text}}],
            },
        },
    });
    let sums = json!({
        "type": "object",
        "properties": {"clusters": number, "added": number, "removed": number, "changed": number},
    });
    let totals = json!({
        "type": "object",
        "required": ["clusters", "by_environment", "by_kind", "warnings"],
        "properties": {
            "clusters": number,
            "by_environment": {"type": "object", "description": "Clusters.", "additionalProperties": number},
            "by_kind": {"type": "object", "description": "Inputs, by path.", "additionalProperties": sums},
            "warnings": number,
        },
    });
    let relabelled = json!({
        "type": "object",
        "description": "Clusters that selectors see otherwise: a provisioner's list that goes by one of these keys may lose or gain them. Not counted as removals.",
        "required": ["count", "keys", "clusters"],
        "properties": {
            "count": number,
            "keys": {"type": "array", "description": "The labels and fields that change.", "items": text},
            "clusters": ids,
        },
    });
    let warning = json!({
        "type": "object",
        "required": ["cluster", "kind", "id", "detail"],
        "properties": {"cluster": text, "kind": text, "id": text, "detail": text},
    });
    let revisions = json!({
        "type": "object",
        "description": "What differs between two revisions.",
        "required": ["from", "to", "changes", "clusters", "totals", "relabelled", "warnings"],
        "properties": {
            "from": number, "to": number,
            "changes": {"type": "array", "items": {"type": "object"}},
            "clusters": {"type": "array", "items": {"$ref": "#/components/schemas/cluster_effect"}},
            "totals": {"$ref": "#/components/schemas/effect_totals"},
            "relabelled": {"$ref": "#/components/schemas/effect_relabelled"},
            "warnings": {"type": "array", "items": {"$ref": "#/components/schemas/effect_warning"}},
        },
    });
    [
        ("cluster_effect", cluster),
        ("effect_totals", totals),
        ("effect_relabelled", relabelled),
        ("effect_warning", warning),
        ("difference", revisions),
    ]
}

fn change_schema() -> Value {
    json!({
        "type": "object",
        "description": "What one revision did to one resource.",
        "required": ["revision", "index", "at", "actor", "request_id", "action", "kind", "id", "before", "after", "reason"],
        "properties": {
            "revision": {"type": "integer"},
            "index": {"type": "integer", "description": "The place of the change in its revision."},
            "at": {"type": "string", "format": "date-time"},
            "actor": {"type": "string"},
            "request_id": {"type": "string"},
            "action": {"type": "string", "enum": ["create", "update", "delete"]},
            "kind": {"type": "string"},
            "id": {"type": "string"},
            "origin": {"type": "string", "description": "What wrote it, when that was not a request."},
            "before": {"type": "object", "nullable": true},
            "after": {"type": "object", "nullable": true},
            "reason": {"type": "string", "nullable": true},
        },
    })
}

/// One input of a kind, as the merge makes it.
fn input_schema(kind: &Kind) -> Value {
    let mut properties = Map::new();
    let fields = kind.schema["properties"].as_object().into_iter().flatten();
    for (name, property) in fields {
        properties.insert(name.clone(), to_openapi(property));
    }
    for (name, schema) in &kind.flux.carried {
        properties.insert(name.clone(), to_openapi(schema));
    }
    for (target, fields) in &kind.flux.nest {
        let inner: Map<String, Value> = fields
            .iter()
            .filter_map(|field| properties.remove_entry(field))
            .collect();
        properties.insert(target.clone(), json!({"type": "object", "properties": inner}));
    }
    if kind.flux.patches {
        properties.insert(
            "patches".into(),
            json!({"type": "object", "additionalProperties": true, "example": {"replicaCount": "3"}}),
        );
    }
    properties.insert(
        "cluster".into(),
        json!({
            "type": "object",
            "required": ["name", "dns", "environment"],
            "properties": {
                "name": {"type": "string", "example": "demo-cluster-01"},
                "dns": {"type": "string", "example": "demo-cluster-01.k8s.example.com"},
                "environment": {"type": "string", "example": "dev"},
            },
        }),
    );
    json!({"type": "object", "required": ["id", "cluster"], "properties": properties})
}

/// Builds the description of one operation.
struct Operation {
    tag: String,
    id: String,
    summary: String,
    security: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
}

impl Operation {
    fn new(tag: &str, id: impl Into<String>, summary: impl Into<String>) -> Self {
        Operation {
            tag: tag.to_owned(),
            id: id.into(),
            summary: summary.into(),
            security: None,
            parameters: Vec::new(),
            body: None,
            responses: Map::new(),
        }
    }

    fn reads(mut self) -> Self {
        self.security = Some("read");
        self.problem(401, "No token, or one that is not known.")
    }

    fn writes(mut self) -> Self {
        self.security = Some("write");
        self.parameters.push(query(
            "dry_run",
            "Say what would change, and change nothing.",
            &json!({"type": "boolean"}),
        ));
        self.parameters.push(json!({
            "name": "X-Change-Reason", "in": "header", "description": "Why; kept in the log.",
            "schema": {"type": "string", "maxLength": 1024},
        }));
        for (name, description, schema) in [
            (
                "If-Plan-Match",
                "Only if the write still does what this plan said.",
                json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            ),
            (
                "X-Confirm-Removals",
                "The number of clusters that are known to lose something, where the removal budget asks for it.",
                json!({"type": "integer", "minimum": 0}),
            ),
        ] {
            self.parameters
                .push(json!({"name": name, "in": "header", "description": description, "schema": schema}));
        }
        let manifests = "Of a dry run: also the Kubernetes objects that would change, for 100 clusters unless limit says otherwise.";
        self.parameters
            .push(query("manifests", manifests, &json!({"type": "boolean"})));
        for (name, description, least) in [
            ("limit", "Of a dry run: how many clusters.", 1),
            ("offset", "Of a dry run: from which cluster on.", 0),
        ] {
            let number = json!({"type": "integer", "minimum": least});
            self.parameters.push(query(name, description, &number));
        }
        self.problem(400, "The request cannot be read.")
            .problem(401, "No token, or one that is not known.")
            .problem(403, "A token that only reads.")
            .problem(
                409,
                "More clusters would lose something than was confirmed, or one is protected.",
            )
            .problem(412, "The write would not do what its plan said.")
            .problem(503, "The store cannot take it at the moment.")
    }

    fn path(mut self, name: &str, description: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"},
        }));
        self
    }

    fn query(mut self, name: &str, description: &str, schema: &Value) -> Self {
        self.parameters.push(query(name, description, schema));
        self
    }

    fn paged(self) -> Self {
        self.query(
            "limit",
            "The most records to return.",
            &json!({"type": "integer", "minimum": 1}),
        )
        .query(
            "offset",
            "How many records to skip.",
            &json!({"type": "integer", "minimum": 0}),
        )
    }

    fn header(mut self, name: &str, description: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "header", "description": description, "schema": {"type": "string"},
        }));
        self
    }

    fn if_match(mut self) -> Self {
        self.parameters.push(json!({
            "name": "If-Match", "in": "header", "description": "Only if the resource is still in this version (its ETag).",
            "schema": {"type": "string"},
        }));
        self.problem(412, "The resource is in another version by now.")
    }

    fn body(mut self, content: Value) -> Self {
        self.body = Some(json!({"required": true, "content": content}));
        self.problem(413, "The body is too large.")
            .problem(415, "A content type that is not known here.")
            .problem(422, "The document is invalid, each problem with its pointer.")
    }

    fn answer(mut self, status: u16, description: &str, schema: Value) -> Self {
        let content = json!({"application/json": {"schema": schema}});
        self.responses.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
        self
    }

    /// What a write that answers with another status says with `dry_run`.
    fn dry_run(self) -> Self {
        self.answer(200, "The dry run.", json!({"$ref": "#/components/schemas/dry_run"}))
    }

    fn answer_plain(mut self, status: u16, description: &str) -> Self {
        self.responses
            .insert(status.to_string(), json!({"description": description}));
        self
    }

    fn answer_either(mut self, status: u16, description: &str, content: &[(&str, Value)]) -> Self {
        let content: Map<_, _> = content
            .iter()
            .map(|(kind, schema)| ((*kind).to_owned(), json!({"schema": schema})))
            .collect();
        self.responses.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
        self
    }

    fn answer_text(mut self, status: u16, description: &str, kind: &str) -> Self {
        let content = json!({kind: {"schema": {"type": "string"}}});
        self.responses.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
        self
    }

    /// The same answer in another form, for who asks for it.
    fn or_as(mut self, status: u16, kind: &str, schema: Value) -> Self {
        if let Some(response) = self.responses.get_mut(&status.to_string()) {
            response["content"][kind] = json!({"schema": schema});
        }
        self
    }

    /// A read that takes the token for writing.
    fn reads_everything(mut self) -> Self {
        self.security = Some("write");
        self.problem(401, "No token, or one that is not known.")
            .problem(403, "A token that only reads.")
    }

    fn problem(mut self, status: u16, description: &str) -> Self {
        let content = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}});
        self.responses.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
        self
    }

    fn build(self) -> Value {
        let mut out = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "security": self.security.map_or_else(|| json!([]), |scheme| json!([{scheme: []}])),
            "responses": self.responses,
        });
        if !self.parameters.is_empty() {
            out["parameters"] = self.parameters.into();
        }
        if let Some(body) = self.body {
            out["requestBody"] = body;
        }
        out
    }
}

fn or_dry_run(schema: Value) -> Value {
    json!({"anyOf": [schema, {"$ref": "#/components/schemas/dry_run"}]})
}

fn query(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": to_openapi(schema)})
}

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Operation) {
    let entry = paths.entry(path).or_insert_with(|| json!({}));
    entry[method] = operation.build();
}

fn service_paths(paths: &mut Map<String, Value>) {
    let status = json!({"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}});
    let health = Operation::new("service", "health", "Liveness: the process answers.");
    add(paths, "/health", "get", health.answer(200, "Alive.", status));
    let ready = json!({
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": {"type": "string", "enum": ["ok", "damaged"]},
            "damaged_rows": {
                "type": "integer",
                "description": "Of a damaged store: how many places are not what was written. Polls that may depend on them are 503.",
            },
            "revision": {"type": "integer", "description": "What is served. While the store is away, and of a mirror."},
            "age_seconds": {
                "type": "integer",
                "description": "How long ago that was known to be current. While the store is away, and of a mirror.",
            },
            "mirror": {
                "type": "object",
                "description": "Of a mirror only: how it stands to its origin.",
                "required": ["standing"],
                "properties": {
                    "standing": {"type": "string", "enum": ["current", "behind", "away", "refused"]},
                    "origin_revision": {"type": "integer", "description": "The last revision that the origin is known to have."},
                },
            },
        },
    });
    let operation = Operation::new(
        "service",
        "ready",
        "Readiness: there is a snapshot to answer from, and it is not older than MAX_STALENESS.",
    );
    let operation = operation.answer(200, "Ready.", ready).problem(
        503,
        "The fleet is still being read, or what is served is older than MAX_STALENESS.",
    );
    add(paths, "/ready", "get", operation);
    let openapi = Operation::new("service", "openapi", "This document.");
    add(
        paths,
        "/openapi.yaml",
        "get",
        openapi.answer_text(200, "The document.", "application/yaml"),
    );
    let metrics = Operation::new("service", "metrics", "Metrics for Prometheus.").reads();
    add(
        paths,
        "/metrics",
        "get",
        metrics.answer_text(200, "The metrics.", "text/plain").or_as(
            200,
            "application/openmetrics-text",
            json!({"type": "string"}),
        ),
    );
}

fn inputs(items: Value) -> Value {
    json!({"type": "object", "required": ["inputs"], "properties": {"inputs": {"type": "array", "items": items}}})
}

fn flux_paths(kinds: &Kinds, paths: &mut Map<String, Value>) {
    let text = json!({"type": "string"});
    let cluster = json!({
        "type": "object",
        "required": ["id", "cluster_name", "cluster_dns", "environment"],
        "properties": {
            "id": {"type": "string", "example": "demo-cluster-01"},
            "cluster_name": {"type": "string", "example": "demo-cluster-01"},
            "cluster_dns": {"type": "string", "example": "demo-cluster-01.k8s.example.com"},
            "environment": {"type": "string", "example": "dev"},
        },
    });
    let list = Operation::new("flux", "flux_clusters", "All clusters, for whoever provisions them.")
        .reads()
        .query("environment", "Only clusters of this tier.", &text)
        .query(
            "selector",
            "Only clusters that this Kubernetes label selector matches.",
            &selector(),
        )
        .query(
            "shard",
            "i/n: only part i of n, with i from 0. Another n moves clusters between parts.",
            &text,
        )
        .answer(200, "The clusters.", inputs(cluster))
        .answer_plain(304, "The list is still the one that If-None-Match names.")
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(404, "There never was a cluster.")
        .problem(422, "The list is larger than Flux takes.")
        .problem(503, LATE);
    add(paths, "/api/v2/flux/clusters", "get", list);
    for kind in kinds.definitions() {
        let Some(path) = &kind.path else { continue };
        let item = json!({"$ref": format!("#/components/schemas/{}_input", kind.singular)});
        let summary = format!("What one cluster is told of {}.", kind.name);
        let poll = Operation::new("flux", format!("flux_{}", kind.name), summary)
            .reads()
            .path("cluster_dns", "The DNS name of the cluster.")
            .answer(200, "The inputs; empty for a cluster that was deleted.", inputs(item))
            .answer_plain(304, "The inputs are still the ones that If-None-Match names.")
            .problem(404, "No cluster ever had this DNS name, or gave it up.")
            .problem(500, "What is stored would break the contract with Flux.");
        add(
            paths,
            &format!("/api/v2/flux/clusters/{{cluster_dns}}/{path}"),
            "get",
            poll,
        );
    }
}

fn resource_paths(kind: &Kind, paths: &mut Map<String, Value>) {
    let (name, singular) = (&*kind.name, &kind.singular);
    let schema = json!({"$ref": format!("#/components/schemas/{singular}")});
    let described = |pointer: &str, otherwise: String| {
        let given = kind.descriptions.pointer(pointer).and_then(Value::as_str);
        given.map_or(otherwise, str::to_owned)
    };
    let json_body =
        |schema: &Value| json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}});

    let mut list = Operation::new(
        name,
        format!("list_{name}"),
        described("/resource/get", format!("List {name}.")),
    )
    .reads()
    .paged();
    for filter in &kind.filters {
        list = list.query(&filter.name, &filter.description, &filter.schema);
    }
    if name == CLUSTERS {
        list = list.query(
            "selector",
            "Only clusters that this Kubernetes label selector matches.",
            &selector(),
        );
        list = list.problem(422, "A selector whose key means nothing.");
    }
    let list = list
        .answer(
            200,
            "The resources; X-Total-Count says how many there are.",
            json!({"type": "array", "items": schema}),
        )
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(503, LATE);
    let path = format!("/{name}");
    add(paths, &path, "get", list);

    let create = Operation::new(
        name,
        format!("create_{singular}"),
        described("/resource/post", format!("Create a {singular}.")),
    )
    .writes()
    .body(json_body(&schema))
    .answer(201, "Created.", schema.clone())
    .dry_run()
    .problem(409, "The id is taken, or another resource has what must be unique.");
    add(paths, &path, "post", create);

    let path = format!("/{name}/{{id}}");
    let id = |operation: Operation| operation.path("id", "The id of the resource.");
    let missing = |operation: Operation| operation.problem(404, "There is no such resource.");
    let get = Operation::new(
        name,
        format!("get_{singular}"),
        described("/instance/get", format!("Get a {singular}.")),
    );
    let number = json!({"type": "integer", "minimum": 0});
    let get = get.reads().query("revision", "As it was at this revision.", &number);
    let get = missing(id(get))
        .answer(200, "The resource; its version is in ETag.", schema.clone())
        .problem(410, COMPACTED)
        .problem(400, "A parameter that is not known or makes no sense.")
        .answer_plain(304, "It is still in the version that If-None-Match names.");
    add(paths, &path, "get", get);

    let put = Operation::new(
        name,
        format!("replace_{singular}"),
        described("/instance/put", format!("Replace a {singular}.")),
    );
    let put = missing(id(put.writes().if_match()).body(json_body(&schema)))
        .answer(200, "Replaced; or the dry run.", or_dry_run(schema.clone()))
        .problem(409, "Another resource has what must be unique.");
    add(paths, &path, "put", put);

    let patch = Operation::new(
        name,
        format!("patch_{singular}"),
        described("/instance/patch", format!("Change parts of a {singular}.")),
    );
    let patch = missing(id(patch.writes().if_match()).body(json!({
        "application/json": {"schema": {"type": "object", "description":
            "Objects merge, null clears, arrays of references merge by id ({\"id\": …, \"$patch\": \"delete\"} removes one)."}},
        "application/merge-patch+json": {"schema": {"type": "object", "description": "RFC 7396."}},
        "application/json-patch+json": {"schema": {"type": "array", "items": {"type": "object"}, "description": "RFC 6902."}},
    })))
    .answer(200, "Changed; or the dry run.", or_dry_run(schema))
    .problem(409, "Another resource has what must be unique.");
    add(paths, &path, "patch", patch);

    let mut delete = Operation::new(
        name,
        format!("delete_{singular}"),
        described("/instance/delete", format!("Delete a {singular}.")),
    )
    .writes()
    .if_match();
    if name != CLUSTERS {
        delete = delete.query(
            "cascade",
            "Also remove the references of clusters to it.",
            &json!({"type": "boolean"}),
        );
    }
    let delete = missing(id(delete))
        .answer_plain(204, "Deleted.")
        .dry_run()
        .problem(409, "It is in use, or protected.");
    add(paths, &path, "delete", delete);

    let history = Operation::new(
        name,
        format!("history_{singular}"),
        format!("Every change of a {singular}, in the order of revisions."),
    );
    let history = history
        .reads()
        .query("after", "Only revisions after this one.", &number)
        .query(
            "limit",
            "How many records, at most 10000 at a time. A page ends earlier, with a revision, when it has 8 MiB of documents: go on until one is empty.",
            &json!({"type": "integer", "minimum": 1, "default": 100}),
        );
    let change = json!({"$ref": "#/components/schemas/change"});
    let history = missing(id(history))
        .answer(200, "The records.", json!({"type": "array", "items": change}))
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(503, "The store cannot be read at the moment.");
    add(paths, &format!("/{name}/{{id}}/history"), "get", history);

    if name == CLUSTERS {
        let text = json!({"type": "string"});
        let inputs = Operation::new(name, "cluster_inputs", "What Flux is told, now or at a revision.").reads();
        let inputs = inputs.path("path", "The path of a kind's Flux endpoint.");
        let inputs = missing(id(inputs.query("revision", "As it was at this revision.", &number)))
            .answer(
                200,
                "The inputs.",
                json!({"type": "object", "properties": {"inputs": {"type": "array", "items": {"type": "object"}}}}),
            )
            .problem(400, "A parameter that is not known or makes no sense.")
            .problem(503, "The store cannot be read at the moment.");
        add(paths, "/clusters/{id}/inputs/{path}", "get", inputs);
        let summary = "The Kubernetes objects that the cluster makes of its inputs, rendered as Flux Operator does.";
        let manifests = Operation::new(name, "cluster_manifests", summary).reads();
        let manifests = manifests.query("kind", "Only what comes from this kind.", &text).query(
            "revision",
            "As it was at this revision.",
            &number,
        );
        let manifests = missing(id(manifests))
            .answer_either(
                200,
                "The objects: YAML documents, or a List where JSON is asked for.",
                &[
                    ("application/yaml", text.clone()),
                    ("application/json", json!({"type": "object"})),
                ],
            )
            .problem(400, "A parameter that is not known or makes no sense.")
            .problem(422, "A template fails for this cluster.");
        add(paths, "/clusters/{id}/manifests", "get", manifests);
        let diagnostic = json!({
            "type": "object",
            "required": ["code", "kind", "id", "detail"],
            "properties": {
                "code": {"type": "string", "enum": DIAGNOSTICS},
                "kind": {"type": "string"},
                "id": {"type": "string"},
                "detail": {"type": "string"},
            },
        });
        let summary =
            "What is accepted and will not do what it seems to: dangling references, dependencies that stall.";
        let operation = Operation::new(name, "diagnose_cluster", summary).reads();
        let operation = missing(id(operation))
            .answer(200, "The findings.", json!({"type": "array", "items": diagnostic}))
            .problem(400, "A parameter that is not known or makes no sense.");
        add(paths, "/clusters/{id}/diagnostics", "get", operation);
    } else {
        let usage = json!({
            "type": "object",
            "required": ["cluster", "cluster_dns", "environment", "values", "overridden"],
            "properties": {
                "cluster": {"type": "string"},
                "cluster_dns": {"type": "string"},
                "environment": {"type": "string"},
                "values": {"type": "object", "description": "The definition as this cluster gets it."},
                "overridden": {"type": "array", "description": "What the cluster sets itself.", "items": {"type": "string"}},
            },
        });
        let summary = format!("The clusters that use a {singular}, each with its effective values.");
        let operation = Operation::new(name, format!("references_{singular}"), summary)
            .reads()
            .paged();
        let operation = operation.query("selector", "Only clusters that this selector matches.", &selector());
        let operation = missing(id(operation))
            .answer(200, "The clusters.", json!({"type": "array", "items": usage}))
            .problem(400, "A parameter that is not known or makes no sense.")
            .problem(422, "A selector whose key means nothing.")
            .problem(503, LATE);
        add(paths, &format!("/{name}/{{id}}/references"), "get", operation);
    }
}

fn admin_paths(paths: &mut Map<String, Value>) {
    let text = json!({"type": "string"});
    let open = json!({"type": "object"});
    let entry = json!({
        "type": "object",
        "required": ["name", "singular", "command", "path", "references", "origin", "etag", "document"],
        "properties": {
            "name": text, "singular": text, "command": text,
            "path": {"type": "string", "nullable": true},
            "references": {"type": "string", "nullable": true},
            "origin": {"type": "string", "enum": ["built-in", "resources-dir", "seed", "api"]},
            "etag": text,
            "document": open,
        },
    });
    let list = Operation::new("kinds", "list_kinds", "All kinds of resources.").reads();
    let list = list
        .answer(200, "The kinds.", json!({"type": "array", "items": entry}))
        .answer_plain(304, "Still the ones that If-None-Match names.");
    add(paths, "/kinds", "get", list);
    let name = |operation: Operation| operation.path("kind", "The name of the kind: plural, as in its route.");
    let missing = |operation: Operation| operation.problem(404, "There is no such kind.");
    let get = Operation::new("kinds", "get_kind", "The document of a kind, as it was put.").reads();
    let get = get
        .query(
            "revision",
            "As it was at this revision.",
            &json!({"type": "integer", "minimum": 0}),
        )
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(410, COMPACTED);
    let get = missing(name(get))
        .answer(200, "The document.", open.clone())
        .answer_plain(304, "Not changed.");
    add(paths, "/kinds/{kind}", "get", get);
    let summary = "Add a kind to the running fleet, or change one.";
    let body = json!({"application/yaml": {"schema": open}, "application/json": {"schema": open}});
    let put = name(Operation::new("kinds", "put_kind", summary).writes().if_match())
        .body(body)
        .answer(200, "Changed; or the dry run.", or_dry_run(open.clone()))
        .answer(201, "Added.", open.clone())
        .problem(404, "If-Match names a version of a kind that is not there.")
        .problem(409, "The kind clashes with another one.");
    add(paths, "/kinds/{kind}", "put", put);
    let delete = Operation::new("kinds", "delete_kind", "Remove a kind that nothing uses.")
        .writes()
        .if_match();
    let delete = missing(name(delete))
        .answer_plain(204, "Removed.")
        .dry_run()
        .problem(409, "The kind is in use.");
    add(paths, "/kinds/{kind}", "delete", delete);

    let operation = json!({
        "type": "object",
        "required": ["op", "kind"],
        "properties": {
            "op": {"type": "string", "enum": ["create", "replace", "apply", "merge", "delete", "assign", "unassign", "patch"]},
            "kind": {"type": "string", "description": "The kind by its name, `platform_components`; `kinds` for a kind itself."},
            "id": {"type": "string", "description": "Of what is written; of the definition, for assign, unassign and patch."},
            "value": {"type": "object", "description": "The document; for merge what changes, for assign the overrides."},
            "cluster": {"type": "string", "description": "For assign, unassign and patch: the cluster."},
            "selector": {"type": "string", "maxLength": MOST_BYTES, "description": "In place of `cluster`, or of the `id` of clusters to merge: those that match; `*` for all."},
            "set": {"type": "object", "description": "For patch: values by their paths."},
            "unset": {"type": "array", "description": "For patch: paths to take away.", "items": text},
            "cascade": {"type": "boolean", "description": "For delete: also the references to it."},
            "drop_patches": {"type": "boolean", "description": "For unassign: also the patches that the clusters keep for it."},
            "if_match": {"type": "string", "description": "Only if it is still in this version."},
        },
    });
    let body = json!({
        "type": "object",
        "required": ["operations"],
        "properties": {"reason": text, "operations": {"type": "array", "minItems": 1, "items": operation}},
        "example": {
            "reason": "blue week",
            "operations": [{
                "op": "patch", "kind": "platform_components", "id": "podinfo", "selector": "environment=dev",
                "set": {"ui.color": "#3b82f6"},
            }],
        },
    });
    let reply = json!({
        "type": "object",
        "required": ["changes"],
        "properties": {
            "revision": {"type": "integer"},
            "base": {"type": "integer", "description": "Of a dry run: the revision it was judged against."},
            "changes": {"type": "array", "items": open},
        },
    });
    let batch = Operation::new(
        "changes",
        "batch",
        "Several operations as one revision: all of them, or none.",
    )
    .writes()
    .body(json!({"application/json": {"schema": body}, "application/yaml": {"schema": body}}))
    .answer(200, "Done; for each resource that changed, its new version.", reply)
    .problem(404, "An operation names what is not there.")
    .problem(409, "An operation clashes with what is there.")
    .problem(412, "A resource is not in the version that if_match names.");
    add(paths, "/batch", "post", batch);

    let body = json!({
        "type": "object",
        "properties": {
            "revision": {"type": "integer", "minimum": 0, "description": "Restore what was at this revision."},
            "kind": {"type": "string", "description": "With `id`: only this resource."},
            "id": text,
            "selector": {"type": "string", "maxLength": MOST_BYTES, "description": "Only the clusters that match, now or then."},
            "undo": {"type": "integer", "minimum": 1, "description": "Instead: take back this one revision."},
            "reason": text,
        },
        "example": {"revision": 41, "selector": "environment=prod", "reason": "6.5.0 was ill"},
    });
    let done = json!({
        "type": "object",
        "required": ["revision", "changes"],
        "properties": {"revision": {"type": "integer"}, "changes": {"type": "array", "items": open}},
    });
    let rollback = Operation::new(
        "changes",
        "rollback",
        "Go back to a revision, or undo one, in one new revision.",
    )
    .writes()
    .body(json!({"application/json": {"schema": body}, "application/yaml": {"schema": body}}))
    .answer(200, "Done; or the dry run.", or_dry_run(done))
    .problem(404, "There is no such revision, or nothing to roll back.")
    .problem(410, COMPACTED)
    .problem(
        409,
        "What would be undone changed since, or the removal budget refuses.",
    );
    add(paths, "/rollback", "post", rollback);

    let revision = json!({"type": "integer", "minimum": 0});
    let diff = Operation::new("changes", "diff", "What differs between two revisions.")
        .reads()
        .paged()
        .query("from", "The one revision.", &revision)
        .query("to", "The other; the current one unless given.", &revision)
        .query("selector", "Only clusters that match, at one of them.", &selector())
        .answer(
            200,
            "The difference.",
            json!({"$ref": "#/components/schemas/difference"}),
        )
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(404, "There is no such revision.")
        .problem(410, COMPACTED)
        .problem(422, "A selector whose key means nothing.")
        .problem(
            503,
            "The store cannot be read at the moment, or the read took longer than 30 s.",
        );
    add(paths, "/diff", "get", diff);

    let history = Operation::new("kinds", "history_kind", "Every change of a kind.").reads();
    let history = missing(name(history))
        .query("after", "Only revisions after this one.", &revision)
        .query(
            "limit",
            "How many records, at most 10000 at a time. A page ends earlier, with a revision, when it has 8 MiB of documents: go on until one is empty.",
            &json!({"type": "integer", "minimum": 1, "default": 100}),
        )
        .answer(
            200,
            "The records.",
            json!({"type": "array", "items": {"$ref": "#/components/schemas/change"}}),
        )
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(503, "The store cannot be read at the moment.");
    add(paths, "/kinds/{kind}/history", "get", history);

    let change = json!({"$ref": "#/components/schemas/change"});
    let number = json!({"type": "integer", "minimum": 0});
    let changes = Operation::new("changes", "changes", "The log of changes, in the order of revisions.")
        .reads()
        .query(
            "after",
            "Only revisions after this one; without it, whatever is still kept.",
            &number,
        )
        .query(
            "limit",
            "How many records, at most 10000 at a time; a page goes on to the end of its last revision. A page ends earlier, with a revision, when it has 8 MiB of documents: go on with `after` until one is empty. Lines (application/x-ndjson) have no limit of their own.",
            &json!({"type": "integer", "minimum": 1, "default": 100}),
        )
        .query("kind", "Only this kind.", &text)
        .query("id", "Only this id.", &text)
        .query("actor", "Only what this actor wrote.", &text)
        .answer(200, "The records.", json!({"type": "array", "items": change}))
        .or_as(200, "application/x-ndjson", change)
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(410, COMPACTED)
        .problem(503, "The store cannot be read at the moment.");
    add(paths, "/changes", "get", changes);

    let decommission = json!({
        "type": "object",
        "required": ["id", "cluster_id", "cluster_name", "cluster_dns", "environment"],
        "properties": {"id": text, "cluster_id": text, "cluster_name": text, "cluster_dns": text, "environment": text},
    });
    let decommissions = NameRecords {
        kind: DECOMMISSIONS,
        operation: "decommission",
        list: "DNS names of deleted clusters, which answer with empty inputs.",
        forget: "Forget a decommission: the DNS name is unknown (404) from then on.",
        schema: decommission,
    };
    decommissions.add_to(paths);
    let input = json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": text,
            "object": {"type": "string", "description": "The kind of object that Flux made of it, where its kind says so."},
            "source": {"type": "string", "description": "The kind of its source."},
        },
    });
    let released_name = json!({
        "type": "object",
        "required": ["id", "cluster_id", "cluster_dns", "inputs"],
        "properties": {
            "id": text,
            "cluster_id": {"type": "string", "description": "The cluster that had the name."},
            "cluster_dns": text,
            "inputs": {
                "type": "object",
                "description": "What the name was told last, per path. Inputs that were turned off are left out.",
                "additionalProperties": {"type": "array", "items": input},
            },
        },
    });
    let released_names = NameRecords {
        kind: RELEASED_NAMES,
        operation: "released_name",
        list: "DNS names that clusters gave up. They are unknown (404); what each was told last is compared with what its next cluster is told.",
        forget: "Forget a released name: the next cluster that takes it is compared with nothing.",
        schema: released_name,
    };
    released_names.add_to(paths);
}

/// The routes of a kind of documents about DNS names that no cluster has.
struct NameRecords {
    kind: &'static str,
    /// The singular, as operation ids have it.
    operation: &'static str,
    list: &'static str,
    forget: &'static str,
    schema: Value,
}

impl NameRecords {
    fn add_to(&self, paths: &mut Map<String, Value>) {
        let NameRecords {
            kind,
            operation,
            schema,
            ..
        } = self;
        let singular = operation.replace('_', " ");
        let (all, one) = (format!("/{kind}"), format!("/{kind}/{{id}}"));
        let plural = format!("The {singular}s.");
        let list = Operation::new("clusters", format!("list_{kind}"), self.list);
        let list = list
            .reads()
            .paged()
            .answer(200, &plural, json!({"type": "array", "items": schema}));
        let list = list.problem(400, "A parameter that is not known or makes no sense.");
        add(paths, &all, "get", list);
        let id = |operation: Operation| {
            let missing = format!("There is no such {singular}.");
            operation
                .path("id", "The DNS name, in lower case.")
                .problem(404, &missing)
        };
        let summary = format!("One {singular}.");
        let get = Operation::new("clusters", format!("get_{operation}"), summary).reads();
        add(paths, &one, "get", id(get).answer(200, "It.", schema.clone()));
        let delete = Operation::new("clusters", format!("delete_{operation}"), self.forget);
        let delete = id(delete.writes().if_match());
        add(paths, &one, "delete", delete.answer_plain(204, "Forgotten.").dry_run());
    }
}

/// The schema of a selector. It also has bounds that a schema cannot say: 64 requirements, and 256 values in all of them.
fn selector() -> Value {
    json!({"type": "string", "maxLength": MOST_BYTES})
}

const LATE: &str = "The read took longer than 30 s, or waited so long for others: try again, or ask for less.";
const COMPACTED: &str = "Some of these revisions were compacted and are no longer kept.";

/// What is read as it comes.
fn feed_paths(paths: &mut Map<String, Value>) {
    let stream = Operation::new("changes", "stream_changes", "Follow the log: each revision as it is made.")
        .reads()
        .query(
            "after",
            "Begin after this revision; without it, with what comes from now on. With its digest (`57:8f3c…`, as each commit logs it), a log of another history is refused at once.",
            &json!({"type": "string", "pattern": "^[0-9]{1,19}(:[0-9a-f]{64})?$"}),
        )
        .header(
            "Last-Event-ID",
            "Go on after this event; counts more than `after`, and is sent by clients that come back.",
        )
        .answer_text(
            200,
            "Server-sent events. Each has the revision as `id`, and as `data` {revision, at, actor, request_id, reason, digest, removed, changes}, with the records of GET /changes. X-Head says where the log ends.",
            "text/event-stream",
        )
        .problem(400, "A parameter that is not known or makes no sense.")
        .problem(409, "The revision with that digest is not one of this log.")
        .problem(410, COMPACTED)
        .problem(503, "The store cannot be read at the moment, or too many follow the log.");
    add(paths, "/changes/stream", "get", stream);
    let backup = Operation::new(
        "changes",
        "backup",
        "Everything there is, with its history, for `flux-resourceset restore`.",
    )
    .reads_everything()
    .answer_text(
        200,
        "Lines of JSON. The last one says how many there were: without it, the file was cut off.",
        "application/x-ndjson",
    )
    .problem(400, "A parameter that is not known or makes no sense.")
    .problem(
        503,
        "The store cannot be read at the moment, or other backups are under way.",
    );
    add(paths, "/backup", "get", backup);
}
