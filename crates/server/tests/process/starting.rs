//! Before the first snapshot is there: alive, not ready, and easy to stop.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use testkit::client::Client;
use testkit::{Folder, Process, READ, cluster, eventually, poll};

use crate::shell::{Shell, shell};

/// A server that waits for the lock of its database, which somebody else holds.
fn waiting(folder: &Folder) -> (Process, Client, Shell) {
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    server.stop();
    let lock = shell(&folder.database(), "BEGIN IMMEDIATE");
    // The log tells an address of the system's choice only later.
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let process = folder.read_only().env("LISTEN_ADDR", address.to_string()).spawn();
    let client = Client::new(address, Some(READ));
    eventually("it is alive", || {
        let reply = client.try_send("GET", "/health", &[], &[]);
        reply.is_ok_and(|reply| reply.status == 200)
    });
    (process, client, lock)
}

#[test]
fn it_is_alive_but_not_ready_until_the_fleet_is_read() {
    let folder = Folder::new();
    let (_process, client, lock) = waiting(&folder);
    let reply = client.get("/ready").expect(503);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert!(reply.header("retry-after").is_some());
    // Neither 404 nor an empty list: who asks too early waits for the answer.
    thread::scope(|scope| {
        let asking = scope.spawn(|| client.get(&poll("a")));
        client.get("/ready").expect(503);
        lock.close();
        asking.join().unwrap().expect(200);
    });
    eventually("it is ready", || client.get("/ready").status == 200);
    client.get(&poll("a")).expect(200);
}

#[test]
fn a_signal_ends_it_before_it_has_started() {
    let folder = Folder::new();
    let (process, _, _lock) = waiting(&folder);
    process.signal("TERM");
    let ended = process.end_within(Duration::from_secs(3));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("stopping before the fleet is loaded"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_database_that_stays_locked_is_named() {
    let folder = Folder::new();
    let (process, _, _lock) = waiting(&folder);
    let ended = process.end_within(Duration::from_secs(15));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: DATABASE_URL: SQLite database "), "{last}");
    assert!(last.contains("another process holds its lock"), "{last}");
}
