//! Selectors, on writes.

use fleet::refusal::Reason::Invalid;
use fleet::selector::{Selector, SelectorError};
use serde_json::json;

use super::*;
use crate::common::{document, ids, refuse, write};

fn selected(fleet: &Fleet, selector: &str) -> Result<Vec<String>, SelectorError> {
    let selector = Selector::for_fleet(selector, fleet)?;
    Ok(selector
        .select(fleet)
        .map(|cluster| cluster.document().id.to_string())
        .collect())
}

#[test]
fn a_selector_reads_labels_and_scalar_fields() {
    for (selector, expected) in [
        ("*", "one three two"),
        ("team", "one two"),
        ("!team", "three"),
        ("team=red", "one"),
        ("team==red", "one"),
        ("team!=red", "three two"),
        ("team in (red, blue), environment=dev", "one two"),
        ("team notin (red)", "three two"),
        ("environment=prod", "three"),
        ("id in (one,three)", "one three"),
        ("cluster_name=two", "two"),
        ("cluster_dns=TWO.example.com", "two"),
        ("cluster_dns!=TWO.example.com", "one three"),
        ("node_count=3", "two"),
        ("!node_count", "one three"),
        ("protected=true", ""),
    ] {
        assert_eq!(selected(&small(), selector).unwrap().join(" "), expected, "{selector}");
    }
}

#[test]
fn a_key_that_means_nothing_is_refused_also_when_negated() {
    for selector in [
        "taem=red",
        "taem!=red",
        "!taem",
        "taem",
        "taem notin (red)",
        "team=red,taem!=red",
        "namespaces=a",
        "patches",
    ] {
        assert!(
            matches!(selected(&small(), selector), Err(SelectorError::UnknownKey { .. })),
            "{selector}"
        );
    }
}

#[test]
fn a_label_that_no_cluster_has_any_more_means_nothing() {
    let unlabel = |id| merge("clusters", id, json!({"labels": {"team": null}}));
    // Kinds that come and go make no difference.
    let fleet = accept(
        &small(),
        json!([create("kinds", common::network_policy()), unlabel("one")]),
    );
    let fleet = accept(&fleet, json!([delete("kinds", "network_policies")]));
    assert!(selected(&fleet, "team").is_ok());
    let fleet = accept(&fleet, json!([unlabel("two")]));
    assert!(selected(&fleet, "!team").is_err());
}

#[test]
fn merge_assign_unassign_and_patch_take_a_selector() {
    let fleet = accept(
        &small(),
        json!([
            {"op": "merge", "kind": "clusters", "selector": "team", "value": {"environment": "qa"}},
            {"op": "assign", "kind": "platform_components", "id": "c", "selector": "environment in (qa)"},
            {"op": "patch", "kind": "platform_components", "id": "c", "selector": "id=two", "set": {"x": "y"}},
            {"op": "unassign", "kind": "platform_components", "id": "a", "selector": "*"},
        ]),
    );
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), ["b", "c"]);
    assert_eq!(ids(&fleet, "two.example.com", "platform-components"), ["c"]);
    assert_eq!(ids(&fleet, "three.example.com", "platform-components"), [""; 0]);
    assert_eq!(document(&fleet, "clusters", "two")["patches"], json!({"c": {"x": "y"}}));
    assert_eq!(document(&fleet, "clusters", "one")["patches"].get("c"), None);
}

#[test]
fn a_write_never_means_the_whole_fleet_by_accident() {
    for selector in [
        "",
        "  ",
        "taem!=red",
        "!taem",
        "team=green",
        "environment=qa",
        "team=red,,",
        "team>1",
    ] {
        for op in [
            json!({"op": "unassign", "kind": "platform_components", "id": "a", "selector": selector}),
            json!({"op": "assign", "kind": "platform_components", "id": "c", "selector": selector}),
            json!({"op": "patch", "kind": "platform_components", "id": "a", "selector": selector, "set": {"x": "y"}}),
            json!({"op": "merge", "kind": "clusters", "selector": selector, "value": {"environment": "qa"}}),
        ] {
            refuse(&small(), json!([op]), Invalid, &["/operations/0/selector"]);
        }
    }
    refuse(
        &empty(),
        json!([{"op": "merge", "kind": "clusters", "selector": "*", "value": {}}]),
        Invalid,
        &["/operations/0/selector"],
    );
}

#[test]
fn only_clusters_are_selected() {
    let op = json!({"op": "merge", "kind": "namespaces", "selector": "*", "value": {}});
    refuse(&small(), json!([op]), Invalid, &["/operations/0/selector"]);
    let op = json!({"op": "delete", "kind": "clusters", "selector": "*"});
    assert_eq!(write(&small(), json!([op])).unwrap_err().reason, Invalid);
}

#[test]
fn a_selector_sees_what_the_operation_before_left() {
    let fleet = accept(
        &small(),
        json!([
            merge("clusters", "three", json!({"labels": {"zone": "new"}})),
            {"op": "assign", "kind": "namespaces", "id": "a", "selector": "zone=new"},
        ]),
    );
    assert_eq!(ids(&fleet, "three.example.com", "namespaces"), ["a"]);
}

#[test]
fn a_label_named_like_a_field_is_refused() {
    let labels = json!({"environment": "x", "node_count": "3", "team": "red"});
    let pointers = [
        "/operations/0/value/labels/environment",
        "/operations/0/value/labels/node_count",
    ];
    refuse(
        &small(),
        json!([merge("clusters", "one", json!({ "labels": labels }))]),
        Invalid,
        &pointers,
    );
}

#[test]
fn a_version_does_not_go_with_a_selector() {
    let op = json!({"op": "merge", "kind": "clusters", "selector": "*", "value": {}, "if_match": "*"});
    refuse(&small(), json!([op]), Invalid, &["/operations/0/if_match"]);
}

#[test]
fn an_oversized_selector_is_refused_and_its_limit_is_named() {
    let operation =
        json!({"op": "merge", "kind": "clusters", "selector": vec!["team=red"; 3000].join(","), "value": {}});
    let refusal = refuse(&small(), json!([operation]), Invalid, &["/operations/0/selector"]);
    assert!(refusal.detail.contains("at most 4096"), "{}", refusal.detail);
    assert!(refusal.detail.len() < 400, "{}", refusal.detail);
}

#[test]
fn selecting_counts_as_work_of_a_batch() {
    // 4,000 clusters are looked at by each of 2,000 operations, none of which changes anything.
    let all = (0..4000).map(|n| {
        let id = format!("c{n:04}");
        json!({"op": "create", "kind": "clusters", "value": {"id": id, "cluster_name": id,
            "cluster_dns": format!("{id}.example.com"), "environment": "dev", "labels": {"n": format!("{n}")}}})
    });
    let fleet = accept(&small(), all.collect());
    let select = json!({"op": "merge", "kind": "clusters", "selector": "n=1", "value": {}});
    let refusal = write(&fleet, vec![select; 2000].into()).unwrap_err();
    assert!(refusal.detail.contains("split it"), "{}", refusal.detail);
}
