use std::path::PathBuf;

use ::store::{Store, StoreError};
use clap::Args;
use fleet::identity::{IDENTITIES, Identity};
use fleet::log::Revision;

use super::identity::lines;
use super::{Failure, output, store};
use crate::app::backup::{Terms, restore};
use crate::app::start::{self, StartError};
use crate::auth::now;
use crate::config::{Mode, Options};

/// Fill the store from a backup, after its chain of digests was checked: all of it or nothing.
///
/// With --replace, tokens that were revoked in the store since the backup stay revoked. Into an empty store, all tokens of the backup
/// are valid again: they are listed on standard output.
#[derive(Args, Debug)]
pub(super) struct Restore {
    /// The file, compressed or not; `-` reads standard input.
    file: PathBuf,
    /// Replace the store's content. Without this, the store must be empty.
    #[arg(long)]
    replace: bool,
    /// With --replace: make tokens valid again that were revoked since the backup, for a store that cannot be read.
    #[arg(long, requires = "replace")]
    forget_revocations: bool,
}

impl Restore {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let config = store::config_on_disk(options, Mode::Crud)?;
        let store = start::open_store(&config).await.map_err(StartError::from)?;
        let outcome = self.restore(&*store).await;
        store.close().await;
        outcome
    }

    async fn restore(&self, store: &dyn Store) -> Result<(), Failure> {
        // A store that cannot be read is not an empty one.
        let was_empty = store.head().await.is_ok_and(|head| head.revision == Revision::ZERO);
        let terms = Terms {
            replace: self.replace,
            keeps_revocations: self.replace && !self.forget_revocations && !was_empty,
            ..Terms::default()
        };
        let done = restore(store, &self.file, terms).await?;
        output::report(format_args!(
            "restored {} revisions and {} resources at {}",
            done.revisions, done.resources, done.head
        ));
        if !done.revoked.is_empty() {
            output::report(format_args!(
                "revision {} revokes again what was revoked since the backup:",
                done.head.revision
            ));
        }
        for line in &done.revoked {
            output::report(format_args!("  {line}"));
        }
        match was_empty || self.forget_revocations {
            true => list_active(store).await,
            false => Ok(()),
        }
    }
}

/// Prints the identities whose tokens are valid, so that those that must not be can be revoked.
async fn list_active(store: &dyn Store) -> Result<(), Failure> {
    let unreadable = |error: StoreError| Failure::Refused(format!("DATABASE_URL: {error}"));
    let mut export = store.export().await.map_err(unreadable)?;
    let mut tokens = 0;
    loop {
        let resources = export.resources().await.map_err(unreadable)?;
        if resources.is_empty() {
            break;
        }
        for resource in resources.iter().filter(|resource| &*resource.kind == IDENTITIES) {
            let Ok(mut identity) = serde_json::from_str::<Identity>(resource.body.as_str()) else {
                continue;
            };
            let is_over = |end: Option<fleet::identity::Time>| end.is_some_and(|end| end <= now());
            identity.tokens.retain(|token| !is_over(token.expires_at));
            if !identity.tokens.is_empty() && !is_over(identity.expires_at) {
                tokens += identity.tokens.len();
                output::print(format_args!("{}", lines(&identity)))?;
            }
        }
    }
    if tokens > 0 {
        output::report(format_args!(
            "{tokens} tokens are valid: revoke those that were revoked since the backup (flux-resourceset identity revoke)"
        ));
    }
    Ok(())
}
