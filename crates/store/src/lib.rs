//! Stores of revisions: one small trait, one engine per database, one conformance suite for all of them.
//!
//! The trait knows nothing of clusters or kinds. A store appends batches to a log, keeps the state that the log leads to, and
//! signals when the head moved; everything else (validation, history, rollback, the feed) is built on that.

mod chain;
mod evidence;
mod head_signal;
mod memory;
mod postgres;
mod repair;
mod rows;
mod sqlite;
mod writer_lock;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use fleet::json::Json;
use fleet::log::{
    Author, Batch, Change, ChangeRecord, Checkpoint, Head, Removed, Resource, Revision, RevisionRecord, State,
};

pub use evidence::{EvidenceRow, SharedEvidence};
use fleet::summary::RevisionSummary;
pub use memory::Memory;
pub use postgres::{Access, Postgres, PostgresEvidence};
pub use sqlite::{Sqlite, SqliteEvidence};

#[async_trait]
pub trait Store: Send + Sync + Debug + 'static {
    /// The whole state at the head, in one consistent read and in no particular order. Damaged resources are left out, and listed
    /// in [`State::damage`].
    async fn load(&self) -> Result<State, StoreError>;

    /// The end of the log. A follower compares it with its own.
    async fn head(&self) -> Result<Head, StoreError>;

    /// Whether `head` is in this log: its end, one of its revisions, or its begin. A follower with another head has another
    /// history and must load everything again. That happens after a restore, and after a failover to a standby that lacks the
    /// last commits.
    async fn holds(&self, head: Head) -> Result<bool, StoreError>;

    /// The identity of the store: a random name that changes when the store is created again or filled from a backup. Digests
    /// show that two histories differ; the epoch shows why: if it is the same, commits were lost.
    async fn epoch(&self) -> Result<String, StoreError>;

    /// The revisions after `after`, ascending, at most `limit`. A revision is never split. [`StoreError::Compacted`] if some of
    /// them were compacted.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<RevisionRecord>, StoreError> {
        self.log(after, 0, limit, usize::MAX).await
    }

    /// The same in parts, for readers that must not hold a large revision in memory. The changes of the first revision begin at
    /// `index`. Reading stops at the change that reaches `bytes` ([`size_of_changes`]): then the last revision may have more
    /// changes. If it has none, the next part begins with that revision, without changes.
    async fn log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError>;

    /// Appends `batches` as the revisions after `base`, all or nothing and durable, and returns the head after each.
    ///
    /// `base` is compared with its digest: the same number with another digest belongs to another history (a restored backup),
    /// and is a conflict. Each batch names a resource at most once; its `before` is the state after `base` and the batches before
    /// it.
    ///
    /// After [`CommitError::Store`], and if the returned future is dropped, the outcome is unknown: the transaction may have become
    /// durable just before the connection broke. Read the head before you retry.
    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError>;

    /// Returns when the head may have moved since the last call returned, by this or another process. It may return without a
    /// move, but misses none, even if the future is dropped. A move between two calls is remembered for one caller: each process
    /// has one follower.
    async fn head_moved(&self);

    /// The records of a query, ascending. [`StoreError::Compacted`] as for [`Store::changes`].
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError>;

    /// The revisions of a query, newest first, without their documents.
    async fn revisions(&self, query: &RevisionQuery) -> Result<RevisionPage, StoreError>;

    /// For each resource, its last change before a revision. None if the log has none, or no longer has it.
    async fn last_changes(&self, wanted: &[LastChange<'_>]) -> Result<Vec<Option<AuditRecord>>, StoreError>;

    /// The removals of the revisions after `since` (in their time format), each with its time.
    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError>;

    /// The notes beside the state ([`Batch::applied`]).
    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError>;

    /// The checkpoint in place of compacted revisions. None if the log is complete.
    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError>;

    /// The first revision in the log with a time after `at` (in their time format); with `removing`, the first that removed
    /// something from clusters.
    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError>;

    /// Replaces the revisions up to that of `checkpoint`, at once for all readers. Rows are deleted in small steps, so that
    /// writers hardly wait. It can be repeated if it was interrupted.
    ///
    /// [`CommitError::Conflict`] if the checkpoint's revision is not in the log, or is its last: a log never becomes empty.
    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError>;

    /// The whole store at this moment, to be read in parts, independent of later writes.
    async fn export(&self) -> Result<Box<dyn Export>, StoreError>;

    /// Begins to fill the store from a backup. [`StoreError::NotEmpty`] unless it is empty or `replace` is set: then everything
    /// in it is replaced, including what is written until the end. Nothing is visible before the end.
    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError>;

    /// The problems of the store itself, one line each, at most [`MOST_PROBLEMS`]: rows that do not match their digests, and
    /// pages and indexes if the database can check them. The chain of the log is checked by [`fleet::audit`].
    async fn check(&self) -> Result<Vec<String>, StoreError>;

    /// The damage that [`fleet::damage`] finds in the state, and what the log can restore. With `apply`, that is restored in one
    /// transaction, and indexes are rebuilt. `unique` returns the value that no other resource of a kind may share.
    async fn repair(&self, apply: bool, unique: Unique) -> Result<Repair, StoreError>;

    /// Set if the store is not the one that was here before, by the marker beside it: why. Commits fail until [`Store::accept`]
    /// is called or the store is restored.
    fn unexpected(&self) -> Option<String> {
        None
    }

    /// Accepts the store as it is, whatever was here before.
    async fn accept(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends the background work and closes the database cleanly. Without it the next start takes longer, but no data is lost.
    async fn close(&self);
}

/// The most problems in one list.
pub const MOST_PROBLEMS: usize = 100;

/// The value that no other resource of a kind may share, from kind and body.
pub type Unique = fn(&str, &Json) -> Option<String>;

/// What a repair does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    pub head: Head,
    /// The rows that are rewritten or removed, one line each.
    pub steps: Vec<String>,
    /// What cannot be restored, one line each.
    pub lost: Vec<String>,
    /// Problems of pages and indexes.
    pub problems: Vec<String>,
}

/// A store at one moment.
#[async_trait]
pub trait Export: Send + Debug {
    fn head(&self) -> Head;

    fn checkpoint(&self) -> Option<Checkpoint>;

    /// The notes beside the state.
    fn applied(&self) -> &BTreeMap<String, String>;

    /// The next whole revisions, ascending: about a megabyte, or one larger revision. Empty after the last.
    async fn revisions(&mut self) -> Result<Vec<RevisionRecord>, StoreError>;

    /// The next resources of the state: about a megabyte. Empty after the last.
    async fn resources(&mut self) -> Result<Vec<Resource>, StoreError>;
}

/// A store that is being filled. If it is dropped before the end, the store is unchanged.
#[async_trait]
pub trait Restore: Send + Debug {
    /// Sets the checkpoint that the log begins after.
    async fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError>;

    /// Adds the next revisions of the log. The caller checks their order and chain.
    async fn revisions(&mut self, records: &[RevisionRecord]) -> Result<(), StoreError>;

    /// Adds resources, each with the value that no other of its kind may share, if any.
    async fn resources(&mut self, resources: Vec<(Resource, Option<String>)>) -> Result<(), StoreError>;

    /// Adds notes beside the state.
    async fn applied(&mut self, notes: Vec<(String, String)>) -> Result<(), StoreError>;

    /// Makes everything durable and visible at once.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// Which records of the log to read. All filters must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only revisions after this one. None: from where the log begins.
    pub after: Option<Revision>,
    pub kind: Option<String>,
    pub id: Option<String>,
    pub actor: Option<String>,
    /// The number of records to return. The page continues to the end of its last revision, so that `after` alone can continue it.
    pub limit: usize,
    /// Stops at the record that reaches this size ([`size_of_changes`]), even within a revision: `behind` continues there.
    pub bytes: Option<usize>,
    /// Only records after this one, by revision and index. Replaces `after`.
    pub behind: Option<(Revision, usize)>,
}

impl AuditQuery {
    /// The last revision without a wanted record, if the query has a start.
    fn starts_after(&self) -> Option<Revision> {
        let before = |(revision, _): (Revision, usize)| Revision(revision.0.saturating_sub(1));
        self.behind.map(before).or(self.after)
    }
}

/// A change of the log, for readers that see only part of a revision. Its `unique` is not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    pub revision: Revision,
    /// The position of the change in its revision, without filters.
    pub index: usize,
    pub author: Arc<Author>,
    pub change: Change,
}

impl AuditRecord {
    pub fn record(&self) -> ChangeRecord<'_> {
        ChangeRecord {
            revision: self.revision,
            index: self.index,
            author: &self.author,
            change: &self.change,
            shows_identities: false,
        }
    }
}

/// Which revisions to list. All filters must hold.
#[derive(Clone, Debug)]
pub struct RevisionQuery {
    /// Only revisions before this one. None: up to the end of the log.
    pub before: Option<Revision>,
    pub actor: Option<String>,
    /// Only revisions that changed a resource of this kind, with this id, or both.
    pub kind: Option<String>,
    pub id: Option<String>,
    /// Only revisions at this time or later, and before this time (in their time format).
    pub since: Option<String>,
    pub until: Option<String>,
    /// Only revisions whose reason contains this text.
    pub reason: Option<String>,
    /// The most revisions to return.
    pub limit: usize,
    /// The most revisions to look at. Indexes find those of an id, of an actor and of a time; the other filters are applied to
    /// these.
    pub examine: usize,
}

impl Default for RevisionQuery {
    fn default() -> Self {
        RevisionQuery {
            before: None,
            actor: None,
            kind: None,
            id: None,
            since: None,
            until: None,
            reason: None,
            limit: 100,
            examine: 10_000,
        }
    }
}

impl RevisionQuery {
    /// The most revisions that an index has to find: no more than the page if each of them is on it.
    fn most_candidates(&self) -> usize {
        let by_index = self.since.is_none() && self.until.is_none() && self.reason.is_none();
        let by_index =
            by_index && (self.kind.is_none() || self.id.is_some()) && (self.actor.is_none() || self.id.is_none());
        match by_index {
            true => self.examine.min(self.limit),
            false => self.examine,
        }
    }
}

/// A part of the list of revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionPage {
    pub revisions: Vec<RevisionSummary>,
    /// The `before` of the next page. None: there are no more. A page may have fewer revisions than wanted, or none, and still not
    /// be the last.
    pub next: Option<Revision>,
}

impl RevisionPage {
    /// `examined`: how many revisions were looked at, and the oldest of them.
    fn new(revisions: Vec<RevisionSummary>, query: &RevisionQuery, examined: (usize, Option<Revision>)) -> Self {
        let next = match revisions.last() {
            Some(last) if revisions.len() >= query.limit => Some(last.revision),
            _ => examined.1.filter(|_| examined.0 >= query.examine),
        };
        RevisionPage { revisions, next }
    }
}

/// A resource, and the revision before which its last change is wanted.
#[derive(Clone, Copy, Debug)]
pub struct LastChange<'a> {
    pub kind: &'a str,
    pub id: &'a str,
    pub before: Revision,
}

/// Why a store cannot be used. Each prints as one line that names the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Unreachable, locked or full: a retry may succeed.
    #[error("{place} is not available: {detail}")]
    Unavailable { place: String, detail: String },
    /// The content is not what was written.
    #[error("{place} is damaged: {detail}")]
    Corrupt { place: String, detail: String },
    /// A later release wrote it, and this one might misread it.
    #[error(
        "{place} has schema version {found}, but this release supports only versions up to {known}: run the release that wrote it, or a later one"
    )]
    Newer { place: String, found: i64, known: i64 },
    /// Its schema does not exist yet, or cannot be read yet. A process that can write creates it.
    #[error("{place} is not ready: {detail}")]
    NotReady { place: String, detail: String },
    /// The requested revisions were compacted.
    #[error("revisions up to {0} were compacted: the log begins after that")]
    Compacted(Revision),
    #[error("{place} is not empty: it is at revision {revision}")]
    NotEmpty { place: String, revision: Revision },
    /// The store is not the one that was here before, and was not accepted.
    #[error("{0}; to use it as it is, set --accept-new-store or ACCEPT_NEW_STORE=true")]
    Unexpected(String),
    /// The configured database cannot be used, or must not be written to.
    #[error("{place} cannot be used: {detail}")]
    Unusable { place: String, detail: String },
}

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Another process moved the head: follow the log, validate again, retry.
    #[error("another process committed first")]
    Conflict,
    /// Another resource of the kind has the unique value.
    #[error("{kind}/{id}: another resource already has {value:?}")]
    Duplicate {
        kind: Arc<str>,
        id: Arc<str>,
        value: String,
    },
    /// The outcome is unknown; see [`Store::commit`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CommitError {
    fn duplicate(change: &Change) -> Self {
        CommitError::Duplicate {
            kind: change.kind.clone(),
            id: change.id.clone(),
            value: change.unique.clone().unwrap_or_default(),
        }
    }
}

/// Why a schema from before the first release is refused, and what to do.
fn unreleased(version: i64) -> String {
    format!(
        "its schema version {version} is from a build before the first release; run \"flux-resourceset backup\" with that build, \
         and \"flux-resourceset restore\" with this release into a new database"
    )
}

/// The size of one part of an [`Export`].
const EXPORTED: usize = 1 << 20;

/// The memory of a change or a revision besides its documents, approximately.
const EACH: usize = 256;

/// The memory of a revision, approximately.
fn size_of(record: &RevisionRecord) -> usize {
    EACH + size_of_changes(&record.changes)
}

/// The memory of changes, approximately.
pub fn size_of_changes<'a>(changes: impl IntoIterator<Item = &'a Change>) -> usize {
    let body = |body: &Option<Json>| body.as_ref().map_or(0, |body| body.as_str().len());
    let size = |change: &Change| EACH + body(&change.before) + body(&change.after);
    changes.into_iter().map(size).sum()
}
