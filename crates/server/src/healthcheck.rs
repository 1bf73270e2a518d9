//! Asks a running server on this machine whether it is well: a container without a shell has nothing else to do so with.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The whole reply of a probe is far shorter.
const ENOUGH: usize = 16 * 1024;

/// What a server that is well said.
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
    #[error("LISTEN_ADDR: port 0 is one of the system's choice: nobody knows where to ask")]
    NoPort,
    #[error("{url}: {problem}")]
    NoAnswer { url: String, problem: io::Error },
    #[error("{url}: no answer within {timeout:?}")]
    TooLate { url: String, timeout: Duration },
    #[error("{url}: {status}")]
    Refused { url: String, status: String },
}

/// Asks `/ready`, or `/health` if it is about life alone.
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

/// A server that listens everywhere is asked on the loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// One request on a connection of its own. The time is that of the whole: a server that drips is late too.
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
    while reply.len() < ENOUGH {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => reply.extend_from_slice(&buffer[..count]),
        }
    }
    if reply.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed without an answer",
        ));
    }
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
