//! A mirror: the ordinary read-only server on a store of its own, and one task that brings that store along. What the origin
//! commits is committed here as the same revisions, by number and digest, and served by the same code: same bytes, same ETags.
//!
//! It goes forward, in one history. What is older than what it holds, or of another history, it refuses unless told, and goes
//! on with what it has: an origin that lost its last revisions, or a wrong URL, must not make clusters remove and reinstall.

mod events;
mod file;
mod origin;
mod status;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use fleet::Fleet;
use fleet::log::{Batch, Head, Revision};
use fleet::snapshot::unique_of;
use jiff::Timestamp;
use store::{CommitError, Store, StoreError};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{error, info, warn};

use self::events::{Event, Events};
use self::origin::Origin;
pub use self::status::{Standing, Status};
use super::backup::{Opened, RestoreError, read_revision};
use super::engine;
use super::reach::{self, Started};
use crate::config::{self, Config, ConfigError, From, Mode};
use crate::metrics::{Metrics, MirrorMetrics};

/// Why nothing needs to be said.
const FOLLOWING: &str = "following";

/// Under which note the store keeps where the mirror left it. Whoever else writes to the store moves on from there.
const NOTE: &str = "mirror";

/// Why a mirror does not start.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("DATABASE_URL: what the database holds cannot be served: {0}")]
    State(String),
    #[error(
        "DATABASE_URL: the database is no copy of the origin: {0}; name another one, or let --replace replace what it holds"
    )]
    Refused(String),
    #[error("the mirror ended before it had a state")]
    Ended,
}

/// What keeps a mirror from going on.
#[derive(Debug)]
enum Trouble {
    /// The next revisions are not to be had, or nothing is there that they would follow: it takes the whole state.
    Anew,
    /// The origin ended the stream: it stops, or it is not what was followed any more. Asking again tells.
    Ended,
    /// What the origin has is older, or of another history.
    Refused(String),
    /// The origin cannot be reached or used.
    Away(String),
    /// The mirror's own store cannot take it.
    Store(String),
}

impl std::convert::From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error.to_string())
    }
}

impl std::convert::From<RestoreError> for Trouble {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Another { .. } => Trouble::Refused(error.to_string()),
            RestoreError::NotEmpty(error) | RestoreError::Store(error) => error.into(),
            RestoreError::Read { .. } | RestoreError::Line { .. } => Trouble::Away(error.to_string()),
        }
    }
}

/// A mirror that runs, until this is dropped.
#[derive(Debug)]
pub struct Following {
    _task: JoinSet<()>,
    pub status: Arc<Status>,
}

/// Starts to follow; returns with the first state that may be served, which the store may have from before.
pub async fn start(
    config: &Config,
    mirror: &config::Mirror,
    metrics: &Metrics,
) -> Result<(Started, Following), MirrorError> {
    // Nobody writes over HTTP here, but the store is written all the same.
    let mut writing = config.clone();
    writing.mode = Mode::Crud;
    let store = reach::open_expected(&writing).await?;
    let begun = async {
        let (fleet, following) = begin(mirror, store.clone(), metrics).await?;
        Ok((fleet, engine::recent(&*store, config.budget).await?, following))
    };
    match begun.await {
        Ok((fleet, recent, following)) => {
            let reached = Ok(recent);
            Ok((Started { store, fleet, reached }, following))
        }
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn begin(
    mirror: &config::Mirror,
    store: Arc<dyn Store>,
    metrics: &Metrics,
) -> Result<(Fleet, Following), MirrorError> {
    let head = store.head().await?;
    let note = Note::of(&*store).await?.filter(|note| note.head == head);
    let serves = note.is_some() && head.revision > Revision::ZERO;
    let status = Arc::new(Status::new(note.map(|note| note.at)));
    let (first, begun) = oneshot::channel();
    let task = Task {
        store: store.clone(),
        replace: mirror.replace,
        status: status.clone(),
        metrics: metrics.mirror.clone().unwrap_or_default(),
        first: (!serves).then_some(first),
        said: None,
    };
    let mut tasks = JoinSet::new();
    match &mirror.from {
        From::Server { url, token, ca } => {
            let origin = Origin::new(url, token, ca.as_deref())?;
            tasks.spawn(task.follow_server(origin));
        }
        From::File(path) => {
            if !serves && !path.exists() {
                return Err(config::neither(&path.display().to_string()).into());
            }
            tasks.spawn(task.follow_file(path.clone()));
        }
    }
    if !serves {
        info!("nothing is served before the first state from the origin");
        begun
            .await
            .map_err(|_| MirrorError::Ended)?
            .map_err(MirrorError::Refused)?;
    }
    let state = store.load().await?;
    let fleet = spawn_blocking(move || Fleet::load(state)).await;
    let fleet = fleet.map_err(|_| MirrorError::Ended)?.map_err(MirrorError::State)?;
    let following = Following { _task: tasks, status };
    Ok((fleet, following))
}

/// Where the mirror left its store, and when that was known to be the origin's state.
#[derive(Clone, Copy, Debug)]
struct Note {
    head: Head,
    at: Timestamp,
}

impl Note {
    async fn of(store: &dyn Store) -> Result<Option<Note>, StoreError> {
        let notes = store.applied().await?;
        let note = notes.get(NOTE).and_then(|text| text.split_once(' '));
        Ok(note.and_then(|(head, at)| {
            Some(Note {
                head: Head::parse(head)?,
                at: at.parse().ok()?,
            })
        }))
    }

    fn write(self) -> (String, String) {
        (NOTE.to_owned(), format!("{} {}", self.head, self.at))
    }
}

struct Task {
    store: Arc<dyn Store>,
    replace: bool,
    status: Arc<Status>,
    metrics: MirrorMetrics,
    /// Who waits for the first state that may be served. Told once: that it is there, or why what the store holds is not one.
    first: Option<oneshot::Sender<Result<(), String>>>,
    /// What the log has last, so that it is said once.
    said: Option<String>,
}

impl Task {
    async fn follow_server(mut self, origin: Origin) {
        // Whether the whole state is needed, and how often in a row something went wrong.
        let (mut anew, mut failures) = (false, 0);
        loop {
            let ended = match anew {
                true => self.fetch(&origin).await,
                false => self.follow(&origin, &mut failures).await,
            };
            let Err(trouble) = ended else {
                anew = false;
                continue;
            };
            failures += 1;
            let whole = match &trouble {
                Trouble::Anew => true,
                // What the origin has is wanted, whatever it is.
                Trouble::Refused(_) => self.replace && !anew,
                Trouble::Away(_) | Trouble::Store(_) | Trouble::Ended => anew,
            };
            // At once, but for an origin that says so again and again.
            let at_once = whole && !anew && failures == 1;
            anew = whole;
            if !at_once {
                self.complain(trouble).await;
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }

    /// Takes over everything that the origin has.
    async fn fetch(&mut self, origin: &Origin) -> Result<(), Trouble> {
        let asked = Timestamp::now();
        let (fetching, pipe) = origin.backup().await?.split();
        let name = format!("{}/backup", origin.url());
        let mut loading = std::pin::pin!(async {
            let backup = Opened::read(name, pipe).await?;
            self.load(backup, asked).await
        });
        tokio::select! {
            loaded = &mut loading => loaded,
            () = fetching => loading.await,
        }
    }

    /// Commits what the origin commits, for as long as it goes well.
    async fn follow(&mut self, origin: &Origin, failures: &mut u32) -> Result<(), Trouble> {
        let mut head = self.store.head().await?;
        if head.revision == Revision::ZERO {
            return Err(Trouble::Anew);
        }
        let mut stream = origin.stream(head).await?;
        self.metrics.connections.inc();
        self.status.origin_is_at(stream.head);
        let standing = match head.revision < stream.head {
            true => Standing::Behind,
            false => Standing::Current,
        };
        self.say(standing, FOLLOWING, || {
            info!(origin = origin.url(), %head, "following the origin");
        });
        let away = |detail: String| Trouble::Away(format!("{}: {detail}", origin.url()));
        let mut events = Events::default();
        let mut greeted = false;
        loop {
            if head.revision >= stream.head {
                self.confirm(Timestamp::now());
            }
            let piece = stream.next().await.map_err(away)?.ok_or(Trouble::Ended)?;
            // A greeting alone is not enough: it may be the same again the next time.
            if std::mem::replace(&mut greeted, true) {
                *failures = 0;
            }
            let found = events.take(&piece);
            let found = found.ok_or_else(|| away("it sends an event without an end".to_owned()))?;
            let data = found.into_iter().filter_map(|event| match event {
                Event::Data(data) => Some(data),
                Event::Comment => None,
            });
            let data: Vec<_> = data.collect();
            if !data.is_empty() {
                head = self.commit(head, data).await.map_err(|trouble| match trouble {
                    Trouble::Away(detail) => away(detail),
                    trouble => trouble,
                })?;
                self.status.origin_is_at(head.revision.max(stream.head));
            }
        }
    }

    /// Appends what came after `head`, as the same revisions.
    async fn commit(&mut self, head: Head, events: Vec<Vec<u8>>) -> Result<Head, Trouble> {
        let read = spawn_blocking(move || batches(head, &events)).await;
        let (next, mut batches) = read
            .map_err(|_| Trouble::Away("reading what it sent panicked".to_owned()))?
            .map_err(Trouble::Away)?;
        if let Some(last) = batches.last_mut() {
            let at = Timestamp::now();
            last.applied.push(Note { head: next, at }.write());
        }
        match self.store.commit(head, &batches).await {
            Ok(_) => {
                info!(head = %next, revisions = batches.len(), "committed what the origin did");
                Ok(next)
            }
            Err(CommitError::Store(error)) => Err(error.into()),
            Err(CommitError::Conflict) => Err(Trouble::Store(
                "somebody else wrote to the store of this mirror".to_owned(),
            )),
            Err(error @ CommitError::Duplicate { .. }) => Err(Trouble::Store(error.to_string())),
        }
    }

    /// Takes over a backup, if it goes on from what the store holds. `at`: when it was the origin's state.
    async fn load(&mut self, backup: Opened, at: Timestamp) -> Result<(), Trouble> {
        let (held, offered) = (self.store.head().await?, backup.head());
        self.status.origin_is_at(offered.revision);
        if offered.revision == Revision::ZERO {
            return Err(Trouble::Away("the backup is of an empty store".to_owned()));
        }
        if offered == held {
            backup.check().await?;
            self.confirm(at);
            return Ok(());
        }
        let mut anchors = Vec::new();
        if held.revision > Revision::ZERO && !self.replace {
            self.judge(held, &backup).await?;
            if backup.begins().revision <= held.revision {
                anchors.push(held);
            }
        }
        let note = Note { head: offered, at }.write();
        let done = backup.restore(&*self.store, true, &anchors, &[note]).await?;
        self.metrics.loads.inc();
        info!(head = %done.head, before = %held.revision, resources = done.resources, "took over a backup of the origin");
        self.confirm(at);
        Ok(())
    }

    /// Whether a backup may take the place of what the store holds, as far as its first line tells.
    async fn judge(&self, held: Head, backup: &Opened) -> Result<(), Trouble> {
        let (here, there) = (held.revision, backup.head().revision);
        let refused = match () {
            () if there < here => format!("the backup ends at revision {there}, before {here}"),
            () if there == here => {
                format!("revision {here} has another digest in the backup: it is of another history")
            }
            () if backup.begins().revision <= here => return Ok(()),
            // Nothing tells whether it is the same history, unless nobody but the mirror has written it.
            () if Note::of(&*self.store).await?.is_some_and(|note| note.head == held) => return Ok(()),
            () => format!(
                "the backup begins after revision {}: nothing tells whether {here} was one of its history",
                backup.begins().revision
            ),
        };
        Err(Trouble::Refused(refused))
    }

    /// What the store holds was the origin's state at this time.
    fn confirm(&mut self, at: Timestamp) {
        self.status.confirm(at);
        // A problem that comes back after this is news again.
        self.said = self.said.take().filter(|why| why == FOLLOWING);
        if let Some(first) = self.first.take() {
            let _gone = first.send(Ok(()));
        }
    }

    async fn complain(&mut self, trouble: Trouble) {
        let revision = self.store.head().await.map_or(0, |head| head.revision.0);
        match trouble {
            Trouble::Refused(problem) => {
                // What was in the store before is nothing that a mirror may serve.
                if let Some(first) = self.first.take() {
                    let _gone = first.send(Err(problem.clone()));
                }
                self.metrics.refusals.inc();
                self.say(Standing::Refused, &problem, || {
                    error!(
                        problem,
                        revision, "the origin is refused: serving what is there, which --replace would replace"
                    );
                });
            }
            Trouble::Away(problem) | Trouble::Store(problem) => {
                let meanwhile = match revision {
                    0 => "nothing is served yet",
                    _ => "serving what is there",
                };
                self.say(Standing::Away, &problem, || {
                    warn!(problem, revision, "the origin cannot be followed: {meanwhile}");
                });
            }
            // Nothing is wrong, or what comes of it says so.
            Trouble::Anew | Trouble::Ended => {}
        }
    }
}

/// The batches that make the same revisions as the events, on top of `head`; and the head after them.
fn batches(head: Head, events: &[Vec<u8>]) -> Result<(Head, Vec<Batch>), String> {
    let mut head = head;
    let mut batches = Vec::with_capacity(events.len());
    for event in events {
        let record = read_revision(event).map_err(|error| format!("it sent what is no revision: {error}"))?;
        if record.revision != head.revision.next() {
            return Err(format!("it sent revision {} after {}", record.revision, head.revision));
        }
        if record.chained(head.digest) != record.digest {
            return Err(format!(
                "the digest of its revision {} does not follow from {}",
                record.revision, head.revision
            ));
        }
        head = record.head();
        let mut changes = record.changes;
        for change in &mut changes {
            change.unique = change.after.as_ref().and_then(|body| unique_of(&change.kind, body));
        }
        batches.push(Batch {
            author: record.author,
            changes,
            removed: record.removed,
            applied: Vec::new(),
        });
    }
    Ok((head, batches))
}

/// How long to wait after so many failures: longer each time, and not all mirrors of an origin at the same moment.
fn pause(failures: u32) -> Duration {
    const LEAST: Duration = Duration::from_millis(250);
    const MOST: Duration = Duration::from_secs(15);
    let longest = LEAST.saturating_mul(1 << failures.clamp(1, 16)).min(MOST);
    let part = RandomState::new().hash_one(failures) % 512;
    longest / 2 + longest.mul_f64(part as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_is_taken() {
        let head = Head::default();
        let event = |revision: u64, digest: &str| {
            let text = format!(
                r#"{{"revision":{revision},"at":"2026-01-01T00:00:00.000000Z","actor":"a","request_id":"r","changes":[
                {{"kind":"clusters","id":"c","before":null,"after":{{"cluster_dns":"C.example.com"}}}}],"digest":"{digest}"}}"#
            );
            text.into_bytes()
        };
        let mut record = read_revision(&event(1, &"0".repeat(64))).unwrap();
        record.digest = record.chained(head.digest);
        let first = event(1, &record.digest.to_string());
        let (next, found) = batches(head, std::slice::from_ref(&first)).unwrap();
        assert_eq!(next, record.head());
        assert_eq!(found[0].changes[0].unique.as_deref(), Some("c.example.com"));

        let refused = |head, event: &Vec<u8>| batches(head, std::slice::from_ref(event)).unwrap_err();
        assert_eq!(refused(next, &first), "it sent revision 1 after 1");
        let mut other = head;
        other.digest.0[0] = 1;
        let expected = "the digest of its revision 1 does not follow from 0";
        assert_eq!(refused(other, &first), expected);
        let changed = String::from_utf8(first.clone()).unwrap().replace("C.ex", "D.ex");
        assert_eq!(refused(head, &changed.into_bytes()), expected);
        assert!(refused(head, &b"{}".to_vec()).starts_with("it sent what is no revision: missing field"));
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_differ() {
        for (failures, least, most) in [(1, 250, 500), (2, 500, 1000), (4, 2000, 4000), (40, 7500, 15000)] {
            let pauses: Vec<_> = (0..64).map(|_| pause(failures).as_millis()).collect();
            assert!(pauses.iter().all(|pause| (least..=most).contains(pause)), "{pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
        }
    }
}
