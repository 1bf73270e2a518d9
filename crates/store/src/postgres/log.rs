//! Reading the log: whole revisions, and single records by filter.

use fleet::log::{Checkpoint, Digest, Revision, RevisionRecord};
use futures_util::TryStreamExt;
use sqlx::QueryBuilder;
use sqlx::postgres::PgConnection;

use super::server::{PATIENCE, within};
use super::{Postgres, compact, text};
use crate::chain::{first_broken, still_kept};
use crate::rows::{Names, SELECT_LOG, add_audit_row, add_row, head_of, integer};
use crate::{AuditQuery, AuditRecord, StoreError};

impl Postgres {
    pub(super) async fn read_log(
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
            // The checkpoint is read afterwards: if the log was cut meanwhile, the records may be incomplete.
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
                let detail = format!("revision {revision} of the log does not match its digest; run verify");
                Err(self.server.corrupt(detail))
            }
        }
    }

    pub(super) async fn read_audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
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
}

/// The digest of a revision of the log, or of where the log begins.
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

/// Begins a query for rows of the log, each with the total size of the rows before it. `octet_length` does not decompress values
/// that are stored out of line.
fn select_log(order: &str) -> QueryBuilder<sqlx::Postgres> {
    let size = "256 + coalesce(octet_length(c.before), 0) + coalesce(octet_length(c.after), 0)";
    QueryBuilder::new(format!(
        "SELECT * FROM ({SELECT_LOG}, sum({size}) OVER (ORDER BY {order}) - ({size}) AS so_far "
    ))
}

/// Ends such a query. The driver reads all rows of a query, even of a dropped one, so the server must stop near the bound. Text
/// may be longer on the server than here: its bound is generous, and the reader stops at the exact one.
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
