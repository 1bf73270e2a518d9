//! Where revisions are kept: one small trait, one engine per database, one conformance suite for all of them.
//!
//! The trait knows nothing of clusters or kinds. A store appends batches to a log, keeps the state that the log adds up
//! to, and says when the head moved; everything else (validation, history, rollback, the feed) is made from that.

mod chain;
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

pub use memory::Memory;
pub use postgres::{Access, Postgres};
pub use sqlite::Sqlite;

#[async_trait]
pub trait Store: Send + Sync + Debug + 'static {
    /// The whole state at the head, in one consistent read. The resources come in no particular order. What is not as it was
    /// written is left out, and [`State::damage`] says what that may be.
    async fn load(&self) -> Result<State, StoreError>;

    /// Where the log ends: what a follower asks to learn whether it is behind.
    async fn head(&self) -> Result<Head, StoreError>;

    /// Whether `head` is a place in this log: its end, one of the revisions that it keeps, or where it begins. A follower that
    /// is elsewhere must read everything anew: its revisions are not the ones that have these numbers here. That happens
    /// when a backup is restored, and when a standby takes over that had not heard of the last commits.
    async fn holds(&self, head: Head) -> Result<bool, StoreError>;

    /// Which store this is: a random name, another one after it was made anew or filled from a backup. The digests tell one
    /// history from another; this tells why they differ: where it is still the same, commits were lost.
    async fn epoch(&self) -> Result<String, StoreError>;

    /// The revisions after `after`, ascending, at most `limit` of them. Each is whole: a revision is never split.
    /// [`StoreError::Compacted`] when some of them are no longer kept.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<RevisionRecord>, StoreError> {
        self.log(after, 0, limit, usize::MAX).await
    }

    /// The same in parts, for readers that must not hold a large revision whole. The changes of the first revision begin at
    /// `index`. Reading stops at the change with which `bytes` ([`size_of_changes`]) are reached: then the last revision may
    /// have more changes. When it has none, the next part begins with that revision and no change of it.
    async fn log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError>;

    /// Appends `batches` as the revisions after `base`, durable all together or not at all, and returns the head after
    /// each.
    ///
    /// `base` is compared whole: a head of the same number and another digest belongs to another history (a restored
    /// backup), which nothing may be built upon. Each batch names a resource at most once, and its `before` is what `base`
    /// and the batches in front of it hold.
    ///
    /// After [`CommitError::Store`], and when the returned future is dropped, the outcome is unknown: the transaction may
    /// have become durable just before the connection broke. Read the head before trying again.
    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError>;

    /// Returns once the head may have moved since the last call returned, by this process or another one. It may wake for
    /// nothing, but misses nothing, also when the future is dropped. What moves between two calls is remembered for one
    /// caller: each process has one follower.
    async fn head_moved(&self);

    /// The records that `query` asks for, ascending. [`StoreError::Compacted`] as for [`Store::changes`].
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError>;

    /// What revisions since `at` (a time as they have it) took from clusters, each with its time.
    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError>;

    /// The notes kept beside the state ([`Batch::applied`]).
    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError>;

    /// What stands for the revisions that are no longer kept. None while the log is whole.
    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError>;

    /// The first revision in the log with a time after `at` (a time as they have it), of those that took something from
    /// clusters if only they are asked for.
    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError>;

    /// Puts `checkpoint` in the place of the revisions up to its own, at once for whoever reads; the space is given back bit
    /// by bit, so that writers hardly wait. Can be repeated when it was interrupted.
    ///
    /// [`CommitError::Conflict`] when that is no revision of the log, or its last: a log never becomes empty.
    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError>;

    /// Everything that the store holds at this moment, to be read bit by bit, whatever is written meanwhile.
    async fn export(&self) -> Result<Box<dyn Export>, StoreError>;

    /// Begins to fill the store from elsewhere. [`StoreError::NotEmpty`] unless it is empty, or `replace`: then what it holds
    /// goes, with whatever is written until the end. Nobody sees anything of it before.
    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError>;

    /// What is wrong with the store itself, a line for each place, at most [`MOST_PROBLEMS`] of them: rows that do not match their
    /// digests, and pages and indexes where the database can tell. That the log chains is for [`fleet::audit`].
    async fn check(&self) -> Result<Vec<String>, StoreError>;

    /// What [`fleet::damage`] finds wrong with the state, and what the log can restore of it. With `apply`, that is restored in one
    /// transaction, and indexes are rebuilt. `unique` gives what no other resource of a kind may share.
    async fn repair(&self, apply: bool, unique: Unique) -> Result<Repair, StoreError>;

    /// Why this store seems not to be the one that was here before: what a marker beside it says is missing. Nothing can be
    /// committed to it until [`Store::accept`] is called or it is restored.
    fn unexpected(&self) -> Option<String> {
        None
    }

    /// Takes the store as it is, whatever was here before.
    async fn accept(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends the background work and leaves the database tidy. Leaving it out costs the next start some time, never data.
    async fn close(&self);
}

/// The most problems that are listed at a time.
pub const MOST_PROBLEMS: usize = 100;

/// What no other resource of a kind may share, by kind and body.
pub type Unique = fn(&str, &Json) -> Option<String>;

/// What a repair does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    pub head: Head,
    /// What is written again or removed, a line for each.
    pub steps: Vec<String>,
    /// What cannot be restored, a line for each.
    pub lost: Vec<String>,
    /// What is wrong elsewhere: pages and indexes.
    pub problems: Vec<String>,
}

/// A store at one moment.
#[async_trait]
pub trait Export: Send + Debug {
    fn head(&self) -> Head;

    fn checkpoint(&self) -> Option<Checkpoint>;

    /// The notes beside the state.
    fn applied(&self) -> &BTreeMap<String, String>;

    /// The next revisions, ascending and whole: about a megabyte, or one that is larger. Empty after the last.
    async fn revisions(&mut self) -> Result<Vec<RevisionRecord>, StoreError>;

    /// The next resources of the state, as many. Empty after the last.
    async fn resources(&mut self) -> Result<Vec<Resource>, StoreError>;
}

/// A store that is being filled. Dropped before its end, it is as it was.
#[async_trait]
pub trait Restore: Send + Debug {
    /// What the log that follows begins after.
    async fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError>;

    /// The next revisions of the log. That they are in order and chained is the caller's to see to.
    async fn revisions(&mut self, records: &[RevisionRecord]) -> Result<(), StoreError>;

    /// More of the state, each resource with what no other of its kind may share, if anything.
    async fn resources(&mut self, resources: Vec<(Resource, Option<String>)>) -> Result<(), StoreError>;

    /// More of the notes beside the state.
    async fn applied(&mut self, notes: Vec<(String, String)>) -> Result<(), StoreError>;

    /// Makes it durable and visible, all together.
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
    /// How many records to return at least, if there are as many: the page goes on to the end of the revision it reached,
    /// so that `after` alone continues it.
    pub limit: usize,
    /// Stop at the record with which this size ([`size_of_changes`]) is reached, also within a revision: `behind` continues it.
    pub bytes: Option<usize>,
    /// Only records behind this one, by revision and index; in place of `after`.
    pub behind: Option<(Revision, usize)>,
}

impl AuditQuery {
    /// The last revision of which no record is wanted, if the query says.
    fn starts_after(&self) -> Option<Revision> {
        let before = |(revision, _): (Revision, usize)| Revision(revision.0.saturating_sub(1));
        self.behind.map(before).or(self.after)
    }
}

/// A change as the log holds it, for readers that see only part of a revision. Its `unique` is not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    pub revision: Revision,
    /// The change's place in its revision, counted before any filter.
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
        }
    }
}

/// Why a store cannot be used. Each prints as one line that names the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Not reached, locked, out of space: may be better in a moment.
    #[error("{place} is not available: {detail}")]
    Unavailable { place: String, detail: String },
    /// What is there is not what we wrote.
    #[error("{place} is damaged: {detail}")]
    Corrupt { place: String, detail: String },
    /// A later release wrote it, and we might misread it.
    #[error(
        "{place} has schema version {found}, this release knows none above {known}: run the release that wrote it, or a later one"
    )]
    Newer { place: String, found: i64, known: i64 },
    /// Nobody has made its schema yet, or let us read it. Whoever may write makes it.
    #[error("{place} is not ready: {detail}")]
    NotReady { place: String, detail: String },
    /// What is asked for is not kept any more.
    #[error("revisions up to {0} were compacted: the log begins after that")]
    Compacted(Revision),
    #[error("{place} is not empty: it is at revision {revision}")]
    NotEmpty { place: String, revision: Revision },
    /// The store is not the one that was here before, and nobody said that it is to be used all the same.
    #[error("{0}; to use it as it is, say --accept-new-store or ACCEPT_NEW_STORE=true")]
    Unexpected(String),
    /// What the configuration names is nothing that we may or can write to.
    #[error("{place} cannot be used: {detail}")]
    Unusable { place: String, detail: String },
}

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else moved the head: follow the log, validate again, try again.
    #[error("the head moved on")]
    Conflict,
    /// Another resource of the kind has the value already.
    #[error("{kind}/{id}: another one has {value:?} already")]
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

/// How much an [`Export`] gives at a time.
const EXPORTED: usize = 1 << 20;

/// What a change or a revision takes in memory beside its documents, about.
const EACH: usize = 256;

/// About what a revision takes in memory.
fn size_of(record: &RevisionRecord) -> usize {
    EACH + size_of_changes(&record.changes)
}

/// About what changes take in memory.
pub fn size_of_changes<'a>(changes: impl IntoIterator<Item = &'a Change>) -> usize {
    let body = |body: &Option<Json>| body.as_ref().map_or(0, |body| body.as_str().len());
    let size = |change: &Change| EACH + body(&change.before) + body(&change.after);
    changes.into_iter().map(size).sum()
}
