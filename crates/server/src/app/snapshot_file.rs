//! SNAPSHOT_FILE: a local copy of the snapshot; a replica can start from it while the store is unavailable.
//!
//! Compressed lines of JSON: the head and when the store last confirmed it, each resource, and how many there were. A file that
//! was cut off or damaged fails to decompress, and counts as none.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use fleet::Fleet;
use fleet::log::{Head, State};
use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use super::App;
use super::backup::ResourceLine;
use super::partial_file::PartialFile;

/// The version of the format. Files of other versions are not read.
const VERSION: u32 = 1;

/// How often to check for a new revision.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How old the file may become while the revision stays the same.
const WRITE_EVERY: Duration = Duration::from_secs(300);
/// A large fleet takes long to write: writing takes at most one part in this many of the time.
const SHARE: u32 = 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Snapshot(Header),
    Resource(ResourceLine),
    End(u64),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// The release that wrote it, for people.
    release: String,
    head: String,
    /// When the store last confirmed that this was current.
    at: String,
}

/// The content of a file.
#[derive(Debug)]
pub struct Saved {
    pub fleet: Fleet,
    /// How long ago the store last confirmed it.
    pub age: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Content(String),
}

/// Reads the file. None: it does not exist.
pub fn read(path: &Path) -> Result<Option<Saved>, SnapshotFileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let wrong = |detail: &str| SnapshotFileError::Content(detail.to_owned());
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(file))).lines();
    let mut next = || -> Result<Option<Line>, SnapshotFileError> {
        let Some(line) = lines.next().transpose()? else {
            return Ok(None);
        };
        let line = serde_json::from_str(&line);
        Ok(Some(line.map_err(|error| wrong(&error.to_string()))?))
    };
    let Some(Line::Snapshot(header)) = next()? else {
        return Err(wrong("this is not a snapshot of flux-resourceset"));
    };
    if header.version != VERSION {
        return Err(wrong("a release with another format wrote it"));
    }
    let head = Head::parse(&header.head).ok_or_else(|| wrong("the head is not valid"))?;
    let at = header.at.parse::<jiff::Timestamp>();
    let at = at.map_err(|_| wrong("the time is not valid"))?;
    let mut resources = Vec::new();
    loop {
        match next()? {
            Some(Line::Resource(line)) => resources.push(line.read()),
            Some(Line::End(count)) if count == resources.len() as u64 => break,
            _ => return Err(wrong("resources are missing")),
        }
    }
    // Reading to the end checks the checksum of the compression.
    if next()?.is_some() {
        return Err(wrong("there is more after the last line"));
    }
    let fleet = Fleet::load(State {
        head,
        resources,
        ..State::default()
    })
    .map_err(SnapshotFileError::Content)?;
    let age = jiff::Timestamp::now().duration_since(at);
    Ok(Some(Saved {
        fleet,
        age: age.try_into().unwrap_or_default(),
    }))
}

/// Writes the file. Until it is complete, the previous one stays.
fn write(path: &Path, fleet: &Fleet, age: Duration) -> io::Result<()> {
    let partial = PartialFile::create(path)?;
    let mut out = BufWriter::new(GzEncoder::new(&partial.file, Compression::fast()));
    let mut add = |line: &Line| {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    add(&Line::Snapshot(Header {
        version: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        head: fleet.head().to_string(),
        at: crate::before(&crate::now(), age),
    }))?;
    let mut count = 0;
    for resource in fleet.resources() {
        add(&Line::Resource(resource.into()))?;
        count += 1;
    }
    add(&Line::End(count))?;
    out.into_inner()?.finish()?;
    partial.finish(path)
}

/// Writes the file again when the snapshot changes, until the server stops.
pub async fn keep_current(app: Arc<App>, path: &Path) {
    let mut saved: Option<(Head, Instant)> = None;
    let mut pause = CHECK_EVERY;
    let mut has_warned = false;
    loop {
        let stops = tokio::time::timeout(pause, app.stops()).await.is_ok();
        pause = CHECK_EVERY;
        let (fleet, age) = (app.fleet(), app.status().age());
        let due = match saved {
            Some((head, at)) => head != fleet.head() || (!app.status().is_stale() && at.elapsed() > WRITE_EVERY),
            // A snapshot that does not come from the store comes from the file.
            None => !app.status().is_stale(),
        };
        // A damaged fleet never replaces an intact copy.
        if due && fleet.damage().is_none() {
            let (started, head, path) = (Instant::now(), fleet.head(), path.to_owned());
            let written = tokio::task::spawn_blocking(move || write(&path, &fleet, age)).await;
            match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(()) => {
                    debug!(%head, "wrote SNAPSHOT_FILE");
                    saved = Some((head, Instant::now()));
                    has_warned = false;
                }
                Err(error) if !has_warned => {
                    warn!(%error, "SNAPSHOT_FILE cannot be written");
                    has_warned = true;
                }
                Err(_) => {}
            }
            pause = pause.max(started.elapsed() * SHARE);
        }
        if stops {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo() -> Fleet {
        let kinds = fleet::kind::built_in().iter().map(|document| {
            let name = fleet::kind::name_of(document).unwrap();
            let verb = fleet::operation::Verb::Apply {
                id: Some(name),
                value: document.clone(),
            };
            fleet::operation::Operation::new(fleet::kind::KINDS, verb)
        });
        let operations: Vec<_> = kinds.collect();
        let rules = fleet::write::Rules {
            batch: true,
            ..Default::default()
        };
        let outcome = Fleet::default().write(&operations, rules).unwrap();
        outcome.committed(Head::parse(&format!("7:{}", "ab".repeat(32))).unwrap())
    }

    #[test]
    fn a_file_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.gz");
        assert!(read(&path).unwrap().is_none());
        let fleet = demo();
        write(&path, &fleet, Duration::from_secs(90)).unwrap();
        let saved = read(&path).unwrap().unwrap();
        assert_eq!(saved.fleet.head(), fleet.head());
        assert!(saved.fleet.resources().eq(fleet.resources()));
        assert!((90..95).contains(&saved.age.as_secs()), "{:?}", saved.age);
    }

    #[test]
    fn a_file_that_was_cut_off_or_damaged_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.gz");
        write(&path, &demo(), Duration::ZERO).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_err(), "cut after {cut} bytes");
        }
        for place in (0..whole.len()).step_by(97).skip(1) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x20;
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(&path).is_err(), "damaged at {place}");
        }
    }
}
