//! Profiles over HTTP: what they do on every road, and what clients see of it.

use serde_json::{Value, json};

use crate::support::{DEMO, DEMO_DNS, Setup, TestApp, ids};

/// The demo fleet with a profile for its environment, which brings a namespace.
async fn with_profile() -> TestApp {
    let app = Setup::default().sqlite().start().await;
    app.post("/namespaces", &json!({"id": "extra"})).await.expect(201);
    app.post("/profiles", &profile("dev", json!([{"id": "extra"}])))
        .await
        .expect(201);
    app
}

fn profile(id: &str, namespaces: Value) -> Value {
    json!({"id": id, "selector": "environment=dev", "namespaces": namespaces})
}

async fn has_extra(app: &TestApp) -> bool {
    app.input_ids(DEMO_DNS, "namespaces")
        .await
        .contains(&"extra".to_owned())
}

#[tokio::test]
async fn a_profile_has_the_routes_of_every_kind() {
    let app = with_profile().await;
    assert!(has_extra(&app).await);
    let one = app.get("/profiles/dev").await.expect(200);
    assert_eq!(
        one.json(),
        json!({"id": "dev", "selector": "environment=dev", "priority": 0, "namespaces": [{"id": "extra"}]})
    );
    let etag = one.etag();
    app.patch("/profiles/dev", &json!({"priority": 5}))
        .header("if-match", &etag)
        .await
        .expect(200);
    app.patch("/profiles/dev", &json!({"priority": 6}))
        .header("if-match", &etag)
        .await
        .problem(412, "stale");
    assert_eq!(ids(&app.get("/profiles").await.expect(200).array()), ["dev"]);
    assert_eq!(app.get("/profiles/dev/history").await.expect(200).array().len(), 2);
    app.get("/profiles/dev/references").await.problem(404, "not-found");
    app.put(
        "/kinds/profiles",
        &json!({"kind": "profiles", "schema": {"type": "object", "properties": {}}}),
    )
    .await
    .problem(422, "invalid");
    app.delete("/kinds/profiles").await.problem(409, "in-use");
    app.delete("/profiles/dev").await.expect(204);
    assert!(!has_extra(&app).await);
}

#[tokio::test]
async fn the_effective_document_and_its_explanation_are_served_now_and_then() {
    let app = with_profile().await;
    let own = app.read(&format!("/clusters/{DEMO}")).await;
    let effective = app.read(&format!("/clusters/{DEMO}/effective")).await;
    let namespaces = effective["namespaces"].as_array().unwrap();
    assert!(ids(namespaces).contains(&"extra".to_owned()));
    assert!(!ids(own["namespaces"].as_array().unwrap()).contains(&"extra".to_owned()));
    let before = app.read(&format!("/clusters/{DEMO}/effective?revision=1")).await;
    assert!(!ids(before["namespaces"].as_array().unwrap()).contains(&"extra".to_owned()));
    let explained = app.read(&format!("/clusters/{DEMO}/explain/namespaces/extra")).await;
    assert_eq!(
        (&explained["profiles"], &explained["inputs"]["namespaces"][0]["id"]),
        (&json!(["dev"]), &json!("extra"))
    );
    let all = app.read(&format!("/clusters/{DEMO}/explain")).await;
    assert!(all["inputs"]["platform-components"].as_array().unwrap().len() > 1);
    app.get(format!("/clusters/{DEMO}/explain/nothing"))
        .await
        .problem(404, "not-found");
    app.get(format!("/clusters/{DEMO}/explain/namespaces/nothing"))
        .await
        .problem(404, "not-found");
    app.get("/clusters/nobody/effective").await.problem(404, "not-found");
}

#[tokio::test]
async fn what_a_profile_takes_away_is_planned_counted_and_undone() {
    let app = with_profile().await;
    let plan = app.delete("/profiles/dev?dry_run=true").await.expect(200).json();
    assert_eq!(plan["clusters"][0]["inputs"]["namespaces"]["removed"], json!(["extra"]));
    assert_eq!(plan["removals"]["count"], 1);
    assert_eq!(
        plan["profiles"],
        json!([{
            "profile": "dev", "entered": {"count": 0, "clusters": []}, "left": {"count": 1, "clusters": [DEMO]},
        }])
    );
    // A label that takes the cluster out is a removal, too.
    let relabel = app.patch(format!("/clusters/{DEMO}?dry_run=true"), &json!({"environment": "qa"}));
    let plan = relabel.await.expect(200).json();
    assert_eq!(plan["removals"]["count"], 1);
    app.delete("/profiles/dev").await.expect(204);
    let revision = app.revision();
    app.post("/rollback", &json!({"undo": revision})).await.expect(200);
    assert!(has_extra(&app).await);
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    app.get("/profiles/dev").await.problem(404, "not-found");
    // Whatever was written is there after a restart.
    app.post("/rollback", &json!({"revision": revision - 1}))
        .await
        .expect(200);
    let app = app.restart().await;
    assert!(has_extra(&app).await);
}

#[tokio::test]
async fn a_protected_cluster_keeps_its_last_input_of_a_profile() {
    let app = Setup::default().start().await;
    app.post("/clusters", &json!({
        "id": "safe", "cluster_name": "safe", "cluster_dns": "safe.example.com", "environment": "qa", "protected": true,
    }))
    .await
    .expect(201);
    let profile = json!({"id": "qa", "selector": "environment=qa", "namespaces": [{"id": "podinfo"}]});
    app.post("/profiles", &profile).await.expect(201);
    let problem = app.delete("/profiles/qa").await.problem(409, "protected");
    assert_eq!(problem["clusters"], json!(["safe"]));
}

#[tokio::test]
async fn a_definition_in_use_by_a_profile_names_profiles_and_clusters() {
    let app = with_profile().await;
    let problem = app.delete("/namespaces/extra").await.problem(409, "in-use");
    assert_eq!(
        (&problem["resources"], &problem["clusters"]),
        (&json!(["profiles/dev"]), &json!([DEMO]))
    );
    app.delete("/namespaces/extra?cascade=true").await.expect(204);
    assert_eq!(app.read("/profiles/dev").await["namespaces"], json!([]));
}

#[tokio::test]
async fn references_name_the_profiles_that_bring_and_set_a_value() {
    let app = Setup::default().start().await;
    app.post(
        "/clusters",
        &json!({"id": "qa-1", "cluster_name": "qa-1", "cluster_dns": "qa-1.example.com", "environment": "qa"}),
    )
    .await
    .expect(201);
    let component = json!({"id": "qa", "selector": "environment=qa", "platform_components": [{"id": "podinfo", "oci_tag": "9.9.9"}]});
    app.post("/profiles", &component).await.expect(201);
    let usages = app
        .get("/platform_components/podinfo/references?selector=environment%3Dqa")
        .await
        .expect(200);
    assert_eq!(usages.header("x-total-count"), "1");
    let usage = &usages.array()[0];
    assert_eq!(
        (
            &usage["values"]["oci_tag"],
            &usage["overridden"],
            &usage["set_by_profiles"],
            &usage["profiles"]
        ),
        (&json!("9.9.9"), &json!([]), &json!({"oci_tag": "qa"}), &json!(["qa"]))
    );
    let exclude = json!([{"op": "assign", "kind": "platform_components", "id": "podinfo", "cluster": "qa-1", "value": {"excluded": true}}]);
    app.batch(exclude).await;
    let usages = app
        .get("/platform_components/podinfo/references?selector=environment%3Dqa")
        .await
        .expect(200);
    assert_eq!((usages.header("x-total-count"), usages.array()), ("0", vec![]));
}

#[tokio::test]
async fn suspicious_profiles_are_pointed_out_in_the_plan() {
    let app = with_profile().await;
    let nowhere = json!({"id": "p", "selector": "planet=mars", "namespaces": [{"id": "podinfo", "excluded": true}]});
    let plan = app.post("/profiles?dry_run=true", &nowhere).await.expect(200).json();
    let details: Vec<_> = plan["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["detail"].as_str().unwrap())
        .collect();
    assert_eq!(details.len(), 2, "{details:?}");
    assert!(
        details[0].contains("label \"planet\"") && details[1].contains("no profile before it brings"),
        "{details:?}"
    );
    assert_eq!(plan["totals"]["warnings"], 2);
}

#[tokio::test]
async fn a_cluster_that_registers_receives_its_baseline() {
    let app = with_profile().await;
    let scope = json!({"environments": ["dev"], "dns_suffix": ".stores.example.com", "labels": {}, "uses": 5});
    app.post("/identities", &json!({"id": "factory", "role": "join", "scope": scope}))
        .await
        .expect(201);
    let token = app
        .post("/identities/factory/tokens", &json!({}))
        .await
        .expect(201)
        .json();
    let register = json!({"cluster_name": "s1", "cluster_dns": "s1.stores.example.com", "environment": "dev"});
    let call = app.post("/register", &register).token(token["token"].as_str().unwrap());
    call.await.expect(201);
    assert_eq!(app.input_ids("s1.stores.example.com", "namespaces").await, ["extra"]);
    assert_eq!(app.read("/clusters/s1").await["namespaces"], json!([]));
}
