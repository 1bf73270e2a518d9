//! Rollouts on real processes: the driver is killed at any moment, and another one goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Folder, Server, cluster, eventually, poll};

const WAVES: [&str; 5] = ["one", "two", "three", "four", "rest"];

fn rollout() -> Value {
    let mut waves: Vec<Value> = WAVES[..4]
        .iter()
        .map(|name| json!({"name": name, "percent": 20}))
        .collect();
    waves.push(json!({"name": "rest"}));
    json!({
        "id": "r", "waves": waves, "gate": {"told": "100%"},
        "operations": [{"op": "merge", "kind": "namespaces", "id": "n", "value": {"labels": {"version": "two"}}}],
    })
}

fn ids() -> impl Iterator<Item = String> {
    (0..10).map(|n| format!("c{n}"))
}

/// All clusters poll, as Flux does. A server that is just killed answers nobody.
fn poll_all(server: &Server) {
    for id in ids() {
        let client = server.reader();
        for path in ["namespaces", "platform-components", "rolebindings"] {
            let path = poll(&id).replace("namespaces", path);
            let _killed = client.try_send("GET", &path, &[("user-agent", "flux-operator/v0.58.1")], b"");
        }
    }
}

#[test]
fn a_rollout_goes_on_when_its_driver_is_killed_and_every_wave_is_promoted_once() {
    let folder = Folder::new();
    let clusters: Vec<Value> = ids()
        .map(|id| {
            let mut cluster = cluster(&id);
            cluster["namespaces"] = json!([{"id": "n"}]);
            cluster
        })
        .collect();
    let seed = folder.seed(&json!({"namespaces": [{"id": "n", "labels": {"version": "one"}}], "clusters": clusters}));
    let staying = folder.crud().env("SEED_FILE", &seed).start();
    staying.writer().post("/rollouts", &rollout()).expect(201);
    let is_complete = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_complete.load(Ordering::Relaxed) {
                poll_all(&staying);
            }
        });
        // Another process that drives, too, and dies again and again.
        scope.spawn(|| {
            for round in 0.. {
                if is_complete.load(Ordering::Relaxed) {
                    break;
                }
                let dying = folder.crud().start();
                poll_all(&dying);
                // No condition to wait for: anywhere is the right place.
                thread::sleep(Duration::from_millis(round * 131 % 700));
                dying.process.kill();
            }
        });
        eventually("the rollout completes", || {
            let is = staying.reader().get("/rollouts/r").expect(200).json()["state"] == "completed";
            is_complete.store(is, Ordering::Relaxed);
            is
        });
    });
    let changes = staying.writer().changes();
    let steps = changes.iter().filter(|change| change["kind"] == "rollouts");
    let mut promotions: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps.filter(|step| step["before"]["wave"] != step["after"]["wave"]) {
        *promotions
            .entry(step["after"]["wave"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    let expected = WAVES.iter().map(|wave| ((*wave).to_owned(), 1)).collect();
    assert_eq!(promotions, expected);
    let written = changes
        .iter()
        .filter(|change| change["kind"] == "namespaces" && change["revision"] != 1);
    assert_eq!(written.count(), 1, "the document is written once, at the end");
    for id in ids() {
        let reply = staying.reader().get(&poll(&id)).expect(200);
        assert!(reply.text().contains(r#""version":"two""#), "{id}: {}", reply.text());
    }
}
