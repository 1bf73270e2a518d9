//! A small file beside the database with the head of its log. It tells a new store from one that was emptied, replaced by an older
//! copy, or lost its write-ahead log: in each of these cases the database itself looks intact.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fleet::log::Head;
use sqlx::SqlitePool;
use tokio::sync::Notify;

use super::file::File;
use super::{Sqlite, head};
use crate::{Store, StoreError};

/// How far the marker may be behind: writing it takes a sync, and commits must not wait for that.
const BEHIND: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Marker {
    path: PathBuf,
    /// Set if the marker belongs to another store: why.
    unexpected: Mutex<Option<String>>,
    moved: Notify,
}

/// The content of a marker.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    Nothing,
    Unreadable,
    At { epoch: String, head: Head },
}

impl Marker {
    pub(super) fn beside(database: &Path) -> Self {
        let mut name = database.file_name().unwrap_or_default().to_owned();
        name.push(".head");
        Marker {
            path: database.with_file_name(name),
            unexpected: Mutex::default(),
            moved: Notify::new(),
        }
    }

    pub(super) fn unexpected(&self) -> Option<String> {
        self.unexpected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn expect(&self, unexpected: Option<String>) {
        *self.unexpected.lock().unwrap_or_else(PoisonError::into_inner) = unexpected;
    }

    fn error(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable {
            place: self.path.display().to_string(),
            detail: error.to_string(),
        }
    }

    /// The head moved: updates the marker soon.
    pub(super) fn moved(&self) {
        self.moved.notify_one();
    }

    /// The store was filled or accepted: writes a new marker.
    pub(super) fn restored(&self, epoch: &str, head: Head) -> io::Result<()> {
        self.expect(None);
        self.write(epoch, head)
    }

    fn read(&self) -> io::Result<Noted> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Noted::Nothing),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Noted::Unreadable),
            Err(error) => return Err(error),
        };
        let mut words = text.split_whitespace();
        let noted = match (words.next(), words.next().and_then(Head::parse), words.next()) {
            (Some(epoch), Some(head), None) => Noted::At {
                epoch: epoch.to_owned(),
                head,
            },
            _ => Noted::Unreadable,
        };
        Ok(noted)
    }

    fn write(&self, epoch: &str, head: Head) -> io::Result<()> {
        // Other processes with the same database may write at the same time.
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed));
        let draft = self.path.with_extension(format!("head.{process}-{number}"));
        let mut file = std::fs::File::create(&draft)?;
        writeln!(file, "{epoch} {head}")?;
        file.sync_all()?;
        std::fs::rename(&draft, &self.path)
    }
}

impl Sqlite {
    /// Compares the store with its marker.
    pub(super) async fn compare_marker(&self) -> Result<(), StoreError> {
        // Read before the head, so that the head is never older than the marker.
        let noted = self.marker.read().map_err(|e| self.marker.error(&e))?;
        let unexpected = self.judge(noted).await?;
        self.marker.expect(unexpected);
        if let Err(error) = advance(&self.file, &self.readers, &self.marker).await {
            tracing::warn!("cannot update the marker beside the store: {error}");
        }
        Ok(())
    }

    async fn judge(&self, noted: Noted) -> Result<Option<String>, StoreError> {
        let found = self.head().await?;
        let (place, marker) = (self.file.place(), self.marker.path.display());
        let (epoch, head) = match noted {
            Noted::Nothing => return Ok(None),
            Noted::Unreadable if found == Head::default() => {
                return Ok(Some(format!(
                    "{place} is empty, but there is an unreadable marker of an earlier database beside it ({marker})"
                )));
            }
            Noted::Unreadable => {
                tracing::warn!("{marker} cannot be read; writing it again");
                return Ok(None);
            }
            Noted::At { epoch, head } => (epoch, head),
        };
        if self.holds(head).await? {
            return Ok(None);
        }
        let was = head.revision;
        if found == Head::default() {
            return Ok(Some(format!(
                "{place} is empty, but it was at revision {was} ({marker}): it was emptied or replaced; put the file back, or restore a backup"
            )));
        }
        if found.revision < was {
            return Ok(Some(format!(
                "{place} is at revision {}, but it was at {was} ({marker}): the last revisions are lost, for example because its -wal file was deleted or an older copy replaced it; put the file back, or restore a backup",
                found.revision
            )));
        }
        // The log may have been compacted since the marker was written.
        let begins = self.checkpoint().await?.map(|checkpoint| checkpoint.head.revision);
        if self.epoch().await? == epoch && begins.is_some_and(|begins| begins > was) {
            return Ok(None);
        }
        Ok(Some(format!(
            "{place} has another history: its revision {was} is not the one that was here ({marker}); put the earlier file back, or restore a backup"
        )))
    }

    pub(super) async fn accept_as_it_is(&self) -> Result<(), StoreError> {
        let (epoch, head) = (self.epoch().await?, self.head().await?);
        let written = self.marker.restored(&epoch, head);
        written.map_err(|e| self.marker.error(&e))
    }
}

/// Updates the marker when the head moves.
pub(super) async fn keep(file: File, readers: SqlitePool, marker: Arc<Marker>) {
    let mut complained = false;
    loop {
        marker.moved.notified().await;
        tokio::time::sleep(BEHIND).await;
        match advance(&file, &readers, &marker).await {
            Ok(()) => complained = false,
            Err(error) if !complained => {
                tracing::warn!("cannot update the marker beside the store: {error}");
                complained = true;
            }
            Err(_) => {}
        }
    }
}

/// Updates the marker to the current head, if that is newer.
pub(super) async fn advance(file: &File, readers: &SqlitePool, marker: &Marker) -> Result<(), StoreError> {
    if marker.unexpected().is_some() {
        return Ok(());
    }
    let read = async {
        let mut tx = readers.begin().await?;
        let epoch: String = sqlx::query_scalar("SELECT epoch FROM epoch")
            .fetch_one(&mut *tx)
            .await?;
        Ok((epoch, head(&mut tx).await?))
    };
    let (epoch, head) = read.await.map_err(|e| file.error(&e))?;
    let write = || match marker.read()? {
        Noted::At { epoch: of, head: at } if of == epoch && at.revision >= head.revision => Ok(()),
        Noted::Nothing if head == Head::default() => Ok(()),
        _ => marker.write(&epoch, head),
    };
    write().map_err(|e| marker.error(&e))
}
