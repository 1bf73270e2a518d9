//! A damaged store, and one that is not the one that was here.

use std::fs;

use serde_json::json;

use testkit::{Folder, Server, cluster, eventually, poll};

use crate::shell::shell;

/// Two clusters, of which one refers to a namespace.
fn fleet(folder: &Folder) -> Server {
    let mut referring = cluster("referring");
    referring["namespaces"] = json!([{"id": "web"}]);
    let seed = json!({"namespaces": [{"id": "web"}], "clusters": [cluster("plain"), referring]});
    folder.crud().env("SEED_FILE", folder.seed(&seed)).start()
}

/// Waits until the marker says that the store is where the server is.
fn noted(folder: &Folder, server: &Server) {
    let revision = server.reader().get("/ready").header("x-revision").unwrap().to_owned();
    let wanted = format!(" {revision}:");
    eventually("the marker follows", || {
        fs::read_to_string(folder.path("fleet.db.head")).is_ok_and(|text| text.contains(&wanted))
    });
}

fn remove_logs(folder: &Folder) {
    for name in ["fleet.db-wal", "fleet.db-shm"] {
        let _none = fs::remove_file(folder.path(name));
    }
}

#[test]
fn polls_that_depend_on_a_damaged_row_are_503_until_it_is_repaired() {
    let folder = Folder::new();
    fleet(&folder).stop();
    shell(&folder.database(), "UPDATE resources SET id = 'wec' WHERE id = 'web'").close();
    let server = folder.crud().start();
    server
        .process
        .line("damaged: namespaces/web: its row is damaged or missing");
    server.process.line("run flux-resourceset repair");
    let refused = server.reader().get(&poll("referring")).expect(503).json();
    assert_eq!(refused["type"], "/problems/unavailable");
    server.reader().get(&poll("plain")).expect(200);
    server.reader().get(&poll("unknown")).expect(404);
    server.reader().get("/namespaces").expect(503);
    server.reader().get("/clusters/plain").expect(200);
    server.reader().get("/api/v2/flux/clusters").expect(200);
    server.writer().post("/clusters", &cluster("new")).expect(503);
    let ready = server.reader().get("/ready").expect(200).json();
    assert_eq!(ready["status"], "damaged");
    assert!(
        server
            .reader()
            .get("/metrics")
            .expect(200)
            .text()
            .contains("flux_resourceset_damaged_rows 2")
    );

    let planned = folder.crud().args(&["repair"]).run();
    assert_eq!(planned.status.code(), Some(0), "{}", planned.stderr);
    assert!(planned.stdout.contains("rewrite: namespaces/web"), "{}", planned.stdout);
    assert!(
        planned
            .stdout
            .ends_with("nothing was changed; use --apply to do this\n"),
        "{}",
        planned.stdout
    );
    assert_eq!(folder.crud().args(&["verify"]).run().status.code(), Some(1));
    let repaired = folder.crud().args(&["repair", "--apply"]).run();
    assert_eq!(repaired.status.code(), Some(0), "{}", repaired.stderr);
    assert!(repaired.stdout.contains("verified 1:"), "{}", repaired.stdout);
    eventually("the server sees that it was repaired", || {
        server.reader().get(&poll("referring")).status == 200
    });
    server.writer().post("/clusters", &cluster("new")).expect(201);
}

#[test]
fn a_damaged_cluster_makes_unknown_names_503() {
    let folder = Folder::new();
    fleet(&folder).stop();
    let sql = "UPDATE resources SET body = replace(body, 'namespaces', 'namespacez') WHERE id = 'referring'";
    shell(&folder.database(), sql).close();
    let server = folder.read_only().start();
    server.reader().get(&poll("referring")).expect(503);
    server.reader().get(&poll("unknown")).expect(503);
    server.reader().get("/api/v2/flux/clusters").expect(503);
    server.reader().get(&poll("plain")).expect(200);
}

#[test]
fn an_emptied_file_is_neither_seeded_nor_served() {
    let folder = Folder::new();
    let server = fleet(&folder);
    server.writer().post("/clusters", &cluster("later")).expect(201);
    server.stop();
    fs::write(folder.database(), "").unwrap();
    remove_logs(&folder);
    for args in [&[][..], &["import", "seed.json"]] {
        let error = folder.crud().args(args).run_for_its_error();
        assert!(error.contains("is empty, but it was at revision 2"), "{error}");
        assert!(error.contains("--accept-new-store"), "{error}");
    }
    let server = folder.crud().args(&["--accept-new-store"]).start();
    server.writer().post("/clusters", &cluster("anew")).expect(201);
    server.stop();
    folder.crud().start().reader().get(&poll("anew")).expect(200);
}

#[test]
fn a_deleted_write_ahead_log_is_noticed() {
    let folder = Folder::new();
    fleet(&folder).stop();
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("later")).expect(201);
    noted(&folder, &server);
    server.process.kill();
    remove_logs(&folder);
    let error = folder.crud().run_for_its_error();
    assert!(error.contains("is at revision 1, but it was at 2"), "{error}");
    let server = folder.crud().env("ACCEPT_NEW_STORE", "true").start();
    server.reader().get(&poll("later")).expect(404);
}

#[test]
fn an_older_copy_is_noticed_and_a_restored_backup_is_not() {
    let folder = Folder::new();
    fleet(&folder).stop();
    let older = fs::read(folder.database()).unwrap();
    let backup = folder.crud().args(&["backup", "fleet.jsonl"]).run();
    assert_eq!(backup.status.code(), Some(0), "{}", backup.stderr);
    let server = folder.crud().start();
    server.writer().post("/clusters", &cluster("later")).expect(201);
    server.stop();
    fs::write(folder.database(), &older).unwrap();
    let error = folder.crud().run_for_its_error();
    assert!(error.contains("is at revision 1, but it was at 2"), "{error}");
    // What only reads goes on, and says so.
    let verified = folder.crud().args(&["verify"]).run();
    assert_eq!(verified.status.code(), Some(0), "{}", verified.stderr);
    assert!(verified.stderr.contains("but it was at 2"), "{}", verified.stderr);

    let restored = folder.crud().args(&["restore", "--replace", "fleet.jsonl"]).run();
    assert_eq!(restored.status.code(), Some(0), "{}", restored.stderr);
    folder.crud().start().reader().get(&poll("plain")).expect(200);
}

#[test]
fn another_history_is_noticed() {
    let (folder, other) = (Folder::new(), Folder::new());
    let server = fleet(&folder);
    server.writer().post("/clusters", &cluster("ours")).expect(201);
    server.stop();
    let server = fleet(&other);
    server.writer().post("/clusters", &cluster("theirs")).expect(201);
    server.writer().post("/clusters", &cluster("more")).expect(201);
    server.stop();
    fs::copy(other.database(), folder.database()).unwrap();
    let error = folder.crud().run_for_its_error();
    assert!(error.contains("has another history"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_no_empty_fleet() {
    let folder = Folder::new();
    fleet(&folder).stop();
    let mut bytes = fs::read(folder.database()).unwrap();
    let pages = bytes.len() / 4096;
    for page in 1..pages {
        bytes[page * 4096..][..8].fill(0xff);
    }
    fs::write(folder.database(), bytes).unwrap();
    let error = folder.crud().run_for_its_error();
    assert!(error.contains("is damaged"), "{error}");
}
