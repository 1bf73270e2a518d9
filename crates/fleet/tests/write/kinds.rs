//! Kinds are data: adding, changing and removing them while they are in use.

use fleet::kind::built_in;
use fleet::operation::{Operation, Verb};
use fleet::refusal::Reason::{Contract, InUse, Invalid};
use serde_json::json;

use super::*;
use crate::common::{BATCH, commit, document, ids, network_policy, poll, refuse, view, write};

fn policy(id: &str) -> Value {
    json!({"id": id, "target_namespace": "x", "ingress_rules": []})
}

/// The small fleet with network policies, one of them on `three`.
fn with_policies() -> Fleet {
    let ops = json!([
        create("kinds", network_policy()),
        create("network_policies", policy("p")),
        merge("clusters", "three", json!({"network_policies": [{"id": "p"}]})),
    ]);
    accept(&small(), ops)
}

/// The clusters kind of a user: the built-in one, changed.
fn clusters_kind(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = built_in()[0].clone();
    change(&mut document["schema"]["items"]);
    document
}

fn open_clusters() -> Value {
    apply(
        "kinds",
        clusters_kind(|items| items["additionalProperties"] = true.into()),
    )
}

#[test]
fn a_kind_has_one_name_and_the_others_come_from_it() {
    let fleet = with_policies();
    let kind = fleet.kinds().get("network_policies").unwrap();
    assert_eq!((&*kind.singular, &*kind.command), ("network_policy", "network-policy"));
    assert_eq!(
        (kind.path.as_deref(), kind.references.as_deref()),
        (Some("network-policies"), Some("network_policies"))
    );
    assert_eq!(fleet.kinds().get("platform_components").unwrap().command, "component");
    let fleet = accept(
        &small(),
        json!([create("kinds", kind_of("ox", json!({"plural": "oxen"})))]),
    );
    assert_eq!(fleet.kinds().get("oxen").unwrap().singular, "ox");
}

fn kind_of(name: &str, flux: Value) -> Value {
    kind(name, json!({}), flux)
}

#[test]
fn a_kind_is_put_under_its_name_and_a_wrong_one_says_the_right_one() {
    let refusal = refuse(
        &small(),
        json!([replace("kinds", "network_policy", network_policy())]),
        Invalid,
        &["/operations/0/value/kind"],
    );
    assert!(refusal.detail.contains("/kinds/network_policies"), "{}", refusal.detail);
    let fleet = accept(
        &small(),
        json!([replace("kinds", "network_policies", network_policy())]),
    );
    assert_eq!(document(&fleet, "kinds", "network_policies"), network_policy());
}

#[test]
fn a_kind_is_put_as_a_whole() {
    refuse(
        &small(),
        json!([merge("kinds", "namespaces", json!({}))]),
        Invalid,
        &["/operations/0/op"],
    );
}

#[test]
fn a_new_kind_is_empty_on_every_cluster() {
    let fleet = accept(&small(), json!([create("kinds", network_policy())]));
    assert_eq!(
        poll(&fleet, "one.example.com", "network-policies"),
        json!({"inputs": []})
    );
    assert_eq!(poll(&fleet, "x.example.com", "network-policies"), "unknown cluster");
}

#[test]
fn documents_of_a_new_kind_are_held_against_its_schema() {
    let fleet = with_policies();
    let bad = json!({"id": "q", "ingress_rules": [{"port": "http", "protocol": "tcp"}], "colour": "red"});
    refuse(
        &fleet,
        json!([create("network_policies", bad)]),
        Invalid,
        &[
            "/operations/0/value/colour",
            "/operations/0/value/ingress_rules/0/port",
            "/operations/0/value/ingress_rules/0/protocol",
            "/operations/0/value/target_namespace",
        ],
    );
}

#[test]
fn an_object_is_closed_when_it_has_properties_unless_it_says_otherwise() {
    let properties = json!({
        "closed": {"type": "object", "properties": {"x": {"type": "string"}}},
        "open": {"type": "object"},
        "also_open": {"type": "object", "properties": {}, "additionalProperties": true},
    });
    let fleet = accept(&empty(), json!([create("kinds", kind("thing", properties, json!({})))]));
    let any = json!({"anything": 1});
    accept(
        &fleet,
        json!([create("things", json!({"id": "x", "open": any, "also_open": any}))]),
    );
    refuse(
        &fleet,
        json!([create("things", json!({"id": "x", "closed": any}))]),
        Invalid,
        &["/operations/0/value/closed/anything"],
    );
}

#[test]
fn an_id_is_never_looser_than_a_path_segment() {
    let free = json!({"kind": "thing", "schema": {"type": "object", "properties": {"id": {"type": "string", "pattern": ".*", "maxLength": 9999}}}});
    let fleet = accept(&empty(), json!([create("kinds", free)]));
    for id in ["a/b", "", "..", "a b", "ž", "-a", &"x".repeat(254)] {
        assert_eq!(
            write(&fleet, json!([create("things", json!({ "id": id }))]))
                .unwrap_err()
                .reason,
            Invalid,
            "{id}"
        );
    }
}

#[test]
fn an_id_has_no_default() {
    let default = json!({"kind": "thing", "schema": {"type": "object", "properties": {"id": {"type": "string", "default": "x"}}}});
    let fleet = accept(&empty(), json!([create("kinds", default)]));
    refuse(
        &fleet,
        json!([create("things", json!({}))]),
        Invalid,
        &["/operations/0/value/id"],
    );
}

#[test]
fn reserved_names_are_refused_for_kinds() {
    for name in [
        "change",
        "kinds",
        "identity",
        "profile",
        "rollout",
        "guard",
        "decommission",
        "event",
        "revision",
        "problem",
        "metric",
        "plan",
        "Thing",
        "a-b",
        "1st",
        "_x",
        "",
        "a_",
        &"x".repeat(64),
    ] {
        refuse(
            &small(),
            json!([create("kinds", kind_of(name, json!({})))]),
            Invalid,
            &["/operations/0/value/kind"],
        );
    }
    for plural in [
        "batch", "health", "ready", "openapi", "api", "flux", "status", "register", "whoami", "ui",
    ] {
        refuse(
            &small(),
            json!([create("kinds", kind_of("thing", json!({ "plural": plural })))]),
            Invalid,
            &["/operations/0/value/kind"],
        );
    }
}

#[test]
fn paths_where_clusters_report_are_refused_for_kinds() {
    for path in ["events", "report", "changed"] {
        refuse(
            &small(),
            json!([create("kinds", kind_of("thing", json!({ "path": path })))]),
            Invalid,
            &["/operations/0/value/schema/x-flux/path"],
        );
    }
    // By its name alone.
    refuse(
        &small(),
        json!([create("kinds", kind_of("thing", json!({"plural": "changed"})))]),
        Invalid,
        &["/operations/0/value/schema/x-flux/path"],
    );
    accept(
        &small(),
        json!([create("kinds", kind_of("report", json!({"path": "reports"})))]),
    );
}

#[test]
fn reserved_properties_are_refused_for_kinds() {
    for name in ["kind", "cluster", "provider", "_id"] {
        let pointer = format!("/operations/0/value/schema/properties/{name}");
        refuse(
            &small(),
            json!([create(
                "kinds",
                kind("thing", json!({ name: {"type": "string"} }), json!({}))
            )]),
            Invalid,
            &[&pointer],
        );
    }
}

#[test]
fn an_open_kind_does_not_take_them_either() {
    let flux = json!({"carried": {"paused": {"type": "boolean", "default": false}}, "nest": {"from": ["store"]}, "patches": true});
    let mut open = kind("thing", json!({"store": {"type": "string", "default": "s"}}), flux);
    open["schema"]["additionalProperties"] = true.into();
    let fleet = accept(&small(), json!([create("kinds", open)]));
    accept(&fleet, json!([create("things", json!({"id": "x", "anything": 1}))]));
    for name in ["cluster", "provider", "kind", "patches", "paused", "from"] {
        let value = json!({"id": "x", name: "mine"});
        refuse(
            &fleet,
            json!([create("things", value)]),
            Invalid,
            &[&format!("/operations/0/value/{name}")],
        );
    }
}

#[test]
fn the_array_of_references_is_not_a_field_of_clusters() {
    for array in [
        "labels",
        "patches",
        "id",
        "cluster_dns",
        "node_count",
        "environment",
        "kind",
        "_id",
        "cluster",
        "provider",
    ] {
        let refusal = write(
            &small(),
            json!([create("kinds", kind_of("thing", json!({ "references": array })))]),
        )
        .unwrap_err();
        assert_eq!(refusal.reason, Invalid, "{array}");
    }
}

#[test]
fn what_a_kind_says_of_flux_must_fit_its_properties() {
    for (flux, pointer) in [
        (json!({"overridable": ["size", "nothing"]}), "/overridable/1"),
        (json!({"overridable": ["size", "size"]}), "/overridable/1"),
        (json!({"overridable": ["id"]}), "/overridable/0"),
        (json!({"carried": {"size": {"type": "string"}}}), "/carried/size"),
        (json!({"carried": {"cluster": {"type": "string"}}}), "/carried/cluster"),
        (json!({"nest": {"size": ["size"]}}), "/nest/size"),
        (json!({"nest": {"cluster": ["size"]}}), "/nest/cluster"),
        (json!({"nest": {"in": ["nothing"]}}), "/nest/in/0"),
        (json!({"nest": {"in": ["id"]}}), "/nest/in/0"),
        (json!({"depends_on": "size"}), "/depends_on"),
        (json!({"off": {"nothing": 1}}), "/off/nothing"),
        (
            json!({"renders": [{"object": "X", "when": {"nothing": "x"}}]}),
            "/renders/0/when/nothing",
        ),
        (json!({"path": "a/b"}), "/path"),
        (json!({"command": "A b"}), "/command"),
        (json!({"colour": "red"}), "/colour"),
        (json!({"renders": [{"object": "X", "when": {"size": "("}}]}), ""),
    ] {
        let document = kind("thing", json!({"size": {"type": "string"}}), flux.clone());
        let pointer = format!("/operations/0/value/schema/x-flux{pointer}");
        refuse(&small(), json!([create("kinds", document)]), Invalid, &[&pointer]);
    }
    let patches = kind(
        "thing",
        json!({"patches": {"type": "object"}}),
        json!({"patches": true}),
    );
    refuse(
        &small(),
        json!([create("kinds", patches)]),
        Invalid,
        &["/operations/0/value/schema/x-flux/patches"],
    );
}

#[test]
fn two_kinds_cannot_share_a_path_an_array_or_a_command() {
    for flux in [
        json!({"path": "namespaces"}),
        json!({"references": "namespaces"}),
        json!({"command": "component"}),
        json!({"singular": "namespace"}),
    ] {
        refuse(
            &small(),
            json!([create("kinds", kind_of("thing", flux))]),
            Invalid,
            &["/operations/0/value/kind"],
        );
    }
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let refused = |document: Value| {
        assert_eq!(
            write(&small(), json!([create("kinds", document)])).unwrap_err().reason,
            Invalid
        );
    };
    refused(json!({"kind": "thing"}));
    refused(json!({"kind": "thing", "schema": {"type": "object"}}));
    refused(json!({"kind": "thing", "schema": {"type": "string", "properties": {}}}));
    refused(json!({"kind": "thing", "schema": {"type": "array"}}));
    refused(json!({"schema": {"type": "object", "properties": {}}}));
    refused(json!(["thing"]));
    for property in [
        json!(5),
        json!({"type": "strange"}),
        json!({"pattern": "("}),
        json!({"pattern": "(?=x)"}),
        json!({"type": "string", "default": 5}),
    ] {
        refused(kind("thing", json!({ "x": property }), json!({})));
    }
}

#[test]
fn a_schema_does_not_reach_outside() {
    let mut whole = kind_of("thing", json!({}));
    whole["schema"]["$ref"] = "#/components/schemas/unknown".into();
    refuse(
        &small(),
        json!([create("kinds", whole)]),
        Invalid,
        &["/operations/0/value/schema/$ref"],
    );
    for target in [
        "http://example.com/schema",
        "file:///etc/passwd",
        "elsewhere",
        "#/components/schemas/unknown_ref",
    ] {
        for schema in [
            json!({"$ref": target}),
            json!({"anyOf": [{"$ref": target}]}),
            json!({"not": {"$ref": target}}),
        ] {
            let document = kind("thing", json!({ "x": schema }), json!({}));
            assert_eq!(
                write(&small(), json!([create("kinds", document)])).unwrap_err().reason,
                Invalid,
                "{schema}"
            );
        }
    }
}

#[test]
fn a_schema_that_refers_to_itself_comes_to_an_end() {
    for target in ["#", "#/allOf/0", "#/allOf/0/properties/x"] {
        for keyword in ["anyOf", "allOf", "oneOf"] {
            let document = kind("thing", json!({"x": { keyword: [{"$ref": target}] }}), json!({}));
            if let Ok((fleet, _)) = write(&empty(), json!([create("kinds", document)])) {
                let _ = write(
                    &fleet,
                    json!([create("things", json!({"id": "x", "x": {"x": {"x": {}}}}))]),
                );
            }
        }
    }
}

#[test]
fn a_cluster_file_may_name_the_array_of_a_kind() {
    let named = clusters_kind(|items| {
        items["properties"]["network_policies"] = json!({
            "type": "array",
            "items": {"$ref": "#/components/schemas/network_policy_ref"},
            "description": "Network policies to sync to this cluster.",
        });
    });
    let (clusters, policies) = (apply("kinds", named), create("kinds", network_policy()));
    refuse(
        &small(),
        json!([clusters]),
        Invalid,
        &["/operations/0/value/schema/items/properties/network_policies/items/$ref"],
    );
    for ops in [json!([clusters, policies]), json!([policies, clusters])] {
        let fleet = accept(&small(), ops);
        let fleet = accept(
            &fleet,
            json!([
                create("network_policies", policy("p")),
                merge("clusters", "three", json!({"network_policies": [{"id": "p"}]})),
            ]),
        );
        assert_eq!(ids(&fleet, "three.example.com", "network-policies"), ["p"]);
        let bad = json!([merge(
            "clusters",
            "three",
            json!({"network_policies": [{"id": "p", "port": 1}]})
        )]);
        refuse(&fleet, bad, Invalid, &["/operations/0/value/network_policies/0/port"]);
        assert_eq!(
            write(
                &fleet,
                json!([cascade("network_policies", "p"), delete("kinds", "network_policies")])
            )
            .unwrap_err()
            .reason,
            Invalid
        );
    }
}

#[test]
fn a_changed_kind_must_hold_for_what_is_stored_under_it() {
    let mut stricter = built_in()[2].clone();
    stricter["schema"]["items"]["required"] = json!(["id", "owner"]);
    stricter["schema"]["items"]["properties"]["owner"] = json!({"type": "string"});
    let refusal = refuse(
        &small(),
        json!([apply("kinds", stricter.clone())]),
        Invalid,
        &["/operations/0/value"; 2],
    );
    assert!(
        refusal.errors[0].detail.contains("namespace \"a\"") && refusal.errors[1].detail.contains("namespace \"b\""),
        "{refusal:?}"
    );
    let owned = |id| merge("namespaces", id, json!({"owner": "me"}));
    let mut lenient = stricter.clone();
    lenient["schema"]["items"]["required"] = json!(["id"]);
    let fleet = accept(
        &small(),
        json!([
            apply("kinds", lenient),
            owned("a"),
            owned("b"),
            apply("kinds", stricter)
        ]),
    );
    refuse(
        &fleet,
        json!([create("namespaces", json!({"id": "x"}))]),
        Invalid,
        &["/operations/0/value/owner"],
    );
}

#[test]
fn a_changed_kind_must_hold_for_the_references_to_it() {
    let mut fewer = built_in()[1].clone();
    fewer["schema"]["x-flux"]["overridable"] = json!(["component_path"]);
    let refusal = refuse(
        &small(),
        json!([apply("kinds", fewer)]),
        Invalid,
        &["/operations/0/value"],
    );
    assert!(
        refusal.detail.contains("cluster \"one\"") && refusal.detail.contains("oci_tag"),
        "{}",
        refusal.detail
    );
}

#[test]
fn a_changed_clusters_kind_must_hold_for_every_cluster() {
    let narrower = clusters_kind(|items| items["properties"]["environment"]["enum"] = json!(["dev"]));
    let refusal = refuse(
        &small(),
        json!([apply("kinds", narrower)]),
        Invalid,
        &["/operations/0/value"],
    );
    assert!(refusal.detail.contains("cluster \"three\""), "{}", refusal.detail);
    let wider = clusters_kind(|items| items["properties"]["environment"]["enum"] = json!(["dev", "prod", "lab"]));
    let fleet = accept(&small(), json!([apply("kinds", wider)]));
    accept(&fleet, json!([merge("clusters", "one", json!({"environment": "lab"}))]));
}

#[test]
fn a_new_field_of_clusters_does_not_take_the_name_of_a_label() {
    let field = clusters_kind(|items| items["properties"]["team"] = json!({"type": "string"}));
    let refusal = refuse(
        &small(),
        json!([apply("kinds", field)]),
        Invalid,
        &["/operations/0/value"; 2],
    );
    assert!(refusal.errors[0].detail.contains("/labels/team"), "{refusal:?}");
}

#[test]
fn a_new_default_is_brought_to_what_is_stored() {
    let mut document = network_policy();
    document["schema"]["properties"]["tier"] = json!({"type": "string", "default": "gold"});
    let (fleet, changes) = write(&with_policies(), json!([apply("kinds", document)])).unwrap();
    assert_eq!(
        poll(&fleet, "three.example.com", "network-policies")["inputs"][0]["tier"],
        "gold"
    );
    assert_eq!(changes.len(), 2, "the kind and the definition, each with its record");
}

#[test]
fn a_default_within_a_default_is_filled_in_at_once() {
    let inner = json!({"type": "object", "properties": {"b": {"type": "integer", "default": 1}}, "default": {}});
    let fleet = accept(
        &empty(),
        json!([
            create("kinds", kind("thing", json!({ "a": inner }), json!({}))),
            create("things", json!({"id": "x"}))
        ]),
    );
    assert_eq!(document(&fleet, "things", "x")["a"], json!({"b": 1}));
    let (_, changes) = write(&fleet, json!([merge("things", "x", json!({}))])).unwrap();
    assert_eq!(changes, []);
}

#[test]
fn a_kind_that_is_in_use_is_not_deleted() {
    let refusal = refuse(
        &with_policies(),
        json!([delete("kinds", "network_policies")]),
        InUse,
        &["/operations/0/id"],
    );
    assert!(refusal.detail.contains('p'), "{}", refusal.detail);
    refuse(
        &small(),
        json!([delete("kinds", "clusters")]),
        InUse,
        &["/operations/0/id"],
    );
}

#[test]
fn a_kind_takes_no_resources_with_it() {
    // Not even those that the batch itself wrote.
    let touched = merge("network_policies", "p", json!({"target_namespace": "y"}));
    let made = create("network_policies", policy("q"));
    let unassigned = merge(
        "clusters",
        "three",
        json!({"network_policies": [{"id": "p", "$patch": "delete"}]}),
    );
    let gone = delete("kinds", "network_policies");
    for ops in [
        json!([touched, unassigned, gone]),
        json!([cascade("network_policies", "p"), made, gone]),
    ] {
        assert_eq!(write(&with_policies(), ops).unwrap_err().reason, InUse);
    }
}

#[test]
fn a_kind_that_is_deleted_and_put_again_loses_nothing() {
    let ops = json!([delete("kinds", "namespaces"), create("kinds", built_in()[2].clone())]);
    match write(&small(), ops) {
        Ok((fleet, _)) => assert_eq!(ids(&fleet, "one.example.com", "namespaces"), ["a", "b"]),
        Err(refusal) => assert_eq!(refusal.reason, InUse),
    }
}

#[test]
fn a_kind_goes_when_its_resources_have_gone() {
    let fleet = accept(
        &with_policies(),
        json!([cascade("network_policies", "p"), delete("kinds", "network_policies")]),
    );
    assert_eq!(poll(&fleet, "three.example.com", "network-policies"), "unknown kind");
    assert_eq!(
        document(&fleet, "clusters", "three").get("network_policies"),
        None,
        "the empty array goes too"
    );
    let fleet = accept(&fleet, json!([create("kinds", network_policy())]));
    assert_eq!(
        poll(&fleet, "three.example.com", "network-policies"),
        json!({"inputs": []})
    );
}

#[test]
fn a_kind_that_only_dangling_references_name_is_in_use_too() {
    let seed = Operation::new(
        "clusters",
        Verb::Create {
            id: None,
            value: cluster("x", json!({"network_policies": [{"id": "gone"}]})),
        },
    );
    let fleet = accept(&small(), json!([create("kinds", network_policy())]));
    let fleet = commit(&fleet, &[seed], common::SEED).unwrap().0;
    let refusal = refuse(
        &fleet,
        json!([delete("kinds", "network_policies")]),
        InUse,
        &["/operations/0"],
    );
    assert_eq!(refusal.clusters, ["x"]);
}

#[test]
fn one_kind_may_take_the_place_of_another_in_one_batch() {
    let successor = kind_of(
        "firewall",
        json!({"path": "network-policies", "references": "network_policies", "command": "network-policy"}),
    );
    let gone = delete("kinds", "network_policies");
    let made = create("kinds", successor);
    let fleet = accept(&with_policies(), json!([cascade("network_policies", "p")]));
    for ops in [json!([gone, made]), json!([made, gone])] {
        let fleet = accept(&fleet, ops);
        assert_eq!(
            poll(&fleet, "three.example.com", "network-policies"),
            json!({"inputs": []})
        );
        assert!(fleet.kinds().get("network_policies").is_none());
    }
}

#[test]
fn the_array_of_a_kind_moves_only_while_it_is_empty() {
    let moved = |kind: Value| apply("kinds", with(kind, json!({})));
    let mut elsewhere = network_policy();
    elsewhere["schema"]["x-flux"] = json!({"references": "policies"});
    assert_ne!(
        write(&with_policies(), json!([moved(elsewhere.clone())]))
            .map(|_| ())
            .unwrap_err()
            .reason,
        Contract
    );
    let fleet = accept(
        &with_policies(),
        json!([merge(
            "clusters",
            "three",
            json!({"network_policies": [{"id": "p", "$patch": "delete"}]})
        )]),
    );
    let fleet = accept(
        &fleet,
        json!([
            moved(elsewhere),
            merge("clusters", "two", json!({"policies": [{"id": "p"}]}))
        ]),
    );
    assert_eq!(ids(&fleet, "two.example.com", "network-policies"), ["p"]);
    assert_eq!(document(&fleet, "clusters", "three").get("network_policies"), None);
}

#[test]
fn the_array_of_a_kind_does_not_move_away_under_open_clusters() {
    // Clusters that take any field would stay valid, and be told that they have none.
    let fleet = accept(&with_policies(), json!([open_clusters()]));
    let mut elsewhere = network_policy();
    elsewhere["schema"]["x-flux"] = json!({"references": "policies"});
    let refusal = write(&fleet, json!([apply("kinds", elsewhere)])).unwrap_err();
    assert_eq!((refusal.reason, refusal.clusters), (InUse, vec!["three".to_owned()]));
    assert_eq!(
        write(&fleet, json!([delete("kinds", "network_policies")]))
            .unwrap_err()
            .reason,
        InUse
    );
}

#[test]
fn a_kind_does_not_come_over_fields_that_break_it() {
    let open = accept(&small(), json!([open_clusters()]));
    let field = |value: Value| {
        accept(
            &open,
            json!([merge("clusters", "three", json!({ "network_policies": value }))]),
        )
    };
    for bad in [json!("none"), json!([1]), json!([{}])] {
        let refusal = refuse(
            &field(bad),
            json!([create("kinds", network_policy())]),
            Invalid,
            &["/operations/0/value"],
        );
        assert!(refusal.detail.contains("cluster \"three\""), "{}", refusal.detail);
    }
    let twice = field(json!([{"id": "p"}, {"id": "p"}]));
    let refusal = write(&twice, json!([create("kinds", network_policy())])).unwrap_err();
    assert_eq!((refusal.reason, refusal.clusters), (Contract, vec!["three".to_owned()]));
    let fleet = accept(&field(json!([{"id": "p"}])), json!([create("kinds", network_policy())]));
    let fleet = accept(&fleet, json!([create("network_policies", policy("p"))]));
    assert_eq!(ids(&fleet, "three.example.com", "network-policies"), ["p"]);
}

#[test]
fn the_clusters_kind_of_a_user_is_given_what_the_code_needs() {
    let bare = json!({"kind": "cluster", "schema": {"type": "object", "properties": {"region": {"type": "string"}}}});
    let fleet = accept(&empty(), json!([apply("kinds", bare)]));
    let fleet = accept(
        &fleet,
        json!([
            create("namespaces", json!({"id": "a"})),
            create(
                "clusters",
                cluster(
                    "x",
                    json!({
                        "region": "east", "labels": {"team": "red"}, "protected": true, "patches": {}, "namespaces": [{"id": "a"}],
                    })
                )
            )
        ]),
    );
    assert_eq!(ids(&fleet, "x.example.com", "namespaces"), ["a"]);
    refuse(
        &fleet,
        json!([create("clusters", json!({"region": "west"}))]),
        Invalid,
        &[
            "/operations/0/value/cluster_dns",
            "/operations/0/value/cluster_name",
            "/operations/0/value/environment",
            "/operations/0/value/id",
        ],
    );
    assert_eq!(
        write(&fleet, json!([delete("clusters", "x")])).unwrap_err().reason,
        fleet::refusal::Reason::Protected
    );
}

#[test]
fn the_clusters_kind_of_a_user_keeps_the_types_that_the_code_needs() {
    for (name, schema) in [
        ("cluster_dns", json!({"type": "integer"})),
        ("labels", json!({"type": "array"})),
        ("protected", json!({"schema": {"type": "string"}})),
        ("patches", json!({"type": ["object", "null"]})),
    ] {
        let document = clusters_kind(|items| items["properties"][name] = schema);
        let pointer = format!("/operations/0/value/schema/items/properties/{name}/type");
        refuse(&small(), json!([apply("kinds", document)]), Invalid, &[&pointer]);
    }
    let untyped = clusters_kind(|items| items["properties"]["cluster_dns"] = json!({"description": "anything"}));
    let fleet = accept(&small(), json!([apply("kinds", untyped)]));
    let number = json!([create("clusters", cluster("x", json!({"cluster_dns": 5})))]);
    refuse(&fleet, number, Invalid, &["/operations/0/value/cluster_dns"]);
    let flux = clusters_kind(|_| {});
    let flux = with(
        flux.clone(),
        json!({"schema": with(flux["schema"].clone(), json!({"x-flux": {"path": "clusters"}}))}),
    );
    refuse(
        &small(),
        json!([apply("kinds", flux)]),
        Invalid,
        &["/operations/0/value/schema/x-flux/path"],
    );
}

#[test]
fn the_reference_of_one_kind_may_be_a_part_of_another() {
    let holder = |name| {
        kind(
            name,
            json!({"uses": {"type": "array", "items": {"$ref": "#/components/schemas/platform_component_ref"}}}),
            json!({}),
        )
    };
    let fleet = accept(
        &small(),
        json!([
            create("kinds", holder("bundle")),
            create("bundles", json!({"id": "x", "uses": [{"id": "a", "oci_tag": "v2"}]}))
        ]),
    );
    refuse(
        &fleet,
        json!([create("bundles", json!({"id": "y", "uses": [{"oci_url": "x"}]}))]),
        Invalid,
        &["/operations/0/value/uses/0/id", "/operations/0/value/uses/0/oci_url"],
    );
    let fleet = accept(
        &fleet,
        json!([merge(
            "clusters",
            "one",
            json!({"platform_components": [{"id": "a", "oci_tag": null}]})
        )]),
    );
    let mut fewer = built_in()[1].clone();
    fewer["schema"]["x-flux"]["overridable"] = json!(["component_path"]);
    let refusal = refuse(
        &fleet,
        json!([apply("kinds", fewer)]),
        Invalid,
        &["/operations/0/value"],
    );
    assert!(refusal.detail.contains("bundle \"x\""), "{}", refusal.detail);
}

#[test]
fn a_kind_that_is_put_as_it_is_keeps_its_origin() {
    let put = |document: &Value| {
        Operation::new(
            "kinds",
            Verb::Apply {
                id: None,
                value: document.clone(),
            },
        )
    };
    let shipped = commit(&small(), &[put(&network_policy()).from(&"built-in".into())], BATCH)
        .unwrap()
        .0;
    let again = commit(&shipped, &[put(&network_policy())], BATCH).unwrap();
    assert_eq!(again.1.changes, []);
    assert_eq!(
        again.0.kinds().get("network_policies").unwrap().origin.as_deref(),
        Some("built-in")
    );
    let changed = with(network_policy(), json!({"apiVersion": "v2"}));
    let changed = commit(&shipped, &[put(&changed)], BATCH).unwrap().0;
    assert_eq!(changed.kinds().get("network_policies").unwrap().origin, None);
}

#[test]
fn a_refused_kind_leaves_the_old_ones_in_force() {
    let before = view(&small());
    let bad = json!([apply(
        "kinds",
        kind("namespace", json!({"cluster": {"type": "string"}}), json!({}))
    )]);
    refuse(
        &small(),
        bad,
        Invalid,
        &["/operations/0/value/schema/properties/cluster"],
    );
    assert_eq!(view(&small()), before);
}

#[test]
fn a_kind_that_comes_later_changes_no_cluster_until_something_refers_to_it() {
    let fleet = accept(&small(), json!([create("kinds", common::network_policy())]));
    let one = common::document(&fleet, "clusters", "one");
    let (_, changes) = common::write(
        &fleet,
        json!([merge("clusters", "one", json!({})), replace("clusters", "one", one)]),
    )
    .unwrap();
    assert_eq!(changes, []);
    let fleet = accept(&fleet, json!([create("clusters", cluster("four", json!({})))]));
    assert_eq!(
        common::document(&fleet, "clusters", "four")["network_policies"],
        json!([])
    );
}
