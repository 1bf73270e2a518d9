//! The one task per process that moves the snapshot: it commits the writes that wait, together, and follows the log for the
//! writes of other processes. It is sequential on purpose: nothing needs a lock, and nothing is served before it is durable.

mod follow;
mod group;
mod group_commit;
mod removals;
mod status;
mod task;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use fleet::Fleet;
use fleet::budget::Recent;
use fleet::history::WayBack;
use fleet::identity::Reach;
use fleet::judge::Confirmation;
use fleet::kind::CLUSTERS;
use fleet::log::{Author, Change, Revision};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::Refusal;
use fleet::write::Rules;
use store::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use self::group::Request;
use self::removals::Removals;
pub use self::removals::recent_removals;
pub use self::status::Status;
use self::task::Task;
use super::reads::Stop;
use crate::config::Budget;
use crate::metrics::Metrics;

/// How many writes may wait. More are rejected with 503.
const QUEUE: usize = 1024;

/// Why a damaged store accepts no writes: missing resources would be judged as if they had never existed.
pub const DAMAGED: &str = "the store is damaged: run flux-resourceset verify, then repair";

/// A write that became durable, or that changed nothing.
#[derive(Debug)]
pub struct Written {
    /// The revision it became, or the current one if it changed nothing.
    pub revision: Revision,
    pub changes: Vec<Change>,
    /// The fleet right after it.
    pub fleet: Arc<Fleet>,
    /// The guards that it overrode.
    pub overridden: Vec<String>,
}

#[derive(Debug)]
pub enum WriteError {
    Refused(Refusal),
    /// The store cannot accept it now.
    Unavailable(String),
    /// A dry run was stopped.
    Stopped(Stop),
    /// A bug of the server.
    Internal,
}

impl From<Stop> for WriteError {
    fn from(stop: Stop) -> Self {
        WriteError::Stopped(stop)
    }
}

/// One write.
#[derive(Debug, Default)]
pub struct WriteRequest {
    pub operations: Vec<Operation>,
    /// A rollback or undo: its operations are computed from the fleet when the write is judged.
    pub back: Option<WayBack>,
    pub rules: Rules,
    pub author: Author,
    pub confirmation: Confirmation,
    /// How far the caller's writes may reach.
    pub reach: Reach,
    /// The ids of guards that the request overrides.
    pub overrides: Vec<String>,
    /// Whether guards do not apply. No request can ask for that; only writes of the server itself do.
    pub unguarded: bool,
}

impl WriteRequest {
    /// Its operations on `fleet`.
    pub fn operations_on(&self, fleet: &Fleet) -> Result<Cow<'_, [Operation]>, Refusal> {
        match &self.back {
            Some(back) => Ok(back.operations(fleet)?.into()),
            None => Ok(self.operations.as_slice().into()),
        }
    }

    /// Whether it changes one cluster: judging that takes less time than a hop to another thread.
    fn is_quick(&self) -> bool {
        let is_one_cluster = |operation: &Operation| {
            let selects = matches!(
                operation.verb,
                Verb::Merge {
                    on: Target::Selector(_),
                    ..
                }
            );
            operation.kind == CLUSTERS && !selects
        };
        matches!(self.operations.as_slice(), [operation] if is_one_cluster(operation))
    }
}

/// The handle that requests use.
#[derive(Debug)]
pub struct Engine {
    fleet: Arc<ArcSwap<Fleet>>,
    queue: mpsc::Sender<Request>,
    status: Arc<Status>,
    removals: Removals,
    served: watch::Receiver<Revision>,
}

impl Engine {
    /// Starts the task on the fleet of `store`. `reached`: the recent removals if the fleet is current, or the age of the fleet
    /// if the store is unavailable. The task ends when the last handle is dropped.
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
        let removals = Removals::new(budget, reached.unwrap_or_default());
        let (serves, served) = watch::channel(Revision::ZERO);
        let mut task = Task::new(store, fleet.clone(), metrics, status.clone(), removals.clone(), serves);
        let running = tokio::spawn(async move { task.run(requests).await });
        let engine = Engine {
            fleet,
            queue,
            status,
            removals,
            served,
        };
        (engine, running)
    }

    pub fn budget(&self) -> Budget {
        self.removals.budget
    }

    /// Reads the recent removals.
    pub fn removals<T>(&self, read: impl FnOnce(&Recent) -> T) -> T {
        read(&self.removals.recent())
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        self.fleet.load_full()
    }

    /// The snapshot without a change of its reference count: for polls.
    pub fn peek(&self) -> arc_swap::Guard<Arc<Fleet>> {
        self.fleet.load()
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The revision that is served. It changes with the snapshot, and closes when the task ends.
    pub fn served(&self) -> watch::Receiver<Revision> {
        self.served.clone()
    }

    /// Queues a write, and waits until it is durable or refused.
    pub async fn write(&self, write: WriteRequest) -> Result<Written, WriteError> {
        let unavailable = |detail: &str| Err(WriteError::Unavailable(detail.to_owned()));
        if self.status.is_stuck() {
            return unavailable("the store does not answer, or is very busy");
        }
        if self.fleet.load().damage().is_some() {
            return unavailable(DAMAGED);
        }
        let (reply, answer) = oneshot::channel();
        match self.queue.try_send(Request { write, reply }) {
            Ok(()) => answer.await.unwrap_or(Err(WriteError::Internal)),
            Err(mpsc::error::TrySendError::Full(_)) => unavailable("too many writes are waiting"),
            Err(mpsc::error::TrySendError::Closed(_)) => unavailable("the server is stopping"),
        }
    }
}
