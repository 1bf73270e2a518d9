//! The smallest fleet: clusters without references.

use serde_json::{Value, json};

/// A cluster without references.
pub fn cluster(id: &str) -> Value {
    json!({"id": id, "cluster_name": id, "cluster_dns": dns(id), "environment": "dev"})
}

pub fn dns(id: &str) -> String {
    format!("{id}.k8s.example.com")
}

/// The path that this cluster polls for its namespaces.
pub fn poll(id: &str) -> String {
    format!("/api/v2/flux/clusters/{}/namespaces", dns(id))
}
