//! One file, for one machine. Several processes may share it.
//!
//! Readers never wait for the writer (WAL). A commit is durable when it returns (`synchronous=FULL`) and costs the disk
//! one sync: checkpoints, which cost more, run in the background on a separate connection.

mod commit;
mod compact;
mod copy;
mod evidence;
mod file;
mod integrity;
mod log;
mod marker;
mod revisions;
mod script;
mod upkeep;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fleet::log::{Batch, Checkpoint, Head, Removed, Revision, RevisionRecord, State};
use futures_util::TryStreamExt;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqlitePoolOptions, SqliteRow};
use sqlx::{Connection, Row, SqliteConnection, SqlitePool};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use self::evidence::SqliteEvidence;
use self::file::File;
use self::marker::Marker;
use crate::head_signal::HeadSignal;
use crate::rows::{Columns, head_of, integer, removed_of};
use crate::writer_lock::{self, Rollback};
use crate::{
    AuditQuery, AuditRecord, CommitError, Export, LastChange, Repair, Restore, RevisionPage, RevisionQuery, Store,
    StoreError, Unique,
};

/// What commits share.
type WriterLock = writer_lock::WriterLock<SqliteConnection>;

#[derive(Debug)]
pub struct Sqlite {
    file: File,
    writer: Arc<WriterLock>,
    readers: SqlitePool,
    /// For reading the log: a row may have two documents of a megabyte each, so few rows are read ahead.
    log_readers: SqlitePool,
    head_signal: Arc<HeadSignal>,
    committed: Arc<Notify>,
    marker: Arc<Marker>,
    upkeep: Mutex<JoinSet<()>>,
}

impl Sqlite {
    /// Opens `sqlite://FILE` or `sqlite:FILE`; creates folder and file unless the URL has `?mode=rw`. Must be called within a Tokio
    /// runtime: the background work runs there until the store is closed or dropped.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_file(File::parse(url)?).await
    }

    /// The same, but never creates the file, whatever the URL says.
    pub async fn open_existing(url: &str) -> Result<Self, StoreError> {
        Self::open_file(File::parse(url)?.existing()).await
    }

    /// Whether the file of a URL exists.
    pub fn exists(url: &str) -> bool {
        File::parse(url).is_ok_and(|file| file.path().exists())
    }

    async fn open_file(file: File) -> Result<Self, StoreError> {
        let writer = Arc::new(WriterLock::new(writer_lock::Writer::new(Some(file.prepare().await?))));
        let options = file.options.clone().pragma("query_only", "ON");
        let options = options.pragma("cache_size", "-2048");
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .acquire_timeout(Duration::from_secs(5))
            .test_before_acquire(false);
        let log_readers = pool.clone().connect_lazy_with(options.clone().row_buffer_size(2));
        let readers = pool.connect_lazy_with(options);
        let (head_signal, committed) = (Arc::<HeadSignal>::default(), Arc::<Notify>::default());
        let mut upkeep = JoinSet::new();
        let watched = upkeep::Watched::connect(&file).await?;
        upkeep.spawn(upkeep::watch(file.clone(), head_signal.clone(), watched));
        upkeep.spawn(upkeep::checkpoint(file.clone(), committed.clone(), writer.clone()));
        let marker = Arc::new(Marker::beside(file.path()));
        upkeep.spawn(marker::keep(file.clone(), readers.clone(), marker.clone()));
        let store = Sqlite {
            file,
            writer,
            readers,
            log_readers,
            head_signal,
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
        self.read_log(after, index, limit, bytes).await
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        self.append(base, batches).await
    }

    async fn head_moved(&self) {
        self.head_signal.moved().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        self.read_audit(query).await
    }

    async fn revisions(&self, query: &RevisionQuery) -> Result<RevisionPage, StoreError> {
        let read = self.read_revisions(query).await;
        read.map_err(|e| self.error(&e))
    }

    async fn last_changes(&self, wanted: &[LastChange<'_>]) -> Result<Vec<Option<AuditRecord>>, StoreError> {
        let read = self.read_last_changes(wanted).await;
        read.map_err(|e| self.error(&e))
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        let read = async {
            let sql = "SELECT at, removed FROM revisions WHERE removed IS NOT NULL AND at > ? ORDER BY at";
            let mut rows = sqlx::query(sql).bind(since).fetch(&self.readers);
            let mut found = Vec::new();
            while let Some(row) = rows.try_next().await? {
                found.push((row.try_get(0)?, removed_of(&row, 1)?));
            }
            // A revision that only overrides a guard has a text, too.
            found.retain(|(_, removed): &(String, Removed)| removed.count() > 0);
            Ok(found)
        };
        read.await.map_err(|e| self.error(&e))
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let read = async { integrity::notes(&mut *self.readers.acquire().await?).await };
        read.await.map_err(|e| self.error(&e))
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let read = async { compact::checkpoint(&mut *lend(&self.readers).await?).await };
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
        let (head_signal, committed, marker) = (self.head_signal.clone(), self.committed.clone(), self.marker.clone());
        let restoring = copy::Restoring::begin(&self.file, replace, head_signal, committed, marker);
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
            tracing::warn!("cannot update the marker beside the store: {e}");
        }
        self.readers.close().await;
        self.log_readers.close().await;
        let mut writer = self.writer.lock().await;
        if let Some(mut conn) = writer.conn.take() {
            if std::mem::take(&mut writer.holds) {
                conn.roll_back().await;
            }
            let tidied = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await;
            if let Err(e) = tidied.and(conn.close().await) {
                tracing::warn!("cannot close the store cleanly: {}", self.error(&e));
            }
        }
    }
}

async fn head(conn: &mut SqliteConnection) -> sqlx::Result<Head> {
    let row = sqlx::query(SELECT_HEAD).fetch_optional(conn).await?;
    row.map_or(Ok(Head::default()), |row| head_of(&row))
}

const SELECT_HEAD: &str = "SELECT revision, digest FROM revisions ORDER BY revision DESC LIMIT 1";

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

/// A connection of a pool. Each connection has a thread, which inherits the priority of the thread that opens it. Heavy reads run
/// at the lowest priority, so a thread of the runtime opens it for them.
async fn lend(pool: &SqlitePool) -> sqlx::Result<PoolConnection<sqlx::Sqlite>> {
    if let Some(idle) = pool.try_acquire() {
        return Ok(idle);
    }
    let pool = pool.clone();
    let opened = tokio::spawn(async move { pool.acquire().await }).await;
    opened.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}
