//! What Flux polls.

use fleet::kind::{Kind, Kinds};
use serde_json::{Value, json};

use super::Operation;
use crate::http::openapi::schemas::{array, object, reference, selector, text};

pub fn flux_clusters(kinds: &Kinds) -> Operation {
    let cluster = json!({
        "id": {"type": "string", "example": "demo-cluster-01"},
        "cluster_name": {"type": "string", "example": "demo-cluster-01"},
        "cluster_dns": {"type": "string", "example": "demo-cluster-01.k8s.example.com"},
        "environment": {"type": "string", "example": "dev"},
    });
    let cluster = object(&["id", "cluster_name", "cluster_dns", "environment"], cluster);
    let environments = kinds
        .clusters()
        .and_then(|kind| kind.schema["properties"]["environment"].get("enum"));
    let mut environment = text();
    if let Some(environments) = environments {
        environment["enum"] = environments.clone();
    }
    let shard = json!({"type": "string", "pattern": "^[0-9]{1,9}/[1-9][0-9]{0,8}$", "example": "0/4"});
    Operation::new("flux", "flux_clusters", "All clusters, for provisioners.")
        .query("environment", "Only clusters of this environment.", environment)
        .query(
            "selector",
            "Only clusters that match this Kubernetes label selector.",
            selector(),
        )
        .query(
            "shard",
            "i/n: only part i of n, with i from 0 to n-1. Another n moves clusters between parts.",
            shard,
        )
        .answer(200, "The clusters.", inputs(cluster))
        .not_modified()
        .bad_parameters()
        .problem(404, "There never was a cluster.")
        .problem(422, "The list is larger than Flux accepts.")
        .late()
}

pub fn flux_inputs(kind: &Kind) -> Operation {
    let input = reference(&format!("{}_input", kind.singular));
    let summary = format!("The inputs of one cluster from {}.", kind.name);
    Operation::new("flux", format!("flux_{}", kind.name), summary)
        .path("cluster_dns", "The DNS name of the cluster.")
        .query("marked", MARKED, json!({"type": "boolean", "default": false}))
        .answer(200, "The inputs; empty for a deleted cluster.", inputs(input))
        .not_modified()
        .bad_parameters()
        .problem(404, "No cluster ever had this DNS name, or the cluster gave it up.")
        .problem(500, "What is stored breaks the contract with Flux.")
}

/// What the parameter `marked` does.
pub(super) const MARKED: &str =
    "Whether each input has a digest of its path and content in `desired.input`. The shipped providers ask for it.";

fn inputs(items: Value) -> Value {
    object(&["inputs"], json!({"inputs": array(items)}))
}
