//! Whether a store is what was written.

use std::fmt;

use fleet::audit::{Audit, Broken, Sum};
use fleet::log::{Head, Revision};
use store::{Export, Store, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("DATABASE_URL: {0}")]
    Broken(#[from] Broken),
}

/// A store that holds what it should.
#[derive(Clone, Copy, Debug)]
pub struct Verified(pub Sum);

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sum {
            begins,
            head,
            resources,
            ..
        } = self.0;
        write!(f, "verified {head}: ")?;
        match (begins.revision, head.revision) {
            (_, Revision::ZERO) => return f.write_str("there is nothing yet"),
            (Revision::ZERO, last) => write!(f, "revisions 1 to {last} are what was written")?,
            (begins, last) => write!(
                f,
                "revisions {} to {last} are what was written after the checkpoint at {begins}",
                begins.next()
            )?,
        }
        write!(f, ", and the {resources} resources what they add up to")
    }
}

/// Goes through log and state. The anchors are heads that somebody noted.
pub async fn verify(store: &dyn Store, anchors: &[Head]) -> Result<Verified, VerifyError> {
    let mut export = store.export().await?;
    let (whole, _) = walk(&mut *export, anchors, None).await?;
    Ok(Verified(whole))
}

/// Does so, and sums up besides what would be left if the log began after `cut`.
pub(super) async fn walk(
    export: &mut dyn Export,
    anchors: &[Head],
    cut: Option<Revision>,
) -> Result<(Sum, Option<Sum>), VerifyError> {
    let checkpoint = export.checkpoint();
    let begins = checkpoint.map(|checkpoint| checkpoint.head).unwrap_or_default();
    let mut whole = Audit::new(begins, anchors)?;
    let mut left: Option<Audit> = None;
    loop {
        let records = export.revisions().await?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            whole.record(record)?;
            match &mut left {
                Some(left) => left.record(record)?,
                None if cut == Some(record.revision) => left = Some(Audit::new(record.head(), &[])?),
                None => {}
            }
        }
    }
    loop {
        let resources = export.resources().await?;
        if resources.is_empty() {
            break;
        }
        for resource in &resources {
            whole.resource(resource)?;
            if let Some(left) = &mut left {
                left.resource(resource)?;
            }
        }
    }
    let whole = whole.end()?;
    whole.compare(checkpoint)?;
    Ok((whole, left.map(Audit::end).transpose()?))
}
