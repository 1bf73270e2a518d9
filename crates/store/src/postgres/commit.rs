//! Commits: the lock, the one statement, and what to do when another process was faster.

use fleet::integrity::Total;
use fleet::log::{Batch, Head, RevisionRecord};
use sqlx::Row;

use super::pool::Conn;
use super::server::{PATIENCE, Purpose, within};
use super::{Postgres, integrity, write};
use crate::chain::{chain, digests};
use crate::writer_lock::{self, Rollback};
use crate::{CommitError, StoreError};

/// What became of a commit.
enum Outcome {
    /// Written: the total of the state after it.
    Written(Total),
    /// The head was not at the base.
    Lost,
    Failed(sqlx::Error),
}

impl Postgres {
    pub(super) async fn append(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        self.must_write()?;
        let records = chain(base, batches);
        let Ok(mut writer) = tokio::time::timeout(PATIENCE, self.writer.lock()).await else {
            return Err(self.server.unavailable("another commit takes too long").into());
        };
        let holds = std::mem::take(&mut writer.holds);
        // Taken out: if this future is dropped, the connection is dropped too, and the server decides.
        let mut conn = match writer.conn.take() {
            Some(conn) if holds => conn,
            Some(conn) => conn.fresh(&self.server, Purpose::Writing).await?,
            None => Conn::connect(&self.server, Purpose::Writing).await?,
        };
        let known = writer.total_at(base);
        let refused = match self.write(&mut conn, holds, base, known, batches, &records).await? {
            Outcome::Written(total) => {
                writer.total = Some((records.last().map_or(base, RevisionRecord::head), total));
                conn.worked();
                writer.conn = Some(conn);
                writer.conflicts = 0;
                self.head_signal.notify();
                return Ok(records.iter().map(RevisionRecord::head).collect());
            }
            Outcome::Lost => CommitError::Conflict,
            Outcome::Failed(error) => self.refusal(&mut conn, error, batches).await?,
        };
        // A server error may be about this connection only, for example if the server became a standby: it is dropped.
        if matches!(refused, CommitError::Store(_)) || !conn.roll_back().await {
            return Err(refused);
        }
        if refused == CommitError::Conflict {
            writer.conflicts += 1;
            let hold = writer.conflicts > 1 && !holds;
            self.check_release(&mut conn, hold).await?;
            if hold {
                writer_lock::hold(&self.writer, &mut writer, conn);
                return Err(refused);
            }
        }
        conn.worked();
        writer.conn = Some(conn);
        Err(refused)
    }

    /// Writes the batches if the head is at `base`. `known` is the total of the state there, if no query is needed for it.
    async fn write(
        &self,
        conn: &mut Conn,
        holds: bool,
        base: Head,
        known: Option<Total>,
        batches: &[Batch],
        records: &[RevisionRecord],
    ) -> Result<Outcome, StoreError> {
        let (head, total) = match known {
            Some(total) => (base, Some(total)),
            None => match integrity::total_at_head(conn).await {
                Ok(found) => found,
                Err(error) => return Ok(Outcome::Failed(error)),
            },
        };
        if head != base {
            return Ok(Outcome::Lost);
        }
        let Some(total) = total else {
            let detail = format!(
                "the digest of the state at revision {} is damaged; run verify, then repair",
                base.revision
            );
            return Err(self.server.corrupt(detail));
        };
        let digests = digests(total, batches, records);
        let written = write::commit(conn, holds, base, batches, records, &digests).await;
        Ok(match written {
            Ok(true) => Outcome::Written(digests.total),
            Ok(false) => Outcome::Lost,
            Err(error) => Outcome::Failed(error),
        })
    }

    /// What a failed statement means. An error if the connection cannot be used any more.
    async fn refusal(&self, conn: &mut Conn, error: sqlx::Error, batches: &[Batch]) -> Result<CommitError, StoreError> {
        let Some(database) = error.as_database_error() else {
            return Err(self.error(&error));
        };
        if !database.is_unique_violation() {
            return Ok(self.error(&error).into());
        }
        if !conn.roll_back().await {
            return Err(self.error(&error));
        }
        let duplicate = write::duplicate(conn, batches).await;
        // If another process was faster, the value may be free again by now: the caller may try again.
        let duplicate = duplicate.map_err(|e| self.error(&e))?;
        Ok(duplicate.unwrap_or(CommitError::Conflict))
    }

    /// After a lost commit: checks whether a later release has migrated the database. With `hold`, takes the lock for the next try.
    async fn check_release(&self, conn: &mut Conn, hold: bool) -> Result<(), StoreError> {
        const READ: &str = "SELECT version, compatible FROM flux_resourceset.store";
        const LOCK: &str = "SELECT version, compatible FROM flux_resourceset.store FOR UPDATE";
        let read = async {
            if hold {
                within(PATIENCE, sqlx::raw_sql(write::BEGIN).execute(&mut **conn)).await?;
            }
            let row = sqlx::query(if hold { LOCK } else { READ }).fetch_one(&mut **conn);
            let row = within(PATIENCE, row).await?;
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let (version, compatible) = read.await.map_err(|e| self.error(&e))?;
        self.server.check(version, compatible)
    }
}
