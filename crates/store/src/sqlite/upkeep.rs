//! What goes on in the background: noticing other processes' commits, and copying the write-ahead log into the database.

use std::sync::Arc;
use std::time::Duration;

use sqlx::SqliteConnection;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::file::{File, MAX_LOG};
use crate::StoreError;
use crate::bell::Bell;

/// A follower of another process's commits is at most this late.
const POLL: Duration = Duration::from_millis(15);

/// After a failure. Neither a broken disk nor a long read gets better by being asked again at once.
const REST: Duration = Duration::from_secs(1);

/// How much of the log may wait to be copied.
const PENDING: i64 = 4 << 20;

/// How long writers may wait while the log starts over.
const STALL: Duration = Duration::from_millis(50);

/// Rings when `PRAGMA data_version` changes: that is, when any other connection than this one commits, of whatever process.
pub(super) async fn watch(file: File, bell: Arc<Bell>, mut conn: SqliteConnection) {
    let mut seen = None;
    loop {
        match sqlx::query_scalar::<_, i64>("PRAGMA data_version").fetch_one(&mut conn).await {
            Ok(version) => {
                if seen.replace(version).is_some_and(|seen| seen != version) {
                    bell.ring();
                }
                sleep(POLL).await;
            }
            Err(e) => {
                tracing::warn!("cannot follow the store: {}", file.error(&e));
                conn = reconnect(&file).await;
                // The numbers of two connections do not compare.
                seen = None;
                bell.ring();
            }
        }
    }
}

async fn reconnect(file: &File) -> SqliteConnection {
    loop {
        sleep(REST).await;
        if let Ok(conn) = file.connect().await {
            return conn;
        }
    }
}

/// Checkpoints, off the path of the commits, which only say that they were there. One task, hence one at a time.
pub(super) async fn checkpoint(mut file: File, committed: Arc<Notify>) {
    file.options = file.options.busy_timeout(STALL);
    loop {
        committed.notified().await;
        if let Err(e) = checkpoint_while_due(&file, &committed).await {
            tracing::warn!("cannot checkpoint the store: {e}");
            sleep(REST).await;
        }
    }
}

async fn checkpoint_while_due(file: &File, committed: &Notify) -> Result<(), StoreError> {
    let failed = |e: sqlx::Error| file.error(&e);
    let mut conn = file.connect().await?;
    let page: i64 = sqlx::query_scalar("PRAGMA page_size").fetch_one(&mut conn).await.map_err(failed)?;
    loop {
        // The file's size says nothing: it stays as large as it ever was.
        let (_, mut log, copied) = run(&mut conn, "PRAGMA wal_checkpoint(NOOP)").await.map_err(failed)?;
        if (log - copied) * page > PENDING {
            (_, log, _) = run(&mut conn, "PRAGMA wal_checkpoint(PASSIVE)").await.map_err(failed)?;
        }
        // Writers that never pause leave no moment in which everything is copied and the log could start over by itself.
        if log * page > MAX_LOG {
            let (busy, ..) = run(&mut conn, "PRAGMA wal_checkpoint(RESTART)").await.map_err(failed)?;
            if busy != 0 {
                sleep(REST).await;
            }
        }
        committed.notified().await;
    }
}

/// Whether it was hindered, the pages in the log, and those of them that are copied.
async fn run(conn: &mut SqliteConnection, pragma: &'static str) -> sqlx::Result<(i64, i64, i64)> {
    sqlx::query_as(pragma).fetch_one(conn).await
}
