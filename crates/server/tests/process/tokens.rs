//! Who may do what, from variables and files, also while a token is being replaced.

use serde_json::json;

use testkit::client::Connection;
use testkit::{Folder, READ, Server, WRITE, cluster, eventually};

/// A server whose tokens come from files alone.
fn start(folder: &Folder) -> Server {
    let setup = folder.crud().without("AUTH_TOKEN").without("CRUD_AUTH_TOKEN");
    let setup = setup.env("AUTH_TOKEN_FILE", folder.path("read"));
    setup.env("CRUD_AUTH_TOKEN_FILE", folder.path("write")).start()
}

fn status(server: &Server, token: &str) -> (u16, u16) {
    let client = server.with(token);
    // Who asks often enough is told to wait instead.
    let refused = |status| if status == 429 { 401 } else { status };
    let read = refused(client.get("/clusters").status);
    // Changes nothing, so that it can be asked at any time.
    let write = refused(client.post("/batch", &json!({"operations": []})).status);
    (read, write)
}

const NOTHING: (u16, u16) = (401, 401);
const READS: (u16, u16) = (200, 403);

/// A good token may write, whatever is said about the empty batch.
fn writes(server: &Server, token: &str) -> bool {
    let (read, write) = status(server, token);
    read == 200 && write != 401 && write != 403
}

#[test]
fn two_tokens_hold_during_a_rotation() {
    let folder = Folder::new();
    folder.write("read", "read-old\n\n  read-new  \n");
    folder.write("write", "# both until Friday\r\nwrite-old\r\nwrite-new\r\n");
    let server = start(&folder);
    for token in ["read-old", "read-new"] {
        assert_eq!(status(&server, token), READS);
    }
    for token in ["write-old", "write-new"] {
        assert!(writes(&server, token));
    }
    for token in ["", "# both until Friday", "read-ol", "read-oldd", "READ-OLD", READ] {
        assert_eq!(status(&server, token), NOTHING, "{token}");
    }
}

#[test]
fn a_file_that_changes_is_followed_and_a_broken_one_keeps_the_old_tokens() {
    let folder = Folder::new();
    folder.write("read", "read-1\n");
    folder.write("write", "write-1\n");
    let server = start(&folder);
    assert_eq!(status(&server, "read-1"), READS);

    folder.write("read", "read-1\nread-2\n");
    eventually("the second token holds", || status(&server, "read-2") == READS);
    assert_eq!(status(&server, "read-1"), READS);
    folder.write("read", "read-2\n");
    eventually("the first token is gone", || status(&server, "read-1") == NOTHING);
    folder.write("write", "write-2\n");
    eventually("the writer's is followed, too", || writes(&server, "write-2"));
    assert_eq!(status(&server, "write-1"), NOTHING);

    // Empty, gone, not text: none of them locks everybody out.
    folder.write("read", "\n");
    server.process.line("read: contains no token");
    std::fs::remove_file(folder.path("write")).unwrap();
    folder.write("read", "read-2\n");
    server.process.line("write: No such file or directory");
    folder.write("write", b"\xff\xfe\n");
    server.process.line("valid UTF-8");
    assert_eq!(status(&server, "read-2"), READS);
    assert!(writes(&server, "write-2"));

    folder.write("write", "write-3\n");
    eventually("a good file is followed again", || writes(&server, "write-3"));
    let complaints = server.process.log();
    let complaints = complaints
        .iter()
        .filter(|line| line.contains("keeping the tokens in force"));
    assert_eq!(complaints.count(), 3, "each problem is said once");
    let log = server.stop().stderr;
    for secret in ["read-1", "read-2", "write-1", "write-2", "write-3"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[test]
fn a_token_that_is_moved_to_the_other_file_has_the_other_right() {
    let folder = Folder::new();
    folder.write("read", "flux:aaaa\n");
    folder.write("write", "\u{feff}ci: bbbb\nann:cccc\n");
    let server = start(&folder);
    assert!(writes(&server, "bbbb"));
    folder.write("read", "flux:aaaa\nci:bbbb\n");
    folder.write("write", "ann:cccc\n");
    eventually("it only reads", || status(&server, "bbbb") == READS);
    folder.write("read", "flux:aaaa\nci:bb bb\n");
    server
        .process
        .line("read, line 2: the token contains blanks or control characters");
    assert_eq!(status(&server, "bbbb"), READS);
}

#[test]
fn the_name_of_a_token_is_the_actor_of_its_changes() {
    let folder = Folder::new();
    folder.write("read", "auditor:read-a\n");
    folder.write("write", "ci@example.com:write-a\nwrite-b\nodd+name:write-c\n");
    let server = start(&folder);
    assert_eq!(status(&server, "read-a"), READS);
    let write = |token: &str, id: &str| server.with(token).post("/clusters", &cluster(id)).expect(201);
    write("write-a", "a");
    write("write-b", "b");
    // What has no name in front is a token as a whole.
    write("odd+name:write-c", "c");
    let reader = server.with("read-a");
    let changes = reader.get("/changes?kind=clusters").expect(200).json();
    let actors: Vec<_> = changes
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["actor"])
        .collect();
    assert_eq!(actors, ["ci@example.com", "write", "write"]);
    let of = |actor: &str| reader.get(&format!("/changes?actor={actor}")).expect(200).json();
    assert_eq!(of("ci@example.com").as_array().map(Vec::len), Some(1));
    assert_eq!(of("ci@example.com")[0]["id"], "a");

    // A name alone can change, too.
    folder.write("write", "cd@example.com:write-a\nwrite-b\nodd+name:write-c\n");
    eventually("the first token has its new name", || {
        let id = format!("d-{}", server.with("write-a").ids("clusters").len());
        write("write-a", &id);
        let changes = reader.get(&format!("/changes?id={id}")).expect(200).json();
        changes[0]["actor"] == "cd@example.com"
    });
}

#[test]
fn variables_and_files_hold_together() {
    let folder = Folder::new();
    folder.write("read", "read-file\n");
    let server = folder.crud().env("AUTH_TOKEN_FILE", folder.path("read")).start();
    assert_eq!(status(&server, READ), READS);
    assert_eq!(status(&server, "read-file"), READS);
    assert!(writes(&server, WRITE));
}

#[test]
fn without_a_token_of_their_own_writers_use_the_one_for_reading() {
    let folder = Folder::new();
    let server = folder.crud().without("CRUD_AUTH_TOKEN").start();
    server.reader().post("/clusters", &cluster("a")).expect(201);
    assert_eq!(status(&server, WRITE), NOTHING);
    let warning = server.process.line("is an admin");
    assert!(
        warning.contains("WARN") && warning.contains("CRUD_AUTH_TOKEN is not set"),
        "{warning}"
    );
    // Where nothing can be written, they read, and tell nothing about clusters either.
    let replica = folder.read_only().without("CRUD_AUTH_TOKEN").start();
    assert_eq!(replica.reader().get("/whoami").expect(200).json()["role"], "reader");
    assert!(!replica.process.log().iter().any(|line| line.contains("is an admin")));
}

#[test]
fn a_token_with_blanks_around_it_is_the_token() {
    // As `echo` and Kubernetes secrets leave it.
    let folder = Folder::new();
    let server = folder.crud().env("AUTH_TOKEN", format!("{READ}\n")).start();
    assert_eq!(status(&server, READ), READS);
}

#[test]
fn an_empty_token_in_a_file_is_refused_by_file_and_line() {
    let folder = Folder::new();
    folder.write("write", "ci:write-1-0123456789\n");
    for (line, problem) in [
        ("ann:", "the token is empty"),
        ("  ann:  ", "the token is empty"),
        (":", "the token is empty"),
        (":secret-without-a-name", "the name before the colon is empty"),
    ] {
        folder.write("read", format!("# readers\n\nflux:read-1-0123456789\n{line}\n"));
        let setup = folder.crud().without("AUTH_TOKEN").without("CRUD_AUTH_TOKEN");
        let setup = setup.env("AUTH_TOKEN_FILE", folder.path("read"));
        let setup = setup.env("CRUD_AUTH_TOKEN_FILE", folder.path("write"));
        let error = setup.run_for_its_error();
        assert!(
            error.contains("AUTH_TOKEN_FILE") && error.contains("read, line 4"),
            "{error}"
        );
        assert!(error.contains(problem) && !error.contains("secret-without"), "{error}");
    }

    // A file that becomes such a one while the server runs changes nothing.
    folder.write("read", "flux:read-1-0123456789\n");
    let server = start(&folder);
    folder.write("read", "flux:read-1-0123456789\nann:\n");
    let line = server.process.line("keeping the tokens in force");
    assert!(line.contains("read, line 2: the token is empty"), "{line}");
    assert_eq!(status(&server, "ann:"), NOTHING);
    assert_eq!(status(&server, ""), NOTHING);
    assert_eq!(status(&server, "read-1-0123456789"), READS);
}

#[test]
fn short_tokens_and_tokens_that_stand_twice_are_warned_about() {
    let folder = Folder::new();
    folder.write("read", "flux:read-1-0123456789\n");
    folder.write("write", "ci:write-1-0123456789\n");
    let server = start(&folder);
    assert!(!server.process.log().iter().any(|line| line.contains("shorter than")));
    folder.write("read", "flux:read-1-0123456789\nann:short\n");
    let line = server
        .process
        .line("read, line 2: the token is shorter than 16 characters");
    assert!(line.contains("WARN"), "{line}");
    assert_eq!(status(&server, "short"), READS);
    folder.write("write", "ci:write-1-0123456789\nflux:read-1-0123456789\n");
    server.process.line("write, line 2: the same token as");
    assert!(writes(&server, "read-1-0123456789"));
    let log = server.stop().stderr;
    assert!(!log.contains("short\n") && !log.contains("0123456789"), "{log}");
    assert_eq!(log.matches("shorter than").count(), 1, "said once: {log}");

    let server = folder.crud().env("AUTH_TOKEN", "tiny").start();
    server
        .process
        .line("AUTH_TOKEN: the token is shorter than 16 characters");
}

#[test]
fn failed_authentications_are_limited_and_valid_tokens_never_are() {
    let folder = Folder::new();
    let server = folder.crud().env("TRUSTED_PROXIES", "127.0.0.1").start();
    let from = |address: &str, token: &str| {
        let headers = [("x-forwarded-for", address)];
        server.with(token).send("GET", "/clusters", &headers, b"")
    };
    let statuses: Vec<u16> = (0..700).map(|_| from("198.51.100.1", "wrong").status).collect();
    assert_eq!(statuses[..500], [401; 500]);
    assert!(statuses[500..].contains(&429), "{:?}", &statuses[500..]);
    let last = (0..100)
        .map(|_| from("198.51.100.1", "wrong"))
        .find(|reply| reply.status == 429)
        .unwrap();
    assert!(last.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    // The same address with a valid token, and another address.
    from("198.51.100.1", READ).expect(200);
    from("198.51.100.2", "wrong").expect(401);
    // Polls are limited in the same way, and never those with a valid token.
    let poll = "/api/v2/flux/clusters/nobody.example.com/namespaces";
    let headers = [("x-forwarded-for", "198.51.100.1")];
    assert!((0..100).any(|_| server.with("wrong").send("GET", poll, &headers, b"").status == 429));
    server.reader().send("GET", poll, &headers, b"").expect(404);
}

#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let writer = server.writer();
    writer
        .post("/identities", &json!({"id": "ann", "role": "reader"}))
        .expect(201);
    let issued = writer.post("/identities/ann/tokens", &json!({})).expect(201).json();
    let (token, id) = (issued["token"].as_str().unwrap(), issued["id"].as_str().unwrap());
    let open = |token: &str| {
        let mut connection = Connection::open(server.address).unwrap();
        let head = server.with(token).head("GET", "/changes/stream", &[]);
        connection.send(head).unwrap();
        assert!(connection.some().contains("200 OK"));
        connection
    };
    let (mut anns, mut other) = (open(token), open(READ));
    writer.delete(&format!("/identities/ann/tokens/{id}")).expect(204);
    let mut text = String::new();
    loop {
        match anns.some() {
            more if more.is_empty() => break,
            more => text.push_str(&more),
        }
    }
    assert!(text.ends_with("0\r\n\r\n"), "an orderly end: {text}");
    assert!(!text.contains("identities"), "nothing after the revocation: {text}");
    server
        .process
        .line("closing a stream of changes: its token is no longer valid");
    let mut text = String::new();
    while !text.contains("\"kind\":\"identities\"") {
        text.push_str(&other.some());
    }
}

#[test]
fn a_stream_shows_no_digest_any_more_once_its_token_only_reads() {
    const ANN: &str = "token-of-ann-0123456789";
    let folder = Folder::new();
    folder.write("read", "read-1-0123456789\n");
    folder.write("write", format!("ci:write-1-0123456789\nann:{ANN}\n"));
    let server = start(&folder);
    let ci = server.with("write-1-0123456789");
    ci.post("/identities", &json!({"id": "bob", "role": "reader"}))
        .expect(201);
    let mut connection = Connection::open(server.address).unwrap();
    connection
        .send(server.with(ANN).head("GET", "/changes/stream", &[]))
        .unwrap();
    let mut next_identity = || {
        ci.post("/identities/bob/tokens", &json!({})).expect(201);
        let mut text = String::new();
        while !text.contains("\"kind\":\"identities\"") || !text.ends_with("\n\n\r\n") {
            text.push_str(&connection.some());
        }
        text
    };
    let text = next_identity();
    assert!(text.contains("\"digest\":\"") && text.contains("\"after\":{"), "{text}");
    folder.write("read", format!("read-1-0123456789\nann:{ANN}\n"));
    folder.write("write", "ci:write-1-0123456789\n");
    eventually("the token of ann reads", || status(&server, ANN) == READS);
    let text = next_identity();
    assert!(
        text.contains("\"before\":null") && text.contains("\"after\":null"),
        "{text}"
    );
}
