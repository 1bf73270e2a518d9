use std::path::PathBuf;

use clap::Args;

use super::{Failure, output, store};
use crate::app::backup::backup;
use crate::config::Options;

/// Write the fleet and its history to a file of JSON lines; works beside a running server.
#[derive(Args, Debug)]
pub(super) struct Backup {
    /// The file, compressed if its name ends in .gz; `-` writes standard output.
    file: PathBuf,
}

impl Backup {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let store = store::open_for_reading(options).await?;
        let outcome = backup(&*store, &self.file).await;
        store.close().await;
        let end = outcome?;
        let (file, revisions, resources) = (self.file.display(), end.revisions, end.resources);
        output::report(format_args!(
            "wrote {revisions} revisions and {resources} resources at {} to {file}",
            end.head
        ));
        Ok(())
    }
}
