//! The addresses that the server listens on: LISTEN_ADDR, and METRICS_ADDR if it is set.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::config::{Config, ConfigError, ConfigErrors};
use crate::http::tls::Tls;
use crate::http::{Api, listen};
use crate::metrics::Metrics;

/// The most connections to METRICS_ADDR.
const METRICS_CONNECTIONS: usize = 64;

/// Addresses that are bound, but not served yet.
pub(super) struct Listeners {
    main: TcpListener,
    metrics: Option<TcpListener>,
    /// The connections that the limit on open files allows.
    room: usize,
}

/// Addresses that are served. Until the fleet is loaded, the senders hold None, and only probes are answered.
pub(super) struct Listening {
    pub(super) api: watch::Sender<Option<Api>>,
    pub(super) metrics_api: watch::Sender<Option<Api>>,
    pub(super) address: SocketAddr,
    pub(super) max_connections: usize,
    task: JoinHandle<()>,
}

impl Listeners {
    pub(super) fn bind(config: &Config) -> Result<Listeners, ConfigErrors> {
        let room = listen::make_room();
        let mut problems = ConfigErrors::default();
        let main = problems.keep(bind("LISTEN_ADDR", config.listen));
        let metrics = config.metrics.map(|address| bind("METRICS_ADDR", address));
        let metrics = problems.keep(metrics.transpose());
        match (main, metrics) {
            (Some(main), Some(metrics)) => Ok(Listeners { main, metrics, room }),
            _ => Err(problems),
        }
    }

    pub(super) fn serve(
        self,
        config: &Config,
        tls: Option<Arc<Tls>>,
        metrics: &Metrics,
        stopping: watch::Receiver<bool>,
    ) -> Listening {
        let max_connections = config.max_connections.unwrap_or(self.room).min(self.room);
        if config.max_connections.is_some_and(|wanted| wanted > max_connections) {
            warn!(
                most = max_connections,
                "MAX_CONNECTIONS is more than the limit on open files allows"
            );
        }
        let grace = config.shutdown_grace;
        let address = self.main.local_addr().unwrap_or(config.listen);
        let limit = listen::Limit {
            most: max_connections,
            open: metrics.connections.clone(),
            shed: metrics.connections_shed.clone(),
        };
        let (api, served) = watch::channel(None);
        let task = tokio::spawn(listen::serve(self.main, served, limit, tls, stopping.clone(), grace));
        let (metrics_api, served) = watch::channel(None);
        if let Some(listener) = self.metrics {
            let address = listener.local_addr().ok();
            info!(address = address.map(tracing::field::display), "metrics");
            let limit = listen::Limit {
                most: METRICS_CONNECTIONS,
                open: Default::default(),
                shed: Default::default(),
            };
            tokio::spawn(listen::serve(listener, served, limit, None, stopping, grace));
        }
        Listening {
            api,
            metrics_api,
            address,
            max_connections,
            task,
        }
    }
}

impl Listening {
    /// Waits until the requests in flight are answered, within the grace period, then lets go of the app.
    pub(super) async fn finish(self) {
        let _ = self.task.await;
        self.api.send_replace(None);
        self.metrics_api.send_replace(None);
    }
}

fn bind(variable: &'static str, address: SocketAddr) -> Result<TcpListener, ConfigError> {
    let listener = listen::bind(address);
    listener.map_err(|error| ConfigError::new(variable, format!("cannot listen on {address}: {error}")))
}
