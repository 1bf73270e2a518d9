//! Reads of the whole fleet or log. They run on threads of their own, at a lower priority than polls, few at a time, each with
//! a deadline. Each stops when its client is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::App;
use fleet::identity::Role;

/// How long such a read may wait for a place and work, until its reply begins.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Who reads. Each class has places of its own, so that no other class can make it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Lists for provisioners, which Flux asks for.
    Flux,
    /// Reads with a token that only reads.
    Reader,
    /// Earlier revisions, with such a token: each may take as much memory as the fleet.
    Past,
    /// Reads with a token that may write.
    Writer,
    /// Dry runs and rollbacks.
    Plan,
    /// Whoever follows or exports the log. Each read of theirs is short.
    Stream,
    /// The driver of rollouts.
    Rollouts,
}

impl Class {
    pub fn of(role: Role) -> Class {
        match role {
            Role::Operator | Role::Admin => Class::Writer,
            Role::Reader | Role::Cluster | Role::Mirror | Role::Join => Class::Reader,
        }
    }

    /// The class of a read of earlier revisions.
    pub fn of_past(role: Role) -> Class {
        match Class::of(role) {
            Class::Reader => Class::Past,
            class => class,
        }
    }

    fn places(self) -> usize {
        match self {
            Class::Reader | Class::Writer | Class::Stream => 4,
            Class::Flux | Class::Plan => 2,
            Class::Past | Class::Rollouts => 1,
        }
    }
}

/// The places of all classes.
#[derive(Debug)]
pub struct Places([(Class, Arc<Semaphore>); 7]);

impl Default for Places {
    fn default() -> Self {
        let all = [
            Class::Flux,
            Class::Reader,
            Class::Past,
            Class::Writer,
            Class::Plan,
            Class::Stream,
            Class::Rollouts,
        ];
        Places(all.map(|class| (class, Arc::new(Semaphore::new(class.places())))))
    }
}

impl Places {
    fn of(&self, class: Class) -> &Arc<Semaphore> {
        let place = self.0.iter().find(|(known, _)| *known == class);
        &place.expect("every class is listed").1
    }

    /// How many reads of a class are running.
    pub fn taken(&self, class: Class) -> usize {
        class.places() - self.of(class).available_permits()
    }
}

/// Why a read stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The client hung up.
    Gone,
    /// The deadline is over.
    Late,
    /// Our own fault.
    Panicked,
}

/// A place among the heavy reads, and the conditions under which the read goes on.
#[derive(Debug)]
pub struct Turn {
    _place: OwnedSemaphorePermit,
    gone: Arc<AtomicBool>,
    deadline: Instant,
    runtime: Handle,
}

impl Turn {
    /// Whether to go on. Asked now and then, by whatever takes long.
    pub fn check(&self) -> Result<(), Stop> {
        if self.is_abandoned() {
            return Err(Stop::Gone);
        }
        match Instant::now() > self.deadline {
            true => Err(Stop::Late),
            false => Ok(()),
        }
    }

    pub fn is_abandoned(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Waits for something asynchronous, such as the store.
    pub fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// The items, until the read is to stop.
    pub fn until_stopped<'a, T>(
        &'a self,
        items: impl Iterator<Item = T> + 'a,
    ) -> impl Iterator<Item = Result<T, Stop>> {
        const EVERY: usize = 64;
        items.enumerate().map(move |(n, item)| match n % EVERY {
            0 => self.check().map(|()| item),
            _ => Ok(item),
        })
    }
}

/// Held by whoever waits for the answer. When it is dropped, the read stops.
#[derive(Debug)]
pub struct Client(Arc<AtomicBool>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl App {
    /// Waits for a place, no longer than the deadline.
    pub async fn turn(&self, class: Class) -> Result<(Turn, Client), Stop> {
        let deadline = Instant::now() + self.read_deadline;
        let place = self.places.of(class).clone().acquire_owned();
        let place = tokio::time::timeout_at(deadline.into(), place).await;
        let gone = Arc::<AtomicBool>::default();
        let turn = Turn {
            _place: place.map_err(|_| Stop::Late)?.expect("never closed"),
            gone: gone.clone(),
            deadline,
            runtime: Handle::current(),
        };
        Ok((turn, Client(gone)))
    }

    /// Runs a read that takes long, and gives back its result.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        class: Class,
        read: impl FnOnce(&App, &Turn) -> T + Send + 'static,
    ) -> Result<T, Stop> {
        let (turn, _client) = self.turn(class).await?;
        let app = self.clone();
        let (reply, answer) = oneshot::channel();
        on_a_thread(move || {
            let result = read(&app, &turn);
            drop(turn);
            let _gone = reply.send(result);
        })?;
        answer.await.map_err(|_| Stop::Panicked)
    }
}

/// Runs a heavy read on a new thread with the lowest priority. Threads of the runtime's pool are shared with writes, which must
/// not get that priority.
pub fn on_a_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Stop> {
    let run = move || {
        lowest_priority();
        work();
    };
    let thread = std::thread::Builder::new().name("heavy-read".to_owned());
    match thread.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::error!(%error, "cannot start a thread");
            Err(Stop::Panicked)
        }
    }
}

/// Lets this thread run only while no other thread wants the CPU: a thread that answers polls interrupts it at once. A high
/// niceness is not enough, because the kernel lets a thread run to the end of its slice of some milliseconds. Only Linux has this.
pub fn lowest_priority() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let thread = thread_priority::thread_native_id();
        if let Err(error) = thread_priority::set_thread_priority_and_policy(thread, ThreadPriority::Min, idle) {
            tracing::debug!(?error, "a thread keeps the usual priority");
        }
    }
}
