//! Reads of operators and tools: dry runs, diffs, history, lists.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::generate::Rng;
use serde_json::json;
use tokio::time::sleep;

use super::WITHOUT_A_FAULT;
use crate::client::Request;
use crate::run::Run;
use crate::site::{Outcome, Site};

const PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>, number: usize) {
    let mut rng = run.rng(&format!("planner {}", site.name), number);
    while !run.is_over() {
        sleep(PAUSE).await;
        let process = site.any_crud(&mut rng);
        let head = site.ledger.lock().expect("no panic while it is held").read_to;
        let (what, request) = request(&mut rng, run.clusters, head);
        let begun = Instant::now();
        match site.send(process, &request, number).await {
            Outcome::Reply(reply) if reply.status == 200 || reply.status == 410 => {
                run.tally.count("plans and reads");
                run.tally.time("plans and reads", begun.elapsed());
            }
            Outcome::Reply(reply) => {
                let problem = format!("{what} on {}: status {}: {}", process.name, reply.status, reply.text());
                run.findings.add("plans and reads are answered", problem);
            }
            Outcome::Disturbed => run.tally.count("plans and reads that met a fault"),
            // Heavy reads wait for each other, and are rejected when that takes too long.
            Outcome::Failed(_) if site.attack.touches(begun) => {
                run.tally.count("plans and reads turned away under attack");
            }
            Outcome::Failed(problem) => run
                .findings
                .add(WITHOUT_A_FAULT, format!("{what} on {}: {problem}", process.name)),
        }
    }
}

/// A read of one kind or another; its name and the request.
fn request(rng: &mut Rng, clusters: usize, head: u64) -> (&'static str, Request) {
    let cluster = format!("cluster-{:06}", rng.below(clusters));
    let get = |path: String| Request::new("GET", &path);
    match rng.below(9) {
        0 => (
            "list of clusters",
            get("/clusters?limit=50&environment=prod".to_owned()),
        ),
        1 => (
            "selection",
            get("/clusters?limit=20&selector=wave%20in%20(1,2),region!=eu-west".to_owned()),
        ),
        2 => ("history", get(format!("/clusters/{cluster}/history"))),
        3 => ("diff", get(format!("/diff?from={}&limit=20", head.saturating_sub(20)))),
        4 => ("diagnostics", get(format!("/clusters/{cluster}/diagnostics"))),
        5 => ("inputs", get(format!("/clusters/{cluster}/inputs/namespaces"))),
        6 => ("metrics", get("/metrics".to_owned())),
        7 => ("plan of a patch", plan_patch(&cluster, rng.below(1000))),
        _ => ("plan of a batch", plan_batch(rng.below(10))),
    }
}

fn plan_patch(cluster: &str, value: usize) -> Request {
    let body = json!({"patches": {"component-00": {"planned": value.to_string()}}});
    Request::new("PATCH", &format!("/clusters/{cluster}?dry_run=true")).json(&body)
}

/// The plan of a change to a whole wave.
fn plan_batch(wave: usize) -> Request {
    let operation = json!({"op": "unassign", "kind": "platform_components", "id": "component-05", "selector": format!("wave={wave}")});
    Request::new("POST", "/batch?dry_run=true&limit=10").json(&json!({"operations": [operation]}))
}
