//! `GET /status/stream`: clusters whose state changes, and the counts, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use futures_util::stream;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::caller::Caller;
use super::respond::Reply;
use super::status::{WireSummary, time};
use crate::app::App;
use crate::app::status::{Summary, Transition};
use crate::auth::Right;

/// How often counts are looked at, and how often an idle client is told that the connection is alive.
const COUNTS: Duration = Duration::from_secs(1);
const ALIVE: Duration = Duration::from_secs(15);

/// `GET /status/stream`
pub async fn stream(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let place = app.stream_place()?;
    let following = app.transitions.follow();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    let stream = Stream {
        app,
        caller,
        following,
        shown: None,
        quiet: Duration::ZERO,
        _place: place,
    };
    let events = stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), stream))
    });
    Ok((headers, Body::from_stream(events)).into_response())
}

struct Stream {
    app: Arc<App>,
    caller: Caller,
    following: Receiver<Arc<Transition>>,
    /// The counts that the client has.
    shown: Option<Arc<Summary>>,
    quiet: Duration,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// What comes next. None at the end: the server stops, or the caller may no longer read.
    async fn next(&mut self) -> Option<String> {
        loop {
            if !self.caller.still_has(&self.app, Right::Read) {
                return None;
            }
            if let Some(counts) = self.counts() {
                self.quiet = Duration::ZERO;
                return Some(counts);
            }
            tokio::select! {
                received = self.following.recv() => {
                    self.quiet = Duration::ZERO;
                    return match received {
                        Ok(transition) => Some(changed(&transition)),
                        // The client reads the list again.
                        Err(RecvError::Lagged(missed)) => {
                            Some(format!("event: missed\ndata: {}\n\n", json!({"missed": missed})))
                        }
                        Err(RecvError::Closed) => None,
                    };
                }
                () = self.app.stops() => return None,
                () = tokio::time::sleep(COUNTS) => {
                    self.quiet += COUNTS;
                    if self.quiet >= ALIVE {
                        self.quiet = Duration::ZERO;
                        return Some(": alive\n\n".to_owned());
                    }
                }
            }
        }
    }

    /// The counts, if they are other than the client has.
    fn counts(&mut self) -> Option<String> {
        let summary = self.app.transitions.summary();
        let same =
            |shown: &Arc<Summary>| shown.by_environment == summary.by_environment && shown.revision == summary.revision;
        if self.shown.as_ref().is_some_and(same) {
            return None;
        }
        let text = serde_json::to_string(&WireSummary::of(&summary)).ok()?;
        self.shown = Some(summary);
        Some(format!("event: counts\ndata: {text}\n\n"))
    }
}

fn changed(transition: &Transition) -> String {
    let data = json!({
        "id": transition.id, "dns": transition.dns, "environment": transition.environment,
        "before": transition.before, "state": transition.state, "since": time(transition.since),
        "last_poll": time(transition.last_poll),
    });
    format!("event: cluster\ndata: {data}\n\n")
}
