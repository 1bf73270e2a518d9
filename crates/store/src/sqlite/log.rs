//! Reading the log: whole revisions, and single records by filter.

use fleet::log::{Checkpoint, Digest, Revision, RevisionRecord};
use futures_util::TryStreamExt;
use sqlx::QueryBuilder;

use super::{Sqlite, lend};
use crate::chain::{first_broken, still_kept};
use crate::rows::{Names, SELECT_LOG, add_audit_row, add_row, head_of, integer};
use crate::{AuditQuery, AuditRecord, Store, StoreError};

impl Sqlite {
    pub(super) async fn read_log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError> {
        let read = async {
            let mut sql = QueryBuilder::new(SELECT_LOG);
            sql.push("FROM revisions r LEFT JOIN changes c ON c.revision = r.revision AND (r.revision > ");
            sql.push_bind(integer(after.0.saturating_add(1)));
            sql.push(" OR c.idx >= ")
                .push_bind(integer(index))
                .push(") WHERE r.revision > ");
            sql.push_bind(integer(after.0));
            sql.push(" AND r.revision <= (SELECT max(revision) FROM (SELECT revision FROM revisions WHERE revision > ");
            sql.push_bind(integer(after.0))
                .push(" ORDER BY revision LIMIT ")
                .push_bind(integer(limit));
            sql.push(")) ORDER BY r.revision, c.idx");
            let mut reader = lend(&self.log_readers).await?;
            let mut rows = sql.build().fetch(&mut *reader);
            let (mut records, mut names, mut size) = (Vec::<RevisionRecord>::new(), Names::default(), 0);
            while let Some(row) = rows.try_next().await? {
                size += add_row(&mut records, &row, &mut names)?;
                if size >= bytes {
                    break;
                }
            }
            Ok(records)
        };
        let records = read.await.map_err(|e| self.error(&e))?;
        // The checkpoint is read afterwards: if the log was cut meanwhile, the records may be incomplete.
        let checkpoint = self.checkpoint().await?;
        still_kept(after, checkpoint)?;
        let before = self.digest_at(after, checkpoint).await.map_err(|e| self.error(&e))?;
        match first_broken(before, &records, index, bytes) {
            None => Ok(records),
            Some(revision) => Err(StoreError::Corrupt {
                place: self.file.place(),
                detail: format!("revision {revision} of the log does not match its digest; run verify"),
            }),
        }
    }

    pub(super) async fn read_audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        let mut checkpoint = self.checkpoint().await?;
        loop {
            let begins = || {
                checkpoint
                    .map(|checkpoint| checkpoint.head.revision)
                    .unwrap_or_default()
            };
            let after = query.starts_after().unwrap_or_else(begins);
            let read = self.audit_after(after, query).await;
            let records = read.map_err(|e| self.error(&e))?;
            // The checkpoint is read afterwards, as above. A query without a start accepts that the log begins later now.
            checkpoint = self.checkpoint().await?;
            match still_kept(after, checkpoint) {
                Ok(()) => return Ok(records),
                Err(_) if query.starts_after().is_none() => {}
                Err(gone) => return Err(gone),
            }
        }
    }

    async fn audit_after(&self, after: Revision, query: &AuditQuery) -> sqlx::Result<Vec<AuditRecord>> {
        // A short page of a long log must not read more than the page. The planner has no statistics, so the query decides: SQLite
        // runs a CROSS JOIN in the order it is written; the outer table has the bounds and gives the order. The `+` keeps the
        // planner from applying the bounds to the inner table in place of its key.
        let (tables, outer, inner) = match query {
            AuditQuery { id: Some(_), .. } => (
                "changes c INDEXED BY changes_by_resource CROSS JOIN revisions r",
                "c",
                "r",
            ),
            AuditQuery { actor: Some(_), .. } => ("revisions r CROSS JOIN changes c", "r", "c"),
            AuditQuery { kind: Some(_), .. } => {
                ("changes c INDEXED BY changes_by_kind CROSS JOIN revisions r", "c", "r")
            }
            _ => ("changes c CROSS JOIN revisions r", "c", "r"),
        };
        let push_from = |sql: &mut QueryBuilder<sqlx::Sqlite>| {
            sql.push(format_args!(
                "FROM {tables} WHERE {inner}.revision = +{outer}.revision AND {outer}.revision > "
            ));
            sql.push_bind(integer(after.0));
            for (column, value) in [("c.kind", &query.kind), ("c.id", &query.id), ("r.actor", &query.actor)] {
                if let Some(value) = value {
                    sql.push(" AND ").push(column).push(" = ").push_bind(value);
                }
            }
            if let Some((revision, index)) = query.behind {
                sql.push(" AND (+c.revision > ").push_bind(integer(revision.0));
                sql.push(" OR +c.idx > ").push_bind(integer(index)).push(")");
            }
        };
        let mut sql = QueryBuilder::new(SELECT_LOG);
        push_from(&mut sql);
        sql.push(format_args!(
            " AND {outer}.revision <= (SELECT max(revision) FROM (SELECT {outer}.revision "
        ));
        push_from(&mut sql);
        sql.push(format_args!(" ORDER BY {outer}.revision LIMIT "))
            .push_bind(integer(query.limit));
        sql.push(format_args!(")) ORDER BY {outer}.revision, c.idx"));
        let mut reader = lend(&self.log_readers).await?;
        let mut rows = sql.build().fetch(&mut *reader);
        let (mut records, mut names, mut size) = (Vec::<AuditRecord>::new(), Names::default(), 0);
        while let Some(row) = rows.try_next().await? {
            size += add_audit_row(&mut records, &row, &mut names)?;
            if query.bytes.is_some_and(|bytes| size >= bytes) {
                break;
            }
        }
        Ok(records)
    }

    /// The digest of a revision of the log, or of where the log begins.
    async fn digest_at(&self, revision: Revision, checkpoint: Option<Checkpoint>) -> sqlx::Result<Option<Digest>> {
        match checkpoint {
            Some(checkpoint) if checkpoint.head.revision == revision => return Ok(Some(checkpoint.head.digest)),
            None if revision == Revision::ZERO => return Ok(Some(Digest::default())),
            _ => {}
        }
        let row = sqlx::query("SELECT revision, digest FROM revisions WHERE revision = ?")
            .bind(integer(revision.0))
            .fetch_optional(&mut *lend(&self.readers).await?)
            .await?;
        row.map(|row| Ok(head_of(&row)?.digest)).transpose()
    }
}
