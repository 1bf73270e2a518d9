//! Who may do what: bearer tokens, compared in constant time, followed when their files change.

mod source;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tracing::{info, warn};

use self::source::Entry;
use crate::config::{Config, ConfigError, TokenSource};

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    Read,
    Write,
}

/// Somebody who showed a good token.
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

/// What the variables and files say.
struct Loaded {
    tokens: Vec<Token>,
    /// What works and should still be changed, one line each. Never holds a secret.
    warnings: Vec<String>,
}

/// The tokens in force.
pub struct Tokens {
    current: ArcSwap<Vec<Token>>,
    read: TokenSource,
    write: Option<TokenSource>,
    /// What was warned about when the tokens in force were read.
    warned: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    pub fn load(config: &Config) -> Result<Tokens, ConfigError> {
        let tokens = Tokens {
            current: ArcSwap::default(),
            read: config.read_tokens.clone(),
            write: config.write_tokens.clone(),
            warned: Mutex::default(),
        };
        let loaded = tokens.read_sources()?;
        tokens.put_in_force(loaded);
        Ok(tokens)
    }

    fn read_sources(&self) -> Result<Loaded, ConfigError> {
        // Without tokens of their own, writers use the ones for reading.
        let right = if self.write.is_some() {
            Right::Read
        } else {
            Right::Write
        };
        let mut entries = source::read(["AUTH_TOKEN", "AUTH_TOKEN_FILE"], &self.read, right)?;
        if let Some(write) = &self.write {
            let variables = ["CRUD_AUTH_TOKEN", "CRUD_AUTH_TOKEN_FILE"];
            entries.extend(source::read(variables, write, Right::Write)?);
        }
        let warnings = source::warnings(&entries);
        let tokens = entries
            .into_iter()
            .map(|Entry { digest, actor, .. }| Token { digest, actor });
        Ok(Loaded {
            tokens: tokens.collect(),
            warnings,
        })
    }

    /// Logs each warning once, as long as it holds.
    fn put_in_force(&self, loaded: Loaded) {
        let mut warned = self.warned.lock().expect("not poisoned");
        for warning in loaded.warnings.iter().filter(|warning| !warned.contains(warning)) {
            warn!("{warning}");
        }
        *warned = loaded.warnings;
        self.current.store(Arc::new(loaded.tokens));
    }

    /// Whose token this is. Looks at every token, so that the time it takes reveals nothing. Where a token is listed twice,
    /// the last one counts: that is the one that may write.
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

    /// Reads the token files again whenever they change. A file that cannot be used leaves the tokens as they are.
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
        let mut complained = None;
        loop {
            tokio::time::sleep(EVERY).await;
            // On a thread of its own: a file may be on a mount that hangs.
            let this = self.clone();
            let Ok(loaded) = tokio::task::spawn_blocking(move || this.read_sources()).await else {
                return;
            };
            match loaded {
                Ok(loaded) => {
                    complained = None;
                    if loaded.tokens != **self.current.load() {
                        info!(tokens = loaded.tokens.len(), "token files changed");
                        self.put_in_force(loaded);
                    }
                }
                Err(error) if complained.as_ref() != Some(&error) => {
                    warn!(%error, "keeping the tokens in force");
                    complained = Some(error);
                }
                Err(_) => {}
            }
        }
    }
}
