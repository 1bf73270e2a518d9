//! `GET /status/stream`: clusters whose state changes, and the counts, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use fleet::refusal::quote;
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::caller::Caller;
use super::problem::Problem;
use super::respond::Reply;
use super::status::{WireSummary, time};
use crate::app::App;
use crate::app::status::{Summary, Transition};
use crate::auth::Right;

/// How often an idle client is told that the connection is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// `GET /status/stream`
pub async fn stream(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let with_clusters = query.take("clusters")?;
    query.end("clusters")?;
    let with_clusters = match with_clusters.as_deref() {
        None | Some("true") => true,
        Some("false") => false,
        Some(other) => {
            let detail = format!("clusters=\"{}\": must be true or false", quote(other));
            return Err(Problem::bad_request(detail));
        }
    };
    // Counts alone cost next to nothing: many pages may follow them.
    let place = match with_clusters {
        true => app.stream_place()?,
        false => app.counts_place()?,
    };
    let following = with_clusters.then(|| app.transitions.follow());
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    let stream = Stream {
        summaries: app.transitions.summaries(),
        app,
        caller,
        following,
        shown: None,
        quiet_since: Instant::now(),
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
    /// None: only counts are wanted.
    following: Option<Receiver<Arc<Transition>>>,
    /// Becomes ready with each new summary.
    summaries: watch::Receiver<Arc<Summary>>,
    /// The counts that the client has.
    shown: Option<Arc<Summary>>,
    quiet_since: Instant,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// What comes next. None at the end: the server stops, or the caller may no longer read.
    async fn next(&mut self) -> Option<String> {
        loop {
            self.caller.with_right(&self.app, Right::Read)?;
            if let Some(counts) = self.counts() {
                self.quiet_since = Instant::now();
                return Some(counts);
            }
            tokio::select! {
                received = received(&mut self.following) => {
                    self.quiet_since = Instant::now();
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
                // The next turn compares the counts.
                _changed = self.summaries.changed() => {}
                () = tokio::time::sleep_until(self.quiet_since + ALIVE) => {
                    self.quiet_since = Instant::now();
                    return Some(": alive\n\n".to_owned());
                }
            }
        }
    }

    /// The counts, if they are other than the client has. Who follows counts only, and looks at the rest on its own, also gets them when
    /// anything else is known.
    fn counts(&mut self) -> Option<String> {
        let summary = self.summaries.borrow_and_update().clone();
        let follows_counts_only = self.following.is_none();
        let same = |shown: &Arc<Summary>| {
            shown.by_environment == summary.by_environment
                && shown.revision == summary.revision
                && (!follows_counts_only || shown.learnt == summary.learnt)
        };
        if self.shown.as_ref().is_some_and(same) {
            return None;
        }
        let text = serde_json::to_string(&WireSummary::of(&summary)).ok()?;
        self.shown = Some(summary);
        Some(format!("event: counts\ndata: {text}\n\n"))
    }
}

/// The next transition. Never, if none are wanted.
async fn received(following: &mut Option<Receiver<Arc<Transition>>>) -> Result<Arc<Transition>, RecvError> {
    match following {
        Some(following) => following.recv().await,
        None => std::future::pending().await,
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
