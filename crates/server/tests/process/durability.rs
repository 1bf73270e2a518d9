//! What was acknowledged is there after a crash.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;

use testkit::{Folder, PATIENCE, Server, cluster, eventually, poll};

/// What the writers of all rounds did.
#[derive(Default)]
struct Written {
    /// Whatever was sent; of what was not acknowledged, nobody knows.
    sent: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
}

/// Lets writers work until `enough` of their writes were acknowledged, then kills the process in the midst of the others.
fn write_until_killed(server: Server, round: usize, enough: usize, written: &Mutex<Written>) {
    const WRITERS: usize = 4;
    let (acknowledged, count) = channel();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (client, acknowledged) = (server.writer(), acknowledged.clone());
            scope.spawn(move || {
                for n in 0.. {
                    let id = format!("r{round}-w{writer}-{n}");
                    written.lock().unwrap().sent.insert(id.clone());
                    let body = json!({"id": id, "labels": {"round": round.to_string()}}).to_string();
                    match client.try_send("POST", "/namespaces", &[], body.as_bytes()) {
                        Ok(reply) => {
                            reply.expect(201);
                            written.lock().unwrap().acknowledged.insert(id);
                            let _killed_already = acknowledged.send(());
                        }
                        // Killed.
                        Err(_) => return,
                    }
                }
            });
        }
        for _ in 0..enough {
            count.recv_timeout(PATIENCE).unwrap();
        }
        server.process.kill();
    });
}

fn check(server: &Server, written: &Mutex<Written>) {
    let there: BTreeSet<_> = server.writer().ids("namespaces").into_iter().collect();
    let written = written.lock().unwrap();
    let lost: Vec<_> = written.acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(there.is_subset(&written.sent));
    let changes = server.writer().changes_without_gaps();
    let logged = changes.iter().filter(|change| change["kind"] == "namespaces");
    let logged: BTreeSet<_> = logged.map(|change| change["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(logged, there, "the log and the state agree");
}

#[test]
fn no_acknowledged_write_is_lost_when_the_process_is_killed_under_writes() {
    const ROUNDS: usize = 15;
    let folder = Folder::new();
    let written = Mutex::default();
    for round in 0..ROUNDS {
        let server = folder.crud().start();
        check(&server, &written);
        write_until_killed(server, round, 3 + round * 11 % 40, &written);
    }
    let server = folder.crud().start();
    check(&server, &written);
    {
        let written = written.lock().unwrap();
        let there = server.writer().ids("namespaces").len();
        println!(
            "killed {ROUNDS} times: {} writes acknowledged and none lost, {} of {} others kept",
            written.acknowledged.len(),
            there - written.acknowledged.len(),
            written.sent.len() - written.acknowledged.len()
        );
    }
    // It can also still be written to, and closed.
    server
        .writer()
        .post("/namespaces", &json!({"id": "at-last"}))
        .expect(201);
    server.stop();
}

#[test]
fn one_of_two_processes_is_killed_under_writes_and_the_other_goes_on() {
    let folder = Folder::new();
    let other = folder.crud().start();
    let written = Mutex::default();
    for round in 0..5 {
        let server = folder.crud().start();
        let client = other.writer();
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for n in 0..20 {
                    client.post("/clusters", &cluster(&format!("r{round}-{n}"))).expect(201);
                }
            });
            write_until_killed(server, round, 10, &written);
            writing.join().unwrap();
        });
        // It follows by itself what the other one left behind.
        let last = other.writer().changes().last().unwrap()["revision"].as_u64();
        eventually("everything is followed", || {
            other.anonymous().get("/ready").revision() == last
        });
        check(&other, &written);
    }
    assert_eq!(other.writer().ids("clusters").len(), 100);
}

#[test]
fn a_process_killed_while_it_starts_leaves_a_store_that_the_next_one_fills_once() {
    for milliseconds in [0, 2, 5, 10, 15, 20, 30, 45] {
        let folder = Folder::new();
        let seed = folder.seed(&json!({"clusters": [cluster("a")]}));
        let dying = folder.crud().env("SEED_FILE", &seed).spawn();
        // No condition to wait for: anywhere is the right place.
        thread::sleep(Duration::from_millis(milliseconds));
        dying.kill();
        let server = folder.crud().env("SEED_FILE", &seed).start();
        server.reader().get(&poll("a")).expect(200);
        let changes = server.writer().changes_without_gaps();
        assert!(changes.iter().all(|change| change["revision"] == 1));
        assert_eq!(changes.iter().filter(|change| change["kind"] == "clusters").count(), 1);
    }
}
