//! Getting hold of the store: opening it, waiting for it where it is another machine's, or starting without it from the copy
//! that an earlier run kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::budget::Recent;
use fleet::log::Head;
use store::{Access, Memory, Postgres, Sqlite, Store, StoreError};
use tracing::{info, warn};

use super::engine;
use super::keep::{self, Kept};
use super::startup::{StartError, fill, prepare};
use crate::config::{Backend, Config, Mode};

/// How long until a store that is not there is tried again.
const REST: Duration = Duration::from_secs(1);

/// How long an attempt takes that was answered too late, rather than not at all; and how many of them there may be.
const SLOW: Duration = Duration::from_secs(2);
const TRIES: usize = 5;

/// What a server starts with.
#[derive(Debug)]
pub struct Started {
    pub store: Arc<dyn Store>,
    pub fleet: Fleet,
    /// What was removed lately, and that the fleet is current; or how long ago it was, when the store is away.
    pub reached: Result<Recent, Duration>,
}

/// Opens the store of a process that may do what its mode says.
pub async fn open(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config.backend {
        Backend::Memory => Arc::new(Memory::default()),
        // Its files are this host's, and whoever comes first makes them.
        Backend::Sqlite => Arc::new(Sqlite::open(&config.database_url).await?),
        Backend::Postgres => Arc::new(Postgres::open(&config.database_url, access(config)).await?),
    })
}

/// The same for a process that serves what the store holds or adds to it: it must be the store that was here before.
pub async fn open_expected(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    let store = open(config).await?;
    expect(config, &*store).await?;
    Ok(store)
}

/// Refuses a store that is not the one that was here before, unless it is to be accepted.
pub async fn expect(config: &Config, store: &dyn Store) -> Result<(), StoreError> {
    match store.unexpected() {
        None => Ok(()),
        Some(detail) if config.accept_new_store => {
            warn!("ACCEPT_NEW_STORE: {detail}: it is used as it is");
            store.accept().await
        }
        Some(detail) => {
            store.close().await;
            Err(StoreError::Unexpected(detail))
        }
    }
}

/// The store of a command that works on what is there: neither created nor filled.
pub async fn open_existing(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config.backend {
        Backend::Memory => Arc::new(Memory::default()),
        Backend::Sqlite => Arc::new(Sqlite::open_existing(&config.database_url).await?),
        Backend::Postgres => {
            // Who reads makes no schema: if this works, there is one.
            let there = Postgres::open(&config.database_url, Access::Read).await?;
            if access(config) == Access::Read {
                return Ok(Arc::new(there));
            }
            there.close().await;
            Arc::new(Postgres::open(&config.database_url, Access::Write).await?)
        }
    })
}

fn access(config: &Config) -> Access {
    match config.mode {
        Mode::Crud => Access::Write,
        Mode::ReadOnly => Access::Read,
    }
}

/// The store and what it holds, as soon as that is to be had.
///
/// Who only reads a PostgreSQL database waits for whoever may write to make it. Who has a copy of the fleet waits for a database
/// that is away, or goes ahead with the copy if that is allowed. Everybody else is told what is wrong.
pub async fn start(config: &Config) -> Result<Started, StartError> {
    let mut kept = None;
    let mut waits = false;
    let mut slow = 0;
    loop {
        let begun = Instant::now();
        let error = match begin(config).await {
            Err(StartError::Store(error)) if config.backend == Backend::Postgres => error,
            begun => return begun,
        };
        let may_wait = match &error {
            StoreError::NotReady { .. } => config.mode == Mode::ReadOnly,
            StoreError::Unavailable { .. } => {
                // Who is only slow, because everybody starts at once, gets another chance; who is not there is not.
                slow += usize::from(begun.elapsed() > SLOW);
                kept = kept.or_else(|| copy(config));
                kept.is_some() || (begun.elapsed() > SLOW && slow < TRIES)
            }
            _ => false,
        };
        if !may_wait {
            return Err(error.into());
        }
        if config.allow_stale_start
            && let Some(Kept { fleet, age }) = kept.take()
        {
            warn!(%error, head = %fleet.head(), age_seconds = age.as_secs(), "starting from SNAPSHOT_FILE");
            let store = Arc::new(Postgres::later(&config.database_url, access(config))?);
            tokio::spawn(catch_up(config.clone()));
            return Ok(Started {
                store,
                fleet,
                reached: Err(age),
            });
        }
        if !std::mem::replace(&mut waits, true) {
            warn!(%error, "waiting for the store");
        }
        tokio::time::sleep(REST).await;
    }
}

async fn begin(config: &Config) -> Result<Started, StartError> {
    let store = open_expected(config).await?;
    let begun = async {
        if config.backend != Backend::Memory && store.head().await? == Head::default() {
            // Whoever lost the database would have clusters told what the seed says.
            if let Some(Kept { fleet, .. }) = copy(config) {
                return Err(StartError::Emptied(fleet.revision()));
            }
            fill_apart(config.clone()).await?;
        }
        let fleet = prepare(config, &*store, true).await?;
        let recent = engine::recent(&*store, config.budget).await?;
        Ok((fleet, recent))
    };
    match begun.await {
        Ok((fleet, recent)) => Ok(Started {
            store,
            fleet,
            reached: Ok(recent),
        }),
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

/// Fills the empty store on threads and connections that end with it: the allocator keeps what a thread used for as long as the
/// thread lives, and a large seed takes several times the memory of the fleet.
async fn fill_apart(config: Config) -> Result<(), StartError> {
    let job = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StartError::State(format!("cannot start a thread: {error}")))?;
        runtime.block_on(async {
            let store = open(&config).await?;
            let filled = fill(&config, &*store, true).await;
            store.close().await;
            filled
        })
    };
    let (sender, filled) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(job()).is_ok());
    let panicked = || StartError::State("an internal error while the first revision was made".to_owned());
    filled.await.unwrap_or_else(|_| Err(panicked()))
}

/// What an earlier run kept. A copy that cannot be used is as good as none.
fn copy(config: &Config) -> Option<Kept> {
    let path = config.snapshot_file.as_deref()?;
    let read = keep::read(path);
    read.inspect_err(|error| warn!(%error, "SNAPSHOT_FILE cannot be used"))
        .ok()
        .flatten()
}

/// What a start on the store itself would have done: schema, kinds of files. The engine takes it over like anybody's writes.
async fn catch_up(config: Config) {
    loop {
        match begin(&config).await {
            Ok(started) => {
                info!("reached the store");
                return started.store.close().await;
            }
            Err(StartError::Store(StoreError::Unavailable { .. } | StoreError::NotReady { .. })) => {
                tokio::time::sleep(REST).await;
            }
            Err(error) => {
                warn!(%error, "the store is back, and cannot be used as a start would: restart this replica");
                return;
            }
        }
    }
}
