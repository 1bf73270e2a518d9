//! The dashboard: who sees it, and that it changes nothing without a plan. What it looks like is tested in a browser.

use axum::http::Method;
use serde_json::json;

use crate::support::{Call, DEMO, READ, Reply, Setup, TestApp, WRITE};

const HOST: &str = "fleet.example.com";
const ORIGIN: &str = "https://fleet.example.com";

/// A browser that signed in: it sends its cookies, and its origin with forms.
struct Browser<'a> {
    app: &'a TestApp,
    cookies: String,
}

impl<'a> Browser<'a> {
    async fn sign_in(app: &'a TestApp, token: &str) -> Browser<'a> {
        let reply = sign_in(app, token).await.expect(303);
        assert_eq!(reply.header("location"), "/ui");
        let kept = cookies(&reply);
        assert!(!kept.is_empty());
        Browser { app, cookies: kept }
    }

    fn get(&self, path: &str) -> Call {
        let call = self.app.get(path).without_token();
        call.header("host", HOST).header("cookie", &self.cookies)
    }

    fn send(&self, path: &str, fields: &[(&str, &str)]) -> Call {
        form(self.app, path, fields)
            .header("cookie", &self.cookies)
            .header("origin", ORIGIN)
    }
}

/// A form, sent by nobody in particular.
fn form(app: &TestApp, path: &str, fields: &[(&str, &str)]) -> Call {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let call = app.call(Method::POST, path).without_token().header("host", HOST);
    call.content("application/x-www-form-urlencoded", pairs.join("&"))
}

async fn sign_in(app: &TestApp, token: &str) -> Reply {
    form(app, "/ui/login", &[("token", token)])
        .header("origin", ORIGIN)
        .await
}

/// The cookies that a browser keeps of a reply.
fn cookies(reply: &Reply) -> String {
    let set = reply
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().unwrap());
    let kept: Vec<&str> = set
        .filter(|cookie| !cookie.contains("Max-Age=0"))
        .map(|cookie| cookie.split(';').next().unwrap())
        .collect();
    kept.join("; ")
}

/// The fields of the form that confirms a plan.
fn plan_of(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"plan\" value=\"").expect("a plan to confirm");
    rest.split('"').next().unwrap().to_owned()
}

const PAGES: [&str; 18] = [
    "/ui",
    "/ui?q=environment%3Ddev&state=behind,never&by=environment",
    "/ui?component=podinfo&kind=platform-components",
    "/ui/problems",
    "/ui/versions",
    "/ui/versions?component=podinfo&version=latest",
    "/ui/clusters/demo-cluster-01",
    "/ui/clusters/demo-cluster-01?tab=inputs",
    "/ui/clusters/demo-cluster-01?tab=objects",
    "/ui/clusters/demo-cluster-01?tab=history",
    "/ui/rollouts",
    "/ui/revisions",
    "/ui/documents",
    "/ui/documents/platform_components",
    "/ui/documents/clusters",
    "/ui/documents/kinds",
    "/ui/documents/kinds/namespaces",
    "/ui/guards",
];

#[tokio::test]
async fn nothing_is_shown_before_signing_in() {
    let app = TestApp::start().await;
    for page in PAGES {
        let reply = app.get(page).without_token().await.expect(303);
        assert!(reply.header("location").starts_with("/ui/login"), "{page}");
        assert!(reply.text().is_empty(), "{page}");
    }
    let reply = app.get("/ui/revisions/1?x=%26").without_token().await.expect(303);
    assert_eq!(
        reply.header("location"),
        "/ui/login?next=%2Fui%2Frevisions%2F1%3Fx%3D%2526"
    );
    app.get("/ui/stream").without_token().await.expect(303);
    assert_eq!(
        app.get("/ui/").without_token().await.expect(308).header("location"),
        "/ui"
    );
    app.get("/ui/map").without_token().await.expect(303);
    // The form itself, and what it looks like, are for everybody.
    let form = app.get("/ui/login").without_token().await.expect(200);
    let style = form
        .text()
        .split('"')
        .find(|part| part.ends_with(".css"))
        .unwrap()
        .to_owned();
    let style = app.get(style).without_token().await.expect(200);
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    app.get("/ui/assets/other.css").without_token().await.expect(404);
}

#[tokio::test]
async fn signing_in_keeps_the_token_in_the_browser_and_signing_out_forgets_it() {
    let app = TestApp::start().await;
    let refused = sign_in(&app, "wrong").await.expect(401);
    assert!(refused.text().contains("the token is not valid") && cookies(&refused).is_empty());
    let refused = sign_in(&app, "").await.expect(401);
    assert!(refused.text().contains("enter a token"));

    let browser = Browser::sign_in(&app, READ).await;
    let page = browser.get("/ui").await.expect(200);
    assert!(page.text().contains(DEMO) && page.text().contains("reader"));
    let gone = browser.send("/ui/logout", &[]).await.expect(303);
    assert_eq!((gone.header("location"), cookies(&gone).as_str()), ("/ui/login", ""));

    let fields = [("token", READ), ("next", "/ui/revisions")];
    let reply = form(&app, "/ui/login", &fields)
        .header("origin", ORIGIN)
        .await
        .expect(303);
    assert_eq!(reply.header("location"), "/ui/revisions");
    let fields = [("token", READ), ("next", "https://evil.example.com/")];
    let reply = form(&app, "/ui/login", &fields)
        .header("origin", ORIGIN)
        .await
        .expect(303);
    assert_eq!(reply.header("location"), "/ui");
}

#[tokio::test]
async fn a_token_of_a_role_that_may_not_read_sees_nothing() {
    let app = TestApp::start().await;
    let token = app
        .post(format!("/clusters/{DEMO}/token"), &json!({}))
        .await
        .expect(201)
        .json();
    let token = token["token"].as_str().unwrap();
    let refused = sign_in(&app, token).await.expect(403);
    assert!(refused.text().contains("may not read the fleet"), "{}", refused.text());
    let page = app.get("/ui").token(token).await.expect(403);
    assert!(!page.text().contains("demo-cluster-01.k8s"));
}

#[tokio::test]
async fn a_revoked_token_sees_nothing_from_then_on() {
    let app = TestApp::start().await;
    app.post("/identities", &json!({"id": "ann", "role": "reader"}))
        .await
        .expect(201);
    let token = app.post("/identities/ann/tokens", &json!({})).await.expect(201).json();
    let browser = Browser::sign_in(&app, token["token"].as_str().unwrap()).await;
    browser.get("/ui").await.expect(200);
    app.delete(format!("/identities/ann/tokens/{}", token["id"].as_str().unwrap()))
        .await
        .expect(204);
    browser.get("/ui").await.expect(303);
}

#[tokio::test]
async fn pages_are_safe_from_other_sites_and_from_what_they_show() {
    let app = TestApp::start().await;
    app.patch(
        "/clusters/demo-cluster-01",
        &json!({"patches": {"podinfo": {"ui.message": "<script>alert(1)</script>"}}}),
    )
    .header("x-change-reason", "<img src=x onerror=alert(1)>")
    .await
    .expect(200);
    let browser = Browser::sign_in(&app, WRITE).await;
    for page in PAGES
        .into_iter()
        .chain(["/ui/revisions/2", "/ui/documents/clusters/demo-cluster-01"])
    {
        let reply = browser.get(page).await.expect(200);
        let policy = reply.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{page}"
        );
        assert!(!policy.contains("unsafe"), "{page}");
        assert_eq!(reply.header("cache-control"), "no-store", "{page}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{page}");
        let text = reply.text();
        assert!(
            !text.contains("<script>alert") && !text.contains("<img src=x"),
            "{page}"
        );
        assert!(!text.contains(" style=") && !text.contains(" onclick="), "{page}");
        assert!(!text.contains("http://") && !text.contains("src=\"//"), "{page}");
    }
}

#[tokio::test]
async fn forms_of_other_sites_do_nothing() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let call = [
        ("method", "DELETE"),
        ("path", "/clusters/demo-cluster-01"),
        ("plan", "x"),
    ];
    for path in ["/ui/plan", "/ui/apply", "/ui/check"] {
        for origin in ["https://evil.example.com", "null", "https://fleet.example.com.evil.com"] {
            let sent = form(&app, path, &call)
                .header("cookie", &browser.cookies)
                .header("origin", origin);
            sent.await.expect(403);
        }
        form(&app, path, &call)
            .header("cookie", &browser.cookies)
            .await
            .expect(403);
    }
    // A page without TLS that has our name may be anybody's.
    form(&app, "/ui/plan", &call)
        .header("cookie", &browser.cookies)
        .header("x-forwarded-proto", "https")
        .header("origin", "http://fleet.example.com")
        .await
        .expect(403);
    form(&app, "/ui/login", &[("token", WRITE)])
        .header("origin", "https://evil.example.com")
        .await
        .expect(403);
    form(&app, "/ui/logout", &[])
        .header("origin", "https://evil.example.com")
        .await
        .expect(403);
    // The cookie is for pages: the API does not know it.
    let call = app.call(Method::DELETE, "/clusters/demo-cluster-01").without_token();
    call.header("cookie", &browser.cookies)
        .await
        .problem(401, "unauthorized");
    assert_eq!(app.revision(), 1);
}

#[tokio::test]
async fn a_change_is_planned_then_made_and_can_be_undone() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let call = [
        ("title", "Pin podinfo"),
        ("method", "PATCH"),
        ("path", "/platform_components/podinfo"),
        ("type", "application/json"),
        ("body", r#"{"oci_tag":"6.7.1"}"#),
        ("back", "/ui/documents/platform_components/podinfo"),
    ];
    let page = browser.send("/ui/plan", &call).await.expect(200);
    assert!(
        page.text().contains("+ oci_tag: &quot;6.7.1&quot;") && page.text().contains("1 cluster"),
        "{}",
        page.text()
    );
    assert_eq!(app.revision(), 1, "a plan changes nothing");
    let plan = plan_of(page.text());

    let without: Vec<_> = call.to_vec();
    browser.send("/ui/apply", &without).await.expect(400);
    assert_eq!(app.revision(), 1, "nothing is made without a plan");

    let mut confirmed = call.to_vec();
    confirmed.extend([("plan", plan.as_str()), ("reason", "tested on staging")]);
    let made = browser.send("/ui/apply", &confirmed).await.expect(303);
    assert_eq!(
        made.header("location"),
        "/ui/documents/platform_components/podinfo?done=2"
    );
    assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "6.7.1");
    let shown = browser.get(made.header("location")).await.expect(200);
    assert!(shown.text().contains("revision ") && shown.text().contains("tested on staging"));

    let undo = [
        ("method", "POST"),
        ("path", "/rollback"),
        ("type", "application/json"),
        ("body", r#"{"undo":2}"#),
        ("back", "/ui/revisions/2"),
    ];
    let page = browser.send("/ui/plan", &undo).await.expect(200);
    let plan = plan_of(page.text());
    let mut confirmed = undo.to_vec();
    confirmed.push(("plan", &plan));
    browser.send("/ui/apply", &confirmed).await.expect(303);
    assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "latest");
    let shown = browser.get("/ui/revisions/2").await.expect(200);
    assert!(shown.text().contains("undone by"));
}

#[tokio::test]
async fn only_what_has_a_plan_can_be_called() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let event = format!("/api/v2/flux/clusters/{DEMO}.k8s.example.com/events");
    for (method, path) in [
        ("POST", event.as_str()),
        ("GET", "/backup"),
        ("PUT", "https://example.com/x"),
        ("DELETE", "/clusters/demo-cluster-01#"),
        ("OPTIONS", "/clusters"),
    ] {
        for address in ["/ui/plan", "/ui/apply"] {
            let reply = browser
                .send(
                    address,
                    &[("method", method), ("path", path), ("plan", "x"), ("body", "{}")],
                )
                .await;
            assert!(
                reply.text().contains("the form names no"),
                "{method} {path}: {}",
                reply.text()
            );
        }
    }
    app.post("/identities", &json!({"id": "ann", "role": "reader"}))
        .await
        .expect(201);
    let token = app.post("/identities/ann/tokens", &json!({})).await.expect(201).json();
    let page = browser.get("/ui/documents/identities/ann").await.expect(200);
    assert!(
        page.text().contains(token["id"].as_str().unwrap()) && !page.text().contains(token["token"].as_str().unwrap())
    );
    let path = format!("/identities/ann/tokens/{}", token["id"].as_str().unwrap());
    let call = [
        ("method", "DELETE"),
        ("path", path.as_str()),
        ("back", "/ui/documents/identities/ann"),
    ];
    let plan = plan_of(browser.send("/ui/plan", &call).await.expect(200).text());
    let mut confirmed = call.to_vec();
    confirmed.push(("plan", &plan));
    browser.send("/ui/apply", &confirmed).await.expect(303);
    app.get("/whoami")
        .token(token["token"].as_str().unwrap())
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn a_plan_that_is_no_longer_true_is_shown_again_and_not_made() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let call = [
        ("method", "PATCH"),
        ("path", "/platform_components/podinfo"),
        ("type", "application/json"),
        ("body", r#"{"oci_tag":"6.7.1"}"#),
    ];
    let plan = plan_of(browser.send("/ui/plan", &call).await.expect(200).text());
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.6.0"}))
        .await
        .expect(200);
    let mut confirmed = call.to_vec();
    confirmed.push(("plan", &plan));
    let reply = browser.send("/ui/apply", &confirmed).await;
    assert_eq!(reply.status, 412, "{}", reply.text());
    let again = plan_of(reply.text());
    assert_ne!(again, plan);
    assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "6.6.0");
    let mut confirmed = call.to_vec();
    confirmed.push(("plan", &again));
    browser.send("/ui/apply", &confirmed).await.expect(303);
}

#[tokio::test]
async fn what_clusters_lose_must_be_typed() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let call = [
        ("method", "DELETE"),
        ("path", "/platform_components/podinfo?cascade=true"),
        ("back", "/ui/documents"),
    ];
    let page = browser.send("/ui/plan", &call).await.expect(200);
    assert!(page.text().contains("1 cluster loses something"), "{}", page.text());
    assert!(page.text().contains("name=\"removals\""));
}

#[tokio::test]
async fn readers_see_no_buttons_and_their_forms_are_refused() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, READ).await;
    for page in [
        "/ui/revisions/1",
        "/ui/documents/platform_components/podinfo",
        "/ui/documents/platform_components",
    ] {
        let text = browser.get(page).await.expect(200);
        assert!(!text.text().contains("/ui/plan"), "{page}");
    }
    let call = [("method", "DELETE"), ("path", "/platform_components/podinfo")];
    let page = browser.send("/ui/plan", &call).await;
    assert!(
        page.text().contains("Forbidden") && !page.text().contains("name=\"plan\""),
        "{}",
        page.text()
    );
    assert!(!browser.get("/ui").await.text().contains("/ui/identities"));
    browser.get("/ui/identities").await.expect(403);
}

#[tokio::test]
async fn an_operator_sees_what_its_scope_allows_and_its_plans_are_refused_beyond() {
    let app = TestApp::start().await;
    let scope = json!({"clusters": "environment=prod", "kinds": ["namespaces"]});
    let operator = json!({"id": "team-a", "role": "operator", "scope": scope});
    app.post("/identities", &operator).await.expect(201);
    let token = app
        .post("/identities/team-a/tokens", &json!({}))
        .await
        .expect(201)
        .json();
    let browser = Browser::sign_in(&app, token["token"].as_str().unwrap()).await;
    let page = browser.get("/ui/documents/namespaces/podinfo").await.expect(200);
    assert!(page.text().contains("<textarea"), "its kind");
    let page = browser
        .get("/ui/documents/platform_components/podinfo")
        .await
        .expect(200);
    assert!(!page.text().contains("<textarea"), "not its kind");
    // The demo cluster is in dev.
    let page = browser.get("/ui/clusters/demo-cluster-01").await.expect(200);
    assert!(!page.text().contains("/ui/plan"), "not its cluster");
    let page = browser.get("/ui/documents/clusters/demo-cluster-01").await.expect(200);
    assert!(page.text().contains("outside your scope") && !page.text().contains("<textarea"));
    let call = [("method", "DELETE"), ("path", "/clusters/demo-cluster-01")];
    let page = browser.send("/ui/plan", &call).await;
    assert!(
        page.text().contains("scope") && !page.text().contains("name=\"plan\""),
        "{}",
        page.text()
    );
}

#[tokio::test]
async fn a_read_only_server_serves_the_pages_that_read() {
    let app = Setup::default().read_only().start().await;
    let browser = Browser::sign_in(&app, READ).await;
    for page in PAGES
        .into_iter()
        .chain(["/ui/revisions/1", "/ui/documents/platform_components/podinfo"])
    {
        let reply = browser.get(page).await.expect(200);
        assert!(!reply.text().contains("/ui/plan"), "{page}");
    }
    browser
        .send(
            "/ui/plan",
            &[("method", "DELETE"), ("path", "/platform_components/podinfo")],
        )
        .await
        .expect(405);
    // The tokens of a read-only server may be those of admins elsewhere. Nobody administers here, nor copies the store.
    for page in [
        "/ui/identities",
        "/ui/documents/identities/ann",
        "/ui/documents/backup",
        "/ui/documents/status/stream",
    ] {
        browser.get(page).await.expect(404);
    }
    // The API of a read-only server stays as small as it is.
    app.get("/platform_components").await.expect(404);
}

#[tokio::test]
async fn the_dashboard_can_be_turned_off() {
    let mut setup = Setup::default();
    setup.config.ui = false;
    let app = setup.start().await;
    for path in ["/ui", "/ui/login", "/ui/revisions"] {
        app.get(path).await.expect(404);
    }
}

#[tokio::test]
async fn the_map_has_a_letter_for_every_cluster() {
    let app = TestApp::start().await;
    for (id, environment, tier) in [("a-1", "prod", "gold"), ("a-2", "prod", "iron"), ("b-1", "dev", "gold")] {
        let cluster = json!({
            "id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": environment, "labels": {"tier": tier},
        });
        app.post("/clusters", &cluster).await.expect(201);
    }
    let map = app.read("/status/map").await;
    assert_eq!(
        map["groups"],
        json!([{"name": "dev", "states": "nn"}, {"name": "prod", "states": "nn"}])
    );
    let map = app.read("/status/map?by=tier&search=A-").await;
    assert_eq!(
        map["groups"],
        json!([{"name": "gold", "states": "n"}, {"name": "iron", "states": "n"}])
    );
    let map = app.read("/status/map?by=tier").await;
    assert_eq!(
        map["groups"],
        json!([{"name": "gold", "states": "nn"}, {"name": "iron", "states": "n"}, {"name": null, "states": "n"}])
    );
    assert_eq!(app.read("/status/map?by=tier&group=gold&place=1").await["id"], "b-1");
    assert_eq!(app.read("/status/map?by=tier&place=0").await["id"], DEMO);
    app.get("/status/map?by=tier&group=gold&place=2")
        .await
        .problem(404, "not-found");
    app.get("/status/map?by=nonsense").await.problem(404, "not-found");
    app.get("/status/map?group=dev").await.problem(400, "bad-request");
    let revision = map["revision"].as_u64().unwrap();
    let place = format!("/status/map?by=tier&group=gold&place=1&revision={revision}");
    assert_eq!(app.read(&place).await["id"], "b-1");
    app.delete("/clusters/a-1").await.expect(204);
    app.get(&place).await.problem(400, "bad-request");
    assert_eq!(app.read("/status?search=b-1").await["total"], 1);
    assert_eq!(
        app.read("/status?search=example.COM&selector=tier%3Dgold").await["total"],
        1
    );

    let browser = Browser::sign_in(&app, READ).await;
    let found = browser
        .get("/ui/map/cluster?by=tier&group=gold&place=0")
        .await
        .expect(200)
        .json();
    assert_eq!(found["id"], "b-1");
    let opened = browser
        .get("/ui/map/cluster?by=tier&group=gold&place=0&open=1")
        .await
        .expect(303);
    assert_eq!(opened.header("location"), "/ui/clusters/b-1");
}

#[tokio::test]
async fn versions_say_who_runs_what_and_why() {
    let app = TestApp::start().await;
    for (id, tag, enabled) in [("a-1", Some("1.0"), true), ("a-2", None, true), ("a-3", None, false)] {
        let cluster = json!({
            "id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "prod",
            "platform_components": [{"id": "traefik", "oci_tag": tag, "enabled": enabled}],
        });
        app.post("/clusters", &cluster).await.expect(201);
    }
    let versions = app.read("/status/versions?kind=platform_components").await;
    let traefik = versions["components"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["id"] == "traefik")
        .unwrap()
        .clone();
    let current = traefik["current"].as_str().unwrap();
    // The demo cluster and a-2; a-3 has it turned off.
    let counted = |version: &str| {
        traefik["versions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["version"] == version)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&counted(current)["clusters"], &counted(current)["pinned"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(
        (&counted("1.0")["clusters"], &counted("1.0")["pinned"]),
        (&json!(1), &json!(1))
    );
    let holders = app.read("/status/versions?component=traefik&version=1.0").await;
    assert_eq!(holders["total"], 1);
    assert_eq!(
        (&holders["clusters"][0]["id"], &holders["clusters"][0]["source"]),
        (&json!("a-1"), &json!("cluster"))
    );
    app.get("/status/versions?kind=nonsense")
        .await
        .problem(400, "bad-request");
    app.get("/status/versions?version=1.0")
        .await
        .problem(400, "bad-request");
    let browser = Browser::sign_in(&app, READ).await;
    let page = browser
        .get("/ui/versions?component=traefik&version=1.0")
        .await
        .expect(200);
    assert!(page.text().contains("/ui/clusters/a-1") && !page.text().contains("/ui/clusters/a-2"));
}

/// A form that is sent twice must not act on two waves.
#[tokio::test]
async fn the_buttons_of_a_rollout_name_the_wave_that_the_page_shows() {
    let app = TestApp::start().await;
    let rollout = json!({
        "id": "r", "waves": [{"name": "first", "percent": 10}, {"name": "rest"}],
        "operations": [{"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {"labels": {"team": "a"}}}],
    });
    app.post("/rollouts", &rollout).await.expect(201);
    let browser = Browser::sign_in(&app, WRITE).await;
    let names = async |wave: &str| {
        let page = browser.get("/ui/rollouts/r").await.expect(200);
        page.text()
            .contains(&format!("{{&quot;wave&quot;:&quot;{wave}&quot;}}"))
    };
    assert!(names("first").await && !names("rest").await);
    app.post("/rollouts/r/promote", &json!({})).await.expect(200);
    assert!(names("rest").await && !names("first").await);
}
