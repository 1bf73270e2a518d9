//! An orderly end: what is in flight is finished, nothing new begins, the exit code is 0.

use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::client::Connection;
use testkit::{Folder, Process, Server, cluster, eventually, poll, signal};

/// Much less than the silence that a connection is allowed, or the grace of a request.
const SOON: Duration = Duration::from_secs(5);

/// A write whose body is only half there. The interim reply shows that the server is at work on it.
fn half_a_write(server: &Server, id: &str) -> (Connection, Vec<u8>) {
    let mut body = cluster(id).to_string().into_bytes();
    let rest = body.split_off(body.len() / 2);
    let length = (body.len() + rest.len()).to_string();
    let headers = [("content-length", length.as_str()), ("expect", "100-continue")];
    let mut connection = Connection::open(server.address).unwrap();
    connection
        .send(server.writer().head("POST", "/clusters", &headers))
        .unwrap();
    assert_eq!(connection.reply().unwrap().status, 100);
    connection.send(body).unwrap();
    (connection, rest)
}

fn refuses_connections(server: &Server) -> bool {
    Connection::open(server.address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn finishes_what_is_in_flight(name: &str) {
    let folder = Folder::new();
    let server = folder.crud().start();
    let (mut connection, rest) = half_a_write(&server, "late");
    server.process.signal(name);
    let line = server.process.line("stopping");
    assert!(line.contains(&format!("SIG{name}")), "{line}");
    eventually("new connections are refused", || refuses_connections(&server));

    connection.send(rest).unwrap();
    let reply = connection.reply().unwrap().expect(201);
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(connection.drain(), 0);
    let ended = server.process.end_within(SOON);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
    assert!(!folder.path("fleet.db-wal").exists(), "the files are left tidy");
    folder.crud().start().reader().get(&poll("late")).expect(200);
}

#[test]
fn sigterm_finishes_what_is_in_flight() {
    finishes_what_is_in_flight("TERM");
}

#[test]
fn sigint_finishes_what_is_in_flight() {
    finishes_what_is_in_flight("INT");
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let folder = Folder::new();
    let server = folder.crud().env("METRICS_ADDR", "127.0.0.1:0").start();
    let mut idle: Vec<_> = (0..4).map(|_| Connection::open(server.address).unwrap()).collect();
    // Two were used and kept, two never said anything.
    for connection in &mut idle[..2] {
        connection.send(server.reader().head("GET", "/clusters", &[])).unwrap();
        connection.reply().unwrap().expect(200);
    }
    let started = Instant::now();
    server.process.signal("TERM");
    let ended = server.process.end_within(SOON);
    println!("ended after {:?} with idle connections", started.elapsed());
    assert_eq!(ended.status.code(), Some(0));
    for connection in &mut idle {
        assert_eq!(connection.drain(), 0);
    }
}

#[test]
fn a_request_that_never_ends_is_waited_for_no_longer_than_the_grace() {
    let folder = Folder::new();
    let server = folder.crud().env("SHUTDOWN_GRACE", "1").start();
    let (_connection, _rest) = half_a_write(&server, "never");
    let started = Instant::now();
    server.process.signal("TERM");
    let ended = server.process.end_within(SOON);
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(ended.status.code(), Some(0));
    assert!(
        ended.stderr.contains("some requests did not finish in time"),
        "{}",
        ended.stderr
    );
    folder.crud().start().reader().get(&poll("never")).expect(404);
}

#[test]
fn a_signal_right_after_the_start_ends_it_in_order() {
    for _ in 0..5 {
        let folder = Folder::new();
        let process = folder.crud().spawn();
        process.line("listening");
        process.signal("TERM");
        let ended = process.end_within(SOON);
        assert_eq!(ended.status.code(), Some(0), "{:?} {}", ended.status, ended.stderr);
    }
}

/// The process that `unshare` forked, by its number outside.
fn child_of(process: &Process) -> Option<u32> {
    let id = process.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn it_ends_in_order_as_the_first_process_of_a_container() {
    const UNSHARE: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];
    let allowed = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} is not permitted here", UNSHARE.join(" "));
        return;
    }
    let folder = Folder::new();
    let server = folder.crud().under(&UNSHARE).start();
    let Some(first) = child_of(&server.process) else {
        println!("skipped: /proc does not tell the children of a process here");
        return;
    };
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let numbers = status.lines().find(|line| line.starts_with("NSpid:")).unwrap();
    assert_eq!(numbers.split_whitespace().last(), Some("1"), "{numbers}");

    let (mut connection, rest) = half_a_write(&server, "late");
    // The first process gets no signal that it has no handler for.
    signal(first, "TERM");
    server.process.line("stopping");
    connection.send(rest).unwrap();
    connection.reply().unwrap().expect(201);
    let ended = server.process.end_within(SOON);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
