//! One file, for one machine. Several processes may share it.
//!
//! Readers never wait for the writer (WAL). A commit is durable when it returns (`synchronous=FULL`) and costs the disk
//! one sync: the checkpoints, which cost more, run in the background on a connection of their own.

mod compact;
mod copy;
mod file;
mod integrity;
mod marker;
mod upkeep;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fleet::integrity::{Items, Sealed, Total, change_digest, note_digest, seal_row};
use fleet::json::Json;
use fleet::log::{Batch, Change, Checkpoint, Digest, Head, Removed, Revision, RevisionRecord, State};
use futures_util::TryStreamExt;
use sqlx::error::ErrorKind;
use sqlx::sqlite::{SqlitePoolOptions, SqliteRow};
use sqlx::{Connection, QueryBuilder, Row, SqliteConnection, SqlitePool};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::file::File;
use self::marker::Marker;
use crate::bell::Bell;
use crate::rows::{Columns, Names, SELECT_LOG, add_audit_row, add_row, head_of, integer, removed_of};
use crate::turn::{self, Turn, Undo};
use crate::{
    AuditQuery, AuditRecord, CommitError, Digests, Export, Repair, Restore, Store, StoreError, Unique, chain, digests,
    first_broken, still_kept,
};

/// What commits share.
type Writer = turn::Writer<SqliteConnection>;

#[derive(Debug)]
pub struct Sqlite {
    file: File,
    writer: Arc<Writer>,
    readers: SqlitePool,
    /// The same for reading the log: rows may hold two documents of a megabyte each, so few of them are read ahead.
    log_readers: SqlitePool,
    bell: Arc<Bell>,
    committed: Arc<Notify>,
    marker: Arc<Marker>,
    upkeep: Mutex<JoinSet<()>>,
}

impl Sqlite {
    /// Opens `sqlite://FILE` or `sqlite:FILE`; creates folder and file unless the URL says `?mode=rw`. Must be called
    /// within a Tokio runtime, which the background work goes on in until the store is closed or dropped.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_file(File::parse(url)?).await
    }

    /// The same for a file that must be there, whatever the URL says.
    pub async fn open_existing(url: &str) -> Result<Self, StoreError> {
        Self::open_file(File::parse(url)?.existing()).await
    }

    async fn open_file(file: File) -> Result<Self, StoreError> {
        let writer = Arc::new(Writer::new(Turn::new(Some(file.prepare().await?))));
        let options = file.options.clone().pragma("query_only", "ON");
        let options = options.pragma("cache_size", "-2048");
        // Each connection has a thread, which inherits the priority of the thread that opens it. So all are opened now and kept:
        // one that a heavy read opened would stay at that read's low priority.
        let pool = SqlitePoolOptions::new()
            .min_connections(4)
            .max_connections(4)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(Duration::from_secs(5))
            .test_before_acquire(false);
        let log_readers = pool.clone().connect_lazy_with(options.clone().row_buffer_size(2));
        let readers = pool.connect_lazy_with(options);
        let (bell, committed) = (Arc::<Bell>::default(), Arc::<Notify>::default());
        let mut upkeep = JoinSet::new();
        let watched = upkeep::Watched::connect(&file).await?;
        upkeep.spawn(upkeep::watch(file.clone(), bell.clone(), watched));
        upkeep.spawn(upkeep::checkpoint(file.clone(), committed.clone(), writer.clone()));
        let marker = Arc::new(Marker::beside(file.path()));
        upkeep.spawn(marker::keep(file.clone(), readers.clone(), marker.clone()));
        let store = Sqlite {
            file,
            writer,
            readers,
            log_readers,
            bell,
            committed,
            marker,
            upkeep: Mutex::new(upkeep),
        };
        store.compare_marker().await?;
        Ok(store)
    }

    fn error(&self, error: &sqlx::Error) -> StoreError {
        self.file.error(error)
    }

    /// The digest of a revision, or of where the log begins; none if it has no such revision.
    async fn digest_at(&self, revision: Revision, checkpoint: Option<Checkpoint>) -> sqlx::Result<Option<Digest>> {
        match checkpoint {
            Some(checkpoint) if checkpoint.head.revision == revision => return Ok(Some(checkpoint.head.digest)),
            None if revision == Revision::ZERO => return Ok(Some(Digest::default())),
            _ => {}
        }
        let row = sqlx::query("SELECT revision, digest FROM revisions WHERE revision = ?")
            .bind(integer(revision.0))
            .fetch_optional(&self.readers)
            .await?;
        row.map(|row| Ok(head_of(&row)?.digest)).transpose()
    }

    /// The whole transaction, up to its `COMMIT`, in one trip where `known` says what the state adds up to at `base`. Returns what it
    /// adds up to then. Where it refuses or fails, the caller ends it.
    async fn write(
        &self,
        conn: &mut SqliteConnection,
        mut begun: bool,
        base: Head,
        known: Option<Total>,
        batches: &[Batch],
        records: &[RevisionRecord],
    ) -> sqlx::Result<Result<Total, CommitError>> {
        let total = match known {
            Some(total) => total,
            None => {
                if !std::mem::replace(&mut begun, true) {
                    sqlx::query("BEGIN IMMEDIATE").execute(&mut *conn).await?;
                }
                if head(conn).await? != base {
                    return Ok(Err(CommitError::Conflict));
                }
                match integrity::total_at(conn, base).await? {
                    Some(total) => total,
                    None => return Ok(Err(self.no_total(base).into())),
                }
            }
        };
        let digests = digests(total, batches, records);
        let (changes, notes) = net(batches, &digests.items);
        let mut script = Script::new(if begun { "" } else { "BEGIN IMMEDIATE; " });
        script.log(records, &digests, Some(base));
        script.state(&changes, &notes);
        let Err(e) = script.commit(conn).await else {
            return Ok(Ok(digests.total));
        };
        let violation = e.as_database_error().map(|e| e.kind());
        if matches!(violation, Some(ErrorKind::NotNullViolation)) && head(conn).await? != base {
            return Ok(Err(CommitError::Conflict));
        }
        if matches!(violation, Some(ErrorKind::UniqueViolation))
            && let Some(duplicate) = duplicate(conn, &changes).await?
        {
            return Ok(Err(duplicate));
        }
        Err(e)
    }

    fn no_total(&self, head: Head) -> StoreError {
        StoreError::Corrupt {
            place: self.file.place(),
            detail: format!(
                "the digest of the state at revision {} is not what was written; run verify, then repair",
                head.revision
            ),
        }
    }

    async fn audit_after(&self, after: Revision, query: &AuditQuery) -> sqlx::Result<Vec<AuditRecord>> {
        // So that a short page of a long log is all that is read, nothing is left to the planner, which knows no statistics.
        // A CROSS JOIN is run in the order it is written; its outer table has the bounds and gives the order. The `+` keeps
        // the bounds from being taken over to the inner one, in place of its key.
        let (tables, outer, inner) = match query {
            AuditQuery { id: Some(_), .. } => (
                "changes c INDEXED BY changes_by_resource CROSS JOIN revisions r",
                "c",
                "r",
            ),
            AuditQuery { actor: Some(_), .. } => ("revisions r CROSS JOIN changes c", "r", "c"),
            AuditQuery { kind: Some(_), .. } => {
                ("changes c INDEXED BY changes_by_kind CROSS JOIN revisions r", "c", "r")
            }
            _ => ("changes c CROSS JOIN revisions r", "c", "r"),
        };
        let push_from = |sql: &mut QueryBuilder<sqlx::Sqlite>| {
            sql.push(format_args!(
                "FROM {tables} WHERE {inner}.revision = +{outer}.revision AND {outer}.revision > "
            ));
            sql.push_bind(integer(after.0));
            for (column, value) in [("c.kind", &query.kind), ("c.id", &query.id), ("r.actor", &query.actor)] {
                if let Some(value) = value {
                    sql.push(" AND ").push(column).push(" = ").push_bind(value);
                }
            }
            if let Some((revision, index)) = query.behind {
                sql.push(" AND (+c.revision > ").push_bind(integer(revision.0));
                sql.push(" OR +c.idx > ").push_bind(integer(index)).push(")");
            }
        };
        let mut sql = QueryBuilder::new(SELECT_LOG);
        push_from(&mut sql);
        sql.push(format_args!(
            " AND {outer}.revision <= (SELECT max(revision) FROM (SELECT {outer}.revision "
        ));
        push_from(&mut sql);
        sql.push(format_args!(" ORDER BY {outer}.revision LIMIT "))
            .push_bind(integer(query.limit));
        sql.push(format_args!(")) ORDER BY {outer}.revision, c.idx"));
        let mut rows = sql.build().fetch(&self.log_readers);
        let (mut records, mut names, mut size) = (Vec::<AuditRecord>::new(), Names::default(), 0);
        while let Some(row) = rows.try_next().await? {
            size += add_audit_row(&mut records, &row, &mut names)?;
            if query.bytes.is_some_and(|bytes| size >= bytes) {
                break;
            }
        }
        Ok(records)
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn load(&self) -> Result<State, StoreError> {
        let read = async { integrity::load(&mut *self.readers.begin().await?).await };
        read.await.map_err(|e| self.error(&e))
    }

    async fn head(&self) -> Result<Head, StoreError> {
        self.file.check()?;
        let read = async { head(&mut *self.readers.acquire().await?).await };
        read.await.map_err(|e| self.error(&e))
    }

    async fn log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError> {
        let read = async {
            let mut sql = QueryBuilder::new(SELECT_LOG);
            sql.push("FROM revisions r LEFT JOIN changes c ON c.revision = r.revision AND (r.revision > ");
            sql.push_bind(integer(after.0.saturating_add(1)));
            sql.push(" OR c.idx >= ")
                .push_bind(integer(index))
                .push(") WHERE r.revision > ");
            sql.push_bind(integer(after.0));
            sql.push(" AND r.revision <= (SELECT max(revision) FROM (SELECT revision FROM revisions WHERE revision > ");
            sql.push_bind(integer(after.0))
                .push(" ORDER BY revision LIMIT ")
                .push_bind(integer(limit));
            sql.push(")) ORDER BY r.revision, c.idx");
            let mut rows = sql.build().fetch(&self.log_readers);
            let (mut records, mut names, mut size) = (Vec::<RevisionRecord>::new(), Names::default(), 0);
            while let Some(row) = rows.try_next().await? {
                size += add_row(&mut records, &row, &mut names)?;
                if size >= bytes {
                    break;
                }
            }
            Ok(records)
        };
        let records = read.await.map_err(|e| self.error(&e))?;
        // Asked afterwards: what was read while the log was being cut is not to be trusted.
        let checkpoint = self.checkpoint().await?;
        still_kept(after, checkpoint)?;
        let before = self.digest_at(after, checkpoint).await.map_err(|e| self.error(&e))?;
        match first_broken(before, &records, index, bytes) {
            None => Ok(records),
            Some(revision) => Err(StoreError::Corrupt {
                place: self.file.place(),
                detail: format!("revision {revision} of the log is not what was written; run verify"),
            }),
        }
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        if batches.is_empty() {
            return match self.head().await? == base {
                true => Ok(Vec::new()),
                false => Err(CommitError::Conflict),
            };
        }
        if let Some(detail) = self.marker.unexpected() {
            return Err(StoreError::Unexpected(detail).into());
        }
        let records = chain(base, batches);
        let mut turn = self.writer.lock().await;
        self.file.check()?;
        let holds = std::mem::take(&mut turn.holds);
        // Out of its place while it works: if this future is dropped, the connection is too, and SQLite rolls back.
        let mut conn = match turn.conn.take() {
            Some(conn) => conn,
            None => self.file.connect().await?,
        };
        let known = turn.total_at(base);
        let refused = match self.write(&mut conn, holds, base, known, batches, &records).await {
            Ok(Ok(total)) => {
                turn.total = records.last().map(|record| (record.head(), total));
                turn.conn = Some(conn);
                turn.conflicts = 0;
                self.bell.ring();
                self.committed.notify_one();
                self.marker.moved();
                return Ok(records.iter().map(RevisionRecord::head).collect());
            }
            Ok(Err(refused)) => refused,
            Err(e) => self.error(&e).into(),
        };
        turn.total = None;
        if refused == CommitError::Conflict {
            turn.conflicts += 1;
            if turn.conflicts > 1 && !holds {
                turn::hold(&self.writer, &mut turn, conn);
                return Err(refused);
            }
        }
        if conn.undo().await {
            turn.conn = Some(conn);
        }
        Err(refused)
    }

    async fn head_moved(&self) {
        self.bell.rung().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        let mut checkpoint = self.checkpoint().await?;
        loop {
            let begins = || {
                checkpoint
                    .map(|checkpoint| checkpoint.head.revision)
                    .unwrap_or_default()
            };
            let after = query.starts_after().unwrap_or_else(begins);
            let read = self.audit_after(after, query).await;
            let records = read.map_err(|e| self.error(&e))?;
            // Asked afterwards, as for the changes. Who asks for whatever there is does not care that it begins later now.
            checkpoint = self.checkpoint().await?;
            match still_kept(after, checkpoint) {
                Ok(()) => return Ok(records),
                Err(_) if query.starts_after().is_none() => {}
                Err(gone) => return Err(gone),
            }
        }
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        let read = async {
            let sql = "SELECT at, removed FROM revisions WHERE removed IS NOT NULL AND at > ? ORDER BY at";
            let mut rows = sqlx::query(sql).bind(since).fetch(&self.readers);
            let mut found = Vec::new();
            while let Some(row) = rows.try_next().await? {
                found.push((row.try_get(0)?, removed_of(&row, 1)?));
            }
            Ok(found)
        };
        read.await.map_err(|e| self.error(&e))
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let read = async { integrity::notes(&mut *self.readers.acquire().await?).await };
        read.await.map_err(|e| self.error(&e))
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let read = async { compact::checkpoint(&mut *self.readers.acquire().await?).await };
        read.await.map_err(|e| self.error(&e))
    }

    async fn holds(&self, head: Head) -> Result<bool, StoreError> {
        if head == Head::default() {
            return Ok(true);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM checkpoint WHERE revision = ?1 AND digest = ?2) OR EXISTS \
             (SELECT 1 FROM revisions WHERE revision = ?1 AND digest = ?2 \
              AND revision > (SELECT ifnull(max(revision), 0) FROM checkpoint))";
        let held = sqlx::query_scalar(sql)
            .bind(integer(head.revision.0))
            .bind(head.digest.0.to_vec());
        held.fetch_one(&self.readers).await.map_err(|e| self.error(&e))
    }

    async fn epoch(&self) -> Result<String, StoreError> {
        let epoch = sqlx::query_scalar("SELECT epoch FROM epoch").fetch_one(&self.readers);
        epoch.await.map_err(|e| self.error(&e))
    }

    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError> {
        let sql = "SELECT revision FROM revisions WHERE at > ? AND (removed IS NOT NULL OR NOT ?) \
             AND revision > (SELECT ifnull(max(revision), 0) FROM checkpoint) ORDER BY revision LIMIT 1";
        let found = sqlx::query_scalar::<_, i64>(sql).bind(at).bind(removing);
        let found = found.fetch_optional(&self.readers).await.map_err(|e| self.error(&e))?;
        Ok(found.map(|revision| Revision(revision as u64)))
    }

    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        if let Some(detail) = self.marker.unexpected() {
            return Err(StoreError::Unexpected(detail).into());
        }
        let done = self.cut(checkpoint).await;
        self.marker.moved();
        done
    }

    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        Ok(Box::new(copy::Exporting::begin(&self.file).await?))
    }

    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError> {
        let (bell, committed, marker) = (self.bell.clone(), self.committed.clone(), self.marker.clone());
        let restoring = copy::Restoring::begin(&self.file, replace, bell, committed, marker);
        Ok(Box::new(restoring.await?))
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        let check = async { integrity::check(&mut *self.readers.begin().await?).await };
        check.await.map_err(|e| self.error(&e))
    }

    async fn repair(&self, apply: bool, unique: Unique) -> Result<Repair, StoreError> {
        let mut conn = self.file.connect().await?;
        let repaired = integrity::repair(&mut conn, apply, unique).await;
        let repaired = repaired.map_err(|e| self.error(&e))?;
        self.committed.notify_one();
        conn.close().await.map_err(|e| self.error(&e))?;
        Ok(repaired)
    }

    fn unexpected(&self) -> Option<String> {
        self.marker.unexpected()
    }

    async fn accept(&self) -> Result<(), StoreError> {
        self.accept_as_it_is().await
    }

    async fn close(&self) {
        let mut upkeep = std::mem::take(&mut *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner));
        upkeep.shutdown().await;
        if let Err(e) = marker::advance(&self.file, &self.readers, &self.marker).await {
            tracing::warn!("cannot note where the store is: {e}");
        }
        self.readers.close().await;
        self.log_readers.close().await;
        let mut turn = self.writer.lock().await;
        if let Some(mut conn) = turn.conn.take() {
            if std::mem::take(&mut turn.holds) {
                let _broken = conn.undo().await;
            }
            let tidied = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await;
            if let Err(e) = tidied.and(conn.close().await) {
                tracing::warn!("cannot tidy up the store: {}", self.error(&e));
            }
        }
    }
}

/// The statements of one transaction, sent together: each trip to the connection's thread and back costs more than a small
/// statement does.
struct Script {
    sql: QueryBuilder<sqlx::Sqlite>,
    rows: usize,
}

impl Script {
    fn new(opening: &str) -> Self {
        Script {
            sql: QueryBuilder::new(opening),
            rows: 0,
        }
    }

    /// Appends the revisions to the log, if `base` is its head, where that is asked for: otherwise the first row has no digest,
    /// which none may lack, and nothing that follows is done. It saves the trip that asking first would take.
    fn log(&mut self, records: &[RevisionRecord], digests: &Digests, mut base: Option<Head>) {
        let with_states: Vec<_> = records.iter().zip(&digests.states).collect();
        for rows in with_states.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO revisions (revision, at, actor, request_id, reason, removed, state, digest) ");
            self.sql.push_values(rows, |mut row, (record, state)| {
                row.push_bind(integer(record.revision.0))
                    .push_bind(&record.author.at)
                    .push_bind(&record.author.actor);
                row.push_bind(&record.author.request_id)
                    .push_bind(&record.author.reason);
                row.push_bind(record.removed.to_text()).push_bind(&state[..]);
                match base.take() {
                    Some(base) => {
                        let (revision, digest) = match base == Head::default() {
                            true => (None, None),
                            false => (Some(integer(base.revision.0)), Some(base.digest.0.to_vec())),
                        };
                        row.push("CASE WHEN (")
                            .push_unseparated(SELECT_HEAD)
                            .push_unseparated(") IS (");
                        row.push_bind_unseparated(revision).push_unseparated(", ");
                        row.push_bind_unseparated(digest).push_unseparated(") THEN ");
                        row.push_bind_unseparated(&record.digest.0[..]);
                        row.push_unseparated(" END")
                    }
                    None => row.push_bind(&record.digest.0[..]),
                };
            });
            self.end(rows.len());
        }
        let items = digests.items.iter().flatten();
        let changes: Vec<_> = records.iter().flat_map(RevisionRecord::records).zip(items).collect();
        for rows in changes.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO changes (revision, idx, kind, id, origin, before, after, digest) ");
            self.sql.push_values(rows, |mut row, (record, items)| {
                row.push_bind(integer(record.revision.0))
                    .push_bind(integer(record.index));
                row.push_bind(record.change.kind.clone())
                    .push_bind(record.change.id.clone());
                row.push_bind(record.change.origin.clone());
                row.push_bind(record.change.before.as_ref().map(Json::as_str));
                row.push_bind(record.change.after.as_ref().map(Json::as_str));
                let digest = change_digest(record.revision, record.index, record.change, **items);
                row.push_bind(digest.0.to_vec());
            });
            self.end(rows.len());
        }
    }

    /// Brings the state from one revision to another.
    fn state(&mut self, changes: &[NetChange<'_>], notes: &[&(String, String)]) {
        let stays =
            |(change, _): &&NetChange<'_>| change.before.is_some() && change.after.is_some() && change.keeps_unique;
        let (staying, moving): (Vec<_>, Vec<_>) = changes.iter().partition(stays);
        // Most writes change a body. Its row is written where it is, and no index is touched: the row that is offered has no
        // unique value, which nobody else can have, and the one that is there keeps its own.
        for rows in staying.chunks(AT_ONCE) {
            self.sql.push("INSERT INTO resources (kind, id, origin, body, digest) ");
            self.sql.push_values(rows, |mut row, (change, item)| {
                row.push_bind(change.kind.clone()).push_bind(change.id.clone());
                row.push_bind(change.origin.clone())
                    .push_bind(change.after.as_ref().map(Json::as_str))
                    .push_bind(sealed(change, *item).to_vec());
            });
            self.sql.push(
                " ON CONFLICT (kind, id) DO UPDATE \
                 SET origin = excluded.origin, body = excluded.body, digest = excluded.digest",
            );
            self.end(rows.len());
        }
        // All of them leave before any comes in, so that two resources can swap their unique value.
        let leaving = moving.iter().map(|(change, _)| &**change);
        let mut leaving: Vec<&Change> = leaving.filter(|change| change.before.is_some()).collect();
        leaving.sort_by_key(|change| &change.kind);
        for rows in leaving
            .chunk_by(|a, b| a.kind == b.kind)
            .flat_map(|kind| kind.chunks(AT_ONCE))
        {
            // One kind at a time, which is looked up in the index; for a list of pairs, SQLite may scan the table.
            self.sql.push("DELETE FROM resources WHERE kind = ");
            self.sql.push_bind(rows[0].kind.clone()).push(" AND id IN (");
            let mut ids = self.sql.separated(", ");
            for change in rows {
                ids.push_bind(change.id.clone());
            }
            self.sql.push(")");
            self.end(rows.len());
        }
        let coming: Vec<_> = moving
            .iter()
            .filter_map(|(change, item)| Some((change, *item, change.after.as_ref()?)))
            .collect();
        for rows in coming.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO resources (kind, id, unique_key, origin, body, digest) ");
            self.sql.push_values(rows, |mut row, (change, item, body)| {
                row.push_bind(change.kind.clone()).push_bind(change.id.clone());
                row.push_bind(&change.unique)
                    .push_bind(change.origin.clone())
                    .push_bind(body.as_str())
                    .push_bind(sealed(change, *item).to_vec());
            });
            self.end(rows.len());
        }
        for (key, value) in notes {
            self.sql.push("INSERT INTO applied (key, value, digest) VALUES (");
            self.sql.push_bind(key).push(", ").push_bind(value).push(", ");
            self.sql.push_bind(note_digest(key, value).0.to_vec());
            self.sql
                .push(") ON CONFLICT (key) DO UPDATE SET value = excluded.value, digest = excluded.digest");
            self.end(1);
        }
    }

    fn end(&mut self, rows: usize) {
        self.sql.push("; ");
        self.rows += rows;
    }

    async fn commit(mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        // Small ones come again and are kept prepared; the text of a large one is a megabyte that no other has.
        const KEPT: usize = 64;
        let kept = self.rows <= KEPT;
        self.sql.push("COMMIT").build().persistent(kept).execute(conn).await?;
        Ok(())
    }

    /// Within a transaction that goes on.
    async fn run(mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        if self.rows > 0 {
            self.sql.build().persistent(false).execute(conn).await?;
        }
        Ok(())
    }
}

/// A change of the state, and the item of what comes after it.
type NetChange<'a> = (Cow<'a, Change>, Option<Digest>);

/// What the batches add up to, from the first `before` of each resource to its last `after`: one transaction needs to write
/// the state only once, however many writers share it.
fn net<'a>(batches: &'a [Batch], items: &[Vec<Items>]) -> (Vec<NetChange<'a>>, Vec<&'a (String, String)>) {
    let mut net: Vec<NetChange<'a>> = Vec::new();
    let mut places = HashMap::new();
    for (batch, items) in batches.iter().zip(items) {
        for (change, items) in batch.changes.iter().zip(items) {
            match places.entry((&change.kind, &change.id)) {
                Entry::Vacant(place) => {
                    place.insert(net.len());
                    net.push((Cow::Borrowed(change), items.after));
                }
                Entry::Occupied(place) => {
                    let (first, item) = &mut net[*place.get()];
                    *first = Cow::Owned(Change {
                        before: first.before.clone(),
                        keeps_unique: first.keeps_unique && change.keeps_unique,
                        ..change.clone()
                    });
                    *item = items.after;
                }
            }
        }
    }
    (net, batches.iter().flat_map(|batch| &batch.applied).collect())
}

/// Resources that come in as they are.
fn created(changes: &[Change]) -> Vec<NetChange<'_>> {
    let net = changes
        .iter()
        .map(|change| (Cow::Borrowed(change), Items::of(change).after));
    net.collect()
}

/// The digest column of what a change leaves.
fn sealed(change: &Change, item: Option<Digest>) -> Sealed {
    seal_row(
        item.unwrap_or_default(),
        change.unique.as_deref(),
        change.origin.as_deref(),
    )
}

/// The change whose unique value is taken. SQLite says only that there is one.
async fn duplicate(conn: &mut SqliteConnection, changes: &[NetChange<'_>]) -> sqlx::Result<Option<CommitError>> {
    let mut values = HashSet::new();
    let changes = changes.iter().map(|(change, _)| change);
    for change in changes.filter(|change| change.after.is_some()) {
        let Some(value) = &change.unique else { continue };
        let sql = "SELECT count(*) FROM resources WHERE kind = ? AND unique_key = ? AND id <> ?";
        let query = sqlx::query_scalar::<_, i64>(sql)
            .bind(&*change.kind)
            .bind(value)
            .bind(&*change.id);
        if !values.insert((&change.kind, value)) || query.fetch_one(&mut *conn).await? > 0 {
            return Ok(Some(CommitError::duplicate(change)));
        }
    }
    Ok(None)
}

async fn head(conn: &mut SqliteConnection) -> sqlx::Result<Head> {
    let row = sqlx::query(SELECT_HEAD).fetch_optional(conn).await?;
    row.map_or(Ok(Head::default()), |row| head_of(&row))
}

const SELECT_HEAD: &str = "SELECT revision, digest FROM revisions ORDER BY revision DESC LIMIT 1";

impl Undo for SqliteConnection {
    async fn undo(&mut self) -> bool {
        // This fails where SQLite has rolled back by itself (a full disk) and where the connection is broken.
        sqlx::query("ROLLBACK").execute(self).await.is_ok()
    }
}

impl Columns for SqliteRow {
    fn integer(&self, column: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> sqlx::Result<Option<Cow<'_, str>>> {
        Ok(self.try_get::<Option<&str>, _>(column)?.map(Cow::Borrowed))
    }

    fn bytes(&self, column: usize) -> sqlx::Result<Option<&[u8]>> {
        self.try_get(column)
    }
}

/// How many rows one statement writes.
const AT_ONCE: usize = 64;
