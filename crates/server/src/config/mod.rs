//! The configuration: environment variables, and flags of the same name. Each problem is one line that names its variable.

mod error;
mod mirror;
mod mirror_tls;
mod oidc;
mod options;
mod read;
pub(crate) mod values;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

pub use self::error::{ConfigError, ConfigErrors};
pub(crate) use self::mirror::not_an_origin;
pub use self::mirror::{Mirror, MirrorOptions, MirrorSource, MirrorToken};
pub use self::mirror_tls::{MirrorTls, MirrorTlsTexts};
pub(crate) use self::oidc::{CA_FILE as OIDC_CA_FILE, is_trustworthy};
pub use self::oidc::{ClientSecret, OidcConfig};
pub use self::options::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    ReadOnly,
    Crud,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// How many clusters may lose something within a window of time before a request must confirm it.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// None: no limit.
    pub clusters: Option<usize>,
    pub window: Duration,
}

/// The configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    pub backend: Backend,
    pub database_url: String,
    pub read_tokens: TokenSource,
    /// `None`: the tokens for reading may also write.
    pub write_tokens: Option<TokenSource>,
    pub seed: Seed,
    pub budget: Budget,
    pub max_staleness: Option<Duration>,
    /// How long a cluster may not poll before it is silent.
    pub silent_after: Duration,
    pub snapshot_file: Option<PathBuf>,
    /// Whose X-Forwarded-For counts.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether callers other than the cluster itself may poll its paths.
    pub shared_polls: bool,
    /// Whether the dashboard is served.
    pub ui: bool,
    /// The address of the dashboard for browsers, without a slash at the end. None: the one that a request names.
    pub ui_url: Option<String>,
    pub allow_stale_start: bool,
    pub accept_new_store: bool,
    pub resources_dir: Option<PathBuf>,
    pub templates_dir: Option<PathBuf>,
    pub openapi_file: Option<PathBuf>,
    pub listen: SocketAddr,
    /// None: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// None: no JWT is accepted.
    pub oidc: Option<OidcConfig>,
    pub metrics: Option<SocketAddr>,
    pub max_connections: Option<usize>,
    pub shutdown_grace: Duration,
    pub log_format: LogFormat,
    pub log_filter: String,
}

/// The files of the server's certificate, and of those who sign the certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificates: PathBuf,
    pub key: PathBuf,
    pub client_ca: Option<PathBuf>,
}

/// Where tokens come from: a variable, a file, or both.
#[derive(Clone, Default)]
pub struct TokenSource {
    pub token: Option<String>,
    pub file: Option<PathBuf>,
}

impl TokenSource {
    pub fn is_set(&self) -> bool {
        self.token.is_some() || self.file.is_some()
    }
}

/// Debug output never contains a token.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The default file, which may be missing.
    Default(PathBuf),
    /// The file that SEED_FILE names, which must exist if the store is empty.
    Named(PathBuf),
}

impl Seed {
    pub fn path(&self) -> &Path {
        match self {
            Seed::Default(path) | Seed::Named(path) => path,
        }
    }
}
