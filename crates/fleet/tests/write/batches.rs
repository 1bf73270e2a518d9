//! A batch is all or nothing, and every problem is reported at its place.

use fleet::log::Action::{Create, Update};
use fleet::operation::{BatchRequest, MOST_OPERATIONS};
use fleet::refusal::Reason::{Exists, Invalid, NotFound};
use serde_json::json;

use super::*;
use crate::common::{document, ids, refuse, view, write};

#[test]
fn a_definition_and_its_reference_come_in_any_order() {
    let definition = create("namespaces", json!({"id": "x"}));
    let reference = merge("clusters", "three", json!({"namespaces": [{"id": "x"}]}));
    for ops in [json!([definition, reference]), json!([reference, definition])] {
        assert_eq!(ids(&accept(&small(), ops), "three.example.com", "namespaces"), ["x"]);
    }
}

#[test]
fn operations_run_on_what_the_one_before_left() {
    let (fleet, changes) = write(
        &small(),
        json!([
            create("namespaces", json!({"id": "x", "labels": {"n": "1"}})),
            merge("namespaces", "x", json!({"labels": {"m": "2"}})),
            merge("namespaces", "x", json!({"labels": {"n": null}})),
            merge("namespaces", "a", json!({"labels": {"n": "1"}})),
            merge("namespaces", "a", json!({"labels": {"n": "2"}})),
        ]),
    )
    .unwrap();
    assert_eq!(document(&fleet, "namespaces", "x")["labels"], json!({"m": "2"}));
    let made: Vec<_> = changes.iter().map(|change| (&*change.id, change.action())).collect();
    assert_eq!(made, [("a", Update), ("x", Create)], "one change per resource");
    assert_eq!(
        changes[0].before,
        small().document("namespaces", "a").map(|document| document.body)
    );
    assert_eq!(
        changes[0].after,
        fleet.document("namespaces", "a").map(|document| document.body)
    );
}

#[test]
fn a_batch_that_comes_back_to_where_it_began_changes_nothing() {
    let (fleet, changes) = write(
        &small(),
        json!([
            create("namespaces", json!({"id": "x"})),
            merge(
                "clusters",
                "one",
                json!({"namespaces": [{"id": "x"}], "environment": "qa"})
            ),
            merge(
                "clusters",
                "one",
                json!({"namespaces": [{"id": "x", "$patch": "delete"}], "environment": "dev"})
            ),
            delete("namespaces", "x"),
            create("kinds", common::network_policy()),
            delete("kinds", "network_policies"),
        ]),
    )
    .unwrap();
    assert_eq!(changes, []);
    let (mut after, mut before) = (view(&fleet), view(&small()));
    after.remove("head");
    before.remove("head");
    assert_eq!(after, before);
}

#[test]
fn a_write_of_what_is_there_changes_nothing() {
    let same = document(&small(), "clusters", "one");
    let (_, changes) = write(
        &small(),
        json!([
            replace("clusters", "one", same),
            merge("clusters", "two", json!({"environment": "dev"})),
            apply("namespaces", json!({"id": "a"})),
            apply("kinds", fleet::kind::built_in()[2].clone()),
        ]),
    )
    .unwrap();
    assert_eq!(changes, []);
}

#[test]
fn changes_can_be_replayed_from_front_to_back() {
    let policy = json!({"id": "p", "target_namespace": "x", "ingress_rules": []});
    let (_, changes) = write(
        &small(),
        json!([
            delete("clusters", "two"),
            create("kinds", common::network_policy()),
            create("clusters", cluster("four", json!({"network_policies": [{"id": "p"}]}))),
            create("network_policies", policy),
            delete("kinds", "rolebindings"),
        ]),
    )
    .unwrap();
    let order: Vec<_> = changes
        .iter()
        .map(|change| format!("{} {}", change.kind, change.id))
        .collect();
    assert_eq!(
        order,
        [
            "kinds network_policies",
            "network_policies p",
            "clusters four",
            "clusters one",
            "clusters three",
            "clusters two",
            "decommissions two.example.com",
            "kinds rolebindings",
        ]
    );
}

#[test]
fn every_problem_of_a_document_is_reported_at_its_place() {
    let value = json!({
        "id": "Bad Id", "cluster_dns": "-", "environment": "test", "node_count": -1, "colour": "red", "labels": {"x": 1},
        "platform_components": [{"id": "a"}, {"oci_tag": 5}], "patches": {"a": {"b/c": {}}},
    });
    refuse(
        &small(),
        json!([create("namespaces", json!({"id": "x"})), create("clusters", value)]),
        Invalid,
        &[
            "/operations/1/value/cluster_dns",
            "/operations/1/value/cluster_name",
            "/operations/1/value/colour",
            "/operations/1/value/environment",
            "/operations/1/value/id",
            "/operations/1/value/labels/x",
            "/operations/1/value/node_count",
            "/operations/1/value/patches/a/b~1c",
            "/operations/1/value/platform_components/1/id",
            "/operations/1/value/platform_components/1/oci_tag",
        ],
    );
}

#[test]
fn every_operation_that_has_a_problem_is_reported() {
    let bad = |id| create("namespaces", json!({"id": id, "colour": "red"}));
    refuse(
        &small(),
        json!([bad("x"), create("namespaces", json!({"id": "fine"})), bad("y")]),
        Invalid,
        &["/operations/0/value/colour", "/operations/2/value/colour"],
    );
}

#[test]
fn what_merely_follows_from_the_first_problem_is_not_reported() {
    let bad = create("namespaces", json!({"id": "x", "colour": "red"}));
    let follows = merge("namespaces", "x", json!({"labels": {"a": "b"}}));
    refuse(
        &small(),
        json!([bad, follows]),
        Invalid,
        &["/operations/0/value/colour"],
    );
}

#[test]
fn a_document_that_is_no_object_is_refused() {
    for value in [json!(null), json!([]), json!("x"), json!(1)] {
        refuse(
            &small(),
            json!([create("namespaces", value.clone())]),
            Invalid,
            &["/operations/0/value"],
        );
        refuse(
            &small(),
            json!([replace("clusters", "three", value)]),
            Invalid,
            &["/operations/0/value"],
        );
    }
}

#[test]
fn a_request_of_its_own_points_into_its_document() {
    use fleet::operation::{Operation, Verb};
    let verb = Verb::Create {
        id: None,
        value: json!({"id": "x", "colour": "red"}),
    };
    let refusal = small()
        .write(&[Operation::new("namespaces", verb)], fleet::write::Rules::default())
        .unwrap_err();
    assert_eq!(refusal.errors[0].pointer, "/colour");
}

#[test]
fn the_wire_form_of_a_batch_is_checked_as_a_whole() {
    let errors = BatchRequest::parse(json!({"reason": 5, "colour": "red", "operations": [
        {"op": "frobnicate", "kind": "clusters"},
        {"op": "create", "kind": "clusters"},
        {"op": "replace", "kind": "clusters", "value": {}},
        {"op": "delete", "kind": "clusters", "id": "x", "value": {}},
        {"op": "assign", "kind": "namespaces", "id": "x"},
        {"op": "assign", "kind": "namespaces", "id": "x", "cluster": "a", "selector": "*"},
        {"op": "assign", "kind": "namespaces", "id": "x", "cluster": "a", "value": []},
        {"op": "patch", "kind": "platform_components", "id": "x", "cluster": "a"},
        {"op": "create", "kind": "clusters", "value": {}, "colour": "red"},
        7,
    ]}));
    let pointers: Vec<_> = errors.unwrap_err().into_iter().map(|error| error.pointer).collect();
    assert_eq!(
        pointers,
        [
            "/colour",
            "/reason",
            "/operations/0/op",
            "/operations/1/value",
            "/operations/2/id",
            "/operations/3/value",
            "/operations/4/cluster",
            "/operations/5/cluster",
            "/operations/6/value",
            "/operations/7/set",
            "/operations/8",
            "/operations/9",
        ]
    );
}

#[test]
fn a_batch_has_operations_and_not_too_many() {
    for body in [
        json!({}),
        json!({"operations": []}),
        json!({"operations": {}}),
        json!([]),
        json!(null),
    ] {
        assert_eq!(BatchRequest::parse(body.clone()).unwrap_err().len(), 1, "{body}");
    }
    let operations = vec![delete("namespaces", "x"); MOST_OPERATIONS + 1];
    assert_eq!(
        BatchRequest::parse(json!({ "operations": operations })).unwrap_err()[0].pointer,
        "/operations"
    );
    let request = BatchRequest::parse(json!({"reason": "why", "operations": [delete("namespaces", "x")]})).unwrap();
    assert_eq!(request.reason.as_deref(), Some("why"));
}

#[test]
fn the_first_sort_of_problem_decides() {
    refuse(
        &small(),
        json!([
            delete("namespaces", "x"),
            create("namespaces", json!({"id": "a"})),
            delete("namespaces", "y")
        ]),
        NotFound,
        &["/operations/0/id", "/operations/2/id"],
    );
    refuse(
        &small(),
        json!([create("namespaces", json!({"id": "a"})), delete("namespaces", "x")]),
        Exists,
        &["/operations/0/id"],
    );
}

#[test]
fn a_variable_that_is_not_set_does_not_change_what_an_operation_is_about() {
    let merge = json!({"op": "merge", "kind": "clusters", "id": "one", "value": {"environment": "qa"}});
    let assign = json!({"op": "assign", "kind": "namespaces", "id": "a", "cluster": "three"});
    for (operation, name) in [
        (&merge, "selector"),
        (&merge, "if_match"),
        (&assign, "selector"),
        (&delete("namespaces", "a"), "if_match"),
        (&create("namespaces", json!({"id": "x"})), "id"),
    ] {
        let pointer = format!("/operations/0/{name}");
        let unset = with(operation.clone(), json!({ name: null }));
        refuse(&small(), json!([unset]), Invalid, &[&pointer]);
    }
    let to_all = json!({"op": "assign", "kind": "namespaces", "id": "a", "cluster": null, "selector": "*"});
    refuse(&small(), json!([to_all]), Invalid, &["/operations/0/cluster"]);
}
