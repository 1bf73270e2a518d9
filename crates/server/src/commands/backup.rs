use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failure, output, store};
use crate::app::backup::{BackupError, backup, folder};
use crate::config::Options;

/// Write the fleet and its history to a file of JSON lines; works beside a running server.
#[derive(Args, Debug)]
pub(super) struct Backup {
    /// The file, compressed if its name ends in .gz; `-` writes standard output. In a folder, the file is named by the time.
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// In a folder: keep this many of the latest backups, and remove the older ones once the new one is complete.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

impl Backup {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let is_folder = self.file.is_dir();
        if self.keep.is_some() && !is_folder {
            return Err(BackupError::NoFolder(self.file.clone()).into());
        }
        let target = match is_folder {
            true => folder::file_in(&self.file),
            false => self.file.clone(),
        };
        let store = store::open_for_reading(options).await?;
        let outcome = backup(&*store, &target).await;
        store.close().await;
        let end = outcome?;
        let (file, revisions, resources) = (target.display(), end.revisions, end.resources);
        output::report(format_args!(
            "wrote {revisions} revisions and {resources} resources at {} to {file}",
            end.head
        ));
        match self.keep {
            Some(keep) => prune(&self.file, keep),
            None => Ok(()),
        }
    }
}

fn prune(folder: &Path, keep: u32) -> Result<(), Failure> {
    for removed in folder::prune(folder, keep)? {
        output::report(format_args!("removed {}", removed.display()));
    }
    Ok(())
}
