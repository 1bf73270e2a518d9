//! What a write does and what it refuses. One file per subject. Every accepted write is also followed and loaded (see
//! `common::commit`).
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../common/mod.rs"]
mod common;

mod assigning;
mod batches;
mod catalog;
mod cluster_labels;
mod contract;
mod costs;
mod decommission;
mod definitions;
mod diagnostics;
mod guards;
mod identities;
mod identity;
mod kinds;
mod patching;
mod profiles;
mod released;
mod removals;
mod revocations;
mod rollouts;
mod selecting;
mod typos;

use std::sync::LazyLock;

use fleet::Fleet;
use serde_json::{Map, Value, json};

use common::{accept, empty};

/// Three clusters and a small catalog: `b` depends on `a`; `one` runs both, `two` runs `a`, `three` runs nothing.
fn small() -> Fleet {
    static SMALL: LazyLock<Fleet> = LazyLock::new(|| {
        let one = json!({
            "labels": {"team": "red"}, "platform_components": [{"id": "a", "oci_tag": "v9"}, {"id": "b"}],
            "namespaces": [{"id": "a"}, {"id": "b"}], "patches": {"a": {"replicas": "1", "color": "red"}},
        });
        let two = json!({"labels": {"team": "blue"}, "platform_components": [{"id": "a"}], "node_count": 3});
        accept(
            &empty(),
            json!([
                create("platform_components", component("a", json!({}))),
                create("platform_components", component("b", json!({"depends_on": ["a"]}))),
                create("platform_components", component("c", json!({}))),
                create("namespaces", json!({"id": "a"})),
                create("namespaces", json!({"id": "b"})),
                create("clusters", cluster("one", one)),
                create("clusters", cluster("two", two)),
                create("clusters", cluster("three", json!({"environment": "prod"}))),
            ]),
        )
    });
    SMALL.clone()
}

/// `fields` over `base`.
fn with(mut base: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object")
    };
    base.as_object_mut().unwrap().extend(fields);
    base
}

fn cluster(id: &str, fields: Value) -> Value {
    let base = json!({"id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "dev"});
    with(base, fields)
}

fn component(id: &str, fields: Value) -> Value {
    with(
        json!({"id": id, "component_path": id, "oci_url": "https://charts.example.com", "oci_tag": "v1"}),
        fields,
    )
}

/// A kind in the short form, with these properties beside its id and this `x-flux`.
fn kind(name: &str, properties: Value, flux: Value) -> Value {
    json!({"kind": name, "schema": {"type": "object", "properties": with(json!({"id": {"type": "string"}}), properties), "x-flux": flux}})
}

fn create(kind: &str, value: Value) -> Value {
    json!({"op": "create", "kind": kind, "value": value})
}

fn apply(kind: &str, value: Value) -> Value {
    json!({"op": "apply", "kind": kind, "value": value})
}

fn replace(kind: &str, id: &str, value: Value) -> Value {
    json!({"op": "replace", "kind": kind, "id": id, "value": value})
}

fn merge(kind: &str, id: &str, value: Value) -> Value {
    json!({"op": "merge", "kind": kind, "id": id, "value": value})
}

fn delete(kind: &str, id: &str) -> Value {
    json!({"op": "delete", "kind": kind, "id": id})
}

fn cascade(kind: &str, id: &str) -> Value {
    with(delete(kind, id), json!({"cascade": true}))
}

/// `count` entries, named and valued by `entry`.
fn many(count: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    (0..count).map(entry).collect::<Map<_, _>>().into()
}
