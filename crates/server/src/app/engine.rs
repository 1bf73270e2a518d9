//! The one task per process that moves the snapshot: it commits the writes that wait, together, and follows the log for what
//! other processes write. Sequential on purpose: there is nothing to lock, and nothing is served before it is durable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fleet::Fleet;
use fleet::budget::{Confirmation, Guard, Recent};
use fleet::kind::CLUSTERS;
use fleet::log::{Author, Batch, Change, Removed, Revision, RevisionRecord};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::Refusal;
use fleet::write::Rules;
use store::{CommitError, Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::config::Budget;
use crate::metrics::Metrics;

/// How many writes may wait; more are told to come back.
const QUEUE: usize = 1024;
/// How much one commit may take on: writers that wait share it, but none waits for ever.
const MOST_WRITES: usize = 256;
const MOST_OPERATIONS: usize = 10_000;
/// How often the log is looked at, when the head moves all the time.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);
/// How often the store is asked whether the snapshot is current, when nothing happens.
const CONFIRM_EVERY: Duration = Duration::from_secs(5);

/// A write that became durable, or that changed nothing.
#[derive(Debug)]
pub struct Written {
    /// The revision it became; the one that was current, when it changed nothing.
    pub revision: Revision,
    pub changes: Vec<Change>,
    /// The fleet right after it.
    pub fleet: Arc<Fleet>,
}

#[derive(Debug)]
pub enum WriteError {
    Refused(Refusal),
    /// The store cannot take it now.
    Unavailable(String),
    /// Our own fault.
    Internal,
}

/// What is known about the connection between snapshot and store.
#[derive(Debug)]
pub struct Status {
    started: Instant,
    /// Milliseconds after the start at which the store last confirmed the snapshot.
    confirmed: AtomicU64,
}

impl Status {
    fn new() -> Self {
        Status {
            started: Instant::now(),
            confirmed: AtomicU64::new(0),
        }
    }

    fn confirm(&self) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.confirmed.store(millis, Ordering::Relaxed);
    }

    /// How long ago the store last confirmed that the snapshot is current.
    pub fn age(&self) -> Duration {
        self.started
            .elapsed()
            .saturating_sub(Duration::from_millis(self.confirmed.load(Ordering::Relaxed)))
    }

    /// Whether the store has been out of reach for longer than a confirmation takes.
    pub fn is_stale(&self) -> bool {
        self.age() > 3 * CONFIRM_EVERY
    }
}

/// What was removed lately, by whomever. The engine keeps it, plans look at it.
type RecentRemovals = Arc<Mutex<Recent>>;

/// One write.
#[derive(Debug, Default)]
pub struct WriteRequest {
    pub operations: Vec<Operation>,
    pub rules: Rules,
    pub author: Author,
    pub confirmation: Confirmation,
}

impl WriteRequest {
    /// Whether judging it takes less time than handing it to another thread and back: it is about one cluster.
    fn is_quick(&self) -> bool {
        let one = |operation: &Operation| {
            let verb = &operation.verb;
            let selects = matches!(
                verb,
                Verb::Merge {
                    on: Target::Selector(_),
                    ..
                }
            );
            operation.kind == CLUSTERS && !selects
        };
        matches!(self.operations.as_slice(), [operation] if one(operation))
    }
}

struct Request {
    write: WriteRequest,
    reply: oneshot::Sender<Result<Written, WriteError>>,
}

/// The handle that requests use.
#[derive(Debug)]
pub struct Engine {
    fleet: Arc<ArcSwap<Fleet>>,
    queue: mpsc::Sender<Request>,
    status: Arc<Status>,
    budget: Budget,
    removals: RecentRemovals,
    served: watch::Receiver<Revision>,
}

impl Engine {
    /// Starts the task on the fleet that was loaded from `store`. It ends when the last handle is dropped.
    pub fn start(
        store: Arc<dyn Store>,
        fleet: Fleet,
        metrics: Arc<Metrics>,
        budget: Budget,
        recent: Recent,
    ) -> (Engine, JoinHandle<()>) {
        let (queue, requests) = mpsc::channel(QUEUE);
        let fleet = Arc::new(ArcSwap::from_pointee(fleet));
        let status = Arc::new(Status::new());
        let removals = RecentRemovals::new(Mutex::new(recent));
        let (serves, served) = watch::channel(Revision::ZERO);
        let mut task = Task {
            store,
            fleet: fleet.clone(),
            metrics,
            status: status.clone(),
            away: false,
            budget,
            removals: removals.clone(),
            remembers: true,
            serves,
        };
        task.status.confirm();
        task.describe();
        let running = tokio::spawn(async move { task.run(requests).await });
        let engine = Engine {
            fleet,
            queue,
            status,
            budget,
            removals,
            served,
        };
        (engine, running)
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Looks at what was removed lately.
    pub fn removals<T>(&self, look: impl FnOnce(&Recent) -> T) -> T {
        look(&self.removals.lock().expect("not poisoned"))
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        self.fleet.load_full()
    }

    /// The snapshot without touching its reference count: for polls.
    pub fn peek(&self) -> arc_swap::Guard<Arc<Fleet>> {
        self.fleet.load()
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The revision that is served, to be told when it is another one. Over when the engine is.
    pub fn served(&self) -> watch::Receiver<Revision> {
        self.served.clone()
    }

    pub async fn write(&self, write: WriteRequest) -> Result<Written, WriteError> {
        let (reply, answer) = oneshot::channel();
        match self.queue.try_send(Request { write, reply }) {
            Ok(()) => answer.await.unwrap_or(Err(WriteError::Internal)),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(WriteError::Unavailable("too many writes are waiting".into()))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(WriteError::Unavailable("the server is stopping".into())),
        }
    }
}

struct Task {
    store: Arc<dyn Store>,
    fleet: Arc<ArcSwap<Fleet>>,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    /// Whether the store was out of reach when last asked: said once, not every time.
    away: bool,
    budget: Budget,
    removals: RecentRemovals,
    /// Whether everything that was removed lately is known.
    remembers: bool,
    serves: watch::Sender<Revision>,
}

/// A group of writes that was judged: what each is answered with, what is to be committed, the fleet after all of them.
struct Judged {
    results: Vec<Result<Written, WriteError>>,
    batches: Vec<Batch>,
    last: Arc<Fleet>,
}

impl Task {
    async fn run(&mut self, mut requests: mpsc::Receiver<Request>) {
        let mut confirm = tokio::time::interval(CONFIRM_EVERY);
        confirm.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let store = self.store.clone();
        let mut company = Company::default();
        // Our own commits move the head too: under many of them, the log is looked at now and then, not after each.
        let mut followed = tokio::time::Instant::now();
        let mut due = None;
        loop {
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(first) => {
                        let group = company.gather(first, &mut requests).await;
                        let writers = group.len();
                        self.commit(group).await;
                        company.left(writers, requests.len());
                    }
                    None => return,
                },
                () = store.head_moved(), if due.is_none() => due = Some(followed + FOLLOW_EVERY),
                () = tokio::time::sleep_until(due.unwrap_or(followed)), if due.is_some() => {
                    due = None;
                    self.follow().await;
                    followed = tokio::time::Instant::now();
                }
                _ = confirm.tick() => self.follow().await,
            }
        }
    }

    /// Commits a group of writes in one transaction, judging each against what the one before it leaves.
    async fn commit(&mut self, mut group: Vec<Request>) {
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let forgot = self.remember().await.err();
            let base = self.fleet.load_full();
            let start = base.head();
            let (budget, recent) = (self.budget, self.removals.lock().expect("not poisoned").clone());
            let quick = group.iter().all(|request| request.write.is_quick());
            let work = move || {
                let judged = judge(&group, base, budget, recent);
                (group, judged)
            };
            let judged = match quick {
                true => std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok(),
                false => tokio::task::spawn_blocking(work).await.ok(),
            };
            let Some((returned, judged)) = judged else {
                // The requests are gone with the panic, which answers them.
                error!("judging a write panicked");
                return;
            };
            group = returned;
            if judged.batches.is_empty() {
                return answer(group, judged.results);
            }
            // What takes something away is held against what was removed before, so that must be known.
            if let Some(error) = &forgot
                && judged.batches.iter().any(|batch| batch.removed.count() > 0)
            {
                self.complain(error);
                let results = group.iter().map(|_| Err(WriteError::Unavailable(error.to_string())));
                let results = results.collect();
                return answer(group, results);
            }
            match self.store.commit(start, &judged.batches).await {
                Ok(_) => return self.publish(group, judged),
                Err(CommitError::Conflict) => self.follow().await,
                Err(CommitError::Duplicate { kind, id, value }) => {
                    // Cannot be after a base that was current; if it is, the state and its index disagree.
                    error!(%kind, %id, value, "the store refuses what the snapshot allows: reading it anew");
                    self.reload().await;
                }
                Err(CommitError::Store(error)) => {
                    self.complain(&error);
                    // It may have become durable just before the connection broke.
                    if self.store.head().await.is_ok_and(|head| head == judged.last.head()) {
                        return self.publish(group, judged);
                    }
                    let results = group.iter().map(|_| Err(WriteError::Unavailable(error.to_string())));
                    let results = results.collect();
                    return answer(group, results);
                }
            }
        }
        warn!(
            "giving up on {} writes: other processes write all the time",
            group.len()
        );
        let results = group
            .iter()
            .map(|_| Err(WriteError::Unavailable("too many other writers".into())))
            .collect();
        answer(group, results);
    }

    /// Reads what was removed lately again, after a reload that may have missed some of it.
    async fn remember(&mut self) -> Result<(), StoreError> {
        if !self.remembers {
            let found = recent(&*self.store, self.budget).await?;
            *self.removals.lock().expect("not poisoned") = found;
            self.remembers = true;
        }
        Ok(())
    }

    fn note_removed(&self, at: &str, removed: &Removed) {
        if self.budget.clusters.is_some() && removed.count() > 0 {
            let mut recent = self.removals.lock().expect("not poisoned");
            recent.forget(&crate::before(&crate::now(), self.budget.window));
            recent.add(at, removed);
        }
    }

    fn publish(&mut self, group: Vec<Request>, judged: Judged) {
        for batch in &judged.batches {
            self.note_removed(&batch.author.at, &batch.removed);
        }
        self.metrics.commits.inc();
        self.metrics.writes.inc_by(judged.batches.len() as u64);
        // One line per commit, not per write: who wrote what is in the log of the fleet, and the requests have theirs.
        let head = judged.last.head();
        info!(
            %head,
            writes = judged.batches.len(),
            changes = judged.batches.iter().map(|batch| batch.changes.len()).sum::<usize>(),
            "committed"
        );
        self.fleet.store(judged.last);
        self.status.confirm();
        self.describe();
        answer(group, judged.results);
    }

    /// Takes over what was committed since, by whomever, and makes sure that it is still the same history.
    async fn follow(&mut self) {
        const AT_ONCE: usize = 16;
        loop {
            let fleet = self.fleet.load_full();
            let served = fleet.head();
            let head = match self.store.head().await {
                Ok(head) => head,
                Err(error) => return self.complain(&error),
            };
            if head == served {
                if std::mem::replace(&mut self.away, false) {
                    info!("the store is back");
                }
                return self.status.confirm();
            }
            if head.revision <= served.revision {
                warn!(served = %served.revision, store = %head.revision, "the store has another history: reading it anew");
                return self.reload().await;
            }
            let records = match self.store.changes(served.revision, AT_ONCE).await {
                Ok(records) => records,
                Err(StoreError::Compacted(to)) => {
                    warn!(served = %served.revision, compacted = %to, "the log was compacted meanwhile: reading the store anew");
                    return self.reload().await;
                }
                Err(error) => return self.complain(&error),
            };
            for record in &records {
                self.note_removed(&record.author.at, &record.removed);
            }
            match tokio::task::spawn_blocking(move || replay(&fleet, &records)).await {
                Ok(Ok(fleet)) => {
                    self.fleet.store(Arc::new(fleet));
                    self.describe();
                }
                Ok(Err(detail)) => {
                    warn!(detail, "the log does not continue the snapshot: reading it anew");
                    return self.reload().await;
                }
                Err(_) => {
                    error!("following the log panicked: reading it anew");
                    return self.reload().await;
                }
            }
        }
    }

    async fn reload(&mut self) {
        self.metrics.reloads.inc();
        self.remembers = false;
        let state = match self.store.load().await {
            Ok(state) => state,
            Err(error) => return self.complain(&error),
        };
        match tokio::task::spawn_blocking(move || Fleet::load(state)).await {
            Ok(Ok(fleet)) => {
                self.fleet.store(Arc::new(fleet));
                self.status.confirm();
                self.describe();
            }
            Ok(Err(detail)) => error!(
                detail,
                "what the store holds cannot be served: keeping the last snapshot"
            ),
            Err(_) => error!("reading the store panicked: keeping the last snapshot"),
        }
    }

    fn complain(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.away, true) {
            warn!(%error, "serving the last snapshot");
        }
    }

    fn describe(&self) {
        let fleet = self.fleet.load();
        self.serves.send_replace(fleet.revision());
        self.metrics
            .revision
            .set(i64::try_from(fleet.revision().0).unwrap_or(i64::MAX));
        self.metrics
            .clusters
            .set(i64::try_from(fleet.clusters().len()).unwrap_or(i64::MAX));
    }
}

/// What was removed within the budget's window, by whomever.
pub async fn recent(store: &dyn Store, budget: Budget) -> Result<Recent, StoreError> {
    let mut recent = Recent::default();
    if budget.clusters.is_some() {
        for (at, removed) in store.removed(&crate::before(&crate::now(), budget.window)).await? {
            recent.add(&at, &removed);
        }
    }
    Ok(recent)
}

/// How many writers there seem to be. Those of the last commit have just been answered and may well be back in a moment:
/// waiting for them that long lets all share one commit, where two halves would take turns. A writer alone waits for nobody.
#[derive(Default)]
struct Company {
    expected: usize,
    since: Option<Instant>,
}

impl Company {
    const MOMENT: Duration = Duration::from_millis(1);

    async fn gather(&self, first: Request, requests: &mut mpsc::Receiver<Request>) -> Vec<Request> {
        let fresh = self.since.is_some_and(|since| since.elapsed() < 2 * Self::MOMENT);
        let expected = if fresh { self.expected } else { 1 };
        let until = tokio::time::Instant::now() + Self::MOMENT;
        let mut operations = first.write.operations.len();
        let mut group = vec![first];
        while group.len() < MOST_WRITES && operations < MOST_OPERATIONS {
            let next = match requests.try_recv() {
                Ok(request) => Some(request),
                Err(_) if group.len() >= expected => None,
                Err(_) => tokio::time::timeout_at(until, requests.recv()).await.ok().flatten(),
            };
            let Some(request) = next else { break };
            operations += request.write.operations.len();
            group.push(request);
        }
        group
    }

    /// A commit of so many writers ended, and so many others wait.
    fn left(&mut self, writers: usize, waiting: usize) {
        self.expected = writers + waiting;
        self.since = Some(Instant::now());
    }
}

fn judge(group: &[Request], base: Arc<Fleet>, budget: Budget, mut recent: Recent) -> Judged {
    let mut judged = Judged {
        results: Vec::with_capacity(group.len()),
        batches: Vec::new(),
        last: base,
    };
    for request in group {
        let WriteRequest {
            operations,
            rules,
            author,
            confirmation,
        } = &request.write;
        let since = crate::before(&author.at, budget.window);
        let guard = Guard {
            recent: &recent,
            since: &since,
            budget: budget.clusters,
            confirmation: *confirmation,
        };
        let result = match judged.last.change(operations, *rules, guard) {
            Err(refusal) => Err(WriteError::Refused(refusal)),
            Ok((outcome, _)) if outcome.changes.is_empty() => Ok(Written {
                revision: judged.last.revision(),
                changes: Vec::new(),
                fleet: judged.last.clone(),
            }),
            Ok((outcome, removed)) => {
                recent.add(&author.at, &removed);
                let batch = Batch {
                    author: author.clone(),
                    changes: outcome.changes.clone(),
                    applied: Vec::new(),
                    removed,
                };
                let head = RevisionRecord::on(judged.last.head(), &batch).head();
                judged.last = Arc::new(outcome.committed(head));
                let written = Written {
                    revision: head.revision,
                    changes: batch.changes.clone(),
                    fleet: judged.last.clone(),
                };
                judged.batches.push(batch);
                Ok(written)
            }
        };
        judged.results.push(result);
    }
    judged
}

fn replay(fleet: &Fleet, records: &[RevisionRecord]) -> Result<Fleet, String> {
    if records.is_empty() {
        return Err(format!(
            "nothing follows revision {}, though the head is beyond it",
            fleet.revision()
        ));
    }
    let mut fleet = fleet.clone();
    for record in records {
        let head = fleet.head();
        if record.revision != head.revision.next() {
            return Err(format!("revision {} follows {}", record.revision, head.revision));
        }
        if record.chained(head.digest) != record.digest {
            return Err(format!(
                "the digest of revision {} does not follow from {}",
                record.revision, head.revision
            ));
        }
        fleet = fleet.follow(record)?;
    }
    Ok(fleet)
}

/// Whoever asked may have gone; that is no reason to stop.
fn answer(group: Vec<Request>, results: Vec<Result<Written, WriteError>>) {
    for (request, result) in group.into_iter().zip(results) {
        let _gone = request.reply.send(result);
    }
}
