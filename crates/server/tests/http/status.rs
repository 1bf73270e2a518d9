//! What came of it: evidence that clusters give, and what is answered about their states.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleet::document::Etag;
use fleet::log::Revision;
use fleet::status::{Evidence, Moment, State, Told};
use flux_resourceset::app::status;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, PATHS, Reply, Setup, TestApp, WRITE, bare, component, until};

const AGENT: &str = "flux-operator/v0.58.1";

fn path(dns: &str, what: &str) -> String {
    format!("/api/v2/flux/clusters/{dns}/{what}")
}

/// Polls as Flux does where tokens are shared.
async fn poll(app: &TestApp, dns: &str, what: &str) -> Value {
    let reply = app
        .get(path(dns, &format!("{what}?marked=true")))
        .header("user-agent", AGENT);
    reply.await.expect(200).json()
}

async fn poll_all(app: &TestApp, dns: &str) {
    for what in PATHS {
        poll(app, dns, what).await;
    }
}

async fn token(app: &TestApp, id: &str) -> String {
    let issued = app.post(format!("/clusters/{id}/token"), &json!({})).await.expect(201);
    issued.json()["token"].as_str().unwrap().to_owned()
}

async fn status(app: &TestApp, id: &str) -> Value {
    app.read(&format!("/clusters/{id}/status")).await
}

async fn state(app: &TestApp, id: &str) -> String {
    status(app, id).await["state"].as_str().unwrap().to_owned()
}

/// The status of one component.
async fn component_status(app: &TestApp, id: &str, component: &str) -> Value {
    let status = status(app, id).await;
    let inputs = status["kinds"]["platform-components"]["inputs"]
        .as_array()
        .unwrap()
        .clone();
    inputs.into_iter().find(|input| input["id"] == component).unwrap()
}

/// An event as notification-controller sends it, about the release of a component.
fn event(component: &str, mark: &Value, severity: &str, reason: &str) -> Value {
    // Later than every one before: of two events of the same moment, the worse counts.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = status::now().0;
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    let at = if now > last {
        now
    } else {
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    };
    json!({
        "involvedObject": {"kind": "HelmRelease", "namespace": "flux-system", "name": component, "uid": "u-1",
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "resourceVersion": "100"},
        "severity": severity, "timestamp": Moment(at).to_string(), "message": "Helm says why", "reason": reason,
        "metadata": {"desired": mark, "input": format!("platform-components/{component}"), "revision": "6.7.1"},
        "reportingController": "helm-controller", "reportingInstance": "helm-controller-abc",
    })
}

/// A whole report in which every component has this readiness.
async fn report(app: &TestApp, dns: &str, ready: &Value) -> Value {
    let inputs = poll(app, dns, "platform-components").await["inputs"]
        .as_array()
        .unwrap()
        .clone();
    let objects: Vec<_> = inputs
        .iter()
        .map(|input| {
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system",
                "name": input["id"], "uid": "u", "resourceVersion": "7", "ready": ready, "reason": "UpgradeFailed",
                "message": "why", "version": "1.0.0", "input": format!("platform-components/{}", input["id"].as_str().unwrap()),
                "desired": input["desired"]["input"], "at": "2026-11-16T04:31:00Z",
            })
        })
        .collect();
    json!({
        "at": status::now().to_string(), "reporter": "flux-resourceset-reporter/0.1.0", "full": true,
        "objects": objects, "providers": [{"name": "platform-components", "ready": true}],
    })
}

async fn tell(app: &TestApp, token: &str, dns: &str, what: &str, body: &Value) -> Reply {
    app.post(path(dns, what), body).token(token).await
}

#[tokio::test]
async fn polls_alone_tell_who_was_told_and_who_is_behind() {
    let app = TestApp::start().await;
    assert_eq!(state(&app, DEMO).await, "never");
    // Somebody who looks is not the cluster.
    app.get(path(DEMO_DNS, "namespaces"))
        .header("user-agent", "curl/8")
        .await
        .expect(200);
    app.call(axum::http::Method::HEAD, path(DEMO_DNS, "namespaces"))
        .header("user-agent", AGENT)
        .await
        .expect(200);
    assert_eq!(state(&app, DEMO).await, "never");

    poll_all(&app, DEMO_DNS).await;
    let told = status(&app, DEMO).await;
    assert_eq!((&told["state"], &told["environment"]), (&json!("told"), &json!("dev")));
    let components = &told["kinds"]["platform-components"];
    assert_eq!(components["told"]["digest"], components["current"]);
    assert_eq!(
        (&components["told"]["agent"], &components["told"]["revision"]),
        (&json!(AGENT), &json!(1))
    );
    // What renders nothing that becomes ready has nothing more to tell.
    assert_eq!(told["kinds"]["namespaces"]["state"], "converged");

    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
        .await
        .expect(200);
    let behind = status(&app, DEMO).await;
    assert_eq!(
        (&behind["state"], &behind["kinds"]["namespaces"]["state"]),
        (&json!("behind"), &json!("converged"))
    );
    // The plain form has the same digest.
    app.get(path(DEMO_DNS, "platform-components"))
        .header("user-agent", AGENT)
        .await
        .expect(200);
    assert_eq!(state(&app, DEMO).await, "told");
    assert_eq!(
        status(&app, DEMO).await["kinds"]["platform-components"]["told"]["revision"],
        2
    );
}

/// Another process told the cluster something else meanwhile, and this one tells it again what it has cached.
#[tokio::test]
async fn a_poll_of_a_cached_reply_counts_after_another_process_told_something_else() {
    let app = TestApp::start().await;
    poll_all(&app, DEMO_DNS).await;
    poll_all(&app, DEMO_DNS).await;
    assert_eq!(state(&app, DEMO).await, "told");
    let at = Moment(status::now().0 + 1);
    let mut elsewhere = Evidence::default();
    elsewhere.poll(Told {
        path: "namespaces".into(),
        digest: Etag(7),
        revision: Revision(1),
        at,
        since: at,
        agent: AGENT.into(),
    });
    app.app.evidence.merge(&DEMO.into(), elsewhere);
    assert_eq!(state(&app, DEMO).await, "behind");
    until("the clock is past that poll", || status::now() > at).await;
    poll_all(&app, DEMO_DNS).await;
    let now = status(&app, DEMO).await;
    let namespaces = &now["kinds"]["namespaces"];
    assert_eq!(
        (&now["state"], &namespaces["told"]["digest"]),
        (&json!("told"), &namespaces["current"])
    );
}

/// To look at a large fleet takes time, and clusters join meanwhile.
#[tokio::test]
async fn a_cluster_that_joins_while_the_fleet_is_looked_at_is_not_forgotten() {
    let app = TestApp::start().await;
    let before = app.app.engine.fleet();
    app.post("/clusters", &bare("b")).await.expect(201);
    let dns = app.read("/clusters/b").await["cluster_dns"]
        .as_str()
        .unwrap()
        .to_owned();
    poll_all(&app, &dns).await;
    let evidence = &app.app.evidence;
    let after = app.app.engine.fleet();
    evidence.forget(&after, || after.clone());
    evidence.forget(&before, || app.app.engine.fleet());
    assert_ne!(state(&app, "b").await, "never");
    app.delete("/clusters/b").await.expect(204);
    let gone = app.app.engine.fleet();
    evidence.forget(&gone, || gone.clone());
    assert_eq!(evidence.len(), 0);
}

/// A poll that tells nothing new is noted with the reply, and collected by whoever looks.
#[tokio::test]
async fn the_last_of_many_polls_counts_with_its_revision_and_agent() {
    let app = TestApp::start().await;
    let told = async || status(&app, DEMO).await["kinds"]["namespaces"]["told"].clone();
    poll_all(&app, DEMO_DNS).await;
    let first = told().await;
    // Nothing that the cluster is told changes.
    app.post("/namespaces", &json!({"id": "unused"})).await.expect(201);
    // The clock has milliseconds.
    let again = loop {
        poll(&app, DEMO_DNS, "namespaces").await;
        let again = told().await;
        if again["at"] != first["at"] {
            break again;
        }
    };
    assert_eq!(
        (&again["revision"], &again["digest"], &again["since"]),
        (&json!(2), &first["digest"], &first["since"])
    );
    let last = status(&app, DEMO).await["last_poll"].clone();
    assert_eq!(last, again["at"]);
    let overview = app.read("/status").await;
    assert_eq!(
        (&overview["clusters"][0]["last_poll"], &overview["clusters"][0]["told"]),
        (&last, &json!(2))
    );

    // Whoever only looks, in either form, changes nothing of that.
    for query in ["", "?marked=true"] {
        app.get(path(DEMO_DNS, &format!("namespaces{query}")))
            .header("user-agent", "curl/8")
            .await
            .expect(200);
    }
    assert_eq!(told().await, again);
    app.get(path(DEMO_DNS, "namespaces?marked=true"))
        .header("user-agent", "flux-operator/v0.60.0")
        .await
        .expect(200);
    assert_eq!(told().await["agent"], "flux-operator/v0.60.0");
}

#[tokio::test]
async fn a_poll_with_the_clusters_own_token_counts_whatever_its_agent() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    app.get(path(DEMO_DNS, "namespaces")).token(&token).await.expect(200);
    assert_eq!(state(&app, DEMO).await, "behind", "it has not asked for its components");
}

#[tokio::test]
async fn a_release_that_fails_and_is_fixed() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    poll_all(&app, DEMO_DNS).await;
    let mark = component_status(&app, DEMO, "podinfo").await["digest"].clone();
    tell(
        &app,
        &token,
        DEMO_DNS,
        "events",
        &event("podinfo", &mark, "error", "UpgradeFailed"),
    )
    .await
    .expect(202);
    let failing = component_status(&app, DEMO, "podinfo").await;
    for (field, value) in [
        ("state", "failing"),
        ("reason", "UpgradeFailed"),
        ("message", "Helm says why"),
        ("object", "HelmRelease/flux-system/podinfo"),
        ("version", "6.7.1"),
        ("evidence", "event"),
    ] {
        assert_eq!(failing[field], value, "{failing}");
    }
    assert_eq!(state(&app, DEMO).await, "failing");
    let seen = app.read(&format!("/clusters/{DEMO}/status?events=1")).await["events"].clone();
    for (field, value) in [
        ("object", "HelmRelease/flux-system/podinfo"),
        ("input", "platform-components/podinfo"),
        ("health", "failing"),
        ("message", "Helm says why"),
    ] {
        assert_eq!(seen[0][field], value, "{seen}");
    }
    let causes = app.read("/status/causes").await;
    assert_eq!(
        (&causes["causes"][0]["component"], &causes["causes"][0]["clusters"]),
        (&json!("podinfo"), &json!(1))
    );
    for (query, found) in [
        ("reason=UpgradeFailed", 1),
        (
            "kind=platform-components&component=podinfo&reason=UpgradeFailed&version=6.7.1",
            1,
        ),
        (
            "kind=platform-components&component=podinfo&reason=UpgradeFailed&version=6.7.0",
            0,
        ),
        ("kind=platform-components&component=podinfo&reason=InstallFailed", 0),
        ("kind=platform-components&component=traefik&reason=UpgradeFailed", 0),
        ("version=6.7.1&limit=0", 1),
        ("reason=InstallFailed&limit=0", 0),
    ] {
        assert_eq!(app.read(&format!("/status?{query}")).await["total"], found, "{query}");
    }

    // Another content is not known to fail; and the same failure of the old one, told again, changes nothing.
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
        .await
        .expect(200);
    assert_eq!(state(&app, DEMO).await, "behind");
    tell(
        &app,
        &token,
        DEMO_DNS,
        "events",
        &event("podinfo", &mark, "error", "UpgradeFailed"),
    )
    .await
    .expect(202);
    poll_all(&app, DEMO_DNS).await;
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "told");
    let mark = component_status(&app, DEMO, "podinfo").await["digest"].clone();
    tell(
        &app,
        &token,
        DEMO_DNS,
        "events",
        &event("podinfo", &mark, "info", "UpgradeSucceeded"),
    )
    .await
    .expect(202);
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "converged");
}

#[tokio::test]
async fn a_report_says_what_is() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    poll_all(&app, DEMO_DNS).await;
    for (ready, expected) in [
        (json!(false), "failing"),
        (json!(null), "told"),
        (json!(true), "converged"),
    ] {
        let report = report(&app, DEMO_DNS, &ready).await;
        tell(&app, &token, DEMO_DNS, "report", &report).await.expect(202);
        assert_eq!(state(&app, DEMO).await, expected);
    }
    let status = status(&app, DEMO).await;
    assert_eq!(status["reporter"], "flux-resourceset-reporter/0.1.0");
    assert_eq!(status["kinds"]["platform-components"]["inputs"][0]["version"], "1.0.0");
    // One that is parsed apart counts as well, and is refused with its place.
    let mut large = report(&app, DEMO_DNS, &json!(true)).await;
    large["objects"][0]["message"] = "x".repeat(100_000).into();
    tell(&app, &token, DEMO_DNS, "report", &large).await.expect(202);
    large["objects"][0]["input"] = format!("platform-components/{}", "x".repeat(1000)).into();
    let refused = tell(&app, &token, DEMO_DNS, "report", &large)
        .await
        .problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/objects/0/input");
    // A part of a report changes what it names.
    let one = json!({"full": false, "at": status::now().to_string(), "objects": [{"kind": "HelmRelease", "namespace": "flux-system",
        "name": "podinfo", "deleted": true}]});
    tell(&app, &token, DEMO_DNS, "report", &one).await.expect(202);
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "told");
    assert_eq!(component_status(&app, DEMO, "traefik").await["state"], "converged");
}

/// An event about the chart of a component's release, which does not say what it comes from.
async fn chart_fails(app: &TestApp, component: &str) -> Value {
    let manifests = app.get(format!("/clusters/{DEMO}/manifests"));
    let manifests = manifests.header("accept", "application/json").await.expect(200).json();
    let releases = manifests["items"].as_array().unwrap().iter();
    let mut releases = releases.filter(|object| object["kind"] == "HelmRelease");
    let name = |release: &Value, field: &str| release["metadata"][field].as_str().unwrap().to_owned();
    let release = releases
        .find(|release| name(release, "name").ends_with(component))
        .unwrap();
    let chart = format!("{}-{}", name(release, "namespace"), name(release, "name"));
    json!({
        "involvedObject": {"kind": "HelmChart", "namespace": "flux-system", "name": chart, "resourceVersion": "1"},
        "severity": "error", "reason": "InvalidChartReference", "message": "no such version",
        "timestamp": status::now().to_string(),
    })
}

/// The event has an input.
async fn found(app: &TestApp) {
    until("the event has an input", || {
        let (_, status) = app.app.cluster_status(DEMO).unwrap();
        let mut inputs = status.kinds.iter().flat_map(|kind| &kind.inputs);
        let failing = inputs.find(|input| input.state == State::Failing);
        let reason = failing.and_then(|input| input.seen.as_ref()).map(|seen| &*seen.reason);
        reason == Some("InvalidChartReference") && status.objects.is_empty()
    })
    .await;
}

#[tokio::test]
async fn an_event_without_a_mark_finds_its_input_by_what_the_cluster_renders() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    poll_all(&app, DEMO_DNS).await;
    let event = chart_fails(&app, "podinfo").await;
    tell(&app, &token, DEMO_DNS, "events", &event).await.expect(202);
    assert_eq!(state(&app, DEMO).await, "failing", "whatever it belongs to");
    found(&app).await;
    // It stays so, however often the cluster polls.
    poll_all(&app, DEMO_DNS).await;
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "failing");
}

#[tokio::test]
async fn a_failure_of_the_old_content_is_none_of_the_content_that_repairs_it() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    poll_all(&app, DEMO_DNS).await;
    // The event comes between the write and the poll that tells of it.
    let event = chart_fails(&app, "podinfo").await;
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
        .await
        .expect(200);
    tell(&app, &token, DEMO_DNS, "events", &event).await.expect(202);
    found(&app).await;
    poll_all(&app, DEMO_DNS).await;
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "told");
    // Told of it, the chart fails still.
    let event = chart_fails(&app, "podinfo").await;
    tell(&app, &token, DEMO_DNS, "events", &event).await.expect(202);
    found(&app).await;
}

#[tokio::test]
async fn foreign_oversized_and_broken_evidence_is_refused() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("other")).await.expect(201);
    let own = token(&app, DEMO).await;
    let body = event("podinfo", &json!("0123456789abcdef"), "error", "UpgradeFailed");
    for what in ["events", "report"] {
        tell(&app, &own, "other.k8s.example.com", what, &body)
            .await
            .problem(403, "forbidden");
        tell(&app, &own, "nobody.example.com", what, &body)
            .await
            .problem(403, "forbidden");
        tell(&app, WRITE, "nobody.example.com", what, &body)
            .await
            .problem(404, "not-found");
        tell(&app, "wrong", DEMO_DNS, what, &body)
            .await
            .problem(401, "unauthorized");
        app.post(path(DEMO_DNS, what), &body)
            .token(crate::support::READ)
            .await
            .problem(403, "forbidden");
        app.get(path(DEMO_DNS, what))
            .token(WRITE)
            .await
            .problem(405, "method-not-allowed");
        let broken = app.post(path(DEMO_DNS, what), &json!([])).token(&own);
        broken.await.problem(400, "bad-request");
    }
    let large = "x".repeat(70_000);
    let mut long = body.clone();
    long["message"] = large.into();
    tell(&app, &own, DEMO_DNS, "events", &long)
        .await
        .problem(413, "too-large");
    let mut wrong = body.clone();
    wrong["severity"] = "odd".into();
    let refused = tell(&app, &own, DEMO_DNS, "events", &wrong)
        .await
        .problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/severity");
    assert_eq!(state(&app, DEMO).await, "never");
    assert_eq!(state(&app, "other").await, "never");
}

#[tokio::test]
async fn states_are_listed_the_worst_first() {
    let app = TestApp::start().await;
    for id in ["a", "b", "c"] {
        let mut cluster = bare(id);
        cluster["environment"] = "prod".into();
        app.post("/clusters", &cluster).await.expect(201);
    }
    poll_all(&app, DEMO_DNS).await;
    for id in ["b", "c"] {
        poll_all(&app, &format!("{id}.k8s.example.com")).await;
    }
    let token = token(&app, "c").await;
    let stray = json!({"involvedObject": {"kind": "Kustomization", "namespace": "x", "name": "y"}, "severity": "error",
        "reason": "BuildFailed", "timestamp": status::now().to_string()});
    tell(&app, &token, "c.k8s.example.com", "events", &stray)
        .await
        .expect(202);

    let all = app.get("/status").await.expect(200);
    assert_eq!((all.header("x-total-count"), all.header("x-revision")), ("4", "5"));
    let all = all.json();
    let order = |list: &Value| -> Vec<(String, String)> {
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        let rows = list["clusters"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "id"), text(row, "state"))).collect()
    };
    let pair = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    assert_eq!(
        order(&all),
        [
            pair("c", "failing"),
            pair("a", "never"),
            pair(DEMO, "told"),
            pair("b", "converged")
        ]
    );
    assert_eq!(
        all["counts"],
        json!({"failing": 1, "silent": 0, "never": 1, "behind": 0, "told": 1, "converged": 1})
    );
    assert_eq!(all["by_environment"]["prod"]["never"], 1);

    let some = app
        .read("/status?selector=environment%3Dprod&state=failing,never&limit=1&offset=1")
        .await;
    assert_eq!((order(&some), &some["total"]), (vec![pair("a", "never")], &json!(2)));
    assert_eq!(
        some["counts"]["converged"], 1,
        "counts are of all that the selector matches"
    );
    let counts = app.read("/status?limit=0").await;
    assert_eq!((&counts["clusters"], &counts["counts"]), (&json!([]), &all["counts"]));

    let podinfo = app.read("/status?kind=component&component=podinfo").await;
    assert_eq!(order(&podinfo), [pair(DEMO, "told")]);
    assert_eq!(podinfo["clusters"][0]["input"]["id"], "podinfo");
    for bad in ["state=odd", "kind=odd", "limit=-1", "colour=red", "selector=a%20in%20("] {
        app.get(format!("/status?{bad}")).await.problem(400, "bad-request");
    }
    app.get("/status?component=odd").await.problem(404, "not-found");
}

#[tokio::test]
async fn silence_is_noticed() {
    let mut setup = Setup::default();
    setup.config.silent_after = Duration::from_millis(50);
    let app = setup.start().await;
    poll_all(&app, DEMO_DNS).await;
    until("it is silent", || {
        let (_, status) = app.app.cluster_status(DEMO).unwrap();
        status.state == State::Silent
    })
    .await;
    poll_all(&app, DEMO_DNS).await;
    assert_ne!(state(&app, DEMO).await, "never");
}

#[tokio::test]
async fn how_far_a_change_has_come() {
    let app = TestApp::start().await;
    app.post("/platform_components", &component("web")).await.expect(201);
    for id in ["a", "b", "pinned"] {
        let mut cluster = bare(id);
        cluster["platform_components"] = json!([{"id": "web"}]);
        if id == "pinned" {
            cluster["platform_components"][0]["oci_tag"] = "0.9.0".into();
        }
        app.post("/clusters", &cluster).await.expect(201);
        poll_all(&app, &format!("{id}.k8s.example.com")).await;
    }
    app.patch("/platform_components/web", &json!({"oci_tag": "2.0.0"}))
        .await
        .expect(200);
    let revision = app.revision();
    let of = |affected, told, converged, failing, behind| {
        json!({"revision": revision, "affected": affected, "told": told, "converged": converged, "failing": failing,
            "silent": 0, "behind": behind})
    };
    let progress = async || app.read(&format!("/revisions/{revision}/status")).await;
    assert_eq!(progress().await, of(2, 0, 0, 0, 2));
    poll_all(&app, "a.k8s.example.com").await;
    assert_eq!(progress().await, of(2, 1, 0, 0, 1));
    let token = token(&app, "a").await;
    let mark = component_status(&app, "a", "web").await["digest"].clone();
    let dns = "a.k8s.example.com";
    tell(
        &app,
        &token,
        dns,
        "events",
        &event("web", &mark, "error", "UpgradeFailed"),
    )
    .await
    .expect(202);
    assert_eq!(progress().await, of(2, 0, 0, 1, 1));
    tell(
        &app,
        &token,
        dns,
        "events",
        &event("web", &mark, "info", "UpgradeSucceeded"),
    )
    .await
    .expect(202);
    assert_eq!(progress().await, of(2, 0, 1, 0, 1));
    // Who is missing, and of some clusters only.
    let who = app.read(&format!("/revisions/{revision}/status?limit=9")).await;
    let missing =
        json!({"id": "b", "dns": "b.k8s.example.com", "environment": "dev", "state": "behind", "told": false});
    assert_eq!(who["clusters"], json!([missing]));
    let some = app
        .read(&format!("/revisions/{revision}/status?selector=id%3Da&limit=9"))
        .await;
    assert_eq!(
        (&some["affected"], &some["converged"], &some["clusters"]),
        (&json!(1), &json!(1), &json!([]))
    );
    for bad in ["selector=a%20in%20(", "limit=x", "colour=red"] {
        app.get(format!("/revisions/{revision}/status?{bad}"))
            .await
            .problem(400, "bad-request");
    }
    for none in ["/revisions/0/status", "/revisions/999/status", "/revisions/x/status"] {
        app.get(none).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn an_old_failure_without_a_mark_is_not_one_of_the_change() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    poll_all(&app, DEMO_DNS).await;
    let plain = |mut event: Value| {
        event["metadata"].as_object_mut().unwrap().remove("desired");
        event
    };
    let failure = plain(event("podinfo", &json!(null), "error", "UpgradeFailed"));
    tell(&app, &token, DEMO_DNS, "events", &failure).await.expect(202);
    assert_eq!(component_status(&app, DEMO, "podinfo").await["state"], "failing");
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
        .await
        .expect(200);
    let path = format!("/revisions/{}/status", app.revision());
    let repaired = app.read(&path).await;
    assert_eq!((&repaired["failing"], &repaired["behind"]), (&json!(0), &json!(1)));
    poll_all(&app, DEMO_DNS).await;
    let failure = plain(event("podinfo", &json!(null), "error", "UpgradeFailed"));
    tell(&app, &token, DEMO_DNS, "events", &failure).await.expect(202);
    assert_eq!(app.read(&path).await["failing"], 1, "told, and it fails still");
}

#[tokio::test]
async fn a_reporter_waits_for_the_replies_of_its_cluster() {
    let app = TestApp::start().await;
    let token = token(&app, DEMO).await;
    let changed = async |query: &str| {
        let call = app.get(path(DEMO_DNS, &format!("changed{query}"))).token(&token);
        call.await.expect(200).json()
    };
    let first = changed("").await;
    assert_eq!(first["paths"].as_object().unwrap().len(), 3);
    let since = first["since"].as_str().unwrap();
    assert_eq!(changed(&format!("?since={since}&timeout=0")).await, first);
    let query = format!("?since={since}&timeout=60");
    let wait = changed(&query);
    let write = async {
        // Another cluster's change does not end it.
        app.post("/clusters", &bare("other")).await.expect(201);
        app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
            .await
            .expect(200);
    };
    let (second, ()) = tokio::join!(wait, write);
    assert_ne!(
        second["paths"]["platform-components"],
        first["paths"]["platform-components"]
    );
    assert_eq!(second["paths"]["namespaces"], first["paths"]["namespaces"]);
    app.get(path("other.k8s.example.com", "changed"))
        .token(&token)
        .await
        .problem(403, "forbidden");
    app.get(path("nobody.example.com", "changed"))
        .token(WRITE)
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_revoked_token_learns_nothing_at_the_end_of_its_wait() {
    let app = TestApp::start().await;
    let issued = app
        .post(format!("/clusters/{DEMO}/token"), &json!({}))
        .await
        .expect(201);
    let issued = issued.json();
    let token = issued["token"].as_str().unwrap();
    let first = app.get(path(DEMO_DNS, "changed")).token(token).await.expect(200).json();
    let query = format!("changed?since={}&timeout=60", first["since"].as_str().unwrap());
    let wait = async { app.get(path(DEMO_DNS, &query)).token(token).await };
    let revoke = async {
        let path = format!("/identities/cluster:{DEMO}/tokens/{}", issued["id"].as_str().unwrap());
        app.delete(path).await.expect(204);
        app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.9.9"}))
            .await
            .expect(200);
    };
    let (waited, ()) = tokio::join!(wait, revoke);
    waited.problem(401, "unauthorized");
}

#[tokio::test]
async fn followers_learn_who_changed() {
    let app = TestApp::start().await;
    let response = app.get("/status/stream").response().await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    app.app.look();
    poll_all(&app, DEMO_DNS).await;
    app.app.look();
    let mut text = String::new();
    while !text.contains("event: cluster") {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    assert!(text.contains("event: counts"), "{text}");
    assert!(
        text.contains(r#""before":"never""#) && text.contains(r#""state":"told""#),
        "{text}"
    );
    let summary = app.app.transitions.summary();
    assert_eq!(summary.counts.of(State::Told), 1);
    let metrics = app.get("/metrics").await.expect(200);
    let line = r#"flux_resourceset_cluster_states{state="told",environment="dev"} 1"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn a_cluster_that_is_created_again_has_no_history() {
    let app = TestApp::start().await;
    poll_all(&app, DEMO_DNS).await;
    app.app.look();
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    app.app.look();
    app.delete(format!("/decommissions/{DEMO_DNS}")).await.expect(204);
    app.post("/clusters", &bare(DEMO)).await.expect(201);
    assert_eq!(state(&app, DEMO).await, "never");
}
