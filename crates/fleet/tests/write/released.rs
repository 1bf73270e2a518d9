//! DNS names that clusters gave up, and the polls that still use them.

use std::sync::Arc;

use fleet::history::{Back, Rewind, Scope, WayBack};
use fleet::log::{Batch, Revision, RevisionRecord};
use fleet::refusal::Reason::{Invalid, NotFound, Protected, RemovalBudget};
use fleet::write::Rules;
use serde_json::json;

use super::removals::{change, ids, plan, protect, refused};
use super::*;
use crate::common::{document, poll, refuse, write};

fn rename(id: &str, dns: &str) -> Value {
    merge("clusters", id, json!({ "cluster_dns": format!("{dns}.example.com") }))
}

fn bare_at(id: &str, dns: &str) -> Value {
    create(
        "clusters",
        cluster(id, json!({ "cluster_dns": format!("{dns}.example.com") })),
    )
}

/// `one` has been renamed.
fn left() -> Fleet {
    accept(&small(), json!([rename("one", "new")]))
}

fn remembered(fleet: &Fleet, dns: &str) -> Value {
    document(fleet, "released_names", &format!("{dns}.example.com"))
}

/// The inputs that a plan removes, by path.
#[track_caller]
fn removed(fleet: &Fleet, operations: Value) -> Vec<(String, Vec<String>)> {
    let effect = plan(fleet, operations);
    let lists = effect.clusters.iter().flat_map(|cluster| cluster.inputs.iter());
    let lists = lists.filter(|(_, list)| !list.removed.is_empty());
    lists
        .map(|(path, list)| (path.to_string(), list.removed.clone()))
        .collect()
}

#[test]
fn a_name_that_is_given_up_is_remembered_with_what_it_was_told() {
    let (fleet, changes) = write(&small(), json!([rename("one", "new")])).unwrap();
    let changed: Vec<_> = changes.iter().map(|change| (&*change.kind, &*change.id)).collect();
    assert_eq!(changed, [("clusters", "one"), ("released_names", "one.example.com")]);
    let object = json!({"object": "HelmRelease", "source": "HelmRepository"});
    assert_eq!(
        remembered(&fleet, "one"),
        json!({
            "id": "one.example.com", "cluster_dns": "one.example.com", "cluster_id": "one",
            "inputs": {
                "namespaces": [{"id": "a"}, {"id": "b"}],
                "platform-components": [with(json!({"id": "a"}), object.clone()), with(json!({"id": "b"}), object)],
            },
        })
    );
    // It is unknown all the same: Flux keeps what it has.
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), "unknown cluster");
}

#[test]
fn a_name_that_had_nothing_is_not_remembered() {
    let (fleet, changes) = write(&small(), json!([rename("three", "new")])).unwrap();
    assert_eq!((changes.len(), remembered(&fleet, "three")), (1, Value::Null));
    // What is turned off is nothing, too.
    let off = merge(
        "clusters",
        "two",
        json!({"platform_components": [{"id": "a", "enabled": false}]}),
    );
    let fleet = accept(&accept(&small(), json!([off])), json!([rename("two", "new")]));
    assert_eq!(remembered(&fleet, "two"), Value::Null);
}

#[test]
fn twenty_clusters_that_move_and_bare_ones_on_their_names_count_as_twenty() {
    let names: Vec<String> = (0..20).map(|n| format!("c{n:02}")).collect();
    let has = json!({"platform_components": [{"id": "a"}], "namespaces": [{"id": "a"}]});
    let made: Vec<_> = names
        .iter()
        .map(|id| create("clusters", cluster(id, has.clone())))
        .collect();
    let fleet = accept(&small(), made.into());
    let moves: Vec<_> = names.iter().map(|id| rename(id, &format!("{id}-new"))).collect();
    let (fleet, nothing) = change(&fleet, moves.into(), None).unwrap();
    assert_eq!(nothing.count(), 0);
    let takers: Vec<String> = names.iter().map(|id| format!("{id}-bare")).collect();
    let bare: Value = names.iter().zip(&takers).map(|(dns, id)| bare_at(id, dns)).collect();
    let refusal = change(&fleet, bare.clone(), None).unwrap_err();
    assert_eq!((refusal.reason, refusal.clusters), (RemovalBudget, takers));
    assert_eq!(refusal.removals.unwrap().count, 20);
    let (fleet, taken) = change(&fleet, bare, Some(20)).unwrap();
    assert_eq!((taken.lost.len(), &*taken.lost[0]), (20, "c00.example.com"));
    assert_eq!(fleet.released_names().len(), 0);
    assert_eq!(poll(&fleet, "c00.example.com", "namespaces"), json!({"inputs": []}));
}

#[test]
fn a_plan_says_what_the_taker_does_not_have() {
    let taker = cluster(
        "four",
        json!({"cluster_dns": "ONE.example.com", "namespaces": [{"id": "b"}]}),
    );
    let effect = plan(&left(), json!([create("clusters", taker)]));
    let [taker] = &effect.clusters[..] else {
        panic!("{effect:?}")
    };
    assert_eq!(
        (&**taker.id(), &**taker.dns(), taker.deleted),
        ("four", "ONE.example.com", false)
    );
    let lists: Vec<_> = taker
        .inputs
        .iter()
        .map(|(path, list)| (&**path, &*list.added, &*list.removed))
        .collect();
    let [a, b] = ["a", "b"].map(str::to_owned);
    assert_eq!(
        lists,
        [
            ("namespaces", &[b.clone()][..], &[a.clone()][..]),
            ("platform-components", &[], &[a, b])
        ]
    );
}

#[test]
fn what_is_made_of_an_input_counts_as_well() {
    // Turned off, or rendered as another kind of object: either way Flux removes what it had.
    let fleet = accept(&small(), json!([rename("two", "new")]));
    let takes = |reference: Value| {
        let fields = json!({"cluster_dns": "two.example.com", "platform_components": [reference]});
        json!([create("clusters", cluster("four", fields))])
    };
    let component = vec![("platform-components".to_owned(), ids(&["a"]))];
    assert_eq!(removed(&fleet, takes(json!({"id": "a", "enabled": false}))), component);
    assert_eq!(removed(&fleet, takes(json!({"id": "a"}))), []);
    let other = merge(
        "platform_components",
        "a",
        json!({"oci_url": "oci://x.example.com/charts"}),
    );
    assert_eq!(
        removed(&accept(&fleet, json!([other])), takes(json!({"id": "a"}))),
        component
    );
    change(&fleet, takes(json!({"id": "a"})), None).unwrap();
}

#[test]
fn the_cluster_itself_may_come_back() {
    let (fleet, removed) = change(&left(), json!([rename("one", "ONE")]), None).unwrap();
    assert_eq!(
        (removed.count(), fleet.released_names().contains_key("one.example.com")),
        (0, false)
    );
    // The name that it left for is remembered in turn.
    assert_eq!(remembered(&fleet, "new")["cluster_id"], "one");
    // With less than it had, it is a removal.
    let less = merge(
        "clusters",
        "one",
        json!({"namespaces": [{"id": "a", "$patch": "delete"}]}),
    );
    let (fleet, taken) = change(&left(), json!([less]), Some(1)).unwrap();
    assert_eq!(taken.lost, ids(&["new.example.com"]));
    assert_eq!(
        refused(&fleet, json!([rename("one", "one")])),
        (RemovalBudget, ids(&["one"]))
    );
}

#[test]
fn a_cascade_meanwhile_takes_nothing_from_what_is_remembered() {
    let was = remembered(&left(), "one");
    let gone = json!([cascade("platform_components", "b"), cascade("namespaces", "a")]);
    let fleet = accept(&left(), gone);
    assert_eq!(remembered(&fleet, "one"), was);
    let back = removed(&fleet, json!([rename("one", "one")]));
    assert_eq!(
        back,
        [
            ("namespaces".to_owned(), ids(&["a"])),
            ("platform-components".to_owned(), ids(&["b"]))
        ]
    );
}

#[test]
fn a_path_that_is_gone_when_the_name_is_taken_counts_as_an_empty_list() {
    let mut document = fleet::kind::built_in()[2].clone();
    document["schema"]["x-flux"]["path"] = "ns".into();
    let fleet = accept(&left(), json!([apply("kinds", document)]));
    let effect = plan(&fleet, json!([rename("one", "one")]));
    let lists = effect
        .clusters
        .iter()
        .find(|cluster| &**cluster.dns() == "one.example.com")
        .unwrap();
    let list = &lists.inputs.iter().find(|(path, _)| &**path == "namespaces").unwrap().1;
    assert_eq!((&list.removed, list.unanswered), (&ids(&["a", "b"]), true));
}

#[test]
fn names_that_are_swapped_or_passed_on_in_one_batch_are_compared_at_once() {
    let swap = json!([rename("one", "two"), rename("two", "one")]);
    let (fleet, removed) = change(&small(), swap, Some(1)).unwrap();
    assert_eq!(
        (removed.lost, fleet.released_names().len()),
        (ids(&["one.example.com"]), 0)
    );
    let passed = json!([rename("one", "new"), bare_at("four", "one")]);
    assert_eq!(refused(&small(), passed), (RemovalBudget, ids(&["four"])));
}

#[test]
fn a_chain_of_renames_is_followed() {
    // one: one → new, two: two → one, two: one → end. Each name remembers what it was told last.
    let (fleet, removed) = change(&left(), json!([rename("two", "one")]), Some(1)).unwrap();
    assert_eq!(removed.lost, ids(&["one.example.com"]));
    let names: Vec<_> = fleet.released_names().keys().map(|dns| &**dns).collect();
    assert_eq!(names, ["two.example.com"]);
    let fleet = accept(&fleet, json!([rename("two", "end")]));
    let object = json!({"id": "a", "object": "HelmRelease", "source": "HelmRepository"});
    for dns in ["one", "two"] {
        assert_eq!(
            remembered(&fleet, dns)["inputs"],
            json!({"platform-components": [object]})
        );
        assert_eq!(remembered(&fleet, dns)["cluster_id"], "two");
    }
}

#[test]
fn a_visit_within_one_batch_is_no_taking() {
    let (fleet, changes) = write(&left(), json!([rename("three", "one"), rename("three", "three")])).unwrap();
    assert_eq!(
        (changes, remembered(&fleet, "one")),
        (vec![], remembered(&left(), "one"))
    );
}

#[test]
fn a_protected_cluster_gives_up_its_name_on_no_road() {
    let fleet = protect(&small(), "one");
    assert_eq!(
        refused(&fleet, json!([rename("one", "new")])),
        (Protected, ids(&["one"]))
    );
    // And is not taken by surprise by a rollback, either: it was called otherwise before it was protected.
    let (renamed, _) = record(&small(), json!([rename("one", "new")]));
    let fleet = protect(&renamed, "one");
    let operations = way_back(&small()).operations(&fleet).unwrap();
    let refusal = fleet.write(&operations, Rules::default()).unwrap_err();
    assert_eq!((refusal.reason, refusal.clusters), (Protected, ids(&["one"])));
}

#[test]
fn deleting_a_cluster_and_forgetting_it_at_once_is_remembered() {
    // Nobody was told an empty list, so nothing was counted.
    let both = json!([delete("clusters", "one"), delete("decommissions", "one.example.com")]);
    let (fleet, removed) = change(&small(), both, None).unwrap();
    assert_eq!(
        (removed.count(), remembered(&fleet, "one")["cluster_id"].clone()),
        (0, json!("one"))
    );
    assert_eq!(
        refused(&fleet, json!([bare_at("four", "one")])),
        (RemovalBudget, ids(&["four"]))
    );
}

#[test]
fn a_name_can_be_forgotten_and_nothing_else() {
    let forget = json!([delete("released_names", "ONE.example.com")]);
    let fleet = accept(&left(), forget.clone());
    assert_eq!(remembered(&fleet, "one"), Value::Null);
    change(&fleet, json!([bare_at("four", "one")]), None).unwrap();
    refuse(&fleet, forget, NotFound, &["/operations/0/id"]);
    let forged = json!([create("released_names", json!({"id": "two.example.com"}))]);
    refuse(&fleet, forged, Invalid, &["/operations/0/op"]);
    // Not in the revision that gives it up: then nobody has seen it yet.
    let at_once = json!([rename("one", "new"), delete("released_names", "one.example.com")]);
    refuse(&small(), at_once, NotFound, &["/operations/1/id"]);
}

#[test]
fn no_kind_can_have_the_name() {
    let own = kind("released_name", json!({}), json!({}));
    refuse(
        &small(),
        json!([create("kinds", own)]),
        Invalid,
        &["/operations/0/value/kind"],
    );
}

fn record(fleet: &Fleet, operations: Value) -> (Fleet, RevisionRecord) {
    let (next, changes) = write(fleet, operations).unwrap();
    let batch = Batch {
        changes,
        ..Batch::default()
    };
    (next, RevisionRecord::on(fleet.head(), &batch))
}

fn since(records: &[RevisionRecord]) -> Rewind {
    let mut rewind = Rewind::default();
    records.iter().for_each(|record| rewind.add(record));
    rewind
}

fn way_back(then: &Fleet) -> WayBack {
    WayBack {
        then: Arc::new(then.clone()),
        back: Back::Rollback(Scope::Fleet),
    }
}

fn undoing(then: &Fleet, record: &RevisionRecord) -> WayBack {
    WayBack {
        then: Arc::new(then.clone()),
        back: Back::Undo {
            record: Box::new(record.clone()),
            reversed_by: None,
        },
    }
}

#[test]
fn a_rollback_takes_names_back_as_any_write_does() {
    let (renamed, first) = record(&small(), json!([rename("one", "new")]));
    let (taken, second) = record(&renamed, json!([bare_at("four", "one")]));
    let rewind = since(&[first.clone(), second]);
    // The past is seen with what was remembered then.
    let then = taken.rewound(Revision(0), &rewind).unwrap();
    assert_eq!(then.released_names().len(), 0);
    let operations = way_back(&then).operations(&taken).unwrap();
    let outcome = taken.write(&operations, Rules::default()).unwrap();
    let back = outcome.preview();
    assert_eq!(
        poll(back, "one.example.com", "namespaces"),
        poll(&small(), "one.example.com", "namespaces")
    );
    let names: Vec<_> = back.released_names().keys().map(|dns| &**dns).collect();
    assert_eq!(names, ["new.example.com"]);
    // An undo of the renaming alone finds the name taken by nobody.
    let operations = undoing(&small(), &first).operations(&renamed).unwrap();
    let outcome = renamed.write(&operations, Rules::default()).unwrap();
    assert!(!outcome.preview().released_names().contains_key("one.example.com"));
    assert_eq!(
        poll(outcome.preview(), "one.example.com", "namespaces"),
        poll(&small(), "one.example.com", "namespaces")
    );
}

#[test]
fn released_names_are_limited_and_never_forgotten_by_themselves() {
    use fleet::log::{Resource, State};
    use fleet::released::MOST_RELEASED;
    let resource = |n: usize| Resource {
        kind: "released_names".into(),
        id: format!("old-{n}.example.com").into(),
        body: fleet::json::Json::from_canonical(r#"{"inputs":{"namespaces":[{"id":"a"}]}}"#),
        origin: None,
    };
    let full = |count: usize| {
        let small = small();
        let resources = small.resources().chain((0..count).map(resource)).collect();
        Fleet::load(State {
            resources,
            ..State::default()
        })
    };
    let almost = full(MOST_RELEASED - 1).unwrap();
    let last = accept(&almost, json!([rename("one", "new")]));
    assert_eq!(last.released_names().len(), MOST_RELEASED);

    let both = json!([
        merge("clusters", "one", json!({"labels": {"x": "y"}})),
        rename("two", "newer")
    ]);
    let refusal = write(&last, both.clone()).unwrap_err();
    assert_eq!(refusal.reason, Invalid);
    assert_eq!(refusal.errors[0].pointer, "/operations/1/value/cluster_dns");
    assert!(
        refusal.detail.contains("at most 50000 are kept: delete those"),
        "{}",
        refusal.detail
    );
    // Other writes, and renames that release nothing, are not held up.
    accept(&last, json!([merge("clusters", "two", json!({"labels": {"x": "y"}}))]));
    accept(&last, json!([rename("one", "one")]));
    let room = accept(&last, json!([delete("released_names", "old-0.example.com")]));
    assert_eq!(accept(&room, both).released_names().len(), MOST_RELEASED);
}
