//! The use cases, independent of HTTP.

pub mod backup;
mod changed_inputs;
pub mod cluster_list;
pub mod compact;
pub mod effective;
pub mod engine;
pub mod errors;
pub mod follow;
pub mod history;
pub mod import;
pub mod lists;
pub mod log;
pub mod manifests;
pub mod mirror;
pub mod overwrites;
mod partial_file;
pub mod reads;
pub mod references;
pub mod repair;
pub mod resources;
pub mod revisions;
pub mod rollouts;
pub mod snapshot_file;
pub mod start;
pub mod status;
pub mod templates;
pub mod verify;
pub mod versions;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet::Fleet;
use fleet::budget::Recent;
use fleet::effect::Effect;
use fleet::guard::GuardCheck;
use fleet::judge::{Detail, Terms, judge};
use fleet::log::{Author, Digest, Revision, RevisionRecord};
use fleet::overwrites::Overwrites;
use fleet::refusal::Removals;
use ipnet::IpNet;
use store::Store;
use tokio::sync::{Semaphore, watch};

use self::engine::{Engine, Status, WriteError, WriteRequest, Written};
use self::manifests::ObjectsEffect;
use self::overwrites::History;
use self::reads::Turn;
use self::templates::Templates;
use crate::auth::oidc::Oidc;
use crate::auth::{Environment, Failures};
use crate::config::{Config, Mode};
use crate::metrics::Metrics;

/// How many clients may follow the log, and make a backup, at a time.
const STREAMS: usize = 256;
/// How many clients may follow the counts of states: each page of the dashboard that somebody looks at is one.
const PAGES: usize = 4096;
const BACKUPS: usize = 2;
/// How many clusters may wait for a change of their replies, unless connections are fewer.
const WAITING: usize = 16_384;

/// What use cases work with; one per process.
#[derive(Debug)]
pub struct App {
    pub mode: Mode,
    /// The tokens of the environment.
    pub environment: Arc<Environment>,
    /// The issuers of JWTs, if any are accepted.
    pub oidc: Option<Arc<Oidc>>,
    /// Failed authentications of late.
    pub failures: Failures,
    /// TRUSTED_PROXIES: whose X-Forwarded-For counts.
    pub trusted_proxies: Vec<IpNet>,
    /// SHARED_POLLS: whether callers other than the cluster itself may poll its paths.
    pub shared_polls: bool,
    /// UI: whether the dashboard is served.
    pub ui: bool,
    /// UI_URL: its address for browsers.
    pub ui_url: Option<String>,
    /// Whether the server speaks TLS.
    pub has_tls: bool,
    pub metrics: Arc<Metrics>,
    pub engine: Engine,
    /// Private, so that only use cases read and write it.
    store: Arc<dyn Store>,
    /// The ResourceSets that clusters render their inputs with.
    pub templates: Arc<Templates>,
    /// OPENAPI_FILE: served at /openapi.yaml in place of the generated document.
    pub openapi_file: Option<Bytes>,
    /// Places for reads of the whole fleet or log: few at a time, to bound memory and threads.
    pub places: reads::Places,
    /// How long such a read may take before its reply begins.
    pub read_deadline: Duration,
    pub streams: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    pub backups: Arc<Semaphore>,
    /// MAX_STALENESS: a replica with an older snapshot is not ready.
    pub max_staleness: Option<Duration>,
    /// The state of the mirror, if this server is one.
    pub mirror: Option<Arc<mirror::Status>>,
    /// Becomes true when the server stops. Streams end then.
    pub stopping: Option<watch::Receiver<bool>>,
    cluster_lists: cluster_list::Cache,
    /// What clusters told.
    pub evidence: status::EvidenceMap,
    /// Who follows the states of clusters.
    pub transitions: status::Transitions,
    /// Who waits for a reply to change.
    pub waiting: status::Waiting,
    answers: status::Answers,
    effects: status::Effects,
    versions: versions::Cache,
    /// Failures whose input is looked for.
    strays: status::Strays,
    /// What is remembered about rollouts.
    rollouts: rollouts::Rollouts,
    /// SILENT_AFTER: how long a cluster may not poll before it is silent.
    pub silent_after: Duration,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: usize,
    pub limit: usize,
}

/// What a write would do.
#[derive(Debug)]
pub struct Plan {
    /// The revision that it was computed on.
    pub base: Revision,
    /// The revision that it would become.
    pub record: RevisionRecord,
    pub effect: Effect,
    /// The change of the Kubernetes objects of each cluster on the requested page, or why they cannot be rendered.
    pub objects: Vec<Result<ObjectsEffect, String>>,
    /// What each change overwrites, and how much of the log was read for that.
    pub overwrites: Vec<Overwrites>,
    pub history: History,
    /// Identifies the effect, independent of the base.
    pub digest: Digest,
    pub removals: Removals,
    /// The rollouts that it would start, wave by wave. The effect is that of their completion.
    pub rollouts: Vec<rollouts::RolloutPlan>,
    /// The clusters that it would take out of a promoted wave.
    pub demoted: Vec<Arc<str>>,
    /// The limits of the guards in force.
    pub guards: Vec<GuardCheck>,
}

impl App {
    pub fn new(
        config: &Config,
        engine: Engine,
        store: Arc<dyn Store>,
        environment: Arc<Environment>,
        metrics: Arc<Metrics>,
        templates: Arc<Templates>,
    ) -> Self {
        metrics.templates_current.set(1);
        metrics.oidc_keys_current.set(1);
        App {
            mode: config.mode,
            environment,
            oidc: None,
            failures: Failures::default(),
            trusted_proxies: config.trusted_proxies.clone(),
            shared_polls: config.shared_polls,
            ui: config.ui,
            ui_url: config.ui_url.clone(),
            has_tls: config.tls.is_some(),
            metrics,
            engine,
            store,
            templates,
            openapi_file: None,
            places: reads::Places::default(),
            read_deadline: reads::DEADLINE,
            streams: Arc::new(Semaphore::new(STREAMS)),
            pages: Arc::new(Semaphore::new(PAGES)),
            backups: Arc::new(Semaphore::new(BACKUPS)),
            max_staleness: config.max_staleness,
            mirror: None,
            stopping: None,
            cluster_lists: cluster_list::Cache::default(),
            evidence: status::EvidenceMap::default(),
            transitions: status::Transitions::default(),
            waiting: status::Waiting::new(WAITING),
            answers: status::Answers::default(),
            effects: status::Effects::default(),
            versions: versions::Cache::default(),
            strays: status::Strays::default(),
            rollouts: rollouts::Rollouts::default(),
            silent_after: config.silent_after,
        }
    }

    /// Lowers how many clients may follow the log, for servers with few connections: each follower keeps one.
    pub fn limit_streams(&mut self, most: usize) {
        self.streams = Arc::new(Semaphore::new(most.clamp(1, STREAMS)));
        self.waiting = status::Waiting::new(most.max(1));
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        self.engine.fleet()
    }

    pub fn status(&self) -> &Status {
        self.engine.status()
    }

    /// Commits operations as one revision; returns once that is durable and served.
    pub async fn write(&self, write: WriteRequest) -> Result<Written, WriteError> {
        let written = self.engine.write(write).await;
        match &written {
            Err(WriteError::Refused(refusal)) => {
                let labels = crate::metrics::ReasonLabels {
                    reason: refusal.reason.name(),
                };
                self.metrics.refusals.get_or_create(&labels).inc();
            }
            Ok(written) => drop(self.metrics.guard_overrides.inc_by(written.overridden.len() as u64)),
            Err(_) => {}
        }
        written
    }

    /// What a write would do to the current fleet. Nothing is stored, and guards and the removal budget refuse nothing.
    pub fn plan(&self, turn: &Turn, write: WriteRequest, rendered: Option<Page>) -> Result<Plan, WriteError> {
        let base = self.fleet();
        if base.damage().is_some() {
            return Err(WriteError::Unavailable(engine::DAMAGED.to_owned()));
        }
        let refused = WriteError::Refused;
        let operations = write.operations_on(&base).map_err(refused)?;
        let (budget, recent) = (self.engine.budget(), self.engine.removals(Recent::clone));
        let terms = Terms {
            recent: &recent,
            since: &crate::before(&write.author.at, budget.window),
            budget: budget.clusters,
            confirmation: write.confirmation,
            reach: &write.reach,
            at: &write.author.at,
            overrides: &write.overrides,
            unguarded: write.unguarded,
        };
        let outcome = base.write(&operations, terms.on(write.rules)).map_err(refused)?;
        turn.check()?;
        let judgement = judge(&base, &outcome, terms, Detail::Full).map_err(refused)?;
        let overrides = judgement.overridden();
        let effect = judgement.effect;
        let guards = match write.unguarded {
            true => Vec::new(),
            false => base.guards().in_force(&write.author.at),
        };
        let rollouts = rollouts::plans(outcome.preview(), &outcome.changes, &effect, &guards);
        let after = judgement.completed.as_ref().unwrap_or(outcome.preview());
        let mut objects = Vec::new();
        if let Some(page) = rendered {
            let templates = self.templates.current();
            for cluster in effect.clusters.iter().skip(page.offset).take(page.limit) {
                turn.check()?;
                let compared = manifests::compare(&templates, &base, after, cluster.dns());
                objects.push(compared);
            }
        }
        let (overwrites, history) = self.overwrites(turn, base.revision(), &outcome.changes)?;
        let record = RevisionRecord {
            revision: base.revision().next(),
            author: Author {
                overrides,
                ..write.author
            },
            changes: outcome.changes,
            removed: judgement.removed,
            digest: Digest::default(),
        };
        Ok(Plan {
            base: base.revision(),
            record,
            effect,
            objects,
            overwrites,
            history,
            digest: judgement.digest.unwrap_or_default(),
            removals: judgement.removals,
            rollouts,
            demoted: judgement.demoted,
            guards: judgement.guards,
        })
    }

    /// Returns when the server stops.
    pub async fn stops(&self) {
        if let Some(mut stopping) = self.stopping.clone() {
            let _ = stopping.wait_for(|stop| *stop).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}
