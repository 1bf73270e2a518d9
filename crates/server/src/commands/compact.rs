use std::time::Duration;

use clap::Args;
use fleet::log::Revision;

use super::{Failure, output, store};
use crate::app::compact::{Old, compact};
use crate::config::{Options, values};

/// Replace old revisions by a checkpoint that carries the digest of their chain; works beside a running server.
///
/// Requests for the old revisions get 410 from then on. Revisions that the removal budget still counts are kept (set
/// REMOVAL_WINDOW as the server has it). The database file does not shrink: later revisions reuse the space.
#[derive(Args, Debug)]
pub(super) struct Compact {
    /// The first revision to keep.
    #[arg(
        long,
        value_name = "REVISION",
        required_unless_present = "older_than",
        conflicts_with = "older_than"
    )]
    before: Option<u64>,
    /// Keep revisions younger than this: a number and its unit, as in 400d, 36h.
    #[arg(long, value_name = "AGE", value_parser = values::age)]
    older_than: Option<Duration>,
}

impl Compact {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let (config, store) = store::open_for_writing(options).await?;
        let old = match self.older_than {
            Some(age) => Old::Than(age),
            None => Old::Before(Revision(self.before.unwrap_or_default())),
        };
        let outcome = compact(&*store, old, config.budget).await;
        store.close().await;
        output::print(format_args!("{}\n", outcome?))
    }
}
