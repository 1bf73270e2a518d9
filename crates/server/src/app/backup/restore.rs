//! From the lines of a backup to a store.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use fleet::audit::{Audit, Broken};
use fleet::log::{Checkpoint, Head, Resource, RevisionRecord};
use fleet::snapshot::unique_of;
use store::{Restore, Store, StoreError};

use super::lines::{End, Header, Line, VERSION};

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("DATABASE_URL: {0}; --replace replaces everything in it")]
    NotEmpty(StoreError),
    #[error("DATABASE_URL: {0}")]
    Store(StoreError),
    #[error("{file}: {error}")]
    Read { file: String, error: io::Error },
    #[error("{file}: line {line}: {detail}")]
    Line { file: String, line: u64, detail: String },
}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotEmpty { .. } => RestoreError::NotEmpty(error),
            error => RestoreError::Store(error),
        }
    }
}

/// What was restored.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    pub head: Head,
    pub revisions: u64,
    pub resources: u64,
}

/// Fills a store from a file, or from standard input for `-`. When it fails, the store is as it was.
pub async fn restore(store: &dyn Store, file: &Path, replace: bool) -> Result<Restored, RestoreError> {
    let mut lines = Lines::open(file)?;
    let header = match lines.next()? {
        Some(Line::Backup(header)) => header,
        _ => return Err(lines.wrong("a backup of flux-resourceset begins otherwise")),
    };
    let (head, checkpoint) = lines.header(&header)?;
    // From here on nobody else writes, and nothing is seen before the end.
    let mut target = store.restore(replace).await?;
    if let Some(checkpoint) = checkpoint {
        target.checkpoint(checkpoint).await?;
    }
    target.applied(header.applied.into_iter().collect()).await?;
    let begins = checkpoint.map(|checkpoint| checkpoint.head).unwrap_or_default();
    let mut audit = Audit::new(begins, &[]).map_err(|broken| lines.broken(&broken))?;
    let mut found = End {
        head: head.to_string(),
        ..End::default()
    };
    let mut pending = Pending::default();
    loop {
        match lines.next()? {
            Some(Line::Revision(line)) if found.resources == 0 => {
                let record = line.read().ok_or_else(|| lines.wrong("its digest cannot be read"))?;
                audit.record(&record).map_err(|broken| lines.broken(&broken))?;
                found.revisions += 1;
                pending.records.push(record);
            }
            Some(Line::Resource(line)) => {
                let resource = line.read();
                audit.resource(&resource).map_err(|broken| lines.broken(&broken))?;
                found.resources += 1;
                pending.resources.push(resource);
            }
            Some(Line::End(end)) => {
                if end != found || audit.head() != head {
                    return Err(lines.wrong("it is not the end of what comes before it: lines are missing"));
                }
                break;
            }
            Some(_) => return Err(lines.wrong("it does not belong here")),
            None => return Err(lines.wrong("the file ends before its end: it was cut off")),
        }
        pending.flush(&mut *target, lines.length, false).await?;
    }
    pending.flush(&mut *target, 0, true).await?;
    let sum = audit.end().map_err(|broken| lines.broken(&broken))?;
    sum.compare(checkpoint).map_err(|broken| lines.broken(&broken))?;
    if lines.next()?.is_some() {
        return Err(lines.wrong("the file goes on after its end"));
    }
    target.finish().await?;
    Ok(Restored {
        head,
        revisions: found.revisions,
        resources: found.resources,
    })
}

/// What is sent to the store together.
#[derive(Default)]
struct Pending {
    records: Vec<RevisionRecord>,
    resources: Vec<Resource>,
    bytes: usize,
}

impl Pending {
    async fn flush(&mut self, target: &mut dyn Restore, more: usize, all: bool) -> Result<(), StoreError> {
        const AT_ONCE: usize = 1 << 20;
        self.bytes += more;
        if self.bytes < AT_ONCE && !all {
            return Ok(());
        }
        self.bytes = 0;
        target.revisions(&std::mem::take(&mut self.records)).await?;
        let resources = std::mem::take(&mut self.resources).into_iter().map(|resource| {
            let unique = unique_of(&resource.kind, &resource.body);
            (resource, unique)
        });
        target.resources(resources.collect()).await
    }
}

/// The lines of a file, each with its number.
struct Lines {
    name: String,
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    length: usize,
}

impl Lines {
    fn open(file: &Path) -> Result<Self, RestoreError> {
        let name = file.display().to_string();
        let failed = |error| RestoreError::Read {
            file: name.clone(),
            error,
        };
        let mut input: Box<dyn BufRead + Send> = match file == Path::new("-") {
            true => Box::new(BufReader::new(io::stdin())),
            false => Box::new(BufReader::with_capacity(1 << 20, File::open(file).map_err(failed)?)),
        };
        // Told by its first bytes, since standard input has no name.
        let packed = input.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        if packed {
            input = Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(input)));
        }
        Ok(Lines {
            name,
            input,
            line: Vec::new(),
            number: 0,
            length: 0,
        })
    }

    fn next(&mut self) -> Result<Option<Line>, RestoreError> {
        self.line.clear();
        self.number += 1;
        let read = self.input.read_until(b'\n', &mut self.line);
        self.length = read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.wrong("the file ends before its end: it was cut off"),
            _ => RestoreError::Read {
                file: self.name.clone(),
                error,
            },
        })?;
        if self.length == 0 {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') {
            return Err(self.wrong("the file ends before its end: it was cut off"));
        }
        match serde_json::from_slice(&self.line) {
            Ok(line) => Ok(Some(line)),
            Err(error) => Err(self.wrong(&format!("it is no line of a backup: {error}"))),
        }
    }

    fn header(&self, header: &Header) -> Result<(Head, Option<Checkpoint>), RestoreError> {
        if header.version != VERSION {
            let detail = format!(
                "it is of version {}, which release {} wrote; this release knows {VERSION}",
                header.version, header.release
            );
            return Err(self.wrong(&detail));
        }
        let digest = || self.wrong("its digests cannot be read");
        let checkpoint = header.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|line| line.read().ok_or_else(digest)).transpose()?;
        Ok((Head::parse(&header.head).ok_or_else(digest)?, checkpoint))
    }

    fn broken(&self, broken: &Broken) -> RestoreError {
        self.wrong(&broken.to_string())
    }

    fn wrong(&self, detail: &str) -> RestoreError {
        RestoreError::Line {
            file: self.name.clone(),
            line: self.number,
            detail: detail.to_owned(),
        }
    }
}
