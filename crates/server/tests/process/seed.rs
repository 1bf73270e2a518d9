//! What a store is filled with, when, and how often.

use std::thread;

use serde_json::{Value, json};

use testkit::{Folder, Server, cluster, poll};

fn fleet() -> Value {
    json!({
        "clusters": [cluster("a"), cluster("b")],
        "namespaces": [{"id": "apps"}],
    })
}

/// Every array of a seed, in any order: the profile names a label that comes with the clusters.
#[test]
fn a_seed_may_have_profiles() {
    let folder = Folder::new();
    let mut gold = cluster("gold");
    gold["labels"] = json!({"tier": "gold"});
    let mut seed = fleet();
    seed["profiles"] = json!([{"id": "rest", "selector": "tier!=gold", "namespaces": [{"id": "apps"}]}]);
    seed["clusters"].as_array_mut().unwrap().push(gold);
    let server = folder.crud().env("SEED_FILE", folder.seed(&seed)).start();
    let inputs = |id: &str| {
        let reply = server.reader().get(&poll(id)).expect(200).json();
        reply["inputs"].as_array().unwrap().len()
    };
    assert_eq!((inputs("a"), inputs("gold")), (1, 0));
    assert_eq!(server.writer().ids("profiles"), ["rest"]);
}

#[test]
fn the_default_seed_is_loaded_if_it_is_there() {
    let folder = Folder::new();
    folder.write("data/seed.json", fleet().to_string());
    let server = folder.crud().without("DATABASE_URL").start();
    assert_eq!(server.writer().ids("clusters"), ["a", "b"]);
    assert!(folder.path("data/flux-resourceset.db").is_file());
    server.stop();
}

#[test]
fn without_the_default_seed_the_fleet_is_empty_and_the_log_says_so() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let warning = server.process.line("SEED_FILE");
    assert!(warning.contains("WARN"), "{warning}");
    assert!(
        warning.contains("data/seed.json does not exist: starting with an empty fleet"),
        "{warning}"
    );
    assert!(server.writer().ids("clusters").is_empty());
    // The book's own kinds are there all the same.
    server.writer().post("/namespaces", &json!({"id": "apps"})).expect(201);
}

#[test]
fn memory_never_writes_the_seed_file() {
    let folder = Folder::new();
    let seed = folder.seed(&fleet());
    let before = (
        std::fs::read(&seed).unwrap(),
        seed.metadata().unwrap().modified().unwrap(),
    );
    let start = || {
        folder
            .crud()
            .env("STORE_BACKEND", "memory")
            .env("SEED_FILE", &seed)
            .start()
    };
    let server = start();
    server.writer().delete("/clusters/a").expect(204);
    server.writer().post("/clusters", &cluster("c")).expect(201);
    assert_eq!(server.writer().ids("clusters"), ["b", "c"]);
    server.stop();
    assert_eq!(
        (
            std::fs::read(&seed).unwrap(),
            seed.metadata().unwrap().modified().unwrap()
        ),
        before
    );
    assert!(!folder.database().exists());
    // Hence a restart begins anew.
    assert_eq!(start().writer().ids("clusters"), ["a", "b"]);
}

#[test]
fn read_only_processes_seed_too() {
    let folder = Folder::new();
    let server = folder.read_only().env("SEED_FILE", folder.seed(&fleet())).start();
    assert_eq!(
        server.reader().get(&poll("a")).expect(200).json(),
        json!({"inputs": []})
    );
    server.reader().get(&poll("c")).expect(404);
    server.reader().get("/clusters").expect(404);
    // The folder of the database, too, is made by whoever comes first.
    let url = format!("sqlite://{}", folder.path("some/where/fleet.db").display());
    let server = folder.read_only().env("DATABASE_URL", url).start();
    server.reader().get(&poll("a")).expect(404);
}

#[test]
fn processes_that_start_together_seed_once() {
    for round in 0..3 {
        let folder = Folder::new();
        let seed = folder.seed(&fleet());
        let start = |crud: bool| {
            let setup = if crud { folder.crud() } else { folder.read_only() };
            setup.env("SEED_FILE", &seed).start()
        };
        let servers: Vec<Server> = thread::scope(|scope| {
            let modes = [true, false, round == 0, false];
            let starting: Vec<_> = modes.map(|crud| scope.spawn(move || start(crud))).into();
            starting.into_iter().map(|starting| starting.join().unwrap()).collect()
        });
        for server in &servers {
            assert_eq!(server.anonymous().get("/ready").expect(200).revision(), Some(1));
            server.reader().get(&poll("a")).expect(200);
        }
        let changes = servers[0].writer().changes_without_gaps();
        let of = |kind: &str| changes.iter().filter(|change| change["kind"] == kind).count();
        assert_eq!((of("clusters"), of("namespaces"), of("kinds")), (2, 1, 4));
        assert!(
            changes
                .iter()
                .all(|change| change["revision"] == 1 && change["actor"] == "system")
        );
        let filled = |server: &Server| {
            server
                .process
                .log()
                .iter()
                .any(|line| line.contains("filled the empty store"))
        };
        assert_eq!(servers.iter().filter(|server| filled(server)).count(), 1);
    }
}

#[test]
fn what_was_deleted_stays_deleted_after_a_restart() {
    let folder = Folder::new();
    let seed = folder.seed(&fleet());
    let start = || folder.crud().env("SEED_FILE", &seed).start();
    let server = start();
    for path in ["/clusters/a", "/clusters/b", "/namespaces/apps"] {
        server.writer().delete(path).expect(204);
    }
    let changes = server.writer().changes_without_gaps();
    server.stop();

    let server = start();
    for kind in ["clusters", "namespaces"] {
        assert!(server.writer().ids(kind).is_empty());
    }
    assert_eq!(server.writer().changes(), changes, "a restart writes nothing");
    // Both names are known as given up: Flux removes what it made there.
    for id in ["a", "b"] {
        assert_eq!(server.reader().get(&poll(id)).expect(200).json(), json!({"inputs": []}));
    }
    server.reader().get(&poll("never")).expect(404);
    server.process.kill();
    // Also to a process that only reads, and after a crash.
    let reader = folder.read_only().env("SEED_FILE", &seed).start();
    assert_eq!(
        reader.reader().get(&poll("a")).expect(200).json(),
        json!({"inputs": []})
    );
}

#[test]
fn a_seed_is_not_needed_any_more_once_it_is_loaded() {
    let folder = Folder::new();
    let seed = folder.seed(&fleet());
    folder.crud().env("SEED_FILE", &seed).start().stop();
    std::fs::remove_file(&seed).unwrap();
    let server = folder.read_only().env("SEED_FILE", &seed).start();
    server.reader().get(&poll("a")).expect(200);
}

#[test]
fn a_process_that_only_reads_writes_nothing_to_a_store_in_use() {
    let folder = Folder::new();
    let server = folder.crud().env("SEED_FILE", folder.seed(&fleet())).start();
    let changes = server.writer().changes();
    server.stop();
    let kind = "kind: quota\napiVersion: v1\nschema: {type: object, properties: {cpu: {type: string}}}\n";
    folder.write("resources/quota.yaml", kind);
    let reader = folder.read_only().env("RESOURCES_DIR", "resources").start();
    reader.reader().get(&poll("a")).expect(200);
    reader
        .reader()
        .get("/api/v2/flux/clusters/a.k8s.example.com/quotas")
        .expect(404);
    reader.stop();
    assert_eq!(folder.crud().start().writer().changes(), changes);
}

#[test]
fn references_that_dangle_in_a_seed_are_skipped_and_said() {
    let folder = Folder::new();
    let mut one = cluster("a");
    one["namespaces"] = json!([{"id": "apps"}, {"id": "gone"}]);
    let seed = json!({"clusters": [one], "namespaces": [{"id": "apps"}]});
    let server = folder.crud().env("SEED_FILE", folder.seed(&seed)).start();
    let warning = server
        .process
        .line("references to a definition that does not exist are skipped");
    assert!(
        warning.contains("WARN") && warning.contains("id=\"gone\"") && warning.contains("clusters=1"),
        "{warning}"
    );
    let inputs = server.reader().get(&poll("a")).expect(200).json();
    assert_eq!(inputs["inputs"].as_array().unwrap().len(), 1, "{inputs}");
}

#[test]
fn kinds_of_a_folder_are_served_and_what_was_put_later_survives_a_restart() {
    let folder = Folder::new();
    let kind = "kind: quota\napiVersion: v1\nschema: {type: object, properties: {cpu: {type: string}}}\n";
    folder.write("resources/quota.yaml", kind);
    folder.write("resources/README.md", "not a kind\n");
    let start = || folder.crud().env("RESOURCES_DIR", "resources").start();
    let server = start();
    server
        .writer()
        .post("/quotas", &json!({"id": "small", "cpu": "1"}))
        .expect(201);
    let mut cluster = cluster("a");
    cluster["quotas"] = json!([{"id": "small"}]);
    server.writer().post("/clusters", &cluster).expect(201);
    let path = "/api/v2/flux/clusters/a.k8s.example.com/quotas";
    assert_eq!(server.reader().get(path).expect(200).json()["inputs"][0]["cpu"], "1");
    let wider = kind.replace("cpu: {type: string}", "cpu: {type: string}, memory: {type: string}");
    let yaml = [("content-type", "application/yaml")];
    server
        .writer()
        .send("PUT", "/kinds/quotas", &yaml, wider.as_bytes())
        .expect(200);
    server.stop();

    // The file is as it was when it was applied: what came after stays.
    let server = start();
    server
        .writer()
        .post("/quotas", &json!({"id": "large", "cpu": "9", "memory": "64Gi"}))
        .expect(201);
    server.stop();

    // A file that changed is applied, unless it does not hold for what is stored.
    folder.write("resources/quota.yaml", kind.replace("string", "integer"));
    let server = start();
    server
        .process
        .line("kind files are refused: the previous kinds stay in use");
    assert_eq!(server.reader().get(path).expect(200).json()["inputs"][0]["cpu"], "1");
    server.stop();
    let widest = wider.replace("memory", "storage: {type: string}, memory");
    folder.write("resources/quota.yaml", &widest);
    let server = start();
    server.process.line("applied kind files");
    server
        .writer()
        .post("/quotas", &json!({"id": "huge", "storage": "1Ti"}))
        .expect(201);
    server.stop();

    // One that gives up a path that clusters poll is held against the budget, and within it the log says so.
    let moved = widest.replace("schema: {", "schema: {x-flux: {path: limits}, ");
    folder.write("resources/quota.yaml", &moved);
    let server = folder
        .crud()
        .env("RESOURCES_DIR", "resources")
        .env("REMOVAL_BUDGET", "0")
        .start();
    server.process.line("a start cannot confirm removals");
    server.reader().get(path).expect(200);
    server.stop();
    let server = start();
    server.process.line("or a path that clusters poll");
    server.reader().get(path).expect(404);
}

#[test]
fn a_seed_that_is_gone_and_not_needed_is_said() {
    let folder = Folder::new();
    folder.crud().env("SEED_FILE", folder.seed(&fleet())).start().stop();
    let server = folder.crud().env("SEED_FILE", folder.path("gone.json")).start();
    server
        .process
        .line("gone.json does not exist; it is not needed, because the store already holds a fleet");
    server.reader().get("/clusters").expect(200);
}

/// A fleet whose clusters refer to as much as real ones do.
fn large_fleet(clusters: usize) -> Value {
    let namespaces: Vec<_> = (0..40).map(|n| json!({"id": format!("team-{n:02}")})).collect();
    let clusters = (0..clusters).map(|n| {
        let mut one = cluster(&format!("cluster-{n:05}"));
        one["namespaces"] = namespaces.clone().into();
        let values = |n: usize| json!({"replicas": n.to_string(), "host": format!("app-{n}.example.com")});
        one["patches"] = (0..5)
            .map(|n| (format!("component-{n}"), values(n)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        one
    });
    json!({"clusters": clusters.collect::<Vec<_>>(), "namespaces": namespaces})
}

#[test]
fn a_large_seed_leaves_no_more_memory_in_use_than_a_restart_does() {
    const CONSTANT: u64 = 16 << 20;
    let folder = Folder::new();
    let seed = folder.seed(&large_fleet(3000));
    let start = || {
        let server = folder.crud().env("SEED_FILE", &seed).start();
        server.reader().get(&poll("cluster-02999")).expect(200);
        server
    };
    let server = start();
    let (seeded, peak) = (server.process.memory("VmRSS"), server.process.memory("VmHWM"));
    let changes = server
        .reader()
        .get("/changes?kind=clusters&limit=1&after=0")
        .expect(200)
        .json();
    assert_eq!(
        (&changes[0]["revision"], &changes[0]["id"]),
        (&json!(1), &json!("cluster-00000"))
    );
    server.stop();
    let restarted = start().process.memory("VmRSS");
    println!("seeded: {seeded} (peak {peak}), restarted: {restarted} bytes");
    assert!(
        seeded < 2 * restarted + CONSTANT,
        "{seeded} after the seed, {restarted} after a restart"
    );
    assert!(
        peak < 4 * restarted + CONSTANT,
        "{peak} at most, {restarted} after a restart"
    );
}
