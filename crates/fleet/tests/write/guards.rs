//! Guards: what a valid one is, which writes they refuse, and what leaves them alone.

use std::sync::Arc;

use fleet::budget::Recent;
use fleet::effect::Effect;
use fleet::guard::{GuardLimit, Limited};
use fleet::history::{Back, Scope, WayBack};
use fleet::identity::{OperatorScope, Reach};
use fleet::judge::{Accepted, Confirmation, Detail, Judgement, Terms, judge};
use fleet::operation::BatchRequest;
use fleet::refusal::{Reason, Refusal};
use serde_json::json;

use super::*;
use crate::common::{BATCH, commit, document, network_policy, refuse, write};

/// When the writes of these tests are made.
const NOW: &str = "2026-12-24T12:00:00.000000Z";

fn terms<'a>(overrides: &'a [String], at: &'a str) -> Terms<'a> {
    static NONE: LazyLock<Recent> = LazyLock::new(Recent::default);
    Terms {
        recent: &NONE,
        since: "",
        budget: None,
        confirmation: Confirmation::default(),
        reach: &Reach::Everything,
        at,
        overrides,
        unguarded: false,
    }
}

fn attempt(fleet: &Fleet, operations: &Value, terms: Terms<'_>) -> Result<Accepted, Refusal> {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    fleet.change(&request.operations, BATCH, terms)
}

fn change(fleet: &Fleet, operations: &Value) -> Result<Accepted, Refusal> {
    attempt(fleet, operations, terms(&[], NOW))
}

/// The limits that refuse a write: the guard, what is limited, the limit and the count.
#[track_caller]
fn refused(fleet: &Fleet, operations: Value) -> Vec<(String, Limited, usize, usize)> {
    let refusal = change(fleet, &operations)
        .map(|accepted| accepted.outcome.changes)
        .unwrap_err();
    assert_eq!(refusal.reason, Reason::Guarded, "{refusal:?}");
    let guards = refusal.exceeded.unwrap().guards;
    guards
        .into_iter()
        .map(
            |GuardLimit {
                 id, of, limit, count, ..
             }| (id.to_string(), of, limit, count),
        )
        .collect()
}

#[track_caller]
fn accepted(fleet: &Fleet, operations: Value) {
    change(fleet, &operations).unwrap_or_else(|refusal| panic!("refused: {refusal:#?}"));
}

fn dry_run(fleet: &Fleet, operations: &Value, terms: Terms<'_>) -> Judgement {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    let outcome = fleet.write(&request.operations, BATCH).unwrap();
    judge(fleet, &outcome, terms, Detail::Full).unwrap()
}

fn guard(id: &str, fields: Value) -> Value {
    create(
        "guards",
        with(json!({"id": id, "selector": "*", "reason": "why"}), fields),
    )
}

fn guard_ids(fleet: &Fleet) -> Vec<&str> {
    fleet.guards().iter().map(|guard| &**guard.id()).collect()
}

fn with_guard(fields: Value) -> Fleet {
    accept(&small(), json!([guard("g", fields)]))
}

fn tag(id: &str, tag: &str) -> Value {
    merge("platform_components", id, json!({"oci_tag": tag}))
}

const FREEZE: (&str, Limited, usize) = ("g", Limited::Changes, 0);

fn freeze(count: usize) -> Vec<(String, Limited, usize, usize)> {
    vec![(FREEZE.0.to_owned(), FREEZE.1, FREEZE.2, count)]
}

#[test]
fn a_guard_is_a_document_that_is_loaded_and_followed_and_exported() {
    let fleet = with_guard(json!({"changes": 0, "until": "2027-01-01T00:00:00Z"}));
    assert_eq!(guard_ids(&fleet), ["g"]);
    assert_eq!(document(&fleet, "guards", "g")["changes"], 0);
    let fleet = accept(
        &fleet,
        json!([merge("guards", "g", json!({"changes": 3})), delete("guards", "g")]),
    );
    assert!(fleet.guards().is_empty());
}

#[test]
fn an_invalid_guard_is_refused_with_each_place() {
    for (fields, pointers) in [
        (json!({}), &["/operations/0/value"][..]),
        (
            json!({"changes": null}),
            &["/operations/0/value", "/operations/0/value/changes"],
        ),
        (json!({"changes": -1}), &["/operations/0/value/changes"]),
        (json!({"removals": 1.5}), &["/operations/0/value/removals"]),
        (json!({"changes": 0, "reason": ""}), &["/operations/0/value/reason"]),
        (json!({"changes": 0, "reason": null}), &["/operations/0/value/reason"]),
        (json!({"changes": 0, "from": "tomorrow"}), &["/operations/0/value/from"]),
        (
            json!({"changes": 0, "until": "2026-12-20"}),
            &["/operations/0/value/until"],
        ),
        (
            json!({"changes": 0, "from": "2026-12-20T00:00:00Z", "until": "2026-12-20T01:00:00+01:00"}),
            &["/operations/0/value/until"],
        ),
        (json!({"changes": 0, "selector": ""}), &["/operations/0/value/selector"]),
        (
            json!({"changes": 0, "selector": "environment=prd"}),
            &["/operations/0/value/selector"],
        ),
        (
            json!({"changes": 0, "selector": "tema!=red"}),
            &["/operations/0/value/selector"],
        ),
        (json!({"changes": 0, "limit": 3}), &["/operations/0/value/limit"]),
        (json!({"changes": 0, "id": "G"}), &["/operations/0/value/id"]),
    ] {
        let refusal = write(&small(), json!([guard("g", fields.clone())])).unwrap_err();
        let found: Vec<&str> = refusal.errors.iter().map(|error| error.pointer.as_str()).collect();
        let mut expected = pointers.to_vec();
        expected.sort_unstable();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        assert_eq!(
            (refusal.reason, sorted),
            (Reason::Invalid, expected),
            "{fields}: {refusal:#?}"
        );
    }
    let without_reason = create("guards", json!({"id": "g", "selector": "*", "changes": 0}));
    refuse(
        &small(),
        json!([without_reason]),
        Reason::Invalid,
        &["/operations/0/value/reason"],
    );
}

#[test]
fn the_kind_is_a_part_of_the_server() {
    let refusal = refuse(
        &small(),
        json!([delete("kinds", "guards")]),
        Reason::InUse,
        &["/operations/0/id"],
    );
    assert!(refusal.detail.contains("is a part of the server"), "{}", refusal.detail);
    let own = kind("guard", json!({}), json!({}));
    refuse(
        &small(),
        json!([create("kinds", own)]),
        Reason::Invalid,
        &["/operations/0/value/kind"],
    );
    let fleet = with_guard(json!({"changes": 0, "selector": "vm_image=x"}));
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
        refusal.detail.contains("the guard \"g\" names the field \"vm_image\""),
        "{}",
        refusal.detail
    );
}

#[test]
fn a_freeze_refuses_every_way_to_change_a_reply() {
    let fleet = with_guard(json!({"changes": 0}));
    // `one` runs `a` with its own tag, so that a new tag of `a` changes the reply of `two` only.
    for (operations, count) in [
        (json!([tag("a", "v2")]), 1),
        (
            json!([merge("platform_components", "a", json!({"cluster_env_enabled": true}))]),
            2,
        ),
        (json!([cascade("platform_components", "b")]), 1),
        (json!([delete("clusters", "three")]), 1),
        (
            json!([merge(
                "clusters",
                "three",
                json!({"platform_components": [{"id": "c"}]})
            )]),
            1,
        ),
        (
            json!([merge("clusters", "two", json!({"cluster_dns": "moved.example.com"}))]),
            1,
        ),
        (
            json!([create(
                "profiles",
                json!({"id": "p", "selector": "*", "namespaces": [{"id": "a"}]})
            )]),
            2,
        ),
        (
            json!([{"op": "assign", "kind": "platform_components", "id": "c", "selector": "*"}]),
            3,
        ),
        (
            json!([{"op": "patch", "kind": "platform_components", "id": "a", "cluster": "two", "set": {"x": "1"}}]),
            1,
        ),
        (json!([tag("a", "v2"), tag("b", "v2")]), 2),
    ] {
        assert_eq!(refused(&fleet, operations.clone()), freeze(count), "{operations}");
        let effect = dry_run(&fleet, &operations, terms(&[], NOW)).effect;
        assert_eq!(effect.clusters.len(), count, "{operations}");
    }
    for operations in [
        // No cluster runs `c`.
        json!([tag("c", "v2")]),
        json!([create("namespaces", json!({"id": "new"}))]),
        json!([create("kinds", network_policy())]),
        json!([merge("clusters", "two", json!({"labels": {"note": "x"}}))]),
        json!([merge("platform_components", "a", json!({"oci_tag": "v1"}))]),
    ] {
        accepted(&fleet, operations);
    }
}

#[test]
fn a_write_up_to_the_limit_is_accepted() {
    let operations = json!([merge("platform_components", "a", json!({"cluster_env_enabled": true}))]);
    for (limit, expected) in [(0, false), (1, false), (2, true), (3, true)] {
        let fleet = with_guard(json!({"changes": limit}));
        assert_eq!(change(&fleet, &operations).is_ok(), expected, "{limit}");
    }
}

#[test]
fn removals_count_what_is_taken_and_not_what_is_changed() {
    let fleet = with_guard(json!({"removals": 0}));
    let removals = |count| vec![("g".to_owned(), Limited::Removals, 0, count)];
    accepted(&fleet, json!([tag("a", "v2")]));
    accepted(
        &fleet,
        json!([merge(
            "clusters",
            "three",
            json!({"platform_components": [{"id": "c"}]})
        )]),
    );
    assert_eq!(
        refused(&fleet, json!([cascade("platform_components", "b")])),
        removals(1)
    );
    assert_eq!(refused(&fleet, json!([delete("clusters", "one")])), removals(1));
    let both = with_guard(json!({"changes": 1, "removals": 0}));
    let everything = json!([cascade("platform_components", "b"), cascade("platform_components", "a")]);
    let expected = [
        ("g".to_owned(), Limited::Changes, 1, 2),
        ("g".to_owned(), Limited::Removals, 0, 2),
    ];
    assert_eq!(refused(&both, everything), expected);
}

#[test]
fn only_clusters_that_match_count() {
    let fleet = with_guard(json!({"changes": 0, "selector": "team=blue"}));
    assert_eq!(refused(&fleet, json!([tag("a", "v2")])), freeze(1));
    accepted(&fleet, json!([tag("b", "v2")]));
    accepted(&fleet, json!([delete("clusters", "one")]));
}

#[test]
fn a_cluster_counts_if_it_matches_before_or_after() {
    let fleet = with_guard(json!({"changes": 0, "selector": "team=blue"}));
    let leaves = merge(
        "clusters",
        "two",
        json!({"labels": {"team": "green"}, "platform_components": [{"id": "c"}]}),
    );
    assert_eq!(refused(&fleet, json!([leaves])), freeze(1));
    let enters = merge(
        "clusters",
        "one",
        json!({"labels": {"team": "blue"}, "platform_components": [{"id": "c"}]}),
    );
    assert_eq!(refused(&fleet, json!([enters])), freeze(1));
    // Relabelling alone changes no reply.
    accepted(
        &fleet,
        json!([merge("clusters", "two", json!({"labels": {"team": "green"}}))]),
    );
}

#[test]
fn creation_does_not_count_and_deletion_does() {
    let fleet = with_guard(json!({"changes": 0, "removals": 0}));
    let new = cluster("new", json!({"platform_components": [{"id": "a"}]}));
    accepted(&fleet, json!([create("clusters", new.clone())]));
    let count = |count| {
        vec![
            ("g".to_owned(), Limited::Changes, 0, count),
            ("g".to_owned(), Limited::Removals, 0, count),
        ]
    };
    assert_eq!(refused(&fleet, json!([delete("clusters", "two")])), count(1));
    // The deleted cluster counts, whoever takes its DNS name.
    let heir = with(
        new,
        json!({"cluster_dns": "two.example.com", "platform_components": [{"id": "c"}]}),
    );
    assert_eq!(
        refused(&fleet, json!([delete("clusters", "two"), create("clusters", heir)])),
        count(1)
    );
    // A swap of names changes both.
    let swap = |id: &str, dns: &str| merge("clusters", id, json!({ "cluster_dns": dns }));
    let changes = refused(
        &fleet,
        json!([swap("one", "two.example.com"), swap("two", "one.example.com")]),
    );
    assert_eq!(changes[0], ("g".to_owned(), Limited::Changes, 0, 2));
}

#[test]
fn a_guard_holds_from_its_beginning_until_its_end() {
    let fleet = with_guard(json!({"changes": 0, "from": "2026-12-20T00:00:00Z", "until": "2027-01-03T00:00:00+01:00"}));
    let operations = json!([tag("a", "v2")]);
    for (at, in_force) in [
        ("2026-12-19T23:59:59.999999Z", false),
        ("2026-12-20T00:00:00.000000Z", true),
        ("2027-01-02T22:59:59.999999Z", true),
        ("2027-01-02T23:00:00.000000Z", false),
    ] {
        assert_eq!(attempt(&fleet, &operations, terms(&[], at)).is_err(), in_force, "{at}");
    }
}

#[test]
fn guards_are_judged_as_they_stood_before_the_write() {
    let fleet = with_guard(json!({"changes": 0}));
    for lifted in [
        delete("guards", "g"),
        merge("guards", "g", json!({"changes": 10})),
        merge("guards", "g", json!({"until": "2020-01-01T00:00:00Z"})),
        merge("guards", "g", json!({"selector": "environment=prod"})),
    ] {
        assert_eq!(refused(&fleet, json!([lifted, tag("a", "v2")])), freeze(1));
        assert_eq!(refused(&fleet, json!([tag("a", "v2"), lifted])), freeze(1));
        // Alone it changes no reply.
        accepted(&fleet, json!([lifted]));
    }
    // A new guard does not hold the write that brings it.
    accepted(&small(), json!([guard("g", json!({"changes": 0})), tag("a", "v2")]));
}

#[test]
fn every_guard_that_refuses_is_listed_with_the_clusters() {
    let guards = json!([
        guard("all", json!({"changes": 0, "reason": "holidays"})),
        guard(
            "blue",
            json!({"changes": 0, "selector": "team=blue", "until": "2027-01-01T00:00:00Z"})
        ),
        guard("prod", json!({"changes": 0, "selector": "environment=prod"})),
        guard("two", json!({"changes": 2, "removals": 0})),
    ]);
    let fleet = accept(&small(), guards);
    let operations = json!([merge("platform_components", "a", json!({"cluster_env_enabled": true}))]);
    let refusal = change(&fleet, &operations).unwrap_err();
    let limits = refusal.exceeded.unwrap().guards;
    let found: Vec<_> = limits
        .iter()
        .map(|limit| (&*limit.id, limit.count, limit.until.as_deref()))
        .collect();
    assert_eq!(found, [("all", 2, None), ("blue", 1, Some("2027-01-01T00:00:00Z"))]);
    assert_eq!(refusal.clusters, ["one", "two"]);
    for part in [
        "guard \"all\" (holidays) allows changes to 0 clusters of *, and this changes 2 (one, two)",
        "1 more limit",
        "X-Override-Guard: all",
    ] {
        assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
    }
    // A dry run shows all of them, and refuses nothing itself.
    let checks = dry_run(&fleet, &operations, terms(&[], NOW)).guards;
    let shown: Vec<_> = checks
        .iter()
        .map(|check| (&*check.limit.id, check.limit.of, check.limit.count, check.refuses()))
        .collect();
    let expected = [
        ("all", Limited::Changes, 2, true),
        ("blue", Limited::Changes, 1, true),
        ("prod", Limited::Changes, 0, false),
        ("two", Limited::Changes, 2, false),
        ("two", Limited::Removals, 0, false),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn an_override_lifts_the_guards_that_it_names() {
    let guards = json!([
        guard("g", json!({"changes": 0})),
        guard("h", json!({"changes": 0, "removals": 0})),
        guard("ended", json!({"changes": 0, "until": "2020-01-01T00:00:00Z"})),
        guard("loose", json!({"changes": 10})),
    ]);
    let fleet = accept(&small(), guards);
    let named = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
    let operations = json!([cascade("platform_components", "b")]);
    let with = |overrides: &[&str]| attempt(&fleet, &operations, terms(&named(overrides), NOW));
    let refusal = with(&["g"]).unwrap_err();
    assert_eq!(
        refusal
            .exceeded
            .unwrap()
            .guards
            .iter()
            .map(|limit| &*limit.id)
            .collect::<Vec<_>>(),
        ["h", "h"]
    );
    // Only what was needed is an override.
    let accepted = with(&["h", "g", "ended", "loose"]).unwrap();
    assert_eq!(accepted.overridden, ["g", "h"]);
    let refusal = with(&["g", "h", "other"]).unwrap_err();
    assert_eq!(refusal.reason, Reason::Invalid);
    assert!(
        refusal.detail.contains("there is no guard \"other\""),
        "{}",
        refusal.detail
    );
    let shown = dry_run(&fleet, &operations, terms(&named(&["g"]), NOW));
    let shown: Vec<_> = shown
        .guards
        .iter()
        .map(|check| (&*check.limit.id, check.exceeded, check.overridden))
        .collect();
    assert_eq!(
        shown,
        [
            ("g", true, true),
            ("h", true, false),
            ("h", true, false),
            ("loose", false, false)
        ]
    );
}

#[test]
fn the_servers_own_writes_can_be_exempt() {
    let fleet = with_guard(json!({"changes": 0}));
    let exempt = Terms {
        unguarded: true,
        ..terms(&[], NOW)
    };
    assert!(
        attempt(&fleet, &json!([tag("a", "v2")]), exempt)
            .unwrap()
            .overridden
            .is_empty()
    );
}

#[test]
fn an_operator_cannot_write_a_guard() {
    let scope = |kinds: &[&str]| {
        Reach::Within(Arc::new(OperatorScope {
            clusters: "*".to_owned(),
            kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
            approve: false,
        }))
    };
    let fleet = with_guard(json!({"changes": 0}));
    for operation in [
        guard("new", json!({"changes": 5})),
        delete("guards", "g"),
        merge("guards", "g", json!({"changes": 9})),
    ] {
        for reach in [scope(&[]), scope(&["guards", "platform_components"])] {
            let terms = Terms {
                reach: &reach,
                ..terms(&[], NOW)
            };
            let refusal = attempt(&fleet, &json!([operation]), terms).unwrap_err();
            assert_eq!(refusal.reason, Reason::OutOfScope, "{operation}");
            assert!(
                refusal.resources.iter().all(|document| document.starts_with("guards/")),
                "{refusal:?}"
            );
        }
    }
}

#[test]
fn rollback_and_undo_leave_guards_as_they_are() {
    let then = accept(&small(), json!([guard("kept", json!({"changes": 5}))]));
    let request = json!({"operations": [guard("g", json!({"changes": 9})), merge("guards", "kept", json!({"changes": 7})), tag("a", "v2")]});
    let request = BatchRequest::parse(request).unwrap();
    let (now, record) = commit(&then, &request.operations, BATCH).unwrap();
    let undo = Back::Undo {
        record: Box::new(record),
        reversed_by: None,
    };
    for back in [Back::Rollback(Scope::Fleet), undo] {
        let way_back = WayBack {
            then: Arc::new(then.clone()),
            back,
        };
        let operations = way_back.operations(&now).unwrap();
        let (after, _) = commit(&now, &operations, BATCH).unwrap();
        assert_eq!(guard_ids(&after), ["g", "kept"]);
        assert_eq!(document(&after, "guards", "kept")["changes"], 7);
        assert_eq!(document(&after, "platform_components", "a")["oci_tag"], "v1");
        // It is a write like any other, so guards judge it.
        let frozen = accept(&now, json!([guard("freeze", json!({"changes": 0}))]));
        let refusal = frozen.change(&operations, BATCH, terms(&[], NOW)).unwrap_err();
        assert_eq!(refusal.reason, Reason::Guarded);
    }
    let one = Scope::Resource {
        kind: "guards".to_owned(),
        id: "kept".to_owned(),
    };
    let way_back = WayBack {
        then: Arc::new(then),
        back: Back::Rollback(one),
    };
    let refusal = way_back.operations(&now).unwrap_err();
    assert!(
        refusal.detail.contains("leaves guards as they are"),
        "{}",
        refusal.detail
    );
}

#[test]
fn a_guard_that_matches_nothing_is_suspicious() {
    for (selector, detail) in [
        ("tema=red", "selects by the label \"tema\", which no cluster has"),
        ("team=yellow", "matches no cluster"),
    ] {
        let operations = json!([guard("g", json!({"changes": 0, "selector": selector}))]);
        let warnings = dry_run(&small(), &operations, terms(&[], NOW)).effect.warnings;
        let warnings: Vec<_> = warnings
            .iter()
            .map(|warning| (&*warning.kind, &*warning.detail))
            .collect();
        assert_eq!(warnings, [("guards", detail)]);
    }
    let effect: Effect = dry_run(&small(), &json!([guard("g", json!({"changes": 0}))]), terms(&[], NOW)).effect;
    assert!(effect.warnings.is_empty() && effect.clusters.is_empty());
}
