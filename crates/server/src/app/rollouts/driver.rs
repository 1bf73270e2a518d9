//! The task that moves rollouts: it promotes the first wave, each next one when its gate has passed, and completes. Every process
//! in `crud` mode runs one; the commit's compare-and-swap makes each step once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::kind::ROLLOUTS;
use fleet::log::Author;
use fleet::operation::{IfMatch, Operation, Verb};
use fleet::refusal::Reason;
use fleet::rollout::{Action, OnFailure, Rollout, State, Step, Times, Verdict};
use fleet::status::Moment;
use store::StoreError;
use tracing::{info, warn};

use super::members::{Members, promotion};
use super::{promoted, words};
use crate::app::App;
use crate::app::engine::{WriteError, WriteRequest};
use crate::app::errors::ReadError;
use crate::app::reads::{Class, Turn};
use crate::app::status::Judge;
use crate::metrics::{RolloutLabels, StepLabels};

/// How often rollouts are looked at, at most.
const EVERY: Duration = Duration::from_secs(1);
/// The share of time that this may take.
const REST: u32 = 4;

/// What moves rollouts.
#[derive(Clone, Debug, Default)]
pub struct Driver(Arc<Mutex<Memory>>);

/// What is remembered from one look to the next. All of it may be lost: then a soak starts again.
#[derive(Debug, Default)]
struct Memory {
    /// Since when a gate has had enough, and the wave that it was.
    enough: HashMap<Arc<str>, (usize, Moment)>,
    /// The fleet right after a promotion, for clusters that joined later. None: the log does not have it any more.
    fleets: HashMap<(Arc<str>, usize), Option<Arc<Fleet>>>,
    /// How many times the store turned out to have another history. None: not looked at yet.
    histories: Option<u64>,
    /// Rollouts that must halt because of that.
    must_halt: BTreeSet<Arc<str>>,
    /// Rollouts whose next wave a guard refused.
    held: HashMap<Arc<str>, Held>,
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

/// How much longer than the judgement the pause after it is, and the longest pause.
const HELD_REST: u32 = 20;
const MOST_HELD: Duration = Duration::from_secs(60);

/// Moves rollouts until the server stops.
pub async fn drive(app: Arc<App>) {
    let driver = Driver::default();
    loop {
        let begun = Instant::now();
        driver.look(&app).await;
        let rest = (begun.elapsed() * REST).clamp(EVERY, 60 * EVERY);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = app.stops() => return,
        }
    }
}

/// A step that is due, and why.
#[derive(Debug)]
struct Due {
    rollout: Arc<Rollout>,
    step: Step,
    reason: String,
}

impl Driver {
    /// Looks at every rollout once, and takes the steps that are due.
    pub async fn look(&self, app: &Arc<App>) {
        let fleet = app.fleet();
        app.show_rollouts_in_metrics(&fleet);
        let mut running = fleet.rollouts().running();
        if fleet.damage().is_some() || !running.any(|rollout| rollout.state == State::Running) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Memory {
                histories: Some(app.metrics.histories.get()),
                ..Memory::default()
            };
            return;
        }
        let memory = self.0.clone();
        let looked = app.read(Class::Rollouts, move |app, turn| {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.due_steps(app, turn)
        });
        match looked.await {
            Ok(due) => {
                for due in due {
                    self.take_step(app, due).await;
                }
            }
            Err(stop) => warn!(?stop, "rollouts could not be looked at"),
        }
    }

    /// Takes a step, unless a guard has just refused it.
    async fn take_step(&self, app: &App, due: Due) {
        let memory = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guards = guards_in_force(&app.fleet());
        let (rollout, begun) = (due.rollout.clone(), Instant::now());
        let is_held = |held: &&Held| held.wave == rollout.wave && held.guards == guards && begun < held.until;
        let held = memory()
            .held
            .get(rollout.id())
            .filter(is_held)
            .map(|held| held.words.clone());
        if let Some(words) = held.filter(|_| !due.step.is_safe()) {
            app.say(&rollout, Some(words));
            return;
        }
        match app.take_step(due).await {
            Taken::Guarded(words) => {
                let held = Held {
                    wave: rollout.wave,
                    guards,
                    until: Instant::now() + (begun.elapsed() * HELD_REST).clamp(EVERY, MOST_HELD),
                    words,
                };
                memory().held.insert(rollout.id().clone(), held);
            }
            Taken::Otherwise => {
                memory().held.remove(rollout.id());
            }
        }
    }
}

/// The versions of the guards that are in force now.
fn guards_in_force(fleet: &Fleet) -> Vec<Etag> {
    let guards = fleet.guards().in_force(&crate::now());
    guards.iter().map(|guard| guard.document.etag).collect()
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Taken {
    /// A guard refused it, with these words.
    Guarded(String),
    /// It was taken, or somebody else moved the rollout, or it halted.
    Otherwise,
}

impl Memory {
    /// The steps that are due.
    fn due_steps(&mut self, app: &App, turn: &Turn) -> Vec<Due> {
        // Before the fleet, which may be of another history already.
        let histories = app.metrics.histories.get();
        let judge = app.judge();
        let is_other_history = self
            .histories
            .replace(histories)
            .is_some_and(|known| known != histories);
        let running: Vec<_> = judge
            .fleet
            .rollouts()
            .running()
            .filter(|one| one.state == State::Running)
            .cloned()
            .collect();
        let is_running = |id: &str| running.iter().any(|rollout| &**rollout.id() == id);
        self.enough.retain(|id, _| is_running(id));
        self.fleets.retain(|(id, _), _| is_running(id));
        self.must_halt.retain(|id| is_running(id));
        self.held.retain(|id, _| is_running(id));
        if is_other_history {
            self.must_halt
                .extend(running.iter().map(|rollout| rollout.id().clone()));
        }
        let mut due = Vec::new();
        for rollout in &running {
            let step = match self.must_halt.contains(rollout.id()) {
                true => {
                    let why = "the store has another history than the one that this rollout went out with: check it, then resume";
                    Ok(Some((Step::Halt(why.into()), why.to_owned())))
                }
                false => self.due_step(app, turn, &judge, rollout),
            };
            match step {
                Ok(Some((step, reason))) => due.push(Due {
                    rollout: rollout.clone(),
                    step,
                    reason,
                }),
                Ok(None) => {}
                Err(error) => warn!(rollout = %rollout.id(), ?error, "a rollout could not be looked at"),
            }
        }
        due
    }

    /// The step of one rollout that is due, and why.
    fn due_step(
        &mut self,
        app: &App,
        turn: &Turn,
        judge: &Judge,
        rollout: &Arc<Rollout>,
    ) -> Result<Option<(Step, String)>, ReadError> {
        let (verdict, reason) = match rollout.wave {
            None => (Verdict::Passed, "the first wave".to_owned()),
            Some(wave) => self.judge_gate(app, turn, judge, rollout, wave)?,
        };
        app.say(rollout, words(&verdict));
        let next = rollout.next_wave();
        Ok(match verdict {
            Verdict::Waits(_) => None,
            Verdict::Late(why) => Some((Step::Halt(why.clone()), why)),
            Verdict::Fails(why) => Some(match rollout.on_failure {
                OnFailure::Halt => (Step::Halt(why.clone()), why),
                OnFailure::Revert => (Step::Revert(why.clone()), why),
            }),
            Verdict::Passed => match next {
                Some(wave) if rollout.must_approve(wave) => {
                    app.say(rollout, Some(format!("waits for approval of {}", wave.name)));
                    let waiting = format!("approval/{}", wave.name);
                    let is_said = rollout.waiting_for.as_deref() == Some(&*waiting);
                    (!is_said).then_some((Step::Wait(waiting), reason))
                }
                Some(_) => Some((Step::Promote, reason)),
                None => Some((Step::Action(Action::Complete), reason)),
            },
        })
    }

    /// What the gate of the promoted waves says, and the counts in words.
    fn judge_gate(
        &mut self,
        app: &App,
        turn: &Turn,
        judge: &Judge,
        rollout: &Arc<Rollout>,
        wave: usize,
    ) -> Result<(Verdict, String), ReadError> {
        let members = app.members(judge, rollout)?;
        let members = self.present(app, turn, judge, rollout, &members);
        let waves = app.waves(judge, rollout, &members);
        let counts = promoted(&waves);
        let enough_since = match rollout.gate.has_enough(&counts) {
            false => {
                self.enough.remove(rollout.id());
                None
            }
            true => {
                let known = self.enough.entry(rollout.id().clone()).or_insert((wave, judge.now));
                // A wave that changes nothing for anybody has nothing to soak: the time of the wave before it counts.
                let since = if waves[wave].counts.affected > 0 {
                    judge.now
                } else {
                    known.1
                };
                if known.0 != wave {
                    *known = (wave, since);
                }
                Some(known.1)
            }
        };
        let times = Times {
            began: app.began(judge, rollout),
            enough_since,
            now: judge.now,
        };
        Ok((rollout.gate.judge(&counts, times), counts.to_string()))
    }

    /// Leaves out the clusters that joined after their wave was promoted.
    fn present(
        &mut self,
        app: &App,
        turn: &Turn,
        judge: &Judge,
        rollout: &Arc<Rollout>,
        members: &Arc<Members>,
    ) -> Arc<Members> {
        let changed = judge.fleet.clusters_changed().revision;
        let mut then: HashMap<usize, Arc<Fleet>> = HashMap::new();
        for wave in 0..rollout.waves.len() {
            let Some(revision) = promotion(rollout, wave).filter(|revision| changed > *revision) else {
                continue;
            };
            let key = (rollout.id().clone(), wave);
            if !self.fleets.contains_key(&key) {
                match app.fleet_at(turn, revision) {
                    Ok(fleet) => {
                        self.fleets.insert(key.clone(), Some(fleet));
                    }
                    // Compacted: everyone counts. That is said once.
                    Err(error @ ReadError::Store(StoreError::Compacted(_))) => {
                        warn!(rollout = %rollout.id(), ?error, "who joined since the promotion is not known");
                        self.fleets.insert(key.clone(), None);
                    }
                    Err(error) => {
                        warn!(rollout = %rollout.id(), ?error, "the fleet of the promotion could not be read");
                    }
                }
            }
            if let Some(Some(fleet)) = self.fleets.get(&key) {
                then.insert(wave, fleet.clone());
            }
        }
        match then.is_empty() {
            true => members.clone(),
            false => Arc::new(members.present_at(|id, wave| {
                let fleet = then.get(&wave);
                fleet.is_none_or(|fleet| fleet.cluster(id).is_some())
            })),
        }
    }
}

impl App {
    /// When the deadline of a gate began. It does not run while the rollout waits for a person or a guard, whose gate has passed, nor in a
    /// process that has not watched for long enough to know.
    fn began(&self, judge: &Judge, rollout: &Rollout) -> Option<Moment> {
        let deadline = rollout.gate.deadline.unwrap_or_default();
        let has_watched = self.rollouts.started.elapsed() >= rollout.gate.soak + judge.silent_after.min(deadline);
        let began = rollout.since.as_deref().and_then(Moment::parse);
        began.filter(|_| has_watched && rollout.waiting_for.is_none())
    }

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

    fn say(&self, rollout: &Rollout, what: Option<String>) {
        let mut all = self.rollouts.words.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Some(what) => all.insert(rollout.id().clone(), what),
            None => all.remove(rollout.id()),
        };
    }

    /// Takes a step. What a guard refuses waits; what removes more than was confirmed halts.
    async fn take_step(&self, due: Due) -> Taken {
        let Due { rollout, step, reason } = due;
        let refusal = match self.write_step(&rollout, &step, reason, rollout.document.etag).await {
            Ok(()) => {
                self.metrics
                    .rollout_steps
                    .get_or_create(&StepLabels { step: step.name() })
                    .inc();
                info!(rollout = %rollout.id(), ?step, "a rollout moved");
                return Taken::Otherwise;
            }
            Err(WriteError::Refused(refusal)) => refusal,
            // The store is away, or busy: next time.
            Err(_) => return Taken::Otherwise,
        };
        let (next, taken) = match refusal.reason {
            // Somebody else moved it.
            Reason::Stale | Reason::WrongState | Reason::NotFound => return Taken::Otherwise,
            Reason::Guarded => {
                let guard = refusal
                    .exceeded
                    .as_ref()
                    .and_then(|exceeded| exceeded.guards.first())
                    .map(|limit| limit.id.to_string());
                let waiting = format!("guard/{}", guard.unwrap_or_default());
                self.say(&rollout, Some(refusal.detail.clone()));
                if rollout.waiting_for.as_deref() == Some(&*waiting) {
                    return Taken::Guarded(refusal.detail);
                }
                (Step::Wait(waiting), Taken::Guarded(refusal.detail.clone()))
            }
            _ => (Step::Halt(refusal.detail.clone()), Taken::Otherwise),
        };
        if let Err(WriteError::Refused(error)) = self
            .write_step(&rollout, &next, refusal.detail, rollout.document.etag)
            .await
        {
            warn!(rollout = %rollout.id(), ?error, "a rollout could not be stopped");
        }
        taken
    }

    async fn write_step(
        &self,
        rollout: &Rollout,
        step: &Step,
        reason: String,
        version: Etag,
    ) -> Result<(), WriteError> {
        let verb = Verb::Step {
            id: rollout.id().to_string(),
            step: step.clone(),
        };
        let write = WriteRequest {
            operations: vec![Operation::new(ROLLOUTS, verb).when(Some(IfMatch::OneOf(vec![version])))],
            author: Author {
                at: crate::now(),
                actor: format!("rollout/{}", rollout.id()),
                request_id: crate::request_id(),
                reason: Some(reason),
                ..Author::default()
            },
            unguarded: step.is_safe(),
            ..WriteRequest::default()
        };
        self.write(write).await.map(|_| ())
    }
}
