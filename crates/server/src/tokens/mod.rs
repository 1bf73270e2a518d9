//! Bearer tokens: what each allows, compared in constant time, reloaded when their files change.

mod source;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tracing::{info, warn};

use self::source::Entry;
use crate::config::{Config, ConfigErrors, TokenSource};

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    Read,
    Write,
}

/// The owner of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub name: Arc<str>,
    pub right: Right,
}

#[derive(PartialEq, Eq)]
struct Token {
    digest: [u8; 32],
    actor: Actor,
}

/// The tokens of the variables and files.
struct Loaded {
    tokens: Vec<Token>,
    /// Tokens that work but should be changed, one line each. Never contains a token.
    warnings: Vec<String>,
}

/// The tokens in force.
pub struct Tokens {
    current: ArcSwap<Vec<Token>>,
    read: TokenSource,
    write: Option<TokenSource>,
    /// The warnings of the tokens in force, so that each is logged once.
    warned: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    /// Reads the tokens that the configuration names.
    pub fn load(config: &Config) -> Result<Tokens, ConfigErrors> {
        let tokens = Tokens {
            current: ArcSwap::default(),
            read: config.read_tokens.clone(),
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
        // Without CRUD_AUTH_TOKEN, the tokens for reading may write.
        let right = if self.write.is_some() {
            Right::Read
        } else {
            Right::Write
        };
        let mut problems = ConfigErrors::default();
        let mut entries = source::read(["AUTH_TOKEN", "AUTH_TOKEN_FILE"], &self.read, right, &mut problems);
        if let Some(write) = &self.write {
            let variables = ["CRUD_AUTH_TOKEN", "CRUD_AUTH_TOKEN_FILE"];
            entries.extend(source::read(variables, write, Right::Write, &mut problems));
        }
        problems.into_result()?;
        let warnings = source::warnings(&entries);
        let tokens = entries
            .into_iter()
            .map(|Entry { digest, actor, .. }| Token { digest, actor });
        Ok(Loaded {
            tokens: tokens.collect(),
            warnings,
        })
    }

    /// Replaces the tokens, and logs each new warning.
    fn put_in_force(&self, loaded: Loaded) {
        let mut warned = self.warned();
        for warning in loaded.warnings.iter().filter(|warning| !warned.contains(warning)) {
            warn!("{warning}");
        }
        *warned = loaded.warnings;
        self.current.store(Arc::new(loaded.tokens));
    }

    /// The owner of a token. Compares every token, so that the time reveals nothing. If a token is listed twice, the last entry
    /// counts: that is the one that may write.
    pub fn check(&self, token: &[u8]) -> Option<Actor> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let tokens = self.current.load();
        let mut found = u32::MAX;
        for (n, candidate) in (0u32..).zip(tokens.iter()) {
            let equal: Choice = candidate.digest.ct_eq(&digest);
            found = u32::conditional_select(&found, &n, equal);
        }
        tokens
            .get(usize::try_from(found).ok()?)
            .map(|token| token.actor.clone())
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
