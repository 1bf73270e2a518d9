//! A small file beside the database that notes where its log ended. It tells a new store from one that was emptied, replaced by
//! an older copy, or lost its write-ahead log: in each of these cases the database alone looks sound.

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

/// How long commits may go on before the marker follows: writing it costs a sync, which commits need not wait for.
const BEHIND: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Marker {
    path: PathBuf,
    /// Why the store is not the one that the marker is of, if so.
    unexpected: Mutex<Option<String>>,
    moved: Notify,
}

/// What a marker says.
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

    /// The head moved: the marker follows soon.
    pub(super) fn moved(&self) {
        self.moved.notify_one();
    }

    /// The store was filled on purpose, whatever was here before.
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
        // Others that share the database write at the same time.
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
    /// Holds the store against its marker.
    pub(super) async fn compare_marker(&self) -> Result<(), StoreError> {
        // Before the head is read: that one is never behind the marker.
        let noted = self.marker.read().map_err(|e| self.marker.error(&e))?;
        let unexpected = self.judge(noted).await?;
        self.marker.expect(unexpected);
        if let Err(error) = advance(&self.file, &self.readers, &self.marker).await {
            tracing::warn!("cannot note where the store is: {error}");
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
                    "{place} is empty, though there is a marker of an earlier one beside it ({marker}), which cannot be read"
                )));
            }
            Noted::Unreadable => {
                tracing::warn!("{marker} cannot be read, and is written again");
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
                "{place} is empty, though it was at revision {was} ({marker}): it was emptied or replaced; put it back, or restore a backup"
            )));
        }
        if found.revision < was {
            return Ok(Some(format!(
                "{place} is at revision {}, though it was at {was} ({marker}): the last revisions are lost, as when its -wal file is deleted or an older copy is put in its place; put it back, or restore a backup",
                found.revision
            )));
        }
        // The log may have been compacted since the marker was written.
        let begins = self.checkpoint().await?.map(|checkpoint| checkpoint.head.revision);
        if self.epoch().await? == epoch && begins.is_some_and(|begins| begins > was) {
            return Ok(None);
        }
        Ok(Some(format!(
            "{place} has another history: its revision {was} is not the one that was here ({marker}); put back the file that was here, or restore a backup"
        )))
    }

    pub(super) async fn accept_as_it_is(&self) -> Result<(), StoreError> {
        let (epoch, head) = (self.epoch().await?, self.head().await?);
        let written = self.marker.restored(&epoch, head);
        written.map_err(|e| self.marker.error(&e))
    }
}

/// Keeps the marker close to the head.
pub(super) async fn keep(file: File, readers: SqlitePool, marker: Arc<Marker>) {
    let mut complained = false;
    loop {
        marker.moved.notified().await;
        tokio::time::sleep(BEHIND).await;
        match advance(&file, &readers, &marker).await {
            Ok(()) => complained = false,
            Err(error) if !complained => {
                tracing::warn!("cannot note where the store is: {error}");
                complained = true;
            }
            Err(_) => {}
        }
    }
}

/// Brings the marker to where the log ends now, if that is further.
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
