//! The settings, as flags and environment variables of the same name.

use std::ffi::OsString;

use clap::Args;

/// The settings that every command shares. Values are accepted as any text here and checked in [`Options::check`], so that all
/// errors look the same and are reported together.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// What the API serves: `read-only` (what Flux polls) or `crud` (also everything that operators use).
    #[arg(
        long,
        env = "API_MODE",
        global = true,
        value_name = "MODE",
        default_value = "read-only"
    )]
    pub api_mode: OsString,
    /// Where the fleet is stored: `sqlite`, `postgres` or `memory` [default: sqlite, or what DATABASE_URL
    /// names].
    #[arg(long, env = "STORE_BACKEND", global = true, value_name = "STORE")]
    pub store_backend: Option<OsString>,
    /// The database: `sqlite://FILE`, or `postgres://USER:PASSWORD@HOST/DATABASE`, with `?sslmode=verify-full` and `sslrootcert=FILE`
    /// for verified TLS.
    #[arg(
        long,
        env = "DATABASE_URL",
        global = true,
        value_name = "URL",
        hide_env_values = true,
        default_value = "sqlite://data/flux-resourceset.db?mode=rwc"
    )]
    pub database_url: OsString,
    /// The bearer token for reading. Required, unless AUTH_TOKEN_FILE, TLS_CLIENT_CA_FILE or OIDC_ISSUER is set, or the store
    /// has an admin (`flux-resourceset identity create`).
    #[arg(
        long,
        env = "AUTH_TOKEN",
        global = true,
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub auth_token: Option<OsString>,
    /// A file of tokens for reading, one per line, optionally as `name:token`. The server picks up changes to it.
    #[arg(long, env = "AUTH_TOKEN_FILE", global = true, value_name = "FILE")]
    pub auth_token_file: Option<OsString>,
    /// The bearer token for writing, in `crud` mode [default: the tokens for reading].
    #[arg(
        long,
        env = "CRUD_AUTH_TOKEN",
        global = true,
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub crud_auth_token: Option<OsString>,
    /// A file of tokens for writing, one per line, optionally as `name:token`. The server picks up changes to it.
    #[arg(long, env = "CRUD_AUTH_TOKEN_FILE", global = true, value_name = "FILE")]
    pub crud_auth_token_file: Option<OsString>,
    /// The fleet that an empty store is filled with: one JSON object with an array per kind [default: data/seed.json, if it exists].
    #[arg(long, env = "SEED_FILE", global = true, value_name = "FILE")]
    pub seed_file: Option<OsString>,
    /// How many clusters may lose something, by one change or within REMOVAL_WINDOW, before a request must confirm the number;
    /// `off` for no limit.
    #[arg(long, env = "REMOVAL_BUDGET", global = true, value_name = "N", default_value = "10")]
    pub removal_budget: OsString,
    /// How long a removal counts towards the budget, in seconds or as 90s, 10m, 2h.
    #[arg(
        long,
        env = "REMOVAL_WINDOW",
        global = true,
        value_name = "TIME",
        default_value = "10m"
    )]
    pub removal_window: OsString,
    /// How old the snapshot may be before /ready returns 503, so that load balancers prefer fresh replicas: 10 seconds or more, as
    /// in 90s, 10m, 2h [default: any age].
    #[arg(long, env = "MAX_STALENESS", global = true, value_name = "TIME")]
    pub max_staleness: Option<OsString>,
    /// How long a cluster may not poll before its state is `silent`: as in 90s, 20m, 2h. Flux waits up to 15 minutes after
    /// failures.
    #[arg(
        long,
        env = "SILENT_AFTER",
        global = true,
        value_name = "TIME",
        default_value = "20m"
    )]
    pub silent_after: OsString,
    /// A local copy of the snapshot, to start from while PostgreSQL is unavailable.
    #[arg(long, env = "SNAPSHOT_FILE", global = true, value_name = "FILE")]
    pub snapshot_file: Option<OsString>,
    /// The certificate of the server, with its chain (PEM). With it, the server speaks TLS and nothing else. It is reloaded when it
    /// changes.
    #[arg(long, env = "TLS_CERT_FILE", global = true, value_name = "FILE")]
    pub tls_cert_file: Option<OsString>,
    /// The private key of that certificate (PEM).
    #[arg(long, env = "TLS_KEY_FILE", global = true, value_name = "FILE")]
    pub tls_key_file: Option<OsString>,
    /// The certificates (PEM) of those who sign certificates of clients. A client certificate identifies a cluster by its DNS name,
    /// or the identity that lists the name.
    #[arg(long, env = "TLS_CLIENT_CA_FILE", global = true, value_name = "FILE")]
    pub tls_client_ca_file: Option<OsString>,
    /// The issuer of JWTs that identify people and CI jobs by the claims of identities (OpenID Connect), as tokens have it in `iss`.
    /// Further ones, separated by commas, count for identities that name `iss` in their claims. Its keys are found at
    /// ISSUER/.well-known/openid-configuration; only asymmetric algorithms are accepted.
    #[arg(long, env = "OIDC_ISSUER", global = true, value_name = "URL")]
    pub oidc_issuer: Option<OsString>,
    /// Whom a JWT must be for: its claim `aud` has one of these, separated by commas.
    #[arg(long, env = "OIDC_AUDIENCE", global = true, value_name = "NAMES")]
    pub oidc_audience: Option<OsString>,
    /// The client that `flux-resourceset-cli login` uses: a public one, with PKCE [default: the first of OIDC_AUDIENCE].
    #[arg(long, env = "OIDC_CLIENT_ID", global = true, value_name = "ID")]
    pub oidc_client_id: Option<OsString>,
    /// The client that the dashboard signs people in as, if your issuer wants another one for the web. It must be one of OIDC_AUDIENCE
    /// [default: OIDC_CLIENT_ID].
    #[arg(long, env = "OIDC_UI_CLIENT_ID", global = true, value_name = "ID")]
    pub oidc_ui_client_id: Option<OsString>,
    /// The secret of the dashboard's client, if your issuer gives one to clients of the web. Without it the client is public; PKCE is used
    /// either way.
    #[arg(
        long,
        env = "OIDC_CLIENT_SECRET",
        global = true,
        value_name = "SECRET",
        hide_env_values = true
    )]
    pub oidc_client_secret: Option<OsString>,
    /// A file with that secret, read at every sign-in.
    #[arg(long, env = "OIDC_CLIENT_SECRET_FILE", global = true, value_name = "FILE")]
    pub oidc_client_secret_file: Option<OsString>,
    /// What `flux-resourceset-cli login` and the dashboard ask the issuer for, separated by blanks. Many issuers put groups into a token for
    /// the scope `groups` only. The dashboard does not ask for offline_access.
    #[arg(
        long,
        env = "OIDC_SCOPES",
        global = true,
        value_name = "SCOPES",
        default_value = "openid profile email offline_access"
    )]
    pub oidc_scopes: OsString,
    /// The claim that names the caller in the log, after the identity: `team-red/ann@example.com`. Tokens without it are named by
    /// `sub`.
    #[arg(
        long,
        env = "OIDC_USERNAME_CLAIM",
        global = true,
        value_name = "CLAIM",
        default_value = "sub"
    )]
    pub oidc_username_claim: OsString,
    /// Certificates (PEM) that sign the issuer's, besides those of the system.
    #[arg(long, env = "OIDC_CA_FILE", global = true, value_name = "FILE")]
    pub oidc_ca_file: Option<OsString>,
    /// Addresses and networks of proxies in front of the server, separated by commas, as in 10.0.0.0/8. The client address that they
    /// report in X-Forwarded-For counts for the limit on failed authentications.
    #[arg(long, env = "TRUSTED_PROXIES", global = true, value_name = "NETWORKS")]
    pub trusted_proxies: Option<OsString>,
    /// Whether tokens of readers, operators and admins may poll the Flux paths of clusters (`on`), or only each cluster's own token
    /// (`off`).
    #[arg(
        long,
        env = "SHARED_POLLS",
        global = true,
        value_name = "on|off",
        default_value = "on"
    )]
    pub shared_polls: OsString,
    /// Whether the dashboard is served at /ui (`on`) or not (`off`). It is a client of the API: it shows and does what the token of whoever
    /// signs in may read and do.
    #[arg(long, env = "UI", global = true, value_name = "on|off", default_value = "on")]
    pub ui: OsString,
    /// The address of the dashboard as browsers have it, as in https://fleet.example.com/ui. The issuer of OIDC_ISSUER leads people back to
    /// UI_URL/login/callback, which must be registered there [default: by X-Forwarded-Proto and X-Forwarded-Host, or Host].
    #[arg(long, env = "UI_URL", global = true, value_name = "URL")]
    pub ui_url: Option<OsString>,
    /// Whether a start from SNAPSHOT_FILE serves at once (`true`) or waits until the store is available (`false`): a stale replica
    /// beside fresh ones makes clusters remove and reinstall.
    #[arg(
        long,
        env = "ALLOW_STALE_START",
        global = true,
        value_name = "BOOL",
        default_value = "false"
    )]
    pub allow_stale_start: OsString,
    /// Whether to accept a SQLite store that is not the one that was here before (empty, or older than the marker file FILE.head
    /// beside it). For one start, after you have made sure that this is the right store.
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
    pub accept_new_store: OsString,
    /// A folder of kinds (*.yaml, *.yml, *.json) that add to the built-in kinds or replace them.
    #[arg(long, env = "RESOURCES_DIR", global = true, value_name = "DIR")]
    pub resources_dir: Option<OsString>,
    /// A folder of ResourceSets and their providers, to render the manifests of clusters; reloaded when it changes [default: the
    /// shipped ones].
    #[arg(long, env = "TEMPLATES_DIR", global = true, value_name = "DIR")]
    pub templates_dir: Option<OsString>,
    /// A document to serve at /openapi.yaml instead of the one generated from the kinds.
    #[arg(long, env = "OPENAPI_FILE", global = true, value_name = "FILE")]
    pub openapi_file: Option<OsString>,
    /// The address to listen on.
    #[arg(
        long,
        env = "LISTEN_ADDR",
        global = true,
        value_name = "ADDR",
        default_value = "0.0.0.0:8080"
    )]
    pub listen_addr: OsString,
    /// An address that serves /metrics without a token. LISTEN_ADDR serves it too, with the read token.
    #[arg(long, env = "METRICS_ADDR", global = true, value_name = "ADDR")]
    pub metrics_addr: Option<OsString>,
    /// The maximum number of connections [default: what the limit on open files allows, at most 65536]. Polls come first: at the
    /// limit, idle and slow connections are closed for new ones. Other requests use at most three quarters, streams of changes one
    /// quarter.
    #[arg(long, env = "MAX_CONNECTIONS", global = true, value_name = "N")]
    pub max_connections: Option<OsString>,
    /// How long requests in flight may take to finish after SIGTERM, in seconds.
    #[arg(
        long,
        env = "SHUTDOWN_GRACE",
        global = true,
        value_name = "SECONDS",
        default_value = "20"
    )]
    pub shutdown_grace: OsString,
    /// The format of the log: `text` or `json`.
    #[arg(
        long,
        env = "LOG_FORMAT",
        global = true,
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: OsString,
    /// What is logged: a tracing filter such as `info` or `flux_resourceset=debug` [default: info].
    #[arg(long, env = "RUST_LOG", global = true, value_name = "FILTER")]
    pub rust_log: Option<OsString>,
}
