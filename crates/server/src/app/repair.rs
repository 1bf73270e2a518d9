//! Restores damaged rows from the log.

use std::fmt;

use fleet::snapshot::unique_of;
use store::{Repair, Store, StoreError};

use super::verify::{Verified, VerifyError, verify};

#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error(
        "DATABASE_URL: the log cannot restore {}; nothing was changed; restore a backup{}",
        places(.0.lost.len()),
        lines(&.0.lost)
    )]
    Lost(Repair),
    #[error("{0}; the damaged rows were restored from the log, but more is wrong: restore a backup")]
    Verify(#[from] VerifyError),
}

fn places(count: usize) -> String {
    format!("{count} damaged place{}", if count == 1 { "" } else { "s" })
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// What a repair did, or would do.
#[derive(Debug)]
pub struct Repaired {
    repair: Repair,
    /// The store afterwards, if the repair was applied.
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
            None => writeln!(f, "nothing was changed; use --apply to do this"),
        }
    }
}

/// Restores damaged rows, or only lists them.
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
