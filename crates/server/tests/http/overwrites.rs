//! A plan says what it overwrites: who last changed each document, and which fields go back to an earlier value.

use fleet::log::Revision;
use flux_resourceset::app::compact::{Old, compact};
use serde_json::{Value, json};

use crate::support::{Setup, TestApp, bare};

async fn podinfo(app: &TestApp, change: Value, reason: &str) {
    let patch = app.patch("/platform_components/podinfo", &change);
    patch.header("x-change-reason", reason).await.expect(200);
}

async fn planned(app: &TestApp, change: Value) -> Value {
    let patch = app.patch("/platform_components/podinfo?dry_run=true", &change);
    patch.await.expect(200).json()
}

/// `pointer=revision`, of the first change of a plan.
fn reverts(plan: &Value) -> Vec<String> {
    let reverts = plan["changes"][0]["reverts"].as_array().unwrap();
    let show = |one: &Value| format!("{}={}", one["pointer"].as_str().unwrap(), one["revision"]);
    reverts.iter().map(show).collect()
}

#[tokio::test]
async fn a_plan_names_the_hotfix_that_it_would_undo() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = setup.start().await;
        podinfo(&app, json!({"oci_tag": "6.5.0"}), "release").await;
        podinfo(&app, json!({"oci_tag": "6.5.1"}), "hotfix: 6.5.0 leaks memory").await;
        let plan = planned(&app, json!({"oci_tag": "6.5.0"})).await;
        let change = &plan["changes"][0];
        assert_eq!(plan["history"], json!({"status": "complete"}));
        let last = &change["last_change"];
        assert_eq!(
            (&last["revision"], &last["actor"], &last["reason"]),
            (&json!(3), &json!("write"), &json!("hotfix: 6.5.0 leaks memory"))
        );
        let mut expected = last.clone();
        expected["pointer"] = "/oci_tag".into();
        assert_eq!(change["reverts"], json!([expected]));

        // Another change of the component in between hides nothing, and a new value reverts nothing.
        podinfo(&app, json!({"component_version": "9"}), "relabelled").await;
        let plan = planned(&app, json!({"oci_tag": "6.5.0"})).await;
        assert_eq!(plan["changes"][0]["last_change"]["revision"], 4);
        assert_eq!(reverts(&plan), ["/oci_tag=3"]);
        assert!(reverts(&planned(&app, json!({"oci_tag": "6.6.0"})).await).is_empty());
        // What is planned is the same, whoever wrote before.
        assert_eq!(app.revision(), 4);
    }
}

#[tokio::test]
async fn what_is_deleted_and_applied_again_is_a_revert() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("a")).await.expect(201);
    let delete = app.delete("/clusters/a?dry_run=true").await.expect(200).json();
    assert_eq!(delete["changes"][0]["last_change"]["revision"], 2);
    assert!(reverts(&delete).is_empty());
    app.delete("/clusters/a").await.expect(204);
    let again = app.post("/clusters?dry_run=true", &bare("a")).await.expect(200).json();
    assert_eq!(again["changes"][0]["last_change"]["revision"], 3);
    assert_eq!(reverts(&again), ["=3"]);
    let new = app.post("/clusters?dry_run=true", &bare("b")).await.expect(200).json();
    assert_eq!(new["changes"][0]["last_change"], json!(null));
    assert_eq!(new["history"], json!({"status": "complete"}));
}

#[tokio::test]
async fn the_plan_of_an_undo_names_what_it_reverts() {
    let app = TestApp::start().await;
    podinfo(&app, json!({"oci_tag": "6.5.0"}), "release").await;
    let plan = app
        .post("/rollback?dry_run=true", &json!({"undo": 2}))
        .await
        .expect(200)
        .json();
    assert_eq!(reverts(&plan), ["/oci_tag=2"]);
}

#[tokio::test]
async fn what_was_compacted_is_said_to_be_unknown() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = setup.start().await;
        podinfo(&app, json!({"oci_tag": "6.5.0"}), "release").await;
        podinfo(&app, json!({"oci_tag": "6.5.1"}), "hotfix").await;
        app.post("/namespaces", &json!({"id": "x"})).await.expect(201);
        app.post("/namespaces", &json!({"id": "y"})).await.expect(201);
        let cut = |revision| Old::Before(Revision(revision));
        compact(&*app.store, cut(3), app.config().budget).await.unwrap();
        // The hotfix is there, and what came before it is not needed.
        let plan = planned(&app, json!({"oci_tag": "6.5.0"})).await;
        assert_eq!(plan["history"], json!({"status": "complete"}));
        assert_eq!(reverts(&plan), ["/oci_tag=3"]);
        compact(&*app.store, cut(5), app.config().budget).await.unwrap();
        let plan = planned(&app, json!({"oci_tag": "6.5.0"})).await;
        assert_eq!(plan["history"], json!({"status": "compacted", "through": 4}));
        assert_eq!(plan["changes"][0]["last_change"], json!(null));
        assert!(reverts(&plan).is_empty());
    }
}

/// Only so many earlier changes are read for a plan; the last change of each document is always there.
#[tokio::test]
async fn a_plan_of_many_documents_is_bounded_work() {
    let app = Setup::default().sqlite().start().await;
    let made = (0..4000).map(|n| json!({"op": "create", "kind": "clusters", "value": bare(&format!("c{n}"))}));
    app.batch(made.collect::<Vec<_>>().into()).await;
    let all =
        |count: u64| json!([{"op": "merge", "kind": "clusters", "selector": "*", "value": {"node_count": count}}]);
    for count in 1..=4 {
        app.batch(all(count)).await;
    }
    // All earlier changes would have to be read to find that a value is new.
    let plan = app
        .post("/batch?dry_run=true", &json!({"operations": all(9)}))
        .await
        .expect(200)
        .json();
    assert_eq!(plan["history"], json!({"status": "partial"}));
    let changes = plan["changes"].as_array().unwrap();
    assert!(changes.len() > 4000);
    assert!(changes.iter().all(|change| change["last_change"]["revision"] == 6));
    let plan = app
        .post("/batch?dry_run=true", &json!({"operations": all(3)}))
        .await
        .expect(200)
        .json();
    assert_eq!(plan["history"], json!({"status": "complete"}));
    assert!(
        plan["changes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["reverts"][0]["revision"] == 6)
    );
}
