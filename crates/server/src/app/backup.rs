//! The whole store as lines of JSON, and back. Whatever the store is made of, the lines are the same:
//!
//! a `backup` with where log and state end, the checkpoint if there is one, and the notes beside the state; each `revision` of
//! the log; each `resource` of the state; an `end` that says how many of them there were, so that a file that was cut is found.

mod lines;
mod restore;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::audit::{Audit, Broken};
use fleet::log::RevisionRecord;
use store::{Export, Store, StoreError};
use tokio::sync::OwnedSemaphorePermit;

pub use self::lines::End;
pub(super) use self::lines::ResourceLine;
use self::lines::{CheckpointLine, Header, Line, RevisionLine, VERSION};
pub use self::restore::{Opened, RESTORED, RestoreError, Restored, restore};
use super::App;
use super::errors::ReadError;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("DATABASE_URL: {0}; nothing was written")]
    Store(#[from] StoreError),
    /// What could never be restored is no backup.
    #[error("DATABASE_URL: {0}; nothing was written")]
    Broken(#[from] Broken),
    #[error("DATABASE_URL: {0} holds no JSON")]
    Unwritable(String),
    #[error("{file}: {error}")]
    Write { file: String, error: io::Error },
}

/// A revision as a line of a backup has it, and as a stream of changes sends it.
pub fn read_revision(text: &[u8]) -> Result<RevisionRecord, String> {
    let line: RevisionLine = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    line.read().ok_or_else(|| "its digest cannot be read".to_owned())
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Header,
    Revisions,
    Resources,
    Nothing,
}

/// A backup that is being written, a piece at a time.
#[derive(Debug)]
pub struct Backup {
    export: Box<dyn Export>,
    /// Checks what is written, at the cost of a digest for each resource.
    audit: Option<Audit>,
    stage: Stage,
    end: End,
}

impl Backup {
    /// Of the store as it is now. Who has the memory lets it be checked.
    pub async fn begin(store: &dyn Store, check: bool) -> Result<Self, BackupError> {
        let export = store.export().await?;
        let begins = export
            .checkpoint()
            .map(|checkpoint| checkpoint.head)
            .unwrap_or_default();
        Ok(Backup {
            audit: check.then(|| Audit::new(begins, &[])).transpose()?,
            end: End {
                head: export.head().to_string(),
                ..End::default()
            },
            export,
            stage: Stage::Header,
        })
    }

    pub fn head(&self) -> fleet::log::Head {
        self.export.head()
    }

    /// The next lines. None after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        let mut text = Vec::new();
        while text.is_empty() {
            match self.stage {
                Stage::Header => {
                    write(&mut text, &Line::Backup(self.header()), || "the head".to_owned())?;
                    self.stage = Stage::Revisions;
                }
                Stage::Revisions => {
                    let records = self.export.revisions().await?;
                    if records.is_empty() {
                        self.stage = Stage::Resources;
                    }
                    for record in records {
                        if let Some(audit) = &mut self.audit {
                            audit.record(&record)?;
                        }
                        let name = format!("revision {}", record.revision);
                        write(&mut text, &Line::Revision(RevisionLine::from(record)), || name)?;
                        self.end.revisions += 1;
                    }
                }
                Stage::Resources => {
                    let resources = self.export.resources().await?;
                    if resources.is_empty() {
                        if let Some(audit) = self.audit.take() {
                            audit.end()?.compare(self.export.checkpoint())?;
                        }
                        write(&mut text, &Line::End(self.end.clone()), || "the end".to_owned())?;
                        self.stage = Stage::Nothing;
                    }
                    for resource in resources {
                        if let Some(audit) = &mut self.audit {
                            audit.resource(&resource)?;
                        }
                        let name = format!("{}/{}", resource.kind, resource.id);
                        write(&mut text, &Line::Resource(ResourceLine::from(resource)), || name)?;
                        self.end.resources += 1;
                    }
                }
                Stage::Nothing => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    fn header(&self) -> Header {
        Header {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            at: crate::now(),
            head: self.export.head().to_string(),
            checkpoint: self.export.checkpoint().map(CheckpointLine::from),
            applied: self.export.applied().clone(),
        }
    }
}

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

/// Adds a line. What was tampered with may not be JSON.
fn write(text: &mut Vec<u8>, line: &Line, name: impl FnOnce() -> String) -> Result<(), BackupError> {
    serde_json::to_writer(&mut *text, line).map_err(|_| BackupError::Unwritable(name()))?;
    text.push(b'\n');
    Ok(())
}

/// Writes a backup to a file, which is there when it is whole; `-` is standard output. Returns how much it holds.
pub async fn backup(store: &dyn Store, file: &Path) -> Result<End, BackupError> {
    let name = file.display().to_string();
    let failed = |error| BackupError::Write {
        file: name.clone(),
        error,
    };
    let mut backup = Backup::begin(store, true).await?;
    if file == Path::new("-") {
        let mut out = io::stdout().lock();
        while let Some(lines) = backup.next().await? {
            out.write_all(&lines).map_err(failed)?;
        }
        out.flush().map_err(failed)?;
        return Ok(backup.end);
    }
    let draft = Draft::create(file).map_err(failed)?;
    let mut out = match file.extension() {
        Some(extension) if extension == OsStr::new("gz") => {
            Out::Packed(Box::new(GzEncoder::new(&draft.file, Compression::default())))
        }
        _ => Out::Plain(&draft.file),
    };
    while let Some(lines) = backup.next().await? {
        out.write_all(&lines).map_err(failed)?;
    }
    out.finish().map_err(failed)?;
    draft.keep(file).map_err(failed)?;
    Ok(backup.end)
}

enum Out<'a> {
    Plain(&'a File),
    Packed(Box<GzEncoder<&'a File>>),
}

impl Out<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::Plain(out) => out.write_all(bytes),
            Out::Packed(out) => out.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Out::Plain(_) => Ok(()),
            Out::Packed(out) => out.finish().map(drop),
        }
    }
}

/// A file under another name until it is whole: a backup that breaks off leaves the one before it alone. It holds whatever
/// the fleet holds, so it is for its owner only.
pub(super) struct Draft {
    pub(super) file: File,
    path: PathBuf,
    kept: bool,
}

impl Draft {
    pub(super) fn create(target: &Path) -> io::Result<Draft> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = target.with_file_name(name);
        let mut options = File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Draft {
            file,
            path,
            kept: false,
        })
    }

    pub(super) fn keep(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, target)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
