//! Plans, the removal budget, protection, the past and the way back.

use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, NETWORK_POLICY, Setup, TestApp, bare, component};

/// Twelve more clusters, each with a component and a namespace of the demo.
async fn fleet(app: &TestApp) {
    let clusters = (0..12).map(|n| {
        let mut cluster = bare(&format!("c{n:02}"));
        cluster["platform_components"] = json!([{"id": "podinfo"}, {"id": "traefik"}]);
        cluster["namespaces"] = json!([{"id": "podinfo"}]);
        cluster["environment"] = if n < 4 { "prod" } else { "dev" }.into();
        json!({"op": "create", "kind": "clusters", "value": cluster})
    });
    app.batch(clusters.collect()).await;
}

#[tokio::test]
async fn a_plan_tells_the_effect_on_every_cluster() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let pinned = json!({"platform_components": [{"id": "podinfo", "oci_tag": "6.0.0"}]});
    app.patch("/clusters/c00", &pinned).await.expect(200);
    let revision = app.revision();

    let change = json!({"oci_tag": "6.5.0", "component_version": "6.5.0"});
    let plan = app
        .patch("/platform_components/podinfo?dry_run=true", &change)
        .await
        .expect(200);
    assert_eq!(plan.header("x-revision"), revision.to_string());
    let plan = plan.json();
    assert_eq!(app.revision(), revision, "a plan changes nothing");
    assert_eq!(plan["base"], revision);
    assert_eq!(plan["changes"][0]["action"], "update");
    assert_eq!(plan["clusters"].as_array().unwrap().len(), 13);
    assert_eq!(plan["clusters"][0]["id"], "c00");
    let field =
        |pointer: &str, before: &str, after: &str| json!({"pointer": pointer, "before": before, "after": after});
    // The tag that a cluster pins does not change there.
    let inputs = |fields: Value| json!({"platform-components": {"added": [], "removed": [], "changed": [{"id": "podinfo", "fields": fields}]}});
    assert_eq!(
        plan["clusters"][0]["inputs"],
        inputs(json!([field("/component_version", "latest", "6.5.0")]))
    );
    assert_eq!(
        plan["clusters"][1]["inputs"],
        inputs(json!([
            field("/component_version", "latest", "6.5.0"),
            field("/source/oci_tag", "latest", "6.5.0")
        ]))
    );
    assert_eq!(plan["totals"]["clusters"], 13);
    assert_eq!(plan["totals"]["by_environment"], json!({"dev": 9, "prod": 4}));
    assert_eq!(
        plan["totals"]["by_kind"],
        json!({"platform-components": {"clusters": 13, "added": 0, "removed": 0, "changed": 13}})
    );
    assert_eq!(
        plan["removals"],
        json!({"count": 0, "window": 0, "budget": 10, "clusters": []})
    );

    let page = app
        .patch("/platform_components/podinfo?dry_run=true&limit=2&offset=1", &change)
        .await
        .expect(200)
        .json();
    assert_eq!(
        page["clusters"].as_array().unwrap()[..],
        plan["clusters"].as_array().unwrap()[1..3]
    );
    assert_eq!((&page["plan"], &page["totals"]), (&plan["plan"], &plan["totals"]));
    app.patch("/platform_components/podinfo?limit=2", &change)
        .await
        .problem(400, "bad-request");
}

#[tokio::test]
async fn a_plan_warns_of_what_will_stall_and_shows_objects() {
    let app = TestApp::start().await;
    let off = json!({"platform_components": [{"id": "traefik", "enabled": false}]});
    let plan = app
        .patch(format!("/clusters/{DEMO}?dry_run=true&manifests=true"), &off)
        .await
        .expect(200)
        .json();
    assert_eq!(plan["warnings"][0]["cluster"], DEMO);
    assert_eq!(plan["warnings"][0]["id"], "podinfo");
    assert_eq!(plan["totals"]["warnings"], 1);
    assert_eq!(plan["removals"]["clusters"], json!([DEMO]));
    let objects = &plan["clusters"][0]["objects"];
    assert_eq!(objects["added"], json!([]));
    let removed: Vec<_> = objects["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert!(
        removed.contains(&"HelmRelease/flux-system/platform-traefik"),
        "{removed:?}"
    );
    let patched = json!({"patches": {"podinfo": {"replicaCount": "5"}}});
    let plan = app
        .patch(format!("/clusters/{DEMO}?dry_run=true&manifests=true"), &patched)
        .await
        .expect(200)
        .json();
    // The copy for people shows the value; the release switches to another ConfigMap.
    let objects = &plan["clusters"][0]["objects"];
    assert_eq!(
        objects["changed"][0],
        json!({"id": format!("ConfigMap/flux-system/values-podinfo-{DEMO}"), "fields": [
            {"pointer": "/data/replicaCount", "before": "2", "after": "5"},
        ]})
    );
    assert_eq!(objects["changed"][1]["id"], "HelmRelease/flux-system/platform-podinfo");
    assert_eq!(objects["changed"].as_array().unwrap().len(), 2, "{objects}");
    let manifests = plan["clusters"][0]["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 4, "{manifests:?}");
    let (before, after) = (&manifests[0]["before"], &manifests[0]["after"]);
    assert_eq!(manifests[0]["id"], objects["changed"][0]["id"]);
    assert_eq!(
        (&before["kind"], &after["kind"]),
        (&json!("ConfigMap"), &json!("ConfigMap"))
    );
    assert_eq!(
        (&before["data"]["replicaCount"], &after["data"]["replicaCount"]),
        (&json!("2"), &json!("5"))
    );
    for (list, version) in [("added", "before"), ("removed", "after")] {
        let one = manifests.iter().find(|one| one["id"] == objects[list][0]).unwrap();
        assert_eq!(one[version], Value::Null, "{list}");
    }
    for list in ["added", "removed"] {
        let ids = objects[list].as_array().unwrap();
        let prefix = format!("ConfigMap/flux-system/values-podinfo-{DEMO}-");
        assert!(
            ids.len() == 1 && ids[0].as_str().unwrap().starts_with(&prefix),
            "{list}: {ids:?}"
        );
    }
}

#[tokio::test]
async fn a_write_with_a_plan_happens_as_planned_or_not_at_all() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let change = json!({"component_version": "6.5.0"});
    let plan = app
        .patch("/platform_components/podinfo?dry_run=true", &change)
        .await
        .expect(200)
        .json();
    let plan = plan["plan"].as_str().unwrap();
    let write = || {
        app.patch("/platform_components/podinfo", &change)
            .header("if-plan-match", plan)
    };

    // What has nothing to do with it does not matter.
    app.post("/namespaces", &json!({"id": "unrelated"})).await.expect(201);
    app.patch("/clusters/c01", &json!({"labels": {"team": "a"}}))
        .await
        .expect(200);
    app.patch("/platform_components/podinfo?dry_run=true", &change)
        .header("if-plan-match", plan)
        .await
        .expect(200);
    // One cluster more is another effect.
    let mut late = bare("late");
    late["platform_components"] = json!([{"id": "podinfo"}]);
    app.post("/clusters", &late).await.expect(201);
    let problem = write().await.problem(412, "plan-changed");
    assert!(
        problem["detail"].as_str().unwrap().contains("the plan is now"),
        "{problem}"
    );
    app.delete("/clusters/late").await.expect(204);
    write().await.expect(200);
    for bad in ["", "abc", &"z".repeat(64)] {
        app.patch("/platform_components/podinfo", &change)
            .header("if-plan-match", bad)
            .await
            .problem(400, "bad-request");
    }
}

#[tokio::test]
async fn what_removes_too_much_must_be_confirmed_by_its_number() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let before = app.revision();
    let cascade = |path: &str| app.delete(format!("{path}?cascade=true"));
    let problem = cascade("/platform_components/podinfo")
        .await
        .problem(409, "removal-budget");
    assert_eq!(problem["removals"], json!({"count": 13, "window": 13, "budget": 10}));
    assert_eq!(problem["clusters"].as_array().unwrap().len(), 13);
    assert!(
        problem["detail"].as_str().unwrap().contains("X-Confirm-Removals: 13"),
        "{problem}"
    );
    for wrong in ["12", "14", "0"] {
        let call = cascade("/platform_components/podinfo").header("x-confirm-removals", wrong);
        call.await.problem(409, "removal-budget");
    }
    cascade("/platform_components/podinfo")
        .header("x-confirm-removals", "many")
        .await
        .problem(400, "bad-request");
    assert_eq!(app.revision(), before);
    // A plan is not refused, and tells the number.
    let plan = app
        .delete("/platform_components/podinfo?cascade=true&dry_run=true")
        .await
        .expect(200)
        .json();
    assert_eq!(plan["removals"]["count"], 13);
    cascade("/platform_components/podinfo")
        .header("x-confirm-removals", "13")
        .await
        .expect(204);
    assert!(
        !app.input_ids("c00.k8s.example.com", "platform-components")
            .await
            .contains(&"podinfo".to_owned())
    );
    // What was confirmed does not use up the window.
    app.patch(
        "/clusters/c00",
        &json!({"namespaces": [{"id": "podinfo", "$patch": "delete"}]}),
    )
    .await
    .expect(200);
}

#[tokio::test]
async fn every_kind_of_write_is_checked_against_the_budget() {
    let app = TestApp::start().await;
    fleet(&app).await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    let off = json!([{"op": "assign", "kind": "platform_components", "id": "podinfo", "selector": "*", "value": {"enabled": false}}]);
    let unassign = json!([{"op": "unassign", "kind": "namespaces", "id": "podinfo", "selector": "*"}]);
    let delete = |n: usize| json!({"op": "delete", "kind": "clusters", "id": format!("c{n:02}")});
    let deletes = Value::Array((0..11).map(delete).collect());
    for operations in [off, unassign, deletes] {
        let refused = app.post("/batch", &json!({ "operations": operations })).await;
        refused.problem(409, "removal-budget");
    }
    // A chart that becomes a path in an artifact is another object: the old one goes.
    let moved = json!({"oci_url": "oci://registry.example.com/podinfo"});
    let problem = app
        .patch("/platform_components/podinfo", &moved)
        .await
        .problem(409, "removal-budget");
    assert_eq!(problem["removals"]["count"], 13);
    // And so is a chart that comes from elsewhere.
    let moved = json!({"oci_url": "oci://registry.example.com/charts", "oci_artifact": "chart"});
    app.patch("/platform_components/podinfo", &moved)
        .await
        .problem(409, "removal-budget");
    // A kind that makes its inputs otherwise.
    let kind = app.get("/kinds/platform_components").await.expect(200).json();
    let mut changed = kind.clone();
    changed["schema"]["x-flux"]["off"] = json!({"enabled": true});
    app.put("/kinds/platform_components", &changed)
        .await
        .problem(409, "removal-budget");
    // The way back.
    let revision = app.revision();
    app.batch(json!([{"op": "assign", "kind": "rolebindings", "id": "dev-readers", "selector": "*"}]))
        .await;
    app.post("/rollback", &json!({"revision": revision}))
        .await
        .problem(409, "removal-budget");
    app.post("/rollback", &json!({"undo": revision + 1}))
        .await
        .problem(409, "removal-budget");
    let back = app
        .post("/rollback", &json!({"undo": revision + 1}))
        .header("x-confirm-removals", "12");
    back.await.expect(200);
}

#[tokio::test]
async fn a_loop_of_small_removals_does_not_slip_through_and_a_restart_forgets_nothing() {
    let app = Setup::default().sqlite().start().await;
    fleet(&app).await;
    for n in 0..5 {
        let path = format!("/clusters/c{n:02}");
        app.patch(&path, &json!({"namespaces": [{"id": "podinfo", "$patch": "delete"}]}))
            .await
            .expect(200);
        // Deleted, it counts once more.
        app.delete(path).await.expect(204);
    }
    let app = app.restart().await;
    let problem = app.delete("/clusters/c05").await.problem(409, "removal-budget");
    assert_eq!(problem["removals"], json!({"count": 1, "window": 11, "budget": 10}));
    // One that lost something lately may lose more.
    app.delete("/clusters/c05")
        .header("x-confirm-removals", "1")
        .await
        .expect(204);
    app.delete("/clusters/c06").await.problem(409, "removal-budget");
}

#[tokio::test]
async fn another_process_shares_the_budget_and_time_ends_it() {
    let mut setup = Setup::default().sqlite();
    setup.config.budget.clusters = Some(1);
    setup.config.budget.window = std::time::Duration::from_secs(1);
    let app = setup.start().await;
    fleet(&app).await;
    app.delete("/clusters/c00").await.expect(204);
    app.delete("/clusters/c01").await.problem(409, "removal-budget");
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while app.delete("/clusters/c01").await.status != 204 {
        assert!(std::time::Instant::now() < patience, "the window never ends");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn without_a_budget_nothing_is_counted() {
    let mut setup = Setup::default();
    setup.config.budget.clusters = None;
    let app = setup.start().await;
    fleet(&app).await;
    let plan = app
        .delete("/platform_components/podinfo?cascade=true&dry_run=true")
        .await
        .expect(200)
        .json();
    assert_eq!(plan["removals"]["budget"], json!(null));
    app.delete("/platform_components/podinfo?cascade=true")
        .await
        .expect(204);
}

#[tokio::test]
async fn a_protected_cluster_keeps_something_of_everything() {
    let app = TestApp::start().await;
    let demo = format!("/clusters/{DEMO}");
    app.patch(&demo, &json!({"protected": true})).await.expect(200);
    app.delete(&demo).await.problem(409, "protected");
    let remove = |ids: &[&str]| {
        let removed: Vec<_> = ids.iter().map(|id| json!({"id": id, "$patch": "delete"})).collect();
        json!({ "namespaces": removed })
    };
    app.patch(&demo, &remove(&["podinfo"])).await.expect(200);
    let problem = app
        .patch(&demo, &remove(&["cert-manager", "traefik"]))
        .await
        .problem(409, "protected");
    assert_eq!(problem["clusters"], json!([DEMO]));
    app.patch(format!("{demo}?dry_run=true"), &remove(&["cert-manager", "traefik"]))
        .await
        .problem(409, "protected");
    let off = json!([{"op": "merge", "kind": "clusters", "id": DEMO, "value": {"platform_components": [
        {"id": "podinfo", "enabled": false}, {"id": "traefik", "enabled": false}, {"id": "cert-manager", "enabled": false},
    ]}}]);
    app.post("/batch", &json!({ "operations": off }))
        .await
        .problem(409, "protected");
    app.patch(&demo, &json!({"protected": false})).await.expect(200);
    app.patch(&demo, &remove(&["cert-manager", "traefik"]))
        .await
        .expect(200);
}

/// A cluster that was created (revision 1), patched (2), met a new kind (3), lost a namespace (4), and was deleted (5).
async fn deleted_cluster() -> TestApp {
    let app = TestApp::start().await;
    let demo = format!("/clusters/{DEMO}");
    app.patch(&demo, &json!({"patches": {"podinfo": {"replicaCount": "3"}}}))
        .header("x-change-reason", "more")
        .await
        .expect(200);
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    app.patch(&demo, &json!({"namespaces": [{"id": "podinfo", "$patch": "delete"}]}))
        .await
        .expect(200);
    app.delete(&demo).await.expect(204);
    app
}

#[tokio::test]
async fn the_history_of_a_resource_can_be_read() {
    let app = deleted_cluster().await;
    let demo = format!("/clusters/{DEMO}");
    let history = app.get(format!("{demo}/history")).await.expect(200).array();
    let told: Vec<_> = history
        .iter()
        .map(|record| (record["revision"].as_u64().unwrap(), record["action"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(1, "create"), (2, "update"), (4, "update"), (5, "delete")]);
    assert_eq!(history[1]["reason"], "more");
    assert_eq!(
        app.get(format!("{demo}/history?after=2&limit=1"))
            .await
            .expect(200)
            .array()
            .len(),
        1
    );
    app.get("/clusters/nobody/history").await.problem(404, "not-found");
    app.get("/gadgets/x/history").await.problem(404, "not-found");
    assert_eq!(
        app.get("/kinds/network_policies/history")
            .await
            .expect(200)
            .array()
            .len(),
        1
    );
}

#[tokio::test]
async fn the_past_can_be_read() {
    let app = deleted_cluster().await;
    let demo = format!("/clusters/{DEMO}");
    let first = TestApp::start().await.get(&demo).await.expect(200).json();
    app.get(&demo).await.expect(404);
    assert_eq!(app.get(format!("{demo}?revision=1")).await.expect(200).json(), first);
    let then = app.get(format!("{demo}?revision=3")).await.expect(200);
    assert_eq!(then.json()["patches"]["podinfo"]["replicaCount"], "3");
    assert_eq!(then.header("x-revision"), "3");
    for revision in ["0", "5"] {
        app.get(format!("{demo}?revision={revision}"))
            .await
            .problem(404, "not-found");
    }
    app.get(format!("{demo}?revision=6")).await.problem(404, "not-found");
    app.get(format!("{demo}?revision=x")).await.problem(400, "bad-request");

    let inputs = app
        .get(format!("{demo}/inputs/namespaces?revision=3"))
        .await
        .expect(200)
        .json();
    assert_eq!(inputs["inputs"].as_array().unwrap().len(), 3);
    let inputs = app
        .get(format!("{demo}/inputs/namespaces?revision=4"))
        .await
        .expect(200)
        .json();
    assert_eq!(inputs["inputs"].as_array().unwrap().len(), 2);
    // Kinds of that revision apply.
    app.get(format!("{demo}/inputs/network-policies?revision=2"))
        .await
        .problem(404, "not-found");
    app.get(format!("{demo}/inputs/network-policies?revision=3"))
        .await
        .expect(200);
    app.get(format!("{demo}/inputs/namespaces"))
        .await
        .problem(404, "not-found");
    let manifests = app
        .get(format!("{demo}/manifests?revision=3&kind=namespaces"))
        .await
        .expect(200);
    assert_eq!(manifests.text().matches("kind: Namespace").count(), 3);
    // Before there was anything.
    app.get(format!("{demo}/manifests?revision=0"))
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn two_revisions_can_be_compared() {
    let app = TestApp::start().await;
    fleet(&app).await;
    app.patch("/platform_components/podinfo", &json!({"component_version": "6.5.0"}))
        .await
        .expect(200);
    app.delete("/clusters/c11").await.expect(204);
    let diff = app.get("/diff?from=2").await.expect(200).json();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(2), &json!(4)));
    assert_eq!(diff["totals"]["clusters"], 13);
    let gone = diff["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cluster| cluster["id"] == "c11")
        .unwrap();
    assert_eq!(gone["deleted"], true);
    let prod = app
        .get("/diff?from=2&selector=environment%3Dprod")
        .await
        .expect(200)
        .json();
    assert_eq!(prod["totals"]["clusters"], 4);
    let back = app.get("/diff?from=4&to=2").await.expect(200).json();
    let gone = back["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cluster| cluster["id"] == "c11")
        .unwrap();
    assert_eq!(gone["inputs"]["namespaces"]["added"], json!(["podinfo"]));
    assert_eq!(
        app.get("/diff?from=3&to=3").await.expect(200).json()["changes"],
        json!([])
    );
    app.get("/diff").await.problem(400, "bad-request");
    app.get("/diff?from=9").await.problem(404, "not-found");
    app.get("/diff?from=1&selector=nonsense%3Dx")
        .await
        .problem(422, "invalid");
}

#[tokio::test]
async fn a_rollback_restores_what_it_selects_and_nothing_else() {
    let app = TestApp::start().await;
    fleet(&app).await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    let start = app.revision();
    let clusters = app.get("/clusters").await.expect(200).array();
    app.patch("/platform_components/podinfo", &json!({"component_version": "6.5.0"}))
        .await
        .expect(200);
    app.batch(
        json!([{"op": "patch", "kind": "platform_components", "id": "podinfo", "selector": "*", "set": {"a": "1"}}]),
    )
    .await;
    app.delete("/clusters/c03").await.expect(204);
    app.post("/clusters", &bare("new")).await.expect(201);
    app.delete("/kinds/network_policies").await.expect(204);

    // One resource.
    let one = json!({"revision": start, "kind": "clusters", "id": "c00"});
    let plan = app.post("/rollback?dry_run=true", &one).await.expect(200).json();
    assert_eq!(plan["totals"]["clusters"], 1);
    app.post("/rollback", &one).await.expect(200);
    assert_eq!(app.read("/clusters/c00").await["patches"], json!({}));
    assert_eq!(app.read("/clusters/c01").await["patches"]["podinfo"]["a"], "1");
    // Some clusters: one of them is brought back, and its decommission ends.
    app.get("/decommissions/c03.k8s.example.com").await.expect(200);
    let some = json!({"revision": start, "selector": "environment=prod", "reason": "wrong tier"});
    app.post("/rollback", &some).await.expect(200);
    app.get("/decommissions/c03.k8s.example.com").await.expect(404);
    assert_eq!(app.input_ids("c03.k8s.example.com", "namespaces").await, ["podinfo"]);
    assert_eq!(app.read("/clusters/c05").await["patches"]["podinfo"]["a"], "1");
    assert_eq!(
        app.read("/platform_components/podinfo").await["component_version"],
        "6.5.0"
    );
    let last = app.get("/changes?after=0&limit=1000").await.expect(200).array();
    assert_eq!(last.last().unwrap()["reason"], "wrong tier");
    // Everything, kinds included. A cluster that came since is deleted like any other.
    app.post("/rollback", &json!({"revision": start})).await.expect(200);
    assert_eq!(app.get("/clusters").await.expect(200).array(), clusters);
    assert_eq!(
        app.read("/platform_components/podinfo").await["component_version"],
        "latest"
    );
    app.get("/kinds/network_policies").await.expect(200);
    assert_eq!(
        app.inputs("new.k8s.example.com", "namespaces").await,
        Vec::<Value>::new()
    );
    // Nothing left to do.
    let revision = app.revision();
    app.post("/rollback", &json!({"revision": start})).await.expect(200);
    assert_eq!(app.revision(), revision);
    app.post("/rollback", &json!({"revision": revision + 1}))
        .await
        .problem(404, "not-found");
    app.post("/rollback", &json!({"revision": 1, "kind": "clusters", "id": "nobody"}))
        .await
        .problem(404, "not-found");
    app.post("/rollback", &json!({"revision": 1, "selector": "environment=uat"}))
        .await
        .problem(422, "invalid");
    app.post("/rollback", &json!({"revisoin": 1}))
        .await
        .problem(422, "invalid");
}

#[tokio::test]
async fn an_undo_takes_back_one_revision_and_no_other() {
    let app = TestApp::start().await;
    app.post("/platform_components", &component("extra")).await.expect(201);
    let demo = format!("/clusters/{DEMO}");
    app.patch(&demo, &json!({"platform_components": [{"id": "extra"}]}))
        .await
        .expect(200);
    app.patch("/platform_components/podinfo", &json!({"component_version": "1"}))
        .await
        .expect(200);
    // Something still uses it.
    app.post("/rollback", &json!({"undo": 2})).await.problem(409, "in-use");
    app.post("/rollback", &json!({"undo": 3})).await.expect(200);
    assert!(
        !app.input_ids(DEMO_DNS, "platform-components")
            .await
            .contains(&"extra".to_owned())
    );
    assert_eq!(app.read("/platform_components/podinfo").await["component_version"], "1");
    app.post("/rollback", &json!({"undo": 2})).await.expect(200);
    app.get("/platform_components/extra").await.expect(404);
    let problem = app
        .post("/rollback", &json!({"undo": 3}))
        .await
        .problem(409, "conflict");
    assert_eq!(problem["resources"], json!([format!("clusters/{DEMO}")]));
    assert_eq!(
        problem["detail"],
        "revision 3 cannot be undone: revision 5 already took it back"
    );
    for name in ["undo", "redo", "revision"] {
        let problem = app.post("/rollback", &json!({name: 0})).await.problem(422, "invalid");
        let detail = problem["errors"][0]["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with("revisions begin at 1"), "{problem}");
    }
    app.post("/rollback", &json!({"undo": 99}))
        .await
        .problem(404, "not-found");
    // An undo is undone like anything else.
    let last = app.revision();
    app.post("/rollback", &json!({"undo": last})).await.expect(200);
    app.get("/platform_components/extra").await.expect(200);
}

/// An id says little: what is planned is the content.
#[tokio::test]
async fn a_plan_is_of_what_is_told_not_only_of_its_name() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("q")).await.expect(201);
    let assign =
        json!({"operations": [{"op": "assign", "kind": "platform_components", "id": "podinfo", "cluster": "q"}]});
    let plan = app.post("/batch?dry_run=true", &assign).await.expect(200).json();
    let plan = plan["plan"].as_str().unwrap();
    app.patch("/platform_components/podinfo", &json!({"component_path": "other"}))
        .await
        .expect(200);
    app.post("/batch", &assign)
        .header("if-plan-match", plan)
        .await
        .problem(412, "plan-changed");
}

#[tokio::test]
async fn protection_holds_when_another_cluster_takes_the_name_and_in_a_rollback() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("p")).await.expect(201);
    let start = app.revision();
    app.patch("/clusters/p", &json!({"namespaces": [{"id": "podinfo"}]}))
        .await
        .expect(200);
    app.patch("/clusters/p", &json!({"protected": true})).await.expect(200);
    let taken = json!({"operations": [
        {"op": "merge", "kind": "clusters", "id": "p", "value": {"cluster_dns": "elsewhere.example.com"}},
        {"op": "create", "kind": "clusters", "value": {"id": "b", "cluster_name": "b", "cluster_dns": "p.k8s.example.com", "environment": "dev"}},
    ]});
    let problem = app.post("/batch", &taken).await.problem(409, "protected");
    assert_eq!(problem["clusters"], json!(["p"]));
    app.post("/rollback", &json!({"revision": start}))
        .await
        .problem(409, "protected");
    app.patch("/clusters/p", &json!({"protected": false})).await.expect(200);
    app.post("/rollback", &json!({"revision": start})).await.expect(200);
}

#[tokio::test]
async fn the_past_of_a_kind_that_is_gone_can_be_read_and_what_dangled_dangles_again() {
    let seed = json!({"clusters": [{
        "cluster_name": "old", "cluster_dns": "old.example.com", "environment": "dev", "namespaces": [{"id": "ghost"}],
    }]});
    let app = Setup::default().seed(&seed).start().await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    app.post(
        "/network_policies",
        &json!({"id": "a", "target_namespace": "x", "ingress_rules": []}),
    )
    .await
    .expect(201);
    app.delete("/network_policies/a").await.expect(204);
    app.delete("/kinds/network_policies").await.expect(204);
    assert_eq!(
        app.get("/network_policies/a?revision=3").await.expect(200).json()["id"],
        "a"
    );
    assert_eq!(
        app.get("/network_policies/a/history").await.expect(200).array().len(),
        2
    );
    app.get("/kinds/network_policies?revision=2").await.expect(200);
    app.get("/kinds/network_policies?revision=5")
        .await
        .problem(404, "not-found");
    app.patch(
        "/clusters/old",
        &json!({"namespaces": [{"id": "ghost", "$patch": "delete"}]}),
    )
    .await
    .expect(200);
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    assert_eq!(app.read("/clusters/old").await["namespaces"], json!([{"id": "ghost"}]));
}

#[tokio::test]
async fn a_plan_after_a_restart_knows_what_was_removed_before() {
    let app = Setup::default().sqlite().start().await;
    fleet(&app).await;
    app.delete("/clusters/c00").await.expect(204);
    let app = app.restart().await;
    let plan = app.delete("/clusters/c01?dry_run=true").await.expect(200).json();
    assert_eq!(plan["removals"]["window"], 2);
}

/// The kind of namespaces at another path.
async fn moved(app: &TestApp) -> Value {
    let mut document = app.get("/kinds/namespaces").await.expect(200).json();
    document["schema"]["x-flux"]["path"] = "ns".into();
    document
}

#[tokio::test]
async fn a_path_that_is_absent_for_one_revision_does_not_empty_lists() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let moved = moved(&app).await;
    let plan = app
        .put("/kinds/namespaces?dry_run=true", &moved)
        .await
        .expect(200)
        .json();
    assert_eq!(plan["removals"]["count"], 13);
    let inputs = &plan["clusters"][0]["inputs"];
    assert_eq!(
        inputs["namespaces"],
        json!({"added": [], "removed": ["podinfo"], "changed": [], "unanswered": true})
    );
    assert_eq!(
        inputs["ns"],
        json!({"added": ["podinfo"], "removed": [], "changed": []})
    );
    app.put("/kinds/namespaces", &moved)
        .await
        .problem(409, "removal-budget");
    app.put("/kinds/namespaces", &moved)
        .header("x-confirm-removals", "13")
        .await
        .expect(200);

    // Nor is a kind that goes with all that it had.
    let gone = json!({"operations": [
        {"op": "delete", "kind": "namespaces", "id": "podinfo", "cascade": true},
        {"op": "delete", "kind": "namespaces", "id": "cert-manager", "cascade": true},
        {"op": "delete", "kind": "namespaces", "id": "traefik", "cascade": true},
        {"op": "delete", "kind": "kinds", "id": "namespaces"},
    ]});
    let problem = app.post("/batch", &gone).await.problem(409, "removal-budget");
    assert_eq!(problem["removals"]["count"], 13);
}

#[tokio::test]
async fn protection_cannot_be_lifted_in_the_revision_that_needs_it_lifted() {
    let app = TestApp::start().await;
    let lift = json!({"op": "merge", "kind": "clusters", "id": DEMO, "value": {"protected": false}});
    let rename = json!({"op": "merge", "kind": "clusters", "id": DEMO, "value": {"cluster_dns": "new.example.com"}});
    let gone = json!({"op": "delete", "kind": "clusters", "id": DEMO});
    app.patch(format!("/clusters/{DEMO}"), &json!({"protected": true}))
        .await
        .expect(200);
    let start = app.revision();
    for operations in [json!([lift, gone]), json!([lift, rename]), json!([rename])] {
        let batch = json!({ "operations": operations });
        let problem = app.post("/batch", &batch).await.problem(409, "protected");
        assert_eq!(problem["clusters"], json!([DEMO]));
        app.post("/batch?dry_run=true", &batch).await.problem(409, "protected");
    }
    assert_eq!(app.revision(), start);
    app.put("/kinds/namespaces", &moved(&app).await)
        .header("x-confirm-removals", "1")
        .await
        .problem(409, "protected");
    app.post("/batch", &json!({"operations": [lift]})).await.expect(200);
    app.post("/batch", &json!({"operations": [gone]})).await.expect(200);
}

#[tokio::test]
async fn a_plan_says_which_clusters_leave_lists_that_go_by_labels() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let relabel = json!({"operations": [
        {"op": "merge", "kind": "clusters", "selector": "environment=prod", "value": {"labels": {"tier": "gold"}}},
    ]});
    let plan = app.post("/batch?dry_run=true", &relabel).await.expect(200).json();
    let relabelled = json!({"count": 4, "keys": ["tier"], "clusters": ["c00", "c01", "c02", "c03"]});
    assert_eq!(plan["relabelled"], relabelled);
    assert_eq!(plan["removals"]["count"], 0);
    app.post("/batch", &relabel).await.expect(200);
    let to = app.revision();
    let diff = format!("/diff?from={}&to={to}", to - 1);
    assert_eq!(app.get(&diff).await.expect(200).json()["relabelled"], relabelled);
    let some = app.get(format!("{diff}&selector=id=c01")).await.expect(200).json();
    assert_eq!(some["relabelled"]["clusters"], json!(["c01"]));
}

#[tokio::test]
async fn a_plan_and_a_difference_list_as_many_changes_as_are_asked_for() {
    let app = TestApp::start().await;
    fleet(&app).await;
    let before = app.revision();
    let change = json!({"operations": [
        {"op": "merge", "kind": "clusters", "selector": "environment=prod", "value": {"labels": {"tier": "gold"}}},
        {"op": "delete", "kind": "platform_components", "id": "podinfo", "cascade": true},
    ]});
    let whole = app.post("/batch?dry_run=true", &change).await.expect(200).json();
    let all = whole["changes"].as_array().unwrap().clone();
    assert!(all.len() > 10);
    for most in [0, 2] {
        let plan = app
            .post(format!("/batch?dry_run=true&changes={most}"), &change)
            .await
            .expect(200)
            .json();
        let ids = |changes: &[Value]| changes.iter().map(|change| change["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(plan["changes"].as_array().unwrap()), ids(&all[..most]));
        assert_eq!(
            (&plan["plan"], &plan["totals"]["changes"]),
            (&whole["plan"], &json!(all.len()))
        );
        for list in ["removals", "relabelled", "demotions"] {
            assert_eq!(plan[list]["count"], whole[list]["count"], "{list}");
            assert!(plan[list]["clusters"].as_array().unwrap().len() <= most, "{list}");
        }
        assert_eq!(plan["clusters"], whole["clusters"], "they have a limit of their own");
    }
    app.post("/batch", &change)
        .header("x-confirm-removals", &whole["removals"]["count"].to_string())
        .await
        .expect(200);
    let diff = app
        .get(format!("/diff?from={before}&changes=1"))
        .await
        .expect(200)
        .json();
    assert_eq!(diff["changes"].as_array().unwrap().len(), 1);
    assert_eq!(diff["totals"]["changes"], all.len());
    app.post("/batch?changes=1", &change).await.problem(400, "bad-request");
}

#[tokio::test]
async fn a_rollback_whose_scope_is_null_is_not_one_of_the_fleet() {
    let app = TestApp::start().await;
    for name in ["selector", "kind", "id", "undo", "redo"] {
        let problem = app
            .post("/rollback", &json!({"revision": 1, name: null}))
            .await
            .problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{name}"));
    }
}

#[tokio::test]
async fn a_released_name_that_is_taken_over_does_not_empty_clusters() {
    let app = Setup::default().sqlite().start().await;
    let names: Vec<String> = (0..20).map(|n| format!("c{n:02}")).collect();
    let made = names.iter().map(|id| {
        let mut cluster = bare(id);
        cluster["namespaces"] = json!([{"id": "podinfo"}]);
        json!({"op": "create", "kind": "clusters", "value": cluster})
    });
    app.batch(made.collect::<Vec<_>>().into()).await;
    let moved = names.iter().map(|id| {
        json!({"op": "merge", "kind": "clusters", "id": id, "value": {"cluster_dns": format!("{id}-new.example.com")}})
    });
    app.batch(moved.collect::<Vec<_>>().into()).await;
    let app = app.restart().await;
    let taken = names.iter().map(|id| {
        let mut cluster = bare(&format!("{id}-bare"));
        cluster["cluster_dns"] = format!("{id}.k8s.example.com").into();
        json!({"op": "create", "kind": "clusters", "value": cluster})
    });
    let taken = json!({ "operations": taken.collect::<Vec<_>>() });
    let plan = app.post("/batch?dry_run=true", &taken).await.expect(200).json();
    assert_eq!(plan["removals"]["count"], 20, "{plan}");
    assert_eq!(
        plan["clusters"][0]["inputs"]["namespaces"]["removed"],
        json!(["podinfo"])
    );
    let problem = app.post("/batch", &taken).await.problem(409, "removal-budget");
    assert_eq!(
        (&problem["removals"]["count"], &problem["clusters"][0]),
        (&json!(20), &json!("c00-bare"))
    );
    app.poll("c00.k8s.example.com", "namespaces")
        .await
        .problem(404, "not-found");
    app.post("/batch", &taken)
        .header("x-confirm-removals", "20")
        .await
        .expect(200);
    assert_eq!(
        app.inputs("c00.k8s.example.com", "namespaces").await,
        Vec::<Value>::new()
    );
    assert_eq!(app.get("/released_names").await.array().len(), 0);
}

/// A fleet with a reference to a namespace that is not there.
fn with_a_ghost() -> Setup {
    let seed = json!({"clusters": [
        {"cluster_name": "old", "cluster_dns": "old.example.com", "environment": "dev", "namespaces": [{"id": "ghost"}]},
        {"cluster_name": "new", "cluster_dns": "new.example.com", "environment": "dev"},
    ]});
    Setup::default().seed(&seed)
}

#[tokio::test]
async fn creating_what_references_dangle_to_can_be_undone_and_rolled_back() {
    let back = [
        json!({"undo": 2}),
        json!({"revision": 1}),
        json!({"revision": 1, "kind": "namespaces", "id": "ghost"}),
    ];
    for back in back {
        let app = with_a_ghost().start().await;
        app.post("/namespaces", &json!({"id": "ghost"})).await.expect(201);
        assert_eq!(app.input_ids("old.example.com", "namespaces").await, ["ghost"]);
        // No ordinary write makes it dangle again.
        app.delete("/namespaces/ghost").await.problem(409, "in-use");
        // The cluster loses the input, which is counted.
        let plan = app.post("/rollback?dry_run=true", &back).await.expect(200).json();
        assert_eq!(plan["removals"]["count"], 1, "{back}: {plan}");
        app.post("/rollback", &back)
            .header("x-confirm-removals", "1")
            .await
            .expect(200);
        app.get("/namespaces/ghost").await.problem(404, "not-found");
        assert_eq!(app.read("/clusters/old").await["namespaces"], json!([{"id": "ghost"}]));
    }
}

#[tokio::test]
async fn an_undo_makes_no_reference_dangle_that_did_not() {
    let app = with_a_ghost().start().await;
    app.post("/namespaces", &json!({"id": "ghost"})).await.expect(201);
    app.patch("/clusters/new", &json!({"namespaces": [{"id": "ghost"}]}))
        .await
        .expect(200);
    for back in [
        json!({"undo": 2}),
        json!({"revision": 1, "kind": "namespaces", "id": "ghost"}),
    ] {
        let problem = app.post("/rollback", &back).await.problem(409, "in-use");
        assert_eq!(problem["clusters"], json!(["new"]));
    }
    // What is protected keeps the last of its list.
    app.patch(
        "/clusters/new",
        &json!({"namespaces": [{"id": "ghost", "$patch": "delete"}]}),
    )
    .await
    .expect(200);
    app.patch("/clusters/old", &json!({"protected": true}))
        .await
        .expect(200);
    app.post("/rollback", &json!({"undo": 2}))
        .await
        .problem(409, "protected");
}

#[tokio::test]
async fn a_deleted_cluster_with_a_dangling_reference_comes_back_by_an_undo() {
    let app = with_a_ghost().start().await;
    app.delete("/clusters/old").await.expect(204);
    app.post("/rollback", &json!({"undo": 2})).await.expect(200);
    assert_eq!(app.read("/clusters/old").await["namespaces"], json!([{"id": "ghost"}]));
}

#[tokio::test]
async fn a_rollback_succeeds_beside_writers_that_never_pause() {
    let app = Setup::default().sqlite().start().await;
    fleet(&app).await;
    let start = app.revision();
    let done = std::cell::Cell::new(false);
    let write = async {
        let mut n = 0;
        while !done.get() {
            n += 1;
            let label = json!({"labels": {"written": n.to_string()}});
            app.patch("/clusters/c00", &label).await.expect(200);
        }
        n
    };
    let roll_back = async {
        for n in 0..10 {
            app.patch("/clusters/c01", &json!({"labels": {"tried": n.to_string()}}))
                .await
                .expect(200);
            let one = json!({"revision": start, "kind": "clusters", "id": "c01"});
            app.post("/rollback", &one).await.expect(200);
            assert_eq!(app.read("/clusters/c01").await["labels"], json!({}));
        }
        done.set(true);
    };
    let (writes, ()) = tokio::join!(write, roll_back);
    assert!(writes > 10, "the other writer never got a turn");
}

#[tokio::test]
async fn a_dry_run_and_the_write_are_refused_for_the_same_reason() {
    let app = TestApp::start().await;
    fleet(&app).await;
    app.patch("/clusters/c00", &json!({"protected": true}))
        .await
        .expect(200);
    let gone = |id: &str| json!({"id": id, "$patch": "delete"});
    let emptied = json!({"platform_components": [gone("podinfo"), gone("traefik")]});
    let stale_plan = "0".repeat(64);
    for path in ["/clusters/c00?dry_run=true", "/clusters/c00"] {
        let refused = app.patch(path, &emptied).header("if-plan-match", &stale_plan).await;
        refused.problem(412, "plan-changed");
        app.patch(path, &emptied).await.problem(409, "protected");
    }
}
