//! A server that answers.

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::folder::{READ, WRITE};
use crate::process::{Ended, Process};

#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
}

impl Server {
    /// Waits until the process is ready.
    #[track_caller]
    pub(crate) fn of(process: Process, time: Duration) -> Self {
        let address = address_in(&process.line_within("listening", time));
        let server = Server { process, address };
        server.anonymous().get("/ready").expect(200);
        server
    }

    /// A client without a token.
    pub fn anonymous(&self) -> Client {
        Client::new(self.address, None)
    }

    pub fn with(&self, token: &str) -> Client {
        Client::new(self.address, Some(token))
    }

    pub fn reader(&self) -> Client {
        self.with(READ)
    }

    pub fn writer(&self) -> Client {
        self.with(WRITE)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it with SIGTERM, as a supervisor does. It must end with success.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.process.signal("TERM");
        let ended = self.process.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        ended
    }
}

/// The address in a line of the log, in either format.
pub fn address_in(line: &str) -> SocketAddr {
    let from = line.find("127.0.0.1:").unwrap_or_else(|| panic!("no address: {line}"));
    let rest = &line[from..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}
