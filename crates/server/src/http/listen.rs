//! The accept loop: limits on connections, and a graceful shutdown.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response};
use futures_util::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::Service;
use tracing::{debug, warn};

use super::client_address::Peer;
use super::connections::{Connection, Connections, Notice, ReplyBody, SILENCE};
use super::peer_stream::PeerStream;
use super::problem::Problem;
use super::tls::{Terms, Tls};
use super::{Api, poll};
use crate::metrics::ReasonLabels;

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

/// Raises the limit on open files as far as allowed, and returns how many connections fit.
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
    /// Connections that were closed, and requests that were refused, in favour of polls; by reason.
    pub shed: Family<ReasonLabels, Counter>,
}

/// Serves until `stop` is true, then lets requests in progress finish, for at most `grace`. A connection uses `api` as it is
/// when it is accepted; before there is one, a service that says so.
pub async fn serve(
    listener: TcpListener,
    api: watch::Receiver<Option<Api>>,
    limit: Limit,
    tls: Option<Arc<Tls>>,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let places = Arc::new(Semaphore::new(limit.most));
    let all = Connections::new(limit.most, limit.shed);
    tokio::spawn(Connections::watch_silence(Arc::downgrade(&all)));
    let starting = Api::starting(api.clone());
    loop {
        let accepted = async {
            let (stream, peer) = listener.accept().await?;
            Ok::<_, io::Error>((stream, peer, place(&places, &all).await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely out of files: an immediate retry would only use CPU time.
                warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let api = api.borrow().clone().unwrap_or_else(|| starting.clone());
        let (open, connection) = (limit.open.clone(), all.add());
        let terms = tls.as_ref().map(|tls| tls.terms());
        let peer = Peer {
            address: Some(peer.ip()),
            certificate: None,
        };
        let serving = serve_connection(stream, peer, terms, api, connection);
        open.inc();
        tokio::spawn(async move {
            serving.await;
            open.dec();
            drop(place);
        });
    }
    drop(listener);
    all.stop();
    let all_places = places.acquire_many(u32::try_from(limit.most).unwrap_or(u32::MAX));
    if tokio::time::timeout(grace, all_places).await.is_err() {
        warn!("some requests did not finish in time");
    }
}

/// Serves one connection until it ends, or is closed for another one.
async fn serve_connection(stream: TcpStream, mut peer: Peer, terms: Option<Terms>, api: Api, watched: Arc<Connection>) {
    let _ = stream.set_nodelay(true);
    let Some(terms) = terms else {
        return serve_http(PeerStream::new(stream, watched.clone()), peer, api, watched).await;
    };
    let handshake = tokio::time::timeout(SILENCE, handshake(stream, terms.config.clone().into(), watched.clone()));
    let shaken = tokio::select! {
        biased;
        shaken = handshake => shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        notice = watched.notice(true) => Err(io::Error::other(notice.reason())),
    };
    match shaken {
        Ok(stream) => {
            peer.certificate = terms.certificate(stream.get_ref().1.peer_certificates());
            serve_http(stream, peer, api, watched).await;
        }
        Err(error) => {
            debug!(%error, "TLS handshake failed");
            watched.leave();
        }
    }
}

/// The reply to a client that speaks plain HTTP. It does not expect TLS, so the reply is plain, too.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n\
this server speaks https: use an https:// URL\n";

async fn handshake(stream: TcpStream, tls: TlsAcceptor, watched: Arc<Connection>) -> io::Result<TlsStream<PeerStream>> {
    /// The first byte of a handshake.
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    stream.peek(&mut first).await?;
    let mut stream = PeerStream::new(stream, watched);
    if first[0] != HANDSHAKE {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        return Err(io::Error::other("the client speaks plain HTTP"));
    }
    tls.accept(stream).await
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    api: Api,
    watched: Arc<Connection>,
) {
    let io = TokioIo::new(stream);
    let answering = watched.clone();
    let service = service_fn(move |request| answer(&api, &answering, &peer, request));
    let mut builder = http1::Builder::new();
    builder.max_headers(MOST_HEADERS).max_buf_size(MOST_HEAD);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut is_last = false;
    loop {
        tokio::select! {
            // First, so that a request that has just arrived is not cut off.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "connection ended");
                }
                break;
            }
            notice = watched.notice(is_last) => match notice {
                Notice::LastRequest => {
                    is_last = true;
                    connection.as_mut().graceful_shutdown();
                }
                Notice::Close | Notice::Silent => {
                    debug!("connection closed: {}", notice.reason());
                    break;
                }
            },
        }
    }
    watched.leave();
}

/// A place among the connections. At the limit, the least valuable connection is closed for it.
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

type Answered = Result<Response<ReplyBody>, Infallible>;

/// Answers a request if it is a poll, or if there is room for other requests. Polls are answered at once. They copy nothing that
/// connections share: counting references would make the threads wait for each other.
fn answer(
    api: &Api,
    connection: &Arc<Connection>,
    peer: &Peer,
    mut request: Request<Incoming>,
) -> Either<Ready<Answered>, BoxFuture<'static, Answered>> {
    let started = Instant::now();
    let Some(in_progress) = connection.begin(comes_first(request.uri().path()), started) else {
        let detail = "too many requests other than polls are in progress: try again later";
        let mut response = Problem::unavailable(detail).response();
        response.headers_mut().insert(CONNECTION, CLOSE);
        return Either::Left(ready(Ok(response.map(|body| ReplyBody::whole(body, None)))));
    };
    if let Some(mut response) = api.poll(&request, peer, started) {
        if connection.is_crowded() || peer.is_outdated() {
            response.headers_mut().insert(CONNECTION, CLOSE);
        }
        let in_progress = in_progress.at_once();
        return Either::Left(ready(
            Ok(response.map(|body| ReplyBody::whole(body, Some(in_progress)))),
        ));
    }
    request.extensions_mut().insert(peer.clone());
    let (mut api, connection, peer) = (api.clone(), connection.clone(), peer.clone());
    Either::Right(Box::pin(async move {
        let mut response = api.call(request).await?;
        if connection.is_crowded() || peer.is_outdated() {
            response.headers_mut().insert(CONNECTION, CLOSE);
        }
        Ok(response.map(|body| ReplyBody::new(body, in_progress)))
    }))
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Polls, probes and metrics. All of them are answered from memory.
fn comes_first(path: &str) -> bool {
    path.starts_with(poll::PREFIX) || matches!(path, "/health" | "/ready" | "/metrics")
}
