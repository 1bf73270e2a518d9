use clap::Args;

use super::{Failure, output, store};
use crate::app::repair::repair;
use crate::config::Options;

/// Restore damaged rows of the store from its log. Without --apply, only list what would be done.
///
/// Writes damaged, lost and outdated rows again from the log, removes rows that the log says are deleted, and rebuilds indexes,
/// in one transaction: everything or nothing. Verifies at the end. Exits with 1 when something cannot be restored, and lists it:
/// then restore a backup.
#[derive(Args, Debug)]
pub(super) struct Repair {
    /// Apply the repair. Stop the servers that write to the store first.
    #[arg(long)]
    apply: bool,
}

impl Repair {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let store = match self.apply {
            true => store::open_for_writing(options).await?.1,
            false => store::open_for_reading(options).await?,
        };
        let outcome = repair(&*store, self.apply).await;
        store.close().await;
        output::print(format_args!("{}", outcome?))
    }
}
