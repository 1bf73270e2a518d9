//! Identities over HTTP: tokens that come and go, registration, and what is never shown.

use axum::http::Method;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, READ, Setup, TestApp, WRITE, bare, pointers};

fn document(role: &str) -> Value {
    let scope = match role {
        "operator" => json!({"clusters": "environment=dev", "kinds": ["namespaces", "rollouts"], "approve": true}),
        "join" => {
            json!({"dns_suffix": ".k8s.example.com", "uses": 2, "environments": ["dev"], "labels": {"ring": "edge"}})
        }
        _ => return json!({"id": role, "role": role}),
    };
    json!({"id": role, "role": role, "scope": scope})
}

/// The token of an identity of this role. The cluster is the demo cluster.
pub async fn token_of(app: &TestApp, role: &str) -> String {
    let issued = match role {
        "cluster" => app.post(format!("/clusters/{DEMO}/token"), &json!({})).await,
        role => {
            app.post("/identities", &document(role)).await.expect(201);
            app.post(format!("/identities/{role}/tokens"), &json!({"expires_in": "1h"}))
                .await
        }
    };
    issued.expect(201).json()["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_cluster_polls_its_own_paths_with_its_own_token() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("other")).await.expect(201);
    let token = token_of(&app, "cluster").await;
    assert!(token.starts_with("frs_c_"), "{token}");
    app.poll(DEMO_DNS, "namespaces").token(&token).await.expect(200);
    // Basic authentication, as a provider with `username` and `password` sends it.
    let basic = BASE64_STANDARD.encode(format!("anything:{token}"));
    let call = app
        .poll(DEMO_DNS, "namespaces")
        .header("authorization", &format!("Basic {basic}"));
    call.await.expect(200);
    for dns in ["other.k8s.example.com", "unknown.k8s.example.com"] {
        app.poll(dns, "namespaces")
            .token(&token)
            .await
            .problem(403, "forbidden");
    }
    app.get("/clusters").token(&token).await.problem(403, "forbidden");
    let me = app.get("/whoami").token(&token).await.expect(200).json();
    assert_eq!(
        me,
        json!({"id": format!("cluster:{DEMO}"), "role": "cluster", "scope": null, "expires_at": null})
    );
    // To the end of its decommission.
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    assert_eq!(
        app.poll(DEMO_DNS, "namespaces").token(&token).await.expect(200).json(),
        json!({"inputs": []})
    );
    app.delete(format!("/decommissions/{DEMO_DNS}")).await.expect(204);
    app.poll(DEMO_DNS, "namespaces")
        .token(&token)
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn shared_polls_can_be_turned_off() {
    let mut setup = Setup::default();
    setup.config.shared_polls = false;
    let app = setup.start().await;
    let token = token_of(&app, "cluster").await;
    app.poll(DEMO_DNS, "namespaces").token(&token).await.expect(200);
    for shared in [READ, WRITE] {
        app.poll(DEMO_DNS, "namespaces")
            .token(shared)
            .await
            .problem(403, "forbidden");
        app.get("/api/v2/flux/clusters").token(shared).await.expect(200);
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_its_digest_never() {
    let app = TestApp::start().await;
    let token = token_of(&app, "admin").await;
    let shown = app.get("/identities/admin").token(WRITE).await.expect(200);
    assert!(
        !shown.text().contains("digest") && !shown.text().contains(&token),
        "{}",
        shown.text()
    );
    let id = shown.json()["tokens"][0]["id"].as_str().unwrap().to_owned();
    for path in [
        "/identities",
        "/identities/admin/history",
        "/changes",
        "/changes?kind=identities",
        "/diff?from=0",
        "/diff?from=1",
    ] {
        let reply = app.get(path).token(WRITE).await.expect(200);
        assert!(!reply.text().contains("digest"), "{path}: {}", reply.text());
    }
    let records = app.get("/changes?kind=identities").await.array();
    assert!(
        records
            .iter()
            .all(|record| record["before"].is_null() && record["after"].is_null())
    );
    assert_eq!(records[0]["action"], "create");
    let plan = app.delete("/identities/admin?dry_run=true").await.expect(200);
    assert!(!plan.text().contains("digest"), "{}", plan.text());
    // A backup has them: restoring it must not lock anybody out.
    assert!(
        app.get("/backup")
            .token(WRITE)
            .await
            .expect(200)
            .text()
            .contains("digest")
    );
    app.get("/backup").token(READ).await.problem(403, "forbidden");

    app.delete(format!("/identities/admin/tokens/{id}")).await.expect(204);
    app.get("/whoami").token(&token).await.problem(401, "unauthorized");
    app.delete(format!("/identities/admin/tokens/{id}"))
        .await
        .problem(404, "not-found");
    app.delete("/identities/admin/tokens/nonsense")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_token_that_is_mistyped_expired_or_revoked_is_401_with_the_reason() {
    let app = TestApp::start().await;
    app.post(
        "/identities",
        &json!({"id": "old", "role": "reader", "expires_at": "2020-01-01T00:00:00Z"}),
    )
    .await
    .expect(201);
    let expired = app.post("/identities/old/tokens", &json!({})).await.expect(201).json();
    let detail = |problem: Value| problem["detail"].as_str().unwrap().to_owned();
    let call = |token: &str| app.get("/clusters").token(token);
    let expired = call(expired["token"].as_str().unwrap())
        .await
        .problem(401, "unauthorized");
    assert_eq!(detail(expired), "the token has expired");
    let token = token_of(&app, "reader").await;
    let mistyped = call(&token[..token.len() - 1]).await.problem(401, "unauthorized");
    assert!(detail(mistyped).contains("checksum"));
    app.delete("/identities/reader").await.expect(204);
    assert_eq!(
        detail(call(&token).await.problem(401, "unauthorized")),
        "the token is not valid"
    );
}

#[tokio::test]
async fn the_lifetime_of_a_token_is_checked() {
    let app = TestApp::start().await;
    let path = format!("/clusters/{DEMO}/token");
    for body in [
        json!({"expires_in": "soon"}),
        json!({"expires_in": 3}),
        json!({"expires_in": "0s"}),
        json!({"expires_in": "900y"}),
    ] {
        let problem = app.post(&path, &body).await.problem(422, "invalid");
        assert_eq!(pointers(&problem), ["/expires_in"], "{body}");
    }
    let problem = app.post(&path, &json!({"expires": "1h"})).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/expires"]);
    // The body may be left out.
    app.call(Method::POST, &path).await.expect(201);
    app.post("/clusters/nobody/token", &json!({}))
        .await
        .problem(404, "not-found");
    app.post("/identities/nobody/tokens", &json!({}))
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn an_operator_is_refused_outside_of_its_scope_on_every_kind_of_write() {
    let app = TestApp::start().await;
    app.post("/clusters", &json!({"cluster_name": "p", "cluster_dns": "p.k8s.example.com", "environment": "prod", "namespaces": [{"id": "podinfo"}]}))
        .await
        .expect(201);
    let token = token_of(&app, "operator").await;
    let revision = app.revision();
    let change = json!({"labels": {"a": "b"}});
    let outside = [
        app.patch("/clusters/p", &change),
        app.delete("/clusters/p"),
        app.patch("/platform_components/podinfo", &json!({"oci_tag": "9"})),
        // Within its kinds, and a cluster outside has it.
        app.patch("/namespaces/podinfo", &change),
        app.delete("/namespaces/podinfo?cascade=true"),
        app.post(
            "/batch",
            &json!({"operations": [{"op": "merge", "kind": "clusters", "selector": "*", "value": change}]}),
        ),
        app.post("/rollback", &json!({"revision": 1})),
        app.post("/rollback", &json!({"undo": 2})),
        app.post("/clusters/p/token", &json!({})),
    ];
    for call in outside {
        let reply = call.token(&token).await;
        let what = reply.what.clone();
        let problem = reply.problem(403, "out-of-scope");
        assert!(
            problem["clusters"].is_array() || problem["documents"].is_array(),
            "{what}: {problem}"
        );
    }
    app.post("/identities/operator/tokens", &json!({}))
        .token(&token)
        .await
        .problem(403, "out-of-scope");
    app.put_kind_as("namespaces", "kind: namespaces", &token)
        .await
        .problem(403, "forbidden");
    assert_eq!(app.revision(), revision);
    app.patch(format!("/clusters/{DEMO}"), &change)
        .token(&token)
        .await
        .expect(200);
    app.post(format!("/clusters/{DEMO}/token"), &json!({}))
        .token(&token)
        .await
        .expect(201);
    let records = app.get(format!("/changes?after={revision}")).await.array();
    assert!(
        records.iter().all(|record| record["actor"] == "operator"),
        "{records:?}"
    );
}

#[tokio::test]
async fn a_cluster_registers_itself_within_the_scope_of_the_join_identity() {
    let app = TestApp::start().await;
    let join = token_of(&app, "join").await;
    let body = |name: &str| json!({"cluster_name": name, "cluster_dns": format!("{name}.k8s.example.com"), "environment": "dev"});
    let register = |body: &Value| app.post("/register", body).token(&join);
    for (field, value) in [
        ("environment", json!("prod")),
        ("cluster_dns", json!("edge.elsewhere.com")),
        ("cluster_dns", json!(".k8s.example.com")),
        ("labels", json!({"ring": "core"})),
    ] {
        let mut wrong = body("edge");
        wrong[field] = value;
        register(&wrong).await.problem(403, "out-of-scope");
    }
    register(&body(DEMO)).await.problem(409, "exists");
    app.post("/clusters", &bare("gone")).await.expect(201);
    app.delete("/clusters/gone").await.expect(204);
    register(&body("gone")).await.problem(409, "exists");
    let mut renamed = body("gone");
    renamed["cluster_dns"] = "new.k8s.example.com".into();
    register(&renamed).await.problem(409, "exists");
    let problem = register(&json!({"cluster_name": "x"})).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/cluster_dns", "/environment"]);
    assert!(
        app.get("/identities?role=cluster")
            .token(WRITE)
            .await
            .array()
            .is_empty(),
        "nothing was issued"
    );

    let reply = register(&body("edge")).await.expect(201).json();
    assert_eq!(reply["cluster"]["labels"], json!({"ring": "edge"}));
    let token = reply["token"].as_str().unwrap();
    app.poll("edge.k8s.example.com", "namespaces")
        .token(token)
        .await
        .expect(200);
    let revision = app.revision();
    let records = app.get(format!("/changes?after={}", revision - 1)).await.array();
    assert_eq!(
        records.len(),
        3,
        "the cluster, its identity, and the use, in one revision"
    );
    assert_eq!(records[0]["actor"], "join");

    // A call with a token of its own can be repeated: its response may be lost.
    let mut own = body("late");
    own["token_sha256"] = fleet::identity::Token::digest_of(b"a token of its own")
        .to_string()
        .into();
    assert!(register(&own).await.expect(201).json()["token"].is_null());
    register(&own).await.expect(200);
    app.poll("late.k8s.example.com", "namespaces")
        .token("a token of its own")
        .await
        .expect(200);
    // No plan: it would tell which names exist, and count no use.
    let plan = app.post("/register?dry_run=true", &body("third")).token(&join);
    let problem = plan.await.problem(400, "bad-request");
    assert!(problem["detail"].as_str().unwrap().contains("dry run"), "{problem}");
    // Two uses.
    let problem = register(&body("third")).await.problem(403, "out-of-scope");
    assert!(problem["detail"].as_str().unwrap().contains("used up"), "{problem}");
    app.get("/clusters/third").await.expect(404);
}

#[tokio::test]
async fn a_name_that_a_cluster_gave_up_is_not_registered() {
    let app = TestApp::start().await;
    let join = token_of(&app, "join").await;
    let renamed = json!({"cluster_dns": "renamed.k8s.example.com"});
    app.patch(format!("/clusters/{DEMO}"), &renamed).await.expect(200);
    // The machine of the demo cluster still polls it, and would lose all that it has.
    let body = json!({"cluster_name": "thief", "cluster_dns": DEMO_DNS, "environment": "dev"});
    let register = || {
        app.post("/register", &body)
            .token(&join)
            .header("x-confirm-removals", "9")
    };
    let problem = register().await.problem(409, "exists");
    assert_eq!(pointers(&problem), ["/cluster_dns"]);
    app.delete(format!("/released_names/{DEMO_DNS}")).await.expect(204);
    register().await.expect(201);
}

#[tokio::test]
async fn an_operator_cannot_find_out_which_identities_exist() {
    let app = TestApp::start().await;
    let token = token_of(&app, "operator").await;
    for id in ["operator", "nobody"] {
        let issue = app.post(format!("/identities/{id}/tokens"), &json!({})).token(&token);
        let revoke = app
            .delete(format!("/identities/{id}/tokens/0123456789abcdef"))
            .token(&token);
        for call in [issue, revoke] {
            let problem = call.await.problem(403, "out-of-scope");
            assert_eq!(problem["documents"], json!([format!("identities/{id}")]));
        }
    }
    app.delete(format!("/identities/cluster:{DEMO}/tokens/0123456789abcdef"))
        .token(&token)
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn failures_with_a_token_that_has_expired_are_limited_for_that_token_alone() {
    let app = TestApp::start().await;
    let mut tokens = Vec::new();
    for id in ["one", "two", "good"] {
        let mut identity = json!({"id": id, "role": "reader"});
        if id != "good" {
            identity["expires_at"] = "2020-01-01T00:00:00Z".into();
        }
        app.post("/identities", &identity).await.expect(201);
        let issued = app
            .post(format!("/identities/{id}/tokens"), &json!({}))
            .await
            .expect(201);
        tokens.push(issued.json()["token"].as_str().unwrap().to_owned());
    }
    let ask = |token: &str| app.get("/whoami").token(token);
    // From no address: behind a proxy that is not trusted, all clients share one.
    let mut limited = None;
    for _ in 0..2_000 {
        let reply = ask(&tokens[0]).await;
        if reply.status != 401 {
            limited = Some(reply);
            break;
        }
    }
    let limited = limited.expect("limited after some hundred failures");
    assert!(!limited.header("retry-after").is_empty());
    limited.problem(429, "too-many-failures");
    ask(&tokens[1]).await.problem(401, "unauthorized");
    ask(&tokens[2]).await.expect(200);
}

#[tokio::test]
async fn a_certificate_name_is_not_a_name_of_a_cluster() {
    let app = TestApp::start().await;
    let ann = |dns: &str| json!({"id": "ann", "role": "reader", "certificates": [dns]});
    let problem = app.post("/identities", &ann(DEMO_DNS)).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/certificates/0"]);
    app.post("/identities", &ann("ann.k8s.example.com")).await.expect(201);
    let problem = app.post("/clusters", &bare("ann")).await.problem(409, "exists");
    assert_eq!(pointers(&problem), ["/cluster_dns"]);
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    app.put("/identities/ann", &ann(DEMO_DNS)).await.problem(422, "invalid");
}

#[tokio::test]
async fn nobody_registers_with_an_identity_that_has_expired() {
    let app = TestApp::start().await;
    let mut join = document("join");
    join["expires_at"] = "2020-01-01T00:00:00Z".into();
    app.post("/identities", &join).await.expect(201);
    let issued = app.post("/identities/join/tokens", &json!({})).await.expect(201).json();
    let token = issued["token"].as_str().unwrap();
    let body = json!({"cluster_name": "late", "cluster_dns": "late.k8s.example.com", "environment": "dev"});
    let problem = app
        .post("/register", &body)
        .token(token)
        .await
        .problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
    app.get("/clusters/late").await.expect(404);
    app.get("/whoami").token(token).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn identities_survive_a_restart_and_stay_out_of_a_rollback() {
    let setup = Setup::default().sqlite();
    let app = setup.start().await;
    let token = token_of(&app, "cluster").await;
    let app = app.restart().await;
    app.poll(DEMO_DNS, "namespaces").token(&token).await.expect(200);
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    app.poll(DEMO_DNS, "namespaces").token(&token).await.expect(200);
}

#[tokio::test]
async fn an_identity_without_tokens_can_be_changed() {
    let app = TestApp::start().await;
    app.post("/identities", &document("reader")).await.expect(201);
    let shown = app.get("/identities/reader").token(WRITE).await.expect(200).json();
    assert_eq!(shown, document("reader"));
    let change = json!({"description": "dashboards"});
    let changed = app.patch("/identities/reader", &change).await.expect(200).json();
    assert_eq!(changed["description"], "dashboards");
    app.put("/identities/reader", &shown).await.expect(200);
}
