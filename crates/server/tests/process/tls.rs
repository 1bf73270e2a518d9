//! TLS of the server itself: certificates of servers and clients, rotation, and clients that do not finish their handshake.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use testkit::{Folder, Process, READ, WRITE, address_in, eventually};

const DEMO: &str = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces";

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate with these names and its key, as PEM.
    fn sign(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server that speaks TLS, and those who sign.
struct World {
    folder: Folder,
    servers: Authority,
    clients: Authority,
}

impl World {
    fn new() -> World {
        let world = World {
            folder: Folder::new(),
            servers: Authority::new(),
            clients: Authority::new(),
        };
        world.install(world.servers.sign(&["localhost"]));
        world.folder.write("client-ca.pem", world.clients.pem());
        world
    }

    /// Puts a certificate and its key where the server reads them.
    fn install(&self, (certificate, key): (String, String)) {
        self.folder.write("tls.key", key);
        self.folder.write("tls.pem", certificate);
    }

    fn setup(&self) -> testkit::Setup {
        self.folder
            .crud()
            .env(
                "SEED_FILE",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json"),
            )
            .env("TLS_CERT_FILE", self.folder.path("tls.pem"))
            .env("TLS_KEY_FILE", self.folder.path("tls.key"))
            .env("TLS_CLIENT_CA_FILE", self.folder.path("client-ca.pem"))
    }

    fn start(&self, setup: testkit::Setup) -> Running {
        let process = setup.spawn();
        let address = address_in(&process.line("listening"));
        Running { process, address }
    }

    fn client(&self, version: &'static SupportedProtocolVersion, own: Option<(String, String)>) -> Client {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.servers.pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Client(Arc::new(config))
    }

    fn plain_client(&self) -> Client {
        self.client(&rustls::version::TLS13, None)
    }
}

struct Running {
    process: Process,
    address: SocketAddr,
}

#[derive(Clone)]
struct Client(Arc<ClientConfig>);

impl Client {
    /// The status of a request on a connection of its own.
    fn get(&self, address: SocketAddr, path: &str, token: Option<&str>) -> io::Result<u16> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = StreamOwned::new(connection, socket);
        let token = token
            .map(|token| format!("authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{token}connection: close\r\n\r\n").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| io::Error::other(format!("no status: {reply}")))
    }
}

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
    post(&world.plain_client(), server.address, "/identities", body);

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

/// Creates something with the write token.
fn post(client: &Client, address: SocketAddr, path: &str, body: &str) {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(client.0.clone(), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {WRITE}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 201 "), "{reply}");
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
