//! Mirrors: a server that follows another one, or backup files, and serves the same bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use testkit::client::{Client, Reply};

use crate::https::World;
use testkit::{Ended, Folder, Process, READ, Server, Setup, WRITE, cluster, dns, eventually, poll};

/// The token of the mirror itself, which the origin does not know.
const EDGE: &str = "edge-token-51d0a";

/// A mirror in this folder, of whatever `from` names.
fn mirror_from(folder: &Folder, from: impl AsRef<std::ffi::OsStr>) -> Setup {
    folder
        .setup()
        .without("CRUD_AUTH_TOKEN")
        .env("AUTH_TOKEN", EDGE)
        .env("MIRROR_FROM", from)
        .args(&["mirror"])
}

fn mirror_of(folder: &Folder, origin: SocketAddr) -> Setup {
    mirror_from(folder, format!("http://{origin}")).env("MIRROR_TOKEN", WRITE)
}

/// The demo fleet, in a server that writes.
fn origin(folder: &Folder) -> Server {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/seed.json");
    folder.crud().env("SEED_FILE", seed).start()
}

/// The same server again, where mirrors look for it.
fn again(folder: &Folder, address: SocketAddr) -> Server {
    folder.crud().env("LISTEN_ADDR", address.to_string()).start()
}

/// A command on the folder's database.
#[track_caller]
fn command(folder: &Folder, args: &[&str]) -> Ended {
    let url = format!("sqlite://{}", folder.database().display());
    let ended = folder.bare().env("DATABASE_URL", url).args(args).run();
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

/// Where a store ends, by number and digest.
fn head(folder: &Folder) -> String {
    let verified = command(folder, &["verify"]).stdout;
    let rest = verified.strip_prefix("verified ").unwrap();
    rest.split(": ").next().unwrap().to_owned()
}

fn ready(server: &Server) -> Value {
    server.anonymous().get("/ready").expect(200).json()
}

fn revision(server: &Server) -> u64 {
    server.anonymous().get("/ready").expect(200).revision().unwrap()
}

#[track_caller]
fn add(origin: &Server, ids: impl IntoIterator<Item = String>) {
    for id in ids {
        origin.writer().post("/clusters", &cluster(&id)).expect(201);
    }
}

/// What counts of a reply: all but its date and its id.
fn essence(reply: &Reply) -> (u16, Option<String>, Option<String>, Vec<u8>) {
    let header = |name| reply.header(name).map(str::to_owned);
    (reply.status, header("etag"), header("content-type"), reply.body.clone())
}

/// Every path that Flux may ask for gives the same bytes and the same ETag.
#[track_caller]
fn assert_same(origin: &Server, mirror: &Server) {
    assert_eq!(revision(origin), revision(mirror));
    let kinds = origin.reader().get("/kinds").expect(200).json();
    let kinds: Vec<_> = kinds
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|kind| kind["path"].as_str())
        .collect();
    assert!(kinds.len() >= 3, "{kinds:?}");
    let clusters = origin.reader().get("/clusters").expect(200).json();
    let clusters = clusters
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["cluster_dns"].as_str().unwrap().to_owned());
    let gone = origin.reader().get("/decommissions").expect(200).json();
    let gone = gone
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned());
    let names: Vec<_> = clusters.chain(gone).chain([dns("never-known")]).collect();
    let mut paths = vec![
        "/api/v2/flux/clusters".to_owned(),
        "/api/v2/flux/clusters?environment=dev".to_owned(),
        "/api/v2/flux/clusters?shard=0/2".to_owned(),
    ];
    for name in &names {
        for kind in kinds.iter().chain([&"unknown"]) {
            let path = format!("/api/v2/flux/clusters/{name}/{kind}");
            paths.extend([format!("{path}?marked=true"), path]);
        }
    }
    for path in paths {
        for headers in [&[][..], &[("accept-encoding", "gzip")][..]] {
            let there = origin.reader().send("GET", &path, headers, &[]);
            let here = mirror.with(EDGE).send("GET", &path, headers, &[]);
            assert_eq!(essence(&there), essence(&here), "{path}");
            if let Some(etag) = there.header("etag") {
                let known = mirror
                    .with(EDGE)
                    .send("GET", &path, &[headers, &[("if-none-match", etag)]].concat(), &[]);
                assert_eq!(known.status, 304, "{path}");
            }
        }
    }
}

#[track_caller]
fn caught_up(origin: &Server, mirror: &Server) {
    let wanted = revision(origin);
    eventually("the mirror has caught up", || revision(mirror) == wanted);
    assert_same(origin, mirror);
}

fn count(process: &Process, text: &str) -> usize {
    process.log().iter().filter(|line| line.contains(text)).count()
}

/// Writes of every sort: a kind, definitions, references, a patch, a deletion, a rename, several in one revision, undos, an overridden guard.
#[track_caller]
fn write_everything(writer: &Client) {
    let quota = json!({"kind": "quotas", "apiVersion": "v1", "schema": {"type": "object", "required": ["id"],
        "properties": {"id": {"type": "string"}, "cpu": {"type": "string"}}}});
    let put = writer.send("PUT", "/kinds/quotas", &[], quota.to_string().as_bytes());
    put.expect(201);
    let batch = json!({"reason": "several at once", "operations": [
        {"op": "create", "kind": "quotas", "id": "small", "value": {"cpu": "2"}},
        {"op": "assign", "kind": "quotas", "id": "small", "cluster": "c-1"},
        {"op": "create", "kind": "clusters", "id": "late", "value": cluster("late")},
    ]});
    writer.post("/batch", &batch).expect(200);
    writer.delete("/clusters/c-2").expect(204);
    let renamed = json!({"cluster_dns": "renamed.k8s.example.com"});
    let renamed = writer.send("PATCH", "/clusters/c-3", &[], renamed.to_string().as_bytes());
    let renamed = renamed.expect(200).revision();
    writer.post("/rollback", &json!({"undo": renamed})).expect(200);
    writer.post("/rollback", &json!({"redo": renamed})).expect(200);
    let guard = json!({"id": "freeze", "selector": "id=c-1", "changes": 0, "reason": "a freeze"});
    writer.post("/guards", &guard).expect(201);
    let tag = json!({"cpu": "3"}).to_string();
    let reason = ("x-change-reason", "in spite of it");
    writer
        .send("PATCH", "/quotas/small", &[reason], tag.as_bytes())
        .expect(409);
    let overriding = [reason, ("x-override-guard", "freeze")];
    writer
        .send("PATCH", "/quotas/small", &overriding, tag.as_bytes())
        .expect(200);
    writer.delete("/guards/freeze").expect(204);
}

#[test]
fn a_mirror_serves_the_same_bytes_and_follows_what_its_origin_writes() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    add(&origin, (0..5).map(|n| format!("c-{n}")));
    let mirror = mirror_of(&here, origin.address).start();
    assert_same(&origin, &mirror);

    write_everything(&origin.writer());
    caught_up(&origin, &mirror);
    let (_, etag, _, body) = essence(&mirror.with(EDGE).get(&poll("c-2")));
    assert_eq!(
        (&*body, etag.is_some()),
        (&br#"{"inputs":[]}"#[..], true),
        "a deleted cluster"
    );
    mirror.with(EDGE).get(&poll("c-3")).expect(404);

    // A write is seen within a second.
    let mut delays: Vec<_> = (0..9)
        .map(|n| {
            let id = format!("quick-{n}");
            add(&origin, [id.clone()]);
            let written = Instant::now();
            eventually("the write is seen", || mirror.with(EDGE).get(&poll(&id)).status == 200);
            written.elapsed()
        })
        .collect();
    delays.sort();
    println!(
        "seen by the mirror after {:?} (median), {:?} (the longest)",
        delays[4], delays[8]
    );
    assert!(delays[4] < Duration::from_secs(1), "{delays:?}");

    // It is a read-only server, and says how it stands.
    for path in [
        "/clusters",
        "/clusters/c-1",
        "/changes",
        "/changes/stream",
        "/backup",
        "/kinds",
    ] {
        mirror.with(EDGE).get(path).expect(404);
        mirror.with(EDGE).post(path, &cluster("x")).expect(404);
    }
    mirror.with(WRITE).get(&poll("c-1")).expect(401);
    mirror.with(READ).get(&poll("c-1")).expect(401);
    let said = ready(&mirror);
    assert_eq!(said["mirror"]["standing"], "current", "{said}");
    assert_eq!(said["mirror"]["origin_revision"], said["revision"]);
    assert!(said["age_seconds"].as_u64().unwrap() < 30, "{said}");
    assert_eq!(ready(&origin)["mirror"], Value::Null);
    let metrics = mirror.with(EDGE).get("/metrics").expect(200);
    for line in [
        "flux_resourceset_mirror_current 1",
        &format!("flux_resourceset_mirror_origin_revision {}", said["revision"]),
        "flux_resourceset_mirror_connections_total 1",
        "flux_resourceset_mirror_loads_total 1",
        "flux_resourceset_mirror_refusals_total 0",
    ] {
        assert!(
            metrics.text().lines().any(|found| found == line),
            "{line}\n{}",
            metrics.text()
        );
    }
    assert!(!origin.reader().get("/metrics").text().contains("mirror"));

    // The same history, down to the digest of each revision.
    mirror.stop();
    origin.stop();
    assert_eq!(head(&there), head(&here));
}

#[test]
fn a_mirror_without_a_state_answers_503_and_nothing_else() {
    let (there, here) = (Folder::new(), Folder::new());
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (origin_address, address) = (free(), free());
    for backend in ["sqlite", "memory"] {
        let setup = mirror_of(&here, origin_address).env("STORE_BACKEND", backend);
        let process = setup.env("LISTEN_ADDR", address.to_string()).spawn();
        process.line("the origin cannot be followed");
        let client = Client::new(address, Some(EDGE));
        client.get("/health").expect(200);
        for path in [
            "/ready",
            &poll("a"),
            "/api/v2/flux/clusters",
            "/openapi.yaml",
            "/clusters",
        ] {
            let reply = client.get(path).expect(503);
            assert!(reply.header("retry-after").is_some(), "{path}");
        }
        assert_eq!(
            count(&process, "the origin cannot be followed"),
            1,
            "{:?}",
            process.log()
        );
        if backend == "sqlite" {
            process.signal("TERM");
            let ended = process.end_within(Duration::from_secs(5));
            assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
            continue;
        }
        // Ready as soon as there is something to serve.
        let origin = again(&there, origin_address);
        add(&origin, ["a".to_owned()]);
        let mirror = Server { process, address };
        eventually("it is ready", || mirror.anonymous().get("/ready").status == 200);
        caught_up(&origin, &mirror);
        mirror.stop();
    }
}

#[test]
fn a_mirror_continues_while_the_origin_is_away_and_after_a_restart() {
    let (there, here) = (Folder::new(), Folder::new());
    let first = origin(&there);
    add(&first, (0..3).map(|n| format!("c-{n}")));
    let mirror = mirror_of(&here, first.address).start();
    caught_up(&first, &mirror);
    let (address, expected) = (first.address, essence(&first.reader().get(&poll("c-1"))));

    // A short restart is nobody's concern, and a long one is said once.
    first.stop();
    let second = again(&there, address);
    add(&second, ["second".to_owned()]);
    caught_up(&second, &mirror);
    second.process.kill();
    mirror.process.line("the origin cannot be followed");
    eventually("it says so", || ready(&mirror)["mirror"]["standing"] == "away");
    assert_eq!(essence(&mirror.with(EDGE).get(&poll("c-1"))), expected);
    eventually("it grows old", || ready(&mirror)["age_seconds"].as_u64() > Some(2));
    assert_eq!(
        count(&mirror.process, "Connection refused"),
        1,
        "{:?}",
        mirror.process.log()
    );

    // It starts without the origin, with what it has, and knows how old that is.
    mirror.stop();
    let mirror = mirror_of(&here, address).start();
    assert_eq!(essence(&mirror.with(EDGE).get(&poll("c-1"))), expected);
    let said = ready(&mirror);
    assert_eq!(said["mirror"]["standing"], "away");
    assert!(said["age_seconds"].as_u64() > Some(2), "{said}");

    let third = again(&there, address);
    add(&third, ["third".to_owned()]);
    caught_up(&third, &mirror);
    eventually("it is current", || ready(&mirror)["mirror"]["standing"] == "current");
    assert_eq!(count(&mirror.process, "loaded a backup"), 0, "what it has is enough");
}

#[test]
fn compacted_revisions_are_fetched_as_a_backup() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let mirror = mirror_of(&here, origin.address).start();
    caught_up(&origin, &mirror);
    mirror.stop();
    add(&origin, (0..8).map(|n| format!("c-{n}")));
    command(&there, &["compact", "--before", "7"]);
    let mirror = mirror_of(&here, origin.address).start();
    caught_up(&origin, &mirror);
    mirror.process.line("loaded a backup");
    add(&origin, ["after".to_owned()]);
    caught_up(&origin, &mirror);
    assert_eq!(
        count(&mirror.process, "cannot be followed"),
        0,
        "{:?}",
        mirror.process.log()
    );
    mirror.stop();
    assert_eq!(head(&there), head(&here));
}

#[test]
fn a_mirror_does_not_move_back_unless_configured() {
    let (there, here) = (Folder::new(), Folder::new());
    let first = origin(&there);
    let address = first.address;
    add(&first, ["old".to_owned()]);
    let backup = there.path("old.jsonl.gz");
    command(&there, &["backup", backup.to_str().unwrap()]);
    add(&first, (0..4).map(|n| format!("lost-{n}")));
    let mirror = mirror_of(&here, address).start();
    caught_up(&first, &mirror);
    let before = revision(&mirror);

    // The origin comes back as it was before.
    first.stop();
    command(&there, &["restore", "--replace", backup.to_str().unwrap()]);
    let second = again(&there, address);
    let line = mirror.process.line("the origin is refused");
    assert!(
        line.contains(&format!("this log ends at revision 2, before {before}")),
        "{line}"
    );
    let unchanged = |mirror: &Server| {
        let said = ready(mirror);
        assert_eq!(
            (&said["revision"], &said["mirror"]["standing"]),
            (&json!(before), &json!("refused"))
        );
        mirror.with(EDGE).get(&poll("lost-3")).expect(200);
    };
    unchanged(&mirror);

    // It catches up in number, which is no better.
    add(&second, (0..6).map(|n| format!("other-{n}")));
    assert!(revision(&second) > before);
    let line = mirror
        .process
        .line("has another digest here: this is the log of another history");
    assert!(line.contains("the origin is refused"), "{line}");
    unchanged(&mirror);
    let metrics = mirror.with(EDGE).get("/metrics").expect(200);
    assert!(
        !metrics.text().contains("mirror_refusals_total 0"),
        "{}",
        metrics.text()
    );
    mirror.stop();
    // Nor after a restart, nor by the backup once the origin's log has been cut.
    command(&there, &["compact", "--before", &(before - 1).to_string()]);
    let mirror = mirror_of(&here, address).start();
    mirror.process.line("the origin is refused");
    unchanged(&mirror);
    mirror.stop();

    let mirror = mirror_of(&here, address).args(&["--replace"]).start();
    caught_up(&second, &mirror);
    mirror.with(EDGE).get(&poll("lost-3")).expect(404);
    mirror.stop();
    let mirror = mirror_of(&here, address).start();
    add(&second, ["last".to_owned()]);
    caught_up(&second, &mirror);
}

/// An origin whose store is put back under its feet, while the mirror follows.
#[test]
fn a_history_that_is_rewritten_under_a_running_origin_is_noticed() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let backup = there.path("old.jsonl");
    command(&there, &["backup", backup.to_str().unwrap()]);
    add(&origin, (0..3).map(|n| format!("lost-{n}")));
    let refusing = mirror_of(&here, origin.address).start();
    let elsewhere = Folder::new();
    let told = mirror_of(&elsewhere, origin.address)
        .env("MIRROR_REPLACE", "true")
        .start();
    for mirror in [&refusing, &told] {
        caught_up(&origin, mirror);
    }
    command(&there, &["restore", "--replace", backup.to_str().unwrap()]);
    refusing.process.line("the origin is refused");
    eventually("the origin has read its store anew", || revision(&origin) == 1);
    caught_up(&origin, &told);
    add(&origin, (0..5).map(|n| format!("other-{n}")));
    caught_up(&origin, &told);
    assert_eq!(revision(&refusing), 4);
    refusing.with(EDGE).get(&poll("lost-2")).expect(200);
}

#[test]
fn the_store_of_another_history_is_left_alone() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    add(&origin, (0..3).map(|n| format!("c-{n}")));
    // A server of its own has written here, less than the origin has, and is still running.
    let other = here.crud().start();
    add(&other, ["own".to_owned()]);
    let refused = |expected: &str| {
        let ended = mirror_of(&here, origin.address).run();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        let last = ended.stderr.lines().last().unwrap();
        assert!(
            last.starts_with("error: DATABASE_URL: the database is not a copy of the origin: "),
            "{last}"
        );
        assert!(last.contains(expected) && last.contains("--replace"), "{last}");
        other.reader().get(&poll("own")).expect(200);
        assert_eq!(revision(&other), 2);
    };
    refused("revision 2 has another digest here");
    // Nothing can be compared any more: that is no reason to take it for a copy.
    command(&there, &["compact", "--before", "4"]);
    refused("it cannot be checked that revision 2 belongs to its history");
    let mirror = mirror_of(&here, origin.address).args(&["--replace"]).start();
    caught_up(&origin, &mirror);
    eventually("the other server follows its store", || {
        revision(&other) == revision(&origin)
    });

    // Whoever writes to the store of a mirror makes it another history.
    other.writer().post("/clusters", &cluster("meddler")).expect(201);
    add(&origin, ["next".to_owned()]);
    mirror.process.line("the origin is refused");
}

#[test]
fn with_the_read_token_a_store_that_was_filled_before_is_followed() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    add(&origin, ["a".to_owned()]);
    let process = mirror_of(&here, origin.address).env("MIRROR_TOKEN", READ).spawn();
    let line = process.line("the origin cannot be followed");
    assert!(
        line.contains("GET /backup: 403: a token of the role reader may not do this; it needs one of: admin, mirror"),
        "{line}"
    );
    process.kill();
    let backup = there.path("fleet.jsonl");
    command(&there, &["backup", backup.to_str().unwrap()]);
    command(&here, &["restore", backup.to_str().unwrap()]);
    add(&origin, ["b".to_owned()]);
    let token = here.write("token", format!("{READ}\n"));
    let setup = mirror_of(&here, origin.address).without("MIRROR_TOKEN");
    let mirror = setup.env("MIRROR_TOKEN_FILE", &token).start();
    caught_up(&origin, &mirror);

    // The token is read for each connection.
    here.write("token", "worn-out\n");
    let address = origin.address;
    origin.stop();
    let origin = again(&there, address);
    let line = mirror.process.line("the token is not valid");
    assert!(line.contains(": 401: "), "{line}");
    here.write("token", WRITE);
    add(&origin, ["c".to_owned()]);
    caught_up(&origin, &mirror);
}

#[test]
fn a_mirror_identity_copies_identities_and_a_reader_is_told_that_it_cannot() {
    let (there, here, elsewhere) = (Folder::new(), Folder::new(), Folder::new());
    let origin = origin(&there);
    let backup = there.path("fleet.jsonl");
    command(&there, &["backup", backup.to_str().unwrap()]);
    command(&elsewhere, &["restore", backup.to_str().unwrap()]);
    let reader = mirror_of(&elsewhere, origin.address).env("MIRROR_TOKEN", READ).start();
    let writer = origin.writer();
    writer
        .post("/identities", &json!({"id": "edge", "role": "mirror"}))
        .expect(201);
    let token = writer.post("/identities/edge/tokens", &json!({})).expect(201).json();
    let token = token["token"].as_str().unwrap();
    origin.with(token).get("/clusters").expect(403);
    let mirror = mirror_of(&here, origin.address).env("MIRROR_TOKEN", token).start();
    let own = writer
        .post("/clusters/demo-cluster-01/token", &json!({}))
        .expect(201)
        .json();
    let own = own["token"].as_str().unwrap();
    caught_up(&origin, &mirror);
    let path = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces";
    mirror.with(own).get(path).expect(200);
    // Revoked there, refused here.
    writer.delete("/identities/cluster:demo-cluster-01").expect(204);
    eventually("the mirror refuses it", || mirror.with(own).get(path).status == 401);
    let line = reader.process.line("hides identities");
    assert!(line.contains("role mirror"), "{line}");
}

/// A mirror serves what each wave has, and drives nothing.
#[test]
fn a_mirror_follows_a_rollout_through_its_waves() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let writer = origin.writer();
    for (id, ring) in [("c-1", "canary"), ("c-2", "main")] {
        let mut cluster = cluster(id);
        cluster["labels"] = json!({ "ring": ring });
        cluster["namespaces"] = json!([{"id": "podinfo"}]);
        writer.post("/clusters", &cluster).expect(201);
    }
    let mirror = mirror_of(&here, origin.address).start();
    let rollout = json!({
        "id": "r", "gate": {"converged": "100%"},
        "operations": [{"op": "merge", "kind": "namespaces", "id": "podinfo", "value": {"labels": {"version": "two"}}}],
        "waves": [{"name": "canary", "selector": "ring=canary"}, {"name": "rest"}],
    });
    writer.post("/rollouts", &rollout).expect(201);
    let has = |server: &Server, token: &str, id: &str| {
        let reply = server.with(token).get(&poll(id)).expect(200);
        reply.text().contains(r#""version":"two""#)
    };
    eventually("the canary has it", || has(&mirror, EDGE, "c-1"));
    assert!(!has(&mirror, EDGE, "c-2"));
    // Nobody reports, so that the origin waits for its gate.
    caught_up(&origin, &mirror);
    writer.post("/rollouts/r/pause", &json!({})).expect(200);
    writer.post("/rollouts/r/complete", &json!({})).expect(200);
    caught_up(&origin, &mirror);
    assert!(has(&mirror, EDGE, "c-2"));
    writer
        .post("/rollback", &json!({"undo": revision(&origin)}))
        .expect(200);
    caught_up(&origin, &mirror);
    assert!(has(&mirror, EDGE, "c-1") && !has(&mirror, EDGE, "c-2"));
}

#[test]
fn an_origin_that_cannot_be_mirrored_is_named() {
    let (there, here) = (Folder::new(), Folder::new());
    add(&there.crud().start(), ["a".to_owned()]);
    let origin = there.read_only().start();
    let process = mirror_of(&here, origin.address).spawn();
    let line = process.line("the origin cannot be followed");
    assert!(
        line.contains("GET /backup: 404: only a server in crud mode can be mirrored"),
        "{line}"
    );
}

#[test]
fn no_token_is_ever_logged() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let setup = mirror_of(&here, origin.address).env("RUST_LOG", "trace");
    let mirror = setup.start();
    add(&origin, ["a".to_owned()]);
    caught_up(&origin, &mirror);
    let address = origin.address;
    origin.process.kill();
    mirror.process.line("the origin cannot be followed");
    let ended = mirror.stop();
    assert!(ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
    for token in [WRITE, EDGE] {
        assert!(!ended.stderr.contains(token), "{}", ended.stderr);
    }
}

#[test]
fn backup_files_feed_a_mirror_without_a_network() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    add(&origin, ["a".to_owned()]);
    let backup = |name: &str| {
        let path = there.path(name);
        command(&there, &["backup", path.to_str().unwrap()]);
        std::fs::read(path).unwrap()
    };
    let first = backup("first.jsonl");
    let file = here.write("carried/fleet.jsonl", &first);
    let mirror = mirror_from(&here, &file).start();
    assert_same(&origin, &mirror);

    // Replaced by a later one, packed or not.
    add(&origin, ["b".to_owned()]);
    let second = backup("second.jsonl.gz");
    here.write("carried/fleet.jsonl", &second);
    caught_up(&origin, &mirror);
    let at = revision(&mirror);

    // Refused with one line, and what is there goes on: cut off, no backup at all, older, gone.
    let whole = backup("whole.jsonl");
    add(&origin, ["c".to_owned()]);
    let later = backup("later.jsonl");
    let refusals = [
        (later[..later.len() / 2].to_vec(), "the file was cut off"),
        (second[..second.len() / 2].to_vec(), ""),
        (b"{}\n".to_vec(), "this is not a line of a backup"),
        (Vec::new(), "this is not a backup of flux-resourceset"),
        (first.clone(), "the backup ends at revision 2, and the store at 3"),
    ];
    let said = |mirror: &Server| count(&mirror.process, "serving the last copy");
    for (n, (text, expected)) in refusals.iter().enumerate() {
        here.write("carried/fleet.jsonl", text);
        eventually("it is refused", || said(&mirror) == n + 1);
        let log = mirror.process.log();
        assert!(log.last().unwrap().contains(expected), "{log:?}");
        assert_eq!(revision(&mirror), at);
        mirror.with(EDGE).get(&poll("b")).expect(200);
    }
    assert_eq!(ready(&mirror)["mirror"]["standing"], "refused");
    std::fs::remove_file(&file).unwrap();
    mirror.process.line("the file does not exist");
    // The same state again is no news, but tells how old it is.
    here.write("carried/fleet.jsonl", &whole);
    eventually("it is current", || ready(&mirror)["mirror"]["standing"] == "current");
    assert_eq!(revision(&mirror), at);
    here.write("carried/fleet.jsonl", &later);
    caught_up(&origin, &mirror);

    // It starts without the file, and does not go back by a restart.
    mirror.stop();
    std::fs::remove_file(&file).unwrap();
    let mirror = mirror_from(&here, &file).start();
    assert_same(&origin, &mirror);
    mirror.stop();
    here.write("carried/fleet.jsonl", &first);
    let mirror = mirror_from(&here, &file).start();
    mirror.process.line("the backup ends at revision 2, and the store at 4");
    assert_eq!(revision(&mirror), 4);
    mirror.stop();
    let mirror = mirror_from(&here, &file).args(&["--replace"]).start();
    eventually("it went back", || revision(&mirror) == 2);
    mirror.stop();

    // Of another fleet altogether.
    let elsewhere = Folder::new();
    let other = elsewhere.crud().start();
    add(&other, (0..5).map(|n| format!("other-{n}")));
    command(&elsewhere, &["backup", file.to_str().unwrap()]);
    let mirror = mirror_from(&here, &file).start();
    mirror.process.line("the backup has another history");
    assert_eq!(revision(&mirror), 2);
}

/// A file that is copied slowly is taken once, when it is whole.
#[test]
fn a_file_that_is_still_being_written_is_left_alone() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let path = here.path("fleet.jsonl");
    command(&there, &["backup", path.to_str().unwrap()]);
    let mirror = mirror_from(&here, &path).start();
    add(&origin, ["a".to_owned()]);
    let next = there.path("next.jsonl");
    command(&there, &["backup", next.to_str().unwrap()]);
    let text = std::fs::read(next).unwrap();
    let mut file = std::fs::File::create(&path).unwrap();
    for piece in text.chunks(text.len() / 12 + 1) {
        file.write_all(piece).unwrap();
        // Slow on purpose: several looks at the file fall into it.
        thread::sleep(Duration::from_millis(150));
    }
    caught_up(&origin, &mirror);
    assert_eq!(
        count(&mirror.process, "serving the last copy"),
        0,
        "{:?}",
        mirror.process.log()
    );
}

/// Settings of a mirror, and the problem that must be reported.
const WRONG_SETTINGS: &[(&[(&str, &str)], &str)] = &[
    (
        &[("MIRROR_FROM", "")],
        "MIRROR_FROM: is required: the URL of the server to follow, or a backup file",
    ),
    (
        &[("MIRROR_FROM", "fleet.example.com")],
        "MIRROR_FROM: \"fleet.example.com\" is neither a URL (http:// or https://) nor an existing file",
    ),
    (
        &[("MIRROR_FROM", "ftp://x/y")],
        "MIRROR_FROM: \"ftp://x/y\" is neither a URL (http:// or https://) nor an existing file",
    ),
    (
        &[("MIRROR_FROM", "http://"), ("MIRROR_TOKEN", "a")],
        "MIRROR_FROM: \"http://\" is neither a URL (http:// or https://) nor an existing file",
    ),
    (
        &[("MIRROR_FROM", ".")],
        "MIRROR_FROM: \".\" is neither a URL (http:// or https://) nor an existing file",
    ),
    (
        &[("MIRROR_FROM", "http://a:secret@b"), ("MIRROR_TOKEN", "a")],
        "MIRROR_FROM: must not hold a name or password: set MIRROR_TOKEN instead",
    ),
    (
        &[("MIRROR_FROM", "http://b/?x=1"), ("MIRROR_TOKEN", "a")],
        "MIRROR_FROM: must be the address of the server alone, as in https://fleet.example.com",
    ),
    (
        &[],
        "MIRROR_TOKEN: is required: the bearer token of the server to follow (or MIRROR_TOKEN_FILE, or MIRROR_CLIENT_CERT_FILE)",
    ),
    (&[("MIRROR_TOKEN", " ")], "MIRROR_TOKEN: is empty"),
    (
        &[("MIRROR_TOKEN", "a"), ("MIRROR_TOKEN_FILE", "b")],
        "MIRROR_TOKEN: is set, and so is MIRROR_TOKEN_FILE: remove one of them",
    ),
    (
        &[("MIRROR_TOKEN_FILE", "b")],
        "MIRROR_TOKEN_FILE: b: No such file or directory (os error 2)",
    ),
    (
        &[("MIRROR_TOKEN_FILE", "two")],
        "MIRROR_TOKEN_FILE: two: must hold the token on one line, and nothing else",
    ),
    (&[("MIRROR_TOKEN_FILE", "")], "MIRROR_TOKEN_FILE: is empty"),
    (
        &[("MIRROR_TOKEN", "a"), ("MIRROR_CA_FILE", "b")],
        "MIRROR_CA_FILE: b: No such file or directory (os error 2)",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("MIRROR_CA_FILE", "empty.pem")],
        "MIRROR_CA_FILE: empty.pem: contains no certificate",
    ),
    (
        &[("MIRROR_CLIENT_CERT_FILE", "empty.pem")],
        "MIRROR_CLIENT_CERT_FILE: needs MIRROR_CLIENT_KEY_FILE",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("MIRROR_CLIENT_KEY_FILE", "empty.pem")],
        "MIRROR_CLIENT_KEY_FILE: needs MIRROR_CLIENT_CERT_FILE",
    ),
    (
        &[
            ("MIRROR_CLIENT_CERT_FILE", "empty.pem"),
            ("MIRROR_CLIENT_KEY_FILE", "empty.pem"),
        ],
        "MIRROR_CLIENT_CERT_FILE: empty.pem: contains no certificate",
    ),
    (
        &[
            ("MIRROR_CLIENT_CERT_FILE", "cert.pem"),
            ("MIRROR_CLIENT_KEY_FILE", "key.pem"),
        ],
        "MIRROR_CLIENT_CERT_FILE: has no effect without https: use an https:// URL, or remove it",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("MIRROR_REPLACE", "maybe")],
        "MIRROR_REPLACE: \"maybe\" is not one of true, false",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("API_MODE", "crud")],
        "API_MODE: a mirror accepts no writes: use read-only",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("SEED_FILE", "x")],
        "SEED_FILE: has no effect on a mirror, which serves its origin's fleet from its own store: remove it",
    ),
    (
        &[("MIRROR_TOKEN", "a"), ("RESOURCES_DIR", "x")],
        "RESOURCES_DIR: has no effect on a mirror, which serves its origin's fleet from its own store: remove it",
    ),
    (
        &[("MIRROR_FROM", "two"), ("MIRROR_TOKEN", "a")],
        "MIRROR_TOKEN: has no effect when MIRROR_FROM is a file: remove it",
    ),
    (&[("MIRROR_TOKEN", "a"), ("AUTH_TOKEN", "")], "AUTH_TOKEN: is empty"),
];

#[test]
fn settings_that_make_no_sense_are_named() {
    let folder = Folder::new();
    folder.write("empty.pem", "");
    folder.write("two", "a\nb\n");
    let own = rcgen::generate_simple_self_signed(["edge.example.com".to_owned()]).unwrap();
    folder.write("cert.pem", own.cert.pem());
    folder.write("key.pem", own.signing_key.serialize_pem());
    let url = "http://127.0.0.1:1";
    for (settings, expected) in WRONG_SETTINGS {
        let mut setup = mirror_from(&folder, url);
        for (name, value) in *settings {
            setup = setup.env(name, value);
        }
        let ended = setup.run();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        let lines: Vec<_> = ended.stderr.lines().collect();
        assert_eq!(lines, [format!("error: {expected}")], "{settings:?}");
    }
}

/// What stands before a server in production: speaks TLS, and passes each request on. Gives its port.
fn tls_in_front_of(server: SocketAddr, certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let chain = vec![certificate.cert.der().clone()];
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key.into())
        .unwrap();
    let config = Arc::new(config);
    serve_each(move |connection| {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut client = StreamOwned::new(tls, connection);
        let request = request_head(&mut client)?;
        let mut server = TcpStream::connect(server)?;
        server.write_all(&request[..request.len() - 2])?;
        server.write_all(b"connection: close\r\n\r\n")?;
        pass_on(&mut server, &mut client)?;
        client.conn.send_close_notify();
        client.flush()
    })
}

/// As companies have them: takes CONNECT, and says so. Gives its port.
fn proxy(seen: std::sync::mpsc::Sender<String>) -> u16 {
    serve_each(move |mut connection| {
        let request = String::from_utf8(request_head(&mut connection)?).unwrap();
        let target = request.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
        let mut server = TcpStream::connect(target)?;
        seen.send(request).unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        let (mut from_client, mut to_server) = (connection.try_clone()?, server.try_clone()?);
        thread::spawn(move || pass_on(&mut from_client, &mut to_server));
        pass_on(&mut server, &mut connection)
    })
}

fn serve_each(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let serve = serve.clone();
            // Who does not trust the certificate leaves in the middle.
            thread::spawn(move || serve(connection.unwrap()));
        }
    });
    port
}

fn request_head(client: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(head)
}

/// What comes, as it comes.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}

#[test]
fn https_takes_a_certificate_that_is_trusted_and_goes_through_a_proxy() {
    let (there, here) = (Folder::new(), Folder::new());
    let origin = origin(&there);
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let port = tls_in_front_of(origin.address, &certificate);
    let ca = here.write("ca.pem", certificate.cert.pem());
    let setup = || mirror_from(&here, format!("https://localhost:{port}/")).env("MIRROR_TOKEN", WRITE);
    let process = setup().spawn();
    let line = process.line("the origin cannot be followed");
    assert!(line.contains("invalid peer certificate: UnknownIssuer"), "{line}");
    process.kill();

    let mirror = setup().env("MIRROR_CA_FILE", &ca).start();
    add(&origin, ["a".to_owned()]);
    caught_up(&origin, &mirror);
    mirror.stop();

    // The system's certificates, by the variable that OpenSSL has for them; and a proxy in between.
    let (seen, requests) = std::sync::mpsc::channel();
    let proxy = format!("http://user:word@127.0.0.1:{}", proxy(seen));
    let setup = setup().env("SSL_CERT_FILE", &ca).env("HTTPS_PROXY", proxy);
    let mirror = setup.start();
    add(&origin, ["b".to_owned()]);
    caught_up(&origin, &mirror);
    let request = requests.recv().unwrap();
    assert!(request.starts_with(&format!("CONNECT localhost:{port} ")), "{request}");
    assert!(
        request.to_ascii_lowercase().contains("proxy-authorization: basic "),
        "{request}"
    );
    assert!(!request.contains(WRITE), "{request}");
}

#[test]
fn a_mirror_shows_its_certificate_and_new_ones_are_used_for_new_connections() {
    let (world, here) = (World::new(), Folder::new());
    let origin = world.start(
        world
            .setup()
            .env("TLS_CLIENT_CA_FILE", world.folder.path("client-ca.pem")),
    );
    let admin = world.plain_client();
    let edge = r#"{"id":"edge","role":"mirror","certificates":["edge.example.com"]}"#;
    admin.post(origin.address, "/identities", edge);
    let install = |(certificate, key): (String, String)| {
        here.write("edge.key", key);
        here.write("edge.pem", certificate);
    };
    install(world.clients.sign(&["edge.example.com"]));
    here.write("ca.pem", world.servers.pem());
    let url = format!("https://localhost:{}", origin.address.port());
    let setup = mirror_from(&here, &url)
        .env("MIRROR_CA_FILE", here.path("ca.pem"))
        .env("MIRROR_CLIENT_CERT_FILE", here.path("edge.pem"))
        .env("MIRROR_CLIENT_KEY_FILE", here.path("edge.key"));
    let mirror = setup.start();
    let path = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces";
    mirror.with(EDGE).get(path).expect(200);
    let seen = |id: &str| {
        admin.post(origin.address, "/clusters", &cluster(id).to_string());
        eventually("the mirror has it", || mirror.with(EDGE).get(&poll(id)).status == 200);
    };
    seen("first");

    // The name is taken from the identity: the stream ends, and the next connection is refused.
    install(world.clients.sign(&["nobody.example.com"]));
    let rename = r#"{"certificates":["edge-2.example.com"]}"#;
    let renamed = admin.send(origin.address, "PATCH", "/identities/edge", Some(WRITE), rename);
    let (status, reply) = renamed.unwrap();
    assert_eq!(status, 200, "{reply}");
    let line = mirror.process.line("the origin cannot be followed");
    assert!(
        line.contains("401") && line.contains("no cluster and no identity"),
        "{line}"
    );
    here.write("edge.pem", "nonsense");
    mirror.process.line("keeping the certificates of the mirror");
    install(world.clients.sign(&["edge-2.example.com"]));
    seen("second");
}
