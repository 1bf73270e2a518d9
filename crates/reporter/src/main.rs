use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use flux_resourceset_reporter::config::{Config, LogFormat, Options};
use flux_resourceset_reporter::{Pace, run};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;
use tracing_subscriber::EnvFilter;

const AFTER_HELP: &str = "\
Kubernetes is reached as kubectl does it (KUBECONFIG), and in a pod with its ServiceAccount, which needs get, list and watch of \
Flux's kinds in the namespaces (k8s/reporter). Kinds that the cluster does not have are left out, and looked for again.

Exit codes:
  0  stopped by SIGTERM or SIGINT
  1  cannot start: a setting, a file, or no way to Kubernetes
  2  wrong usage";

/// Tells the API of the fleet what came of its inputs in this cluster.
///
/// Watches the objects that ResourceSets of the fleet made, and posts for each whether it is ready, and why not: everything at the
/// start and every 10 minutes, changes at once. When the API is away it tries again, with pauses, and then reports everything.
#[derive(Debug, Parser)]
#[command(name = "flux-resourceset-reporter", version = env!("VERSION"), after_help = AFTER_HELP, max_term_width = 120)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let config = match Cli::parse().options.read() {
        Ok(config) => config,
        Err(problems) => return fail(&problems),
    };
    start_log(&config);
    // One thread is enough for a few watches.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&[format!("cannot start: {error}")]),
    };
    let outcome = runtime.block_on(serve(&config));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&[problem]),
    }
}

/// Runs until a signal.
async fn serve(config: &Config) -> Result<(), String> {
    // Process 1 of a container receives no signal that it has no handler for.
    let stop = stop_signal().map_err(|error| format!("cannot handle signals: {error}"))?;
    // kube asks for the one of the process.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = kube::Client::try_default()
        .await
        .map_err(|error| format!("there is no way to Kubernetes: {error}"))?;
    tokio::select! {
        problem = run(config, client, Pace::default()) => Err(problem),
        signal = stop => {
            info!(signal, "stopped");
            Ok(())
        }
    }
}

/// Waits for SIGTERM or SIGINT, and returns its name. The handlers are installed by the call.
fn stop_signal() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate: Signal = signal(SignalKind::terminate())?;
    let mut interrupt: Signal = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

fn start_log(config: &Config) {
    let logging = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&config.log_filter).unwrap_or_default())
        // By default, a write to a closed standard error is itself reported on standard error, which panics.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    match config.log_format {
        LogFormat::Text => logging.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
}

fn fail(problems: &[String]) -> ExitCode {
    for problem in problems {
        // When standard error is closed, the exit code still tells.
        let _ = writeln!(io::stderr(), "error: {problem}");
    }
    ExitCode::FAILURE
}
