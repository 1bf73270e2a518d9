//! Lists of revisions, and the last changes of resources.

use fleet::log::Revision;
use futures_util::TryStreamExt;
use sqlx::{Connection, QueryBuilder, Row};

use super::{Sqlite, lend};
use crate::rows::{
    LOG_COLUMNS, Names, SELECT_LOG, SELECT_REVISION, add_audit_row, integer, last_reversals, revision_summary_of,
};
use crate::{AuditRecord, LastChange, RevisionPage, RevisionQuery};

type Sql = QueryBuilder<sqlx::Sqlite>;

/// Where the log begins.
const BEGINS: &str = "(SELECT ifnull(max(revision), 0) FROM checkpoint)";

impl Sqlite {
    pub(super) async fn read_revisions(&self, query: &RevisionQuery) -> sqlx::Result<RevisionPage> {
        let mut reader = lend(&self.readers).await?;
        // Both queries see the same moment.
        let mut tx = reader.begin().await?;
        let mut sql = candidates(query);
        sql.push(SELECT_REVISION).push(last_reversals("revisions"));
        sql.push("FROM candidates k CROSS JOIN revisions r WHERE r.revision = k.revision");
        push_filters(&mut sql, query);
        sql.push(" ORDER BY k.revision DESC LIMIT ")
            .push_bind(integer(query.limit));
        let rows = sql.build().fetch_all(&mut *tx).await?;
        let found: Vec<_> = rows.iter().map(revision_summary_of).collect::<sqlx::Result<_>>()?;
        let mut examined = (0, None);
        if found.len() < query.limit {
            let mut sql = candidates(query);
            sql.push("SELECT count(*), min(revision) FROM candidates");
            let row = sql.build().fetch_one(&mut *tx).await?;
            let oldest: Option<i64> = row.try_get(1)?;
            examined = (
                row.try_get::<i64, _>(0)? as usize,
                oldest.map(|oldest| Revision(oldest as u64)),
            );
        }
        Ok(RevisionPage::new(found, query, examined))
    }

    pub(super) async fn read_last_changes(&self, wanted: &[LastChange<'_>]) -> sqlx::Result<Vec<Option<AuditRecord>>> {
        let mut found: Vec<Option<AuditRecord>> = wanted.iter().map(|_| None).collect();
        if wanted.is_empty() {
            return Ok(found);
        }
        let mut sql = Sql::new("WITH wanted (n, kind, id, before) AS (");
        sql.push_values(wanted.iter().enumerate(), |mut row, (n, wanted)| {
            row.push_bind(integer(n)).push_bind(wanted.kind.to_owned());
            row.push_bind(wanted.id.to_owned()).push_bind(integer(wanted.before.0));
        });
        sql.push(format_args!(") {SELECT_LOG}, w.n FROM wanted w "));
        sql.push("CROSS JOIN changes c INDEXED BY changes_by_resource CROSS JOIN revisions r ");
        sql.push("WHERE c.id = w.id AND c.kind = w.kind AND r.revision = c.revision AND c.revision = (");
        sql.push("SELECT max(l.revision) FROM changes l INDEXED BY changes_by_resource ");
        sql.push("WHERE l.id = w.id AND l.kind = w.kind AND l.revision < w.before AND l.revision > ");
        sql.push(BEGINS).push(")");
        let mut reader = lend(&self.log_readers).await?;
        let mut rows = sql.build().fetch(&mut *reader);
        let (mut records, mut names) = (Vec::new(), Names::default());
        while let Some(row) = rows.try_next().await? {
            add_audit_row(&mut records, &row, &mut names)?;
            let place: i64 = row.try_get(LOG_COLUMNS)?;
            if let (Some(record), Some(found)) = (records.pop(), found.get_mut(place as usize)) {
                *found = Some(record);
            }
        }
        Ok(found)
    }
}

/// The revisions that an index finds, newest first. Begins a query.
fn candidates(query: &RevisionQuery) -> Sql {
    let mut sql = Sql::new("WITH candidates (revision) AS (SELECT ");
    // An id may have been used for several kinds in one revision.
    match (&query.id, &query.kind) {
        (Some(id), kind) => {
            sql.push("DISTINCT c.revision FROM changes c INDEXED BY changes_by_resource WHERE c.id = ");
            sql.push_bind(id.clone());
            if let Some(kind) = kind {
                sql.push(" AND c.kind = ").push_bind(kind.clone());
            }
        }
        (None, _) => {
            sql.push("c.revision FROM revisions c WHERE true");
            if let Some(actor) = &query.actor {
                sql.push(" AND c.actor = ").push_bind(actor.clone());
            }
        }
    }
    sql.push(" AND c.revision > ").push(BEGINS);
    if let Some(before) = query.before {
        sql.push(" AND c.revision < ").push_bind(integer(before.0));
    }
    if query.since.is_some() || query.until.is_some() {
        // `+ 0` keeps SQLite from searching for the lowest and the highest revision by number.
        for (operator, aggregate) in [(">=", "min"), ("<=", "max")] {
            sql.push(format_args!(
                " AND c.revision {operator} (SELECT {aggregate}(t.revision + 0) FROM revisions t \
                 INDEXED BY revisions_by_time WHERE t.at >= ''"
            ));
            push_times(&mut sql, "t", query);
            sql.push(")");
        }
    }
    sql.push(" ORDER BY c.revision DESC LIMIT ")
        .push_bind(integer(query.most_candidates()));
    sql.push(") ");
    sql
}

fn push_times(sql: &mut Sql, table: &str, query: &RevisionQuery) {
    if let Some(since) = &query.since {
        sql.push(format_args!(" AND {table}.at >= ")).push_bind(since.clone());
    }
    if let Some(until) = &query.until {
        sql.push(format_args!(" AND {table}.at < ")).push_bind(until.clone());
    }
}

fn push_filters(sql: &mut Sql, query: &RevisionQuery) {
    if let Some(actor) = &query.actor {
        sql.push(" AND r.actor = ").push_bind(actor.clone());
    }
    push_times(sql, "r", query);
    if let Some(reason) = &query.reason {
        sql.push(" AND instr(r.reason, ")
            .push_bind(reason.clone())
            .push(") > 0");
    }
    if let (Some(kind), None) = (&query.kind, &query.id) {
        sql.push(" AND EXISTS (SELECT 1 FROM changes c INDEXED BY changes_by_kind WHERE c.kind = ");
        sql.push_bind(kind.clone()).push(" AND c.revision = r.revision)");
    }
}
