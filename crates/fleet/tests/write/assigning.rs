//! assign, unassign and patch, on one cluster.

use fleet::refusal::Reason::{Invalid, NotFound};
use serde_json::json;

use super::*;
use crate::common::{document, ids, refuse, write};

fn on(op: &str, kind: &str, id: &str, cluster: &str, more: Value) -> Value {
    with(json!({"op": op, "kind": kind, "id": id, "cluster": cluster}), more)
}

#[test]
fn assign_makes_a_cluster_refer_to_a_definition() {
    let fleet = accept(
        &small(),
        json!([on(
            "assign",
            "platform_components",
            "c",
            "one",
            json!({"value": {"oci_tag": "v2", "enabled": false}})
        )]),
    );
    let references = &document(&fleet, "clusters", "one")["platform_components"];
    assert_eq!(references[2], json!({"id": "c", "enabled": false, "oci_tag": "v2"}));
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), ["a", "b", "c"]);
}

#[test]
fn assign_again_keeps_what_it_does_not_name() {
    let fleet = accept(
        &small(),
        json!([on(
            "assign",
            "platform_components",
            "a",
            "one",
            json!({"value": {"enabled": false}})
        )]),
    );
    let references = &document(&fleet, "clusters", "one")["platform_components"];
    assert_eq!(references[0], json!({"id": "a", "enabled": false, "oci_tag": "v9"}));
    let (_, changes) = write(
        &small(),
        json!([on("assign", "platform_components", "a", "one", json!({}))]),
    )
    .unwrap();
    assert_eq!(changes, []);
}

#[test]
fn assign_refuses_what_it_does_not_know() {
    let assign = |kind, id, cluster, value| json!([on("assign", kind, id, cluster, json!({ "value": value }))]);
    let refusal = write(&small(), assign("namespaces", "x", "one", json!({}))).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.detail.contains("there is no namespace \"x\"")),
        (Invalid, true)
    );
    refuse(
        &small(),
        assign("namespaces", "a", "x", json!({})),
        NotFound,
        &["/operations/0/cluster"],
    );
    refuse(
        &small(),
        assign("clusters", "one", "two", json!({})),
        Invalid,
        &["/operations/0/kind"],
    );
    refuse(
        &small(),
        assign("nothings", "a", "two", json!({})),
        NotFound,
        &["/operations/0/kind"],
    );
    refuse(
        &small(),
        assign("namespaces", "a", "two", json!({"oci_tag": "v1"})),
        Invalid,
        &["/operations/0/value/oci_tag"],
    );
    refuse(
        &small(),
        assign("platform_components", "a", "two", json!({"oci_tag": 1})),
        Invalid,
        &["/operations/0/value/oci_tag"],
    );
}

#[test]
fn assign_does_not_remove() {
    let trick = json!([on(
        "assign",
        "platform_components",
        "a",
        "one",
        json!({"value": {"$patch": "delete"}})
    )]);
    refuse(&small(), trick, Invalid, &["/operations/0/value/$patch"]);
}

#[test]
fn unassign_removes_the_reference_and_keeps_the_patches_unless_told() {
    let fleet = accept(
        &small(),
        json!([on("unassign", "platform_components", "a", "one", json!({}))]),
    );
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), ["b"]);
    assert_eq!(document(&fleet, "clusters", "one")["patches"]["a"]["color"], "red");
    let fleet = accept(
        &small(),
        json!([on(
            "unassign",
            "platform_components",
            "a",
            "one",
            json!({"drop_patches": true})
        )]),
    );
    assert_eq!(document(&fleet, "clusters", "one")["patches"], json!({}));
}

#[test]
fn unassign_of_what_is_not_assigned_is_no_error() {
    let (_, changes) = write(
        &small(),
        json!([on(
            "unassign",
            "platform_components",
            "c",
            "one",
            json!({"drop_patches": true})
        )]),
    )
    .unwrap();
    assert_eq!(changes, []);
}

#[test]
fn unassign_of_a_kind_without_patches_keeps_those_of_another() {
    let fleet = accept(
        &small(),
        json!([on("unassign", "namespaces", "a", "one", json!({"drop_patches": true}))]),
    );
    assert_eq!(document(&fleet, "clusters", "one")["patches"]["a"]["color"], "red");
}

#[test]
fn patch_sets_and_unsets_values() {
    let op = on(
        "patch",
        "platform_components",
        "a",
        "one",
        json!({"set": {"replicas": 5, "ui.color": "x"}, "unset": ["color", "never"]}),
    );
    let fleet = accept(&small(), json!([op]));
    assert_eq!(
        document(&fleet, "clusters", "one")["patches"],
        json!({"a": {"replicas": 5, "ui.color": "x"}})
    );
}

#[test]
fn patch_that_unsets_what_is_not_there_changes_nothing() {
    let unset = |cluster| {
        on(
            "patch",
            "platform_components",
            "a",
            cluster,
            json!({"unset": ["never"]}),
        )
    };
    let (_, changes) = write(&small(), json!([unset("one"), unset("two"), unset("three")])).unwrap();
    assert_eq!(changes, []);
}

#[test]
fn patch_refuses_what_it_does_not_know() {
    let patch = |kind, id, cluster, set| json!([on("patch", kind, id, cluster, json!({ "set": set }))]);
    refuse(
        &small(),
        patch("namespaces", "a", "one", json!({"x": "y"})),
        Invalid,
        &["/operations/0/kind"],
    );
    refuse(
        &small(),
        patch("platform_components", "x", "one", json!({"x": "y"})),
        Invalid,
        &["/operations/0/id"],
    );
    refuse(
        &small(),
        patch("platform_components", "a", "x", json!({"x": "y"})),
        NotFound,
        &["/operations/0/cluster"],
    );
    for value in [json!({}), json!([1]), json!({"deep": "er"})] {
        refuse(
            &small(),
            patch("platform_components", "a", "one", json!({ "x": value })),
            Invalid,
            &["/operations/0/set/x"],
        );
    }
}
