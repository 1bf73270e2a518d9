//! No client can hold the server: not by being slow, not by being huge, not by being many.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Connection};
use crate::server::{Folder, Server, cluster, eventually, poll};

/// As many bytes as no pair of sockets holds: 20 clusters with patches of 600 KB.
fn large_fleet() -> Value {
    let clusters = (0..20).map(|n| {
        let mut one = cluster(&format!("c-{n}"));
        let values = (0..10).map(|n| (format!("value-{n}"), Value::from("x".repeat(60_000))));
        one["patches"] = json!({"podinfo": Value::Object(values.collect())});
        one
    });
    json!({"clusters": clusters.collect::<Vec<_>>()})
}

fn open(server: &Server) -> Connection {
    Connection::open(server.address).unwrap()
}

/// Sends a byte now and then until the server has enough of it; says how long that took.
fn drip(connection: &mut Connection) -> Duration {
    let started = Instant::now();
    connection.patience(Duration::from_millis(250));
    loop {
        if connection.send("x").is_err() {
            return started.elapsed();
        }
        match connection.reply() {
            Ok(reply) => {
                assert_eq!(reply.status, 408);
                return started.elapsed();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return started.elapsed(),
        }
    }
}

fn connections(client: &Client) -> u64 {
    let metrics = client.get("/metrics").expect(200);
    let line = metrics
        .text()
        .lines()
        .find(|line| line.starts_with("flux_resourceset_connections "));
    line.unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

/// The slowest of all tests, hence one: the clients wait for different limits at the same time.
#[test]
fn slow_clients_are_cut_while_others_are_served() {
    let folder = Folder::new();
    let setup = folder.crud().env("STORE_BACKEND", "memory");
    let server = setup.env("SEED_FILE", folder.seed(&large_fleet())).start();
    let at_work = AtomicUsize::new(0);
    let slow = |name: &'static str, seconds: std::ops::Range<u64>, be_slow: &dyn Fn() -> Duration| {
        let time = be_slow();
        println!("{name}: cut after {time:?}");
        let (least, most) = (Duration::from_secs(seconds.start), Duration::from_secs(seconds.end));
        assert!((least..most).contains(&time), "{name}: cut after {time:?}");
        at_work.fetch_sub(1, Ordering::SeqCst);
    };
    let drained = |connection: &mut Connection| {
        let started = Instant::now();
        assert_eq!(connection.drain(), 0);
        started.elapsed()
    };
    let silent = || drained(&mut open(&server));
    let idle = || {
        let mut connection = open(&server);
        connection
            .send(server.reader().head("GET", "/clusters/c-0", &[]))
            .unwrap();
        connection.reply().unwrap().expect(200);
        drained(&mut connection)
    };
    let slow_head = || {
        let mut connection = open(&server);
        connection.send("GET /health HTTP/1.1\r\nx-slow: ").unwrap();
        drip(&mut connection)
    };
    let slow_body = || {
        let mut connection = open(&server);
        let head = server.writer().head("POST", "/clusters", &[("content-length", "1000")]);
        connection.send(head).unwrap();
        drip(&mut connection)
    };
    // Takes the beginning of a large list and no more.
    let unread = || {
        let mut connection = open(&server);
        let started = Instant::now();
        connection.send(server.reader().head("GET", "/clusters", &[])).unwrap();
        while at_work.load(Ordering::SeqCst) > 1 {
            thread::sleep(Duration::from_millis(20));
        }
        // Everybody else is gone: what is left is this one, and whoever asks.
        eventually("the connection is cut", || connections(&server.reader()) == 1);
        let time = started.elapsed();
        let whole = server.reader().get("/clusters").expect(200).body.len() as u64;
        assert!(connection.drain() < whole);
        time
    };
    thread::scope(|scope| {
        at_work.store(5, Ordering::SeqCst);
        scope.spawn(|| slow("says nothing", 8..15, &silent));
        scope.spawn(|| slow("keeps its connection", 8..15, &idle));
        scope.spawn(|| slow("sends its headers slowly", 8..15, &slow_head));
        scope.spawn(|| slow("sends its body slowly", 25..40, &slow_body));
        scope.spawn(|| slow("does not read its reply", 25..40, &unread));
        let mut longest = Duration::ZERO;
        while at_work.load(Ordering::SeqCst) > 1 {
            let started = Instant::now();
            server.reader().get(&poll("c-1")).expect(200);
            longest = longest.max(started.elapsed());
            assert!(longest < Duration::from_secs(2), "a poll took {longest:?}");
            thread::sleep(Duration::from_millis(100));
        }
        println!("polls beside them took {longest:?} at most");
    });
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let large = "x".repeat(100_000);
    let many: Vec<_> = (0..200).map(|n| (format!("x-{n}"), "y")).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for headers in [&[("x-large", large.as_str())][..], &many] {
        let reply = server.reader().send("GET", "/clusters", headers, &[]);
        assert_eq!(reply.status, 431);
    }
    server.reader().get("/clusters").expect(200);
}

#[test]
fn what_is_no_request_is_400_and_what_follows_a_request_does_not_delay_its_reply() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let mut connection = open(&server);
    connection.send("what is this?\r\n\r\n").unwrap();
    connection.reply().unwrap().expect(400);

    let mut connection = open(&server);
    let head = server.reader().head("GET", "/clusters", &[]);
    let (half, rest) = head.split_at(head.len() / 2);
    connection.send(format!("{head}{head}{half}")).unwrap();
    connection.patience(Duration::from_secs(5));
    connection.reply().unwrap().expect(200);
    connection.reply().unwrap().expect(200);
    connection.send(rest).unwrap();
    connection.reply().unwrap().expect(200);

    // A body that nobody wants, since its sender may not write.
    for size in [100, 100_000, 1_000_000] {
        server
            .with("wrong")
            .send("POST", "/clusters", &[], &vec![b'x'; size])
            .expect(401);
        server
            .reader()
            .send("POST", "/clusters", &[], &vec![b'x'; size])
            .expect(403);
        server
            .reader()
            .send("GET", "/clusters", &[], &vec![b'x'; size])
            .expect(200);
    }
}

#[test]
fn a_body_that_is_too_large_is_413() {
    const MEGABYTE: usize = 1 << 20;
    let folder = Folder::new();
    let server = folder.crud().start();
    let text = |size: usize| json!({"id": "a", "text": "x".repeat(size)}).to_string().into_bytes();
    let send = |path: &str, size: usize| server.writer().send("POST", path, &[], &text(size)).status;
    assert_eq!(send("/clusters", 2 * MEGABYTE), 413);
    assert_eq!(send("/clusters", 20 * MEGABYTE), 413);
    assert_eq!(send("/batch", 2 * MEGABYTE), 422, "a batch may be larger");
    assert_eq!(send("/batch", 40 * MEGABYTE), 413);

    // Who asks first need not send it.
    let headers = [("content-length", "40000000"), ("expect", "100-continue")];
    let mut connection = open(&server);
    connection
        .send(server.writer().head("POST", "/clusters", &headers))
        .unwrap();
    connection.reply().unwrap().expect(413);

    // Nor does a body without a length have to be taken to its end.
    let mut connection = open(&server);
    let headers = [("transfer-encoding", "chunked")];
    connection
        .send(server.writer().head("POST", "/clusters", &headers))
        .unwrap();
    connection.patience(Duration::from_millis(1));
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0;
    let reply = loop {
        let ended = connection.send(&chunk).is_err();
        sent += 0x10000;
        match connection.reply() {
            Ok(reply) => break reply,
            Err(error) if error.kind() == ErrorKind::WouldBlock && !ended && sent < 100 * MEGABYTE => {}
            Err(error) => panic!("{error} after {sent} bytes"),
        }
    };
    reply.expect(413);
    server.reader().get("/clusters").expect(200);
}

/// Most clients send everything before they read anything.
#[test]
fn who_sends_all_of_a_body_that_is_refused_gets_the_reply() {
    const SIZE: usize = 20 << 20;
    let folder = Folder::new();
    let server = folder.crud().start();
    let length = SIZE.to_string();
    for (client, status) in [
        (server.writer(), 413),
        (server.reader(), 403),
        (server.anonymous(), 401),
    ] {
        let mut connection = open(&server);
        let head = client.head("POST", "/clusters", &[("content-length", &length)]);
        connection.send(head).unwrap();
        let piece = "x".repeat(1 << 16);
        for _ in 0..SIZE / piece.len() {
            connection.send(&piece).unwrap();
        }
        connection.reply().unwrap().expect(status);
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_like_a_full_disk() {
    let folder = Folder::new();
    let lowered = ["sh", "-c", "ulimit -f 2000 && exec \"$0\""];
    let server = folder.crud().under(&lowered).start();
    let write = |n: usize| {
        let text = "x".repeat(60_000);
        let namespace = json!({"id": format!("n-{n}"), "annotations": {"a": text}});
        server.writer().post("/namespaces", &namespace).status
    };
    let refused = (0..100).map(write).find(|status| *status != 201);
    assert_eq!(refused, Some(503));
    server.reader().get("/namespaces/n-0").expect(200);
}

#[test]
fn who_has_no_right_is_told_before_the_body_is_read() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let headers = [("content-length", "30000000"), ("expect", "100-continue")];
    for (client, status) in [
        (server.anonymous(), 401),
        (server.with("wrong"), 401),
        (server.reader(), 403),
    ] {
        let mut connection = open(&server);
        connection.send(client.head("POST", "/batch", &headers)).unwrap();
        connection.reply().unwrap().expect(status);
    }
}

#[test]
fn more_connections_than_allowed_wait_and_are_served_later() {
    let folder = Folder::new();
    let server = folder.crud().env("MAX_CONNECTIONS", "3").start();
    let ask = |connection: &mut Connection| connection.send(server.reader().head("GET", "/clusters", &[]));
    let mut kept: Vec<_> = (0..3).map(|_| open(&server)).collect();
    for connection in &mut kept {
        ask(connection).unwrap();
        connection.reply().unwrap().expect(200);
    }
    let mut waiting: Vec<_> = (0..10).map(|_| open(&server)).collect();
    for connection in &mut waiting {
        ask(connection).unwrap();
    }
    waiting[0].patience(Duration::from_millis(300));
    let error = waiting[0].reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "there is no place for it yet");
    drop(kept);
    for mut connection in waiting {
        connection.patience(Duration::from_secs(20));
        connection.reply().unwrap().expect(200);
    }
}

#[test]
fn the_limit_on_open_files_is_raised_as_far_as_allowed() {
    let folder = Folder::new();
    let lowered = ["sh", "-c", "ulimit -Sn 64 && exec \"$0\""];
    let server = folder.crud().under(&lowered).start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(soft == hard || soft >= 65_536, "{line}");
    // More than the old limit at a time.
    let mut all: Vec<_> = (0..100).map(|_| open(&server)).collect();
    for connection in &mut all {
        connection.send(server.reader().head("GET", "/clusters", &[])).unwrap();
    }
    for connection in &mut all {
        connection.reply().unwrap().expect(200);
    }
    assert_eq!(connections(&server.reader()), 101);
}

#[test]
fn a_log_that_nobody_takes_any_more_stops_nothing() {
    let folder = Folder::new();
    // As in `flux-resourceset 2>&1 | head -n 1`, or when whatever collects the logs dies.
    let server = folder.crud().close_log_after("listening").start();
    for n in 0..5 {
        let id = format!("c-{n}");
        server.writer().post("/clusters", &cluster(&id)).expect(201);
        server.reader().get(&poll(&id)).expect(200);
        server.anonymous().get("/clusters").expect(401);
    }
    server.process.signal("TERM");
    assert_eq!(server.process.end_within(Duration::from_secs(5)).status.code(), Some(0));
}
