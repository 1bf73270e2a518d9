//! Background work: noticing the commits of other processes, and copying the write-ahead log into the database.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sqlx::SqliteConnection;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::WriterLock;
use super::file::{File, MAX_LOG};
use crate::StoreError;
use crate::head_signal::HeadSignal;

/// How often the database is checked for commits of other processes.
const POLL: Duration = Duration::from_millis(15);

/// The pause after a failure. Neither a broken disk nor a long read ends sooner by an immediate retry.
const REST: Duration = Duration::from_secs(1);

/// The size of the log that starts a copy.
const PENDING: i64 = 4 << 20;

/// The pause between two checks of the log's size: a check costs about as much as a small commit.
const LOOK: Duration = Duration::from_millis(20);

/// How long writers may wait while the log restarts.
const STALL: Duration = Duration::from_millis(50);

/// A connection that notices commits: `PRAGMA data_version` changes when any other connection of any process commits.
pub(super) struct Watched {
    conn: SqliteConnection,
    version: i64,
}

impl Watched {
    pub(super) async fn connect(file: &File) -> Result<Self, StoreError> {
        let mut conn = file.connect().await?;
        let version = data_version(&mut conn).await.map_err(|e| file.error(&e))?;
        Ok(Watched { conn, version })
    }

    async fn moved(&mut self) -> sqlx::Result<bool> {
        let version = data_version(&mut self.conn).await?;
        Ok(std::mem::replace(&mut self.version, version) != version)
    }
}

async fn data_version(conn: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("PRAGMA data_version").fetch_one(conn).await
}

pub(super) async fn watch(file: File, head_signal: Arc<HeadSignal>, mut watched: Watched) {
    loop {
        sleep(POLL).await;
        match watched.moved().await {
            Ok(true) => head_signal.notify(),
            Ok(false) => {}
            Err(e) => {
                tracing::warn!("cannot follow the store: {}", file.error(&e));
                watched = reconnect(&file).await;
                // The versions of two connections are not comparable, so a commit may have been missed.
                head_signal.notify();
            }
        }
    }
}

async fn reconnect(file: &File) -> Watched {
    loop {
        sleep(REST).await;
        if let Ok(watched) = Watched::connect(file).await {
            return watched;
        }
    }
}

/// Copies the log into the database, in the background. Commits only signal it. It is one task, so there is one copy at a time.
pub(super) async fn checkpoint(mut file: File, committed: Arc<Notify>, writer: Arc<WriterLock>) {
    file.options = file.options.busy_timeout(STALL);
    loop {
        committed.notified().await;
        let Err(e) = checkpoint_until_it_fails(&file, &committed, &writer).await;
        tracing::warn!("cannot checkpoint the store: {e}");
        sleep(REST).await;
    }
}

async fn checkpoint_until_it_fails(
    file: &File,
    committed: &Notify,
    writer: &WriterLock,
) -> Result<Infallible, StoreError> {
    let failed = |e: sqlx::Error| file.error(&e);
    let mut conn = file.connect().await?;
    let page: i64 = sqlx::query_scalar("PRAGMA page_size")
        .fetch_one(&mut conn)
        .await
        .map_err(failed)?;
    loop {
        // The size of the file does not help: it never shrinks.
        let (_, mut log, copied) = run(&mut conn, "PRAGMA wal_checkpoint(NOOP)").await.map_err(failed)?;
        if (log - copied) * page > PENDING {
            (_, log, _) = run(&mut conn, "PRAGMA wal_checkpoint(PASSIVE)").await.map_err(failed)?;
        }
        // Writers that never pause leave no moment in which everything is copied, so the log cannot restart by itself. Our lock
        // is a fair queue; SQLite's is not.
        if log * page > MAX_LOG {
            let pause = writer.lock().await;
            if pause.holds {
                // Our own open transaction would block the restart.
                drop(pause);
                sleep(STALL).await;
                continue;
            }
            let (busy, ..) = run(&mut conn, "PRAGMA wal_checkpoint(RESTART)").await.map_err(failed)?;
            drop(pause);
            if busy != 0 {
                sleep(REST).await;
            }
        }
        committed.notified().await;
        sleep(LOOK).await;
    }
}

/// Whether it was blocked, the pages in the log, and the copied ones.
async fn run(conn: &mut SqliteConnection, pragma: &'static str) -> sqlx::Result<(i64, i64, i64)> {
    sqlx::query_as(pragma).fetch_one(conn).await
}
