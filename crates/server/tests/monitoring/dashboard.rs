//! The dashboard: every query is valid, and finds something where there is something to find.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::{Folder, eventually};

use crate::prometheus::{INTERVAL, Prometheus};
use crate::service_monitor::{scrape_config, services};
use crate::{JOB, read, start, use_it};

const FILE: &str = "docs/src/dashboard.json";
/// Metrics that a healthy server does not have: they appear when a connection is shed, and on mirrors.
const NOT_YET: [&str; 2] = [
    "flux_resourceset_connections_shed_total",
    "flux_resourceset_mirror_age_seconds",
];

/// The queries of each panel, with its title.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read(FILE)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has an id of its own");
    let queries = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| {
            let title = panel["title"].as_str().unwrap().to_owned();
            (title, target["expr"].as_str().unwrap().to_owned())
        })
    });
    queries.collect()
}

/// A query as Grafana sends it.
fn filled_in(query: &str) -> String {
    let query = query.replace("$__rate_interval", "6s").replace("$instance", ".*");
    let query = query.replace("$job", JOB);
    assert!(!query.contains('$'), "a variable that is not known: {query}");
    query
}

/// The names of our metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("flux_resourceset_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_query_is_valid_and_finds_what_there_is() {
    let folder = Folder::new();
    let (crud, crud_metrics) = start(&folder, "crud");
    let (read, read_metrics) = start(&folder, "read-only");
    let services = services();
    let targets: Vec<_> = services.iter().zip([read_metrics, crud_metrics]).collect();
    let prometheus = Prometheus::start(&scrape_config(&targets, INTERVAL));
    let mut n = 0;
    eventually("there are rates", || {
        use_it(&crud, &read, n);
        n += 1;
        thread::sleep(Duration::from_millis(200));
        let rates = [
            "sum(rate(flux_resourceset_refusals_total{job=\"$job\"}[$__rate_interval])) > 0",
            "sum(rate(flux_resourceset_rollout_steps_total{job=\"$job\"}[$__rate_interval]))",
        ];
        let is_there = |rate: &str| prometheus.query(&filled_in(rate)).is_ok_and(|found| !found.is_empty());
        rates.iter().all(|rate| is_there(rate))
    });
    let queries = queries();
    assert!(queries.len() > 20, "only {} queries", queries.len());
    let mut problems = Vec::new();
    for (title, query) in &queries {
        let is_there = |name: &String| !prometheus.series(name).is_empty();
        let missing: Vec<String> = metrics(query).into_iter().filter(|name| !is_there(name)).collect();
        match prometheus.query(&filled_in(query)) {
            Err(error) => problems.push(format!("{title}: {query}: {error}")),
            Ok(found) if found.is_empty() && missing.is_empty() => problems.push(format!("{title}: {query} is empty")),
            Ok(_) => {}
        }
        let unexpected = missing.iter().filter(|name| !NOT_YET.contains(&name.as_str()));
        problems.extend(unexpected.map(|name| format!("{title}: there is no metric {name}")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    crud.stop();
    read.stop();
}

#[test]
fn every_metric_of_the_server_is_on_the_dashboard() {
    let folder = Folder::new();
    let (server, _) = start(&folder, "crud");
    let text = server.reader().get("/metrics").expect(200).text().to_owned();
    let shown = metrics(&read(FILE));
    let helped = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let missing: Vec<&str> = helped
        .filter(|name| {
            !shown
                .iter()
                .any(|shown| shown == name || shown.starts_with(&format!("{name}_")))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
    server.stop();
}

/// The packages have copies, because neither Helm nor kustomize reads files of other folders.
#[test]
fn the_packages_have_the_same_dashboard() {
    let file = read(FILE);
    for copy in [
        "deploy/kustomize/production/dashboard.json",
        "deploy/chart/flux-resourceset/files/dashboard.json",
    ] {
        assert_eq!(read(copy), file, "{copy}: run make generate");
    }
}
