//! The configuration: environment variables, and flags of the same name. Each problem is one line that names its variable.

mod mirror;

use std::any::TypeId;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use fleet::log::Head;

pub use self::mirror::{From, Mirror, MirrorOptions, MirrorToken};
pub(crate) use self::mirror::{neither, untrusted};

/// The desired state of a whole fleet of Kubernetes clusters behind one API.
///
/// Without a command, the server runs. Every flag can be given as an environment variable instead.
#[derive(Debug, Parser)]
#[command(name = "flux-resourceset", version = env!("VERSION"))]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server (the default).
    Serve,
    /// Load a large fleet: one JSON document per line, each with its `kind`. Adds or replaces; can be repeated.
    Import {
        /// The file; `-` reads standard input.
        file: PathBuf,
        /// The most documents in one revision.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        batch: u32,
    },
    /// Check that the log is what was written and the state what it adds up to; works beside a running server.
    ///
    /// Compares rows, indexes, digests and log. Prints the head as `revision:digest`, as each commit logs it. Exits with 1 when
    /// something is damaged, edited, deleted or swapped, and lists every place (up to 100); `repair` may help. Only an anchor finds an end that was cut off together with the state, or a log that was written anew.
    Verify {
        /// A head that was noted before: the log must still have it. Can be repeated.
        #[arg(long = "anchor", value_name = "REVISION:DIGEST", value_parser = anchor)]
        anchors: Vec<Head>,
    },
    /// Restore damaged rows of the store from its log. Without --apply, only list what would be done.
    ///
    /// Writes damaged, lost and outdated rows again as the log has them, removes rows that the log says are deleted, and rebuilds
    /// indexes, in one transaction: everything or nothing. Exits with 1 when something cannot be restored, and says what: then
    /// restore a backup. Verifies at the end.
    Repair {
        /// Do it. Stop the servers that write to the store first.
        #[arg(long)]
        apply: bool,
    },
    /// Replace old revisions by a checkpoint that carries the digest of their chain; works beside a running server.
    ///
    /// What asks for them from then on gets 410. Revisions that the removal budget still counts (REMOVAL_WINDOW, which must be
    /// the server's) are kept. The file does not shrink: what comes next takes the space.
    Compact {
        /// The first revision to keep.
        #[arg(
            long,
            value_name = "REVISION",
            required_unless_present = "older_than",
            conflicts_with = "older_than"
        )]
        before: Option<u64>,
        /// Keep what is younger than this: a number and its unit, as in 400d, 36h.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
    },
    /// Write everything, with its history, to a file of JSON lines; works beside a running server.
    Backup {
        /// The file, packed if its name ends in .gz; `-` for standard output.
        file: PathBuf,
    },
    /// Fill the store from a backup: all of it or nothing, after its chain was checked.
    Restore {
        /// The file, packed or not; `-` for standard input.
        file: PathBuf,
        /// Replace what the store holds. Without this, it must be empty.
        #[arg(long)]
        replace: bool,
    },
    /// Serve what another server serves, from a copy that follows it: for edge and air-gapped sites.
    ///
    /// The copy starts from the origin's GET /backup and goes on with its GET /changes/stream, or comes from backup files. It is
    /// kept where DATABASE_URL says, so that a restart needs no origin. Nothing is served before there is a first state, and
    /// nothing older than what was served, unless `--replace` says so. Same bytes and ETags as the origin.
    Mirror(MirrorOptions),
    /// Print the OpenAPI document of the built-in kinds and of RESOURCES_DIR.
    Openapi,
    /// Print a page of the book that is written from definitions.
    #[command(hide = true)]
    Reference {
        #[arg(value_enum)]
        page: ReferencePage,
    },
    /// Ask the server at LISTEN_ADDR, on this machine, whether it is ready: exit code 0 or 1, and a line that says why.
    Healthcheck {
        /// Ask whether it is alive (/health) instead.
        #[arg(long)]
        live: bool,
        /// How long the answer may take, in seconds or as 500ms, 3s.
        #[arg(long, value_name = "TIME", default_value = "3s", value_parser = patience)]
        timeout: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReferencePage {
    /// docs/src/api.md
    Api,
    /// docs/src/server.md
    Server,
}

/// What can be set. Values are read as text here and judged in [`Options::read`], so that every error looks the same.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// What is served: `read-only` (what Flux polls) or `crud` (that, and everything operators use).
    #[arg(
        long,
        env = "API_MODE",
        global = true,
        value_name = "MODE",
        default_value = "read-only"
    )]
    pub api_mode: String,
    /// Where the fleet is kept: `sqlite`, `postgres` or `memory` [default: sqlite, or what DATABASE_URL
    /// says].
    #[arg(long, env = "STORE_BACKEND", global = true, value_name = "STORE")]
    pub store_backend: Option<String>,
    /// The database: `sqlite://FILE`, or `postgres://USER:PASSWORD@HOST/DATABASE`, with `?sslmode=verify-full` and `sslrootcert=FILE`
    /// where TLS is to be trusted.
    #[arg(
        long,
        env = "DATABASE_URL",
        global = true,
        value_name = "URL",
        hide_env_values = true,
        default_value = "sqlite://data/flux-resourceset.db?mode=rwc"
    )]
    pub database_url: String,
    /// The bearer token for reading. Required, unless AUTH_TOKEN_FILE is set.
    #[arg(
        long,
        env = "AUTH_TOKEN",
        global = true,
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub auth_token: Option<String>,
    /// A file of tokens for reading, one per line, optionally as `name:token`. Changes to it are followed.
    #[arg(long, env = "AUTH_TOKEN_FILE", global = true, value_name = "FILE")]
    pub auth_token_file: Option<PathBuf>,
    /// The bearer token for writing, in `crud` mode [default: the tokens for reading].
    #[arg(
        long,
        env = "CRUD_AUTH_TOKEN",
        global = true,
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub crud_auth_token: Option<String>,
    /// A file of tokens for writing, one per line, optionally as `name:token`. Changes to it are followed.
    #[arg(long, env = "CRUD_AUTH_TOKEN_FILE", global = true, value_name = "FILE")]
    pub crud_auth_token_file: Option<PathBuf>,
    /// What an empty store is filled with: one JSON object with an array per kind [default: data/seed.json, if it is there].
    #[arg(long, env = "SEED_FILE", global = true, value_name = "FILE")]
    pub seed_file: Option<PathBuf>,
    /// How many clusters may lose something, by one change or within REMOVAL_WINDOW, before a request has to confirm the number;
    /// `off` for no limit.
    #[arg(long, env = "REMOVAL_BUDGET", global = true, value_name = "N", default_value = "10")]
    pub removal_budget: String,
    /// How long a removal counts towards the budget, in seconds or as 90s, 10m, 2h.
    #[arg(
        long,
        env = "REMOVAL_WINDOW",
        global = true,
        value_name = "TIME",
        default_value = "10m"
    )]
    pub removal_window: String,
    /// How old the snapshot may be before /ready says 503, so that balancers prefer fresh replicas: 10 seconds or more, as in 90s,
    /// 10m, 2h [default: any age].
    #[arg(long, env = "MAX_STALENESS", global = true, value_name = "TIME")]
    pub max_staleness: Option<String>,
    /// A file that is kept at what is served, for a start while PostgreSQL is away.
    #[arg(long, env = "SNAPSHOT_FILE", global = true, value_name = "FILE")]
    pub snapshot_file: Option<PathBuf>,
    /// Whether a start from SNAPSHOT_FILE serves at once (`true`), or waits until the store is there (`false`): an old replica beside
    /// fresh ones makes clusters remove and reinstall.
    #[arg(
        long,
        env = "ALLOW_STALE_START",
        global = true,
        value_name = "BOOL",
        default_value = "false"
    )]
    pub allow_stale_start: String,
    /// Whether a SQLite store that is not the one that was here before (emptied, or older than the marker FILE.head beside it says)
    /// is used all the same. For one start, after you made sure that this is what you want.
    #[arg(
        long,
        env = "ACCEPT_NEW_STORE",
        global = true,
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    pub accept_new_store: String,
    /// A folder of kinds (*.yaml, *.yml, *.json) that are added to the built-in ones or replace them.
    #[arg(long, env = "RESOURCES_DIR", global = true, value_name = "DIR")]
    pub resources_dir: Option<PathBuf>,
    /// A folder of ResourceSets and their providers, to render what clusters make of their inputs [default: the shipped ones].
    #[arg(long, env = "TEMPLATES_DIR", global = true, value_name = "DIR")]
    pub templates_dir: Option<PathBuf>,
    /// A document to serve at /openapi.yaml instead of the one that the kinds give.
    #[arg(long, env = "OPENAPI_FILE", global = true, value_name = "FILE")]
    pub openapi_file: Option<PathBuf>,
    /// Where to listen.
    #[arg(
        long,
        env = "LISTEN_ADDR",
        global = true,
        value_name = "ADDR",
        default_value = "0.0.0.0:8080"
    )]
    pub listen_addr: String,
    /// Where to serve /metrics without a token, beside the one with the read token on LISTEN_ADDR.
    #[arg(long, env = "METRICS_ADDR", global = true, value_name = "ADDR")]
    pub metrics_addr: Option<String>,
    /// The most connections at a time [default: what the limit on open files allows, at most 65536]. Polls come first: at the limit,
    /// idle and slow connections are closed for new ones. Other requests use at most three quarters, streams of changes one quarter.
    #[arg(long, env = "MAX_CONNECTIONS", global = true, value_name = "N")]
    pub max_connections: Option<String>,
    /// How long requests in flight may take to finish after SIGTERM, in seconds.
    #[arg(
        long,
        env = "SHUTDOWN_GRACE",
        global = true,
        value_name = "SECONDS",
        default_value = "20"
    )]
    pub shutdown_grace: String,
    /// How logs are written: `text` or `json`.
    #[arg(
        long,
        env = "LOG_FORMAT",
        global = true,
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: String,
    /// What is logged: a tracing filter such as `info` or `flux_resourceset=debug` [default: info].
    #[arg(long, env = "RUST_LOG", global = true, value_name = "FILTER")]
    pub rust_log: Option<String>,
}

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

/// How many clusters may lose something within a while before somebody has to say that it is meant.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// None: there is none.
    pub clusters: Option<usize>,
    pub window: Duration,
}

/// The configuration, judged.
#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    pub backend: Backend,
    pub database_url: String,
    pub read_tokens: TokenSource,
    /// `None`: the tokens for reading also write.
    pub write_tokens: Option<TokenSource>,
    pub seed: Seed,
    pub budget: Budget,
    pub max_staleness: Option<Duration>,
    pub snapshot_file: Option<PathBuf>,
    pub allow_stale_start: bool,
    pub accept_new_store: bool,
    pub resources_dir: Option<PathBuf>,
    pub templates_dir: Option<PathBuf>,
    pub openapi_file: Option<PathBuf>,
    pub listen: SocketAddr,
    pub metrics: Option<SocketAddr>,
    pub max_connections: Option<usize>,
    pub shutdown_grace: Duration,
    pub log_format: LogFormat,
    pub log_filter: String,
}

/// Where tokens come from: a variable, a file, or both.
#[derive(Clone, Default)]
pub struct TokenSource {
    pub token: Option<String>,
    pub file: Option<PathBuf>,
}

/// Tokens never appear, whatever is printed.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The default file: used if it is there.
    Default(PathBuf),
    /// One that somebody named: it must be there.
    Named(PathBuf),
}

/// A setting that cannot be used, by its variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct ConfigError {
    pub variable: &'static str,
    pub problem: String,
}

impl ConfigError {
    pub fn new(variable: &'static str, problem: impl Into<String>) -> Self {
        ConfigError {
            variable,
            problem: problem.into(),
        }
    }
}

/// What is wrong with a variable that clap refuses without naming it.
pub fn unnamed_variable() -> Option<String> {
    let command = Cli::command();
    // Those of a subcommand count only where it is used.
    let used = |name: &str| std::env::args_os().any(|argument| argument == name);
    let commands = command.get_subcommands().filter(|command| used(command.get_name()));
    let arguments = command
        .get_arguments()
        .chain(commands.flat_map(clap::Command::get_arguments));
    arguments.into_iter().find_map(|argument| {
        let variable = argument.get_env()?;
        let value = std::env::var_os(variable)?;
        let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let problem = match value.to_str() {
            None => "is not UTF-8",
            Some("") if is_path => "is empty",
            Some(_) => return None,
        };
        Some(format!("{}: {problem}", variable.display()))
    })
}

impl Options {
    /// Where the server listens, whatever else is set.
    pub fn listen(&self) -> Result<SocketAddr, ConfigError> {
        address("LISTEN_ADDR", &self.listen_addr)
    }

    /// The configuration of a server, which needs tokens.
    pub fn read(&self) -> Result<Config, ConfigError> {
        let config = self.read_without_tokens()?;
        if config.read_tokens.token.is_none() && config.read_tokens.file.is_none() {
            return Err(ConfigError::new(
                "AUTH_TOKEN",
                "is required: the bearer token that clusters and readers send (or AUTH_TOKEN_FILE)",
            ));
        }
        Ok(config)
    }

    /// The configuration of a command that serves nobody.
    pub fn read_without_tokens(&self) -> Result<Config, ConfigError> {
        let mode = choose(
            "API_MODE",
            &self.api_mode,
            &[("read-only", Mode::ReadOnly), ("crud", Mode::Crud)],
        )?;
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let backend = self.backend()?;
        let write_tokens = TokenSource {
            token: token("CRUD_AUTH_TOKEN", self.crud_auth_token.as_ref())?,
            file: self.crud_auth_token_file.clone(),
        };
        let max_connections = self
            .max_connections
            .as_deref()
            .map(|text| number("MAX_CONNECTIONS", text))
            .transpose()?;
        if max_connections == Some(0) {
            return Err(ConfigError::new("MAX_CONNECTIONS", "must be at least 1"));
        }
        Ok(Config {
            mode,
            backend,
            database_url: self.database_url.clone(),
            read_tokens: TokenSource {
                token: token("AUTH_TOKEN", self.auth_token.as_ref())?,
                file: self.auth_token_file.clone(),
            },
            write_tokens: (write_tokens.token.is_some() || write_tokens.file.is_some()).then_some(write_tokens),
            seed: match &self.seed_file {
                Some(path) => Seed::Named(path.clone()),
                None => Seed::Default("data/seed.json".into()),
            },
            budget: Budget {
                clusters: match self.removal_budget.as_str() {
                    "off" => None,
                    text => Some(number("REMOVAL_BUDGET", text).map_err(|mut error| {
                        error.problem += ", nor off";
                        error
                    })?)
                    .map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
                },
                window: span("REMOVAL_WINDOW", &self.removal_window)?,
            },
            max_staleness: self.max_staleness.as_deref().map(staleness).transpose()?,
            snapshot_file: self.snapshot_file.clone(),
            allow_stale_start: choose(
                "ALLOW_STALE_START",
                &self.allow_stale_start,
                &[("true", true), ("false", false)],
            )?,
            accept_new_store: choose(
                "ACCEPT_NEW_STORE",
                &self.accept_new_store,
                &[("true", true), ("false", false)],
            )?,
            resources_dir: self.resources_dir.clone(),
            templates_dir: self.templates_dir.clone(),
            openapi_file: self.openapi_file.clone(),
            listen: self.listen()?,
            metrics: self
                .metrics_addr
                .as_deref()
                .map(|text| address("METRICS_ADDR", text))
                .transpose()?,
            max_connections: max_connections.map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
            shutdown_grace: Duration::from_secs(number("SHUTDOWN_GRACE", &self.shutdown_grace)?),
            log_format: choose("LOG_FORMAT", &self.log_format, &formats)?,
            log_filter: self
                .rust_log
                .clone()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "info".to_owned()),
        })
    }
}

impl Options {
    /// What is named, or what the URL is of; the two must agree.
    fn backend(&self) -> Result<Backend, ConfigError> {
        let of_url = match self.database_url.split(':').next() {
            Some("sqlite") => Some(Backend::Sqlite),
            Some("postgres" | "postgresql") => Some(Backend::Postgres),
            _ => None,
        };
        let named = self.store_backend.as_deref().map(|name| {
            let backends = [
                ("sqlite", Backend::Sqlite),
                ("postgres", Backend::Postgres),
                ("memory", Backend::Memory),
            ];
            choose("STORE_BACKEND", name, &backends)
        });
        // The URL may hold a password: it is not repeated.
        let wanted = match (named.transpose()?, of_url) {
            (Some(Backend::Memory), _) => return Ok(Backend::Memory),
            (None, Some(backend)) => return Ok(backend),
            (Some(named), Some(backend)) if named == backend => return Ok(backend),
            (None, None) => "sqlite: or postgres://",
            (Some(Backend::Postgres), _) => "postgres://, as in postgres://user:password@host/database",
            (Some(Backend::Sqlite), _) => "sqlite:, as in sqlite://data/flux-resourceset.db?mode=rwc",
        };
        Err(ConfigError::new("DATABASE_URL", format!("must begin with {wanted}")))
    }
}

fn choose<T: Copy>(variable: &'static str, text: &str, options: &[(&str, T)]) -> Result<T, ConfigError> {
    let found = options.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<_> = options.iter().map(|(name, _)| *name).collect();
        ConfigError::new(variable, format!("\"{text}\" is not one of {}", names.join(", ")))
    })
}

fn number(variable: &'static str, text: &str) -> Result<u64, ConfigError> {
    text.parse()
        .map_err(|_| ConfigError::new(variable, format!("\"{text}\" is not a whole number")))
}

fn anchor(text: &str) -> Result<Head, String> {
    let problem = "a revision and its digest are expected, as each commit logs them: 57:8f3c…";
    Head::parse(text).ok_or_else(|| problem.to_owned())
}

fn age(text: &str) -> Result<Duration, String> {
    let unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let age = duration(text).filter(|_| unit);
    age.ok_or_else(|| "a number with its unit is expected, as in 400d or 36h".to_owned())
}

fn patience(text: &str) -> Result<Duration, String> {
    let milliseconds = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    let time = milliseconds.map(Duration::from_millis).or_else(|| duration(text));
    let usable = time.filter(|time| !time.is_zero() && time.as_secs() <= 3600);
    usable.ok_or_else(|| "a time of at most an hour is expected, as in 3s or 500ms".to_owned())
}

/// Seconds, or a number with its unit.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86400),
        _ => None,
    };
    let seconds = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    // More than the time of day reaches back to.
    seconds
        .filter(|seconds| *seconds <= 1000 * 366 * 86400)
        .map(Duration::from_secs)
}

/// A span of time that is kept in mind.
fn span(variable: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let span = duration(text).filter(|span| span.as_secs() <= 366 * 86400);
    span.ok_or_else(|| {
        ConfigError::new(
            variable,
            format!("\"{text}\" is not a time of at most a year, as in 90s, 10m or 2h"),
        )
    })
}

/// The store is asked every few seconds: what is less would be exceeded by a healthy replica.
fn staleness(text: &str) -> Result<Duration, ConfigError> {
    const LEAST: Duration = Duration::from_secs(10);
    let staleness = span("MAX_STALENESS", text)?;
    match staleness < LEAST {
        true => Err(ConfigError::new("MAX_STALENESS", "must be at least 10s")),
        false => Ok(staleness),
    }
}

fn address(variable: &'static str, text: &str) -> Result<SocketAddr, ConfigError> {
    let unusable = || {
        ConfigError::new(
            variable,
            format!("\"{text}\" is not an address with a port, as in 0.0.0.0:8080"),
        )
    };
    let mut found = text.to_socket_addrs().map_err(|_| unusable())?;
    found.next().ok_or_else(unusable)
}

fn token(variable: &'static str, token: Option<&String>) -> Result<Option<String>, ConfigError> {
    match token.map(|token| token.trim()) {
        None => Ok(None),
        Some("") => Err(ConfigError::new(variable, "is empty")),
        Some(token) if token.chars().any(|c| c.is_whitespace() || c.is_control()) => Err(ConfigError::new(
            variable,
            "has blanks or control characters, which no header can carry",
        )),
        Some(token) => Ok(Some(token.to_owned())),
    }
}
