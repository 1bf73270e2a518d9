//! What was revoked stays revoked: on every replica, and in a store that is replaced by a backup from before.

use pgtest::Server as Postgres;
use serde_json::{Value, json};
use testkit::{Ended, Folder, Server, Setup, cluster, eventually, poll};

/// A fleet with identities: its server, and its tokens.
struct Fleet {
    folder: Folder,
    url: String,
}

impl Fleet {
    fn on_sqlite() -> Fleet {
        let folder = Folder::new();
        let url = format!("sqlite://{}", folder.database().display());
        Fleet { folder, url }
    }

    fn on_postgres() -> Fleet {
        Fleet {
            folder: Folder::new(),
            url: Postgres::shared().database(),
        }
    }

    fn crud(&self) -> Setup {
        self.folder.crud().env("DATABASE_URL", &self.url)
    }

    #[track_caller]
    fn command(&self, args: &[&str]) -> Ended {
        let ended = self.folder.bare().env("DATABASE_URL", &self.url).args(args).run();
        assert_eq!(
            ended.status.code(),
            Some(0),
            "{args:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
        ended
    }
}

/// A token of an identity, and its id.
struct Issued {
    text: String,
    id: String,
}

#[track_caller]
fn issue(server: &Server, path: &str) -> Issued {
    let issued = server.writer().post(path, &json!({})).expect(201).json();
    let field = |name: &str| issued[name].as_str().unwrap().to_owned();
    Issued {
        text: field("token"),
        id: field("id"),
    }
}

#[track_caller]
fn create(server: &Server, identity: &Value) -> Issued {
    server.writer().post("/identities", identity).expect(201);
    issue(
        server,
        &format!("/identities/{}/tokens", identity["id"].as_str().unwrap()),
    )
}

fn knows(server: &Server, token: &Issued) -> bool {
    match server.with(&token.text).get("/whoami").status {
        200 => true,
        401 => false,
        status => panic!("{status}"),
    }
}

#[test]
fn a_store_that_is_replaced_keeps_what_it_revoked() {
    for fleet in [Fleet::on_sqlite(), Fleet::on_postgres()] {
        let server = fleet.crud().start();
        let writer = server.writer();
        writer.post("/clusters", &cluster("one")).expect(201);
        let one = issue(&server, "/clusters/one/token");
        let ann = create(&server, &json!({"id": "ann", "role": "reader"}));
        let anns_second = issue(&server, "/identities/ann/tokens");
        let bob = create(
            &server,
            &json!({"id": "bob", "role": "admin", "certificates": ["bob.example.com"]}),
        );
        let eve = create(
            &server,
            &json!({"id": "eve", "role": "admin", "certificates": ["eve.example.com"], "claims": {"sub": "eve"}}),
        );
        let guest = create(&server, &json!({"id": "guest", "role": "reader"}));
        // Deleted before the backup, and created again: the backup has the second.
        let old = create(&server, &json!({"id": "again", "role": "reader"}));
        writer.delete("/identities/again").expect(204);
        let again = create(&server, &json!({"id": "again", "role": "reader"}));
        fleet.command(&["backup", "fleet.jsonl"]);

        writer.delete(&format!("/identities/ann/tokens/{}", ann.id)).expect(204);
        writer.delete("/identities/bob").expect(204);
        writer.delete("/identities/cluster:one").expect(204);
        let patch = |id: &str, body: Value| {
            let path = format!("/identities/{id}");
            writer
                .send("PATCH", &path, &[], body.to_string().as_bytes())
                .expect(200);
        };
        patch("eve", json!({"certificates": null, "claims": null}));
        patch("guest", json!({"expires_at": "2020-01-01T00:00:00Z"}));
        let late = create(&server, &json!({"id": "late", "role": "reader"}));

        let ended = fleet.command(&["restore", "fleet.jsonl", "--replace"]);
        for line in [
            "revokes again what was revoked since the backup:",
            &format!("  ann token {}\n", ann.id),
            "  bob is deleted\n",
            "  eve certificate eve.example.com\n",
            "  eve claims\n",
            "  guest expires at 2020-01-01T00:00:00Z\n",
            &format!("  cluster:one token {}\n", one.id),
        ] {
            assert!(ended.stderr.contains(line), "{line}: {}", ended.stderr);
        }
        assert!(
            !ended.stderr.contains("again token") && ended.stdout.is_empty(),
            "{ended:?}"
        );
        eventually("the server has the backup", || !knows(&server, &late));
        for revoked in [&ann, &bob, &one, &guest, &old] {
            assert!(!knows(&server, revoked));
        }
        for valid in [&anns_second, &eve, &again] {
            assert!(knows(&server, valid));
        }
        writer.get("/identities/bob").expect(404);
        let eve = writer.get("/identities/eve").expect(200).json();
        assert!(eve["certificates"].is_null() && eve["claims"].is_null(), "{eve}");
        writer.get("/clusters/one").expect(200);
        // The log says so, and its chain and the state belong together.
        let last = writer.changes().pop().unwrap();
        assert_eq!(
            (&last["actor"], &last["kind"]),
            (&json!("system"), &json!("identities"))
        );
        fleet.command(&["verify"]);
        issue(&server, "/clusters/one/token");
        // Once more: there is nothing left to revoke.
        fleet.command(&["backup", "second.jsonl"]);
        let ended = fleet.command(&["restore", "second.jsonl", "--replace"]);
        assert!(!ended.stderr.contains("revokes again"), "{}", ended.stderr);
    }
}

#[test]
fn a_store_whose_log_begins_after_the_backup_keeps_only_the_tokens_that_it_has() {
    let fleet = Fleet::on_sqlite();
    let server = fleet.crud().start();
    let ann = create(&server, &json!({"id": "ann", "role": "reader"}));
    let bob = create(&server, &json!({"id": "bob", "role": "reader"}));
    fleet.command(&["backup", "fleet.jsonl"]);
    server.writer().delete("/identities/ann").expect(204);
    for n in 0..5 {
        server
            .writer()
            .post("/clusters", &cluster(&format!("c-{n}")))
            .expect(201);
    }
    let revision = server.anonymous().get("/ready").revision().unwrap();
    fleet.command(&["compact", "--before", &revision.to_string()]);
    let ended = fleet.command(&["restore", "fleet.jsonl", "--replace"]);
    assert!(
        ended.stderr.contains(&format!("  ann token {}\n", ann.id)),
        "{}",
        ended.stderr
    );
    eventually("the server has the backup", || {
        server.writer().ids("clusters").is_empty()
    });
    assert!(!knows(&server, &ann) && knows(&server, &bob));
    fleet.command(&["verify"]);
}

#[test]
fn an_empty_store_lists_the_tokens_that_are_valid_again() {
    let fleet = Fleet::on_sqlite();
    let server = fleet.crud().start();
    server.writer().post("/clusters", &cluster("one")).expect(201);
    let one = issue(&server, "/clusters/one/token");
    let ann = create(&server, &json!({"id": "ann", "role": "reader"}));
    create(
        &server,
        &json!({"id": "over", "role": "reader", "expires_at": "2020-01-01T00:00:00Z"}),
    );
    fleet.command(&["backup", "fleet.jsonl"]);
    server.writer().delete("/identities/ann").expect(204);
    let file = fleet.folder.path("fleet.jsonl");
    let other = Fleet::on_sqlite();
    let ended = other.command(&["restore", file.to_str().unwrap()]);
    for token in [&one, &ann] {
        assert!(
            ended.stdout.contains(&format!("  token {}\t", token.id)),
            "{}",
            ended.stdout
        );
    }
    assert!(ended.stdout.contains("ann\treader\texpires never\n") && !ended.stdout.contains("over"));
    assert!(
        ended.stderr.contains("2 tokens are valid: revoke those"),
        "{}",
        ended.stderr
    );
    // What the list is for.
    other.command(&["identity", "revoke", "ann", "--token", &ann.id]);
    let restored = other.crud().start();
    assert!(!knows(&restored, &ann) && knows(&restored, &one));

    // Only when told to does a store forget what it revoked.
    let ended = fleet.command(&["restore", "fleet.jsonl", "--replace", "--forget-revocations"]);
    assert!(ended.stdout.contains(&ann.id), "{}", ended.stdout);
    eventually("the token is valid again", || knows(&server, &ann));
}

#[test]
fn a_revoked_token_is_refused_by_every_replica_and_by_a_connected_mirror() {
    let fleet = Fleet::on_postgres();
    let writer = fleet.crud().start();
    let replicas: Vec<Server> = (0..4)
        .map(|_| fleet.folder.read_only().env("DATABASE_URL", &fleet.url).start())
        .collect();
    writer.writer().post("/clusters", &cluster("one")).expect(201);
    let edge = create(&writer, &json!({"id": "edge", "role": "mirror"}));
    let here = Folder::new();
    let mirror = here
        .setup()
        .without("CRUD_AUTH_TOKEN")
        .env("MIRROR_FROM", writer.url())
        .env("MIRROR_TOKEN", &edge.text)
        .args(&["mirror"])
        .start();
    for _ in 0..5 {
        let token = issue(&writer, "/clusters/one/token");
        let all = || replicas.iter().chain([&writer, &mirror]);
        let all_say = |status: u16| all().all(|server| server.with(&token.text).get(&poll("one")).status == status);
        eventually("everybody knows the token", || all_say(200));
        let path = format!("/identities/cluster:one/tokens/{}", token.id);
        let revision = writer.writer().delete(&path).expect(204).revision().unwrap();
        // As fast as any change: who has the revision refuses the token.
        for server in all() {
            let has_it = || server.anonymous().get("/ready").revision().unwrap() >= revision;
            eventually("everybody has the revocation", has_it);
            assert_eq!(server.with(&token.text).get(&poll("one")).status, 401);
        }
    }
}
