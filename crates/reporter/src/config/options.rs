//! The settings, as flags and environment variables.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The address of the API, as the providers of this cluster have it
    #[arg(long, env = "FLUX_API_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The DNS name of this cluster in the fleet
    #[arg(long, env = "CLUSTER_DNS", value_name = "NAME")]
    pub dns: Option<String>,
    /// The token of this cluster
    #[arg(long, env = "FLUX_API_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// A file with the token; read again when it changes [default: /etc/flux-resourceset/token/token, if it exists]
    #[arg(long, env = "FLUX_API_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with certificate authorities (PEM) to trust in addition to the system's; read again when it changes [default:
    /// /etc/flux-resourceset/tls/ca.crt, if it exists]
    #[arg(long, env = "FLUX_API_CA_FILE", value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// A file with the client certificate (PEM) of this cluster, in place of a token; read again when it changes [default:
    /// /etc/flux-resourceset/tls/tls.crt, if it exists]
    #[arg(long, env = "FLUX_API_CLIENT_CERTIFICATE", value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// A file with the key (PEM) of the client certificate [default: /etc/flux-resourceset/tls/tls.key, if it exists]
    #[arg(long, env = "FLUX_API_CLIENT_KEY", value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// A namespace to watch; several are separated by commas [default: the one that the reporter runs in]
    #[arg(
        id = "namespace",
        long = "namespace",
        env = "WATCH_NAMESPACES",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub namespaces: Vec<String>,
    /// Have a provider poll as soon as its reply changes, rather than at its interval; needs the right to patch
    /// ResourceSetInputProviders
    #[arg(long, env = "NUDGE")]
    pub nudge: bool,
    /// How often everything is reported, whether it changed or not
    #[arg(long, env = "FULL_EVERY", value_name = "TIME", default_value = "10m")]
    pub full_every: String,
    /// The form of the log: text or json
    #[arg(long, env = "LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
    /// What is logged: a tracing filter such as info or flux_resourceset_reporter=debug [default: info]
    #[arg(long, env = "RUST_LOG", value_name = "FILTER")]
    pub rust_log: Option<String>,
}
