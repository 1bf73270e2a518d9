//! Reading the log of changes: a page of records, the history of one resource, an export of everything.

use std::sync::Arc;

use fleet::log::Revision;
use fleet::refusal::quote;
use store::{AuditQuery, AuditRecord, Store, size_of_changes};
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::errors::ReadError;
use super::reads::{Class, Turn};

/// The most bytes of documents on a page. A page that reaches them ends with the revision it is in.
const PAGE: usize = 8 << 20;
/// The most that is read from the store at a time, in bytes and in records.
const PART: usize = 256 << 10;
const RECORDS: usize = 500;

/// Which records of the log are wanted.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// Only revisions after this one. None: from the beginning of the log.
    pub after: Option<Revision>,
    pub kind: Option<String>,
    pub id: Option<String>,
    pub actor: Option<String>,
}

/// Records of the log, read from the store part by part. They end with a revision, and no revision is held in memory whole.
#[derive(Debug)]
pub struct Records {
    store: Arc<dyn Store>,
    query: AuditQuery,
    /// How many more records and bytes fit. A revision is not split for that.
    records: usize,
    bytes: usize,
    /// The last revision that is wanted.
    until: Option<Revision>,
    /// The store stopped at the size of a part: the last revision may have more records.
    within: bool,
    ended: bool,
    /// A part that is already read.
    ahead: Option<Vec<AuditRecord>>,
}

impl Records {
    fn new(store: Arc<dyn Store>, query: LogQuery, records: usize) -> Self {
        let query = AuditQuery {
            after: query.after,
            kind: query.kind,
            id: query.id,
            actor: query.actor,
            ..AuditQuery::default()
        };
        Records {
            store,
            query,
            records,
            bytes: PAGE,
            until: None,
            within: false,
            ended: false,
            ahead: None,
        }
    }

    /// The next records. None after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<AuditRecord>>, ReadError> {
        match self.ahead.take() {
            Some(records) => Ok(Some(records)),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Option<Vec<AuditRecord>>, ReadError> {
        let full = self.records == 0 || self.bytes == 0;
        if self.ended || (full && !self.within) {
            return Ok(None);
        }
        // A full page takes only the rest of its last revision.
        self.query.limit = if full { 1 } else { self.records.min(RECORDS) };
        self.query.bytes = Some(PART);
        let mut records = self.store.audit(&self.query).await?;
        let size = size_of_changes(records.iter().map(|record| &record.change));
        self.within = size >= PART;
        let last = self.query.behind.map(|(revision, _)| revision).filter(|_| full);
        let wanted = |record: &AuditRecord| {
            last.is_none_or(|last| record.revision == last) && self.until.is_none_or(|until| record.revision <= until)
        };
        let fitting = records.iter().take_while(|record| wanted(record)).count();
        let exhausted = !self.within && records.len() < self.query.limit;
        self.ended = exhausted || fitting < records.len() || fitting == 0;
        records.truncate(fitting);
        let Some(last) = records.last() else { return Ok(None) };
        self.query.behind = Some((last.revision, last.index));
        self.records = self.records.saturating_sub(records.len());
        self.bytes = self.bytes.saturating_sub(size);
        Ok(Some(records))
    }
}

impl App {
    /// A page of the log: about `limit` records, and at most 8 MiB of documents.
    pub fn log(&self, query: LogQuery, limit: usize) -> Records {
        Records::new(self.store.clone(), query, limit)
    }

    /// A page of the changes of one resource. A resource that the log does not know is an error, a page beyond its last change
    /// is not.
    pub fn history(
        &self,
        turn: &Turn,
        (kind, id): (&str, &str),
        after: Option<Revision>,
        limit: usize,
    ) -> Result<Records, ReadError> {
        let query = LogQuery {
            after,
            kind: Some(kind.to_owned()),
            id: Some(id.to_owned()),
            ..LogQuery::default()
        };
        let mut records = self.log(query, limit);
        records.ahead = turn.wait(records.next())?;
        let from_the_start = after.is_none_or(|after| after == Revision::ZERO);
        if records.ahead.is_none() && from_the_start && self.fleet().document(kind, id).is_none() {
            return Err(self.not_in_history(turn, kind, id));
        }
        Ok(records)
    }

    fn not_in_history(&self, turn: &Turn, kind: &str, id: &str) -> ReadError {
        let (kind, id) = (quote(kind), quote(id));
        match turn.wait(self.store.checkpoint()) {
            Err(error) => error.into(),
            Ok(None) => ReadError::NotFound(format!("no such resource in the history: {kind}/{id}")),
            Ok(Some(checkpoint)) => {
                let begins = checkpoint.head.revision;
                ReadError::NotFound(format!(
                    "no such resource in the history: {kind}/{id} (the log begins after revision {begins})"
                ))
            }
        }
    }

    /// An export of the log up to the current revision: the log may grow faster than a client reads it.
    pub fn export(self: &Arc<Self>, query: LogQuery, limit: Option<usize>) -> Result<Export, ReadError> {
        let place = self.stream_place()?;
        let revision = self.fleet().revision();
        let mut records = self.log(query, limit.unwrap_or(usize::MAX));
        (records.bytes, records.until) = (usize::MAX, Some(revision));
        Ok(Export {
            app: self.clone(),
            revision,
            records,
            _place: place,
        })
    }

    /// A place among the clients that follow or export the log.
    pub fn stream_place(&self) -> Result<OwnedSemaphorePermit, ReadError> {
        let place = self.streams.clone().try_acquire_owned();
        place.map_err(|_| ReadError::Busy("too many clients follow the log: try again later"))
    }
}

impl App {
    /// A place among those who follow counts only.
    pub fn counts_place(&self) -> Result<OwnedSemaphorePermit, ReadError> {
        let place = self.pages.clone().try_acquire_owned();
        place.map_err(|_| ReadError::Busy("too many clients follow the counts: try again later"))
    }
}

/// An export of the log. It lasts as long as the client likes, so it takes a place among the heavy reads only while it reads.
#[derive(Debug)]
pub struct Export {
    app: Arc<App>,
    /// The last revision of the export.
    pub revision: Revision,
    records: Records,
    _place: OwnedSemaphorePermit,
}

impl Export {
    /// The next records. None after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<AuditRecord>>, ReadError> {
        let _turn = self.app.turn(Class::Stream).await?;
        self.records.next().await
    }
}
