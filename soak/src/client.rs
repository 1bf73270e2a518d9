//! Requests, each on a connection of its own, as Flux sends them; and connections that are held open.

use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use bench::Result;
use bench::http;
use flate2::read::GzDecoder;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const READ_TOKEN: &str = "soak-read-token-0123456789";
pub(crate) const WRITE_TOKEN: &str = "soak-write-token-0123456789";
/// Longer than anything takes that works, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reply that has arrived in full.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    pub(crate) revision: Option<u64>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The beginning of the body, for messages.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(300).collect()
    }
}

/// A request that is being put together.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let token = if method == "GET" { READ_TOKEN } else { WRITE_TOKEN };
        Self::with_token(method, path, token)
    }

    pub(crate) fn with_token(method: &str, path: &str, token: &str) -> Self {
        Request {
            head: format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"),
            body: Vec::new(),
        }
    }

    /// The one that Flux Operator sends.
    pub(crate) fn poll(dns: &str, path: &str) -> Self {
        Request::new("GET", &format!("/api/v2/flux/clusters/{dns}/{path}"))
            .header("User-Agent", "flux-operator/v0.58.1")
            .header("Accept", "application/json")
            .header("Accept-Encoding", "gzip")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.content("application/json", body.to_string().into_bytes())
    }

    pub(crate) fn content(mut self, kind: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.header("Content-Type", kind)
    }

    fn bytes(&self) -> Vec<u8> {
        let length = match self.body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        [self.head.as_bytes(), length.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// Sends it and waits for the whole reply.
    pub(crate) async fn send(&self, addr: SocketAddr, number: usize) -> Result<Reply> {
        let mut client = http::Client::new(addr, number);
        let bytes = self.bytes();
        let reply = timeout(PATIENCE, client.send(&bytes))
            .await
            .map_err(|_| "no reply in time")??;
        let header = |name: &str| reply.header(name).map(str::to_owned);
        Ok(Reply {
            status: reply.status,
            etag: header("etag"),
            revision: header("x-revision").and_then(|text| text.parse().ok()),
            body: match reply.gzip {
                true => unpacked(&reply.body)?,
                false => reply.body.to_vec(),
            },
        })
    }

    /// Sends it, and leaves the reply to the caller.
    pub(crate) async fn open(&self, addr: SocketAddr) -> Result<TcpStream> {
        let mut stream = timeout(PATIENCE, TcpStream::connect(addr))
            .await
            .map_err(|_| "no connection in time")??;
        timeout(PATIENCE, stream.write_all(&self.bytes()))
            .await
            .map_err(|_| "the request is not taken")??;
        Ok(stream)
    }
}

/// Its first line, for messages.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.head.split(" HTTP").next().unwrap_or_default())
    }
}

fn unpacked(body: &[u8]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(body).read_to_end(&mut text)?;
    Ok(text)
}
