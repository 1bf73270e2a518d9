//! Commits: one transaction for all batches, usually in one trip to the connection's thread.

use std::collections::HashSet;

use fleet::integrity::Total;
use fleet::log::{Batch, Head, RevisionRecord};
use sqlx::SqliteConnection;
use sqlx::error::ErrorKind;

use super::script::{NetChange, Script, net};
use super::{Sqlite, head, integrity};
use crate::chain::{chain, digests};
use crate::writer_lock::{self, Rollback};
use crate::{CommitError, Store, StoreError};

impl Sqlite {
    pub(super) async fn append(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
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
        let mut writer = self.writer.lock().await;
        self.file.check()?;
        let holds = std::mem::take(&mut writer.holds);
        // Taken out: if this future is dropped, the connection is dropped too, and SQLite rolls back.
        let mut conn = match writer.conn.take() {
            Some(conn) => conn,
            None => self.file.connect().await?,
        };
        let known = writer.total_at(base);
        let refused = match self.write(&mut conn, holds, base, known, batches, &records).await {
            Ok(Ok(total)) => {
                writer.total = records.last().map(|record| (record.head(), total));
                writer.conn = Some(conn);
                writer.conflicts = 0;
                self.head_signal.notify();
                self.committed.notify_one();
                self.marker.moved();
                return Ok(records.iter().map(RevisionRecord::head).collect());
            }
            Ok(Err(refused)) => refused,
            Err(e) => self.error(&e).into(),
        };
        writer.total = None;
        if refused == CommitError::Conflict {
            writer.conflicts += 1;
            if writer.conflicts > 1 && !holds {
                writer_lock::hold(&self.writer, &mut writer, conn);
                return Err(refused);
            }
        }
        if conn.roll_back().await {
            writer.conn = Some(conn);
        }
        Err(refused)
    }

    /// Runs the whole transaction, in one trip if the total of the state at `base` is `known`. Returns the total after it. If it is
    /// refused or fails, the caller rolls back.
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
                "the digest of the state at revision {} is damaged; run verify, then repair",
                head.revision
            ),
        }
    }
}

/// The change whose unique value another resource has. SQLite only says that there is one.
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

impl Rollback for SqliteConnection {
    async fn roll_back(&mut self) -> bool {
        // This fails if SQLite has rolled back by itself (a full disk), and if the connection is broken.
        sqlx::query("ROLLBACK").execute(self).await.is_ok()
    }
}
