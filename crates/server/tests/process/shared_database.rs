//! Several processes on one SQLite file.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use testkit::client::Connection;
use testkit::{Folder, Server, cluster, poll};

/// Asks over one connection until the cluster is known, and says how long that took.
fn until_known(server: &Server, id: &str) -> Duration {
    let started = Instant::now();
    let head = server.reader().head("GET", &poll(id), &[]);
    let mut connection = Connection::open(server.address).unwrap();
    loop {
        connection.send(&head).unwrap();
        match connection.reply().unwrap().status {
            200 => return started.elapsed(),
            404 => assert!(started.elapsed() < Duration::from_secs(10), "{id} is not seen"),
            status => panic!("{status}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_write_is_visible_to_the_other_processes_within_moments() {
    const WRITES: usize = 30;
    let folder = Folder::new();
    let (a, b, c) = (folder.crud().start(), folder.read_only().start(), folder.crud().start());
    let mut delays = Vec::new();
    for n in 0..WRITES {
        let id = format!("c-{n}");
        // In turn, since each of the crud processes follows the other.
        let (writer, other) = if n % 2 == 0 { (&a, &c) } else { (&c, &a) };
        writer.writer().post("/clusters", &cluster(&id)).expect(201);
        // The process that wrote it has it when it answers.
        writer.reader().get(&poll(&id)).expect(200);
        thread::scope(|scope| {
            let seen = [&b, other].map(|server| scope.spawn(|| until_known(server, &id)));
            delays.extend(seen.map(|seen| seen.join().unwrap()));
        });
    }
    delays.sort();
    let (median, last) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    println!(
        "visible in another process after {median:?} (median), {last:?} (the longest of {})",
        delays.len()
    );
    assert!(last < Duration::from_secs(1), "{last:?}");
    for server in [&a, &c] {
        assert_eq!(server.writer().ids("clusters").len(), WRITES);
    }
}

#[test]
fn two_crud_processes_with_eight_writers_lose_nothing_and_leave_no_gap() {
    const EACH: usize = 25;
    let folder = Folder::new();
    let servers = [folder.crud().start(), folder.crud().start()];
    let reader = folder.read_only().start();
    thread::scope(|scope| {
        for writer in 0..8 {
            let client = servers[writer % 2].writer();
            scope.spawn(move || {
                for n in 0..EACH {
                    let id = format!("w{writer}-{n}");
                    client.post("/clusters", &cluster(&id)).expect(201);
                    // A second write of the same resource, on what the first one left, through the other's changes.
                    let label = json!({"labels": {"writer": format!("w{writer}")}});
                    let path = format!("/clusters/{id}");
                    client
                        .send("PATCH", &path, &[], label.to_string().as_bytes())
                        .expect(200);
                }
            });
        }
    });
    let changes = servers.each_ref().map(|server| server.writer().changes_without_gaps());
    assert_eq!(changes[0], changes[1]);
    let writes = changes[0].iter().filter(|change| change["actor"] == "write");
    assert_eq!(writes.count(), 2 * 8 * EACH);
    for server in &servers {
        // What a process reads of its own snapshot, it may have to wait for, as long as the other one wrote last.
        let last = changes[0].last().unwrap()["id"].as_str().unwrap();
        until_known(server, last);
        let list = server.writer().get("/clusters?selector=writer").expect(200).json();
        assert_eq!(list.as_array().unwrap().len(), 8 * EACH);
    }
    let mut bodies = servers
        .iter()
        .map(|server| server.reader().get("/clusters").expect(200).body);
    assert_eq!(bodies.next(), bodies.next(), "the same state gives the same bytes");
    until_known(&reader, changes[0].last().unwrap()["id"].as_str().unwrap());
}

#[test]
fn a_dns_name_is_taken_by_one_of_two_processes_only() {
    let folder = Folder::new();
    let servers = [folder.crud().start(), folder.crud().start()];
    for round in 0..10 {
        let statuses = thread::scope(|scope| {
            let write = |n: usize| {
                let client = servers[n].writer();
                scope.spawn(move || {
                    let mut one = cluster(&format!("r{round}-{n}"));
                    one["cluster_dns"] = format!("r{round}.example.com").into();
                    client.post("/clusters", &one).status
                })
            };
            let mut statuses = [write(0), write(1)].map(|write| write.join().unwrap());
            statuses.sort_unstable();
            statuses
        });
        assert_eq!(statuses, [201, 409]);
    }
    servers[0].writer().changes_without_gaps();
}

#[test]
fn a_kind_that_one_process_adds_is_served_by_the_others() {
    let folder = Folder::new();
    let (writer, reader) = (folder.crud().start(), folder.read_only().start());
    let kind = json!({"kind": "quota", "apiVersion": "v1", "schema": {"type": "object", "properties": {"cpu": {"type": "string"}}}});
    writer
        .writer()
        .send("PUT", "/kinds/quotas", &[], kind.to_string().as_bytes())
        .expect(201);
    writer
        .writer()
        .post("/quotas", &json!({"id": "small", "cpu": "1"}))
        .expect(201);
    let mut one = cluster("a");
    one["quotas"] = json!([{"id": "small"}]);
    writer.writer().post("/clusters", &one).expect(201);
    until_known(&reader, "a");
    let path = "/api/v2/flux/clusters/a.k8s.example.com/quotas";
    let here = writer.reader().get(path).expect(200);
    let there = reader.reader().get(path).expect(200);
    assert_eq!(here.json()["inputs"][0]["cpu"], "1");
    assert_eq!((&here.body, here.header("etag")), (&there.body, there.header("etag")));
}

#[test]
fn a_read_only_process_outlives_the_one_that_writes() {
    let folder = Folder::new();
    let (writer, reader) = (folder.crud().start(), folder.read_only().start());
    writer.writer().post("/clusters", &cluster("a")).expect(201);
    until_known(&reader, "a");
    writer.process.kill();
    reader.reader().get(&poll("a")).expect(200);
    // And follows the next one.
    let writer = folder.crud().start();
    writer.writer().post("/clusters", &cluster("b")).expect(201);
    until_known(&reader, "b");
    writer.stop();
    reader.reader().get(&poll("b")).expect(200);
    let started_late = folder.read_only().start();
    started_late.reader().get(&poll("a")).expect(200);
}
