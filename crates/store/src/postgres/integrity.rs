//! Reading rows that may be damaged, and repairing them from the log.

use fleet::damage::{Damage, Replay, localise};
use fleet::integrity::{self, Total};
use fleet::log::{Digest, Head, State};
use futures_util::TryStreamExt;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use super::server::{PATIENCE, within};
use super::write::Rows;
use super::{BEGIN_READING, compact};
use crate::repair::{self, Plan};
use crate::rows::{
    Columns, LogReader, SELECT_LOG, SELECT_NOTES, SELECT_RESOURCE, StateReading, head_of, integer, note_of,
};
use crate::{MOST_PROBLEMS, Repair, Unique};

/// Writes the total of the resources at the head.
pub(super) async fn put_total(conn: &mut PgConnection, head: Head, total: Total) -> sqlx::Result<()> {
    let put = sqlx::query("UPDATE flux_resourceset.revisions SET state = $1 WHERE revision = $2")
        .bind(integrity::seal_total(total, head).to_vec())
        .bind(integer(head.revision.0))
        .execute(conn);
    within(PATIENCE, put).await?;
    Ok(())
}

/// The head, and the expected total of the resources there. None if it is damaged.
pub(super) async fn total_at_head(conn: &mut PgConnection) -> sqlx::Result<(Head, Option<Total>)> {
    let sql = "SELECT s.revision, s.digest, r.state FROM flux_resourceset.store s \
         LEFT JOIN flux_resourceset.revisions r ON r.revision = s.revision AND r.digest = s.digest";
    let row = within(PATIENCE, sqlx::query(sql).fetch_one(conn)).await?;
    let head = head_of(&row)?;
    let total = match head == Head::default() {
        true => Some(Total::default()),
        false => row.bytes(2)?.and_then(|column| integrity::open_total(column, head)),
    };
    Ok((head, total))
}

/// The state without damaged resources, which are listed. Must run in a transaction.
pub(super) async fn load(conn: &mut PgConnection) -> sqlx::Result<State> {
    Ok(examine(conn).await?.0)
}

async fn examine(conn: &mut PgConnection) -> sqlx::Result<(State, Option<Total>)> {
    let (head, total) = total_at_head(conn).await?;
    let mut state = StateReading::begin();
    let sql = format!("{SELECT_RESOURCE} FROM flux_resourceset.resources");
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut *conn);
    while let Some(row) = within(PATIENCE, rows.try_next()).await? {
        state.row(row).await;
    }
    drop(rows);
    let state = state.end().await?;
    let (resources, damage) = match state.bad.is_empty() && total == Some(state.total) {
        true => (state.resources, Damage::default()),
        false => {
            let log = read_log(conn, []).await?;
            localise(head, total, state.resources, state.bad, &log.replay)
        }
    };
    let state = State {
        head,
        resources,
        damage,
    };
    Ok((state, total))
}

/// Reads the log, and keeps the documents with these items.
async fn read_log(conn: &mut PgConnection, items: impl IntoIterator<Item = Digest>) -> sqlx::Result<LogReader> {
    let begins = compact::checkpoint(conn).await?;
    let begins = begins.map(|checkpoint| checkpoint.head).unwrap_or_default();
    let mut log = LogReader::new(Replay::wanting(begins, items));
    let sql = format!(
        "{SELECT_LOG} FROM flux_resourceset.revisions r LEFT JOIN flux_resourceset.changes c ON c.revision = r.revision \
         WHERE r.revision > $1 ORDER BY r.revision, c.idx"
    );
    let mut rows = sqlx::query(AssertSqlSafe(sql))
        .bind(integer(begins.revision.0))
        .fetch(&mut *conn);
    // The first rows may take longer, if the server sorts.
    while let Some(row) = within(PATIENCE * 6, rows.try_next()).await? {
        log.row(&row);
    }
    drop(rows);
    log.end();
    Ok(log)
}

/// The problems of the rows, one line each. Must run in a transaction.
pub(super) async fn check(conn: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    let mut problems: Vec<String> = load(conn).await?.damage.lines().collect();
    problems.extend(read_log(conn, []).await?.problems);
    let notes = sqlx::query(AssertSqlSafe(format!("{SELECT_NOTES} FROM flux_resourceset.applied")));
    let notes = within(PATIENCE, notes.fetch_all(&mut *conn)).await?;
    problems.extend(notes.iter().filter_map(|row| Some(note_of(row).err()?.to_string())));
    problems.truncate(MOST_PROBLEMS);
    Ok(problems)
}

/// Plans a repair, and applies it if asked, in one transaction.
pub(super) async fn repair(conn: &mut PgConnection, apply: bool, unique: Unique) -> sqlx::Result<Repair> {
    // Commits wait for the repair.
    const LOCK: &str = "BEGIN; SET CONSTRAINTS flux_resourceset.resources_unique DEFERRED; \
         SELECT 1 FROM flux_resourceset.store FOR UPDATE";
    let begin = if apply { LOCK } else { BEGIN_READING };
    within(PATIENCE, sqlx::raw_sql(begin).execute(&mut *conn)).await?;
    let (
        State {
            head,
            resources,
            damage,
        },
        total,
    ) = examine(conn).await?;
    let log = match damage.is_empty() {
        true => LogReader::new(Replay::default()),
        false => read_log(conn, repair::wanted(&damage)).await?,
    };
    let Plan {
        mut repair,
        resources,
        total,
    } = repair::plan(head, total, resources, &damage, &log.replay, unique);
    let notes = sqlx::query(AssertSqlSafe(format!("{SELECT_NOTES} FROM flux_resourceset.applied")));
    let notes = within(PATIENCE, notes.fetch_all(&mut *conn)).await?;
    for row in notes.iter().filter(|row| note_of(*row).is_err()) {
        repair.steps.push(repair::without_note(&row.some_text(0)?));
        if apply && repair.lost.is_empty() {
            let remove = sqlx::query("DELETE FROM flux_resourceset.applied WHERE key = $1");
            let remove = remove.bind(row.try_get::<String, _>(0)?).execute(&mut *conn);
            within(PATIENCE, remove).await?;
        }
    }
    if apply && repair.lost.is_empty() {
        if let Some(resources) = resources {
            const AT_ONCE: usize = 1024;
            let empty = sqlx::query("DELETE FROM flux_resourceset.resources").execute(&mut *conn);
            within(PATIENCE * 60, empty).await?;
            for part in resources.chunks(AT_ONCE) {
                let mut rows = Rows::default();
                part.iter().for_each(|change| rows.creation(change));
                rows.write(conn, head, head).await?;
            }
        }
        if let Some(total) = total {
            put_total(conn, head, total).await?;
        }
    }
    within(PATIENCE * 2, sqlx::raw_sql("COMMIT").execute(conn)).await?;
    Ok(repair)
}
