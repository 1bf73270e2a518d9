//! The task: waits for writes and for commits of other processes, commits groups of writes, and publishes their fleet.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fleet::Fleet;
use fleet::damage::Damage;
use fleet::log::{Head, Revision};
use store::{CommitError, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::group::{Group, Request};
use super::group_commit::{self, GroupCommit};
use super::removals::{Removals, recent_removals};
use super::status::{CONFIRM_EVERY, PROBE_TIMEOUT, Status};
use crate::metrics::Metrics;

/// The shortest time between two looks at the log, while the head moves all the time.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);
/// How often an unavailable store is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// How long to look for a commit whose outcome is not known.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a group is judged again because other processes committed first.
const COMMIT_ATTEMPTS: usize = 100;

pub(super) struct Task {
    pub(super) store: Arc<dyn Store>,
    pub(super) fleet: Arc<ArcSwap<Fleet>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) status: Arc<Status>,
    /// Which store this is ([`Store::epoch`]), once it was asked.
    pub(super) epoch: Option<String>,
    /// When the store was last loaded as a whole.
    pub(super) reloaded: Instant,
    /// The head of the store, if neither its log nor its state could be read up to there.
    pub(super) unreadable: Option<Head>,
    pub(super) removals: Removals,
    /// Whether `removals` is complete.
    pub(super) removals_known: bool,
    /// Asks an unavailable store whether it is back. A slow answer stays here for the next call.
    probe: Option<JoinHandle<bool>>,
    /// The last logged reason why the store is unavailable, so that it is logged once.
    logged_reason: String,
    serves: watch::Sender<Revision>,
}

/// How a commit ended, and the writes that arrived meanwhile.
struct Attempt {
    outcome: Result<(), CommitError>,
    /// Writes that were judged on the fleet that the commit leaves.
    next: Group,
    /// A write that takes long to judge, and was not judged yet.
    slow: Option<Request>,
}

impl Task {
    pub(super) fn new(
        store: Arc<dyn Store>,
        fleet: Arc<ArcSwap<Fleet>>,
        metrics: Arc<Metrics>,
        status: Arc<Status>,
        removals: Removals,
        serves: watch::Sender<Revision>,
    ) -> Task {
        metrics.store_available.set(i64::from(!status.is_unavailable()));
        let task = Task {
            store,
            fleet,
            metrics,
            epoch: None,
            reloaded: Instant::now(),
            unreadable: None,
            removals,
            removals_known: !status.is_unavailable(),
            status,
            probe: None,
            logged_reason: String::new(),
            serves,
        };
        task.publish_metrics();
        task
    }

    pub(super) async fn run(&mut self, mut requests: mpsc::Receiver<Request>) {
        let store = self.store.clone();
        let mut group_commit = GroupCommit::default();
        // Our own commits move the head too: under many of them, the log is read now and then, not after each.
        let mut followed = Instant::now();
        let mut due = None;
        loop {
            let interval = if self.status.is_unavailable() {
                RETRY_EVERY
            } else {
                CONFIRM_EVERY
            };
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(first) => self.write(first, &mut requests, &mut group_commit).await,
                    None => return,
                },
                () = store.head_moved(), if due.is_none() => due = Some(followed + FOLLOW_EVERY),
                () = tokio::time::sleep_until(due.unwrap_or(followed + interval).into()) => {
                    due = None;
                    // Probed first: no write should wait behind a call that may hang as the last one did.
                    if !self.status.is_unavailable() || self.probe_store().await {
                        self.follow().await;
                    }
                    followed = Instant::now();
                }
            }
        }
    }

    /// Commits the write and those that arrive meanwhile, until none is left.
    async fn write(&mut self, first: Request, requests: &mut mpsc::Receiver<Request>, group_commit: &mut GroupCommit) {
        let group = self.new_group().await;
        let mut group = group.add(first).await;
        while !group.is_empty() {
            group = self.gather(group, requests, group_commit.enough()).await;
            let writers = group.len();
            group = self.commit(group, requests).await;
            group_commit.committed(writers, group.len() + requests.len());
        }
    }

    /// Adds the writes that wait. Fewer than `enough` wait a moment for more.
    async fn gather(&self, mut group: Group, requests: &mut mpsc::Receiver<Request>, enough: usize) -> Group {
        let until = tokio::time::Instant::now() + group_commit::WAIT;
        while group.has_room() {
            let next = match requests.try_recv() {
                Ok(request) => Some(request),
                Err(_) if group.len() >= enough => None,
                Err(_) => tokio::time::timeout_at(until, requests.recv()).await.ok().flatten(),
            };
            let Some(request) = next else { break };
            group = group.add(request).await;
        }
        group
    }

    async fn new_group(&mut self) -> Group {
        let unknown = self.load_removals().await.err();
        let recent = self.removals.recent().clone();
        Group::on(self.fleet.load_full(), self.removals.budget, recent, unknown)
    }

    /// Commits a group in one transaction, and answers it. Returns the group of writes that arrived meanwhile.
    async fn commit(&mut self, mut group: Group, requests: &mut mpsc::Receiver<Request>) -> Group {
        for _ in 0..COMMIT_ATTEMPTS {
            if let Some(error) = group.unchecked_removals().cloned() {
                self.mark_unavailable(&error);
                group.fail(&error.to_string());
                return self.new_group().await;
            }
            if self.status.is_unavailable() && !self.probe_store().await {
                group.fail("the store is unavailable");
                return self.new_group().await;
            }
            let Attempt { outcome, next, slow } = self.attempt(&group, requests).await;
            let before = self.fleet.load().head();
            match outcome {
                Ok(()) => {
                    self.publish(group);
                    return next.add_all(slow).await;
                }
                Err(CommitError::Conflict) => self.follow().await,
                Err(CommitError::Duplicate { kind, id, value }) => {
                    // Impossible on a current base: the state of the store and its index disagree.
                    error!(%kind, %id, value, "the store refuses a value that the snapshot allows: reloading it");
                    self.reload().await;
                }
                Err(CommitError::Store(error)) => {
                    self.mark_unavailable(&error);
                    self.resolve_unknown_commit(group, &error).await;
                    let group = self.new_group().await;
                    let waiting = next.into_requests().into_iter().chain(slow);
                    return group.add_all(waiting).await;
                }
            }
            // The writes were judged on a fleet that does not exist: judge them again on the current one.
            let again = group.into_requests().into_iter().chain(next.into_requests());
            group = self.new_group().await;
            group = group.add_all(again.chain(slow)).await;
            if self.fleet.load().head() == before {
                group.fail("the log of the store cannot be followed now");
                return self.new_group().await;
            }
        }
        warn!(
            writes = group.len(),
            "rejecting writes: other processes committed first {COMMIT_ATTEMPTS} times"
        );
        group.fail("too many other writers");
        self.new_group().await
    }

    async fn attempt(&self, group: &Group, requests: &mut mpsc::Receiver<Request>) -> Attempt {
        if group.batches.is_empty() {
            return Attempt {
                outcome: self.confirm_base(group.base).await,
                next: group.next(),
                slow: None,
            };
        }
        self.commit_while_judging(group, requests).await
    }

    /// Writes that change nothing are not committed. This checks that they were judged on the current head, as a commit does.
    async fn confirm_base(&self, base: Head) -> Result<(), CommitError> {
        match self.status.track(self.store.head()).await? == base {
            true => Ok(()),
            false => Err(CommitError::Conflict),
        }
    }

    /// Commits, and judges the writes that arrive meanwhile. The first one that takes long to judge is left for later: the
    /// writes of this commit wait for their answer.
    async fn commit_while_judging(&self, group: &Group, requests: &mut mpsc::Receiver<Request>) -> Attempt {
        let commit = self.status.track(self.store.commit(group.base, &group.batches));
        let mut commit = std::pin::pin!(commit);
        let (mut next, mut slow) = (group.next(), None);
        loop {
            tokio::select! {
                biased;
                outcome = &mut commit => return Attempt { outcome: outcome.map(drop), next, slow },
                Some(request) = requests.recv(), if slow.is_none() && next.has_room() => {
                    match request.write.is_quick() {
                        true => next = next.add(request).await,
                        false => slow = Some(request),
                    }
                }
            }
        }
    }

    /// Answers a group whose commit failed. It may have become durable just before the failure, and other processes may have
    /// committed after it.
    async fn resolve_unknown_commit(&mut self, group: Group, error: &StoreError) {
        let held = match group.batches.is_empty() {
            true => Ok(Ok(false)),
            false => {
                let held = timeout(RESOLVE_TIMEOUT, self.store.holds(group.last.head()));
                self.status.track(held).await
            }
        };
        match held {
            Ok(Ok(true)) => {
                self.publish(group);
                self.follow().await;
            }
            Ok(Ok(false)) => group.fail(&error.to_string()),
            _ => group.fail(&format!(
                "{error}; it is not known whether the write was stored: read before you try again"
            )),
        }
    }

    /// Whether an unavailable store answers again, asked without a long wait. An empty store counts as unavailable.
    async fn probe_store(&mut self) -> bool {
        let store = self.store.clone();
        let probe = self.probe.get_or_insert_with(|| {
            tokio::spawn(async move { store.head().await.is_ok_and(|head| head != Head::default()) })
        });
        let Ok(answer) = timeout(PROBE_TIMEOUT, probe).await else {
            return false;
        };
        self.probe = None;
        let answers = answer.unwrap_or_default();
        if answers {
            self.mark_available();
        }
        answers
    }

    /// Publishes the fleet of a group that is durable, and answers its writes.
    fn publish(&mut self, group: Group) {
        self.status.confirm();
        self.mark_available();
        if group.batches.is_empty() {
            return group.answer();
        }
        for batch in &group.batches {
            self.removals.add(&batch.author.at, &batch.removed);
        }
        self.metrics.commits.inc();
        self.metrics.writes.inc_by(group.batches.len() as u64);
        // One line per commit, not per write: the fleet's own log has the writes, and each request has its line.
        let head = group.last.head();
        info!(
            %head,
            writes = group.batches.len(),
            changes = group.batches.iter().map(|batch| batch.changes.len()).sum::<usize>(),
            "committed"
        );
        self.serve(group.last.clone());
        group.answer();
    }

    /// Replaces the snapshot.
    pub(super) fn serve(&self, fleet: Arc<Fleet>) {
        self.fleet.store(fleet);
        self.publish_metrics();
    }

    /// Publishes the served revision and the metrics of the snapshot.
    pub(super) fn publish_metrics(&self) {
        let fleet = self.fleet.load();
        self.serves.send_replace(fleet.revision());
        let revision = i64::try_from(fleet.revision().0).unwrap_or(i64::MAX);
        self.metrics.revision.set(revision);
        self.metrics.clusters.set(gauge(fleet.clusters().len()));
        let damaged = fleet.damage().map_or(0, Damage::count);
        self.metrics.damaged_rows.set(gauge(damaged));
    }

    /// Records that the store cannot be used. Each reason is logged once.
    pub(super) fn mark_unavailable(&mut self, reason: &dyn fmt::Display) {
        self.status.set_unavailable();
        self.metrics.store_available.set(0);
        let reason = reason.to_string();
        if self.logged_reason != reason {
            warn!(error = reason, "the store is unavailable: serving the last snapshot");
            self.logged_reason = reason;
        }
    }

    /// Records that the store can be used.
    pub(super) fn mark_available(&mut self) {
        if self.status.set_available() {
            self.metrics.store_available.set(1);
            self.logged_reason.clear();
            info!("the store is available again");
        }
    }

    /// Loads the recent removals again, after a reload that may have missed some.
    async fn load_removals(&mut self) -> Result<(), StoreError> {
        if self.removals_known {
            return Ok(());
        }
        if self.status.is_unavailable() && !self.probe_store().await {
            return Err(StoreError::Unavailable {
                place: "the store".to_owned(),
                detail: "it is unavailable".to_owned(),
            });
        }
        let found = self
            .status
            .track(recent_removals(&*self.store, self.removals.budget))
            .await?;
        *self.removals.recent() = found;
        self.removals_known = true;
        Ok(())
    }
}

pub(super) fn gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
