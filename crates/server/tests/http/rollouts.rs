//! Rollouts as users drive them: by evidence, past guards and restarts, with two processes, and by hand.

use std::sync::Arc;
use std::time::Duration;

use flux_resourceset::app::rollouts::Driver;
use flux_resourceset::app::{App, status};
use serde_json::{Value, json};

use crate::support::{Reply, Setup, TestApp, WRITE};

const AGENT: &str = "flux-operator/v0.58.1";

/// Six clusters with the component `app`; `c0` and `c1` are canaries, `c5` pins its version.
pub fn setup() -> Setup {
    let clusters: Vec<Value> = (0..6)
        .map(|n| {
            let ring = if n < 2 { "canary" } else { "main" };
            let mut reference = json!({"id": "app"});
            if n == 5 {
                reference["oci_tag"] = "v0".into();
            }
            json!({
                "id": format!("c{n}"), "cluster_name": format!("c{n}"), "cluster_dns": dns(&format!("c{n}")), "environment": "dev",
                "labels": {"ring": ring}, "platform_components": [reference], "namespaces": [], "rolebindings": [],
            })
        })
        .collect();
    let component =
        json!({"id": "app", "component_path": "app", "oci_url": "https://charts.example.com", "oci_tag": "v1"});
    let mut setup = Setup::default().seed(&json!({
        "platform_components": [component], "namespaces": [{"id": "extra"}], "rolebindings": [], "clusters": clusters,
    }));
    // Evidence is young, and the grace after a start is over at once.
    setup.config.silent_after = Duration::from_secs(3600);
    setup
}

pub fn dns(id: &str) -> String {
    format!("{id}.k8s.example.com")
}

pub fn rollout(fields: Value) -> Value {
    let mut rollout = json!({
        "id": "r",
        "operations": [{"op": "merge", "kind": "platform_components", "id": "app", "value": {"oci_tag": "v2"}}],
        "waves": [{"name": "canary", "selector": "ring=canary"}, {"name": "rest"}],
        "gate": {"converged": "100%"},
    });
    rollout
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    rollout
}

/// Lets the driver look once.
pub async fn look(app: &TestApp, driver: &Driver) {
    driver.look(&app.app).await;
}

pub async fn status(app: &TestApp) -> Value {
    app.read("/rollouts/r/status").await
}

/// State and wave.
pub async fn at(app: &TestApp) -> (String, Value) {
    let status = status(app).await;
    (status["state"].as_str().unwrap().to_owned(), status["wave"].clone())
}

/// The version that a cluster is told, when it polls as Flux does.
pub async fn poll(app: &TestApp, id: &str) -> String {
    for path in ["namespaces", "rolebindings"] {
        ask(app, id, path).await;
    }
    let reply = ask(app, id, "platform-components").await;
    reply["inputs"][0]["source"]["oci_tag"].as_str().unwrap().to_owned()
}

async fn ask(app: &TestApp, id: &str, path: &str) -> Value {
    let path = format!("/api/v2/flux/clusters/{}/{path}?marked=true", dns(id));
    app.get(path).header("user-agent", AGENT).await.expect(200).json()
}

/// Polls, and reports what came of it.
pub async fn report(app: &TestApp, id: &str, ready: bool) -> String {
    poll(app, id).await;
    report_component(app, id, ready).await
}

/// Polls one path only, and reports what came of it.
async fn report_component(app: &TestApp, id: &str, ready: bool) -> String {
    let input = ask(app, id, "platform-components").await["inputs"][0].clone();
    let version = input["source"]["oci_tag"].as_str().unwrap().to_owned();
    let object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system", "name": "app", "uid": "u",
        "resourceVersion": "7", "ready": ready, "reason": "UpgradeFailed", "message": "Helm says why", "version": version,
        "input": "platform-components/app", "desired": input["desired"]["input"], "at": status::now().to_string(),
    });
    let body = json!({
        "at": status::now().to_string(), "reporter": "flux-resourceset-reporter/0.1.0", "full": true,
        "objects": [object], "providers": [{"name": "platform-components", "ready": true}],
    });
    app.post(format!("/api/v2/flux/clusters/{}/report", dns(id)), &body)
        .await
        .expect(202);
    version
}

pub async fn act(app: &TestApp, action: &str) -> Reply {
    app.post(format!("/rollouts/r/{action}"), &json!({"reason": "by hand"}))
        .await
}

#[tokio::test]
async fn a_good_rollout_passes_its_canaries_waits_for_approval_and_completes() {
    let app = setup().start().await;
    let driver = Driver::default();
    for n in 0..6 {
        report(&app, &format!("c{n}"), true).await;
    }
    let waves = json!([{"name": "canary", "selector": "ring=canary"}, {"name": "rest", "approve": true}]);
    app.post("/rollouts", &rollout(json!({"waves": waves})))
        .await
        .expect(201);
    assert_eq!(at(&app).await, ("running".into(), Value::Null));

    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("running".into(), json!("canary")));
    let waves = status(&app).await["waves"].clone();
    let expected = json!({"name": "canary", "members": 2, "affected": 2, "promoted": true, "approve": false, "told": 0, "converged": 0, "failing": 0, "silent": 0});
    assert_eq!(waves[0], expected);
    assert_eq!(
        (&waves[1]["members"], &waves[1]["affected"]),
        (&json!(4), &json!(3)),
        "the one that pins is not affected"
    );

    // Without evidence about the new version, nothing goes on: what was converged before says nothing.
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "canary");
    assert_eq!(status(&app).await["waits"], "0 of 2 are converged, 2 must be");
    assert_eq!(report(&app, "c0", true).await, "v2");
    assert_eq!(poll(&app, "c1").await, "v2");
    look(&app, &driver).await;
    let canary = status(&app).await["waves"][0].clone();
    assert_eq!((&canary["told"], &canary["converged"]), (&json!(2), &json!(1)));
    assert_eq!(poll(&app, "c3").await, "v1");

    report(&app, "c1", true).await;
    look(&app, &driver).await;
    let waiting = status(&app).await;
    assert_eq!(
        (&waiting["wave"], &waiting["waiting_for"]),
        (&json!("canary"), &json!("approval/rest"))
    );
    look(&app, &driver).await;
    act(&app, "approve").await.expect(200);
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "rest");
    for n in 2..5 {
        assert_eq!(report(&app, &format!("c{n}"), true).await, "v2");
    }
    assert_eq!(poll(&app, "c5").await, "v0");
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("completed".into(), json!("rest")));
    assert_eq!(app.read("/platform_components/app").await["oci_tag"], "v2");

    // Each step is a revision with its evidence.
    let changes = app.get("/changes?kind=rollouts&id=r").await.expect(200).array();
    let steps: Vec<_> = changes
        .iter()
        .map(|change| (change["actor"].as_str().unwrap(), change["reason"].clone()))
        .collect();
    assert_eq!(steps.len(), 6, "{steps:?}");
    assert!(
        steps[2..].iter().filter(|(actor, _)| *actor == "rollout/r").count() == 3,
        "{steps:?}"
    );
    assert_eq!(
        steps[5],
        (
            "rollout/r",
            json!("5 affected, 5 told, 5 converged, 0 failing, 0 silent")
        )
    );
}

#[tokio::test]
async fn a_version_that_fails_halts_after_the_canary_and_a_revert_brings_it_back() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    look(&app, &driver).await;
    report(&app, "c0", true).await;
    report(&app, "c1", false).await;
    look(&app, &driver).await;
    let halted = status(&app).await;
    assert_eq!(
        (&halted["state"], &halted["wave"]),
        (&json!("halted"), &json!("canary"))
    );
    assert_eq!(
        halted["message"],
        "too many failures: at most 0 may fail and 5% may be silent; 2 affected, 2 told, 1 converged, 1 failing, 0 silent"
    );
    look(&app, &driver).await;
    assert_eq!(at(&app).await.0, "halted", "it does not go on by itself");
    assert_eq!(poll(&app, "c3").await, "v1");

    act(&app, "revert").await.expect(200);
    assert_eq!(
        (poll(&app, "c0").await, poll(&app, "c1").await),
        ("v1".into(), "v1".into())
    );
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("reverted".into(), Value::Null));
    act(&app, "abort").await.expect(200);
    act(&app, "resume").await.problem(409, "wrong-state");
}

#[tokio::test]
async fn with_on_failure_revert_a_failing_wave_goes_back_by_itself() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"on_failure": "revert"})))
        .await
        .expect(201);
    look(&app, &driver).await;
    report(&app, "c0", false).await;
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("reverted".into(), Value::Null));
    assert_eq!(poll(&app, "c0").await, "v1");
    assert!(
        status(&app).await["message"]
            .as_str()
            .unwrap()
            .starts_with("too many failures")
    );
}

/// One cluster that is away must not block all others (rancher/fleet#594), and a soak begins when enough have it (ocm PR 1207).
#[tokio::test]
async fn a_cluster_that_is_away_is_left_out_and_the_soak_counts_from_now() {
    let app = setup().start().await;
    let driver = Driver::default();
    let gate = json!({"told": "100%", "silent": 1, "soak": "1s"});
    app.post("/rollouts", &rollout(json!({"gate": gate}))).await.expect(201);
    look(&app, &driver).await;
    poll(&app, "c0").await;
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "canary");
    let waits = status(&app).await["waits"].clone();
    assert!(waits.as_str().unwrap().starts_with("soaks for another"), "{waits}");
    until_wave(&app, &driver, "rest").await;
    assert_eq!(status(&app).await["waves"][0]["silent"], 1, "c1 never polled");
}

/// Lets the driver look until a wave is promoted.
pub async fn until_wave(app: &TestApp, driver: &Driver, wave: &str) {
    for _ in 0..100 {
        look(app, driver).await;
        if at(app).await.1 == wave {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{wave} was not promoted: {}", status(app).await);
}

#[tokio::test]
async fn a_wave_that_changes_nothing_does_not_soak() {
    let app = setup().start().await;
    let driver = Driver::default();
    // `c5` is alone in the middle wave, and pins its version.
    app.patch("/clusters/c5", &json!({"labels": {"ring": "pinned"}}))
        .await
        .expect(200);
    let waves = json!([
        {"name": "canary", "selector": "ring=canary"}, {"name": "pinned", "selector": "ring=pinned"}, {"name": "rest"},
    ]);
    let gate = json!({"told": "100%", "soak": "2s"});
    app.post("/rollouts", &rollout(json!({"gate": gate, "waves": waves})))
        .await
        .expect(201);
    look(&app, &driver).await;
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    until_wave(&app, &driver, "pinned").await;
    // The soak of the first wave is over, and there is nothing new to soak.
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "rest");
}

#[tokio::test]
async fn a_failure_on_one_path_counts_before_the_other_path_was_polled() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.patch("/clusters/c0", &json!({"namespaces": [{"id": "extra"}]}))
        .await
        .expect(200);
    report(&app, "c0", true).await;
    let operations = json!([
        {"op": "merge", "kind": "platform_components", "id": "app", "value": {"oci_tag": "v2"}},
        {"op": "merge", "kind": "namespaces", "id": "extra", "value": {"labels": {"team": "a"}}},
    ]);
    let gate = json!({"converged": "50%", "failures": 0});
    app.post("/rollouts", &rollout(json!({"operations": operations, "gate": gate})))
        .await
        .expect(201);
    look(&app, &driver).await;
    report(&app, "c1", true).await;
    // `c0` has not polled its namespaces since.
    assert_eq!(report_component(&app, "c0", false).await, "v2");
    look(&app, &driver).await;
    assert_eq!(
        at(&app).await,
        ("halted".into(), json!("canary")),
        "{}",
        status(&app).await
    );
}

#[tokio::test]
async fn a_definition_that_changes_under_a_patched_profile_changes_whom_the_rollout_affects() {
    let app = setup().start().await;
    let profile = json!({"id": "main", "priority": 1, "selector": "ring=main", "platform_components": [{"id": "app"}]});
    app.post("/profiles", &profile).await.expect(201);
    // It sets what the catalog has already: nobody is affected.
    let value = json!({"platform_components": [{"id": "app", "oci_tag": "v1"}]});
    let operations = json!([{"op": "merge", "kind": "profiles", "id": "main", "value": value}]);
    app.post("/rollouts", &rollout(json!({"operations": operations})))
        .await
        .expect(201);
    let affected = |status: &Value| status["waves"][1]["affected"].clone();
    assert_eq!(affected(&status(&app).await), 0);
    app.patch("/platform_components/app", &json!({"oci_tag": "v3"}))
        .await
        .expect(200);
    assert_eq!(
        affected(&status(&app).await),
        3,
        "c2 to c4 would go back to v1; c5 has its own version"
    );
}

#[tokio::test]
async fn a_deadline_halts() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"deadline": "0s"}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("halted".into(), json!("canary")));
    assert!(
        status(&app).await["message"]
            .as_str()
            .unwrap()
            .starts_with("the deadline has passed")
    );
}

#[tokio::test]
async fn lost_evidence_makes_a_gate_wait_and_a_restart_continues() {
    let app = setup().sqlite().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    look(&app, &driver).await;
    report(&app, "c0", true).await;
    report(&app, "c1", true).await;
    // In these tests nothing keeps evidence over a restart.
    let app = app.restart().await;
    let driver = Driver::default();
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("running".into(), json!("canary")));
    let waits = status(&app).await["waits"].clone();
    assert_eq!(waits, "0 of 2 are converged, 2 must be");
    for id in ["c0", "c1"] {
        report(&app, id, true).await;
    }
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "rest");
}

/// Losing evidence delays a rollout, and never takes anything back.
#[tokio::test]
async fn a_restart_while_a_rollout_waits_for_approval_does_not_halt_it_at_its_deadline() {
    let app = setup().sqlite().start().await;
    let driver = Driver::default();
    let waves = json!([{"name": "canary", "selector": "ring=canary"}, {"name": "rest", "approve": true}]);
    let fields = json!({"waves": waves, "gate": {"told": "100%", "deadline": "1h"}, "on_failure": "revert"});
    app.post("/rollouts", &rollout(fields)).await.expect(201);
    look(&app, &driver).await;
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    look(&app, &driver).await;
    let waiting = status(&app).await;
    assert_eq!(waiting["waiting_for"], "approval/rest");
    let app = app.restart().await;
    let driver = Driver::default();
    look(&app, &driver).await;
    let restarted = status(&app).await;
    assert_eq!(restarted["waits"], "0 of 2 are told, 2 must be");
    assert_eq!(
        (&restarted["state"], &restarted["waiting_for"]),
        (&json!("running"), &json!("approval/rest")),
        "whose evidence is lost has not fallen back"
    );
    // The approval ends the waiting, and the deadline begins then.
    act(&app, "approve").await.expect(200);
    look(&app, &driver).await;
    let approved = status(&app).await;
    assert_eq!(
        (&approved["state"], &approved["waiting_for"]),
        (&json!("running"), &Value::Null)
    );
    assert_ne!(approved["since"], waiting["since"]);
}

#[tokio::test]
async fn a_freeze_in_the_middle_makes_a_rollout_wait_and_never_holds_back_a_stop() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%"}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    let freeze = json!({"id": "freeze", "selector": "ring=main", "changes": 0, "reason": "the fair"});
    app.post("/guards", &freeze).await.expect(201);
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    look(&app, &driver).await;
    let waiting = status(&app).await;
    assert_eq!(
        (&waiting["state"], &waiting["wave"], &waiting["waiting_for"]),
        (&json!("running"), &json!("canary"), &json!("guard/freeze"))
    );
    let revision = app.revision();
    look(&app, &driver).await;
    assert_eq!(app.revision(), revision, "it is said once");
    let waits = status(&app).await["waits"].clone();
    assert!(
        waits.as_str().unwrap_or_default().contains("freeze"),
        "and shown as long as it holds: {waits}"
    );
    act(&app, "promote").await.problem(409, "guarded");
    act(&app, "complete").await.problem(409, "guarded");
    act(&app, "pause").await.expect(200);
    act(&app, "resume").await.expect(200);
    app.patch("/guards/freeze", &json!({"selector": "*"})).await.expect(200);
    act(&app, "revert").await.expect(200);
    assert_eq!(poll(&app, "c0").await, "v1");
    act(&app, "resume").await.expect(200);
    app.delete("/guards/freeze").await.expect(204);
    until_wave(&app, &driver, "canary").await;
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    until_wave(&app, &driver, "rest").await;
}

#[tokio::test]
async fn two_processes_drive_one_rollout_and_promote_once() {
    let one = setup().sqlite().start().await;
    let other = {
        let mut setup = setup();
        setup.config.backend = one.config().backend;
        setup.config.database_url.clone_from(&one.config().database_url);
        setup.start().await
    };
    one.post("/rollouts", &rollout(json!({"gate": {"told": "100%"}})))
        .await
        .expect(201);
    let (first, second) = (Driver::default(), Driver::default());
    let ended = |app: &Arc<App>| {
        app.fleet()
            .rollouts()
            .get("r")
            .is_some_and(|rollout| !rollout.is_active())
    };
    for _ in 0..200 {
        for n in 0..5 {
            poll(&one, &format!("c{n}")).await;
            poll(&other, &format!("c{n}")).await;
        }
        tokio::join!(first.look(&one.app), second.look(&other.app));
        if ended(&one.app) && ended(&other.app) {
            break;
        }
    }
    let changes = one.get("/changes?kind=rollouts&id=r").await.expect(200).array();
    let waves: Vec<_> = changes.iter().map(|change| change["after"]["wave"].clone()).collect();
    assert_eq!(
        waves,
        [Value::Null, json!("canary"), json!("rest"), json!("rest")],
        "{changes:#?}"
    );
}

#[tokio::test]
async fn a_cluster_that_joins_is_left_out_of_the_gates_of_waves_before_it() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%", "silent": 0}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    let joins = json!({
        "id": "late", "cluster_name": "late", "cluster_dns": dns("late"), "environment": "dev", "labels": {"ring": "canary"},
        "platform_components": [{"id": "app"}],
    });
    app.post("/clusters", &joins).await.expect(201);
    assert_eq!(app.read("/rollouts/r/status").await["waves"][0]["members"], 3);
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "rest", "late has not polled, and does not hold it up");
    assert_eq!(poll(&app, "late").await, "v2");
}

#[tokio::test]
async fn removals_beyond_what_was_confirmed_halt() {
    let mut setup = setup();
    setup.config.budget.clusters = Some(1);
    let app = setup.start().await;
    let driver = Driver::default();
    let profile = json!({"id": "base", "selector": "*", "namespaces": [{"id": "extra"}]});
    app.post("/profiles", &profile).await.expect(201);
    let removes = json!({
        "operations": [{"op": "merge", "kind": "profiles", "id": "base", "value": {"namespaces": [{"id": "extra", "$patch": "delete"}]}}],
        "gate": {"told": "100%"},
    });
    let problem = app
        .post("/rollouts", &rollout(removes.clone()))
        .await
        .problem(409, "removal-budget");
    assert_eq!(problem["removals"]["count"], 6);
    let plan = app
        .post("/rollouts?dry_run=true", &rollout(removes.clone()))
        .await
        .expect(200)
        .json();
    assert_eq!(
        plan["rollouts"][0]["waves"],
        json!([
            {"name": "canary", "approve": false, "members": 2, "affected": 2, "removals": 2, "guards": []},
            {"name": "rest", "approve": false, "members": 4, "affected": 4, "removals": 4, "guards": []},
        ])
    );
    let start = app
        .post("/rollouts", &rollout(removes))
        .header("x-confirm-removals", "6")
        .header("if-plan-match", plan["plan"].as_str().unwrap());
    start.await.expect(201);
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "canary");
    let late = json!({"id": "late", "cluster_name": "late", "cluster_dns": dns("late"), "environment": "dev"});
    app.post("/clusters", &late).await.expect(201);
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    look(&app, &driver).await;
    let halted = status(&app).await;
    assert_eq!(halted["state"], "halted", "{halted}");
    assert_eq!(
        halted["message"],
        "the rollout \"r\" would have removed something from 7 clusters, and 6 were confirmed at its start"
    );
}

#[tokio::test]
async fn the_plan_of_a_start_says_which_wave_a_guard_holds() {
    let app = setup().start().await;
    let guards = [
        json!({"id": "steps", "selector": "*", "changes": 2, "reason": "in small steps"}),
        json!({"id": "canary", "selector": "ring=canary", "removals": 0, "reason": "nothing is lost there"}),
        json!({"id": "past", "selector": "*", "changes": 0, "until": "2020-01-01T00:00:00Z", "reason": "over"}),
    ];
    for guard in &guards {
        app.post("/guards", guard).await.expect(201);
    }
    let plan = app
        .post("/rollouts?dry_run=true", &rollout(json!({})))
        .await
        .expect(200)
        .json();
    // The start itself changes nothing.
    assert!(
        plan["guards"]
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["exceeded"] == false)
    );
    let of = |wave: usize, guard: usize| {
        let check = &plan["rollouts"][0]["waves"][wave]["guards"][guard];
        ["id", "of", "limit", "count", "exceeded"].map(|field| check[field].clone())
    };
    assert_eq!(json!(of(0, 0)), json!(["canary", "removals", 0, 0, false]));
    assert_eq!(json!(of(0, 1)), json!(["steps", "changes", 2, 2, false]));
    assert_eq!(json!(of(1, 1)), json!(["steps", "changes", 2, 3, true]));
    assert_eq!(plan["rollouts"][0]["waves"][1]["guards"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_plan_of_a_start_names_waves_and_pins_and_actions_have_plans() {
    let app = setup().start().await;
    let plan = app
        .post("/rollouts?dry_run=true", &rollout(json!({})))
        .await
        .expect(200)
        .json();
    assert_eq!(
        plan["rollouts"],
        json!([{
            "id": "r",
            "waves": [
                {"name": "canary", "approve": false, "members": 2, "affected": 2, "removals": 0, "guards": []},
                {"name": "rest", "approve": false, "members": 4, "affected": 3, "removals": 0, "guards": []},
            ],
            "unaffected": {"count": 1, "clusters": ["c5"]},
        }])
    );
    assert_eq!(plan["totals"]["clusters"], 5);
    app.put("/rollouts/r", &rollout(json!({})))
        .header("if-plan-match", plan["plan"].as_str().unwrap())
        .await
        .expect(200);
    let plan = app
        .post("/rollouts/r/promote?dry_run=true", &json!({}))
        .await
        .expect(200)
        .json();
    let clusters: Vec<_> = plan["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| cluster["id"].clone())
        .collect();
    assert_eq!(clusters, ["c0", "c1"]);
    app.post("/rollouts/r/promote", &json!({"plan": plan["plan"]}))
        .await
        .expect(200);
    app.post("/rollouts/r/promote", &json!({"plan": plan["plan"]}))
        .await
        .problem(412, "plan-changed");
    let problem = app
        .post("/rollouts/r/promote", &json!({"plan": 5, "waves": "x"}))
        .await
        .problem(422, "invalid");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2);
    app.post("/rollouts/nobody/pause", &json!({}))
        .await
        .problem(404, "not-found");
    app.get("/rollouts/nobody/status").await.problem(404, "not-found");
    let explained = app.read("/clusters/c0/explain/platform-components/app").await;
    assert_eq!(
        explained["inputs"]["platform-components"][0]["fields"]["/source/oci_tag"]["from"],
        "rollouts/r"
    );
    let references = app.get("/platform_components/app/references").await.expect(200).array();
    let versions: Vec<_> = references
        .iter()
        .map(|usage| usage["values"]["oci_tag"].clone())
        .collect();
    assert_eq!(versions, ["v2", "v2", "v1", "v1", "v1", "v0"]);
    let relabel = app.patch("/clusters/c0", &json!({"labels": {"ring": "main"}}));
    assert_eq!(relabel.await.problem(409, "demotion")["clusters"], json!(["c0"]));
    let relabel = app
        .patch("/clusters/c0?dry_run=true", &json!({"labels": {"ring": "main"}}))
        .await
        .expect(200)
        .json();
    assert_eq!(relabel["demotions"], json!({"count": 1, "clusters": ["c0"]}));
    app.patch("/clusters/c0", &json!({"labels": {"ring": "main"}}))
        .header("x-confirm-demotions", "1")
        .await
        .expect(200);
    assert_eq!(poll(&app, "c0").await, "v1");
}

#[tokio::test]
async fn a_scoped_operator_rolls_out_its_own_kinds_and_approves_if_it_may() {
    let app = setup().start().await;
    let mut tokens = Vec::new();
    for (id, kinds, approve) in [
        ("may", json!(["rollouts", "platform_components"]), true),
        ("not", json!(["rollouts", "platform_components"]), false),
        ("others", json!(["rollouts", "namespaces"]), true),
        ("unnamed", json!(["platform_components"]), true),
        ("few", json!(["rollouts", "platform_components"]), true),
    ] {
        let clusters = if id == "few" { "id=c0" } else { "*" };
        let scope = json!({"clusters": clusters, "kinds": kinds, "approve": approve});
        app.post("/identities", &json!({"id": id, "role": "operator", "scope": scope}))
            .await
            .expect(201);
        let token = app
            .post(format!("/identities/{id}/tokens"), &json!({}))
            .await
            .expect(201)
            .json();
        tokens.push(token["token"].as_str().unwrap().to_owned());
    }
    let asks = rollout(json!({"waves": [{"name": "all", "approve": true}]}));
    for token in &tokens[2..] {
        app.post("/rollouts", &asks)
            .token(token)
            .await
            .problem(403, "out-of-scope");
    }
    app.post("/rollouts", &asks).token(&tokens[1]).await.expect(201);
    for action in ["approve", "promote", "complete"] {
        app.post(format!("/rollouts/r/{action}"), &json!({}))
            .token(&tokens[1])
            .await
            .problem(403, "forbidden");
    }
    // Each action is judged by the completion, also one that changes nobody.
    for token in &tokens[2..] {
        for action in ["pause", "abort"] {
            let path = format!("/rollouts/r/{action}");
            app.post(path, &json!({}))
                .token(token)
                .await
                .problem(403, "out-of-scope");
        }
    }
    app.post("/rollouts/r/pause", &json!({}))
        .token(&tokens[1])
        .await
        .expect(200);
    app.post("/rollouts/r/approve", &json!({}))
        .token(&tokens[0])
        .await
        .expect(200);
    app.post("/rollouts/r/promote", &json!({}))
        .token(&tokens[1])
        .await
        .expect(200);
    // An approval that was taken back is not brought back by a rollback.
    let promoted = app.revision();
    act(&app, "revert").await.expect(200);
    let back = json!({"revision": promoted, "kind": "rollouts", "id": "r"});
    app.post("/rollback", &back)
        .token(&tokens[1])
        .await
        .problem(403, "out-of-scope");
    app.post("/rollback", &back).token(&tokens[0]).await.expect(200);
}

#[tokio::test]
async fn undo_and_rollback_reach_across_a_rollout() {
    let app = setup().start().await;
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%"}})))
        .await
        .expect(201);
    act(&app, "promote").await.expect(200);
    let completed = act(&app, "complete").await.expect(200);
    let revision: u64 = completed.header("x-revision").parse().unwrap();
    app.post("/rollback", &json!({"undo": revision})).await.expect(200);
    assert_eq!(at(&app).await, ("paused".into(), json!("canary")));
    assert_eq!(
        (poll(&app, "c0").await, poll(&app, "c3").await),
        ("v2".into(), "v1".into())
    );
    let driver = Driver::default();
    look(&app, &driver).await;
    assert_eq!(at(&app).await.0, "paused");
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    app.get("/rollouts/r").await.problem(404, "not-found");
    assert_eq!(poll(&app, "c0").await, "v1");
}

#[tokio::test]
async fn a_restored_backup_and_an_earlier_revision_have_the_rollout_as_it_was() {
    let app = setup().start().await;
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    act(&app, "promote").await.expect(200);
    let promoted = app.revision();
    let backup = app.get("/backup").token(WRITE).await.expect(200);
    let restored = setup().restored(&backup).await;
    for id in ["c0", "c3", "c5"] {
        assert_eq!(poll(&restored, id).await, poll(&app, id).await);
    }
    assert_eq!(at(&restored).await, ("running".into(), json!("canary")));

    act(&app, "complete").await.expect(200);
    for (revision, versions) in [
        (promoted - 1, ["v1", "v1"]),
        (promoted, ["v2", "v1"]),
        (promoted + 1, ["v2", "v2"]),
    ] {
        for (id, version) in ["c0", "c3"].into_iter().zip(versions) {
            let inputs = app
                .read(&format!(
                    "/clusters/{id}/inputs/platform-components?revision={revision}"
                ))
                .await;
            assert_eq!(inputs["inputs"][0]["source"]["oci_tag"], version, "{id} at {revision}");
        }
    }
}
