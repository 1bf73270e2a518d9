//! The server that a mirror follows, over HTTP.

use std::io::{self, Read};
use std::time::Duration;

use axum::http::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, USER_AGENT};
use axum::http::{Request, StatusCode};
use bytes::{Buf, Bytes};
use fleet::log::{Head, Revision};
use http_body_util::{BodyExt, Empty};
use hyper::Response;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::https::Https;
use super::task::Trouble;
use crate::app::follow::HEAD;
use crate::config::{ConfigErrors, MirrorTls, MirrorToken};
use crate::outbound::plain;

/// How long the origin may take to begin its reply.
const ANSWER: Duration = Duration::from_secs(30);
/// The origin sends a comment every 15 s when there is nothing else. After this much silence the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(super) struct Origin {
    /// Without a slash at its end.
    url: String,
    /// None: its certificate tells who the mirror is.
    token: Option<MirrorToken>,
    https: Https,
    silence: Duration,
}

impl Origin {
    pub(super) fn new(url: &str, token: Option<&MirrorToken>, tls: &MirrorTls) -> Result<Self, ConfigErrors> {
        Ok(Origin {
            url: url.to_owned(),
            token: token.cloned(),
            https: Https::new(url, tls)?,
            silence: SILENCE,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Its backup, as a stream. Read it on a blocking thread.
    pub(super) async fn backup(&self) -> Result<Backup, Trouble> {
        Ok(Backup {
            body: self.get("/backup").await?.into(),
            silence: self.silence,
        })
    }

    /// The stream of its commits after `last`.
    pub(super) async fn stream(&self, last: Head) -> Result<Stream, Trouble> {
        let response = self.get(&format!("/changes/stream?after={last}")).await?;
        let head = response.headers().get(HEAD).and_then(|value| value.to_str().ok());
        let head = head.and_then(Head::parse).ok_or_else(|| {
            let detail = format!(
                "{}: the reply has no X-Head header: is this a flux-resourceset server?",
                self.url
            );
            Trouble::Unavailable(detail)
        })?;
        Ok(Stream {
            head: head.revision,
            body: response.into(),
            silence: self.silence,
        })
    }

    async fn get(&self, path: &str) -> Result<Response<Incoming>, Trouble> {
        let unavailable = |detail: String| Trouble::Unavailable(format!("{}: {detail}", self.url));
        let mut request = Request::get(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            let token = token.read().map_err(|error| Trouble::Unavailable(error.to_string()))?;
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| unavailable("the token contains characters that a header cannot carry".to_owned()))?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request
            .header(ACCEPT_ENCODING, "gzip")
            .header(
                USER_AGENT,
                concat!("flux-resourceset-mirror/", env!("CARGO_PKG_VERSION")),
            )
            .body(Empty::new())
            .map_err(|error| unavailable(error.to_string()))?;
        let response = match timeout(ANSWER, self.https.client().request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unavailable(plain(&error))),
            Err(_) => return Err(unavailable("no reply in time".to_owned())),
        };
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        let detail = self.problem(response).await;
        Err(match status {
            StatusCode::GONE => Trouble::NeedsBackup,
            StatusCode::CONFLICT => Trouble::Refused(format!("{}: {detail}", self.url)),
            // Redirects are not followed: they could leak the token.
            _ => {
                let path = path.split('?').next().unwrap_or_default();
                unavailable(format!("GET {path}: {}{detail}", status.as_u16()))
            }
        })
    }

    /// The detail of a problem document.
    async fn problem(&self, response: Response<Incoming>) -> String {
        const MOST: usize = 64 << 10;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), MOST).collect();
        let body = timeout(self.silence, body).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
        let problem = body.and_then(|body| serde_json::from_slice::<serde_json::Value>(&body).ok());
        let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
        match (status, detail) {
            (StatusCode::CONFLICT, Some(detail)) => detail.to_owned(),
            (StatusCode::NOT_FOUND, Some(_)) => ": only a server in crud mode can be mirrored".to_owned(),
            (_, Some(detail)) => format!(": {detail}"),
            (status, None) => status
                .canonical_reason()
                .map(|text| format!(" {text}"))
                .unwrap_or_default(),
        }
    }
}

/// The body of a long reply.
#[derive(Debug)]
struct LongBody(Incoming);

impl From<Response<Incoming>> for LongBody {
    fn from(response: Response<Incoming>) -> Self {
        LongBody(response.into_body())
    }
}

impl LongBody {
    /// The next piece. None: the end.
    async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, String> {
        loop {
            match timeout(silence, self.0.frame()).await {
                Err(_) => return Err(format!("no data for {} s", silence.as_secs())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(plain(&error)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// A stream of changes.
#[derive(Debug)]
pub(super) struct Stream {
    /// The origin's revision when the stream was opened.
    pub(super) head: Revision,
    body: LongBody,
    silence: Duration,
}

impl Stream {
    /// The next piece. None: the origin stops, or its history changed.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        self.body.next(self.silence).await
    }
}

/// A backup in transit.
#[derive(Debug)]
pub(super) struct Backup {
    body: LongBody,
    silence: Duration,
}

impl Backup {
    /// Splits it into a future that fetches it, and a reader, with room for a few pieces between them.
    pub(super) fn split(mut self) -> (impl Future<Output = ()>, impl Read + Send + 'static) {
        let (sender, pieces) = mpsc::channel(4);
        let fetch = async move {
            loop {
                let (piece, last) = match self.body.next(self.silence).await {
                    Ok(Some(piece)) => (Ok(piece), false),
                    Ok(None) => return,
                    Err(detail) => (Err(io::Error::other(detail)), true),
                };
                // The reader may be gone.
                if sender.send(piece).await.is_err() || last {
                    return;
                }
            }
        };
        let pipe = Pipe {
            pieces,
            piece: Bytes::new(),
        };
        (fetch, pipe)
    }
}

struct Pipe {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let length = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that sends this text on each connection, and then nothing more.
    async fn silent(text: &'static str) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                let _ = connection.read(&mut [0; 4096]).await;
                connection.write_all(text.as_bytes()).await.unwrap();
                open.push(connection);
            }
        });
        let mut origin = Origin::new(
            &url,
            Some(&MirrorToken::Given("token".to_owned())),
            &MirrorTls::default(),
        )
        .unwrap();
        origin.silence = Duration::from_millis(50);
        origin
    }

    #[tokio::test]
    async fn a_silent_origin_is_an_error() {
        let text = format!(
            "HTTP/1.1 200 OK\r\nx-head: {}\r\ntransfer-encoding: chunked\r\n\r\n4\r\n: a\n\r\n",
            Head::default()
        );
        let origin = silent(text.leak()).await;
        let mut stream = origin.stream(Head::default()).await.unwrap();
        assert_eq!(stream.next().await.unwrap().as_deref(), Some(&b": a\n"[..]));
        assert_eq!(stream.next().await.unwrap_err(), "no data for 0 s");

        let (fetching, mut pipe) = origin.backup().await.unwrap().split();
        let read = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            let ended = pipe.read_to_end(&mut text);
            (text, ended.map_err(|error| error.to_string()))
        });
        fetching.await;
        let (text, ended) = read.await.unwrap();
        assert_eq!((&*text, ended), (&b": a\n"[..], Err("no data for 0 s".to_owned())));
    }

    #[tokio::test]
    async fn a_server_that_is_no_origin_is_reported() {
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
                "the reply has no X-Head header: is this a flux-resourceset server?",
            ),
            (
                "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
                "GET /changes/stream: 302 Found",
            ),
            (
                "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\nhi",
                "GET /changes/stream: 502 Bad Gateway",
            ),
        ] {
            let origin = silent(text).await;
            let Err(Trouble::Unavailable(detail)) = origin.stream(Head::default()).await else {
                panic!("{text}")
            };
            assert_eq!(detail, format!("{}: {expected}", origin.url()));
        }
    }
}
