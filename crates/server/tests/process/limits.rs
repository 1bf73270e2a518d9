//! No client can hold the server: not by being slow, not by being huge, not by being many.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::client::{Client, Connection};
use testkit::{Folder, READ, Server, WRITE, cluster, eventually, poll};

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
    // Of somebody who is not known yet, and of an admin.
    let slow_form = |path: &'static str, token: &str| {
        let mut connection = open(&server);
        let headers = [
            ("content-length", "1000"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        connection
            .send(server.with(token).head("POST", path, &headers))
            .unwrap();
        drip(&mut connection)
    };
    let slow_sign_in = || slow_form("/ui/login", "unknown");
    let slow_plan = || slow_form("/ui/plan", WRITE);
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
        at_work.store(7, Ordering::SeqCst);
        scope.spawn(|| slow("says nothing", 8..15, &silent));
        scope.spawn(|| slow("keeps its connection", 8..15, &idle));
        scope.spawn(|| slow("sends its headers slowly", 8..15, &slow_head));
        scope.spawn(|| slow("sends its body slowly", 25..40, &slow_body));
        scope.spawn(|| slow("signs in slowly", 25..40, &slow_sign_in));
        scope.spawn(|| slow("sends a form slowly", 25..40, &slow_plan));
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
fn a_form_that_is_too_large_is_413_and_strangers_send_none() {
    const MEGABYTE: usize = 1 << 20;
    let folder = Folder::new();
    let server = folder.crud().start();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let send = |token: &str, path: &str, size: usize| {
        let form = [&b"token=x&body="[..], &vec![b'x'; size]].concat();
        server.with(token).send("POST", path, &headers, &form).status
    };
    assert_eq!(send("unknown", "/ui/login", 60_000), 401);
    assert_eq!(send("unknown", "/ui/login", MEGABYTE), 413);
    assert_eq!(send(WRITE, "/ui/check", 3 * MEGABYTE), 200);
    assert_eq!(send(WRITE, "/ui/plan", 5 * MEGABYTE), 413);
    // Nothing is read of who may not change anything.
    assert_eq!(send("unknown", "/ui/plan", 5 * MEGABYTE), 303);
    assert_eq!(send(READ, "/ui/plan", 5 * MEGABYTE), 403);
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
fn a_client_that_sends_all_of_a_refused_body_gets_the_reply() {
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
fn a_request_without_the_right_is_refused_before_its_body_is_read() {
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
fn more_connections_than_allowed_take_the_place_of_idle_ones() {
    let folder = Folder::new();
    let server = folder.crud().env("MAX_CONNECTIONS", "3").start();
    let ask = |connection: &mut Connection| connection.send(server.reader().head("GET", "/clusters", &[]));
    let mut kept: Vec<_> = (0..3).map(|_| open(&server)).collect();
    for connection in &mut kept {
        ask(connection).unwrap();
        connection.reply().unwrap().expect(200);
    }
    let mut more: Vec<_> = (0..10).map(|_| open(&server)).collect();
    for connection in &mut more {
        ask(connection).unwrap();
    }
    for mut connection in more {
        connection.patience(Duration::from_secs(20));
        connection.reply().unwrap().expect(200);
    }
    // Three of the thirteen are left at most, and the first ones were idle for longest.
    for mut connection in kept {
        assert_eq!(connection.drain(), 0);
    }
}

/// What the metric says was closed or refused for a reason.
fn shed(server: &Server, reason: &str) -> u64 {
    let metrics = server.reader().get("/metrics").expect(200);
    let start = format!("flux_resourceset_connections_shed_total{{reason=\"{reason}\"}} ");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |number| number.parse().unwrap())
}

const FULL: usize = 40;

/// A server that takes few connections, so that a test can hold more than that.
fn small(folder: &Folder) -> Server {
    let setup = folder.crud().env("STORE_BACKEND", "memory");
    let setup = setup.env("MAX_CONNECTIONS", FULL.to_string());
    setup.env("SEED_FILE", folder.seed(&large_fleet())).start()
}

/// Polls as Flux does, each on a connection of its own that is left open; none may wait for those who hold the others.
#[track_caller]
fn polls_are_prompt(server: &Server) {
    const PROMPT: Duration = Duration::from_secs(2);
    let mut kept = Vec::new();
    for n in 0..50 {
        let started = Instant::now();
        let mut connection = open(server);
        let head = server
            .reader()
            .head("GET", &poll("c-1"), &[("user-agent", "flux-operator/v0.30.0")]);
        connection.send(head).unwrap();
        connection.reply().unwrap().expect(200);
        let time = started.elapsed();
        assert!(time < PROMPT, "poll {n} took {time:?}");
        kept.push(connection);
    }
}

#[test]
fn polls_are_prompt_beside_300_streams_and_those_within_their_cap_go_on() {
    let folder = Folder::new();
    let server = folder.crud().env("MAX_CONNECTIONS", "200");
    let server = server.env("SEED_FILE", folder.seed(&large_fleet())).start();
    let mut streams = Vec::new();
    for _ in 0..300 {
        let mut connection = open(&server);
        connection
            .send(server.reader().head("GET", "/changes/stream", &[]))
            .unwrap();
        streams.push(connection);
    }
    polls_are_prompt(&server);
    // Each stream either began or was told at once to come back; a quarter of the connections is theirs.
    let mut begun = Vec::new();
    for mut connection in streams {
        let head = connection.some();
        match head.split(' ').nth(1) {
            Some("200") => begun.push(connection),
            Some("503") => assert!(head.to_lowercase().contains("retry-after: "), "{head}"),
            _ => assert_eq!(head, "", "neither begun nor refused"),
        }
    }
    assert_eq!(begun.len(), 50);
    server.writer().post("/namespaces", &json!({"id": "new"})).expect(201);
    polls_are_prompt(&server);
    for mut connection in begun {
        let mut text = String::new();
        while !text.contains("id: 2\n") {
            let more = connection.some();
            assert_ne!(more, "", "the stream goes on: {text}");
            text.push_str(&more);
        }
    }
}

#[test]
fn polls_are_prompt_beside_idle_connections() {
    let folder = Folder::new();
    let server = small(&folder);
    let mut idle = Vec::new();
    for _ in 0..3 * FULL {
        let mut connection = open(&server);
        connection
            .send(server.reader().head("GET", "/clusters/c-0", &[]))
            .unwrap();
        idle.push(connection);
    }
    polls_are_prompt(&server);
    assert!(shed(&server, "idle") > 0);
}

#[test]
fn polls_are_prompt_beside_requests_that_never_end() {
    let folder = Folder::new();
    let server = small(&folder);
    let slow: Vec<_> = (0..3 * FULL)
        .map(|n| {
            let mut connection = open(&server);
            // Some say nothing at all.
            if n % 3 > 0 {
                connection
                    .send("GET /api/v2/flux/clusters/x/y HTTP/1.1\r\nx-slow: ")
                    .unwrap();
            }
            connection
        })
        .collect();
    polls_are_prompt(&server);
    assert!(shed(&server, "slow_request") > 0);
    drop(slow);
}

#[test]
fn polls_are_prompt_beside_replies_that_nobody_reads_and_other_requests_have_a_share() {
    let folder = Folder::new();
    let server = small(&folder);
    let mut unread: Vec<_> = (0..3 * FULL)
        .map(|_| {
            let mut connection = open(&server);
            connection.send(server.reader().head("GET", "/clusters", &[])).unwrap();
            connection
        })
        .collect();
    polls_are_prompt(&server);
    // Those beyond the share are told so at once, and that the connection ends.
    eventually("some are refused", || shed(&server, "busy") > 0);
    let mut refused = 0;
    for connection in &mut unread {
        connection.patience(Duration::from_millis(500));
        if let Ok(reply) = connection.reply()
            && reply.status == 503
        {
            assert!(reply.header("retry-after").is_some());
            assert_eq!(reply.header("connection"), Some("close"));
            refused += 1;
        }
    }
    assert!(refused > 0);
    // Who reads nothing makes room for who does.
    eventually("other requests are served again", || {
        server.reader().get("/clusters/c-1").status == 200
    });
    server.anonymous().get("/health").expect(200);
}

#[test]
fn a_request_in_progress_is_never_closed_for_another() {
    let folder = Folder::new();
    let server = small(&folder);
    // A write whose body comes slowly.
    let body = cluster("late").to_string();
    let length = body.len().to_string();
    let mut writer = open(&server);
    let head = server
        .writer()
        .head("POST", "/clusters", &[("content-length", &length)]);
    writer.send(head + &body[..20]).unwrap();
    let idle: Vec<_> = (0..3 * FULL).map(|_| open(&server)).collect();
    polls_are_prompt(&server);
    writer.send(&body[20..]).unwrap();
    writer.reply().unwrap().expect(201);
    drop(idle);
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
fn a_closed_log_pipe_stops_nothing() {
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

/// A batch near the limit, whose operations are as small as those of real clusters.
fn large_batch() -> Vec<u8> {
    let namespaces: Vec<_> = (0..60).map(|n| json!({"id": format!("team-{n:02}")})).collect();
    let operations = (0..10_000).map(|n| {
        let mut one = cluster(&format!("b-{n}"));
        one["namespaces"] = namespaces.clone().into();
        one["labels"] = json!({"note": "x".repeat(1000)});
        json!({"op": "create", "kind": "clusters", "value": one})
    });
    json!({"operations": operations.collect::<Vec<_>>()})
        .to_string()
        .into_bytes()
}

#[test]
fn large_batches_at_once_take_turns_and_leave_polls_alone() {
    const AT_ONCE: usize = 6;
    /// One batch of 26 MB takes about 600 MB; six at once took six times that.
    const MOST: u64 = 1400 << 20;
    let folder = Folder::new();
    let server = folder.crud().env("STORE_BACKEND", "memory");
    let server = server
        .env("SEED_FILE", folder.seed(&json!({"clusters": [cluster("a")]})))
        .start();
    let batch = large_batch();
    assert!((20 << 20..32 << 20).contains(&batch.len()), "{}", batch.len());
    let at_work = AtomicUsize::new(AT_ONCE);
    let statuses = thread::scope(|scope| {
        let send = || {
            // Validated as a whole and refused: the references go nowhere.
            let reply = server.writer().send("POST", "/batch?dry_run=true", &[], &batch);
            at_work.fetch_sub(1, Ordering::SeqCst);
            (reply.status, reply.header("retry-after").is_some())
        };
        let batches: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(send)).collect();
        while at_work.load(Ordering::SeqCst) > 0 {
            let started = Instant::now();
            server.reader().get(&poll("a")).expect(200);
            assert!(
                started.elapsed() < Duration::from_secs(2),
                "a poll took {:?}",
                started.elapsed()
            );
            thread::sleep(Duration::from_millis(20));
        }
        let statuses = batches.into_iter().map(|batch| batch.join().unwrap());
        statuses.collect::<Vec<_>>()
    });
    let peak = server.process.memory("VmHWM");
    println!("{statuses:?}, {peak} bytes at most");
    assert!(
        statuses
            .iter()
            .all(|status| matches!(status, (422, false) | (503, true))),
        "{statuses:?}"
    );
    assert!(statuses.iter().any(|status| status.0 == 422), "{statuses:?}");
    assert!(peak < MOST, "{peak} bytes");
    // Small writes do not wait for large ones, nor are they refused for them.
    server.writer().post("/namespaces", &json!({"id": "small"})).expect(201);
}
