//! What is particular to SQLite: the file's location, other processes, and refused files.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fleet::json::Json;
use fleet::log::{Author, Batch, Change, Checkpoint, Digest, Head, Revision};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use store::{AuditQuery, CommitError, Sqlite, Store, StoreError};
use tempfile::TempDir;

fn url(file: &Path) -> String {
    format!("sqlite://{}?mode=rwc", file.display())
}

fn batch(id: &str) -> Batch {
    let change = Change {
        kind: "clusters".into(),
        id: id.into(),
        before: None,
        after: Some(Json::from_canonical("{}")),
        origin: None,
        unique: None,
        keeps_unique: false,
    };
    Batch {
        author: Author::default(),
        changes: vec![change],
        applied: vec![("note".to_owned(), id.to_owned())],
        ..Batch::default()
    }
}

/// Commits to the current head.
async fn write(store: &Sqlite, id: &str) -> Head {
    loop {
        let base = store.head().await.unwrap();
        match store.commit(base, &[batch(id)]).await {
            Ok(heads) => return heads[0],
            Err(CommitError::Conflict) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

async fn refusal(url: &str) -> (StoreError, String) {
    let error = Sqlite::open(url).await.unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    (error, line)
}

/// As an administrator with the sqlite3 shell.
async fn tamper(file: &Path, sql: &'static str) {
    let mut conn: SqliteConnection = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .busy_timeout(Duration::from_secs(5))
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
}

#[tokio::test]
async fn a_missing_folder_is_created() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a b/c/fleet.db");
    Sqlite::open(&url(&file).replace(' ', "%20")).await.unwrap();
    assert!(file.is_file());
}

#[tokio::test]
async fn every_form_of_the_url_names_the_same_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let relative = pathdiff(&file);
    let forms = [
        format!("sqlite://{}", file.display()),
        format!("sqlite:{}", file.display()),
        format!("sqlite://{relative}?mode=rwc"),
        format!("sqlite:{relative}?mode=rw"),
    ];
    for (n, form) in forms.iter().enumerate() {
        let store = Sqlite::open(form).await.unwrap();
        assert_eq!(
            write(&store, &n.to_string()).await.revision,
            Revision(n as u64 + 1),
            "{form}"
        );
    }
}

/// `file` as seen from the working directory.
fn pathdiff(file: &Path) -> String {
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    format!("{up}{}", file.strip_prefix("/").unwrap().display())
}

#[tokio::test]
async fn a_url_that_cannot_hold_a_store_is_refused_with_a_hint() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db").display().to_string();
    for (url, hint) in [
        ("sqlite::memory:", "STORE_BACKEND=memory"),
        ("sqlite://:memory:", "STORE_BACKEND=memory"),
        (&*format!("sqlite:{file}?mode=memory"), "STORE_BACKEND=memory"),
        (&*format!("sqlite:{file}?mode=ro"), "mode=rwc"),
        (
            &*format!("sqlite:{file}?cache=shared"),
            "unknown parameter cache=shared",
        ),
        ("sqlite://", "names no file"),
        ("postgres://localhost/fleet", "does not begin with sqlite:"),
    ] {
        let (error, line) = refusal(url).await;
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        assert!(line.contains(url) && line.contains(hint), "{line}");
    }
    assert!(!folder.path().join("fleet.db").exists());
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_unavailable() {
    let folder = TempDir::new().unwrap();
    let (error, line) = refusal(&url(folder.path())).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(line.contains(&folder.path().display().to_string()), "{line}");

    let missing = folder.path().join("missing.db");
    let (error, line) = refusal(&url(&missing).replace("rwc", "rw")).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(line.contains("missing.db"), "{line}");
}

#[tokio::test]
async fn garbage_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let garbage = "no database at all\n".repeat(1000);
    std::fs::write(&file, &garbage).unwrap();
    let (error, line) = refusal(&url(&file)).await;
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(
        line.contains(&*file.display().to_string()) && line.contains("it is not a SQLite database"),
        "{line}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), garbage);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("browser.db");
    tamper(&file, "CREATE TABLE bookmarks (url TEXT)").await;
    let before = std::fs::read(&file).unwrap();
    let (error, line) = refusal(&url(&file)).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(
        line.contains("browser.db") && line.contains("another program"),
        "{line}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_schema_of_a_later_release_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    Sqlite::open(&url(&file)).await.unwrap().close().await;
    tamper(&file, "PRAGMA user_version = 999").await;
    let (error, line) = refusal(&url(&file)).await;
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error:?}");
    assert!(
        line.contains("fleet.db has schema version 999, but this release supports only versions up to 6"),
        "{line}"
    );
}

#[tokio::test]
async fn reopening_keeps_everything() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(&file)).await.unwrap();
    write(&store, "a").await;
    let head = write(&store, "b").await;
    let records = store.changes(Revision::ZERO, 10).await.unwrap();
    store.close().await;
    let log = std::fs::metadata(folder.path().join("fleet.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "a clean close leaves nothing in the write-ahead log");

    let store = Sqlite::open(&url(&file)).await.unwrap();
    let state = store.load().await.unwrap();
    assert_eq!((state.head, state.resources.len()), (head, 2));
    assert_eq!(store.changes(Revision::ZERO, 10).await.unwrap(), records);
    assert_eq!(store.applied().await.unwrap()["note"], "b");
    // And without a clean close.
    let head = write(&store, "c").await;
    drop(store);
    assert_eq!(Sqlite::open(&url(&file)).await.unwrap().head().await.unwrap(), head);
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_open_a_new_file_together_all_succeed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let open = |n: usize| {
        let url = url(&file);
        tokio::spawn(async move {
            let store = Sqlite::open(&url).await.unwrap();
            write(&store, &n.to_string()).await
        })
    };
    for opened in (0..8).map(open).collect::<Vec<_>>() {
        opened.await.unwrap();
    }
    assert_eq!(
        Sqlite::open(&url(&file))
            .await
            .unwrap()
            .load()
            .await
            .unwrap()
            .resources
            .len(),
        8
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_leaves_nothing_behind_and_the_store_usable() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(&file)).await.unwrap();
    let head = write(&store, "a").await;

    tamper(&file, "ALTER TABLE applied RENAME TO elsewhere").await;
    let error = store.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(
        matches!(error, CommitError::Store(StoreError::Corrupt { .. })),
        "{error:?}"
    );
    assert!(error.to_string().contains("fleet.db"), "{error}");
    let state = store.load().await.unwrap();
    assert_eq!((state.head, state.resources.len()), (head, 1));

    tamper(&file, "ALTER TABLE elsewhere RENAME TO applied").await;
    assert_eq!(write(&store, "b").await.revision, Revision(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_dropped_halfway_blocks_nobody() {
    let folder = TempDir::new().unwrap();
    let store = Sqlite::open(&url(&folder.path().join("fleet.db"))).await.unwrap();
    for n in 0..40 {
        let base = store.head().await.unwrap();
        let patience = Duration::from_micros(n * 50);
        let _ = tokio::time::timeout(patience, store.commit(base, &[batch(&format!("dropped-{n}"))])).await;
        write(&store, &format!("kept-{n}")).await;
    }
    let state = store.load().await.unwrap();
    assert_eq!(
        state
            .resources
            .iter()
            .filter(|resource| resource.id.starts_with("kept"))
            .count(),
        40
    );
    assert_eq!(state.resources.len() as u64, state.head.revision.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_is_cut_back_while_writers_never_pause() {
    let folder = TempDir::new().unwrap();
    let store = Sqlite::open(&url(&folder.path().join("fleet.db"))).await.unwrap();
    let size = || std::fs::metadata(folder.path().join("fleet.db-wal")).unwrap().len();
    let mut body = None;
    let mut commit = async |megabytes: usize| {
        let mut batch = batch("a");
        batch.changes[0].before = body.replace(Json::from_canonical("x".repeat(megabytes << 20)));
        batch.changes[0].after = body.clone();
        store.commit(store.head().await.unwrap(), &[batch]).await.unwrap();
    };
    commit(80).await;
    assert!(size() > 64 << 20);
    let cut_back = tokio::time::timeout(Duration::from_secs(30), async {
        while size() > 64 << 20 {
            commit(0).await;
        }
    });
    cut_back.await.expect("the log is cut back");
}

/// Does nothing unless the test below runs it, in a separate process.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    if let Ok(url) = std::env::var("STORE_TEST_CHILD") {
        let store = Sqlite::open(&url).await.unwrap();
        for n in 0..30 {
            write(&store, &format!("child-{n}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_write_to_one_file_and_follow_each_other() {
    let folder = TempDir::new().unwrap();
    let url = url(&folder.path().join("fleet.db"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env("STORE_TEST_CHILD", &url)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let store = Sqlite::open(&url).await.unwrap();
    for n in 0..30 {
        write(&store, &format!("parent-{n}")).await;
    }
    // None of our commits can wake us any more: the next wake-up is the child's.
    let followed = tokio::time::timeout(Duration::from_secs(30), async {
        while store.head().await.unwrap().revision < Revision(60) {
            store.head_moved().await;
        }
    });
    followed.await.expect("the child's commits are seen");
    assert!(child.wait().unwrap().success());
    assert_eq!(store.load().await.unwrap().resources.len(), 60);
}

/// The number of rows of the log for revisions up to `revision`.
async fn rows(file: &Path, revision: i64) -> i64 {
    let mut conn = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    let sql = "SELECT (SELECT count(*) FROM changes WHERE revision <= ?1) + (SELECT count(*) FROM revisions WHERE revision <= ?1)";
    let count = sqlx::query_scalar(sql).bind(revision).fetch_one(&mut conn).await;
    sqlx::Connection::close(conn).await.unwrap();
    count.unwrap()
}

#[tokio::test]
async fn a_compaction_that_was_interrupted_is_in_force_and_can_be_finished() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(&file)).await.unwrap();
    for n in 0..10 {
        write(&store, &n.to_string()).await;
    }
    let records = store.changes(Revision(4), 2).await.unwrap();
    let checkpoint = |head| Checkpoint {
        head,
        state: Digest([1; 32]),
    };
    store.compact(checkpoint(records[0].head())).await.unwrap();
    assert_eq!((rows(&file, 5).await, rows(&file, 10).await), (0, 10));

    // As if it had ended between the checkpoint and the first rows, then within one.
    tamper(
        &file,
        "UPDATE checkpoint SET revision = 8, digest = (SELECT digest FROM revisions WHERE revision = 8); \
         DELETE FROM changes WHERE revision = 7",
    )
    .await;
    assert_eq!(
        store.changes(Revision(5), 9).await,
        Err(StoreError::Compacted(Revision(8)))
    );
    let all = AuditQuery {
        limit: 100,
        ..AuditQuery::default()
    };
    assert_eq!(store.audit(&all).await.unwrap().len(), 2);
    assert_eq!(store.first_since("", false).await.unwrap(), None, "these have no time");
    let mut export = store.export().await.unwrap();
    assert_eq!(export.revisions().await.unwrap()[0].revision, Revision(9));
    let there = store.checkpoint().await.unwrap().unwrap();
    store.compact(there).await.unwrap();
    assert_eq!((rows(&file, 8).await, rows(&file, 10).await), (0, 4));
}

#[tokio::test]
async fn a_file_that_must_be_there_is_not_created() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a/fleet.db");
    let error = Sqlite::open_existing(&url(&file)).await.unwrap_err();
    assert!(error.to_string().contains("cannot be opened"), "{error}");
    assert!(!folder.path().join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_takes_no_more_writes() {
    let folder = TempDir::new().unwrap();
    let (file, elsewhere) = (folder.path().join("fleet.db"), folder.path().join("moved.db"));
    let store = Sqlite::open(&url(&file)).await.unwrap();
    let head = write(&store, "a").await;

    std::fs::rename(&file, &elsewhere).unwrap();
    let lost = store.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(lost.to_string().contains("it no longer exists"), "{lost}");
    assert!(store.head().await.is_err());
    std::fs::write(&file, "").unwrap();
    let lost = store.commit(head, &[batch("b")]).await.unwrap_err();
    assert!(lost.to_string().contains("another file has replaced it"), "{lost}");

    std::fs::rename(&elsewhere, &file).unwrap();
    write(&store, "b").await;
}
