//! Rollouts: who is promoted, what each cluster is told, what runs beside them, and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::Fleet;
use fleet::budget::Recent;
use fleet::effect::Effect;
use fleet::history::{Back, Rewind, Scope, WayBack};
use fleet::identity::Reach;
use fleet::judge::{Accepted, Confirmation, Detail, Judgement, Terms, judge};
use fleet::log::{Batch, RevisionRecord};
use fleet::operation::{BatchRequest, Operation, Verb};
use fleet::profile::explain;
use fleet::refusal::{Reason, Refusal};
use fleet::rollout::{Action, State, Step};
use fleet::snapshot::Poll;
use fleet::status::Moment;
use fleet::write::Rules;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::common::{BATCH, accept, commit, document, empty, ids, poll, refuse, write};
use crate::{apply, cluster, component, create, delete, many, merge, with};

const PATH: &str = "platform-components";

/// Components `a`, `b`, `c`; the profile `base` brings `b` to all; eight clusters with `a`, of which `c0` is a canary and `c1` pins.
fn fleet() -> Fleet {
    let mut operations: Vec<Value> = ["a", "b", "c"]
        .map(|id| create("platform_components", component(id, json!({}))))
        .into();
    operations.push(create(
        "profiles",
        json!({"id": "base", "selector": "*", "platform_components": [{"id": "b"}]}),
    ));
    for n in 0..8 {
        let ring = if n == 0 { "canary" } else { "other" };
        let mut reference = json!({"id": "a"});
        if n == 1 {
            reference["oci_tag"] = "v9".into();
        }
        operations.push(create(
            "clusters",
            cluster(
                &format!("c{n}"),
                json!({"labels": {"ring": ring}, "platform_components": [reference]}),
            ),
        ));
    }
    accept(&empty(), operations.into())
}

fn rollout(fields: Value) -> Value {
    let base = json!({
        "id": "r",
        "operations": [{"op": "merge", "kind": "platform_components", "id": "a", "value": {"oci_tag": "v2"}}],
        "waves": [{"name": "canary", "selector": "ring=canary"}, {"name": "half", "percent": 50}, {"name": "rest"}],
    });
    with(base, fields)
}

fn start(fleet: &Fleet, fields: Value) -> Fleet {
    accept(fleet, json!([create("rollouts", rollout(fields))]))
}

fn try_step(fleet: &Fleet, id: &str, step: Step) -> Result<Fleet, Refusal> {
    let verb = Verb::Step {
        id: id.into(),
        step,
        wave: None,
    };
    commit(fleet, &[Operation::new("rollouts", verb)], Rules::PLAIN).map(|(fleet, _)| fleet)
}

#[track_caller]
fn act(fleet: &Fleet, action: Action) -> Fleet {
    try_step(fleet, "r", Step::Action(action)).unwrap_or_else(|refusal| panic!("refused: {refusal:#?}"))
}

/// The tag of `a` on each cluster.
fn tags(fleet: &Fleet) -> Vec<String> {
    let tag = |dns: &str| {
        let reply = poll(fleet, dns, PATH);
        let mut inputs = reply["inputs"].as_array().unwrap().iter();
        let input = inputs.find(|input| input["id"] == "a").unwrap();
        input["source"]["oci_tag"].as_str().unwrap().to_owned()
    };
    fleet
        .clusters()
        .values()
        .map(|cluster| tag(&cluster.head().dns))
        .collect()
}

const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];

/// The bytes of every reply.
fn replies(fleet: &Fleet) -> BTreeMap<String, String> {
    let all = fleet.clusters().values().flat_map(|cluster| {
        let dns = &cluster.head().dns;
        PATHS.map(|path| (format!("{dns}/{path}"), bytes(fleet, dns, path)))
    });
    all.collect()
}

fn bytes(fleet: &Fleet, dns: &str, path: &str) -> String {
    match fleet.poll(dns, path) {
        Poll::Reply(reply) => String::from_utf8(reply.identity().to_vec()).unwrap(),
        other => panic!("{dns}/{path}: {other:?}"),
    }
}

fn field(fleet: &Fleet, name: &str) -> Value {
    document(fleet, "rollouts", "r")[name].clone()
}

#[test]
fn a_rollout_goes_wave_by_wave_and_its_completion_changes_no_reply() {
    let before = fleet();
    let started = start(&before, json!({}));
    assert_eq!(replies(&started), replies(&before), "a start changes nothing");
    assert_eq!(
        [
            field(&started, "state"),
            field(&started, "wave"),
            field(&started, "cutoff")
        ],
        [json!("running"), Value::Null, json!(0)]
    );
    assert_eq!(
        field(&started, "gate"),
        json!({"converged": "95%", "failures": 0, "silent": "5%", "soak": "0s", "deadline": "24h"})
    );

    let canary = act(&started, Action::Promote);
    assert_eq!(field(&canary, "wave"), "canary");
    assert_eq!(tags(&canary), ["v2", "v9", "v1", "v1", "v1", "v1", "v1", "v1"]);
    let half = act(&canary, Action::Promote);
    assert_eq!(
        (field(&half, "wave"), field(&half, "cutoff")),
        (json!("half"), json!(5000))
    );
    let promoted = tags(&half).iter().filter(|tag| *tag == "v2").count();
    assert!((2..7).contains(&promoted), "{promoted}");
    let all = act(&half, Action::Promote);
    assert_eq!(tags(&all), ["v2", "v9", "v2", "v2", "v2", "v2", "v2", "v2"]);
    assert_eq!(document(&all, "platform_components", "a")["oci_tag"], "v1");
    assert_eq!(
        try_step(&all, "r", Step::Promote).unwrap_err().reason,
        Reason::WrongState
    );

    let complete = act(&all, Action::Complete);
    assert_eq!(replies(&complete), replies(&all));
    assert_eq!(document(&complete, "platform_components", "a")["oci_tag"], "v2");
    assert_eq!(field(&complete, "state"), "completed");
    assert!(complete.rollouts().active().is_none());
    let gone = accept(&complete, json!([delete("rollouts", "r")]));
    assert_eq!(replies(&gone), replies(&complete));
}

#[test]
fn an_abort_and_a_revert_give_every_cluster_what_it_had() {
    let before = fleet();
    let half = act(&act(&start(&before, json!({})), Action::Promote), Action::Promote);
    for (action, state) in [(Action::Revert, "reverted"), (Action::Abort, "aborted")] {
        let back = act(&half, action);
        assert_eq!(replies(&back), replies(&before), "{state}");
        assert_eq!(
            (field(&back, "state"), field(&back, "wave")),
            (json!(state), Value::Null)
        );
    }
    let resumed = act(&act(&half, Action::Revert), Action::Resume);
    assert_eq!(field(&resumed, "state"), "running");
    assert_eq!(
        replies(&act(&act(&resumed, Action::Promote), Action::Promote)),
        replies(&half)
    );
}

#[test]
fn actions_fit_the_state_or_are_refused() {
    use Action::{Abort, Approve, Complete, Pause, Promote, Resume, Revert};
    let started = start(&fleet(), json!({}));
    let halted = try_step(&started, "r", Step::Halt("because".into())).unwrap();
    assert_eq!(
        (field(&halted, "state"), field(&halted, "message")),
        (json!("halted"), json!("because"))
    );
    let states = [
        (started.clone(), vec![Pause, Promote, Revert, Complete, Abort]),
        (act(&started, Pause), vec![Resume, Promote, Revert, Complete, Abort]),
        (halted, vec![Pause, Resume, Promote, Revert, Complete, Abort]),
        (act(&started, Revert), vec![Resume, Promote, Complete, Abort]),
        (act(&started, Complete), vec![]),
        (act(&started, Abort), vec![]),
    ];
    for (fleet, allowed) in states {
        for action in Action::ALL {
            let outcome = try_step(&fleet, "r", Step::Action(action));
            assert_eq!(
                outcome.is_ok(),
                allowed.contains(&action),
                "{} {}",
                field(&fleet, "state"),
                action.name()
            );
            if let Err(refusal) = outcome {
                assert_eq!(refusal.reason, Reason::WrongState, "{refusal:?}");
            }
        }
    }
    assert_eq!(
        try_step(&started, "nobody", Step::Promote).unwrap_err().reason,
        Reason::NotFound
    );
    let paused = act(&act(&started, Pause), Promote);
    assert_eq!(
        (field(&paused, "state"), field(&paused, "wave")),
        (json!("paused"), json!("canary"))
    );
    let asks = json!({"waves": [{"name": "one", "percent": 10, "approve": true}, {"name": "rest", "approve": true}]});
    let asking = start(&fleet(), asks);
    let approved = act(&asking, Approve);
    assert_eq!(field(&approved, "approved"), "one");
    assert_eq!(
        try_step(&approved, "r", Step::Action(Approve)).unwrap_err().reason,
        Reason::WrongState
    );
    assert_eq!(field(&act(&act(&approved, Promote), Approve), "approved"), "rest");
}

#[test]
fn a_started_rollout_changes_only_in_its_gate_and_only_an_ended_one_is_deleted() {
    let started = start(&fleet(), json!({}));
    refuse(&started, json!([delete("rollouts", "r")]), Reason::WrongState, &[]);
    let changed = accept(
        &started,
        json!([merge(
            "rollouts",
            "r",
            json!({"gate": {"soak": "5m"}, "on_failure": "revert", "description": "x"})
        )]),
    );
    assert_eq!(field(&changed, "gate")["soak"], "5m");
    for (fields, pointer) in [
        (json!({"waves": [{"name": "all"}]}), "/operations/0/value/waves"),
        (json!({"operations": []}), "/operations/0/value/operations"),
    ] {
        let reason = if fields.get("operations").is_some() {
            Reason::Invalid
        } else {
            Reason::WrongState
        };
        refuse(&started, json!([merge("rollouts", "r", fields)]), reason, &[pointer]);
    }
    refuse(
        &started,
        json!([merge("rollouts", "r", json!({"state": "completed"}))]),
        Reason::Invalid,
        &["/operations/0/value/state"],
    );
    refuse(
        &fleet(),
        json!([create("rollouts", rollout(json!({"wave": "canary"})))]),
        Reason::Invalid,
        &["/operations/0/value/wave"],
    );
    // A PUT without the server's fields keeps them.
    let promoted = act(&started, Action::Promote);
    let put = accept(
        &promoted,
        json!([{"op": "replace", "kind": "rollouts", "id": "r", "value": rollout(json!({"description": "y"}))}]),
    );
    assert_eq!(
        (field(&put, "wave"), field(&put, "description")),
        (json!("canary"), json!("y"))
    );
}

#[test]
fn bad_rollouts_are_refused_where_they_are_wrong() {
    let fleet = fleet();
    let operation = |kind: &str, id: &str, value: Value| json!({"op": "merge", "kind": kind, "id": id, "value": value});
    let cases = [
        (json!({"waves": []}), Reason::Invalid, "/waves"),
        (
            json!({"waves": [{"name": "a", "percent": 10}]}),
            Reason::Invalid,
            "/waves/0",
        ),
        (
            json!({"waves": [{"name": "a"}, {"name": "b"}]}),
            Reason::Invalid,
            "/waves/0",
        ),
        (
            json!({"waves": [{"name": "a", "percent": 10, "selector": "ring=canary"}, {"name": "b"}]}),
            Reason::Invalid,
            "/waves/0",
        ),
        (
            json!({"waves": [{"name": "a", "percent": 60}, {"name": "b", "percent": 50}, {"name": "c"}]}),
            Reason::Invalid,
            "/waves/1/percent",
        ),
        (
            json!({"waves": [{"name": "a", "percent": 10}, {"name": "a"}]}),
            Reason::Invalid,
            "/waves/1/name",
        ),
        (
            json!({"waves": [{"name": "a", "selector": "ring in ("}, {"name": "b"}]}),
            Reason::Invalid,
            "/waves/0/selector",
        ),
        (
            json!({"waves": [{"name": "a", "percent": 0}, {"name": "b"}]}),
            Reason::Invalid,
            "/waves/0/percent",
        ),
        (
            json!({"gate": {"converged": "many"}}),
            Reason::Invalid,
            "/gate/converged",
        ),
        (json!({"gate": {"soak": "soon"}}), Reason::Invalid, "/gate/soak"),
        (json!({"gate": {"soak": "24h"}}), Reason::Invalid, "/gate/soak"),
        (
            json!({"gate": {"soak": "18446744073709551615s", "deadline": null}}),
            Reason::Invalid,
            "/gate/soak",
        ),
        (
            json!({"operations": [operation("clusters", "c0", json!({}))]}),
            Reason::Invalid,
            "/operations/0/kind",
        ),
        (
            json!({"operations": [operation("platform_components", "z", json!({}))]}),
            Reason::Invalid,
            "/operations/0/id",
        ),
        (
            json!({"operations": [operation("platform_components", "a", json!({"oci_tag": 5}))]}),
            Reason::Invalid,
            "/operations/0/value/oci_tag",
        ),
        (
            json!({"operations": [operation("platform_components", "a", json!({"depends_on": ["z"]}))]}),
            Reason::Invalid,
            "/operations/0/value/depends_on/0",
        ),
        (
            json!({"operations": [operation("profiles", "base", json!({"platform_components": [{"id": "z"}]}))]}),
            Reason::Invalid,
            "/operations/0/value/platform_components/0/id",
        ),
        (
            json!({"operations": [operation("platform_components", "a", json!({})), operation("platform_components", "a", json!({}))]}),
            Reason::Invalid,
            "/operations/1",
        ),
    ];
    for (fields, reason, pointer) in cases {
        refuse(
            &fleet,
            json!([create("rollouts", rollout(fields))]),
            reason,
            &[&format!("/operations/0/value{pointer}")],
        );
    }
    refuse(
        &start(&fleet, json!({})),
        json!([create("rollouts", rollout(json!({})))]),
        Reason::Exists,
        &["/operations/0/id"],
    );
}

/// A second change must not wedge a running one (argo-cd#19535).
#[test]
fn one_document_has_one_rollout_and_other_fields_are_written_to_both_sides() {
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    let second = create("rollouts", rollout(json!({"id": "s"})));
    let refusal = refuse(
        &canary,
        json!([second]),
        Reason::RolloutActive,
        &["/operations/0/value"],
    );
    assert_eq!(refusal.resources, ["rollouts/r"]);
    refuse(
        &canary,
        json!([merge("platform_components", "a", json!({"oci_tag": "v3"}))]),
        Reason::RolloutActive,
        &["/operations/0/value/oci_tag"],
    );
    refuse(
        &canary,
        json!([delete("platform_components", "a")]),
        Reason::InUse,
        &["/operations/0"],
    );
    // An equal value is none.
    assert!(
        write(
            &canary,
            json!([merge("platform_components", "a", json!({"oci_tag": "v1"}))])
        )
        .unwrap()
        .1
        .is_empty()
    );
    let emergency = accept(
        &canary,
        json!([merge(
            "platform_components",
            "a",
            json!({"oci_url": "https://other.example.com"})
        )]),
    );
    for dns in ["c0.example.com", "c2.example.com"] {
        assert_eq!(
            poll(&emergency, dns, PATH)["inputs"][1]["source"]["oci_url"],
            "https://other.example.com",
            "{dns}"
        );
    }
    assert_eq!(tags(&emergency), tags(&canary));
    // What a rollout makes of documents must stay valid.
    let depends = json!({"operations": [{"op": "merge", "kind": "platform_components", "id": "a", "value": {"depends_on": ["c"]}}]});
    let depending = start(&fleet(), depends);
    let refusal = write(&depending, json!([delete("platform_components", "c")])).unwrap_err();
    assert_eq!(refusal.reason, Reason::RolloutActive, "{refusal:?}");
    let refusal = write(
        &depending,
        json!([merge("platform_components", "c", json!({"depends_on": ["a"]}))]),
    )
    .unwrap_err();
    assert_eq!(refusal.reason, Reason::RolloutActive, "{refusal:?}");
}

/// Arrays are replaced as a whole by merging, whatever their items look like: another item would be lost at the completion.
#[test]
fn an_array_under_rollout_is_one_field_unless_it_holds_references() {
    let users = |users: Value| json!({"values": {"users": users, "plan": "small"}});
    let rolled = merge(
        "platform_components",
        "a",
        json!({"values": {"users": [{"id": "alice", "role": "x"}]}}),
    );
    let started = start(&fleet(), json!({"operations": [rolled]}));
    refuse(
        &started,
        json!([merge(
            "platform_components",
            "a",
            users(json!([{"id": "alice"}, {"id": "bob"}]))
        )]),
        Reason::RolloutActive,
        &["/operations/0/value/values"],
    );
    // The references of a profile are merged by id.
    let base = |reference: Value| merge("profiles", "base", json!({"platform_components": [reference]}));
    let changes = start(
        &fleet(),
        json!({"operations": [base(json!({"id": "b", "oci_tag": "v2"}))]}),
    );
    let other = accept(&changes, json!([base(json!({"id": "c", "oci_tag": "v4"}))]));
    assert_eq!(ids(&other, "c7.example.com", PATH), ["b", "c", "a"]);
    // The rollout would bring back a reference that goes.
    refuse(
        &changes,
        json!([base(json!({"id": "b", "$patch": "delete"}))]),
        Reason::RolloutActive,
        &["/operations/0/value/platform_components"],
    );
}

/// The emergency path is open where nothing overlaps.
#[test]
fn the_first_and_the_last_field_of_an_object_are_written_beside_a_rollout_of_another_one() {
    let values = |values: Value| merge("platform_components", "a", json!({ "values": values }));
    let promoted = act(
        &start(&fleet(), json!({"operations": [values(json!({"theirs": 1}))]})),
        Action::Promote,
    );
    let written = accept(&promoted, json!([values(json!({"ours": 2}))]));
    let input = |fleet: &Fleet, dns: &str| poll(fleet, dns, PATH)["inputs"][1]["values"].clone();
    assert_eq!(input(&written, "c0.example.com"), json!({"ours": 2, "theirs": 1}));
    assert_eq!(input(&written, "c2.example.com"), json!({"ours": 2}));
    let cleared = accept(
        &written,
        json!([merge("platform_components", "a", json!({"values": null}))]),
    );
    assert_eq!(input(&cleared, "c0.example.com"), json!({"theirs": 1}));
    refuse(
        &cleared,
        json!([values(json!({"theirs": 3}))]),
        Reason::RolloutActive,
        &["/operations/0/value/values"],
    );
    // The first reference of an array, and the last one.
    let namespaces = |ids: Value| merge("profiles", "base", json!({ "namespaces": ids }));
    let definitions = accept(
        &fleet(),
        json!([
            create("namespaces", json!({"id": "m"})),
            create("namespaces", json!({"id": "n"}))
        ]),
    );
    let started = start(&definitions, json!({"operations": [namespaces(json!([{"id": "m"}]))]}));
    let first = accept(&started, json!([namespaces(json!([{"id": "n"}]))]));
    accept(&first, json!([namespaces(json!([{"id": "n", "$patch": "delete"}]))]));
}

/// A request that is sent again must not act on the wave after it.
#[test]
fn approve_and_promote_name_the_wave_that_they_are_about() {
    let waves = json!([
        {"name": "one", "percent": 10}, {"name": "two", "percent": 10, "approve": true},
        {"name": "three", "percent": 10, "approve": true}, {"name": "rest"},
    ]);
    let on = |fleet: &Fleet, action: Action, wave: &str| {
        let verb = Verb::Step {
            id: "r".into(),
            step: Step::Action(action),
            wave: Some(wave.into()),
        };
        let written = commit(fleet, &[Operation::new("rollouts", verb)], Rules::PLAIN);
        written
            .map(|(fleet, _)| fleet)
            .map_err(|refusal| (refusal.reason, refusal.detail))
    };
    let wrong = |action: &str, why: &str| {
        let detail = format!("the rollout \"r\" cannot {action}: {why}");
        (Reason::WrongState, detail)
    };
    let one = on(&start(&fleet(), json!({ "waves": waves })), Action::Promote, "one").unwrap();
    assert_eq!(
        on(&one, Action::Promote, "one").unwrap_err(),
        wrong("promote", "its next wave is two, not one")
    );
    let approved = on(&one, Action::Approve, "two").unwrap();
    assert_eq!(
        on(&approved, Action::Approve, "two").unwrap_err(),
        wrong("approve", "two is approved already")
    );
    let two = on(&approved, Action::Promote, "two").unwrap();
    assert_eq!(
        on(&two, Action::Approve, "two").unwrap_err(),
        wrong("approve", "its next wave is three, not two")
    );
    let all = act(&act(&two, Action::Promote), Action::Promote);
    assert_eq!(
        on(&all, Action::Promote, "rest").unwrap_err(),
        wrong("promote", "every wave is promoted")
    );
}

/// A deadline is about the gate: the time of waiting for a person is no part of it.
#[test]
fn the_time_of_a_gate_begins_again_when_a_rollout_has_waited() {
    let at = |fleet: &Fleet, step: Step, minute: u8| {
        let rules = Rules {
            at: Moment::parse(&format!("2026-11-16T12:{minute:02}:00Z")),
            ..Rules::PLAIN
        };
        let verb = Verb::Step {
            id: "r".into(),
            step,
            wave: None,
        };
        commit(fleet, &[Operation::new("rollouts", verb)], rules).unwrap().0
    };
    let minute = |fleet: &Fleet| field(fleet, "since").as_str().unwrap()[14..16].to_owned();
    let waves = json!([{"name": "one", "percent": 10}, {"name": "rest", "approve": true}]);
    let promoted = at(&start(&fleet(), json!({ "waves": waves })), Step::Promote, 1);
    assert_eq!(minute(&promoted), "01");
    let approved_before = at(&promoted, Step::Action(Action::Approve), 5);
    assert_eq!(minute(&approved_before), "01", "nothing waited for it");
    let waits = at(&promoted, Step::Wait(Some("approval/rest".into())), 2);
    let approved = at(&waits, Step::Action(Action::Approve), 40);
    let again = at(&waits, Step::Wait(None), 40);
    for fleet in [approved, again] {
        assert_eq!(
            (minute(&fleet).as_str(), field(&fleet, "waiting_for")),
            ("40", Value::Null)
        );
    }
}

#[test]
fn rollouts_of_different_documents_run_side_by_side() {
    let value = json!({"op": "merge", "kind": "profiles", "id": "base", "value": {"platform_components": [{"id": "c"}, {"id": "b", "$patch": "delete"}]}});
    let two = start(
        &start(&fleet(), json!({})),
        json!({"id": "s", "operations": [value], "waves": [{"name": "some", "selector": "id in (c2, c3)"}, {"name": "rest"}]}),
    );
    let s = |fleet: &Fleet, step| try_step(fleet, "s", step).unwrap();
    let both = s(&act(&two, Action::Promote), Step::Promote);
    assert_eq!(ids(&both, "c0.example.com", PATH), ["b", "a"]);
    assert_eq!(ids(&both, "c2.example.com", PATH), ["c", "a"]);
    assert_eq!(tags(&both), ["v2", "v9", "v1", "v1", "v1", "v1", "v1", "v1"]);
    let explanation = explain(&both, both.cluster("c0").unwrap(), Some(PATH), Some("a"));
    let tag = &explanation.inputs[PATH][0].fields["/source/oci_tag"];
    assert_eq!(
        (tag.value.clone(), &*tag.from, &*tag.over[0].from),
        (json!("v2"), "rollouts/r", "platform_components/a")
    );
    refuse(
        &both,
        json!([merge(
            "profiles",
            "base",
            json!({"platform_components": [{"id": "b", "oci_tag": "v5"}]})
        )]),
        Reason::RolloutActive,
        &["/operations/0/value/platform_components"],
    );
    // What a patched profile brings is in use.
    assert!(write(&both, json!([delete("platform_components", "c")])).is_err());
    let done = s(&act(&both, Action::Complete), Step::Action(Action::Complete));
    assert_eq!(ids(&done, "c7.example.com", PATH), ["c", "a"]);
}

/// Terms without a budget, unless one is given.
fn judged(
    fleet: &Fleet,
    operations: Value,
    confirmation: Confirmation,
    budget: Option<usize>,
) -> Result<(Fleet, Accepted), Refusal> {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    change(fleet, &request.operations, BATCH, confirmation, budget)
}

fn terms(recent: &Recent, confirmation: Confirmation, budget: Option<usize>) -> Terms<'_> {
    Terms {
        recent,
        since: "",
        budget,
        confirmation,
        reach: &Reach::Everything,
        at: "2026-11-16T12:00:00.000000Z",
        overrides: &[],
        unguarded: false,
    }
}

fn change(
    fleet: &Fleet,
    operations: &[Operation],
    rules: Rules,
    confirmation: Confirmation,
    budget: Option<usize>,
) -> Result<(Fleet, Accepted), Refusal> {
    let recent = Recent::default();
    let accepted = fleet.change(operations, rules, terms(&recent, confirmation, budget))?;
    let batch = Batch {
        changes: accepted.outcome.changes.clone(),
        ..Batch::default()
    };
    let head = RevisionRecord::on(fleet.head(), &batch).head();
    Ok((accepted.outcome.clone().committed(head), accepted))
}

fn plan(fleet: &Fleet, operations: Value) -> Judgement {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    let outcome = fleet.write(&request.operations, BATCH).unwrap();
    judge(
        fleet,
        &outcome,
        terms(&Recent::default(), Confirmation::default(), Some(2)),
        Detail::Full,
    )
    .unwrap()
}

fn confirmed(removals: usize) -> Confirmation {
    Confirmation {
        removals: Some(removals),
        ..Confirmation::default()
    }
}

#[test]
fn the_plan_of_a_start_is_that_of_its_completion() {
    let fleet = fleet();
    let judgement = plan(&fleet, json!([create("rollouts", rollout(json!({})))]));
    let affected: Vec<&str> = judgement
        .effect
        .clusters
        .iter()
        .map(|cluster| &**cluster.id())
        .collect();
    assert_eq!(
        affected,
        ["c0", "c2", "c3", "c4", "c5", "c6", "c7"],
        "the one that is pinned is not affected"
    );
    assert_eq!(judgement.removals.count, 0);
    let later = plan(
        &fleet,
        json!([merge("platform_components", "a", json!({"oci_tag": "v2"}))]),
    );
    let effect = |judgement: &Judgement| serde_json::to_value(&judgement.effect.clusters).unwrap();
    assert_eq!(effect(&judgement), effect(&later));
}

#[test]
fn removals_are_confirmed_once_and_more_of_them_are_refused_later() {
    let removes = json!({"operations": [{"op": "merge", "kind": "profiles", "id": "base", "value": {"platform_components": [{"id": "b", "$patch": "delete"}]}}]});
    let operations = json!([create("rollouts", rollout(removes))]);
    let budget = Some(2);
    let refusal = judged(&fleet(), operations.clone(), Confirmation::default(), budget).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.removals.unwrap().count),
        (Reason::RemovalBudget, 8)
    );
    let (started, accepted) = judged(&fleet(), operations, confirmed(8), budget).unwrap();
    assert_eq!(accepted.removed.count(), 0, "nothing is removed yet");
    assert_eq!(field(&started, "removals"), 8);
    let promote = |fleet: &Fleet| {
        let verb = Verb::Step {
            id: "r".into(),
            step: Step::Promote,
            wave: None,
        };
        change(
            fleet,
            &[Operation::new("rollouts", verb)],
            Rules::PLAIN,
            Confirmation::default(),
            budget,
        )
    };
    let mut now = started;
    for wave in ["canary", "half", "rest"] {
        let (next, accepted) = promote(&now).unwrap();
        assert!(accepted.removed.confirmed && accepted.removed.count() > 0, "{wave}");
        // A cluster that joins later loses something too, and nobody has seen it.
        if wave == "half" {
            let joins = accept(&next, json!([create("clusters", cluster("late", json!({})))]));
            let refusal = promote(&joins).unwrap_err();
            assert_eq!(refusal.reason, Reason::RemovalBudget, "{refusal:?}");
        }
        now = next;
    }
    let back = Operation::new(
        "rollouts",
        Verb::Step {
            id: "r".into(),
            step: Step::Action(Action::Abort),
            wave: None,
        },
    );
    assert!(change(&now, &[back], Rules::PLAIN, Confirmation::default(), Some(0)).is_ok());
}

#[test]
fn what_a_rollout_brought_goes_again_without_asking() {
    let brings = json!({"operations": [{"op": "merge", "kind": "profiles", "id": "base", "value": {"platform_components": [{"id": "c"}]}}]});
    let all = act(
        &start(&fleet(), with(brings, json!({"waves": [{"name": "all"}]}))),
        Action::Promote,
    );
    let revert = Operation::new(
        "rollouts",
        Verb::Step {
            id: "r".into(),
            step: Step::Revert("gate".into()),
            wave: None,
        },
    );
    let (back, accepted) = change(&all, &[revert], Rules::PLAIN, Confirmation::default(), Some(0)).unwrap();
    assert_eq!((accepted.removed.count(), accepted.removed.confirmed), (8, true));
    assert_eq!(field(&back, "message"), "gate");
}

#[test]
fn a_promoted_cluster_leaves_its_wave_only_if_that_is_confirmed() {
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    // The reply is cached now.
    assert_eq!(tags(&canary)[0], "v2");
    let relabel = json!([merge("clusters", "c0", json!({"labels": {"ring": "other"}}))]);
    let refusal = judged(&canary, relabel.clone(), Confirmation::default(), None).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.clusters),
        (Reason::Demotion, vec!["c0".to_owned()])
    );
    let confirm = |demotions| Confirmation {
        demotions: Some(demotions),
        ..Confirmation::default()
    };
    assert_eq!(
        judged(&canary, relabel.clone(), confirm(2), None).unwrap_err().reason,
        Reason::Demotion
    );
    let (demoted, _) = judged(&canary, relabel, confirm(1), None).unwrap();
    assert_eq!(tags(&demoted)[0], "v1");
    // Joining a wave needs no confirmation, and neither does any other label.
    for labels in [json!({"ring": "canary"}), json!({"zone": "x"})] {
        judged(
            &canary,
            json!([merge("clusters", "c5", json!({ "labels": labels }))]),
            Confirmation::default(),
            None,
        )
        .unwrap();
    }
}

/// A cluster that overrides what the rollout changes has the same reply in every wave.
#[test]
fn a_promoted_cluster_that_is_pinned_leaves_its_wave_without_confirmation() {
    let pinned = accept(
        &fleet(),
        json!([merge("clusters", "c1", json!({"labels": {"ring": "canary"}}))]),
    );
    let canary = act(&start(&pinned, json!({})), Action::Promote);
    let relabel = |id: &str| merge("clusters", id, json!({"labels": {"ring": "other"}}));
    let (relabelled, _) = judged(&canary, json!([relabel("c1")]), Confirmation::default(), None).unwrap();
    assert_eq!(tags(&relabelled)[1], "v9");
    let both = json!([relabel("c0"), relabel("c1")]);
    let refusal = judged(&canary, both, Confirmation::default(), None).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.clusters),
        (Reason::Demotion, vec!["c0".to_owned()])
    );
}

/// It would be read as the field, and the canary would leave its wave although no cluster is written.
#[test]
fn a_label_that_a_wave_names_cannot_become_a_field() {
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    let mut clusters = fleet::kind::built_in()[0].clone();
    clusters["schema"]["items"]["properties"]["ring"] = json!({"description": "The ring.", "type": "string"});
    let refusal = write(&canary, json!([apply("kinds", clusters)])).unwrap_err();
    assert!(
        refusal
            .detail
            .contains("/labels/ring: has the name of a field of clusters"),
        "{}",
        refusal.detail
    );
}

/// A rollback is no revert: what it removes besides has to be confirmed.
#[test]
fn a_rollback_that_also_moves_a_rollout_back_is_held_by_the_budget() {
    let brings =
        json!({"operations": [{"op": "merge", "kind": "profiles", "id": "base", "value": {"description": "new"}}]});
    let started = start(&fleet(), brings);
    let (canary, promotion) = commit_quietly(&started, &[step("r", Step::Promote)]);
    let adds = json!({"operations": [merge("profiles", "base", json!({"platform_components": [{"id": "c"}]}))]});
    let (added, addition) = commit_quietly(&canary, &BatchRequest::parse(adds).unwrap().operations);
    let then = rewound(&added, &[promotion, addition]);
    let way = WayBack {
        then: Arc::new(then),
        back: Back::Rollback(Scope::Fleet),
    };
    let operations = way.operations(&added).unwrap();
    let refusal = change(&added, &operations, BATCH, Confirmation::default(), Some(2)).unwrap_err();
    assert_eq!(refusal.reason, Reason::RemovalBudget, "{refusal:?}");
}

fn step(id: &str, step: Step) -> Operation {
    Operation::new(
        "rollouts",
        Verb::Step {
            id: id.into(),
            step,
            wave: None,
        },
    )
}

/// Many small rollouts are one large one.
#[test]
fn what_a_start_removes_without_confirmation_counts_in_the_window() {
    let removes = json!({
        "operations": [{"op": "merge", "kind": "platform_components", "id": "a", "value": {"component_version": "2"}},
            {"op": "merge", "kind": "profiles", "id": "base", "value": {"platform_components": [{"id": "b", "$patch": "delete"}]}}],
    });
    let (started, accepted) = judged(
        &fleet(),
        json!([create("rollouts", rollout(removes))]),
        Confirmation::default(),
        Some(8),
    )
    .unwrap();
    assert_eq!(accepted.removed.count(), 8);
    assert_eq!(field(&started, "removals"), 8, "as many as its start was accepted with");
    let (none, _) = judged(
        &fleet(),
        json!([create("rollouts", rollout(json!({})))]),
        Confirmation::default(),
        Some(8),
    )
    .unwrap();
    assert_eq!(field(&none, "removals"), 0);
}

/// An id may be used again, for another change.
/// While rollouts run, clusters are compared by the references that a change concerns. Those of dependents count only if something may stall.
#[test]
fn plans_beside_a_rollout_and_promotions_warn_of_what_stalls() {
    let depends = merge("platform_components", "a", json!({"depends_on": ["b"]}));
    let fleet = accept(&fleet(), json!([depends]));
    let to_kustomization = json!({"oci_url": "oci://registry.example.com/b"});
    let running = start(
        &fleet,
        json!({"operations": [{"op": "merge", "kind": "platform_components", "id": "b", "value": to_kustomization}]}),
    );
    let stalled = |before: &Fleet, after: &Fleet, changes: &[fleet::log::Change]| {
        let effect = Effect::of(before, after, changes);
        let warnings = effect.clusters.iter().flat_map(|cluster| {
            let warnings = cluster.warnings.iter();
            warnings.map(move |warning| format!("{} {}: {}", cluster.id(), warning.code, warning.id))
        });
        warnings.collect::<Vec<_>>()
    };
    // `b` is rendered as another object on the canary, and `a`, which did not change, waits for it in vain.
    let (promoted, record) = commit_quietly(&running, &[step("r", Step::Action(Action::Promote))]);
    assert_eq!(stalled(&running, &promoted, &record.changes), ["c0 stalled: a"]);
    // A direct write makes `a` wait for `c`, too, which no cluster has: that is new on every cluster.
    let missing = json!([merge("platform_components", "a", json!({"depends_on": ["b", "c"]}))]);
    let (after, changes) = write(&promoted, missing).unwrap();
    let everywhere: Vec<String> = (0..8).map(|n| format!("c{n} stalled: a")).collect();
    assert_eq!(stalled(&promoted, &after, &changes), everywhere);
    // Another path makes nothing stall, on whichever cluster.
    let (after, changes) = write(
        &promoted,
        json!([merge("platform_components", "b", json!({"component_path": "other"}))]),
    )
    .unwrap();
    assert_eq!(stalled(&promoted, &after, &changes), [""; 0]);
    assert_eq!(Effect::of(&promoted, &after, &changes).clusters.len(), 8);
}

#[test]
fn a_rollback_to_another_rollout_of_the_same_id_shows_what_it_changes() {
    let first = act(&start(&fleet(), json!({})), Action::Promote);
    let (aborted, one) = commit_quietly(&first, &[step("r", Step::Action(Action::Abort))]);
    let delete = json!({"operations": [delete("rollouts", "r")]});
    let (deleted, two) = commit_quietly(&aborted, &BatchRequest::parse(delete).unwrap().operations);
    let other = json!({"id": "r", "waves": [{"name": "canary", "selector": "id=c3"}, {"name": "rest"}],
        "operations": [{"op": "merge", "kind": "platform_components", "id": "b", "value": {"oci_tag": "v7"}}]});
    let again = json!({"operations": [create("rollouts", other)]});
    let (again, three) = commit_quietly(&deleted, &BatchRequest::parse(again).unwrap().operations);
    let (second, four) = commit_quietly(&again, &[step("r", Step::Promote)]);
    let then = rewound(&second, &[one, two, three, four]);
    let way = WayBack {
        then: Arc::new(then),
        back: Back::Rollback(Scope::Fleet),
    };
    let (back, record) = commit_quietly(&second, &way.operations(&second).unwrap());
    let effect = Effect::of(&second, &back, &record.changes);
    let changed: Vec<&str> = effect.clusters.iter().map(|cluster| &**cluster.id()).collect();
    assert_eq!(changed, ["c0", "c3"]);
    check_effect(&second, &back, &record.changes);
}

/// A reply that was made while the rollout stood as it stands again: the cluster has left its wave in the meantime.
#[test]
fn a_reply_from_before_a_relabelling_is_not_used_when_the_rollout_comes_back() {
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    assert_eq!(tags(&canary)[0], "v2");
    let abort = Verb::Step {
        id: "r".into(),
        step: Step::Action(Action::Abort),
        wave: None,
    };
    let (aborted, record) = commit_quietly(&canary, &[Operation::new("rollouts", abort)]);
    let relabel = json!({"operations": [merge("clusters", "c0", json!({"labels": {"ring": "other"}}))]});
    let (relabelled, _) = commit_quietly(&aborted, &BatchRequest::parse(relabel).unwrap().operations);
    let undo = WayBack {
        then: Arc::new(canary.clone()),
        back: Back::Undo {
            record: Box::new(record),
            reversed_by: None,
        },
    };
    let (back, _) = commit_quietly(&relabelled, &undo.operations(&relabelled).unwrap());
    assert_eq!(field(&back, "wave"), "canary");
    assert_eq!(tags(&back)[0], "v1");
}

/// Writes without a look at any reply.
fn commit_quietly(fleet: &Fleet, operations: &[Operation]) -> (Fleet, RevisionRecord) {
    let outcome = fleet.write(operations, BATCH).unwrap();
    let batch = Batch {
        changes: outcome.changes.clone(),
        ..Batch::default()
    };
    let record = RevisionRecord::on(fleet.head(), &batch);
    let fleet = outcome.committed(record.head());
    (fleet, record)
}

/// A promotion is not checked again, so a write is checked on both sides.
#[test]
fn a_cluster_that_would_break_the_contract_once_it_is_promoted_is_refused_now() {
    let large = json!({"annotations": many(10, |n| (format!("x{n}"), "x".repeat(50_000).into()))});
    let with_namespaces = accept(
        &fleet(),
        json!([
            create("namespaces", with(json!({"id": "m"}), large.clone())),
            create("namespaces", json!({"id": "n"})),
            merge("clusters", "c2", json!({"namespaces": [{"id": "m"}]})),
        ]),
    );
    let operations = json!([{"op": "merge", "kind": "namespaces", "id": "n", "value": large}]);
    let started = start(&with_namespaces, json!({"operations": operations}));
    let adds = json!([merge("clusters", "c2", json!({"namespaces": [{"id": "n"}]}))]);
    accept(&with_namespaces, adds.clone());
    let refusal = write(&started, adds).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.clusters),
        (Reason::Contract, vec!["c2".to_owned()])
    );
}

/// A cluster that joins or leaves must not fail the run (kubefleet#733).
#[test]
fn clusters_that_join_follow_the_rule_and_those_that_leave_are_gone() {
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    let joined = accept(
        &canary,
        json!([
            create(
                "clusters",
                cluster(
                    "n0",
                    json!({"labels": {"ring": "canary"}, "platform_components": [{"id": "a"}]})
                )
            ),
            create("clusters", cluster("n1", json!({"platform_components": [{"id": "a"}]}))),
            delete("clusters", "c0"),
        ]),
    );
    assert_eq!(tags(&joined), ["v9", "v1", "v1", "v1", "v1", "v1", "v1", "v2", "v1"]);
    assert_eq!(field(&act(&joined, Action::Complete), "state"), "completed");
}

fn rewound(now: &Fleet, records: &[RevisionRecord]) -> Fleet {
    let mut rewind = Rewind::default();
    records.iter().for_each(|record| rewind.add(record));
    now.rewound(records[0].revision, &rewind).unwrap()
}

#[test]
fn rollback_and_undo_bring_a_rollout_back_paused() {
    let step = |fleet: &Fleet, step: Step| {
        let verb = Verb::Step {
            id: "r".into(),
            step,
            wave: None,
        };
        commit(fleet, &[Operation::new("rollouts", verb)], Rules::PLAIN).unwrap()
    };
    let canary = act(&start(&fleet(), json!({})), Action::Promote);
    let (completed, completion) = step(&canary, Step::Action(Action::Complete));
    let back = |now: &Fleet, then: &Fleet, back: Back| {
        let way = WayBack {
            then: Arc::new(then.clone()),
            back,
        };
        commit(now, &way.operations(now).unwrap(), BATCH).unwrap().0
    };
    let then = rewound(&completed, std::slice::from_ref(&completion));
    let undo = Back::Undo {
        record: Box::new(completion.clone()),
        reversed_by: None,
    };
    for undone in [
        back(&completed, &then, undo),
        back(&completed, &then, Back::Rollback(Scope::Fleet)),
    ] {
        assert_eq!(
            (field(&undone, "state"), field(&undone, "wave")),
            (json!("paused"), json!("canary"))
        );
        assert_eq!(replies(&undone), replies(&canary));
        assert_eq!(document(&undone, "platform_components", "a")["oci_tag"], "v1");
    }
    let (half, promotion) = step(&canary, Step::Promote);
    let undo = Back::Undo {
        record: Box::new(promotion.clone()),
        reversed_by: None,
    };
    let undone = back(&half, &rewound(&half, &[promotion]), undo);
    assert_eq!(
        (field(&undone, "state"), field(&undone, "wave")),
        (json!("paused"), json!("canary"))
    );
    // To a time before its start: it is gone, and nobody is promoted.
    let (started, start) = commit(
        &fleet(),
        &BatchRequest::parse(json!({"operations": [create("rollouts", rollout(json!({})))]}))
            .unwrap()
            .operations,
        BATCH,
    )
    .unwrap();
    let (canary, promotion) = step(&started, Step::Promote);
    let before = rewound(&canary, &[start, promotion]);
    let gone = back(&canary, &before, Back::Rollback(Scope::Fleet));
    assert_eq!(replies(&gone), replies(&fleet()));
    assert!(gone.rollouts().get("r").is_none());
}

// ---- Any interleaving ----

#[derive(Clone, Debug)]
enum Move {
    Write(Value),
    Step(&'static str, Action),
}

/// Up to eight clusters with some labels, references and versions of their own, and two profiles.
fn a_fleet() -> BoxedStrategy<Fleet> {
    let tag = proptest::option::of(select(vec!["v8", "v9"]));
    let references = proptest::collection::btree_map(select(vec!["a", "b", "c"]), tag, 0..3);
    let one = (select(vec!["canary", "gold", "other"]), references, any::<bool>());
    let clusters = proptest::collection::vec(one, 1..9);
    let made = clusters.prop_map(|clusters| {
        let mut operations: Vec<Value> = ["a", "b", "c"]
            .map(|id| create("platform_components", component(id, json!({}))))
            .into();
        operations.extend([
            create("namespaces", json!({"id": "n"})),
            create("profiles", json!({"id": "base", "selector": "*", "platform_components": [{"id": "b"}]})),
            create("profiles", json!({"id": "gold", "selector": "ring=gold", "priority": 1, "platform_components": [{"id": "c", "adds": false, "oci_tag": "v4"}]})),
        ]);
        for (n, (ring, references, has_namespace)) in clusters.into_iter().enumerate() {
            let reference = |(id, tag): (&str, Option<&str>)| json!({"id": id, "oci_tag": tag});
            let references: Vec<Value> = references.into_iter().map(reference).collect();
            let namespaces = if has_namespace { json!([{"id": "n"}]) } else { json!([]) };
            let fields = json!({"labels": {"ring": ring}, "platform_components": references, "namespaces": namespaces});
            operations.push(create("clusters", cluster(&format!("c{n}"), fields)));
        }
        accept(&empty(), operations.into())
    });
    made.boxed()
}

fn patch() -> BoxedStrategy<Value> {
    let merge = |kind: &str, id: &str, value: Value| json!({"op": "merge", "kind": kind, "id": id, "value": value});
    let definition = (
        select(vec!["a", "b", "c"]),
        select(vec![
            json!({"oci_tag": "v2"}),
            json!({"depends_on": ["c"]}),
            json!({"cluster_env_enabled": true}),
        ]),
    );
    let definition = definition.prop_map(move |(id, value)| merge("platform_components", id, value));
    let profile = select(vec![
        json!({"platform_components": [{"id": "c"}]}),
        json!({"platform_components": [{"id": "b", "$patch": "delete"}]}),
        json!({"platform_components": [{"id": "a", "enabled": false}]}),
        json!({"selector": "ring=canary"}),
        json!({"priority": 5, "platform_components": [{"id": "a", "excluded": true}]}),
        json!({"namespaces": [{"id": "n"}]}),
    ]);
    let profile = (select(vec!["base", "gold"]), profile).prop_map(move |(id, value)| merge("profiles", id, value));
    prop_oneof![definition, profile].boxed()
}

fn waves() -> BoxedStrategy<Value> {
    select(vec![
        json!([{"name": "rest"}]),
        json!([{"name": "canary", "selector": "ring=canary"}, {"name": "rest"}]),
        json!([{"name": "third", "percent": 33.3}, {"name": "canary", "selector": "ring=canary"}, {"name": "rest"}]),
        json!([{"name": "one", "selector": "id in (c1, c5)"}, {"name": "half", "percent": 50}, {"name": "more", "percent": 20}, {"name": "rest"}]),
    ])
    .boxed()
}

fn a_move() -> BoxedStrategy<Move> {
    let id = select(vec!["r", "s"]);
    let start = (id.clone(), proptest::collection::vec(patch(), 1..3), waves()).prop_map(|(id, operations, waves)| {
        Move::Write(create(
            "rollouts",
            json!({"id": id, "operations": operations, "waves": waves}),
        ))
    });
    let step = (
        id,
        select(vec![
            Action::Promote,
            Action::Promote,
            Action::Promote,
            Action::Revert,
            Action::Complete,
            Action::Abort,
            Action::Pause,
        ]),
    )
        .prop_map(|(id, action)| Move::Step(id, action));
    let cluster_id = || select(vec!["c0", "c1", "c2", "c5", "c9"]);
    let direct = select(vec![
        merge("platform_components", "a", json!({"oci_url": "https://o.example.com"})),
        merge("platform_components", "b", json!({"oci_tag": "v7"})),
        merge(
            "profiles",
            "base",
            json!({"platform_components": [{"id": "a", "oci_tag": "v8"}]}),
        ),
        merge("profiles", "gold", json!({"selector": "ring in (canary, gold)"})),
        merge(
            "profiles",
            "gold",
            json!({"platform_components": [{"id": "b", "excluded": true}]}),
        ),
        delete("platform_components", "c"),
        delete("profiles", "gold"),
        delete("rollouts", "r"),
    ]);
    let relabel = (cluster_id(), select(vec!["canary", "gold", "other"]))
        .prop_map(|(id, ring)| merge("clusters", id, json!({"labels": {"ring": ring}})));
    let join = select(vec!["c9", "c10"]).prop_map(|id| {
        create(
            "clusters",
            cluster(
                id,
                json!({"labels": {"ring": "canary"}, "platform_components": [{"id": "a"}]}),
            ),
        )
    });
    let pin = cluster_id().prop_map(|id| {
        merge(
            "clusters",
            id,
            json!({"platform_components": [{"id": "a", "oci_tag": "v9"}]}),
        )
    });
    let leave = cluster_id().prop_map(|id| delete("clusters", id));
    let writes = prop_oneof![3 => direct, 2 => relabel, 1 => join, 1 => pin, 1 => leave].prop_map(Move::Write);
    prop_oneof![2 => start, 5 => step, 3 => writes].boxed()
}

/// The reply of a cluster in a fleet without rollouts, in which those that it is promoted in are complete.
fn expected(fleet: &Fleet, id: &str, path: &str) -> String {
    let cluster = fleet.cluster(id).unwrap();
    let mut operations = Vec::new();
    for rollout in fleet.rollouts().running() {
        let wave = fleet
            .rollouts()
            .active()
            .unwrap()
            .wave_of(rollout.id(), cluster)
            .unwrap();
        if rollout.wave.is_some_and(|promoted| wave <= promoted) {
            operations.extend(
                rollout
                    .patches
                    .iter()
                    .map(|patch| merge(&patch.kind, &patch.id, patch.value.clone())),
            );
        }
    }
    // Without the rollouts: the same documents, loaded.
    let resources = fleet.resources().filter(|resource| &*resource.kind != "rollouts");
    let state = fleet::log::State {
        head: fleet.head(),
        resources: resources.collect(),
        ..fleet::log::State::default()
    };
    let plain = Fleet::load(state).unwrap();
    let patched = match operations.is_empty() {
        true => plain,
        false => {
            let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
            // Half of the rollouts may be invalid without the other half only in what does not matter to the reply.
            match plain.write(&request.operations, BATCH) {
                Ok(outcome) => outcome.preview().clone(),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
    };
    bytes(&patched, &fleet.cluster(id).unwrap().head().dns, path)
}

fn check(fleet: &Fleet) {
    for (id, cluster) in fleet.clusters() {
        for path in PATHS {
            let told = bytes(fleet, &cluster.head().dns, path);
            assert_eq!(told, expected(fleet, id, path), "{id} {path}");
        }
    }
}

/// The clusters that each rollout has promoted.
fn promoted(fleet: &Fleet) -> BTreeMap<String, BTreeSet<String>> {
    let of = |rollout: &Arc<fleet::rollout::Rollout>| {
        let waves = fleet.waves_of(rollout);
        let is_promoted =
            |cluster: &&Arc<fleet::snapshot::Cluster>| rollout.wave.is_some_and(|wave| waves.of(cluster) <= wave);
        let members = fleet.clusters().values().filter(is_promoted);
        let ids = members.map(|cluster| cluster.document().id.to_string()).collect();
        (rollout.id().to_string(), ids)
    };
    fleet.rollouts().running().map(of).collect()
}

/// Nobody goes back, unless a step takes everyone back, or the write says so.
fn check_demotions(before: &Fleet, after: &Fleet, moved: &Move, demoted: &[Arc<str>]) {
    let (then, now) = (promoted(before), promoted(after));
    for (rollout, members) in &then {
        let goes_back = matches!(moved, Move::Step(id, Action::Revert) if **id == **rollout);
        let Some(still) = now.get(rollout).filter(|_| !goes_back) else {
            continue;
        };
        for id in members.difference(still) {
            let Some(cluster) = after.cluster(id) else { continue };
            let dns = &cluster.head().dns;
            let is_same = PATHS
                .iter()
                .all(|path| bytes(before, dns, path) == bytes(after, dns, path));
            let is_named = demoted.iter().any(|one| **one == **id);
            assert!(is_same || is_named, "{id} leaves {rollout} unseen: {moved:?}");
        }
    }
}

/// The effect that is computed is the difference that clusters see.
fn check_effect(before: &Fleet, after: &Fleet, changes: &[fleet::log::Change]) {
    let effect = Effect::of(before, after, changes);
    let said: BTreeSet<String> = effect
        .clusters
        .iter()
        .filter(|cluster| !cluster.inputs.is_empty())
        .flat_map(|cluster| {
            cluster
                .inputs
                .iter()
                .map(|(path, _)| format!("{}/{path}", cluster.dns()))
        })
        .collect();
    let (old, new) = (replies(before), replies(after));
    let sorted = |reply: &String| {
        let reply: Value = serde_json::from_str(reply).unwrap();
        let mut inputs: Vec<String> = reply["inputs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        inputs.sort();
        inputs
    };
    let seen: BTreeSet<String> = new
        .iter()
        .filter(|(key, reply)| old.get(*key).map(sorted).unwrap_or_default() != sorted(reply))
        .map(|(key, _)| key.clone())
        .collect();
    let kept: BTreeSet<String> = said.into_iter().filter(|key| new.contains_key(key)).collect();
    assert_eq!(kept, seen);
    let losing = |effect: &Effect| {
        effect
            .clusters
            .iter()
            .filter(|cluster| cluster.loses())
            .map(|cluster| cluster.id().clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(losing(&Effect::losses(before, after, changes)), losing(&effect));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written while rollouts run: each cluster is told the old or the patched documents, by its wave, and never a mixture.
    #[test]
    fn every_reply_is_old_or_new_by_membership(fleet in a_fleet(), moves in proptest::collection::vec(a_move(), 1..14)) {
        let mut fleet = fleet;
        for one in moves {
            let operations = match &one {
                Move::Write(operation) => BatchRequest::parse(json!({"operations": [operation]})).unwrap().operations,
                Move::Step(id, action) => vec![step(id, Step::Action(*action))],
            };
            let Ok((next, record)) = commit(&fleet, &operations, BATCH) else { continue };
            check(&next);
            check_effect(&fleet, &next, &record.changes);
            let outcome = fleet.write(&operations, BATCH).unwrap();
            let recent = Recent::default();
            if let Ok(judgement) = judge(&fleet, &outcome, terms(&recent, Confirmation::default(), None), Detail::Full) {
                check_demotions(&fleet, &next, &one, &judgement.demoted);
            }
            if let Move::Step(id, Action::Complete) = &one {
                let was_whole = fleet.rollouts().get(id).is_some_and(|rollout| rollout.wave.is_some_and(|wave| wave + 1 == rollout.waves.len()));
                if was_whole {
                    prop_assert_eq!(replies(&fleet), replies(&next), "a completion changes no reply");
                }
                prop_assert_eq!(next.rollouts().get(id).unwrap().state, State::Completed);
            }
            fleet = next;
        }
    }
}
