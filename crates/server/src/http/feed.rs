//! What is read as it comes: the log as lines and as events, and the whole store. None of it is ever held as a whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY,
};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::log::{ChangeRecord, Digest, Head, Removed, Revision, RevisionRecord};
use fleet::refusal::quote;
use futures_util::stream;
use serde::Serialize;
use store::{AuditQuery, StoreError, size_of_changes};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::crud::{Caller, REVISION, Reply};
use super::poll::wants_gzip;
use super::problem::Problem;
use super::records::Reader;
use crate::app::App;
use crate::app::backup::{Backup, BackupError};
use crate::app::reads::Class;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Where the log ends, by number and digest: a follower knows from it how far behind it is.
pub static HEAD: HeaderName = HeaderName::from_static("x-head");

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Whether somebody asks for lines of JSON, under any of their names.
pub(super) fn wants_lines(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter();
    accepted.any(|value| {
        let text = value.to_str().unwrap_or_default();
        ["application/x-ndjson", "application/ndjson", "application/jsonl"]
            .iter()
            .any(|kind| text.contains(kind))
    })
}

/// `GET /changes` as lines: all the records there are, unless there is a limit.
pub(super) async fn lines(app: Arc<App>, query: AuditQuery, limit: Option<u64>) -> Reply {
    let revision = app.fleet().revision();
    let records = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let place = app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| Problem::unavailable("too many follow the log already"))?;
    let mut export = Lines {
        reader: Reader::until(query, records, revision),
        app,
        _place: place,
    };
    // Before anything is sent, so that what cannot be read is a problem and not half a reply.
    let first = export.next().await?;
    let pages = stream::try_unfold((first, export), |(page, mut export)| async move {
        let Some(page) = page else { return Ok(None) };
        let next = export
            .next()
            .await
            .map_err(|_| io::Error::other("the log cannot be read"))?;
        Ok::<_, io::Error>(Some((page, (next, export))))
    });
    let headers = [(CONTENT_TYPE, LINES), (REVISION.clone(), revision.0.into())];
    Ok((headers, Body::from_stream(pages)).into_response())
}

/// An export of the log. It takes as long as the client likes, so it has a place among the heavy reads only while it reads.
struct Lines {
    app: Arc<App>,
    /// Ends where the log ended when it was asked for: it may grow faster than it is read.
    reader: Reader,
    _place: OwnedSemaphorePermit,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let _turn = self.app.turn(Class::Stream).await?;
        let Some(records) = self.reader.next(&*self.app.store).await? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        for record in &records {
            add_line(&mut text, &record.record());
            tokio::task::yield_now().await;
        }
        Ok(Some(text.into()))
    }
}

fn add_line(text: &mut Vec<u8>, value: &impl Serialize) {
    let start = text.len();
    if let Err(error) = serde_json::to_writer(&mut *text, value) {
        // What was tampered with may not be JSON: better no line than half of one.
        tracing::error!(%error, "a record of the log cannot be shown");
        text.truncate(start);
        return;
    }
    text.push(b'\n');
}

/// A revision as an event: everything that its digest covers, so that a follower can check the chain and keep the log. The
/// changes come behind it.
#[derive(Serialize)]
struct Event<'a> {
    revision: Revision,
    at: &'a str,
    actor: &'a str,
    request_id: &'a str,
    reason: Option<&'a str>,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<&'a Removed>,
}

/// `GET /changes/stream`: each revision as it comes, as server-sent events.
pub async fn stream(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let after = query.take("after")?.map(|text| place(&text)).transpose()?;
    query.end("after")?;
    let resumed = caller.headers.get(&LAST_EVENT_ID).map(|value| {
        let last = value.to_str().ok().and_then(|text| place(text.trim()).ok());
        last.ok_or_else(|| Problem::bad_request("Last-Event-ID is the number of a revision"))
    });
    let place = app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| Problem::unavailable("too many follow the log already"))?;
    let served = app.engine.served();
    let now = app.fleet().head();
    // A client that comes back asks for the same address again: what it saw last counts more.
    let (at, digest) = resumed
        .transpose()?
        .or(after)
        .unwrap_or((now.revision, Some(now.digest)));
    let checkpoint = app.store.checkpoint().await?;
    if let Some(checkpoint) = checkpoint.filter(|checkpoint| at < checkpoint.head.revision) {
        return Err(StoreError::Compacted(checkpoint.head.revision).into());
    }
    match digest {
        Some(digest) => same_history(&app, Head { revision: at, digest }).await?,
        // Another replica may be ahead of this one, but not of the store.
        None if at > now.revision => ends_before(app.store.head().await?.revision, at)?,
        None => {}
    }
    let feed = Feed {
        app,
        at,
        digest,
        open: None,
        met: false,
        served,
        _place: place,
    };
    // Something at once, so that whoever is between us and the client passes on that it has begun.
    let greeting = Bytes::from(format!(": after revision {at}\n\n"));
    let events = stream::unfold((Some(greeting), feed), |(greeting, mut feed)| async move {
        let piece = match greeting {
            Some(greeting) => greeting,
            None => feed.next().await?,
        };
        Some((Ok::<_, std::convert::Infallible>(piece), (None, feed)))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
        (REVISION.clone(), at.0.into()),
        (
            HEAD.clone(),
            HeaderValue::try_from(now.to_string()).map_err(|_| Problem::internal())?,
        ),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// Where a follower stands: a revision, or one with its digest, as each commit logs it.
fn place(text: &str) -> Result<(Revision, Option<Digest>), Problem> {
    let number = text.parse::<u64>().ok().map(|number| (Revision(number), None));
    let place = number.or_else(|| Head::parse(text).map(|head| (head.revision, Some(head.digest))));
    place.ok_or_else(|| {
        let expected = "a revision from 0 is expected, or one with its digest, as in 57:8f3c…";
        Problem::bad_request(format!("after=\"{}\": {expected}", quote(text)))
    })
}

/// Makes sure that the last revision of a follower is one of this log: what comes next would not fit on another.
async fn same_history(app: &App, last: Head) -> Result<(), Problem> {
    if app.store.holds(last).await? {
        return Ok(());
    }
    ends_before(app.store.head().await?.revision, last.revision)?;
    let revision = last.revision;
    Err(Problem::conflict(format!(
        "revision {revision} has another digest here: this log is of another history"
    )))
}

fn ends_before(ends: Revision, revision: Revision) -> Result<(), Problem> {
    let detail = || format!("this log ends at revision {ends}, before {revision}");
    if revision > ends {
        Err(Problem::conflict(detail()))
    } else {
        Ok(())
    }
}

/// Somebody who follows the log. What it has not seen stays in the store until it takes it.
struct Feed {
    app: Arc<App>,
    /// The last revision that was sent, and its digest, where the client did not say only its number.
    at: Revision,
    digest: Option<Digest>,
    /// The digest of the revision behind it, of which only so many changes were sent.
    open: Option<(Digest, usize)>,
    /// Whether that one was served here. A client may come from a replica that is ahead of this one.
    met: bool,
    served: watch::Receiver<Revision>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    /// How much is read at a time: a few revisions, or a part of one.
    const AT_ONCE: usize = 4;
    const PART: usize = 256 << 10;
    /// When nothing happens, who is gone is found by writing to it.
    const ALIVE: Duration = Duration::from_secs(15);
    /// Under many writes, many followers read a few revisions at a time, not each at its own.
    const PACE: Duration = Duration::from_millis(20);

    /// The next events. None at the end: the server stops, or the log is not the one that was followed any more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let served = *self.served.borrow_and_update();
            if served < self.at && self.met {
                return None;
            }
            self.met |= served >= self.at;
            if served > self.at
                && let Some(events) = self.read(served).await?
            {
                return Some(events);
            }
            tokio::select! {
                moved = self.served.changed() => moved.ok()?,
                () = self.app.stops() => return None,
                () = tokio::time::sleep(Self::ALIVE) => return Some(Bytes::from_static(b": alive\n\n")),
            }
            tokio::time::sleep(Self::PACE).await;
        }
    }

    /// What follows, as far as it is served. The outer None: there is nothing to be had any more.
    async fn read(&mut self, served: Revision) -> Option<Option<Bytes>> {
        let begun = self.open.map_or(0, |(_, sent)| sent);
        let page = {
            // Nothing is lost by waiting: what was not read stays in the store.
            let Ok(_turn) = self.app.turn(Class::Stream).await else {
                return Some(None);
            };
            self.app.store.log(self.at, begun, Self::AT_ONCE, Self::PART).await
        };
        let page = page
            .inspect_err(|error| tracing::warn!(%error, "a stream of changes ends"))
            .ok()?;
        let size: usize = page.iter().map(|record| size_of_changes(&record.changes)).sum();
        let cut = (size >= Self::PART).then_some(page.len());
        let mut text = Vec::new();
        for (n, record) in page.iter().enumerate().filter(|(_, record)| record.revision <= served) {
            let ends = cut != Some(n + 1);
            if record.revision != self.at.next() || !self.continues(record, ends).await {
                return None;
            }
            add_part(&mut text, record, self.open.map(|(_, sent)| sent), ends);
            if ends {
                (self.at, self.digest, self.open) = (record.revision, Some(record.digest), None);
            } else {
                let sent = self.open.map_or(0, |(_, sent)| sent);
                self.open = Some((record.digest, sent + record.changes.len()));
            }
        }
        Some((!text.is_empty()).then(|| text.into()))
    }

    /// Whether a revision, or a part of it, rests on what was sent. The same numbers may have been given out again, in another
    /// history.
    async fn continues(&self, record: &RevisionRecord, whole: bool) -> bool {
        match (self.open, self.digest) {
            (Some((digest, _)), _) => record.digest == digest,
            (None, None) => true,
            (None, Some(last)) if whole => record.chained(last) == record.digest,
            // The chain is made from the whole revision, which is not at hand.
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

/// Adds an event, or the next part of one of which so many changes were sent.
fn add_part(text: &mut Vec<u8>, record: &RevisionRecord, sent: Option<usize>, ends: bool) {
    if sent.is_none() {
        let event = Event {
            revision: record.revision,
            at: &record.author.at,
            actor: &record.author.actor,
            request_id: &record.author.request_id,
            reason: record.author.reason.as_deref(),
            digest: record.digest.to_string(),
            removed: (record.removed.count() > 0).then_some(&record.removed),
        };
        let event = serde_json::to_string(&event).unwrap_or_default();
        let opening = event.strip_suffix('}').unwrap_or_default();
        text.extend_from_slice(format!("id: {}\ndata: {opening},\"changes\":[", record.revision).as_bytes());
    }
    let first = sent.unwrap_or_default();
    for (n, change) in record.changes.iter().enumerate() {
        let record = ChangeRecord {
            revision: record.revision,
            index: first + n,
            author: &record.author,
            change,
        };
        if first + n > 0 {
            text.push(b',');
        }
        let start = text.len();
        if let Err(error) = serde_json::to_writer(&mut *text, &record) {
            // The follower finds that the digest does not fit.
            tracing::error!(%error, "a record of the log cannot be shown");
            text.truncate(start);
            text.extend_from_slice(b"null");
        }
    }
    if ends {
        text.extend_from_slice(b"]}\n\n");
    }
}

/// `GET /backup`: what `flux-resourceset backup` writes, packed on the way for who takes that.
pub async fn backup(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let place = app.backups.clone().try_acquire_owned();
    let place = place.map_err(|_| Problem::unavailable("other backups are under way"))?;
    let backup = Backup::begin(&*app.store, false).await.map_err(unreadable)?;
    let head = backup.head();
    let packed = wants_gzip(&caller.headers);
    let copy = Copy {
        backup,
        packer: packed.then(|| Packer::new(Vec::new(), Compression::fast())),
        ended: false,
        _place: place,
    };
    let pieces = stream::try_unfold(copy, |mut copy| async move {
        let piece = copy.next().await;
        let piece = piece.inspect_err(|error| tracing::warn!(%error, "a backup breaks off"))?;
        Ok::<_, BackupError>(piece.map(|piece| (Bytes::from(piece), copy)))
    });
    let name = format!("attachment; filename=\"flux-resourceset-{}.jsonl\"", head.revision);
    let name = HeaderValue::try_from(name).map_err(|_| Problem::internal())?;
    let headers = [
        (CONTENT_TYPE, LINES),
        (CONTENT_DISPOSITION, name),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (REVISION.clone(), head.revision.0.into()),
    ];
    let mut response: Response = (headers, Body::from_stream(pieces)).into_response();
    if packed {
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(CONTENT_ENCODING, gzip);
    }
    Ok(response)
}

/// Packs what is written to it, into memory.
type Packer = GzEncoder<Vec<u8>>;

/// A backup on its way out.
struct Copy {
    backup: Backup,
    /// None: it goes as it is.
    packer: Option<Packer>,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Copy {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        while !self.ended {
            let lines = self.backup.next().await?;
            self.ended = lines.is_none();
            let Some(packer) = self.packer.take() else {
                return Ok(lines);
            };
            // A megabyte takes a while: not on the threads that answer polls.
            let pack = tokio::task::spawn_blocking(move || pack(packer, lines));
            let packed = pack.await.map_err(io::Error::other).flatten();
            let (piece, packer) = packed.map_err(|error| BackupError::Write {
                file: "gzip".to_owned(),
                error,
            })?;
            self.packer = packer;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// Adds lines, or the end, and takes out what that gave.
fn pack(mut packer: Packer, lines: Option<Vec<u8>>) -> io::Result<(Vec<u8>, Option<Packer>)> {
    let Some(lines) = lines else {
        return Ok((packer.finish()?, None));
    };
    packer.write_all(&lines)?;
    Ok((std::mem::take(packer.get_mut()), Some(packer)))
}

fn unreadable(error: BackupError) -> Problem {
    match error {
        BackupError::Store(error) => error.into(),
        _ => Problem::internal(),
    }
}
