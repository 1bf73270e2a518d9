//! Checks that a store is unchanged since it was written.

use std::fmt;

use fleet::audit::{Audit, Broken, Sum};
use fleet::log::{Head, Revision};
use store::{Export, MOST_PROBLEMS, Store, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("DATABASE_URL: {0}")]
    Broken(#[from] Broken),
    #[error("DATABASE_URL: {}", lines(.0))]
    Damaged(Vec<String>),
}

/// One problem, or a line for each of several.
fn lines(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => {
            let count = match many.len() {
                MOST_PROBLEMS.. => format!("{MOST_PROBLEMS} problems or more"),
                count => format!("{count} problems"),
            };
            let lines = many.iter().map(|line| format!("\n  {line}"));
            count + &lines.collect::<String>()
        }
    }
}

/// A store that is intact.
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
            (_, Revision::ZERO) => return f.write_str("the store is empty"),
            (Revision::ZERO, last) => write!(f, "revisions 1 to {last} are unchanged")?,
            (begins, last) => write!(
                f,
                "revisions {} to {last}, after the checkpoint at {begins}, are unchanged",
                begins.next()
            )?,
        }
        write!(f, ", and the {resources} resources match them")
    }
}

/// Checks rows, indexes, log and state, and reports every problem. The anchors are heads that were recorded earlier.
pub async fn verify(store: &dyn Store, anchors: &[Head]) -> Result<Verified, VerifyError> {
    let mut problems = store.check().await?;
    let mut found = Vec::new();
    match try_walk(store, anchors, &mut found).await {
        Ok(sum) if problems.is_empty() && found.is_empty() => return Ok(Verified(sum)),
        // A row that cannot be read is among the problems of the check already.
        Err(VerifyError::Store(StoreError::Corrupt { .. })) if !problems.is_empty() => {}
        Err(VerifyError::Broken(broken)) => found.push(broken),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    problems.extend(found.iter().map(ToString::to_string));
    problems.truncate(MOST_PROBLEMS);
    Err(VerifyError::Damaged(problems))
}

/// Compares log and state to the end, and adds every problem to `found`.
async fn try_walk(store: &dyn Store, anchors: &[Head], found: &mut Vec<Broken>) -> Result<Sum, VerifyError> {
    let mut export = store.export().await?;
    let checkpoint = export.checkpoint();
    let begins = checkpoint.map(|checkpoint| checkpoint.head).unwrap_or_default();
    let mut audit = Audit::new(begins, anchors)?;
    loop {
        let records = export.revisions().await?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            audit.try_record(record, found);
        }
        found.truncate(MOST_PROBLEMS);
    }
    loop {
        let resources = export.resources().await?;
        if resources.is_empty() {
            break;
        }
        found.extend(resources.iter().filter_map(|resource| audit.resource(resource).err()));
        found.truncate(MOST_PROBLEMS);
    }
    let sum = audit.try_end(found);
    if found.is_empty() {
        sum.compare(checkpoint)?;
        if sum.head != export.head() {
            found.push(Broken::Missing {
                expected: export.head().revision,
                found: sum.head.revision,
            });
        }
    }
    Ok(sum)
}

/// Compares log and state up to the first problem. Also sums up the log that would be left after the revision `cut`.
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
