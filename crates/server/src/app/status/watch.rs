//! The task that judges every cluster again and again, so that counts are at hand, and tells followers who changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::status::{Moment, State};
use tokio::sync::{broadcast, watch};

use super::{App, Summary};
use crate::app::reads::on_a_thread;
use crate::metrics::StateLabels;

/// How often every cluster is looked at, at most.
const EVERY: Duration = Duration::from_millis(250);
/// The longest pause, however long a look takes.
const LONGEST: Duration = Duration::from_secs(60);
/// The share of time that this may take: a large fleet is looked at less often.
const REST: u32 = 20;
/// How many changes a slow follower may miss before it is told so.
const KEPT: usize = 4096;

/// A cluster whose state changed.
#[derive(Clone, Debug)]
pub struct Transition {
    pub id: Arc<str>,
    pub dns: Arc<str>,
    pub environment: Arc<str>,
    pub before: State,
    pub state: State,
    pub since: Option<Moment>,
    pub last_poll: Option<Moment>,
}

/// What followers of states get.
#[derive(Debug)]
pub struct Transitions {
    summary: watch::Sender<Arc<Summary>>,
    out: broadcast::Sender<Arc<Transition>>,
}

impl Default for Transitions {
    fn default() -> Self {
        Transitions {
            summary: watch::Sender::default(),
            out: broadcast::channel(KEPT).0,
        }
    }
}

impl Transitions {
    /// The last counts.
    pub fn summary(&self) -> Arc<Summary> {
        self.summary.borrow().clone()
    }

    /// Each summary as it is made.
    pub fn summaries(&self) -> watch::Receiver<Arc<Summary>> {
        self.summary.subscribe()
    }

    pub fn follow(&self) -> broadcast::Receiver<Arc<Transition>> {
        self.out.subscribe()
    }
}

/// Looks at every cluster until the server stops.
pub async fn watch(app: Arc<App>) {
    loop {
        let begun = Instant::now();
        let looking = app.clone();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let started = on_a_thread(move || {
            looking.look();
            let _stopped = done.send(());
        });
        if started.is_ok() {
            let _panicked = is_done.await;
        }
        let rest = (begun.elapsed() * REST).clamp(EVERY, LONGEST);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = app.stops() => return,
        }
    }
}

impl App {
    /// Looks at every cluster once.
    pub fn look(&self) {
        // Before the evidence is looked at: what comes in meanwhile counts for the next look.
        let learnt = self.evidence.learnt();
        let judge = self.judge();
        let mut summary = Summary {
            at: judge.now,
            revision: judge.fleet.revision(),
            learnt,
            ..Summary::default()
        };
        for cluster in judge.fleet.clusters().values() {
            let (lasting, last_poll) = judge.lasting(&self.evidence, cluster, true);
            let (state, since) = lasting.at_poll(last_poll, judge.now, judge.silent_after);
            summary.count(cluster, state);
            let (id, head) = (&cluster.document().id, cluster.head());
            if let Some(before) = self.evidence.show(cluster, state) {
                // Nobody may follow.
                let _unheard = self.transitions.out.send(Arc::new(Transition {
                    id: id.clone(),
                    dns: head.dns.clone(),
                    environment: head.environment.clone(),
                    before,
                    state,
                    since,
                    last_poll,
                }));
            }
        }
        self.evidence.forget(&judge.fleet, || self.engine.fleet());
        self.forget_members(&judge.fleet);
        self.show_in_metrics(&summary);
        self.transitions.summary.send_replace(Arc::new(summary));
    }

    fn show_in_metrics(&self, summary: &Summary) {
        let before = self.transitions.summary();
        for environment in before.by_environment.keys() {
            if !summary.by_environment.contains_key(environment) {
                for state in State::ALL {
                    self.metrics
                        .cluster_states
                        .remove(&StateLabels::new(state, environment));
                }
            }
        }
        for (environment, counts) in &summary.by_environment {
            for state in State::ALL {
                let gauge = self
                    .metrics
                    .cluster_states
                    .get_or_create(&StateLabels::new(state, environment));
                gauge.set(i64::try_from(counts.of(state)).unwrap_or(i64::MAX));
            }
        }
    }
}
