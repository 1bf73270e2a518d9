//! Asks a running server on this machine whether it is ready: a probe for containers without a shell.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// More than the reply of a probe.
const MOST: usize = 16 * 1024;

/// The reply of a healthy server.
#[derive(Debug)]
pub struct Answer {
    url: String,
    body: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.body)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    #[error("LISTEN_ADDR: port 0 lets the system choose a port, so healthcheck cannot know which: set a port")]
    NoPort,
    #[error("{url}: {problem}")]
    NoAnswer { url: String, problem: io::Error },
    #[error("{url}: no reply within {timeout:?}")]
    TooLate { url: String, timeout: Duration },
    #[error("{url}: {status}")]
    Refused { url: String, status: String },
}

/// Asks `/ready`, or `/health` for `live`.
pub fn ask(listen: SocketAddr, live: bool, timeout: Duration) -> Result<Answer, Unhealthy> {
    if listen.port() == 0 {
        return Err(Unhealthy::NoPort);
    }
    let address = reachable(listen);
    let path = if live { "/health" } else { "/ready" };
    let url = format!("http://{address}{path}");
    let reply = match exchange(address, path, timeout) {
        Ok(reply) => reply,
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            return Err(Unhealthy::TooLate { url, timeout });
        }
        Err(problem) => return Err(Unhealthy::NoAnswer { url, problem }),
    };
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.lines().next().unwrap_or_default();
    let one_line = body.replace(char::is_control, " ").trim().to_owned();
    match status.split(' ').nth(1) {
        Some("200") => Ok(Answer { url, body: one_line }),
        _ => Err(Unhealthy::Refused {
            url,
            status: format!("{status} {one_line}").trim().to_owned(),
        }),
    }
}

/// The address to ask: the loopback, if the server listens on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// One request on a new connection. The timeout is for all of it, so that a reply in small pieces is late, too.
fn exchange(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let start = Instant::now();
    let left = || match timeout.saturating_sub(start.elapsed()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok::<_, io::Error>(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_write_timeout(Some(left()?))?;
    let agent = concat!("flux-resourceset-healthcheck/", env!("CARGO_PKG_VERSION"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    while reply.len() < MOST {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => reply.extend_from_slice(&buffer[..count]),
        }
    }
    if reply.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed without a reply",
        ));
    }
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
