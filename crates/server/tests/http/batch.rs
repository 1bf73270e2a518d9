//! Several operations as one revision, what they would do, and the log of what was done.

use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, NETWORK_POLICY, Setup, TestApp, bare, component, ids, pointers, pretty};

fn create(kind: &str, value: Value) -> Value {
    json!({"op": "create", "kind": kind, "value": value})
}

async fn refused(app: &TestApp, operations: Value, status: u16, class: &str) -> Value {
    let revision = app.revision();
    let problem = app
        .post("/batch", &json!({ "operations": operations }))
        .await
        .problem(status, class);
    assert_eq!(app.revision(), revision, "a refused batch changed something");
    problem
}

#[tokio::test]
async fn a_batch_is_one_revision_and_returns_the_new_versions() {
    let app = TestApp::start().await;
    let reply = app
        .batch(json!([
            create("namespaces", json!({"id": "a"})),
            create("clusters", {
                let mut cluster = bare("c");
                cluster["namespaces"] = json!([{"id": "a"}, {"id": "later"}]);
                cluster
            }),
            create("namespaces", json!({"id": "later"})),
            {"op": "delete", "kind": "rolebindings", "id": "dev-readers", "cascade": true},
        ]))
        .await;
    assert_eq!(app.revision(), 2);
    assert_eq!(reply["revision"], 2);
    let changes = reply["changes"].as_array().unwrap();
    let names: Vec<_> = changes
        .iter()
        .map(|one| format!("{}/{}", one["kind"].as_str().unwrap(), one["id"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            "namespaces/a",
            "namespaces/later",
            "rolebindings/dev-readers",
            "clusters/c",
            "clusters/demo-cluster-01"
        ]
    );
    let actions: Vec<_> = changes.iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "create", "delete", "create", "update"]);
    for (change, name) in changes.iter().zip(&names) {
        assert_eq!(change.as_object().unwrap().len(), 4, "{change}");
        let now = app.get(format!("/{name}")).await;
        match now.status {
            404 => assert_eq!(change["etag"], json!(null), "{name}"),
            _ => assert_eq!(change["etag"], now.etag(), "{name}"),
        }
    }
    assert_eq!(app.input_ids("c.k8s.example.com", "namespaces").await, ["a", "later"]);
}

#[tokio::test]
async fn each_operation_sees_what_the_one_before_left() {
    let app = TestApp::start().await;
    app.batch(json!([
        create("namespaces", json!({"id": "a"})),
        {"op": "merge", "kind": "namespaces", "id": "a", "value": {"labels": {"x": "1"}}},
        {"op": "replace", "kind": "namespaces", "id": "a", "value": {"labels": {"y": "2"}}},
        {"op": "apply", "kind": "namespaces", "value": {"id": "a", "labels": {"y": "3"}}},
        {"op": "apply", "kind": "namespaces", "id": "b", "value": {"labels": {"z": "1"}}},
        create("namespaces", json!({"id": "gone"})),
        {"op": "delete", "kind": "namespaces", "id": "gone"},
    ]))
    .await;
    assert_eq!(app.read("/namespaces/a").await["labels"], json!({"y": "3"}));
    assert_eq!(app.read("/namespaces/b").await["labels"], json!({"z": "1"}));
    let records = app.get("/changes?after=1").await.array();
    assert_eq!(ids(&records), ["a", "b"], "one record per resource that changed");
}

#[tokio::test]
async fn a_batch_is_done_as_a_whole_or_not_at_all() {
    let app = TestApp::start().await;
    let problem = refused(
        &app,
        json!([
            create("namespaces", json!({"id": "a"})),
            {"op": "delete", "kind": "rolebindings", "id": "dev-readers"},
        ]),
        409,
        "in-use",
    )
    .await;
    assert_eq!(pointers(&problem), ["/operations/1"]);
    app.get("/namespaces/a").await.problem(404, "not-found");
}

#[tokio::test]
async fn pointers_name_the_operation_and_every_problem_is_reported() {
    let app = TestApp::start().await;
    let problem = refused(
        &app,
        json!([
            create("namespaces", json!({"id": "UPPER", "labels": {"x": 1}})),
            create("namespaces", json!({"id": "fine"})),
            {"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {"extra": 1}},
            {"op": "patch", "kind": "platform_components", "id": "podinfo", "cluster": DEMO, "set": {"a": {"b": 1}}},
        ]),
        422,
        "invalid",
    )
    .await;
    let found = pointers(&problem);
    assert!(
        found.starts_with(&[
            "/operations/0/value/id",
            "/operations/0/value/labels/x",
            "/operations/2/value/extra"
        ]),
        "{found:?}"
    );
    assert!(found[3].starts_with("/operations/3/"), "{found:?}");
}

#[tokio::test]
async fn a_wrong_operation_is_named_by_its_place_and_field() {
    let app = TestApp::start().await;
    for (operations, pointer) in [
        (
            json!([create("clusters", {
                let mut c = bare("c");
                c["namespaces"] = json!([{"id": "nope"}]);
                c
            })]),
            "/operations/0/value/namespaces/0/id",
        ),
        (
            json!([create("namespaces", json!({"id": "a"})), {"op": "assign", "kind": "namespaces", "id": "nope", "cluster": DEMO}]),
            "/operations/1",
        ),
        (
            json!([{"op": "patch", "kind": "namespaces", "id": "podinfo", "cluster": DEMO, "set": {"a": "b"}}]),
            "/operations/0/kind",
        ),
        (
            json!([{"op": "patch", "kind": "platform_components", "id": "nope", "cluster": DEMO, "set": {"a": "b"}}]),
            "/operations/0/id",
        ),
        (
            json!([{"op": "patch", "kind": "platform_components", "id": "podinfo", "cluster": DEMO}]),
            "/operations/0/set",
        ),
        (
            json!([{"op": "assign", "kind": "clusters", "id": DEMO, "cluster": DEMO}]),
            "/operations/0/kind",
        ),
        (
            json!([{"op": "merge", "kind": "namespaces", "selector": "*", "value": {}}]),
            "/operations/0/selector",
        ),
        (
            json!([{"op": "merge", "kind": "clusters", "value": {}}]),
            "/operations/0/id",
        ),
        (
            json!([{"op": "assign", "kind": "namespaces", "id": "podinfo"}]),
            "/operations/0/cluster",
        ),
        (json!([{"op": "create", "kind": "namespaces"}]), "/operations/0/value"),
        (
            json!([{"op": "delete", "kind": "namespaces", "id": "a", "value": {}}]),
            "/operations/0/value",
        ),
        (
            json!([{"op": "merge", "kind": "kinds", "id": "namespaces", "value": {}}]),
            "/operations/0/op",
        ),
        (
            json!([{"op": "create", "kind": "decommissions", "value": {}}]),
            "/operations/0/op",
        ),
        (
            json!([{"op": "create", "kind": "released_names", "value": {}}]),
            "/operations/0/op",
        ),
        (
            json!([{"op": "merge", "kind": "clusters", "selector": "*", "value": {}, "if_match": "\"x\""}]),
            "/operations/0/if_match",
        ),
        (
            json!([{"op": "delete", "kind": "namespaces", "id": "podinfo", "cascde": true}]),
            "/operations/0",
        ),
        (json!(["text"]), "/operations/0"),
        (json!([]), "/operations"),
    ] {
        let problem = refused(&app, operations.clone(), 422, "invalid").await;
        assert!(pointers(&problem)[0].starts_with(pointer), "{operations}: {problem}");
    }
}

#[tokio::test]
async fn a_wrong_body_of_a_batch_is_named_by_its_field() {
    let app = TestApp::start().await;
    for (body, pointer) in [
        (json!({}), "/operations"),
        (json!([]), ""),
        (
            json!({"operations": [{"op": "delete", "kind": "namespaces", "id": "x"}], "reson": "x"}),
            "/reson",
        ),
        (json!({"operations": {"op": "delete"}}), "/operations"),
    ] {
        let problem = app.post("/batch", &body).await.problem(422, "invalid");
        assert_eq!(pointers(&problem), [pointer], "{body}");
    }
}

#[tokio::test]
async fn versions_are_checked_in_each_operation() {
    let app = TestApp::start().await;
    let etag = app.get("/namespaces/podinfo").await.etag();
    let merge = |etag: &str| json!({"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {"labels": {"x": "y"}}, "if_match": etag});
    let other = json!({"op": "merge", "kind": "namespaces", "id": "traefik", "value": {"labels": {"x": "y"}}});
    let problem = refused(
        &app,
        json!([other, merge("\"00000000000000000000000000000000\"")]),
        412,
        "stale",
    )
    .await;
    assert_eq!(pointers(&problem), ["/operations/1/if_match"]);
    let reply = app.batch(json!([other, merge(&etag)])).await;
    // The versions of a reply are good for the next batch.
    let now = reply["changes"][0]["etag"].as_str().unwrap();
    app.batch(json!([{"op": "delete", "kind": "namespaces", "id": "podinfo", "cascade": true, "if_match": now}]))
        .await;
    let cluster = app.get(format!("/clusters/{DEMO}")).await.etag();
    let assign =
        json!([{"op": "unassign", "kind": "namespaces", "id": "traefik", "cluster": DEMO, "if_match": cluster}]);
    app.batch(assign.clone()).await;
    refused(&app, assign, 412, "stale").await;
}

#[tokio::test]
async fn clusters_are_assigned_and_unassigned_definitions() {
    let app = TestApp::start().await;
    app.batch(json!([
        create("clusters", bare("a")),
        create("clusters", bare("b")),
        create("platform_components", component("loki")),
    ]))
    .await;
    app.batch(json!([
        {"op": "assign", "kind": "platform_components", "id": "loki", "selector": "*"},
        {"op": "assign", "kind": "platform_components", "id": "loki", "cluster": "a", "value": {"oci_tag": "2.0.0", "enabled": false}},
        {"op": "patch", "kind": "platform_components", "id": "loki", "selector": "id in (a,b)", "set": {"x": "1", "y": 2, "z": true}},
        {"op": "patch", "kind": "platform_components", "id": "loki", "cluster": "b", "unset": ["x", "nope"]},
        {"op": "merge", "kind": "clusters", "selector": "id!=demo-cluster-01", "value": {"labels": {"team": "red"}}},
    ]))
    .await;
    let a = &app.inputs("a.k8s.example.com", "platform-components").await[0];
    assert_eq!(
        (&a["source"]["oci_tag"], &a["enabled"]),
        (&json!("2.0.0"), &json!(false))
    );
    assert_eq!(a["patches"], json!({"x": "1", "y": 2, "z": true}));
    let b = &app.inputs("b.k8s.example.com", "platform-components").await[0];
    assert_eq!(
        (&b["source"]["oci_tag"], &b["patches"]),
        (&json!("1.0.0"), &json!({"y": 2, "z": true}))
    );
    assert_eq!(
        app.input_ids(DEMO_DNS, "platform-components").await,
        ["cert-manager", "traefik", "podinfo", "loki"]
    );

    // A reference that is there keeps what is not named.
    app.batch(json!([{"op": "assign", "kind": "platform_components", "id": "loki", "cluster": "a", "value": {"enabled": true}}])).await;
    let a = &app.inputs("a.k8s.example.com", "platform-components").await[0];
    assert_eq!(
        (&a["source"]["oci_tag"], &a["enabled"]),
        (&json!("2.0.0"), &json!(true))
    );

    app.batch(json!([
        {"op": "unassign", "kind": "platform_components", "id": "loki", "cluster": "a"},
        {"op": "unassign", "kind": "platform_components", "id": "loki", "cluster": "b", "drop_patches": true},
    ]))
    .await;
    assert_eq!(
        app.read("/clusters/a").await["patches"],
        json!({"loki": {"x": "1", "y": 2, "z": true}})
    );
    assert_eq!(app.read("/clusters/b").await["patches"], json!({}));
    assert_eq!(app.input_ids("b.k8s.example.com", "platform-components").await, [""; 0]);
    assert_eq!(app.read("/clusters/b").await["labels"], json!({"team": "red"}));
}

#[tokio::test]
async fn a_write_refuses_an_empty_selector() {
    let app = TestApp::start().await;
    for selector in [
        "",
        " ",
        "nope=1",
        "!nope",
        "nope!=1",
        "environment=prod",
        "environment=",
        "id in (",
        "environment=production",
    ] {
        for operation in [
            json!({"op": "merge", "kind": "clusters", "value": {"node_count": 1}}),
            json!({"op": "assign", "kind": "namespaces", "id": "podinfo"}),
            json!({"op": "unassign", "kind": "namespaces", "id": "podinfo"}),
            json!({"op": "patch", "kind": "platform_components", "id": "podinfo", "set": {"a": "b"}}),
        ] {
            let mut operation = operation;
            operation["selector"] = selector.into();
            let problem = refused(&app, json!([operation]), 422, "invalid").await;
            assert_eq!(pointers(&problem), ["/operations/0/selector"], "{selector}");
        }
    }
}

#[tokio::test]
async fn kinds_come_and_go_in_batches_too() {
    let app = TestApp::start().await;
    let policy = fleet::yaml::parse(NETWORK_POLICY).unwrap();
    let mut cluster = bare("c");
    cluster["network_policies"] = json!([{"id": "p"}]);
    let reply = app
        .batch(json!([
            {"op": "apply", "kind": "kinds", "id": "network_policies", "value": policy},
            create("network_policies", json!({"id": "p", "target_namespace": "x", "ingress_rules": []})),
            create("clusters", cluster),
        ]))
        .await;
    assert_eq!(reply["changes"][0]["kind"], "kinds");
    assert_eq!(app.input_ids("c.k8s.example.com", "network-policies").await, ["p"]);
    let exists = refused(
        &app,
        json!([{"op": "create", "kind": "kinds", "value": policy}]),
        409,
        "exists",
    )
    .await;
    assert_eq!(pointers(&exists), ["/operations/0/id"]);
    app.batch(json!([
        {"op": "delete", "kind": "network_policies", "id": "p", "cascade": true},
        {"op": "delete", "kind": "kinds", "id": "network_policies"},
    ]))
    .await;
    app.get("/network_policies").await.problem(404, "not-found");
    assert_eq!(app.revision(), 3);
}

#[tokio::test]
async fn two_clusters_can_swap_their_names() {
    let app = Setup::default().sqlite().empty().start().await;
    app.batch(json!([create("clusters", bare("a")), create("clusters", bare("b"))]))
        .await;
    app.batch(json!([
        {"op": "merge", "kind": "clusters", "id": "a", "value": {"cluster_dns": "b.k8s.example.com"}},
        {"op": "merge", "kind": "clusters", "id": "b", "value": {"cluster_dns": "a.k8s.example.com"}},
    ]))
    .await;
    let app = app.restart().await;
    assert_eq!(app.read("/clusters/a").await["cluster_dns"], "b.k8s.example.com");
    assert_eq!(app.get("/decommissions").await.array().len(), 0);
}

#[tokio::test]
async fn a_cluster_that_is_deleted_and_made_again_in_one_batch_is_not_decommissioned() {
    let app = TestApp::start().await;
    let cluster = app.read(&format!("/clusters/{DEMO}")).await;
    app.batch(json!([{"op": "delete", "kind": "clusters", "id": DEMO}, create("clusters", cluster)]))
        .await;
    assert_eq!(app.revision(), 1, "nothing changed in the end");
    assert_eq!(app.input_ids(DEMO_DNS, "namespaces").await.len(), 3);
    assert_eq!(app.get("/decommissions").await.array().len(), 0);
}

#[tokio::test]
async fn a_batch_that_changes_nothing_makes_no_revision() {
    let app = TestApp::start().await;
    let reply = app
        .batch(json!([
            {"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {"labels": {"app": "podinfo"}}},
            create("namespaces", json!({"id": "x"})),
            {"op": "delete", "kind": "namespaces", "id": "x"},
            {"op": "assign", "kind": "namespaces", "id": "podinfo", "selector": "*"},
            {"op": "unassign", "kind": "namespaces", "id": "nope", "selector": "*"},
        ]))
        .await;
    assert_eq!(reply, json!({"revision": 1, "changes": []}));
    assert_eq!(app.revision(), 1);
    assert_eq!(app.get("/changes?after=1").await.array().len(), 0);
}

#[tokio::test]
async fn every_write_can_be_tried_without_doing_it() {
    let app = TestApp::start().await;
    app.delete(format!("/clusters/{DEMO}?dry_run=false")).await.expect(204);
    app.post("/clusters", &bare("c")).await.expect(201);
    let revision = app.revision();
    let etag = app.get("/namespaces/podinfo").await.etag();
    let policy = fleet::yaml::parse(NETWORK_POLICY).unwrap();
    let labels = json!({"labels": {"a": "b"}});
    let calls = [
        (
            app.post("/namespaces?dry_run=true", &json!({"id": "new"})),
            "create namespaces/new",
        ),
        (
            app.put("/namespaces/podinfo?dry_run=true", &labels),
            "update namespaces/podinfo",
        ),
        (
            app.patch("/namespaces/podinfo?dry_run", &labels),
            "update namespaces/podinfo",
        ),
        (
            app.patch("/namespaces/podinfo?dry_run=1", &labels)
                .header("if-match", &etag),
            "update namespaces/podinfo",
        ),
        (
            app.delete("/namespaces/podinfo?dry_run=true"),
            "delete namespaces/podinfo",
        ),
        (
            app.delete("/clusters/c?dry_run=true"),
            "delete clusters/c, create decommissions/c.k8s.example.com",
        ),
        (
            app.put("/kinds/network_policies?dry_run=true", &policy),
            "create kinds/network_policies",
        ),
        (
            app.delete("/rolebindings/dev-readers?cascade=true&dry_run=true"),
            "delete rolebindings/dev-readers",
        ),
        (
            app.delete("/decommissions/demo-cluster-01.k8s.example.com?dry_run=true"),
            "delete decommissions/demo-cluster-01.k8s.example.com",
        ),
        (
            app.post(
                "/batch?dry_run=true",
                &json!({"reason": "why", "operations": [
                    create("namespaces", json!({"id": "new"})),
                    {"op": "assign", "kind": "namespaces", "id": "new", "selector": "*"},
                ]}),
            ),
            "create namespaces/new, update clusters/c",
        ),
        (
            app.put(
                "/namespaces/podinfo?dry_run=true",
                &app.read("/namespaces/podinfo").await,
            ),
            "",
        ),
    ];
    for (call, expected) in calls {
        let reply = call.await.expect(200);
        assert_eq!(planned(&reply.json(), revision), expected, "{}", reply.what);
        assert_eq!(app.revision(), revision, "{}", reply.what);
    }
    app.get("/namespaces/new").await.problem(404, "not-found");
    assert_eq!(app.get(format!("/changes?after={revision}")).await.array().len(), 0);
}

/// The changes of a plan that was made at this revision, as text.
fn planned(plan: &Value, base: u64) -> String {
    assert_eq!(plan["base"], base);
    let text = |record: &Value| {
        let field = |name: &str| record[name].as_str().unwrap().to_owned();
        assert_eq!(record["revision"], base + 1);
        assert_eq!(record["before"].is_null(), record["action"] == "create");
        assert_eq!(record["after"].is_null(), record["action"] == "delete");
        assert_eq!(record.as_object().unwrap().len(), 13);
        format!("{} {}/{}", field("action"), field("kind"), field("id"))
    };
    let changes = plan["changes"].as_array().unwrap();
    changes.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn a_dry_run_is_refused_like_the_write_itself() {
    let app = TestApp::start().await;
    let revision = app.revision();
    app.post("/namespaces?dry_run=true", &json!({"id": "podinfo"}))
        .await
        .problem(409, "exists");
    app.post("/namespaces?dry_run=true", &json!({"id": "UPPER"}))
        .await
        .problem(422, "invalid");
    app.put("/namespaces/nope?dry_run=true", &json!({}))
        .await
        .problem(404, "not-found");
    app.delete("/namespaces/podinfo?dry_run=true")
        .header("if-match", "\"x\"")
        .await
        .problem(412, "stale");
    let batch = json!({"operations": [{"op": "delete", "kind": "platform_components", "id": "traefik"}]});
    app.post("/batch?dry_run=true", &batch).await.problem(409, "in-use");
    assert_eq!(app.revision(), revision);
}

#[tokio::test]
async fn the_log_says_who_when_why_before_and_after() {
    let app = TestApp::start().await;
    let patch = app.patch("/namespaces/podinfo", &json!({"labels": {"team": "blue"}}));
    patch
        .header("x-change-reason", "  TICKET-7: größer  ")
        .header("x-request-id", "r1")
        .await
        .expect(200);
    app.delete(format!("/clusters/{DEMO}"))
        .header("x-request-id", "r2")
        .await
        .expect(204);
    let body = json!({"reason": "in the body", "operations": [create("namespaces", json!({"id": "x"}))]});
    app.post("/batch", &body)
        .header("x-change-reason", "in the header")
        .header("x-request-id", "r3")
        .await
        .expect(200);
    let body = json!({"operations": [create("namespaces", json!({"id": "y"}))]});
    app.post("/batch", &body)
        .header("x-change-reason", "in the header")
        .header("x-request-id", "r4")
        .await
        .expect(200);
    app.post("/namespaces", &json!({"id": "z"}))
        .header("x-change-reason", "  ")
        .header("x-request-id", "r5")
        .await
        .expect(201);

    let body = json!({"reason": " ", "operations": [create("namespaces", json!({"id": "w"}))]});
    let post = app.post("/batch", &body).header("x-change-reason", "in the header");
    post.header("x-request-id", "r6").await.expect(200);

    let reply = app.get("/changes?after=1").await.expect(200);
    assert_eq!(reply.header("x-revision"), "7");
    let mut records = reply.array();
    for record in &mut records {
        let at = record["at"].as_str().unwrap();
        assert!(
            at.ends_with('Z') && at.len() == "2026-01-01T00:00:00.000000Z".len(),
            "{at}"
        );
        record["at"] = "TIME".into();
    }
    insta::assert_snapshot!("changes", pretty(&records.into()));

    let long = "x".repeat(1025);
    app.post("/namespaces", &json!({"id": "l"}))
        .header("x-change-reason", &long)
        .await
        .problem(400, "bad-request");
    let latin1 = axum::http::HeaderValue::from_bytes(b"gr\xfc\xdfe").unwrap();
    app.post("/namespaces", &json!({"id": "l"}))
        .raw_header("x-change-reason", latin1)
        .await
        .problem(400, "bad-request");
}

#[tokio::test]
async fn the_log_is_filtered_and_paged_and_never_splits_a_revision() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = setup.start().await;
        for n in 0..3 {
            let operations: Vec<_> = (0..3)
                .map(|m| create("namespaces", json!({"id": format!("n{n}{m}")})))
                .collect();
            app.batch(operations.into()).await;
        }
        app.patch("/namespaces/n00", &json!({"labels": {"a": "b"}}))
            .await
            .expect(200);
        app.delete("/rolebindings/dev-readers?cascade=true").await.expect(204);

        let shown = async |query: &str| {
            let records = app.get(format!("/changes?{query}")).await.expect(200).array();
            let text = |record: &Value| {
                format!(
                    "{}:{}:{}",
                    record["revision"],
                    record["index"],
                    record["id"].as_str().unwrap()
                )
            };
            records.iter().map(text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("after=1&limit=1").await, "2:0:n00 2:1:n01 2:2:n02");
        assert_eq!(shown("after=1&limit=3").await, "2:0:n00 2:1:n01 2:2:n02");
        assert_eq!(
            shown("after=1&limit=4").await,
            "2:0:n00 2:1:n01 2:2:n02 3:0:n10 3:1:n11 3:2:n12"
        );
        assert_eq!(shown("after=4").await, "5:0:n00 6:0:dev-readers 6:1:demo-cluster-01");
        assert_eq!(shown("after=5&limit=1").await, "6:0:dev-readers 6:1:demo-cluster-01");
        assert_eq!(shown("after=6").await, "");
        assert_eq!(shown("after=600").await, "");
        assert_eq!(shown("after=1&id=n00").await, "2:0:n00 5:0:n00");
        assert_eq!(shown("after=1&id=n00&limit=1").await, "2:0:n00");
        assert_eq!(shown("kind=clusters&after=1").await, "6:1:demo-cluster-01");
        assert_eq!(shown("kind=namespaces&id=n11").await, "3:1:n11");
        assert_eq!(
            shown("after=1&kind=namespaces&limit=4").await,
            "2:0:n00 2:1:n01 2:2:n02 3:0:n10 3:1:n11 3:2:n12"
        );
        assert_eq!(
            shown("actor=write&after=4").await,
            "5:0:n00 6:0:dev-readers 6:1:demo-cluster-01"
        );
        assert_eq!(shown("actor=nobody").await, "");
        let first = app.get("/changes?actor=system").await.array();
        assert!(
            first
                .iter()
                .all(|record| record["revision"] == 1 && record["action"] == "create")
        );
        assert_eq!(first.len(), 4 + 1 + 3 + 3 + 2);

        // Page by page, everything comes once.
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = app.get(format!("/changes?after={after}&limit=2")).await.array();
            let Some(last) = page.last() else { break };
            after = last["revision"].as_u64().unwrap();
            seen.extend(
                page.iter()
                    .map(|record| (record["revision"].as_u64(), record["index"].as_u64())),
            );
        }
        assert_eq!(seen.len(), 13 + 9 + 1 + 2);
        assert!(seen.is_sorted());
        for query in ["after=x", "after=-1", "limit=0", "limit=x", "since=1"] {
            app.get(format!("/changes?{query}")).await.problem(400, "bad-request");
        }
    }
}

#[tokio::test]
async fn writers_at_the_same_time_each_get_a_revision_of_their_own() {
    let app = Setup::default().sqlite().start().await;
    let writers = (0..20).map(|n| {
        let call = app.post("/namespaces", &json!({"id": format!("n{n}")}));
        tokio::spawn(async move { call.await.expect(201).header("x-revision").parse::<u64>().unwrap() })
    });
    let mut revisions = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        revisions.push(writer.await.unwrap());
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (2..22).collect::<Vec<_>>());
    let racers = (0..8).map(|_| {
        tokio::spawn(std::future::IntoFuture::into_future(
            app.post("/namespaces", &json!({"id": "race"})),
        ))
    });
    let mut statuses = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        statuses.push(racer.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}

/// Documents that are older than a kind: the same problem of many clusters is one problem, and there is a way to go on.
#[tokio::test]
async fn arrays_that_documents_leave_out_are_refused_once_or_kept() {
    let app = TestApp::start().await;
    let cluster = |n: usize| bare(&format!("c-{n:03}"));
    let mut operations = Vec::new();
    for n in 0..250 {
        let mut cluster = cluster(n);
        cluster["namespaces"] = json!([{"id": "podinfo"}, {"id": "traefik"}]);
        cluster["rolebindings"] = json!([{"id": "dev-readers"}]);
        operations.push(create("clusters", cluster));
    }
    app.batch(json!(operations)).await;
    let older = |n: usize, keep: bool| {
        let mut value = cluster(n);
        value["environment"] = json!("qa");
        value["rolebindings"] = json!([]);
        let mut operation = json!({"op": "apply", "kind": "clusters", "value": value});
        if keep {
            operation["keep_missing"] = true.into();
        }
        operation
    };
    // More clusters than a refusal has problems: all are counted.
    let wrong = json!({"op": "create", "kind": "namespaces", "value": {"id": "Not_Ok"}});
    let all: Vec<Value> = (0..250).map(|n| older(n, false)).chain([wrong]).collect();
    let problem = refused(&app, json!(all), 422, "invalid").await;
    assert_eq!(
        pointers(&problem),
        ["/operations/0/value/namespaces", "/operations/250/value/id"]
    );
    assert_eq!(
        problem["errors"][0]["detail"],
        "250 clusters (c-000, c-001, c-002, c-003, c-004 and 245 more) have 500 references that the request leaves out: to remove \
         them, send []; to keep them, set \"keep_missing\""
    );
    let all: Vec<Value> = (0..250).map(|n| older(n, true)).collect();
    let confirmed = app
        .post("/batch", &json!({ "operations": all }))
        .header("x-confirm-removals", "250")
        .await;
    assert_eq!(confirmed.expect(200).json()["changes"].as_array().unwrap().len(), 250);
    let kept = app.get("/clusters/c-007").await.json();
    assert_eq!(kept["namespaces"], json!([{"id": "podinfo"}, {"id": "traefik"}]));
    assert_eq!(kept["rolebindings"], json!([]), "what the document says is done");
    // A cluster that is not there has nothing to keep; other kinds and verbs have nothing to leave out.
    let new = json!({"op": "apply", "kind": "clusters", "value": bare("new"), "keep_missing": true});
    app.batch(json!([new])).await;
    let namespace = json!({"op": "apply", "kind": "namespaces", "value": {"id": "x"}, "keep_missing": true});
    let problem = refused(&app, json!([namespace]), 422, "invalid").await;
    assert_eq!(pointers(&problem), ["/operations/0/keep_missing"]);
    let replace = json!({"op": "replace", "kind": "clusters", "value": bare("new"), "keep_missing": true});
    let problem = refused(&app, json!([replace]), 422, "invalid").await;
    assert_eq!(pointers(&problem), ["/operations/0/keep_missing"]);
}
