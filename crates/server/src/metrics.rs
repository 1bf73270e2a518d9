//! The metrics that Prometheus scrapes.

mod polls;

use fleet::status::State;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use self::polls::Polls;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    pub method: &'static str,
    pub route: String,
    pub status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabels {
    pub reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct StateLabels {
    pub state: &'static str,
    pub environment: String,
}

impl StateLabels {
    pub fn new(state: State, environment: &str) -> Self {
        StateLabels {
            state: state.name(),
            environment: environment.to_owned(),
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RolloutLabels {
    pub state: &'static str,
    /// What it waits for: gate, approval, guard, or person if it was stopped.
    pub waits_for: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct StepLabels {
    pub step: &'static str,
}

/// The metrics that only a mirror has.
#[derive(Clone, Debug, Default)]
pub struct MirrorMetrics {
    pub origin_revision: Gauge,
    pub age_seconds: Gauge<f64, AtomicU64>,
    pub current: Gauge,
    pub connections: Counter,
    pub loads: Counter,
    pub refusals: Counter,
}

#[derive(Debug)]
pub struct Metrics {
    registrar: Registrar,
    /// Of a mirror only.
    pub mirror: Option<MirrorMetrics>,
    pub polls: Arc<Polls>,
    pub requests: Family<RequestLabels, Counter>,
    pub request_seconds: Histogram,
    pub revision: Gauge,
    pub snapshot_age_seconds: Gauge<f64, AtomicU64>,
    pub clusters: Gauge,
    pub writes: Counter,
    pub commits: Counter,
    pub refusals: Family<ReasonLabels, Counter>,
    pub guard_overrides: Counter,
    pub dangling_references: Gauge,
    pub authentication_failures: Family<ReasonLabels, Counter>,
    pub connections: Gauge,
    /// 0 while TLS files cannot be used.
    pub tls_usable: Gauge,
    /// 0 while the keys of an OIDC issuer cannot be fetched.
    pub oidc_keys_current: Gauge,
    pub connections_shed: Family<ReasonLabels, Counter>,
    pub reloads: Counter,
    pub histories: Counter,
    pub store_available: Gauge,
    pub damaged_rows: Gauge,
    pub templates_current: Gauge,
    pub cluster_states: Family<StateLabels, Gauge>,
    pub rollouts: Family<RolloutLabels, Gauge>,
    /// Running rollouts whose last look failed.
    pub rollouts_unjudged: Gauge,
    pub rollout_steps: Family<StepLabels, Counter>,
    pub events: Counter,
    pub reports: Counter,
    /// 0 while evidence of clusters stays in this process.
    pub evidence_shared: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registrar = Registrar(Registry::with_prefix("flux_resourceset"));
        Metrics {
            mirror: None,
            polls: registrar.add_polls(),
            requests: registrar.add("requests", "Requests that are not polls, by method, route and status"),
            request_seconds: registrar
                .add_histogram("request_duration_seconds", "Duration of requests that are not polls"),
            revision: registrar.add("revision", "The revision that this process serves"),
            snapshot_age_seconds: registrar.add(
                "snapshot_age_seconds",
                "Time since the store last confirmed that the snapshot is current",
            ),
            clusters: registrar.add("clusters", "Clusters in the fleet"),
            writes: registrar.add("writes", "Writes that created a revision"),
            commits: registrar.add("commits", "Durable commits; concurrent writes share one"),
            refusals: registrar.add("refusals", "Refused writes, by reason"),
            guard_overrides: registrar.add("guard_overrides", "Guards that writes overrode"),
            dangling_references: registrar.add(
                "dangling_references",
                "References of clusters to definitions that do not exist",
            ),
            authentication_failures: registrar.add(
                "authentication_failures",
                "Requests without a valid token, or with a token that does not allow them",
            ),
            connections: registrar.add("connections", "Open connections"),
            tls_usable: registrar.add(
                "tls_files_usable",
                "1 if the TLS files are in use as they are, 0 if they changed and cannot be used, or there are none",
            ),
            oidc_keys_current: registrar.add(
                "oidc_keys_current",
                "1 if the keys of every OIDC issuer could be fetched the last time, 0 if not",
            ),
            connections_shed: registrar.add(
                "connections_shed",
                "Connections closed and requests refused to keep capacity for polls, by reason",
            ),
            reloads: registrar.add("snapshot_reloads", "Reloads of the whole snapshot from the store"),
            histories: registrar.add(
                "history_changes",
                "Times the store was found to have another history than the one being served",
            ),
            store_available: registrar.add(
                "store_available",
                "1 if the last call to the store succeeded, 0 if the store is unavailable",
            ),
            damaged_rows: registrar.add(
                "damaged_rows",
                "Damaged places in the store; polls that may depend on them get 503",
            ),
            templates_current: registrar.add(
                "templates_current",
                "1 if the templates in use are those of TEMPLATES_DIR, 0 if its files cannot be used",
            ),
            cluster_states: registrar.add("cluster_states", "Clusters, by state and environment"),
            rollouts: registrar.add("rollouts", "Rollouts that have not ended, by state and what they wait for"),
            rollouts_unjudged: registrar.add(
                "rollouts_unjudged",
                "Running rollouts that this process could not judge the last time: their gates do not move",
            ),
            rollout_steps: registrar.add("rollout_steps", "Steps of rollouts that this process took by itself"),
            events: registrar.add("events", "Events of Flux that clusters sent"),
            reports: registrar.add("reports", "Reports that reporters in clusters sent"),
            evidence_shared: registrar.add(
                "evidence_shared",
                "1 if what clusters tell is shared with other processes and kept over a restart, 0 if it stays in this process",
            ),
            registrar,
        }
    }
}

/// The bounds of the buckets of durations.
const SECONDS: [f64; 14] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// Creates metrics and registers them.
#[derive(Debug)]
struct Registrar(Registry);

impl Registrar {
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    fn add_polls(&mut self) -> Arc<Polls> {
        let polls = Arc::<Polls>::default();
        self.0.register_collector(Box::new(polls.clone()));
        polls
    }

    fn add_histogram(&mut self, name: &str, help: &str) -> Histogram {
        let metric = Histogram::new(SECONDS);
        self.0.register(name, help, metric.clone());
        metric
    }
}

impl Metrics {
    /// The metrics of a mirror: those of a server, and its status towards the origin.
    pub fn of_mirror() -> Self {
        let mut metrics = Metrics::default();
        let registrar = &mut metrics.registrar;
        let mirror = MirrorMetrics {
            origin_revision: registrar.add("mirror_origin_revision", "The last known revision of the origin"),
            age_seconds: registrar.add(
                "mirror_age_seconds",
                "Time since the served state was known to be the origin's",
            ),
            current: registrar.add(
                "mirror_current",
                "1 while the mirror follows the origin and has all of its revisions",
            ),
            connections: registrar.add("mirror_connections", "Connections to the origin to follow its changes"),
            loads: registrar.add("mirror_loads", "Backups of the origin that were loaded"),
            refusals: registrar.add(
                "mirror_refusals",
                "Times the origin was refused because it was older or had another history",
            ),
        };
        metrics.mirror = Some(mirror);
        metrics
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registrar.0).expect("writing to memory");
        text
    }
}
