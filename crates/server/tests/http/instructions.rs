//! How many instructions a poll takes. Times depend on the machine and on what else it does; instructions hardly do, so that a slower
//! poll fails a test.
//!
//! callgrind runs this program again, and counts in the functions whose names begin with `count_`. The program is not optimised, so
//! that nothing has to be built for it: the numbers are larger than in a release, and grow with the same changes.
//!
//! `instructions.txt` has the numbers of the last renewal. After a change that is worth its instructions, and after one that saves some:
//! `RENEW=1 cargo test --workspace --test http instructions`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, USER_AGENT};
use axum::http::{Request, StatusCode};
use flux_resourceset::http::client_address::Peer;
use flux_resourceset::http::poll;
use serde_json::json;

use crate::support::{DEMO, DEMO_DNS, PATHS, READ, TestApp};

/// How much more than at the last renewal is accepted, in percent. Hash maps have random seeds, and processors differ.
const MARGIN: u64 = 10;
/// How many clusters are polled, each path once for each count.
const CLUSTERS: usize = 20;

#[test]
fn a_poll_takes_no_more_instructions_than_it_did() {
    let counted = counted();
    if std::env::var_os("RENEW").is_some() {
        let lines: String = counted
            .iter()
            .map(|(name, count)| format!("{name} {count}\n"))
            .collect();
        std::fs::write(limits_file(), lines).unwrap();
        return;
    }
    let limits = std::fs::read_to_string(limits_file()).unwrap();
    let (mut report, mut is_slower) = (String::new(), limits.lines().count() != counted.len());
    for line in limits.lines() {
        let (name, before) = line.split_once(' ').unwrap();
        let (before, now) = (before.parse::<u64>().unwrap(), counted[name]);
        is_slower |= now * 100 > before * (100 + MARGIN);
        writeln!(report, "{name}: {now} instructions, {before} at the last renewal").unwrap();
    }
    eprint!("{report}");
    assert!(!is_slower, "a poll takes over {MARGIN} % more instructions:\n{report}");
}

fn limits_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/instructions.txt")
}

/// The instructions of a poll, by the name of what was counted.
fn counted() -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*instructions::count_*",
        ])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "instructions::polls_that_are_counted",
            "--test-threads=1",
        ])
        .output()
        .expect("valgrind is missing: run scripts/debian.sh valgrind, which installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // A call is the name of the function, how often it was called, and the line with all that happened in it.
    let calls = lines.windows(3).filter(|call| call[0].starts_with("cfn="));
    let counts = calls.filter_map(|call| {
        let (_, name) = call[0].split_once("instructions::count_")?;
        let (_, total) = call[2].split_once(' ')?;
        Some((
            name.to_owned(),
            total.parse::<u64>().ok()? / (CLUSTERS * PATHS.len()) as u64,
        ))
    });
    let counts: BTreeMap<_, _> = counts.collect();
    assert_eq!(counts.len(), 3, "{counts:?}\n{said}");
    counts
}

/// What callgrind runs.
#[test]
#[ignore = "a part of a_poll_takes_no_more_instructions_than_it_did"]
fn polls_that_are_counted() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let app = TestApp::start().await;
        let demo = app.get(format!("/clusters/{DEMO}")).await.expect(200).json();
        let ids: Vec<String> = (0..CLUSTERS).map(|n| format!("counted-{n:02}")).collect();
        let dns = |id: &str| DEMO_DNS.replace(DEMO, id);
        let creations = ids.iter().map(|id| {
            let mut body = demo.clone();
            (body["id"], body["cluster_name"], body["cluster_dns"]) = (json!(id), json!(id), json!(dns(id)));
            json!({"op": "create", "kind": "clusters", "value": body})
        });
        let batch = json!({"operations": creations.collect::<Vec<_>>()});
        app.post("/batch", &batch).await.expect(200);
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        for id in &ids {
            let issued = app
                .post(format!("/clusters/{id}/token"), &json!({}))
                .await
                .expect(201)
                .json();
            for path in PATHS {
                shared.push(request(&dns(id), path, READ));
                own.push(request(&dns(id), path, issued["token"].as_str().unwrap()));
            }
        }
        count_first_poll(&app, &shared);
        count_poll_with_the_shared_token(&app, &shared);
        count_poll_with_an_own_token(&app, &own);
    });
}

/// As Flux Operator polls.
fn request(dns: &str, path: &str, token: &str) -> Request<Body> {
    Request::get(format!("{}{dns}/{path}", poll::PREFIX))
        .header(USER_AGENT, "flux-operator/v0.58.1")
        .header(ACCEPT, "application/json")
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(ACCEPT_ENCODING, "gzip")
        .body(Body::empty())
        .unwrap()
}

#[inline(never)]
fn count_first_poll(app: &TestApp, requests: &[Request<Body>]) {
    poll_each("first polls", app, requests);
}

#[inline(never)]
fn count_poll_with_the_shared_token(app: &TestApp, requests: &[Request<Body>]) {
    poll_each("shared token", app, requests);
}

#[inline(never)]
fn count_poll_with_an_own_token(app: &TestApp, requests: &[Request<Body>]) {
    poll_each("own tokens", app, requests);
}

/// `what`: makes the functions above differ. A compiler may make one of several that are the same.
fn poll_each(what: &str, app: &TestApp, requests: &[Request<Body>]) {
    for request in requests {
        let response = black_box(poll::answer(&app.app, request, &Peer::UNKNOWN, Instant::now()));
        assert_eq!(response.status(), StatusCode::OK, "{what}");
    }
}
