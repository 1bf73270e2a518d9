//! The alert rules and the dashboard that we ship, with a real Prometheus that scrapes real servers as the shipped ServiceMonitor tells
//! the Prometheus Operator to. `make alerts` installs Prometheus.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod dashboard;
mod prometheus;
mod rules;
mod service_monitor;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Folder, Server, address_in, cluster, poll};

/// The job in the rules.
const JOB: &str = "flux-resourceset";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(path: &str) -> Vec<Value> {
    let text = read(path);
    text.split("\n---\n")
        .map(|text| fleet::yaml::parse(text).unwrap())
        .collect()
}

/// A server on the folder's database, and the address of its metrics.
fn start(folder: &Folder, mode: &str) -> (Server, SocketAddr) {
    let setup = folder.setup().env("API_MODE", mode);
    let server = setup.env("METRICS_ADDR", "127.0.0.1:0").start();
    let metrics = address_in(&server.process.line(": metrics"));
    (server, metrics)
}

/// One request of every kind that has a metric of its own: a poll, a write, a refused write, a bad token, a rollout.
fn use_it(crud: &Server, read: &Server, n: usize) {
    let id = format!("c-{n}");
    if n == 0 {
        crud.writer()
            .post("/namespaces", &json!({"id": "under-rollout"}))
            .expect(201);
        let change =
            json!({"op": "merge", "kind": "namespaces", "id": "under-rollout", "value": {"labels": {"a": "b"}}});
        let rollout = json!({"id": "r", "operations": [change], "waves": [{"name": "rest", "approve": true}]});
        crud.writer().post("/rollouts", &rollout).expect(201);
    }
    crud.writer().post("/clusters", &cluster(&id)).expect(201);
    crud.writer().post("/clusters", &cluster(&id)).expect(409);
    for server in [crud, read] {
        server.reader().get(&poll("unknown")).expect(404);
        server.with("a wrong token").get(&poll("unknown")).expect(401);
    }
    crud.reader().get(&poll(&id)).expect(200);
}
