//! TLS of the server itself: certificates of servers and clients, rotation, and clients that do not finish their handshake.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, HandshakeKind};
use testkit::{READ, WRITE, eventually};

use crate::https::{Authority, Client, World};

const DEMO: &str = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces";

#[test]
fn polls_are_answered_over_both_versions_of_tls_and_plain_http_is_told_so() {
    let world = World::new();
    let server = world.start(world.setup());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = world.client(version, None);
        assert_eq!(client.get(server.address, DEMO, Some(READ)).unwrap(), 200);
        assert_eq!(client.get(server.address, DEMO, None).unwrap(), 401);
        assert_eq!(client.get(server.address, "/health", None).unwrap(), 200);
    }
    let mut plain = TcpStream::connect(server.address).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut reply = String::new();
    plain.read_to_string(&mut reply).unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 400 ") && reply.contains("use an https:// URL"),
        "{reply}"
    );
    // Who does not trust the server's certificate leaves.
    let stranger = World::new().plain_client();
    assert!(stranger.get(server.address, "/health", None).is_err());
    let probe = world.folder.bare().env("LISTEN_ADDR", server.address.to_string());
    let probe = probe
        .env("TLS_CERT_FILE", world.folder.path("tls.pem"))
        .env("TLS_KEY_FILE", world.folder.path("tls.key"));
    let ended = probe.args(&["healthcheck"]).run();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("https://"), "{ended:?}");
}

#[test]
fn a_certificate_identifies_a_cluster_or_an_identity_by_its_dns_name() {
    let world = World::new();
    let server = world.start(world.setup());
    let with = |names: &[&str]| world.client(&rustls::version::TLS13, Some(world.clients.sign(names)));
    let body = r#"{"id":"ann","role":"reader","certificates":["ann.example.com"]}"#;
    world.plain_client().post(server.address, "/identities", body);

    let demo = with(&["Demo-Cluster-01.k8s.example.com"]);
    assert_eq!(demo.get(server.address, DEMO, None).unwrap(), 200);
    let other = DEMO.replace("demo-cluster-01", "demo-cluster-02");
    assert_eq!(demo.get(server.address, &other, None).unwrap(), 403);
    assert_eq!(demo.get(server.address, "/clusters", None).unwrap(), 403);
    // A token beats the certificate, also a wrong one.
    assert_eq!(demo.get(server.address, "/clusters", Some(READ)).unwrap(), 200);
    assert_eq!(demo.get(server.address, DEMO, Some("wrong")).unwrap(), 401);
    assert_eq!(
        with(&["ann.example.com"])
            .get(server.address, "/clusters", None)
            .unwrap(),
        200
    );
    assert_eq!(
        with(&["nobody.example.com"])
            .get(server.address, "/clusters", None)
            .unwrap(),
        401
    );
    let both = with(&["ann.example.com", "demo-cluster-01.k8s.example.com"]);
    assert_eq!(both.get(server.address, DEMO, None).unwrap(), 401);
    // Signed by somebody else.
    let forged = world.client(
        &rustls::version::TLS13,
        Some(Authority::new().sign(&["ann.example.com"])),
    );
    assert!(forged.get(server.address, "/clusters", None).is_err());
}

#[test]
fn a_server_that_accepts_client_certificates_needs_no_token() {
    let world = World::new();
    let server = world.start(world.setup().without("AUTH_TOKEN").without("CRUD_AUTH_TOKEN"));
    let own = Some(world.clients.sign(&["demo-cluster-01.k8s.example.com"]));
    let demo = world.client(&rustls::version::TLS13, own);
    assert_eq!(demo.get(server.address, DEMO, None).unwrap(), 200);
    assert_eq!(world.plain_client().get(server.address, DEMO, None).unwrap(), 401);
}

#[test]
fn certificates_are_rotated_under_load_and_a_broken_file_leaves_the_old_in_use() {
    let world = World::new();
    let server = world.start(world.setup());
    let (client, stop) = (world.plain_client(), Arc::new(AtomicBool::new(false)));
    let pollers: Vec<_> = (0..4)
        .map(|_| {
            let (client, stop, address) = (client.clone(), stop.clone(), server.address);
            thread::spawn(move || {
                let mut polls = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.get(address, DEMO, Some(READ)).unwrap(), 200);
                    polls += 1;
                }
                polls
            })
        })
        .collect();
    let told = || {
        server
            .process
            .log()
            .iter()
            .filter(|line| line.contains("TLS files changed"))
            .count()
    };
    for rotation in 1..=3 {
        world.install(world.servers.sign(&["localhost"]));
        eventually("the new certificate is in use", || told() >= rotation);
    }
    world.folder.write("tls.pem", "nonsense");
    let line = server.process.line("keeping the TLS certificates in use");
    assert!(
        line.contains("TLS_CERT_FILE: ") && line.contains("contains no certificate"),
        "{line}"
    );
    assert_eq!(client.get(server.address, "/health", None).unwrap(), 200);
    // The certificate of another authority is in use once the files are whole again: the old client does not trust it.
    let other = Authority::new();
    world.install(other.sign(&["localhost"]));
    stop.store(true, Ordering::Relaxed);
    let polls: usize = pollers.into_iter().map(|poller| poller.join().unwrap()).sum();
    assert!(polls > 10, "{polls} polls");
    eventually("the certificate of another authority is in use", || {
        client.get(server.address, "/health", None).is_err()
    });
}

#[test]
fn an_expired_certificate_ends_with_its_time_on_open_connections_and_new_ones() {
    let world = World::new();
    let server = world.start(world.setup());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let own = world
            .clients
            .sign_for(Duration::from_secs(3), &["demo-cluster-01.k8s.example.com"]);
        let client = world.client(version, Some(own));
        assert_eq!(client.get(server.address, DEMO, None).unwrap(), 200);
        let mut kept = client.keep(server.address);
        eventually("the certificate has expired", || {
            let (status, head) = kept.get(DEMO).unwrap();
            assert_eq!(status == 401, head.contains("connection: close"), "{head}");
            status == 401
        });
        assert!(kept.get(DEMO).is_err(), "the connection is closed");
        // With the session of an earlier connection, if the server resumed it.
        let mut next = client.keep(server.address);
        assert!(
            next.get(DEMO).is_err(),
            "{:?}: {:?}",
            version.version,
            next.connection().handshake_kind()
        );
    }
}

#[test]
fn an_authority_that_is_replaced_ends_open_connections_of_its_clients() {
    let world = World::new();
    let server = world.start(world.setup());
    let own = world.clients.sign(&["demo-cluster-01.k8s.example.com"]);
    let mut kept = world.client(&rustls::version::TLS13, Some(own)).keep(server.address);
    assert_eq!(kept.get(DEMO).unwrap().0, 200);
    let told = || {
        let log = server.process.log();
        log.iter().filter(|line| line.contains("TLS files changed")).count()
    };
    // Both are trusted: nobody notices.
    let next = Authority::new();
    let both = format!("{}{}", world.clients.pem(), next.pem());
    world.folder.write("client-ca.pem", both);
    eventually("both authorities are in use", || told() >= 1);
    assert_eq!(kept.get(DEMO).unwrap().0, 200);
    world.folder.write("client-ca.pem", next.pem());
    eventually("only the next authority is in use", || told() >= 2);
    let (status, head) = kept.get(DEMO).unwrap();
    assert_eq!(status, 401, "{head}");
    assert!(head.contains("connection: close"), "{head}");
    assert!(kept.get(DEMO).is_err(), "the connection is closed");
    let own = next.sign(&["demo-cluster-01.k8s.example.com"]);
    let renewed = world.client(&rustls::version::TLS13, Some(own));
    assert_eq!(renewed.get(server.address, DEMO, None).unwrap(), 200);
}

#[test]
fn sessions_are_resumed_where_no_client_certificate_could_outlive_itself() {
    let world = World::new();
    for (setup, expected) in [
        (world.setup().without("TLS_CLIENT_CA_FILE"), HandshakeKind::Resumed),
        (world.setup(), HandshakeKind::Full),
    ] {
        let server = world.start(setup);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let client = world.client(version, None);
            let handshake = || {
                let mut kept = client.keep(server.address);
                assert_eq!(kept.get("/health").unwrap().0, 200);
                kept.connection().handshake_kind()
            };
            assert_eq!(handshake(), Some(HandshakeKind::Full));
            assert_eq!(handshake(), Some(expected), "{:?}", version.version);
        }
    }
}

#[test]
fn http_1_1_is_negotiated_and_nothing_else() {
    let world = World::new();
    let server = world.start(world.setup());
    let offering = |protocols: &[&[u8]]| {
        let mut config = ClientConfig::clone(&world.plain_client().0);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Client(Arc::new(config)).keep(server.address)
    };
    for protocols in [&[&b"h2"[..], b"http/1.1"][..], &[b"http/1.1"]] {
        let mut kept = offering(protocols);
        assert_eq!(kept.get("/health").unwrap().0, 200);
        assert_eq!(kept.connection().alpn_protocol(), Some(&b"http/1.1"[..]));
    }
    // A client that asks for nothing speaks HTTP/1.1.
    let mut silent = offering(&[]);
    assert_eq!(silent.get("/health").unwrap().0, 200);
    assert_eq!(silent.connection().alpn_protocol(), None);
    let error = offering(&[b"h2"]).get("/health").unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
}

#[test]
fn handshakes_that_never_end_take_no_place_from_polls() {
    let world = World::new();
    let server = world.start(world.setup().env("MAX_CONNECTIONS", "20"));
    let idle: Vec<_> = (0..40).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let half: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            // The first bytes of a handshake that never goes on.
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0]);
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(world.plain_client().get(server.address, DEMO, Some(READ)).unwrap(), 200);
    }
    drop((idle, half));
}

/// Waits until the server closes the connection, and says how long that took.
fn closed_after(mut socket: &TcpStream, mut meanwhile: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    socket.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
    let mut buffer = [0; 4096];
    loop {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the connection is still open"
        );
        if !meanwhile() {
            return started.elapsed();
        }
        match socket.read(&mut buffer) {
            Ok(0) => return started.elapsed(),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return started.elapsed(),
        }
    }
}

/// One test for all of them: they wait for the same limit at the same time.
#[test]
fn slow_tls_clients_are_cut_like_slow_requests() {
    let world = World::new();
    let server = world.start(world.setup());
    let (client, address) = (world.plain_client(), server.address);
    let connect = || TcpStream::connect(address).unwrap();
    let silent = || closed_after(&connect(), || true);
    let half_open = || {
        let mut socket = connect();
        // The begin of a handshake that never goes on.
        socket.write_all(&[22, 3, 1, 2, 0, 1, 0]).unwrap();
        closed_after(&socket, || true)
    };
    let dripping = || {
        let mut socket = connect();
        // A long handshake message, one byte at a time.
        socket.write_all(&[22, 3, 1, 64, 0, 1, 0, 60, 0, 3, 3]).unwrap();
        let mut writer = socket.try_clone().unwrap();
        closed_after(&socket, || writer.write_all(&[0]).is_ok())
    };
    let shaken = |begin: &'static [u8], more: &'static [u8]| {
        let mut stream = client.connect(address).unwrap();
        stream.write_all(begin).unwrap();
        stream.flush().unwrap();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        let socket = stream.sock.try_clone().unwrap();
        closed_after(&socket, || {
            more.is_empty() || stream.write_all(more).and_then(|()| stream.flush()).is_ok()
        })
    };
    let idle = || shaken(b"", b"");
    let slow_head = || shaken(b"GET /health HTTP/1.1\r\nx-slow: ", b"x");
    let half_record = || {
        let mut stream = client.connect(address).unwrap();
        stream.conn.complete_io(&mut stream.sock).unwrap();
        // A record of which only the begin arrives.
        stream.sock.write_all(&[23, 3, 3, 1, 0, 7]).unwrap();
        closed_after(&stream.sock, || true)
    };
    let at_work = AtomicUsize::new(0);
    let slow = |name: &str, be_slow: &dyn Fn() -> Duration| {
        let time = be_slow();
        assert!(
            (Duration::from_secs(8)..Duration::from_secs(15)).contains(&time),
            "{name}: {time:?}"
        );
        at_work.fetch_sub(1, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        at_work.store(6, Ordering::SeqCst);
        scope.spawn(|| slow("says nothing", &silent));
        scope.spawn(|| slow("stops in its handshake", &half_open));
        scope.spawn(|| slow("sends its handshake slowly", &dripping));
        scope.spawn(|| slow("shakes hands and says nothing", &idle));
        scope.spawn(|| slow("sends its headers slowly", &slow_head));
        scope.spawn(|| slow("stops in a record", &half_record));
        while at_work.load(Ordering::SeqCst) > 0 {
            let started = Instant::now();
            assert_eq!(client.get(address, DEMO, Some(READ)).unwrap(), 200);
            assert!(
                started.elapsed() < Duration::from_secs(2),
                "a poll took {:?}",
                started.elapsed()
            );
            thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn the_certificate_of_an_earlier_cluster_is_not_that_of_the_next_one_with_its_id() {
    let world = World::new();
    let server = world.start(world.setup());
    let (admin, address) = (world.plain_client(), server.address);
    let own = world.clients.sign(&["demo-cluster-01.k8s.example.com"]);
    let demo = world.client(&rustls::version::TLS13, Some(own));
    let gone = admin.send(address, "DELETE", "/clusters/demo-cluster-01", Some(WRITE), "");
    assert_eq!(gone.unwrap().0, 204);
    // To the end of its decommission.
    let (status, reply) = demo.send(address, "GET", DEMO, None, "").unwrap();
    assert_eq!((status, &*reply), (200, r#"{"inputs":[]}"#));
    let next = r#"{"cluster_name":"demo-cluster-01","cluster_dns":"next.k8s.example.com","environment":"dev"}"#;
    admin.post(address, "/clusters", next);
    let path = DEMO.replace("demo-cluster-01.k8s", "next.k8s");
    assert_eq!(demo.get(address, &path, None).unwrap(), 401);
    assert_eq!(demo.get(address, DEMO, None).unwrap(), 401);
    let own = world.clients.sign(&["next.k8s.example.com"]);
    let next = world.client(&rustls::version::TLS13, Some(own));
    assert_eq!(next.get(address, &path, None).unwrap(), 200);
}

#[test]
fn files_of_tls_that_cannot_be_used_are_named() {
    let world = World::new();
    let (_, other_key) = world.servers.sign(&["localhost"]);
    world.folder.write("other.key", other_key);
    world.folder.write("empty.pem", "");
    let path = |name: &str| world.folder.path(name);
    for (variable, value, expected) in [
        ("TLS_CERT_FILE", path("missing.pem"), "error: TLS_CERT_FILE: "),
        ("TLS_CERT_FILE", path("empty.pem"), "contains no certificate"),
        ("TLS_KEY_FILE", path("tls.pem"), "error: TLS_KEY_FILE: "),
        ("TLS_KEY_FILE", path("other.key"), "cannot be used with TLS_KEY_FILE"),
        ("TLS_CLIENT_CA_FILE", path("empty.pem"), "error: TLS_CLIENT_CA_FILE: "),
    ] {
        let error = world.setup().env(variable, value).run_for_its_error();
        assert!(error.contains(expected), "{variable}: {error}");
    }
    for (variable, expected) in [
        ("TLS_KEY_FILE", "error: TLS_CERT_FILE: needs TLS_KEY_FILE"),
        ("TLS_CERT_FILE", "error: TLS_KEY_FILE: needs TLS_CERT_FILE"),
    ] {
        let error = world.setup().without(variable).run_for_its_error();
        assert!(error.contains(expected), "{variable}: {error}");
    }
}
