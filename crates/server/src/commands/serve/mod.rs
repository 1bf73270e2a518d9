//! Runs the server: reads the settings, listens, loads the fleet, serves it until a signal, and stops.

mod listeners;
mod settings;
mod signals;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use store::{PostgresEvidence, SharedEvidence, SqliteEvidence, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use self::listeners::{Listeners, Listening};
use self::settings::Settings;
use super::{Failure, logging};
use crate::app::engine::Engine;
use crate::app::mirror::{self, Following};
use crate::app::start::{self, Started};
use crate::app::{App, rollouts, snapshot_file, status};
use crate::config::{Backend, Config, MirrorOptions, Mode, Options};
use crate::http::{self, Api, openapi};
use crate::metrics::Metrics;

pub(super) async fn run(options: &Options, mirror: Option<&MirrorOptions>) -> Result<(), Failure> {
    let mut stop_signal = pin!(signals::stop_signal());
    signals::ignore_file_size_limit();
    let settings = Settings::read(options, mirror)?;
    let config = &settings.config;
    logging::start(config);
    settings.tokens.log_warnings();
    let metrics = Arc::new(match settings.mirror {
        None => Metrics::default(),
        Some(_) => Metrics::of_mirror(),
    });
    let (stop, stopping) = watch::channel(false);
    // Probes are answered from here on, while a large fleet is still being loaded.
    let listening = Listeners::bind(config)?.serve(config, settings.tls.clone(), &metrics, stopping);
    let loading = load(&settings, &metrics);
    let (started, following) = tokio::select! {
        loaded = loading => loaded?,
        signal = &mut stop_signal => {
            info!(signal, "stopping before the fleet is loaded");
            return Ok(());
        }
    };
    settings.check_callers(&started.fleet)?;
    let serving = Serving::start(settings, metrics, started, following, &stop, listening);
    let signal = stop_signal.await;
    info!(signal, "stopping: finishing requests in flight");
    serving.stop(&stop).await;
    info!("stopped");
    Ok(())
}

/// Loads the fleet: from the store, or for a mirror from its copy of the origin.
async fn load(settings: &Settings, metrics: &Metrics) -> Result<(Started, Option<Following>), Failure> {
    Ok(match &settings.mirror {
        None => (start::start(&settings.config).await?, None),
        Some(mirror) => {
            let (started, following) = mirror::start(&settings.config, mirror, metrics).await?;
            (started, Some(following))
        }
    })
}

/// A server whose fleet is loaded.
struct Serving {
    app: Arc<App>,
    store: Arc<dyn Store>,
    listening: Listening,
    engine_task: JoinHandle<()>,
    /// The task that keeps SNAPSHOT_FILE current.
    snapshot_task: Option<JoinHandle<()>>,
    /// The task that shares evidence of clusters.
    share_task: Option<JoinHandle<()>>,
    following: Option<Following>,
}

/// Where evidence of clusters is shared. None: nowhere, because nothing is stored, or what is stored is a mirror's.
fn evidence_table(config: &Config) -> Option<Arc<dyn SharedEvidence>> {
    let table: Result<Arc<dyn SharedEvidence>, _> = match config.backend {
        Backend::Memory => return None,
        Backend::Sqlite => SqliteEvidence::beside(&config.database_url).map(|table| Arc::new(table) as _),
        Backend::Postgres => {
            PostgresEvidence::of(&config.database_url, start::access(config)).map(|table| Arc::new(table) as _)
        }
    };
    table
        .inspect_err(|error| warn!(%error, "evidence of clusters stays in this process"))
        .ok()
}

impl Serving {
    fn start(
        settings: Settings,
        metrics: Arc<Metrics>,
        started: Started,
        following: Option<Following>,
        stop: &watch::Sender<bool>,
        listening: Listening,
    ) -> Serving {
        let Settings {
            config,
            tokens,
            templates,
            openapi_file,
            tls,
            oidc,
            ..
        } = settings;
        let Started { store, fleet, reached } = started;
        let (engine, engine_task) = Engine::start(store.clone(), fleet, metrics.clone(), config.budget, reached);
        tokio::spawn(templates.clone().follow(metrics.clone()));
        let mut app = App::new(&config, engine, store.clone(), tokens.clone(), metrics, templates);
        if let Some(text) = openapi_file {
            if fleet::yaml::parse(&text).ok() != Some(openapi::document(app.fleet().kinds(), config.mode)) {
                warn!("OPENAPI_FILE differs from the document generated from the kinds; it is served unchanged");
            }
            app.openapi_file = Some(text.into());
        }
        app.oidc.clone_from(&oidc);
        app.stopping = Some(stop.subscribe());
        app.limit_streams(listening.max_connections / 4);
        app.mirror = following.as_ref().map(|following| following.status.clone());
        let app = Arc::new(app);
        tokio::spawn(tokens.follow());
        if let Some(oidc) = oidc {
            tokio::spawn(oidc.follow(app.metrics.oidc_keys_current.clone()));
        }
        if let Some(tls) = tls {
            tokio::spawn(tls.follow(app.metrics.tls_usable.clone()));
        }
        tokio::spawn(status::watch(app.clone()));
        if config.mode == Mode::Crud && app.mirror.is_none() {
            tokio::spawn(rollouts::drive(app.clone()));
        }
        let share_task = evidence_table(&config).map(|table| tokio::spawn(status::share(app.clone(), table)));
        let snapshot_task = config.snapshot_file.clone().map(|path| {
            let app = app.clone();
            tokio::spawn(async move { snapshot_file::keep_current(app, &path).await })
        });
        listening.metrics_api.send_replace(Some(http::metrics(app.clone())));
        listening.api.send_replace(Some(Api::new(app.clone())));
        let (address, fleet) = (listening.address, app.fleet());
        let (revision, clusters) = (fleet.revision().0, fleet.clusters().len());
        info!(%address, mode = ?config.mode, store = ?config.backend, revision, clusters, "listening");
        Serving {
            app,
            store,
            listening,
            engine_task,
            snapshot_task,
            share_task,
            following,
        }
    }

    /// Finishes requests in flight, then closes the store. Everything that was acknowledged is durable already, so each wait has
    /// a limit.
    async fn stop(self, stop: &watch::Sender<bool>) {
        stop.send_replace(true);
        self.listening.finish().await;
        drop(self.following);
        if let Some(task) = self.snapshot_task {
            let _ = timeout(Duration::from_secs(5), task).await;
        }
        if let Some(task) = self.share_task {
            let _ = timeout(Duration::from_secs(6), task).await;
        }
        drop(self.app);
        let _ = timeout(Duration::from_secs(1), self.engine_task).await;
        let _ = timeout(Duration::from_secs(3), self.store.close()).await;
    }
}
