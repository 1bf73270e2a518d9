//! Records of the log, read from the store part by part. A page of them ends with a revision, and no revision is held whole.

use fleet::log::Revision;
use store::{AuditQuery, AuditRecord, Store, StoreError, size_of_changes};

use super::body::Writer;
use super::problem::Problem;

/// How much a page holds: when that is reached, it ends with the revision that it has come to.
pub const PAGE: usize = 8 << 20;
/// How much is read from the store at a time, in bytes and in records.
const PART: usize = 256 << 10;
const RECORDS: usize = 500;

/// A page that is being read.
#[derive(Debug)]
pub struct Reader {
    query: AuditQuery,
    /// How many records and bytes may still come. A revision is not split for it.
    records: usize,
    bytes: usize,
    /// Only up to this revision.
    until: Option<Revision>,
    /// The store stopped at the size of a part: the last revision may have more records.
    within: bool,
    ended: bool,
}

impl Reader {
    /// Reads as many records as the query says, and as many bytes as a page holds.
    pub fn page(query: AuditQuery) -> Self {
        Reader {
            records: query.limit,
            bytes: PAGE,
            until: None,
            within: false,
            ended: false,
            query,
        }
    }

    /// Reads any number of bytes, up to a revision.
    pub fn until(query: AuditQuery, records: usize, until: Revision) -> Self {
        Reader {
            records,
            bytes: usize::MAX,
            until: Some(until),
            ..Reader::page(query)
        }
    }

    /// The next records. None after the last.
    pub async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<AuditRecord>>, StoreError> {
        let full = self.records == 0 || self.bytes == 0;
        if self.ended || (full && !self.within) {
            return Ok(None);
        }
        // A full page takes only what is left of its last revision.
        self.query.limit = if full { 1 } else { self.records.min(RECORDS) };
        self.query.bytes = Some(PART);
        let mut records = store.audit(&self.query).await?;
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

/// Writes a page as an array.
pub fn write_page(out: &mut Writer, store: &dyn Store, query: AuditQuery) -> Result<(), Problem> {
    let mut reader = Reader::page(query);
    let first = out.turn.wait(reader.next(store))?;
    write_rest(out, store, reader, first)
}

/// The same, when its first records were read already.
pub fn write_rest(
    out: &mut Writer,
    store: &dyn Store,
    mut reader: Reader,
    mut part: Option<Vec<AuditRecord>>,
) -> Result<(), Problem> {
    out.text("[")?;
    let mut begun = false;
    while let Some(records) = part {
        for record in &records {
            if std::mem::replace(&mut begun, true) {
                out.text(",")?;
            }
            out.json(&record.record())?;
        }
        drop(records);
        part = out.turn.wait(reader.next(store))?;
    }
    out.text("]")
}
