use clap::Args;

use super::{Failure, serve};
use crate::config::{MirrorOptions, Options};

/// Serve a copy of another server's fleet and follow its changes: for edge and air-gapped sites.
///
/// The copy starts from the origin's GET /backup and follows its GET /changes/stream, or comes from backup files. It is stored in
/// DATABASE_URL, so that a restart needs no origin. The mirror serves nothing before it has a first copy, and never an older state
/// than before, unless `--replace` allows it. Replies and ETags are those of the origin, byte for byte.
#[derive(Args, Debug)]
pub(super) struct Mirror {
    #[command(flatten)]
    mirror: MirrorOptions,
}

impl Mirror {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        serve::run(options, Some(&self.mirror)).await
    }
}
