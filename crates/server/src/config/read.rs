//! From the options, which are text, to the configuration. Every problem is reported, not only the first.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::values::{
    address, boolean, choose, networks, number, page_address, path, silence, span, staleness, text, token,
};
use super::{
    Backend, Budget, Config, ConfigError, ConfigErrors, LogFormat, Mode, Options, Seed, TlsFiles, TokenSource,
};

impl Options {
    /// The address that the server listens on, whatever the other settings are.
    pub fn listen(&self) -> Result<SocketAddr, ConfigError> {
        address("LISTEN_ADDR", &self.listen_addr)
    }

    /// Whether a token for reading is set, usable or not.
    pub fn has_read_token(&self) -> bool {
        self.auth_token.is_some() || self.auth_token_file.is_some()
    }

    /// Whether the server speaks TLS, whatever the other settings are.
    pub fn speaks_tls(&self) -> bool {
        self.tls_cert_file.is_some()
    }

    /// The configuration of a command that serves nothing, and so needs no tokens.
    pub fn read_without_tokens(&self) -> Result<Config, ConfigErrors> {
        let mut problems = ConfigErrors::default();
        let config = self.check(&mut problems);
        problems.into_result()?;
        Ok(config)
    }

    /// Reads every setting and adds what is wrong to `problems`. A setting that cannot be used gets some value all the same, so
    /// that the files that the others name can be checked, too.
    pub fn check(&self, problems: &mut ConfigErrors) -> Config {
        let modes = [("read-only", Mode::ReadOnly), ("crud", Mode::Crud)];
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        Config {
            mode: problems
                .keep(choose("API_MODE", &self.api_mode, &modes))
                .unwrap_or(Mode::ReadOnly),
            backend: problems.keep(self.backend()).unwrap_or(Backend::Memory),
            database_url: self.database_url.to_string_lossy().into_owned(),
            read_tokens: TokenSource {
                token: keep(problems, token("AUTH_TOKEN", self.auth_token.as_deref())),
                file: keep(problems, path("AUTH_TOKEN_FILE", self.auth_token_file.as_deref())),
            },
            write_tokens: self.write_tokens(problems),
            seed: match keep(problems, path("SEED_FILE", self.seed_file.as_deref())) {
                Some(path) => Seed::Named(path),
                None => Seed::Default("data/seed.json".into()),
            },
            budget: self.budget(problems),
            max_staleness: keep(problems, self.max_staleness.as_deref().map(staleness).transpose()),
            silent_after: problems.keep(silence(&self.silent_after)).unwrap_or_default(),
            snapshot_file: keep(problems, path("SNAPSHOT_FILE", self.snapshot_file.as_deref())),
            trusted_proxies: keep(problems, self.trusted_proxies.as_deref().map(networks).transpose())
                .unwrap_or_default(),
            ui: problems
                .keep(choose("UI", &self.ui, &[("on", true), ("off", false)]))
                .unwrap_or(true),
            ui_url: keep(problems, self.ui_url.as_deref().map(page_address).transpose()),
            shared_polls: problems
                .keep(choose(
                    "SHARED_POLLS",
                    &self.shared_polls,
                    &[("on", true), ("off", false)],
                ))
                .unwrap_or(true),
            allow_stale_start: problems
                .keep(boolean("ALLOW_STALE_START", &self.allow_stale_start))
                .unwrap_or_default(),
            accept_new_store: problems
                .keep(boolean("ACCEPT_NEW_STORE", &self.accept_new_store))
                .unwrap_or_default(),
            resources_dir: keep(problems, path("RESOURCES_DIR", self.resources_dir.as_deref())),
            templates_dir: keep(problems, path("TEMPLATES_DIR", self.templates_dir.as_deref())),
            openapi_file: keep(problems, path("OPENAPI_FILE", self.openapi_file.as_deref())),
            listen: problems
                .keep(self.listen())
                .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
            tls: self.tls(problems),
            oidc: self.oidc(problems),
            metrics: keep(problems, self.metrics_address()),
            max_connections: keep(problems, self.max_connections()),
            shutdown_grace: Duration::from_secs(
                problems
                    .keep(number("SHUTDOWN_GRACE", &self.shutdown_grace))
                    .unwrap_or_default(),
            ),
            log_format: problems
                .keep(choose("LOG_FORMAT", &self.log_format, &formats))
                .unwrap_or(LogFormat::Text),
            log_filter: problems.keep(self.log_filter()).unwrap_or_default(),
        }
    }

    /// The files of TLS. A certificate and its key go together.
    fn tls(&self, problems: &mut ConfigErrors) -> Option<TlsFiles> {
        let certificates = keep(problems, path("TLS_CERT_FILE", self.tls_cert_file.as_deref()));
        let key = keep(problems, path("TLS_KEY_FILE", self.tls_key_file.as_deref()));
        let client_ca = keep(problems, path("TLS_CLIENT_CA_FILE", self.tls_client_ca_file.as_deref()));
        let (variable, needs) = match (certificates, key) {
            (Some(certificates), Some(key)) => {
                return Some(TlsFiles {
                    certificates,
                    key,
                    client_ca,
                });
            }
            (None, None) if client_ca.is_none() => return None,
            (None, None) => ("TLS_CLIENT_CA_FILE", "needs TLS_CERT_FILE and TLS_KEY_FILE"),
            (Some(_), None) => ("TLS_CERT_FILE", "needs TLS_KEY_FILE"),
            (None, Some(_)) => ("TLS_KEY_FILE", "needs TLS_CERT_FILE"),
        };
        problems.push(ConfigError::new(variable, needs));
        None
    }

    /// STORE_BACKEND, or the backend that DATABASE_URL is for. The two must agree.
    fn backend(&self) -> Result<Backend, ConfigError> {
        let url = text("DATABASE_URL", &self.database_url);
        let of_url = match url.clone().unwrap_or_default().split(':').next() {
            Some("sqlite") => Some(Backend::Sqlite),
            Some("postgres" | "postgresql") => Some(Backend::Postgres),
            _ => None,
        };
        let backends = [
            ("sqlite", Backend::Sqlite),
            ("postgres", Backend::Postgres),
            ("memory", Backend::Memory),
        ];
        let named = self.store_backend.as_deref();
        let named = named.map(|name| choose("STORE_BACKEND", name, &backends)).transpose()?;
        if named == Some(Backend::Memory) {
            return Ok(Backend::Memory);
        }
        url?;
        // The URL may hold a password, so the message does not repeat it.
        let wanted = match (named, of_url) {
            (None, Some(backend)) => return Ok(backend),
            (Some(named), Some(backend)) if named == backend => return Ok(backend),
            (Some(Backend::Postgres), _) => "postgres://, as in postgres://user:password@host/database",
            (Some(_), _) => "sqlite:, as in sqlite://data/flux-resourceset.db?mode=rwc",
            (None, None) => "sqlite: or postgres://",
        };
        Err(ConfigError::new("DATABASE_URL", format!("must begin with {wanted}")))
    }

    fn write_tokens(&self, problems: &mut ConfigErrors) -> Option<TokenSource> {
        let source = TokenSource {
            token: keep(problems, token("CRUD_AUTH_TOKEN", self.crud_auth_token.as_deref())),
            file: keep(
                problems,
                path("CRUD_AUTH_TOKEN_FILE", self.crud_auth_token_file.as_deref()),
            ),
        };
        source.is_set().then_some(source)
    }

    fn budget(&self, problems: &mut ConfigErrors) -> Budget {
        const BUDGET: &str = "REMOVAL_BUDGET";
        let clusters = match self.removal_budget == OsStr::new("off") {
            true => Ok(None),
            false => number(BUDGET, &self.removal_budget).map(Some),
        };
        let clusters = clusters.map_err(|error| ConfigError::new(BUDGET, format!("{}, nor off", error.problem)));
        Budget {
            clusters: keep(problems, clusters).map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
            window: problems
                .keep(span("REMOVAL_WINDOW", &self.removal_window))
                .unwrap_or_default(),
        }
    }

    fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let value = self.metrics_addr.as_deref();
        value.map(|value| address("METRICS_ADDR", value)).transpose()
    }

    fn max_connections(&self) -> Result<Option<usize>, ConfigError> {
        let Some(value) = &self.max_connections else {
            return Ok(None);
        };
        match number("MAX_CONNECTIONS", value)? {
            0 => Err(ConfigError::new("MAX_CONNECTIONS", "must be at least 1")),
            number => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
        }
    }

    fn log_filter(&self) -> Result<String, ConfigError> {
        let filter = match self.rust_log.as_deref() {
            None => "",
            Some(value) => text("RUST_LOG", value)?,
        };
        let filter = if filter.is_empty() { "info" } else { filter };
        EnvFilter::try_new(filter)
            .map_err(|error| ConfigError::new("RUST_LOG", format!("\"{filter}\" is not a filter: {error}")))?;
        Ok(filter.to_owned())
    }
}

/// The value of an optional setting.
fn keep<T>(problems: &mut ConfigErrors, checked: Result<Option<T>, ConfigError>) -> Option<T> {
    problems.keep(checked).flatten()
}
