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

/// The fields of the form with a button, as a browser sends them.
fn fields_of(page: &str, button: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&amp;", "&")
    };
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(plain(rest.split('"').next()?))
    };
    let forms = page.split("<form").skip(1);
    let mut forms = forms.map(|form| form.split("</form>").next().unwrap());
    let named = format!(">{button}</button>");
    let form = forms.find(|form| form.contains(&named));
    let form = form.unwrap_or_else(|| panic!("no form with the button {button:?}: {page}"));
    let inputs = form.split("<input").skip(1).map(|tag| tag.split('>').next().unwrap());
    let mut fields: Vec<_> = inputs
        .filter_map(|tag| Some((attribute(tag, "name")?, attribute(tag, "value")?)))
        .collect();
    if let Some((_, rest)) = form.split_once("<textarea") {
        let (_, text) = rest.split_once('>').unwrap();
        fields.push(("body".to_owned(), plain(text.split("</textarea>").next().unwrap())));
    }
    fields
}

impl Browser<'_> {
    /// Presses a button of a page that leads to a plan.
    async fn press(&self, page: &str, button: &str) -> Reply {
        self.send_all("/ui/plan", &fields_of(page, button)).await
    }

    /// Confirms the plan of a page.
    async fn confirm(&self, page: &str) -> Reply {
        self.send_all("/ui/apply", &fields_of(page, "Make this change")).await
    }

    async fn send_all(&self, path: &str, fields: &[(String, String)]) -> Reply {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.send(path, &fields).await
    }
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

/// Makes so many clusters with so large patches, and changes a label of all of them: that is revision 3.
async fn change_of_many(app: &TestApp, number: usize, size: usize) {
    // A value has 65,536 characters at most.
    let text = "x".repeat(size / 5);
    let patches: serde_json::Map<_, _> = (0..5).map(|n| (format!("text-{n}"), text.clone().into())).collect();
    let clusters = (0..number).map(|n| {
        json!({"op": "create", "kind": "clusters", "value": {
            "id": format!("many-{n}"), "cluster_name": format!("many-{n}"), "cluster_dns": format!("many-{n}.example.com"), "environment": "prod",
            "labels": {"tier": "iron"}, "patches": {"podinfo": patches},
        }})
    });
    let operations: Vec<_> = clusters.collect();
    app.post("/batch", &json!({ "operations": operations }))
        .await
        .expect(200);
    let relabel =
        json!({"op": "merge", "kind": "clusters", "selector": "tier=iron", "value": {"labels": {"tier": "gold"}}});
    app.post("/batch", &json!({ "operations": [relabel] }))
        .await
        .expect(200);
}

#[tokio::test]
async fn large_changes_are_undone_and_rolled_back_and_their_pages_stay_small() {
    // Before and after, all documents have 20 MB: many in the first case, large in the second.
    for (number, size) in [(500, 20_000), (40, 250_000)] {
        let app = TestApp::start().await;
        change_of_many(&app, number, size).await;
        let browser = Browser::sign_in(&app, WRITE).await;
        let shown = browser.get("/ui/revisions/3").await.expect(200);
        assert!(shown.text().contains(" more") && shown.text().len() < 200_000);
        for body in [r#"{"undo":3}"#, r#"{"redo":3}"#, r#"{"revision":2}"#] {
            let call = [
                ("method", "POST"),
                ("path", "/rollback"),
                ("type", "application/json"),
                ("body", body),
                ("back", "/ui/revisions/3"),
            ];
            let page = browser.send("/ui/plan", &call).await.expect(200);
            let said = format!("Changes {number} documents");
            assert!(page.text().contains(&said), "{body}");
            assert!(page.text().len() < 200_000, "{body}: {}", page.text().len());
            let plan = plan_of(page.text());
            let mut confirmed = call.to_vec();
            confirmed.push(("plan", &plan));
            browser.send("/ui/apply", &confirmed).await.expect(303);
        }
        assert_eq!(app.read("/clusters/many-0").await["labels"]["tier"], "iron");
        assert_eq!(app.revision(), 6);
    }
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

const PODINFO: &str = "/ui/documents/platform_components/podinfo";

/// The fields of the editor, with another version in its text.
fn edited(page: &str) -> Vec<(String, String)> {
    let mut fields = fields_of(page, "Show the plan");
    let (_, text) = fields.iter_mut().find(|(name, _)| name == "body").unwrap();
    assert!(text.contains("oci_tag: latest"), "{text}");
    *text = text.replace("oci_tag: latest", "oci_tag: 6.7.1");
    fields
}

#[tokio::test]
async fn a_text_is_kept_when_somebody_else_changes_the_document_before_the_plan() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let page = browser.get(PODINFO).await.expect(200);
    let sent = edited(page.text());
    let theirs = json!({"component_version": "6.6.0"});
    app.patch("/platform_components/podinfo", &theirs).await.expect(200);
    let refused = browser.send_all("/ui/plan", &sent).await.expect(200);
    assert!(refused.text().contains("Somebody else changed this document"));
    assert!(
        refused.text().contains("- component_version: &quot;6.6.0&quot;")
            && refused.text().contains("+ oci_tag: &quot;6.7.1&quot;")
    );
    assert!(refused.text().contains(&format!("href=\"{PODINFO}\"")), "a way back");
    // The editor has the text that was typed, and the version of now.
    let again = fields_of(refused.text(), "Show the plan");
    let body = |fields: &[(String, String)]| fields.iter().find(|(name, _)| name == "body").unwrap().1.clone();
    assert_eq!(body(&again), body(&sent));
    let plan = browser.send_all("/ui/plan", &again).await.expect(200);
    browser.confirm(plan.text()).await.expect(303);
    assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "6.7.1");
}

#[tokio::test]
async fn a_text_is_kept_when_somebody_else_changes_the_document_after_the_plan() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let page = browser.get(PODINFO).await.expect(200);
    let plan = browser.send_all("/ui/plan", &edited(page.text())).await.expect(200);
    app.patch("/platform_components/podinfo", &json!({"component_version": "6.6.0"}))
        .await
        .expect(200);
    let refused = browser.confirm(plan.text()).await.expect(412);
    assert!(refused.text().contains("Somebody else changed this document"));
    let again = browser.press(refused.text(), "Show the plan").await.expect(200);
    browser.confirm(again.text()).await.expect(303);
    assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "6.7.1");
}

#[tokio::test]
async fn a_text_that_is_refused_stays_in_the_editor() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    let page = browser.get("/ui/documents/namespaces").await.expect(200);
    let mut fields = fields_of(page.text(), "Show the plan");
    fields.last_mut().unwrap().1 = "id: billing\nnonsense: 1\n".to_owned();
    let refused = browser.send_all("/ui/plan", &fields).await.expect(200);
    assert!(refused.text().contains("nonsense"), "{}", refused.text());
    assert_eq!(fields_of(refused.text(), "Show the plan").last(), fields.last());
}

#[tokio::test]
async fn buttons_work_on_a_document_that_changed_since_its_page_was_shown() {
    let app = TestApp::start().await;
    let rollout = json!({
        "id": "next", "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
        "waves": [{"name": "all", "approve": true}], "gate": {"converged": "100%"},
    });
    app.post("/rollouts", &rollout).await.expect(201);
    app.post(
        "/namespaces",
        &json!({"id": "billing", "labels": {}, "annotations": {}}),
    )
    .await
    .expect(201);
    let browser = Browser::sign_in(&app, WRITE).await;
    for (page, button, other) in [
        (
            "/ui/rollouts/next",
            "Pause…",
            ("/rollouts/next", json!({"description": "6.7.1"})),
        ),
        (
            "/ui/documents/namespaces/billing",
            "Delete, with all references to it…",
            ("/namespaces/billing", json!({"labels": {"team": "billing"}})),
        ),
    ] {
        let shown = browser.get(page).await.expect(200);
        app.patch(other.0, &other.1).await.expect(200);
        let plan = browser.press(shown.text(), button).await.expect(200);
        browser.confirm(plan.text()).await.expect(303);
    }
    assert_eq!(app.read("/rollouts/next").await["state"], "paused");
    app.get("/namespaces/billing").await.expect(404);
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
    // A rollback of the fleet is outside every scope; an undo is judged by what it changes.
    let page = browser.get("/ui/revisions/1").await.expect(200);
    assert!(!page.text().contains("Roll the whole fleet back"));
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
async fn the_pages_of_a_read_only_server_show_no_identity() {
    let app = Setup::default().sqlite().start().await;
    app.post("/identities", &json!({"id": "root", "role": "admin"}))
        .await
        .expect(201);
    app.post("/identities/root/tokens", &json!({})).await.expect(201);
    app.post(format!("/clusters/{DEMO}/token"), &json!({}))
        .await
        .expect(201);
    let app = app.stop().await.read_only().start().await;
    for token in [READ, WRITE] {
        let browser = Browser::sign_in(&app, token).await;
        browser.get("/ui/documents/namespaces/podinfo").await.expect(200);
        for page in [
            "/ui/identities",
            "/ui/documents/identities",
            "/ui/documents/identities/root",
            "/ui/documents/%69dentities/root",
            "/ui/documents/identities/root?revision=2",
            "/ui/documents/identities/cluster:demo-cluster-01",
        ] {
            let reply = browser.get(page).await.expect(404);
            assert!(!reply.text().contains("digest"), "{page}: {}", reply.text());
        }
    }
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

/// A whole report of a cluster in which these releases fail: name, reason and message of each.
async fn report(app: &TestApp, dns: &str, agent: &str, failing: &[(String, String, String)]) {
    let cluster = |what: &str| format!("/api/v2/flux/clusters/{dns}/{what}");
    for path in ["platform-components", "namespaces", "rolebindings"] {
        app.get(cluster(path)).header("user-agent", agent).await.expect(200);
    }
    let now = jiff::Timestamp::now().to_string();
    let objects: Vec<_> = failing
        .iter()
        .map(|(name, reason, message)| {
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system", "name": name,
                "uid": format!("uid-{name}"), "resourceVersion": "7", "ready": false, "reason": reason, "message": message, "at": now,
            })
        })
        .collect();
    let body = json!({"at": now, "reporter": agent, "full": true, "objects": objects, "providers": []});
    app.post(cluster("report"), &body).await.expect(202);
}

fn texts(parts: [&str; 3]) -> (String, String, String) {
    let [name, reason, message] = parts.map(str::to_owned);
    (name, reason, message)
}

#[tokio::test]
async fn what_clusters_and_guards_say_is_text_and_links_lead_to_the_web_only() {
    const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\" onclick=alert(1)";
    let app = TestApp::start().await;
    let agent = "flux-operator/<script>alert(1)</script>";
    report(
        &app,
        &format!("{DEMO}.k8s.example.com"),
        agent,
        &[texts(["podinfo", HOSTILE, HOSTILE])],
    )
    .await;
    let guard = json!({"id": "freeze", "selector": "*", "changes": 0, "reason": HOSTILE});
    app.post("/guards", &guard).await.expect(201);
    // The schema of clusters allows no such address, but a kind can be replaced.
    let mut kind = app.read("/kinds/clusters").await;
    let text = kind.to_string().replace("^https?://[^\\\\s\\\"'<>]+$", ".*");
    kind = serde_json::from_str(&text).unwrap();
    app.put("/kinds/clusters", &kind).await.expect(200);
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"web_url": "javascript:alert(document.domain)"}),
    )
    .await
    .expect(200);

    let browser = Browser::sign_in(&app, WRITE).await;
    let mut said = 0;
    for page in [
        "/ui",
        "/ui/problems",
        "/ui/clusters/demo-cluster-01",
        "/ui/clusters/demo-cluster-01?tab=events",
        "/ui/clusters/demo-cluster-01?tab=document",
        "/ui/guards",
        "/ui/documents/guards/freeze",
        "/ui/revisions",
    ] {
        let reply = browser.get(page).await.expect(200);
        let text = reply.text();
        assert!(
            !text.contains("<script>alert") && !text.contains("<img src=x") && !text.contains("\" onclick="),
            "{page}"
        );
        assert!(!text.contains("href=\"javascript:"), "{page}");
        said += u32::from(text.contains("&lt;script&gt;alert(1)"));
    }
    assert!(said >= 5, "only {said} pages show it");
    let call = [
        ("method", "PATCH"),
        ("path", "/platform_components/podinfo"),
        ("type", "application/json"),
        ("body", r#"{"oci_tag":"6.7.1"}"#),
    ];
    let plan = browser.send("/ui/plan", &call).await.expect(200);
    assert!(plan.text().contains("&lt;script&gt;") && !plan.text().contains("<script>alert"));
}

#[tokio::test]
async fn one_cluster_does_not_bury_the_problems_of_the_others() {
    let app = TestApp::start().await;
    for id in ["a-1", "a-2"] {
        let cluster =
            json!({"id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "prod"});
        app.post("/clusters", &cluster).await.expect(201);
        let shared = [texts(["podinfo", "InstallFailed", "no such chart"])];
        report(&app, &format!("{id}.example.com"), "reporter/1", &shared).await;
    }
    let many: Vec<_> = (0..1000)
        .map(|n| (format!("release-{n}"), format!("Reason{n}"), "own".to_owned()))
        .collect();
    report(&app, &format!("{DEMO}.k8s.example.com"), "reporter/1", &many).await;

    let all = app.read("/status/causes").await;
    assert_eq!(
        (&all["total"], all["causes"].as_array().unwrap().len()),
        (&json!(1001), 1001)
    );
    assert_eq!(all["own"], json!({"causes": 0, "clusters": []}));
    let some = app.read("/status/causes?own=3&limit=2").await;
    assert_eq!(some["causes"][0]["reason"], "InstallFailed");
    assert_eq!(
        (&some["total"], some["causes"].as_array().unwrap().len()),
        (&json!(1001), 2)
    );
    assert_eq!(
        some["own"],
        json!({"causes": 997, "clusters": [{"id": DEMO, "causes": 997}]})
    );
    app.get("/status/causes?own=many").await.problem(400, "bad-request");

    let browser = Browser::sign_in(&app, READ).await;
    let page = browser.get("/ui/problems").await.expect(200);
    assert!(page.text().contains("InstallFailed") && page.text().contains("997 more causes"));
    assert_eq!(page.text().matches("<article").count(), 4);
    let page = browser.get(&format!("/ui/clusters/{DEMO}")).await.expect(200);
    assert!(page.text().contains("and 900 more"));
    let page = browser
        .get(&format!("/ui/clusters/{DEMO}?tab=events"))
        .await
        .expect(200);
    assert!(page.text().contains("The newest 200"));
    // A cause without a version leads to the clusters without one.
    let page = browser
        .get("/ui?reason=InstallFailed&version=&state=failing")
        .await
        .expect(200);
    assert!(page.text().contains("version=&amp;"), "{}", page.text());
}

#[tokio::test]
async fn rollouts_that_are_over_are_listed_page_by_page() {
    let app = TestApp::start().await;
    let rollout = |id: &str| {
        json!({
            "id": id, "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
            "waves": [{"name": "all", "approve": true}], "gate": {"converged": "100%"},
        })
    };
    for n in 0..52 {
        app.post("/rollouts", &rollout(&format!("old-{n:02}")))
            .await
            .expect(201);
        app.post(format!("/rollouts/old-{n:02}/abort"), &json!({}))
            .await
            .expect(200);
    }
    app.post("/rollouts", &rollout("now")).await.expect(201);
    let listed = async |query: &str| app.read(&format!("/rollouts{query}")).await.as_array().unwrap().len();
    assert_eq!(
        [
            listed("").await,
            listed("?active=true").await,
            listed("?active=false").await
        ],
        [53, 1, 52]
    );
    app.get("/rollouts?active=maybe").await.problem(400, "bad-request");
    let browser = Browser::sign_in(&app, READ).await;
    let page = browser.get("/ui/rollouts").await.expect(200);
    let shown = |text: &str, id: &str| text.contains(&format!("/ui/rollouts/{id}\""));
    assert!(shown(page.text(), "now") && shown(page.text(), "old-49") && !shown(page.text(), "old-50"));
    let page = browser.get("/ui/rollouts?offset=50").await.expect(200);
    assert!(shown(page.text(), "now") && !shown(page.text(), "old-49") && shown(page.text(), "old-50"));
}

#[tokio::test]
async fn a_plan_says_what_it_overwrites_and_what_follows_from_labels() {
    let app = TestApp::start().await;
    let browser = Browser::sign_in(&app, WRITE).await;
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.7.1"}))
        .header("x-change-reason", "a hotfix")
        .await
        .expect(200);
    let back = [
        ("method", "PATCH"),
        ("path", "/platform_components/podinfo"),
        ("type", "application/json"),
        ("body", r#"{"oci_tag":"latest"}"#),
    ];
    let plan = browser.send("/ui/plan", &back).await.expect(200);
    for said in ["Takes back", "/oci_tag", "a hotfix", "Changed last in"] {
        assert!(plan.text().contains(said), "{said}: {}", plan.text());
    }

    let profile = json!({"id": "gold", "selector": "tier=gold"});
    app.post("/profiles", &profile).await.expect(201);
    let path = format!("/clusters/{DEMO}");
    let relabel = [
        ("method", "PATCH"),
        ("path", path.as_str()),
        ("type", "application/json"),
        ("body", r#"{"labels":{"tier":"gold"}}"#),
    ];
    let plan = browser.send("/ui/plan", &relabel).await.expect(200);
    for said in [
        "Labels or fields of 1 cluster change (tier)",
        "1 cluster enters the profile",
    ] {
        assert!(plan.text().contains(said), "{said}: {}", plan.text());
    }

    let guard = json!({"id": "careful", "selector": "*", "changes": 0, "reason": "holidays"});
    app.post("/guards", &guard).await.expect(201);
    let rollout = "id: next\noperations: [{op: merge, kind: platform_components, id: podinfo, value: {oci_tag: 6.8.0}}]\nwaves: [{name: all}]\n";
    let start = [
        ("method", "POST"),
        ("path", "/rollouts"),
        ("type", "application/yaml"),
        ("body", rollout),
    ];
    let plan = browser.send("/ui/plan", &start).await.expect(200);
    assert!(
        plan.text().contains("1 of 0 changes, holds the wave"),
        "{}",
        plan.text()
    );
}

#[tokio::test]
async fn a_label_with_as_many_values_as_a_map_has_groups_is_offered() {
    let app = TestApp::start().await;
    let racks = |from: usize, to: usize| {
        let clusters = (from..to).map(|n| {
            json!({"op": "create", "kind": "clusters", "value": {
                "id": format!("c-{n}"), "cluster_name": format!("c-{n}"), "cluster_dns": format!("c-{n}.example.com"), "environment": "prod",
                "labels": {"rack": format!("rack-{n}")},
            }})
        });
        json!({"operations": clusters.collect::<Vec<_>>()})
    };
    let browser = Browser::sign_in(&app, READ).await;
    for (from, to, is_offered) in [(0, 200, true), (200, 201, false)] {
        app.post("/batch", &racks(from, to)).await.expect(200);
        let page = browser.get("/ui").await.expect(200);
        assert_eq!(
            page.text().contains("<option value=\"rack\""),
            is_offered,
            "{to} values"
        );
        let status = if is_offered { 200 } else { 400 };
        browser.get("/ui/map?by=rack").await.expect(status);
    }
    // Who clicks a cell of a map that is no longer true gets a page.
    let page = browser
        .get("/ui/map/cluster?by=environment&group=prod&place=0&revision=1&open=1")
        .await
        .expect(400);
    assert!(page.text().contains("read the map again") && page.text().contains("Back to the map"));
}
