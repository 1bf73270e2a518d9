//! The alert rules: the selectors on what is really scraped, and the times with `promtool test rules`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Folder, eventually};

use crate::prometheus::{INTERVAL, Prometheus};
use crate::service_monitor::{Service, scrape_config, services};
use crate::{JOB, documents, root, start, use_it};

const RULES: &str = "docs/src/alerts.yaml";

fn rules() -> Vec<Value> {
    let groups = &documents(RULES)[0]["groups"];
    let groups = groups.as_array().unwrap().iter();
    groups
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// The one rule that names a job: it never fired while the ServiceMonitors gave the Services' names as jobs.
#[test]
fn a_server_that_stops_is_found_by_the_rule_with_the_job_that_the_service_monitor_gives() {
    let folder = Folder::new();
    let (crud, crud_metrics) = start(&folder, "crud");
    let (read, read_metrics) = start(&folder, "read-only");
    let services = services();
    let by_name = |name: &str| services.iter().find(|service| service.name == name).unwrap();
    let targets: [(&Service, _); 2] = [
        (by_name("flux-api-crud"), crud_metrics),
        (by_name("flux-api-read"), read_metrics),
    ];
    let prometheus = Prometheus::start(&scrape_config(&targets, INTERVAL));
    let up = format!("up{{job=\"{JOB}\"}} == 1");
    eventually("both are scraped under the job of the rules", || {
        prometheus.query(&up).unwrap().len() == 2
    });
    let down = rules()
        .into_iter()
        .find(|rule| rule["alert"] == "FluxResourcesetDown")
        .unwrap();
    let down = down["expr"].as_str().unwrap();
    assert_eq!(prometheus.query(down).unwrap(), [] as [Value; 0]);
    read.process.kill();
    eventually("the rule finds the one that stopped", || {
        let found = prometheus.query(down).unwrap();
        found.len() == 1 && found[0]["metric"]["service"] == "flux-api-read"
    });
    crud.stop();
}

type Labels = BTreeMap<String, String>;

/// The series that Prometheus has of a server, each with values that are in order.
fn healthy(series: &[Labels]) -> Vec<(Labels, String)> {
    let values = |labels: &Labels| match labels["__name__"].trim_start_matches("flux_resourceset_") {
        "up" | "store_available" | "templates_current" | "oidc_keys_current" => "1x1600",
        "clusters" => "3x1600",
        "cluster_states" if labels["state"] == "converged" => "100x1600",
        "revision" => "7x1600",
        "polls_total" if labels["status"] == "200" => "0+60x1600",
        // Every poll is in the first bucket.
        "poll_duration_seconds_bucket" => "0+60x1600",
        _ => "0x1600",
    };
    series
        .iter()
        .map(|labels| (labels.clone(), values(labels).to_owned()))
        .collect()
}

/// What makes a rule fire: other values for the series of one instance with this name, or a series with other labels.
struct Case {
    alert: &'static str,
    series: &'static str,
    labels: &'static [(&'static str, &'static str)],
    values: &'static str,
    /// In minutes: before the rule's time, and after it.
    quiet_at: u32,
    fires_at: u32,
}

const fn case(
    alert: &'static str,
    series: &'static str,
    labels: &'static [(&'static str, &'static str)],
    values: &'static str,
    times: (u32, u32),
) -> Case {
    let (quiet_at, fires_at) = times;
    Case {
        alert,
        series,
        labels,
        values,
        quiet_at,
        fires_at,
    }
}

const CASES: [Case; 26] = [
    case("FluxResourcesetDown", "up", &[], "1x9 0x120", (14, 16)),
    case("FluxResourcesetAbsent", "up", &[], "", (14, 16)),
    case(
        "FluxResourcesetSnapshotStale",
        "snapshot_age_seconds",
        &[],
        "0x9 400x120",
        (14, 16),
    ),
    case("FluxResourcesetReplicasApart", "revision", &[], "5x120", (6, 8)),
    case(
        "FluxResourcesetPollsFail",
        "polls_total",
        &[("status", "500")],
        "0x9 0+1x120",
        (14, 17),
    ),
    case(
        "FluxResourcesetPollsStopped",
        "polls_total",
        &[("status", "200")],
        "9x120",
        (15, 32),
    ),
    case(
        "FluxResourcesetUnknownClusters",
        "polls_total",
        &[("status", "404")],
        "0+1x120",
        (30, 33),
    ),
    case(
        "FluxResourcesetPollsSlow",
        "poll_duration_seconds_bucket",
        &[],
        "0x120",
        (15, 18),
    ),
    case(
        "FluxResourcesetWritesUnavailable",
        "requests_total",
        &[("status", "503")],
        "0+1x120",
        (10, 13),
    ),
    case(
        "FluxResourcesetAuthenticationFailures",
        "authentication_failures_total",
        &[("reason", "invalid")],
        "0+20x120",
        (15, 24),
    ),
    case(
        "FluxResourcesetRemovalsRefused",
        "refusals_total",
        &[("reason", "removal-budget")],
        "0x9 1x120",
        (9, 11),
    ),
    case(
        "FluxResourcesetDanglingReferences",
        "dangling_references",
        &[],
        "2x120",
        (14, 16),
    ),
    case(
        "FluxResourcesetReloads",
        "snapshot_reloads_total",
        &[],
        "0x9 1x120",
        (9, 11),
    ),
    case(
        "FluxResourcesetOtherHistory",
        "history_changes_total",
        &[],
        "0x9 1x120",
        (9, 11),
    ),
    case(
        "FluxResourcesetStoreAway",
        "store_available",
        &[],
        "1x9 0x120",
        (15, 21),
    ),
    case(
        "FluxResourcesetTemplatesUnusable",
        "templates_current",
        &[],
        "1x9 0x120",
        (14, 16),
    ),
    case(
        "FluxResourcesetOidcKeysStale",
        "oidc_keys_current",
        &[],
        "1x9 0x120",
        (19, 21),
    ),
    case("FluxResourcesetStoreDamaged", "damaged_rows", &[], "0x9 1x120", (9, 11)),
    // Of a hundred others: 3 are within the limit, more are not.
    case(
        "FluxResourcesetClustersFailing",
        "cluster_states",
        &[("state", "failing")],
        "3x19 9x120",
        (34, 36),
    ),
    case(
        "FluxResourcesetClustersSilent",
        "cluster_states",
        &[("state", "silent")],
        "3x19 9x120",
        (34, 36),
    ),
    case(
        "FluxResourcesetChangeStalls",
        "cluster_states",
        &[("state", "behind")],
        "90x19 3x19 20x120",
        (83, 86),
    ),
    case(
        "FluxResourcesetRolloutStopped",
        "rollouts",
        &[("state", "halted"), ("waits_for", "person")],
        "0x9 1x120",
        (9, 11),
    ),
    case(
        "FluxResourcesetRolloutWaits",
        "rollouts",
        &[("state", "running"), ("waits_for", "approval")],
        "0x9 1x1500",
        (1449, 1451),
    ),
    case(
        "FluxResourcesetRolloutWaits",
        "rollouts",
        &[("state", "paused"), ("waits_for", "person")],
        "0x9 1x1500",
        (1449, 1451),
    ),
    case(
        "FluxResourcesetRolloutUnjudged",
        "rollouts_unjudged",
        &[],
        "0x9 1x120",
        (24, 26),
    ),
    // Restarts and writes of a day: no rule fires.
    case("", "writes_total", &[], "0+1x120", (60, 119)),
];

/// The label sets of the series of two servers, as the shipped ServiceMonitor gives them.
fn scraped() -> Vec<Labels> {
    let folder = Folder::new();
    let (crud, crud_metrics) = start(&folder, "crud");
    let (read, read_metrics) = start(&folder, "read-only");
    use_it(&crud, &read, 0);
    let services = services();
    let targets: Vec<_> = services.iter().zip([read_metrics, crud_metrics]).collect();
    let prometheus = Prometheus::start(&scrape_config(&targets, INTERVAL));
    let all = format!("{{job=\"{JOB}\"}}");
    eventually("both are scraped", || {
        let found = prometheus.series(&format!("flux_resourceset_refusals_total{all}"));
        let states = prometheus.series(&format!("flux_resourceset_cluster_states{all}"));
        // Each server has six states of one environment.
        let rollouts = prometheus.series(&format!("flux_resourceset_rollouts{all}"));
        !found.is_empty()
            && !rollouts.is_empty()
            && prometheus.series(&format!("up{all}")).len() == 2
            && states.len() == 12
    });
    let series = prometheus.series(&all);
    let labels = series.into_iter().map(|labels| serde_json::from_value(labels).unwrap());
    let ours = |labels: &Labels| labels["__name__"] == "up" || labels["__name__"].starts_with("flux_resourceset_");
    labels.filter(ours).collect()
}

fn written((labels, values): &(Labels, String)) -> Value {
    let pairs = labels.iter().filter(|(name, _)| *name != "__name__");
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={value:?}")).collect();
    json!({"series": format!("{}{{{}}}", labels["__name__"], pairs.join(",")), "values": values})
}

impl Case {
    /// The series of the test: all healthy ones, and this one as the case has it, on the crud server.
    fn series(&self, all: &[Labels]) -> Vec<(Labels, String)> {
        let prefix = if self.series == "up" { "" } else { "flux_resourceset_" };
        let name = format!("{prefix}{}", self.series);
        let mut series = healthy(all);
        if self.values.is_empty() {
            series.retain(|(labels, _)| labels["__name__"] != name);
            return series;
        }
        let is_it = |labels: &Labels| labels["__name__"] == name && labels["service"] == "flux-api-crud";
        // Of each label set, those that the case names replaced: most are there already, others come so to be.
        let mut changed: Vec<Labels> = all.iter().filter(|labels| is_it(labels)).cloned().collect();
        assert!(!changed.is_empty(), "{}: {name} was not scraped", self.alert);
        if !self.labels.is_empty() {
            changed.truncate(1);
            let own = self
                .labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            changed[0].extend(own);
        }
        if self.alert == "FluxResourcesetPollsStopped" {
            series.retain(|(labels, _)| labels["__name__"] != name);
        }
        if self.series == "poll_duration_seconds_bucket" {
            changed.retain(|labels| labels["le"].parse::<f64>().is_ok_and(|le| le < 0.1));
        }
        series.retain(|(labels, _)| !changed.contains(labels));
        series.extend(changed.into_iter().map(|labels| (labels, self.values.to_owned())));
        series
    }

    fn test(&self, all: &[Labels]) -> Value {
        let series: Vec<Value> = self.series(all).iter().map(written).collect();
        let firing = "count by (alertname) (ALERTS{alertstate=\"firing\"})";
        let alerts = |minutes: u32, fires: bool| {
            let sample = json!({"labels": format!("{{alertname=\"{}\"}}", self.alert), "value": 1});
            let samples = if fires { vec![sample] } else { Vec::new() };
            json!({"expr": firing, "eval_time": format!("{minutes}m"), "exp_samples": samples})
        };
        let fires = !self.alert.is_empty();
        json!({
            "name": self.alert,
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [alerts(self.quiet_at, false), alerts(self.fires_at, fires)],
        })
    }
}

#[test]
fn every_rule_fires_when_it_should_and_no_other_with_it() {
    let named: BTreeSet<String> = rules()
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap().to_owned())
        .collect();
    let tested: BTreeSet<String> = CASES
        .iter()
        .map(|case| case.alert.to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(named, tested, "each rule has a case");
    let all = scraped();
    let tests: Vec<Value> = CASES.iter().map(|case| case.test(&all)).collect();
    let folder = Folder::new();
    let file = json!({"rule_files": [root().join(RULES).canonicalize().unwrap()], "evaluation_interval": "1m", "tests": tests});
    let file = folder.write("tests.yaml", file.to_string());
    let run = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
    let run = run.expect("promtool: run `make alerts`, which installs it");
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// The packages have copies, because neither Helm nor kustomize reads files of other folders.
#[test]
fn the_packages_have_the_same_rules() {
    let rule = &documents("deploy/kustomize/production/prometheus-rule.yaml")[0];
    assert_eq!(rule["spec"], documents(RULES)[0]);
    let chart = "deploy/chart/flux-resourceset";
    assert_eq!(documents(&format!("{chart}/files/alerts.yaml")), documents(RULES));
    let text = crate::read(&format!("{chart}/templates/service-monitor.yaml"));
    let shipped = &documents("deploy/kustomize/production/service-monitor.yaml")[0]["spec"]["jobLabel"];
    assert!(
        text.contains(&format!("jobLabel: {}\n", shipped.as_str().unwrap())),
        "{text}"
    );
}
