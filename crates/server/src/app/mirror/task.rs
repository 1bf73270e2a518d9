//! The task of a mirror: copies the origin's revisions to the mirror's store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use fleet::identity::IDENTITIES;
use fleet::log::{Batch, Change, Head, Revision};
use fleet::snapshot::unique_of;
use jiff::Timestamp;
use store::{CommitError, Store, StoreError};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::events::{Event, Events};
use super::origin::Origin;
use super::status::{Standing, Status};
use crate::app::backup::{Opened, RestoreError, Terms, read_revision};
use crate::metrics::MirrorMetrics;

/// What `Task::log_once` remembers while nothing is wrong.
const FOLLOWING: &str = "following";

/// The key of the note that the store keeps of the mirror's last commit. Commits of anyone else move the head past it.
const NOTE: &str = "mirror";

/// What stops a mirror from following.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The next revisions are not available, or the store is empty: the mirror needs a whole backup.
    NeedsBackup,
    /// The origin ended the stream: it stops, or its history changed. The next request tells which.
    Ended,
    /// The origin is older, or has another history.
    Refused(String),
    /// The origin cannot be reached or used.
    Unavailable(String),
    /// The mirror's own store failed.
    Store(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error.to_string())
    }
}

impl From<RestoreError> for Trouble {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::AnotherHistory { .. } => Trouble::Refused(error.to_string()),
            RestoreError::NotEmpty(error) | RestoreError::Store(error) | RestoreError::Revocations(error) => {
                error.into()
            }
            RestoreError::Read { .. } | RestoreError::Line { .. } => Trouble::Unavailable(error.to_string()),
        }
    }
}

/// The mirror's last commit, and when that was known to be the origin's state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) head: Head,
    pub(super) at: Timestamp,
}

impl Note {
    pub(super) async fn of(store: &dyn Store) -> Result<Option<Note>, StoreError> {
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

pub(super) struct Task {
    pub(super) store: Arc<dyn Store>,
    pub(super) replace: bool,
    pub(super) status: Arc<Status>,
    pub(super) metrics: MirrorMetrics,
    /// Tells the start, once, that there is a state to serve, or why the store's content may not be served.
    pub(super) first: Option<oneshot::Sender<Result<(), String>>>,
    /// The last logged reason, so that it is logged once.
    pub(super) logged_reason: Option<String>,
}

impl Task {
    pub(super) async fn follow_server(mut self, origin: Origin) {
        // Whether a whole backup is needed, and the number of failures in a row.
        let (mut needs_backup, mut failures) = (false, 0);
        loop {
            let ended = match needs_backup {
                true => self.load_backup(&origin).await,
                false => self.follow(&origin, &mut failures).await,
            };
            let Err(trouble) = ended else {
                needs_backup = false;
                continue;
            };
            failures += 1;
            let backup = match &trouble {
                Trouble::NeedsBackup => true,
                // With --replace, the origin's state is accepted whatever it is.
                Trouble::Refused(_) => self.replace && !needs_backup,
                Trouble::Unavailable(_) | Trouble::Store(_) | Trouble::Ended => needs_backup,
            };
            // Without a pause, unless the origin demands it again and again.
            let at_once = backup && !needs_backup && failures == 1;
            needs_backup = backup;
            if !at_once {
                self.report(trouble).await;
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }

    /// Replaces the store by a backup of the origin.
    async fn load_backup(&mut self, origin: &Origin) -> Result<(), Trouble> {
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

    /// Commits what the origin commits, until something goes wrong.
    async fn follow(&mut self, origin: &Origin, failures: &mut u32) -> Result<(), Trouble> {
        let mut head = self.store.head().await?;
        if head.revision == Revision::ZERO {
            return Err(Trouble::NeedsBackup);
        }
        let mut stream = origin.stream(head).await?;
        self.metrics.connections.inc();
        self.status.origin_is_at(stream.head);
        let standing = match head.revision < stream.head {
            true => Standing::Behind,
            false => Standing::Current,
        };
        self.log_once(standing, FOLLOWING, || {
            info!(origin = origin.url(), %head, "following the origin");
        });
        let unavailable = |detail: String| Trouble::Unavailable(format!("{}: {detail}", origin.url()));
        let mut events = Events::default();
        let mut greeted = false;
        loop {
            if head.revision >= stream.head {
                self.confirm(Timestamp::now());
            }
            let piece = stream.next().await.map_err(unavailable)?.ok_or(Trouble::Ended)?;
            // The first piece is only a greeting, which every failed attempt gets, too.
            if std::mem::replace(&mut greeted, true) {
                *failures = 0;
            }
            let found = events.push(&piece);
            let found = found.ok_or_else(|| unavailable("it sent an event that is too long".to_owned()))?;
            let data = found.into_iter().filter_map(|event| match event {
                Event::Data(data) => Some(data),
                Event::Comment => None,
            });
            let data: Vec<_> = data.collect();
            if !data.is_empty() {
                head = self.commit(head, data).await.map_err(|trouble| match trouble {
                    Trouble::Unavailable(detail) => unavailable(detail),
                    trouble => trouble,
                })?;
                self.status.origin_is_at(head.revision.max(stream.head));
            }
        }
    }

    /// Appends the revisions after `head`, unchanged.
    async fn commit(&mut self, head: Head, events: Vec<Vec<u8>>) -> Result<Head, Trouble> {
        let read = spawn_blocking(move || batches(head, &events)).await;
        let (next, mut batches) = read
            .map_err(|_| Trouble::Unavailable("reading its reply panicked".to_owned()))?
            .map_err(Trouble::Unavailable)?;
        if let Some(last) = batches.last_mut() {
            let at = Timestamp::now();
            last.applied.push(Note { head: next, at }.write());
        }
        match self.store.commit(head, &batches).await {
            Ok(_) => {
                info!(head = %next, revisions = batches.len(), "committed revisions of the origin");
                Ok(next)
            }
            Err(CommitError::Store(error)) => Err(error.into()),
            Err(CommitError::Conflict) => Err(Trouble::Store(
                "another process wrote to the store of this mirror".to_owned(),
            )),
            Err(error @ CommitError::Duplicate { .. }) => Err(Trouble::Store(error.to_string())),
        }
    }

    /// Fills the store from a backup, if it continues what the store holds. `at`: when it was the origin's state.
    pub(super) async fn load(&mut self, backup: Opened, at: Timestamp) -> Result<(), Trouble> {
        let (held, offered) = (self.store.head().await?, backup.head());
        self.status.origin_is_at(offered.revision);
        if offered.revision == Revision::ZERO {
            return Err(Trouble::Unavailable("the backup is of an empty store".to_owned()));
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
        // A mirror has what its origin has: nothing is revoked here.
        let terms = Terms {
            replace: true,
            anchors: &anchors,
            notes: &[note],
            ..Terms::default()
        };
        let done = backup.restore(&*self.store, terms).await?;
        self.metrics.loads.inc();
        info!(head = %done.head, before = %held.revision, resources = done.resources, "loaded a backup of the origin");
        self.confirm(at);
        Ok(())
    }

    /// Whether a backup may replace the store's content, as far as its first line tells.
    async fn judge(&self, held: Head, backup: &Opened) -> Result<(), Trouble> {
        let (here, there) = (held.revision, backup.head().revision);
        let refused = match () {
            () if there < here => format!("the backup ends at revision {there}, and the store at {here}"),
            () if there == here => {
                format!("revision {here} has another digest in the backup: it has another history")
            }
            () if backup.begins().revision <= here => return Ok(()),
            // The same history cannot be proved. Only the mirror wrote to the store, so it is assumed.
            () if Note::of(&*self.store).await?.is_some_and(|note| note.head == held) => return Ok(()),
            () => format!(
                "the backup begins after revision {}, so it cannot be checked that revision {here} belongs to its history",
                backup.begins().revision
            ),
        };
        Err(Trouble::Refused(refused))
    }

    /// Records that the store's content was the origin's state at this time.
    fn confirm(&mut self, at: Timestamp) {
        self.status.confirm(at);
        // A problem that comes back after this is logged again.
        self.logged_reason = self.logged_reason.take().filter(|why| why == FOLLOWING);
        if let Some(first) = self.first.take() {
            let _ = first.send(Ok(()));
        }
    }

    /// Logs what is wrong, and sets the status.
    pub(super) async fn report(&mut self, trouble: Trouble) {
        let revision = self.store.head().await.map_or(0, |head| head.revision.0);
        match trouble {
            Trouble::Refused(problem) => {
                // The store's earlier content is not a copy of this origin, so it may not be served.
                if let Some(first) = self.first.take() {
                    let _ = first.send(Err(problem.clone()));
                }
                self.metrics.refusals.inc();
                self.log_once(Standing::Refused, &problem, || {
                    error!(
                        problem,
                        revision, "the origin is refused: serving the last copy; use --replace to accept the origin"
                    );
                });
            }
            Trouble::Unavailable(problem) | Trouble::Store(problem) => {
                let meanwhile = match revision {
                    0 => "there is no copy to serve yet",
                    _ => "serving the last copy",
                };
                self.log_once(Standing::Unavailable, &problem, || {
                    warn!(problem, revision, "the origin cannot be followed: {meanwhile}");
                });
            }
            // Expected. If it is a problem, the next request shows it.
            Trouble::NeedsBackup | Trouble::Ended => {}
        }
    }
}

/// The head after the events, and the batches that commit them on top of `head` as the same revisions.
fn batches(head: Head, events: &[Vec<u8>]) -> Result<(Head, Vec<Batch>), String> {
    let mut head = head;
    let mut batches = Vec::with_capacity(events.len());
    for event in events {
        let record =
            read_revision(event).map_err(|error| format!("it sent an event that is not a revision: {error}"))?;
        if record.revision != head.revision.next() {
            return Err(format!("it sent revision {} after {}", record.revision, head.revision));
        }
        let is_hidden =
            |change: &Change| &*change.kind == IDENTITIES && change.before.is_none() && change.after.is_none();
        if record.changes.iter().any(is_hidden) {
            return Err("it hides identities from this token: give the mirror a token of the role mirror".to_owned());
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

/// How long to wait after so many failures: longer each time, with a random part, so that the mirrors of an origin do not all
/// retry at once.
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
    fn only_the_next_revision_is_accepted() {
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
        assert!(refused(head, &b"{}".to_vec()).starts_with("it sent an event that is not a revision: missing field"));
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
