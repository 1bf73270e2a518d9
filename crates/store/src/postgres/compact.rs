//! Compaction: a checkpoint replaces old revisions at once, and their rows are deleted in small steps.

use fleet::log::{Checkpoint, Head, Revision};
use sqlx::postgres::PgConnection;

use super::Postgres;
use super::server::{PATIENCE, Purpose, within};
use crate::CommitError;
use crate::rows::{checkpoint_of, head_of, integer};

/// The rows that are deleted in one step. Writers do not wait, but a long transaction would block vacuum.
const AT_ONCE: i64 = 2000;

/// Deletes the rows, changes first, so that readers never see a revision without its changes.
const SWEEPS: [&str; 2] = [
    "DELETE FROM flux_resourceset.changes WHERE ctid = ANY (ARRAY( \
         SELECT ctid FROM flux_resourceset.changes WHERE revision <= $1 ORDER BY revision LIMIT $2))",
    "DELETE FROM flux_resourceset.revisions WHERE ctid = ANY (ARRAY( \
         SELECT ctid FROM flux_resourceset.revisions WHERE revision <= $1 ORDER BY revision LIMIT $2))",
];

pub(super) async fn checkpoint(conn: &mut PgConnection) -> sqlx::Result<Option<Checkpoint>> {
    let row = sqlx::query("SELECT revision, digest, state FROM flux_resourceset.checkpoint").fetch_optional(conn);
    let row = within(PATIENCE, row).await?;
    row.map(|row| checkpoint_of(&row)).transpose()
}

pub(super) async fn put(conn: &mut PgConnection, checkpoint: Checkpoint) -> sqlx::Result<()> {
    let sql = "INSERT INTO flux_resourceset.checkpoint (revision, digest, state) VALUES ($1, $2, $3) \
         ON CONFLICT (one) DO UPDATE SET revision = excluded.revision, digest = excluded.digest, state = excluded.state";
    let put = sqlx::query(sql)
        .bind(integer(checkpoint.head.revision.0))
        .bind(&checkpoint.head.digest.0[..])
        .bind(&checkpoint.state.0[..])
        .execute(conn);
    within(PATIENCE, put).await?;
    Ok(())
}

impl Postgres {
    pub(super) async fn cut(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        // A separate connection, so that commits of this process continue.
        let mut conn = self.server.connect(Purpose::Writing).await?;
        let cut = async {
            if !place(&mut conn, checkpoint).await? {
                return Ok(false);
            }
            for sweep in SWEEPS {
                loop {
                    let swept = sqlx::query(sweep)
                        .bind(integer(checkpoint.head.revision.0))
                        .bind(AT_ONCE)
                        .execute(&mut conn);
                    // On a busy disk, a step may take a while.
                    if within(PATIENCE * 6, swept).await?.rows_affected() == 0 {
                        break;
                    }
                }
            }
            Ok(true)
        };
        let done = cut.await.map_err(|e| self.error(&e))?;
        if done { Ok(()) } else { Err(CommitError::Conflict) }
    }
}

/// Stores a checkpoint. False if its revision cannot be compacted.
async fn place(conn: &mut PgConnection, wanted: Checkpoint) -> sqlx::Result<bool> {
    // Commits and other compactions wait for this transaction.
    let lock = "BEGIN; SELECT 1 FROM flux_resourceset.store FOR UPDATE";
    within(PATIENCE, sqlx::raw_sql(lock).execute(&mut *conn)).await?;
    let placed = placed(conn, wanted).await?;
    within(PATIENCE, sqlx::raw_sql("COMMIT").execute(conn)).await?;
    Ok(placed)
}

async fn placed(conn: &mut PgConnection, wanted: Checkpoint) -> sqlx::Result<bool> {
    let now = checkpoint(conn).await?;
    if now == Some(wanted) {
        return Ok(true);
    }
    let sql = "SELECT r.revision, r.digest FROM flux_resourceset.revisions r, flux_resourceset.store s \
         WHERE r.revision = $1 AND r.revision < s.revision";
    let row = sqlx::query(sql)
        .bind(integer(wanted.head.revision.0))
        .fetch_optional(&mut *conn);
    let there: Option<Head> = within(PATIENCE, row).await?.map(|row| head_of(&row)).transpose()?;
    let begins = now.map_or(Revision::ZERO, |now| now.head.revision);
    if there != Some(wanted.head) || wanted.head.revision <= begins {
        return Ok(false);
    }
    put(conn, wanted).await?;
    Ok(true)
}
