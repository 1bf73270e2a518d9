//! The use cases, apart from how they are asked for.

pub mod backup;
pub mod compact;
pub mod description;
pub mod engine;
pub mod history;
pub mod import;
pub mod keep;
pub mod manifests;
pub mod mirror;
pub mod reach;
pub mod reads;
pub mod repair;
pub mod startup;
pub mod verify;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fleet::Fleet;
use fleet::budget::Recent;
use fleet::effect::{Effect, ListEffect};
use fleet::inputs::{Breach, Reply, cluster_list};
use fleet::judge::{Detail, Guard, judge};
use fleet::log::{Digest, Head, Revision, RevisionRecord};
use fleet::refusal::Removals;
use fleet::selector::{Selector, SelectorError};
use resourceset::Bundle;
use store::Store;
use tokio::sync::{Semaphore, watch};

use self::engine::{Engine, Status, WriteError, WriteRequest, Written};
use self::reads::{Stop, Turn};
use crate::config::{Config, Mode};
use crate::http::request::Bodies;
use crate::metrics::Metrics;
use crate::tokens::Tokens;

/// How many may follow the log, and copy the store, at a time.
const STREAMS: usize = 256;
const BACKUPS: usize = 2;

/// What every request can reach.
#[derive(Debug)]
pub struct App {
    pub mode: Mode,
    pub tokens: Arc<Tokens>,
    pub metrics: Arc<Metrics>,
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    /// What clusters render their inputs with.
    pub templates: Bundle,
    /// What is served at /openapi.yaml instead of what the kinds give.
    pub openapi_file: Option<Bytes>,
    /// Of reads that go through the whole fleet or log: few at a time, so that they hold neither the memory nor the workers.
    pub places: reads::Places,
    /// How long such a read may take until its reply begins.
    pub read_deadline: Duration,
    pub streams: Arc<Semaphore>,
    pub backups: Arc<Semaphore>,
    /// Room for the bodies of requests.
    pub bodies: Bodies,
    /// How old a snapshot may be before this replica says that it is not ready.
    pub max_staleness: Option<Duration>,
    /// How this server stands to its origin, if it is a mirror.
    pub mirror: Option<Arc<mirror::Status>>,
    /// Becomes true when the server stops: what would go on for ever ends then.
    pub stopping: Option<watch::Receiver<bool>>,
    lists: Mutex<HashMap<ListQuery, (Head, Reply)>>,
    described: description::Described,
}

/// A part of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub offset: usize,
    pub limit: usize,
}

/// What a write would do.
#[derive(Debug)]
pub struct Plan {
    /// The revision that it was made on.
    pub base: Revision,
    /// The revision that it would become.
    pub record: RevisionRecord,
    pub effect: Effect,
    /// What becomes of the objects of the clusters that were asked for, in their order; or why that cannot be said.
    pub objects: Vec<Result<ListEffect, String>>,
    /// Stands for the effect, on whatever base.
    pub digest: Digest,
    pub removals: Removals,
}

/// Which clusters a list for provisioners asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListQuery {
    pub environment: Option<String>,
    pub selector: Option<String>,
    /// The part `0` of `1` parts.
    pub shard: Option<(u32, u32)>,
}

/// Why such a list is not given.
#[derive(Debug)]
pub enum ListError {
    Stopped(Stop),
    Selector(SelectorError),
    Breach(Breach),
}

impl App {
    pub fn new(
        config: &Config,
        engine: Engine,
        store: Arc<dyn Store>,
        tokens: Arc<Tokens>,
        metrics: Arc<Metrics>,
        templates: Bundle,
    ) -> Self {
        App {
            mode: config.mode,
            tokens,
            metrics,
            engine,
            store,
            templates,
            openapi_file: None,
            places: reads::Places::default(),
            read_deadline: reads::DEADLINE,
            streams: Arc::new(Semaphore::new(STREAMS)),
            backups: Arc::new(Semaphore::new(BACKUPS)),
            bodies: Bodies::default(),
            max_staleness: config.max_staleness,
            mirror: None,
            stopping: None,
            lists: Mutex::default(),
            described: description::Described::default(),
        }
    }

    /// Lowers how many may follow the log, where there are few connections: each takes one for as long as it lasts.
    pub fn limit_streams(&mut self, most: usize) {
        self.streams = Arc::new(Semaphore::new(most.clamp(1, STREAMS)));
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
        if let Err(WriteError::Refused(refusal)) = &written {
            let labels = crate::metrics::ReasonLabels {
                reason: crate::http::problem::name_of(refusal.reason),
            };
            self.metrics.refusals.get_or_create(&labels).inc();
        }
        written
    }

    /// What the same would do, on the fleet as it is now. Nothing is stored, and the budget refuses nothing.
    pub fn plan(&self, turn: &Turn, write: WriteRequest, rendered: Option<Page>) -> Result<Plan, WriteError> {
        let base = self.fleet();
        if base.damage().is_some() {
            return Err(WriteError::Unavailable(engine::DAMAGED.to_owned()));
        }
        let refused = WriteError::Refused;
        let operations = write.operations_on(&base).map_err(refused)?;
        let outcome = base.write(&operations, write.rules).map_err(refused)?;
        turn.check()?;
        let (budget, recent) = (self.engine.budget(), self.engine.removals(Recent::clone));
        let guard = Guard {
            recent: &recent,
            since: &crate::before(&write.author.at, budget.window),
            budget: budget.clusters,
            confirmation: write.confirmation,
        };
        let judgement = judge(&base, &outcome, guard, Detail::Full).map_err(refused)?;
        let effect = judgement.effect;
        let mut objects = Vec::new();
        if let Some(page) = rendered {
            for cluster in effect.clusters.iter().skip(page.offset).take(page.limit) {
                turn.check()?;
                let compared = manifests::compare(&self.templates, &base, outcome.preview(), &cluster.dns);
                objects.push(compared);
            }
        }
        let record = RevisionRecord {
            revision: base.revision().next(),
            author: write.author,
            changes: outcome.changes,
            removed: judgement.removed,
            digest: Digest::default(),
        };
        Ok(Plan {
            base: base.revision(),
            record,
            effect,
            objects,
            digest: judgement.digest.unwrap_or_default(),
            removals: judgement.removals,
        })
    }

    /// Returns when the server is to stop.
    pub async fn stops(&self) {
        if let Some(mut stopping) = self.stopping.clone() {
            let _or_its_end = stopping.wait_for(|stop| *stop).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// The list of clusters for provisioners, made once for each state of the clusters.
    pub fn cluster_list(&self, query: &ListQuery, turn: &Turn) -> Result<Reply, ListError> {
        const MOST_KEPT: usize = 64;
        let fleet = self.fleet();
        let state = fleet.clusters_changed();
        // A selector is judged each time: its keys may have become unknown.
        let selector = query
            .selector
            .as_deref()
            .map(|text| Selector::for_fleet(text, &fleet))
            .transpose();
        let selector = selector.map_err(ListError::Selector)?;
        if let Some((at, reply)) = self.lists.lock().expect("not poisoned").get(query)
            && *at == state
        {
            return Ok(reply.clone());
        }
        let kind = fleet.kinds().clusters();
        let matcher = selector.as_ref().zip(kind).map(|(selector, kind)| selector.on(kind));
        let clusters = fleet.clusters().values().filter(|cluster| {
            let environment = query.environment.as_deref();
            environment.is_none_or(|environment| &*cluster.head().environment == environment)
                && query
                    .shard
                    .is_none_or(|(part, parts)| shard_of(&cluster.document().id, parts) == part)
                && matcher.as_ref().is_none_or(|matcher| matcher.matches(cluster))
        });
        let clusters: Result<Vec<_>, Stop> = turn.until_stopped(clusters).collect();
        let clusters = clusters.map_err(ListError::Stopped)?;
        let body = cluster_list(clusters.into_iter().map(AsRef::as_ref)).map_err(ListError::Breach)?;
        let reply = Reply::new(&body);
        let mut lists = self.lists.lock().expect("not poisoned");
        if lists.len() >= MOST_KEPT {
            lists.clear();
        }
        lists.insert(query.clone(), (state, reply.clone()));
        Ok(reply)
    }
}

/// The shard of a cluster: FNV-1a over its id. Fixed for good, since a cluster that changes its shard is garbage-collected
/// by the old one's provider.
pub fn shard_of(id: &str, parts: u32) -> u32 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u32::try_from(hash % u64::from(parts)).expect("less than parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_never_move() {
        assert_eq!(shard_of("demo-cluster-01", 4), 3);
        assert_eq!(shard_of("us-east-prod-01", 4), 3);
        assert_eq!(shard_of("", 7), 2);
    }
}
