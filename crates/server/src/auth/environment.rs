//! The tokens of variables and files, compared in constant time, reloaded when the files change.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use fleet::identity::Role;
use fleet::log::Digest;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tracing::{info, warn};

use super::source::{self, Entry};
use crate::config::{Config, ConfigErrors, Mode, TokenSource};

const ADMINS: &str = "CRUD_AUTH_TOKEN is not set, so whoever has AUTH_TOKEN is an admin, as is every cluster that polls with it: set \
                      CRUD_AUTH_TOKEN, so that AUTH_TOKEN only reads";

#[derive(PartialEq, Eq)]
struct Token {
    digest: Digest,
    owner: Owner,
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub name: Arc<str>,
    pub role: Role,
}

/// The owner of a token, where it is kept: every poll with a shared token finds the same one, and counting references to it would
/// make the threads that answer polls wait for each other.
pub struct Found {
    tokens: Guard<Arc<Vec<Token>>>,
    at: usize,
}

impl Deref for Found {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.tokens[self.at].owner
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Owner::fmt(self, f)
    }
}

/// The tokens of the variables and files.
struct Loaded {
    tokens: Vec<Token>,
    /// Tokens that work but should be changed, one line each. Never contains a token.
    warnings: Vec<String>,
}

/// Compares in constant time, by words: `subtle` compares slices by bytes.
fn equal(one: &Digest, other: &Digest) -> Choice {
    let differences = one.0.as_chunks().0.iter().zip(other.0.as_chunks().0);
    let all = differences.fold(0, |all, (a, b)| all | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)));
    all.ct_eq(&0)
}

/// The tokens of the environment that are in force.
pub struct Environment {
    current: ArcSwap<Vec<Token>>,
    read: TokenSource,
    /// The role of the tokens for reading.
    read_role: Role,
    write: Option<TokenSource>,
    /// The warnings of the tokens in force, so that each is logged once.
    warned: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

impl Environment {
    /// Reads the tokens that the configuration names.
    pub fn load(config: &Config) -> Result<Environment, ConfigErrors> {
        let tokens = Environment {
            current: ArcSwap::default(),
            read: config.read_tokens.clone(),
            // Without CRUD_AUTH_TOKEN, the tokens for reading may write, where there is something to write.
            read_role: match (config.mode, &config.write_tokens) {
                (Mode::Crud, None) => Role::Admin,
                _ => Role::Reader,
            },
            write: config.write_tokens.clone(),
            warned: Mutex::default(),
        };
        let loaded = tokens.read_sources()?;
        tokens.current.store(Arc::new(loaded.tokens));
        *tokens.warned() = loaded.warnings;
        Ok(tokens)
    }

    /// Logs the warnings of the tokens in force.
    pub fn log_warnings(&self) {
        for warning in self.warned().iter() {
            warn!("{warning}");
        }
    }

    fn warned(&self) -> MutexGuard<'_, Vec<String>> {
        self.warned.lock().expect("not poisoned")
    }

    fn read_sources(&self) -> Result<Loaded, ConfigErrors> {
        let mut problems = ConfigErrors::default();
        let variables = ["AUTH_TOKEN", "AUTH_TOKEN_FILE"];
        let mut entries = source::read(variables, &self.read, self.read_role, &mut problems);
        if let Some(write) = &self.write {
            let variables = ["CRUD_AUTH_TOKEN", "CRUD_AUTH_TOKEN_FILE"];
            entries.extend(source::read(variables, write, Role::Admin, &mut problems));
        }
        problems.into_result()?;
        let mut warnings = source::warnings(&entries);
        if self.read_role == Role::Admin && !entries.is_empty() {
            warnings.push(ADMINS.to_owned());
        }
        let tokens = entries
            .into_iter()
            .map(|Entry { digest, owner, .. }| Token { digest, owner });
        Ok(Loaded {
            tokens: tokens.collect(),
            warnings,
        })
    }

    /// Replaces the tokens, and logs each new warning.
    fn put_in_force(&self, loaded: Loaded) {
        // First, so that whoever reads the log finds it in force.
        self.current.store(Arc::new(loaded.tokens));
        let mut warned = self.warned();
        for warning in loaded.warnings.iter().filter(|warning| !warned.contains(warning)) {
            warn!("{warning}");
        }
        *warned = loaded.warnings;
    }

    /// The owner of the token with this digest. Compares every token, so that the time reveals nothing. If a token is listed twice, the last entry
    /// counts: that is the one that may write.
    pub fn owner(&self, digest: &Digest) -> Option<Found> {
        let tokens = self.current.load();
        let mut found = u32::MAX;
        for (n, candidate) in (0u32..).zip(tokens.iter()) {
            let equal = equal(&candidate.digest, digest);
            found = u32::conditional_select(&found, &n, equal);
        }
        let at = usize::try_from(found).ok()?;
        (at < tokens.len()).then_some(Found { tokens, at })
    }

    /// Reloads the token files whenever they change. While a file cannot be used, the tokens stay as they are.
    pub async fn follow(self: Arc<Self>) {
        const EVERY: Duration = Duration::from_secs(1);
        let files: Vec<_> = [Some(&self.read), self.write.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|s| s.file.clone())
            .collect();
        if files.is_empty() {
            return;
        }
        let mut logged = None;
        loop {
            tokio::time::sleep(EVERY).await;
            // On a blocking thread: a file may be on a mount that hangs.
            let this = self.clone();
            let Ok(loaded) = tokio::task::spawn_blocking(move || this.read_sources()).await else {
                return;
            };
            match loaded {
                Ok(loaded) => {
                    logged = None;
                    if loaded.tokens != **self.current.load() {
                        info!(tokens = loaded.tokens.len(), "token files changed");
                        self.put_in_force(loaded);
                    }
                }
                Err(errors) if logged.as_ref() != Some(&errors) => {
                    for error in errors.iter() {
                        warn!(%error, "keeping the tokens in force");
                    }
                    logged = Some(errors);
                }
                Err(_) => {}
            }
        }
    }
}
