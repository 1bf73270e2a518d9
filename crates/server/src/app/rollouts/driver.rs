//! The task that moves rollouts: it promotes the first wave, each next one when its gate has passed, and completes. Every process
//! in `crud` mode runs one; the commit's compare-and-swap makes each step once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::rollout::{Rollout, State, Step};
use tokio::task::JoinHandle;
use tracing::warn;

use super::gates::Seen;
use super::steps::{Due, Taken};
use crate::app::App;
use crate::app::errors::ReadError;
use crate::app::reads::Class;
use crate::metrics::RolloutLabels;

/// How often rollouts are looked at, at most.
const EVERY: Duration = Duration::from_secs(1);
/// How much longer than a look the rest after it is, for each rollout that runs: all looks together take a fixed share of the time.
const REST: u32 = 4;
const MOST_REST: Duration = Duration::from_secs(60);
/// The rest after a look that failed.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What moves rollouts.
#[derive(Clone, Debug, Default)]
pub struct Driver(Arc<Mutex<Memory>>);

/// What is remembered from one look to the next. All of it may be lost: then a soak starts again.
#[derive(Debug, Default)]
struct Memory {
    /// How many times the store turned out to have another history. None: not looked at yet.
    histories: Option<u64>,
    /// The rollouts that run.
    rollouts: HashMap<Arc<str>, Watched>,
}

/// A rollout that runs.
#[derive(Debug, Default)]
struct Watched {
    seen: Arc<Mutex<Seen>>,
    /// The store has another history than before.
    must_halt: bool,
    /// A guard refused the next wave.
    held: Option<Held>,
    /// The version that was looked at last, and until when nothing is to be expected of it.
    rests: Option<(Etag, Instant)>,
    /// Whether the last look failed.
    is_unjudged: bool,
}

/// A wave that a guard refused. To judge it again costs as much as a plan of it, so that it is tried again when other guards are in force, and
/// otherwise now and then.
#[derive(Debug)]
struct Held {
    /// The wave that was promoted then.
    wave: Option<usize>,
    /// The versions of the guards that were in force.
    guards: Vec<Etag>,
    until: Instant,
    /// What they said.
    words: String,
}

/// How much longer than the judgement the pause after it is.
const HELD_REST: u32 = 20;

/// Moves rollouts until the server stops. Each has looks of its own, so that none waits for another.
pub async fn drive(app: Arc<App>) {
    let driver = Driver::default();
    let mut looks: HashMap<Arc<str>, JoinHandle<()>> = HashMap::new();
    loop {
        looks.retain(|_, look| !look.is_finished());
        for rollout in driver.running(&app) {
            if looks.contains_key(rollout.id()) || driver.rests(&rollout) {
                continue;
            }
            let (driver, app, id) = (driver.clone(), app.clone(), rollout.id().clone());
            let look = tokio::spawn(async move { driver.look_at(&app, rollout).await });
            looks.insert(id, look);
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = app.stops() => return,
        }
    }
}

impl Driver {
    /// Looks at every rollout once, and takes the steps that are due.
    pub async fn look(&self, app: &Arc<App>) {
        for rollout in self.running(app) {
            self.look_at(app, rollout).await;
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is remembered of a rollout. None: it does not run any more.
    fn on<T>(&self, rollout: &Rollout, change: impl FnOnce(&mut Watched) -> T) -> Option<T> {
        self.memory().rollouts.get_mut(rollout.id()).map(change)
    }

    /// The rollouts that run. What is remembered of others is forgotten.
    fn running(&self, app: &App) -> Vec<Arc<Rollout>> {
        // Before the fleet, which may be of another history already.
        let histories = app.metrics.histories.get();
        let fleet = app.fleet();
        app.show_rollouts_in_metrics(&fleet);
        let is_running = |rollout: &&Arc<Rollout>| fleet.damage().is_none() && rollout.state == State::Running;
        let running: Vec<_> = fleet.rollouts().running().filter(is_running).cloned().collect();
        let mut memory = self.memory();
        let known = memory.histories.replace(histories);
        let is_other_history = known.is_some_and(|known| known != histories);
        let mut before = std::mem::take(&mut memory.rollouts);
        for rollout in &running {
            let mut watched = before.remove(rollout.id()).unwrap_or_default();
            watched.must_halt |= is_other_history;
            memory.rollouts.insert(rollout.id().clone(), watched);
        }
        memory.show_unjudged(app);
        running
    }

    /// Whether a rollout was looked at a short time ago. One that is new, or was acted on since, does not rest.
    fn rests(&self, rollout: &Rollout) -> bool {
        let (etag, now) = (rollout.document.etag, Instant::now());
        let rests = self.on(rollout, |watched| {
            let rests = watched.rests.is_some_and(|(seen, until)| seen == etag && now < until);
            rests && !watched.must_halt
        });
        rests.unwrap_or_default()
    }

    /// Looks at a rollout, and takes the step that is due. Whatever happens here does not concern the other rollouts.
    async fn look_at(&self, app: &Arc<App>, rollout: Arc<Rollout>) {
        let histories = app.metrics.histories.get();
        let (due, took) = match self.due(app, &rollout).await {
            Ok(found) => found,
            Err(error) => {
                warn!(rollout = %rollout.id(), ?error, "a rollout could not be judged");
                let words = "its gate could not be judged: the log of the server says why";
                app.say(&rollout, Some(words.to_owned()));
                return self.note(app, &rollout, REST_AFTER_FAILURE, true);
            }
        };
        let count = u32::try_from(self.memory().rollouts.len()).unwrap_or(u32::MAX);
        let rest = took.saturating_mul(REST.saturating_mul(count));
        self.note(app, &rollout, rest.clamp(EVERY, MOST_REST), false);
        // What was judged may be a fleet of another history: the next look halts it.
        if let Some(due) = due.filter(|_| app.metrics.histories.get() == histories) {
            self.take_step(app, due).await;
        }
    }

    /// Remembers that a rollout was looked at.
    fn note(&self, app: &App, rollout: &Rollout, rest: Duration, is_unjudged: bool) {
        self.on(rollout, |watched| {
            watched.rests = Some((rollout.document.etag, Instant::now() + rest));
            watched.is_unjudged = is_unjudged;
        });
        self.memory().show_unjudged(app);
    }

    /// The step that is due, and how long it took to find out.
    async fn due(&self, app: &Arc<App>, rollout: &Arc<Rollout>) -> Result<(Option<Due>, Duration), ReadError> {
        let remembered = self.on(rollout, |watched| (watched.seen.clone(), watched.must_halt));
        let Some((seen, must_halt)) = remembered else {
            return Ok((None, Duration::ZERO));
        };
        if must_halt {
            let why =
                "the store has another history than the one that this rollout went out with: check it, then resume";
            let due = Due {
                rollout: rollout.clone(),
                step: Step::Halt(why.to_owned()),
                reason: why.to_owned(),
            };
            return Ok((Some(due), Duration::ZERO));
        }
        // There is nothing to read, and no look at another rollout to wait for.
        if rollout.wave.is_none() {
            return Ok((app.first_step(rollout), Duration::ZERO));
        }
        let id = rollout.id().clone();
        let judged = app.read(Class::Rollouts, move |app, turn| {
            let begun = Instant::now();
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let due = seen.due_step(app, turn, &id)?;
            Ok((due, begun.elapsed()))
        });
        judged.await?
    }

    /// Takes a step, unless a guard has just refused it.
    async fn take_step(&self, app: &App, due: Due) {
        let guards = guards_in_force(&app.fleet());
        let (rollout, begun) = (due.rollout.clone(), Instant::now());
        let is_held = |held: &&Held| held.wave == rollout.wave && held.guards == guards && begun < held.until;
        let held = self.on(&rollout, |watched| {
            let held = watched.held.as_ref().filter(is_held);
            held.map(|held| held.words.clone())
        });
        if let Some(words) = held.flatten().filter(|_| !due.step.is_safe()) {
            app.say(&rollout, Some(words));
            return;
        }
        let held = match app.take_step(due).await {
            Taken::Guarded(words) => Some(Held {
                wave: rollout.wave,
                guards,
                until: Instant::now() + (begun.elapsed() * HELD_REST).clamp(EVERY, MOST_REST),
                words,
            }),
            Taken::Otherwise => None,
        };
        self.on(&rollout, |watched| watched.held = held);
    }
}

impl Memory {
    fn show_unjudged(&self, app: &App) {
        let unjudged = self.rollouts.values().filter(|watched| watched.is_unjudged).count();
        app.metrics
            .rollouts_unjudged
            .set(i64::try_from(unjudged).unwrap_or(i64::MAX));
    }
}

/// The versions of the guards that are in force now.
fn guards_in_force(fleet: &Fleet) -> Vec<Etag> {
    let guards = fleet.guards().in_force(&crate::now());
    guards.iter().map(|guard| guard.document.etag).collect()
}

impl App {
    fn show_rollouts_in_metrics(&self, fleet: &Fleet) {
        // Those that no rollout has are 0, so that alerts find the series.
        let mut counts: HashMap<RolloutLabels, i64> = ["gate", "approval", "guard"]
            .map(|waits_for| (State::Running.name(), waits_for))
            .into_iter()
            .chain([State::Paused, State::Halted, State::Reverted].map(|state| (state.name(), "person")))
            .map(|(state, waits_for)| (RolloutLabels { state, waits_for }, 0))
            .collect();
        for rollout in fleet.rollouts().running() {
            let waits_for = match (&rollout.waiting_for, rollout.state) {
                (Some(what), State::Running) if what.starts_with("approval/") => "approval",
                (Some(_), State::Running) => "guard",
                (None, State::Running) => "gate",
                _ => "person",
            };
            let state = rollout.state.name();
            *counts.entry(RolloutLabels { state, waits_for }).or_default() += 1;
        }
        for (labels, count) in counts {
            self.metrics.rollouts.get_or_create(&labels).set(count);
        }
    }
}
