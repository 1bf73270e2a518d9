//! The list of revisions, and undo and redo in it.

use std::sync::Arc;

use pgtest::Server;
use serde_json::{Value, json};
use store::{Access, Postgres};

use crate::support::{DEMO, Setup, TestApp};

/// Every engine: replicas on any of them must give the same answers.
async fn setups() -> Vec<Setup> {
    let url = Server::shared().database();
    let postgres = Arc::new(Postgres::open(&url, Access::Write).await.unwrap());
    vec![
        Setup::default(),
        Setup::default().sqlite(),
        Setup::default().store(postgres),
    ]
}

async fn tag(app: &TestApp, tag: &str, reason: &str) {
    let body = json!({ "oci_tag": tag });
    let patch = app.patch("/platform_components/podinfo", &body);
    patch.header("x-change-reason", reason).await.expect(200);
}

async fn back(app: &TestApp, body: Value) -> u64 {
    app.post("/rollback", &body).await.expect(200).json()["revision"]
        .as_u64()
        .unwrap()
}

/// `revision reason`, and what it says of undos, for each revision that a query finds.
async fn listed(app: &TestApp, query: &str) -> Vec<String> {
    let page = app.read(&format!("/revisions?{query}")).await;
    let revisions = page["revisions"].as_array().unwrap();
    let line = |one: &Value| {
        let mut line = format!("{} {}", one["revision"], one["reason"].as_str().unwrap_or("-"));
        for name in ["undoes", "redoes", "undone_by", "redone_by"] {
            if let Some(revision) = one.get(name) {
                line.push_str(&format!(", {name} {revision}"));
            }
        }
        line
    };
    revisions.iter().map(line).collect()
}

#[tokio::test]
async fn revisions_are_listed_with_their_counts_and_filtered() {
    for setup in setups().await {
        let app = setup.start().await;
        tag(&app, "6.5.0", "release 6.5").await;
        let operations = json!([
            {"op": "create", "kind": "namespaces", "id": "a", "value": {}},
            {"op": "create", "kind": "namespaces", "id": "b", "value": {}},
            {"op": "assign", "kind": "namespaces", "id": "a", "cluster": DEMO},
        ]);
        app.post("/batch", &json!({"reason": "two namespaces", "operations": operations}))
            .await
            .expect(200);
        app.delete("/namespaces/b").await.expect(204);

        let reply = app.get("/revisions?limit=2").await.expect(200);
        assert_eq!(reply.header("x-revision"), "4");
        let page = reply.json();
        assert_eq!(page["next"], 3);
        let two = &page["revisions"][1];
        assert_eq!((&two["revision"], &two["actor"]), (&json!(3), &json!("write")));
        assert_eq!(
            two["changes"],
            json!({"clusters": {"create": 0, "update": 1, "delete": 0}, "namespaces": {"create": 2, "update": 0, "delete": 0}})
        );
        assert_eq!(page["revisions"][0]["changes"]["namespaces"]["delete"], 1);
        let rest = app.read("/revisions?limit=100&before=3").await;
        assert_eq!(
            (rest["revisions"].as_array().unwrap().len(), &rest["next"]),
            (2, &json!(null))
        );

        let numbers = async |query: &str| {
            let lines = listed(&app, query).await;
            let numbers: Vec<_> = lines
                .iter()
                .map(|line| line.split(' ').next().unwrap().to_owned())
                .collect();
            numbers.join(" ")
        };
        assert_eq!(numbers("").await, "4 3 2 1");
        assert_eq!(numbers("actor=system").await, "1");
        assert_eq!(numbers("kind=namespaces").await, "4 3 1");
        assert_eq!(numbers("kind=namespaces&id=b").await, "4 3");
        assert_eq!(numbers("id=podinfo&actor=write").await, "2");
        assert_eq!(numbers("reason=release").await, "2");
        assert_eq!(numbers("since=2020-01-01").await, "4 3 2 1");
        assert_eq!(numbers("since=1h").await, "4 3 2 1");
        assert_eq!(numbers("until=1h").await, "");
        assert_eq!(numbers("until=2020-01-01T00:00:00%2B02:00").await, "");
        let at = app.read("/revisions?limit=1").await["revisions"][0]["at"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(numbers(&format!("since={at}")).await, "4");
        assert_eq!(numbers(&format!("until={at}")).await, "3 2 1");
    }
}

#[tokio::test]
async fn parameters_of_the_list_are_checked() {
    let app = TestApp::start().await;
    for bad in [
        "limit=0",
        "before=x",
        "since=yesterday",
        "until=2026-13-01",
        "after=1",
        "actor=a&actor=b",
    ] {
        app.get(format!("/revisions?{bad}")).await.problem(400, "bad-request");
    }
    let problem = app.get("/revisions?since=yesterday").await.problem(400, "bad-request");
    let expected = "since=\"yesterday\": must be a time such as 2026-01-31T12:00:00Z, a date, or an age such as 24h";
    assert_eq!(problem["detail"], expected);
}

#[tokio::test]
async fn the_log_knows_what_an_undo_undoes() {
    for setup in setups().await {
        let app = setup.start().await;
        tag(&app, "6.5.0", "release").await;
        assert_eq!(back(&app, json!({"undo": 2})).await, 3);
        let undone = ["3 undo of revision 2, undoes 2", "2 release, undone_by 3"];
        assert_eq!(listed(&app, "limit=2").await, undone);
        // The records say it, too.
        let record = &app.get("/changes?after=2").await.expect(200).array()[0];
        assert_eq!(
            (&record["undoes"], &record["reason"]),
            (&json!(2), &json!("undo of revision 2"))
        );

        // By the number of the revision that was undone, or of its undo.
        assert_eq!(back(&app, json!({"redo": 2, "reason": "it was good"})).await, 4);
        let redone = [
            "4 it was good, redoes 2",
            "3 undo of revision 2, undoes 2, redone_by 4",
            "2 release",
        ];
        assert_eq!(listed(&app, "limit=3").await, redone);
        assert_eq!(back(&app, json!({"undo": 4})).await, 5);
        assert_eq!(back(&app, json!({"redo": 5})).await, 6);
        assert_eq!(app.read("/platform_components/podinfo").await["oci_tag"], "6.5.0");
        let all = [
            "6 redo of revision 2, redoes 2",
            "5 undo of revision 2, undoes 2, redone_by 6",
            "4 it was good, redoes 2, undone_by 5",
            "3 undo of revision 2, undoes 2, redone_by 6",
            "2 release",
        ];
        assert_eq!(listed(&app, "limit=5").await, all);

        // A rollback is neither.
        back(&app, json!({"revision": 1})).await;
        assert_eq!(listed(&app, "limit=1").await, ["7 -"]);
    }
}

#[tokio::test]
async fn only_what_is_undone_can_be_redone() {
    let app = TestApp::start().await;
    tag(&app, "6.5.0", "release").await;
    let refused = async |redo: u64| {
        let problem = app
            .post("/rollback", &json!({"redo": redo}))
            .await
            .problem(409, "conflict");
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(2).await, "revision 2 cannot be redone: it was not undone");
    app.post("/rollback", &json!({"redo": 9}))
        .await
        .problem(404, "not-found");
    back(&app, json!({"undo": 2})).await;
    back(&app, json!({"redo": 2})).await;
    assert_eq!(refused(2).await, "revision 2 cannot be redone: it was not undone");
    assert_eq!(
        refused(3).await,
        "revision 3, the undo of revision 2, was already undone by revision 4"
    );
    assert_eq!(
        refused(4).await,
        "revision 4 cannot be redone: it is a redo itself, of revision 2"
    );
    // The component was changed after the undo.
    back(&app, json!({"undo": 2})).await;
    tag(&app, "7.0.0", "next release").await;
    let refused = refused(2).await;
    assert_eq!(
        refused,
        "revision 5 cannot be undone: platform_components/podinfo changed since"
    );
    // A dry run writes nothing, and shows what would be recorded.
    let plan = app
        .post("/rollback?dry_run=true", &json!({"undo": 6}))
        .await
        .expect(200)
        .json();
    assert_eq!((&plan["changes"][0]["undoes"], app.revision()), (&json!(6), 6));
}
