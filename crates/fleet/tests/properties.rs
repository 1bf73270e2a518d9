//! Properties of any sequence of writes: equal states give equal bytes; no reply breaks the contract; replaying the log gives the
//! same fleet; only a removal makes a list shorter; no input makes the code panic.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use fleet::Fleet;
use fleet::budget::Recent;
use fleet::diff::differences;
use fleet::effect::Effect;
use fleet::history::{Back, Rewind, Scope, WayBack};
use fleet::identity::{IDENTITIES, OperatorScope, Reach, Time, Token, cluster_of};
use fleet::inputs::{Form, MAX_REPLY_BYTES};
use fleet::json::Json;
use fleet::judge::{Confirmation, Detail, Terms, judge};
use fleet::kind::{Render, built_in};
use fleet::log::{Batch, Change, Removed, RevisionRecord, State};
use fleet::operation::{BatchRequest, Operation, Verb};
use fleet::refusal::Reason;
use fleet::selector::Selector;
use fleet::snapshot::Poll;
use fleet::write::Rules;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use common::{BATCH, SEED, document, empty, network_policy, state, view};

/// `PROPTEST_CASES` runs more.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(usual);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

// ---- A small universe, so that things meet ----

/// Mostly the first, sometimes the second: batches that are nearly always refused would test little.
fn mostly<T: std::fmt::Debug + 'static>(
    usual: impl Strategy<Value = T> + 'static,
    rare: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![24 => usual, 1 => rare].boxed()
}

fn one_of(values: Value) -> BoxedStrategy<Value> {
    select(values.as_array().unwrap().clone()).boxed()
}

const IDS: [&str; 4] = ["a", "b", "c", "d"];
const ARRAYS: [&str; 5] = [
    "namespaces",
    "network_policies",
    "platform_components",
    "rolebindings",
    "things",
];

fn id() -> BoxedStrategy<&'static str> {
    mostly(select(IDS.to_vec()), select(vec!["Bad Id", "", "nobody", "e", "e"]))
}

fn profile_id() -> BoxedStrategy<&'static str> {
    select(vec!["p", "q", "r"]).boxed()
}

fn name() -> BoxedStrategy<&'static str> {
    mostly(select(ARRAYS.to_vec()), Just("nothings"))
}

/// An object with some of these fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| proptest::option::of(value).prop_map(move |value| (name, value)))
        .collect();
    let given = |fields: Vec<(&str, Option<Value>)>| {
        fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    };
    fields.prop_map(move |fields| Value::Object(given(fields))).boxed()
}

fn references() -> BoxedStrategy<Value> {
    let more = object(vec![
        ("oci_tag", one_of(json!(["v2", null]))),
        ("enabled", one_of(json!([true, false, null]))),
        (
            "excluded",
            mostly(one_of(json!([true, false])), one_of(json!([null, "x"]))),
        ),
        ("note", one_of(json!(["x", null]))),
        ("$patch", one_of(json!(["delete", "delete", "replace"]))),
    ]);
    let reference = (id(), mostly(Just(json!({})), more)).prop_map(|(id, more)| with(json!({ "id": id }), &more));
    vec(reference, 0..4).prop_map(Value::from).boxed()
}

fn with(mut base: Value, fields: &Value) -> Value {
    base.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    base
}

/// Some fields of a cluster, as a PATCH has them.
fn cluster() -> BoxedStrategy<Value> {
    let labels = btree_map(
        select(common::LABELS.to_vec()),
        mostly(one_of(json!(["x", "y", null])), Just(json!(5))),
        0..3,
    );
    let patches = mostly(
        one_of(json!([{"x": "1"}, {"x": 2, "y": true}, {"y": false}])),
        one_of(json!([{"x": null}, null, {"x": []}])),
    );
    let dns = mostly(
        one_of(json!([
            "a.example.com",
            "A.Example.com",
            "b.example.com",
            "c.example.com",
            "d.example.com",
            "e.example.com"
        ])),
        one_of(json!(["-", 5, null])),
    );
    let mut fields = vec![
        ("labels", labels.prop_map(|labels| json!(labels)).boxed()),
        (
            "environment",
            mostly(one_of(json!(["dev", "prod"])), one_of(json!(["strange", null]))),
        ),
        (
            "patches",
            (id(), patches).prop_map(|(id, values)| json!({ id: values })).boxed(),
        ),
    ];
    fields.extend(ARRAYS.map(|array| (array, references())));
    let seldom = object(vec![
        ("protected", one_of(json!([true, false, null]))),
        ("cluster_dns", dns),
    ]);
    (object(fields), prop_oneof![3 => Just(json!({})), 1 => seldom])
        .prop_map(|(often, seldom)| with(often, &seldom))
        .boxed()
}

/// Some fields of a profile.
fn profile() -> BoxedStrategy<Value> {
    let selector = mostly(
        one_of(json!([
            "*",
            "team=x",
            "team in (x,y),environment=dev",
            "environment!=prod",
            "tier",
            "!tier",
            "team!=x",
            "id=a"
        ])),
        one_of(json!(["", "new-label=x", "!new-label", "environment=strange", 5])),
    );
    let more = object(vec![
        ("oci_tag", one_of(json!(["v2", "v3", null]))),
        ("enabled", one_of(json!([true, false, null]))),
        ("adds", one_of(json!([true, false]))),
        ("excluded", one_of(json!([true, false]))),
    ]);
    let reference = (select(IDS.to_vec()), more).prop_map(|(id, mut more)| {
        // A reference that excludes says nothing else.
        if more["excluded"] == true && more["adds"] != true {
            more = json!({"excluded": true});
        }
        with(json!({ "id": id }), &more)
    });
    let references = || {
        vec(reference.clone(), 0..3).prop_map(|mut references| {
            let mut seen = BTreeSet::new();
            references.retain(|reference: &Value| seen.insert(reference["id"].to_string()));
            Value::from(references)
        })
    };
    let mut fields = vec![
        (
            "priority",
            mostly(one_of(json!([-1, 0, 0, 1])), one_of(json!([1001, "x"]))),
        ),
        (
            "patches",
            (
                select(IDS.to_vec()),
                one_of(json!([{"x": "3", "z": true}, {"x": "4"}, {"y": "5"}, {"z": false}])),
            )
                .prop_map(|(id, values)| json!({ id: values }))
                .boxed(),
        ),
        ("platform_components", references().boxed()),
    ];
    fields.extend(["namespaces", "things"].map(|array| (array, references().boxed())));
    (selector, object(fields))
        .prop_map(|(selector, fields)| with(json!({ "selector": selector }), &fields))
        .boxed()
}

/// A definition without its id.
fn definition(kind: &'static str) -> BoxedStrategy<Value> {
    match kind {
        "platform_components" => {
            let depends_on = mostly(
                one_of(json!([[], ["a"], ["a", "b"]])),
                one_of(json!([["c"], ["nobody"], "a"])),
            );
            let given = object(vec![
                ("oci_tag", one_of(json!(["v1", "v2"]))),
                ("depends_on", depends_on),
            ]);
            let base = json!({"component_path": "x", "oci_url": "https://x.example.com", "oci_tag": "v1"});
            given.prop_map(move |given| with(base.clone(), &given)).boxed()
        }
        "rolebindings" => mostly(
            one_of(
                json!([{"role": "view", "subjects": []}, {"role": "edit", "subjects": [{"kind": "Group", "name": "x"}]}]),
            ),
            one_of(json!([{"role": "view"}])),
        ),
        "network_policies" => mostly(
            one_of(
                json!([{"target_namespace": "x", "ingress_rules": []}, {"target_namespace": "y", "ingress_rules": [{"port": 1}]}]),
            ),
            one_of(json!([{"ingress_rules": 5}])),
        ),
        "things" => one_of(json!([{"text": "x"}, {"text": "y", "size": 1}])),
        _ => mostly(
            one_of(json!([{"labels": {"a": "b"}}, {}])),
            one_of(json!([{"labels": 5}])),
        ),
    }
}

fn with_x_flux(mut document: Value, flux: Value) -> Value {
    document["schema"]["x-flux"] = flux;
    document
}

fn things() -> Value {
    let document = json!({"kind": "thing", "schema": {"type": "object", "properties": {"text": {"type": "string"}, "size": {"type": "integer"}}}});
    with_x_flux(
        document,
        json!({"overridable": ["size"], "carried": {"note": {"type": "string", "default": "n"}}, "patches": true}),
    )
}

/// A kind without definitions, which can be added and removed.
fn gadgets(flux: Value) -> Value {
    with_x_flux(
        json!({"kind": "gadget", "schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}),
        flux,
    )
}

/// Kinds that are added, changed and refused.
fn kinds() -> Vec<Value> {
    let clusters = |change: fn(&mut Value)| {
        let mut document = built_in()[0].clone();
        change(&mut document["schema"]["items"]);
        document
    };
    let mut stricter = network_policy();
    stricter["schema"]["properties"]["target_namespace"]["enum"] = json!(["x"]);
    let mut tiered = network_policy();
    tiered["schema"]["properties"]["tier"] = json!({"type": "string", "default": "gold"});
    let loud = json!({"carried": {"note": {"type": "string", "default": "x".repeat(MAX_REPLY_BYTES)}}});
    vec![
        network_policy(),
        stricter,
        tiered,
        with_x_flux(network_policy(), json!({"references": "policies"})),
        with_x_flux(network_policy(), json!({"references": "things"})),
        with_x_flux(network_policy(), json!({"path": "elsewhere", "patches": true})),
        things(),
        with_x_flux(things(), json!({"nest": {"in": ["text"]}})),
        with_x_flux(things(), json!({"references": "network_policies"})),
        with_x_flux(things(), json!({"path": "network-policies"})),
        with_x_flux(things(), json!({"overridable": ["nothing"]})),
        with_x_flux(things(), loud),
        clusters(|_| {}),
        clusters(|items| items["additionalProperties"] = true.into()),
        clusters(|items| items["properties"]["zone"] = json!({"type": "string", "default": "x"})),
        clusters(|items| items["properties"]["environment"]["enum"] = json!(["dev"])),
        gadgets(json!({})),
        gadgets(json!({"path": "elsewhere"})),
        gadgets(json!({"references": "policies", "command": "policy"})),
        gadgets(json!({"references": "environment"})),
        built_in()[2].clone(),
        json!({"kind": "namespaces", "schema": {"type": "object", "properties": {"labels": {"type": "object"}, "annotations": {"type": "object"}}}}),
        json!({"kind": "change", "schema": {"type": "object", "properties": {}}}),
    ]
}

fn operation() -> BoxedStrategy<Value> {
    let on = || {
        let selector = mostly(
            select(vec![
                "*",
                "team",
                "team=x",
                "environment!=prod",
                "tier notin (x)",
                "id in (a,b)",
            ]),
            select(vec!["", "!nothing", "a b"]),
        );
        prop_oneof![3 => id().prop_map(|id| ("cluster", id)), 1 => selector.prop_map(|selector| ("selector", selector))]
    };
    let definitions = || name().prop_flat_map(|kind| (Just(kind), definition(kind)));
    let whole = || {
        (
            prop_oneof![4 => Just("apply"), 1 => Just("create"), 1 => Just("replace")],
            id(),
        )
    };
    prop_oneof![
        4 => (definitions(), whole()).prop_map(|((kind, value), (op, id))| json!({"op": op, "kind": kind, "id": id, "value": with(value, &json!({"id": id}))})),
        5 => (cluster(), whole()).prop_map(|(value, (op, id))| {
            let base = json!({"id": id, "cluster_name": "x", "cluster_dns": format!("{id}.example.com"), "environment": "dev"});
            let mut value = value;
            if let Some(labels) = value.get_mut("labels").and_then(Value::as_object_mut) {
                labels.retain(|_, label| !label.is_null());
            }
            let arrays = ARRAYS.iter().map(|array| ((*array).to_owned(), json!([]))).collect::<Map<_, _>>();
            json!({"op": op, "kind": "clusters", "id": id, "value": with(with(base, &arrays.into()), &value)})
        }),
        2 => (definitions(), id()).prop_map(|((kind, value), id)| json!({"op": "merge", "kind": kind, "id": id, "value": value})),
        6 => (cluster(), id()).prop_map(|(value, id)| patch_cluster(id, value)),
        3 => (id(), any::<bool>(), name()).prop_map(|(id, cascade, kind)| json!({"op": "delete", "kind": kind, "id": id, "cascade": cascade})),
        1 => id().prop_map(|id| json!({"op": "delete", "kind": "clusters", "id": id})),
        1 => (select(vec!["decommissions", "released_names"]), id()).prop_map(|(kind, id)| json!({"op": "delete", "kind": kind, "id": format!("{id}.example.com")})),
        4 => (name(), id(), on()).prop_map(|(kind, id, (on, who))| json!({"op": "assign", "kind": kind, "id": id, on: who})),
        2 => (name(), id(), on()).prop_map(|(kind, id, (on, who))| json!({"op": "unassign", "kind": kind, "id": id, on: who, "drop_patches": true})),
        1 => (id(), on()).prop_map(|(id, (on, who))| json!({"op": "patch", "kind": "platform_components", "id": id, on: who, "set": {"x": "2"}, "unset": ["y"]})),
        4 => (profile(), profile_id(), any::<bool>()).prop_map(|(value, id, merge)| match merge {
            true => json!({"op": "merge", "kind": "profiles", "id": id, "value": value}),
            false => apply("profiles", id, value),
        }),
        1 => profile_id().prop_map(|id| json!({"op": "delete", "kind": "profiles", "id": id})),
        3 => select(kinds()).prop_map(put),
        2 => prop_oneof![name(), Just("gadgets")].prop_map(|kind| json!({"op": "delete", "kind": "kinds", "id": kind})),
    ]
    .boxed()
}

fn put(kind: Value) -> Value {
    json!({"op": "apply", "kind": "kinds", "value": kind})
}

fn apply(kind: &str, id: &str, value: Value) -> Value {
    json!({"op": "apply", "kind": kind, "id": id, "value": with(value, &json!({"id": id}))})
}

fn patch_cluster(id: &str, value: Value) -> Value {
    json!({"op": "merge", "kind": "clusters", "id": id, "value": value})
}

/// Clusters that give up DNS names and take them.
fn names() -> BoxedStrategy<Vec<Value>> {
    let rename = |id, dns: &str| patch_cluster(id, json!({"cluster_dns": format!("{dns}.example.com")}));
    let swap = (id(), id()).prop_map(move |(one, two)| vec![rename(one, two), rename(two, one)]);
    let away = (id(), id()).prop_map(move |(one, two)| vec![rename(one, &format!("{two}-new"))]);
    let vanish = id().prop_map(|id| {
        vec![
            json!({"op": "delete", "kind": "clusters", "id": id}),
            json!({"op": "delete", "kind": "decommissions", "id": format!("{id}.example.com")}),
        ]
    });
    // A cluster on a name that another one may have had.
    let taken = (id(), id(), references()).prop_map(|(one, two, references)| {
        let dns = format!("{two}.example.com");
        let value =
            json!({"cluster_name": "x", "cluster_dns": dns, "environment": "dev", "platform_components": references});
        vec![json!({"op": "create", "kind": "clusters", "id": format!("{one}-taker"), "value": value})]
    });
    prop_oneof![1 => swap, 2 => away, 1 => vanish, 2 => taken].boxed()
}

/// Mostly a few operations; sometimes combinations that are unlikely by chance.
fn batch() -> BoxedStrategy<Vec<Value>> {
    let some = prop_oneof![2 => vec(operation(), 1), 1 => vec(operation(), 2..4)];
    let rename = |id, dns: &str| patch_cluster(id, json!({"cluster_dns": format!("{dns}.example.com")}));
    let take = (id(), id()).prop_map(move |(one, two)| vec![rename(one, two), put(gadgets(json!({"path": "new"})))]);
    let purge = (select(vec!["network_policies", "things"]), vec(operation(), 0..2)).prop_map(|(kind, more)| {
        let value = if kind == "things" {
            json!({"text": "x"})
        } else {
            json!({"target_namespace": "x", "ingress_rules": []})
        };
        let gone = IDS.iter().flat_map(|id| {
            [
                apply(kind, id, value.clone()),
                json!({"op": "delete", "kind": kind, "id": id, "cascade": true}),
            ]
        });
        gone.chain([json!({"op": "delete", "kind": "kinds", "id": kind})])
            .chain(more)
            .collect()
    });
    let again = select(vec![
        network_policy(),
        things(),
        gadgets(json!({})),
        built_in()[2].clone(),
    ])
    .prop_map(|kind| {
        vec![
            json!({"op": "delete", "kind": "kinds", "id": fleet::kind::name_of(&kind).unwrap()}),
            put(kind),
        ]
    });
    // Clusters that take any field hold one before its kind comes.
    let field = (id(), references()).prop_map(|(id, value)| {
        let mut open = built_in()[0].clone();
        open["schema"]["items"]["additionalProperties"] = true.into();
        vec![put(open), patch_cluster(id, json!({ "gadgets": value }))]
    });
    let unlabel = select(common::LABELS.to_vec()).prop_map(|label| {
        IDS.map(|id| patch_cluster(id, json!({"labels": { label: null }})))
            .to_vec()
    });
    let comes = id().prop_map(|id| vec![put(gadgets(json!({}))), apply("gadgets", id, json!({}))]);
    let moves = select(vec![network_policy(), things()])
        .prop_map(|kind| vec![put(with_x_flux(kind, json!({"references": "moved"})))]);
    let heavy = (id(), id(), id()).prop_map(|(one, two, on)| {
        let text = json!({"text": "x".repeat(MAX_REPLY_BYTES / 2)});
        vec![
            apply("things", one, text.clone()),
            apply("things", two, text),
            patch_cluster(on, json!({"things": [{"id": one}, {"id": two}]})),
        ]
    });
    let contrived = prop_oneof![2 => names(), 1 => take, 1 => purge, 1 => again, 1 => field, 1 => unlabel, 1 => comes, 1 => moves, 1 => heavy];
    prop_oneof![2 => some, 1 => contrived].boxed()
}

/// Where the histories begin: two kinds of a user, definitions of every kind, clusters that refer to them.
fn populated() -> Fleet {
    static POPULATED: LazyLock<Fleet> = LazyLock::new(|| {
        let create = |kind: &str, id: &str, value: Value| json!({"op": "create", "kind": kind, "value": with(value, &json!({"id": id}))});
        let mut operations = vec![];
        for document in [network_policy(), things()] {
            operations.push(json!({"op": "create", "kind": "kinds", "value": document}));
        }
        for id in IDS {
            operations.push(create("namespaces", id, json!({})));
            operations.push(create(
                "platform_components",
                id,
                json!({"component_path": "x", "oci_url": "https://x.example.com", "oci_tag": "v1"}),
            ));
            operations.push(create("rolebindings", id, json!({"role": "view", "subjects": []})));
            operations.push(create(
                "network_policies",
                id,
                json!({"target_namespace": "x", "ingress_rules": []}),
            ));
            operations.push(create("things", id, json!({"text": "x"})));
            let cluster = json!({
                "cluster_name": "x", "cluster_dns": format!("{id}.example.com"), "environment": "dev", "labels": {"team": "x"},
                "platform_components": [{"id": "a"}, {"id": "b"}], "namespaces": [{"id": "a"}], "things": [{"id": "c", "size": 2}],
            });
            operations.push(create("clusters", id, cluster));
        }
        let profile = json!({"selector": "team=x", "platform_components": [{"id": "c", "oci_tag": "v2"}], "namespaces": [{"id": "b"}]});
        operations.push(create("profiles", "p", profile));
        common::accept(&empty(), operations.into())
    });
    POPULATED.clone()
}

// ---- What is checked ----

/// The ExternalService contract, as Flux Operator checks it.
fn keeps_the_contract(fleet: &Fleet) {
    let names = fleet
        .clusters()
        .values()
        .map(|cluster| &*cluster.head().dns)
        .chain(fleet.decommissions().keys().map(|dns| &**dns));
    for dns in names {
        for kind in fleet.kinds().definitions() {
            let reply = match fleet.poll(dns, kind.path.as_deref().unwrap()) {
                Poll::Reply(reply) => reply.identity(),
                other => panic!("{dns} is told {other:?}"),
            };
            assert!(reply.len() <= MAX_REPLY_BYTES);
            let reply: Value = serde_json::from_slice(&reply).unwrap();
            let ids: Vec<_> = reply["inputs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|input| input["id"].as_str().unwrap())
                .collect();
            assert_eq!(
                ids.iter().collect::<BTreeSet<_>>().len(),
                ids.len(),
                "an id twice: {ids:?}"
            );
        }
    }
}

/// Whether an operation may remove something from a cluster's lists.
fn removes(operation: &Value) -> bool {
    let text = operation["value"].to_string();
    let says_so = text.contains("$patch") || text.contains("null") || text.contains("excluded");
    // Another label may take a cluster out of a profile.
    let selects = ["labels", "environment"]
        .iter()
        .any(|field| operation["value"].get(field).is_some());
    match operation["op"].as_str().unwrap() {
        _ if operation["kind"] == "profiles" || (selects && operation["kind"] == "clusters") => true,
        "unassign" => true,
        "delete" => operation["cascade"] == true || operation["kind"] == "clusters",
        "replace" | "apply" => operation["kind"] == "clusters",
        _ => says_so,
    }
}

/// No remaining cluster gets fewer inputs than before.
fn nothing_was_taken(before: &Fleet, after: &Fleet) {
    for (id, cluster) in before.clusters() {
        let Some(now) = after.cluster(id) else {
            panic!("cluster {id} is gone")
        };
        for kind in before.kinds().definitions() {
            let Some(kind_now) = after.kinds().get(&kind.name) else {
                continue;
            };
            let had = common::ids(before, &cluster.head().dns, kind.path.as_deref().unwrap());
            let has = common::ids(after, &now.head().dns, kind_now.path.as_deref().unwrap());
            assert!(
                had.iter().all(|id| has.contains(id)),
                "{id} had {had:?} of {}, and has {has:?}",
                kind.name
            );
        }
    }
}

fn shuffled(fleet: &Fleet) -> impl Strategy<Value = State> + use<> {
    let State { head, resources, .. } = state(fleet);
    Just(resources).prop_shuffle().prop_map(move |resources| State {
        head,
        resources,
        ..State::default()
    })
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn whatever_is_written_the_contract_holds_and_the_log_leads_to_the_same_fleet(
        history in vec(batch(), 16..32),
        rules in prop_oneof![4 => Just(BATCH), 1 => Just(SEED)],
    ) {
        let mut log: Vec<RevisionRecord> = Vec::new();
        let (mut fleet, mut followed) = (populated(), populated());
        let start = view(&fleet);
        for operations in &history {
            let Ok(request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            let Ok(outcome) = fleet.write(&request.operations, rules) else { continue };
            let record = RevisionRecord::on(fleet.head(), &Batch { changes: outcome.changes.clone(), ..Batch::default() });
            let written = outcome.committed(record.head());
            keeps_the_contract(&written);
            if !operations.iter().any(removes) {
                nothing_was_taken(&fleet, &written);
            }
            followed = followed.follow(&record).unwrap();
            log.push(record);
            fleet = written;
        }
        let expected = view(&fleet);
        prop_assert_eq!(view(&followed), expected.clone());
        prop_assert_eq!(view(&Fleet::load(state(&fleet)).unwrap()), expected.clone());
        let replayed = log.iter().try_fold(populated(), |fleet, record| fleet.follow(record)).unwrap();
        prop_assert_eq!(view(&replayed), expected);
        prop_assert_eq!(view(&populated()), start, "a snapshot never changes");
    }
}

/// Resources that may be written in any order, dangling or not: one of each id.
fn content() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let definitions = vec(
        select(vec!["platform_components", "namespaces", "rolebindings"])
            .prop_flat_map(|kind| (Just(kind), id(), definition(kind))),
        1..12,
    );
    let clusters = vec((select(IDS.to_vec()), cluster()), 1..6);
    let profiles = vec((profile_id(), profile()), 0..3);
    (definitions, profiles, clusters).prop_map(|(definitions, profiles, clusters)| {
        let profiles = profiles.into_iter().map(|(id, mut value)| {
            value["id"] = id.into();
            value.as_object_mut().unwrap().remove("things");
            ("profiles", value)
        });
        let definitions = definitions.into_iter().map(|(kind, id, mut value)| {
            value["id"] = id.into();
            value.as_object_mut().unwrap().remove("depends_on");
            (kind, value)
        });
        let clusters = clusters.into_iter().map(|(id, mut value)| {
            value["id"] = id.into();
            value["cluster_name"] = id.into();
            value["cluster_dns"] = format!("{id}.example.com").into();
            value["environment"] = "dev".into();
            value
                .as_object_mut()
                .unwrap()
                .retain(|name, _| !matches!(name.as_str(), "network_policies" | "things"));
            ("clusters", value)
        });
        let mut seen = BTreeSet::new();
        let fine = |one: &(&'static str, Value)| {
            let create = Operation::new(
                one.0,
                Verb::Create {
                    id: None,
                    value: one.1.clone(),
                },
            );
            empty().write(&[create], SEED).is_ok()
        };
        definitions
            .chain(profiles)
            .chain(clusters)
            .filter(|(kind, value)| seen.insert((*kind, value["id"].to_string())))
            .filter(fine)
            .collect()
    })
}

fn written(content: &[(&'static str, Value)], at_once: bool) -> Fleet {
    let operations: Vec<_> = content
        .iter()
        .map(|(kind, value)| {
            Operation::new(
                *kind,
                Verb::Create {
                    id: None,
                    value: value.clone(),
                },
            )
        })
        .collect();
    match at_once {
        true => empty().write(&operations, SEED).unwrap().committed(empty().head()),
        false => operations.iter().fold(empty(), |fleet, one| {
            // Polls along the way: what is kept of them must not last longer than it is true.
            let _ = view(&fleet);
            fleet
                .write(std::slice::from_ref(one), SEED)
                .unwrap()
                .committed(empty().head())
        }),
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn the_same_state_gives_the_same_bytes_whatever_the_order(
        (first, second, loaded) in content().prop_flat_map(|content| {
            let fleet = written(&content, true);
            (Just(content.clone()), Just(content).prop_shuffle(), shuffled(&fleet))
        }),
    ) {
        let one = written(&first, false);
        let two = written(&second, true);
        let three = Fleet::load(loaded).unwrap();
        prop_assert_eq!(view(&one), view(&two));
        prop_assert_eq!(view(&one), view(&three));
        for dns in ["a.example.com", "b.example.com", "c.example.com", "d.example.com"] {
            for path in ["platform-components", "namespaces", "rolebindings"] {
                for form in [Form::Plain, Form::Marked] {
                    let bytes = |fleet: &Fleet| match fleet.named(dns).poll(path, form) {
                        Poll::Reply(reply) => Some((reply.etag, reply.plain, reply.gzip)),
                        _ => None,
                    };
                    prop_assert_eq!(bytes(&one), bytes(&two));
                    prop_assert_eq!(bytes(&one), bytes(&three));
                }
            }
        }
    }
}

// ---- Input from strangers ----

fn word() -> impl Strategy<Value = String> {
    let known = select(vec![
        "id",
        "_id",
        "kind",
        "schema",
        "type",
        "object",
        "array",
        "string",
        "items",
        "properties",
        "required",
        "x-flux",
        "$ref",
        "default",
        "enum",
        "additionalProperties",
        "key",
        "query_params",
        "name",
        "plural",
        "singular",
        "references",
        "path",
        "overridable",
        "carried",
        "patches",
        "nest",
        "depends_on",
        "off",
        "renders",
        "recreated_on",
        "cluster_labels",
        "when",
        "labels",
        "clusters",
        "namespaces",
        "cluster_dns",
        "anyOf",
        "not",
        "pattern",
        "#/components/schemas/namespace_ref",
        "#",
        "(",
        "a",
    ]);
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(word(), inner, 0..5).prop_map(|fields| json!(fields))
        ]
    })
}

/// `base` with one value somewhere in it replaced, removed or added to.
fn mutated(base: Value) -> impl Strategy<Value = Value> {
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    places(field, &format!("{at}{}", fleet::refusal::segment(name)), found);
                }
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(n, item)| places(item, &format!("{at}/{n}"), found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    places(&base, "", &mut found);
    let plausible = json!(["a", "latest", "dev", true, false, 3, null, [], {}, {"id": "podinfo"}, [{"id": "podinfo"}], {"x": "y"}, {"podinfo": {"x": 1}}]);
    let strange = prop_oneof![arbitrary_json(), one_of(plausible)];
    (select(found), strange, word(), any::<bool>()).prop_map(move |(place, strange, name, replace)| {
        let mut value = base.clone();
        match value.pointer_mut(&place).unwrap() {
            Value::Object(fields) if !replace => drop(fields.insert(name, strange)),
            Value::Array(items) if !replace => items.push(strange),
            spot => *spot = strange,
        }
        value
    })
}

fn kind_document() -> impl Strategy<Value = Value> {
    let featured = json!({"kind": "thing", "schema": {
        "type": "array", "key": {"name": "id", "schema": {"type": "string"}},
        "query_params": [{"name": "size", "schema": {"type": "integer"}}],
        "x-flux": {
            "singular": "thing", "command": "thing", "path": "things", "references": "things", "overridable": ["size"],
            "carried": {"note": {"type": "string", "default": "n"}}, "patches": true, "nest": {"in": ["text"]}, "depends_on": "after",
            "off": {"note": "off"}, "renders": [{"object": "X", "when": {"text": "^x"}, "recreated_on": {"size": "text"}}],
            "cluster_labels": ["team"],
        },
        "items": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string"}, "text": {"type": "string", "default": "x"}, "size": {"type": "integer"},
            "after": {"type": "array", "items": {"type": "string"}, "default": []},
        }},
    }});
    let bases = [featured, network_policy(), built_in()[0].clone(), built_in()[1].clone()];
    let near = select(bases.to_vec()).prop_flat_map(mutated);
    prop_oneof![1 => arbitrary_json(), 1 => near.clone(), 4 => near.prop_flat_map(mutated)]
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn no_kind_document_makes_the_loader_panic(document in kind_document(), resources in vec(arbitrary_json(), 1..4)) {
        let base = common::demo();
        let put = Operation::new("kinds", Verb::Apply { id: None, value: document.clone() });
        let Ok(outcome) = base.write(&[put], BATCH) else { return Ok(()) };
        let fleet = outcome.committed(base.head());
        keeps_the_contract(&fleet);
        nothing_was_taken(&base, &fleet);
        prop_assert_eq!(view(&fleet), view(&Fleet::load(state(&fleet)).unwrap()));
        // And whatever is then put under it.
        let name = fleet::kind::name_of(&document).unwrap();
        for mut value in resources {
            if let Value::Object(fields) = &mut value {
                fields.insert("id".into(), "a".into());
            }
            let _ = fleet.write(&[Operation::new(name.as_str(), Verb::Apply { id: None, value })], BATCH);
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn no_document_makes_a_write_panic_or_break_the_contract(
        document in select(vec!["clusters", "platform_components", "namespaces", "rolebindings"]).prop_flat_map(|kind| {
            let id = common::demo().document(kind, if kind == "clusters" { "demo-cluster-01" } else { "cert-manager" });
            let id = id.or_else(|| common::demo().document(kind, "platform-admins")).unwrap();
            (Just((kind, id.id)), prop_oneof![1 => arbitrary_json(), 5 => mutated(id.body.parse())])
        }),
        form in select(vec![fleet::patch::Form::Merge, fleet::patch::Form::MergePatch, fleet::patch::Form::JsonPatch]),
    ) {
        let ((kind, id), value) = document;
        let base = common::demo();
        let on = fleet::operation::Target::Id(id.to_string());
        for verb in [
            Verb::Create { id: None, value: value.clone() },
            Verb::Apply { id: None, value: value.clone() },
            Verb::Replace { id: id.to_string(), value: value.clone() },
            Verb::Merge { on, form, value: value.clone() },
        ] {
            if let Ok(outcome) = base.write(&[Operation::new(kind, verb)], BATCH) {
                keeps_the_contract(outcome.preview());
            }
        }
        let _ = BatchRequest::parse(value.clone());
        let _ = common::seed_operations(&value);
        let _ = fleet::files::apply(value);
    }

    #[test]
    fn a_selector_never_panics_and_means_what_it_shows(
        text in prop_oneof![
            any::<String>(),
            "[a-c=!,() in*.\u{a0}\u{20ac}]{0,16}",
            vec(select(vec!["team", "in", "notin", "!", "=", "==", "!=", ",", "(", ")", " ", "x", "", "*", "a/b"]), 0..9).prop_map(|words| words.concat()),
        ],
    ) {
        let _ = Selector::for_fleet(&text, &common::demo());
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}

// ---- Plans and the way back ----

/// The answer to a DNS name at a path; none for 404.
fn told(fleet: &Fleet, dns: &str, path: &str) -> Option<Vec<Value>> {
    match fleet.poll(dns, path) {
        Poll::Reply(reply) => {
            let mut body: Value = serde_json::from_slice(&reply.identity()).unwrap();
            Some(body["inputs"].as_array_mut().unwrap().drain(..).collect())
        }
        _ => None,
    }
}

/// Per DNS name and path: added, removed, and changed with the fields that differ.
type Told = BTreeMap<(String, String), (BTreeSet<String>, BTreeSet<String>, BTreeMap<String, Value>)>;

/// What a change does, by comparing every answer of both fleets.
/// A released name is compared with `last`, its last answer.
fn by_the_replies(before: &Fleet, after: &Fleet, last: &Kept) -> Told {
    let mut found = Told::new();
    let mut names = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for fleet in [before, after] {
        names.extend(
            fleet
                .clusters()
                .values()
                .map(|cluster| cluster.head().dns_key.to_string()),
        );
        names.extend(fleet.decommissions().keys().map(|dns| dns.to_string()));
        paths.extend(fleet.kinds().definitions().filter_map(|kind| kind.path.clone()));
    }
    paths.extend(last.keys().map(|(_, path)| path.clone()));
    for dns in &names {
        for path in &paths {
            let known = after.cluster_at(dns).is_some() || after.decommissions().contains_key(dns.as_str());
            // A path that nobody answers any more counts as an empty list; a name that is nobody's does not.
            let new = match told(after, dns, path) {
                Some(new) => new,
                None if known => Vec::new(),
                None => continue,
            };
            let kept = match before.released_names().contains_key(dns.as_str()) {
                true => last.get(&(dns.clone(), path.clone())).cloned().unwrap_or_default(),
                false => BTreeSet::new(),
            };
            let old = told(before, dns, path).unwrap_or_default();
            let by_id = |inputs: &[Value]| -> BTreeMap<String, Value> {
                let inputs = inputs.iter();
                inputs
                    .map(|input| (input["id"].as_str().unwrap().to_owned(), input.clone()))
                    .collect()
            };
            let (old, new) = (by_id(&old), by_id(&new));
            let missing = |from: &BTreeMap<String, Value>, of: &BTreeMap<String, Value>| -> BTreeSet<String> {
                from.keys().filter(|id| !of.contains_key(*id)).cloned().collect()
            };
            let changed = old.iter().filter_map(|(id, input)| {
                let fields = differences(Some(input), Some(new.get(id)?));
                (!fields.is_empty()).then(|| (id.clone(), json!(fields)))
            });
            let mut removed = missing(&old, &new);
            let still_on = on(after, dns, path);
            removed.extend(kept.into_iter().filter(|id| !still_on.contains(id)));
            let change = (missing(&new, &old), removed, changed.collect());
            if change != Default::default() {
                found.insert((dns.clone(), path.clone()), change);
            }
        }
    }
    found
}

fn by_the_effect(effect: &Effect) -> Told {
    let mut found = Told::new();
    for cluster in &effect.clusters {
        for (path, list) in &*cluster.inputs {
            let set = |ids: &[String]| -> BTreeSet<String> { ids.iter().cloned().collect() };
            let changed = list.changed.iter().map(|input| (input.id.clone(), json!(input.fields)));
            let change = (set(&list.added), set(&list.removed), changed.collect());
            found.insert((cluster.dns().to_ascii_lowercase(), path.to_string()), change);
        }
    }
    found
}

/// The clusters that lose something by an effect.
fn losing(effect: &Effect) -> Vec<(String, String, bool)> {
    let losing = effect.clusters.iter().filter(|cluster| cluster.loses());
    losing
        .map(|cluster| (cluster.id().to_string(), cluster.dns().to_string(), cluster.deleted))
        .collect()
}

const SWITCHES: [&str; 4] = ["a", "b", "c", "carried"];

fn bits(names: &[&'static str]) -> BoxedStrategy<Value> {
    object(names.iter().map(|name| (*name, one_of(json!(["0", "1"])))).collect())
}

/// A kind whose definitions and references together decide what Flux makes of an input.
fn switched() -> BoxedStrategy<Value> {
    let overridable = proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3);
    let when = bits(&SWITCHES[..3]).prop_map(|bits| {
        let patterns = bits.as_object().unwrap().iter();
        patterns
            .map(|(name, bit)| (name.clone(), format!("^{}$", bit.as_str().unwrap()).into()))
            .collect::<Map<_, _>>()
    });
    // Each field by itself, or with the field that it defaults to.
    let places = json!([{}, {"a": null}, {"b": "c"}, {"a": "b", "c": null}]);
    let rule = (select(vec!["Alpha", "Beta", "Gamma"]), when, one_of(places))
        .prop_map(|(object, when, places)| json!({"object": object, "when": when, "recreated_on": places}));
    let off = prop_oneof![1 => Just(json!({})), 1 => bits(&SWITCHES)];
    let path = prop_oneof![8 => Just("switches"), 1 => Just("elsewhere")];
    let carried = json!({"carried": {"type": "string", "default": "0"}});
    (overridable, vec(rule, 0..3), off, path)
        .prop_map(move |(overridable, renders, off, path)| {
            let text = json!({"type": "string"});
            let document = json!({"kind": "switch", "schema": {"type": "object", "properties": {"a": text, "b": text, "c": text}}});
            let flux = json!({"overridable": overridable, "renders": renders, "off": off, "carried": carried, "path": path});
            with_x_flux(document, flux)
        })
        .boxed()
}

/// A change of such a fleet: of a definition, a reference, or the kind.
fn switching() -> BoxedStrategy<Vec<Value>> {
    let on = || select(vec!["x", "y"]);
    let definition = (on(), bits(&SWITCHES[..3]))
        .prop_map(|(id, value)| json!({"op": "merge", "kind": "switches", "id": id, "value": value}));
    let assign = (on(), select(IDS.to_vec()), bits(&SWITCHES)).prop_map(
        |(id, on, value)| json!({"op": "assign", "kind": "switches", "id": id, "cluster": on, "value": value}),
    );
    let unassign = (on(), select(IDS.to_vec()))
        .prop_map(|(id, on)| json!({"op": "unassign", "kind": "switches", "id": id, "cluster": on}));
    let gone = on().prop_map(|id| json!({"op": "delete", "kind": "switches", "id": id, "cascade": true}));
    let comes = (on(), bits(&SWITCHES[..3])).prop_map(|(id, value)| apply("switches", id, value));
    let one =
        prop_oneof![6 => definition, 6 => assign, 1 => unassign, 1 => gone, 2 => comes, 2 => switched().prop_map(put)];
    prop_oneof![3 => vec(one.clone(), 1), 1 => vec(one, 2..4)].boxed()
}

/// The object that an input becomes, with the fields that it is made anew for.
type Object = (String, BTreeMap<String, Value>);

/// The clusters that lose something, computed from their replies and the kind's rules.
fn losing_by_the_replies(before: &Fleet, after: &Fleet) -> BTreeSet<String> {
    let objects = |fleet: &Fleet, dns: &str, path: &str| -> BTreeMap<String, Option<Object>> {
        let inputs = told(fleet, dns, path).unwrap_or_default().into_iter();
        let kind = fleet.kinds().at_path(path);
        inputs
            .filter(|input| {
                let off = &kind.unwrap().flux.off;
                off.is_empty() || off.iter().any(|(field, value)| input[field] != *value)
            })
            .map(|input| {
                let matches = |rule: &&Render| {
                    let mut when = rule.when.iter();
                    when.all(|(field, pattern)| input[field].as_str().is_some_and(|text| pattern.is_match(text)))
                };
                let object = kind.unwrap().flux.renders.iter().find(matches).map(|rule| {
                    let elsewhere = |(field, default): &(&String, &Option<String>)| {
                        let default = default.as_ref().map_or(&Value::Null, |default| &input[default]);
                        !input[*field].is_null() && input[*field] != *default
                    };
                    let places = rule.recreated_on.iter().filter(elsewhere);
                    let places = places.map(|(field, _)| (field.clone(), input[field].clone()));
                    (rule.object.clone(), places.collect())
                });
                (input["id"].as_str().unwrap().to_owned(), object)
            })
            .collect()
    };
    let loses = |dns: &str, path: &str| {
        let (had, has) = (objects(before, dns, path), objects(after, dns, path));
        had.iter().any(|(id, object)| has.get(id) != Some(object))
    };
    let ids = before.clusters().iter();
    ids.filter(|(_, cluster)| {
        ["switches", "elsewhere"]
            .iter()
            .any(|path| loses(&cluster.head().dns, path))
    })
    .map(|(id, _)| id.to_string())
    .collect()
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn plan_and_write_agree_on_what_is_removed(kind in switched(), history in vec(switching(), 8..16)) {
        let start = vec![put(kind), apply("switches", "x", json!({"a": "0", "b": "1"})), apply("switches", "y", json!({"a": "1"}))];
        let assigned = IDS.map(|id| json!({"op": "assign", "kind": "switches", "id": "x", "cluster": id}));
        let mut fleet = common::accept(&populated(), start.into_iter().chain(assigned).collect());
        for operations in &history {
            let Ok(request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            let Ok(outcome) = fleet.write(&request.operations, BATCH) else { continue };
            let after = outcome.preview();
            let plan = losing(&Effect::of(&fleet, after, &outcome.changes));
            prop_assert_eq!(&losing(&Effect::losses(&fleet, after, &outcome.changes)), &plan, "{:?}", operations);
            let ids: BTreeSet<String> = plan.into_iter().map(|(id, ..)| id).collect();
            prop_assert_eq!(ids, losing_by_the_replies(&fleet, after), "{:?}", operations);
            let head = fleet.head();
            fleet = outcome.committed(head);
        }
    }
}

/// Inputs by DNS name and path.
type Kept = BTreeMap<(String, String), BTreeSet<String>>;

/// Records the inputs of each name. A path that no kind has any more counts as an empty list.
fn told_last(fleet: &Fleet, last: &mut Kept) {
    let paths: BTreeSet<_> = fleet
        .kinds()
        .definitions()
        .filter_map(|kind| kind.path.clone())
        .collect();
    for dns in known_names(fleet) {
        last.retain(|(name, path), _| *name != dns || paths.contains(path));
        for path in &paths {
            last.insert((dns.clone(), path.clone()), on(fleet, &dns, path));
        }
    }
}

/// The names that are answered.
fn known_names(fleet: &Fleet) -> Vec<String> {
    let clusters = fleet
        .clusters()
        .values()
        .map(|cluster| cluster.head().dns_key.to_string());
    clusters
        .chain(fleet.decommissions().keys().map(|dns| dns.to_string()))
        .collect()
}

/// The inputs of a name that are not turned off.
fn on(fleet: &Fleet, dns: &str, path: &str) -> BTreeSet<String> {
    let inputs = told(fleet, dns, path).unwrap_or_default().into_iter();
    let off = fleet.kinds().at_path(path).map(|kind| &kind.flux.off);
    let off = off.filter(|off| !off.is_empty());
    let is_off = |input: &Value| off.is_some_and(|off| off.iter().all(|(field, value)| input[field] == *value));
    inputs
        .filter(|input| !is_off(input))
        .map(|input| input["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Every provider polls. None loses an input that it still had.
fn polled(fleet: &Fleet, kept: &mut Kept) -> Result<(), TestCaseError> {
    let names = known_names(fleet);
    for path in fleet.kinds().definitions().filter_map(|kind| kind.path.clone()) {
        for dns in &names {
            let new = on(fleet, dns, &path);
            let had = kept
                .insert((dns.clone(), path.clone()), new.clone())
                .unwrap_or_default();
            prop_assert!(had.is_subset(&new), "{dns}/{path} had {had:?} and is told {new:?}");
        }
    }
    Ok(())
}

/// A write, or its rollback.
#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Value>),
    RollBack(prop::sample::Index),
    Undo(prop::sample::Index),
}

fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        8 => batch().prop_map(Step::Batch),
        6 => names().prop_map(Step::Batch),
        1 => any::<prop::sample::Index>().prop_map(Step::RollBack),
        1 => any::<prop::sample::Index>().prop_map(Step::Undo),
    ]
    .boxed()
}

impl Step {
    fn operations(&self, past: &[Fleet], log: &[RevisionRecord]) -> Option<Vec<Operation>> {
        let now = past.last().unwrap();
        match self {
            Step::Batch(operations) => {
                let request = BatchRequest::parse(json!({ "operations": operations })).ok()?;
                Some(request.operations)
            }
            Step::RollBack(at) => {
                let then = back_to(past, log, now, at.index(past.len()));
                way_back(&then, Back::Rollback(Scope::Fleet)).operations(now).ok()
            }
            Step::Undo(_) if log.is_empty() => None,
            Step::Undo(at) => {
                let at = at.index(log.len());
                let undo = Back::Undo {
                    record: Box::new(log[at].clone()),
                    reversed_by: None,
                };
                way_back(&past[at], undo).operations(now).ok()
            }
        }
    }
}

fn way_back(then: &Fleet, back: Back) -> WayBack {
    WayBack {
        then: Arc::new(then.clone()),
        back,
    }
}

/// The fleet after the first `at` revisions of a log, computed backwards from the later ones.
fn back_to(past: &[Fleet], log: &[RevisionRecord], now: &Fleet, at: usize) -> Fleet {
    let mut rewind = Rewind::default();
    log[at..].iter().for_each(|record| rewind.add(record));
    for kind in rewind.kinds() {
        let mut changes = log[..at].iter().flat_map(|record| &record.changes);
        let last = changes.rfind(|change| &*change.kind == "kinds" && change.id == kind);
        let before_the_log = || past[0].kinds().get(&kind).unwrap().origin.clone();
        let origin = last.map_or_else(before_the_log, |change| change.origin.clone());
        rewind.came_from(kind, origin);
    }
    now.rewound(past[at].revision(), &rewind).unwrap()
}

/// The origins of the kinds.
const ORIGINS: [Option<&str>; 3] = [None, Some("seed"), Some("resources-dir")];

/// The same fleet with dangling references, as a seed may have them.
fn dangling() -> Fleet {
    static DANGLING: LazyLock<Fleet> = LazyLock::new(|| {
        let refers = |id: &str, array: &str, to: &[&str]| {
            let references: Vec<_> = to.iter().map(|id| json!({ "id": id })).collect();
            patch_cluster(id, json!({ array: references }))
        };
        let operations = json!([
            refers("a", "things", &["e", "nobody"]),
            refers("b", "platform_components", &["e"]),
            refers("c", "namespaces", &["nobody"]),
            refers("d", "network_policies", &["e"]),
        ]);
        let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
        common::commit(&populated(), &request.operations, SEED).unwrap().0
    });
    DANGLING.clone()
}

/// Everything except decommissions and released names, which are never rolled back; and the origins of the kinds.
fn resources(fleet: &Fleet) -> BTreeMap<String, String> {
    let all = state(fleet).resources.into_iter();
    let all = all.filter(|resource| fleet::kind::name_record(&resource.kind).is_none());
    all.map(|resource| {
        (
            format!("{}/{}", resource.kind, resource.id),
            format!("{} from {:?}", resource.body.as_str(), resource.origin),
        )
    })
    .collect()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_plan_says_what_the_replies_will_say(history in vec(batch(), 16..32)) {
        let mut fleet = populated();
        let mut last = Kept::new();
        told_last(&fleet, &mut last);
        for operations in &history {
            let Ok(request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            let Ok(outcome) = fleet.write(&request.operations, BATCH) else { continue };
            let effect = Effect::of(&fleet, outcome.preview(), &outcome.changes);
            prop_assert_eq!(by_the_effect(&effect), by_the_replies(&fleet, outcome.preview(), &last), "{:?}", operations);
            for cluster in &effect.clusters {
                for (_, list) in &*cluster.inputs {
                    prop_assert!(list.changed.iter().all(|input| !input.fields.is_empty()));
                }
            }
            // The quick look finds the same losses as the thorough one.
            let losses = Effect::losses(&fleet, outcome.preview(), &outcome.changes);
            prop_assert_eq!(losing(&losses), losing(&effect));
            // The digest is of the effect, and of nothing else.
            let again = Effect::of(&fleet, outcome.preview(), &outcome.changes);
            prop_assert_eq!(effect.digest(&outcome.changes), again.digest(&outcome.changes));
            let record = RevisionRecord::on(fleet.head(), &Batch { changes: outcome.changes.clone(), ..Batch::default() });
            fleet = outcome.committed(record.head());
            told_last(&fleet, &mut last);
        }
    }

    #[test]
    fn what_flux_has_goes_only_by_a_removal_that_was_counted(history in vec(step(), 16..32)) {
        // What each provider has of its path, which it keeps while that is answered 404.
        let mut kept = Kept::new();
        let mut past = vec![populated()];
        let mut log: Vec<RevisionRecord> = Vec::new();
        polled(&past[0], &mut kept)?;
        for step in &history {
            let fleet = past.last().unwrap();
            let Some(operations) = step.operations(&past, &log) else { continue };
            let Ok(outcome) = fleet.write(&operations, BATCH) else { continue };
            let effect = Effect::losses(fleet, outcome.preview(), &outcome.changes);
            let removed = Removed::by(&effect);
            for cluster in &effect.clusters {
                let dns = cluster.dns().to_ascii_lowercase();
                prop_assert!(removed.lost.contains(&dns) || removed.deleted.contains(&dns));
                if cluster.deleted {
                    kept.retain(|(name, _), _| *name != dns);
                }
                for (path, list) in &*cluster.inputs {
                    if let Some(kept) = kept.get_mut(&(dns.clone(), path.to_string())) {
                        kept.retain(|id| !list.lost.contains(id));
                    }
                }
            }
            // Forgetting a name is a statement that nobody asks by it any more.
            for change in &outcome.changes {
                let forgotten = &*change.kind == "released_names" && change.after.is_none();
                if forgotten && outcome.preview().cluster_at(&change.id).is_none() {
                    kept.retain(|(dns, _), _| **dns != *change.id);
                }
            }
            let record = RevisionRecord::on(fleet.head(), &Batch { changes: outcome.changes.clone(), ..Batch::default() });
            let next = outcome.committed(record.head());
            let followed = fleet.follow(&record).unwrap();
            prop_assert_eq!(view(&followed), view(&next));
            polled(&next, &mut kept)?;
            log.push(record);
            past.push(next);
        }
    }

    #[test]
    fn the_way_back_leads_to_what_was(history in vec((batch(), select(ORIGINS.to_vec())), 8..24), choice in any::<prop::sample::Index>()) {
        let mut past = vec![dangling()];
        let mut log: Vec<RevisionRecord> = Vec::new();
        for (operations, origin) in &history {
            let fleet = past.last().unwrap();
            let Ok(mut request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            for operation in &mut request.operations {
                operation.origin = origin.map(Into::into);
            }
            let Ok(outcome) = fleet.write(&request.operations, BATCH) else { continue };
            if outcome.changes.is_empty() {
                continue;
            }
            let record = RevisionRecord::on(fleet.head(), &Batch { changes: outcome.changes.clone(), ..Batch::default() });
            let next = outcome.committed(record.head());
            log.push(record);
            past.push(next);
        }
        let now = past.last().unwrap();
        let at = choice.index(past.len());
        let then = &past[at];

        // The past is seen as it was.
        let rewound = back_to(&past, &log, now, at);
        let mut seen = view(&rewound);
        let mut was = view(then);
        for view in [&mut seen, &mut was] {
            view.remove("head");
        }
        prop_assert_eq!(seen, was);

        // And restored: by a rollback of everything, or step by step by undoing each revision. Only protection is in the way.
        let operations = way_back(&rewound, Back::Rollback(Scope::Fleet)).operations(now).unwrap();
        match now.write(&operations, Rules::default()) {
            Ok(outcome) => prop_assert_eq!(resources(outcome.preview()), resources(then)),
            Err(refusal) => prop_assert_eq!(refusal.reason, Reason::Protected, "{:?}", refusal),
        }
        let mut fleet = now.clone();
        for (n, record) in log.iter().enumerate().rev() {
            let operations = way_back(&past[n], Back::Undo { record: Box::new(record.clone()), reversed_by: None }).operations(&fleet).unwrap();
            match fleet.write(&operations, Rules::default()) {
                Ok(outcome) => {
                    prop_assert_eq!(resources(outcome.preview()), resources(&past[n]));
                    let head = fleet.head();
                    fleet = outcome.committed(head);
                }
                Err(refusal) => {
                    prop_assert_eq!(refusal.reason, Reason::Protected, "{:?}", refusal);
                    break;
                }
            }
        }
    }
}

/// Scopes whose selectors are simple enough to be checked by hand.
fn scope() -> impl Strategy<Value = OperatorScope> {
    let clusters = select(vec!["*", "environment=dev", "environment=prod", "team=x", "tier=y"]);
    let kinds = prop::sample::subsequence(
        vec![
            "platform_components",
            "namespaces",
            "rolebindings",
            "things",
            "profiles",
        ],
        0..5,
    );
    (clusters, kinds).prop_map(|(clusters, kinds)| OperatorScope {
        clusters: clusters.to_owned(),
        kinds: kinds.into_iter().map(str::to_owned).collect(),
        approve: false,
    })
}

/// Whether a cluster is in scope, read from its document. One that does not exist is not outside.
fn is_inside(fleet: &Fleet, scope: &OperatorScope, id: &str) -> bool {
    let document = document(fleet, "clusters", id);
    match scope.clusters.split_once('=') {
        None => true,
        _ if document.is_null() => true,
        Some(("environment", value)) => document["environment"] == value,
        Some((label, value)) => document["labels"][label] == value,
    }
}

/// The fleet with a token for each cluster that has none.
fn with_tokens(fleet: &Fleet, made: &mut u64) -> Fleet {
    let without = |id: &&Arc<str>| fleet.identities().get(&format!("cluster:{id}")).is_none();
    let issue = |id: &Arc<str>| {
        *made += 1;
        let token = Token::new(Token::digest_of(&made.to_be_bytes()), Time::from_seconds(0), None);
        let id = format!("cluster:{id}");
        Operation::new(IDENTITIES, Verb::IssueToken { id, token })
    };
    let operations: Vec<_> = fleet.clusters().keys().filter(without).map(issue).collect();
    match operations.is_empty() {
        true => fleet.clone(),
        false => common::commit(fleet, &operations, Rules::default()).unwrap().0,
    }
}

/// What a scope allows, from the replies and the documents before and after, and not from the effect.
fn stays_inside(before: &Fleet, after: &Fleet, changes: &[Change], scope: &OperatorScope) -> bool {
    let both = |id: &str| is_inside(before, scope, id) && is_inside(after, scope, id);
    let written: BTreeSet<&str> = changes
        .iter()
        .filter(|change| &*change.kind == "clusters")
        .map(|change| &*change.id)
        .collect();
    let follows = |change: &Change| {
        let owner = |body: &Json| {
            body.parse()["cluster_id"]
                .as_str()
                .is_some_and(|id| written.contains(id))
        };
        let holder = |fleet: &Fleet| {
            fleet
                .cluster_at(&change.id)
                .is_some_and(|cluster| written.contains(&*cluster.document().id))
        };
        [&change.before, &change.after].into_iter().flatten().any(owner) || holder(before) || holder(after)
    };
    // The selector of a profile has the requirement of the scope, in one of its spellings.
    let within = |change: &Change| {
        let has = |body: &Json| {
            let selector = body.parse()["selector"].as_str().unwrap_or_default().to_owned();
            scope.clusters == "*" || selector.split(',').any(|part| part == scope.clusters)
        };
        [&change.before, &change.after].into_iter().flatten().all(has)
    };
    let is_allowed = |change: &Change| match &*change.kind {
        "clusters" => both(&change.id),
        "decommissions" | "released_names" => follows(change),
        "profiles" if !within(change) => false,
        IDENTITIES => {
            let cluster = cluster_of(&change.id).unwrap();
            let mut ended = changes.iter().filter(|change| &*change.kind == "decommissions");
            let is_its_name = |body: &Json| body.parse()["cluster_id"] == cluster;
            written.contains(cluster) && both(cluster)
                || ended.any(|change| change.before.as_ref().is_some_and(is_its_name) && follows(change))
        }
        kind => scope.kinds.iter().any(|own| own == kind),
    };
    let paths: BTreeSet<_> = [before, after]
        .iter()
        .flat_map(|fleet| fleet.kinds().definitions())
        .filter_map(|kind| kind.path.clone())
        .collect();
    let names: BTreeSet<_> = known_names(before).into_iter().chain(known_names(after)).collect();
    let same = |dns: &str| {
        paths
            .iter()
            .all(|path| told(before, dns, path).unwrap_or_default() == told(after, dns, path).unwrap_or_default())
    };
    let owners = |dns: &str| {
        let id = |fleet: &Fleet| fleet.cluster_at(dns).map(|cluster| cluster.document().id.to_string());
        [id(before), id(after)].into_iter().flatten().collect::<Vec<_>>()
    };
    changes.iter().all(is_allowed)
        && names
            .iter()
            .all(|dns| same(dns) || owners(dns).iter().all(|id| both(id)))
}

proptest! {
    #![proptest_config(cases(96))]

    /// A write of an operator is accepted exactly if an admin's is and it stays inside the scope: nothing beyond it changes, and
    /// nothing within it is refused.
    #[test]
    fn an_operator_changes_everything_within_its_scope_and_nothing_beyond(history in vec((batch(), scope()), 12..24)) {
        let (mut fleet, mut made) = (populated(), 0);
        for (operations, scope) in &history {
            fleet = with_tokens(&fleet, &mut made);
            let Ok(request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            let Ok(outcome) = fleet.write(&request.operations, BATCH) else { continue };
            let reach = [Reach::Everything, Reach::Within(Arc::new(scope.clone()))];
            let [admin, operator] = reach.each_ref().map(|reach| {
                let terms = Terms { recent: &Recent::default(), since: "", budget: None, confirmation: Confirmation::default(), reach, at: "", overrides: &[], unguarded: false };
                fleet.change(&request.operations, BATCH, terms)
            });
            if admin.is_err() { continue }
            let inside = stays_inside(&fleet, outcome.preview(), &outcome.changes, scope);
            match operator {
                Ok(_) => prop_assert!(inside, "accepted {:?} within {:?}", operations, scope),
                Err(refusal) => {
                    prop_assert_eq!(refusal.reason, Reason::OutOfScope, "{:?}", refusal);
                    prop_assert!(!inside, "refused {:?} within {:?}: {:?}", operations, scope, refusal);
                }
            }
            let head = fleet.head();
            fleet = outcome.committed(head);
        }
    }
}

/// Guards whose selectors are simple enough to be checked by hand.
fn guards() -> impl Strategy<Value = Vec<Value>> {
    let selector = select(vec!["*", "environment=dev", "environment=prod", "team=x", "tier=y"]);
    let limits = object(vec![
        ("changes", (0..4_u64).prop_map(Value::from).boxed()),
        ("removals", (0..3_u64).prop_map(Value::from).boxed()),
        ("until", one_of(json!(["2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"]))),
    ]);
    let limits = limits.prop_filter("a limit", |limits| {
        limits.get("changes").or(limits.get("removals")).is_some()
    });
    let guard = (selector, limits)
        .prop_map(|(selector, limits)| with(json!({"selector": selector, "reason": "why"}), &limits))
        .boxed();
    vec(guard, 1..4).prop_map(|guards| {
        let named = guards.into_iter().enumerate();
        named
            .map(|(n, guard)| with(guard, &json!({"id": format!("g{n}")})))
            .collect()
    })
}

/// Whether a guard allows a write, counted cluster by cluster: those from before the write that match before or after.
fn allows(guard: &Value, before: &Fleet, after: &Fleet, effect: &Effect) -> bool {
    let scope = OperatorScope {
        clusters: guard["selector"].as_str().unwrap().to_owned(),
        kinds: Vec::new(),
        approve: false,
    };
    let matches = |fleet: &Fleet, id: &str| fleet.cluster(id).is_some() && is_inside(fleet, &scope, id);
    let count = |counts: &dyn Fn(&fleet::effect::ClusterEffect) -> bool| {
        let changed = effect.clusters.iter().filter(|cluster| counts(cluster));
        let ids: BTreeSet<&Arc<str>> = changed
            .flat_map(|cluster| cluster.before().into_iter().chain([cluster.id()]))
            .collect();
        let ids = ids.into_iter().filter(|id| before.cluster(id).is_some());
        ids.filter(|id| matches(before, id) || matches(after, id)).count() as u64
    };
    let changes = count(&|cluster| cluster.deleted || !cluster.inputs.is_empty());
    let removals = count(&|cluster| cluster.loses());
    let is_over = |field: &str, count: u64| guard[field].as_u64().is_some_and(|limit| count > limit);
    // The writes are made on 2026-11-16.
    guard["until"] == "2026-06-01T00:00:00Z" || !(is_over("changes", changes) || is_over("removals", removals))
}

proptest! {
    #![proptest_config(cases(12))]

    /// With guards, a write is accepted exactly if it is without them and every guard in force allows it; and what a dry run says
    /// about them is what the write does.
    #[test]
    fn a_write_is_accepted_exactly_if_every_guard_allows_it(history in vec((batch(), guards()), 12..24)) {
        let mut fleet = populated();
        for (operations, guards) in &history {
            let put = guards.iter().map(|guard| json!({"op": "apply", "kind": "guards", "value": guard}));
            let gone = fleet.guards().iter().filter(|old| !guards.iter().any(|new| new["id"] == **old.id()));
            let gone = gone.map(|guard| json!({"op": "delete", "kind": "guards", "id": &**guard.id()}));
            // A kind of clusters may have other environments by now.
            let Ok((guarded, _)) = common::write(&fleet, put.chain(gone).collect()) else { continue };
            let Ok(request) = BatchRequest::parse(json!({ "operations": operations })) else { continue };
            let terms = Terms { recent: &Recent::default(), since: "", budget: Some(2), confirmation: Confirmation::default(), reach: &Reach::Everything, at: "2026-11-16T12:00:00.000000Z", overrides: &[], unguarded: false };
            let unguarded = guarded.change(&request.operations, BATCH, Terms { unguarded: true, ..terms });
            let with_guards = guarded.change(&request.operations, BATCH, terms);
            let Ok(outcome) = guarded.write(&request.operations, BATCH) else {
                prop_assert!(with_guards.is_err() && unguarded.is_err());
                continue;
            };
            let effect = Effect::of(&guarded, outcome.preview(), &outcome.changes);
            let allowed = guards.iter().all(|guard| allows(guard, &guarded, outcome.preview(), &effect));
            prop_assert_eq!(with_guards.is_ok(), allowed && unguarded.is_ok(), "{:?} with {:?}", operations, guards);
            if let Ok(judgement) = judge(&guarded, &outcome, terms, Detail::Full) {
                prop_assert_eq!(judgement.guarded.is_none(), allowed);
            }
            fleet = outcome.committed(guarded.head());
        }
    }
}
