//! The schema of this release equals the result of the migrations before the first release (`chain/`) and those after it. A database
//! with the whole chain is migrated in place; one with a part of it is refused, and the error says what to do.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use fleet::json::Json;
use fleet::log::{Author, Batch, Change, Head, Revision};
use fleet::reversal::Reversal;
use fleet::summary::RevisionSummary;
use pgtest::Server;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};
use store::{Access, Postgres, RevisionQuery, Sqlite, Store, StoreError};
use tempfile::TempDir;

const SQLITE: [&str; 5] = [
    include_str!("chain/sqlite/1.sql"),
    include_str!("chain/sqlite/2.sql"),
    include_str!("chain/sqlite/3.sql"),
    include_str!("chain/sqlite/4.sql"),
    include_str!("chain/sqlite/5.sql"),
];

const POSTGRES: [&str; 2] = [
    include_str!("chain/postgres/1.sql"),
    include_str!("chain/postgres/2.sql"),
];

async fn connect(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    options.connect().await.unwrap()
}

/// A file as the first migrations of the chain made it.
async fn sqlite_chain(file: &Path, migrations: usize) {
    let mut conn = connect(file).await;
    for sql in &SQLITE[..migrations] {
        sqlx::raw_sql(*sql).execute(&mut conn).await.unwrap();
    }
}

fn url(file: &Path) -> String {
    format!("sqlite://{}", file.display())
}

async fn rows(conn: &mut SqliteConnection, sql: String) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(conn).await.unwrap()
}

/// Tables with their columns, indexes with theirs, and triggers. SQLite rewrites the text of an altered table, so the columns are
/// compared and not the text.
async fn sqlite_schema(file: &Path) -> Vec<String> {
    let mut conn = connect(file).await;
    let mut found = rows(
        &mut conn,
        "SELECT concat_ws(' ', type, name, tbl_name) FROM sqlite_schema ORDER BY 1".to_owned(),
    )
    .await;
    let tables = rows(
        &mut conn,
        "SELECT name FROM sqlite_schema WHERE type = 'table'".to_owned(),
    )
    .await;
    for table in tables {
        let columns = "concat_ws(' ', cid, name, type, \"notnull\", dflt_value, pk, hidden)";
        let sql = format!("SELECT '{table} ' || {columns} FROM pragma_table_xinfo('{table}') ORDER BY cid");
        found.extend(rows(&mut conn, sql).await);
        let flags = format!("SELECT concat_ws(' ', name, wr, strict) FROM pragma_table_list('{table}')");
        found.extend(rows(&mut conn, flags).await);
        let indexes = format!(
            "SELECT concat_ws(' ', l.name, l.\"unique\", l.origin, l.partial, x.seqno, x.name, x.\"desc\", x.coll, x.key) \
             FROM pragma_index_list('{table}') l, pragma_index_xinfo(l.name) x ORDER BY l.name, x.seqno"
        );
        found.extend(rows(&mut conn, indexes).await);
    }
    // The text of indexes and triggers is not rewritten, and has the conditions of partial indexes. Two tables have checks.
    let texts = "SELECT sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY name";
    found.extend(rows(&mut conn, texts.to_owned()).await);
    let checks = "SELECT sql FROM sqlite_schema WHERE name IN ('checkpoint', 'epoch') ORDER BY name";
    found.extend(rows(&mut conn, checks.to_owned()).await);
    let identity =
        "SELECT concat_ws(' ', application_id, user_version) FROM pragma_application_id, pragma_user_version";
    found.extend(rows(&mut conn, identity.to_owned()).await);
    found
}

fn creation(id: &str) -> Batch {
    let change = Change {
        kind: "things".into(),
        id: id.into(),
        before: None,
        after: Some(Json::from_canonical("{}")),
        origin: None,
        unique: Some(id.to_owned()),
        keeps_unique: false,
    };
    Batch {
        author: Author::default(),
        changes: vec![change],
        applied: vec![("note".to_owned(), id.to_owned())],
        ..Batch::default()
    }
}

/// The store can be written to and read back.
async fn works(store: &dyn Store) {
    let heads = store
        .commit(Head::default(), &[creation("a"), creation("b")])
        .await
        .unwrap();
    let state = store.load().await.unwrap();
    assert!(state.damage.is_empty());
    assert_eq!((state.head, state.resources.len()), (heads[1], 2));
    assert_eq!(store.check().await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_has_the_schema_of_the_whole_chain_which_is_accepted() {
    let folder = TempDir::new().unwrap();
    let (new, old) = (folder.path().join("new.db"), folder.path().join("old.db"));
    Sqlite::open(&url(&new)).await.unwrap().close().await;
    sqlite_chain(&old, SQLITE.len()).await;
    let store = Sqlite::open(&url(&old)).await.unwrap();
    works(&store).await;
    store.close().await;
    assert_eq!(sqlite_schema(&old).await, sqlite_schema(&new).await);
}

/// Makes a database of this release one of the release before undos and summaries. Its log is the same.
const SQLITE_5: &str = "DROP TRIGGER revisions_have_a_summary; DROP INDEX revisions_by_time; \
     DROP INDEX revisions_that_undo; DROP INDEX revisions_that_redo; ALTER TABLE revisions DROP COLUMN undoes; \
     ALTER TABLE revisions DROP COLUMN redoes; ALTER TABLE revisions DROP COLUMN summary; \
     CREATE TRIGGER revisions_have_a_state BEFORE INSERT ON revisions WHEN NEW.state IS NULL BEGIN SELECT 1; END; \
     PRAGMA user_version = 5;";

const POSTGRES_2: &str = "DROP INDEX flux_resourceset.revisions_by_time; \
     ALTER TABLE flux_resourceset.revisions DROP COLUMN undoes, DROP COLUMN redoes, DROP COLUMN summary; \
     UPDATE flux_resourceset.store SET version = 2, compatible = 2";

/// A log with creations, updates and deletions of two kinds.
async fn with_history(store: &dyn Store) -> Vec<RevisionSummary> {
    let change = |kind: &str, id: &str, before: Option<&str>, after: Option<&str>| Change {
        kind: kind.into(),
        id: id.into(),
        before: before.map(Json::from_canonical),
        after: after.map(Json::from_canonical),
        origin: None,
        unique: None,
        keeps_unique: false,
    };
    let batch = |changes| Batch {
        changes,
        ..Batch::default()
    };
    let batches = [
        batch(vec![
            change("a", "1", None, Some("1")),
            change("a", "2", None, Some("1")),
            change("b", "1", None, Some("1")),
        ]),
        batch(vec![
            change("a", "1", Some("1"), Some("2")),
            change("a", "2", Some("1"), None),
        ]),
        batch(vec![]),
    ];
    store.commit(Head::default(), &batches).await.unwrap();
    store.revisions(&RevisionQuery::default()).await.unwrap().revisions
}

/// A migrated store has the same log, can be verified, and takes an undo.
async fn has_history(store: &dyn Store, expected: &[RevisionSummary]) {
    let found = store.revisions(&RevisionQuery::default()).await.unwrap().revisions;
    assert_eq!(found, expected);
    assert_eq!(store.check().await.unwrap(), [""; 0]);
    let mut undo = Batch::default();
    undo.author.reversal = Some(Reversal::Undo(Revision(2)));
    store.commit(store.head().await.unwrap(), &[undo]).await.unwrap();
    let found = store.revisions(&RevisionQuery::default()).await.unwrap().revisions;
    assert_eq!(found[2].reversed_by, Some(Revision(4)));
    assert_eq!(store.changes(Revision(0), 9).await.unwrap().len(), 4);
    assert_eq!(store.check().await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_from_before_undos_is_migrated_in_place() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(&file)).await.unwrap();
    let expected = with_history(&store).await;
    store.close().await;
    sqlx::raw_sql(SQLITE_5)
        .execute(&mut connect(&file).await)
        .await
        .unwrap();
    has_history(&Sqlite::open(&url(&file)).await.unwrap(), &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_from_before_undos_is_migrated_in_place() {
    let server = Server::shared();
    let url = server.database();
    let store = Postgres::open(&url, Access::Write).await.unwrap();
    let expected = with_history(&store).await;
    store.close().await;
    server.sql(&url, POSTGRES_2);
    has_history(&Postgres::open(&url, Access::Write).await.unwrap(), &expected).await;
}

/// A summary is not in the chain, so it has a check of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_does_not_match_is_found() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(&file)).await.unwrap();
    with_history(&store).await;
    let sql = "UPDATE revisions SET summary = replace(summary, '1', '7') WHERE revision = 2";
    sqlx::raw_sql(sql).execute(&mut connect(&file).await).await.unwrap();
    let problem = "the summary of revision 2 does not match its changes";
    assert_eq!(store.check().await.unwrap(), [problem]);

    let server = Server::shared();
    let url = server.database();
    let store = Postgres::open(&url, Access::Write).await.unwrap();
    with_history(&store).await;
    server.sql(
        &url,
        "UPDATE flux_resourceset.revisions SET summary = 'x' WHERE revision = 2",
    );
    assert_eq!(store.check().await.unwrap(), [problem]);
}

#[tokio::test]
async fn a_file_with_a_part_of_the_chain_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    for migrations in 1..SQLITE.len() {
        let file = folder.path().join(format!("{migrations}.db"));
        sqlite_chain(&file, migrations).await;
        let before = std::fs::read(&file).unwrap();
        let error = Sqlite::open(&url(&file)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        let expected = format!(
            "its schema version {migrations} is from a build before the first release; run \"flux-resourceset backup\" with that build"
        );
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_an_older_build_cannot_write_rows_without_digests_or_summaries() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("fleet.db");
    works(&Sqlite::open(&url(&file)).await.unwrap()).await;
    for (columns, values) in [("", ""), (", state", ", x'00'"), (", summary", ", '{}'")] {
        let sql = format!(
            "INSERT INTO revisions (revision, at, actor, request_id, digest{columns}) VALUES (99, '', '', '', x'00'{values})"
        );
        let write = sqlx::raw_sql(AssertSqlSafe(sql));
        let refused = write.execute(&mut connect(&file).await).await.unwrap_err();
        assert!(
            refused.to_string().contains("a later release has migrated"),
            "{refused}"
        );
    }
}

/// A database as the first migrations of the chain made it.
fn postgres_chain(server: &Server, migrations: usize) -> String {
    let url = server.database();
    server.sql(&url, "CREATE SCHEMA flux_resourceset");
    for sql in &POSTGRES[..migrations] {
        server.sql(&url, sql);
    }
    let version = format!("UPDATE flux_resourceset.store SET version = {migrations}, compatible = {migrations}");
    server.sql(&url, &version);
    url
}

fn postgres_schema(server: &Server, url: &str) -> Vec<String> {
    [
        "SELECT string_agg(concat_ws(' ', table_name, ordinal_position, column_name, data_type, is_nullable, column_default, \
         collation_name), E'\\n' ORDER BY table_name, ordinal_position) \
         FROM information_schema.columns WHERE table_schema = 'flux_resourceset'",
        "SELECT string_agg(indexdef, E'\\n' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'flux_resourceset'",
        "SELECT string_agg(concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)), E'\\n' ORDER BY conrelid::regclass::text, conname) \
         FROM pg_constraint WHERE connamespace = 'flux_resourceset'::regnamespace",
        "SELECT string_agg(concat_ws(' ', relname, relkind, reloptions), E'\\n' ORDER BY relname) \
         FROM pg_class WHERE relnamespace = 'flux_resourceset'::regnamespace",
        "SELECT concat_ws(' ', version, compatible) FROM flux_resourceset.store",
    ]
    .map(|sql| server.sql(url, sql))
    .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_has_the_schema_of_the_whole_chain_which_is_accepted() {
    let server = Server::shared();
    let old = postgres_chain(server, POSTGRES.len());
    let new = server.database();
    Postgres::open(&new, Access::Write).await.unwrap().close().await;
    let expected = postgres_schema(server, &new);
    assert!(expected.iter().all(|part| !part.is_empty()));
    let store = Postgres::open(&old, Access::Write).await.unwrap();
    works(&store).await;
    store.close().await;
    assert_eq!(postgres_schema(server, &old), expected);
}

#[tokio::test]
async fn a_database_with_a_part_of_the_chain_is_refused_and_left_alone() {
    let server = Server::shared();
    let url = postgres_chain(server, 1);
    let before = postgres_schema(server, &url);
    for access in [Access::Write, Access::Read] {
        let error = Postgres::open(&url, access).await.unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        let expected = "its schema version 1 is from a build before the first release; run \"flux-resourceset backup\"";
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(postgres_schema(server, &url), before);
}
