//! Who may call what: every route, with every role, against the table of the book.

use std::collections::BTreeMap;

use axum::http::Method;
use flux_resourceset::http::routes::{ROUTES, Route};
use serde_json::{Value, json};

use crate::identities::token_of;
use crate::support::{Call, DEMO, DEMO_DNS, TestApp, WRITE, bare};

const ROLES: [&str; 6] = ["cluster", "reader", "operator", "admin", "mirror", "join"];
const OTHER: &str = "other";
const OTHER_DNS: &str = "other.k8s.example.com";
/// The name of a decommissioned cluster of the operator's, and one that a cluster of the operator's gave up.
const GONE_DNS: &str = "gone.k8s.example.com";
const GIVEN_UP_DNS: &str = "moved.k8s.example.com";

/// The table of the book: for each route, what each role gets.
fn table() -> BTreeMap<String, Vec<String>> {
    let book = include_str!("../../../../docs/src/security.md");
    let rows = book
        .lines()
        .filter(|line| line.starts_with("| `") && line.matches('|').count() == ROLES.len() + 2);
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (routes, roles) = cells.split_first().unwrap();
        for route in routes.split('`').skip(1).step_by(2) {
            let roles = roles.iter().map(|cell| (*cell).to_owned()).collect();
            assert!(
                table.insert(route.to_owned(), roles).is_none(),
                "{route} is there twice"
            );
        }
    }
    table
}

fn name(route: &Route) -> String {
    format!("{} {}", route.method.method(), route.path)
}

/// The path of a route, for a cluster.
fn path(route: &Route, id: &str, dns: &str) -> String {
    let kind = if route.path.starts_with("/kinds") {
        "namespaces"
    } else {
        "clusters"
    };
    let path = route.path.replace("{cluster_dns}", dns).replace("{path}", "namespaces");
    let id = match route.path.split('/').nth(1) {
        Some("decommissions") => GONE_DNS,
        Some("released_names") => GIVEN_UP_DNS,
        _ => id,
    };
    let path = path.replace("{kind}", kind).replace("{id}", id);
    path.replace("{token}", "0123456789abcdef")
}

/// The fleet with a cluster that no operator of `environment=dev` may change, and a token of each role.
async fn start() -> (TestApp, BTreeMap<&'static str, String>) {
    let app = TestApp::start().await;
    let mut other = bare(OTHER);
    other["environment"] = "prod".into();
    app.post("/clusters", &other).await.expect(201);
    for id in ["gone", "moved"] {
        let mut cluster = bare(id);
        // A name without inputs is not remembered.
        cluster["namespaces"] = json!([{"id": "podinfo"}]);
        app.post("/clusters", &cluster).await.expect(201);
    }
    app.delete("/clusters/gone").await.expect(204);
    let renamed = json!({"cluster_dns": "moved-to.k8s.example.com"});
    app.patch("/clusters/moved", &renamed).await.expect(200);
    let mut tokens = BTreeMap::new();
    for role in ROLES {
        tokens.insert(role, token_of(&app, role).await);
    }
    (app, tokens)
}

/// A call of a route that changes nothing.
fn harmless(app: &TestApp, route: &Route, path: &str) -> Call {
    let method = route.method.method();
    match method {
        Method::GET => app.call(method, path),
        Method::DELETE => app.call(method, format!("{path}?dry_run=true")),
        _ => app.call(method, format!("{path}?dry_run=true")).json(&json!({})),
    }
}

/// The status of a call. The body of a stream never ends.
async fn status(call: Call) -> u16 {
    call.response().await.status().as_u16()
}

#[tokio::test]
async fn every_role_may_call_what_the_book_says_and_nothing_else() {
    let (app, tokens) = start().await;
    let mut table = table();
    for route in ROUTES {
        let name = name(route);
        let row = table
            .remove(&name)
            .unwrap_or_else(|| panic!("{name} has no row in security.md"));
        for (which, path) in [
            ("own", path(route, DEMO, DEMO_DNS)),
            ("other", path(route, OTHER, OTHER_DNS)),
            ("unknown", path(route, "unknown", "unknown.k8s.example.com")),
        ] {
            for (role, expected) in ROLES.into_iter().zip(&row) {
                let status = status(harmless(&app, route, &path).token(&tokens[role])).await;
                assert!(status < 500, "{name} as {role}: {status}");
                let allowed = match expected.as_str() {
                    "yes" => true,
                    "own" => which == "own",
                    "no" => false,
                    // With bodies that have an effect: below.
                    "scope" => continue,
                    other => panic!("{name}: \"{other}\" is neither yes, no, own nor scope"),
                };
                let refused = status == 403 || status == 401;
                assert!(
                    allowed != refused,
                    "{name}, {which} cluster, as {role}: {status}, the book says {expected}"
                );
            }
        }
    }
    assert!(
        table.is_empty(),
        "the book has rows for routes that do not exist: {:?}",
        table.keys()
    );
}

/// What an operator may write, and the same of others.
struct Side {
    cluster: &'static str,
    environment: &'static str,
    /// A rollout that waits for an approval, and one that is paused.
    rollouts: [String; 2],
    /// The id of a token of the cluster.
    token: String,
}

impl Side {
    async fn create(app: &TestApp, cluster: &'static str, environment: &'static str) -> Side {
        let rollouts = ["running", "paused"].map(|state| format!("{environment}-{state}"));
        for id in &rollouts {
            app.post("/namespaces", &json!({ "id": id })).await.expect(201);
            let assigned = json!({"namespaces": [{ "id": id }]});
            app.patch(format!("/clusters/{cluster}"), &assigned).await.expect(200);
            let label = json!({"op": "merge", "kind": "namespaces", "id": id, "value": {"labels": {"a": "b"}}});
            let rollout = json!({"id": id, "operations": [label], "waves": [{"name": "all", "approve": true}], "gate": {"told": "100%"}});
            app.post("/rollouts", &rollout).await.expect(201);
        }
        let pause = format!("/rollouts/{}/pause", rollouts[1]);
        app.post(pause, &json!({})).await.expect(200);
        let issued = app.post(format!("/clusters/{cluster}/token"), &json!({})).await;
        let token = issued.expect(201).json()["id"].as_str().unwrap().to_owned();
        Side {
            cluster,
            environment,
            rollouts,
            token,
        }
    }

    /// The path and the body of a call that would change something of this side.
    async fn write(&self, app: &TestApp, route: &str) -> (String, Value) {
        let Side {
            cluster,
            environment,
            rollouts: [running, paused],
            token,
        } = self;
        let of_cluster = format!("/clusters/{cluster}");
        let label = json!({"labels": {"written": "yes"}});
        if let Some(action) = route.strip_prefix("POST /rollouts/{id}/") {
            let id = if action == "resume" { paused } else { running };
            return (format!("/rollouts/{id}/{action}"), json!({}));
        }
        match route {
            "POST /{kind}" => {
                let mut new = bare(&format!("{environment}-new"));
                new["environment"] = (*environment).into();
                ("/clusters".to_owned(), new)
            }
            "PUT /{kind}/{id}" => {
                let mut document = app.read(&of_cluster).await;
                document["labels"] = label["labels"].clone();
                (of_cluster, document)
            }
            "PATCH /{kind}/{id}" => (of_cluster, label),
            "DELETE /{kind}/{id}" => (of_cluster, Value::Null),
            "POST /batch" => {
                let merge = json!({"op": "merge", "kind": "clusters", "id": cluster, "value": label});
                ("/batch".to_owned(), json!({"operations": [merge]}))
            }
            "POST /rollback" => {
                let back = json!({"revision": 2, "kind": "clusters", "id": cluster});
                ("/rollback".to_owned(), back)
            }
            "POST /clusters/{id}/token" => (format!("{of_cluster}/token"), json!({})),
            "POST /identities/{id}/tokens" => (format!("/identities/cluster:{cluster}/tokens"), json!({})),
            "DELETE /identities/{id}/tokens/{token}" => {
                (format!("/identities/cluster:{cluster}/tokens/{token}"), Value::Null)
            }
            _ => panic!("{route} is within a scope, and this test does not know a call that has an effect"),
        }
    }
}

#[tokio::test]
async fn an_operator_writes_within_its_scope_and_not_beyond_on_every_route() {
    let (app, tokens) = start().await;
    let own = Side::create(&app, DEMO, "dev").await;
    let other = Side::create(&app, OTHER, "prod").await;
    let revision = app.revision();
    let table = table();
    let operator = ROLES.iter().position(|role| *role == "operator").unwrap();
    let scoped = ROUTES.iter().filter(|route| table[&name(route)][operator] == "scope");
    for route in scoped {
        for side in [&own, &other] {
            let (path, body) = side.write(&app, &name(route)).await;
            let call = |token: &str| {
                let call = app
                    .call(route.method.method(), format!("{path}?dry_run=true"))
                    .token(token);
                if body.is_null() { call } else { call.json(&body) }
            };
            call(WRITE).await.expect(200);
            let reply = call(&tokens["operator"]).await;
            match side.environment {
                "dev" => drop(reply.expect(200)),
                _ => drop(reply.problem(403, "out-of-scope")),
            }
        }
    }
    assert_eq!(app.revision(), revision);
    // Not only planned.
    for (side, expected) in [(&own, 200), (&other, 403)] {
        let label = json!({"labels": {"written": "yes"}});
        let call = app.patch(format!("/clusters/{}", side.cluster), &label);
        call.token(&tokens["operator"]).await.expect(expected);
    }
}

/// The path with an escape in its first segment: the router compares paths as they were sent, and reads parameters without escapes.
fn escaped(path: &str) -> String {
    let first = path.as_bytes()[1];
    format!("/%{first:02x}{}", &path[2..])
}

#[tokio::test]
async fn an_escaped_path_gives_no_right_that_the_plain_one_does_not() {
    let (app, tokens) = start().await;
    app.delete(format!("/clusters/{OTHER}")).await.expect(204);
    let identity = format!("cluster:{DEMO}");
    for route in ROUTES {
        for id in [DEMO, "admin", &identity, OTHER_DNS] {
            let plain = path(route, id, DEMO_DNS);
            for role in ROLES {
                let call = |path: &str| harmless(&app, route, path).token(&tokens[role]);
                if !matches!(status(call(&plain)).await, 401 | 403) {
                    continue;
                }
                let mut others = vec![escaped(&plain)];
                if route.method.method() == Method::GET {
                    others.push(format!("{}?revision=9", escaped(&plain)));
                }
                for other in others {
                    let status = status(call(&other)).await;
                    let what = format!("{} {other} as {role}: {status}", route.method.method());
                    assert!(matches!(status, 401 | 403 | 404 | 405), "{what}");
                }
            }
        }
    }
    // What no route shows, to nobody.
    for path in ["admin", "admin?revision=9", &identity].map(|rest| format!("/%69dentities/{rest}")) {
        app.get(path).token(WRITE).await.expect(404);
    }
    app.delete("/%6binds/namespaces").await.expect(404);
    // A kind is found by its name, however it is sent.
    app.get("/%63lusters/demo-cluster-01").await.expect(200);
}
