//! What clusters tell, between processes and over restarts.

use pgtest::Server as Postgres;
use serde_json::{Value, json};

use testkit::client::{Client, Connection};
use testkit::{Folder, Server, cluster, dns, eventually};

const AGENT: (&str, &str) = ("user-agent", "flux-operator/v0.58.1");
const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];

/// Polls as Flux does.
fn poll(client: &Client, id: &str) {
    for path in PATHS {
        let path = format!("/api/v2/flux/clusters/{}/{path}", dns(id));
        client.send("GET", &path, &[AGENT], b"").expect(200);
    }
}

fn state(client: &Client, id: &str) -> String {
    let all = client.get("/status?limit=1000000").expect(200).json();
    let mut rows = all["clusters"].as_array().unwrap().iter();
    let row = rows.find(|row| row["id"] == id);
    row.map_or_else(|| "unknown".to_owned(), |row| row["state"].as_str().unwrap().to_owned())
}

/// The states of all clusters, without times.
fn states(server: &Server) -> Value {
    let all = server.reader().get("/status?limit=1000000").expect(200).json();
    let rows = all["clusters"].as_array().unwrap().iter();
    let rows: Vec<_> = rows.map(|row| (row["id"].clone(), row["state"].clone())).collect();
    json!({"counts": all["counts"], "rows": rows})
}

fn failure(name: &str) -> Value {
    json!({
        "involvedObject": {"kind": "Kustomization", "namespace": "flux-system", "name": name},
        "severity": "error", "reason": "BuildFailed", "message": "no such file",
    })
}

fn tell(server: &Server, id: &str, event: &Value) {
    let path = format!("/api/v2/flux/clusters/{}/events", dns(id));
    server.writer().post(&path, event).expect(202);
}

fn is_shared(server: &Server) -> bool {
    let metrics = server.reader().get("/metrics").expect(200);
    metrics
        .text()
        .lines()
        .any(|line| line == "flux_resourceset_evidence_shared 1")
}

#[test]
fn a_reader_and_a_writer_on_one_file_know_the_same_and_a_restart_forgets_nothing() {
    let folder = Folder::new();
    let (crud, reader) = (folder.crud().start(), folder.read_only().start());
    for id in ["a", "b", "c"] {
        crud.writer().post("/clusters", &cluster(id)).expect(201);
    }
    eventually("the reader has them", || {
        states(&reader)["rows"].as_array().unwrap().len() == 3
    });
    // Flux polls the reader, operators ask the writer.
    poll(&reader.reader(), "a");
    poll(&reader.reader(), "b");
    tell(&crud, "b", &failure("x"));
    eventually("the writer knows of the polls", || {
        state(&crud.reader(), "a") == "converged"
    });
    eventually("the reader knows of the event", || {
        state(&reader.reader(), "b") == "failing"
    });
    assert_eq!(states(&crud), states(&reader));
    let before = states(&crud);
    crud.stop();
    reader.stop();
    let again = folder.crud().start();
    eventually("it knows what it knew", || states(&again) == before);
    // Evidence is in no backup of ours, and no revision: the log has the three clusters and the first revision.
    assert_eq!(again.writer().changes().last().unwrap()["revision"], 4);
}

#[test]
fn a_damaged_file_of_evidence_begins_anew() {
    let folder = Folder::new();
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    poll(&server.reader(), "a");
    server.stop();
    let mut file = folder.database().into_os_string();
    file.push(".evidence");
    std::fs::write(&file, vec![7; 8192]).unwrap();
    let server = folder.crud().start();
    assert_eq!(state(&server.reader(), "a"), "never");
    eventually("evidence is shared again", || is_shared(&server));
    poll(&server.reader(), "a");
    assert_eq!(state(&server.reader(), "a"), "converged");
    server.stop();
    let server = folder.crud().start();
    eventually("it is kept again", || state(&server.reader(), "a") == "converged");
}

#[test]
fn a_crash_costs_a_moment() {
    let folder = Folder::new();
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    poll(&server.reader(), "a");
    let other = folder.read_only().start();
    eventually("another process knows", || state(&other.reader(), "a") == "converged");
    server.process.kill();
    other.process.kill();
    let server = folder.crud().start();
    eventually("it knows what was written", || {
        state(&server.reader(), "a") == "converged"
    });
}

#[test]
fn four_replicas_agree() {
    let postgres = Postgres::shared();
    let url = postgres.database();
    let folder = Folder::new();
    let crud = || folder.crud().env("DATABASE_URL", &url);
    let replicas = [
        crud().start(),
        crud().start(),
        folder.read_only().env("DATABASE_URL", &url).start(),
        folder.read_only().env("DATABASE_URL", &url).start(),
    ];
    for n in 0..20 {
        replicas[n % 2]
            .writer()
            .post("/clusters", &cluster(&format!("c{n}")))
            .expect(201);
    }
    eventually("all have the clusters", || {
        replicas
            .iter()
            .all(|replica| states(replica)["rows"].as_array().unwrap().len() == 20)
    });
    // Each cluster polls any replica, and its events go to any other.
    for n in 0..20 {
        let id = format!("c{n}");
        poll(&replicas[n % 4].reader(), &id);
        if n % 5 == 0 {
            tell(&replicas[(n + 1) % 2], &id, &failure("x"));
        }
    }
    let expected = json!({"failing": 4, "silent": 0, "never": 0, "behind": 0, "told": 0, "converged": 16});
    eventually("all know the same", || {
        let all: Vec<_> = replicas.iter().map(states).collect();
        all.iter().all(|one| *one == all[0] && one["counts"] == expected)
    });
    let [first, ..] = replicas;
    first.stop();
    let again = crud().start();
    eventually("a new replica learns it", || states(&again)["counts"] == expected);
}

#[test]
fn a_replica_whose_role_may_only_read_keeps_evidence_to_itself_and_says_so() {
    let postgres = Postgres::shared();
    let url = postgres.database();
    let folder = Folder::new();
    let crud = folder.crud().env("DATABASE_URL", &url).start();
    crud.writer().post("/clusters", &cluster("a")).expect(201);
    eventually("the table is there", || is_shared(&crud));
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let role = format!("reader_of_{name}");
    postgres.sql(
        name,
        &format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'only-reads'; GRANT USAGE ON SCHEMA flux_resourceset TO {role};
             GRANT SELECT ON ALL TABLES IN SCHEMA flux_resourceset TO {role}"
        ),
    );
    let reader_url = postgres.url_of(&role, "only-reads", name);
    let reader = folder.read_only().env("DATABASE_URL", &reader_url).start();
    poll(&reader.reader(), "a");
    assert_eq!(state(&reader.reader(), "a"), "converged");
    reader.process.line("evidence of clusters stays in this process");
    eventually("the metric says so", || !is_shared(&reader));
    assert_eq!(state(&crud.reader(), "a"), "never");
    // It reads what others know, and shares what it knows as soon as it may.
    tell(&crud, "a", &failure("x"));
    eventually("it learns from others", || state(&reader.reader(), "a") == "failing");
    postgres.sql(
        name,
        &format!("GRANT INSERT, UPDATE, DELETE ON flux_resourceset.evidence TO {role}"),
    );
    eventually("others learn from it", || {
        let status = crud.reader().get("/clusters/a/status").expect(200).json();
        status["last_poll"] != Value::Null
    });
}

#[test]
fn a_cluster_that_cannot_wait_for_changes_is_told_when_to_try_again() {
    let folder = Folder::new();
    // A quarter of the connections may wait.
    let server = folder.crud().env("MAX_CONNECTIONS", "16").start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    let path = format!("/api/v2/flux/clusters/{}/changed", dns("a"));
    let since = server.writer().get(&path).expect(200).json()["since"].clone();
    let wait = format!("{path}?timeout=60&since={}", since.as_str().unwrap());
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let mut connection = Connection::open(server.address).unwrap();
            connection.send(server.writer().head("GET", &wait, &[])).unwrap();
            connection
        })
        .collect();
    // One is refused, whichever comes last: then the others wait.
    eventually("one is refused", || {
        let metrics = server.reader().get("/metrics").expect(200);
        let mut lines = metrics.text().lines();
        lines.any(|line| line.contains("/changed\"") && line.contains("status=\"429\"} 1"))
    });
    // Who does not have to wait is answered, and so are those who wait when there is something to tell.
    server.writer().get(&path).expect(200);
    let namespace = json!({"id": "apps", "labels": {}, "annotations": {}});
    server.writer().post("/namespaces", &namespace).expect(201);
    let mine = json!({"namespaces": [{"id": "apps"}]}).to_string();
    let patched = server.writer().send("PATCH", "/clusters/a", &[], mine.as_bytes());
    patched.expect(200);
    let mut refused = 0;
    for mut connection in waiting {
        let reply = connection.reply().unwrap();
        if reply.status == 429 {
            assert_eq!(reply.header("retry-after"), Some("60"));
            refused += 1;
        } else {
            assert_ne!(reply.expect(200).json()["since"], since);
        }
    }
    assert_eq!(refused, 1);
}
