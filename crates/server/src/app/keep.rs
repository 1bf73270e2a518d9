//! A copy of the snapshot in a local file: what a replica can start from while the store is away.
//!
//! Packed lines of JSON: where the fleet was and when the store last confirmed that, each resource, and how many there were.
//! A file that was cut or damaged does not unpack, and is as good as none.

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
use super::backup::{Draft, ResourceLine};

/// Of the format. Another one is for a release that knows it.
const VERSION: u32 = 1;

/// How often it is looked whether the fleet moved on; and how old the copy of one that did not may become.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const WRITE_EVERY: Duration = Duration::from_secs(300);
/// A large fleet takes long to write: that may take one part of the time in so many.
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
    /// Who wrote it: for people.
    release: String,
    head: String,
    /// When the store last confirmed that this was its state.
    at: String,
}

/// What a file holds.
#[derive(Debug)]
pub struct Kept {
    pub fleet: Fleet,
    /// How long ago the store last confirmed it.
    pub age: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Content(String),
}

/// Reads the file. None when there is none.
pub fn read(path: &Path) -> Result<Option<Kept>, KeepError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let wrong = |detail: &str| KeepError::Content(detail.to_owned());
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(file))).lines();
    let mut next = || -> Result<Option<Line>, KeepError> {
        let Some(line) = lines.next().transpose()? else {
            return Ok(None);
        };
        let line = serde_json::from_str(&line);
        Ok(Some(line.map_err(|error| wrong(&error.to_string()))?))
    };
    let Some(Line::Snapshot(header)) = next()? else {
        return Err(wrong("it is not a snapshot of flux-resourceset"));
    };
    if header.version != VERSION {
        return Err(wrong("another release wrote it"));
    }
    let head = Head::parse(&header.head).ok_or_else(|| wrong("its head cannot be read"))?;
    let at = header.at.parse::<jiff::Timestamp>();
    let at = at.map_err(|_| wrong("its time cannot be read"))?;
    let mut resources = Vec::new();
    loop {
        match next()? {
            Some(Line::Resource(line)) => resources.push(line.read()),
            Some(Line::End(count)) if count == resources.len() as u64 => break,
            _ => return Err(wrong("it is not whole")),
        }
    }
    // What unpacks to its end is as it was packed.
    if next()?.is_some() {
        return Err(wrong("it goes on after its end"));
    }
    let fleet = Fleet::load(State {
        head,
        resources,
        ..State::default()
    })
    .map_err(KeepError::Content)?;
    let age = jiff::Timestamp::now().duration_since(at);
    Ok(Some(Kept {
        fleet,
        age: age.try_into().unwrap_or_default(),
    }))
}

/// Writes the file anew, which is there when it is whole.
fn write(path: &Path, fleet: &Fleet, age: Duration) -> io::Result<()> {
    let draft = Draft::create(path)?;
    let mut out = BufWriter::new(GzEncoder::new(&draft.file, Compression::fast()));
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
    draft.keep(path)
}

/// Keeps the file at what is served, until the server stops.
pub async fn keep(app: Arc<App>, path: &Path) {
    let mut kept: Option<(Head, Instant)> = None;
    let mut pause = LOOK_EVERY;
    let mut complained = false;
    loop {
        let stops = tokio::time::timeout(pause, app.stops()).await.is_ok();
        pause = LOOK_EVERY;
        let (fleet, age) = (app.fleet(), app.status().age());
        let due = match kept {
            Some((head, at)) => head != fleet.head() || (!app.status().is_stale() && at.elapsed() > WRITE_EVERY),
            // What was not served from the store is in the file already.
            None => !app.status().is_stale(),
        };
        // Never over a copy that is whole.
        if due && fleet.damage().is_none() {
            let (started, head, path) = (Instant::now(), fleet.head(), path.to_owned());
            let written = tokio::task::spawn_blocking(move || write(&path, &fleet, age)).await;
            match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(()) => {
                    debug!(%head, "kept the snapshot");
                    kept = Some((head, Instant::now()));
                    complained = false;
                }
                Err(error) if !complained => {
                    warn!(%error, "SNAPSHOT_FILE cannot be written");
                    complained = true;
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
    fn what_is_kept_is_read_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.gz");
        assert!(read(&path).unwrap().is_none());
        let fleet = demo();
        write(&path, &fleet, Duration::from_secs(90)).unwrap();
        let kept = read(&path).unwrap().unwrap();
        assert_eq!(kept.fleet.head(), fleet.head());
        assert!(kept.fleet.resources().eq(fleet.resources()));
        assert!((90..95).contains(&kept.age.as_secs()), "{:?}", kept.age);
    }

    #[test]
    fn a_file_that_was_cut_or_damaged_is_refused() {
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
