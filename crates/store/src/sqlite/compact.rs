//! Compaction: a checkpoint replaces old revisions at once, and their rows are deleted in small steps.

use std::time::Duration;

use fleet::log::{Checkpoint, Head, Revision};
use sqlx::{Connection, SqliteConnection};

use super::{Sqlite, head};
use crate::CommitError;
use crate::rows::{checkpoint_of, head_of, integer};

/// The rows that are deleted in one step. Other writers wait during a step.
const AT_ONCE: i64 = 2000;

/// The pause between two steps. SQLite's lock has no queue, so other writers need a moment in which it is free.
const PAUSE: Duration = Duration::from_millis(5);

/// Deletes the rows, changes first, so that readers never see a revision without its changes.
const SWEEPS: [&str; 2] = [
    "DELETE FROM changes WHERE rowid IN (SELECT rowid FROM changes WHERE revision <= ? ORDER BY revision LIMIT ?)",
    "DELETE FROM revisions WHERE revision IN (SELECT revision FROM revisions WHERE revision <= ? ORDER BY revision LIMIT ?)",
];

pub(super) async fn checkpoint(conn: &mut SqliteConnection) -> sqlx::Result<Option<Checkpoint>> {
    let row = sqlx::query("SELECT revision, digest, state FROM checkpoint")
        .fetch_optional(conn)
        .await?;
    row.map(|row| checkpoint_of(&row)).transpose()
}

pub(super) async fn put(conn: &mut SqliteConnection, checkpoint: Checkpoint) -> sqlx::Result<()> {
    sqlx::query("INSERT OR REPLACE INTO checkpoint (only, revision, digest, state) VALUES (1, ?, ?, ?)")
        .bind(integer(checkpoint.head.revision.0))
        .bind(checkpoint.head.digest.0.to_vec())
        .bind(checkpoint.state.0.to_vec())
        .execute(conn)
        .await?;
    Ok(())
}

impl Sqlite {
    pub(super) async fn cut(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        // A separate connection: commits of this process compete with it like those of other processes.
        let mut conn = self.file.connect().await?;
        let cut = async {
            if !place(&mut conn, checkpoint).await? {
                return Ok(false);
            }
            for sweep in SWEEPS {
                loop {
                    let swept = sqlx::query(sweep)
                        .bind(integer(checkpoint.head.revision.0))
                        .bind(AT_ONCE);
                    if swept.execute(&mut conn).await?.rows_affected() == 0 {
                        break;
                    }
                    self.committed.notify_one();
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Ok(true)
        };
        let done = cut.await.map_err(|e| self.error(&e))?;
        conn.close().await.map_err(|e| self.error(&e))?;
        if done { Ok(()) } else { Err(CommitError::Conflict) }
    }
}

/// Stores a checkpoint. False if its revision cannot be compacted.
async fn place(conn: &mut SqliteConnection, wanted: Checkpoint) -> sqlx::Result<bool> {
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
    if checkpoint(&mut tx).await? == Some(wanted) {
        return Ok(true);
    }
    let sql = "SELECT revision, digest FROM revisions \
         WHERE revision = ? AND revision > (SELECT ifnull(max(revision), 0) FROM checkpoint)";
    let row = sqlx::query(sql)
        .bind(integer(wanted.head.revision.0))
        .fetch_optional(&mut *tx)
        .await?;
    let there: Option<Head> = row.map(|row| head_of(&row)).transpose()?;
    let last: Revision = head(&mut tx).await?.revision;
    if there != Some(wanted.head) || wanted.head.revision >= last {
        return Ok(false);
    }
    put(&mut tx, wanted).await?;
    tx.commit().await?;
    Ok(true)
}
