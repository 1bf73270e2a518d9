use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{Failure, store};
use crate::app::engine::{self, Engine};
use crate::app::import::import;
use crate::app::start::{self, StartError};
use crate::config::{Mode, Options};

/// Load a large fleet: one JSON document per line, each with its `kind`. Adds or replaces; can be repeated.
#[derive(Args, Debug)]
pub(super) struct Import {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// The maximum number of documents in one revision.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
}

impl Import {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let problem = "a memory store would be gone when the import ends: choose sqlite or postgres";
        let config = store::read_config(options, Mode::Crud, problem)?;
        let store = start::open_expected_store(&config).await.map_err(StartError::from)?;
        let fleet = start::prepare(&config, &*store, false).await?;
        let recent = engine::recent_removals(&*store, config.budget).await;
        let recent = recent.map_err(StartError::from)?;
        let (engine, task) = Engine::start(store.clone(), fleet, Arc::default(), config.budget, Ok(recent));
        let batch = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let outcome = import(&engine, &self.file, batch).await;
        drop(engine);
        let _ = task.await;
        store.close().await;
        outcome?;
        Ok(())
    }
}
