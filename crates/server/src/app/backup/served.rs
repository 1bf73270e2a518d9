//! `GET /backup`: a backup that a client reads.

use tokio::sync::OwnedSemaphorePermit;

use super::{Backup, BackupError};
use crate::app::App;
use crate::app::errors::ReadError;

/// A backup that a client reads, with its place among the few that run at a time.
#[derive(Debug)]
pub struct ServedBackup {
    pub backup: Backup,
    _place: OwnedSemaphorePermit,
}

impl App {
    /// Begins a backup of the store as it is now.
    pub async fn begin_backup(&self) -> Result<ServedBackup, ReadError> {
        let place = self.backups.clone().try_acquire_owned();
        let place = place.map_err(|_| ReadError::Busy("other backups are in progress: try again later"))?;
        let backup = Backup::begin(&*self.store, false).await.map_err(|error| match error {
            BackupError::Store(error) => error.into(),
            error => {
                tracing::error!(%error, "cannot begin a backup");
                ReadError::Internal
            }
        })?;
        Ok(ServedBackup { backup, _place: place })
    }
}
