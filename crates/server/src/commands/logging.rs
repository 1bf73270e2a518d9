//! The log, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat, Options};

/// Starts the log. A filter that is not valid was reported with the configuration.
pub(super) fn start(config: &Config) {
    start_with(config, &config.log_filter);
}

/// Starts the log of a command whose output matters more than its log: warnings only, unless RUST_LOG is set.
pub(super) fn start_quiet(config: &Config, options: &Options) {
    match options.rust_log {
        Some(_) => start(config),
        None => start_with(config, "warn"),
    }
}

fn start_with(config: &Config, filter: &str) {
    let logging = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter).unwrap_or_default())
        // By default, a write to a closed standard error is itself reported on standard error, which panics.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    match config.log_format {
        LogFormat::Text => logging.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
}
