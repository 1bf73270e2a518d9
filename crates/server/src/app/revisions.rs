//! The list of revisions: the log without its documents.

use fleet::Fleet;
use fleet::log::Revision;
use fleet::summary::RevisionSummary;
use store::StoreError;
pub use store::{RevisionPage, RevisionQuery};

use super::App;
use super::errors::ReadError;
use super::reads::Turn;

impl App {
    /// A page of the list, newest first.
    pub fn revisions(&self, turn: &Turn, query: &RevisionQuery) -> Result<RevisionPage, ReadError> {
        turn.check()?;
        Ok(turn.wait(self.store.revisions(query))?)
    }

    /// One revision of the list.
    pub(super) fn revision(&self, turn: &Turn, now: &Fleet, revision: Revision) -> Result<RevisionSummary, ReadError> {
        if revision == Revision::ZERO || revision > now.revision() {
            return Err(ReadError::no_revision(revision));
        }
        let query = RevisionQuery {
            before: Some(revision.next()),
            limit: 1,
            ..RevisionQuery::default()
        };
        let found = self.revisions(turn, &query)?.revisions.into_iter().next();
        if let Some(found) = found.filter(|found| found.revision == revision) {
            return Ok(found);
        }
        match turn.wait(self.store.checkpoint())? {
            Some(checkpoint) => Err(StoreError::Compacted(checkpoint.head.revision).into()),
            None => Err(ReadError::Internal),
        }
    }
}
