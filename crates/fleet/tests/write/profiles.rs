//! Profiles: the merge, who gets what, and what a write of one is refused for.

use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::files::Seed;
use fleet::history::{Back, Scope, WayBack};
use fleet::operation::BatchRequest;
use fleet::profile::{Array, explain, propose};
use fleet::refusal::Reason;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{BATCH, SEED, accept, commit, document, empty, ids, poll, refuse, write};
use crate::{apply, cluster, component, create, delete, many, merge, with};

const DNS: &str = "one.example.com";

/// Four components, and the clusters `one` and `two` with labels.
fn fleet() -> Fleet {
    let mut operations: Vec<Value> = ["a", "b", "c", "d"]
        .map(|id| create("platform_components", component(id, json!({}))))
        .into();
    operations.push(create("namespaces", json!({"id": "n"})));
    operations.push(create("clusters", cluster("one", json!({"labels": {"tier": "gold"}}))));
    operations.push(create(
        "clusters",
        cluster("two", json!({"labels": {"tier": "iron"}, "environment": "dev"})),
    ));
    accept(&empty(), operations.into())
}

fn profile(id: &str, selector: &str, priority: i64, components: Value) -> Value {
    create(
        "profiles",
        json!({"id": id, "selector": selector, "priority": priority, "platform_components": components}),
    )
}

fn input(fleet: &Fleet, dns: &str, id: &str) -> Value {
    let reply = poll(fleet, dns, "platform-components");
    let mut inputs = reply["inputs"].as_array().unwrap().iter();
    inputs.find(|input| input["id"] == id).cloned().unwrap_or_default()
}

#[test]
fn a_cluster_has_what_the_profiles_that_it_matches_bring_beneath_its_own() {
    let fleet = accept(
        &fleet(),
        json!([
            profile("base", "*", 0, json!([{"id": "a", "oci_tag": "v2"}, {"id": "b"}])),
            profile(
                "gold",
                "tier=gold",
                10,
                json!([{"id": "c"}, {"id": "a", "oci_tag": "v3"}])
            ),
            merge(
                "clusters",
                "one",
                json!({"platform_components": [{"id": "d"}, {"id": "b", "oci_tag": "v9"}]})
            ),
        ]),
    );
    assert_eq!(ids(&fleet, DNS, "platform-components"), ["a", "b", "c", "d"]);
    assert_eq!(ids(&fleet, "two.example.com", "platform-components"), ["a", "b"]);
    let tags = ["a", "b", "c", "d"].map(|id| input(&fleet, DNS, id)["source"]["oci_tag"].clone());
    assert_eq!(tags, ["v3", "v9", "v1", "v1"]);
    assert_eq!(input(&fleet, "two.example.com", "a")["source"]["oci_tag"], "v2");
    // The cluster's own document stays what it is.
    assert_eq!(
        document(&fleet, "clusters", "one")["platform_components"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_cluster_that_joins_or_is_relabelled_gets_what_its_labels_say() {
    let base = accept(&fleet(), json!([profile("gold", "tier=gold", 0, json!([{"id": "a"}]))]));
    let joined = accept(
        &base,
        json!([create(
            "clusters",
            cluster("three", json!({"labels": {"tier": "gold"}}))
        )]),
    );
    assert_eq!(ids(&joined, "three.example.com", "platform-components"), ["a"]);
    let relabelled = accept(
        &base,
        json!([merge("clusters", "two", json!({"labels": {"tier": "gold"}}))]),
    );
    assert_eq!(ids(&relabelled, "two.example.com", "platform-components"), ["a"]);
    let left = accept(
        &base,
        json!([merge("clusters", "one", json!({"labels": {"tier": null}}))]),
    );
    assert_eq!(ids(&left, DNS, "platform-components"), [""; 0]);
    // Everything that comes in one write, in any order.
    let order = json!([
        create("clusters", cluster("four", json!({"labels": {"tier": "tin"}}))),
        profile("tin", "tier=tin", 0, json!([{"id": "b"}])),
        create("clusters", cluster("five", json!({"labels": {"tier": "tin"}}))),
    ]);
    let both = accept(&base, order);
    assert_eq!(ids(&both, "four.example.com", "platform-components"), ["b"]);
    assert_eq!(ids(&both, "five.example.com", "platform-components"), ["b"]);
}

#[test]
fn an_exclusion_takes_out_what_came_before_and_a_later_reference_goes_last() {
    let fleet = accept(
        &fleet(),
        json!([
            profile(
                "base",
                "*",
                0,
                json!([{"id": "a", "oci_tag": "v2"}, {"id": "b"}, {"id": "c"}])
            ),
            profile(
                "less",
                "tier=gold",
                1,
                json!([{"id": "a", "excluded": true}, {"id": "b", "excluded": true}])
            ),
            profile("more", "tier=gold", 2, json!([{"id": "a"}])),
            merge(
                "clusters",
                "one",
                json!({"platform_components": [{"id": "c", "excluded": true}]})
            ),
        ]),
    );
    assert_eq!(ids(&fleet, DNS, "platform-components"), ["a"]);
    assert_eq!(
        input(&fleet, DNS, "a")["source"]["oci_tag"],
        "v1",
        "v2 was taken out with its reference"
    );
    assert_eq!(ids(&fleet, "two.example.com", "platform-components"), ["a", "b", "c"]);
    // Assigning what was excluded brings it back.
    let assigned = accept(
        &fleet,
        json!([{"op": "assign", "kind": "platform_components", "id": "c", "cluster": "one"}]),
    );
    assert_eq!(ids(&assigned, DNS, "platform-components"), ["c", "a"]);
}

#[test]
fn a_hotfix_changes_what_is_there_and_adds_nothing() {
    let fleet = accept(
        &fleet(),
        json!([
            profile("base", "tier=gold", 0, json!([{"id": "a"}])),
            profile(
                "fix",
                "*",
                10,
                json!([
                    {"id": "a", "oci_tag": "v1-fixed", "adds": false}, {"id": "b", "oci_tag": "v1-fixed", "adds": false},
                ])
            ),
            merge("clusters", "one", json!({"platform_components": [{"id": "b"}]})),
        ]),
    );
    assert_eq!(ids(&fleet, DNS, "platform-components"), ["a", "b"]);
    assert_eq!(ids(&fleet, "two.example.com", "platform-components"), [""; 0]);
    for id in ["a", "b"] {
        assert_eq!(input(&fleet, DNS, id)["source"]["oci_tag"], "v1-fixed", "{id}");
    }
    let collapsed = accept(&fleet, json!([delete("profiles", "fix")]));
    assert_eq!(input(&collapsed, DNS, "b")["source"]["oci_tag"], "v1");
}

#[test]
fn defaults_of_carried_fields_come_after_the_merge() {
    let off = accept(
        &fleet(),
        json!([profile("base", "*", 0, json!([{"id": "a", "enabled": false}]))]),
    );
    assert_eq!(input(&off, DNS, "a")["enabled"], false);
    assert_eq!(
        document(&off, "profiles", "base")["platform_components"],
        json!([{"id": "a", "enabled": false}])
    );
    // Assigned by the cluster, it stays as the profile says, unless the cluster says something.
    let assign = |value: Value| json!([{"op": "assign", "kind": "platform_components", "id": "a", "cluster": "one", "value": value}]);
    let kept = accept(&off, assign(json!({"oci_tag": "v5"})));
    assert_eq!(
        document(&kept, "clusters", "one")["platform_components"][0]["enabled"],
        Value::Null
    );
    assert_eq!(input(&kept, DNS, "a")["enabled"], false);
    let said = accept(&off, assign(json!({"enabled": true})));
    assert_eq!(input(&said, DNS, "a")["enabled"], true);
    // A PATCH with null says "as profiles say", too.
    let again = accept(
        &said,
        json!([merge(
            "clusters",
            "one",
            json!({"platform_components": [{"id": "a", "enabled": null}]})
        )]),
    );
    assert_eq!(input(&again, DNS, "a")["enabled"], false);
    // Without any word, the default counts.
    let plain = accept(&fleet(), json!([profile("base", "*", 0, json!([{"id": "a"}]))]));
    assert_eq!(input(&plain, DNS, "a")["enabled"], true);
}

#[test]
fn patches_are_merged_key_by_key() {
    let patched = |id: &str, priority: i64, patches: Value| {
        json!({"op": "create", "kind": "profiles", "value": {
            "id": id, "selector": "*", "priority": priority, "patches": patches, "platform_components": [{"id": "a"}],
        }})
    };
    let fleet = accept(
        &fleet(),
        json!([
            patched("low", 0, json!({"a": {"x": "low", "y": "low", "z": "low"}})),
            patched("high", 1, json!({"a": {"y": "high", "z": "high"}})),
            merge("clusters", "one", json!({"patches": {"a": {"z": "own"}}})),
        ]),
    );
    assert_eq!(
        input(&fleet, DNS, "a")["patches"],
        json!({"x": "low", "y": "high", "z": "own"})
    );
    let excluded = accept(
        &fleet,
        json!([profile("mid", "*", 0, json!([{"id": "a", "excluded": true}])),]),
    );
    assert_eq!(
        input(&excluded, DNS, "a")["patches"],
        json!({"y": "high", "z": "own"}),
        "low goes before mid"
    );
}

#[test]
fn of_equal_priorities_the_later_id_counts() {
    let fleet = accept(
        &fleet(),
        json!([
            profile("zulu", "*", 0, json!([{"id": "a", "oci_tag": "zulu"}])),
            profile("alpha", "*", 0, json!([{"id": "a", "oci_tag": "alpha"}])),
        ]),
    );
    assert_eq!(input(&fleet, DNS, "a")["source"]["oci_tag"], "zulu");
}

#[test]
fn bad_profiles_are_refused_with_their_place() {
    let fleet = fleet();
    let base = json!({"id": "p", "selector": "*"});
    let with = |fields: Value| json!([create("profiles", with(base.clone(), fields))]);
    for (fields, pointers) in [
        (json!({"selector": ""}), ["/operations/0/value/selector"]),
        (
            json!({"selector": "environment=strange"}),
            ["/operations/0/value/selector"],
        ),
        (json!({"selector": "!unknown"}), ["/operations/0/value/selector"]),
        (json!({"selector": "unknown!=x"}), ["/operations/0/value/selector"]),
        (
            json!({"selector": "unknown notin (x)"}),
            ["/operations/0/value/selector"],
        ),
        (json!({"priority": 1001}), ["/operations/0/value/priority"]),
        (json!({"priority": -1001}), ["/operations/0/value/priority"]),
        (json!({"priority": 0.5}), ["/operations/0/value/priority"]),
        (
            json!({"platform_components": [{"id": "missing"}]}),
            ["/operations/0/value/platform_components/0/id"],
        ),
        (
            json!({"platform_components": [{"id": "a"}, {"id": "a"}]}),
            ["/operations/0/value/platform_components/1/id"],
        ),
        (
            json!({"platform_components": [{"id": "a", "excluded": true, "oci_tag": "x"}]}),
            ["/operations/0/value/platform_components/0/oci_tag"],
        ),
    ] {
        refuse(&fleet, with(fields), Reason::Invalid, &pointers);
    }
    let unknown = accept(&fleet, with(json!({"selector": "new=x"})));
    assert!(
        unknown.profiles().get("p").is_some(),
        "a label that no cluster has yet may be selected"
    );
    // It stays valid when the label vanishes, also under a negation.
    let negated = accept(&fleet, with(json!({"selector": "!tier"})));
    let gone = accept(
        &negated,
        json!([
            merge("clusters", "one", json!({"labels": {"tier": null}})),
            merge("clusters", "two", json!({"labels": {"tier": null}})),
        ]),
    );
    accept(&gone, json!([merge("profiles", "p", json!({"priority": 5}))]));
}

/// A negated label that no cluster has is refused as a typo, but what was stored once comes back, whatever happened to the label.
#[test]
fn a_profile_comes_back_although_its_label_vanished() {
    let tier = |value: Value| {
        let one = merge("clusters", "one", json!({"labels": {"tier": value}}));
        let two = merge("clusters", "two", json!({"labels": {"tier": value}}));
        json!([one, two])
    };
    let stored = accept(
        &fleet(),
        json!([profile("rest", "tier!=gold", 0, json!([{"id": "a"}]))]),
    );
    let vanished = accept(&stored, tier(Value::Null));
    let request = BatchRequest::parse(json!({"operations": [delete("profiles", "rest")]})).unwrap();
    let (gone, record) = commit(&vanished, &request.operations, BATCH).unwrap();
    let undo = Back::Undo {
        record: Box::new(record),
        reversed_by: None,
    };
    for back in [undo, Back::Rollback(Scope::Fleet)] {
        let way_back = WayBack {
            then: Arc::new(vanished.clone()),
            back,
        };
        let operations = way_back.operations(&gone).unwrap();
        let (after, _) = commit(&gone, &operations, BATCH).unwrap();
        assert_eq!(ids(&after, DNS, "platform-components"), ["a"]);
    }
    // A seed has profiles before clusters, and may have been exported when the label was gone.
    for fleet in [&stored, &vanished] {
        let list = |kind: &str, ids: &[&str]| ids.iter().map(|id| document(fleet, kind, id)).collect::<Value>();
        let seed = json!({
            "profiles": list("profiles", &["rest"]), "clusters": list("clusters", &["one", "two"]),
            "platform_components": list("platform_components", &["a", "b", "c", "d"]), "namespaces": [{"id": "n"}],
        })
        .to_string();
        let seed = Seed::read(&seed).unwrap();
        let mut seeded = empty();
        for part in seed.parts() {
            seeded = commit(&seeded, &seed.operations(part).unwrap(), SEED).unwrap().0;
        }
        for id in ["one", "two"] {
            let dns = format!("{id}.example.com");
            let path = "platform-components";
            assert_eq!(poll(&seeded, &dns, path), poll(fleet, &dns, path));
        }
    }
    let refused = json!([profile("rest", "tier!=gold", 0, json!([]))]);
    refuse(&gone, refused, Reason::Invalid, &["/operations/0/value/selector"]);
}

#[test]
fn a_definition_that_a_profile_refers_to_is_in_use() {
    let fleet = accept(
        &fleet(),
        json!([profile("base", "tier=gold", 0, json!([{"id": "a"}, {"id": "b"}]))]),
    );
    let refusal = refuse(
        &fleet,
        json!([delete("platform_components", "a")]),
        Reason::InUse,
        &["/operations/0"],
    );
    assert_eq!(
        (refusal.resources, refusal.clusters),
        (vec!["profiles/base".to_owned()], vec!["one".to_owned()])
    );
    assert!(
        refusal.detail.contains("on 1 cluster: one, and by 1 profile: base"),
        "{}",
        refusal.detail
    );
    let cascaded = json!([{"op": "delete", "kind": "platform_components", "id": "a", "cascade": true}]);
    let after = accept(&fleet, cascaded);
    assert_eq!(
        document(&after, "profiles", "base")["platform_components"],
        json!([{"id": "b"}])
    );
    let refusal = refuse(
        &fleet,
        json!([delete("kinds", "profiles")]),
        Reason::InUse,
        &["/operations/0/id"],
    );
    assert!(refusal.detail.contains("cannot be deleted"), "{}", refusal.detail);
}

#[test]
fn a_field_that_a_stored_selector_names_cannot_be_dropped() {
    let fleet = accept(&fleet(), json!([profile("big", "vm_image=x", 0, json!([{"id": "a"}]))]));
    let mut clusters = fleet::kind::built_in()[0].clone();
    clusters["schema"]["items"]["properties"]
        .as_object_mut()
        .unwrap()
        .remove("vm_image");
    let refusal = refuse(
        &fleet,
        json!([apply("kinds", clusters)]),
        Reason::Invalid,
        &["/operations/0/value"],
    );
    assert!(
        refusal
            .detail
            .contains("the profile \"big\" names the field \"vm_image\""),
        "{}",
        refusal.detail
    );
}

#[test]
fn names_that_the_merge_needs_are_refused_in_kinds() {
    for (schema, pointer) in [
        (
            json!({"type": "object", "properties": {"excluded": {"type": "boolean"}}}),
            "/operations/0/value/schema/properties/excluded",
        ),
        (
            json!({"type": "object", "properties": {"desired": {"type": "object"}}}),
            "/operations/0/value/schema/properties/desired",
        ),
        (
            json!({"type": "object", "properties": {}, "x-flux": {"carried": {"adds": {"type": "boolean"}}}}),
            "/operations/0/value/schema/x-flux/carried/adds",
        ),
        (
            json!({"type": "object", "properties": {}, "x-flux": {"references": "priority"}}),
            "/operations/0/value/schema/x-flux/references",
        ),
    ] {
        let kind = json!({"kind": "widgets", "schema": schema});
        refuse(&fleet(), json!([create("kinds", kind)]), Reason::Invalid, &[pointer]);
    }
    let profiles = json!({"kind": "profiles", "schema": {"type": "object", "properties": {}}});
    refuse(
        &fleet(),
        json!([create("kinds", profiles)]),
        Reason::Invalid,
        &["/operations/0/value/kind"],
    );
}

#[test]
fn a_profile_that_breaks_the_contract_on_a_cluster_is_refused_and_names_both() {
    let notes = many(8, |n| (format!("note{n}"), "x".repeat(65_000).into()));
    let namespace = |id: &str| create("namespaces", json!({"id": id, "annotations": notes}));
    let heavy = accept(&fleet(), json!([namespace("x"), namespace("y")]));
    let operation = create(
        "profiles",
        json!({"id": "heavy", "selector": "tier=gold", "namespaces": [{"id": "x"}, {"id": "y"}]}),
    );
    let refusal = refuse(&heavy, json!([operation]), Reason::Contract, &["/operations/0/value"]);
    assert!(
        refusal.detail.contains("\"one\"") && refusal.detail.contains("heavy"),
        "{}",
        refusal.detail
    );
}

#[test]
fn a_plan_warns_of_two_profiles_of_which_one_excludes_what_the_other_brings() {
    let excluded = || json!([{"id": "a", "excluded": true}]);
    for (others, priority, warnings) in [
        (json!([{"id": "a"}]), 0, vec!["less contradiction"]),
        (json!([{"id": "a"}]), -1, vec![]),
        (json!([{"id": "a"}]), 1, vec!["less excludes"]),
        // It brings nothing.
        (
            json!([{"id": "a", "adds": false, "oci_tag": "v2"}]),
            0,
            vec!["less excludes"],
        ),
        (excluded(), 0, vec!["less excludes"]),
    ] {
        let base = accept(&fleet(), json!([profile("base", "*", priority, others.clone())]));
        let (after, changes) = write(&base, json!([profile("less", "tier=gold", 0, excluded())])).unwrap();
        let effect = Effect::of(&base, &after, &changes);
        let found = effect.warnings.iter().map(|one| format!("{} {}", one.id, one.code));
        assert_eq!(found.collect::<Vec<_>>(), warnings, "{others} {priority}");
        for contradiction in effect.warnings.iter().filter(|one| one.code == "contradiction") {
            let detail = &contradiction.detail;
            assert!(
                detail.contains("whether clusters have the platform_component \"a\""),
                "{detail}"
            );
        }
    }
}

#[test]
fn a_plan_says_who_enters_and_leaves_and_what_is_suspicious() {
    let base = accept(
        &fleet(),
        json!([profile("gold", "tier=gold", 0, json!([{"id": "a", "oci_tag": "v2"}]))]),
    );
    let (after, changes) = write(
        &base,
        json!([
            merge("clusters", "one", json!({"labels": {"tier": "iron"}})),
            profile("iron", "tier=iron", 0, json!([{"id": "b", "excluded": true}])),
            profile("all", "*", 0, json!([{"id": "a", "oci_tag": "v3"}])),
            profile("none", "region=mars", 0, json!([])),
        ]),
    )
    .unwrap();
    let effect = Effect::of(&base, &after, &changes);
    let memberships: Vec<_> = effect
        .memberships
        .iter()
        .map(|one| {
            let names = |ids: &[std::sync::Arc<str>]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
            format!("{}: +{} -{}", one.profile, names(&one.entered), names(&one.left))
        })
        .collect();
    assert_eq!(memberships, ["all: +one two -", "gold: + -one", "iron: +one two -"]);
    let warnings: Vec<_> = effect
        .warnings
        .iter()
        .map(|one| format!("{} {}", one.id, one.code))
        .collect();
    assert_eq!(warnings, ["iron excludes", "none unmatched"]);
    let (after, changes) = write(
        &base,
        json!([profile("clash", "*", 0, json!([{"id": "a", "oci_tag": "v4"}]))]),
    )
    .unwrap();
    let effect = Effect::of(&base, &after, &changes);
    assert_eq!(effect.warnings[0].code, "contradiction");
    assert!(effect.warnings[0].detail.contains("oci_tag") && effect.warnings[0].detail.contains("\"gold\""));
}

/// A cluster may patch what only a profile brings.
#[test]
fn a_plan_knows_the_patches_of_a_cluster_without_a_reference() {
    let base = |replicas: &str| json!({"id": "base", "selector": "*", "platform_components": [{"id": "a"}], "patches": {"a": {"replicaCount": replicas}}});
    let fleet = accept(
        &fleet(),
        json!([
            create("profiles", base("3")),
            merge("clusters", "one", json!({"patches": {"a": {"replicaCount": "9"}}})),
            merge(
                "clusters",
                "two",
                json!({"patches": {"a": {"other": "1"}, "b": {"other": "1"}}})
            ),
        ]),
    );
    let (after, changes) = write(&fleet, json!([apply("profiles", base("5"))])).unwrap();
    let effect = Effect::of(&fleet, &after, &changes);
    let changed = effect.clusters.iter().map(|cluster| &**cluster.id());
    assert_eq!(
        changed.collect::<Vec<_>>(),
        ["two"],
        "the patch of \"one\" hides the profile's"
    );
    let (_, list) = &effect.clusters[0].inputs[0];
    let fields = list.changed[0].fields.iter().map(|field| field.pointer.as_str());
    assert_eq!(fields.collect::<Vec<_>>(), ["/patches/replicaCount"]);
}

#[test]
fn a_plan_warns_of_a_cluster_that_excludes_what_nothing_brings() {
    let base = accept(&fleet(), json!([profile("gold", "tier=gold", 0, json!([{"id": "a"}]))]));
    let exclude = |id: &str| {
        merge(
            "clusters",
            "one",
            json!({"platform_components": [{"id": id, "excluded": true}]}),
        )
    };
    let warnings = |before: &Fleet, operations: Value| {
        let (after, changes) = write(before, operations).unwrap();
        let clusters = Effect::of(before, &after, &changes).clusters;
        let codes = clusters
            .iter()
            .flat_map(|cluster| &cluster.warnings)
            .map(|warning| warning.code);
        (after, codes.collect::<Vec<_>>())
    };
    assert_eq!(warnings(&base, json!([exclude("a")])).1, [""; 0]);
    let (idle, codes) = warnings(&base, json!([exclude("b")]));
    assert_eq!(codes, ["excludes"]);
    // It is said once, and not with every later change.
    assert_eq!(
        warnings(&idle, json!([merge("clusters", "one", json!({"node_count": 3}))])).1,
        [""; 0]
    );
}

#[test]
fn an_explanation_names_each_value_its_document_and_what_it_beats() {
    let fleet = accept(
        &fleet(),
        json!([
            profile("low", "*", 0, json!([{"id": "a", "oci_tag": "v2"}])),
            profile("high", "tier=gold", 5, json!([{"id": "a", "oci_tag": "v3"}])),
            merge("clusters", "one", json!({"patches": {"a": {"x": "1"}}})),
        ]),
    );
    let explanation = json!(explain(
        &fleet,
        fleet.cluster("one").unwrap(),
        Some("platform-components"),
        Some("a")
    ));
    assert_eq!(explanation["profiles"], json!(["low", "high"]));
    let fields = &explanation["inputs"]["platform-components"][0]["fields"];
    assert_eq!(
        fields["/source/oci_tag"],
        json!({"value": "v3", "from": "profiles/high", "over": [
            {"value": "v2", "from": "profiles/low"}, {"value": "v1", "from": "platform_components/a"},
        ]})
    );
    assert_eq!(
        fields["/enabled"],
        json!({"value": true, "from": "kinds/platform_components", "over": []})
    );
    assert_eq!(
        fields["/patches/x"],
        json!({"value": "1", "from": "clusters/one", "over": []})
    );
    assert_eq!(fields["/cluster/dns"]["from"], "clusters/one");
    assert_eq!(fields["/id"]["from"], "platform_components/a");
}

/// Every leaf of an input, by pointer.
fn leaves(value: &Value, pointer: String, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                leaves(
                    value,
                    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        value => found.push((pointer, value.clone())),
    }
}

#[test]
fn an_explanation_has_every_field_of_the_reply_with_its_value() {
    let fleet = accept(
        &fleet(),
        json!([
            profile(
                "low",
                "*",
                0,
                json!([{"id": "a", "oci_tag": "v2"}, {"id": "b", "enabled": false}])
            ),
            merge(
                "clusters",
                "one",
                json!({"patches": {"a": {"x.y/z": "1"}}, "platform_components": [{"id": "c"}]})
            ),
        ]),
    );
    let explanation = json!(explain(&fleet, fleet.cluster("one").unwrap(), None, None));
    let inputs = poll(&fleet, DNS, "platform-components")["inputs"].clone();
    for (n, input) in inputs.as_array().unwrap().iter().enumerate() {
        let fields = &explanation["inputs"]["platform-components"][n]["fields"];
        for (pointer, explained) in fields.as_object().unwrap() {
            assert_eq!(input.pointer(pointer), Some(&explained["value"]), "{pointer}");
        }
        let mut expected = Vec::new();
        leaves(input, String::new(), &mut expected);
        for (pointer, value) in expected {
            // An object that is one field of a document is explained as a whole.
            let whole = fields
                .as_object()
                .unwrap()
                .keys()
                .any(|own| pointer.starts_with(own.as_str()));
            assert!(whole, "{pointer} = {value} is not explained");
        }
    }
}

/// Clusters with references, overrides and patches that are more or less alike.
fn alike() -> impl Strategy<Value = Vec<Value>> {
    let reference = (
        proptest::sample::select(vec!["a", "b", "c", "d"]),
        proptest::sample::select(vec![json!(null), json!("v2"), json!("v2"), json!("v3")]),
        proptest::sample::select(vec![json!(true), json!(true), json!(false), json!(null)]),
        proptest::bool::weighted(0.1),
    );
    let reference = reference.prop_map(|(id, tag, enabled, excluded)| match excluded {
        true => json!({"id": id, "excluded": true}),
        false => json!({"id": id, "oci_tag": tag, "enabled": enabled}),
    });
    let references = proptest::collection::vec(reference, 0..5).prop_map(|mut all| {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|reference| seen.insert(reference["id"].to_string()));
        Value::from(all)
    });
    let patches = proptest::sample::select(vec![
        json!({}),
        json!({"a": {"x": "1"}}),
        json!({"a": {"x": "1", "y": "2"}, "b": {"z": true}}),
        json!({"b": {"z": true}}),
    ]);
    let cluster = (references, patches).prop_map(|(references, patches)| {
        json!({"platform_components": references, "patches": patches, "namespaces": [{"id": "n"}], "labels": {"tier": "gold"}})
    });
    proptest::collection::vec(cluster, 1..5)
}

fn arrays(fleet: &Fleet) -> Vec<Array> {
    let arrays = fleet.kinds().definitions().map(|kind| Array {
        name: kind.references.clone().unwrap(),
        carried: kind.flux.carried.keys().cloned().collect(),
    });
    arrays.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_proposed_profile_and_the_documents_without_it_change_no_reply(clusters in alike(), has_other in any::<bool>()) {
        let mut operations: Vec<Value> = clusters.iter().enumerate()
            .map(|(n, fields)| apply("clusters", cluster(&format!("c{n}"), fields.clone())))
            .collect();
        operations.push(delete("clusters", "one"));
        if has_other {
            operations.push(profile("other", "tier=gold", 3, json!([{"id": "a", "oci_tag": "v8"}, {"id": "d", "enabled": false}])));
        }
        let before = accept(&fleet(), operations.into());
        let documents: Vec<Value> = (0..clusters.len()).map(|n| document(&before, "clusters", &format!("c{n}"))).collect();
        let proposal = propose(&arrays(&before), "shared", "tier=gold", 4, &documents).expect("they share a namespace");
        let mut operations = vec![create("profiles", proposal.profile.clone())];
        operations.extend(proposal.clusters.iter().map(|value| apply("clusters", value.clone())));
        let (after, changes) = write(&before, operations.into()).expect("a proposal can be applied");
        let effect = Effect::of(&before, &after, &changes);
        prop_assert!(effect.clusters.is_empty(), "{:?} changes {:?}", proposal, effect.clusters);
        for n in 0..clusters.len() {
            let sorted = |fleet: &Fleet| {
                let mut inputs = poll(fleet, &format!("c{n}.example.com"), "platform-components")["inputs"].as_array().unwrap().clone();
                inputs.sort_by_key(|input| input["id"].to_string());
                inputs
            };
            prop_assert_eq!(sorted(&before), sorted(&after));
            // Nothing of what all share is left on a cluster.
            prop_assert_eq!(&document(&after, "clusters", &format!("c{n}"))["namespaces"], &json!([]));
        }
        let again = write(&after, json!([apply("profiles", proposal.profile)])).unwrap().1;
        prop_assert_eq!(again, [], "what is proposed is what is stored");
    }
}
