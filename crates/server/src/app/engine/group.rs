//! Writes that share a commit: the result of each, the batches to commit, and the fleet after all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fleet::Fleet;
use fleet::budget::Recent;
use fleet::judge::{Accepted, Terms};
use fleet::log::{Author, Batch, Head, RevisionRecord};
use store::StoreError;
use tokio::sync::oneshot;
use tracing::error;

use super::{WriteError, WriteRequest, Written};
use crate::config::Budget;

/// The most writes, and operations in them, that share a commit: more would make the first of them wait too long.
const MOST_WRITES: usize = 256;
const MOST_OPERATIONS: usize = 10_000;

/// A write that waits for its result.
pub(super) struct Request {
    pub(super) write: WriteRequest,
    pub(super) reply: oneshot::Sender<Result<Written, WriteError>>,
}

pub(super) struct Group {
    /// The head that the first write was judged on.
    pub(super) base: Head,
    pub(super) batches: Vec<Batch>,
    /// The fleet after all of its writes.
    pub(super) last: Arc<Fleet>,
    requests: Vec<Request>,
    results: Vec<Result<Written, WriteError>>,
    operations: usize,
    budget: Budget,
    recent: Recent,
    /// Why the recent removals are not known, if so. Writes that remove something then fail.
    removals_unknown: Option<StoreError>,
}

impl Group {
    /// An empty group, whose writes are judged on `last`.
    pub(super) fn on(last: Arc<Fleet>, budget: Budget, recent: Recent, removals_unknown: Option<StoreError>) -> Group {
        Group {
            base: last.head(),
            batches: Vec::new(),
            last,
            requests: Vec::new(),
            results: Vec::new(),
            operations: 0,
            budget,
            recent,
            removals_unknown,
        }
    }

    /// An empty group that begins where this one ends.
    pub(super) fn next(&self) -> Group {
        Group::on(
            self.last.clone(),
            self.budget,
            self.recent.clone(),
            self.removals_unknown.clone(),
        )
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.requests.len() < MOST_WRITES && self.operations < MOST_OPERATIONS
    }

    pub(super) fn into_requests(self) -> Vec<Request> {
        self.requests
    }

    /// Why its removals cannot be checked against the budget: it removes something, and the recent removals are not known.
    pub(super) fn unchecked_removals(&self) -> Option<&StoreError> {
        let removes = || self.batches.iter().any(|batch| batch.removed.count() > 0);
        self.removals_unknown.as_ref().filter(|_| removes())
    }

    /// Judges one more write, on a blocking thread unless it is quick.
    pub(super) async fn add(mut self, request: Request) -> Group {
        let is_quick = request.write.is_quick();
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(|| self.judge(&request.write)));
            let result = result.unwrap_or_else(|_| {
                error!("judging a write panicked");
                Err(WriteError::Internal)
            });
            self.operations += request.write.operations.len();
            self.requests.push(request);
            self.results.push(result);
            self
        };
        match is_quick {
            true => work(),
            false => tokio::task::spawn_blocking(work).await.expect("panics are caught"),
        }
    }

    pub(super) async fn add_all(mut self, requests: impl IntoIterator<Item = Request>) -> Group {
        for request in requests {
            self = self.add(request).await;
        }
        self
    }

    /// Judges a write on the fleet that the writes before it leave.
    fn judge(&mut self, write: &WriteRequest) -> Result<Written, WriteError> {
        let since = crate::before(&write.author.at, self.budget.window);
        let terms = Terms {
            recent: &self.recent,
            since: &since,
            budget: self.budget.clusters,
            confirmation: write.confirmation,
            reach: &write.reach,
            at: &write.author.at,
            overrides: &write.overrides,
            unguarded: write.unguarded,
        };
        let operations = write.operations_on(&self.last).map_err(WriteError::Refused)?;
        let change = self.last.change(&operations, write.rules, terms);
        let Accepted {
            outcome,
            removed,
            overridden,
        } = change.map_err(WriteError::Refused)?;
        if outcome.changes.is_empty() {
            return Ok(Written {
                revision: self.last.revision(),
                changes: Vec::new(),
                fleet: self.last.clone(),
                overridden: Vec::new(),
            });
        }
        self.recent.add(&write.author.at, &removed);
        let batch = Batch {
            author: Author {
                overrides: overridden,
                ..write.author.clone()
            },
            changes: outcome.changes.clone(),
            applied: Vec::new(),
            removed,
        };
        let head = RevisionRecord::on(self.last.head(), &batch).head();
        self.last = Arc::new(outcome.committed(head));
        let written = Written {
            revision: head.revision,
            changes: batch.changes.clone(),
            fleet: self.last.clone(),
            overridden: batch.author.overrides.clone(),
        };
        self.batches.push(batch);
        Ok(written)
    }

    /// Sends each result. Clients that are gone are ignored.
    pub(super) fn answer(self) {
        for (request, result) in self.requests.into_iter().zip(self.results) {
            let _ = request.reply.send(result);
        }
    }

    /// Answers that nothing was stored. Writes that were refused get their refusal.
    pub(super) fn fail(mut self, detail: &str) {
        for result in self.results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(WriteError::Unavailable(detail.to_owned()));
        }
        self.answer();
    }
}
