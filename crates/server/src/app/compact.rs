//! Replaces old revisions by a checkpoint.

use std::fmt;
use std::time::Duration;

use fleet::log::{Checkpoint, Head, Revision};
use store::{CommitError, Store, StoreError};

use super::verify::{VerifyError, walk};
use crate::config::Budget;

/// Which revisions to remove.
#[derive(Clone, Copy, Debug)]
pub enum Old {
    Before(Revision),
    Than(Duration),
}

#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    /// A damaged log is kept: it may be needed to find the cause.
    #[error("{0}; nothing was compacted")]
    Verify(#[from] VerifyError),
    #[error("--before: there is no revision {wanted}; the log ends at {last}")]
    NotYet { wanted: Revision, last: Revision },
    #[error(
        "--before: the removal budget still counts revision {0}, which removed something from clusters within REMOVAL_WINDOW; use --before {0} or less"
    )]
    Counted(Revision),
    #[error("DATABASE_URL: another process compacted or replaced the log meanwhile; try again")]
    Conflict,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug)]
pub enum Compacted {
    Nothing {
        begins: Revision,
    },
    Until {
        first: Revision,
        checkpoint: Checkpoint,
        head: Head,
    },
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compacted::Nothing { begins } => {
                write!(f, "nothing to compact: the log begins with revision {}", begins.next())
            }
            Compacted::Until {
                first,
                checkpoint,
                head,
            } => {
                let last = checkpoint.head.revision;
                write!(
                    f,
                    "compacted revisions {first} to {last} into the checkpoint {}; {} to {} are kept",
                    checkpoint.head,
                    last.next(),
                    head.revision
                )
            }
        }
    }
}

/// Replaces old revisions by a checkpoint, after the whole log was verified.
pub async fn compact(store: &dyn Store, old: Old, budget: Budget) -> Result<Compacted, CompactError> {
    let head = store.head().await?;
    let there = store.checkpoint().await?;
    let begins = there.map(|checkpoint| checkpoint.head.revision).unwrap_or_default();
    let now = crate::now();
    // The last revision always stays: the next one continues its digest.
    let mut first_kept = match old {
        Old::Before(wanted) if wanted > head.revision => {
            return Err(CompactError::NotYet {
                wanted,
                last: head.revision,
            });
        }
        Old::Before(wanted) => wanted,
        Old::Than(age) => store
            .first_since(&crate::before(&now, age), false)
            .await?
            .unwrap_or(head.revision),
    };
    if budget.clusters.is_some() {
        let since = crate::before(&now, budget.window);
        match (store.first_since(&since, true).await?, old) {
            (Some(counted), Old::Before(_)) if counted < first_kept => return Err(CompactError::Counted(counted)),
            (Some(counted), Old::Than(_)) => first_kept = first_kept.min(counted),
            _ => {}
        }
    }
    let until = Revision(first_kept.0.saturating_sub(1));
    let failed = |error| match error {
        CommitError::Store(error) => CompactError::Store(error),
        _ => CompactError::Conflict,
    };
    if until <= begins {
        if let Some(there) = there {
            // The compaction that made it may have been interrupted: finish it.
            store.compact(there).await.map_err(failed)?;
        }
        return Ok(Compacted::Nothing { begins });
    }
    let (_, left) = walk(&mut *store.export().await?, &[], Some(until)).await?;
    let left = left.ok_or(CompactError::Conflict)?;
    let checkpoint = Checkpoint {
        head: left.begins,
        state: left.state,
    };
    store.compact(checkpoint).await.map_err(failed)?;
    Ok(Compacted::Until {
        first: begins.next(),
        checkpoint,
        head,
    })
}
