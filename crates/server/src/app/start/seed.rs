//! The seed: the fleet that an empty store is filled with.

use std::io;
use std::path::{Path, PathBuf};

use fleet::refusal::Violation;
use tracing::warn;

use super::error::operation_of;
use crate::config::{Config, ConfigError, Seed};

/// The text of SEED_FILE.
pub(super) struct SeedFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SeedFile {
    /// Reads the file. None: the default file does not exist.
    pub(super) fn read(config: &Config) -> Result<Option<SeedFile>, ConfigError> {
        let path = config.seed.path();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(SeedFile {
                path: path.to_owned(),
                text,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound && matches!(config.seed, Seed::Default(_)) => {
                warn!(
                    "SEED_FILE: {} does not exist: starting with an empty fleet",
                    path.display()
                );
                Ok(None)
            }
            Err(error) => Err(seed_error(path, &[Violation::new("", error.to_string())])),
        }
    }

    pub(super) fn error(&self, errors: &[Violation]) -> ConfigError {
        seed_error(&self.path, errors)
    }
}

/// A store that is in use needs no seed, but a wrong path may surprise when the next store is empty.
pub(super) fn warn_if_missing(config: &Config) {
    if let Seed::Named(path) = &config.seed
        && !path.exists()
    {
        warn!(
            "SEED_FILE: {} does not exist; it is not needed, because the store already holds a fleet",
            path.display()
        );
    }
}

fn seed_error(path: &Path, errors: &[Violation]) -> ConfigError {
    ConfigError::in_file("SEED_FILE", path.display(), errors)
}

/// Names the place in the seed instead of the number of the operation.
pub(super) fn locate(mut error: Violation, place: impl Fn(usize) -> Option<String>) -> Violation {
    if let Some((n, rest)) = operation_of(&error.pointer)
        && let Some(place) = place(n)
    {
        error.pointer = format!("{place}{rest}");
    }
    error
}
