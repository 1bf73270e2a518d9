//! Lists of revisions, and the last changes of resources.

use fleet::log::Revision;
use futures_util::TryStreamExt;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, QueryBuilder, Row};

use super::server::{PATIENCE, within};
use super::{Postgres, text};
use crate::rows::{
    LOG_COLUMNS, Names, SELECT_LOG, SELECT_REVISION, add_audit_row, integer, last_reversals, revision_summary_of,
};
use crate::{AuditRecord, LastChange, RevisionPage, RevisionQuery, StoreError};

type Sql = QueryBuilder<sqlx::Postgres>;

/// Where the log begins.
const BEGINS: &str = "(SELECT coalesce(max(revision), 0) FROM flux_resourceset.checkpoint)";

impl Postgres {
    pub(super) async fn read_revisions(&self, query: &RevisionQuery) -> Result<RevisionPage, StoreError> {
        let mut conn = self.readers.lend().await?;
        let read = async {
            // Both queries see the same moment.
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
            within(PATIENCE, sqlx::raw_sql(begin).execute(&mut *conn)).await?;
            let page = page(&mut conn, query).await?;
            within(PATIENCE, sqlx::raw_sql("COMMIT").execute(&mut *conn)).await?;
            Ok(page)
        };
        let read = read.await;
        conn.done(read)
    }

    pub(super) async fn read_last_changes(
        &self,
        wanted: &[LastChange<'_>],
    ) -> Result<Vec<Option<AuditRecord>>, StoreError> {
        let sql = format!(
            "{SELECT_LOG}, w.n FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS w (kind, id, before, n) \
             CROSS JOIN LATERAL (SELECT l.* FROM flux_resourceset.changes l \
                 WHERE l.id = w.id AND l.kind = w.kind AND l.revision < w.before AND l.revision > {BEGINS} \
                 ORDER BY l.revision DESC LIMIT 1) AS c \
             JOIN flux_resourceset.revisions r ON r.revision = c.revision"
        );
        let mut conn = self.readers.lend().await?;
        let read = async {
            let query = sqlx::query(AssertSqlSafe(sql))
                .bind(column(wanted, |wanted| text::put(wanted.kind).into_owned()))
                .bind(column(wanted, |wanted| text::put(wanted.id).into_owned()))
                .bind(column(wanted, |wanted| integer(wanted.before.0)));
            let mut rows = query.fetch(&mut *conn);
            let mut found: Vec<Option<AuditRecord>> = wanted.iter().map(|_| None).collect();
            let (mut records, mut names) = (Vec::new(), Names::default());
            while let Some(row) = within(PATIENCE, rows.try_next()).await? {
                add_audit_row(&mut records, &row, &mut names)?;
                let number: i64 = row.try_get(LOG_COLUMNS)?;
                if let (Some(record), Some(found)) = (records.pop(), found.get_mut(number as usize - 1)) {
                    *found = Some(record);
                }
            }
            Ok(found)
        };
        let read = read.await;
        conn.done(read)
    }
}

fn column<T>(wanted: &[LastChange<'_>], of: impl Fn(&LastChange<'_>) -> T) -> Vec<T> {
    wanted.iter().map(of).collect()
}

async fn page(conn: &mut PgConnection, query: &RevisionQuery) -> sqlx::Result<RevisionPage> {
    let mut sql = candidates(query);
    sql.push(SELECT_REVISION)
        .push(last_reversals("flux_resourceset.revisions"));
    sql.push("FROM candidates k JOIN flux_resourceset.revisions r ON r.revision = k.revision WHERE true");
    push_filters(&mut sql, query);
    sql.push(" ORDER BY k.revision DESC LIMIT ")
        .push_bind(integer(query.limit));
    let rows = within(PATIENCE * 2, sql.build().fetch_all(&mut *conn)).await?;
    let found: Vec<_> = rows.iter().map(revision_summary_of).collect::<sqlx::Result<_>>()?;
    let mut examined = (0, None);
    if found.len() < query.limit {
        let mut sql = candidates(query);
        sql.push("SELECT count(*), min(revision) FROM candidates");
        let row = within(PATIENCE * 2, sql.build().fetch_one(conn)).await?;
        let oldest: Option<i64> = row.try_get(1)?;
        examined = (
            row.try_get::<i64, _>(0)? as usize,
            oldest.map(|oldest| Revision(oldest as u64)),
        );
    }
    Ok(RevisionPage::new(found, query, examined))
}

fn put(value: &str) -> String {
    text::put(value).into_owned()
}

/// The revisions that an index finds, newest first. Begins a query.
fn candidates(query: &RevisionQuery) -> Sql {
    let mut sql = Sql::new("WITH candidates (revision) AS (SELECT ");
    // An id may have been used for several kinds in one revision.
    match (&query.id, &query.kind) {
        (Some(id), kind) => {
            sql.push("DISTINCT c.revision FROM flux_resourceset.changes c WHERE c.id = ");
            sql.push_bind(put(id));
            if let Some(kind) = kind {
                sql.push(" AND c.kind = ").push_bind(put(kind));
            }
        }
        (None, _) => {
            sql.push("c.revision FROM flux_resourceset.revisions c WHERE true");
            if let Some(actor) = &query.actor {
                sql.push(" AND c.actor = ").push_bind(put(actor));
            }
        }
    }
    sql.push(" AND c.revision > ").push(BEGINS);
    if let Some(before) = query.before {
        sql.push(" AND c.revision < ").push_bind(integer(before.0));
    }
    if query.since.is_some() || query.until.is_some() {
        // `+ 0` keeps the planner from searching for the lowest and the highest revision by number.
        for (operator, aggregate) in [(">=", "min"), ("<=", "max")] {
            sql.push(format_args!(
                " AND c.revision {operator} (SELECT {aggregate}(t.revision + 0) FROM flux_resourceset.revisions t WHERE true"
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
        sql.push(format_args!(" AND {table}.at >= ")).push_bind(put(since));
    }
    if let Some(until) = &query.until {
        sql.push(format_args!(" AND {table}.at < ")).push_bind(put(until));
    }
}

fn push_filters(sql: &mut Sql, query: &RevisionQuery) {
    if let Some(actor) = &query.actor {
        sql.push(" AND r.actor = ").push_bind(put(actor));
    }
    push_times(sql, "r", query);
    if let Some(reason) = &query.reason {
        sql.push(" AND strpos(r.reason, ").push_bind(put(reason)).push(") > 0");
    }
    if let (Some(kind), None) = (&query.kind, &query.id) {
        sql.push(" AND EXISTS (SELECT FROM flux_resourceset.changes c WHERE c.kind = ");
        sql.push_bind(put(kind)).push(" AND c.revision = r.revision)");
    }
}
