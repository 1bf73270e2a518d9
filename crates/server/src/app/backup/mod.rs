//! The whole store as lines of JSON, and back. The lines do not depend on the kind of store:
//!
//! - a `backup` with the head, the checkpoint if there is one, and the notes beside the state;
//! - each `revision` of the log;
//! - each `resource` of the state;
//! - an `end` with their numbers, so that a file that was cut off is recognized.

pub mod folder;
mod lines;
mod restore;
mod revoked;
mod served;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::audit::{Audit, Broken};
use fleet::log::RevisionRecord;
use store::{Export, Store, StoreError};

pub use self::lines::End;
pub(super) use self::lines::ResourceLine;
use self::lines::{CheckpointLine, Header, Line, RevisionLine, VERSION};
pub use self::restore::{Opened, RESTORED, RestoreError, Restored, Terms, restore};
pub use self::served::ServedBackup;
use super::partial_file::PartialFile;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("DATABASE_URL: {0}; nothing was written")]
    Store(#[from] StoreError),
    /// The store is damaged: a backup of it could not be restored.
    #[error("DATABASE_URL: {0}; nothing was written")]
    Broken(#[from] Broken),
    #[error("DATABASE_URL: {0} is not valid JSON; nothing was written")]
    Unwritable(String),
    #[error("{file}: {error}")]
    Write { file: String, error: io::Error },
    #[error("--keep is for a folder, and {} is none", .0.display())]
    NoFolder(PathBuf),
}

/// Reads a revision from a line of a backup, or from an event of a stream of changes: both have the same form.
pub fn read_revision(text: &[u8]) -> Result<RevisionRecord, String> {
    let line: RevisionLine = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    line.read().ok_or_else(|| "the digest is not valid".to_owned())
}

/// What to write next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Header,
    Revisions,
    Resources,
    Done,
}

/// A backup in progress. Its lines are read from the store in pieces.
#[derive(Debug)]
pub struct Backup {
    export: Box<dyn Export>,
    /// Checks the lines, at the cost of a digest for each resource in memory.
    audit: Option<Audit>,
    stage: Stage,
    end: End,
}

impl Backup {
    /// Begins a backup of the store as it is now. `check`: whether to check it, which takes more memory.
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

    /// The next lines. None: the backup is complete.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        let mut text = Vec::new();
        while text.is_empty() {
            match self.stage {
                Stage::Header => {
                    write(&mut text, &Line::Backup(self.header()), || "the head".to_owned())?;
                    self.stage = Stage::Revisions;
                }
                Stage::Revisions => self.write_revisions(&mut text).await?,
                Stage::Resources => self.write_resources(&mut text).await?,
                Stage::Done => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    async fn write_revisions(&mut self, text: &mut Vec<u8>) -> Result<(), BackupError> {
        let records = self.export.revisions().await?;
        if records.is_empty() {
            self.stage = Stage::Resources;
        }
        for record in records {
            if let Some(audit) = &mut self.audit {
                audit.record(&record)?;
            }
            let name = format!("revision {}", record.revision);
            write(text, &Line::Revision(RevisionLine::from(record)), || name)?;
            self.end.revisions += 1;
        }
        Ok(())
    }

    /// Writes the next resources, or the end after the last of them.
    async fn write_resources(&mut self, text: &mut Vec<u8>) -> Result<(), BackupError> {
        let resources = self.export.resources().await?;
        if resources.is_empty() {
            if let Some(audit) = self.audit.take() {
                audit.end()?.compare(self.export.checkpoint())?;
            }
            write(text, &Line::End(self.end.clone()), || "the end".to_owned())?;
            self.stage = Stage::Done;
        }
        for resource in resources {
            if let Some(audit) = &mut self.audit {
                audit.resource(&resource)?;
            }
            let name = format!("{}/{}", resource.kind, resource.id);
            write(text, &Line::Resource(ResourceLine::from(resource)), || name)?;
            self.end.resources += 1;
        }
        Ok(())
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

/// Adds a line. Fails for a body that is not JSON, as in a store that was tampered with.
fn write(text: &mut Vec<u8>, line: &Line, name: impl FnOnce() -> String) -> Result<(), BackupError> {
    serde_json::to_writer(&mut *text, line).map_err(|_| BackupError::Unwritable(name()))?;
    text.push(b'\n');
    Ok(())
}

/// Writes a backup to a file, which appears when it is complete, or to standard output for `-`. Returns its last line.
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
    let partial = PartialFile::create(file).map_err(failed)?;
    let mut out = match file.extension() {
        Some(extension) if extension == OsStr::new("gz") => {
            Out::Compressed(Box::new(GzEncoder::new(&partial.file, Compression::default())))
        }
        _ => Out::Plain(&partial.file),
    };
    while let Some(lines) = backup.next().await? {
        out.write_all(&lines).map_err(failed)?;
    }
    out.finish().map_err(failed)?;
    partial.finish(file).map_err(failed)?;
    Ok(backup.end)
}

enum Out<'a> {
    Plain(&'a File),
    Compressed(Box<GzEncoder<&'a File>>),
}

impl Out<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::Plain(out) => out.write_all(bytes),
            Out::Compressed(out) => out.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Out::Plain(_) => Ok(()),
            Out::Compressed(out) => out.finish().map(drop),
        }
    }
}
