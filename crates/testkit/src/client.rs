//! HTTP/1.1 on a plain socket, so that a test can send requests that are cut off, slow or wrong.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::PATIENCE;

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a header.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let headers = self
            .headers
            .iter()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        headers.map(|(_, value)| value.as_str())
    }

    /// The revision that it is of.
    pub fn revision(&self) -> Option<u64> {
        self.header("x-revision")?.parse().ok()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

/// One connection, for requests one after the other.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    pub fn patience(&self, time: Duration) {
        self.stream.get_ref().set_read_timeout(Some(time)).unwrap();
    }

    /// The next reply, interim ones (`100 Continue`) among them.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken("no status line"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken("no header"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| broken("no size of a chunk"))?;
                let start = reply.body.len();
                reply.body.resize(start + size, 0);
                self.stream.read_exact(&mut reply.body[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else if status >= 200 && status != 204 && status != 304 {
            let length = reply.header("content-length").and_then(|length| length.parse().ok());
            reply.body = vec![0; length.ok_or_else(|| broken("a body without a length"))?];
            self.stream.read_exact(&mut reply.body)?;
        }
        Ok(reply)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(line.to_owned())
    }

    /// The next bytes; empty at the end.
    pub fn some(&mut self) -> String {
        let text = self.stream.fill_buf().unwrap();
        let (text, length) = (String::from_utf8_lossy(text).into_owned(), text.len());
        self.stream.consume(length);
        text
    }

    /// Reads until the server closes or resets the connection; returns the number of bytes.
    pub fn drain(&mut self) -> u64 {
        let mut length = 0;
        let mut buffer = [0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return length,
                Ok(read) => length += read as u64,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return length,
                Err(error) => panic!("the server keeps the connection: {error}"),
            }
        }
    }
}

/// A client with a token, which opens a connection for each request.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    token: Option<String>,
}

impl Client {
    pub fn new(address: SocketAddr, token: Option<&str>) -> Self {
        Client {
            address,
            token: token.map(str::to_owned),
        }
    }

    /// The head of a request, up to and with its empty line.
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        if let Some(token) = &self.token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }

    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        let length = body.len().to_string();
        let mut all = vec![("connection", "close")];
        if !body.is_empty() {
            all.push(("content-length", &length));
        }
        all.extend(headers);
        let mut connection = Connection::open(self.address)?;
        // A server that refuses a request need not read all of it.
        let sent = connection.send([self.head(method, path, &all).as_bytes(), body].concat());
        connection.reply().or_else(|error| sent.and(Err(error)))
    }

    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let reply = self.try_send(method, path, headers, body);
        reply.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], &[])
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], &[])
    }

    /// The ids of all resources of a kind.
    #[track_caller]
    pub fn ids(&self, kind: &str) -> Vec<String> {
        let list = self.get(&format!("/{kind}")).expect(200).json();
        let ids = list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    }

    /// The whole log, page by page.
    #[track_caller]
    pub fn changes(&self) -> Vec<Value> {
        self.changes_after(0)
    }

    /// The log after a revision, page by page.
    #[track_caller]
    pub fn changes_after(&self, after: u64) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let after = all
                .last()
                .map_or(after, |record: &Value| record["revision"].as_u64().unwrap());
            let page = self
                .get(&format!("/changes?after={after}&limit=500"))
                .expect(200)
                .json();
            let Value::Array(page) = page else {
                panic!("no array: {page}")
            };
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// The whole log, after a check of its numbers: revisions from 1 and the records of each from 0, without a gap.
    #[track_caller]
    pub fn changes_without_gaps(&self) -> Vec<Value> {
        let changes = self.changes();
        let mut before = (0, 0);
        for record in &changes {
            let now = (record["revision"].as_u64().unwrap(), record["index"].as_u64().unwrap());
            let follows = now == (before.0, before.1 + 1) || now == (before.0 + 1, 0);
            assert!(follows, "{now:?} after {before:?}");
            before = now;
        }
        changes
    }
}
