//! Decommissions and released names: DNS names that no cluster has.

use fleet::kind::{CLUSTERS, DECOMMISSIONS, Kinds, RELEASED_NAMES};
use serde_json::{Value, json};

use super::Operation;
use crate::http::openapi::schemas::{array, described, object, text};

pub fn list_decommissions(_: &Kinds) -> Operation {
    let summary = "DNS names of deleted clusters. Their polls get empty inputs.";
    list(DECOMMISSIONS, summary, decommission())
}

pub fn get_decommission(_: &Kinds) -> Operation {
    get("decommission", decommission())
}

pub fn delete_decommission(_: &Kinds) -> Operation {
    let summary = "Delete a decommission: polls of the DNS name get 404 from then on.";
    delete("decommission", summary)
}

pub fn list_released_names(_: &Kinds) -> Operation {
    let summary = "DNS names that clusters gave up. Their polls get 404. The last inputs of each are compared with those of its next cluster.";
    list(RELEASED_NAMES, summary, released_name())
}

pub fn get_released_name(_: &Kinds) -> Operation {
    get("released_name", released_name())
}

pub fn delete_released_name(_: &Kinds) -> Operation {
    let summary = "Delete a released name: its next cluster is compared with nothing.";
    delete("released_name", summary)
}

fn list(kind: &str, summary: &str, schema: Value) -> Operation {
    let plural = kind.replace('_', " ");
    Operation::new(CLUSTERS, format!("list_{kind}"), summary)
        .paged()
        .answer(200, &format!("The {plural}."), array(schema))
        .late()
}

fn get(singular: &str, schema: Value) -> Operation {
    let name = singular.replace('_', " ");
    instance(
        Operation::new(CLUSTERS, format!("get_{singular}"), format!("Get a {name}.")),
        &name,
    )
    .at_revision()
    .answer(200, &format!("The {name}; ETag is its version."), schema)
    .not_modified()
}

fn delete(singular: &str, summary: &str) -> Operation {
    let name = singular.replace('_', " ");
    instance(
        Operation::new(CLUSTERS, format!("delete_{singular}"), summary).writes(),
        &name,
    )
    .if_match()
    .answer_plain(204, "Deleted.")
    .dry_run()
}

fn instance(operation: Operation, name: &str) -> Operation {
    operation
        .path("id", "The DNS name, in lower case.")
        .problem(404, &format!("There is no such {name}."))
}

fn decommission() -> Value {
    let fields = ["id", "cluster_id", "cluster_name", "cluster_dns", "environment"];
    let properties = json!({
        "id": text(), "cluster_id": text(), "cluster_name": text(), "cluster_dns": text(), "environment": text(),
    });
    object(&fields, properties)
}

fn released_name() -> Value {
    let object_kind = "The kind of object that Flux made of it, if the definition's kind says so.";
    let input = json!({
        "id": text(),
        "object": described(object_kind, text()),
        "source": described("The kind of its source.", text()),
    });
    let inputs = json!({
        "type": "object",
        "description": "The last inputs that polls of the name got, by path. Inputs that were turned off are left out.",
        "additionalProperties": array(object(&["id"], input)),
    });
    let properties = json!({
        "id": text(),
        "cluster_id": described("The cluster that had the name.", text()),
        "cluster_dns": text(),
        "inputs": inputs,
    });
    object(&["id", "cluster_id", "cluster_dns", "inputs"], properties)
}
