//! Deleting a cluster, and using its DNS name again.

use fleet::refusal::Reason::{Invalid, Protected};
use serde_json::json;

use super::*;
use crate::common::{document, ids, poll, refuse, write};

fn without_one() -> Fleet {
    accept(&small(), json!([delete("clusters", "one")]))
}

#[test]
fn a_deleted_cluster_gets_empty_lists() {
    for path in ["platform-components", "namespaces", "rolebindings"] {
        assert_eq!(poll(&without_one(), "One.example.com", path), json!({"inputs": []}));
    }
    assert_eq!(poll(&without_one(), "one.example.com", "nothings"), "unknown kind");
    assert_eq!(
        poll(&without_one(), "never.example.com", "namespaces"),
        "unknown cluster"
    );
}

#[test]
fn a_kind_that_is_added_later_is_empty_there_too() {
    let fleet = accept(&without_one(), json!([create("kinds", common::network_policy())]));
    assert_eq!(
        poll(&fleet, "one.example.com", "network-policies"),
        json!({"inputs": []})
    );
}

#[test]
fn the_decommission_is_a_change_of_its_own() {
    let (_, changes) = write(&small(), json!([delete("clusters", "one")])).unwrap();
    let made: Vec<_> = changes
        .iter()
        .map(|change| (&*change.kind, &*change.id, change.action()))
        .collect();
    use fleet::log::Action::{Create, Delete};
    assert_eq!(
        made,
        [
            ("clusters", "one", Delete),
            ("decommissions", "one.example.com", Create)
        ]
    );
    assert_eq!(
        document(&without_one(), "decommissions", "one.example.com")["cluster_id"],
        "one"
    );
}

#[test]
fn its_references_no_longer_count() {
    accept(
        &without_one(),
        json!([delete("namespaces", "a"), delete("platform_components", "b")]),
    );
}

#[test]
fn a_new_cluster_may_take_the_name_and_ends_the_decommission() {
    let taken = json!({"cluster_dns": "ONE.example.com", "namespaces": [{"id": "b"}]});
    let (fleet, changes) = write(&without_one(), json!([create("clusters", cluster("four", taken))])).unwrap();
    assert_eq!(ids(&fleet, "one.example.com", "namespaces"), ["b"]);
    assert_eq!(changes.len(), 2);
    assert!(fleet.decommissions().is_empty());
    // And when that one leaves by renaming, nothing is left of it.
    let fleet = accept(
        &fleet,
        json!([merge("clusters", "four", json!({"cluster_dns": "new.example.com"}))]),
    );
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), "unknown cluster");
}

#[test]
fn a_cluster_may_be_renamed_to_the_name() {
    let fleet = accept(
        &without_one(),
        json!([merge("clusters", "two", json!({"cluster_dns": "one.example.com"}))]),
    );
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), ["a"]);
    assert!(fleet.decommissions().is_empty());
}

#[test]
fn a_write_that_leaves_the_name_alone_leaves_the_decommission() {
    let fleet = accept(
        &without_one(),
        json!([merge("clusters", "two", json!({"environment": "qa"}))]),
    );
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), json!({"inputs": []}));
}

#[test]
fn a_name_that_passes_on_in_the_batch_is_not_decommissioned() {
    let take = create(
        "clusters",
        cluster(
            "four",
            json!({"cluster_dns": "one.example.com", "namespaces": [{"id": "b"}]}),
        ),
    );
    let rename = merge("clusters", "two", json!({"cluster_dns": "one.example.com"}));
    for ops in [
        json!([delete("clusters", "one"), take]),
        json!([take, delete("clusters", "one")]),
        json!([delete("clusters", "one"), rename]),
    ] {
        let fleet = accept(&small(), ops);
        assert!(fleet.decommissions().is_empty());
        assert_ne!(poll(&fleet, "one.example.com", "namespaces"), "unknown cluster");
    }
}

#[test]
fn a_cluster_that_lives_within_one_batch_leaves_nothing() {
    let (fleet, changes) = write(
        &small(),
        json!([create("clusters", cluster("x", json!({}))), delete("clusters", "x")]),
    )
    .unwrap();
    assert_eq!(changes, []);
    assert_eq!(poll(&fleet, "x.example.com", "namespaces"), "unknown cluster");
    // A decommission that was there before stays the one it was.
    let again = cluster("x", json!({"cluster_dns": "one.example.com"}));
    let (_, changes) = write(
        &without_one(),
        json!([create("clusters", again), delete("clusters", "x")]),
    )
    .unwrap();
    assert_eq!(changes, []);
}

#[test]
fn a_decommission_can_be_deleted_and_nothing_else() {
    let fleet = accept(&without_one(), json!([delete("decommissions", "one.example.com")]));
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), "unknown cluster");
    let forged = json!([create("decommissions", json!({"id": "two.example.com"}))]);
    refuse(&fleet, forged, Invalid, &["/operations/0/op"]);
}

#[test]
fn a_protected_cluster_is_not_deleted_until_that_is_lifted() {
    let protected = accept(&small(), json!([merge("clusters", "one", json!({"protected": true}))]));
    let refusal = refuse(
        &protected,
        json!([delete("clusters", "one")]),
        Protected,
        &["/operations/0/id"],
    );
    assert_eq!(refusal.clusters, ["one"]);
    let lift = merge("clusters", "one", json!({"protected": false}));
    let at_once = json!([lift, delete("clusters", "one")]);
    refuse(&protected, at_once, Protected, &["/operations/1/id"]);
    let lifted = accept(&protected, json!([lift]));
    accept(&lifted, json!([delete("clusters", "one")]));
}

#[test]
fn every_protected_cluster_in_the_way_is_named() {
    let protect = |id| merge("clusters", id, json!({"protected": true}));
    let fleet = accept(&small(), json!([protect("one"), protect("two")]));
    let both = json!([
        delete("clusters", "one"),
        delete("clusters", "three"),
        delete("clusters", "two")
    ]);
    let refusal = refuse(&fleet, both, Protected, &["/operations/0/id", "/operations/2/id"]);
    assert_eq!(refusal.clusters, ["one", "two"]);
}

#[test]
fn a_batch_that_renames_and_deletes_decommissions_the_name_that_was_served() {
    let renamed = merge("clusters", "one", json!({"cluster_dns": "other.example.com"}));
    let fleet = accept(&small(), json!([renamed, delete("clusters", "one")]));
    assert!(fleet.decommissions().contains_key("one.example.com"));
    assert!(!fleet.decommissions().contains_key("other.example.com"));
}
