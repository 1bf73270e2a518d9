//! Definitions: references to them, and their dependencies.

use fleet::kind::CLUSTERS;
use fleet::log::{Resource, State};
use fleet::refusal::Reason::{InUse, Invalid};
use serde_json::json;

use super::*;
use crate::common::{commit, document, ids, refuse, state, write};

#[test]
fn a_definition_that_clusters_refer_to_is_not_deleted() {
    let refusal = refuse(
        &small(),
        json!([delete("platform_components", "a")]),
        InUse,
        &["/operations/0"],
    );
    assert_eq!(refusal.clusters, ["one", "two"]);
    assert!(refusal.detail.contains("one, two"), "{}", refusal.detail);
    accept(&small(), json!([delete("platform_components", "c")]));
}

#[test]
fn cascade_removes_references_and_patches_in_the_same_revision() {
    let (fleet, changes) = write(
        &small(),
        json!([cascade("platform_components", "b"), cascade("platform_components", "a")]),
    )
    .unwrap();
    assert_eq!(document(&fleet, CLUSTERS, "one")["platform_components"], json!([]));
    assert_eq!(document(&fleet, CLUSTERS, "one")["patches"], json!({}));
    assert_eq!(changes.len(), 4, "two definitions, two clusters: {changes:#?}");
    assert_eq!(
        ids(&fleet, "one.example.com", "namespaces"),
        ["a", "b"],
        "another kind has the same ids"
    );
}

#[test]
fn cascade_removes_patches_of_clusters_that_do_not_refer_to_it() {
    let patched = accept(
        &small(),
        json!([merge("clusters", "three", json!({"patches": {"c": {"x": "y"}}}))]),
    );
    let fleet = accept(&patched, json!([cascade("platform_components", "c")]));
    assert_eq!(document(&fleet, CLUSTERS, "three")["patches"], json!({}));
}

#[test]
fn cascade_of_a_kind_without_patches_leaves_them() {
    let fleet = accept(&small(), json!([cascade("namespaces", "a")]));
    assert_eq!(document(&fleet, CLUSTERS, "one")["patches"]["a"]["replicas"], "1");
    assert_eq!(ids(&fleet, "one.example.com", "namespaces"), ["b"]);
}

#[test]
fn a_definition_may_go_once_the_batch_has_removed_its_references() {
    let unassign = merge(
        "clusters",
        "one",
        json!({"namespaces": [{"id": "a", "$patch": "delete"}]}),
    );
    for ops in [
        json!([unassign, delete("namespaces", "a")]),
        json!([delete("namespaces", "a"), unassign]),
    ] {
        assert_eq!(ids(&accept(&small(), ops), "one.example.com", "namespaces"), ["b"]);
    }
    let anew = json!([
        delete("namespaces", "a"),
        create("namespaces", json!({"id": "a", "labels": {"x": "y"}}))
    ]);
    assert_eq!(
        ids(&accept(&small(), anew), "one.example.com", "namespaces"),
        ["a", "b"]
    );
}

#[test]
fn what_others_depend_on_is_not_deleted_with_cascade_either() {
    let refusal = refuse(
        &small(),
        json!([cascade("platform_components", "a")]),
        InUse,
        &["/operations/0"],
    );
    assert!(refusal.detail.contains('b'), "{}", refusal.detail);
    let freed = merge("platform_components", "b", json!({"depends_on": []}));
    accept(&small(), json!([cascade("platform_components", "a"), freed]));
}

#[test]
fn a_reference_to_what_is_not_there_is_refused() {
    let value = json!({"namespaces": [{"id": "a"}, {"id": "x"}], "rolebindings": [{"id": "y"}]});
    let pointers = [
        "/operations/0/value/namespaces/1/id",
        "/operations/0/value/rolebindings/0/id",
    ];
    refuse(
        &small(),
        json!([create("clusters", cluster("four", value))]),
        Invalid,
        &pointers,
    );
}

/// `three` refers to a missing definition.
fn dangling() -> Fleet {
    let seed = json!({"op": "merge", "kind": "clusters", "id": "three", "value": {"namespaces": [{"id": "gone"}, {"id": "b"}]}});
    let request = fleet::operation::BatchRequest::parse(json!({"operations": [seed]})).unwrap();
    commit(&small(), &request.operations, common::SEED).unwrap().0
}

#[test]
fn an_old_dangling_reference_blocks_nothing() {
    let fleet = accept(
        &dangling(),
        json!([merge(
            "clusters",
            "three",
            json!({"environment": "qa", "namespaces": [{"id": "a"}]})
        )]),
    );
    assert_eq!(ids(&fleet, "three.example.com", "namespaces"), ["b", "a"]);
    let value = cluster(
        "three",
        json!({"namespaces": [{"id": "gone"}], "platform_components": []}),
    );
    accept(&fleet, json!([replace("clusters", "three", value)]));
    let elsewhere = json!([merge("clusters", "two", json!({"namespaces": [{"id": "gone"}]}))]);
    refuse(&fleet, elsewhere, Invalid, &["/operations/0/value/namespaces/0/id"]);
}

#[test]
fn a_dangling_reference_comes_alive_with_its_definition() {
    let fleet = accept(&dangling(), json!([create("namespaces", json!({"id": "gone"}))]));
    assert_eq!(ids(&fleet, "three.example.com", "namespaces"), ["gone", "b"]);
    refuse(&fleet, json!([delete("namespaces", "gone")]), InUse, &["/operations/0"]);
}

#[test]
fn a_dependency_on_what_is_not_there_is_refused() {
    let value = component("d", json!({"depends_on": ["a", "x", "y"]}));
    let pointers = ["/operations/0/value/depends_on/1", "/operations/0/value/depends_on/2"];
    refuse(
        &small(),
        json!([create("platform_components", value)]),
        Invalid,
        &pointers,
    );
}

#[test]
fn a_dependency_on_itself_is_refused() {
    let itself = json!([merge("platform_components", "c", json!({"depends_on": ["c"]}))]);
    refuse(&small(), itself, Invalid, &["/operations/0/value/depends_on/0"]);
}

#[test]
fn a_cycle_of_dependencies_is_refused() {
    let after = |id, other: &str| merge("platform_components", id, json!({"depends_on": [other]}));
    let refusal = refuse(
        &small(),
        json!([after("a", "b")]),
        Invalid,
        &["/operations/0/value/depends_on/0"],
    );
    assert!(refusal.detail.contains("a → b → a"), "{}", refusal.detail);
    let both = ["/operations/0/value/depends_on/0", "/operations/1/value/depends_on/0"];
    refuse(&small(), json!([after("a", "c"), after("c", "b")]), Invalid, &both);
    accept(
        &small(),
        json!([
            after("a", "c"),
            merge("platform_components", "b", json!({"depends_on": ["a", "c"]}))
        ]),
    );
}

#[test]
fn a_new_circle_is_found_beside_old_ones() {
    // As it can be when a kind learns of dependencies late.
    let thing = |flux: Value| json!({"kind": "thing", "schema": {"type": "object", "x-flux": flux, "properties": {"needs": {"type": "array", "items": {"type": "string"}}}}});
    let needs = |id: &str, others: &[&str]| json!({"id": id, "needs": others});
    let old = ["o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9", "p1", "p2"];
    let mut operations = vec![create("kinds", thing(json!({"path": "things"})))];
    operations.extend(old.map(|id| create("things", needs(id, &[id]))));
    for (id, others) in [
        ("f", &["x", "t"][..]),
        ("x", &["p"]),
        ("p", &["f"]),
        ("t", &[]),
        ("a", &[]),
        ("u", &["v"]),
        ("v", &[]),
    ] {
        operations.push(create("things", needs(id, others)));
    }
    let fleet = accept(&small(), json!(operations));
    let fleet = accept(
        &fleet,
        json!([apply("kinds", thing(json!({"path": "things", "depends_on": "needs"})))]),
    );
    // What was there is nobody's fault.
    accept(&fleet, json!([merge("things", "a", json!({"needs": ["f"]}))]));
    let both = json!([
        merge("things", "a", json!({"needs": ["f"]})),
        merge("things", "t", json!({"needs": ["p"]}))
    ]);
    let refusal = refuse(&fleet, both, Invalid, &["/operations/1/value/needs/0"]);
    assert!(refusal.detail.contains("t → p → f → t"), "{}", refusal.detail);
    let many: Vec<_> = old.iter().copied().chain(["u"]).collect();
    let refusal = refuse(
        &fleet,
        json!([merge("things", "v", json!({"needs": many}))]),
        Invalid,
        &["/operations/0/value/needs/11"],
    );
    assert!(refusal.detail.contains("v → u → v"), "{}", refusal.detail);
}

#[test]
fn a_batch_may_turn_a_dependency_around() {
    let fleet = accept(
        &small(),
        json!([
            merge("platform_components", "a", json!({"depends_on": ["b"]})),
            merge("platform_components", "b", json!({"depends_on": []})),
        ]),
    );
    assert_eq!(document(&fleet, "platform_components", "a")["depends_on"], json!(["b"]));
}

#[test]
fn an_old_dangling_dependency_blocks_nothing() {
    let State {
        head, mut resources, ..
    } = state(&small());
    let value = with(
        document(&small(), "platform_components", "c"),
        json!({"depends_on": ["gone"]}),
    );
    let body = fleet::json::Json::new(&value);
    resources.retain(|one| (&*one.kind, &*one.id) != ("platform_components", "c"));
    resources.push(Resource {
        kind: "platform_components".into(),
        id: "c".into(),
        body,
        origin: None,
    });
    let fleet = Fleet::load(State {
        head,
        resources,
        ..State::default()
    })
    .unwrap();
    accept(
        &fleet,
        json!([merge("platform_components", "c", json!({"oci_tag": "v2"}))]),
    );
}

#[test]
fn a_change_to_a_definition_reaches_the_clusters_that_refer_to_it() {
    let fleet = accept(
        &small(),
        json!([merge(
            "platform_components",
            "a",
            json!({"oci_tag": "v2", "component_path": "new"})
        )]),
    );
    let input = |dns: &str| common::poll(&fleet, dns, "platform-components")["inputs"][0].clone();
    assert_eq!(input("two.example.com")["source"]["oci_tag"], "v2");
    assert_eq!(input("one.example.com")["source"]["oci_tag"], "v9", "overridden there");
    assert_eq!(input("one.example.com")["component_path"], "new");
}
