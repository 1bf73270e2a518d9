//! Rows of the SQL engines, read the same way: columns by number.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use fleet::damage::{BadRow, Replay};
use fleet::integrity::{self, Items, Total};
use fleet::json::Json;
use fleet::log::{
    Author, Change, Checkpoint, Digest, Head, Removed, Resource, Revision, RevisionRecord, overrides_from_text,
};
use fleet::reversal::{LastReversals, Reversal};
use fleet::summary::{RevisionSummary, Summary};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{AuditRecord, MOST_PROBLEMS, size_of_changes};

/// The columns of a row; null is `None`.
pub(crate) trait Columns {
    fn integer(&self, column: usize) -> sqlx::Result<Option<i64>>;

    fn text(&self, column: usize) -> sqlx::Result<Option<Cow<'_, str>>>;

    fn bytes(&self, column: usize) -> sqlx::Result<Option<&[u8]>>;

    fn some_text(&self, column: usize) -> sqlx::Result<Cow<'_, str>> {
        some(self.text(column)?)
    }
}

fn some<T>(value: Option<T>) -> sqlx::Result<T> {
    value.ok_or_else(|| sqlx::Error::Decode("a column that is never null is null".into()))
}

/// The columns for [`add_row`] and [`add_audit_row`].
pub(crate) const SELECT_LOG: &str = "SELECT r.revision, r.digest, r.at, r.actor, r.request_id, r.reason, \
     c.idx, c.kind, c.id, c.before, c.after, c.origin, r.removed, c.digest, r.undoes, r.redoes, r.summary ";

/// The number of columns of [`SELECT_LOG`].
pub(crate) const LOG_COLUMNS: usize = 17;

/// The columns for [`resource_of`].
pub(crate) const SELECT_RESOURCE: &str = "SELECT kind, id, body, origin, unique_key, digest ";

/// Columns 0 and 1: a revision and its digest.
pub(crate) fn head_of(row: &impl Columns) -> sqlx::Result<Head> {
    Ok(Head {
        revision: revision_of(row)?,
        digest: digest_of(row, 1)?,
    })
}

pub(crate) fn revision_of(row: &impl Columns) -> sqlx::Result<Revision> {
    Ok(Revision(some(row.integer(0)?)? as u64))
}

fn digest_of(row: &impl Columns, column: usize) -> sqlx::Result<Digest> {
    let digest = some(row.bytes(column)?)?.try_into();
    let digest = digest.map_err(|_| sqlx::Error::Decode("a digest that is not 32 bytes long".into()))?;
    Ok(Digest(digest))
}

/// A head, and the digest of the state in column 2.
pub(crate) fn checkpoint_of(row: &impl Columns) -> sqlx::Result<Checkpoint> {
    Ok(Checkpoint {
        head: head_of(row)?,
        state: digest_of(row, 2)?,
    })
}

/// A row of the state. An error if it is damaged.
pub(crate) fn resource_of(row: &impl Columns, names: &mut Names) -> sqlx::Result<Resource> {
    match read_resource(row, names) {
        Ok((resource, _)) => Ok(resource),
        Err(bad) => {
            let BadRow { found, detail, .. } = *bad;
            let name = found.map_or_else(
                || "a resource".to_owned(),
                |found| format!("{}/{}", found.kind, found.id),
            );
            Err(sqlx::Error::Decode(format!("{name}: {detail}").into()))
        }
    }
}

/// A row of the state and its item, or the readable part of a damaged row.
fn read_resource(row: &impl Columns, names: &mut Names) -> Result<(Resource, Digest), Box<BadRow>> {
    let stored = row.bytes(5).ok().flatten().and_then(integrity::sealed_item);
    let bad = |found, detail: &str| {
        let detail = detail.to_owned();
        Box::new(BadRow { found, stored, detail })
    };
    let mut read = || -> sqlx::Result<(Resource, Option<String>)> {
        let resource = Resource {
            kind: names.share(&row.some_text(0)?),
            id: (*row.some_text(1)?).into(),
            body: Json::from_canonical(&*row.some_text(2)?),
            origin: row.text(3)?.map(|origin| names.share(&origin)),
        };
        Ok((resource, row.text(4)?.map(Cow::into_owned)))
    };
    let Ok((resource, unique)) = read() else {
        return Err(bad(None, "its columns have values that are never written"));
    };
    let item = integrity::item(&resource.kind, &resource.id, &resource.body);
    let sealed = integrity::seal_row(item, unique.as_deref(), resource.origin.as_deref());
    match row.bytes(5) {
        Ok(Some(column)) if column == sealed => Ok((resource, item)),
        Ok(None) => Err(bad(Some(resource), "it has no digest")),
        _ => Err(bad(Some(resource), "it does not match its digest")),
    }
}

/// Reads the rows of the state, including damaged ones.
#[derive(Debug, Default)]
pub(crate) struct StateReader {
    names: Names,
    pub(crate) resources: Vec<Resource>,
    pub(crate) total: Total,
    pub(crate) bad: Vec<BadRow>,
}

impl StateReader {
    fn row(&mut self, row: &impl Columns) {
        match read_resource(row, &mut self.names) {
            Ok((resource, item)) => {
                self.total.add(item);
                self.resources.push(resource);
            }
            Err(bad) => self.bad.push(*bad),
        }
    }
}

/// Rows of the state on their way to a thread that reads them, while the next ones arrive: to compute the digests of a large fleet takes
/// about as long as to fetch it.
#[derive(Debug)]
pub(crate) struct StateReading<R> {
    next: Vec<R>,
    sender: mpsc::Sender<Vec<R>>,
    reader: JoinHandle<StateReader>,
}

impl<R: Columns + Send + 'static> StateReading<R> {
    const AT_ONCE: usize = 512;

    pub(crate) fn begin() -> Self {
        let (sender, mut rows) = mpsc::channel::<Vec<R>>(4);
        let reader = tokio::task::spawn_blocking(move || {
            let mut state = StateReader::default();
            while let Some(rows) = rows.blocking_recv() {
                rows.iter().for_each(|row| state.row(row));
            }
            state
        });
        StateReading {
            next: Vec::new(),
            sender,
            reader,
        }
    }

    pub(crate) async fn row(&mut self, row: R) {
        self.next.push(row);
        if self.next.len() >= Self::AT_ONCE {
            self.send().await;
        }
    }

    async fn send(&mut self) {
        // Fails only if the thread panicked, and then it has no result either.
        let _ = self.sender.send(std::mem::take(&mut self.next)).await;
    }

    pub(crate) async fn end(mut self) -> sqlx::Result<StateReader> {
        self.send().await;
        drop(self.sender);
        self.reader.await.map_err(|_| sqlx::Error::WorkerCrashed)
    }
}

/// Reads the rows of the log in order, including damaged ones.
#[derive(Debug)]
pub(crate) struct LogReader {
    names: Names,
    /// The revision that is being read.
    pending: Vec<RevisionRecord>,
    /// The summary that is stored with it; none if it cannot be read.
    summary: Option<Summary>,
    pub(crate) replay: Replay,
    /// The problems, one line each, at most [`MOST_PROBLEMS`].
    pub(crate) problems: Vec<String>,
}

impl LogReader {
    pub(crate) fn new(replay: Replay) -> Self {
        LogReader {
            names: Names::default(),
            pending: Vec::new(),
            summary: None,
            replay,
            problems: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, row: &impl Columns) {
        if let Err(error) = add_row(&mut self.pending, row, &mut self.names) {
            self.replay.broken();
            self.problem(format!("the log is damaged: {error}"));
        }
        if self.pending.len() > 1 {
            let record = self.pending.remove(0);
            self.finish(&record);
        }
        self.summary = summary_of(row, 16).ok();
    }

    fn finish(&mut self, record: &RevisionRecord) {
        if self.summary.take() != Some(Summary::of(&record.changes)) {
            self.problem(format!(
                "the summary of revision {} does not match its changes",
                record.revision
            ));
        }
        self.replay.record(record);
    }

    /// Ends the log, after the last row.
    pub(crate) fn end(&mut self) {
        for record in std::mem::take(&mut self.pending) {
            self.finish(&record);
        }
    }

    pub(crate) fn problem(&mut self, problem: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

/// A note beside the state (`key, value, digest`). An error if it is damaged.
pub(crate) fn note_of(row: &impl Columns) -> sqlx::Result<(String, String)> {
    let (key, value) = (row.some_text(0)?, row.some_text(1)?);
    match row.bytes(2)? == Some(&integrity::note_digest(&key, &value).0) {
        true => Ok((key.into_owned(), value.into_owned())),
        false => {
            let detail = format!("the note {key:?} beside the state does not match its digest");
            Err(sqlx::Error::Decode(detail.into()))
        }
    }
}

/// The columns for [`note_of`].
pub(crate) const SELECT_NOTES: &str = "SELECT key, value, digest ";

/// Adds a row of the log to the revisions; it may belong to the last one. Returns its size.
pub(crate) fn add_row(records: &mut Vec<RevisionRecord>, row: &impl Columns, names: &mut Names) -> sqlx::Result<usize> {
    let head = head_of(row)?;
    if records.last().is_none_or(|record| record.revision != head.revision) {
        records.push(RevisionRecord {
            revision: head.revision,
            author: author_of(row, 14, 12)?,
            changes: Vec::new(),
            removed: removed_of(row, 12)?,
            digest: head.digest,
        });
    }
    let (Some(record), Some((_, change))) = (records.last_mut(), change_of(row, names)?) else {
        return Ok(0);
    };
    let size = size_of_changes([&change]);
    record.changes.push(change);
    Ok(size)
}

/// Adds a row of the log to the records; it may share the author of the last one. Returns its size.
pub(crate) fn add_audit_row(
    records: &mut Vec<AuditRecord>,
    row: &impl Columns,
    names: &mut Names,
) -> sqlx::Result<usize> {
    let revision = revision_of(row)?;
    let author = match records.last() {
        Some(last) if last.revision == revision => last.author.clone(),
        _ => Arc::new(author_of(row, 14, 12)?),
    };
    let Some((index, change)) = change_of(row, names)? else {
        return Ok(0);
    };
    let size = size_of_changes([&change]);
    records.push(AuditRecord {
        revision,
        index,
        author,
        change,
    });
    Ok(size)
}

/// Columns 2 to 5, the revision that is undone or redone in two columns elsewhere, and the overridden guards in another.
fn author_of(row: &impl Columns, reversal: usize, overrides: usize) -> sqlx::Result<Author> {
    let original = |column| Ok::<_, sqlx::Error>(row.integer(column)?.map(|number| Revision(number as u64)));
    let reversal = Reversal::from_parts(original(reversal)?, original(reversal + 1)?);
    Ok(Author {
        at: row.some_text(2)?.into_owned(),
        actor: row.some_text(3)?.into_owned(),
        request_id: row.some_text(4)?.into_owned(),
        reason: row.text(5)?.map(Cow::into_owned),
        reversal: reversal.map_err(|e| sqlx::Error::Decode(e.into()))?,
        overrides: overrides_from_text(row.text(overrides)?.as_deref()).map_err(|e| sqlx::Error::Decode(e.into()))?,
    })
}

/// The columns for [`revision_summary_of`], of `revisions r`; the last two are added by [`last_reversals`].
pub(crate) const SELECT_REVISION: &str = "SELECT r.revision, r.digest, r.at, r.actor, r.request_id, r.reason, \
     r.undoes, r.redoes, r.summary, CASE WHEN r.removed LIKE '{\"overrides\"%' THEN r.removed END";

/// The last undo and the last redo of the revision that a row is about, as two columns.
pub(crate) fn last_reversals(revisions: &str) -> String {
    let original = "coalesce(r.undoes, r.redoes, r.revision)";
    format!(
        ", (SELECT max(u.revision) FROM {revisions} u WHERE u.undoes = {original})\
         , (SELECT max(u.revision) FROM {revisions} u WHERE u.redoes = {original}) "
    )
}

pub(crate) fn revision_summary_of(row: &impl Columns) -> sqlx::Result<RevisionSummary> {
    let (revision, author) = (revision_of(row)?, author_of(row, 6, 9)?);
    let last = |column| Ok::<_, sqlx::Error>(row.integer(column)?.map(|number| Revision(number as u64)));
    let last = LastReversals {
        undo: last(10)?,
        redo: last(11)?,
    };
    Ok(RevisionSummary {
        revision,
        reversed_by: last.reverses(revision, author.reversal),
        author,
        changes: summary_of(row, 8)?,
    })
}

fn summary_of(row: &impl Columns, column: usize) -> sqlx::Result<Summary> {
    Summary::from_text(&row.some_text(column)?).map_err(|e| sqlx::Error::Decode(e.into()))
}

pub(crate) fn removed_of(row: &impl Columns, column: usize) -> sqlx::Result<Removed> {
    Removed::from_text(row.text(column)?.as_deref()).map_err(|e| sqlx::Error::Decode(e.into()))
}

/// The change and its index. None in a revision without changes.
fn change_of(row: &impl Columns, names: &mut Names) -> sqlx::Result<Option<(usize, Change)>> {
    let Some(index) = row.integer(6)? else {
        return Ok(None);
    };
    let body = |column| Ok::<_, sqlx::Error>(row.text(column)?.map(|body| Json::from_canonical(&*body)));
    let change = Change {
        kind: names.share(&row.some_text(7)?),
        id: (*row.some_text(8)?).into(),
        before: body(9)?,
        after: body(10)?,
        origin: row.text(11)?.map(|origin| names.share(&origin)),
        unique: None,
        keeps_unique: false,
    };
    // Rows of builds before digests have none; the chain of revisions covers them.
    if let Some(digest) = row.bytes(13)? {
        let revision = revision_of(row)?;
        let expected = integrity::change_digest(revision, index as usize, &change, Items::of(&change));
        if digest != expected.0 {
            let detail = format!("change {index} of revision {revision} does not match its digest");
            return Err(sqlx::Error::Decode(detail.into()));
        }
    }
    Ok(Some((index as usize, change)))
}

/// The change that creates a resource of a backup.
pub(crate) fn creation(resource: Resource, unique: Option<String>) -> Change {
    Change {
        kind: resource.kind,
        id: resource.id,
        before: None,
        after: Some(resource.body),
        origin: resource.origin,
        unique,
        keeps_unique: false,
    }
}

/// Shares the allocation of equal strings: a million resources have only a few kinds.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    fn share(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(shared) => shared.clone(),
            None => {
                let shared: Arc<str> = name.into();
                self.0.insert(shared.clone());
                shared
            }
        }
    }
}

/// SQL integers are signed. Larger numbers, which come only from requests, become the largest one.
pub(crate) fn integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
