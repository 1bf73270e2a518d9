//! Labels of clusters that inputs carry.

use fleet::refusal::Reason::Invalid;
use serde_json::{Value, json};

use crate::common::{accept, poll, refuse};
use crate::removals::plan;
use crate::{cluster, create, kind, merge, replace, small};

fn gateways(labels: &[&str]) -> Value {
    kind("gateways", json!({}), json!({ "cluster_labels": labels }))
}

fn labels(fleet: &fleet::Fleet, dns: &str) -> Value {
    poll(fleet, dns, "gateways")["inputs"][0]["cluster"]["labels"].clone()
}

#[test]
fn a_reply_follows_the_labels_that_the_kind_asks_for() {
    let fleet = accept(
        &small(),
        json!([
            create("kinds", gateways(&[])),
            create("gateways", json!({"id": "g"})),
            merge(
                "clusters",
                "one",
                json!({"gateways": [{"id": "g"}], "labels": {"region": "eu"}})
            ),
        ]),
    );
    let block = json!({"dns": "one.example.com", "environment": "dev", "name": "one"});
    assert_eq!(
        poll(&fleet, "one.example.com", "gateways")["inputs"][0]["cluster"],
        block
    );

    // A changed kind: clusters that are there already have the labels in their next reply.
    let ops = json!([replace("kinds", "gateways", gateways(&["region", "team"]))]);
    let changed = plan(&fleet, ops.clone()).clusters;
    assert_eq!(changed.len(), 1);
    let fleet = accept(&fleet, ops);
    assert_eq!(
        labels(&fleet, "one.example.com"),
        json!({"region": "eu", "team": "red"})
    );
    assert_eq!(
        labels(
            &accept(&fleet, json!([create("namespaces", json!({"id": "z"}))])),
            "one.example.com"
        ),
        json!({"region": "eu", "team": "red"})
    );

    // A changed label: a plan shows it, and the next reply has it. Another kind's reply stays.
    let ops = json!([merge(
        "clusters",
        "one",
        json!({"labels": {"region": "us", "team": null, "tier": "gold"}})
    )]);
    let changed = plan(&fleet, ops.clone()).clusters;
    let lists: Vec<_> = changed[0].inputs.iter().map(|(path, _)| &**path).collect();
    assert_eq!(lists, ["gateways"]);
    let before = poll(&fleet, "one.example.com", "namespaces");
    let fleet = accept(&fleet, ops);
    assert_eq!(labels(&fleet, "one.example.com"), json!({"region": "us"}));
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), before);

    // A label that no kind asks for changes nothing.
    let ops = json!([merge("clusters", "one", json!({"labels": {"tier": "silver"}}))]);
    assert!(plan(&fleet, ops).clusters.is_empty());
}

#[test]
fn many_labels_count_for_the_limit_of_a_reply() {
    let names: Vec<String> = (0..60).map(|n| format!("{}/label-{n}", "n".repeat(240))).collect();
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let values: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!("v".repeat(63)))).collect();
    let ids: Vec<String> = (0..60).map(|n| format!("g{n}")).collect();
    let mut ops = vec![create("kinds", gateways(&wanted))];
    ops.extend(ids.iter().map(|id| create("gateways", json!({ "id": id }))));
    let fleet = accept(&small(), json!(ops));
    let references: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    let fields = json!({"labels": values, "gateways": references});
    // 60 inputs of 60 labels of 300 bytes: over 900 KiB.
    let refusal = crate::common::write(&fleet, json!([create("clusters", cluster("big", fields))])).unwrap_err();
    assert_eq!(refusal.reason, fleet::refusal::Reason::Contract, "{refusal:?}");
}

#[test]
fn what_a_kind_asks_for_must_be_labels_and_clusters_have_no_inputs() {
    let at = |n: usize| format!("/operations/0/value/schema/x-flux/cluster_labels/{n}");
    for (wanted, pointer) in [(&["a", "a"][..], at(1)), (&[""], at(0))] {
        refuse(
            &small(),
            json!([create("kinds", gateways(wanted))]),
            Invalid,
            &[&pointer],
        );
    }
    let clusters = kind("clusters", json!({}), json!({"cluster_labels": ["region"]}));
    refuse(
        &small(),
        json!([replace("kinds", "clusters", clusters)]),
        Invalid,
        &["/operations/0/value/schema/x-flux/cluster_labels"],
    );
}
