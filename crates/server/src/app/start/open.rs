//! Opening the store that the configuration names.

use std::sync::Arc;

use store::{Access, Memory, Postgres, Sqlite, Store, StoreError};
use tracing::warn;

use crate::config::{Backend, Config, Mode};

/// Opens the store, and creates its schema if the mode allows writes.
pub async fn open_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config.backend {
        Backend::Memory => Arc::new(Memory::default()),
        // A SQLite file belongs to this host, so any process may create it, in either mode.
        Backend::Sqlite => Arc::new(Sqlite::open(&config.database_url).await?),
        Backend::Postgres => Arc::new(Postgres::open(&config.database_url, access(config)).await?),
    })
}

/// Opens the store of a process that serves it or writes to it: it must be the store that was here before.
pub async fn open_expected_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    let store = open_store(config).await?;
    refuse_unexpected(config, &*store).await?;
    Ok(store)
}

/// Refuses a store that is not the one that was here before, unless ACCEPT_NEW_STORE is set.
pub async fn refuse_unexpected(config: &Config, store: &dyn Store) -> Result<(), StoreError> {
    match store.unexpected() {
        None => Ok(()),
        Some(detail) if config.accept_new_store => {
            warn!("ACCEPT_NEW_STORE: {detail}: the store is accepted as it is");
            store.accept().await
        }
        Some(detail) => {
            store.close().await;
            Err(StoreError::Unexpected(detail))
        }
    }
}

/// Whether the SQLite file of the configuration exists.
pub fn store_exists(config: &Config) -> bool {
    Sqlite::exists(&config.database_url)
}

/// Opens a store that exists already, and creates nothing.
pub async fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config.backend {
        Backend::Memory => Arc::new(Memory::default()),
        Backend::Sqlite => Arc::new(Sqlite::open_existing(&config.database_url).await?),
        Backend::Postgres => {
            // Opened for reading, it creates no schema: this fails when there is none.
            let existing = Postgres::open(&config.database_url, Access::Read).await?;
            if access(config) == Access::Read {
                return Ok(Arc::new(existing));
            }
            existing.close().await;
            Arc::new(Postgres::open(&config.database_url, Access::Write).await?)
        }
    })
}

pub fn access(config: &Config) -> Access {
    match config.mode {
        Mode::Crud => Access::Write,
        Mode::ReadOnly => Access::Read,
    }
}
