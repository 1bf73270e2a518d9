//! The settings that only a mirror has.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use axum::http::Uri;
use clap::Args;
use rustls::RootCertStore;

use super::mirror_tls::{CA_FILE, CERT_FILE, KEY_FILE, MirrorTls};
use super::values::{boolean, path, text, token};
use super::{ConfigError, ConfigErrors, Options};

const FROM: &str = "MIRROR_FROM";
const TOKEN: &str = "MIRROR_TOKEN";
const TOKEN_FILE: &str = "MIRROR_TOKEN_FILE";

/// Accepted as any text here and checked in [`MirrorOptions::check`], like the options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of a mirror")]
pub struct MirrorOptions {
    /// The origin: the URL of a server in `crud` mode, or a backup file, which is read again whenever it is replaced.
    #[arg(long, env = "MIRROR_FROM", value_name = "URL|FILE")]
    from: Option<OsString>,
    /// The origin's bearer token: one of the role mirror, or a write token. While the origin has no identities, a mirror that has its
    /// first copy needs only a read token.
    #[arg(long, env = "MIRROR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<OsString>,
    /// A file with that token, on one line. It is read for each connection.
    #[arg(long, env = "MIRROR_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<OsString>,
    /// Certificates (PEM) to trust for https, in addition to the system's. Read for each connection.
    #[arg(long, env = "MIRROR_CA_FILE", value_name = "FILE")]
    ca_file: Option<OsString>,
    /// The mirror's own certificate (PEM), with intermediate ones, for an origin that has TLS_CLIENT_CA_FILE: then the mirror needs no
    /// token if one of its DNS names is in the `certificates` of an identity of the role mirror. Read for each connection.
    #[arg(long, env = "MIRROR_CLIENT_CERT_FILE", value_name = "FILE")]
    client_cert_file: Option<OsString>,
    /// The private key (PEM) of that certificate.
    #[arg(long, env = "MIRROR_CLIENT_KEY_FILE", value_name = "FILE")]
    client_key_file: Option<OsString>,
    /// Accept the origin's state even if it is older than the mirror's store, or has another history: `true` or `false`.
    #[arg(
        long,
        env = "MIRROR_REPLACE",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false"
    )]
    replace: OsString,
}

/// A mirror's configuration, checked.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub from: MirrorSource,
    /// Whether it accepts an older state or another history.
    pub replace: bool,
}

/// The origin of a mirror.
#[derive(Clone, Debug)]
pub enum MirrorSource {
    Server {
        /// Without a slash at its end.
        url: String,
        /// None: the certificate of `tls` tells who it is.
        token: Option<MirrorToken>,
        tls: MirrorTls,
    },
    File(PathBuf),
}

/// A token, or the file that it is read from for each connection.
#[derive(Clone)]
pub enum MirrorToken {
    Given(String),
    In(PathBuf),
}

/// Debug output never contains a token.
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
            return Err(problem("must hold the token on one line, and nothing else"));
        };
        let found = token(TOKEN_FILE, Some(OsStr::new(line))).map_err(|error| problem(&error.problem))?;
        Ok(found.unwrap_or_default())
    }
}

impl MirrorOptions {
    /// Reads every setting of a mirror and adds what is wrong to `problems`. None: there is no usable origin.
    pub fn check(&self, options: &Options, problems: &mut ConfigErrors) -> Option<Mirror> {
        if options.api_mode == OsStr::new("crud") {
            problems.push(ConfigError::new(
                "API_MODE",
                "a mirror accepts no writes: use read-only",
            ));
        }
        for (variable, value) in [
            ("SEED_FILE", &options.seed_file),
            ("RESOURCES_DIR", &options.resources_dir),
            ("SNAPSHOT_FILE", &options.snapshot_file),
        ] {
            if value.as_ref().is_some_and(|value| !value.is_empty()) {
                let problem =
                    "has no effect on a mirror, which serves its origin's fleet from its own store: remove it";
                problems.push(ConfigError::new(variable, problem));
            }
        }
        let replace = problems.keep(boolean("MIRROR_REPLACE", &self.replace));
        let from = self.origin(problems);
        Some(Mirror {
            from: from?,
            replace: replace?,
        })
    }

    fn origin(&self, problems: &mut ConfigErrors) -> Option<MirrorSource> {
        let from = problems.keep(text(FROM, self.from.as_deref().unwrap_or_default()))?;
        match from.split_once("://") {
            _ if from.is_empty() => {
                let problem = "is required: the URL of the server to follow, or a backup file";
                problems.push(ConfigError::new(FROM, problem));
                None
            }
            Some(("http" | "https", _)) => self.server(from, problems),
            None if !Path::new(from).is_dir() => self.file(from, problems),
            _ => {
                problems.push(not_an_origin(from));
                None
            }
        }
    }

    fn server(&self, from: &str, problems: &mut ConfigErrors) -> Option<MirrorSource> {
        let url = problems.keep(server_url(from));
        let token = problems.keep(self.server_token());
        let tls = problems.keep(self.tls());
        if let (Some(url), Some(MirrorTls { own: Some(_), .. })) = (&url, &tls)
            && !url.starts_with("https:")
        {
            let problem = "has no effect without https: use an https:// URL, or remove it";
            problems.push(ConfigError::new(CERT_FILE, problem));
            return None;
        }
        Some(MirrorSource::Server {
            url: url?,
            token: token?,
            tls: tls?,
        })
    }

    fn server_token(&self) -> Result<Option<MirrorToken>, ConfigError> {
        let file = path(TOKEN_FILE, self.token_file.as_deref())?;
        let token = match (token(TOKEN, self.token.as_deref())?, file) {
            (Some(_), Some(_)) => {
                let problem = "is set, and so is MIRROR_TOKEN_FILE: remove one of them";
                return Err(ConfigError::new(TOKEN, problem));
            }
            (Some(token), None) => MirrorToken::Given(token),
            (None, Some(path)) => MirrorToken::In(path),
            (None, None) if self.client_cert_file.is_some() => return Ok(None),
            (None, None) => {
                let problem = "is required: the bearer token of the server to follow (or MIRROR_TOKEN_FILE, or MIRROR_CLIENT_CERT_FILE)";
                return Err(ConfigError::new(TOKEN, problem));
            }
        };
        token.read()?;
        Ok(Some(token))
    }

    fn tls(&self) -> Result<MirrorTls, ConfigErrors> {
        let mut problems = ConfigErrors::default();
        let ca = problems.keep(path(CA_FILE, self.ca_file.as_deref()));
        let certificates = problems.keep(path(CERT_FILE, self.client_cert_file.as_deref()));
        let key = problems.keep(path(KEY_FILE, self.client_key_file.as_deref()));
        let own = match (certificates.flatten(), key.flatten()) {
            (Some(certificates), Some(key)) => Some((certificates, key)),
            (Some(_), None) => {
                problems.push(ConfigError::new(CERT_FILE, "needs MIRROR_CLIENT_KEY_FILE"));
                None
            }
            (None, Some(_)) => {
                problems.push(ConfigError::new(KEY_FILE, "needs MIRROR_CLIENT_CERT_FILE"));
                None
            }
            (None, None) => None,
        };
        problems.into_result()?;
        let tls = MirrorTls { ca: ca.flatten(), own };
        tls.configure(&tls.read()?, RootCertStore::empty())?;
        Ok(tls)
    }

    fn file(&self, from: &str, problems: &mut ConfigErrors) -> Option<MirrorSource> {
        for (variable, value) in [
            (TOKEN, &self.token),
            (TOKEN_FILE, &self.token_file),
            (CA_FILE, &self.ca_file),
            (CERT_FILE, &self.client_cert_file),
            (KEY_FILE, &self.client_key_file),
        ] {
            if value.is_some() {
                problems.push(ConfigError::new(
                    variable,
                    "has no effect when MIRROR_FROM is a file: remove it",
                ));
            }
        }
        Some(MirrorSource::File(from.into()))
    }
}

fn server_url(from: &str) -> Result<String, ConfigError> {
    let url: Uri = from.parse().map_err(|_| not_an_origin(from))?;
    // The message does not repeat the URL: it may hold a password.
    if url
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        let problem = "must not hold a name or password: set MIRROR_TOKEN instead";
        return Err(ConfigError::new(FROM, problem));
    }
    if url.query().is_some() || from.contains('#') {
        let problem = "must be the address of the server alone, as in https://fleet.example.com";
        return Err(ConfigError::new(FROM, problem));
    }
    Ok(from.trim_end_matches('/').to_owned())
}

/// For an origin that is neither. Also for a file that does not exist when the mirror has no copy to serve.
pub(crate) fn not_an_origin(from: &str) -> ConfigError {
    let problem = format!("\"{from}\" is neither a URL (http:// or https://) nor an existing file");
    ConfigError::new(FROM, problem)
}
