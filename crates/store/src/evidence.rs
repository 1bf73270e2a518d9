//! A table beside the log, in which processes share what clusters tell. It is never part of a revision, a backup or a mirror, and
//! may be lost.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::StoreError;

/// What one process knows about one cluster. The store does not look into it.
pub type EvidenceRow = (Arc<str>, String);

/// The rows of all processes, one per cluster: the last one that was written. Whoever reads another row than it would write
/// merges both, and writes the result.
#[async_trait]
pub trait SharedEvidence: Send + Sync + Debug {
    /// Writes rows.
    async fn put(&self, rows: &[EvidenceRow]) -> Result<(), StoreError>;

    /// Some rows that other processes wrote since they were last read here; at first, some of all rows. Empty: there are no
    /// more for now. A row may be returned again.
    async fn news(&self) -> Result<Vec<EvidenceRow>, StoreError>;

    /// Removes the rows of these clusters.
    async fn remove(&self, ids: &[Arc<str>]) -> Result<(), StoreError>;

    async fn close(&self);
}

/// How many rows are read at a time.
pub(crate) const PART: i64 = 5_000;

/// The name of a process, to tell its rows from those of others.
pub(crate) fn writer() -> String {
    let random = std::hash::RandomState::new();
    format!(
        "{:x}-{:x}",
        std::process::id(),
        std::hash::BuildHasher::hash_one(&random, std::process::id())
    )
}
