//! The use cases, apart from how they are asked for.

pub mod engine;
pub mod import;
pub mod startup;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fleet::Fleet;
use fleet::inputs::{Breach, Reply, cluster_list};
use fleet::kind::Kinds;
use fleet::log::{Author, Head};
use fleet::operation::Operation;
use fleet::selector::{Selector, SelectorError};
use fleet::write::{Outcome, Rules};
use store::Store;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::engine::{Engine, Status, WriteError, Written};
use crate::config::{Config, Mode};
use crate::http::openapi;
use crate::metrics::Metrics;
use crate::tokens::Tokens;

/// How many reads of the whole fleet or log run at a time.
const HEAVY_READS: usize = 4;

/// What every request can reach.
#[derive(Debug)]
pub struct App {
    pub mode: Mode,
    pub tokens: Arc<Tokens>,
    pub metrics: Arc<Metrics>,
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    /// What is served at /openapi.yaml instead of what the kinds give.
    pub openapi_file: Option<Bytes>,
    /// Reads that go through the whole fleet or log: few at a time, so that they hold neither the memory nor the workers.
    heavy: Semaphore,
    lists: Mutex<HashMap<ListQuery, (Head, Reply)>>,
    openapi: Mutex<Option<(Arc<Kinds>, Bytes)>>,
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
    ) -> Self {
        App {
            mode: config.mode,
            tokens,
            metrics,
            engine,
            store,
            openapi_file: None,
            heavy: Semaphore::new(HEAVY_READS),
            lists: Mutex::default(),
            openapi: Mutex::default(),
        }
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        self.engine.fleet()
    }

    pub fn status(&self) -> &Status {
        self.engine.status()
    }

    /// Commits operations as one revision; returns once that is durable and served.
    pub async fn write(&self, operations: Vec<Operation>, rules: Rules, author: Author) -> Result<Written, WriteError> {
        let written = self.engine.write(operations, rules, author, Vec::new()).await;
        if let Err(WriteError::Refused(refusal)) = &written {
            let labels = crate::metrics::ReasonLabels {
                reason: crate::http::problem::name_of(refusal.reason),
            };
            self.metrics.refusals.get_or_create(&labels).inc();
        }
        written
    }

    /// What the same would do, on the fleet as it is now. Nothing is stored.
    pub async fn dry_run(&self, operations: Vec<Operation>, rules: Rules) -> Result<(Arc<Fleet>, Outcome), WriteError> {
        let base = self.fleet();
        let fleet = base.clone();
        let judging = tokio::task::spawn_blocking(move || fleet.write(&operations, rules));
        match judging.await {
            Ok(outcome) => Ok((base, outcome.map_err(WriteError::Refused)?)),
            Err(_) => {
                tracing::error!("judging a dry run panicked");
                Err(WriteError::Internal)
            }
        }
    }

    /// Waits for a place among the reads that take long.
    pub async fn heavy(&self) -> SemaphorePermit<'_> {
        self.heavy.acquire().await.expect("never closed")
    }

    /// Runs a read that takes long away from the threads that answer polls. None: it panicked.
    pub async fn read<T: Send + 'static>(self: &Arc<Self>, read: impl FnOnce(&App) -> T + Send + 'static) -> Option<T> {
        let _place = self.heavy().await;
        let app = self.clone();
        tokio::task::spawn_blocking(move || read(&app)).await.ok()
    }

    /// The OpenAPI document, made once for each state of the kinds: anybody may ask for it, as often as they like.
    pub fn openapi(&self) -> Bytes {
        if let Some(text) = &self.openapi_file {
            return text.clone();
        }
        let kinds = self.fleet().kinds().clone();
        let mut kept = self.openapi.lock().expect("not poisoned");
        match &*kept {
            Some((of, text)) if Arc::ptr_eq(of, &kinds) => text.clone(),
            _ => {
                let text = Bytes::from(fleet::yaml::write(&openapi::document(&kinds, self.mode)));
                *kept = Some((kinds, text.clone()));
                text
            }
        }
    }

    /// The list of clusters for provisioners, made once for each state of the clusters.
    pub fn cluster_list(&self, query: &ListQuery) -> Result<Reply, ListError> {
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
        let clusters = fleet.clusters().values().filter(|cluster| {
            let environment = query.environment.as_deref();
            environment.is_none_or(|environment| &*cluster.head().environment == environment)
                && query
                    .shard
                    .is_none_or(|(part, parts)| shard_of(&cluster.document().id, parts) == part)
                && selector
                    .as_ref()
                    .is_none_or(|selector| kind.is_some_and(|kind| selector.matches(kind, cluster)))
        });
        let body = cluster_list(clusters.map(AsRef::as_ref)).map_err(ListError::Breach)?;
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
