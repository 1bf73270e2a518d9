//! The database is away: polls go on, writes say so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use fleet::log::{Batch, Checkpoint, Head, Removed, Revision, RevisionRecord, State};
use flux_resourceset::app::compact::{Old, compact};
use flux_resourceset::http::Api;
use serde_json::json;
use store::{
    AuditQuery, AuditRecord, CommitError, Export, LastChange, Memory, Repair, Restore, RevisionPage, RevisionQuery,
    Store, StoreError, Unique,
};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::support::{DEMO, DEMO_DNS, PATHS, Setup, WRITE};

/// A store that can be taken away.
#[derive(Debug, Default)]
pub struct Fragile {
    pub inner: Arc<Memory>,
    away: AtomicBool,
    /// What happens to those who read the log.
    pub log: Mutex<Log>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    #[default]
    Readable,
    Away,
    /// A bug.
    Panics,
}

impl Fragile {
    fn check(&self) -> Result<(), StoreError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => Ok(()),
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable {
        place: "the test's store".into(),
        detail: "gone fishing".into(),
    }
}

#[async_trait::async_trait]
impl Store for Fragile {
    async fn load(&self) -> Result<State, StoreError> {
        self.check()?;
        self.inner.load().await
    }

    async fn head(&self) -> Result<Head, StoreError> {
        self.check()?;
        self.inner.head().await
    }

    async fn holds(&self, head: Head) -> Result<bool, StoreError> {
        self.check()?;
        self.inner.holds(head).await
    }

    async fn epoch(&self) -> Result<String, StoreError> {
        self.check()?;
        self.inner.epoch().await
    }

    async fn log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError> {
        self.check()?;
        self.inner.log(after, index, limit, bytes).await
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        self.check()?;
        self.inner.commit(base, batches).await
    }

    async fn head_moved(&self) {
        self.inner.head_moved().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        self.check()?;
        let log = *self.log.lock().unwrap();
        match log {
            Log::Readable => self.inner.audit(query).await,
            Log::Away => Err(gone()),
            Log::Panics => panic!("a bug, for the test"),
        }
    }

    async fn revisions(&self, query: &RevisionQuery) -> Result<RevisionPage, StoreError> {
        self.check()?;
        self.inner.revisions(query).await
    }

    async fn last_changes(&self, wanted: &[LastChange<'_>]) -> Result<Vec<Option<AuditRecord>>, StoreError> {
        self.check()?;
        self.inner.last_changes(wanted).await
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        self.check()?;
        self.inner.removed(since).await
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.check()?;
        self.inner.applied().await
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.check()?;
        self.inner.checkpoint().await
    }

    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError> {
        self.check()?;
        self.inner.first_since(at, removing).await
    }

    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        self.check()?;
        self.inner.compact(checkpoint).await
    }

    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        self.check()?;
        self.inner.export().await
    }

    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError> {
        self.check()?;
        self.inner.restore(replace).await
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.inner.check().await
    }

    async fn repair(&self, apply: bool, unique: Unique) -> Result<Repair, StoreError> {
        self.inner.repair(apply, unique).await
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn while_the_store_is_away_reads_go_on_and_writes_are_told_to_come_back() {
    let store = Arc::new(Fragile::default());
    let app = Setup::default().store(store.clone()).start().await;
    let mut before = Vec::new();
    for path in PATHS {
        before.push(app.poll(DEMO_DNS, path).await.expect(200).etag());
    }
    store.away.store(true, Ordering::SeqCst);

    for (path, etag) in PATHS.iter().zip(&before) {
        assert_eq!(&app.poll(DEMO_DNS, path).await.expect(200).etag(), etag);
    }
    app.get("/api/v2/flux/clusters").await.expect(200);
    app.get("/clusters").await.expect(200);
    app.get("/ready").await.expect(200);
    app.get("/openapi.yaml").await.expect(200);
    app.poll("never-known.example.com", "namespaces")
        .await
        .problem(404, "not-found");
    // A plan cannot say then what it overwrites, and says so.
    let plan = app.patch(format!("/clusters/{DEMO}?dry_run=true"), &json!({"node_count": 1}));
    let plan = plan.await.expect(200).json();
    assert_eq!(plan["history"], json!({"status": "unavailable"}));
    assert_eq!(plan["changes"][0]["last_change"], json!(null));

    for reply in [
        app.post("/namespaces", &json!({"id": "x"})).await,
        app.delete(format!("/clusters/{DEMO}")).await,
        app.get("/changes").await,
        app.get("/revisions").await,
        app.get("/changes").header("accept", "application/x-ndjson").await,
        app.get("/changes/stream").await,
        app.get("/backup").token(WRITE).await,
    ] {
        assert!(!reply.header("retry-after").is_empty(), "{}", reply.what);
        reply.problem(503, "unavailable");
    }
    // What is invalid is said to be so, whatever the store does.
    app.post("/namespaces", &json!({"id": "UPPER"}))
        .await
        .problem(422, "invalid");
    assert_eq!(app.input_ids(DEMO_DNS, "namespaces").await.len(), 3);
    assert_eq!(app.revision(), 1);

    store.away.store(false, Ordering::SeqCst);
    app.post("/namespaces", &json!({"id": "x"})).await.expect(201);
    assert_eq!(app.revision(), 2);
    assert_eq!(app.get("/changes?after=1").await.expect(200).array().len(), 1);
}

#[tokio::test]
async fn what_another_process_writes_is_served_here() {
    let one = Setup::default().sqlite().start().await;
    let mut other = Setup::default();
    other.config = one.config().clone();
    let other = other.read_only().start().await;
    one.delete(format!("/clusters/{DEMO}")).await.expect(204);
    crate::support::until("the other process has seen it", || other.revision() == one.revision()).await;
    assert_eq!(
        other.poll(DEMO_DNS, "namespaces").await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn who_was_away_while_the_log_was_compacted_reads_the_store_anew() {
    let memory = Arc::new(Memory::default());
    let fragile = Arc::new(Fragile {
        inner: memory.clone(),
        ..Fragile::default()
    });
    let writer = Setup::default().store(memory.clone()).start().await;
    let follower = Setup::default().store(fragile.clone()).start().await;
    fragile.away.store(true, Ordering::SeqCst);
    for n in 0..5 {
        let namespace = json!({"id": format!("n-{n}")});
        writer.post("/namespaces", &namespace).await.expect(201);
    }
    let (before, budget) = (Old::Before(Revision(6)), writer.config().budget);
    compact(&*memory, before, budget).await.unwrap();
    assert_eq!(follower.revision(), 1);
    fragile.away.store(false, Ordering::SeqCst);
    crate::support::until("the follower has caught up", || follower.revision() == 6).await;
    follower.get("/namespaces/n-4").await.expect(200);
    // And follows from there.
    writer.post("/namespaces", &json!({"id": "next"})).await.expect(201);
    crate::support::until("the follower has seen it", || follower.revision() == 7).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_fleet_is_being_read_the_server_is_alive_and_not_ready() {
    let (_never, real) = watch::channel(None);
    let ask = async |path: &str| {
        let request = axum::http::Request::get(path).body(Body::empty()).unwrap();
        Api::starting(real.clone()).oneshot(request).await.unwrap()
    };
    assert_eq!(ask("/health").await.status(), 200);
    for path in [
        "/ready",
        "/clusters",
        "/api/v2/flux/clusters",
        "/api/v2/flux/clusters/a.example.com/namespaces",
    ] {
        let response = ask(path).await;
        assert_eq!(response.status(), 503, "{path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert!(response.headers().contains_key("retry-after"));
    }
}

#[tokio::test]
async fn who_asks_a_moment_too_early_is_answered_when_the_fleet_is_there() {
    let setup = Setup::default().start().await;
    let (there, real) = watch::channel(None);
    let request = axum::http::Request::get("/namespaces").header("authorization", format!("Bearer {WRITE}"));
    let asked = Api::starting(real).oneshot(request.body(Body::empty()).unwrap());
    let arrives = async {
        tokio::task::yield_now().await;
        there.send_replace(Some(Api::new(setup.app.clone())));
    };
    let (response, ()) = tokio::join!(asked, arrives);
    let response = response.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["connection"], "close");
}
