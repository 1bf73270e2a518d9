//! The accept loop: connections within limits, none that can hold the server, an orderly end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;
use tracing::{debug, warn};

use super::connections::{Connection, Connections, ReplyBody};
use super::problem::Problem;
use super::{Api, poll};
use crate::metrics::ReasonLabels;

/// How long a connection may be silent: before its first request, within a request's head, between requests. Flux leaves its
/// connections idle for 90 s; they are not worth a socket.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a client may take nothing of a reply that waits for it, at a time and in all.
const STALL: Duration = Duration::from_secs(30);
const STALLS: Duration = Duration::from_secs(300);
/// A request that is refused before all of it has come is read to its end all the same, within limits: a socket that is closed
/// with something unread takes the reply back from the client.
const LINGER: Duration = Duration::from_millis(500);
const LINGERS: Duration = Duration::from_secs(10);
const MOST_UNREAD: usize = 64 << 20;
const MOST_HEADERS: usize = 64;
const MOST_HEAD: usize = 32 << 10;
const BACKLOG: u32 = 4096;

/// Opens the socket, with a queue for many clusters that poll at the same moment.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Raises the limit on open files as far as allowed, and says how many connections that leaves room for.
pub fn make_room() -> usize {
    const OWN_FILES: u64 = 64;
    const ENOUGH: u64 = 65_536;
    let files = rlimit::increase_nofile_limit(ENOUGH + OWN_FILES).unwrap_or(1024);
    usize::try_from(files.saturating_sub(OWN_FILES).clamp(16, ENOUGH)).unwrap_or(16)
}

/// How many connections there may be, and where they are counted.
#[derive(Debug)]
pub struct Limit {
    pub most: usize,
    pub open: Gauge,
    /// What was closed or refused for polls, by reason.
    pub shed: Family<ReasonLabels, Counter>,
}

/// Serves until `stop` is true, then lets requests in flight finish, at most `grace` long. Each connection has what is
/// served when it is accepted: `api`, once it is there.
pub async fn serve(
    listener: TcpListener,
    api: watch::Receiver<Option<Api>>,
    limit: Limit,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD);
    let places = Arc::new(Semaphore::new(limit.most));
    let all = Connections::new(limit.most, limit.shed);
    let graceful = GracefulShutdown::new();
    let starting = Api::starting(api.clone());
    loop {
        let accepted = async {
            let stream = listener.accept().await?.0;
            Ok::<_, io::Error>((stream, place(&places, &all).await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, most likely: trying again at once would only burn time.
                warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _unset = stream.set_nodelay(true);
        let api = api.borrow().clone().unwrap_or_else(|| starting.clone());
        let watched = all.add();
        let io = TokioIo::new(Impatient::new(stream, watched.clone()));
        let service = {
            let watched = watched.clone();
            service_fn(move |request| answer(api.clone(), watched.clone(), request))
        };
        let connection = graceful.watch(builder.serve_connection(io, service));
        let open = limit.open.clone();
        open.inc();
        tokio::spawn(async move {
            tokio::select! {
                // First, so that a request that has just come is not cut off.
                biased;
                ended = connection => if let Err(error) = ended {
                    debug!(%error, "connection ended");
                },
                () = watched.closed_for_another() => debug!("connection closed for another one"),
            }
            watched.leave();
            open.dec();
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        warn!("some requests did not finish in time");
    }
}

/// A place among the connections; where there is none, the connection that is worth least is closed.
async fn place(places: &Arc<Semaphore>, all: &Connections) -> OwnedSemaphorePermit {
    const EVERY: Duration = Duration::from_millis(5);
    if let Ok(place) = places.clone().try_acquire_owned() {
        return place;
    }
    all.set_crowded(true);
    let place = loop {
        all.make_room();
        if let Ok(place) = tokio::time::timeout(EVERY, places.clone().acquire_owned()).await {
            break place.expect("never closed");
        }
    };
    all.set_crowded(false);
    place
}

/// Answers a request, if it is a poll or there is room for it beside the polls.
async fn answer(
    mut api: Api,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, std::convert::Infallible> {
    let Some(in_progress) = connection.begin(comes_first(request.uri().path())) else {
        let detail = "the server has as many requests in progress as it takes beside polls";
        let mut response = Problem::unavailable(detail).into_response();
        response.headers_mut().insert(CONNECTION, CLOSE);
        return Ok(response.map(|body| ReplyBody::new(body, None)));
    };
    let mut response = api.call(request).await?;
    if connection.is_crowded() {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
    Ok(response.map(|body| ReplyBody::new(body, Some(in_progress))))
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Polls, and what tells an operator how the server is. All of it is answered from memory.
fn comes_first(path: &str) -> bool {
    path.starts_with(poll::PREFIX) || matches!(path, "/health" | "/ready" | "/metrics")
}

/// A stream that gives up on a peer who takes nothing for too long, and at its end hears out one who still talks.
struct Impatient {
    stream: TcpStream,
    watched: Arc<Connection>,
    /// Runs while a write waits for the peer.
    patience: Option<Pin<Box<Sleep>>>,
    waiting_since: Instant,
    waited: Duration,
    end: Option<End>,
}

/// The end of a connection: everything is said, and the peer has not closed it yet.
struct End {
    began: Instant,
    silence: Pin<Box<Sleep>>,
    unread: usize,
}

impl End {
    fn new() -> Self {
        End {
            began: Instant::now(),
            silence: Box::pin(sleep(LINGER)),
            unread: 0,
        }
    }

    /// Whether the peer closed it too, or has had its time.
    fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 16 << 10];
        while self.unread < MOST_UNREAD && self.began.elapsed() < LINGERS {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.unread += buffer.filled().len();
                    self.silence.as_mut().reset(Instant::now() + LINGER);
                }
                Poll::Ready(_) => break,
                Poll::Pending => return self.silence.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl Impatient {
    fn new(stream: TcpStream, watched: Arc<Connection>) -> Self {
        Impatient {
            stream,
            watched,
            patience: None,
            waiting_since: Instant::now(),
            waited: Duration::ZERO,
            end: None,
        }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.patience.take().is_some() {
                self.waited += self.waiting_since.elapsed();
                self.watched.stalls(false);
            }
            return outcome;
        }
        self.watched.stalls(true);
        if self.patience.is_none() {
            self.waiting_since = Instant::now();
        }
        // Whoever takes a byte now and then uses up the whole.
        let left = STALL.min(STALLS.saturating_sub(self.waited));
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + left)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.watched.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.watched.ends();
        if this.end.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        this.end.get_or_insert_with(End::new).poll(&mut this.stream, cx).map(Ok)
    }
}
