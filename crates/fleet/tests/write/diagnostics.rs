//! Diagnostics of accepted documents; usage of definitions; seeds and other files.

use fleet::files::{self, Seed};
use fleet::usage::Usage;
use serde_json::json;

use super::*;
use crate::common::{self, SEED, commit, demo};

fn found(fleet: &Fleet, cluster: &str) -> Vec<String> {
    let found = fleet.diagnose(fleet.cluster(cluster).unwrap());
    found
        .iter()
        .map(|one| format!("{} {}/{}", one.code, one.kind, one.id))
        .collect()
}

#[test]
fn a_fleet_in_order_has_nothing_to_report() {
    assert_eq!(found(&demo(), "demo-cluster-01"), [""; 0]);
    assert_eq!(demo().dangling().count(), 0);
}

#[test]
fn a_dependency_that_does_not_run_there_stalls() {
    let alone = accept(
        &small(),
        json!([merge(
            "clusters",
            "three",
            json!({"platform_components": [{"id": "b"}]})
        )]),
    );
    assert_eq!(found(&alone, "three"), ["stalled platform_components/b"]);
    let off = accept(
        &small(),
        json!([merge(
            "clusters",
            "one",
            json!({"platform_components": [{"id": "a", "enabled": false}]})
        )]),
    );
    assert_eq!(found(&off, "one"), ["stalled platform_components/b"]);
    let both = accept(
        &off,
        json!([merge(
            "clusters",
            "one",
            json!({"platform_components": [{"id": "b", "enabled": false}]})
        )]),
    );
    assert_eq!(found(&both, "one"), [""; 0], "what does not run waits for nothing");
}

#[test]
fn a_dependency_of_another_sort_of_object_stalls() {
    let fleet = accept(
        &small(),
        json!([merge(
            "platform_components",
            "b",
            json!({"oci_url": "oci://registry.example.com"})
        )]),
    );
    assert_eq!(found(&fleet, "one"), ["stalled platform_components/b"]);
    let fleet = accept(
        &fleet,
        json!([merge(
            "platform_components",
            "a",
            json!({"oci_url": "oci://registry.example.com"})
        )]),
    );
    assert_eq!(found(&fleet, "one"), [""; 0]);
}

#[test]
fn dangling_references_and_idle_patches_are_reported() {
    let seed = json!({"clusters": [cluster("x", json!({
        "namespaces": [{"id": "a"}, {"id": "gone"}], "patches": {"c": {"x": "y"}, "gone": {"x": "y"}},
    }))]});
    let fleet = commit(&small(), &common::seed_operations(&seed).unwrap(), SEED)
        .unwrap()
        .0;
    assert_eq!(
        found(&fleet, "x"),
        [
            "dangling namespaces/gone",
            "unused platform_components/c",
            "unused platform_components/gone"
        ]
    );
    let dangling: Vec<_> = fleet
        .dangling()
        .map(|(kind, id, count)| format!("{count} × {kind}/{id}"))
        .collect();
    assert_eq!(dangling, ["1 × namespaces/gone"]);
}

#[test]
fn the_uses_of_a_definition_tell_what_runs_where() {
    let fleet = small();
    let kind = fleet.kinds().get("platform_components").unwrap();
    let definitions = fleet.definitions("platform_components").unwrap();
    let uses = fleet
        .sorted(definitions.users("a"))
        .filter_map(|cluster| Usage::of(kind, "a", &fleet.view(cluster)));
    let uses: Vec<_> = uses
        .map(|usage| {
            (
                usage.cluster,
                usage.values["oci_tag"].clone(),
                usage.overridden.join(" "),
            )
        })
        .collect();
    assert_eq!(
        uses,
        [
            ("one".into(), json!("v9"), "oci_tag".into()),
            ("two".into(), json!("v1"), "".into())
        ]
    );
    assert!(Usage::of(kind, "c", &fleet.view(fleet.cluster("one").unwrap())).is_none());
}

#[test]
fn a_seed_that_is_no_seed_names_each_place() {
    let pointers = |seed| {
        common::seed_operations(&seed)
            .unwrap_err()
            .into_iter()
            .map(|error| error.pointer)
            .collect::<Vec<_>>()
    };
    assert_eq!(pointers(json!([])), [""]);
    assert_eq!(
        pointers(json!({"clusters": {}, "namespaces": [], "x/y": 1})),
        ["/clusters", "/x~1y"]
    );
}

#[test]
fn a_problem_of_a_seed_is_found_in_its_file() {
    let seed = json!({"clusters": [cluster("x", json!({}))], "namespaces": [{"id": "a"}, {"id": "B"}]});
    let refusal = commit(&empty(), &common::seed_operations(&seed).unwrap(), SEED).unwrap_err();
    assert_eq!(refusal.errors[0].pointer, "/operations/1/value/id");
    let text = seed.to_string();
    let seed = Seed::read(&text).unwrap();
    assert_eq!(seed.place(1).as_deref(), Some("/namespaces/1"));
    assert_eq!(seed.place(2).as_deref(), Some("/clusters/0"));
    assert_eq!(seed.place(3), None);
}

#[test]
fn a_seed_is_read_in_parts_and_clusters_come_last() {
    let clusters: Vec<_> = (0..2500).map(|n| cluster(&format!("c-{n}"), json!({}))).collect();
    let text = json!({"clusters": clusters, "kinds": [], "namespaces": [{"id": "a"}]}).to_string();
    let seed = Seed::read(&text).unwrap();
    assert_eq!(seed.parts(), [0..0, 0..1, 1..1001, 1001..2001, 2001..2501]);
    assert_eq!(seed.place(0).as_deref(), Some("/namespaces/0"));
    assert_eq!(seed.place(2500).as_deref(), Some("/clusters/2499"));
    assert!(Seed::read("{}").unwrap().parts().iter().all(std::ops::Range::is_empty));
    let large = "x".repeat(3 << 20);
    let text = json!({"clusters": [{"a": large}, {"a": large}, {"a": large}]}).to_string();
    assert_eq!(Seed::read(&text).unwrap().parts(), [0..0, 0..2, 2..3]);
}

#[test]
fn a_name_that_is_there_twice_in_a_seed_is_found_by_its_line() {
    let text = "{\"clusters\": [],\n \"clusters\": []}";
    let error = Seed::read(text).unwrap_err().remove(0);
    assert!(
        error
            .detail
            .starts_with("is not JSON: \"clusters\" occurs twice at line 2"),
        "{error:?}"
    );
    let text = "{\"namespaces\": [\n {\"id\": \"a\"},\n {\"id\": \"b\",\n \"id\": \"b\"}]}";
    let seed = Seed::read(text).unwrap();
    let error = seed.operations(0..2).unwrap_err().remove(0);
    assert_eq!(error.pointer, "/namespaces/1");
    assert_eq!(error.detail, "is not JSON: \"id\" occurs twice at line 4");
}

#[test]
fn a_seed_may_bring_kinds_along() {
    let seed = json!({
        "clusters": [cluster("x", json!({"network_policies": [{"id": "p"}]}))],
        "kinds": [common::network_policy()],
        "network_policies": [{"id": "p", "target_namespace": "x", "ingress_rules": []}],
    });
    let fleet = commit(&empty(), &common::seed_operations(&seed).unwrap(), SEED)
        .unwrap()
        .0;
    assert_eq!(common::ids(&fleet, "x.example.com", "network-policies"), ["p"]);
}

#[test]
fn a_document_in_a_file_says_its_kind() {
    let operations = [
        files::apply(json!({"kind": "namespaces", "id": "x"})).unwrap(),
        files::apply(common::network_policy()).unwrap(),
    ];
    let fleet = commit(&empty(), &operations, common::BATCH).unwrap().0;
    assert_eq!(common::document(&fleet, "namespaces", "x").get("kind"), None);
    assert!(fleet.kinds().get("network_policies").is_some());
    for bad in [
        json!({"id": "x"}),
        json!({"kind": 5}),
        json!([]),
        json!({"schema": {}}),
        json!({"kind": "batch", "schema": {"x-flux": {"plural": "batch"}}}),
    ] {
        assert!(files::apply(bad).is_err());
    }
}
