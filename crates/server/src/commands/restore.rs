use std::path::PathBuf;

use clap::Args;

use super::{Failure, output, store};
use crate::app::backup::restore;
use crate::app::start::{self, StartError};
use crate::config::{Mode, Options};

/// Fill the store from a backup, after its chain of digests was checked: all of it or nothing.
#[derive(Args, Debug)]
pub(super) struct Restore {
    /// The file, compressed or not; `-` reads standard input.
    file: PathBuf,
    /// Replace the store's content. Without this, the store must be empty.
    #[arg(long)]
    replace: bool,
}

impl Restore {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let config = store::config_on_disk(options, Mode::Crud)?;
        let store = start::open_store(&config).await.map_err(StartError::from)?;
        let outcome = restore(&*store, &self.file, self.replace).await;
        store.close().await;
        let done = outcome?;
        output::report(format_args!(
            "restored {} revisions and {} resources at {}",
            done.revisions, done.resources, done.head
        ));
        Ok(())
    }
}
