use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use fleet::log::Revision;
use flux_resourceset::app::App;
use flux_resourceset::app::backup::{self, BackupError, RestoreError};
use flux_resourceset::app::compact::{self, CompactError, Old};
use flux_resourceset::app::engine::{self, Engine};
use flux_resourceset::app::import::{ImportError, import};
use flux_resourceset::app::mirror::{self, Following, MirrorError};
use flux_resourceset::app::reach::{self, Started};
use flux_resourceset::app::repair::{self, RepairError};
use flux_resourceset::app::startup::{self, StartError};
use flux_resourceset::app::verify::{self, VerifyError};
use flux_resourceset::app::{keep, manifests};
use flux_resourceset::config::{self, Backend, Cli, Command, Config, ConfigError, LogFormat, Mode, ReferencePage};
use flux_resourceset::healthcheck::{self, Unhealthy};
use flux_resourceset::http::{self, Api, listen, openapi};
use flux_resourceset::metrics::Metrics;
use flux_resourceset::reference;
use flux_resourceset::tokens::Tokens;
use store::Store;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Repair(#[from] RepairError),
    #[error(transparent)]
    Compact(#[from] CompactError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("cannot write: {0}")]
    Output(io::Error),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => match config::unnamed_variable() {
            Some(problem) if error.use_stderr() => return fail(&problem),
            _ => error.exit(),
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(&cli));
            // A write that is still being judged was not acknowledged: nobody waits for it.
            runtime.shutdown_timeout(Duration::from_secs(1));
            outcome
        }
        Err(error) => return fail(&format_args!("cannot start: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn fail(problem: &dyn fmt::Display) -> ExitCode {
    let _nobody_reads = writeln!(io::stderr(), "error: {problem}");
    ExitCode::FAILURE
}

async fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        None | Some(Command::Serve) => {
            let config = cli.options.read()?;
            start_logging(&config)?;
            serve(&config, None).await
        }
        Some(Command::Mirror(options)) => {
            let config = cli.options.read()?;
            let mirror = options.read(&config)?;
            start_logging(&config)?;
            serve(&config, Some(&mirror)).await
        }
        Some(Command::Import { file, batch }) => {
            let mut config = cli.options.read_without_tokens()?;
            if config.backend == Backend::Memory {
                let problem = "an import into memory would be gone when it ends: choose sqlite or postgres";
                return Err(ConfigError::new("STORE_BACKEND", problem).into());
            }
            config.mode = Mode::Crud;
            if cli.options.rust_log.is_none() {
                config.log_filter = "warn".to_owned();
            }
            start_logging(&config)?;
            let store = reach::open_expected(&config).await.map_err(StartError::from)?;
            let fleet = startup::prepare(&config, &*store, false).await?;
            let recent = engine::recent(&*store, config.budget).await.map_err(StartError::from)?;
            let (engine, task) = Engine::start(store.clone(), fleet, Arc::default(), config.budget, Ok(recent));
            let outcome = import(&engine, file, usize::try_from(*batch).unwrap_or(usize::MAX)).await;
            drop(engine);
            let _ended = task.await;
            store.close().await;
            outcome?;
            Ok(())
        }
        Some(Command::Verify { anchors }) => {
            let (_, store) = open_existing(cli, Mode::ReadOnly).await?;
            warn_of_unexpected(&*store);
            let outcome = verify::verify(&*store, anchors).await;
            store.close().await;
            say(format_args!("{}\n", outcome?))
        }
        Some(Command::Repair { apply }) => {
            let mode = if *apply { Mode::Crud } else { Mode::ReadOnly };
            let (config, store) = open_existing(cli, mode).await?;
            if *apply {
                reach::expect(&config, &*store).await.map_err(StartError::from)?;
            }
            let outcome = repair::repair(&*store, *apply).await;
            store.close().await;
            say(format_args!("{}", outcome?))
        }
        Some(Command::Compact { before, older_than }) => {
            let (config, store) = open_existing(cli, Mode::Crud).await?;
            reach::expect(&config, &*store).await.map_err(StartError::from)?;
            let old = match (before, older_than) {
                (_, Some(age)) => Old::Than(*age),
                (before, None) => Old::Before(Revision(before.unwrap_or_default())),
            };
            let outcome = compact::compact(&*store, old, config.budget).await;
            store.close().await;
            say(format_args!("{}\n", outcome?))
        }
        Some(Command::Backup { file }) => {
            let (_, store) = open_existing(cli, Mode::ReadOnly).await?;
            warn_of_unexpected(&*store);
            let outcome = backup::backup(&*store, file).await;
            store.close().await;
            let end = outcome?;
            let (file, revisions, resources) = (file.display(), end.revisions, end.resources);
            tell(format_args!(
                "wrote {revisions} revisions and {resources} resources at {} to {file}",
                end.head
            ));
            Ok(())
        }
        Some(Command::Restore { file, replace }) => {
            let config = on_disk(cli, Mode::Crud)?;
            let store = reach::open(&config).await.map_err(StartError::from)?;
            let outcome = backup::restore(&*store, file, *replace).await;
            store.close().await;
            let done = outcome?;
            tell(format_args!(
                "restored {} revisions and {} resources at {}",
                done.revisions, done.resources, done.head
            ));
            Ok(())
        }
        Some(Command::Openapi) => {
            let config = cli.options.read_without_tokens()?;
            let fleet = startup::kinds_only(&config)?;
            let text = openapi::text(fleet.kinds(), Mode::Crud);
            say(format_args!("{text}"))
        }
        Some(Command::Reference { page }) => {
            let config = cli.options.read_without_tokens()?;
            let fleet = startup::kinds_only(&config)?;
            let page = match page {
                ReferencePage::Api => reference::api::page(&openapi::document(fleet.kinds(), Mode::Crud)),
                ReferencePage::Server => reference::server::page(),
            };
            say(format_args!("{page}"))
        }
        Some(Command::Healthcheck { live, timeout }) => {
            let answer = healthcheck::ask(cli.options.listen()?, *live, *timeout)?;
            say(format_args!("{answer}\n"))
        }
    }
}

fn say(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    match io::stdout().write_fmt(text) {
        // Whoever reads it may have seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// For people: standard output may be the file.
fn tell(text: fmt::Arguments<'_>) {
    let _nobody_reads = writeln!(io::stderr(), "{text}");
}

/// The configuration of a command that works on a store which outlives it.
fn on_disk(cli: &Cli, mode: Mode) -> Result<Config, Failure> {
    let mut config = cli.options.read_without_tokens()?;
    config.mode = mode;
    if config.backend == Backend::Memory {
        let problem =
            "a store in memory is its server's alone: choose sqlite or postgres, or ask the server (GET /backup)";
        return Err(ConfigError::new("STORE_BACKEND", problem).into());
    }
    if cli.options.rust_log.is_none() {
        config.log_filter = "warn".to_owned();
    }
    start_logging(&config)?;
    Ok(config)
}

/// For commands that only read.
fn warn_of_unexpected(store: &dyn Store) {
    if let Some(detail) = store.unexpected() {
        warn!("{detail}");
    }
}

async fn open_existing(cli: &Cli, mode: Mode) -> Result<(Config, Arc<dyn Store>), Failure> {
    let config = on_disk(cli, mode)?;
    let store = reach::open_existing(&config).await.map_err(StartError::from)?;
    Ok((config, store))
}

fn start_logging(config: &Config) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log_filter).map_err(|error| {
        ConfigError::new(
            "RUST_LOG",
            format!("\"{}\" is not a filter: {error}", config.log_filter),
        )
    })?;
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A log that nobody takes any more would be complained about on standard error, by a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => logging
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(())
}

async fn serve(config: &Config, mirror: Option<&config::Mirror>) -> Result<(), Failure> {
    let mut wanted_to_stop = std::pin::pin!(wanted_to_stop());
    outlive_large_files();
    let tokens = Arc::new(Tokens::load(config)?);
    let override_text = match &config.openapi_file {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.map_err(|error| ConfigError::new("OPENAPI_FILE", format!("{}: {error}", path.display())))?)
        }
    };
    let room = listen::make_room();
    let busy =
        |variable, address| move |error| ConfigError::new(variable, format!("cannot listen on {address}: {error}"));
    let listener = listen::bind(config.listen).map_err(busy("LISTEN_ADDR", config.listen))?;
    let metrics_listener = match config.metrics {
        None => None,
        Some(address) => Some(listen::bind(address).map_err(busy("METRICS_ADDR", address))?),
    };

    let metrics = Arc::new(match mirror {
        None => Metrics::default(),
        Some(_) => Metrics::of_mirror(),
    });
    let (api, served) = watch::channel(None);
    let (stop, stopping) = watch::channel(false);
    let most = config.max_connections.unwrap_or(room).min(room);
    if config.max_connections.is_some_and(|wanted| wanted > most) {
        warn!(most, "MAX_CONNECTIONS is more than the limit on open files allows");
    }
    let address = listener.local_addr().unwrap_or(config.listen);
    let limit = listen::Limit {
        most,
        open: metrics.connections.clone(),
        shed: metrics.connections_shed.clone(),
    };
    let grace = config.shutdown_grace;
    // Probes are answered from here on, while a large fleet is still being read.
    let serving = tokio::spawn(listen::serve(listener, served, limit, stopping.clone(), grace));
    let (metrics_api, served) = watch::channel(None);
    if let Some(listener) = metrics_listener {
        let address = listener.local_addr().ok();
        info!(address = address.map(tracing::field::display), "metrics");
        let limit = listen::Limit {
            most: 64,
            open: Default::default(),
            shed: Default::default(),
        };
        tokio::spawn(listen::serve(listener, served, limit, stopping, grace));
    }

    let templates = manifests::templates(config.templates_dir.as_deref())?;
    let (started, following) = tokio::select! {
        started = start(config, mirror, &metrics) => started?,
        signal = &mut wanted_to_stop => {
            info!(signal, "stopping before the start");
            return Ok(());
        }
    };
    let Started { store, fleet, reached } = started;
    let (engine, task) = Engine::start(store.clone(), fleet, metrics.clone(), config.budget, reached);
    let mut app = App::new(
        config,
        engine,
        store.clone(),
        tokens.clone(),
        metrics.clone(),
        templates,
    );
    if let Some(text) = override_text {
        if fleet::yaml::parse(&text).ok() != Some(openapi::document(app.fleet().kinds(), config.mode)) {
            warn!("OPENAPI_FILE differs from what the kinds give; it is served as it is");
        }
        app.openapi_file = Some(text.into());
    }
    app.stopping = Some(stop.subscribe());
    app.limit_streams(most / 4);
    app.mirror = following.as_ref().map(|following| following.status.clone());
    let app = Arc::new(app);
    tokio::spawn(tokens.follow());
    let keeping = config.snapshot_file.clone().map(|path| {
        let app = app.clone();
        tokio::spawn(async move { keep::keep(app, &path).await })
    });
    metrics_api.send_replace(Some(http::metrics(app.clone())));
    api.send_replace(Some(Api::new(app.clone())));
    let (revision, clusters) = (app.fleet().revision().0, app.fleet().clusters().len());
    info!(%address, mode = ?config.mode, store = ?config.backend, revision, clusters, "listening");

    let signal = wanted_to_stop.await;
    info!(signal, "stopping: finishing what is in flight");
    let _nobody = stop.send(true);
    let _ended = serving.await;
    drop(following);
    api.send_replace(None);
    metrics_api.send_replace(None);
    if let Some(keeping) = keeping {
        let _too_long = tokio::time::timeout(Duration::from_secs(5), keeping).await;
    }
    // Everything that was acknowledged is durable already; this leaves the files tidy.
    drop(app);
    let _ended = tokio::time::timeout(Duration::from_secs(1), task).await;
    let _untidy = tokio::time::timeout(Duration::from_secs(3), store.close()).await;
    info!("stopped");
    Ok(())
}

/// What is served at first: what the store holds, or what a mirror has of its origin.
async fn start(
    config: &Config,
    mirror: Option<&config::Mirror>,
    metrics: &Metrics,
) -> Result<(Started, Option<Following>), Failure> {
    Ok(match mirror {
        None => (reach::start(config).await?, None),
        Some(mirror) => {
            let (started, following) = mirror::start(config, mirror, metrics).await?;
            (started, Some(following))
        }
    })
}

/// Makes a write that passes the limit on file sizes an error like that of a full disk; by itself it ends the process.
fn outlive_large_files() {
    const SIGXFSZ: i32 = 25;
    let _as_it_is = signal(SignalKind::from_raw(SIGXFSZ));
}

/// The signal that ends the server. Counts from the call on, not from when it is awaited: a process that is the first of its
/// container gets no signal that it has no handler for.
fn wanted_to_stop() -> impl Future<Output = &'static str> {
    let handlers = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut terminate), Ok(mut interrupt)) = handlers else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}
