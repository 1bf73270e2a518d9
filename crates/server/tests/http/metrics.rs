//! What Prometheus sees.

use flux_resourceset::http;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::support::{DEMO_DNS, READ, Setup, TestApp, bare};

async fn metrics(app: &TestApp) -> String {
    let reply = app.get("/metrics").token(READ).await.expect(200);
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    reply.text().to_owned()
}

#[tokio::test]
async fn who_asks_for_open_metrics_gets_them() {
    let app = TestApp::start().await;
    metrics(&app).await;
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let reply = app
        .get("/metrics")
        .token(READ)
        .header("accept", accept)
        .await
        .expect(200);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), kind);
    let (open, classic) = (reply.text().to_owned(), metrics(&app).await);
    assert!(open.contains("\n# TYPE flux_resourceset_writes counter\n"), "{open}");
    assert!(
        classic.contains("\n# TYPE flux_resourceset_writes_total counter\n"),
        "{classic}"
    );
    assert!(open.ends_with("# EOF\n") && !classic.contains("# EOF"));
    let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples(&open), samples(&classic));
}

/// The value of the one sample whose name and labels are these.
#[track_caller]
fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |line: &&str| {
        let name_of = line.split(['{', ' ']).next().unwrap_or_default();
        name_of == name
            && labels
                .iter()
                .all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
    };
    let found: Vec<_> = text.lines().filter(fits).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?} in:\n{text}");
    found[0].rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn polls_are_counted_by_kind_and_status() {
    let app = TestApp::start().await;
    let etag = app.poll(DEMO_DNS, "namespaces").await.etag();
    app.poll(DEMO_DNS, "namespaces").await.expect(200);
    app.poll(DEMO_DNS, "namespaces")
        .header("if-none-match", &etag)
        .await
        .expect(304);
    app.poll("unknown.example.com", "namespaces").await.expect(404);
    app.poll(DEMO_DNS, "made-up-1").await.expect(404);
    app.poll(DEMO_DNS, "made-up-2").await.expect(404);
    app.get("/api/v2/flux/clusters").await.expect(200);
    app.get("/api/v2/flux/clusters?x=1").await.expect(400);
    let text = metrics(&app).await;
    let polls = |kind, status| {
        sample(
            &text,
            "flux_resourceset_polls_total",
            &[("kind", kind), ("status", status)],
        )
    };
    assert_eq!(polls("namespaces", "200"), 2.0);
    assert_eq!(polls("namespaces", "304"), 1.0);
    assert_eq!(polls("namespaces", "404"), 1.0);
    assert_eq!(polls("none", "404"), 2.0);
    assert_eq!(polls("clusters", "200"), 1.0);
    assert_eq!(polls("clusters", "400"), 1.0);
    assert_eq!(sample(&text, "flux_resourceset_poll_duration_seconds_count", &[]), 8.0);
    assert!(!text.contains("made-up"), "labels are not anybody's to make up");
}

#[tokio::test]
async fn writes_refusals_and_revisions_are_counted() {
    let app = TestApp::start().await;
    let before = metrics(&app).await;
    assert_eq!(sample(&before, "flux_resourceset_revision", &[]), 1.0);
    assert_eq!(sample(&before, "flux_resourceset_clusters", &[]), 1.0);
    app.post("/clusters", &bare("c")).await.expect(201);
    app.post("/clusters", &bare("c")).await.problem(409, "exists");
    app.post("/namespaces", &json!({"id": "UPPER"}))
        .await
        .problem(422, "invalid");
    app.post("/namespaces", &json!({"id": "UPPER2"}))
        .await
        .problem(422, "invalid");
    app.delete("/namespaces/podinfo").await.problem(409, "in-use");
    app.delete("/namespaces/podinfo")
        .header("if-match", "\"x\"")
        .await
        .problem(412, "stale");
    let text = metrics(&app).await;
    assert_eq!(sample(&text, "flux_resourceset_revision", &[]), 2.0);
    assert_eq!(sample(&text, "flux_resourceset_clusters", &[]), 2.0);
    assert_eq!(sample(&text, "flux_resourceset_writes_total", &[]), 1.0);
    assert_eq!(sample(&text, "flux_resourceset_commits_total", &[]), 1.0);
    let refusals = |reason| sample(&text, "flux_resourceset_refusals_total", &[("reason", reason)]);
    assert_eq!((refusals("exists"), refusals("invalid")), (1.0, 2.0));
    assert_eq!((refusals("in-use"), refusals("stale")), (1.0, 1.0));
    let labels = [("method", "POST"), ("route", "/{kind}"), ("status", "201")];
    assert_eq!(sample(&text, "flux_resourceset_requests_total", &labels), 1.0);
    assert!(sample(&text, "flux_resourceset_snapshot_age_seconds", &[]) < 60.0);
}

#[tokio::test]
async fn authentication_failures_are_counted_by_reason() {
    let app = TestApp::start().await;
    app.get("/clusters").without_token().await.expect(401);
    app.poll(DEMO_DNS, "namespaces").without_token().await.expect(401);
    app.get("/clusters").token("wrong").await.expect(401);
    app.delete("/clusters/x").token(READ).await.expect(403);
    app.get("/metrics").without_token().await.expect(401);
    let text = metrics(&app).await;
    let failures = |reason| {
        sample(
            &text,
            "flux_resourceset_authentication_failures_total",
            &[("reason", reason)],
        )
    };
    assert_eq!(
        (failures("missing"), failures("unknown"), failures("forbidden")),
        (3.0, 1.0, 1.0)
    );
    assert!(!text.contains("wrong") && !text.contains(READ), "tokens never appear");
}

#[tokio::test]
async fn dangling_references_are_counted() {
    let mut cluster = bare("c");
    cluster["namespaces"] = json!([{"id": "lost"}, {"id": "found"}]);
    let mut other = bare("d");
    other["namespaces"] = json!([{"id": "lost"}]);
    let seed = json!({"clusters": [cluster, other], "namespaces": [{"id": "found"}]});
    let app = Setup::default().seed(&seed).start().await;
    assert_eq!(
        sample(&metrics(&app).await, "flux_resourceset_dangling_references", &[]),
        2.0
    );
    assert_eq!(app.input_ids("c.k8s.example.com", "namespaces").await, ["found"]);
    app.post("/namespaces", &json!({"id": "lost"})).await.expect(201);
    assert_eq!(
        sample(&metrics(&app).await, "flux_resourceset_dangling_references", &[]),
        0.0
    );
}

#[tokio::test]
async fn an_address_of_their_own_serves_metrics_without_a_token_and_nothing_else() {
    let app = TestApp::start().await;
    app.poll(DEMO_DNS, "namespaces").await.expect(200);
    let ask = async |path: &str| {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = http::metrics(app.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, text) = ask("/metrics").await;
    assert_eq!(status, 200);
    assert_eq!(
        sample(
            &text,
            "flux_resourceset_polls_total",
            &[("kind", "namespaces"), ("status", "200")]
        ),
        1.0
    );
    for path in ["/clusters", "/api/v2/flux/clusters", "/kinds", "/"] {
        assert_eq!(ask(path).await.0, 404, "{path}");
    }
}
