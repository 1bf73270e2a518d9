//! A PostgreSQL server, for many replicas.
//!
//! Each replica has a few connections: one to write, up to four to read, one to listen, and one more while it copies the whole
//! store or compacts it. A commit is one statement, hence one trip to the server, which holds the lock that puts commits in
//! order for as long as it runs there, not for as long as the network takes.
//!
//! Nothing waits for ever. Every answer has a time in which it must come, or its connection is dropped and the store said to be
//! unavailable; the server in turn gives up what takes too long or was left behind (`statement_timeout`, `lock_timeout`,
//! `idle_in_transaction_session_timeout`). The driver cannot set TCP's own timeouts, which this stands in for.
//!
//! **Poolers.** PgBouncer works in session mode. In transaction mode, version 1.21 or later with
//! `max_prepared_statements` above 0 is needed, and `listen=false` in the URL: it would hand the notifications to whoever has
//! the connection by then. Followers then poll, see [`watch`]. In both modes it wants
//! `ignore_startup_parameters = extra_float_digits, options`; the timeouts above are then for the role to have
//! (`ALTER ROLE … SET statement_timeout = …`).

mod compact;
mod copy;
mod integrity;
mod pool;
mod server;
mod text;
mod watch;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fleet::log::{Batch, Checkpoint, Digest, Head, Removed, Revision, RevisionRecord, State};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, QueryBuilder, Row};
use tokio::task::JoinSet;

use self::pool::{Conn, Pool};
use self::server::{PATIENCE, Purpose, Server, within};
use self::watch::Ears;
use crate::bell::Bell;
use crate::rows::{
    Columns, Names, SELECT_LOG, SELECT_NOTES, add_audit_row, add_row, head_of, integer, note_of, removed_of,
    revision_of,
};
use crate::turn::{self, Turn, Undo};
use crate::{
    AuditQuery, AuditRecord, CommitError, Export, Repair, Restore, Store, StoreError, Unique, chain, digests,
    first_broken, still_kept,
};

/// A transaction that sees one moment. A statement may take as long as it needs, as long as rows come.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = 0";

/// What commits share.
type Writer = turn::Writer<Conn>;

/// What the store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything. The schema is made or migrated if need be.
    Write,
    /// Only to read: nothing is ever written, and the right to `SELECT` is all that it takes.
    Read,
}

#[derive(Debug)]
pub struct Postgres {
    server: Server,
    writer: Arc<Writer>,
    readers: Arc<Pool>,
    bell: Arc<Bell>,
    upkeep: Mutex<JoinSet<()>>,
}

impl Postgres {
    /// Opens `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETER=VALUE&…`, with the parameters of libpq that the driver
    /// knows, and `listen=false`. Must be called within a Tokio runtime, which the background work goes on in until the store
    /// is closed or dropped.
    ///
    /// [`StoreError::NotReady`] when it is opened to read and nobody has made its schema yet.
    pub async fn open(url: &str, access: Access) -> Result<Self, StoreError> {
        let server = Server::parse(url, access)?;
        server.prepare().await?;
        let readers = Arc::new(Pool::new(server.clone()));
        let head = head(&readers).await?;
        Ok(Self::on(server, readers, head))
    }

    /// The same for a server that is away: it is used as it is once it is back. To see that its schema is one that we know is
    /// for another [`Postgres::open`].
    pub fn later(url: &str, access: Access) -> Result<Self, StoreError> {
        let server = Server::parse(url, access)?;
        let readers = Arc::new(Pool::new(server.clone()));
        Ok(Self::on(server, readers, Head::default()))
    }

    fn on(server: Server, readers: Arc<Pool>, head: Head) -> Self {
        let writer = Arc::new(Writer::new(Turn::new(None)));
        let (bell, ears) = (Arc::<Bell>::default(), Arc::<Ears>::default());
        let mut upkeep = JoinSet::new();
        if server.listens() {
            upkeep.spawn(watch::listen(server.clone(), bell.clone(), ears.clone()));
        }
        upkeep.spawn(watch::poll(readers.clone(), bell.clone(), ears, head));
        Postgres {
            server,
            writer,
            readers,
            bell,
            upkeep: Mutex::new(upkeep),
        }
    }

    fn error(&self, error: &sqlx::Error) -> StoreError {
        self.server.error(error)
    }

    fn must_write(&self) -> Result<(), StoreError> {
        match self.server.access() {
            Access::Write => Ok(()),
            Access::Read => Err(self.server.unusable("it was opened to be read only".to_owned())),
        }
    }

    /// After somebody else was faster: whether a later release took over, and if not, the lock, where it is wanted.
    async fn lost(&self, conn: &mut Conn, hold: bool) -> Result<(), StoreError> {
        const LOOK: &str = "SELECT version, compatible FROM flux_resourceset.store";
        const HOLD: &str = "SELECT version, compatible FROM flux_resourceset.store FOR UPDATE";
        let looked = async {
            if hold {
                within(PATIENCE, sqlx::raw_sql(write::BEGIN).execute(&mut **conn)).await?;
            }
            let row = sqlx::query(if hold { HOLD } else { LOOK }).fetch_one(&mut **conn);
            let row = within(PATIENCE, row).await?;
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let (version, compatible) = looked.await.map_err(|e| self.error(&e))?;
        self.server.check(version, compatible)
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
        let mut conn = self.readers.lend().await?;
        let read = async {
            let mut sql = select_log("r.revision, c.idx");
            sql.push(
                "FROM flux_resourceset.revisions r LEFT JOIN flux_resourceset.changes c ON c.revision = r.revision \
                 AND (r.revision > ",
            );
            sql.push_bind(integer(after.0.saturating_add(1)))
                .push(" OR c.idx >= ")
                .push_bind(integer(index))
                .push(") WHERE r.revision > ");
            sql.push_bind(integer(after.0)).push(
                " AND r.revision <= (SELECT max(revision) FROM \
                 (SELECT revision FROM flux_resourceset.revisions WHERE revision > ",
            );
            sql.push_bind(integer(after.0))
                .push(" ORDER BY revision LIMIT ")
                .push_bind(integer(limit))
                .push(") AS page)");
            order_within(&mut sql, bytes);
            let mut rows = sql.build().fetch(&mut *conn);
            let (mut records, mut names, mut size) = (Vec::<RevisionRecord>::new(), Names::default(), 0);
            while let Some(row) = within(PATIENCE, rows.try_next()).await? {
                size += add_row(&mut records, &row, &mut names)?;
                if size >= bytes {
                    break;
                }
            }
            drop(rows);
            // Asked afterwards: what was read while the log was being cut is not to be trusted.
            let checkpoint = compact::checkpoint(&mut conn).await?;
            let before = digest_at(&mut conn, after, checkpoint).await?;
            Ok((records, checkpoint, before))
        };
        let read = read.await;
        let (records, checkpoint, before) = conn.done(read)?;
        still_kept(after, checkpoint)?;
        match first_broken(before, &records, index, bytes) {
            None => Ok(records),
            Some(revision) => {
                let detail = format!("revision {revision} of the log is not what was written; run verify");
                Err(self.server.corrupt(detail))
            }
        }
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        self.must_write()?;
        let records = chain(base, batches);
        let Ok(mut turn) = tokio::time::timeout(PATIENCE, self.writer.lock()).await else {
            return Err(self.server.unavailable("another commit takes too long").into());
        };
        let holds = std::mem::take(&mut turn.holds);
        // Out of its place while it works: if this future is dropped, the connection is too, and the server decides.
        let mut conn = match turn.conn.take() {
            Some(conn) if holds => conn,
            Some(conn) => conn.fresh(&self.server, Purpose::Writing).await?,
            None => Conn::connect(&self.server, Purpose::Writing).await?,
        };
        let known = match turn.total_at(base) {
            Some(total) => Ok((base, Some(total))),
            None => integrity::total_at_head(&mut conn).await,
        };
        let outcome = match known {
            Ok((head, _)) if head != base => Ok(None),
            Ok((_, Some(total))) => {
                let digests = digests(total, batches, &records);
                let written = write::commit(&mut conn, holds, base, batches, &records, &digests).await;
                written.map(|moved| moved.then_some(digests.total))
            }
            Ok((_, None)) => {
                let detail = format!(
                    "the digest of the state at revision {} is not what was written; run verify, then repair",
                    base.revision
                );
                return Err(self.server.corrupt(detail).into());
            }
            Err(e) => Err(e),
        };
        let refused = match outcome {
            Ok(Some(total)) => {
                turn.total = Some((records.last().map_or(base, RevisionRecord::head), total));
                conn.worked();
                turn.conn = Some(conn);
                turn.conflicts = 0;
                self.bell.ring();
                return Ok(records.iter().map(RevisionRecord::head).collect());
            }
            Ok(None) => CommitError::Conflict,
            Err(e) if e.as_database_error().is_none() => return Err(self.error(&e).into()),
            Err(e) if e.as_database_error().is_some_and(|e| e.is_unique_violation()) => {
                if !conn.undo().await {
                    return Err(self.error(&e).into());
                }
                let duplicate = write::duplicate(&mut conn, batches).await;
                // It may be free again by now, if somebody else was faster: then they may try again as well.
                duplicate.map_err(|e| self.error(&e))?.unwrap_or(CommitError::Conflict)
            }
            Err(e) => self.error(&e).into(),
        };
        // What is wrong with the server may be so for this connection only, as to one that has become a standby: it goes.
        if matches!(refused, CommitError::Store(_)) || !conn.undo().await {
            return Err(refused);
        }
        if refused == CommitError::Conflict {
            turn.conflicts += 1;
            let hold = turn.conflicts > 1 && !holds;
            self.lost(&mut conn, hold).await?;
            if hold {
                turn::hold(&self.writer, &mut turn, conn);
                return Err(refused);
            }
        }
        conn.worked();
        turn.conn = Some(conn);
        Err(refused)
    }

    async fn head_moved(&self) {
        self.bell.rung().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = async {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
            within(PATIENCE, sqlx::raw_sql(begin).execute(&mut *conn)).await?;
            let checkpoint = compact::checkpoint(&mut conn).await?;
            let begins = checkpoint.map_or(Revision::ZERO, |checkpoint| checkpoint.head.revision);
            let after = query.starts_after().unwrap_or(begins);
            let records = match after < begins {
                true => Vec::new(),
                false => audit_after(&mut conn, after, query).await?,
            };
            within(PATIENCE, sqlx::raw_sql("COMMIT").execute(&mut *conn)).await?;
            Ok((after, checkpoint, records))
        };
        let read = read.await;
        let (after, checkpoint, records) = conn.done(read)?;
        still_kept(after, checkpoint)?;
        Ok(records)
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
        let restoring = copy::Restoring::begin(&self.server, replace, self.bell.clone());
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
        // Who is still at work closes with the process.
        if let Ok(mut turn) = self.writer.try_lock()
            && let Some(conn) = turn.conn.take()
        {
            turn.holds = false;
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

/// The digest of a revision, or of where the log begins; none if it has no such revision.
async fn digest_at(
    conn: &mut PgConnection,
    revision: Revision,
    checkpoint: Option<Checkpoint>,
) -> sqlx::Result<Option<Digest>> {
    match checkpoint {
        Some(checkpoint) if checkpoint.head.revision == revision => return Ok(Some(checkpoint.head.digest)),
        None if revision == Revision::ZERO => return Ok(Some(Digest::default())),
        _ => {}
    }
    let row = sqlx::query("SELECT revision, digest FROM flux_resourceset.revisions WHERE revision = $1")
        .bind(integer(revision.0))
        .fetch_optional(conn);
    let row = within(PATIENCE, row).await?;
    row.map(|row| Ok(head_of(&row)?.digest)).transpose()
}

/// Begins a query for rows of the log in which each knows the size of those before it. `octet_length` does not unpack what is
/// stored apart.
fn select_log(order: &str) -> QueryBuilder<sqlx::Postgres> {
    let size = "256 + coalesce(octet_length(c.before), 0) + coalesce(octet_length(c.after), 0)";
    QueryBuilder::new(format!(
        "SELECT * FROM ({SELECT_LOG}, sum({size}) OVER (ORDER BY {order}) - ({size}) AS so_far "
    ))
}

/// Ends it. The driver reads all rows of a query, also of one that is dropped, so the server stops near the bound. Text may
/// be longer there than here: the bound is generous, and the reader stops at its own.
fn order_within(sql: &mut QueryBuilder<sqlx::Postgres>, bytes: usize) {
    sql.push(") AS sized WHERE so_far < ")
        .push_bind(integer(bytes.saturating_mul(4)))
        .push(" ORDER BY revision, idx");
}

async fn audit_after(conn: &mut PgConnection, after: Revision, query: &AuditQuery) -> sqlx::Result<Vec<AuditRecord>> {
    let push_from = |sql: &mut QueryBuilder<sqlx::Postgres>| {
        sql.push("FROM flux_resourceset.changes c JOIN flux_resourceset.revisions r ON r.revision = c.revision WHERE ");
        sql.push("c.revision > ").push_bind(integer(after.0));
        for (column, value) in [("c.kind", &query.kind), ("c.id", &query.id), ("r.actor", &query.actor)] {
            if let Some(value) = value {
                sql.push(" AND ")
                    .push(column)
                    .push(" = ")
                    .push_bind(text::put(value).into_owned());
            }
        }
        if let Some((revision, index)) = query.behind {
            sql.push(" AND (c.revision > ").push_bind(integer(revision.0));
            sql.push(" OR c.idx > ").push_bind(integer(index)).push(")");
        }
    };
    let mut sql = select_log("c.revision, c.idx");
    push_from(&mut sql);
    sql.push(" AND c.revision <= (SELECT max(revision) FROM (SELECT c.revision ");
    push_from(&mut sql);
    sql.push(" ORDER BY c.revision LIMIT ").push_bind(integer(query.limit));
    sql.push(") AS page)");
    order_within(&mut sql, query.bytes.unwrap_or(usize::MAX));
    let mut rows = sql.build().fetch(conn);
    let (mut records, mut names, mut size) = (Vec::<AuditRecord>::new(), Names::default(), 0);
    while let Some(row) = within(PATIENCE, rows.try_next()).await? {
        size += add_audit_row(&mut records, &row, &mut names)?;
        if query.bytes.is_some_and(|bytes| size >= bytes) {
            break;
        }
    }
    Ok(records)
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
