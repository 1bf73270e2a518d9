//! What Prometheus sees.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct PollLabels {
    pub kind: String,
    pub status: u16,
}

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

/// What only a mirror has.
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
    registry: Registry,
    pub mirror: Option<MirrorMetrics>,
    pub polls: Family<PollLabels, Counter>,
    pub poll_seconds: Histogram,
    pub requests: Family<RequestLabels, Counter>,
    pub request_seconds: Histogram,
    pub revision: Gauge,
    pub snapshot_age_seconds: Gauge<f64, AtomicU64>,
    pub clusters: Gauge,
    pub writes: Counter,
    pub commits: Counter,
    pub refusals: Family<ReasonLabels, Counter>,
    pub dangling_references: Gauge,
    pub authentication_failures: Family<ReasonLabels, Counter>,
    pub connections: Gauge,
    pub connections_shed: Family<ReasonLabels, Counter>,
    pub reloads: Counter,
    pub histories: Counter,
    pub store_available: Gauge,
    pub damaged_rows: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        const SECONDS: [f64; 14] = [
            0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
        ];
        let mut registry = Registry::with_prefix("flux_resourceset");
        let polls = Family::default();
        registry.register("polls", "Polls of Flux, by kind and status", polls.clone());
        let poll_seconds = Histogram::new(SECONDS);
        registry.register("poll_duration_seconds", "How long polls take", poll_seconds.clone());
        let requests = Family::default();
        registry.register(
            "requests",
            "Requests that are not polls, by method, route and status",
            requests.clone(),
        );
        let request_seconds = Histogram::new(SECONDS);
        registry.register(
            "request_duration_seconds",
            "How long other requests take",
            request_seconds.clone(),
        );
        let revision = Gauge::default();
        registry.register("revision", "The revision that is served", revision.clone());
        let snapshot_age_seconds = Gauge::default();
        registry.register(
            "snapshot_age_seconds",
            "How long ago the store last confirmed that the snapshot is current",
            snapshot_age_seconds.clone(),
        );
        let clusters = Gauge::default();
        registry.register("clusters", "Clusters in the fleet", clusters.clone());
        let writes = Counter::default();
        registry.register("writes", "Writes that became a revision", writes.clone());
        let commits = Counter::default();
        registry.register(
            "commits",
            "Durable commits; writers that wait share one",
            commits.clone(),
        );
        let refusals = Family::default();
        registry.register("refusals", "Writes that were refused, by reason", refusals.clone());
        let dangling_references = Gauge::default();
        registry.register(
            "dangling_references",
            "References of clusters to definitions that do not exist",
            dangling_references.clone(),
        );
        let authentication_failures = Family::default();
        registry.register(
            "authentication_failures",
            "Requests without a good token, or with one that does not allow it",
            authentication_failures.clone(),
        );
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        let connections_shed = Family::default();
        registry.register(
            "connections_shed",
            "Connections that were closed, and requests that were refused, to keep room for polls, by reason",
            connections_shed.clone(),
        );
        let reloads = Counter::default();
        registry.register(
            "snapshot_reloads",
            "Times the snapshot was read anew as a whole",
            reloads.clone(),
        );
        let histories = Counter::default();
        registry.register(
            "history_changes",
            "Times the store turned out to have another history than the one that was served",
            histories.clone(),
        );
        let store_available = Gauge::default();
        registry.register(
            "store_available",
            "1 when the store answered the last time it was asked, 0 when it is away",
            store_available.clone(),
        );
        let damaged_rows = Gauge::default();
        registry.register(
            "damaged_rows",
            "Places where the store is not what was written; polls that may depend on them are answered with 503",
            damaged_rows.clone(),
        );
        Metrics {
            registry,
            mirror: None,
            polls,
            poll_seconds,
            requests,
            request_seconds,
            revision,
            snapshot_age_seconds,
            clusters,
            writes,
            commits,
            refusals,
            dangling_references,
            authentication_failures,
            connections,
            connections_shed,
            reloads,
            histories,
            store_available,
            damaged_rows,
        }
    }
}

impl Metrics {
    /// Those of a mirror: a server that has no origin does not say how far it is behind it.
    pub fn of_mirror() -> Self {
        let mut metrics = Metrics::default();
        let (mirror, registry) = (MirrorMetrics::default(), &mut metrics.registry);
        registry.register(
            "mirror_origin_revision",
            "The last revision that the origin is known to have",
            mirror.origin_revision.clone(),
        );
        registry.register(
            "mirror_age_seconds",
            "How long ago what is served was known to be the origin's state",
            mirror.age_seconds.clone(),
        );
        registry.register(
            "mirror_current",
            "1 while the origin is followed and has nothing more",
            mirror.current.clone(),
        );
        registry.register(
            "mirror_connections",
            "Times that the origin was reached to be followed",
            mirror.connections.clone(),
        );
        registry.register(
            "mirror_loads",
            "Backups of the origin that were taken over as a whole",
            mirror.loads.clone(),
        );
        registry.register(
            "mirror_refusals",
            "Times that the origin was refused: it was older, or of another history",
            mirror.refusals.clone(),
        );
        metrics.mirror = Some(mirror);
        metrics
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to memory");
        text
    }
}
