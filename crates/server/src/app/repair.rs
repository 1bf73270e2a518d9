//! Restoring damaged rows from the log.

use std::fmt;

use fleet::snapshot::unique_of;
use store::{Repair, Store, StoreError};

use super::verify::{Verified, VerifyError, verify};

#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error(
        "DATABASE_URL: {} cannot be restored from the log, so nothing was changed; restore a backup{}",
        places(.0.lost.len()),
        lines(&.0.lost)
    )]
    Lost(Repair),
    #[error("{0}; what the log has was restored, and more is wrong: restore a backup")]
    Verify(#[from] VerifyError),
}

fn places(count: usize) -> String {
    format!("{count} damaged place{}", if count == 1 { "" } else { "s" })
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// What was done, or would be.
#[derive(Debug)]
pub struct Repaired {
    repair: Repair,
    /// What the store is afterwards, if something was done.
    verified: Option<Verified>,
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repair { steps, problems, .. } = &self.repair;
        for line in steps {
            writeln!(f, "{line}")?;
        }
        for line in problems {
            writeln!(f, "rebuild indexes: {line}")?;
        }
        match &self.verified {
            Some(verified) => writeln!(f, "{verified}"),
            None if steps.is_empty() && problems.is_empty() => writeln!(f, "nothing to repair at {}", self.repair.head),
            None => writeln!(f, "nothing was changed; --apply does this"),
        }
    }
}

/// Restores what is damaged, or says what that would do.
pub async fn repair(store: &dyn Store, apply: bool) -> Result<Repaired, RepairError> {
    let repair = store.repair(apply, unique_of).await?;
    if !repair.lost.is_empty() {
        return Err(RepairError::Lost(repair));
    }
    let verified = match apply {
        true => Some(verify(store, &[]).await?),
        false => None,
    };
    Ok(Repaired { repair, verified })
}
