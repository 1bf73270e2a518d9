//! Reads of the whole fleet or log: bounded in work, memory and time, and never in the way of writers.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::Method;
use flux_resourceset::app::App;
use flux_resourceset::app::reads::{Class, Stop};
use flux_resourceset::http::openapi;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use crate::support::{DEMO, READ, Setup, TestApp, WRITE, bare, until};

/// A read that goes on until its client is gone.
fn endless(app: &Arc<App>, class: Class) -> impl Future<Output = Result<Stop, Stop>> + use<> {
    let app = app.clone();
    async move {
        let endless = app.read(class, |_, turn| {
            loop {
                if let Err(stop) = turn.check() {
                    return stop;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        endless.await
    }
}

/// Takes every place of the readers, until what is returned is dropped.
async fn crowd(app: &TestApp) -> Vec<tokio::task::JoinHandle<Result<Stop, Stop>>> {
    let readers: Vec<_> = (0..8).map(|_| tokio::spawn(endless(&app.app, Class::Reader))).collect();
    until("all places are taken", || app.app.places.taken(Class::Reader) == 4).await;
    readers
}

#[tokio::test]
async fn a_selector_beyond_the_limits_is_refused_everywhere() {
    let app = TestApp::start().await;
    let long = vec!["environment=dev"; 1700].join(",");
    assert!(long.len() > 27_000);
    let many = vec!["environment"; 65].join(",");
    for selector in [&long, &many] {
        for path in [
            "/clusters",
            "/api/v2/flux/clusters",
            "/platform_components/podinfo/references",
        ] {
            let problem = app
                .get(format!("{path}?selector={selector}"))
                .await
                .problem(400, "bad-request");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("at most"), "{detail}");
        }
        let operation = json!({"op": "merge", "kind": "clusters", "selector": selector, "value": {}});
        let problem = app.post("/batch", &json!({"operations": [operation]})).await;
        let problem = problem.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/operations/0/selector");
        let back = json!({"revision": 1, "selector": selector});
        app.post("/rollback", &back).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn a_read_stops_when_its_client_is_gone() {
    let app = TestApp::start().await;
    let readers = crowd(&app).await;
    for reader in readers {
        reader.abort();
    }
    until("the places are free again", || app.app.places.taken(Class::Reader) == 0).await;
    app.get("/clusters").await.expect(200);
}

#[tokio::test]
async fn readers_make_no_writer_wait() {
    let app = TestApp::start().await;
    let readers = crowd(&app).await;
    // Each of these would wait for ever behind the readers.
    app.patch(format!("/clusters/{DEMO}?dry_run=true"), &json!({"node_count": 4}))
        .await
        .expect(200);
    app.patch(format!("/clusters/{DEMO}"), &json!({"node_count": 5}))
        .await
        .expect(200);
    app.post("/rollback", &json!({"undo": app.revision()}))
        .await
        .expect(200);
    app.get("/clusters").token(WRITE).await.expect(200);
    app.get("/api/v2/flux/clusters").await.expect(200);
    let waiting = app.get("/clusters").into_future();
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    for reader in readers {
        reader.abort();
    }
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_refused_with_retry_after() {
    let app = Setup::default().read_deadline(Duration::from_millis(100)).start().await;
    let (turn, _client) = app.app.turn(Class::Past).await.unwrap();
    // It waits for a place.
    let reply = app.get("/diff?from=0").await;
    assert!(!reply.header("retry-after").is_empty());
    let problem = reply.problem(503, "unavailable");
    assert!(problem["detail"].as_str().unwrap().contains("longer than"), "{problem}");
    drop(turn);
    app.get("/diff?from=0").await.expect(200);
    // It works.
    assert_eq!(endless(&app.app, Class::Reader).await, Ok(Stop::Late));
}

#[tokio::test]
async fn a_body_that_is_not_read_holds_its_place_and_little_memory() {
    let app = TestApp::start().await;
    for part in 0..4 {
        let operations =
            (0..250).map(|n| json!({"op": "create", "kind": "clusters", "value": bare(&format!("c{part}-{n}"))}));
        app.batch(operations.collect()).await;
    }
    let response = app.get("/clusters").response().await;
    let mut pieces = response.into_body().into_data_stream();
    let first = pieces.next().await.unwrap().unwrap();
    assert!(first.len() < 128 << 10, "{}", first.len());
    assert_eq!(app.app.places.taken(Class::Reader), 1);
    drop(pieces);
    until("the place is free", || app.app.places.taken(Class::Reader) == 0).await;
}

/// A fleet whose log has large documents, in revisions of several.
async fn large() -> TestApp {
    let app = Setup::default().sqlite().start().await;
    let text = "x".repeat(60_000);
    let patches = |n: usize| {
        let values = (0..10).map(|part| (format!("blob{part}"), json!(format!("{text}{n}"))));
        json!({ "podinfo": values.collect::<serde_json::Map<_, _>>() })
    };
    for revision in 0..6 {
        let operations = (0..4).map(|n| {
            let mut cluster = bare(&format!("big-{revision}-{n}"));
            cluster["patches"] = patches(n);
            cluster["platform_components"] = json!([{"id": "podinfo"}]);
            json!({"op": "create", "kind": "clusters", "value": cluster})
        });
        app.batch(operations.collect()).await;
    }
    app
}

fn revisions(records: &[Value]) -> Vec<u64> {
    records
        .iter()
        .map(|record| record["revision"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_page_of_changes_is_bounded_in_bytes_and_never_splits_a_revision() {
    let app = large().await;
    // Each of the six revisions has 2.4 MB, and a page ends after 8 MiB.
    let first = app.get("/changes?limit=10000&after=1").await.expect(200);
    let pages = first.array();
    let seen = revisions(&pages);
    assert_eq!(seen.len(), 16, "four whole revisions: {seen:?}");
    assert!(first.body.len() < 12 << 20, "{}", first.body.len());
    let mut all = pages;
    loop {
        let after = all.last().unwrap()["revision"].as_u64().unwrap();
        let next = app
            .get(format!("/changes?limit=10000&after={after}"))
            .await
            .expect(200)
            .array();
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    assert_eq!(all.len(), 24);
    let places: Vec<_> = all
        .iter()
        .map(|record| (record["revision"].as_u64(), record["index"].as_u64()))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    // A small limit goes on to the end of its revision, however large that is.
    assert_eq!(app.get("/changes?limit=1&after=1").await.expect(200).array().len(), 4);
    // The same records as lines, all of them.
    let lines = app
        .get("/changes?after=1")
        .header("accept", "application/x-ndjson")
        .await
        .expect(200);
    let lines: Vec<Value> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, all);
}

#[tokio::test]
async fn a_stream_sends_a_large_revision_in_parts_as_one_event() {
    let app = large().await;
    let response = app.get("/changes/stream?after=1").response().await;
    let mut pieces = response.into_body().into_data_stream();
    let (mut text, mut largest) = (Vec::new(), 0);
    while text.windows(2).filter(|pair| pair == b"\n\n").count() < 7 {
        let piece = tokio::time::timeout(Duration::from_secs(10), pieces.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        largest = largest.max(piece.len());
        text.extend_from_slice(&piece);
    }
    assert!(largest < 1 << 20, "{largest}");
    let text = String::from_utf8(text).unwrap();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(events.len(), 6);
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["revision"], n + 2);
        let indices: Vec<_> = event["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["index"].as_u64())
            .collect();
        assert_eq!(indices, [Some(0), Some(1), Some(2), Some(3)]);
    }
}

#[tokio::test]
async fn a_diff_over_large_documents_says_the_same_as_the_log() {
    let app = large().await;
    let diff = app.get("/diff?from=1").await.expect(200).json();
    assert_eq!(diff["changes"].as_array().unwrap().len(), 24);
    assert_eq!(diff["totals"]["clusters"], 24);
    let back = app
        .get(format!("/diff?from={}&to=1", app.revision()))
        .await
        .expect(200)
        .json();
    assert_eq!(back["changes"][0]["action"], "delete");
    let part = app
        .get("/diff?from=2&to=4&selector=id=big-2-0")
        .await
        .expect(200)
        .json();
    assert_eq!(part["changes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_description_is_made_once_and_has_a_tag() {
    let app = TestApp::start().await;
    let cache = Arc::new(openapi::Cache::default());
    let waiting = (0..16).map(|_| cache.get(&app.app));
    let made = futures_util::future::join_all(waiting).await;
    let first = made[0].clone().unwrap();
    assert!(made.into_iter().all(|one| Arc::ptr_eq(&one.unwrap(), &first)));
    let reply = app.get("/openapi.yaml").without_token().await.expect(200);
    let known = app
        .get("/openapi.yaml")
        .header("if-none-match", &reply.etag())
        .await
        .expect(304);
    assert!(known.body.is_empty());
    let packed = app
        .get("/openapi.yaml")
        .header("accept-encoding", "gzip")
        .await
        .expect(200);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < reply.body.len() / 2);
    assert_ne!(packed.etag(), reply.etag());
    app.put_kind("network_policies", crate::support::NETWORK_POLICY)
        .await
        .expect(201);
    assert_ne!(app.get("/openapi.yaml").await.expect(200).etag(), reply.etag());
}

/// A kind whose description is so long.
fn long_kind(name: &str, length: usize) -> String {
    let text = "d".repeat(length);
    format!(
        "kind: {name}\napiVersion: v1\nmetadata: {{description: {text}}}\nschema:\n  type: object\n  required: [id]\n  \
         properties: {{id: {{type: string}}}}\n"
    )
}

#[tokio::test]
async fn kinds_are_bounded_in_length_together() {
    let app = TestApp::start().await;
    let mut accepted = 0;
    let refused = loop {
        let name = format!("long{accepted}_things");
        let reply = app.put_kind(&name, &long_kind(&name, 900_000)).await;
        if reply.status != 201 {
            assert_small(&reply);
            break reply.problem(422, "invalid");
        }
        accepted += 1;
        assert!(accepted < 10, "no end of long kinds");
    };
    assert_eq!(accepted, 4);
    assert!(refused["detail"].as_str().unwrap().contains("4194304"), "{refused}");
    // What is there can still be replaced by something shorter.
    let shorter = long_kind("long0_things", 10);
    app.put_kind("long0_things", &shorter).await.expect(200);
}

#[tokio::test]
async fn an_error_repeats_little_of_what_was_sent() {
    let app = TestApp::start().await;
    let huge = "x".repeat(900_000);
    let long = "x".repeat(6_000);
    let yaml = |text: String| app.call(Method::PUT, "/kinds/things").yaml(&text);
    let calls = vec![
        yaml(format!("kind: things\nschema: {huge}\n")),
        yaml(format!("kind: {huge}\n")),
        yaml(format!("kind: [{huge}\n")),
        yaml(format!("{huge}: &a *{huge}\n")),
        yaml(format!("kind: things\nschema: {{type: {huge}}}\n")),
        yaml(format!(
            "kind: things\nschema: {{type: object, properties: {{id: {{type: string, pattern: \"({huge}\"}}}}}}\n"
        )),
        yaml(format!(
            "kind: things\nschema: {{type: object, x-flux: {{path: {huge}, {huge}: 1}}}}\n"
        )),
        app.post(
            "/clusters",
            &json!({"id": huge, "cluster_name": huge, "cluster_dns": huge, "environment": huge}),
        ),
        app.post("/clusters", &json!({ &huge: 1 })),
        app.post("/clusters", &json!(huge)),
        app.post("/namespaces", &json!({"id": "a", "labels": {&huge: huge}})),
        app.patch(
            format!("/clusters/{DEMO}"),
            &json!({"platform_components": [{"id": huge}]}),
        ),
        app.patch(format!("/clusters/{DEMO}"), &json!([{"op": huge, "path": huge}]))
            .header("content-type", "application/json-patch+json"),
        app.post(
            "/batch",
            &json!({"operations": [{"op": huge, "kind": huge, "id": huge, "selector": huge}]}),
        ),
        app.post(
            "/batch",
            &json!({"operations": vec![json!({"op": "delete", "kind": "clusters", "id": long}); 150]}),
        ),
        app.post(
            "/batch",
            &json!({"operations": vec![json!({"op": long, &long: long}); 300]}),
        ),
        app.post("/batch", &json!({ &huge: huge })),
        app.post("/rollback", &json!({"revision": 1, "kind": huge, "id": huge})),
        app.post("/rollback", &json!({"revision": 1, "selector": huge})),
        app.post("/rollback", &json!({ &huge: huge })),
        app.get(format!("/clusters?selector={long}")),
        app.get(format!("/clusters?{long}={long}")),
        app.get(format!("/clusters?limit={long}")),
        app.get(format!("/clusters?environment={long}")),
        app.get(format!("/{long}")),
        app.get(format!("/{long}/{long}")),
        app.get(format!("/clusters/{long}")),
        app.get(format!("/clusters/{long}/history")),
        app.get(format!("/clusters/{long}/manifests")),
        app.get(format!("/clusters/{DEMO}/manifests?kind={long}")),
        app.get(format!("/clusters/{DEMO}/inputs/{long}")),
        app.get(format!("/clusters/{long}?revision=1")),
        app.get(format!("/kinds/{long}/history")),
        app.get(format!("/changes?after={long}")),
        app.get(format!("/changes/stream?after={long}")),
        app.get(format!("/api/v2/flux/clusters?shard={long}")),
        app.get(format!("/api/v2/flux/clusters?environment={long}")),
        app.get(format!("/api/v2/flux/clusters/{long}/{long}")),
        app.get(format!("/api/v2/flux/clusters/{long}")),
        app.post("/clusters", &json!({})).header("content-type", &long),
        app.post("/clusters", &json!({})).header("content-encoding", &long),
        app.call(Method::from_bytes("X".repeat(1000).as_bytes()).unwrap(), "/clusters"),
    ];
    for call in calls {
        let reply = call.await;
        assert!(
            (400..500).contains(&reply.status),
            "{}: {}",
            short(&reply.what),
            reply.status
        );
        assert_small(&reply);
    }
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whatever was sent, a problem is short.
pub fn assert_small(reply: &crate::support::Reply) {
    let what = short(&reply.what);
    assert!(reply.body.len() < 64 << 10, "{what}: {} bytes", reply.body.len());
    let problem = reply.json();
    let mut details = vec![&problem["detail"]];
    details.extend(
        problem["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|error| &error["detail"]),
    );
    for detail in details {
        let length = detail.as_str().map_or(0, |detail| detail.chars().count());
        assert!(length <= 1024, "{what}: a detail of {length} characters");
    }
}

#[tokio::test]
async fn four_reads_that_are_given_up_leave_the_server_free() {
    let app = TestApp::start().await;
    let operations = (0..3000).map(|n| json!({"op": "create", "kind": "clusters", "value": bare(&format!("c{n}"))}));
    app.batch(operations.collect()).await;
    let selector = (0..60)
        .map(|n| format!("cluster_name!=n{n}"))
        .collect::<Vec<_>>()
        .join(",");
    for _ in 0..4 {
        let mut call = app
            .get(format!("/clusters?selector={selector}"))
            .token(READ)
            .into_future();
        // It begins, and is given up.
        let _begun = (&mut call).now_or_never();
        tokio::task::yield_now().await;
        drop(call);
    }
    app.post("/clusters?dry_run=true", &bare("new")).await.expect(200);
    until("the places are free", || app.app.places.taken(Class::Reader) == 0).await;
}

#[tokio::test]
async fn an_abandoned_read_looks_at_no_more_than_a_few_items() {
    let app = TestApp::start().await;
    let looked = Arc::new(AtomicUsize::new(0));
    let (turn, client) = app.app.turn(Class::Reader).await.unwrap();
    drop(client);
    let count = looked.clone();
    let all = turn.until_stopped((0..1_000_000).inspect(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(all.collect::<Result<Vec<_>, _>>(), Err(Stop::Gone));
    assert!(looked.load(Ordering::Relaxed) <= 64);
}
