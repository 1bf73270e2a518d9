//! A mirror: an ordinary read-only server on its own store, and one task that copies the origin's revisions to that store, with
//! the same numbers and digests. The same code serves them, so replies and ETags are the same bytes.
//!
//! It goes forward, in one history. Unless `--replace` is set, it refuses an origin that is older than its store or has another
//! history, and keeps serving what it has: an origin that lost its last revisions, or a wrong URL, must not make clusters remove
//! and reinstall.

mod events;
mod file;
mod https;
mod origin;
mod status;
mod task;

use std::sync::Arc;

use fleet::Fleet;
use fleet::log::Revision;
use store::{Store, StoreError};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tracing::info;

use self::origin::Origin;
pub use self::status::{Standing, Status};
use self::task::{Note, Task};
use super::engine;
use super::start::{self, Started};
use crate::config::{self, Config, ConfigErrors, MirrorSource, Mode};
use crate::metrics::Metrics;

/// Why a mirror does not start.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("DATABASE_URL: the stored fleet cannot be loaded: {0}")]
    State(String),
    #[error(
        "DATABASE_URL: the database is not a copy of the origin: {0}; use another database, or --replace to replace its content"
    )]
    Refused(String),
    #[error("the mirror ended before it had a first copy")]
    Ended,
}

/// A running mirror. It stops when this is dropped.
#[derive(Debug)]
pub struct Following {
    _task: JoinSet<()>,
    pub status: Arc<Status>,
}

/// Starts to follow the origin. Returns the first state that may be served, which the store may hold already.
pub async fn start(
    config: &Config,
    mirror: &config::Mirror,
    metrics: &Metrics,
) -> Result<(Started, Following), MirrorError> {
    // The API of a mirror is read-only, but the mirror writes to its store.
    let mut writing = config.clone();
    writing.mode = Mode::Crud;
    let store = start::open_expected_store(&writing).await?;
    let begun = async {
        let (fleet, following) = begin(mirror, store.clone(), metrics).await?;
        Ok((fleet, engine::recent_removals(&*store, config.budget).await?, following))
    };
    match begun.await {
        Ok((fleet, recent, following)) => {
            let reached = Ok(recent);
            Ok((Started { store, fleet, reached }, following))
        }
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn begin(
    mirror: &config::Mirror,
    store: Arc<dyn Store>,
    metrics: &Metrics,
) -> Result<(Fleet, Following), MirrorError> {
    let head = store.head().await?;
    let note = Note::of(&*store).await?.filter(|note| note.head == head);
    let serves = note.is_some() && head.revision > Revision::ZERO;
    let status = Arc::new(Status::new(note.map(|note| note.at)));
    let (first, begun) = oneshot::channel();
    let task = Task {
        store: store.clone(),
        replace: mirror.replace,
        status: status.clone(),
        metrics: metrics.mirror.clone().unwrap_or_default(),
        first: (!serves).then_some(first),
        logged_reason: None,
    };
    let mut tasks = JoinSet::new();
    match &mirror.from {
        MirrorSource::Server { url, token, tls } => {
            let origin = Origin::new(url, token.as_ref(), tls)?;
            tasks.spawn(task.follow_server(origin));
        }
        MirrorSource::File(path) => {
            if !serves && !path.exists() {
                let missing = config::not_an_origin(&path.display().to_string());
                return Err(ConfigErrors::from(missing).into());
            }
            tasks.spawn(task.follow_file(path.clone()));
        }
    }
    if !serves {
        info!("waiting for the first copy from the origin");
        begun
            .await
            .map_err(|_| MirrorError::Ended)?
            .map_err(MirrorError::Refused)?;
    }
    let state = store.load().await?;
    let fleet = spawn_blocking(move || Fleet::load(state)).await;
    let fleet = fleet.map_err(|_| MirrorError::Ended)?.map_err(MirrorError::State)?;
    let following = Following { _task: tasks, status };
    Ok((fleet, following))
}
