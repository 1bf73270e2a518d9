//! What counts as a removal, and what protection prevents.

use fleet::budget::Recent;
use fleet::effect::Effect;
use fleet::identity::Reach;
use fleet::judge::{Accepted, Confirmation, Terms};
use fleet::log::Removed;
use fleet::operation::BatchRequest;
use fleet::refusal::Reason::{Protected, RemovalBudget};
use fleet::refusal::Refusal;
use serde_json::json;

use super::*;
use crate::common::{BATCH, network_policy, poll};

/// A write as the server does it, with a removal budget of zero.
pub(super) fn change(fleet: &Fleet, operations: Value, confirmed: Option<usize>) -> Result<(Fleet, Removed), Refusal> {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    let terms = Terms {
        recent: &Recent::default(),
        since: "",
        budget: Some(0),
        confirmation: Confirmation {
            removals: confirmed,
            ..Confirmation::default()
        },
        reach: &Reach::Everything,
        at: "",
        overrides: &[],
        unguarded: false,
    };
    let Accepted { outcome, removed, .. } = fleet.change(&request.operations, BATCH, terms)?;
    Ok((outcome.committed(fleet.head()), removed))
}

#[track_caller]
pub(super) fn refused(fleet: &Fleet, operations: Value) -> (fleet::refusal::Reason, Vec<String>) {
    let refusal = change(fleet, operations, None).map(|(_, removed)| removed).unwrap_err();
    (refusal.reason, refusal.clusters)
}

pub(super) fn plan(fleet: &Fleet, operations: Value) -> Effect {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    let outcome = fleet.write(&request.operations, BATCH).unwrap();
    Effect::of(fleet, outcome.preview(), &outcome.changes)
}

pub(super) fn protect(fleet: &Fleet, id: &str) -> Fleet {
    accept(fleet, json!([merge("clusters", id, json!({"protected": true}))]))
}

pub(super) fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `namespaces` at another path.
fn moved() -> Value {
    let mut document = fleet::kind::built_in()[2].clone();
    document["schema"]["x-flux"]["path"] = "ns".into();
    apply("kinds", document)
}

fn policies() -> Fleet {
    let policy = json!({"id": "p", "target_namespace": "x", "ingress_rules": []});
    let refers = |id| merge("clusters", id, json!({"network_policies": [{"id": "p"}]}));
    accept(
        &small(),
        json!([
            create("kinds", network_policy()),
            create("network_policies", policy),
            refers("one"),
            refers("two")
        ]),
    )
}

#[test]
fn a_path_that_is_given_up_takes_its_list_from_every_cluster_that_has_one() {
    assert_eq!(refused(&small(), json!([moved()])), (RemovalBudget, ids(&["one"])));
    let plan = plan(&small(), json!([moved()]));
    let lists: Vec<_> = plan.clusters[0]
        .inputs
        .iter()
        .map(|(path, list)| (&**path, list.added.len(), list.removed.len(), list.unanswered))
        .collect();
    assert_eq!(lists, [("namespaces", 0, 2, true), ("ns", 2, 0, false)]);
    // It was said that this is meant: so another kind may take the path, and Flux then removes what it had of it.
    let (fleet, removed) = change(&small(), json!([moved()]), Some(1)).unwrap();
    assert_eq!(removed.count(), 1);
    let tenants = kind(
        "tenants",
        json!({"a": {"type": "string"}}),
        json!({"path": "namespaces"}),
    );
    let (fleet, _) = change(&fleet, json!([create("kinds", tenants)]), None).unwrap();
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), json!({"inputs": []}));
}

#[test]
fn a_path_that_nobody_has_anything_of_moves_freely() {
    let bare = accept(
        &small(),
        json!([cascade("namespaces", "a"), cascade("namespaces", "b")]),
    );
    change(&bare, json!([moved()]), None).unwrap();
}

#[test]
fn a_path_that_a_protected_cluster_has_something_of_stays() {
    let fleet = protect(&small(), "one");
    assert_eq!(refused(&fleet, json!([moved()])), (Protected, ids(&["one"])));
    // Also with the confirmation.
    let refusal = change(&fleet, json!([moved()]), Some(1)).map(|_| ()).unwrap_err();
    assert_eq!(refusal.reason, Protected);
    change(&protect(&small(), "three"), json!([moved()]), Some(1)).unwrap();
}

#[test]
fn what_goes_with_its_kind_is_removed_too() {
    let gone = json!([cascade("network_policies", "p"), delete("kinds", "network_policies")]);
    assert_eq!(
        refused(&policies(), gone.clone()),
        (RemovalBudget, ids(&["one", "two"]))
    );
    let (fleet, removed) = change(&policies(), gone.clone(), Some(2)).unwrap();
    assert_eq!(removed.lost, ["one.example.com", "two.example.com"]);
    change(&fleet, json!([create("kinds", network_policy())]), None).unwrap();
    assert_eq!(refused(&protect(&policies(), "two"), gone), (Protected, ids(&["two"])));
}

#[test]
fn protection_is_lifted_in_a_revision_of_its_own() {
    let fleet = protect(&small(), "one");
    let lift = merge("clusters", "one", json!({"protected": false}));
    let rename = merge("clusters", "one", json!({"cluster_dns": "new.example.com"}));
    let emptied = merge(
        "clusters",
        "one",
        json!({"namespaces": [{"id": "a", "$patch": "delete"}, {"id": "b", "$patch": "delete"}]}),
    );
    let bare = with(
        crate::common::document(&fleet, "clusters", "one"),
        json!({"protected": false, "namespaces": []}),
    );
    for ops in [
        json!([lift, delete("clusters", "one")]),
        json!([lift, rename]),
        json!([lift, rename, delete("clusters", "one")]),
        json!([lift, emptied]),
        json!([lift, cascade("namespaces", "a"), cascade("namespaces", "b")]),
        json!([replace("clusters", "one", bare.clone())]),
        json!([apply("clusters", bare.clone())]),
        json!([apply("clusters", bare), delete("clusters", "one")]),
    ] {
        assert_eq!(refused(&fleet, ops.clone()), (Protected, ids(&["one"])), "{ops}");
    }
    let lifted = accept(&fleet, json!([lift]));
    change(&lifted, json!([delete("clusters", "one")]), Some(1)).unwrap();
    change(&lifted, json!([rename]), None).unwrap();
}

#[test]
fn a_protected_cluster_keeps_the_name_that_it_asks_by() {
    let fleet = protect(&small(), "one");
    // The next to take the name would decide what the cluster behind it is told.
    let rename = |dns: &str| merge("clusters", "one", json!({ "cluster_dns": dns }));
    assert_eq!(
        refused(&fleet, json!([rename("new.example.com")])),
        (Protected, ids(&["one"]))
    );
    change(&fleet, json!([rename("ONE.example.com")]), None).unwrap();
    change(
        &fleet,
        json!([rename("new.example.com"), rename("one.example.com")]),
        None,
    )
    .unwrap();
}

#[test]
fn what_an_override_makes_of_a_definition_counts() {
    let things = kind(
        "things",
        json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        json!({"overridable": ["b"], "renders": [{"object": "Alpha", "when": {"a": "^1$", "b": "^2$"}}, {"object": "Beta"}]}),
    );
    let fleet = accept(
        &small(),
        json!([
            create("kinds", things),
            create("things", json!({"id": "t", "a": "1", "b": "1"})),
            merge("clusters", "one", json!({"things": [{"id": "t", "b": "2"}]})),
            merge("clusters", "two", json!({"things": [{"id": "t"}]})),
        ]),
    );
    // The definition itself is Beta before and after.
    let ops = json!([merge("things", "t", json!({"a": "2"}))]);
    let losing: Vec<_> = plan(&fleet, ops.clone())
        .clusters
        .into_iter()
        .filter(|cluster| cluster.loses())
        .map(|cluster| cluster.id().to_string())
        .collect();
    assert_eq!(losing, ["one"]);
    assert_eq!(refused(&fleet, ops), (RemovalBudget, losing));
    let nothing = json!([merge("things", "t", json!({"b": "3"}))]);
    change(&fleet, nothing, None).unwrap();
}

#[test]
fn a_plan_says_which_clusters_selectors_see_otherwise() {
    let relabelled = |operations: Value| -> Vec<(String, Vec<String>)> {
        let found = plan(&small(), operations).relabelled.into_iter();
        found.map(|one| (one.id.to_string(), one.keys)).collect()
    };
    let one = |keys: &[&str]| vec![("one".to_owned(), ids(keys))];
    let merged = |value: Value| relabelled(json!([merge("clusters", "one", value)]));
    assert_eq!(merged(json!({"labels": {"team": "blue"}})), one(&["team"]));
    assert_eq!(
        merged(json!({"labels": {"team": null, "tier": "gold"}})),
        one(&["team", "tier"])
    );
    assert_eq!(
        merged(json!({"environment": "prod", "node_count": 4})),
        one(&["environment", "node_count"])
    );
    assert_eq!(merged(json!({"namespaces": [{"id": "a", "$patch": "delete"}]})), []);
    assert_eq!(merged(json!({"patches": {"a": {"replicas": "2"}}})), []);
    // One that goes is a removal already, and one that comes was in no list.
    assert_eq!(
        relabelled(json!([
            delete("clusters", "one"),
            create("clusters", cluster("x", json!({})))
        ])),
        []
    );
    // And it is no removal.
    let gold = json!([merge("clusters", "one", json!({"labels": {"team": "gold"}}))]);
    change(&protect(&small(), "one"), gold, None).unwrap();
}
