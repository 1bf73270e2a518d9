//! Following the log: each revision, as soon as this process serves it. What a client has not read stays in the store.

use std::sync::Arc;
use std::time::Duration;

use fleet::log::{Digest, Head, Revision, RevisionRecord};
use store::{StoreError, size_of_changes};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::App;
use super::errors::ReadError;
use super::reads::Class;

/// The header of a stream of changes that says where the log ends, by revision and digest: a follower learns from it how far
/// behind it is.
pub const HEAD: &str = "x-head";

/// The most that is read at a time: a few revisions, or a part of one.
const REVISIONS: usize = 4;
const PART: usize = 256 << 10;
/// How long to wait before telling an idle client that the connection is alive. A dead one is found by writing to it.
const ALIVE: Duration = Duration::from_secs(15);
/// The pause after a new revision, so that many followers read several revisions at a time instead of each one alone.
const PACE: Duration = Duration::from_millis(20);

/// A client that follows the log.
#[derive(Debug)]
pub struct Follower {
    app: Arc<App>,
    /// The last revision that was sent, and its digest unless the client gave only the number.
    at: Revision,
    digest: Option<Digest>,
    /// The digest of the revision after `at`, and how many of its changes were sent, while it is sent in parts.
    open: Option<(Digest, usize)>,
    /// Whether `at` was served here. A client may come from a replica that is ahead of this one.
    met: bool,
    served: watch::Receiver<Revision>,
    _place: OwnedSemaphorePermit,
}

/// What a follower gets next.
#[derive(Debug)]
pub enum Followed {
    Parts(Vec<Part>),
    /// Nothing for a while: the connection is alive.
    Idle,
}

/// A revision, or a part of one that is too large to be sent at once.
#[derive(Debug)]
pub struct Part {
    pub record: RevisionRecord,
    /// How many changes of the revision were sent before this part. None: this is its beginning.
    pub sent: Option<usize>,
    /// Whether the revision ends with this part.
    pub ends: bool,
}

impl App {
    /// Follows the log after a revision, or from now on. A digest makes sure that the client knows the same history.
    pub async fn follow(self: &Arc<Self>, after: Option<(Revision, Option<Digest>)>) -> Result<Follower, ReadError> {
        let place = self.stream_place()?;
        let served = self.engine.served();
        let now = self.fleet().head();
        let (at, digest) = after.unwrap_or((now.revision, Some(now.digest)));
        let checkpoint = self.store.checkpoint().await?;
        if let Some(checkpoint) = checkpoint.filter(|checkpoint| at < checkpoint.head.revision) {
            return Err(StoreError::Compacted(checkpoint.head.revision).into());
        }
        match digest {
            Some(digest) => self.check_history(Head { revision: at, digest }).await?,
            // Another replica may be ahead of this one, but not of the store.
            None if at > now.revision => ends_before(self.store.head().await?.revision, at)?,
            None => {}
        }
        Ok(Follower {
            app: self.clone(),
            at,
            digest,
            open: None,
            met: false,
            served,
            _place: place,
        })
    }

    /// Refuses a follower whose last revision is not in this log: the next revisions would not continue it.
    async fn check_history(&self, last: Head) -> Result<(), ReadError> {
        if self.store.holds(last).await? {
            return Ok(());
        }
        ends_before(self.store.head().await?.revision, last.revision)?;
        let revision = last.revision;
        let detail = format!("revision {revision} has another digest here: this is the log of another history");
        Err(ReadError::OtherHistory(detail))
    }
}

fn ends_before(end: Revision, revision: Revision) -> Result<(), ReadError> {
    match revision > end {
        true => Err(ReadError::OtherHistory(format!(
            "this log ends at revision {end}, before {revision}"
        ))),
        false => Ok(()),
    }
}

impl Follower {
    /// The last revision that the client has.
    pub fn at(&self) -> Revision {
        self.at
    }

    /// Waits for what comes next. None at the end: the server stops, or the log is not the one that was followed any more.
    pub async fn next(&mut self) -> Option<Followed> {
        loop {
            let served = *self.served.borrow_and_update();
            if served < self.at && self.met {
                return None;
            }
            self.met |= served >= self.at;
            if served > self.at {
                let parts = self.read(served).await?;
                if !parts.is_empty() {
                    return Some(Followed::Parts(parts));
                }
            }
            tokio::select! {
                moved = self.served.changed() => moved.ok()?,
                () = self.app.stops() => return None,
                () = tokio::time::sleep(ALIVE) => return Some(Followed::Idle),
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// What comes next of the revisions that are served. None: the log does not continue what was sent, or cannot be read.
    async fn read(&mut self, served: Revision) -> Option<Vec<Part>> {
        let begun = self.open.map_or(0, |(_, sent)| sent);
        let page = {
            // Waiting loses nothing: what was not read stays in the store.
            let Ok(_turn) = self.app.turn(Class::Stream).await else {
                return Some(Vec::new());
            };
            self.app.store.log(self.at, begun, REVISIONS, PART).await
        };
        let page = page
            .inspect_err(|error| tracing::warn!(%error, "closing a stream of changes: the log cannot be read"))
            .ok()?;
        let size: usize = page.iter().map(|record| size_of_changes(&record.changes)).sum();
        let cut = (size >= PART).then_some(page.len());
        let mut parts = Vec::new();
        for (n, record) in page.into_iter().enumerate() {
            if record.revision > served {
                break;
            }
            let ends = cut != Some(n + 1);
            if record.revision != self.at.next() || !self.continues(&record, ends).await {
                return None;
            }
            let sent = self.open.map(|(_, sent)| sent);
            if ends {
                (self.at, self.digest, self.open) = (record.revision, Some(record.digest), None);
            } else {
                self.open = Some((record.digest, sent.unwrap_or(0) + record.changes.len()));
            }
            parts.push(Part { record, sent, ends });
        }
        Some(parts)
    }

    /// Whether a revision, or a part of it, continues what was sent. Another history may have given out the same numbers.
    async fn continues(&self, record: &RevisionRecord, whole: bool) -> bool {
        match (self.open, self.digest) {
            (Some((digest, _)), _) => record.digest == digest,
            (None, None) => true,
            (None, Some(last)) if whole => record.chained(last) == record.digest,
            // The chain covers the whole revision, of which only a part is in memory.
            (None, Some(digest)) => {
                let last = Head {
                    revision: self.at,
                    digest,
                };
                self.app.store.holds(last).await.unwrap_or(false)
            }
        }
    }
}
