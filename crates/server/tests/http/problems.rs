//! Each class of problem as a client sees it.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Call, DEMO, READ, Reply, TestApp, bare, pretty};

/// A refusal as a snapshot shows it: the request, the status, the headers that matter, the body.
fn shown(reply: &Reply) -> String {
    let mut text = format!("{}\n{} {}\n", reply.what, reply.status, reply.header("content-type"));
    for name in ["allow", "www-authenticate", "retry-after"] {
        if reply.headers.contains_key(name) {
            text.push_str(&format!("{name}: {}\n", reply.header(name)));
        }
    }
    text.push_str(&pretty(&reply.json()));
    text
}

/// Sends each request, and joins what comes back.
async fn all(calls: Vec<Call>) -> String {
    let mut texts = Vec::new();
    for call in calls {
        let reply = call.await;
        assert!((400..500).contains(&reply.status), "{}: {}", reply.what, reply.text());
        assert_eq!(
            reply.header("content-type"),
            "application/problem+json",
            "{}",
            reply.what
        );
        let problem = reply.json();
        for field in ["type", "title", "detail"] {
            assert!(
                problem[field].as_str().is_some_and(|text| !text.is_empty()),
                "{}: {problem}",
                reply.what
            );
        }
        assert_eq!(problem["status"], reply.status);
        texts.push(shown(&reply));
    }
    texts.join("\n\n")
}

#[tokio::test]
async fn requests_that_cannot_be_read() {
    let app = TestApp::start().await;
    let text = |body: &'static str| app.post("/namespaces", &json!({})).content("application/json", body);
    let calls = vec![
        text("{\"id\": "),
        text(""),
        app.post("/namespaces", &json!({})).yaml("id: [\n"),
        app.post("/batch", &json!({})).content("application/json", "[1,"),
        app.get("/clusters?enviroment=dev"),
        app.get("/clusters?limit=many"),
        app.get("/clusters?selector=environment%20is%20dev"),
        app.get("/clusters?environment=production"),
        app.get("/api/v2/flux/clusters?shard=4/4"),
        app.get("/api/v2/flux/clusters?selector=tier=gold"),
        app.get("/namespaces/%FF"),
        app.delete("/namespaces/podinfo?dry_run=perhaps"),
    ];
    insta::assert_snapshot!("400", all(calls).await);
}

#[tokio::test]
async fn requests_without_a_right() {
    let app = TestApp::start().await;
    let calls = vec![
        app.get("/clusters").without_token(),
        app.get("/clusters").token("wrong"),
        app.delete(format!("/clusters/{DEMO}")).token(READ),
    ];
    insta::assert_snapshot!("401_403", all(calls).await);
}

#[tokio::test]
async fn what_is_not_there() {
    let app = TestApp::start().await;
    let calls = vec![
        app.get("/gadgets"),
        app.post("/gadgets", &json!({})),
        app.get("/namespaces/nope"),
        app.put("/namespaces/nope", &json!({})),
        app.delete("/namespaces/nope"),
        app.delete("/gadgets/nope"),
        app.get("/kinds/gadgets"),
        app.poll("nope.example.com", "namespaces"),
        app.poll("demo-cluster-01.k8s.example.com", "gadgets"),
        app.get("/a/b/c/d"),
        app.post(
            "/batch",
            &json!({"operations": [
                {"op": "delete", "kind": "namespaces", "id": "nope"},
                {"op": "merge", "kind": "gadgets", "id": "x", "value": {}},
                {"op": "assign", "kind": "namespaces", "id": "podinfo", "cluster": "nope"},
            ]}),
        ),
    ];
    insta::assert_snapshot!("404", all(calls).await);
}

#[tokio::test]
async fn methods_that_mean_nothing() {
    let app = TestApp::start().await;
    let calls = vec![
        app.call(Method::DELETE, "/clusters"),
        app.call(Method::POST, format!("/clusters/{DEMO}")),
        app.call(Method::PATCH, "/kinds/namespaces"),
        app.call(Method::POST, "/kinds"),
        app.call(Method::GET, "/batch"),
        app.call(Method::POST, "/changes"),
        app.call(Method::PUT, "/health"),
        app.call(Method::POST, "/api/v2/flux/clusters"),
        app.call(Method::PUT, "/decommissions/x"),
    ];
    insta::assert_snapshot!("405", all(calls).await);
}

#[tokio::test]
async fn what_clashes_with_what_is_there() {
    let app = TestApp::start().await;
    let mut same_dns = bare("other");
    same_dns["cluster_dns"] = "DEMO-cluster-01.k8s.example.com".into();
    let mut protected = bare("protected");
    protected["protected"] = true.into();
    app.post("/clusters", &protected).await.expect(201);
    let calls = vec![
        app.post("/namespaces", &json!({"id": "podinfo"})),
        app.post("/clusters", &same_dns),
        app.delete("/namespaces/podinfo"),
        app.delete("/platform_components/traefik?cascade=true"),
        app.delete("/kinds/namespaces"),
        app.delete("/kinds/clusters"),
        app.delete("/clusters/protected"),
        app.post(
            "/batch",
            &json!({"operations": [
                {"op": "delete", "kind": "rolebindings", "id": "dev-readers"},
            ]}),
        ),
    ];
    insta::assert_snapshot!("409", all(calls).await);
}

#[tokio::test]
async fn what_was_changed_by_somebody_else() {
    let app = TestApp::start().await;
    let stale = "\"00000000000000000000000000000000\"";
    let calls = vec![
        app.put("/namespaces/podinfo", &json!({})).header("if-match", stale),
        app.delete("/namespaces/podinfo").header("if-match", stale),
        app.post(
            "/batch",
            &json!({"operations": [
                {"op": "merge", "kind": "namespaces", "id": "traefik", "value": {}},
                {"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {}, "if_match": stale},
            ]}),
        ),
    ];
    insta::assert_snapshot!("412", all(calls).await);
}

#[tokio::test]
async fn bodies_that_are_too_large_or_of_a_kind_that_is_not_known() {
    let app = TestApp::start().await;
    let document = " ".repeat((1 << 20) + 1);
    let calls = vec![
        app.post("/namespaces", &json!({}))
            .content("application/json", document.clone()),
        app.patch("/namespaces/podinfo", &json!({}))
            .content("application/json", document.clone()),
        app.call(Method::PUT, "/kinds/things").yaml(&document),
        app.post("/batch", &json!({}))
            .content("application/json", " ".repeat((32 << 20) + 1)),
    ];
    insta::assert_snapshot!("413", all(calls).await);
    let calls = vec![
        app.post("/namespaces", &json!({}))
            .content("application/x-www-form-urlencoded", "id=x"),
        app.patch("/namespaces/podinfo", &json!({}))
            .content("application/yaml", "labels: {}"),
        app.post("/batch", &json!({})).content("text/plain", "{}"),
        app.post("/batch", &json!({})).header("content-encoding", "gzip"),
    ];
    insta::assert_snapshot!("415", all(calls).await);
}

#[tokio::test]
async fn documents_that_are_invalid() {
    let app = TestApp::start().await;
    let cluster = json!({
        "id": "Bad Id",
        "cluster_name": "ok",
        "cluster_dns": "no_underscores.example.com",
        "environment": "production",
        "labels": {"a b": "c", "environment": "dev"},
        "node_count": "three",
        "namespaces": [{"id": "podinfo"}, {"name": "traefik"}],
        "patches": {"podinfo": {"replicas": [1]}},
        "extra": true,
    });
    app.post("/clusters", &bare("empty")).await.expect(201);
    let mut component = json!({"id": "loop", "component_path": "x", "oci_url": "https://x", "oci_tag": "1"});
    component["depends_on"] = json!(["loop", "nope"]);
    let calls = vec![
        app.post("/clusters", &cluster),
        app.post("/clusters", &json!([])),
        app.post("/platform_components", &component),
        app.put("/namespaces/podinfo", &json!({"id": "other"})),
        app.patch("/clusters/empty", &json!({"namespaces": [{"id": "podinfo"}, {"id": "nope"}]})),
        app.put(format!("/clusters/{DEMO}"), &bare(DEMO)),
        app.patch("/namespaces/podinfo", &json!([{"op": "remove", "path": "/x"}]))
            .header("content-type", "application/json-patch+json"),
        app.call(Method::PUT, "/kinds/things").yaml("kind: things\nschema: {properties: {a: {type: text}, cluster: {}}}"),
        app.call(Method::PUT, "/kinds/thing").yaml("kind: thing\nschema: {properties: {a: {type: string}}}"),
        app.post("/batch", &json!({"operation": [], "reason": 7})),
        app.post("/batch", &json!({"operations": [
            {"op": "create", "kind": "namespaces", "value": {"id": "a", "labels": {"x": 1}}},
            {"op": "upsert", "kind": "namespaces", "id": "b"},
            {"op": "delete", "kind": "namespaces"},
            {"op": "merge", "kind": "clusters", "id": "x", "selector": "*", "value": {}},
        ]})),
        app.post("/batch", &json!({"operations": [
            {"op": "merge", "kind": "clusters", "selector": "tier=gold", "value": {}},
            {"op": "merge", "kind": "clusters", "selector": "", "value": {}},
            {"op": "assign", "kind": "platform_components", "id": "podinfo", "cluster": DEMO, "value": {"oci_tag": 7}},
            {"op": "create", "kind": "namespaces", "value": {"id": "UPPER"}},
        ]})),
    ];
    insta::assert_snapshot!("422", all(calls).await);
}

#[tokio::test]
async fn replies_that_would_break_the_contract() {
    let app = TestApp::start().await;
    let references: Vec<Value> = vec![json!({"id": "podinfo"}); 2];
    let calls = vec![
        app.patch(format!("/clusters/{DEMO}"), &json!({"namespaces": references}))
            .header("content-type", "application/merge-patch+json"),
    ];
    insta::assert_snapshot!("contract", all(calls).await);
}
