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
#[derive(Clone, Debug)]
pub struct Actor {
    pub name: Arc<str>,
    pub right: Right,
}

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
            match self.read_sources() {
                Ok(tokens) => {
                    complained = None;
                    let now = self.current.load();
                    let same = |(a, b): (&Token, &Token)| a.digest == b.digest && a.actor.name == b.actor.name;
                    if tokens.len() != now.len() || !tokens.iter().zip(now.iter()).all(same) {
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
        let lines = read_lines(variable, path)?;
        for line in lines.iter() {
            match line.split_once(':') {
                Some((name, token)) if is_name(name) && !token.is_empty() => add(name, token),
                _ => add(unnamed, line),
            }
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
}

fn read_lines(variable: &'static str, path: &Path) -> Result<Vec<String>, ConfigError> {
    let problem = |text: String| ConfigError::new(variable, format!("{}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.map(str::to_owned).collect();
    match lines.is_empty() {
        true => Err(problem("holds no token".into())),
        false => Ok(lines),
    }
}
