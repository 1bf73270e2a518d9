//! Views of one cluster.

use fleet::kind::{CLUSTERS, Kinds};
use serde_json::json;

use super::Operation;
use super::flux::MARKED;
use crate::http::openapi::schemas::{any_object, array, described, object, reference, text};

/// The codes of diagnostics.
const DIAGNOSTICS: [&str; 10] = [
    "dangling",
    "stalled",
    "unused",
    "ignored",
    "excludes",
    "contract",
    "template",
    "duplicate",
    "unmet",
    "untemplated",
];

fn view(id: &str, summary: &str) -> Operation {
    Operation::new(CLUSTERS, id, summary)
        .path("id", "The id of the resource.")
        .problem(404, "There is no such resource.")
        .bad_parameters()
}

pub fn cluster_inputs(_: &Kinds) -> Operation {
    let inputs = object(&["inputs"], json!({"inputs": array(any_object())}));
    view(
        "cluster_inputs",
        "What Flux gets for the cluster, now or at a revision.",
    )
    .path("path", "The path of a kind's Flux endpoint.")
    .query("marked", MARKED, json!({"type": "boolean", "default": false}))
    .at_revision()
    .answer(200, "The inputs.", inputs)
    .problem(500, "What is stored breaks the contract with Flux.")
    .unreadable()
}

pub fn cluster_effective(kinds: &Kinds) -> Operation {
    let singular = kinds.clusters().map_or("cluster", |kind| &kind.singular);
    let summary =
        "The cluster's document with the references and patches that its profiles bring, now or at a revision.";
    view("cluster_effective", summary)
        .at_revision()
        .answer(200, "The merged document.", reference(singular))
        .late()
}

pub fn explain_cluster(_: &Kinds) -> Operation {
    explained(
        "explain_cluster",
        "Where the values of the cluster's inputs come from, and what they beat.",
    )
}

pub fn explain_path(_: &Kinds) -> Operation {
    explained("explain_path", "The same for the inputs of one path.")
        .path("path", "The path of a kind's Flux endpoint.")
}

pub fn explain_input(_: &Kinds) -> Operation {
    explained("explain_input", "The same for one input.")
        .path("path", "The path of a kind's Flux endpoint.")
        .path("input", "The id of an input.")
}

fn explained(id: &str, summary: &str) -> Operation {
    let value = json!({"nullable": true});
    let beaten = object(&["value", "from"], json!({"value": value, "from": text()}));
    let field = json!({
        "value": value,
        "from": described("The document that the value comes from, as kind/id.", text()),
        "over": described("What the value beats, the strongest first.", array(beaten)),
    });
    let field = object(&["value", "from", "over"], field);
    let fields = json!({
        "type": "object",
        "description": "By the pointer of the field in the input.",
        "additionalProperties": field,
    });
    let input = object(&["id", "fields"], json!({"id": text(), "fields": fields}));
    let explanation = json!({
        "cluster": text(),
        "profiles": described("The profiles that the cluster matches, by ascending priority.", array(text())),
        "inputs": {"type": "object", "description": "By path.", "additionalProperties": array(input)},
    });
    view(id, summary)
        .at_revision()
        .answer(
            200,
            "The explanation.",
            object(&["cluster", "profiles", "inputs"], explanation),
        )
        .late()
}

pub fn cluster_manifests(kinds: &Kinds) -> Operation {
    let names = kinds.definitions().filter(|kind| kind.path.is_some());
    let names: Vec<&str> = names.map(|kind| &*kind.name).collect();
    let list = json!({
        "apiVersion": {"type": "string", "enum": ["v1"]},
        "kind": {"type": "string", "enum": ["List"]},
        "items": array(any_object()),
        "notes": described(
            "Kinds whose inputs no ResourceSet reads, so that nothing is rendered of them. Left out if there are none.",
            array(text()),
        ),
    });
    let forms = [
        // Nothing at all is YAML for null.
        ("application/yaml", json!({"type": "string", "nullable": true})),
        ("application/json", object(&["apiVersion", "kind", "items"], list)),
    ];
    let summary = "The Kubernetes objects that the cluster renders from its inputs, as Flux Operator renders them.";
    view("cluster_manifests", summary)
        .query(
            "kind",
            "Only the objects of this kind. Its singular, its command and its path are accepted, too.",
            json!({"type": "string", "enum": names}),
        )
        .at_revision()
        .answers(
            200,
            "The objects: YAML documents, or a List if only JSON is accepted. Notes are comments in YAML.",
            &forms,
        )
        .problem(422, "A template fails for this cluster.")
        .late()
}

pub fn cluster_resource_sets(_: &Kinds) -> Operation {
    let list = json!({
        "apiVersion": {"type": "string", "enum": ["v1"]},
        "kind": {"type": "string", "enum": ["List"]},
        "items": array(any_object()),
    });
    let forms = [
        ("application/yaml", json!({"type": "string"})),
        ("application/json", object(&["apiVersion", "kind", "items"], list)),
    ];
    let summary = "The ResourceSets that the cluster applies, with their providers: the templates of this server.";
    view("cluster_resourcesets", summary)
        .answers(
            200,
            "The objects: YAML documents, or a List if only JSON is accepted. In URLs of providers, `${INTERNAL_API_URL}` and \
             `${CLUSTER_DNS}` stand for the values of the cluster.",
            &forms,
        )
        .late()
}

pub fn cluster_diagnostics(_: &Kinds) -> Operation {
    let finding = json!({
        "code": {"type": "string", "enum": DIAGNOSTICS},
        "kind": text(),
        "id": text(),
        "detail": text(),
    });
    let finding = object(&["code", "kind", "id", "detail"], finding);
    let summary = "What is accepted for the cluster but will not work as it seems to: dangling references, dependencies that stall.";
    view("diagnose_cluster", summary)
        .answer(200, "The findings.", array(finding))
        .late()
}
