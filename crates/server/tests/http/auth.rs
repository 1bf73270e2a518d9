//! Who may do what. Every route of the OpenAPI document is walked, so that none can be forgotten.

use axum::http::Method;
use flux_resourceset::config::TokenSource;
use serde_json::{Value, json};

use crate::support::{Call, DEMO_DNS, READ, Setup, TestApp, WRITE};

/// An operation of the OpenAPI document, with its path filled in for the demo fleet.
pub struct Documented {
    pub method: Method,
    pub template: String,
    pub path: String,
    pub operation: Value,
}

impl Documented {
    fn security(&self) -> Option<&str> {
        let schemes = self.operation["security"].as_array().unwrap();
        let scheme = schemes.first()?.as_object().unwrap();
        scheme.keys().next().map(String::as_str)
    }

    /// The request with a body that can be read and, for a write, the promise to change nothing.
    fn call(&self, app: &TestApp) -> Call {
        let body = self.operation["requestBody"]["content"].as_object();
        let path = match self.method {
            Method::GET => self.path.clone(),
            _ => format!("{}?dry_run=true", self.path),
        };
        let call = app.call(self.method.clone(), path).without_token();
        match body {
            Some(_) => call.content("application/json", "{}"),
            None => call,
        }
    }
}

/// Everything that the app says it serves.
pub async fn documented(app: &TestApp) -> Vec<Documented> {
    let text = app.get("/openapi.yaml").await.expect(200).text().to_owned();
    let document = fleet::yaml::parse(&text).unwrap();
    let mut found = Vec::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        let kind = template.split('/').nth(1).unwrap_or_default();
        let id = match kind {
            "clusters" => "demo-cluster-01",
            "rolebindings" => "dev-readers",
            _ => "podinfo",
        };
        let path = template
            .replace("{cluster_dns}", DEMO_DNS)
            .replace("{kind}", "namespaces")
            .replace("{path}", "namespaces")
            .replace("{input}", "podinfo")
            .replace("{revision}", "1")
            .replace("{token}", "0123456789abcdef")
            .replace("{id}", id);
        assert!(!path.contains('{'), "{path}: a parameter that this test does not know");
        for (method, operation) in operations.as_object().unwrap() {
            found.push(Documented {
                method: method.to_uppercase().parse().unwrap(),
                template: template.clone(),
                path: path.clone(),
                operation: operation.clone(),
            });
        }
    }
    found
}

#[tokio::test]
async fn every_documented_route_asks_for_the_right_that_it_needs() {
    let probes = ["GET /health", "GET /openapi.yaml", "GET /ready"];
    let with_login = ["GET /.well-known/flux-resourceset"].into_iter().chain(probes);
    for (setup, open) in [
        (Setup::default(), with_login.collect()),
        (Setup::default().read_only(), probes.to_vec()),
    ] {
        let app = setup.start().await;
        let revision = app.revision();
        let operations = documented(&app).await;
        let mut public = Vec::new();
        for one in &operations {
            let what = format!("{} {}", one.method, one.template);
            let Some(scheme) = one.security() else {
                public.push(what.clone());
                one.call(&app).await.expect(200);
                one.call(&app).token("wrong").await.expect(200);
                continue;
            };
            let is_admins = ["/backup", "/identities"]
                .iter()
                .any(|path| one.template.starts_with(path))
                || one.template.ends_with("/changed");
            let reads = (one.method == Method::GET && !is_admins) || one.template == "/register";
            let expected = if reads { "read" } else { "write" };
            assert_eq!(scheme, expected, "{what}: the document names another right");

            let missing = one.call(&app).await;
            assert_eq!(missing.header("www-authenticate"), "Bearer", "{what}");
            missing.problem(401, "unauthorized");
            for wrong in ["wrong", "", "read-toke", "read-token2", "READ-TOKEN"] {
                let refused = one.call(&app).token(wrong).await;
                assert_eq!(refused.header("www-authenticate"), "Bearer", "{what} with {wrong:?}");
                refused.problem(401, "unauthorized");
            }
            let other_scheme = one.call(&app).header("authorization", &format!("Basic {WRITE}"));
            other_scheme.await.problem(401, "unauthorized");

            if one.template.ends_with("/stream") {
                // It has no end: whoever may read it sees that it begins.
                for token in [READ, WRITE] {
                    assert_eq!(one.call(&app).token(token).response().await.status(), 200, "{what}");
                }
                continue;
            }
            if one.template == "/register" {
                // Neither token is one of a join identity.
                for token in [READ, WRITE] {
                    one.call(&app).token(token).await.problem(403, "forbidden");
                }
                continue;
            }
            let with_read = one.call(&app).token(READ).await;
            match scheme {
                "read" => assert!(![401, 403].contains(&with_read.status), "{what}: {}", with_read.text()),
                _ => drop(with_read.problem(403, "forbidden")),
            }
            let with_write = one.call(&app).token(WRITE).await;
            assert!(
                ![401, 403].contains(&with_write.status),
                "{what}: {}",
                with_write.text()
            );
            assert!(with_write.status < 500, "{what}: {}", with_write.text());
        }
        assert_eq!(public, open);
        assert_eq!(app.revision(), revision, "a dry run or a refusal wrote something");
    }
}

#[tokio::test]
async fn read_only_mode_has_nothing_but_what_flux_and_probes_need() {
    let all = documented(&TestApp::start().await).await;
    let app = Setup::default().read_only().start().await;
    let served: Vec<_> = documented(&app).await.into_iter().map(|one| one.template).collect();
    assert_eq!(
        served,
        [
            "/api/v2/flux/clusters",
            "/api/v2/flux/clusters/{cluster_dns}/changed",
            "/api/v2/flux/clusters/{cluster_dns}/events",
            "/api/v2/flux/clusters/{cluster_dns}/namespaces",
            "/api/v2/flux/clusters/{cluster_dns}/platform-components",
            "/api/v2/flux/clusters/{cluster_dns}/report",
            "/api/v2/flux/clusters/{cluster_dns}/rolebindings",
            "/health",
            "/metrics",
            "/openapi.yaml",
            "/ready",
            "/status",
            "/status/causes",
            "/status/labels",
            "/status/map",
            "/status/stream",
            "/status/versions",
            "/whoami",
        ]
    );
    let revision = app.revision();
    for one in all.iter().filter(|one| !served.contains(&one.template)) {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let reply = app.call(method, &one.path).token(WRITE).json(&json!({})).await;
            reply.problem(404, "not-found");
        }
    }
    assert_eq!(app.revision(), revision);
}

#[tokio::test]
async fn the_scheme_is_read_without_case_and_blanks_around_the_token_do_not_matter() {
    let app = TestApp::start().await;
    for header in ["Bearer read-token", "bearer read-token", "BEARER   read-token  "] {
        app.get("/clusters").header("authorization", header).await.expect(200);
    }
    for header in ["Bearer", "read-token", "Bearerread-token", "Token read-token"] {
        app.get("/clusters").header("authorization", header).await.expect(401);
    }
}

#[tokio::test]
async fn an_unknown_path_is_404_with_a_token_and_401_without() {
    let app = TestApp::start().await;
    for path in [
        "/",
        "/nothing",
        "/nothing/x",
        "/nothing/x/y",
        "/a/b/c/d/e",
        "/clusters/",
        "/api/v2/flux",
    ] {
        app.get(path).await.problem(404, "not-found");
        app.get(path).without_token().await.problem(401, "unauthorized");
    }
}

async fn actors(app: &TestApp) -> Vec<String> {
    let records = app.get("/changes?after=1").await.expect(200).array();
    let actor = |record: &Value| record["actor"].as_str().unwrap().to_owned();
    records.iter().map(actor).collect()
}

#[tokio::test]
async fn the_name_of_a_token_is_the_actor_in_the_log() {
    let mut setup = Setup::default();
    let file = setup.file(
        "write-tokens",
        "# rotated weekly\nalice:first\n\nci@example.com:second\nunnamed\nnot+a+name:odd\n",
    );
    setup.config.write_tokens = Some(TokenSource {
        token: Some(WRITE.into()),
        file: Some(file),
    });
    let readers = setup.file("read-tokens", "bob:third\n");
    setup.config.read_tokens.file = Some(readers);
    let app = setup.start().await;
    for (n, token) in ["first", "second", "unnamed", "not+a+name:odd", WRITE]
        .iter()
        .enumerate()
    {
        let body = json!({"id": format!("n{n}")});
        app.post("/namespaces", &body).token(token).await.expect(201);
    }
    assert_eq!(
        actors(&app).await,
        ["alice", "ci@example.com", "write", "write", "write"]
    );
    app.get("/namespaces").token("third").await.expect(200);
    app.post("/namespaces", &json!({"id": "x"}))
        .token("third")
        .await
        .problem(403, "forbidden");
    app.get("/namespaces")
        .token("alice:first")
        .await
        .problem(401, "unauthorized");
    let system = app.get("/changes?limit=1").await.array();
    assert_eq!(system[0]["actor"], "system");
}

#[tokio::test]
async fn without_tokens_for_writing_the_ones_for_reading_write() {
    let mut setup = Setup::default();
    setup.config.write_tokens = None;
    let app = setup.start().await;
    app.get("/clusters").token(READ).await.expect(200);
    app.post("/namespaces", &json!({"id": "x"}))
        .token(READ)
        .await
        .expect(201);
    app.post("/namespaces", &json!({"id": "y"}))
        .token(WRITE)
        .await
        .problem(401, "unauthorized");
    assert_eq!(actors(&app).await, ["write"]);
}

#[tokio::test]
async fn a_token_that_is_both_reads_and_writes() {
    let mut setup = Setup::default();
    setup.config.write_tokens = Some(setup.config.read_tokens.clone());
    let app = setup.start().await;
    app.post("/namespaces", &json!({"id": "x"}))
        .token(READ)
        .await
        .expect(201);
}

#[tokio::test]
async fn every_reply_carries_an_id_of_its_request() {
    let app = TestApp::start().await;
    let given = app.get("/health").header("x-request-id", "job/17:a").await;
    assert_eq!(given.header("x-request-id"), "job/17:a");
    let one = app.get("/health").await.header("x-request-id").to_owned();
    let other = app
        .get("/nothing")
        .without_token()
        .await
        .header("x-request-id")
        .to_owned();
    assert!(!one.is_empty() && !other.is_empty() && one != other);
    for odd in ["with blanks", "", &"x".repeat(200)] {
        let own = app.get("/health").header("x-request-id", odd).await;
        assert!(own.header("x-request-id") != odd && !own.header("x-request-id").is_empty());
    }
    let written = app
        .post("/namespaces", &json!({"id": "x"}))
        .header("x-request-id", "job-18");
    written.await.expect(201);
    assert_eq!(app.get("/changes?after=1").await.array()[0]["request_id"], "job-18");
}
