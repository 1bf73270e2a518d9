//! Guards over HTTP: each sentence of the chapter "Guards", on every road.

use std::sync::Arc;

use flux_resourceset::app::import;
use serde_json::{Value, json};

use crate::support::{DEMO, Setup, TestApp, WRITE, bare, component, ids};

/// Two production clusters beside the demo cluster, all with the component `app`.
async fn fleet() -> TestApp {
    let app = Setup::default().sqlite().start().await;
    app.post("/platform_components", &component("app")).await.expect(201);
    for id in ["prod-1", "prod-2"] {
        let mut cluster = bare(id);
        cluster["environment"] = "prod".into();
        cluster["platform_components"] = json!([{"id": "app"}]);
        app.post("/clusters", &cluster).await.expect(201);
    }
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"platform_components": [{"id": "app"}]}),
    )
    .await
    .expect(200);
    app
}

fn guard(fields: Value) -> Value {
    let mut guard = json!({"id": "freeze", "selector": "environment=prod", "reason": "holidays"});
    guard
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    guard
}

/// The same with a freeze of production.
async fn frozen() -> TestApp {
    let app = fleet().await;
    app.post("/guards", &guard(json!({"changes": 0}))).await.expect(201);
    app
}

fn tag(tag: &str) -> Value {
    json!({ "oci_tag": tag })
}

async fn operator(app: &TestApp) -> String {
    let operator =
        json!({"id": "ops", "role": "operator", "scope": {"clusters": "*", "kinds": ["platform_components"]}});
    app.post("/identities", &operator).await.expect(201);
    let issued = app.post("/identities/ops/tokens", &json!({})).await.expect(201).json();
    issued["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_guard_has_the_routes_of_every_kind() {
    let app = frozen().await;
    let one = app.get("/guards/freeze").await.expect(200);
    assert_eq!(
        one.json(),
        json!({"id": "freeze", "selector": "environment=prod", "changes": 0, "reason": "holidays"})
    );
    let etag = one.etag();
    app.patch("/guards/freeze", &json!({"removals": 0}))
        .header("if-match", &etag)
        .await
        .expect(200);
    app.patch("/guards/freeze", &json!({"removals": 1}))
        .header("if-match", &etag)
        .await
        .problem(412, "stale");
    assert_eq!(ids(&app.get("/guards").await.expect(200).array()), ["freeze"]);
    assert_eq!(app.get("/guards/freeze/history").await.expect(200).array().len(), 2);
    app.get("/guards/freeze/references").await.problem(404, "not-found");
    app.put(
        "/kinds/guards",
        &json!({"kind": "guards", "schema": {"type": "object", "properties": {}}}),
    )
    .await
    .problem(422, "invalid");
    app.delete("/kinds/guards").await.problem(409, "in-use");
    app.post("/guards", &guard(json!({"changes": 1})))
        .await
        .problem(409, "exists");
    app.post("/guards", &json!({"id": "none", "selector": "*", "reason": "x"}))
        .await
        .problem(422, "invalid");
    // What was written is there after a restart.
    let app = app.restart().await;
    assert_eq!(app.read("/guards/freeze").await["removals"], 0);
    app.delete("/guards/freeze").await.expect(204);
}

#[tokio::test]
async fn the_guards_in_force_at_a_time_are_listed() {
    let app = fleet().await;
    for (id, times) in [
        ("always", json!({})),
        ("ended", json!({"until": "2020-01-01T00:00:00Z"})),
        (
            "holidays",
            json!({"from": "2105-12-20T00:00:00Z", "until": "2106-01-03T00:00:00+01:00"}),
        ),
    ] {
        let mut document = guard(json!({"id": id, "changes": 0}));
        document
            .as_object_mut()
            .unwrap()
            .extend(times.as_object().unwrap().clone());
        app.post("/guards", &document).await.expect(201);
    }
    for (query, expected) in [
        ("", &["always", "ended", "holidays"][..]),
        ("?at=now", &["always"]),
        ("?at=2019-06-01T00:00:00Z", &["always", "ended"]),
        ("?at=2105-12-20T00:00:00Z", &["always", "holidays"]),
        ("?at=2106-01-02T22:59:59Z", &["always", "holidays"]),
        ("?at=2106-01-02T23:00:00Z", &["always"]),
        ("?at=2106-01-03T00:00:00%2B01:00", &["always"]),
    ] {
        assert_eq!(
            ids(&app.get(format!("/guards{query}")).await.expect(200).array()),
            expected,
            "{query}"
        );
    }
    let page = app
        .get("/guards?at=2019-06-01T00:00:00Z&limit=1&offset=1")
        .await
        .expect(200);
    assert_eq!(
        (ids(&page.array()), page.header("x-total-count")),
        (vec!["ended".to_owned()], "2")
    );
    for bad in ["?at=tomorrow", "?at=2026-12-24", "?in_force=true", "?at="] {
        app.get(format!("/guards{bad}")).await.problem(400, "bad-request");
    }
    app.get("/clusters?at=now").await.problem(400, "bad-request");
}

#[tokio::test]
async fn a_freeze_refuses_every_road_and_says_which_guard() {
    let app = frozen().await;
    let before = app.revision();
    let problem = app
        .patch("/platform_components/app", &tag("2.0.0"))
        .await
        .problem(409, "guarded");
    assert_eq!(
        problem["guards"],
        json!([{
            "id": "freeze", "reason": "holidays", "selector": "environment=prod", "of": "changes", "limit": 0, "count": 2,
        }])
    );
    assert_eq!(problem["clusters"], json!(["prod-1", "prod-2"]));
    let put = |tag: &str| {
        let mut one = component("app");
        one["oci_tag"] = tag.into();
        one
    };
    app.put("/platform_components/app", &put("3.0.0"))
        .await
        .problem(409, "guarded");
    app.delete("/clusters/prod-1").await.problem(409, "guarded");
    app.delete("/platform_components/app?cascade=true")
        .await
        .problem(409, "guarded");
    let operations = json!([{"op": "merge", "kind": "platform_components", "id": "app", "value": tag("2.0.0")}]);
    app.post("/batch", &json!({ "operations": operations }))
        .await
        .problem(409, "guarded");
    app.post("/rollback", &json!({"revision": 1}))
        .await
        .problem(409, "guarded");
    let profile = json!({"id": "p", "selector": "*", "namespaces": [{"id": "podinfo"}]});
    app.post("/profiles", &profile).await.problem(409, "guarded");
    let mut kind: Value = app.read("/kinds/platform_components").await;
    kind["schema"]["x-flux"]["path"] = "other-path".into();
    app.put("/kinds/platform_components", &kind)
        .await
        .problem(409, "guarded");
    assert_eq!(app.revision(), before);
    // Others are not held.
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"platform_components": [{"id": "app", "oci_tag": "9.0.0"}]}),
    )
    .await
    .expect(200);
    app.patch("/clusters/prod-1", &json!({"labels": {"note": "x"}}))
        .await
        .expect(200);
    let metrics = app.get("/metrics").await.expect(200);
    assert!(
        metrics
            .text()
            .contains("flux_resourceset_refusals_total{reason=\"guarded\"} 8"),
        "{}",
        metrics.text()
    );
}

#[tokio::test]
async fn an_undo_is_judged_and_leaves_guards_alone() {
    let app = fleet().await;
    let both = json!([
        {"op": "merge", "kind": "platform_components", "id": "app", "value": tag("2.0.0")},
        {"op": "create", "kind": "guards", "value": guard(json!({"changes": 0}))},
    ]);
    // A new guard does not hold the write that brings it.
    app.batch(both).await;
    let revision = app.revision();
    app.post("/rollback", &json!({ "undo": revision }))
        .await
        .problem(409, "guarded");
    app.post("/rollback", &json!({ "undo": revision }))
        .header("x-override-guard", "freeze")
        .header("x-change-reason", "2.0.0 fails")
        .await
        .expect(200);
    assert_eq!(app.read("/platform_components/app").await["oci_tag"], "1.0.0");
    assert_eq!(app.read("/guards/freeze").await["changes"], 0);
    // An undo of what wrote only guards changes nothing.
    app.patch("/guards/freeze", &json!({"changes": 1})).await.expect(200);
    let revision = app.revision();
    app.post("/rollback", &json!({ "undo": revision })).await.expect(200);
    assert_eq!(
        (app.revision(), &app.read("/guards/freeze").await["changes"]),
        (revision, &json!(1))
    );
    app.post("/rollback", &json!({"revision": 1, "kind": "guards", "id": "freeze"}))
        .await
        .problem(422, "invalid");
}

#[tokio::test]
async fn a_dry_run_shows_the_guards_in_force_and_what_they_would_do() {
    let app = frozen().await;
    app.post(
        "/guards",
        &guard(json!({"id": "small", "selector": "*", "changes": 5, "removals": 1, "until": "2106-01-01T00:00:00Z"})),
    )
    .await
    .expect(201);
    app.post(
        "/guards",
        &guard(json!({"id": "ended", "changes": 0, "until": "2020-01-01T00:00:00Z"})),
    )
    .await
    .expect(201);
    let plan = app
        .patch("/platform_components/app?dry_run=true", &tag("2.0.0"))
        .await
        .expect(200)
        .json();
    let all = json!({"selector": "*", "reason": "holidays", "until": "2106-01-01T00:00:00Z", "exceeded": false, "overridden": false});
    let with = |fields: Value| {
        let mut out = all.clone();
        out.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        out
    };
    assert_eq!(
        plan["guards"],
        json!([
            {"id": "freeze", "selector": "environment=prod", "reason": "holidays", "of": "changes", "limit": 0, "count": 2, "exceeded": true, "overridden": false},
            with(json!({"id": "small", "of": "changes", "limit": 5, "count": 3})),
            with(json!({"id": "small", "of": "removals", "limit": 1, "count": 0})),
        ])
    );
    let plan = app
        .patch("/platform_components/app?dry_run=true", &tag("2.0.0"))
        .header("x-override-guard", "freeze")
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&plan["guards"][0]["exceeded"], &plan["guards"][0]["overridden"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(plan["changes"][0]["overrides"], json!(["freeze"]));
    // The digest of a plan is that of its effect.
    app.delete("/guards/freeze").await.expect(204);
    let without = app
        .patch("/platform_components/app?dry_run=true", &tag("2.0.0"))
        .await
        .expect(200)
        .json();
    assert_eq!(without["plan"], plan["plan"]);
}

#[tokio::test]
async fn an_override_is_for_admins_with_a_reason_and_is_in_the_log() {
    let app = frozen().await;
    app.post("/guards", &guard(json!({"id": "other", "selector": "*", "changes": 1})))
        .await
        .expect(201);
    let operator = operator(&app).await;
    let update = || app.patch("/platform_components/app", &tag("2.0.0"));
    update().token(&operator).await.problem(409, "guarded");
    let refused = update()
        .token(&operator)
        .header("x-override-guard", "freeze")
        .header("x-change-reason", "now")
        .await
        .problem(403, "forbidden");
    assert!(
        refused["detail"].as_str().unwrap().contains("only an admin may"),
        "{refused}"
    );
    let refused = update()
        .header("x-override-guard", "freeze,other")
        .await
        .problem(400, "bad-request");
    assert!(
        refused["detail"].as_str().unwrap().contains("X-Change-Reason"),
        "{refused}"
    );
    for (header, detail) in [
        ("freeze,othr", "there is no guard \"othr\"; did you mean \"other\"?"),
        ("nothing", "there is no guard \"nothing\""),
    ] {
        let call = update()
            .header("x-override-guard", header)
            .header("x-change-reason", "now");
        let problem = call.await.problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    for bad in ["", "freeze,,other", "freeze, "] {
        update()
            .header("x-override-guard", bad)
            .await
            .problem(400, "bad-request");
    }
    let half = update()
        .header("x-override-guard", "freeze")
        .header("x-change-reason", "now")
        .await;
    assert_eq!(half.problem(409, "guarded")["guards"][0]["id"], "other");
    // The reason may be in the body, and several guards in several headers.
    let operations = json!([{"op": "merge", "kind": "platform_components", "id": "app", "value": tag("2.0.0")}]);
    app.post("/batch", &json!({"operations": operations, "reason": "CVE-2026-1"}))
        .header("x-override-guard", "other, freeze")
        .await
        .expect(200);
    let revision = app.revision();
    let listed = app.read("/revisions?limit=1").await;
    assert_eq!(
        (&listed["revisions"][0]["overrides"], &listed["revisions"][0]["reason"]),
        (&json!(["freeze", "other"]), &json!("CVE-2026-1"))
    );
    let records = app
        .get(format!("/changes?after={}", revision - 1))
        .await
        .expect(200)
        .json();
    assert_eq!(records[0]["overrides"], json!(["freeze", "other"]));
    let history = app.get("/platform_components/app/history").await.expect(200).array();
    let overriding = history.iter().filter(|record| record.get("overrides").is_some());
    assert_eq!(overriding.count(), 1, "{history:?}");
    // What needs no override has none.
    app.patch("/clusters/prod-1", &json!({"labels": {"x": "y"}}))
        .header("x-override-guard", "freeze")
        .header("x-change-reason", "now")
        .await
        .expect(200);
    assert_eq!(
        app.read("/revisions?limit=1").await["revisions"][0].get("overrides"),
        None
    );
    let metrics = app.get("/metrics").await.expect(200);
    assert!(
        metrics.text().contains("flux_resourceset_guard_overrides_total 2"),
        "{}",
        metrics.text()
    );
    // The digest covers it: the log adds up, also after a restart.
    let app = app.restart().await;
    assert!(app.store.check().await.unwrap().is_empty());
    assert_eq!(
        app.read(&format!("/revisions?before={}&limit=1", revision + 1)).await["revisions"][0]["overrides"],
        json!(["freeze", "other"])
    );
}

#[tokio::test]
async fn only_admins_write_guards_and_readers_read_them() {
    let app = frozen().await;
    let token = operator(&app).await;
    for call in [
        app.post("/guards", &guard(json!({"id": "mine", "changes": 3}))),
        app.delete("/guards/freeze"),
        app.patch("/guards/freeze", &json!({"changes": 100})),
        app.post(
            "/batch",
            &json!({"operations": [{"op": "delete", "kind": "guards", "id": "freeze"}]}),
        ),
        app.delete("/guards/freeze?dry_run=true"),
    ] {
        let problem = call.token(&token).await.problem(403, "out-of-scope");
        assert!(
            problem["documents"][0].as_str().unwrap().starts_with("guards/"),
            "{problem}"
        );
    }
    app.get("/guards/freeze").token(&token).await.expect(200);
    // No scope can name them.
    let scope = json!({"clusters": "*", "kinds": ["guards"]});
    let problem = app
        .post(
            "/identities",
            &json!({"id": "more", "role": "operator", "scope": scope}),
        )
        .await
        .problem(422, "invalid");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("only an admin may write guards"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_new_cluster_is_not_held_and_a_confirmed_removal_is() {
    let app = frozen().await;
    let mut cluster = bare("prod-3");
    cluster["environment"] = "prod".into();
    cluster["platform_components"] = json!([{"id": "app"}]);
    app.post("/clusters", &cluster).await.expect(201);
    // Confirming removals says nothing about guards.
    app.delete("/clusters/prod-3")
        .header("x-confirm-removals", "1")
        .await
        .problem(409, "guarded");
}

#[tokio::test]
async fn a_backup_and_an_import_keep_guards_and_are_held_by_them() {
    let app = frozen().await;
    app.patch("/platform_components/app", &tag("2.0.0"))
        .header("x-override-guard", "freeze")
        .header("x-change-reason", "now")
        .await
        .expect(200);
    let reply = app.get("/backup").token(WRITE).await.expect(200);
    let restored = Setup::default().restored(&reply).await;
    assert_eq!(restored.app.fleet().head(), app.app.fleet().head());
    assert_eq!(restored.read("/revisions").await, app.read("/revisions").await);
    restored
        .patch("/platform_components/app", &tag("3.0.0"))
        .await
        .problem(409, "guarded");
    // An import is a write like any other.
    let mut changed = component("app");
    changed["oci_tag"] = "4.0.0".into();
    changed["kind"] = "platform_components".into();
    let lines = Setup::default().file("import.jsonl", &format!("{changed}\n"));
    std::fs::create_dir_all(lines.parent().unwrap()).unwrap();
    std::fs::write(&lines, format!("{changed}\n")).unwrap();
    let refused = import::import(&restored.app.engine, &lines, 100)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("guard \"freeze\""), "{refused}");
}

#[tokio::test]
async fn kind_files_at_a_start_are_held_too() {
    let app = frozen().await;
    let kind = "kind: platform_components\nschema: {type: object, properties: {oci_tag: {type: string}}}\n";
    let setup = app.stop().await.resource("platform_component.yaml", kind);
    let app = setup.start().await;
    // The previous kind stays in use.
    assert!(app.read("/kinds/platform_components").await["schema"]["items"].is_object());
}

#[tokio::test]
async fn a_store_from_before_there_were_guards_gets_the_kind() {
    // No store holds the kind: whatever it was written by, the registry has it.
    let app = Setup::default().sqlite().start().await;
    let kinds = app.store.load().await.unwrap().resources;
    assert!(kinds.iter().all(|resource| &*resource.id != "guards"));
    let app = app.restart().await;
    assert_eq!(app.read("/kinds/guards").await["kind"], "guards");
    app.post("/guards", &guard(json!({"changes": 0}))).await.expect(201);
    let mirrored = Arc::clone(&app.store).load().await.unwrap();
    assert!(mirrored.resources.iter().any(|resource| &*resource.kind == "guards"));
}
