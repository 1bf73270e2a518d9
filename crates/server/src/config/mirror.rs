//! What a mirror needs to know besides what every server does.

use std::fmt;
use std::path::{Path, PathBuf};

use axum::http::Uri;
use clap::Args;

use super::{Config, ConfigError, Mode, Seed, choose, token};

/// Read as text here and judged in [`MirrorOptions::read`], like the options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of a mirror")]
pub struct MirrorOptions {
    /// The origin: the URL of a server in `crud` mode, or a backup file, which is read again whenever it is replaced.
    #[arg(long, env = "MIRROR_FROM", value_name = "URL|FILE")]
    from: Option<String>,
    /// The origin's bearer token. GET /backup takes the write token; to follow what comes after it, the read token will do.
    #[arg(long, env = "MIRROR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with that token, on one line. It is read for each connection.
    #[arg(long, env = "MIRROR_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) to trust for https, besides those that the system trusts.
    #[arg(long, env = "MIRROR_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Take over what the origin has even if it is older than what the store holds, or of another history: `true` or `false`.
    #[arg(
        long,
        env = "MIRROR_REPLACE",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false"
    )]
    replace: String,
}

/// A mirror's configuration, judged.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub from: From,
    /// Whether it may go back, or over to another history.
    pub replace: bool,
}

/// Where a mirror's state comes from.
#[derive(Clone, Debug)]
pub enum From {
    Server {
        /// Without a slash at its end.
        url: String,
        token: MirrorToken,
        /// Certificates to trust, as they stand in the file.
        ca: Option<Vec<u8>>,
    },
    File(PathBuf),
}

/// A token, or where it is read whenever it is needed.
#[derive(Clone)]
pub enum MirrorToken {
    Given(String),
    In(PathBuf),
}

/// Tokens never appear, whatever is printed.
impl fmt::Debug for MirrorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MirrorToken::Given(_) => f.write_str("Given"),
            MirrorToken::In(path) => f.debug_tuple("In").field(path).finish(),
        }
    }
}

impl MirrorToken {
    pub fn read(&self) -> Result<String, ConfigError> {
        let path = match self {
            MirrorToken::Given(token) => return Ok(token.clone()),
            MirrorToken::In(path) => path,
        };
        let problem = |detail: &str| ConfigError::new(TOKEN_FILE, format!("{}: {detail}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| problem(&error.to_string()))?;
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Err(problem("one line with the token is expected"));
        };
        let found = token(TOKEN_FILE, Some(&line.to_owned())).map_err(|error| problem(&error.problem))?;
        Ok(found.unwrap_or_default())
    }
}

const FROM: &str = "MIRROR_FROM";
const TOKEN: &str = "MIRROR_TOKEN";
const TOKEN_FILE: &str = "MIRROR_TOKEN_FILE";
const CA_FILE: &str = "MIRROR_CA_FILE";

impl MirrorOptions {
    pub fn read(&self, config: &Config) -> Result<Mirror, ConfigError> {
        if config.mode == Mode::Crud {
            let problem = "a mirror takes no writes: leave it at read-only";
            return Err(ConfigError::new("API_MODE", problem));
        }
        for (variable, is_set) in [
            ("SEED_FILE", matches!(config.seed, Seed::Named(_))),
            ("RESOURCES_DIR", config.resources_dir.is_some()),
            ("SNAPSHOT_FILE", config.snapshot_file.is_some()),
        ] {
            if is_set {
                return Err(ConfigError::new(
                    variable,
                    "means nothing for a mirror: what it serves is its origin's, and its store keeps it",
                ));
            }
        }
        let replace = choose("MIRROR_REPLACE", &self.replace, &[("true", true), ("false", false)])?;
        let text = self.from.as_deref().unwrap_or_default();
        let from = match text.split_once("://") {
            Some(("http" | "https", _)) => self.server(text)?,
            None if !text.is_empty() && !Path::new(text).is_dir() => self.file(text)?,
            _ if text.is_empty() => {
                let problem = "is required: the URL of the server to follow, or a backup file";
                return Err(ConfigError::new(FROM, problem));
            }
            _ => return Err(neither(text)),
        };
        Ok(Mirror { from, replace })
    }

    fn server(&self, text: &str) -> Result<From, ConfigError> {
        let problem = |detail: &str| Err(ConfigError::new(FROM, detail));
        let Ok(url) = text.parse::<Uri>() else {
            return Err(neither(text));
        };
        // Not repeated: it may hold a password.
        if url
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return problem("a name or password in the URL is not used: MIRROR_TOKEN takes the token");
        }
        if url.query().is_some() || text.contains('#') {
            return problem("the address of the server alone is expected, as in https://fleet.example.com");
        }
        let token = match (token(TOKEN, self.token.as_ref())?, &self.token_file) {
            (Some(_), Some(_)) => {
                return Err(ConfigError::new(
                    TOKEN,
                    "is set, and so is MIRROR_TOKEN_FILE: leave one",
                ));
            }
            (Some(token), None) => MirrorToken::Given(token),
            (None, Some(path)) => MirrorToken::In(path.clone()),
            (None, None) => {
                let problem = "is required: the bearer token of the server to follow (or MIRROR_TOKEN_FILE)";
                return Err(ConfigError::new(TOKEN, problem));
            }
        };
        token.read()?;
        let ca = self.ca_file.as_ref().map(|path| {
            let pem = std::fs::read(path);
            pem.map_err(|error| ConfigError::new(CA_FILE, format!("{}: {error}", path.display())))
        });
        Ok(From::Server {
            url: text.trim_end_matches('/').to_owned(),
            token,
            ca: ca.transpose()?,
        })
    }

    fn file(&self, text: &str) -> Result<From, ConfigError> {
        for (variable, is_set) in [
            (TOKEN, self.token.is_some()),
            (TOKEN_FILE, self.token_file.is_some()),
            (CA_FILE, self.ca_file.is_some()),
        ] {
            if is_set {
                return Err(ConfigError::new(variable, "means nothing where MIRROR_FROM is a file"));
            }
        }
        Ok(From::File(text.into()))
    }
}

/// Also for a file that is not there where there is nothing else to serve.
pub(crate) fn neither(text: &str) -> ConfigError {
    let problem = format!("\"{text}\" is neither a URL (http:// or https://) nor a file that is there");
    ConfigError::new(FROM, problem)
}

/// For certificates that cannot be used.
pub(crate) fn untrusted(detail: impl fmt::Display) -> ConfigError {
    ConfigError::new(CA_FILE, detail.to_string())
}
