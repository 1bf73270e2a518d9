use std::path::PathBuf;

use clap::Args;

use super::{Failure, store};
use crate::app::import::import;
use crate::config::Options;

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
        let offline = store::open_offline(options, problem).await?;
        let batch = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let outcome = import(&offline.engine, &self.file, batch).await;
        offline.close().await;
        outcome?;
        Ok(())
    }
}
