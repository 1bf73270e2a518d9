//! The commands that work on a store beside a running server: verify, compact, backup and restore.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use testkit::client::Connection;
use testkit::{Ended, Folder, Server, Setup, WRITE, cluster, eventually, poll};

use crate::shell::shell;

/// A command on a folder's database, which needs nothing else.
fn command(folder: &Folder, args: &[&str]) -> Setup {
    let url = format!("sqlite://{}", folder.database().display());
    folder.bare().env("DATABASE_URL", url).args(args)
}

#[track_caller]
fn succeeded(ended: Ended) -> Ended {
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

/// The one line that says what is wrong.
#[track_caller]
fn refused(ended: &Ended) -> &str {
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    lines[0].strip_prefix("error: ").unwrap()
}

/// What a command refuses, in as many lines as it takes.
fn problems(ended: &Ended) -> &str {
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
    ended.stderr.strip_prefix("error: ").unwrap()
}

/// Ten revisions: the first, with the kinds and a seed, and nine clusters.
fn fleet(folder: &Folder) -> Server {
    let server = folder
        .crud()
        .env("SEED_FILE", folder.seed(&json!({"clusters": [cluster("seeded")]})))
        .start();
    for n in 2..=10 {
        let id = format!("c-{n:02}");
        server.writer().post("/clusters", &cluster(&id)).expect(201);
    }
    server
}

/// The head of a revision as its commit logged it.
fn anchor(server: &Server, revision: u64) -> String {
    let wanted = format!("head={revision}:");
    let line = server.process.line(&wanted);
    let rest = &line[line.find(&wanted).unwrap() + "head=".len()..];
    rest.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_log_is_verified_beside_a_running_server_and_against_what_each_commit_logged() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let (first, fifth, last) = (anchor(&server, 1), anchor(&server, 5), anchor(&server, 10));
    let ended = succeeded(command(&folder, &["verify", "--anchor", &first, "--anchor", &fifth]).run());
    let resources = 4 + 10;
    assert_eq!(
        ended.stdout,
        format!("verified {last}: revisions 1 to 10 are unchanged, and the {resources} resources match them\n")
    );
    assert_eq!(ended.stderr, "");
    server.writer().post("/clusters", &cluster("later")).expect(201);
    let ended = succeeded(command(&folder, &["verify", "--anchor", &last]).run());
    assert!(ended.stdout.starts_with("verified 11:"), "{}", ended.stdout);

    let missing = command(&folder, &["verify"])
        .env("DATABASE_URL", "sqlite://nowhere.db?mode=rwc")
        .run();
    assert!(refused(&missing).starts_with("DATABASE_URL: "), "{}", missing.stderr);
    assert!(
        !folder.path("nowhere.db").exists(),
        "what is to be verified is not created"
    );
    let nonsense = command(&folder, &["verify", "--anchor", "5"]).run();
    assert_eq!(nonsense.status.code(), Some(2));
    assert!(
        nonsense.stderr.contains("expected a revision and its digest"),
        "{}",
        nonsense.stderr
    );
    let memory = command(&folder, &["verify"]).env("STORE_BACKEND", "memory").run();
    assert!(refused(&memory).starts_with("STORE_BACKEND: "), "{}", memory.stderr);
}

/// Ways of tampering with the database, and the problem that `verify` must find.
fn tampering() -> Vec<(&'static str, String)> {
    const CHANGED: &str = "was changed: its digest does not match its content and the revision before it";
    let changed = |revision: u64| format!("revision {revision} {CHANGED}");
    let edited = |revision: u64| format!("of revision {revision} does not match its digest");
    let state = |what: &str| format!("{what}: the state was changed");
    let swap = "UPDATE revisions SET revision = -1 WHERE revision = 5; UPDATE revisions SET revision = 5 WHERE revision = 6; \
         UPDATE revisions SET revision = 6 WHERE revision = -1; UPDATE changes SET revision = -1 WHERE revision = 5; \
         UPDATE changes SET revision = 5 WHERE revision = 6; UPDATE changes SET revision = 6 WHERE revision = -1";
    vec![
        ("UPDATE revisions SET actor = 'eve' WHERE revision = 5", changed(5)),
        (
            "UPDATE revisions SET at = replace(at, '20', '19') WHERE revision = 5",
            changed(5),
        ),
        (
            "UPDATE revisions SET reason = 'asked to' WHERE revision = 5",
            changed(5),
        ),
        ("UPDATE revisions SET request_id = '' WHERE revision = 5", changed(5)),
        (
            "UPDATE revisions SET digest = zeroblob(32) WHERE revision = 5",
            changed(5),
        ),
        (
            "UPDATE revisions SET removed = '{\"lost\":[\"a\"]}' WHERE revision = 5",
            changed(5),
        ),
        (
            "UPDATE changes SET after = replace(after, 'dev', 'prod') WHERE revision = 5",
            edited(5),
        ),
        ("UPDATE changes SET origin = 'seed' WHERE revision = 5", edited(5)),
        ("DELETE FROM changes WHERE revision = 5", changed(5)),
        ("UPDATE changes SET idx = -idx WHERE revision = 1", edited(1)),
        (
            "INSERT INTO changes VALUES (5, 9, 'clusters', 'x', NULL, NULL, '{}', NULL)",
            changed(5),
        ),
        (
            "DELETE FROM revisions WHERE revision = 5",
            "revision 5 is missing: revision 6 follows instead".to_owned(),
        ),
        (
            "DELETE FROM revisions WHERE revision = 5; UPDATE revisions SET revision = revision - 1 WHERE revision > 5; \
             DELETE FROM changes WHERE revision = 5; UPDATE changes SET revision = revision - 1 WHERE revision > 5",
            edited(5),
        ),
        (
            "DELETE FROM revisions WHERE revision = 1",
            "revision 1 is missing: revision 2 follows instead".to_owned(),
        ),
        (swap, edited(5)),
        (
            "DELETE FROM revisions WHERE revision = 10",
            state("clusters/c-10 exists, but no revision created it"),
        ),
        (
            "UPDATE resources SET body = replace(body, 'dev', 'prod') WHERE id = 'c-07'",
            "clusters/c-07: its row is damaged or missing, but revision 7 has it".to_owned(),
        ),
        (
            "DELETE FROM resources WHERE id = 'c-07'",
            state("clusters/c-07 is missing, but revision 7 has it"),
        ),
        (
            "INSERT INTO resources VALUES ('clusters', 'x', NULL, NULL, '{}', NULL)",
            "the row of clusters/x is damaged: it has no digest".to_owned(),
        ),
        (
            "UPDATE resources SET origin = NULL WHERE id = 'seeded'",
            "the row of clusters/seeded is damaged: it does not match its digest".to_owned(),
        ),
    ]
}

#[test]
fn every_way_of_tampering_is_found_where_it_is() {
    let folder = Folder::new();
    fleet(&folder).stop();
    let pristine = std::fs::read(folder.database()).unwrap();
    for (sql, expected) in tampering() {
        std::fs::write(folder.database(), &pristine).unwrap();
        // Who can edit the file can do so with its marker.
        let _ = std::fs::remove_file(folder.path("fleet.db.head"));
        shell(&folder.database(), sql).close();
        let ended = command(&folder, &["verify"]).run();
        assert!(problems(&ended).contains(&expected), "{sql}: {}", ended.stderr);
        // What is broken is neither thrown away nor kept for a bad day.
        let ended = command(&folder, &["compact", "--before", "3"]).run();
        assert!(
            refused(&ended).ends_with("; nothing was compacted"),
            "{sql}: {}",
            ended.stderr
        );
        let ended = command(&folder, &["backup", "fleet.jsonl"]).run();
        assert!(
            refused(&ended).ends_with("; nothing was written"),
            "{sql}: {}",
            ended.stderr
        );
        assert!(!folder.path("fleet.jsonl").exists() && !folder.path("fleet.jsonl.partial").exists());
    }
}

#[test]
fn a_log_that_was_cut_off_or_rewritten_is_found_by_an_anchor() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let last = anchor(&server, 10);
    server.stop();
    // The end cut off, and the state with it: only who noted the head can tell.
    std::fs::remove_file(folder.path("fleet.db.head")).unwrap();
    let cut = "DELETE FROM revisions WHERE revision > 8; DELETE FROM changes WHERE revision > 8; \
         DELETE FROM resources WHERE id IN ('c-09', 'c-10')";
    shell(&folder.database(), cut).close();
    let sound = succeeded(command(&folder, &["verify"]).run());
    assert!(sound.stdout.starts_with("verified 8:"), "{}", sound.stdout);
    let ended = command(&folder, &["verify", "--anchor", &last]).run();
    assert_eq!(
        refused(&ended),
        "DATABASE_URL: the log ends at revision 8, before the anchor at 10: its end was cut off"
    );
    // And written anew.
    let server = folder.crud().start();
    for id in ["c-09", "c-10"] {
        server.writer().post("/clusters", &cluster(id)).expect(201);
    }
    succeeded(command(&folder, &["verify"]).run());
    let ended = command(&folder, &["verify", "--anchor", &last]).run();
    assert_eq!(
        refused(&ended),
        "DATABASE_URL: revision 10 has another digest than the anchor: the log was rewritten"
    );
}

#[test]
fn a_log_is_compacted_beside_a_running_server() {
    let folder = Folder::new();
    let (server, other) = (fleet(&folder), folder.read_only().start());
    let (seventh, last) = (anchor(&server, 7), anchor(&server, 10));
    let ended = succeeded(command(&folder, &["compact", "--before", "8"]).run());
    assert_eq!(
        ended.stdout,
        format!("compacted revisions 1 to 7 into the checkpoint {seventh}; 8 to 10 are kept\n")
    );
    let problem = server.reader().get("/changes?after=3").expect(410).json();
    assert_eq!(problem["type"], "/problems/compacted");
    assert_eq!(server.reader().changes_after(7).len(), 3);
    server.reader().get("/clusters/c-05?revision=6").expect(410);
    server.reader().get("/clusters/c-05?revision=7").expect(200);

    // Everyone goes on.
    server.writer().post("/clusters", &cluster("later")).expect(201);
    eventually("the other process sees it", || {
        other.reader().get(&poll("later")).status == 200
    });
    let verified = succeeded(command(&folder, &["verify", "--anchor", &seventh, "--anchor", &last]).run());
    let said = "revisions 8 to 11, after the checkpoint at 7, are unchanged, and the 15 resources match them\n";
    assert!(verified.stdout.ends_with(said), "{}", verified.stdout);
    let ended = succeeded(command(&folder, &["compact", "--older-than", "400d"]).run());
    assert_eq!(ended.stdout, "nothing to compact: the log begins with revision 8\n");
    succeeded(command(&folder, &["compact", "--older-than", "0s"]).run());
    server.stop();
    other.stop();
    let server = folder.crud().start();
    assert_eq!(server.reader().changes_after(10).len(), 1);
    assert_eq!(server.writer().ids("clusters").len(), 11);
    server.stop();

    // The checkpoint is held against the state.
    for (sql, expected) in [
        (
            "UPDATE checkpoint SET state = zeroblob(32)",
            "the checkpoint at revision 10 do not match it",
        ),
        (
            "UPDATE resources SET body = replace(body, 'dev', 'prod') WHERE id = 'c-03'",
            "clusters/c-03 is damaged",
        ),
    ] {
        shell(&folder.database(), sql).close();
        let ended = command(&folder, &["verify"]).run();
        assert!(problems(&ended).contains(expected), "{}", ended.stderr);
    }
    let ended = command(&folder, &["verify", "--anchor", &seventh]).run();
    assert!(
        problems(&ended).contains("the anchor at 7 cannot be checked any more"),
        "{}",
        ended.stderr
    );

    for args in [
        &["compact"][..],
        &["compact", "--before", "3", "--older-than", "3d"],
        &["compact", "--older-than", "3"],
    ] {
        assert_eq!(command(&folder, args).run().status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn what_was_removed_lately_is_not_compacted_away() {
    let folder = Folder::new();
    let server = fleet(&folder);
    server.writer().delete("/clusters/c-02").expect(204);
    server.writer().post("/clusters", &cluster("later")).expect(201);
    let ended = command(&folder, &["compact", "--before", "12"]).run();
    insta::assert_snapshot!(refused(&ended));
    succeeded(command(&folder, &["compact", "--before", "11"]).run());
    succeeded(command(&folder, &["compact", "--before", "12", "--removal-window", "0s"]).run());
}

/// What clusters and readers get, with its version.
fn seen(server: &Server) -> Vec<(String, Option<String>, String)> {
    let paths = [
        "/kinds".to_owned(),
        "/clusters".to_owned(),
        "/changes?limit=10000".to_owned(),
    ];
    let polls = ["seeded", "c-05", "c-07"].map(poll);
    let all = paths.into_iter().chain(polls).chain(["/clusters/c-07".to_owned()]);
    let seen = all.map(|path| {
        let reply = server.reader().get(&path).expect(200);
        (path, reply.header("etag").map(str::to_owned), reply.text().to_owned())
    });
    seen.collect()
}

#[test]
fn a_backup_beside_a_running_server_gives_the_same_bytes_elsewhere() {
    let folder = Folder::new();
    let server = fleet(&folder);
    server.writer().delete("/clusters/c-05").expect(204);
    let before = seen(&server);
    let head = anchor(&server, 11);
    let said = format!("wrote 11 revisions and 14 resources at {head} to ");
    for file in ["fleet.jsonl", "fleet.jsonl.gz"] {
        let ended = succeeded(command(&folder, &["backup", file]).run());
        assert_eq!((&*ended.stdout, ended.stderr), ("", format!("{said}{file}\n")));
        assert!(!folder.path(&format!("{file}.partial")).exists());
    }
    let to_stdout = succeeded(command(&folder, &["backup", "-"]).run());
    let over_http = server.writer().get("/backup").expect(200);
    server.reader().get("/backup").expect(403);
    let body = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let plain = std::fs::read_to_string(folder.path("fleet.jsonl")).unwrap();
    let packed = std::fs::read(folder.path("fleet.jsonl.gz")).unwrap();
    assert!(packed.len() < plain.len() / 3);
    // All but the time in the first line.
    assert_eq!(body(&to_stdout.stdout), body(&plain));
    assert_eq!(body(over_http.text()), body(&plain));
    server.stop();

    for input in [plain.clone().into_bytes(), packed, over_http.body] {
        let other = Folder::new();
        other.write("fleet.backup", &input);
        let ended = succeeded(command(&other, &["restore", "fleet.backup"]).run());
        assert_eq!(
            ended.stderr,
            format!("restored 11 revisions and 14 resources at {head}\n")
        );
        let restored = other.crud().start();
        assert_eq!(seen(&restored), before);
        succeeded(command(&other, &["verify", "--anchor", &head]).run());
        // A restart writes nothing: the notes about files came along.
        assert_eq!(restored.reader().get("/ready").expect(200).revision(), Some(11));
        restored.writer().post("/clusters", &cluster("c-07")).expect(409);
        restored.writer().post("/clusters", &cluster("new")).expect(201);
    }
    let other = Folder::new();
    succeeded(command(&other, &["restore", "-"]).run_with_input(plain.clone()));
    let again = command(&other, &["restore", "-"]).run_with_input(plain.clone());
    assert!(refused(&again).ends_with("is not empty: it is at revision 11; use --replace to replace its content"));

    // A file that was cut leaves no trace.
    let other = Folder::new();
    let cut = &plain[..plain.len() * 2 / 3];
    let ended = command(&other, &["restore", "-"]).run_with_input(cut);
    assert!(
        refused(&ended).ends_with("the file was cut off: its end is missing"),
        "{}",
        ended.stderr
    );
    let server = other.crud().start();
    assert_eq!(server.writer().ids("clusters"), Vec::<String>::new());
}

#[test]
fn a_backup_is_consistent_while_others_write_and_the_log_is_compacted() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                server
                    .writer()
                    .post("/clusters", &cluster(&format!("w-{n}")))
                    .expect(201);
                n += 1;
            }
        });
        for round in 0..5_u64 {
            let file = format!("{round}.jsonl");
            succeeded(command(&folder, &["backup", &file]).run());
            let other = Folder::new();
            let path = folder.path(&file);
            succeeded(command(&other, &["restore", path.to_str().unwrap()]).run());
            succeeded(command(&other, &["verify"]).run());
            succeeded(command(&folder, &["verify"]).run());
            let before = (round + 3).to_string();
            succeeded(command(&folder, &["compact", "--before", &before]).run());
        }
        stop.store(true, Ordering::Relaxed);
    });
    succeeded(command(&folder, &["verify"]).run());
}

#[test]
fn a_running_server_serves_what_its_store_was_replaced_with() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let before = seen(&server);
    succeeded(command(&folder, &["backup", "fleet.jsonl"]).run());
    server.writer().post("/clusters", &cluster("mistake")).expect(201);
    let bad = command(&folder, &["restore", "nowhere.jsonl", "--replace"]).run();
    assert!(refused(&bad).starts_with("nowhere.jsonl: "), "{}", bad.stderr);
    server.reader().get(&poll("mistake")).expect(200);
    succeeded(command(&folder, &["restore", "fleet.jsonl", "--replace"]).run());
    eventually("it serves what was restored", || {
        server.reader().get(&poll("mistake")).status == 404
    });
    assert_eq!(seen(&server), before);
    server.writer().post("/clusters", &cluster("right")).expect(201);
    succeeded(command(&folder, &["verify"]).run());
}

#[test]
fn a_stream_of_events_ends_with_the_server_and_holds_nothing_up() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let mut connection = Connection::open(server.address).unwrap();
    let head = server
        .reader()
        .head("GET", "/changes/stream", &[("last-event-id", "9")]);
    connection.send(head).unwrap();
    server.writer().post("/clusters", &cluster("later")).expect(201);
    let mut text = String::new();
    while !text.contains("id: 11\n") {
        text.push_str(&connection.some());
    }
    assert!(text.contains("id: 10\ndata: {\"revision\":10,"), "{text}");
    let ended = server.stop();
    assert!(!ended.stderr.contains("did not finish in time"), "{}", ended.stderr);
    let mut rest = String::new();
    loop {
        let more = connection.some();
        if more.is_empty() {
            break;
        }
        rest.push_str(&more);
    }
    assert!(rest.ends_with("0\r\n\r\n"), "an orderly end: {rest:?}");
}

#[test]
fn refused_writes_and_failed_authentications_are_in_the_log() {
    let folder = Folder::new();
    let server = fleet(&folder);
    let post = |client: testkit::client::Client, id: &str| {
        let body = cluster("c-02").to_string();
        client.send("POST", "/clusters", &[("x-request-id", id)], body.as_bytes());
    };
    post(server.writer(), "a-refusal");
    post(server.with("wrong"), "a-stranger");
    post(server.reader(), "a-reader");
    for (id, status, problem) in [
        ("a-refusal", 409, "exists"),
        ("a-stranger", 401, "unauthorized"),
        ("a-reader", 403, "forbidden"),
    ] {
        let line = server.process.line(id);
        let all = [
            format!("status={status}"),
            format!("problem=\"{problem}\""),
            "POST".to_owned(),
        ];
        assert!(all.iter().all(|part| line.contains(part)), "{line}");
    }
    assert!(!server.process.log().iter().any(|line| line.contains(WRITE)));
}

#[test]
fn a_folder_of_backups_keeps_the_latest() {
    let folder = Folder::new();
    fleet(&folder).stop();
    folder.write("backups/fleet.jsonl.gz", "another file");
    let old = ["20200101T000000Z", "20210101T000000Z"].map(|time| format!("flux-resourceset-{time}.jsonl.gz"));
    for name in &old {
        folder.write(&format!("backups/{name}"), "an old one");
    }
    let ended = succeeded(command(&folder, &["backup", "backups", "--keep", "2"]).run());
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert!(lines[0].contains(" to backups/flux-resourceset-20"), "{lines:?}");
    assert_eq!(lines[1..], [format!("removed backups/{}", old[0])]);
    let written = lines[0].split_once(" to ").unwrap().1.to_owned();
    let other = Folder::new();
    other.write("backup.gz", std::fs::read(folder.path(&written)).unwrap());
    succeeded(command(&other, &["restore", "backup.gz"]).run());
    assert_eq!(std::fs::read_dir(folder.path("backups")).unwrap().count(), 3);
    // Only complete backups make room, and only in a folder.
    let ended = command(&folder, &["backup", "fleet.jsonl", "--keep", "2"]).run();
    assert!(
        refused(&ended).ends_with("--keep is for a folder, and fleet.jsonl is none"),
        "{}",
        ended.stderr
    );
    let ended = command(&folder, &["backup", "backups", "--keep", "0"]).run();
    assert!(ended.stderr.contains("--keep"), "{}", ended.stderr);
}
