//! `GET /changes/stream`: each revision as it is committed, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use fleet::log::{ChangeRecord, Digest, Head, Removed, Revision, RevisionRecord};
use fleet::refusal::quote;
use fleet::reversal::Reversal;
use futures_util::stream;
use serde::Serialize;

use super::caller::Caller;
use super::problem::Problem;
use super::respond::{REVISION, Reply};
use crate::app::App;
use crate::app::follow::{Followed, Follower, HEAD, Part};
use crate::auth::Right;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// `GET /changes/stream`
pub async fn stream(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let after = query.take("after")?.map(|text| position(&text)).transpose()?;
    query.end("after")?;
    // A client that reconnects repeats its URL: the last event that it saw counts more than `after`.
    let after = last_event(&caller.headers)?.or(after);
    let head = app.fleet().head();
    let follower = app.follow(after).await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
        (REVISION.clone(), follower.at().0.into()),
        (
            HeaderName::from_static(HEAD),
            HeaderValue::try_from(head.to_string()).map_err(|_| Problem::internal())?,
        ),
    ];
    Ok((headers, events(app, caller, follower)).into_response())
}

/// Where a client is: a revision, or a revision with its digest, as each commit logs it.
type Position = (Revision, Option<Digest>);

fn position(text: &str) -> Result<Position, Problem> {
    let number = text.parse::<u64>().ok().map(|number| (Revision(number), None));
    let position = number.or_else(|| Head::parse(text).map(|head| (head.revision, Some(head.digest))));
    position.ok_or_else(|| {
        let expected = "must be a revision, or a revision with its digest, as in 57:8f3c…";
        Problem::bad_request(format!("after=\"{}\": {expected}", quote(text)))
    })
}

fn last_event(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(value) = headers.get(&LAST_EVENT_ID) else {
        return Ok(None);
    };
    let last = value.to_str().ok().and_then(|text| position(text.trim()).ok());
    let last = last.ok_or_else(|| Problem::bad_request("Last-Event-ID must be the number of a revision"))?;
    Ok(Some(last))
}

/// The events, until the log ends or the caller may no longer read it.
fn events(app: Arc<App>, caller: Caller, follower: Follower) -> Body {
    // Sent at once, so that proxies pass on that the stream has begun.
    let greeting = Bytes::from(format!(": after revision {}\n\n", follower.at()));
    let reader = Arc::new((app, caller));
    let events = stream::unfold((Some(greeting), follower), move |(greeting, mut follower)| {
        let reader = reader.clone();
        async move {
            if let Some(greeting) = greeting {
                return Some((Ok::<_, Infallible>(greeting), (None, follower)));
            }
            let followed = follower.next().await?;
            let (app, caller) = &*reader;
            let Some(actor) = caller.with_right(app, Right::Follow) else {
                tracing::info!(actor = %caller.actor().name, "closing a stream of changes: its token is no longer valid");
                return None;
            };
            let piece = match followed {
                Followed::Idle => Bytes::from_static(b": alive\n\n"),
                Followed::Parts(parts) => {
                    let shows_identities = Right::Copy.allows(actor.role);
                    let mut text = Vec::new();
                    parts
                        .iter()
                        .for_each(|part| add_part(&mut text, part, shows_identities));
                    text.into()
                }
            };
            Some((Ok(piece), (None, follower)))
        }
    });
    Body::from_stream(events)
}

/// A revision as an event: everything that its digest covers, so that a follower can check the chain and keep the log. The
/// changes follow these fields.
#[derive(Serialize)]
struct Event<'a> {
    revision: Revision,
    at: &'a str,
    actor: &'a str,
    request_id: &'a str,
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes: Option<Revision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redoes: Option<Revision>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    overrides: &'a [String],
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<&'a Removed>,
}

/// Adds an event, or the next part of one.
fn add_part(text: &mut Vec<u8>, part: &Part, shows_identities: bool) {
    let record = &part.record;
    if part.sent.is_none() {
        begin_event(text, record);
    }
    let first = part.sent.unwrap_or_default();
    for (n, change) in record.changes.iter().enumerate() {
        let record = ChangeRecord {
            revision: record.revision,
            index: first + n,
            author: &record.author,
            change,
            shows_identities,
        };
        if first + n > 0 {
            text.push(b',');
        }
        let start = text.len();
        if let Err(error) = serde_json::to_writer(&mut *text, &record) {
            // The follower notices that the digest does not match.
            tracing::error!(%error, "a record of the log is not valid JSON");
            text.truncate(start);
            text.extend_from_slice(b"null");
        }
    }
    if part.ends {
        text.extend_from_slice(b"]}\n\n");
    }
}

fn begin_event(text: &mut Vec<u8>, record: &RevisionRecord) {
    let (undoes, redoes) = Reversal::parts(record.author.reversal);
    let event = Event {
        revision: record.revision,
        at: &record.author.at,
        actor: &record.author.actor,
        request_id: &record.author.request_id,
        reason: record.author.reason.as_deref(),
        undoes,
        redoes,
        overrides: &record.author.overrides,
        digest: record.digest.to_string(),
        removed: (record.removed.count() > 0).then_some(&record.removed),
    };
    let event = serde_json::to_string(&event).unwrap_or_default();
    let opening = event.strip_suffix('}').unwrap_or_default();
    text.extend_from_slice(format!("id: {}\ndata: {opening},\"changes\":[", record.revision).as_bytes());
}
