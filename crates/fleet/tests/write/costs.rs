//! The cost limits of kinds and batches; and that a store with too costly kinds can still be read.

use std::sync::Arc;

use fleet::json::Json;
use fleet::log::Resource;
use fleet::refusal::Reason::Invalid;
use fleet::refusal::Refusal;

use super::*;
use crate::common::{refuse, state, write};

/// A kind whose properties are these, by number.
fn many(name: &str, count: usize, property: impl Fn(usize) -> Value) -> Value {
    let properties = (0..count).map(|n| (format!("p{n}"), property(n)));
    kind(name, Value::Object(properties.collect()), json!({}))
}

/// Patterns of half a megabyte each, compiled.
fn heavy(name: &str) -> Value {
    many(
        name,
        2000,
        |n| json!({"pattern": format!(r"(\w{{50}}\W{{9}}){{9}}N{n}")}),
    )
}

/// Each definition refers to the next one twice.
fn doubling(name: &str, levels: usize, anchored: bool) -> Value {
    let target = |n: usize| match anchored {
        true => format!("#d{n}"),
        false => format!("#/allOf/0/$defs/d{n}"),
    };
    let level = |n: usize| match n == levels {
        true => json!({"$anchor": format!("d{n}")}),
        false => json!({"$anchor": format!("d{n}"), "allOf": [{"$ref": target(n + 1)}, {"$ref": target(n + 1)}]}),
    };
    let mut document = kind(name, json!({"x": {"allOf": [{"$ref": target(0)}]}}), json!({}));
    document["schema"]["$defs"] = (0..=levels).map(|n| (format!("d{n}"), level(n))).collect();
    document
}

/// The small fleet, loaded from a store that accepted this kind without a check of its cost.
fn stored(name: &str, document: &Value) -> Fleet {
    let mut state = state(&small());
    state.resources.push(Resource {
        kind: "kinds".into(),
        id: name.into(),
        body: Json::new(document),
        origin: None,
    });
    Fleet::load(state).unwrap()
}

fn refused(document: Value) -> Refusal {
    let refusal = write(&small(), json!([create("kinds", document)])).unwrap_err();
    assert_eq!(refusal.reason, Invalid, "{refusal:?}");
    refusal
}

#[test]
fn a_pattern_that_compiles_to_too_much_is_refused_by_name() {
    for pattern in [
        r"\p{L}{99}",
        r"(\w{50}\W{9}){99}",
        "(a{999}){999}",
        "x[a-y]{0,1000}q",
        "([a-y]?){2000}q",
    ] {
        let refusal = refused(kind("thing", json!({"x": {"items": {"pattern": pattern}}}), json!({})));
        assert_eq!(
            refusal.errors[0].pointer, "/operations/0/value/schema/properties/x/items/pattern",
            "{refusal:?}"
        );
        let refusal = refused(kind(
            "thing",
            json!({"x": {"patternProperties": {pattern: {}}}}),
            json!({}),
        ));
        assert!(refusal.errors[0].pointer.contains("/patternProperties/"), "{refusal:?}");
        let renders = json!({"renders": [{"object": "A", "when": {"id": pattern}}]});
        let refusal = refused(kind("thing", json!({}), renders));
        assert_eq!(
            refusal.errors[0].pointer, "/operations/0/value/schema/x-flux/renders/0/when/id",
            "{refusal:?}"
        );
    }
    for pattern in [
        r"^.{1,255}$",
        r"^.{1,255}-x$",
        r"^[\w.-]{1,253}$",
        r"^\S{1,63}$",
        r"^\p{L}+$",
        r"\bfoo\b",
        "(foo|bar).{0,20}baz",
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        r"^([01]?\d?\d|2[0-4]\d|25[0-5])(\.([01]?\d?\d|2[0-4]\d|25[0-5])){3}$",
    ] {
        accept(
            &small(),
            json!([create(
                "kinds",
                kind("thing", json!({"x": {"pattern": pattern}}), json!({}))
            )]),
        );
    }
}

#[test]
fn patterns_and_schemas_have_a_limit_together() {
    let refusal = refused(heavy("thing"));
    let error = &refusal.errors[0];
    assert!(
        error.pointer.ends_with("/pattern") && error.detail.contains("8 MiB"),
        "{refusal:?}"
    );
    // In x-flux, where they are compiled as they are read.
    let renders: Vec<_> = (0..2000)
        .map(|n| json!({"object": "A", "patch_keys": format!(r"(\w{{9}}){{2}}N{n}")}))
        .collect();
    let refusal = refused(kind("thing", json!({}), json!({ "renders": renders })));
    assert!(refusal.errors[0].pointer.ends_with("/patch_keys"), "{refusal:?}");
    refused(many("thing", 30_000, |_| json!({})));
    refused(kind(
        "thing",
        json!({"x": {"enum": (0..100_000).collect::<Vec<_>>()}}),
        json!({}),
    ));
    // The same pattern is compiled once.
    let same = many(
        "thing",
        1000,
        |_| json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}),
    );
    accept(&small(), json!([create("kinds", same)]));
}

#[test]
fn all_kinds_have_a_limit_together() {
    let ops: Vec<_> = (0..20)
        .map(|n| create("kinds", many(&format!("thing{n}"), 4000, |_| json!({"type": "string"}))))
        .collect();
    let fleet = accept(&small(), json!(ops[..5]));
    let refusal = write(&fleet, json!(ops[5..])).unwrap_err();
    assert!(refusal.errors[0].detail.contains("together"), "{refusal:?}");
    // Also one at a time, in whatever order of names.
    let one_by_one = ops.iter().rev().try_fold(small(), |fleet, op| {
        let (fleet, _) = write(&fleet, json!([op])).map_err(|refusal| refusal.detail)?;
        Ok::<_, String>(fleet)
    });
    assert!(one_by_one.unwrap_err().contains("together"));
    let ops: Vec<_> = (0..600)
        .map(|n| create("kinds", many(&format!("thing{n}"), 0, |_| json!({}))))
        .collect();
    let refusal = refuse(&small(), json!(ops), Invalid, &["/operations/0/value/kind"]);
    assert!(refusal.detail.contains("604 kinds"), "{}", refusal.detail);
}

#[test]
fn a_reference_that_is_there_too_often_is_refused() {
    let overridable: Vec<_> = (0..2000).map(|n| format!("p{n}")).collect();
    let mut wide = many("wide", 2000, |_| json!({"type": "string"}));
    wide["schema"]["x-flux"] = json!({ "overridable": overridable });
    let user = many("user", 9000, |_| json!({"$ref": "#/components/schemas/wide_ref"}));
    let refusal = write(&small(), json!([create("kinds", wide), create("kinds", user)])).unwrap_err();
    assert!(refusal.errors[0].pointer.ends_with("/$ref"), "{refusal:?}");
}

#[test]
fn a_schema_refers_to_no_other_place() {
    for anchored in [true, false] {
        let refusal = refused(doubling("thing", 40, anchored));
        assert_eq!(
            refusal.errors[0].pointer, "/operations/0/value/schema/properties/x/allOf/0/$ref",
            "{refusal:?}"
        );
    }
    let itself = json!({"x": {"anyOf": [{"$dynamicRef": "#"}, {"type": "null"}]}});
    refused(kind("thing", itself, json!({})));
    // A property may have any name.
    accept(
        &small(),
        json!([create(
            "kinds",
            kind(
                "thing",
                json!({"x": {"properties": {"$ref": {"type": "string"}}}}),
                json!({})
            )
        )]),
    );
}

#[test]
fn too_much_at_one_place_is_refused() {
    let nested = |levels: usize| {
        let mut schema = json!({"properties": {"a": {"const": 1}}});
        for _ in 0..levels {
            schema = json!({"allOf": [schema], "unevaluatedProperties": false});
        }
        kind("thing", json!({ "x": schema }), json!({}))
    };
    accept(&small(), json!([create("kinds", nested(2))]));
    refused(nested(20));
    let branches = |count: usize| json!({"x": {"items": {"allOf": vec![json!({"minimum": 1}); count]}}});
    accept(
        &small(),
        json!([create("kinds", kind("thing", branches(500), json!({})))]),
    );
    refused(kind("thing", branches(2000), json!({})));
    let options = |option: fn(usize) -> Value| json!({"x": {"enum": (0..10_000).map(option).collect::<Vec<_>>()}});
    accept(
        &small(),
        json!([create("kinds", kind("thing", options(|n| n.into()), json!({})))]),
    );
    refused(kind("thing", options(|n| json!([n])), json!({})));
    // Properties are not beside each other.
    let rich = many(
        "thing",
        500,
        |n| json!({"type": ["string", "null"], "pattern": "^[a-z]{1,63}$", "default": null, "title": n.to_string()}),
    );
    accept(&small(), json!([create("kinds", rich)]));
}

#[test]
fn a_store_with_a_kind_that_costs_too_much_is_read_and_can_be_written_to() {
    let too_heavy = many("thing", 30_000, |n| json!({"title": n.to_string()}));
    for document in [too_heavy, doubling("thing", 4, true)] {
        let fleet = stored("things", &document);
        let fleet = accept(
            &fleet,
            json!([
                create("things", json!({"id": "one"})),
                merge("clusters", "one", json!({"things": [{"id": "one"}]})),
            ]),
        );
        // Put as it is, it is not changed.
        accept(&fleet, json!([apply("kinds", document.clone())]));
        let lighter = kind("thing", json!({"x": {}}), json!({}));
        accept(&fleet, json!([apply("kinds", lighter)]));
    }
    // Less is a way out, though it is too much.
    let fleet = stored("things", &many("thing", 30_000, |_| json!({})));
    accept(&fleet, json!([apply("kinds", many("thing", 20_000, |_| json!({})))]));
    write(&fleet, json!([apply("kinds", many("thing", 30_001, |_| json!({})))])).unwrap_err();
}

#[test]
fn kinds_that_do_not_change_are_not_made_anew() {
    let user = kind(
        "user",
        json!({"x": {"$ref": "#/components/schemas/namespace_ref"}}),
        json!({}),
    );
    let fleet = accept(&small(), json!([create("kinds", user)]));
    let same =
        |after: &Fleet, name: &str| Arc::ptr_eq(fleet.kinds().get(name).unwrap(), after.kinds().get(name).unwrap());
    let after = accept(&fleet, json!([create("kinds", kind("thing", json!({}), json!({})))]));
    for name in ["platform_components", "namespaces", "rolebindings"] {
        assert!(same(&after, name), "{name}");
    }
    assert!(!same(&after, "clusters"), "it has the array of the new one");
    // Clusters are made anew only if references are, and so is what uses those of another.
    let described = kind("thing", json!({"x": {"type": "string"}}), json!({}));
    let changed = accept(&after, json!([apply("kinds", described)]));
    assert!(Arc::ptr_eq(
        after.kinds().clusters().unwrap(),
        changed.kinds().clusters().unwrap()
    ));
    let mut namespace = fleet::kind::built_in()[2].clone();
    namespace["schema"]["x-flux"]["carried"] = json!({"enabled": {"type": "boolean", "default": true}});
    let after = accept(&fleet, json!([apply("kinds", namespace)]));
    assert!(!same(&after, "users") && !same(&after, "clusters") && same(&after, "rolebindings"));
    let reference = &after.kinds().get("users").unwrap().schema["properties"]["x"]["properties"];
    assert!(reference.get("enabled").is_some(), "{reference}");
}

#[test]
fn a_batch_of_kinds_makes_each_once() {
    let ops: Vec<_> = (0..400)
        .map(|n| create("kinds", many(&format!("thing{n}"), 3, |_| json!({"type": "string"}))))
        .collect();
    let begun = std::time::Instant::now();
    let (fleet, changes) = write(&small(), json!(ops)).unwrap();
    assert_eq!((fleet.kinds().iter().count(), changes.len()), (407, 400));
    // Each of them for each would be 80,000 kinds: minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    // What comes between them may need those before.
    let ops = json!([
        create("kinds", kind("thing", json!({}), json!({}))),
        create("things", json!({"id": "x"})),
        create("kinds", kind("other", json!({}), json!({}))),
        create("kinds", kind("other", json!({}), json!({}))),
    ]);
    assert_eq!(write(&small(), ops).unwrap_err().reason, fleet::refusal::Reason::Exists);
}
