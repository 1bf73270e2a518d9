//! What the driver of rollouts does when a gate falls back, the log cannot be read, clusters come and go, and guards hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::log::Revision;
use flux_resourceset::app::compact::{Old, compact};
use flux_resourceset::app::reads::Class;
use flux_resourceset::app::rollouts::{Driver, drive};
use flux_resourceset::metrics::ReasonLabels;
use serde_json::{Value, json};
use store::Memory;
use tokio::sync::watch;

use crate::away::{Fragile, Log};
use crate::feed::Events;
use crate::rollouts::{act, at, dns, look, poll, report, rollout, setup, status, until_wave};
use crate::support::TestApp;

/// Lets the driver look until the status of the rollout is as wanted.
async fn until(app: &TestApp, driver: &Driver, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        look(app, driver).await;
        let now = status(app).await;
        if holds(&now) {
            return now;
        }
        assert!(Instant::now() < patience, "waited in vain: {what}: {now}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Another rollout, which affects no cluster.
fn of_namespace() -> Value {
    rollout(json!({
        "id": "s", "gate": {"told": "100%"},
        "operations": [{"op": "merge", "kind": "namespaces", "id": "extra", "value": {"labels": {"team": "a"}}}],
    }))
}

fn late() -> Value {
    json!({
        "id": "late", "cluster_name": "late", "cluster_dns": dns("late"), "environment": "dev", "labels": {"ring": "canary"},
        "platform_components": [{"id": "app"}],
    })
}

/// A deadline would never fire, and a pipeline would take the gate for passed.
#[tokio::test]
async fn a_gate_that_falls_back_while_a_rollout_waits_is_waited_for_again() {
    let app = setup().start().await;
    let driver = Driver::default();
    let waves = json!([{"name": "canary", "selector": "ring=canary"}, {"name": "rest", "approve": true}]);
    let gate = json!({"converged": "100%", "failures": 1, "deadline": "1s"});
    app.post("/rollouts", &rollout(json!({"waves": waves, "gate": gate})))
        .await
        .expect(201);
    look(&app, &driver).await;
    report(&app, "c0", true).await;
    report(&app, "c1", true).await;
    look(&app, &driver).await;
    let waiting = status(&app).await;
    assert_eq!(waiting["waiting_for"], "approval/rest");
    report(&app, "c1", false).await;
    // Once the process has watched for long enough.
    let fallen = until(&app, &driver, "the gate is waited for", |now| {
        now["waiting_for"].is_null()
    })
    .await;
    assert_eq!(fallen["waits"], "1 of 2 are converged, 2 must be");
    assert_ne!(fallen["since"], waiting["since"]);
    let halted = until(&app, &driver, "the deadline", |now| now["state"] == "halted").await;
    assert!(
        halted["message"]
            .as_str()
            .unwrap()
            .starts_with("the deadline has passed")
    );
}

#[tokio::test]
async fn a_soak_starts_again_when_the_share_falls() {
    let app = setup().start().await;
    let driver = Driver::default();
    let gate = json!({"converged": "100%", "failures": 1, "soak": "100s"});
    app.post("/rollouts", &rollout(json!({"gate": gate}))).await.expect(201);
    look(&app, &driver).await;
    let soaks = "soaks for another 100 s of 100 s";
    report(&app, "c0", true).await;
    report(&app, "c1", true).await;
    look(&app, &driver).await;
    assert_eq!(status(&app).await["waits"], soaks);
    until(&app, &driver, "some of it is over", |now| now["waits"] != soaks).await;
    report(&app, "c1", false).await;
    look(&app, &driver).await;
    assert_eq!(status(&app).await["waits"], "1 of 2 are converged, 2 must be");
    report(&app, "c1", true).await;
    look(&app, &driver).await;
    assert_eq!(status(&app).await["waits"], soaks);
}

/// Starts `r`, whose canary waits for `late`, who joined, and then `s`, whose canary has everything.
async fn one_that_needs_the_log_and_one_that_does_not(app: &TestApp, driver: &Driver) {
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%"}})))
        .await
        .expect(201);
    look(app, driver).await;
    app.post("/clusters", &late()).await.expect(201);
    app.post("/rollouts", &of_namespace()).await.expect(201);
    app.post("/rollouts/s/promote", &json!({})).await.expect(200);
    poll(app, "c0").await;
    poll(app, "c1").await;
}

#[tokio::test]
async fn a_rollout_that_cannot_be_judged_takes_no_step_and_holds_up_no_other() {
    for trouble in [Log::Away, Log::Panics] {
        let store = Arc::new(Fragile::default());
        let app = setup().store(store.clone()).start().await;
        let driver = Driver::default();
        one_that_needs_the_log_and_one_that_does_not(&app, &driver).await;
        *store.log.lock().unwrap() = trouble;
        look(&app, &driver).await;
        assert_eq!(at(&app).await, ("running".into(), json!("canary")), "{trouble:?}");
        assert_eq!(
            status(&app).await["waits"],
            "its gate could not be judged: the log of the server says why"
        );
        let unjudged = || app.app.metrics.rollouts_unjudged.get();
        assert_eq!(unjudged(), 1);
        assert_ne!(app.read("/rollouts/s").await["wave"], "canary", "the other goes on");
        *store.log.lock().unwrap() = Log::Readable;
        until_wave(&app, &driver, "rest").await;
        assert_eq!(unjudged(), 0);
    }
}

/// The clusters that joined are found by the first revision that is left.
#[tokio::test]
async fn a_compacted_log_does_not_make_late_clusters_count() {
    let store = Arc::new(Memory::default());
    let app = setup().store(store.clone()).start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%", "silent": 0}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    app.patch("/clusters/c3", &json!({"labels": {"zone": "x"}}))
        .await
        .expect(200);
    let kept = app.revision();
    app.post("/clusters", &late()).await.expect(201);
    let before = Old::Before(Revision(kept + 1));
    compact(&*store, before, app.config().budget).await.unwrap();
    poll(&app, "c0").await;
    poll(&app, "c1").await;
    until_wave(&app, &driver, "rest").await;
}

#[tokio::test]
async fn a_status_counts_what_the_gate_counts_and_ended_rollouts_keep_their_waves() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%", "silent": 0}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    app.post("/clusters", &late()).await.expect(201);
    look(&app, &driver).await;
    let now = status(&app).await;
    assert_eq!(now["waits"], "0 of 2 are told, 2 must be");
    let canary = &now["waves"][0];
    assert_eq!((&canary["members"], &canary["affected"]), (&json!(3), &json!(2)));
    act(&app, "complete").await.expect(200);
    let waves = status(&app).await["waves"].clone();
    assert_eq!((&waves[0]["members"], &waves[1]["members"]), (&json!(3), &json!(4)));
}

/// The looks of one rollout, which may take long, do not delay another.
#[tokio::test]
async fn a_new_rollout_goes_out_while_another_one_is_being_judged() {
    let (stop, stopping) = watch::channel(false);
    let app = setup().stopped_by(stopping).start().await;
    app.post("/rollouts", &of_namespace()).await.expect(201);
    app.post("/rollouts/s/promote", &json!({})).await.expect(200);
    // Its look does not end before this does.
    let (_place, _client) = app.app.turn(Class::Rollouts).await.unwrap();
    let driving = tokio::spawn(drive(app.app.clone()));
    let began = Instant::now();
    let wave = || app.app.fleet().rollouts().get("r").and_then(|rollout| rollout.wave);
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    crate::support::until("the first wave is promoted", || wave().is_some()).await;
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    stop.send_replace(true);
    driving.await.unwrap();
}

#[tokio::test]
async fn a_gate_that_fails_in_a_freeze_reverts_by_itself() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"on_failure": "revert"})))
        .await
        .expect(201);
    look(&app, &driver).await;
    let freeze = json!({"id": "freeze", "selector": "*", "changes": 0, "reason": "the fair"});
    app.post("/guards", &freeze).await.expect(201);
    report(&app, "c0", false).await;
    look(&app, &driver).await;
    assert_eq!(at(&app).await, ("reverted".into(), Value::Null));
    assert_eq!(poll(&app, "c0").await, "v1");
}

#[tokio::test]
async fn a_wave_that_a_guard_holds_is_not_planned_at_every_look() {
    let app = setup().start().await;
    let driver = Driver::default();
    let freeze = json!({"id": "freeze", "selector": "*", "changes": 0, "reason": "the fair"});
    app.post("/guards", &freeze).await.expect(201);
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    let guarded = ReasonLabels { reason: "guarded" };
    let refused = || app.app.metrics.refusals.get_or_create(&guarded).get();
    // The first refusal is written down, and that makes another version of the rollout.
    look(&app, &driver).await;
    look(&app, &driver).await;
    let before = refused();
    for _ in 0..5 {
        look(&app, &driver).await;
    }
    assert_eq!(refused(), before);
    assert_eq!(status(&app).await["waiting_for"], "guard/freeze");
    // Other guards: it is tried at once.
    app.patch("/guards/freeze", &json!({"changes": 1})).await.expect(200);
    look(&app, &driver).await;
    assert_eq!(refused(), before + 1);
}

/// A cluster that leaves must not hold up the run (kubefleet#733).
#[tokio::test]
async fn a_cluster_that_leaves_is_not_waited_for() {
    let app = setup().start().await;
    let driver = Driver::default();
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%", "silent": 0}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    poll(&app, "c0").await;
    look(&app, &driver).await;
    assert_eq!(status(&app).await["waits"], "1 of 2 are told, 2 must be");
    app.delete("/clusters/c1").await.expect(204);
    look(&app, &driver).await;
    assert_eq!(at(&app).await.1, "rest");
}

#[tokio::test]
async fn each_step_is_an_event_of_the_stream() {
    let app = setup().start().await;
    let driver = Driver::default();
    let mut events = Events::of(app.get("/changes/stream").response().await);
    app.post("/rollouts", &rollout(json!({"gate": {"told": "100%"}})))
        .await
        .expect(201);
    look(&app, &driver).await;
    act(&app, "pause").await.expect(200);
    act(&app, "abort").await.expect(200);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (_, event) = events.next().await.unwrap();
        let after = &event["changes"][0]["after"];
        seen.push(json!([event["actor"], event["reason"], after["state"], after["wave"]]));
    }
    let expected = json!([
        ["write", null, "running", null],
        ["rollout/r", "the first wave", "running", "canary"],
        ["write", "by hand", "paused", "canary"],
        ["write", "by hand", "aborted", null],
    ]);
    assert_eq!(json!(seen), expected);
}

/// A retried request acts once.
#[tokio::test]
async fn an_action_that_names_its_wave_is_refused_when_it_is_sent_again() {
    let app = setup().start().await;
    app.post("/rollouts", &rollout(json!({}))).await.expect(201);
    let promote = || app.post("/rollouts/r/promote", &json!({"wave": "canary", "reason": "now"}));
    promote().await.expect(200);
    let problem = promote().await.problem(409, "wrong-state");
    assert_eq!(
        problem["detail"],
        "the rollout \"r\" cannot promote: its next wave is rest, not canary"
    );
    assert_eq!(at(&app).await.1, "canary");
    // Or by the version that was seen.
    let etag = app.get("/rollouts/r").await.expect(200).etag();
    let pause = |etag: &str| app.post("/rollouts/r/pause", &json!({})).header("if-match", etag);
    pause(&etag).await.expect(200);
    pause(&etag).await.problem(412, "stale");
    app.post("/rollouts/r/pause", &json!({"wave": "rest"}))
        .await
        .problem(422, "invalid");
}
