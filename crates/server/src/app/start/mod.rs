//! From a configuration to a fleet that can be served. Each step has a file:
//!
//! 1. `open` opens the store.
//! 2. `first_revision` fills an empty store with the kinds (`kind_files`) and the seed (`seed`).
//! 3. `prepare` loads the fleet and reports damage.
//! 4. `update_kinds` applies kind files that changed since they were last applied.

mod error;
mod first_revision;
mod kind_files;
mod open;
mod prepare;
mod seed;
mod update_kinds;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::budget::Recent;
use fleet::log::Head;
use store::{Postgres, Store, StoreError};
use tracing::{info, warn};

pub use self::error::StartError;
pub use self::kind_files::{check_kind_files, fleet_of_files};
pub use self::open::{access, open_existing_store, open_expected_store, open_store, refuse_unexpected, store_exists};
pub use self::prepare::prepare;
use super::engine;
use super::snapshot_file::{self, Saved};
use crate::config::{Backend, Config, Mode};

/// The actor of the server's own writes.
pub const SYSTEM: &str = "system";

/// How long to wait before an unavailable store is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// An attempt that took longer than this reached a slow database rather than none.
const SLOW: Duration = Duration::from_secs(2);
/// How many slow attempts are allowed.
const SLOW_ATTEMPTS: usize = 5;

/// What a server starts with.
#[derive(Debug)]
pub struct Started {
    pub store: Arc<dyn Store>,
    pub fleet: Fleet,
    /// Ok: the fleet is current, with the removals that still count towards the budget. Err: the store is unavailable, and the
    /// fleet is a copy of this age.
    pub reached: Result<Recent, Duration>,
}

/// Opens the store and loads the fleet, and waits where waiting can help:
///
/// - A read-only server waits for a server in crud mode to create and fill a PostgreSQL database.
/// - A server that has a SNAPSHOT_FILE waits for a database that is unavailable, or starts from the file if ALLOW_STALE_START
///   says so.
///
/// Every other problem is returned at once.
pub async fn start(config: &Config) -> Result<Started, StartError> {
    let mut saved = None;
    let mut slow_attempts = 0;
    let mut has_warned = false;
    loop {
        let begun = Instant::now();
        let error = match try_start(config).await {
            Err(StartError::Store(error)) if config.backend == Backend::Postgres => error,
            result => return result,
        };
        let may_wait = match &error {
            StoreError::NotReady { .. } => config.mode == Mode::ReadOnly,
            StoreError::Unavailable { .. } => {
                // When many replicas start at once the database is only slow: it gets more attempts than one that is not there.
                let is_slow = begun.elapsed() > SLOW;
                slow_attempts += usize::from(is_slow);
                saved = saved.or_else(|| read_snapshot_file(config));
                saved.is_some() || (is_slow && slow_attempts < SLOW_ATTEMPTS)
            }
            _ => false,
        };
        if !may_wait {
            return Err(error.into());
        }
        if config.allow_stale_start
            && let Some(saved) = saved.take()
        {
            return start_from_file(config, saved, &error);
        }
        if !std::mem::replace(&mut has_warned, true) {
            warn!(%error, "waiting for the store");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Starts on the fleet of SNAPSHOT_FILE. The engine connects to the store when it is available again.
fn start_from_file(config: &Config, saved: Saved, error: &StoreError) -> Result<Started, StartError> {
    let Saved { fleet, age } = saved;
    warn!(%error, head = %fleet.head(), age_seconds = age.as_secs(), "starting from SNAPSHOT_FILE");
    let store = Arc::new(Postgres::later(&config.database_url, open::access(config))?);
    tokio::spawn(catch_up(config.clone()));
    Ok(Started {
        store,
        fleet,
        reached: Err(age),
    })
}

/// One attempt, without waiting.
async fn try_start(config: &Config) -> Result<Started, StartError> {
    let store = open_expected_store(config).await?;
    match start_on(config, store.clone()).await {
        Ok(started) => Ok(started),
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn start_on(config: &Config, store: Arc<dyn Store>) -> Result<Started, StartError> {
    if config.backend != Backend::Memory && store.head().await? == Head::default() {
        // The database may have been lost. Filled with the seed, it would tell clusters to remove what they run.
        if let Some(saved) = read_snapshot_file(config) {
            return Err(StartError::Emptied(saved.fleet.revision()));
        }
        first_revision::fill_on_own_thread(config.clone()).await?;
    }
    let fleet = prepare(config, &*store, true).await?;
    let recent = engine::recent_removals(&*store, config.budget).await?;
    Ok(Started {
        store,
        fleet,
        reached: Ok(recent),
    })
}

/// The fleet of SNAPSHOT_FILE. A file that cannot be read counts as none.
fn read_snapshot_file(config: &Config) -> Option<Saved> {
    let path = config.snapshot_file.as_deref()?;
    snapshot_file::read(path)
        .inspect_err(|error| warn!(%error, "SNAPSHOT_FILE cannot be used"))
        .ok()
        .flatten()
}

/// After a start from SNAPSHOT_FILE: does what a start does on the store (schema, kind files) as soon as it is available. The
/// engine follows these writes like those of any other process.
async fn catch_up(config: Config) {
    loop {
        match try_start(&config).await {
            Ok(started) => {
                info!("reached the store");
                return started.store.close().await;
            }
            Err(StartError::Store(StoreError::Unavailable { .. } | StoreError::NotReady { .. })) => {
                tokio::time::sleep(RETRY_AFTER).await;
            }
            Err(error) => {
                warn!(%error, "the store is available again, but cannot be used: restart this replica");
                return;
            }
        }
    }
}
