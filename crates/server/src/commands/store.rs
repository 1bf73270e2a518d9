//! What the commands that work on a store, without a server, have in common.

use std::sync::Arc;

use store::Store;
use tokio::task::JoinHandle;
use tracing::warn;

use super::{Failure, logging};
use crate::app::engine::{self, Engine};
use crate::app::start::{self, StartError};
use crate::config::{Backend, Config, ConfigError, ConfigErrors, Mode, Options};

/// Reads the configuration, and refuses a store in memory: it exists only inside its server.
pub(super) fn read_config(options: &Options, mode: Mode, memory_problem: &str) -> Result<Config, Failure> {
    let mut problems = ConfigErrors::default();
    let mut config = options.check(&mut problems);
    // An unusable STORE_BACKEND is reported as such.
    if config.backend == Backend::Memory && options.store_backend.as_deref().is_some_and(|name| name == "memory") {
        problems.push(ConfigError::new("STORE_BACKEND", memory_problem));
    }
    problems.into_result()?;
    config.mode = mode;
    logging::start_quiet(&config, options);
    Ok(config)
}

/// The configuration of a command that works on an existing store, or fills an empty one.
pub(super) fn config_on_disk(options: &Options, mode: Mode) -> Result<Config, Failure> {
    let problem =
        "a memory store exists only inside its server: choose sqlite or postgres, or ask the server (GET /backup)";
    read_config(options, mode, problem)
}

/// A store that a command writes to as a server does.
pub(super) struct Offline {
    pub(super) engine: Engine,
    store: Arc<dyn Store>,
    task: JoinHandle<()>,
}

impl Offline {
    pub(super) async fn close(self) {
        drop(self.engine);
        let _ = self.task.await;
        self.store.close().await;
    }
}

/// Opens a store for a command that writes to it as a server does. A store that is empty gets the kinds, and no seed.
pub(super) async fn open_offline(options: &Options, memory_problem: &str) -> Result<Offline, Failure> {
    let config = read_config(options, Mode::Crud, memory_problem)?;
    let store = start::open_expected_store(&config).await.map_err(StartError::from)?;
    let fleet = start::prepare(&config, &*store, false).await?;
    let recent = engine::recent_removals(&*store, config.budget).await;
    let recent = recent.map_err(StartError::from)?;
    let (engine, task) = Engine::start(store.clone(), fleet, Arc::default(), config.budget, Ok(recent));
    Ok(Offline { engine, store, task })
}

/// Opens an existing store for a command that writes to it.
pub(super) async fn open_for_writing(options: &Options) -> Result<(Config, Arc<dyn Store>), Failure> {
    let config = config_on_disk(options, Mode::Crud)?;
    let store = start::open_existing_store(&config).await.map_err(StartError::from)?;
    start::refuse_unexpected(&config, &*store)
        .await
        .map_err(StartError::from)?;
    Ok((config, store))
}

/// Opens an existing store for a command that only reads it.
pub(super) async fn open_for_reading(options: &Options) -> Result<Arc<dyn Store>, Failure> {
    let config = config_on_disk(options, Mode::ReadOnly)?;
    let store = start::open_existing_store(&config).await.map_err(StartError::from)?;
    if let Some(detail) = store.unexpected() {
        warn!("{detail}");
    }
    Ok(store)
}
