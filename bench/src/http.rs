//! A minimal HTTP/1.1 client. The loader shares the cores with the server, so every microsecond spent here blurs the ratio.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;

/// A reply that has arrived in full.
#[derive(Debug, PartialEq)]
pub struct Reply<'a> {
    pub status: u16,
    /// The lines of all headers.
    pub headers: &'a str,
    pub gzip: bool,
    /// The server closes the connection after this reply.
    pub close: bool,
    pub body: Cow<'a, [u8]>,
}

impl Reply<'_> {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.split("\r\n").filter_map(|line| line.split_once(':'));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// Parses a reply; `None` if it is not complete yet.
pub fn parse(bytes: &[u8]) -> Result<Option<Reply<'_>>> {
    let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Ok(None);
    };
    let rest = &bytes[head + 4..];
    let head = std::str::from_utf8(&bytes[..head])?;
    let (status_line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|s| s.get(..3))
        .ok_or("not an HTTP/1.1 reply")?
        .parse()?;
    let (mut gzip, mut close, mut chunked, mut length) = (false, false, false, None);
    for line in headers.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse::<usize>()?);
        } else if name.eq_ignore_ascii_case("content-encoding") {
            gzip = value.eq_ignore_ascii_case("gzip");
        } else if name.eq_ignore_ascii_case("connection") {
            close = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        }
    }
    let body = match length {
        _ if matches!(status, 204 | 304) => Some(Cow::Borrowed(&[][..])),
        _ if chunked => dechunk(rest)?.map(Cow::Owned),
        Some(length) => rest.get(..length).map(Cow::Borrowed),
        None => return Err("a reply with neither content-length nor chunks".into()),
    };
    Ok(body.map(|body| Reply {
        status,
        headers,
        gzip,
        close,
        body,
    }))
}

fn dechunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&rest[..end])?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
        let Some(chunk) = rest.get(end + 2..end + 2 + size + 2) else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

/// A connection.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes).await,
            Stream::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    async fn read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read_buf(buffer).await,
            Stream::Tls(stream) => stream.read_buf(buffer).await,
        }
    }
}

/// One connection at a time to one server, and idle ones that were left open.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    source: Ipv4Addr,
    /// None: plain HTTP.
    tls: Option<Arc<ClientConfig>>,
    stream: Option<Stream>,
    buffer: Vec<u8>,
    left: VecDeque<Stream>,
    pub connects: u64,
}

impl Client {
    /// Clients with different `number`s come from different loopback addresses: one address alone runs out of ports, because
    /// each closed connection holds its own for a minute.
    pub fn new(addr: SocketAddr, number: usize) -> Self {
        let source = Ipv4Addr::new(127, 0, 0, 2 + (number % 64) as u8);
        Self {
            addr,
            source,
            tls: None,
            stream: None,
            buffer: Vec::with_capacity(16 * 1024),
            left: VecDeque::new(),
            connects: 0,
        }
    }

    /// Speaks TLS to a server named `localhost`.
    #[must_use]
    pub fn over_tls(mut self, config: Option<Arc<ClientConfig>>) -> Self {
        self.tls = config;
        self
    }

    /// Sends a request and waits for the whole reply. As in Go, a connection that the server closed meanwhile is replaced.
    pub async fn send(&mut self, request: &[u8]) -> Result<Reply<'_>> {
        let reused = self.stream.is_some();
        let mut close = self.exchange(request).await;
        if close.is_err() && reused && self.buffer.is_empty() && request.starts_with(b"GET ") {
            close = self.exchange(request).await;
        }
        if close? {
            self.stream = None;
        }
        Ok(parse(&self.buffer)?.ok_or("a reply that was whole is not")?)
    }

    /// Leaves the connection idle as Flux does, until `most` are: then the oldest is closed, where Flux would wait for 90 s.
    pub fn leave(&mut self, most: usize) {
        self.left.extend(self.stream.take());
        if self.left.len() > most {
            self.left.pop_front();
        }
    }

    async fn connect(&self) -> Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.source, 0).into())?;
        let stream = socket.connect(self.addr).await?;
        let Some(config) = &self.tls else {
            return Ok(Stream::Plain(stream));
        };
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<bool> {
        self.buffer.clear();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.connects += 1;
                self.connect().await?
            }
        };
        stream.write_all(request).await?;
        loop {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            if let Some(reply) = parse(&self.buffer)? {
                let close = reply.close;
                self.stream = Some(stream);
                return Ok(close);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\ncontent-length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 422 No\r\ntransfer-encoding: chunked\r\nConnection: close\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n";

    #[test]
    fn a_reply_is_whole_only_with_its_last_byte() {
        for whole in [LENGTH, CHUNKED] {
            for cut in 0..whole.len() {
                assert_eq!(parse(&whole[..cut]).expect("no error"), None, "cut at {cut}");
            }
            assert_eq!(&parse(whole).expect("no error").expect("whole").body[..], b"hello");
        }
    }

    #[test]
    fn status_and_headers_are_read_without_case() {
        let reply = parse(LENGTH).expect("no error").expect("whole");
        assert_eq!((reply.status, reply.gzip, reply.close), (200, true, false));
        let reply = parse(CHUNKED).expect("no error").expect("whole");
        assert_eq!((reply.status, reply.gzip, reply.close), (422, false, true));
    }

    #[test]
    fn a_reply_that_cannot_be_delimited_is_refused() {
        for bad in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "SMTP\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
