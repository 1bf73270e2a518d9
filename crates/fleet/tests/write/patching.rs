//! PUT and the three forms of PATCH.

use fleet::operation::{Operation, Target, Verb};
use fleet::patch::Form::{self, JsonPatch, MergePatch};
use fleet::refusal::Reason::Invalid;
use fleet::refusal::Refusal;
use fleet::write::Rules;
use serde_json::json;

use super::*;
use crate::common::{commit, document, ids, refuse, write};

/// A PATCH of one cluster, as a single request.
fn patch(fleet: &Fleet, form: Form, id: &str, value: Value) -> Result<Value, Refusal> {
    let verb = Verb::Merge {
        on: Target::Id(id.to_owned()),
        form,
        value,
    };
    let (fleet, _) = commit(fleet, &[Operation::new("clusters", verb)], Rules::default())?;
    Ok(document(&fleet, "clusters", id))
}

fn pointers(refusal: &Refusal) -> Vec<&str> {
    refusal.errors.iter().map(|error| error.pointer.as_str()).collect()
}

/// The cluster of the book's merge chapter, before the canary.
fn us_east() -> Fleet {
    let value = json!({
        "namespaces": [{"id": "a"}],
        "platform_components": [
            {"id": "cert-manager", "enabled": true, "oci_tag": null, "component_path": null},
            {"id": "grafana", "enabled": false, "oci_tag": "v1.0.0", "component_path": null},
            {"id": "a"},
        ],
        "patches": {"grafana": {"GRAFANA_REPLICAS": "3"}},
    });
    accept(
        &small(),
        json!([
            create("platform_components", component("cert-manager", json!({}))),
            create("platform_components", component("grafana", json!({}))),
            create("clusters", cluster("us-east-prod-01", value)),
        ]),
    )
}

#[test]
fn null_for_an_array_of_references_does_not_uninstall_them() {
    let refusal = patch(&small(), Form::Merge, "one", json!({"platform_components": null})).unwrap_err();
    assert_eq!(pointers(&refusal), ["/platform_components"]);
    // Where there is nothing to lose, it clears the field as any null does.
    let three = patch(&small(), Form::Merge, "three", json!({"platform_components": null})).unwrap();
    assert_eq!(three["platform_components"], json!([]));
}

#[test]
fn problems_of_a_patch_point_into_what_was_sent() {
    let unknown = json!({"namespaces": [{"id": "b"}, {"id": "nope"}]});
    let refusal = patch(&small(), Form::Merge, "one", unknown).unwrap_err();
    assert_eq!(pointers(&refusal), ["/namespaces/1/id"]);
    let invalid = json!({"platform_components": [{"id": "b", "oci_tag": 5}]});
    let refusal = patch(&small(), Form::Merge, "one", invalid.clone()).unwrap_err();
    assert_eq!(pointers(&refusal), ["/platform_components/0/oci_tag"]);
    refuse(
        &small(),
        json!([merge("clusters", "one", invalid)]),
        Invalid,
        &["/operations/0/value/platform_components/0/oci_tag"],
    );
}

#[test]
fn a_put_that_forgets_the_protection_does_not_lift_it() {
    let fleet = accept(
        &small(),
        json!([merge("clusters", "three", json!({"protected": true}))]),
    );
    let three = cluster("three", json!({"environment": "prod"}));
    refuse(
        &fleet,
        json!([replace("clusters", "three", three.clone())]),
        Invalid,
        &["/operations/0/value/protected"],
    );
    accept(
        &fleet,
        json!([replace("clusters", "three", with(three, json!({"protected": false})))]),
    );
}

#[test]
fn the_canary_and_pin_bodies_of_the_book_change_that_component_and_nothing_else() {
    let canary = json!({"platform_components": [{"id": "grafana", "component_path": "observability/grafana/17.1.0", "oci_tag": "v1.1.0-rc1"}]});
    let pin = json!({"platform_components": [{"id": "grafana", "oci_tag": "v1.1.0-rc1", "component_path": "observability/grafana/17.1.0"}]});
    for body in [canary, pin] {
        let mut expected = document(&us_east(), "clusters", "us-east-prod-01");
        expected["platform_components"][1]["component_path"] = "observability/grafana/17.1.0".into();
        expected["platform_components"][1]["oci_tag"] = "v1.1.0-rc1".into();
        assert_eq!(
            patch(&us_east(), Form::Merge, "us-east-prod-01", body.clone()).unwrap(),
            expected
        );
        let (fleet, changes) = write(&us_east(), json!([merge("clusters", "us-east-prod-01", body)])).unwrap();
        assert_eq!(document(&fleet, "clusters", "us-east-prod-01"), expected);
        assert_eq!(changes.len(), 1);
    }
}

#[test]
fn new_references_go_last_and_the_others_keep_their_place() {
    let body = json!({"platform_components": [{"id": "c", "enabled": false}, {"id": "b", "oci_tag": "v2"}]});
    let after = patch(&small(), Form::Merge, "one", body).unwrap();
    let expected = json!([{"id": "a", "enabled": true, "oci_tag": "v9"}, {"id": "b", "enabled": true, "oci_tag": "v2"}, {"id": "c", "enabled": false}]);
    assert_eq!(after["platform_components"], expected);
}

#[test]
fn a_reference_is_removed_by_name_and_only_so() {
    let gone =
        json!({"platform_components": [{"id": "a", "$patch": "delete"}, {"id": "never-there", "$patch": "delete"}]});
    let after = patch(&small(), Form::Merge, "one", gone).unwrap();
    assert_eq!(after["platform_components"], json!([{"id": "b", "enabled": true}]));
    for nothing in [
        json!({"platform_components": []}),
        json!({"platform_components": [{"id": "never-there", "$patch": "delete"}]}),
        json!({}),
    ] {
        let (_, changes) = write(&small(), json!([merge("clusters", "one", nothing)])).unwrap();
        assert_eq!(changes, []);
    }
}

#[test]
fn null_for_what_is_null_already_changes_nothing() {
    let told = json!({"platform_components": [{"id": "a", "oci_tag": null}, {"id": "b"}]});
    let fleet = accept(
        &small(),
        json!([apply(
            "clusters",
            cluster("one", with(told, json!({"namespaces": [], "rolebindings": []})))
        )]),
    );
    let reference = |fleet: &Fleet| document(fleet, "clusters", "one")["platform_components"][0].clone();
    assert_eq!(reference(&fleet), json!({"id": "a", "enabled": true, "oci_tag": null}));
    let again = json!({"platform_components": [{"id": "a", "oci_tag": null}]});
    let (_, changes) = write(&fleet, json!([merge("clusters", "one", again)])).unwrap();
    assert_eq!(changes, []);
}

#[test]
fn null_clears_a_field_an_override_and_a_patch_key() {
    let body = json!({"node_count": null, "labels": {"team": null}});
    let after = patch(&small(), Form::Merge, "two", body).unwrap();
    assert_eq!((after.get("node_count"), &after["labels"]), (None, &json!({})));
    let body = json!({"platform_components": [{"id": "a", "oci_tag": null}], "patches": {"a": {"color": null}}});
    let after = patch(&small(), Form::Merge, "one", body).unwrap();
    assert_eq!(after["platform_components"][0], json!({"id": "a", "enabled": true}));
    assert_eq!(after["patches"], json!({"a": {"replicas": "1"}}));
    let after = patch(&small(), Form::Merge, "one", json!({"patches": {"a": null}})).unwrap();
    assert_eq!(after["patches"], json!({}));
}

#[test]
fn other_arrays_are_replaced() {
    let fleet = accept(
        &small(),
        json!([merge("platform_components", "b", json!({"depends_on": ["c"]}))]),
    );
    assert_eq!(document(&fleet, "platform_components", "b")["depends_on"], json!(["c"]));
}

#[test]
fn an_ambiguous_patch_of_references_is_refused() {
    for (body, pointer) in [
        (
            json!({"namespaces": [{"id": "a", "$patch": "replace"}]}),
            "/namespaces/0/$patch",
        ),
        (json!({"namespaces": [{"$patch": "delete"}]}), "/namespaces/0/id"),
        (json!({"namespaces": [{"id": ""}]}), "/namespaces/0/id"),
        (json!({"namespaces": ["a"]}), "/namespaces/0"),
        (json!({"namespaces": {"id": "a"}}), "/namespaces"),
        (
            json!({"namespaces": [{"id": "a", "oci_tag": "v1"}]}),
            "/namespaces/0/oci_tag",
        ),
        (json!([]), ""),
        (json!(null), ""),
    ] {
        let refusal = patch(&small(), Form::Merge, "one", body.clone()).unwrap_err();
        assert_eq!((refusal.reason, pointers(&refusal)), (Invalid, vec![pointer]), "{body}");
    }
}

#[test]
fn a_merge_patch_is_rfc_7396_to_the_letter() {
    let body = json!({"platform_components": [{"id": "b"}], "patches": {"a": {"color": null}}, "labels": null});
    let after = patch(&small(), MergePatch, "one", body).unwrap();
    assert_eq!(after["platform_components"], json!([{"id": "b", "enabled": true}]));
    assert_eq!(
        (&after["patches"], &after["labels"]),
        (&json!({"a": {"replicas": "1"}}), &json!({}))
    );
    // There, `$patch` is a field like any other.
    let refusal = patch(
        &small(),
        MergePatch,
        "one",
        json!({"namespaces": [{"id": "a", "$patch": "delete"}]}),
    )
    .unwrap_err();
    assert_eq!(pointers(&refusal), ["/namespaces/0/$patch"]);
    for body in [
        json!({"id": "x"}),
        json!({"id": null}),
        json!(null),
        json!("x"),
        json!([1]),
    ] {
        assert_eq!(patch(&small(), MergePatch, "one", body).unwrap_err().reason, Invalid);
    }
}

#[test]
fn a_json_patch_is_rfc_6902() {
    let body = json!([
        {"op": "test", "path": "/environment", "value": "dev"},
        {"op": "remove", "path": "/platform_components/0"},
        {"op": "add", "path": "/namespaces/-", "value": {"id": "b"}},
        {"op": "replace", "path": "/patches/a/color", "value": "green"},
        {"op": "move", "from": "/labels/team", "path": "/labels/group"},
        {"op": "copy", "from": "/patches/a", "path": "/patches/b"},
    ]);
    let mut fleet = small();
    fleet = accept(
        &fleet,
        json!([merge(
            "clusters",
            "one",
            json!({"namespaces": [{"id": "b", "$patch": "delete"}]})
        )]),
    );
    let after = patch(&fleet, JsonPatch, "one", body).unwrap();
    assert_eq!(after["platform_components"], json!([{"id": "b", "enabled": true}]));
    assert_eq!(after["namespaces"], json!([{"id": "a"}, {"id": "b"}]));
    assert_eq!(
        (&after["patches"]["b"]["color"], &after["labels"]),
        (&json!("green"), &json!({"group": "red"}))
    );
}

#[test]
fn a_json_patch_that_does_not_apply_names_its_operation() {
    let fine = json!({"op": "add", "path": "/node_count", "value": 1});
    for bad in [
        json!({"op": "test", "path": "/environment", "value": "prod"}),
        json!({"op": "remove", "path": "/nothing"}),
        json!({"op": "replace", "path": "/namespaces/9", "value": {}}),
        json!({"op": "add", "path": "/namespaces/9", "value": {"id": "b"}}),
    ] {
        let refusal = patch(&small(), JsonPatch, "one", json!([fine, bad])).unwrap_err();
        assert_eq!((refusal.reason, pointers(&refusal)), (Invalid, vec!["/1"]));
    }
    for none in [
        json!({}),
        json!("x"),
        json!([{"op": "frobnicate", "path": ""}]),
        json!([{"op": "remove", "path": ""}]),
    ] {
        assert_eq!(patch(&small(), JsonPatch, "one", none).unwrap_err().reason, Invalid);
    }
    let renamed = json!([{"op": "replace", "path": "/id", "value": "x"}]);
    assert_eq!(
        pointers(&patch(&small(), JsonPatch, "one", renamed).unwrap_err()),
        ["/id"]
    );
}

#[test]
fn a_json_patch_cannot_fill_the_memory() {
    let double = |n| json!({"op": "copy", "from": "", "path": format!("/patches/{n}")});
    let bomb: Vec<_> = (0..64).map(double).collect();
    assert_eq!(
        patch(&small(), JsonPatch, "one", bomb.into()).unwrap_err().reason,
        Invalid
    );
}

#[test]
fn a_put_that_leaves_out_references_is_refused() {
    let value = cluster("one", json!({"namespaces": []}));
    for op in [replace("clusters", "one", value.clone()), apply("clusters", value)] {
        let refusal = refuse(
            &small(),
            json!([op]),
            Invalid,
            &["/operations/0/value/platform_components"],
        );
        assert!(refusal.detail.contains("send []"), "{}", refusal.detail);
    }
    let both = [
        "/operations/0/value/namespaces",
        "/operations/0/value/platform_components",
    ];
    refuse(
        &small(),
        json!([replace("clusters", "one", cluster("one", json!({})))]),
        Invalid,
        &both,
    );
    let null = cluster("one", json!({"namespaces": null, "platform_components": []}));
    refuse(
        &small(),
        json!([replace("clusters", "one", null)]),
        Invalid,
        &["/operations/0/value/namespaces"],
    );
}

#[test]
fn a_put_that_says_so_removes_references() {
    let value = cluster("one", json!({"namespaces": [{"id": "b"}], "platform_components": []}));
    let fleet = accept(&small(), json!([replace("clusters", "one", value)]));
    assert_eq!(ids(&fleet, "one.example.com", "namespaces"), ["b"]);
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), [""; 0]);
    assert_eq!(document(&fleet, "clusters", "one")["labels"], json!({}), "PUT replaces");
}

#[test]
fn a_put_may_leave_out_what_is_empty() {
    let fleet = accept(
        &small(),
        json!([replace("clusters", "three", cluster("three", json!({})))]),
    );
    assert_eq!(document(&fleet, "clusters", "three")["platform_components"], json!([]));
}

#[test]
fn a_script_older_than_a_kind_does_not_uninstall_it() {
    let policy = json!({"id": "p", "target_namespace": "x", "ingress_rules": []});
    let fleet = accept(
        &small(),
        json!([
            create("kinds", common::network_policy()),
            create("network_policies", policy),
            merge("clusters", "three", json!({"network_policies": [{"id": "p"}]})),
        ]),
    );
    let old = cluster(
        "three",
        json!({"platform_components": [], "namespaces": [], "rolebindings": []}),
    );
    refuse(
        &fleet,
        json!([replace("clusters", "three", old)]),
        Invalid,
        &["/operations/0/value/network_policies"],
    );
}

#[test]
fn no_patch_makes_a_document_deeper_than_can_be_read_again() {
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    let open = json!({"kind": "blobs", "schema": {"type": "object", "properties": {"id": {"type": "string"}, "spec": {"type": "object"}}}});
    let fleet = accept(
        &empty(),
        json!([
            create("kinds", open),
            create("blobs", json!({"id": "x", "spec": nested(50)}))
        ]),
    );
    refuse(
        &fleet,
        json!([create("blobs", json!({"id": "y", "spec": nested(90)}))]),
        Invalid,
        &["/operations/0/value"],
    );
    let patch = |value: Value| {
        let verb = Verb::Merge {
            on: Target::Id("x".into()),
            form: JsonPatch,
            value,
        };
        fleet.write(&[Operation::new("blobs", verb)], Rules::default())
    };
    let bottom = format!("/spec{}", "/a".repeat(50));
    assert!(patch(json!([{"op": "add", "path": format!("{bottom}/b"), "value": nested(50)}])).is_err());
    assert!(patch(json!([{"op": "copy", "from": "/spec", "path": format!("{bottom}/b")}])).is_err());
    assert!(patch(json!([{"op": "add", "path": format!("/spec{}", "/a".repeat(500)), "value": 1}])).is_err());
    let doubling: Vec<_> = (0..40)
        .map(|n| json!({"op": "copy", "from": "/spec", "path": format!("/spec/c{n}")}))
        .collect();
    assert!(patch(json!(doubling)).is_err());
    patch(json!([{"op": "add", "path": "/spec/b", "value": nested(50)}])).unwrap();
}
