//! What is particular to PostgreSQL: concurrent releases and roles, refused databases, and faults.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::json::Json;
use fleet::log::{Author, Batch, Change, Checkpoint, Digest, Head, Revision, RevisionRecord};
use pgtest::{PASSWORD, Server};
use store::{Access, AuditQuery, CommitError, Postgres, Store, StoreError};
use tokio::task::JoinSet;
use tokio::time::timeout;

fn change(id: &str, before: Option<&str>, after: Option<&str>) -> Change {
    Change {
        kind: "clusters".into(),
        id: id.into(),
        before: before.map(Json::from_canonical),
        after: after.map(Json::from_canonical),
        origin: None,
        unique: None,
        keeps_unique: false,
    }
}

fn batch(id: &str) -> Batch {
    Batch {
        author: Author::default(),
        changes: vec![change(id, None, Some("{}"))],
        applied: vec![("note".to_owned(), id.to_owned())],
        ..Batch::default()
    }
}

async fn open(url: &str) -> Postgres {
    Postgres::open(url, Access::Write).await.unwrap()
}

/// Commits to the current head.
async fn write(store: &Postgres, id: &str) -> Head {
    loop {
        let base = store.head().await.unwrap();
        match store.commit(base, &[batch(id)]).await {
            Ok(heads) => return heads[0],
            Err(CommitError::Conflict) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

async fn refusal(url: &str, access: Access) -> (StoreError, String) {
    let error = Postgres::open(url, access).await.unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(!format!("{line} {error:?}").contains(PASSWORD), "{line}");
    (error, line)
}

/// Retries until it works, for a limited time.
async fn eventually<T, E: std::fmt::Display>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(e) if Instant::now() > deadline => panic!("{e}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), future)
        .await
        .expect("it takes too long")
}

fn is_unavailable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. })
}

// Opening.

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_open_a_new_database_together_all_succeed() {
    let url = Server::shared().database();
    let open = |n: usize| {
        let url = url.clone();
        tokio::spawn(async move { write(&open(&url).await, &n.to_string()).await })
    };
    for opened in (0..10).map(open).collect::<Vec<_>>() {
        opened.await.unwrap();
    }
    assert_eq!(open(9).await.unwrap().revision, Revision(11));
}

#[tokio::test]
async fn a_url_that_cannot_hold_a_store_is_refused_with_a_hint() {
    for (url, hint) in [
        ("sqlite://fleet.db", "does not begin with postgres://"),
        ("postgres://u:s3cret-of-the-test@host:port/db", "invalid port"),
        ("postgres://u:s3cret-of-the-test@h/db?sslmode=maybe", "maybe"),
        (
            "postgres://u:s3cret-of-the-test@h/db?connect_timeout=1",
            "unknown parameter \"connect_timeout\"",
        ),
        ("postgres://h/db?statement-cache-capacity=0", "unknown parameter"),
    ] {
        let (error, line) = refusal(url, Access::Write).await;
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        assert!(line.contains(hint), "{line}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    let server = Server::shared();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    for (url, hint, may_come) in [
        (format!("postgres://u:{PASSWORD}@127.0.0.1:{port}/db"), "refused", true),
        // A retry does not help with these.
        (server.url("missing"), "it does not exist", false),
        (
            server.url_of("nobody", PASSWORD, "postgres"),
            "password authentication failed",
            false,
        ),
    ] {
        let started = Instant::now();
        let (error, line) = refusal(&url, Access::Write).await;
        assert_eq!(is_unavailable(&error), may_come, "{error:?}");
        assert!(line.contains(hint) && line.contains("127.0.0.1"), "{line}");
        assert!(started.elapsed() < Duration::from_secs(3), "at once");
    }
}

#[tokio::test]
async fn a_database_that_is_not_ours_is_refused_and_left_alone() {
    let server = Server::shared();
    let url = server.database();
    server.sql(&url, "CREATE SCHEMA flux_resourceset CREATE TABLE bookmarks (url TEXT)");
    let (error, line) = refusal(&url, Access::Write).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(line.contains("another program"), "{line}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'flux_resourceset'";
    assert_eq!(server.sql(&url, tables), "1");

    server.sql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    let (error, line) = refusal(&server.url("latin"), Access::Write).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(line.contains("its encoding is LATIN1"), "{line}");
}

#[tokio::test]
async fn what_cannot_be_written_to_is_noticed_when_it_is_opened() {
    let server = Server::shared();
    let url = server.database();
    open(&url).await.close().await;
    let name = url.rsplit('/').next().unwrap();
    server.sql(
        "postgres",
        &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"),
    );
    let (error, line) = refusal(&url, Access::Write).await;
    assert!(is_unavailable(&error) && line.contains("is it a standby?"), "{line}");
    Postgres::open(&url, Access::Read).await.unwrap();
}

#[tokio::test]
async fn credentials_are_never_shown() {
    let server = Server::shared();
    let url = server.database();
    let store = open(&url).await;
    write(&store, "a").await;
    let mut shown = vec![format!("{store:?}")];
    shown.push(format!("{:?}", store.export().await.unwrap()));
    shown.push(format!("{:?}", store.restore(true).await.unwrap()));
    server.sql(&url, "ALTER TABLE flux_resourceset.applied RENAME TO elsewhere");
    let base = store.head().await.unwrap();
    let error = store.commit(base, &[batch("b")]).await.unwrap_err();
    assert!(
        matches!(error, CommitError::Store(StoreError::Corrupt { .. })),
        "{error:?}"
    );
    shown.push(format!("{error} {error:?}"));
    assert!(
        error
            .to_string()
            .contains(&format!("127.0.0.1:{}/test_", server.port())),
        "{error}"
    );
    for shown in shown {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
    // The store still works.
    server.sql(&url, "ALTER TABLE flux_resourceset.elsewhere RENAME TO applied");
    assert_eq!(write(&store, "b").await.revision, Revision(2));
}

// Releases side by side.

#[tokio::test]
async fn a_schema_that_this_release_would_misread_is_refused_also_while_it_runs() {
    let server = Server::shared();
    let url = server.database();
    let (running, reading) = (open(&url).await, Postgres::open(&url, Access::Read).await.unwrap());
    let head = write(&running, "a").await;
    server.sql(&url, "UPDATE flux_resourceset.store SET version = 9, compatible = 8");
    for access in [Access::Write, Access::Read] {
        let (error, line) = refusal(&url, access).await;
        assert!(
            matches!(error, StoreError::Newer { found: 9, known: 3, .. }),
            "{error:?}"
        );
        assert!(
            line.contains("has schema version 9, but this release supports only versions up to 3"),
            "{line}"
        );
    }
    let newer = |error: &StoreError| matches!(error, StoreError::Newer { .. });
    assert!(newer(&running.head().await.unwrap_err()));
    assert!(newer(&reading.head().await.unwrap_err()));
    let refused = running.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(
        matches!(&refused, CommitError::Store(error) if newer(error)),
        "{refused:?}"
    );
    assert_eq!(server.sql(&url, "SELECT count(*) FROM flux_resourceset.revisions"), "1");
}

#[tokio::test]
async fn a_release_works_on_what_the_next_one_has_added() {
    let server = Server::shared();
    let url = server.database();
    let running = open(&url).await;
    write(&running, "a").await;
    // As a later migration would.
    for sql in [
        "ALTER TABLE flux_resourceset.revisions ADD COLUMN colour TEXT",
        "ALTER TABLE flux_resourceset.changes ADD COLUMN weight INT NOT NULL DEFAULT 1",
        "ALTER TABLE flux_resourceset.resources ADD COLUMN weight INT NOT NULL DEFAULT 1",
        "ALTER TABLE flux_resourceset.store ADD COLUMN weight INT NOT NULL DEFAULT 1",
        "UPDATE flux_resourceset.store SET version = 4",
    ] {
        server.sql(&url, sql);
    }
    let opened = open(&url).await;
    write(&running, "b").await;
    write(&opened, "c").await;
    let reading = Postgres::open(&url, Access::Read).await.unwrap();
    assert_eq!(reading.load().await.unwrap().resources.len(), 3);
    assert_eq!(server.sql(&url, "SELECT version FROM flux_resourceset.store"), "4");
}

// Roles.

#[tokio::test]
async fn the_right_to_select_is_all_that_a_reader_needs() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().unwrap();
    for role in ["writer", "reader"] {
        server.sql(&url, &format!("CREATE ROLE {name}_{role} LOGIN PASSWORD '{PASSWORD}'"));
    }
    let reader = server.url_of(&format!("{name}_reader"), PASSWORD, name);
    let writer = server.url_of(&format!("{name}_writer"), PASSWORD, name);
    let not_ready = async |hint: &str| {
        let (error, line) = refusal(&reader, Access::Read).await;
        assert!(matches!(error, StoreError::NotReady { .. }), "{error:?}");
        assert!(line.contains(hint), "{line}");
    };
    not_ready("its schema does not exist yet").await;
    // As the documentation says.
    for sql in [
        format!("CREATE SCHEMA flux_resourceset AUTHORIZATION {name}_writer"),
        format!("GRANT USAGE ON SCHEMA flux_resourceset TO {name}_reader"),
        format!(
            "ALTER DEFAULT PRIVILEGES FOR ROLE {name}_writer IN SCHEMA flux_resourceset \
             GRANT SELECT ON TABLES TO {name}_reader"
        ),
    ] {
        server.sql(&url, &sql);
    }
    not_ready("its schema does not exist yet").await;
    let (error, line) = refusal(&reader, Access::Write).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(line.contains("permission denied"), "{line}");

    let writing = open(&writer).await;
    let reading = Postgres::open(&reader, Access::Read).await.unwrap();
    let head = write(&writing, "a").await;
    soon(async {
        while reading.head().await.unwrap() != head {
            reading.head_moved().await;
        }
    })
    .await;
    assert_eq!(reading.load().await.unwrap().resources.len(), 1);
    assert_eq!(reading.changes(Revision::ZERO, 9).await.unwrap().len(), 1);
    assert_eq!(reading.applied().await.unwrap()["note"], "a");
    assert_eq!(reading.epoch().await.unwrap(), writing.epoch().await.unwrap());
    assert!(reading.holds(head).await.unwrap());
    assert_eq!(reading.export().await.unwrap().resources().await.unwrap().len(), 1);
    let query = AuditQuery {
        limit: 9,
        ..AuditQuery::default()
    };
    assert_eq!(reading.audit(&query).await.unwrap().len(), 1);

    let refused = reading.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(
        matches!(refused, CommitError::Store(StoreError::Unusable { .. })),
        "{refused:?}"
    );
    assert!(reading.restore(true).await.is_err());
    // The server enforces it, too.
    let (error, line) = refusal(&reader, Access::Write).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(line.contains("permission denied for table store"), "{line}");
    // A revoked right is noticed.
    server.sql(
        &url,
        &format!("REVOKE USAGE ON SCHEMA flux_resourceset FROM {name}_reader"),
    );
    not_ready("permission denied").await;
}

// Commits.

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_dropped_halfway_blocks_nobody() {
    let store = open(&Server::shared().database()).await;
    for n in 0..40 {
        let base = store.head().await.unwrap();
        let patience = Duration::from_micros(n * 100);
        let _ = timeout(patience, store.commit(base, &[batch(&format!("dropped-{n}"))])).await;
        write(&store, &format!("kept-{n}")).await;
    }
    let state = store.load().await.unwrap();
    let kept = state
        .resources
        .iter()
        .filter(|resource| resource.id.starts_with("kept"));
    assert_eq!(kept.count(), 40);
    assert_eq!(state.resources.len() as u64, state.head.revision.0);
}

#[tokio::test]
async fn a_commit_too_large_for_one_statement_is_one_transaction() {
    let server = Server::shared();
    let url = server.database();
    let store = open(&url).await;
    let wide = "x".repeat(1 << 20);
    let with = |id: &str, before: Option<&str>, dns: &str| Change {
        unique: Some(dns.to_owned()),
        ..change(id, before, Some(&format!("{dns}{wide}")))
    };
    let names: Vec<_> = (0..24).map(|n| format!("c-{n:02}")).collect();
    let all = names.iter().map(|name| with(name, None, name)).collect();
    let made = Batch {
        changes: all,
        ..Batch::default()
    };
    let head = store.commit(Head::default(), &[made]).await.unwrap()[0];
    // The first and the last swap their unique values, far apart.
    let mut turned: Vec<_> = names.iter().map(|name| with(name, Some(name), name)).collect();
    (turned[0].unique, turned[23].unique) = (turned[23].unique.take(), turned[0].unique.take());
    let turned = Batch {
        changes: turned,
        ..Batch::default()
    };
    let head = store.commit(head, &[turned]).await.unwrap()[0];
    let mut bad: Vec<_> = names
        .iter()
        .map(|name| with(name, Some(name), &format!("new-{name}")))
        .collect();
    bad[20].unique = bad[3].unique.clone();
    let bad = Batch {
        changes: bad,
        ..Batch::default()
    };
    let refused = store.commit(head, &[bad]).await.unwrap_err();
    assert!(
        matches!(&refused, CommitError::Duplicate { id, .. } if &**id == "c-20"),
        "{refused}"
    );
    assert_eq!(store.head().await.unwrap(), head);
    assert_eq!(
        server.sql(
            &url,
            "SELECT unique_key FROM flux_resourceset.resources WHERE id IN ('c-00', 'c-23') ORDER BY id"
        ),
        "c-23\nc-00"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_twice_is_next_and_keeps_nobody_waiting_for_long() {
    let url = Server::shared().database();
    let (slow, quick) = (open(&url).await, Arc::new(open(&url).await));
    let stale = slow.head().await.unwrap();
    write(&quick, "a").await;
    let lose_twice = async || {
        for _ in 0..2 {
            assert_eq!(slow.commit(stale, &[batch("x")]).await, Err(CommitError::Conflict));
        }
    };
    lose_twice().await;
    let base = slow.head().await.unwrap();
    let second = tokio::spawn({
        let quick = quick.clone();
        async move { quick.commit(base, &[batch("b")]).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    slow.commit(base, &[batch("c")]).await.unwrap();
    assert_eq!(second.await.unwrap(), Err(CommitError::Conflict));

    lose_twice().await;
    let started = Instant::now();
    write(&quick, "d").await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

// Faults.

/// Retries until it is in the log, whatever the outcome of earlier tries.
async fn write_whatever_happens(store: &Postgres, id: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let batches = [batch(id)];
    let mut unsure: Option<Head> = None;
    loop {
        match attempt(store, &batches, &mut unsure).await {
            Ok(()) => return,
            Err(e) if Instant::now() > deadline => panic!("{e}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn attempt(store: &Postgres, batches: &[Batch], unsure: &mut Option<Head>) -> Result<(), CommitError> {
    let base = store.head().await?;
    if let Some(head) = *unsure {
        if store.holds(head).await? {
            return Ok(());
        }
        // An abandoned connection may still be working, but only on an outdated head.
        if base.revision.next() != head.revision {
            *unsure = None;
        }
    }
    match store.commit(base, batches).await {
        Ok(_) => Ok(()),
        Err(e) => {
            if matches!(e, CommitError::Store(_)) {
                *unsure = Some(RevisionRecord::on(base, &batches[0]).head());
            }
            Err(e)
        }
    }
}

fn assert_whole(records: &[RevisionRecord]) {
    let mut head = Head::default();
    for record in records {
        assert_eq!(record.revision, head.revision.next());
        assert_eq!(record.digest, record.chained(head.digest));
        assert_eq!(record.changes.len(), 1, "all or nothing");
        head = record.head();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_whose_connections_are_killed_are_all_or_nothing_and_none_is_lost() {
    const WRITERS: usize = 3;
    const EACH: usize = 60;
    let server = Server::shared();
    let url = server.database();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = open(&url).await;
        writers.spawn(async move {
            for n in 0..EACH {
                write_whatever_happens(&store, &format!("{writer}-{n}")).await;
            }
        });
    }
    let mut killed = 0;
    while !writers.is_empty() {
        killed += server.kill_connections(&url, "flux-resourceset");
        let _ = timeout(Duration::from_millis(100), async {
            while let Some(done) = writers.join_next().await {
                done.unwrap();
            }
        })
        .await;
    }
    assert!(killed > 10, "{killed}");
    let store = open(&url).await;
    let records = store.changes(Revision::ZERO, usize::MAX).await.unwrap();
    assert_whole(&records);
    let mut written = BTreeMap::<_, usize>::new();
    for record in &records {
        *written.entry(record.changes[0].id.clone()).or_default() += 1;
    }
    assert_eq!(written.len(), WRITERS * EACH);
    assert!(written.values().all(|times| *times == 1), "{written:?}");
    assert_eq!(store.load().await.unwrap().resources.len(), WRITERS * EACH);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_unavailable_in_bounded_time_and_all_goes_on_when_it_is_back() {
    let server = Server::start(&[]);
    let url = server.database();
    let (store, other) = (Arc::new(open(&url).await), open(&url).await);
    let head = write(&store, "a").await;
    server.pause();
    let started = Instant::now();
    let unanswered = [batch("b")];
    let (read, written) = tokio::join!(store.head(), store.commit(head, &unanswered));
    assert!(is_unavailable(&read.unwrap_err()));
    let written = written.unwrap_err();
    assert!(
        matches!(&written, CommitError::Store(error) if is_unavailable(error)),
        "{written:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(11), "{:?}", started.elapsed());
    // However many readers there are.
    let mut readers = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        readers.spawn(async move { store.load().await.map(|_| ()) });
    }
    let refused = timeout(Duration::from_secs(15), readers.join_all()).await.unwrap();
    assert!(
        refused.iter().all(|read| is_unavailable(read.as_ref().unwrap_err())),
        "{refused:?}"
    );
    timeout(Duration::from_secs(20), other.close())
        .await
        .expect("it closes");
    let (error, _) = refusal(&url, Access::Write).await;
    assert!(is_unavailable(&error), "{error:?}");

    server.resume();
    let resumed = Instant::now();
    write_whatever_happens(&store, "c").await;
    assert!(resumed.elapsed() < Duration::from_secs(10), "{:?}", resumed.elapsed());
    let records = store.changes(Revision::ZERO, 9).await.unwrap();
    assert_whole(&records);
    // The commit without an answer may have happened, once.
    let ids: BTreeSet<_> = records.iter().map(|record| record.changes[0].id.to_string()).collect();
    assert_eq!(ids.len(), records.len());
    assert!(ids.contains("a") && ids.contains("c"), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_stopped_is_said_to_be_away_at_once_and_found_again() {
    let server = Server::start(&[]);
    let url = server.database();
    let (store, follower) = (open(&url).await, open(&url).await);
    let head = write(&store, "a").await;
    server.down();
    let started = Instant::now();
    assert!(is_unavailable(&store.head().await.unwrap_err()));
    let refused = store.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(matches!(refused, CommitError::Store(_)), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    server.up();
    write_whatever_happens(&store, "c").await;
    let head = store.head().await.unwrap();
    soon(async {
        while follower.head().await.ok() != Some(head) {
            follower.head_moved().await;
        }
    })
    .await;
    // Later commits are noticed at once: the listener is back.
    eventually(async || {
        let head = write(&store, &format!("late-{:?}", Instant::now())).await;
        let written = Instant::now();
        while follower.head().await.unwrap() != head {
            soon(follower.head_moved()).await;
        }
        match written.elapsed() {
            elapsed if elapsed < Duration::from_millis(90) => Ok(()),
            elapsed => Err(format!("{elapsed:?}")),
        }
    })
    .await;
    assert_whole(&store.changes(Revision::ZERO, usize::MAX).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_go_on_when_their_listening_connections_are_killed() {
    let server = Server::shared();
    let url = server.database();
    let (store, follower) = (
        open(&url).await,
        open(&format!("{url}?application_name=follower")).await,
    );
    for n in 0..10 {
        server.kill_connections(&url, "follower");
        let head = write(&store, &n.to_string()).await;
        soon(async {
            while follower.head().await.ok() != Some(head) {
                follower.head_moved().await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_nobody_is_notified_of_is_seen_within_a_second_and_then_sooner() {
    let server = Server::shared();
    let url = server.database();
    let follower = open(&url).await;
    let moved = "UPDATE flux_resourceset.store SET digest = decode(md5(random()::text) || md5(random()::text), 'hex')";
    let mut waited = Vec::new();
    for _ in 0..6 {
        // There may be other wake-ups, such as a listener that is back.
        while timeout(Duration::from_millis(300), follower.head_moved()).await.is_ok() {}
        server.sql(&url, moved);
        let started = Instant::now();
        soon(follower.head_moved()).await;
        waited.push(started.elapsed());
    }
    assert!(waited[0] < Duration::from_millis(1500), "{waited:?}");
    assert!(
        waited[1..].iter().all(|waited| *waited < Duration::from_millis(800)),
        "{waited:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_listen_polls() {
    let server = Server::shared();
    let url = server.database();
    let store = open(&url).await;
    let follower = open(&format!("{url}?application_name=deaf&listen=false")).await;
    for n in 0..5 {
        let head = write(&store, &n.to_string()).await;
        let written = Instant::now();
        soon(async {
            while follower.head().await.unwrap() != head {
                follower.head_moved().await;
            }
        })
        .await;
        assert!(
            written.elapsed() < Duration::from_millis(800),
            "{:?}",
            written.elapsed()
        );
    }
    let listening = |name: &str| {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name =";
        let database = "AND datname = current_database()";
        server.sql(&url, &format!("{sql} '{name}' {database}"))
    };
    assert_eq!((&*listening("flux-resourceset"), &*listening("deaf")), ("1", "0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lost_its_tail_is_noticed() {
    let server = Server::start(&[]);
    let url = server.database();
    let store = open(&url).await;
    let (one, two) = (write(&store, "one").await, write(&store, "two").await);
    let epoch = store.epoch().await.unwrap();
    let saved = server.save();
    let three = eventually(async || Ok::<_, StoreError>(write_on(&store, "three").await?)).await;
    let four = write(&store, "four").await;
    assert!(store.holds(four).await.unwrap());
    server.go_back(&saved);

    // The head moved back, and acknowledged revisions are missing.
    let head = eventually(async || store.head().await).await;
    assert_eq!(head, two);
    let held = async || {
        let mut held = Vec::new();
        for head in [one, two, three, four] {
            held.push(store.holds(head).await.unwrap());
        }
        held
    };
    assert_eq!(held().await, [true, true, false, false]);
    // The same revision numbers are used again, for other changes.
    eventually(async || Ok::<_, StoreError>(write_on(&store, "other three").await?)).await;
    let other = write(&store, "other four").await;
    assert_eq!((other.revision, other.digest == four.digest), (four.revision, false));
    assert_eq!(held().await, [true, true, false, false]);
    assert_eq!(store.commit(four, &[batch("five")]).await, Err(CommitError::Conflict));
    // The epoch is the same: commits were lost.
    assert_eq!(store.epoch().await.unwrap(), epoch);
}

async fn write_on(store: &Postgres, id: &str) -> Result<Head, StoreError> {
    let base = store.head().await?;
    match store.commit(base, &[batch(id)]).await {
        Ok(heads) => Ok(heads[0]),
        Err(CommitError::Store(error)) => Err(error),
        Err(e) => panic!("{e}"),
    }
}

// Compaction.

#[tokio::test]
async fn a_compaction_that_was_interrupted_is_in_force_and_can_be_finished() {
    let server = Server::shared();
    let url = server.database();
    let store = open(&url).await;
    for n in 0..10 {
        write(&store, &n.to_string()).await;
    }
    let rows = |revision: u64| {
        let count =
            |table: &str| format!("(SELECT count(*) FROM flux_resourceset.{table} WHERE revision <= {revision})");
        server.sql(&url, &format!("SELECT {} + {}", count("changes"), count("revisions")))
    };
    let records = store.changes(Revision(4), 2).await.unwrap();
    let checkpoint = Checkpoint {
        head: records[0].head(),
        state: Digest([1; 32]),
    };
    store.compact(checkpoint).await.unwrap();
    assert_eq!((rows(5), rows(10)), ("0".to_owned(), "10".to_owned()));
    // As if it had ended between the checkpoint and the first rows, then within one.
    server.sql(
        &url,
        "UPDATE flux_resourceset.checkpoint SET revision = 8, \
         digest = (SELECT digest FROM flux_resourceset.revisions WHERE revision = 8); \
         DELETE FROM flux_resourceset.changes WHERE revision = 7",
    );
    assert_eq!(
        store.changes(Revision(5), 9).await,
        Err(StoreError::Compacted(Revision(8)))
    );
    assert_eq!(
        store.export().await.unwrap().revisions().await.unwrap()[0].revision,
        Revision(9)
    );
    let there = store.checkpoint().await.unwrap().unwrap();
    store.compact(there).await.unwrap();
    assert_eq!((rows(8), rows(10)), ("0".to_owned(), "4".to_owned()));
}

// TLS.

#[tokio::test(flavor = "multi_thread")]
async fn the_server_must_be_who_it_says() {
    let server = Server::start(&[]);
    let url = server.database().replace("127.0.0.1", "localhost");
    let cert = |name: &str| {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (cert, key) = (
            server.folder().join(format!("{name}.crt")),
            server.folder().join(format!("{name}.key")),
        );
        std::fs::write(&cert, certified.cert.pem()).unwrap();
        std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        server.hand_over(&key);
        (cert, key)
    };
    let ((cert_file, key_file), (other, _)) = (cert("server"), cert("other"));
    let (error, line) = refusal(&format!("{url}?sslmode=require"), Access::Write).await;
    assert!(
        !matches!(error, StoreError::Corrupt { .. }) && line.contains("TLS"),
        "{line}"
    );
    for sql in [
        format!("ALTER SYSTEM SET ssl_cert_file = '{}'", cert_file.display()),
        format!("ALTER SYSTEM SET ssl_key_file = '{}'", key_file.display()),
        "ALTER SYSTEM SET ssl = on".to_owned(),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        server.sql("postgres", &sql);
    }
    let full = format!("{url}?sslmode=verify-full&sslrootcert={}", cert_file.display());
    let store = eventually(async || Postgres::open(&full, Access::Write).await).await;
    let head = write(&store, "a").await;
    soon(store.head_moved()).await;
    assert_eq!(store.head().await.unwrap(), head);
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'flux-resourceset' AND NOT ssl";
    assert_eq!(server.sql("postgres", plain), "0");

    // Another root, another name, no root at all.
    for wrong in [
        format!("{url}?sslmode=verify-full&sslrootcert={}", other.display()),
        full.replace("localhost", "127.0.0.1"),
        format!("{url}?sslmode=verify-full"),
    ] {
        let (error, line) = refusal(&wrong, Access::Write).await;
        assert!(is_unavailable(&error), "{error:?}");
        assert!(line.contains("certificate"), "{line}");
    }
    let by_address = full
        .replace("localhost", "127.0.0.1")
        .replace("verify-full", "verify-ca");
    Postgres::open(&by_address, Access::Write).await.unwrap();
}
