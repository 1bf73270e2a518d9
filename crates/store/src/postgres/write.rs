//! The statement of a commit. It takes arrays of columns, so any number of rows needs one trip to the server.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use fleet::integrity::{Items, Sealed, change_digest, note_digest, seal_row};
use fleet::json::Json;
use fleet::log::{Batch, Change, Head, RevisionRecord};
use fleet::reversal::Reversal;
use fleet::summary::Summary;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use super::server::{KNOWN, PATIENCE, within};
use super::text::put;
use crate::CommitError;
use crate::chain::Digests;
use crate::rows::{Columns, integer};

/// The channel of the notification that a commit sends.
pub(super) const CHANNEL: &str = "flux_resourceset";

/// Moves the head if it is at the expected place, and writes log and state. It is one statement, and so one transaction if it is
/// not part of a larger one. A second writer waits for the first one's lock, finds the head moved, and writes nothing, because
/// all rows are joined to the head's row.
///
/// Changes with a revision go to the log; the last change of each resource goes to the state.
const WRITE: &str = "
    WITH moved AS (
        UPDATE flux_resourceset.store SET revision = $1, digest = $2
        WHERE one AND revision = $3 AND digest = $4 AND compatible <= $5
        RETURNING pg_notify('flux_resourceset', '')
    ), revision AS (
        INSERT INTO flux_resourceset.revisions (revision, at, actor, request_id, reason, digest, removed, state, undoes, redoes, summary)
        SELECT u.* FROM moved, unnest($6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[],
            $12::text[], $13::bytea[], $14::bigint[], $15::bigint[], $16::text[]) AS u
    ), change AS (
        SELECT u.* FROM moved, unnest($17::bigint[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[],
            $23::text[], $24::text[], $25::bool[], $26::bytea[], $27::bytea[])
            AS u (revision, idx, kind, id, origin, before, after, unique_key, last, digest, sealed)
    ), logged AS (
        INSERT INTO flux_resourceset.changes (revision, idx, kind, id, origin, before, after, digest)
        SELECT revision, idx, kind, id, origin, before, after, digest FROM change WHERE revision IS NOT NULL
    ), gone AS (
        DELETE FROM flux_resourceset.resources r USING change c
        WHERE c.last AND c.after IS NULL AND r.kind = c.kind AND r.id = c.id
    ), there AS (
        INSERT INTO flux_resourceset.resources (kind, id, unique_key, origin, body, digest)
        SELECT kind, id, unique_key, origin, after, sealed FROM change WHERE last AND after IS NOT NULL
        ON CONFLICT (kind, id) DO UPDATE
        SET unique_key = excluded.unique_key, origin = excluded.origin, body = excluded.body, digest = excluded.digest
    ), note AS (
        INSERT INTO flux_resourceset.applied (key, value, digest)
        SELECT u.* FROM moved, unnest($28::text[], $29::text[], $30::bytea[]) AS u
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, digest = excluded.digest
    )
    SELECT count(*) FROM moved";

/// The most bytes of one statement: the server holds them in memory. A larger commit is a transaction of several statements.
const PART: usize = 32 << 20;

/// A transaction of several statements checks unique values at its end.
pub(super) const BEGIN: &str = "BEGIN; SET CONSTRAINTS flux_resourceset.resources_unique DEFERRED";

type Text<'a> = Cow<'a, str>;

/// Rows for one statement, by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    revision: Vec<i64>,
    at: Vec<Text<'a>>,
    actor: Vec<Text<'a>>,
    request_id: Vec<Text<'a>>,
    reason: Vec<Option<Text<'a>>>,
    digest: Vec<&'a [u8]>,
    removed: Vec<Option<String>>,
    state: Vec<Option<&'a [u8]>>,
    undoes: Vec<Option<i64>>,
    redoes: Vec<Option<i64>>,
    summary: Vec<String>,
    changed_in: Vec<Option<i64>>,
    index: Vec<i64>,
    kind: Vec<Text<'a>>,
    id: Vec<Text<'a>>,
    origin: Vec<Option<Text<'a>>>,
    before: Vec<Option<Text<'a>>>,
    after: Vec<Option<Text<'a>>>,
    unique: Vec<Option<Text<'a>>>,
    last: Vec<bool>,
    change_digest: Vec<Vec<u8>>,
    sealed: Vec<Vec<u8>>,
    key: Vec<Text<'a>>,
    value: Vec<Text<'a>>,
    note_digest: Vec<Vec<u8>>,
    /// The size in bytes, approximately.
    size: usize,
}

impl<'a> Rows<'a> {
    /// Adds a revision without its changes, with the digest of the state after it, if that is known.
    pub(super) fn revision(&mut self, record: &'a RevisionRecord, state: Option<&'a Sealed>) {
        self.state.push(state.map(|state| &state[..]));
        self.revision.push(integer(record.revision.0));
        self.at.push(put(&record.author.at));
        self.actor.push(put(&record.author.actor));
        self.request_id.push(put(&record.author.request_id));
        self.reason.push(record.author.reason.as_deref().map(put));
        self.digest.push(&record.digest.0);
        let (undoes, redoes) = Reversal::parts(record.author.reversal);
        self.undoes.push(undoes.map(|original| integer(original.0)));
        self.redoes.push(redoes.map(|original| integer(original.0)));
        self.summary
            .push(put(&Summary::of(&record.changes).to_text()).into_owned());
        self.removed
            .push(record.removed_text().map(|text| put(&text).into_owned()));
        self.size += 256
            + self
                .removed
                .last()
                .map_or(0, |removed| removed.as_ref().map_or(0, String::len));
    }

    /// Adds a change: with its position in the log if it belongs there, and whether it is the last of its resource.
    pub(super) fn change(
        &mut self,
        logged: Option<(&RevisionRecord, usize)>,
        change: &'a Change,
        items: Items,
        last: bool,
    ) {
        let digest = logged.map(|(record, index)| change_digest(record.revision, index, change, items).0.to_vec());
        self.change_digest.push(digest.unwrap_or_default());
        let sealed = items
            .after
            .filter(|_| last)
            .map(|item| seal_row(item, change.unique.as_deref(), change.origin.as_deref()).to_vec());
        self.sealed.push(sealed.unwrap_or_default());
        self.changed_in
            .push(logged.map(|(record, _)| integer(record.revision.0)));
        self.index.push(logged.map_or(0, |(_, index)| integer(index)));
        self.kind.push(put(&change.kind));
        self.id.push(put(&change.id));
        self.origin.push(change.origin.as_deref().map(put));
        self.before.push(change.before.as_ref().map(Json::as_str).map(put));
        self.after.push(change.after.as_ref().map(Json::as_str).map(put));
        self.unique.push(change.unique.as_deref().map(put));
        self.last.push(last);
        let body = |body: &Option<Json>| body.as_ref().map_or(0, |body| body.as_str().len());
        self.size += 256 + body(&change.before) + body(&change.after);
    }

    /// Adds a resource without a change in the log.
    pub(super) fn creation(&mut self, change: &'a Change) {
        self.change(None, change, Items::of(change), true);
    }

    /// Adds a note. No two may have the same key.
    pub(super) fn note(&mut self, key: &'a str, value: &'a str) {
        self.note_digest.push(note_digest(key, value).0.to_vec());
        self.key.push(put(key));
        self.value.push(put(value));
    }

    /// Writes the rows and moves the head to `to`, if it is at `from`.
    pub(super) async fn write(self, conn: &mut PgConnection, from: Head, to: Head) -> sqlx::Result<bool> {
        // Large statements take longer: on a slow disk, a second for two megabytes.
        let patience = PATIENCE + Duration::from_secs(self.size as u64 >> 21);
        let query = sqlx::query(WRITE)
            .bind(integer(to.revision.0))
            .bind(&to.digest.0[..])
            .bind(integer(from.revision.0))
            .bind(&from.digest.0[..])
            .bind(KNOWN);
        let query = query
            .bind(self.revision)
            .bind(self.at)
            .bind(self.actor)
            .bind(self.request_id)
            .bind(self.reason)
            .bind(self.digest)
            .bind(self.removed)
            .bind(self.state)
            .bind(self.undoes)
            .bind(self.redoes)
            .bind(self.summary);
        let query = query
            .bind(self.changed_in)
            .bind(self.index)
            .bind(self.kind)
            .bind(self.id)
            .bind(self.origin)
            .bind(self.before)
            .bind(self.after)
            .bind(self.unique)
            .bind(self.last)
            .bind(self.change_digest)
            .bind(self.sealed);
        let query = query.bind(self.key).bind(self.value).bind(self.note_digest);
        let moved: i64 = within(patience, query.fetch_one(conn)).await?.try_get(0)?;
        Ok(moved == 1)
    }
}

/// Runs the whole transaction, or the rest of one that was begun. False if the head is not at `base`. If it is refused or fails,
/// the caller rolls back.
pub(super) async fn commit(
    conn: &mut PgConnection,
    begun: bool,
    base: Head,
    batches: &[Batch],
    records: &[RevisionRecord],
    digests: &Digests,
) -> sqlx::Result<bool> {
    let head = records.last().map_or(base, RevisionRecord::head);
    let mut parts = parts(batches, records, digests);
    if let (false, [_]) = (begun, &*parts) {
        return parts.remove(0).write(conn, base, head).await;
    }
    if !begun {
        within(PATIENCE, sqlx::raw_sql(BEGIN).execute(&mut *conn)).await?;
    }
    let mut from = base;
    for part in parts {
        if !part.write(conn, from, head).await? {
            return Ok(false);
        }
        from = head;
    }
    within(PATIENCE * 2, sqlx::raw_sql("COMMIT").execute(conn)).await?;
    Ok(true)
}

fn parts<'a>(batches: &'a [Batch], records: &'a [RevisionRecord], digests: &'a Digests) -> Vec<Rows<'a>> {
    let last = last_changes(batches);
    let mut parts = Vec::new();
    let mut rows = Rows::default();
    // Only the last note of each key is written.
    let notes: BTreeMap<_, _> = batches
        .iter()
        .flat_map(|batch| &batch.applied)
        .map(|(k, v)| (k, v))
        .collect();
    for (key, value) in notes {
        rows.note(key, value);
    }
    let digests = digests.items.iter().zip(&digests.states);
    for ((batch, record), (items, state)) in batches.iter().zip(records).zip(digests) {
        rows.revision(record, Some(state));
        for (index, (change, items)) in batch.changes.iter().zip(items).enumerate() {
            if rows.size > PART {
                parts.push(std::mem::take(&mut rows));
            }
            let is_last = last
                .get(&(&change.kind, &change.id))
                .is_some_and(|last| std::ptr::eq(*last, change));
            rows.change(Some((record, index)), change, *items, is_last);
        }
    }
    parts.push(rows);
    parts
}

/// The last change of each resource.
fn last_changes(batches: &[Batch]) -> HashMap<(&Arc<str>, &Arc<str>), &Change> {
    let changes = batches.iter().flat_map(|batch| &batch.changes);
    changes.map(|change| ((&change.kind, &change.id), change)).collect()
}

/// The change whose unique value another resource has. PostgreSQL only says that there is one, and ends the transaction.
pub(super) async fn duplicate(conn: &mut PgConnection, batches: &[Batch]) -> sqlx::Result<Option<CommitError>> {
    let last = last_changes(batches);
    let changes = batches.iter().flat_map(|batch| &batch.changes);
    let wanted: Vec<(&Change, &str)> = changes
        .filter(|change| change.after.is_some() && std::ptr::eq(last[&(&change.kind, &change.id)], *change))
        .filter_map(|change| Some((change, change.unique.as_deref()?)))
        .collect();
    let column = |of: fn(&(&'_ Change, &'_ str)) -> String| wanted.iter().map(of).collect::<Vec<_>>();
    let sql = "SELECT r.kind, r.unique_key, r.id FROM flux_resourceset.resources r, unnest($1::text[], $2::text[]) \
         AS u (kind, unique_key) WHERE r.kind = u.kind AND r.unique_key = u.unique_key";
    let owners = sqlx::query(sql)
        .bind(column(|(change, _)| put(&change.kind).into_owned()))
        .bind(column(|(_, value)| put(value).into_owned()))
        .fetch_all(conn);
    let mut taken = HashSet::<(Arc<str>, String)>::new();
    for owner in within(PATIENCE, owners).await? {
        let text = |column| Ok::<_, sqlx::Error>(owner.some_text(column)?.into_owned());
        let (kind, value, id): (Arc<str>, _, Arc<str>) = (text(0)?.into(), text(1)?, text(2)?.into());
        // Values that these changes move themselves are checked below.
        if !last.contains_key(&(&kind, &id)) {
            taken.insert((kind, value));
        }
    }
    let duplicate = wanted
        .into_iter()
        .find(|(change, value)| !taken.insert((change.kind.clone(), (*value).to_owned())));
    Ok(duplicate.map(|(change, _)| CommitError::duplicate(change)))
}
