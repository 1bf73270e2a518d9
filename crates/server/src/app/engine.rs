//! The one task per process that moves the snapshot: it commits the writes that wait, together, and follows the log for what
//! other processes write. Sequential on purpose: there is nothing to lock, and nothing is served before it is durable.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fleet::Fleet;
use fleet::budget::Recent;
use fleet::damage::Damage;
use fleet::history::WayBack;
use fleet::judge::{Confirmation, Guard};
use fleet::kind::CLUSTERS;
use fleet::log::{Author, Batch, Change, Head, Removed, Revision, RevisionRecord};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::Refusal;
use fleet::write::Rules;
use store::{CommitError, Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::backup::RESTORED;
use super::reads::Stop;
use crate::config::Budget;
use crate::metrics::Metrics;

/// How many writes may wait; more are told to come back.
const QUEUE: usize = 1024;
/// How much one commit may take on: writers that wait share it, but none waits for ever.
const MOST_WRITES: usize = 256;
const MOST_OPERATIONS: usize = 10_000;
/// How often the log is looked at, when the head moves all the time.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);
/// How often the store is asked whether the snapshot is current, when nothing happens; and when it was away.
const CONFIRM_EVERY: Duration = Duration::from_secs(5);
const AWAY_EVERY: Duration = Duration::from_millis(500);
/// How long a store that was away may take to show that it is back, before a write is told that it is not.
const PROBE: Duration = Duration::from_millis(200);
/// How long it is looked for what became of a commit that broke off.
const LOOK: Duration = Duration::from_secs(1);
/// How long the store may take for a call before further writes are turned away instead of piling up behind it.
const STUCK: Duration = Duration::from_secs(2);

/// Why nothing is written to a damaged store: what is missing would be judged as if it had never been there.
pub const DAMAGED: &str = "the store is damaged: run flux-resourceset verify, then repair";
/// How often a damaged store is read again, in case it was repaired.
const REPAIRED_EVERY: Duration = Duration::from_secs(10);

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
    /// A dry run was stopped.
    Stopped(Stop),
    /// Our own fault.
    Internal,
}

impl From<Stop> for WriteError {
    fn from(stop: Stop) -> Self {
        WriteError::Stopped(stop)
    }
}

/// What is known about the connection between snapshot and store.
#[derive(Debug)]
pub struct Status {
    /// When time begins here: so long before the start that what the snapshot's age was then fits in.
    epoch: Instant,
    /// Milliseconds since then at which the store last confirmed the snapshot.
    confirmed: AtomicU64,
    /// And at which the call of the store began that is under way; 0 when none is.
    asked: AtomicU64,
    /// Whether it did not answer the last time.
    away: AtomicBool,
}

impl Status {
    /// Of a snapshot that is current, or of one that was so long ago.
    fn new(age: Option<Duration>) -> Self {
        let now = Instant::now();
        let before = age.unwrap_or_default() + Duration::from_millis(1);
        let status = Status {
            epoch: now.checked_sub(before).unwrap_or(now),
            confirmed: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            away: AtomicBool::new(age.is_some()),
        };
        if age.is_none() {
            status.confirm();
        }
        status
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }

    fn confirm(&self) {
        self.confirmed.store(self.now(), Ordering::Relaxed);
    }

    /// How long ago the store last confirmed that the snapshot is current.
    pub fn age(&self) -> Duration {
        self.since(self.confirmed.load(Ordering::Relaxed))
    }

    /// Whether the store has been out of reach for longer than a confirmation takes.
    pub fn is_stale(&self) -> bool {
        self.age() > 3 * CONFIRM_EVERY
    }

    /// Whether the store did not answer the last time.
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Whether the store has not answered for a while. Less of one is enough when it was away before.
    fn is_stuck(&self) -> bool {
        let patience = if self.is_away() { PROBE } else { STUCK };
        // Read once: the answer may come at any moment.
        match self.asked.load(Ordering::Relaxed) {
            0 => false,
            asked => self.since(asked) > patience,
        }
    }

    /// Waits for the store's answer, in everybody's sight.
    async fn asking<T>(&self, call: impl Future<Output = T>) -> T {
        self.asked.store(self.now().max(1), Ordering::Relaxed);
        let answer = call.await;
        self.asked.store(0, Ordering::Relaxed);
        answer
    }
}

/// What was removed lately, by whomever. The engine keeps it, plans look at it.
type RecentRemovals = Arc<Mutex<Recent>>;

/// One write.
#[derive(Debug, Default)]
pub struct WriteRequest {
    pub operations: Vec<Operation>,
    /// Stands for operations that depend on the fleet at the moment of the write.
    pub back: Option<WayBack>,
    pub rules: Rules,
    pub author: Author,
    pub confirmation: Confirmation,
}

impl WriteRequest {
    /// What it does on `fleet`.
    pub fn operations_on(&self, fleet: &Fleet) -> Result<Cow<'_, [Operation]>, Refusal> {
        match &self.back {
            Some(back) => Ok(back.operations(fleet)?.into()),
            None => Ok(self.operations.as_slice().into()),
        }
    }

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
    /// Starts the task on the fleet of `store`: current, if it is known what was removed lately, or of so long ago, when the
    /// store is away. It ends when the last handle is dropped.
    pub fn start(
        store: Arc<dyn Store>,
        fleet: Fleet,
        metrics: Arc<Metrics>,
        budget: Budget,
        reached: Result<Recent, Duration>,
    ) -> (Engine, JoinHandle<()>) {
        let (queue, requests) = mpsc::channel(QUEUE);
        let fleet = Arc::new(ArcSwap::from_pointee(fleet));
        let status = Arc::new(Status::new(reached.as_ref().err().copied()));
        let remembers = reached.is_ok();
        let removals = RecentRemovals::new(Mutex::new(reached.unwrap_or_default()));
        let (serves, served) = watch::channel(Revision::ZERO);
        let mut task = Task {
            store,
            fleet: fleet.clone(),
            metrics,
            status: status.clone(),
            probe: None,
            complaint: String::new(),
            budget,
            removals: removals.clone(),
            remembers,
            epoch: None,
            reloaded: Instant::now(),
            unreadable: None,
            serves,
        };
        task.describe();
        task.metrics.store_available.set(i64::from(remembers));
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
        if self.status.is_stuck() {
            return Err(WriteError::Unavailable(
                "the store does not answer, or is very busy".into(),
            ));
        }
        if self.fleet.load().damage().is_some() {
            return Err(WriteError::Unavailable(DAMAGED.to_owned()));
        }
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
    /// Asks a store that was away whether it is back. A slow answer is an answer, too, for the next who want to know.
    probe: Option<JoinHandle<bool>>,
    /// What was last said about it: once, not every time.
    complaint: String,
    budget: Budget,
    removals: RecentRemovals,
    /// Whether everything that was removed lately is known.
    remembers: bool,
    /// Which store it is, once it was asked: [`Store::epoch`].
    epoch: Option<String>,
    /// When the store was last read as a whole.
    reloaded: Instant,
    /// Where the store ends, if neither its log nor its state leads there.
    unreadable: Option<Head>,
    serves: watch::Sender<Revision>,
}

/// Writes that share a commit: what each is answered with, what is to be committed, the fleet after all of them.
struct Group {
    requests: Vec<Request>,
    operations: usize,
    /// Why it is not known what was removed lately, if so.
    forgot: Option<StoreError>,
    recent: Recent,
    base: Head,
    results: Vec<Result<Written, WriteError>>,
    batches: Vec<Batch>,
    last: Arc<Fleet>,
}

impl Group {
    /// An empty one, whose writes are judged against `last`.
    fn on(last: Arc<Fleet>, recent: Recent, forgot: Option<StoreError>) -> Group {
        Group {
            requests: Vec::new(),
            operations: 0,
            forgot,
            recent,
            base: last.head(),
            results: Vec::new(),
            batches: Vec::new(),
            last,
        }
    }

    /// One that begins where this one ends.
    fn next(&self) -> Group {
        Group::on(self.last.clone(), self.recent.clone(), self.forgot.clone())
    }

    fn has_room(&self) -> bool {
        self.requests.len() < MOST_WRITES && self.operations < MOST_OPERATIONS
    }

    /// Judges one more, against the fleet that those before it leave.
    fn judge(&mut self, write: &WriteRequest, budget: Budget) -> Result<Written, WriteError> {
        let since = crate::before(&write.author.at, budget.window);
        let guard = Guard {
            recent: &self.recent,
            since: &since,
            budget: budget.clusters,
            confirmation: write.confirmation,
        };
        let operations = write.operations_on(&self.last).map_err(WriteError::Refused)?;
        let change = self.last.change(&operations, write.rules, guard);
        let (outcome, removed) = change.map_err(WriteError::Refused)?;
        if outcome.changes.is_empty() {
            return Ok(Written {
                revision: self.last.revision(),
                changes: Vec::new(),
                fleet: self.last.clone(),
            });
        }
        self.recent.add(&write.author.at, &removed);
        let batch = Batch {
            author: write.author.clone(),
            changes: outcome.changes.clone(),
            applied: Vec::new(),
            removed,
        };
        let head = RevisionRecord::on(self.last.head(), &batch).head();
        self.last = Arc::new(outcome.committed(head));
        let written = Written {
            revision: head.revision,
            changes: batch.changes.clone(),
            fleet: self.last.clone(),
        };
        self.batches.push(batch);
        Ok(written)
    }

    /// Whoever asked may have gone; that is no reason to stop.
    fn answer(self) {
        for (request, result) in self.requests.into_iter().zip(self.results) {
            let _gone = request.reply.send(result);
        }
    }

    /// Nothing of it is stored. What was refused anyhow is told so.
    fn fail(mut self, detail: &str) {
        for result in self.results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(WriteError::Unavailable(detail.to_owned()));
        }
        self.answer();
    }
}

impl Task {
    async fn run(&mut self, mut requests: mpsc::Receiver<Request>) {
        let store = self.store.clone();
        let mut company = Company::default();
        // Our own commits move the head too: under many of them, the log is looked at now and then, not after each.
        let mut followed = Instant::now();
        let mut due = None;
        loop {
            let confirm = followed
                + if self.status.is_away() {
                    AWAY_EVERY
                } else {
                    CONFIRM_EVERY
                };
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(first) => {
                        let group = self.group().await;
                        let mut group = self.add(group, first).await;
                        while !group.requests.is_empty() {
                            group = self.gather(group, &mut requests, &company).await;
                            let writers = group.requests.len();
                            group = self.commit(group, &mut requests).await;
                            company.left(writers, group.requests.len() + requests.len());
                        }
                    }
                    None => return,
                },
                () = store.head_moved(), if due.is_none() => due = Some(followed + FOLLOW_EVERY),
                () = tokio::time::sleep_until(due.unwrap_or(confirm).into()) => {
                    due = None;
                    // Nobody is to wait behind a call that may take as long as the last one did.
                    if !self.status.is_away() || self.is_back().await {
                        self.follow().await;
                    }
                    followed = Instant::now();
                }
            }
        }
    }

    /// Takes the writes that wait, and those that may be back in a moment, judging each while the next is on its way.
    async fn gather(&self, mut group: Group, requests: &mut mpsc::Receiver<Request>, company: &Company) -> Group {
        let (enough, until) = (company.enough(), tokio::time::Instant::now() + Company::MOMENT);
        while group.has_room() {
            let next = match requests.try_recv() {
                Ok(request) => Some(request),
                Err(_) if group.requests.len() >= enough => None,
                Err(_) => tokio::time::timeout_at(until, requests.recv()).await.ok().flatten(),
            };
            let Some(request) = next else { break };
            group = self.add(group, request).await;
        }
        group
    }

    async fn group(&mut self) -> Group {
        let forgot = self.remember().await.err();
        let recent = self.removals.lock().expect("not poisoned").clone();
        Group::on(self.fleet.load_full(), recent, forgot)
    }

    async fn add(&self, mut group: Group, request: Request) -> Group {
        let budget = self.budget;
        let quick = request.write.is_quick();
        let work = move || {
            let judge = || group.judge(&request.write, budget);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge));
            let result = result.unwrap_or_else(|_| {
                error!("judging a write panicked");
                Err(WriteError::Internal)
            });
            group.operations += request.write.operations.len();
            group.requests.push(request);
            group.results.push(result);
            group
        };
        match quick {
            true => work(),
            false => tokio::task::spawn_blocking(work).await.expect("panics are caught"),
        }
    }

    /// Commits a group of writes in one transaction. Meanwhile those that come are judged against what it will leave; they are
    /// the next group, which is returned.
    async fn commit(&mut self, mut group: Group, requests: &mut mpsc::Receiver<Request>) -> Group {
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            // What takes something away is held against what was removed before, so that must be known.
            let removes = || group.batches.iter().any(|batch| batch.removed.count() > 0);
            if let Some(error) = group.forgot.take_if(|_| removes()) {
                self.complain(&error);
                group.fail(&error.to_string());
                return self.group().await;
            }
            if self.status.is_away() && !self.is_back().await {
                group.fail("the store is away");
                return self.group().await;
            }
            let (outcome, next, slow) = match group.batches.is_empty() {
                true => (self.look(group.base).await, group.next(), None),
                false => self.commit_while_judging(&group, requests).await,
            };
            let before = self.fleet.load().head();
            match outcome {
                Ok(_) => {
                    self.publish(group);
                    return self.add_all(next, slow).await;
                }
                Err(CommitError::Conflict) => self.follow().await,
                Err(CommitError::Duplicate { kind, id, value }) => {
                    // Cannot be after a base that was current; if it is, the state and its index disagree.
                    error!(%kind, %id, value, "the store refuses what the snapshot allows: reading it anew");
                    self.reload().await;
                }
                Err(CommitError::Store(error)) => {
                    self.complain(&error);
                    let waiting = next.requests.into_iter().chain(slow);
                    self.look_for(group, &error).await;
                    let group = self.group().await;
                    return self.add_all(group, waiting).await;
                }
            }
            // What was judged rests on what did not happen.
            let again = std::mem::take(&mut group.requests).into_iter().chain(next.requests);
            group = self.group().await;
            group = self.add_all(group, again.chain(slow)).await;
            if self.fleet.load().head() == before {
                group.fail("what the store holds cannot be followed now");
                return self.group().await;
            }
        }
        warn!(
            "giving up on {} writes: other processes write all the time",
            group.requests.len()
        );
        group.fail("too many other writers");
        self.group().await
    }

    /// Answers a group whose commit broke off. It may have become durable just before, and others may have gone on from there.
    async fn look_for(&mut self, group: Group, error: &StoreError) {
        let held = match group.batches.is_empty() {
            // There is nothing to be found.
            true => Ok(Ok(false)),
            false => {
                let held = tokio::time::timeout(LOOK, self.store.holds(group.last.head()));
                self.status.asking(held).await
            }
        };
        match held {
            Ok(Ok(true)) => {
                self.publish(group);
                self.follow().await;
            }
            Ok(Ok(false)) => group.fail(&error.to_string()),
            _ => group.fail(&format!(
                "{error}; whether it was stored is not known: read before you try again"
            )),
        }
    }

    /// Makes sure that writes which change nothing were judged by what is there, as a commit does for the others.
    async fn look(&self, base: Head) -> Result<Vec<Head>, CommitError> {
        match self.status.asking(self.store.head()).await? == base {
            true => Ok(Vec::new()),
            false => Err(CommitError::Conflict),
        }
    }

    /// Asks the store to commit, and judges what comes in the meantime; but not what takes long, since the group waits for its
    /// answer.
    async fn commit_while_judging(
        &self,
        group: &Group,
        requests: &mut mpsc::Receiver<Request>,
    ) -> (Result<Vec<Head>, CommitError>, Group, Option<Request>) {
        let commit = self.status.asking(self.store.commit(group.base, &group.batches));
        let mut commit = std::pin::pin!(commit);
        let (mut next, mut slow) = (group.next(), None);
        loop {
            tokio::select! {
                biased;
                outcome = &mut commit => return (outcome, next, slow),
                Some(request) = requests.recv(), if slow.is_none() && next.has_room() => {
                    match request.write.is_quick() {
                        true => next = self.add(next, request).await,
                        false => slow = Some(request),
                    }
                }
            }
        }
    }

    async fn add_all(&self, mut group: Group, requests: impl IntoIterator<Item = Request>) -> Group {
        for request in requests {
            group = self.add(group, request).await;
        }
        group
    }

    /// Whether a store that was away answers again. It is not waited for: clients are. One that came back empty did not.
    async fn is_back(&mut self) -> bool {
        let store = self.store.clone();
        let probe = self.probe.get_or_insert_with(|| {
            tokio::spawn(async move { store.head().await.is_ok_and(|head| head != Head::default()) })
        });
        let Ok(answer) = tokio::time::timeout(PROBE, probe).await else {
            return false;
        };
        self.probe = None;
        let back = answer.unwrap_or_default();
        if back {
            self.welcome();
        }
        back
    }

    /// Reads what was removed lately again, after a reload that may have missed some of it.
    async fn remember(&mut self) -> Result<(), StoreError> {
        if !self.remembers {
            if self.status.is_away() && !self.is_back().await {
                return Err(StoreError::Unavailable {
                    place: "the store".to_owned(),
                    detail: "it has been away".to_owned(),
                });
            }
            let found = self.status.asking(recent(&*self.store, self.budget)).await?;
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

    fn publish(&mut self, group: Group) {
        self.status.confirm();
        self.welcome();
        if group.batches.is_empty() {
            return group.answer();
        }
        for batch in &group.batches {
            self.note_removed(&batch.author.at, &batch.removed);
        }
        self.metrics.commits.inc();
        self.metrics.writes.inc_by(group.batches.len() as u64);
        // One line per commit, not per write: who wrote what is in the log of the fleet, and the requests have theirs.
        let head = group.last.head();
        info!(
            %head,
            writes = group.batches.len(),
            changes = group.batches.iter().map(|batch| batch.changes.len()).sum::<usize>(),
            "committed"
        );
        self.fleet.store(group.last.clone());
        self.describe();
        group.answer();
    }

    /// Takes over what was committed since, by whomever, and makes sure that it is still the same history.
    async fn follow(&mut self) {
        const AT_ONCE: usize = 16;
        loop {
            let fleet = self.fleet.load_full();
            let served = fleet.head();
            let head = match self.status.asking(self.store.head()).await {
                Ok(head) => head,
                Err(error) => return self.complain(&error),
            };
            if head == served {
                if fleet.damage().is_some() && self.reloaded.elapsed() > REPAIRED_EVERY {
                    return self.reload().await;
                }
                self.welcome();
                if self.epoch.is_none() {
                    self.epoch = self.status.asking(self.store.epoch()).await.ok();
                }
                return self.status.confirm();
            }
            if head == Head::default() {
                // Whatever happened to it, an empty store is no reason to forget a fleet.
                return self.complain(&"the store is empty");
            }
            if head.revision <= served.revision {
                return self.change_history(served, head).await;
            }
            let changes = self.store.changes(served.revision, AT_ONCE);
            let records = match self.status.asking(changes).await {
                Ok(records) => records,
                Err(StoreError::Compacted(to)) => {
                    let epoch = self.status.asking(self.store.epoch()).await.ok();
                    if epoch.is_some() && self.epoch.is_some() && epoch != self.epoch {
                        return self.change_history(served, head).await;
                    }
                    warn!(served = %served.revision, compacted = %to, "the log was compacted meanwhile: reading the store anew");
                    return self.reload().await;
                }
                // The state may be sound all the same. If it is not, what is served stays.
                Err(error @ StoreError::Corrupt { .. }) if self.unreadable != Some(head) => {
                    error!(%error, "the log cannot be followed: reading the store anew");
                    self.reload().await;
                    self.unreadable = (self.fleet.load().head() != head).then_some(head);
                    return;
                }
                Err(StoreError::Corrupt { .. }) => return,
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
                    warn!(detail, "the log does not continue the snapshot");
                    return self.change_history(served, head).await;
                }
                Err(_) => {
                    error!("following the log panicked: reading it anew");
                    return self.reload().await;
                }
            }
        }
    }

    /// What is served is not in the store any more: never mixed with what is, and never passed over in silence.
    async fn change_history(&mut self, served: Head, head: Head) {
        let epoch = self.status.asking(self.store.epoch()).await.ok();
        let another = self.epoch.is_some() && epoch.is_some() && epoch != self.epoch;
        if another && head.revision == Revision::ZERO.next() && served.revision > head.revision {
            // Somebody lost the database, and a start has filled it with its seed?
            match self.status.asking(self.store.applied()).await {
                Ok(notes) if notes.contains_key(RESTORED) => {}
                Ok(_) => return self.complain(&"the store was made anew: restart this replica if that is meant"),
                Err(error) => return self.complain(&error),
            }
        }
        // A mirror fills its store anew by itself, and counts that.
        if self.metrics.mirror.is_none() {
            self.metrics.histories.inc();
        }
        let because = match (&self.epoch, &epoch) {
            (Some(_), Some(_)) if another => "it was filled from a backup, or made anew",
            (Some(_), Some(_)) => "it lost commits, as by a failover to a standby that was behind",
            _ => "unknown",
        };
        warn!(%served, store = %head, because, "the store has another history: reading it anew");
        self.epoch = epoch;
        self.reload().await;
    }

    async fn reload(&mut self) {
        self.metrics.reloads.inc();
        self.reloaded = Instant::now();
        let state = match self.status.asking(self.store.load()).await {
            Ok(state) => state,
            Err(error) => return self.complain(&error),
        };
        if !state.damage.is_empty() && self.fleet.load().damage().is_none() {
            // What is in memory is whole.
            self.metrics.damaged_rows.set(count(state.damage.count()));
            let first = state.damage.lines().next().unwrap_or_default();
            return self.complain(&format!("{DAMAGED}; {first}"));
        }
        self.remembers = false;
        match tokio::task::spawn_blocking(move || Fleet::load(state)).await {
            Ok(Ok(fleet)) => {
                info!(head = %fleet.head(), "read the store anew");
                self.fleet.store(Arc::new(fleet));
                self.status.confirm();
                self.welcome();
                self.describe();
            }
            Ok(Err(detail)) => error!(
                detail,
                "what the store holds cannot be served: keeping the last snapshot"
            ),
            Err(_) => error!("reading the store panicked: keeping the last snapshot"),
        }
    }

    /// The store cannot be used. Said once, and again when it is for another reason.
    fn complain(&mut self, error: &dyn std::fmt::Display) {
        self.status.away.store(true, Ordering::Relaxed);
        self.metrics.store_available.set(0);
        let complaint = error.to_string();
        if self.complaint != complaint {
            warn!(error = complaint, "serving the last snapshot");
            self.complaint = complaint;
        }
    }

    /// It can.
    fn welcome(&mut self) {
        if self.status.away.swap(false, Ordering::Relaxed) {
            self.metrics.store_available.set(1);
            self.complaint.clear();
            info!("the store is back");
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
        let damaged = fleet.damage().map_or(0, Damage::count);
        self.metrics.damaged_rows.set(count(damaged));
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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

/// How many writers there seem to be. Those of the last commit have just been answered and may well be back in a moment: waiting
/// that long until most are there lets them share a commit, where many small ones would take turns. A writer alone waits for
/// nobody.
#[derive(Default)]
struct Company {
    expected: usize,
    since: Option<Instant>,
}

impl Company {
    const MOMENT: Duration = Duration::from_millis(1);

    /// How many make a commit worth its while. Not all of them: the others come while it is under way.
    fn enough(&self) -> usize {
        let fresh = self.since.is_some_and(|since| since.elapsed() < 2 * Self::MOMENT);
        if fresh { self.expected / 2 + 1 } else { 1 }
    }

    /// A commit of so many writers ended, and so many others wait.
    fn left(&mut self, writers: usize, waiting: usize) {
        self.expected = writers + waiting;
        self.since = Some(Instant::now());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_is_never_stuck() {
        let status = Status::new(Some(Duration::from_secs(60)));
        let asking = || {
            let call = std::pin::pin!(status.asking(async {}));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(call.poll(&mut context).is_ready());
        };
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| (0..200_000).for_each(|_| asking()));
            while !asked.is_finished() {
                assert!(!status.is_stuck());
            }
        });
    }
}
