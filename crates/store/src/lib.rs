//! Where revisions are kept: one small trait, one engine per database, one conformance suite for all of them.
//!
//! The trait knows nothing of clusters or kinds. A store appends batches to a log, keeps the state that the log adds up
//! to, and says when the head moved; everything else (validation, history, rollback, the feed) is made from that.

mod bell;
mod memory;
mod sqlite;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use fleet::log::{Author, Batch, Change, ChangeRecord, Head, Removed, Revision, RevisionRecord, State};

pub use memory::Memory;
pub use sqlite::Sqlite;

#[async_trait]
pub trait Store: Send + Sync + Debug + 'static {
    /// The whole state at the head, in one consistent read. The resources come in no particular order.
    async fn load(&self) -> Result<State, StoreError>;

    /// Where the log ends: what a follower asks to learn whether it is behind.
    async fn head(&self) -> Result<Head, StoreError>;

    /// The revisions after `after`, ascending, at most `limit` of them. Each is whole: a revision is never split.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<RevisionRecord>, StoreError>;

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

    /// The records that `query` asks for, ascending.
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError>;

    /// What revisions since `at` (a time as they have it) took from clusters, each with its time.
    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError>;

    /// The notes kept beside the state ([`Batch::applied`]).
    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError>;

    /// Ends the background work and leaves the database tidy. Leaving it out costs the next start some time, never data.
    async fn close(&self);
}

/// Which records of the log to read. All filters must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only revisions after this one.
    pub after: Revision,
    pub kind: Option<String>,
    pub id: Option<String>,
    pub actor: Option<String>,
    /// How many records to return at least, if there are as many: the page goes on to the end of the revision it reached,
    /// so that `after` alone continues it.
    pub limit: usize,
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

/// The records that `batches` become on top of `base`.
fn chain(base: Head, batches: &[Batch]) -> Vec<RevisionRecord> {
    let mut head = base;
    let record = |batch| {
        let record = RevisionRecord::on(head, batch);
        head = record.head();
        record
    };
    batches.iter().map(record).collect()
}
