//! The contract with Flux: no write leaves a cluster with a reply that Flux would refuse or trim.

use fleet::inputs::{Breach, Form, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use fleet::log::{Resource, State};
use fleet::refusal::Reason::Contract;
use fleet::snapshot::Poll;
use serde_json::json;

use super::*;
use crate::common::{document, poll, refuse, state};

fn reply(fleet: &Fleet, dns: &str, path: &str, form: Form) -> Reply {
    match fleet.named(dns).poll(path, form) {
        Poll::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

/// The size of the form that the contract is checked with.
fn size(fleet: &Fleet, dns: &str, path: &str) -> usize {
    reply(fleet, dns, path, Form::Marked).size()
}

/// Annotations of this many bytes in total.
fn annotations(bytes: usize) -> Value {
    let full = bytes / 65_536;
    many(full + 1, |n| {
        (
            format!("a{n:04}"),
            "x".repeat(if n < full { 65_536 } else { bytes % 65_536 }).into(),
        )
    })
}

#[test]
fn a_definition_that_makes_a_reply_too_large_is_refused() {
    let refusal = refuse(
        &small(),
        json!([merge(
            "namespaces",
            "a",
            json!({"annotations": annotations(MAX_REPLY_BYTES)})
        )]),
        Contract,
        &["/operations/0/value"],
    );
    assert_eq!(refusal.clusters, ["one"]);
    assert!(refusal.detail.contains("\"one\""), "{}", refusal.detail);
    let unused = create(
        "namespaces",
        json!({"id": "x", "annotations": annotations(MAX_REPLY_BYTES)}),
    );
    let fleet = accept(&small(), json!([unused]));
    let assign = json!({"op": "assign", "kind": "namespaces", "id": "x", "selector": "team"});
    assert_eq!(
        refuse(&fleet, json!([assign]), Contract, &["/operations/0"; 2]).clusters,
        ["one", "two"]
    );
}

#[test]
fn the_limit_is_exact() {
    let write = |bytes: usize| json!([merge("namespaces", "a", json!({"annotations": annotations(bytes)}))]);
    let some = 14 * 65_536 + 100;
    let below = size(&accept(&small(), write(some)), "one.example.com", "namespaces");
    let fits = some + MAX_REPLY_BYTES - below;
    assert_eq!(
        size(&accept(&small(), write(fits)), "one.example.com", "namespaces"),
        MAX_REPLY_BYTES
    );
    refuse(&small(), write(fits + 1), Contract, &["/operations/0/value"]);
}

/// Such a reply is from before there were marks. The cluster is answered in both forms, and the next write must make it smaller.
#[test]
fn a_stored_reply_that_fits_only_without_marks_is_sent_without() {
    let dns = "one.example.com";
    let with_annotations = |bytes: usize| {
        let value = json!({"id": "a", "annotations": annotations(bytes)});
        stored(&small(), [("namespaces", "a", value)].into_iter())
    };
    let some = 14 * 65_536 + 100;
    let fits = some + MAX_REPLY_BYTES - reply(&with_annotations(some), dns, "namespaces", Form::Plain).size();
    let fleet = with_annotations(fits);
    let plain = reply(&fleet, dns, "namespaces", Form::Plain);
    assert_eq!(plain.size(), MAX_REPLY_BYTES);
    let marked = reply(&fleet, dns, "namespaces", Form::Marked);
    assert_eq!((marked.etag, marked.gzip), (plain.etag, plain.gzip));
    let found = fleet.diagnose(fleet.cluster("one").unwrap());
    assert!(found.iter().any(|one| one.code == "contract"), "{found:?}");
    let touch = |bytes: usize| json!([merge("namespaces", "a", json!({"annotations": annotations(bytes)}))]);
    refuse(&fleet, touch(fits - 1), Contract, &["/operations/0/value"]);
    let smaller = accept(&fleet, json!([replace("namespaces", "a", json!({"id": "a"}))]));
    assert!(size(&smaller, dns, "namespaces") > reply(&smaller, dns, "namespaces", Form::Plain).size());
    match with_annotations(fits + 1).poll(dns, "namespaces") {
        Poll::Breach(breach) => assert_eq!(breach, Breach::TooLarge(MAX_REPLY_BYTES + 1)),
        other => panic!("{other:?}"),
    }
}

/// A kind from before `desired` was a reserved name may have a property of that name. Its inputs keep it.
#[test]
fn an_input_with_a_field_in_place_of_the_mark_has_no_mark() {
    let things = kind("thing", json!({"desired": {"type": "string"}}), json!({}));
    let thing = json!({"id": "x", "desired": "y"});
    let three = with(
        document(&small(), "clusters", "three"),
        json!({"things": [{"id": "x"}]}),
    );
    let documents = [
        ("kinds", "things", things),
        ("things", "x", thing),
        ("clusters", "three", three),
    ];
    let fleet = stored(&small(), documents.into_iter());
    let plain = reply(&fleet, "three.example.com", "things", Form::Plain);
    let marked = reply(&fleet, "three.example.com", "things", Form::Marked);
    assert_eq!((marked.etag, marked.gzip), (plain.etag, plain.gzip));
    let inputs = poll(&fleet, "three.example.com", "things");
    assert_eq!(inputs["inputs"][0]["desired"], "y");
    let other = json!({"id": "other", "desired": "z"});
    assert!(common::write(&fleet, json!([create("things", other)])).is_ok());
}

#[test]
fn a_document_cannot_have_the_field_of_the_mark_even_if_its_schema_is_open() {
    let mut things = kind("thing", json!({}), json!({}));
    things["schema"]["additionalProperties"] = true.into();
    let fleet = accept(&small(), json!([create("kinds", things)]));
    let thing = json!({"id": "x", "desired": "y"});
    let refused = [create("things", thing)];
    refuse(
        &fleet,
        json!(refused),
        fleet::refusal::Reason::Invalid,
        &["/operations/0/value/desired"],
    );
    accept(&fleet, json!([create("things", json!({"id": "x", "excluded": 1}))]));
}

#[test]
fn many_patches_that_make_a_reply_too_large_are_refused() {
    let values = many(15, |n| (format!("k{n}"), "x".repeat(65_000).into()));
    let op = json!({"op": "patch", "kind": "platform_components", "id": "a", "cluster": "one", "set": values});
    let refusal = refuse(&small(), json!([op]), Contract, &["/operations/0"]);
    assert_eq!(refusal.clusters, ["one"]);
    // For a component that is not assigned they are in no reply.
    let op = with(op, json!({"id": "c"}));
    let fleet = accept(&small(), json!([op]));
    let assign = json!({"op": "assign", "kind": "platform_components", "id": "c", "cluster": "one"});
    refuse(&fleet, json!([assign]), Contract, &["/operations/0"]);
}

#[test]
fn many_middling_definitions_add_up() {
    let definitions = (0..10).map(|n| {
        create(
            "namespaces",
            json!({"id": format!("n{n}"), "annotations": annotations(100_000)}),
        )
    });
    let fleet = accept(&small(), definitions.collect());
    let references: Vec<_> = (0..10).map(|n| json!({"id": format!("n{n}")})).collect();
    let op = merge("clusters", "three", json!({"namespaces": references}));
    refuse(&fleet, json!([op]), Contract, &["/operations/0/value"]);
    let op = merge("clusters", "three", json!({"namespaces": &references[..9]}));
    let fleet = accept(&fleet, json!([op]));
    refuse(
        &fleet,
        json!([merge("namespaces", "n0", json!({"annotations": annotations(200_000)}))]),
        Contract,
        &["/operations/0/value"],
    );
}

#[test]
fn a_kind_that_makes_replies_too_large_is_refused() {
    let kind = |flux: Value| kind("thing", json!({}), flux);
    let fleet = accept(
        &small(),
        json!([
            create("kinds", kind(json!({}))),
            create("things", json!({"id": "x"})),
            merge("clusters", "three", json!({"things": [{"id": "x"}]})),
        ]),
    );
    let loud = kind(json!({"carried": {"noise": {"type": "string", "default": "x".repeat(MAX_REPLY_BYTES)}}}));
    let refusal = refuse(
        &fleet,
        json!([apply("kinds", loud)]),
        Contract,
        &["/operations/0/value"],
    );
    assert_eq!(refusal.clusters, ["three"]);
}

#[test]
fn an_id_twice_is_refused() {
    let twice = json!({"namespaces": [{"id": "a"}, {"id": "b"}, {"id": "a"}]});
    let op = create("clusters", cluster("four", twice));
    let refusal = refuse(
        &small(),
        json!([op]),
        Contract,
        &["/operations/0/value/namespaces/2/id"],
    );
    assert_eq!(refusal.clusters, ["four"]);
    // Named twice in a plain PATCH it is the same reference.
    accept(
        &small(),
        json!([merge(
            "clusters",
            "three",
            json!({"namespaces": [{"id": "a"}, {"id": "a"}]})
        )]),
    );
}

#[test]
fn more_inputs_than_the_providers_take_are_refused() {
    let ids: Vec<_> = (0..=MAX_INPUTS).map(|n| format!("n{n}")).collect();
    let things = kind("thing", json!({}), json!({}));
    let fleet = accept(
        &empty(),
        json!([create("kinds", things), create("clusters", cluster("three", json!({})))]),
    );
    let fleet = stored(
        &fleet,
        ids.iter().map(|id| ("things", id.as_str(), json!({ "id": id }))),
    );
    let references = |count: usize| -> Vec<Value> { ids.iter().take(count).map(|id| json!({ "id": id })).collect() };
    let assign = |count| json!([merge("clusters", "three", json!({"things": references(count)}))]);
    refuse(&fleet, assign(MAX_INPUTS + 1), Contract, &["/operations/0/value"]);
    // As many fit into the plain reply, not into the marked one.
    let refusal = refuse(&fleet, assign(MAX_INPUTS), Contract, &["/operations/0/value"]);
    assert!(refusal.detail.contains("bytes"), "{}", refusal.detail);
    let value = cluster("three", json!({"things": references(MAX_INPUTS)}));
    let older = stored(&fleet, [("clusters", "three", value)].into_iter());
    assert_eq!(common::ids(&older, "three.example.com", "things").len(), MAX_INPUTS);
}

/// A fleet from a store, with documents that no write of today would accept.
fn stored<'a>(fleet: &Fleet, more: impl Iterator<Item = (&'a str, &'a str, Value)>) -> Fleet {
    let State {
        head, mut resources, ..
    } = state(fleet);
    for (kind, id, value) in more {
        let body = fleet::json::Json::new(&value);
        match resources.iter_mut().find(|one| (&*one.kind, &*one.id) == (kind, id)) {
            Some(one) => one.body = body,
            None => resources.push(Resource {
                kind: kind.into(),
                id: id.into(),
                body,
                origin: None,
            }),
        }
    }
    Fleet::load(State {
        head,
        resources,
        ..State::default()
    })
    .unwrap()
}

/// `three` as an older release may have left it.
fn older(fields: Value) -> Fleet {
    let value = with(document(&small(), "clusters", "three"), fields);
    stored(&small(), [("clusters", "three", value)].into_iter())
}

#[test]
fn a_stored_breach_is_answered_as_one_and_never_as_a_list() {
    let fleet = older(json!({"namespaces": [{"id": "a"}, {"id": "a"}]}));
    assert_eq!(
        poll(&fleet, "three.example.com", "namespaces"),
        "breach: the id \"a\" would be in the reply twice"
    );
    assert_eq!(
        poll(&fleet, "one.example.com", "namespaces"),
        poll(&small(), "one.example.com", "namespaces")
    );
    let found = fleet.diagnose(fleet.cluster("three").unwrap());
    assert!(
        found
            .iter()
            .any(|one| one.code == "contract" && one.kind == "namespaces"),
        "{found:?}"
    );
}

#[test]
fn a_stored_breach_can_be_mended() {
    let fleet = older(json!({"namespaces": [{"id": "a"}, {"id": "a"}]}));
    let mended = accept(
        &fleet,
        json!([merge(
            "clusters",
            "three",
            json!({"namespaces": [{"id": "a", "$patch": "delete"}]})
        )]),
    );
    assert_eq!(poll(&mended, "three.example.com", "namespaces"), json!({"inputs": []}));
}
