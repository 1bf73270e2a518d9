//! The log as lines and as events, what is left of it after it was compacted.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Response;
use fleet::log::{Digest, Revision};
use flux_resourceset::app::backup;
use flux_resourceset::app::compact::{CompactError, Compacted, Old, compact};
use flux_resourceset::app::verify::verify;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{DEMO, Reply, Setup, TestApp, WRITE, bare};

pub const LINES: &str = "application/x-ndjson";

pub fn lines(reply: &Reply) -> Vec<Value> {
    let lines = reply.text().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub async fn namespaces(app: &TestApp, names: impl IntoIterator<Item = String>) {
    for id in names {
        app.post("/namespaces", &json!({ "id": id })).await.expect(201);
    }
}

pub fn numbered(prefix: &str, number: usize) -> impl Iterator<Item = String> {
    (0..number).map(move |n| format!("{prefix}-{n:03}"))
}

#[tokio::test]
async fn the_log_is_exported_whole_as_lines() {
    let app = TestApp::start().await;
    let operations: Vec<_> = numbered("n", 700)
        .map(|id| json!({"op": "create", "kind": "namespaces", "id": id, "value": {}}))
        .collect();
    app.batch(json!(operations)).await;
    namespaces(&app, numbered("m", 120)).await;
    let reply = app.get("/changes").header("accept", LINES).await.expect(200);
    assert_eq!(reply.header("content-type"), LINES);
    assert_eq!(reply.header("x-revision"), app.revision().to_string());
    let all = lines(&reply);
    assert_eq!(json!(all), app.get("/changes?limit=10000").await.expect(200).json());
    assert!(all.len() > 820);

    let ask = async |query: &str| {
        let path = format!("/changes?{query}");
        lines(&app.get(path).header("accept", LINES).await.expect(200))
    };
    assert_eq!(ask("after=2").await.len(), 120);
    assert_eq!(ask("after=2&limit=7").await.len(), 7);
    assert_eq!(ask("after=1&limit=1").await.len(), 700, "a revision is not split");
    assert_eq!(ask("after=100000").await.len(), 0);
    let one = ask("kind=namespaces&id=m-007").await;
    assert_eq!((one.len(), &one[0]["after"]["id"]), (1, &json!("m-007")));
    let refused = app.get("/changes?afer=2").header("accept", LINES).await;
    refused.problem(400, "bad-request");
}

/// A stream of events that is being read.
pub struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    pub fn of(response: Response<Body>) -> Events {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next block of lines, comments among them. None at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let piece = tokio::time::timeout(Duration::from_secs(20), self.body.next());
            let piece = piece.await.expect("it takes too long")?.unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next event: its id and its data.
    pub async fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            let block = self.block().await?;
            if block.starts_with(':') {
                continue;
            }
            let lines: Vec<_> = block.lines().collect();
            let [id, data] = lines[..] else {
                panic!("not an event of ours: {block}")
            };
            let id = id.strip_prefix("id: ").unwrap().parse().unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            return Some((id, data));
        }
    }
}

#[tokio::test]
async fn the_log_is_followed_as_events_one_for_each_revision() {
    let app = TestApp::start().await;
    let mut live = Events::of(app.get("/changes/stream").response().await);
    let mut all = Events::of(app.get("/changes/stream?after=0").response().await);
    let first = all.next().await.unwrap();
    assert_eq!((first.0, &first.1["actor"]), (1, &json!("system")));

    let write = app.post(
        "/batch",
        &json!({"reason": "two at once", "operations": [
            {"op": "create", "kind": "namespaces", "id": "one", "value": {}},
            {"op": "create", "kind": "namespaces", "id": "two", "value": {}},
        ]}),
    );
    write.await.expect(200);
    let expected = app.get("/changes?after=1").await.expect(200).json();
    for events in [&mut live, &mut all] {
        let (id, data) = events.next().await.unwrap();
        assert_eq!(id, 2);
        let record = &expected[0];
        let digest = app.app.fleet().head().digest.to_string();
        assert_eq!(
            data,
            json!({
                "revision": 2, "at": record["at"], "actor": "write", "request_id": record["request_id"],
                "reason": "two at once", "changes": expected, "digest": digest,
            })
        );
    }
    // More than is read at a time, and none is missing.
    namespaces(&app, numbered("n", 30)).await;
    for expected in 3..33 {
        assert_eq!(live.next().await.unwrap().0, expected);
    }
}

#[tokio::test]
async fn a_stream_is_resumed_where_it_was_left() {
    let app = TestApp::start().await;
    namespaces(&app, numbered("n", 5)).await;
    // What the client saw last counts more than the address that it asks for again.
    let resumed = app.get("/changes/stream?after=1").header("last-event-id", "4");
    let mut events = Events::of(resumed.response().await);
    assert_eq!(events.next().await.unwrap().0, 5);
    assert_eq!(events.next().await.unwrap().0, 6);
    namespaces(&app, ["late".to_owned()]).await;
    assert_eq!(events.next().await.unwrap().0, 7);

    // Somebody who was further than the log is: what comes next is not what follows for them.
    let ahead = app.get("/changes/stream").header("last-event-id", "8");
    let problem = ahead.await.problem(409, "conflict");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("ends at revision 7, before 8"), "{detail}");

    let bad = app.get("/changes/stream").header("last-event-id", "yesterday");
    bad.await.problem(400, "bad-request");
    app.get("/changes/stream?after=-1").await.problem(400, "bad-request");
    app.get("/changes/stream?before=1").await.problem(400, "bad-request");
    app.post("/changes/stream", &json!({}))
        .await
        .problem(405, "method-not-allowed");
}

/// What a follower needs to keep the log: each event is a revision whose digest follows from the one before.
#[tokio::test]
async fn the_chain_can_be_checked_from_the_events_alone() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = setup.start().await;
        app.delete(format!("/clusters/{DEMO}")).await.expect(204);
        app.post("/clusters", &bare("new")).await.expect(201);
        app.post("/rollback", &json!({"undo": 3})).await.expect(200);
        app.post("/rollback", &json!({"redo": 3})).await.expect(200);
        let response = app.get("/changes/stream?after=0").response().await;
        assert_eq!(response.headers()["x-head"], app.app.fleet().head().to_string());
        let mut events = Events::of(response);
        let mut digest = Digest::default();
        for revision in 1..=5 {
            let mut block = events.block().await.unwrap();
            while block.starts_with(':') {
                block = events.block().await.unwrap();
            }
            let text = block.split_once("\ndata: ").unwrap().1;
            let record = backup::read_revision(text.as_bytes()).unwrap();
            assert_eq!(record.revision, Revision(revision));
            assert_eq!(record.chained(digest), record.digest, "{text}");
            let data: Value = serde_json::from_str(text).unwrap();
            digest = record.digest;
            assert_eq!(data.get("removed").is_some(), revision == 2 || revision == 4, "{data}");
            assert_eq!(data.get("undoes"), (revision == 4).then_some(&json!(3)), "{data}");
            assert_eq!(data.get("redoes"), (revision == 5).then_some(&json!(3)), "{data}");
            assert_eq!(data["changes"][0].get("origin").is_some(), revision == 1, "{data}");
        }
        assert_eq!(digest, app.app.fleet().head().digest);
    }
}

#[tokio::test]
async fn a_follower_of_another_history_is_told_at_once() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = compacted(setup).await;
        let record = |revision: u64| {
            let store = app.store.clone();
            async move { store.changes(Revision(revision - 1), 1).await.unwrap().remove(0).head() }
        };
        let checkpoint = app.store.checkpoint().await.unwrap().unwrap().head;
        for head in [checkpoint, record(7).await, record(9).await, record(10).await] {
            let mut events = Events::of(app.get(format!("/changes/stream?after={head}")).response().await);
            assert!(events.block().await.unwrap().starts_with(": after revision"));
            if head.revision < Revision(10) {
                assert_eq!(events.next().await.unwrap().0, head.revision.0 + 1);
            }
        }
        let other = Digest([7; 32]);
        for revision in [6, 7, 10] {
            let problem = app.get(format!("/changes/stream?after={revision}:{other}")).await;
            let problem = problem.problem(409, "conflict");
            let expected = format!("revision {revision} has another digest here");
            assert!(problem["detail"].as_str().unwrap().starts_with(&expected), "{problem}");
        }
        let ahead = app.get(format!("/changes/stream?after=11:{other}")).await;
        let ahead = ahead.problem(409, "conflict");
        assert_eq!(ahead["detail"], "this log ends at revision 10, before 11");
        let gone = app.get(format!("/changes/stream?after=5:{other}")).await;
        gone.problem(410, "compacted");
        for nonsense in ["10:", "10:abc", ":", "x", "10:10:10"] {
            let refused = app.get(format!("/changes/stream?after={nonsense}")).await;
            refused.problem(400, "bad-request");
        }
    }
}

#[tokio::test]
async fn nothing_has_happened_before_the_first_revision() {
    let app = TestApp::start().await;
    let start = fleet::log::Head::default();
    let mut events = Events::of(app.get(format!("/changes/stream?after={start}")).response().await);
    assert_eq!(events.next().await.unwrap().0, 1);
    let other = Digest([7; 32]);
    let refused = app.get(format!("/changes/stream?after=0:{other}")).await;
    refused.problem(409, "conflict");
}

#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let (stop, stopping) = watch::channel(false);
    let app = Setup::default().stopped_by(stopping).start().await;
    let mut events = Events::of(app.get("/changes/stream?after=0").response().await);
    assert_eq!(events.next().await.unwrap().0, 1);
    stop.send(true).unwrap();
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn too_many_streams_and_backups_are_refused_with_retry_after() {
    let app = TestApp::start().await;
    let all = app.app.streams.clone().acquire_many_owned(256).await.unwrap();
    app.get("/changes/stream").await.problem(503, "unavailable");
    drop(all);
    let stream = app.get("/changes/stream").response().await;
    assert_eq!(app.app.streams.available_permits(), 255);
    drop(stream);
    assert_eq!(app.app.streams.available_permits(), 256, "who left makes room");
    let all = app.app.backups.clone().acquire_many_owned(2).await.unwrap();
    app.get("/backup").token(WRITE).await.problem(503, "unavailable");
    drop(all);
    app.get("/backup").token(WRITE).await.expect(200);
}

/// The fleet of the demo after ten revisions, of which the first six were compacted.
pub async fn compacted(setup: Setup) -> TestApp {
    let app = setup.start().await;
    namespaces(&app, numbered("n", 4)).await;
    app.patch(format!("/clusters/{DEMO}"), &json!({"node_count": 3}))
        .await
        .expect(200);
    app.patch(format!("/clusters/{DEMO}"), &json!({"node_count": 4}))
        .await
        .expect(200);
    namespaces(&app, numbered("m", 3)).await;
    assert_eq!(app.revision(), 10);
    let done = compact(&*app.store, Old::Before(Revision(7)), app.config().budget)
        .await
        .unwrap();
    assert!(matches!(done, Compacted::Until { .. }), "{done}");
    app
}

#[tokio::test]
async fn requests_for_compacted_revisions_are_410() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = compacted(setup).await;
        for path in [
            "/changes?after=0".to_owned(),
            "/changes?after=5".to_owned(),
            "/changes?after=5&kind=namespaces&id=m-001".to_owned(),
            "/changes/stream?after=5".to_owned(),
            format!("/clusters/{DEMO}?revision=5"),
            format!("/clusters/{DEMO}/inputs/namespaces?revision=5"),
            format!("/clusters/{DEMO}/history?after=5"),
            "/diff?from=5".to_owned(),
            "/diff?from=8&to=5".to_owned(),
        ] {
            let problem = app.get(&path).await.problem(410, "compacted");
            assert!(problem["detail"].as_str().unwrap().contains("up to 6 "), "{problem}");
        }
        let lines = app.get("/changes?after=5").header("accept", LINES);
        lines.await.problem(410, "compacted");
        let resumed = app.get("/changes/stream").header("last-event-id", "5");
        resumed.await.problem(410, "compacted");
        for body in [json!({"revision": 5}), json!({"undo": 6}), json!({"undo": 1})] {
            app.post("/rollback", &body).await.problem(410, "compacted");
            app.post("/rollback?dry_run=true", &body)
                .await
                .problem(410, "compacted");
        }
        assert_eq!(app.revision(), 10);
    }
}

#[tokio::test]
async fn what_is_kept_of_a_compacted_log_works_as_before() {
    for setup in [Setup::default(), Setup::default().sqlite()] {
        let app = compacted(setup).await;
        // What there is, for who does not say where to begin.
        assert_eq!(app.get("/changes").await.expect(200).array()[0]["revision"], 7);
        assert_eq!(app.get("/changes?after=6").await.expect(200).array().len(), 4);
        assert_eq!(
            lines(&app.get("/changes").header("accept", LINES).await.expect(200)).len(),
            4
        );
        let mut events = Events::of(app.get("/changes/stream?after=6").response().await);
        assert_eq!(events.next().await.unwrap().0, 7);
        drop(events);
        // Also of what no revision touched since, or made since.
        let nodes = async |revision: u64| {
            app.read(&format!("/clusters/{DEMO}?revision={revision}")).await["node_count"].clone()
        };
        assert_eq!(
            (nodes(6).await, nodes(7).await, nodes(10).await),
            (json!(3), json!(4), json!(4))
        );
        app.get("/namespaces/n-001?revision=6").await.expect(200);
        app.get("/namespaces/m-001?revision=6").await.problem(404, "not-found");
        app.get("/namespaces/m-001?revision=11").await.problem(404, "not-found");
        assert_eq!(app.get("/namespaces/n-001/history").await.expect(200).array().len(), 0);
        assert_eq!(
            app.get(format!("/clusters/{DEMO}/history"))
                .await
                .expect(200)
                .array()
                .len(),
            1
        );
        app.get("/namespaces/never/history").await.problem(404, "not-found");
        app.get("/diff?from=6").await.expect(200);
        app.post("/rollback", &json!({"undo": 7})).await.expect(200);
        assert_eq!(nodes(11).await, json!(3));
        app.post("/rollback", &json!({"revision": 6})).await.expect(200);
        app.get("/namespaces/m-001").await.problem(404, "not-found");

        // It is still sound, also when it is compacted again.
        verify(&*app.store, &[]).await.unwrap();
        let cut = Old::Before(Revision(app.revision()));
        compact(&*app.store, cut, app.config().budget).await.unwrap();
        verify(&*app.store, &[app.app.fleet().head()]).await.unwrap();
        namespaces(&app, ["last".to_owned()]).await;
        let app = app.restart().await;
        assert!(app.revision() == 13 || app.revision() == 1, "kept, or in memory");
    }
}

#[tokio::test]
async fn compacting_forgets_nothing_that_the_removal_budget_counts() {
    let app = Setup::default().start().await;
    let budget = app.config().budget;
    namespaces(&app, ["a".to_owned()]).await;
    let mut operations = Vec::new();
    for n in 0..6 {
        operations.push(
            json!({"op": "create", "kind": "clusters", "id": format!("c-{n}"), "value": bare(&format!("c-{n}"))}),
        );
    }
    app.batch(json!(operations)).await;
    app.delete("/clusters/c-0").await.expect(204);
    namespaces(&app, numbered("n", 3)).await;
    assert_eq!(app.revision(), 7);

    let refused = compact(&*app.store, Old::Before(Revision(6)), budget)
        .await
        .unwrap_err();
    assert!(matches!(refused, CompactError::Counted(Revision(4))), "{refused}");
    // By age, as much goes as may.
    compact(&*app.store, Old::Than(Duration::ZERO), budget).await.unwrap();
    assert_eq!(app.get("/changes").await.expect(200).array()[0]["revision"], 4);
    // Without a budget nothing counts; the last one stays whatever is asked.
    let mut off = budget;
    off.clusters = None;
    compact(&*app.store, Old::Than(Duration::ZERO), off).await.unwrap();
    assert_eq!(app.get("/changes").await.expect(200).array()[0]["revision"], 7);
    let nothing = compact(&*app.store, Old::Than(Duration::ZERO), off).await.unwrap();
    assert_eq!(
        nothing.to_string(),
        "nothing to compact: the log begins with revision 7"
    );
    let nothing = compact(&*app.store, Old::Before(Revision(0)), off).await.unwrap();
    assert!(matches!(nothing, Compacted::Nothing { .. }));
    let missing = compact(&*app.store, Old::Before(Revision(8)), off).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "--before: there is no revision 8; the log ends at 7"
    );
    let young = compact(&*app.store, Old::Than(Duration::from_secs(3600)), off)
        .await
        .unwrap();
    assert!(matches!(young, Compacted::Nothing { .. }));
}
