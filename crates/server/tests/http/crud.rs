//! What operators and CI use: resources of every kind.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, Setup, TestApp, bare, component, ids, pointers, pretty};

/// For each kind of the API reference: its route, a new document, the same with a change, and what defaults add.
fn kinds() -> [(&'static str, Value, Value, Value); 4] {
    let mut cluster = bare("new");
    cluster["platform_components"] = json!([{"id": "podinfo"}]);
    let mut changed_cluster = cluster.clone();
    changed_cluster["environment"] = "prod".into();
    let mut changed_component = component("new");
    changed_component["oci_tag"] = "2.0.0".into();
    [
        (
            "clusters",
            cluster,
            changed_cluster,
            json!({
                "labels": {}, "patches": {}, "namespaces": [], "rolebindings": [],
                "platform_components": [{"id": "podinfo", "enabled": true}],
            }),
        ),
        (
            "platform_components",
            component("new"),
            changed_component,
            json!({"component_version": "latest", "cluster_env_enabled": false, "depends_on": []}),
        ),
        (
            "namespaces",
            json!({"id": "new"}),
            json!({"id": "new", "labels": {"a": "b"}}),
            json!({"labels": {}, "annotations": {}}),
        ),
        (
            "rolebindings",
            json!({"id": "new", "role": "view", "subjects": [{"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}]}),
            json!({"id": "new", "role": "edit", "subjects": []}),
            json!({}),
        ),
    ]
}

fn with(mut document: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        if document.get(name).is_none() || name == "platform_components" {
            document[name] = value.clone();
        }
    }
    document
}

#[tokio::test]
async fn every_endpoint_of_the_api_reference_works_for_every_kind() {
    let app = TestApp::start().await;
    for (route, document, changed, defaults) in kinds() {
        let one = format!("/{route}/new");
        let before = app.get(format!("/{route}")).await.expect(200).array().len();
        app.get(&one).await.problem(404, "not-found");
        app.put(&one, &document).await.problem(404, "not-found");
        app.patch(&one, &json!({})).await.problem(404, "not-found");
        app.delete(&one).await.problem(404, "not-found");

        let revision = app.revision();
        let created = app.post(format!("/{route}"), &document).await.expect(201);
        assert_eq!(created.header("location"), one);
        assert_eq!(created.header("content-type"), "application/json");
        assert_eq!(created.header("x-revision"), (revision + 1).to_string());
        assert_eq!(created.json(), with(document.clone(), &defaults), "{route}");
        let again = app.post(format!("/{route}"), &document).await.problem(409, "exists");
        assert_eq!(pointers(&again), ["/id"]);

        let got = app.get(&one).await.expect(200);
        assert_eq!((got.etag(), got.json()), (created.etag(), created.json()));
        let same = app.get(&one).header("if-none-match", &got.etag()).await.expect(304);
        assert!(same.body.is_empty() && same.etag() == got.etag());

        let put = app.put(&one, &changed).await.expect(200);
        assert_eq!(put.json(), with(changed.clone(), &defaults), "{route}");
        assert_ne!(put.etag(), got.etag());
        app.get(&one).header("if-none-match", &got.etag()).await.expect(200);

        // The same once more changes nothing, and makes no revision.
        let revision = app.revision();
        let same = app.put(&one, &changed).await.expect(200);
        assert_eq!(
            (same.etag(), same.header("x-revision")),
            (put.etag(), &*revision.to_string())
        );
        app.put(&one, &put.json()).await.expect(200);
        app.patch(&one, &json!({})).await.expect(200);
        assert_eq!(app.revision(), revision);

        // Versions guard every write.
        for stale in [got.etag(), "\"x\"".into(), format!("W/{}", put.etag()), String::new()] {
            app.put(&one, &document)
                .header("if-match", &stale)
                .await
                .problem(412, "stale");
            app.patch(&one, &json!({}))
                .header("if-match", &stale)
                .await
                .problem(412, "stale");
            app.delete(&one).header("if-match", &stale).await.problem(412, "stale");
        }
        let back = app
            .put(&one, &document)
            .header("if-match", &put.etag())
            .await
            .expect(200);
        assert_eq!(back.etag(), created.etag(), "the version is a digest of the content");
        let several = format!("\"x\", {}", back.etag());
        app.patch(&one, &json!({}))
            .header("if-match", &several)
            .await
            .expect(200);
        app.patch(&one, &json!({})).header("if-match", "*").await.expect(200);

        let list = app.get(format!("/{route}")).await.expect(200);
        assert_eq!(list.array().len(), before + 1);
        let deleted = app.delete(&one).header("if-match", &back.etag()).await.expect(204);
        assert!(deleted.body.is_empty());
        app.get(&one).await.problem(404, "not-found");
        app.delete(&one).await.problem(404, "not-found");
        assert_eq!(app.get(format!("/{route}")).await.array().len(), before);
    }
}

#[tokio::test]
async fn documents_may_be_sent_as_yaml() {
    let app = TestApp::start().await;
    let yaml = "id: teams\nlabels:\n  yes: no\n  on: 'true'\n";
    let post = |kind: &str| app.post("/namespaces", &json!({})).content(kind, yaml);
    let created = post("application/yaml").await.expect(201);
    assert_eq!(created.json()["labels"], json!({"yes": "no", "on": "true"}));
    for kind in ["text/yaml", "application/x-yaml", "Application/YAML; charset=utf-8"] {
        post(kind).await.problem(409, "exists");
    }
}

#[tokio::test]
async fn the_id_may_come_as_underscore_id_and_a_clusters_from_its_name() {
    let app = TestApp::start().await;
    let created = app.post("/namespaces", &json!({"_id": "x"})).await.expect(201);
    assert_eq!(created.json()["id"], "x");
    assert!(created.json().get("_id").is_none());
    app.put("/namespaces/x", &json!({"_id": "x", "id": "x"}))
        .await
        .expect(200);
    app.put("/namespaces/x", &json!({"labels": {"a": "b"}}))
        .await
        .expect(200);
    assert_eq!(app.read("/namespaces/x").await["labels"]["a"], "b");
    let differ = app
        .post("/namespaces", &json!({"_id": "x", "id": "y"}))
        .await
        .problem(422, "invalid");
    assert_eq!(pointers(&differ), ["/_id"]);
    let mut cluster = bare("by-name");
    cluster.as_object_mut().unwrap().remove("id");
    let created = app.post("/clusters", &cluster).await.expect(201);
    assert_eq!(created.header("location"), "/clusters/by-name");
    let none = app.post("/namespaces", &json!({})).await.problem(422, "invalid");
    assert_eq!(pointers(&none), ["/id"]);
}

#[tokio::test]
async fn an_id_never_changes() {
    let app = TestApp::start().await;
    let other = json!({"id": "other", "labels": {}});
    for reply in [
        app.put("/namespaces/podinfo", &other).await,
        app.patch("/namespaces/podinfo", &other).await,
        app.patch("/namespaces/podinfo", &json!({"id": null})).await,
        app.patch("/namespaces/podinfo", &other)
            .header("content-type", "application/merge-patch+json")
            .await,
        app.patch("/namespaces/podinfo", &json!([{"op": "remove", "path": "/id"}]))
            .header("content-type", "application/json-patch+json")
            .await,
    ] {
        assert_eq!(pointers(&reply.problem(422, "invalid")), ["/id"]);
    }
    app.get("/namespaces/other").await.problem(404, "not-found");
    // What clusters are called may change; what they are may not.
    app.patch(format!("/clusters/{DEMO}"), &json!({"cluster_name": "renamed"}))
        .await
        .expect(200);
    assert_eq!(
        app.inputs(DEMO_DNS, "namespaces").await[0]["cluster"]["name"],
        "renamed"
    );
}

#[tokio::test]
async fn a_dns_name_belongs_to_one_cluster() {
    let app = TestApp::start().await;
    let mut cluster = bare("second");
    cluster["cluster_dns"] = DEMO_DNS.to_uppercase().into();
    let problem = app.post("/clusters", &cluster).await.problem(409, "exists");
    assert_eq!(pointers(&problem), ["/cluster_dns"]);
    assert_eq!(problem["clusters"], json!([DEMO]));
    app.post("/clusters", &bare("second")).await.expect(201);
    let taken = json!({"cluster_dns": DEMO_DNS});
    app.patch("/clusters/second", &taken).await.problem(409, "exists");
    // Its own name in another case is no clash.
    let own = json!({"cluster_dns": DEMO_DNS.to_uppercase()});
    app.patch(format!("/clusters/{DEMO}"), &own).await.expect(200);
}

#[tokio::test]
async fn lists_are_sorted_paged_and_counted() {
    let app = TestApp::start().await;
    for id in ["b", "a", "c"] {
        app.post("/namespaces", &json!({"id": id})).await.expect(201);
    }
    for (query, expected) in [
        ("", "a b c cert-manager podinfo traefik"),
        ("?limit=2", "a b"),
        ("?limit=2&offset=1", "b c"),
        ("?offset=4", "podinfo traefik"),
        ("?offset=6", ""),
        ("?offset=100&limit=1", ""),
        ("?limit=100000", "a b c cert-manager podinfo traefik"),
    ] {
        let reply = app.get(format!("/namespaces{query}")).await.expect(200);
        assert_eq!(ids(&reply.array()).join(" "), expected, "{query}");
        assert_eq!(reply.header("x-total-count"), "6", "{query}");
    }
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=",
        "offset=-1",
        "limit=1&limit=2",
        "page=2",
        "Limit=1",
        "role=x",
    ] {
        for route in ["namespaces", "clusters", "platform_components"] {
            app.get(format!("/{route}?{query}")).await.problem(400, "bad-request");
        }
    }
    for path in [
        "/namespaces/podinfo?x=1",
        "/kinds?x=1",
        "/kinds/namespaces?x=1",
        "/changes?x=1",
        "/decommissions?x=1",
    ] {
        app.get(path).await.problem(400, "bad-request");
    }
    app.put("/namespaces/a?dryrun=true", &json!({}))
        .await
        .problem(400, "bad-request");
    app.put("/namespaces/a?dry_run=yes", &json!({}))
        .await
        .problem(400, "bad-request");
    app.delete("/namespaces/a?cascade=maybe")
        .await
        .problem(400, "bad-request");
    app.post("/namespaces?cascade=true", &json!({"id": "d"}))
        .await
        .problem(400, "bad-request");
    app.get("/namespaces/a").await.expect(200);
}

#[tokio::test]
async fn lists_are_filtered_by_what_the_kind_says() {
    let app = TestApp::start().await;
    let mut prod = bare("prod-1");
    prod["environment"] = "prod".into();
    prod["labels"] = json!({"team": "red"});
    app.post("/clusters", &prod).await.expect(201);
    for (path, expected) in [
        ("/clusters?environment=prod", "prod-1"),
        ("/clusters?environment=dev", DEMO),
        ("/clusters?environment=qa", ""),
        ("/clusters?cluster_dns=PROD-1.k8s.example.com", "prod-1"),
        ("/clusters?cluster_dns=unknown", ""),
        ("/clusters?selector=team=red", "prod-1"),
        ("/clusters?selector=!team", DEMO),
        ("/clusters?selector=team=red&environment=dev", ""),
        ("/clusters?selector=*&limit=1&offset=1", "prod-1"),
        (
            "/platform_components?oci_url=https://charts.jetstack.io",
            "cert-manager",
        ),
        (
            "/platform_components?oci_tag=latest&component_version=latest&limit=1",
            "cert-manager",
        ),
        ("/platform_components?component_version=2", ""),
        ("/rolebindings?role=view", "dev-readers"),
    ] {
        let reply = app.get(path).await.expect(200);
        assert_eq!(ids(&reply.array()).join(" "), expected, "{path}");
    }
    assert_eq!(
        app.get("/clusters?environment=prod&limit=1")
            .await
            .header("x-total-count"),
        "1"
    );
    assert_eq!(
        app.get("/clusters?selector=*&limit=1").await.header("x-total-count"),
        "2"
    );
    for query in [
        "environment=production",
        "environment=",
        "selector=",
        "selector=team=",
        "selector=a%20b",
    ] {
        let status = app.get(format!("/clusters?{query}")).await.status;
        assert_eq!(status, if query == "selector=team=" { 200 } else { 400 }, "{query}");
    }
    for query in ["selector=nope=1", "selector=!nope", "selector=nope!=1"] {
        app.get(format!("/clusters?{query}")).await.problem(422, "invalid");
        app.get(format!("/namespaces/podinfo/references?{query}"))
            .await
            .problem(422, "invalid");
    }
    app.get("/namespaces?selector=team=red")
        .await
        .problem(400, "bad-request");
}

/// A cluster with everything on it, in a fleet that has grafana in its catalog.
async fn with_grafana() -> TestApp {
    let app = TestApp::start().await;
    let mut grafana = component("grafana");
    grafana["component_path"] = "observability/grafana/17.0.0".into();
    app.post("/platform_components", &grafana).await.expect(201);
    let reference = json!({"platform_components": [{"id": "grafana"}], "patches": {"grafana": {"replicas": "1"}}});
    app.patch(format!("/clusters/{DEMO}"), &reference).await.expect(200);
    app
}

#[tokio::test]
async fn the_canary_and_pin_bodies_of_the_book_change_that_component_and_nothing_else() {
    let canary = json!({
      "platform_components": [
        {
          "id": "grafana",
          "component_path": "observability/grafana/17.1.0",
          "oci_tag": "v1.1.0-rc1"
        }
      ]
    });
    let pin = json!({
      "platform_components": [
        {
          "id": "grafana",
          "oci_tag": "v1.1.0-rc1",
          "component_path": "observability/grafana/17.1.0"
        }
      ]
    });
    for body in [canary, pin] {
        let app = with_grafana().await;
        let mut cluster = app.read(&format!("/clusters/{DEMO}")).await;
        let mut inputs = app.inputs(DEMO_DNS, "platform-components").await;
        app.patch(format!("/clusters/{DEMO}"), &body).await.expect(200);

        cluster["platform_components"][3]["component_path"] = "observability/grafana/17.1.0".into();
        cluster["platform_components"][3]["oci_tag"] = "v1.1.0-rc1".into();
        assert_eq!(app.read(&format!("/clusters/{DEMO}")).await, cluster);
        inputs[3]["component_path"] = "observability/grafana/17.1.0".into();
        inputs[3]["source"]["oci_tag"] = "v1.1.0-rc1".into();
        assert_eq!(app.inputs(DEMO_DNS, "platform-components").await, inputs);
        let records = app.get(format!("/changes?after={}", app.revision() - 1)).await.array();
        assert_eq!(records.len(), 1);
    }
}

#[tokio::test]
async fn the_patch_of_the_books_sequence_sets_one_value() {
    let app = TestApp::start().await;
    let mut cluster = app.read(&format!("/clusters/{DEMO}")).await;
    let body = json!({"patches": {"podinfo": {"replicaCount": "3"}}});
    app.patch(format!("/clusters/{DEMO}"), &body).await.expect(200);
    cluster["patches"]["podinfo"]["replicaCount"] = "3".into();
    assert_eq!(app.read(&format!("/clusters/{DEMO}")).await, cluster);
    let inputs = app.inputs(DEMO_DNS, "platform-components").await;
    assert_eq!(
        inputs[2]["patches"],
        json!({"replicaCount": "3", "ui.color": "#2f855a", "ui.message": "Hello from flux-resourceset"})
    );
}

#[tokio::test]
async fn a_plain_patch_merges() {
    let app = with_grafana().await;
    let path = format!("/clusters/{DEMO}");
    let patched = |body: Value| {
        let call = app.patch(&path, &body);
        async move { call.await.expect(200).json() }
    };
    let references = |cluster: &Value| ids(cluster["platform_components"].as_array().unwrap()).join(" ");

    // Null clears an override, a patch key, a field.
    patched(json!({"platform_components": [{"id": "grafana", "oci_tag": "v2"}], "node_count": 3})).await;
    let cluster = patched(json!({
        "platform_components": [{"id": "grafana", "oci_tag": null}],
        "patches": {"podinfo": {"ui.color": null}, "traefik": null},
        "node_count": null,
    }))
    .await;
    assert!(cluster["platform_components"][3].get("oci_tag").is_none());
    assert_eq!(cluster["platform_components"][3]["enabled"], true);
    assert!(cluster["patches"]["podinfo"].get("ui.color").is_none());
    assert_eq!(cluster["patches"]["podinfo"]["replicaCount"], "2");
    assert!(cluster["patches"].get("traefik").is_none() && cluster.get("node_count").is_none());

    // New references go last; the others stay where they are.
    app.post("/platform_components", &component("loki")).await.expect(201);
    let cluster = patched(json!({"platform_components": [{"id": "loki"}, {"id": "traefik", "enabled": false}]})).await;
    assert_eq!(references(&cluster), "cert-manager traefik podinfo grafana loki");
    assert_eq!(cluster["platform_components"][1]["enabled"], false);

    // One is removed by name, and what is not there needs no removing.
    let gone =
        json!({"platform_components": [{"id": "podinfo", "$patch": "delete"}, {"id": "nope", "$patch": "delete"}]});
    let cluster = patched(gone.clone()).await;
    assert_eq!(references(&cluster), "cert-manager traefik grafana loki");
    assert_eq!(cluster["namespaces"].as_array().unwrap().len(), 3);
    let revision = app.revision();
    patched(gone).await;
    patched(json!({"platform_components": []})).await;
    assert_eq!(app.revision(), revision);
    let wrong = json!({"platform_components": [{"id": "loki", "$patch": "replace"}]});
    let problem = app.patch(&path, &wrong).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/platform_components/0/$patch"]);

    // Other arrays are replaced.
    let subjects = json!({"subjects": [{"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}]});
    let binding = app
        .patch("/rolebindings/dev-readers", &subjects)
        .await
        .expect(200)
        .json();
    assert_eq!(binding["subjects"], subjects["subjects"]);
    assert_eq!(binding["role"], "view");
}

#[tokio::test]
async fn a_merge_patch_is_rfc_7396_to_the_letter() {
    let app = with_grafana().await;
    let path = format!("/clusters/{DEMO}");
    let patch = |body: Value| {
        app.patch(&path, &body)
            .header("content-type", "application/merge-patch+json")
    };
    let cluster = patch(json!({
        "platform_components": [{"id": "podinfo", "oci_tag": null}],
        "patches": {"podinfo": {"ui.color": null}, "traefik": null},
    }))
    .await
    .expect(200)
    .json();
    assert_eq!(
        cluster["platform_components"],
        json!([{"id": "podinfo", "oci_tag": null, "enabled": true}])
    );
    assert!(cluster["patches"]["podinfo"].get("ui.color").is_none());
    assert!(cluster["patches"].get("traefik").is_none());
    assert_eq!(cluster["patches"]["grafana"]["replicas"], "1");
    assert_eq!(app.input_ids(DEMO_DNS, "platform-components").await, ["podinfo"]);
    patch(json!({"platform_components": [{"id": "x", "$patch": "delete"}]}))
        .await
        .problem(422, "invalid");
    patch(json!("text")).await.problem(422, "invalid");
    patch(json!({"environment": null})).await.problem(422, "invalid");
}

#[tokio::test]
async fn a_json_patch_is_rfc_6902() {
    let app = with_grafana().await;
    let path = format!("/clusters/{DEMO}");
    let patch = |body: Value| {
        app.patch(&path, &body)
            .header("content-type", "application/json-patch+json")
    };
    let cluster = patch(json!([
        {"op": "test", "path": "/environment", "value": "dev"},
        {"op": "remove", "path": "/platform_components/0"},
        {"op": "add", "path": "/platform_components/0/oci_tag", "value": "3.0.0"},
        {"op": "replace", "path": "/patches/podinfo/ui.color", "value": "#fff"},
        {"op": "copy", "from": "/patches/podinfo", "path": "/patches/traefik"},
        {"op": "add", "path": "/labels/example.com~1tier", "value": "gold"},
    ]))
    .await
    .expect(200)
    .json();
    assert_eq!(
        ids(cluster["platform_components"].as_array().unwrap()),
        ["traefik", "podinfo", "grafana"]
    );
    assert_eq!(cluster["platform_components"][0]["oci_tag"], "3.0.0");
    assert_eq!(cluster["patches"]["traefik"]["ui.color"], "#fff");
    assert_eq!(cluster["labels"]["example.com/tier"], "gold");

    let revision = app.revision();
    let failed = patch(json!([
        {"op": "replace", "path": "/environment", "value": "prod"},
        {"op": "test", "path": "/environment", "value": "dev"},
    ]));
    assert_eq!(pointers(&failed.await.problem(422, "invalid")), ["/1"]);
    patch(json!([{"op": "remove", "path": "/nothing"}]))
        .await
        .problem(422, "invalid");
    patch(json!([{"op": "explode", "path": "/labels"}]))
        .await
        .problem(422, "invalid");
    patch(json!({"op": "remove"})).await.problem(422, "invalid");
    assert_eq!(app.revision(), revision, "all of a patch, or none of it");
}

#[tokio::test]
async fn a_put_that_forgets_references_is_refused() {
    let app = TestApp::start().await;
    let path = format!("/clusters/{DEMO}");
    let mut cluster = app.read(&path).await;
    cluster.as_object_mut().unwrap().remove("namespaces");
    cluster.as_object_mut().unwrap().remove("rolebindings");
    let problem = app.put(&path, &cluster).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/namespaces", "/rolebindings"]);
    assert!(problem.to_string().contains("to remove them, send []"), "{problem}");
    cluster["namespaces"] = json!([]);
    cluster["rolebindings"] = json!([{"id": "dev-readers"}]);
    cluster.as_object_mut().unwrap().remove("patches");
    app.put(&path, &cluster).await.expect(200);
    assert_eq!(
        app.poll(DEMO_DNS, "namespaces").await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
    assert_eq!(app.input_ids(DEMO_DNS, "rolebindings").await, ["dev-readers"]);
    // An array that is empty may be left out.
    cluster.as_object_mut().unwrap().remove("namespaces");
    app.put(&path, &cluster).await.expect(200);
}

#[tokio::test]
async fn a_definition_in_use_is_deleted_only_with_its_references() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("other")).await.expect(201);
    // Kept for a component that is not assigned there: it goes with the component all the same.
    app.patch("/clusters/other", &json!({"patches": {"podinfo": {"a": "b"}}}))
        .await
        .expect(200);
    let problem = app.delete("/platform_components/podinfo").await.problem(409, "in-use");
    assert_eq!(problem["clusters"], json!([DEMO]));
    assert!(problem["detail"].as_str().unwrap().contains(DEMO), "{problem}");

    let revision = app.revision();
    let plan = app
        .delete("/platform_components/podinfo?cascade=true&dry_run=true")
        .await
        .expect(200)
        .json();
    let changed: Vec<_> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert_eq!(changed, ["podinfo", DEMO, "other"]);
    app.delete("/platform_components/podinfo?cascade=true")
        .await
        .expect(204);
    assert_eq!(app.revision(), revision + 1);
    let cluster = app.read(&format!("/clusters/{DEMO}")).await;
    assert_eq!(
        ids(cluster["platform_components"].as_array().unwrap()),
        ["cert-manager", "traefik"]
    );
    assert!(cluster["patches"].get("podinfo").is_none());
    assert_eq!(app.read("/clusters/other").await["patches"], json!({}));
    assert_eq!(
        app.input_ids(DEMO_DNS, "platform-components").await,
        ["cert-manager", "traefik"]
    );
    // The namespace of the same name is another thing.
    assert_eq!(app.input_ids(DEMO_DNS, "namespaces").await.len(), 3);
    app.delete("/namespaces/podinfo").await.problem(409, "in-use");
    app.delete("/rolebindings/dev-readers?cascade=true").await.expect(204);
    assert_eq!(app.input_ids(DEMO_DNS, "rolebindings").await, ["platform-admins"]);
}

#[tokio::test]
async fn a_component_that_others_depend_on_stays_with_cascade_too() {
    let app = TestApp::start().await;
    for query in ["", "?cascade=true"] {
        let problem = app
            .delete(format!("/platform_components/traefik{query}"))
            .await
            .problem(409, "in-use");
        if !query.is_empty() {
            assert!(problem["detail"].as_str().unwrap().contains("podinfo"), "{problem}");
        }
    }
    app.patch("/platform_components/podinfo", &json!({"depends_on": []}))
        .await
        .expect(200);
    app.delete("/platform_components/traefik?cascade=true")
        .await
        .expect(204);
}

#[tokio::test]
async fn dependencies_exist_and_have_no_cycles() {
    let app = TestApp::start().await;
    for (id, depends_on, pointers_expected) in [
        ("podinfo", json!(["nope"]), vec!["/depends_on/0"]),
        ("podinfo", json!(["traefik", "podinfo"]), vec!["/depends_on/1"]),
        ("cert-manager", json!(["podinfo"]), vec!["/depends_on/0"]),
        ("podinfo", json!(["traefik", "traefik"]), vec!["/depends_on"]),
    ] {
        let body = json!({"depends_on": depends_on});
        let problem = app
            .patch(format!("/platform_components/{id}"), &body)
            .await
            .problem(422, "invalid");
        assert_eq!(pointers(&problem), pointers_expected, "{problem}");
    }
}

#[tokio::test]
async fn references_to_what_is_not_there_are_refused_and_old_ones_block_nothing() {
    let app = Setup::default()
        .seed(&json!({"clusters": [{
            "id": "c", "cluster_name": "c", "cluster_dns": "c.example.com", "environment": "dev",
            "namespaces": [{"id": "lost"}],
        }]}))
        .start()
        .await;
    assert_eq!(
        app.poll("c.example.com", "namespaces").await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
    let found = app.get("/clusters/c/diagnostics").await.expect(200).array();
    assert_eq!(
        (found.len(), &found[0]["code"], &found[0]["id"]),
        (1, &json!("dangling"), &json!("lost"))
    );
    app.patch("/clusters/c", &json!({"node_count": 3})).await.expect(200);
    let cluster = app.read("/clusters/c").await;
    app.put("/clusters/c", &cluster).await.expect(200);
    let another = json!({"namespaces": [{"id": "lost"}, {"id": "found"}]});
    let problem = app.patch("/clusters/c", &another).await.problem(422, "invalid");
    assert_eq!(pointers(&problem), ["/namespaces/1/id"]);
    let twice = json!({"namespaces": [{"id": "x"}, {"id": "x"}]});
    app.post("/namespaces", &json!({"id": "x"})).await.expect(201);
    let problem = app
        .patch("/clusters/c", &twice)
        .header("content-type", "application/merge-patch+json")
        .await;
    assert_eq!(problem.problem(422, "contract")["clusters"], json!(["c"]));
    app.post("/namespaces", &json!({"id": "lost"})).await.expect(201);
    assert_eq!(app.input_ids("c.example.com", "namespaces").await, ["lost"]);
    assert_eq!(app.get("/clusters/c/diagnostics").await.expect(200).array().len(), 0);
}

#[tokio::test]
async fn the_references_of_a_definition_answer_which_clusters_run_what() {
    let app = TestApp::start().await;
    let mut clusters = Vec::new();
    for (n, tag) in [json!(null), json!("1.2.3"), json!("1.2.4")].into_iter().enumerate() {
        let mut cluster = bare(&format!("c{n}"));
        cluster["environment"] = ["dev", "qa", "prod"][n].into();
        cluster["platform_components"] = json!([{"id": "podinfo", "oci_tag": tag, "enabled": n != 2}]);
        cluster["patches"] = json!({"podinfo": {"n": n}});
        clusters.push(json!({"op": "create", "kind": "clusters", "value": cluster}));
    }
    app.batch(clusters.into()).await;
    let reply = app.get("/platform_components/podinfo/references").await.expect(200);
    assert_eq!(reply.header("x-total-count"), "4");
    let found = reply.array();
    let versions: Vec<_> = found
        .iter()
        .map(|one| (&one["cluster"], &one["values"]["oci_tag"]))
        .collect();
    assert_eq!(
        json!(versions),
        json!([["c0", "latest"], ["c1", "1.2.3"], ["c2", "1.2.4"], [DEMO, "latest"]])
    );
    insta::assert_snapshot!("references", pretty(&json!(found[..3])));

    let page = app
        .get("/platform_components/podinfo/references?limit=1&offset=1")
        .await
        .expect(200);
    assert_eq!(
        (
            page.array()[0]["cluster"].as_str().unwrap(),
            page.header("x-total-count")
        ),
        ("c1", "4")
    );
    let prod = app
        .get("/platform_components/podinfo/references?selector=environment=prod")
        .await
        .expect(200);
    assert_eq!(
        (
            prod.array()[0]["cluster"].as_str().unwrap(),
            prod.header("x-total-count")
        ),
        ("c2", "1")
    );
    app.post("/namespaces", &json!({"id": "unused"})).await.expect(201);
    assert_eq!(
        app.get("/namespaces/unused/references").await.expect(200).array().len(),
        0
    );
    app.get("/namespaces/nope/references").await.problem(404, "not-found");
    app.get("/namespaces/podinfo/references?environment=prod")
        .await
        .problem(400, "bad-request");
    app.get("/namespaces/podinfo/other").await.problem(404, "not-found");
    app.get(format!("/clusters/{DEMO}/references"))
        .await
        .problem(404, "not-found");
    app.get("/namespaces/podinfo/diagnostics")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn diagnostics_say_what_will_not_do_what_it_seems_to() {
    let app = TestApp::start().await;
    let path = format!("/clusters/{DEMO}");
    assert_eq!(
        app.get(format!("{path}/diagnostics")).await.expect(200).array(),
        [json!(null); 0]
    );
    let mut kustomized = component("kustomized");
    kustomized["oci_url"] = "oci://registry.example/repo".into();
    kustomized["depends_on"] = json!(["podinfo"]);
    app.post("/platform_components", &kustomized).await.expect(201);
    let body = json!({
        "platform_components": [{"id": "cert-manager", "enabled": false}, {"id": "kustomized"}],
        "patches": {"gone": {"a": "b"}},
    });
    app.patch(&path, &body).await.expect(200);
    let found = app.get(format!("{path}/diagnostics")).await.expect(200).json();
    insta::assert_snapshot!("diagnostics", pretty(&found));
    app.get("/clusters/nope/diagnostics").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_protected_cluster_is_not_deleted_until_that_is_lifted() {
    let app = TestApp::start().await;
    let path = format!("/clusters/{DEMO}");
    app.patch(&path, &json!({"protected": true})).await.expect(200);
    for query in ["", "?dry_run=true"] {
        let problem = app.delete(format!("{path}{query}")).await.problem(409, "protected");
        assert_eq!(problem["clusters"], json!([DEMO]));
    }
    let batch = json!({"operations": [{"op": "delete", "kind": "clusters", "id": DEMO}]});
    app.post("/batch", &batch).await.problem(409, "protected");
    app.patch(&path, &json!({"namespaces": [{"id": "podinfo", "$patch": "delete"}]}))
        .await
        .expect(200);
    app.patch(&path, &json!({"protected": false})).await.expect(200);
    app.delete(&path).await.expect(204);
}

#[tokio::test]
async fn decommissions_are_listed_and_can_be_forgotten() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/decommissions").await.expect(200).header("x-total-count"), "0");
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    let expected = json!({
        "id": DEMO_DNS, "cluster_id": DEMO, "cluster_name": DEMO, "cluster_dns": DEMO_DNS, "environment": "dev",
    });
    let list = app.get("/decommissions").await.expect(200);
    assert_eq!((list.json(), list.header("x-total-count")), (json!([expected]), "1"));
    let path = format!("/decommissions/{DEMO_DNS}");
    let one = app.get(&path).await.expect(200);
    assert_eq!(one.json(), expected);
    app.get(&path).header("if-none-match", &one.etag()).await.expect(304);
    app.get("/decommissions/nope").await.problem(404, "not-found");
    app.get(format!("{path}/references")).await.problem(404, "not-found");
    app.post("/decommissions", &expected)
        .await
        .problem(405, "method-not-allowed");
    app.put(&path, &expected).await.problem(405, "method-not-allowed");
    app.patch(&path, &expected).await.problem(405, "method-not-allowed");

    app.delete(&path)
        .header("if-match", "\"x\"")
        .await
        .problem(412, "stale");
    app.delete(format!("{path}?dry_run=true")).await.expect(200);
    app.poll(DEMO_DNS, "namespaces").await.expect(200);
    app.delete(&path).header("if-match", &one.etag()).await.expect(204);
    app.poll(DEMO_DNS, "namespaces").await.problem(404, "not-found");
    app.delete(&path).await.problem(404, "not-found");
    assert_eq!(app.get("/decommissions").await.array().len(), 0);
}

#[tokio::test]
async fn released_names_are_listed_and_can_be_forgotten() {
    let app = TestApp::start().await;
    assert_eq!(
        app.get("/released_names").await.expect(200).header("x-total-count"),
        "0"
    );
    app.post("/clusters", &bare("one")).await.expect(201);
    let has = json!({"namespaces": [{"id": "podinfo"}], "platform_components": [{"id": "podinfo", "enabled": false}]});
    app.patch("/clusters/one", &has).await.expect(200);
    app.patch("/clusters/one", &json!({"cluster_dns": "two.example.com"}))
        .await
        .expect(200);
    let expected = json!({
        "id": "one.k8s.example.com", "cluster_id": "one", "cluster_dns": "one.k8s.example.com",
        "inputs": {"namespaces": [{"id": "podinfo"}]},
    });
    let list = app.get("/released_names").await.expect(200);
    assert_eq!((list.json(), list.header("x-total-count")), (json!([expected]), "1"));
    let path = "/released_names/one.k8s.example.com";
    let one = app.get(path).await.expect(200);
    assert_eq!(one.json(), expected);
    app.get(path).header("if-none-match", &one.etag()).await.expect(304);
    app.get("/released_names/nope").await.problem(404, "not-found");
    app.get(format!("{path}/references")).await.problem(404, "not-found");
    assert_eq!(app.get(format!("{path}/history")).await.expect(200).array().len(), 1);
    for call in [
        app.put(path, &expected),
        app.patch(path, &expected),
        app.post("/released_names", &expected),
    ] {
        call.await.problem(405, "method-not-allowed");
    }
    let plan = app.delete(format!("{path}?dry_run=true")).await.expect(200).json();
    assert_eq!(plan["removals"]["count"], 0, "{plan}");
    app.delete(path).header("if-match", &one.etag()).await.expect(204);
    app.delete(path).await.problem(404, "not-found");
    assert_eq!(app.get("/released_names").await.array().len(), 0);
}

#[tokio::test]
async fn a_write_that_would_make_a_reply_too_large_is_refused_and_names_the_cluster() {
    let app = TestApp::start().await;
    let long = "x".repeat(60_000);
    let mut operations = Vec::new();
    for n in 0..16 {
        let value = json!({"id": format!("n{n}"), "annotations": {"note": long}});
        operations.push(json!({"op": "create", "kind": "namespaces", "value": value}));
    }
    app.batch(operations.into()).await;
    let some =
        |count: usize| json!({"namespaces": (0..count).map(|n| json!({"id": format!("n{n}")})).collect::<Vec<_>>()});
    app.patch(format!("/clusters/{DEMO}"), &some(14)).await.expect(200);
    let problem = app
        .patch(format!("/clusters/{DEMO}"), &some(16))
        .await
        .problem(422, "contract");
    assert_eq!(problem["clusters"], json!([DEMO]));
    assert!(problem["detail"].as_str().unwrap().contains("namespaces"), "{problem}");
    // Also when it is the definition that grows.
    let larger = json!({"annotations": {"a": "x".repeat(60_000), "b": "x".repeat(60_000)}});
    let problem = app.patch("/namespaces/n0", &larger).await.problem(422, "contract");
    assert_eq!(problem["clusters"], json!([DEMO]));
    assert_eq!(app.input_ids(DEMO_DNS, "namespaces").await.len(), 17);
}

#[tokio::test]
async fn a_cluster_with_a_wrong_name_or_value_is_refused() {
    let app = TestApp::start().await;
    let mut cluster = bare("ok");
    for (field, value) in [
        ("id", json!("Upper")),
        ("id", json!("a".repeat(64))),
        ("cluster_name", json!("-a")),
        ("cluster_dns", json!("a..b")),
        ("cluster_dns", json!("under_score.example.com")),
        ("cluster_dns", json!(format!("{}.com", "a".repeat(64)))),
        ("environment", json!("production")),
        ("labels", json!({"a b": "c"})),
        ("labels", json!({"a": "c".repeat(64)})),
        ("labels", json!({"environment": "dev"})),
        ("labels", json!({"node_count": "3"})),
        ("node_count", json!(-1)),
        ("protected", json!("yes")),
        ("patches", json!({"podinfo": {"a": {"b": "c"}}})),
        ("patches", json!({"podinfo": {"a": null}})),
        ("patches", json!({"podinfo": "x"})),
        ("unknown", json!(1)),
        ("namespaces", json!([{"id": "podinfo", "labels": {}}])),
        ("namespaces", json!(["podinfo"])),
        (
            "platform_components",
            json!([{"id": "podinfo", "oci_url": "https://x"}]),
        ),
        ("platform_components", json!([{"id": "podinfo", "enabled": "no"}])),
    ] {
        let before = cluster.get(field).cloned();
        cluster[field] = value.clone();
        let problem = app.post("/clusters", &cluster).await.problem(422, "invalid");
        assert!(
            pointers(&problem).iter().all(|p| p.starts_with(&format!("/{field}"))),
            "{field}={value}: {problem}"
        );
        match before {
            Some(before) => cluster[field] = before,
            None => drop(cluster.as_object_mut().unwrap().remove(field)),
        }
    }
    app.post("/clusters", &cluster).await.expect(201);
}

#[tokio::test]
async fn a_component_with_a_wrong_name_or_value_is_refused() {
    let app = TestApp::start().await;
    for (field, value) in [
        ("id", json!("a".repeat(54))),
        ("component_path", json!("")),
        ("component_path", json!("/absolute")),
        ("oci_url", json!("")),
        ("oci_url", json!("ftp://x")),
        ("oci_url", json!("https://")),
        ("oci_tag", json!("")),
        ("oci_tag", json!(null)),
        ("depends_on", json!("podinfo")),
    ] {
        let mut entry = component("c");
        entry[field] = value.clone();
        let problem = app.post("/platform_components", &entry).await.problem(422, "invalid");
        assert!(
            pointers(&problem).iter().all(|p| p.starts_with(&format!("/{field}"))),
            "{field}={value}: {problem}"
        );
    }
}

#[tokio::test]
async fn a_role_binding_names_accounts_fully_and_no_binding_of_kubernetes() {
    let app = TestApp::start().await;
    let account = json!({"id": "b", "role": "view", "subjects": [{"kind": "ServiceAccount", "name": "x"}]});
    app.post("/rolebindings", &account).await.problem(422, "invalid");
    let account = |id: &str| json!({"id": id, "role": "view", "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "y"}]});
    app.post("/rolebindings", &account("team:b")).await.expect(201);
    let team = app.get("/rolebindings/team:b").await.expect(200).json();
    assert_eq!(team["subjects"][0]["apiGroup"], "");
    app.post("/rolebindings", &account("system:b")).await.expect(201);
    for id in [
        "system:node",
        "system:controller:job-controller",
        "kubeadm:x",
        "cluster-admin",
        "flux-operator",
    ] {
        let problem = app.post("/rolebindings", &account(id)).await.problem(422, "invalid");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("The bindings of Kubernetes and Flux themselves"),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn a_key_given_twice_is_refused() {
    let app = TestApp::start().await;
    let twice = r#"{"id": "x", "labels": {"a": "1", "a": "2"}}"#;
    let call = app
        .post("/namespaces", &json!({}))
        .content("application/json", twice.to_owned());
    let problem = call.await.problem(400, "bad-request");
    assert!(
        problem["detail"].as_str().unwrap().contains("\"a\" occurs twice"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_kind_that_is_not_there_is_404_with_every_method() {
    let app = TestApp::start().await;
    for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        app.call(method.clone(), "/nope").await.problem(404, "not-found");
        app.call(method.clone(), "/namespaces")
            .await
            .problem(405, "method-not-allowed");
    }
    app.call(Method::POST, "/nope/x").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_kind_without_a_content_type_may_be_yaml_and_nothing_else_may() {
    let app = TestApp::start().await;
    let put = |text: &str| app.call(Method::PUT, "/kinds/things").content("", text.to_owned());
    put("kind: thing\nschema: {type: object, properties: {a: {type: string}}}\n")
        .await
        .expect(201);
    put(r#" {"kind": "thing", "schema": {"type": "object", "properties": {}}}"#)
        .await
        .expect(200);
    put("kind: [").await.problem(400, "bad-request");
    app.post("/namespaces", &json!({}))
        .content("", "id: x".to_owned())
        .await
        .problem(400, "bad-request");
}

#[tokio::test]
async fn probes_say_that_all_is_well() {
    let app = TestApp::start().await;
    assert_eq!(
        app.get("/health").without_token().await.expect(200).json(),
        json!({"status": "ok"})
    );
    let ready = app.get("/ready").without_token().await.expect(200).json();
    assert_eq!(ready, json!({"status": "ok"}));
}
