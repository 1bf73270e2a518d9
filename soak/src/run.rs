//! The run: starts the actors, pauses them for quiet points, and ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{Result, generate::Rng};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::actors::{attacker, disruptor, planner, poller, stream, writer};
use crate::findings::Findings;
use crate::memory::Memory;
use crate::site::{Site, WRITERS};
use crate::tally::Tally;
use crate::{Args, quiet};

const POLLERS: usize = 4;
const STREAMS: usize = 3;
const PLANNERS: usize = 2;
const PROGRESS: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) sites: Vec<Arc<Site>>,
    pub(crate) findings: Findings,
    pub(crate) tally: Tally,
    pub(crate) memory: Memory,
    pub(crate) begun: Instant,
    pub(crate) duration: Duration,
    pub(crate) clusters: usize,
    pub(crate) seed: u64,
    /// Held for reading by an actor during each event, and for writing by a quiet point.
    gate: RwLock<()>,
}

impl Run {
    pub(crate) fn new(args: &Args, sites: Vec<Arc<Site>>) -> Run {
        Run {
            sites,
            findings: Findings::default(),
            tally: Tally::default(),
            memory: Memory::default(),
            begun: Instant::now(),
            duration: args.duration,
            clusters: args.clusters,
            seed: args.seed,
            gate: RwLock::default(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.duration
    }

    /// Permission for one event; none when the run is over.
    pub(crate) async fn place(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let place = self.gate.read().await;
        (!self.is_over()).then_some(place)
    }

    /// Random numbers for one actor, the same in every run with this seed.
    pub(crate) fn rng(&self, actor: &str, number: usize) -> Rng {
        let mut seed = self.seed;
        for byte in actor.bytes() {
            seed = seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
        }
        Rng::new(seed.wrapping_add((number as u64) << 40))
    }

    /// Often enough for the memory of quiet points to be compared.
    fn between_quiet_points(&self) -> Duration {
        (self.duration / 20).clamp(Duration::from_secs(15), Duration::from_secs(180))
    }
}

/// Runs all actors until the time is over, and then checks everything once more.
pub(crate) async fn drive(run: &Arc<Run>) -> Result<()> {
    let mut actors = JoinSet::new();
    for site in &run.sites {
        for number in 0..WRITERS {
            actors.spawn(writer::act(run.clone(), site.clone(), number));
        }
        for number in 0..POLLERS {
            actors.spawn(poller::act(run.clone(), site.clone(), number));
        }
        for number in 0..STREAMS {
            actors.spawn(stream::act(run.clone(), site.clone(), number));
        }
        for number in 0..PLANNERS {
            actors.spawn(planner::act(run.clone(), site.clone(), number));
        }
        actors.spawn(disruptor::act(run.clone(), site.clone()));
        actors.spawn(attacker::act(run.clone(), site.clone()));
    }
    actors.spawn(progress(run.clone()));
    actors.spawn(quiet_points(run.clone()));
    while let Some(ended) = actors.join_next().await {
        if let Err(error) = ended {
            run.findings
                .add("the soak itself", format!("an actor panicked: {error}"));
        }
    }
    let _nobody = run.gate.write().await;
    quiet::check(run).await;
    quiet::check_logs(run);
    run.memory.judge(run);
    Ok(())
}

async fn quiet_points(run: Arc<Run>) {
    loop {
        sleep(run.between_quiet_points()).await;
        if run.is_over() {
            return;
        }
        let _nobody = run.gate.write().await;
        quiet::check(&run).await;
    }
}

async fn progress(run: Arc<Run>) {
    let mut shown = Instant::now();
    while !run.is_over() {
        sleep(Duration::from_secs(1)).await;
        run.memory.sample(&run, false);
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            let count = |name| run.tally.get(name);
            eprintln!(
                "soak: {:>5} s: {} polls, {} writes, {} events, {} plans, {} restarts, {} kills, {} database faults, {} attacks, {} quiet points, {} failed checks",
                run.begun.elapsed().as_secs(),
                count("polls"),
                count("writes acknowledged"),
                count("events"),
                count("plans and reads"),
                count("restarts"),
                count("kills"),
                count("database faults"),
                count("attacks"),
                count("quiet points"),
                run.findings.count(),
            );
        }
    }
}
