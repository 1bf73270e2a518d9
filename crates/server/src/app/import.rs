//! Loads large fleets: lines of JSON, committed like any other write, in revisions of bounded size.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use fleet::files;
use fleet::log::Author;
use fleet::operation::Operation;
use fleet::refusal::Violation;
use fleet::write::Rules;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};

use super::engine::{Engine, WriteError, WriteRequest};
use super::start::SYSTEM;

/// The maximum bytes of documents in one revision.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{file}: {error}")]
    Read { file: String, error: io::Error },
    /// The revisions before these lines were committed, and nothing after them.
    #[error("{file}: nothing from line {first} on was imported{}", lines(.problems))]
    Refused {
        file: String,
        first: usize,
        problems: Vec<(usize, Violation)>,
    },
    #[error("DATABASE_URL: {0}")]
    Store(String),
}

fn lines(problems: &[(usize, Violation)]) -> String {
    const SHOWN: usize = 20;
    let mut text = String::new();
    for (line, error) in problems.iter().take(SHOWN) {
        let place = if error.pointer.is_empty() {
            String::new()
        } else {
            format!(" {}:", error.pointer)
        };
        text.push_str(&format!("\n  line {line}:{place} {}", error.detail));
    }
    if problems.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", problems.len() - SHOWN));
    }
    text
}

/// What an import has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub documents: usize,
    pub changed: usize,
    pub revisions: usize,
}

struct Progress {
    shown: Instant,
    started: Instant,
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Progress {
            shown: now,
            started: now,
            terminal: io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, done: Imported, is_last: bool) {
        let every = if self.terminal {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(5)
        };
        if !is_last && self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let end = if self.terminal && !is_last { "\r" } else { "\n" };
        let _ = write!(
            io::stderr(),
            "imported {} documents ({} changed) in {} revisions, {:.0}/s   {end}",
            done.documents,
            done.changed,
            done.revisions,
            done.documents as f64 / seconds
        );
    }
}

/// Imports a file, or standard input for `-`.
pub async fn import(engine: &Engine, file: &Path, batch: usize) -> Result<Imported, ImportError> {
    let name = if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let unreadable = |error| ImportError::Read {
        file: name.clone(),
        error,
    };
    let input: Box<dyn BufRead + Send> = match file == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::with_capacity(1 << 20, File::open(file).map_err(unreadable)?)),
    };
    let mut progress = Progress::new();
    let mut done = Imported::default();
    let mut parts = parts(input, batch);
    loop {
        // A file counts as read only when its end was seen.
        let broken = || Err(io::Error::other("the thread that reads the file has stopped"));
        let part = parts.recv().await.unwrap_or_else(broken).map_err(unreadable)?;
        let is_last = part.is_last;
        part.commit(engine, &name, &mut done).await?;
        progress.show(done, is_last);
        if is_last {
            return Ok(done);
        }
    }
}

/// The parts of a file, each for one revision. They are read on a thread, so that the next one is ready when the last one is committed.
fn parts(input: Box<dyn BufRead + Send>, batch: usize) -> Receiver<io::Result<Pending>> {
    let (sender, receiver) = channel(1);
    let send = move |part: io::Result<Pending>| sender.blocking_send(part).is_ok();
    std::thread::spawn(move || {
        let mut pending = Pending::default();
        for (n, line) in input.lines().enumerate() {
            match line {
                Ok(line) => pending.add(n + 1, &line),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    pending.problems.push((n + 1, Violation::new("", "is not UTF-8")));
                }
                Err(error) => {
                    send(Err(error));
                    return;
                }
            }
            let is_full = pending.operations.len() >= batch || pending.bytes >= MOST_BYTES;
            // Nobody receives any more after a part that is refused.
            if is_full && !send(Ok(std::mem::take(&mut pending))) {
                return;
            }
        }
        pending.is_last = true;
        send(Ok(pending));
    });
    receiver
}

/// The lines of the next revision.
#[derive(Default)]
struct Pending {
    operations: Vec<Operation>,
    /// The line of each operation.
    lines: Vec<usize>,
    bytes: usize,
    problems: Vec<(usize, Violation)>,
    /// Whether the file ends here.
    is_last: bool,
}

impl Pending {
    fn add(&mut self, line: usize, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.bytes += text.len();
        let parsed: Result<Value, _> = fleet::json::parse(text.as_bytes());
        let operation = parsed
            .map_err(|error| Violation::new("", format!("is not JSON: {error}")))
            .and_then(files::apply);
        match operation {
            Ok(operation) => {
                self.operations.push(operation);
                self.lines.push(line);
            }
            Err(error) => self.problems.push((line, error)),
        }
    }

    /// Commits them as one revision, unless a line is wrong.
    async fn commit(self, engine: &Engine, file: &str, done: &mut Imported) -> Result<(), ImportError> {
        let problem = self.problems.first().map(|(line, _)| line);
        let Some(first) = self.lines.first().into_iter().chain(problem).min().copied() else {
            return Ok(());
        };
        let refused = |problems| ImportError::Refused {
            file: file.to_owned(),
            first,
            problems,
        };
        if !self.problems.is_empty() {
            return Err(refused(self.problems));
        }
        let (documents, lines) = (self.operations.len(), self.lines);
        let write = WriteRequest {
            operations: self.operations,
            rules: Rules {
                batch: true,
                // The clusters that have them may come in a later part.
                allow_unknown_labels: true,
                ..Rules::default()
            },
            author: Author {
                at: crate::now(),
                actor: SYSTEM.into(),
                request_id: crate::request_id(),
                reason: Some(format!("import of {file}, from line {first}")),
                reversal: None,
                overrides: Vec::new(),
            },
            ..WriteRequest::default()
        };
        match engine.write(write).await {
            Ok(written) => {
                done.documents += documents;
                done.changed += written.changes.len();
                done.revisions += usize::from(!written.changes.is_empty());
                Ok(())
            }
            Err(WriteError::Refused(refusal)) if refusal.errors.is_empty() => {
                Err(refused(vec![(first, Violation::new("", refusal.detail))]))
            }
            Err(WriteError::Refused(refusal)) => {
                let errors = refusal.errors.into_iter();
                let mut problems: Vec<_> = errors.map(|error| locate(error, &lines, first)).collect();
                problems.sort();
                Err(refused(problems))
            }
            Err(WriteError::Unavailable(detail)) => Err(ImportError::Store(detail)),
            Err(WriteError::Internal | WriteError::Stopped(_)) => {
                Err(ImportError::Store("an internal error, see the log".into()))
            }
        }
    }
}

/// The line of a problem, and its place in the document there. `lines`: the line of each operation.
fn locate(error: Violation, lines: &[usize], first: usize) -> (usize, Violation) {
    let rest = error.pointer.strip_prefix("/operations/").unwrap_or_default();
    let (number, place) = rest.split_once('/').unwrap_or((rest, ""));
    let line = number.parse().ok().and_then(|n: usize| lines.get(n).copied());
    let place = place.strip_prefix("value").unwrap_or_default().to_owned();
    (line.unwrap_or(first), Violation::new(place, error.detail))
}
