//! Fills a store from the lines of a backup.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::vec;

use flate2::bufread::MultiGzDecoder;
use fleet::audit::{Audit, Broken};
use fleet::identity::{IDENTITIES, Revocations};
use fleet::log::{Checkpoint, Head, Resource, Revision, RevisionRecord};
use fleet::snapshot::unique_of;
use store::{Restore, Store, StoreError};
use tokio::sync::mpsc;

use super::lines::{End, Header, Line, VERSION};
use super::revoked::{self, Revoked};

/// The key of the note that a store was filled from a backup, and when. A store without it was filled by a start.
pub const RESTORED: &str = "restored";

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("DATABASE_URL: {0}; use --replace to replace its content")]
    NotEmpty(StoreError),
    #[error("DATABASE_URL: {0}")]
    Store(StoreError),
    #[error("{file}: {error}")]
    Read { file: String, error: io::Error },
    #[error("{file}: line {line}: {detail}")]
    Line { file: String, line: u64, detail: String },
    #[error(
        "what the store revoked cannot be read: DATABASE_URL: {0}; use --forget-revocations to make every token of the backup valid again"
    )]
    Revocations(StoreError),
    #[error("{file}: revision {revision} differs from the one in the store: the backup has another history")]
    AnotherHistory { file: String, revision: Revision },
}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotEmpty { .. } => RestoreError::NotEmpty(error),
            error => RestoreError::Store(error),
        }
    }
}

/// The content that was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    pub head: Head,
    pub revisions: u64,
    pub resources: u64,
    /// What the store had revoked and the backup had not, one line each. The last revision revokes it again.
    pub revoked: Vec<String>,
}

/// How a store is filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Whether its content is replaced. Otherwise it must be empty.
    pub replace: bool,
    /// Whether what its content revoked stays revoked.
    pub keeps_revocations: bool,
    /// Heads that the log of the backup must contain.
    pub anchors: &'a [Head],
    /// Notes that are stored beside those of the backup.
    pub notes: &'a [(String, String)],
}

/// Fills a store from a file, or from standard input for `-`. On failure the store is unchanged.
pub async fn restore(store: &dyn Store, file: &Path, terms: Terms<'_>) -> Result<Restored, RestoreError> {
    Opened::file(file).await?.restore(store, terms).await
}

/// A backup whose first line was read. The other lines are not checked yet.
#[derive(Debug)]
pub struct Opened {
    lines: Lines,
    header: Header,
    head: Head,
    checkpoint: Option<Checkpoint>,
}

impl Opened {
    /// Opens a file, or standard input for `-`.
    pub async fn file(file: &Path) -> Result<Self, RestoreError> {
        let name = file.display().to_string();
        if file == Path::new("-") {
            return Self::read(name, io::stdin()).await;
        }
        match File::open(file) {
            Ok(input) => Self::read(name, input).await,
            Err(error) => Err(RestoreError::Read { file: name, error }),
        }
    }

    /// Reads from `input`, which errors call `name`.
    pub async fn read(name: String, input: impl Read + Send + 'static) -> Result<Self, RestoreError> {
        let mut lines = Lines::start(name, input);
        let header = match lines.next().await? {
            Some(Line::Backup(header)) => header,
            _ => return Err(lines.wrong("this is not a backup of flux-resourceset")),
        };
        let (head, checkpoint) = lines.header(&header)?;
        Ok(Opened {
            lines,
            header,
            head,
            checkpoint,
        })
    }

    /// The head that its first line names.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The head before its first revision.
    pub fn begins(&self) -> Head {
        self.checkpoint.map(|checkpoint| checkpoint.head).unwrap_or_default()
    }

    /// When it was written, by its first line.
    pub fn at(&self) -> &str {
        &self.header.at
    }

    /// Fills a store with it.
    pub async fn restore(self, store: &dyn Store, terms: Terms<'_>) -> Result<Restored, RestoreError> {
        // The transaction of the restore: no other process can write, and readers see nothing before its end.
        let target = store.restore(terms.replace).await?;
        let revocations = match terms.keeps_revocations {
            true => {
                let found = revoked::read(store, self.head, self.begins()).await;
                Some(found.map_err(RestoreError::Revocations)?)
            }
            false => None,
        };
        self.read_into(Some(target), revocations, terms).await
    }

    /// Checks that it could be restored, without a store.
    pub async fn check(self) -> Result<Restored, RestoreError> {
        self.read_into(None, None, Terms::default()).await
    }

    /// Checks every line, and sends them to the target if there is one.
    async fn read_into(
        self,
        mut target: Option<Box<dyn Restore>>,
        revocations: Option<Revocations>,
        terms: Terms<'_>,
    ) -> Result<Restored, RestoreError> {
        let begins = self.begins();
        let Opened {
            mut lines,
            header,
            head,
            checkpoint,
        } = self;
        if let Some(target) = &mut target {
            if let Some(checkpoint) = checkpoint {
                target.checkpoint(checkpoint).await?;
            }
            let mut applied = header.applied;
            applied.extend(terms.notes.iter().cloned());
            applied.insert(RESTORED.to_owned(), crate::now());
            target.applied(applied.into_iter().collect()).await?;
        }
        let mut reading = Reading {
            audit: Audit::new(begins, terms.anchors).map_err(|broken| lines.broken(&broken))?,
            revoked: revocations.map(Revoked::new),
            target,
        };
        let found = reading.read(&mut lines, head).await?;
        let Reading { audit, revoked, target } = reading;
        let sum = audit.end().map_err(|broken| lines.broken(&broken))?;
        sum.compare(checkpoint).map_err(|broken| lines.broken(&broken))?;
        if lines.next().await?.is_some() {
            return Err(lines.wrong("there are lines after the end"));
        }
        let mut restored = Restored {
            head,
            revisions: found.revisions,
            resources: found.resources,
            revoked: Vec::new(),
        };
        if let Some(mut target) = target {
            if let Some((record, lines)) = revoked.and_then(|revoked| revoked.record(head)) {
                target.revisions(std::slice::from_ref(&record)).await?;
                (restored.head, restored.revoked) = (record.head(), lines);
            }
            target.finish().await?;
        }
        Ok(restored)
    }
}

/// Where the lines of a backup go.
struct Reading {
    audit: Audit,
    revoked: Option<Revoked>,
    target: Option<Box<dyn Restore>>,
}

impl Reading {
    /// Reads revisions and resources up to the end, whose numbers must match.
    async fn read(&mut self, lines: &mut Lines, head: Head) -> Result<End, RestoreError> {
        let mut found = End {
            head: head.to_string(),
            ..End::default()
        };
        let mut pending = Pending::default();
        loop {
            match lines.next().await? {
                Some(Line::Revision(line)) if found.resources == 0 => {
                    let record = line.read().ok_or_else(|| lines.wrong("the digest is not valid"))?;
                    self.audit.record(&record).map_err(|broken| lines.broken(&broken))?;
                    if let Some(revoked) = &mut self.revoked {
                        revoked.contain(&record);
                    }
                    found.revisions += 1;
                    pending.records.push(record);
                }
                Some(Line::Resource(line)) => {
                    let resource = line.read();
                    self.audit.resource(&resource).map_err(|broken| lines.broken(&broken))?;
                    found.resources += 1;
                    pending.resources.extend(self.left_of(resource));
                }
                Some(Line::End(end)) => {
                    if end != found || self.audit.head() != head {
                        return Err(lines.wrong("the numbers at the end do not match: lines are missing"));
                    }
                    pending.flush(self.target.as_deref_mut(), 0, true).await?;
                    return Ok(found);
                }
                Some(_) => return Err(lines.wrong("this line does not belong here")),
                None => return Err(lines.wrong(CUT_OFF)),
            }
            pending.flush(self.target.as_deref_mut(), lines.length, false).await?;
        }
    }

    /// The resource without what was revoked. None: all of it was.
    fn left_of(&mut self, resource: Resource) -> Option<Resource> {
        match &mut self.revoked {
            Some(revoked) if &*resource.kind == IDENTITIES => revoked.reduce(resource),
            _ => Some(resource),
        }
    }
}

/// Lines that are sent to the store together.
#[derive(Default)]
struct Pending {
    records: Vec<RevisionRecord>,
    resources: Vec<Resource>,
    bytes: usize,
}

impl Pending {
    async fn flush(
        &mut self,
        target: Option<&mut (dyn Restore + 'static)>,
        more: usize,
        all: bool,
    ) -> Result<(), StoreError> {
        const AT_ONCE: usize = 1 << 20;
        self.bytes += more;
        if self.bytes < AT_ONCE && !all {
            return Ok(());
        }
        let Pending { records, resources, .. } = std::mem::take(self);
        let Some(target) = target else { return Ok(()) };
        target.revisions(&records).await?;
        let resources = resources.into_iter().map(|resource| {
            let unique = unique_of(&resource.kind, &resource.body);
            (resource, unique)
        });
        target.resources(resources.collect()).await
    }
}

const CUT_OFF: &str = "the file was cut off: its end is missing";

/// The lines of a file, each with its number. A blocking thread reads and parses them, no faster than they are used.
#[derive(Debug)]
struct Lines {
    name: String,
    read: mpsc::Receiver<Result<Vec<Numbered>, RestoreError>>,
    ready: vec::IntoIter<Numbered>,
    number: u64,
    length: usize,
}

#[derive(Debug)]
struct Numbered {
    line: Line,
    number: u64,
    length: usize,
}

impl Lines {
    fn start(name: String, input: impl Read + Send + 'static) -> Self {
        let (sender, read) = mpsc::channel(4);
        let mut reader = Reader {
            name: name.clone(),
            number: 0,
        };
        tokio::task::spawn_blocking(move || {
            if let Err(error) = reader.read(input, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Lines {
            name,
            read,
            ready: Vec::new().into_iter(),
            number: 0,
            length: 0,
        }
    }

    async fn next(&mut self) -> Result<Option<Line>, RestoreError> {
        loop {
            if let Some(found) = self.ready.next() {
                (self.number, self.length) = (found.number, found.length);
                return Ok(Some(found.line));
            }
            match self.read.recv().await {
                Some(lines) => self.ready = lines?.into_iter(),
                None => {
                    self.number += 1;
                    return Ok(None);
                }
            }
        }
    }

    fn header(&self, header: &Header) -> Result<(Head, Option<Checkpoint>), RestoreError> {
        if header.version != VERSION {
            let detail = format!(
                "the backup has format version {}, written by release {}; this release reads version {VERSION}",
                header.version, header.release
            );
            return Err(self.wrong(&detail));
        }
        let digest = || self.wrong("the digests are not valid");
        let checkpoint = header.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|line| line.read().ok_or_else(digest)).transpose()?;
        Ok((Head::parse(&header.head).ok_or_else(digest)?, checkpoint))
    }

    fn broken(&self, broken: &Broken) -> RestoreError {
        match *broken {
            Broken::Rewritten(revision) => RestoreError::AnotherHistory {
                file: self.name.clone(),
                revision,
            },
            _ => self.wrong(&broken.to_string()),
        }
    }

    fn wrong(&self, detail: &str) -> RestoreError {
        wrong(&self.name, self.number, detail)
    }
}

fn wrong(name: &str, number: u64, detail: &str) -> RestoreError {
    RestoreError::Line {
        file: name.to_owned(),
        line: number,
        detail: detail.to_owned(),
    }
}

/// The part of [`Lines`] that runs on the blocking thread.
struct Reader {
    name: String,
    number: u64,
}

impl Reader {
    /// The bytes that are handed over at a time, unless a line is longer.
    const AT_ONCE: usize = 64 << 10;

    fn read(
        &mut self,
        input: impl Read + Send + 'static,
        sender: &mpsc::Sender<Result<Vec<Numbered>, RestoreError>>,
    ) -> Result<(), RestoreError> {
        let mut input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 20, input));
        // Compression is recognized by the first bytes, since standard input has no name.
        let first = input.fill_buf().map_err(|error| self.failed(error))?;
        if first.starts_with(&[0x1f, 0x8b]) {
            input = Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(input)));
        }
        let (mut lines, mut size) = (Vec::new(), 0);
        let mut text = Vec::new();
        loop {
            text.clear();
            self.number += 1;
            let line = match input.read_until(b'\n', &mut text) {
                Ok(0) => break,
                Ok(_) => self.parse(&text),
                Err(error) => Err(self.failed(error)),
            };
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    // Sent first: an earlier line may be wrong, too.
                    let _ = sender.blocking_send(Ok(lines));
                    return Err(error);
                }
            };
            lines.push(Numbered {
                line,
                number: self.number,
                length: text.len(),
            });
            size += text.len();
            if size >= Self::AT_ONCE {
                size = 0;
                if sender.blocking_send(Ok(std::mem::take(&mut lines))).is_err() {
                    return Ok(());
                }
            }
        }
        let _ = sender.blocking_send(Ok(lines));
        Ok(())
    }

    fn parse(&self, text: &[u8]) -> Result<Line, RestoreError> {
        if text.last() != Some(&b'\n') {
            return Err(wrong(&self.name, self.number, CUT_OFF));
        }
        serde_json::from_slice(text).map_err(|error| {
            wrong(
                &self.name,
                self.number,
                &format!("this is not a line of a backup: {error}"),
            )
        })
    }

    fn failed(&self, error: io::Error) -> RestoreError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong(&self.name, self.number, CUT_OFF),
            _ => RestoreError::Read {
                file: self.name.clone(),
                error,
            },
        }
    }
}
