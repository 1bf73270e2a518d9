//! Bodies that are written while they are sent. Whatever their size, a few pieces of each are in memory.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::problem::Problem;
use super::respond::Reply;
use crate::app::App;
use crate::app::reads::{Class, Client, Stop, Turn, on_a_thread};

/// How much is sent at a time.
const PIECE: usize = 16 << 10;
/// A client that takes less than this on average, after a while of grace, is cut off: it holds a place that others wait for.
const GRACE: Duration = Duration::from_secs(10);
const LEAST_PER_SECOND: u64 = 256 << 10;

/// Answers with what `work` writes, on a thread of its own and as fast as the client takes it. The read's place is held until
/// everything is sent. A problem is answered as long as nothing was sent; afterwards the connection breaks off.
pub async fn respond(
    app: &Arc<App>,
    class: Class,
    work: impl FnOnce(&App, &mut Writer) -> Result<(), Problem> + Send + 'static,
) -> Reply {
    let (turn, client) = app.turn(class).await?;
    let (head, begun) = oneshot::channel();
    let app = app.clone();
    on_a_thread(move || {
        let mut out = Writer::new(turn, head);
        match work(&app, &mut out).and_then(|()| out.finish()) {
            Ok(()) => {}
            Err(problem) => out.fail(problem),
        }
    })?;
    let Begun { headers, first, rest } = begun.await.map_err(|_| Problem::internal())??;
    let body = match rest {
        None => Body::from(first),
        Some(rest) => streamed(first, rest, client),
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    Ok(response)
}

fn streamed(first: Bytes, rest: mpsc::Receiver<io::Result<Bytes>>, client: Client) -> Body {
    let pieces = stream::unfold((Some(first), rest, client), |(first, mut rest, client)| async move {
        let piece = match first {
            Some(first) => Ok(first),
            None => {
                // A client that reads fast must not keep this thread: polls get their turn between two pieces.
                tokio::task::yield_now().await;
                rest.recv().await?
            }
        };
        Some((piece, (None, rest, client)))
    });
    Body::from_stream(pieces)
}

/// The beginning of a response. `rest` is absent if the first piece is all.
#[derive(Debug)]
struct Begun {
    headers: HeaderMap,
    first: Bytes,
    rest: Option<mpsc::Receiver<io::Result<Bytes>>>,
}

/// Where a body is written to.
#[derive(Debug)]
pub struct Writer {
    /// Of the response; what is added after the first piece is lost.
    pub headers: HeaderMap,
    pub turn: Turn,
    piece: Vec<u8>,
    head: Option<oneshot::Sender<Result<Begun, Problem>>>,
    out: Option<mpsc::Sender<io::Result<Bytes>>>,
    sent: u64,
    since: Instant,
}

impl Writer {
    fn new(turn: Turn, head: oneshot::Sender<Result<Begun, Problem>>) -> Self {
        let json = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Writer {
            headers: HeaderMap::from_iter([json]),
            turn,
            piece: Vec::new(),
            head: Some(head),
            out: None,
            sent: 0,
            since: Instant::now(),
        }
    }

    pub fn text(&mut self, text: &str) -> Result<(), Problem> {
        // A document may be larger than a piece.
        for part in text.as_bytes().chunks(PIECE) {
            self.piece.extend_from_slice(part);
            if self.piece.len() >= PIECE {
                self.send()?;
            }
        }
        Ok(())
    }

    /// A value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        let begun = self.piece.len();
        if let Err(error) = serde_json::to_writer(&mut self.piece, value) {
            tracing::error!(%error, "a value cannot be shown");
            self.piece.truncate(begun);
            return Err(Problem::internal());
        }
        match self.piece.len() >= PIECE {
            true => self.send(),
            false => Ok(()),
        }
    }

    /// Values with commas between them.
    pub fn list<T: Serialize>(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), Problem> {
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.text(",")?;
            }
            self.json(&item)?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Problem> {
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        let size = piece.len() as u64;
        match self.head.take() {
            Some(head) => self.begin(head, piece)?,
            None => self.go_on(piece)?,
        }
        self.sent += size;
        Ok(())
    }

    fn begin(&mut self, head: oneshot::Sender<Result<Begun, Problem>>, first: Bytes) -> Result<(), Problem> {
        if let Err(stop) = self.turn.check() {
            self.head = Some(head);
            return Err(stop.into());
        }
        let (out, rest) = mpsc::channel(1);
        (self.out, self.since) = (Some(out), Instant::now());
        let begun = Begun {
            headers: std::mem::take(&mut self.headers),
            first,
            rest: Some(rest),
        };
        let _gone = head.send(Ok(begun));
        Ok(())
    }

    fn go_on(&mut self, piece: Bytes) -> Result<(), Problem> {
        let out = self.out.as_ref().ok_or_else(Problem::internal)?;
        let allowed = GRACE + Duration::from_secs(self.sent / LEAST_PER_SECOND);
        let until = (self.since + allowed).into();
        let sending = async { tokio::time::timeout_at(until, out.send(Ok(piece))).await };
        match self.turn.wait(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Stop::Gone.into()),
            Err(_) => Err(Problem::unavailable("the client reads too slowly")),
        }
    }

    /// Sends what is left. A small body goes with its length.
    fn finish(&mut self) -> Result<(), Problem> {
        if let Some(head) = self.head.take() {
            let begun = Begun {
                headers: std::mem::take(&mut self.headers),
                first: std::mem::take(&mut self.piece).into(),
                rest: None,
            };
            let _gone = head.send(Ok(begun));
            return Ok(());
        }
        match self.piece.is_empty() {
            true => Ok(()),
            false => self.send(),
        }
    }

    fn fail(&mut self, problem: Problem) {
        if let Some(head) = self.head.take() {
            let _gone = head.send(Err(problem));
            return;
        }
        if !self.turn.is_abandoned() {
            tracing::warn!(?problem, "a reply breaks off");
        }
        if let Some(out) = self.out.take() {
            let broken = io::Error::other("the reply breaks off");
            let _gone = self
                .turn
                .wait(async { tokio::time::timeout(GRACE, out.send(Err(broken))).await });
        }
    }
}
