//! A PostgreSQL server, for many replicas.
//!
//! Each replica has a few connections: one to write, up to four to read, one to listen, and one more during a backup, a restore
//! or a compaction. A commit is one statement and so one trip to the server. The lock that orders commits is held only while the
//! statement runs on the server, not during the network's time.
//!
//! Nothing waits forever. If an answer takes too long, its connection is dropped and the store is reported as unavailable. The
//! server ends statements and sessions that take too long or were abandoned (`statement_timeout`, `lock_timeout`,
//! `idle_in_transaction_session_timeout`). The driver cannot set TCP timeouts; these replace them.
//!
//! **Connection poolers.** PgBouncer works in session mode. Transaction mode needs version 1.21 or later with
//! `max_prepared_statements` above 0, and `listen=false` in the URL: otherwise the pooler delivers notifications to other clients.
//! Without notifications followers poll, see [`watch`]. Both modes need `ignore_startup_parameters = extra_float_digits, options`;
//! then set the timeouts above on the role (`ALTER ROLE … SET statement_timeout = …`).

mod commit;
mod compact;
mod copy;
mod evidence;
mod integrity;
mod log;
mod pool;
mod revisions;
mod server;
mod text;
mod watch;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fleet::log::{Batch, Checkpoint, Head, Removed, Revision, RevisionRecord, State};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};
use tokio::task::JoinSet;

pub use self::evidence::PostgresEvidence;
use self::pool::{Conn, Pool};
use self::server::{PATIENCE, Purpose, Server, within};
use self::watch::Listening;
use crate::head_signal::HeadSignal;
use crate::rows::{Columns, SELECT_NOTES, head_of, integer, note_of, removed_of, revision_of};
use crate::writer_lock;
use crate::{
    AuditQuery, AuditRecord, CommitError, Export, LastChange, Repair, Restore, RevisionPage, RevisionQuery, Store,
    StoreError, Unique,
};

/// A transaction that sees one moment. A statement has no time limit as long as it returns rows.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = 0";

/// What commits share.
type WriterLock = writer_lock::WriterLock<Conn>;

/// What the store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes. The schema is created or migrated if necessary.
    Write,
    /// Only reads. The right to `SELECT` is enough.
    Read,
}

#[derive(Debug)]
pub struct Postgres {
    server: Server,
    writer: Arc<WriterLock>,
    readers: Arc<Pool>,
    head_signal: Arc<HeadSignal>,
    upkeep: Mutex<JoinSet<()>>,
}

impl Postgres {
    /// Opens `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETER=VALUE&…`. The parameters are those of libpq that the driver
    /// supports, and `listen=false`. Must be called within a Tokio runtime: the background work runs there until the store is
    /// closed or dropped.
    ///
    /// [`StoreError::NotReady`] if it is opened to read and its schema does not exist yet.
    pub async fn open(url: &str, access: Access) -> Result<Self, StoreError> {
        let server = Server::parse(url, access)?;
        server.prepare().await?;
        let readers = Arc::new(Pool::new(server.clone()));
        let head = head(&readers).await?;
        Ok(Self::on(server, readers, head))
    }

    /// The same for a server that is unavailable: it is used once it is back. The schema is not checked; call [`Postgres::open`]
    /// for that.
    pub fn later(url: &str, access: Access) -> Result<Self, StoreError> {
        let server = Server::parse(url, access)?;
        let readers = Arc::new(Pool::new(server.clone()));
        Ok(Self::on(server, readers, Head::default()))
    }

    fn on(server: Server, readers: Arc<Pool>, head: Head) -> Self {
        let writer = Arc::new(WriterLock::new(writer_lock::Writer::new(None)));
        let (head_signal, listening) = (Arc::<HeadSignal>::default(), Arc::<Listening>::default());
        let mut upkeep = JoinSet::new();
        if server.listens() {
            upkeep.spawn(watch::listen(server.clone(), head_signal.clone(), listening.clone()));
        }
        upkeep.spawn(watch::poll(readers.clone(), head_signal.clone(), listening, head));
        Postgres {
            server,
            writer,
            readers,
            head_signal,
            upkeep: Mutex::new(upkeep),
        }
    }

    fn error(&self, error: &sqlx::Error) -> StoreError {
        self.server.error(error)
    }

    fn must_write(&self) -> Result<(), StoreError> {
        match self.server.access() {
            Access::Write => Ok(()),
            Access::Read => Err(self.server.unusable("it was opened read-only".to_owned())),
        }
    }
}

#[async_trait]
impl Store for Postgres {
    async fn load(&self) -> Result<State, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = async {
            within(PATIENCE, sqlx::raw_sql(BEGIN_READING).execute(&mut *conn)).await?;
            let state = integrity::load(&mut conn).await?;
            within(PATIENCE, sqlx::raw_sql("COMMIT").execute(&mut *conn)).await?;
            Ok(state)
        };
        let read = read.await;
        conn.done(read)
    }

    async fn head(&self) -> Result<Head, StoreError> {
        head(&self.readers).await
    }

    async fn holds(&self, head: Head) -> Result<bool, StoreError> {
        if head == Head::default() {
            return Ok(true);
        }
        let sql = "SELECT EXISTS (SELECT FROM flux_resourceset.checkpoint WHERE revision = $1 AND digest = $2) OR EXISTS \
             (SELECT FROM flux_resourceset.revisions WHERE revision = $1 AND digest = $2 \
              AND revision > (SELECT coalesce(max(revision), 0) FROM flux_resourceset.checkpoint))";
        let mut conn = self.readers.lend().await?;
        let held = sqlx::query_scalar(sql)
            .bind(integer(head.revision.0))
            .bind(&head.digest.0[..])
            .fetch_one(&mut *conn);
        let held = within(PATIENCE, held).await;
        conn.done(held)
    }

    async fn epoch(&self) -> Result<String, StoreError> {
        let mut conn = self.readers.lend().await?;
        let epoch = sqlx::query_scalar("SELECT epoch FROM flux_resourceset.store").fetch_one(&mut *conn);
        let epoch = within(PATIENCE, epoch).await;
        conn.done(epoch)
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
        self.read_revisions(query).await
    }

    async fn last_changes(&self, wanted: &[LastChange<'_>]) -> Result<Vec<Option<AuditRecord>>, StoreError> {
        self.read_last_changes(wanted).await
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = async {
            let sql = "SELECT at, removed FROM flux_resourceset.revisions \
                 WHERE removed IS NOT NULL AND at > $1 ORDER BY at, revision";
            let mut rows = sqlx::query(sql).bind(text::put(since)).fetch(&mut *conn);
            let mut found = Vec::new();
            while let Some(row) = within(PATIENCE, rows.try_next()).await? {
                found.push((row.some_text(0)?.into_owned(), removed_of(&row, 1)?));
            }
            // A revision that only overrides a guard has a text, too.
            found.retain(|(_, removed): &(String, Removed)| removed.count() > 0);
            Ok(found)
        };
        let read = read.await;
        conn.done(read)
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = applied(&mut conn).await;
        conn.done(read)
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = compact::checkpoint(&mut conn).await;
        conn.done(read)
    }

    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError> {
        let sql = "SELECT revision FROM flux_resourceset.revisions WHERE at > $1 AND (removed IS NOT NULL OR NOT $2) \
             AND revision > (SELECT coalesce(max(revision), 0) FROM flux_resourceset.checkpoint) ORDER BY revision LIMIT 1";
        let mut conn = self.readers.lend().await?;
        let found = sqlx::query(sql)
            .bind(text::put(at))
            .bind(removing)
            .fetch_optional(&mut *conn);
        let found = within(PATIENCE, found).await;
        let found = found.and_then(|row| row.map(|row| revision_of(&row)).transpose());
        conn.done(found)
    }

    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        self.must_write()?;
        self.cut(checkpoint).await
    }

    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        Ok(Box::new(copy::Exporting::begin(&self.server).await?))
    }

    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError> {
        self.must_write()?;
        let restoring = copy::Restoring::begin(&self.server, replace, self.head_signal.clone());
        Ok(Box::new(restoring.await?))
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut conn = self.server.connect(Purpose::Long).await?;
        let check = async {
            within(PATIENCE, sqlx::raw_sql(BEGIN_READING).execute(&mut conn)).await?;
            integrity::check(&mut conn).await
        };
        check.await.map_err(|e| self.error(&e))
    }

    async fn repair(&self, apply: bool, unique: Unique) -> Result<Repair, StoreError> {
        let purpose = match apply {
            true => Purpose::Restoring,
            false => Purpose::Long,
        };
        if apply {
            self.must_write()?;
        }
        let mut conn = self.server.connect(purpose).await?;
        let repaired = integrity::repair(&mut conn, apply, unique).await;
        repaired.map_err(|e| self.error(&e))
    }

    async fn close(&self) {
        let mut upkeep = std::mem::take(&mut *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner));
        upkeep.shutdown().await;
        self.readers.close().await;
        // A connection that is still in use is closed with the process.
        if let Ok(mut writer) = self.writer.try_lock()
            && let Some(conn) = writer.conn.take()
        {
            writer.holds = false;
            conn.close().await;
        }
    }
}

async fn head(readers: &Pool) -> Result<Head, StoreError> {
    let mut conn = readers.lend().await?;
    let sql = "SELECT revision, digest, version, compatible FROM flux_resourceset.store";
    let row = within(PATIENCE, sqlx::query(sql).fetch_one(&mut *conn)).await;
    let read = row.and_then(|row| Ok((head_of(&row)?, row.try_get(2)?, row.try_get(3)?)));
    let (head, version, compatible) = conn.done(read)?;
    readers.server().check(version, compatible)?;
    Ok(head)
}

async fn applied(conn: &mut PgConnection) -> sqlx::Result<BTreeMap<String, String>> {
    let sql = format!("{SELECT_NOTES} FROM flux_resourceset.applied");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(conn);
    within(PATIENCE, rows).await?.iter().map(note_of).collect()
}

impl Columns for PgRow {
    fn integer(&self, column: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> sqlx::Result<Option<Cow<'_, str>>> {
        Ok(self.try_get::<Option<&str>, _>(column)?.map(text::get))
    }

    fn bytes(&self, column: usize) -> sqlx::Result<Option<&[u8]>> {
        self.try_get(column)
    }
}
