//! What is seen from outside: logs and metrics.

use serde_json::{Value, json};

use testkit::client::Client;
use testkit::{Folder, READ, WRITE, address_in, cluster, poll};

fn named(id: &str) -> [(&str, &str); 1] {
    [("x-request-id", id)]
}

#[test]
fn a_write_is_logged_with_who_what_and_how_long_and_a_poll_is_not() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let body = cluster("a").to_string();
    server
        .writer()
        .send("POST", "/clusters", &named("write-1"), body.as_bytes())
        .expect(201);
    server
        .reader()
        .send("GET", &poll("a"), &named("poll-1"), &[])
        .expect(200);
    server
        .reader()
        .send("GET", "/clusters", &named("list-1"), &[])
        .expect(200);
    server
        .reader()
        .send("GET", &poll("unknown"), &named("poll-2"), &[])
        .expect(404);
    server
        .with("wrong")
        .send("GET", &poll("a"), &named("poll-3"), &[])
        .expect(401);
    server
        .writer()
        .send("POST", "/clusters", &named("write-2"), body.as_bytes())
        .expect(409);

    // Lines come in order: after the last one, the others are there or never will be.
    let line = |id: &str| {
        let wanted = format!("request_id=\"{id}\"");
        server.process.line(&wanted);
        let log = server.process.log();
        let line = log
            .iter()
            .rfind(|line| line.contains(&wanted) && line.contains("milliseconds="));
        line.unwrap_or_else(|| panic!("{log:?}")).clone()
    };
    assert!(line("write-2").contains("status=409"));
    let write = line("write-1");
    for part in [
        "INFO",
        "method=POST",
        "route=\"/{kind}\"",
        "status=201",
        "milliseconds=",
        "actor=\"write\"",
    ] {
        assert!(write.contains(part), "{part} in {write}");
    }
    assert!(line("poll-2").contains("status=404"));
    let refused = line("poll-3");
    assert!(
        refused.contains("status=401") && refused.contains("actor=\"-\""),
        "{refused}"
    );
    let log = server.stop().stderr;
    for quiet in ["poll-1", "list-1"] {
        assert!(!log.contains(quiet), "{quiet} in {log}");
    }
    for token in [READ, WRITE] {
        assert!(!log.contains(token), "{token} in {log}");
    }
}

#[test]
fn a_poll_is_logged_at_debug_and_tokens_are_not_at_any_level() {
    let folder = Folder::new();
    let server = folder.crud().env("RUST_LOG", "trace").start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    server
        .reader()
        .send("GET", &poll("a"), &named("poll-1"), &[])
        .expect(200);
    let line = server.process.line("request_id=\"poll-1\"");
    assert!(
        line.contains("DEBUG") && line.contains("status=200") && line.contains("actor=\"read\""),
        "{line}"
    );
    server.with("wrong-token-77aa").get("/clusters").expect(401);
    let log = server.stop().stderr;
    for token in [READ, WRITE, "wrong-token-77aa"] {
        assert!(!log.contains(token), "{token} in {log}");
    }
}

#[test]
fn a_request_without_an_id_gets_one_that_is_in_the_reply_the_log_and_the_record() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let reply = server.writer().post("/clusters", &cluster("a")).expect(201);
    let id = reply.header("x-request-id").unwrap().to_owned();
    assert!(
        server
            .process
            .line("milliseconds=")
            .contains(&format!("request_id=\"{id}\""))
    );
    let changes = server.writer().get("/changes?kind=clusters").expect(200).json();
    assert_eq!(changes[0]["request_id"], Value::from(id));
    // What could forge a line of the log is no id.
    let reply = server.writer().send("GET", "/clusters", &named("a b"), &[]);
    assert_ne!(reply.header("x-request-id"), Some("a b"));
}

#[test]
fn what_a_client_sends_cannot_forge_a_line_of_the_log() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let operation = json!({"op": "create", "kind": "namespaces", "id": "apps", "value": {"id": "apps"}});
    let reason = "first\n2026-01-01T00:00:00Z  INFO forged\u{1b}[2J\r";
    let batch = json!({"reason": reason, "operations": [operation]});
    server.writer().post("/batch", &batch).expect(200);
    server
        .anonymous()
        .get("/forged%0A2026-01-01T00:00:00Z%1B[2J")
        .expect(401);
    server.process.line("status=401");
    let log = server.stop().stderr;
    assert!(!log.contains('\u{1b}') && !log.contains('\r'), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    assert_eq!(
        log.matches("forged").count(),
        1,
        "the path, escaped, and not the reason: {log}"
    );
    let refusal = r#"problem="unauthorized" detail="a bearer token is required""#;
    assert!(log.contains(refusal), "{log}");
}

#[test]
fn logs_can_be_lines_of_json() {
    let folder = Folder::new();
    let server = folder.crud().env("LOG_FORMAT", "json").start();
    let reason = [("x-change-reason", "first \"cluster\""), ("x-request-id", "write-1")];
    let body = cluster("a").to_string();
    server
        .writer()
        .send("POST", "/clusters", &reason, body.as_bytes())
        .expect(201);
    server.process.line("milliseconds");
    let log = server.stop().stderr;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let with = |message: &str| lines.iter().find(|line| line["message"] == message).unwrap();
    let request = with("request");
    let expected = [
        ("level", json!("INFO")),
        ("method", json!("POST")),
        ("route", json!("/{kind}")),
        ("status", json!(201)),
        ("request_id", json!("write-1")),
        ("actor", json!("write")),
    ];
    for (field, value) in expected {
        assert_eq!(request[field], value, "{request}");
    }
    assert!(request["milliseconds"].as_f64().unwrap() > 0.0);
    assert!(request["timestamp"].as_str().unwrap().ends_with('Z'));
    let committed = lines.iter().rfind(|line| line["message"] == "committed").unwrap();
    let head = committed["head"].as_str().unwrap();
    assert_eq!(head.len(), "2:".len() + 64, "revision:digest, {head}");
    assert_eq!((&committed["writes"], &committed["changes"]), (&json!(1), &json!(1)));
    assert_eq!(with("stopped")["level"], "INFO");
}

#[test]
fn metrics_need_the_read_token_on_the_main_address_and_none_on_their_own() {
    let folder = Folder::new();
    for mode in ["crud", "read-only"] {
        let setup = folder.setup().env("API_MODE", mode);
        let server = setup.env("METRICS_ADDR", "127.0.0.1:0").start();
        let own = Client::new(address_in(&server.process.line(": metrics")), None);
        assert_ne!(own.address, server.address);
        server.anonymous().get("/metrics").expect(401);
        server.reader().get(&poll("unknown")).expect(404);
        for reply in [server.reader().get("/metrics"), own.get("/metrics")] {
            let reply = reply.expect(200);
            assert!(
                reply
                    .header("content-type")
                    .unwrap()
                    .starts_with("text/plain; version=0.0.4")
            );
            for name in [
                "flux_resourceset_polls_total{kind=\"namespaces\",status=\"404\"} 1",
                "flux_resourceset_authentication_failures_total{reason=\"missing\"} 1",
                "flux_resourceset_revision 1",
                "flux_resourceset_snapshot_age_seconds ",
                "flux_resourceset_dangling_references 0",
                "flux_resourceset_writes_total ",
                "flux_resourceset_poll_duration_seconds_bucket",
            ] {
                assert!(reply.text().contains(name), "{name} in {}", reply.text());
            }
        }
        // Nothing else is served there.
        own.get("/health").expect(200);
        own.get("/clusters").expect(404);
        own.get(&poll("a")).expect(404);
        server.stop();
    }
}

#[test]
fn what_was_refused_is_counted_by_reason() {
    let folder = Folder::new();
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    server.writer().post("/clusters", &cluster("a")).expect(409);
    server.writer().post("/clusters", &json!({"id": "b"})).expect(422);
    server.reader().post("/clusters", &cluster("b")).expect(403);
    let metrics = server.reader().get("/metrics").expect(200);
    for line in [
        "flux_resourceset_refusals_total{reason=\"exists\"} 1",
        "flux_resourceset_refusals_total{reason=\"invalid\"} 1",
        "flux_resourceset_authentication_failures_total{reason=\"forbidden\"} 1",
        "flux_resourceset_writes_total 1",
        "flux_resourceset_clusters 1",
        "flux_resourceset_revision 2",
    ] {
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
    }
}
