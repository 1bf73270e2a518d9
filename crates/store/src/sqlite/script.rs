//! The statements that write the log and the state.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fleet::integrity::{Items, Sealed, change_digest, note_digest, seal_row};
use fleet::json::Json;
use fleet::log::{Batch, Change, Digest, Head, RevisionRecord};
use fleet::reversal::Reversal;
use fleet::summary::Summary;
use sqlx::{QueryBuilder, SqliteConnection};

use super::SELECT_HEAD;
use crate::chain::Digests;
use crate::rows::integer;

/// The most rows that one statement writes.
const AT_ONCE: usize = 64;

/// The statements of one transaction, sent together: a trip to the connection's thread costs more than a small statement.
pub(super) struct Script {
    sql: QueryBuilder<sqlx::Sqlite>,
    rows: usize,
}

impl Script {
    pub(super) fn new(opening: &str) -> Self {
        Script {
            sql: QueryBuilder::new(opening),
            rows: 0,
        }
    }

    /// Appends the revisions to the log. If `base` is given, only if that is the head: otherwise the first row gets no digest,
    /// which its column refuses, and the transaction fails. That saves the trip of a query for the head.
    pub(super) fn log(&mut self, records: &[RevisionRecord], digests: &Digests, base: Option<Head>) {
        self.revisions(records, digests, base);
        let items = digests.items.iter().flatten();
        let changes: Vec<_> = records.iter().flat_map(RevisionRecord::records).zip(items).collect();
        for rows in changes.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO changes (revision, idx, kind, id, origin, before, after, digest) ");
            self.sql.push_values(rows, |mut row, (record, items)| {
                row.push_bind(integer(record.revision.0))
                    .push_bind(integer(record.index));
                row.push_bind(record.change.kind.clone())
                    .push_bind(record.change.id.clone());
                row.push_bind(record.change.origin.clone());
                row.push_bind(record.change.before.as_ref().map(Json::as_str));
                row.push_bind(record.change.after.as_ref().map(Json::as_str));
                let digest = change_digest(record.revision, record.index, record.change, **items);
                row.push_bind(digest.0.to_vec());
            });
            self.end(rows.len());
        }
    }

    fn revisions(&mut self, records: &[RevisionRecord], digests: &Digests, mut base: Option<Head>) {
        let with_states: Vec<_> = records.iter().zip(&digests.states).collect();
        for rows in with_states.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO revisions (revision, at, actor, request_id, reason, undoes, redoes, removed, state, summary, digest) ");
            self.sql.push_values(rows, |mut row, (record, state)| {
                row.push_bind(integer(record.revision.0))
                    .push_bind(&record.author.at)
                    .push_bind(&record.author.actor);
                row.push_bind(&record.author.request_id)
                    .push_bind(&record.author.reason);
                let (undoes, redoes) = Reversal::parts(record.author.reversal);
                row.push_bind(undoes.map(|original| integer(original.0)))
                    .push_bind(redoes.map(|original| integer(original.0)));
                row.push_bind(record.removed_text())
                    .push_bind(&state[..])
                    .push_bind(Summary::of(&record.changes).to_text());
                let Some(base) = base.take() else {
                    row.push_bind(&record.digest.0[..]);
                    return;
                };
                let (revision, digest) = match base == Head::default() {
                    true => (None, None),
                    false => (Some(integer(base.revision.0)), Some(base.digest.0.to_vec())),
                };
                row.push("CASE WHEN (")
                    .push_unseparated(SELECT_HEAD)
                    .push_unseparated(") IS (");
                row.push_bind_unseparated(revision).push_unseparated(", ");
                row.push_bind_unseparated(digest).push_unseparated(") THEN ");
                row.push_bind_unseparated(&record.digest.0[..]);
                row.push_unseparated(" END");
            });
            self.end(rows.len());
        }
    }

    /// Brings the state from one revision to another.
    pub(super) fn state(&mut self, changes: &[NetChange<'_>], notes: &[&(String, String)]) {
        let keeps_row =
            |(change, _): &&NetChange<'_>| change.before.is_some() && change.after.is_some() && change.keeps_unique;
        let (updated, moved): (Vec<_>, Vec<_>) = changes.iter().partition(keeps_row);
        self.update(&updated);
        // All deletions come before any insertion, so that two resources can swap their unique values.
        self.delete(&moved);
        self.insert(&moved);
        for (key, value) in notes {
            self.sql.push("INSERT INTO applied (key, value, digest) VALUES (");
            self.sql.push_bind(key).push(", ").push_bind(value).push(", ");
            self.sql.push_bind(note_digest(key, value).0.to_vec());
            self.sql
                .push(") ON CONFLICT (key) DO UPDATE SET value = excluded.value, digest = excluded.digest");
            self.end(1);
        }
    }

    /// Most writes change a body. The row is written in place and no index is touched: the inserted row has no unique value, so it
    /// conflicts only with the existing row, which keeps its own.
    fn update(&mut self, changes: &[&NetChange<'_>]) {
        for rows in changes.chunks(AT_ONCE) {
            self.sql.push("INSERT INTO resources (kind, id, origin, body, digest) ");
            self.sql.push_values(rows, |mut row, (change, item)| {
                row.push_bind(change.kind.clone()).push_bind(change.id.clone());
                row.push_bind(change.origin.clone())
                    .push_bind(change.after.as_ref().map(Json::as_str))
                    .push_bind(sealed(change, *item).to_vec());
            });
            self.sql.push(
                " ON CONFLICT (kind, id) DO UPDATE \
                 SET origin = excluded.origin, body = excluded.body, digest = excluded.digest",
            );
            self.end(rows.len());
        }
    }

    fn delete(&mut self, changes: &[&NetChange<'_>]) {
        let deleted = changes.iter().map(|(change, _)| &**change);
        let mut deleted: Vec<&Change> = deleted.filter(|change| change.before.is_some()).collect();
        deleted.sort_by_key(|change| &change.kind);
        let by_kind = deleted.chunk_by(|a, b| a.kind == b.kind);
        for rows in by_kind.flat_map(|kind| kind.chunks(AT_ONCE)) {
            // One kind per statement uses the index; for a list of pairs, SQLite may scan the table.
            self.sql.push("DELETE FROM resources WHERE kind = ");
            self.sql.push_bind(rows[0].kind.clone()).push(" AND id IN (");
            let mut ids = self.sql.separated(", ");
            for change in rows {
                ids.push_bind(change.id.clone());
            }
            self.sql.push(")");
            self.end(rows.len());
        }
    }

    fn insert(&mut self, changes: &[&NetChange<'_>]) {
        let inserted: Vec<_> = changes
            .iter()
            .filter_map(|(change, item)| Some((change, *item, change.after.as_ref()?)))
            .collect();
        for rows in inserted.chunks(AT_ONCE) {
            self.sql
                .push("INSERT INTO resources (kind, id, unique_key, origin, body, digest) ");
            self.sql.push_values(rows, |mut row, (change, item, body)| {
                row.push_bind(change.kind.clone()).push_bind(change.id.clone());
                row.push_bind(&change.unique)
                    .push_bind(change.origin.clone())
                    .push_bind(body.as_str())
                    .push_bind(sealed(change, *item).to_vec());
            });
            self.end(rows.len());
        }
    }

    fn end(&mut self, rows: usize) {
        self.sql.push("; ");
        self.rows += rows;
    }

    pub(super) async fn commit(mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        // Small scripts recur and stay prepared; the text of a large one is a megabyte and never the same again.
        const MOST_PREPARED: usize = 64;
        let prepared = self.rows <= MOST_PREPARED;
        self.sql
            .push("COMMIT")
            .build()
            .persistent(prepared)
            .execute(conn)
            .await?;
        Ok(())
    }

    /// Runs the script within a transaction of the caller.
    pub(super) async fn run(mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        if self.rows > 0 {
            self.sql.build().persistent(false).execute(conn).await?;
        }
        Ok(())
    }
}

/// A change of the state, and the digest of the resource after it.
pub(super) type NetChange<'a> = (Cow<'a, Change>, Option<Digest>);

/// The net effect of the batches, from the first `before` of each resource to its last `after`: a transaction writes the state
/// once, however many batches share it.
pub(super) fn net<'a>(batches: &'a [Batch], items: &[Vec<Items>]) -> (Vec<NetChange<'a>>, Vec<&'a (String, String)>) {
    let mut net: Vec<NetChange<'a>> = Vec::new();
    let mut places = HashMap::new();
    for (batch, items) in batches.iter().zip(items) {
        for (change, items) in batch.changes.iter().zip(items) {
            match places.entry((&change.kind, &change.id)) {
                Entry::Vacant(place) => {
                    place.insert(net.len());
                    net.push((Cow::Borrowed(change), items.after));
                }
                Entry::Occupied(place) => {
                    let (first, item) = &mut net[*place.get()];
                    *first = Cow::Owned(Change {
                        before: first.before.clone(),
                        keeps_unique: first.keeps_unique && change.keeps_unique,
                        ..change.clone()
                    });
                    *item = items.after;
                }
            }
        }
    }
    (net, batches.iter().flat_map(|batch| &batch.applied).collect())
}

/// The same for resources that are created.
pub(super) fn created(changes: &[Change]) -> Vec<NetChange<'_>> {
    let net = changes
        .iter()
        .map(|change| (Cow::Borrowed(change), Items::of(change).after));
    net.collect()
}

/// The digest column of the resource after a change.
fn sealed(change: &Change, item: Option<Digest>) -> Sealed {
    seal_row(
        item.unwrap_or_default(),
        change.unique.as_deref(),
        change.origin.as_deref(),
    )
}
