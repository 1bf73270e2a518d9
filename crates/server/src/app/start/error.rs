//! Why a start fails.

use fleet::log::Revision;
use fleet::refusal::{Refusal, Violation};
use store::StoreError;

use crate::config::{ConfigError, ConfigErrors};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("DATABASE_URL: the stored fleet cannot be loaded: {0}")]
    State(String),
    #[error(
        "DATABASE_URL: the database is empty, but SNAPSHOT_FILE holds a fleet at revision {0}: restore a backup, or remove that file to start with an empty database"
    )]
    Emptied(Revision),
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        StartError::Config(error.into())
    }
}

/// The problems of a refusal, at least one.
pub(super) fn violations(refusal: Refusal) -> Vec<Violation> {
    match refusal.errors.is_empty() {
        true => vec![Violation::new("", refusal.detail)],
        false => refusal.errors,
    }
}

/// Splits the pointer `/operations/3/value/x` into 3 and `/x`. The kind of a document stands beside it, not in it.
pub(super) fn operation_of(pointer: &str) -> Option<(usize, &str)> {
    let rest = pointer.strip_prefix("/operations/")?;
    let (number, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let inside = rest.strip_prefix("/value").or_else(|| rest.strip_prefix("/kind"));
    Some((number.parse().ok()?, inside.unwrap_or(rest)))
}
