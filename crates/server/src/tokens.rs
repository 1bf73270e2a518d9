//! Who may do what: bearer tokens, compared in constant time, followed when their files change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tracing::{info, warn};

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

/// The tokens in force.
pub struct Tokens {
    current: ArcSwap<Vec<Token>>,
    read: TokenSource,
    write: Option<TokenSource>,
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
        };
        tokens.current.store(Arc::new(tokens.read_sources()?));
        Ok(tokens)
    }

    fn read_sources(&self) -> Result<Vec<Token>, ConfigError> {
        let mut all = Vec::new();
        // Without tokens of their own, writers use the ones for reading.
        let right = if self.write.is_some() {
            Right::Read
        } else {
            Right::Write
        };
        collect("AUTH_TOKEN_FILE", &self.read, right, &mut all)?;
        if let Some(write) = &self.write {
            collect("CRUD_AUTH_TOKEN_FILE", write, Right::Write, &mut all)?;
        }
        Ok(all)
    }

    /// Whose token this is. Looks at every token, whichever matches, so that time tells nothing.
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
            let Ok(tokens) = tokio::task::spawn_blocking(move || this.read_sources()).await else {
                return;
            };
            match tokens {
                Ok(tokens) => {
                    complained = None;
                    if tokens != **self.current.load() {
                        info!(tokens = tokens.len(), "token files changed");
                        self.current.store(Arc::new(tokens));
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

fn collect(
    variable: &'static str,
    source: &TokenSource,
    right: Right,
    all: &mut Vec<Token>,
) -> Result<(), ConfigError> {
    let unnamed = if right == Right::Read { "read" } else { "write" };
    let mut add = |name: &str, token: &str| {
        all.push(Token {
            digest: Sha256::digest(token).into(),
            actor: Actor {
                name: name.into(),
                right,
            },
        });
    };
    if let Some(token) = &source.token {
        add(unnamed, token);
    }
    if let Some(path) = &source.file {
        for (number, line) in read_lines(variable, path)? {
            let named = line.split_once(':').map(|(name, token)| (name, token.trim_start()));
            let (name, token) = named
                .filter(|(name, token)| is_name(name) && !token.is_empty())
                .unwrap_or((unnamed, &line));
            // No client could send it, and nobody would know why it is refused.
            if token.contains(char::is_whitespace) {
                let problem = format!("{}, line {number}: a token has no blanks in it", path.display());
                return Err(ConfigError::new(variable, problem));
            }
            add(name, token);
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
}

/// The lines that hold something, by number.
fn read_lines(variable: &'static str, path: &Path) -> Result<Vec<(usize, String)>, ConfigError> {
    let problem = |text: String| ConfigError::new(variable, format!("{}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.map(|(number, line)| (number, line.to_owned())).collect();
    match lines.is_empty() {
        true => Err(problem("holds no token".into())),
        false => Ok(lines),
    }
}
