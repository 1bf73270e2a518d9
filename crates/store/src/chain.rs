//! Records, digests and the chain of revisions: what every engine computes the same way.

use fleet::integrity::{self, Items, Sealed, Total};
use fleet::log::{Batch, Checkpoint, Digest, Head, Revision, RevisionRecord};

use crate::StoreError;

/// The digests of a commit, as columns hold them.
#[derive(Debug)]
pub(crate) struct Digests {
    /// Of each change, per batch.
    pub(crate) items: Vec<Vec<Items>>,
    /// The state after each batch.
    pub(crate) states: Vec<Sealed>,
    /// The total of the state after the last batch.
    pub(crate) total: Total,
}

/// The digests of a commit to a state with this total.
pub(crate) fn digests(mut total: Total, batches: &[Batch], records: &[RevisionRecord]) -> Digests {
    let (mut items, mut states) = (Vec::new(), Vec::new());
    for (batch, record) in batches.iter().zip(records) {
        let of_batch: Vec<_> = batch.changes.iter().map(Items::of).collect();
        of_batch.iter().for_each(|items| total.apply(*items));
        items.push(of_batch);
        states.push(integrity::seal_total(total, record.head()));
    }
    Digests { items, states, total }
}

/// The first of consecutive revisions whose digest is wrong, if any. `before` is the digest of the revision before them. `index`
/// and `bytes` are those of [`crate::Store::log`]: a revision that may lack changes is not checked; its rows have their own
/// digests.
pub(crate) fn first_broken(
    before: Option<Digest>,
    records: &[RevisionRecord],
    index: usize,
    bytes: usize,
) -> Option<Revision> {
    let mut before = before;
    for (n, record) in records.iter().enumerate() {
        let is_partial = (n == 0 && index > 0) || (n + 1 == records.len() && bytes < usize::MAX);
        if !is_partial && before.is_some_and(|before| record.chained(before) != record.digest) {
            return Some(record.revision);
        }
        before = Some(record.digest);
    }
    None
}

/// The records of `batches` after `base`.
pub(crate) fn chain(base: Head, batches: &[Batch]) -> Vec<RevisionRecord> {
    let mut head = base;
    let record = |batch| {
        let record = RevisionRecord::on(head, batch);
        head = record.head();
        record
    };
    batches.iter().map(record).collect()
}

/// Fails if revisions after `after` were compacted.
pub(crate) fn still_kept(after: Revision, checkpoint: Option<Checkpoint>) -> Result<(), StoreError> {
    match checkpoint {
        Some(checkpoint) if after < checkpoint.head.revision => Err(StoreError::Compacted(checkpoint.head.revision)),
        _ => Ok(()),
    }
}
