//! The threat model of SECURITY.md: each row of its table has a test here, which takes the part of the thief.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::client::{Client, Connection};
use testkit::{Ended, Folder, READ, Server, WRITE, cluster, eventually, poll};

use crate::https::{Authority, World};
use crate::oidc::issuer::{self, Issuer, Key};
use crate::shell::shell;

/// Two clusters, one in each environment, which run the same namespace.
fn fleet(folder: &Folder) -> Server {
    let one = |id: &str, environment: &str| {
        let mut one = cluster(id);
        one["environment"] = environment.into();
        one["namespaces"] = json!([{"id": "web"}]);
        one
    };
    let clusters = [one("ours", "dev"), one("theirs", "prod")];
    let seed = json!({"namespaces": [{"id": "web"}, {"id": "spare"}], "clusters": clusters});
    let setup = folder.crud().env("SEED_FILE", folder.seed(&seed));
    setup.env("RUST_LOG", "debug").start()
}

/// A token of a new identity, and the id of the token.
#[track_caller]
fn identity(server: &Server, document: &Value) -> (String, String) {
    server.writer().post("/identities", document).expect(201);
    issued(
        server,
        &format!("/identities/{}/tokens", document["id"].as_str().unwrap()),
    )
}

#[track_caller]
fn issued(server: &Server, path: &str) -> (String, String) {
    let issued = server.writer().post(path, &json!({})).expect(201).json();
    let field = |name: &str| issued[name].as_str().unwrap().to_owned();
    (field("token"), field("id"))
}

fn operator(id: &str) -> Value {
    json!({"id": id, "role": "operator", "scope": {"clusters": "environment=dev", "kinds": ["namespaces"]}})
}

/// The thief is refused all of these.
#[track_caller]
fn all_refused(thief: &Client, calls: &[(&str, &str, Value)]) {
    for (method, path, body) in calls {
        let body = match method {
            &"GET" | &"DELETE" => String::new(),
            _ => body.to_string(),
        };
        let reply = thief.send(method, path, &[], body.as_bytes());
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text());
    }
}

fn get(path: &str) -> (&'static str, &str, Value) {
    ("GET", path, Value::Null)
}

/// What only an admin may do.
fn administration() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        get("/identities"),
        get("/identities/ci"),
        get("/backup"),
        ("POST", "/identities", json!({"id": "eve", "role": "admin"})),
        ("PATCH", "/identities/ci", json!({"scope": {"clusters": "*"}})),
        ("DELETE", "/identities/ci", Value::Null),
        ("PUT", "/kinds/namespaces", json!({})),
        ("DELETE", "/kinds/namespaces", Value::Null),
    ]
}

fn revision(server: &Server) -> u64 {
    server.anonymous().get("/ready").revision().unwrap()
}

fn status(server: &Server, token: &str) -> u16 {
    server.with(token).get("/whoami").status
}

fn metric(server: &Server, line: &str) -> u64 {
    let metrics = server.reader().get("/metrics").expect(200);
    let value = metrics
        .text()
        .lines()
        .find_map(|each| each.strip_prefix(line)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

#[track_caller]
fn succeeded(ended: Ended) -> Ended {
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

#[test]
fn a_stolen_cluster_token_reads_one_cluster() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (token, id) = issued(&server, "/clusters/ours/token");
    let (thief, before) = (server.with(&token), revision(&server));
    thief.get(&poll("ours")).expect(200);
    let mut calls = administration();
    let (theirs, unknown) = (poll("theirs"), poll("unknown"));
    calls.extend([
        get(&theirs),
        get(&unknown),
        get("/api/v2/flux/clusters"),
        get("/clusters"),
        get("/clusters/ours"),
        get("/changes"),
        get("/changes/stream"),
        get("/metrics"),
        ("POST", "/clusters", cluster("new")),
        ("PATCH", "/clusters/ours", json!({"labels": {"a": "b"}})),
        ("POST", "/clusters/ours/token", json!({})),
        ("POST", "/register", json!({})),
        ("POST", "/batch", json!({"operations": []})),
        ("POST", "/rollback", json!({"revision": 1})),
    ]);
    all_refused(&thief, &calls);
    assert_eq!(revision(&server), before);
    let line = server.process.line("poll refused");
    assert!(
        line.contains("cluster:ours") && line.contains("client=127.0.0.1"),
        "{line}"
    );
    let refused = metric(
        &server,
        "flux_resourceset_authentication_failures_total{reason=\"forbidden\"}",
    );
    assert_eq!(refused, calls.len() as u64);
    // A new one, and then without the old one: the cluster never is without.
    let (next, _) = issued(&server, "/clusters/ours/token");
    let revoke = format!("/identities/cluster:ours/tokens/{id}");
    server.writer().delete(&revoke).expect(204);
    thief.get(&poll("ours")).expect(401);
    server.with(&next).get(&poll("ours")).expect(200);
}

#[test]
fn a_stolen_read_token_reads_and_writes_nothing() {
    let folder = Folder::new();
    let server = fleet(&folder);
    identity(&server, &operator("ci"));
    let (token, _) = identity(&server, &json!({"id": "grafana", "role": "reader"}));
    let before = revision(&server);
    for token in [READ, &token] {
        let thief = server.with(token);
        for path in ["/clusters", "/changes", &poll("theirs")] {
            thief.get(path).expect(200);
        }
        let mut calls = administration();
        calls.extend([
            ("POST", "/clusters", cluster("new")),
            ("DELETE", "/clusters/ours", Value::Null),
            ("POST", "/clusters/ours/token", json!({})),
            ("POST", "/batch", json!({"operations": []})),
            ("POST", "/register", json!({})),
        ]);
        all_refused(&thief, &calls);
        let changes = thief.get("/changes?kind=identities").expect(200);
        assert!(!changes.text().contains("digest"), "{}", changes.text());
    }
    assert_eq!(revision(&server), before);
    let log = server.process.log();
    let mut refusals = log.iter().filter(|line| line.contains("status=403"));
    assert!(
        refusals.any(|line| line.contains("actor=\"grafana\" client=127.0.0.1")),
        "{log:#?}"
    );
    server.writer().delete("/identities/grafana").expect(204);
    assert_eq!(status(&server, &token), 401);
    server.stop();
    let server = folder.crud().env("SHARED_POLLS", "off").start();
    server.reader().get(&poll("theirs")).expect(403);
}

#[test]
fn a_stolen_operator_token_stays_within_its_scope() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (token, id) = identity(&server, &operator("ci"));
    let thief = server.with(&token);
    let everywhere = json!({"operations": [
        {"op": "merge", "kind": "clusters", "selector": "*", "value": {"labels": {"a": "b"}}}]});
    let mut calls = administration();
    calls.extend([
        ("PATCH", "/clusters/theirs", json!({"labels": {"a": "b"}})),
        ("PATCH", "/clusters/ours", json!({"environment": "prod"})),
        // A cluster outside of the scope runs it.
        ("PATCH", "/namespaces/web", json!({"labels": {"a": "b"}})),
        ("DELETE", "/namespaces/web?cascade=true", Value::Null),
        (
            "POST",
            "/rolebindings",
            json!({"id": "x", "role": "view", "subjects": []}),
        ),
        ("POST", "/batch", everywhere),
        ("POST", "/clusters/theirs/token", json!({})),
        ("POST", "/identities/ci/tokens", json!({})),
    ]);
    let before = revision(&server);
    all_refused(&thief, &calls);
    assert_eq!(revision(&server), before);
    // Within it, the thief does harm, and a token stays behind.
    thief.delete("/clusters/ours?dry_run=true").expect(200);
    let spoiled = json!({"labels": {"spoiled": "yes"}});
    let changed = thief.send("PATCH", "/clusters/ours", &[], spoiled.to_string().as_bytes());
    let changed = changed.expect(200).revision().unwrap();
    let backdoor = thief.post("/clusters/ours/token", &json!({})).expect(201).json();
    let backdoor = backdoor["token"].as_str().unwrap();

    server
        .writer()
        .delete(&format!("/identities/ci/tokens/{id}"))
        .expect(204);
    assert_eq!(status(&server, &token), 401);
    assert_eq!(status(&server, backdoor), 200);
    let traces = server.writer().get("/changes?actor=ci").expect(200).json();
    let traces: Vec<_> = traces
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["kind"], &one["id"]))
        .collect();
    assert_eq!(
        traces,
        [
            (&json!("clusters"), &json!("ours")),
            (&json!("identities"), &json!("cluster:ours"))
        ]
    );
    server.writer().delete("/identities/cluster:ours").expect(204);
    assert_eq!(status(&server, backdoor), 401);
    server.writer().post("/rollback", &json!({"undo": changed})).expect(200);
    let ours = server.reader().get("/clusters/ours").expect(200).json();
    assert!(ours["labels"]["spoiled"].is_null(), "{ours}");
}

#[test]
fn a_stolen_admin_token_leaves_its_traces() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let anchor = head(&folder);
    let (token, _) = identity(&server, &json!({"id": "root", "role": "admin"}));
    let thief = server.with(&token);
    let backdoor = json!({"id": "backdoor", "role": "admin"});
    thief.post("/identities", &backdoor).expect(201);
    let backdoor = thief.post("/identities/backdoor/tokens", &json!({})).expect(201).json();
    let backdoor = backdoor["token"].as_str().unwrap();
    thief.delete("/clusters/ours").expect(204);
    // What was written stays in the log, and no token can be read.
    for (method, path) in [
        ("DELETE", "/changes"),
        ("PATCH", "/revisions"),
        ("DELETE", "/revisions/2"),
    ] {
        let refused = thief.send(method, path, &[], b"");
        assert!(
            matches!(refused.status, 404 | 405),
            "{method} {path}: {}",
            refused.status
        );
    }
    for path in ["/identities", "/identities/root", "/backup"] {
        let seen = thief.get(path).expect(200);
        assert!(!seen.text().contains(&token) && !seen.text().contains(READ), "{path}");
    }
    let traces = server.writer().get("/changes?actor=root").expect(200).json();
    let ids: BTreeSet<_> = traces
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(ids.contains("backdoor") && ids.contains("ours"), "{ids:?}");

    // On the store, for when no admin is left.
    let command = |args: &[&str]| succeeded(folder.crud().args(args).run());
    command(&["identity", "revoke", "root"]);
    command(&["identity", "revoke", "backdoor"]);
    eventually("both are refused", || {
        status(&server, &token) == 401 && status(&server, backdoor) == 401
    });
    server.writer().post("/rollback", &json!({"revision": 1})).expect(200);
    server.writer().get("/clusters/ours").expect(200);
    command(&["verify", "--anchor", &anchor]);
}

/// The head of a folder's store.
fn head(folder: &Folder) -> String {
    let verified = succeeded(folder.crud().args(&["verify"]).run()).stdout;
    let rest = verified.strip_prefix("verified ").unwrap();
    rest.split(": ").next().unwrap().to_owned()
}

#[test]
fn a_stolen_join_token_registers_new_clusters_only() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let scope =
        json!({"environments": ["dev"], "dns_suffix": ".edge.example.com", "uses": 2, "labels": {"ring": "edge"}});
    let (token, id) = identity(&server, &json!({"id": "factory", "role": "join", "scope": scope}));
    let thief = server.with(&token);
    let new = |name: &str| json!({"cluster_name": name, "cluster_dns": format!("{name}.edge.example.com"), "environment": "dev"});
    let ours = poll("ours");
    let mut calls = administration();
    calls.extend([
        get(&ours),
        get("/clusters"),
        get("/changes"),
        ("POST", "/clusters", cluster("new")),
        ("PATCH", "/clusters/ours", json!({})),
        (
            "POST",
            "/register",
            json!({"cluster_name": "x", "cluster_dns": "x.elsewhere.com", "environment": "dev"}),
        ),
        (
            "POST",
            "/register",
            json!({"cluster_name": "x", "cluster_dns": "x.edge.example.com", "environment": "prod"}),
        ),
    ]);
    all_refused(&thief, &calls);
    let mut taken = new("ours");
    thief.post("/register", &taken).expect(409);
    taken = new("one");
    let registered = thief.post("/register", &taken).expect(201).json();
    let own = server.with(registered["token"].as_str().unwrap());
    own.get("/api/v2/flux/clusters/one.edge.example.com/namespaces")
        .expect(200);
    own.get(&poll("ours")).expect(403);
    thief.post("/register", &new("two")).expect(201);
    thief.post("/register", &new("three")).expect(403);
    assert_eq!(server.writer().get("/identities/factory").expect(200).json()["used"], 2);
    let traces = server
        .writer()
        .get("/changes?actor=factory&kind=clusters")
        .expect(200)
        .json();
    assert_eq!(traces.as_array().unwrap().len(), 2);
    server
        .writer()
        .delete(&format!("/identities/factory/tokens/{id}"))
        .expect(204);
    thief.post("/register", &new("four")).expect(401);
    server.writer().delete("/clusters/one").expect(204);
}

#[test]
fn a_stolen_mirror_token_copies_and_writes_nothing() {
    let folder = Folder::new();
    let server = fleet(&folder);
    identity(&server, &operator("ci"));
    let (token, id) = identity(&server, &json!({"id": "edge", "role": "mirror"}));
    let (thief, before) = (server.with(&token), revision(&server));
    let backup = thief.get("/backup").expect(200);
    assert!(backup.text().contains("digest"));
    no_digest_is_a_token(&server, backup.text());
    let line = server.process.line("path=\"/backup\"");
    assert!(
        line.contains("actor=\"edge\"") && line.contains("client=127.0.0.1"),
        "{line}"
    );
    let ours = poll("ours");
    let mut calls = administration();
    calls.retain(|(_, path, _)| *path != "/backup");
    calls.extend([
        get(&ours),
        get("/clusters"),
        ("POST", "/clusters", cluster("new")),
        ("POST", "/batch", json!({"operations": []})),
        ("POST", "/clusters/ours/token", json!({})),
    ]);
    all_refused(&thief, &calls);
    assert_eq!(revision(&server), before);
    let mut stream = Connection::open(server.address).unwrap();
    stream.send(thief.head("GET", "/changes/stream", &[])).unwrap();
    assert!(stream.some().contains("200 OK"));
    server
        .writer()
        .delete(&format!("/identities/edge/tokens/{id}"))
        .expect(204);
    stream.drain();
    thief.get("/backup").expect(401);
}

/// Every digest in a text, shown as a token, is refused.
#[track_caller]
fn no_digest_is_a_token(server: &Server, text: &str) {
    let is_hex = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digests: BTreeSet<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(is_hex)
        .collect();
    assert!(!digests.is_empty());
    for digest in digests {
        assert_eq!(status(server, digest), 401);
    }
}

/// Everything that a thief must not find, with the digests of the environment's tokens, which are in nothing that is stored.
fn secrets(tokens: &[&str]) -> Vec<String> {
    let of_environment = [READ, WRITE].map(|token| format!("{:x}", Hex(Sha256::digest(token).as_slice())));
    let all = tokens.iter().copied().chain([READ, WRITE]).map(str::to_owned);
    all.chain(of_environment).collect()
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::LowerHex for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[track_caller]
fn has_none(bytes: &[u8], secrets: &[String], what: &Path) {
    for secret in secrets {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "a secret is in {}", what.display());
    }
}

#[test]
fn a_stolen_database_has_no_token() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (cluster, _) = issued(&server, "/clusters/ours/token");
    let (admin, _) = identity(&server, &json!({"id": "root", "role": "admin"}));
    let secrets = secrets(&[&cluster, &admin]);
    for entry in fs::read_dir(folder.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            has_none(&fs::read(&path).unwrap(), &secrets, &path);
        }
    }
    let copy = succeeded(folder.crud().args(&["backup", "-"]).run());
    no_digest_is_a_token(&server, &copy.stdout);
}

#[test]
fn a_changed_database_is_noticed_and_not_served() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let anchor = head(&folder);
    let (_, _) = identity(&server, &json!({"id": "ann", "role": "reader"}));
    server.stop();
    // A document, and an identity that is given another role.
    let database = folder.database();
    shell(
        &database,
        "UPDATE resources SET body = replace(body, 'prod', 'dev') WHERE id = 'theirs'",
    )
    .close();
    shell(
        &database,
        "UPDATE resources SET body = replace(body, 'reader', 'admin') WHERE id = 'ann'",
    )
    .close();
    let server = folder.crud().start();
    server.reader().get(&poll("theirs")).expect(503);
    server.reader().get(&poll("ours")).expect(200);
    assert!(metric(&server, "flux_resourceset_damaged_rows") >= 2);
    assert_eq!(server.anonymous().get("/ready").expect(200).json()["status"], "damaged");
    server.stop();
    let found = folder.crud().args(&["verify"]).run();
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(
        found.stderr.contains("clusters/theirs") && found.stderr.contains("identities/ann"),
        "{}",
        found.stderr
    );
    // A history that was rewritten as a whole is consistent, and not the one of the anchor.
    let other = Folder::new();
    fleet(&other).stop();
    let found = other.crud().args(&["verify", "--anchor", &anchor]).run();
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(found.stderr.contains("rewritten"), "{}", found.stderr);
}

#[test]
fn a_stolen_backup_has_no_token() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (cluster, id) = issued(&server, "/clusters/ours/token");
    let (admin, _) = identity(&server, &json!({"id": "root", "role": "admin"}));
    succeeded(folder.crud().args(&["backup", "fleet.jsonl"]).run());
    let path = folder.path("fleet.jsonl");
    let text = fs::read(&path).unwrap();
    has_none(&text, &secrets(&[&cluster, &admin]), &path);
    no_digest_is_a_token(&server, std::str::from_utf8(&text).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // Revoked since: a restore does not bring it back.
    let revoke = format!("/identities/cluster:ours/tokens/{id}");
    server.writer().delete(&revoke).expect(204);
    succeeded(folder.crud().args(&["restore", "fleet.jsonl", "--replace"]).run());
    server.process.line("history");
    assert_eq!((status(&server, &cluster), status(&server, &admin)), (401, 200));
}

#[test]
fn a_stolen_log_has_no_token() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (cluster_token, id) = issued(&server, "/clusters/ours/token");
    let (admin, _) = identity(&server, &json!({"id": "root", "role": "admin"}));
    let scope = json!({"dns_suffix": ".k8s.example.com", "uses": 1});
    let (join, _) = identity(&server, &json!({"id": "factory", "role": "join", "scope": scope}));
    let wrong = "wrong-token-that-was-mistyped";
    for token in [&*cluster_token, &admin, &join, wrong, READ, WRITE] {
        let basic = BASE64_STANDARD.encode(format!("anybody:{token}"));
        let authorization = format!("Basic {basic}");
        for path in [
            &*poll("ours"),
            &poll("theirs"),
            "/clusters",
            "/whoami",
            "/nothing",
            "/backup",
        ] {
            server.with(token).get(path);
            let headers = [("authorization", &*authorization)];
            server.anonymous().send("GET", path, &headers, b"");
        }
    }
    let own = json!({"cluster_name": "new", "cluster_dns": "new.k8s.example.com", "environment": "dev",
        "token_sha256": format!("{:x}", Hex(Sha256::digest("a token of its own").as_slice()))});
    server.with(&join).post("/register", &own).expect(201);
    server
        .writer()
        .delete(&format!("/identities/cluster:ours/tokens/{id}"))
        .expect(204);
    let log = server.stop().stderr;
    assert!(log.contains("actor=\"root\"") && log.contains("cluster:ours"), "{log}");
    let tokens = [&*cluster_token, &admin, &join, wrong, "a token of its own"];
    let mut secrets = secrets(&tokens);
    secrets.extend(tokens.map(|token| format!("{:x}", Hex(Sha256::digest(token).as_slice()))));
    secrets.extend(tokens.map(|token| BASE64_STANDARD.encode(format!("anybody:{token}"))));
    has_none(log.as_bytes(), &secrets, Path::new("the log"));
}

#[test]
fn a_stolen_replica_cannot_write() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (admin, _) = identity(&server, &json!({"id": "root", "role": "admin"}));
    let (own, _) = issued(&server, "/clusters/ours/token");
    let snapshot = folder.path("snapshot");
    let replica = folder.read_only().env("SNAPSHOT_FILE", &snapshot).start();
    let before = revision(&server);
    for token in [&*admin, WRITE] {
        let thief = replica.with(token);
        assert_eq!(thief.get("/whoami").expect(200).json()["role"], "admin");
        for (method, path) in [
            ("POST", "/clusters"),
            ("PATCH", "/clusters/ours"),
            ("DELETE", "/clusters/ours"),
            ("POST", "/batch"),
            ("POST", "/identities"),
            ("POST", "/clusters/ours/token"),
            ("GET", "/identities"),
            ("GET", "/backup"),
        ] {
            thief.send(method, path, &[], b"{}").expect(404);
        }
    }
    assert_eq!(revision(&server), before);
    eventually("the copy of the snapshot is written", || snapshot.exists());
    let copy = fs::read(&snapshot).unwrap();
    has_none(&copy, &secrets(&[&admin, &own]), &snapshot);
    assert_eq!(fs::metadata(&snapshot).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_stolen_tls_key_decrypts_nothing_and_is_replaced_while_the_server_runs() {
    let world = World::new();
    let server = world.start(world.setup());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = world.client(version, None);
        let mut stream = client.connect(server.address).unwrap();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        // The keys of a session come from an exchange of its own, of which the certificate only signs the result.
        assert!(stream.conn.negotiated_key_exchange_group().is_some());
        let suite = format!("{:?}", stream.conn.negotiated_cipher_suite().unwrap().suite());
        assert!(
            suite.starts_with("TLS13_") || suite.starts_with("TLS_ECDHE_"),
            "{suite}"
        );
    }
    let shown = || {
        let client = world.plain_client();
        let mut stream = client.connect(server.address).unwrap();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let stolen = shown();
    world.install(world.servers.sign(&["localhost"]));
    eventually("the new certificate is in use", || shown() != stolen);
    assert!(server.process.is_running());
}

#[test]
fn a_stolen_client_key_ends_with_its_authority() {
    let world = World::new();
    let server = world.start(world.setup());
    let (admin, address) = (world.plain_client(), server.address);
    let body = r#"{"id":"ann","role":"reader","certificates":["ann.example.com"]}"#;
    admin.post(address, "/identities", body);
    let with = |names: &[&str]| world.client(&rustls::version::TLS13, Some(world.clients.sign(names)));
    let cluster = with(&["demo-cluster-01.k8s.example.com"]);
    let (demo, other) = ["demo-cluster-01", "demo-cluster-02"]
        .map(|id| format!("/api/v2/flux/clusters/{id}.k8s.example.com/namespaces"))
        .into();
    assert_eq!(cluster.get(address, &demo, None).unwrap(), 200);
    assert_eq!(cluster.get(address, &other, None).unwrap(), 403);
    let ann = with(&["ann.example.com"]);
    assert_eq!(ann.get(address, "/clusters", None).unwrap(), 200);
    assert_eq!(ann.get(address, "/identities", None).unwrap(), 403);
    // The name is taken from the identity.
    let none = r#"{"certificates":null}"#;
    let patched = admin
        .send(address, "PATCH", "/identities/ann", Some(WRITE), none)
        .unwrap();
    assert_eq!(patched.0, 200, "{}", patched.1);
    assert_eq!(ann.get(address, "/clusters", None).unwrap(), 401);
    // Another authority signs from now on.
    let mut open = cluster.keep(address);
    assert_eq!(open.get(&demo).unwrap().0, 200);
    let next = Authority::new();
    world.folder.write("client-ca.pem", next.pem());
    eventually("the old certificate is refused", || {
        cluster.get(address, &demo, None).is_err()
    });
    assert_eq!(open.get(&demo).unwrap().0, 401, "nor on an open connection");
    let own = next.sign(&["demo-cluster-01.k8s.example.com"]);
    let cluster = world.client(&rustls::version::TLS13, Some(own));
    assert_eq!(cluster.get(address, &demo, None).unwrap(), 200);
}

#[test]
fn a_stolen_jwt_ends_with_its_time_or_its_identity() {
    let (folder, key) = (Folder::new(), Key::ec("key-1"));
    let issuer = Issuer::start(&[&key]);
    let server = crate::oidc::setup(&folder, &[&issuer]).start();
    let admin = server.writer();
    let staff = json!({"id": "staff", "role": "reader", "claims": {"groups": "staff"}});
    admin.post("/identities", &staff).expect(201);
    let of = |more: Value| {
        let mut claims = issuer.claims(&json!({"groups": "staff"}));
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server.with(&key.sign(&claims))
    };
    let (thief, colleague) = (of(json!({"sub": "ann"})), of(json!({"sub": "bob"})));
    thief.get("/clusters").expect(200);
    thief.get("/identities").expect(403);
    thief.post("/namespaces", &json!({"id": "x"})).expect(403);
    let refused = server.process.line("actor=\"staff/ann\"");
    assert!(refused.contains("403"), "{refused}");
    let brief = of(json!({"sub": "ann", "exp": issuer::now() + 3}));
    brief.get("/clusters").expect(200);
    eventually("it has expired", || brief.get("/clusters").status == 401);
    // One subject is kept out: more claims win, also those of an identity that has expired.
    let out = json!({
        "id": "not-ann", "role": "reader", "expires_at": "2020-01-01T00:00:00Z", "claims": {"groups": "staff", "sub": "ann"},
    });
    admin.post("/identities", &out).expect(201);
    thief.get("/clusters").expect(401);
    colleague.get("/clusters").expect(200);
    admin.delete("/identities/staff").expect(204);
    colleague.get("/clusters").expect(403);
}

#[test]
fn every_row_of_the_threat_model_has_its_test() {
    let model = include_str!("../../../../SECURITY.md");
    let rows = model
        .lines()
        .filter(|line| line.starts_with("| ") && line.matches(" | ").count() == 5);
    let cell = |row: &str| {
        row.trim_matches(['|', ' '])
            .rsplit(" | ")
            .next()
            .unwrap()
            .trim_matches('`')
            .to_owned()
    };
    let named: Vec<String> = rows.map(cell).filter(|cell| cell != "test").collect();
    let tests: Vec<_> = include_str!("threats.rs")
        .split("#[test]\nfn ")
        .skip(1)
        .map(|text| text.split('(').next().unwrap().to_owned())
        .filter(|name| name != "every_row_of_the_threat_model_has_its_test")
        .collect();
    assert!(named.len() > 10, "{named:?}");
    assert_eq!(named, tests, "SECURITY.md and this file list them in the same order");
}
