//! Reading a file that may be damaged, and repairing it from the log.

use fleet::damage::{Damage, Replay, localise};
use fleet::integrity::{self, Total};
use fleet::log::{Change, Digest, Head, State};
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use super::script::{Script, created};
use super::{compact, head};
use crate::repair::{self, Plan};
use crate::rows::{Columns, LogReader, SELECT_LOG, SELECT_NOTES, SELECT_RESOURCE, StateReading, integer, note_of};
use crate::{MOST_PROBLEMS, Repair, Unique};

/// Writes the total of the resources at the head.
pub(super) async fn put_total(conn: &mut SqliteConnection, head: Head, total: Total) -> sqlx::Result<()> {
    sqlx::query("UPDATE revisions SET state = ? WHERE revision = ?")
        .bind(integrity::seal_total(total, head).to_vec())
        .bind(integer(head.revision.0))
        .execute(conn)
        .await?;
    Ok(())
}

/// The expected total of the resources at `head`. None if it is damaged.
pub(super) async fn total_at(conn: &mut SqliteConnection, head: Head) -> sqlx::Result<Option<Total>> {
    if head == Head::default() {
        return Ok(Some(Total::default()));
    }
    let row = sqlx::query("SELECT state FROM revisions WHERE revision = ?")
        .bind(integer(head.revision.0))
        .fetch_optional(conn)
        .await?;
    let column = row.as_ref().and_then(|row| row.bytes(0).ok().flatten());
    Ok(column.and_then(|column| integrity::open_total(column, head)))
}

/// The state without damaged resources, which are listed. Must run in a transaction.
pub(super) async fn load(conn: &mut SqliteConnection) -> sqlx::Result<State> {
    Ok(examine(conn).await?.0)
}

async fn examine(conn: &mut SqliteConnection) -> sqlx::Result<(State, Option<Total>)> {
    let head = head(conn).await?;
    let total = total_at(conn, head).await?;
    let mut state = StateReading::begin();
    // Never by an index, which may be damaged.
    let sql = format!("{SELECT_RESOURCE} FROM resources NOT INDEXED");
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut *conn);
    while let Some(row) = rows.try_next().await? {
        state.row(row).await;
    }
    drop(rows);
    let state = state.end().await?;
    let (resources, damage) = match state.bad.is_empty() && total == Some(state.total) {
        true => (state.resources, Damage::default()),
        false => {
            let log = read_log(conn, []).await;
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

/// Reads the log, and keeps the documents with these items. An unreadable log counts as broken.
async fn read_log(conn: &mut SqliteConnection, items: impl IntoIterator<Item = Digest>) -> LogReader {
    let begins = compact::checkpoint(conn).await;
    let unreadable = begins.is_err();
    let begins = begins
        .ok()
        .flatten()
        .map(|checkpoint| checkpoint.head)
        .unwrap_or_default();
    let mut log = LogReader::new(Replay::wanting(begins, items));
    let read = async {
        let sql = format!(
            "{SELECT_LOG} FROM revisions r LEFT JOIN changes c ON c.revision = r.revision WHERE r.revision > ? \
             ORDER BY r.revision, c.idx"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(integer(begins.revision.0));
        let mut rows = query.fetch(&mut *conn);
        while let Some(row) = rows.try_next().await? {
            log.row(&row);
        }
        Ok::<_, sqlx::Error>(())
    };
    let read = read.await;
    log.end();
    if let Err(error) = read {
        log.replay.broken();
        log.problem(format!("the log cannot be read: {error}"));
    }
    if unreadable {
        log.replay.broken();
        log.problem("the checkpoint of the log cannot be read".to_owned());
    }
    log
}

/// The problems of the file, one line each.
pub(super) async fn check(conn: &mut SqliteConnection) -> sqlx::Result<Vec<String>> {
    let mut problems = pages(conn).await?;
    match load(conn).await {
        Ok(state) => problems.extend(state.damage.lines()),
        Err(error) => problems.push(format!("the state cannot be read: {error}")),
    }
    problems.extend(read_log(conn, []).await.problems);
    let notes = sqlx::query(AssertSqlSafe(format!("{SELECT_NOTES} FROM applied")));
    match notes.fetch_all(&mut *conn).await {
        Ok(rows) => problems.extend(rows.iter().filter_map(|row| Some(note_of(row).err()?.to_string()))),
        Err(error) => problems.push(format!("the notes cannot be read: {error}")),
    }
    problems.truncate(MOST_PROBLEMS);
    Ok(problems)
}

/// The problems that SQLite finds in pages and indexes.
async fn pages(conn: &mut SqliteConnection) -> sqlx::Result<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({MOST_PROBLEMS})");
    let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(conn).await?;
    let found = found.iter().flat_map(|text| text.lines()).filter(|line| *line != "ok");
    Ok(found.map(|line| format!("the file is damaged: {line}")).collect())
}

/// Plans a repair, and applies it if asked, in one transaction.
pub(super) async fn repair(conn: &mut SqliteConnection, apply: bool, unique: Unique) -> sqlx::Result<Repair> {
    let begin = if apply { "BEGIN IMMEDIATE" } else { "BEGIN" };
    let mut tx = conn.begin_with(begin).await?;
    let (
        State {
            head,
            resources,
            damage,
        },
        total,
    ) = examine(&mut tx).await?;
    let log = match damage.is_empty() {
        true => LogReader::new(Replay::default()),
        false => read_log(&mut tx, repair::wanted(&damage)).await,
    };
    let Plan {
        mut repair,
        resources,
        total,
    } = repair::plan(head, total, resources, &damage, &log.replay, unique);
    repair.problems = pages(&mut tx).await?;
    for key in bad_notes(&mut tx).await? {
        repair.steps.push(repair::without_note(&key));
        if apply && repair.lost.is_empty() {
            let remove = sqlx::query("DELETE FROM applied WHERE key = ?").bind(key);
            remove.execute(&mut *tx).await?;
        }
    }
    if apply && repair.lost.is_empty() {
        if let Some(resources) = resources {
            rewrite(&mut tx, &resources).await?;
        }
        if let Some(total) = total {
            put_total(&mut tx, head, total).await?;
        }
        if !repair.steps.is_empty() || !repair.problems.is_empty() {
            sqlx::query("REINDEX").execute(&mut *tx).await?;
        }
        tx.commit().await?;
    }
    Ok(repair)
}

/// Rewrites all resources. Deleting all rows empties the indexes, too.
async fn rewrite(conn: &mut SqliteConnection, resources: &[Change]) -> sqlx::Result<()> {
    const AT_ONCE: usize = 1024;
    sqlx::query("DELETE FROM resources").execute(&mut *conn).await?;
    for part in resources.chunks(AT_ONCE) {
        let mut script = Script::new("");
        script.state(&created(part), &[]);
        script.run(conn).await?;
    }
    Ok(())
}

/// The keys of the notes that do not match their digests.
async fn bad_notes(conn: &mut SqliteConnection) -> sqlx::Result<Vec<String>> {
    let sql = format!("{SELECT_NOTES} FROM applied");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(conn).await?;
    let bad = rows.iter().filter(|row| note_of(*row).is_err());
    bad.map(|row| row.try_get(0)).collect()
}

/// The notes beside the state.
pub(super) async fn notes(conn: &mut SqliteConnection) -> sqlx::Result<std::collections::BTreeMap<String, String>> {
    let sql = format!("{SELECT_NOTES} FROM applied");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(conn).await?;
    rows.iter().map(note_of).collect()
}
