//! What is measured, and how: two sides that take turns.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::sleep;

use crate::generate::{self, Cluster};
use crate::heavy;
use crate::load::{self, Connections, Load, Source, Tally};
use crate::replicas::Replicas;
use crate::report::Report;
use crate::server::{Server, Syncs, other_cpu_seconds};
use crate::{Part, Result};

const MIB: f64 = 1024.0 * 1024.0;
const FLEET: usize = 10_000;
const SMALL_FLEET: usize = 1_000;
/// The size of the fleet that a change to every cluster is measured with.
const LARGE_FLEET: usize = 100_000;
pub(crate) const READERS: usize = 64;
/// The average size of a reply, where no product is measured.
const SELF_CHECK_SIZE: usize = 1_000;

/// A generated fleet, and the folder of the file it is in.
pub(crate) struct Fleet {
    pub(crate) dir: TempDir,
    pub(crate) file: PathBuf,
    pub(crate) clusters: Arc<Vec<Cluster>>,
}

impl Fleet {
    pub(crate) fn generate(count: usize, parent: &Path) -> Result<Self> {
        let dir = TempDir::with_prefix_in("flux-resourceset-bench-", parent)?;
        let file = dir.path().join("fleet.jsonl");
        let mut out = BufWriter::new(File::create(&file)?);
        let clusters = Arc::new(generate::write_fleet(count, &mut out)?);
        out.flush()?;
        Ok(Self { dir, file, clusters })
    }
}

/// Takes the figures, one part after the other.
pub(crate) struct Bench<'a> {
    pub(crate) turns: usize,
    pub(crate) turn: Duration,
    pub(crate) dir: &'a Path,
    pub(crate) report: Report,
}

/// One side's part of a turn.
pub(crate) struct Sample {
    pub(crate) tally: Tally,
    /// The results of the loads beside the measured one.
    beside: Vec<Tally>,
    /// CPU time of the server per request, in µs.
    pub(crate) cpu_micros: f64,
    /// CPU time of everything else on the machine, in seconds.
    others: f64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(turns: usize, turn: Duration, dir: &'a Path) -> Self {
        Self {
            turns,
            turn,
            dir,
            report: Report::default(),
        }
    }

    /// The yardstick against itself.
    pub(crate) async fn self_check(&mut self) -> Result<()> {
        let clusters = Fleet::generate(FLEET, self.dir)?.clusters;
        let (a, b) = (
            Server::yardstick(SELF_CHECK_SIZE, None).await?,
            Server::yardstick(SELF_CHECK_SIZE, None).await?,
        );
        self.polls(&a, &b, &clusters).await
    }

    /// The product against the yardstick, and against itself.
    pub(crate) async fn product(&mut self, binary: &Path, wanted: impl Fn(Part) -> bool) -> Result<()> {
        if wanted(Part::Memory) {
            let fleet = Fleet::generate(SMALL_FLEET, self.dir)?;
            let (server, _) = start(binary, &fleet).await?;
            self.memory(&server, SMALL_FLEET, 64.0)?;
        }
        if wanted(Part::Replicas) {
            self.replicas(binary).await?;
        }
        if wanted(Part::HeavyReads) {
            self.heavy_reads(binary).await?;
        }
        if wanted(Part::IdentityMemory) {
            self.identity_memory(binary).await?;
        }
        if wanted(Part::Status) {
            self.status(binary, FLEET).await?;
        }
        if wanted(Part::StatusMillion) {
            self.status(binary, 1_000_000).await?;
        }
        if wanted(Part::Pages) {
            self.pages(binary).await?;
        }
        let parts = [Part::Memory, Part::Polls, Part::Identities, Part::Tls, Part::Writers];
        if !parts.into_iter().any(&wanted) {
            return Ok(());
        }
        let fleet = Fleet::generate(FLEET, self.dir)?;
        let (server, size) = start(binary, &fleet).await?;
        if wanted(Part::Memory) {
            self.memory(&server, FLEET, 256.0)?;
        }
        if wanted(Part::Polls) {
            let yardstick = Server::yardstick(size, None).await?;
            self.polls(&yardstick, &server, &fleet.clusters).await?;
        }
        if wanted(Part::Tls) {
            self.tls(binary, &fleet, size).await?;
        }
        if wanted(Part::Identities) {
            self.own_tokens(&server, &fleet).await?;
        }
        if wanted(Part::Writers) {
            self.writers(&server, &fleet).await?;
        }
        Ok(())
    }

    fn memory(&mut self, server: &Server, clusters: usize, target: f64) -> Result<()> {
        let memory = server.memory()?;
        let detail = format!("peak {:.1} MiB", memory.peak as f64 / MIB);
        let figure = format!("memory, {clusters} clusters");
        self.report
            .at_most(&figure, memory.now as f64 / MIB, target, " MiB", detail);
        Ok(())
    }

    async fn polls(&mut self, yardstick: &Server, product: &Server, clusters: &[Cluster]) -> Result<()> {
        let source = Arc::new(Source::polls(clusters.iter()));
        for (name, connections) in [
            ("kept connections", Connections::Kept),
            ("one connection per poll", Connections::OnePerRequest),
        ] {
            let load = |server: &Server| self.load(server, &source, READERS, connections);
            let (a, b) = self
                .alternate(name, (yardstick, vec![load(yardstick)]), (product, vec![load(product)]))
                .await?;
            let describe = |samples: &[Sample]| {
                let middle = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
                format!(
                    "{:.0}/s, p50 {:.0} µs, p99 {:.0} µs",
                    middle(|s| s.tally.per_second),
                    middle(|s| s.tally.p50.as_micros() as f64),
                    middle(|s| s.tally.p99.as_micros() as f64),
                )
            };
            let mut detail = format!("{} against {}", describe(&b), describe(&a));
            let opened: u64 = b.iter().map(|s| s.tally.connects).sum();
            if connections == Connections::Kept && opened > (READERS * self.turns) as u64 {
                detail += &format!("; the server closed kept connections: {opened} opened");
            }
            let speed = median_ratio(&a, &b, |s| s.tally.per_second);
            self.report.at_least(&format!("throughput, {name}"), speed, 0.8, detail);
            let cpu = |samples: &[Sample]| median(samples.iter().map(|s| s.cpu_micros));
            let detail = format!("{:.1} µs against {:.1} µs", cpu(&b), cpu(&a));
            let ratio = median_ratio(&a, &b, |s| s.cpu_micros);
            self.report
                .at_most(&format!("CPU per poll, {name}"), ratio, 1.3, "", detail);
        }
        Ok(())
    }

    async fn writers(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        let polls = Arc::new(Source::polls(fleet.clusters.iter()));
        let writes = Arc::new(Source::writes(fleet.clusters.clone()));
        let readers = self.load(server, &polls, READERS, Connections::Kept);
        let writers = |count| self.load(server, &writes, count, Connections::Kept);
        let rate = |s: &Sample| s.tally.per_second;
        let middle = |samples: &[Sample]| median(samples.iter().map(rate));

        let both = vec![readers.clone(), writers(2)];
        let (alone, beside) = self
            .alternate("readers beside writers", (server, vec![readers]), (server, both))
            .await?;
        let (one, eight) = self
            .alternate(
                "1 and 8 writers",
                (server, vec![writers(1)]),
                (server, vec![writers(8)]),
            )
            .await?;

        let commits = median(beside.iter().flat_map(|s| &s.beside).map(|t| t.per_second));
        let (with, without) = (middle(&beside), middle(&alone));
        let detail = format!("{with:.0} polls/s beside {commits:.0} commits/s, {without:.0} alone");
        self.report.at_least(
            "readers beside two writers",
            median_ratio(&alone, &beside, rate),
            0.8,
            detail,
        );
        let detail = format!(
            "{:.0} commits/s of 8 writers, {:.0} of one",
            middle(&eight),
            middle(&one)
        );
        self.report
            .at_least("8 writers against one", median_ratio(&one, &eight, rate), 2.0, detail);
        self.syncs(server, fleet, &writes).await
    }

    async fn syncs(&mut self, server: &Server, fleet: &Fleet, writes: &Arc<Source>) -> Result<()> {
        const FIGURE: &str = "syncs per commit, between checkpoints";
        eprintln!("{FIGURE}");
        let trace = match server.trace_syncs(fleet.dir.path()).await {
            Ok(trace) => trace,
            Err(error) => {
                eprintln!("skipped: {error}");
                self.report.skip(FIGURE, "= 1", format!("not counted: {error}"));
                return Ok(());
            }
        };
        let tally = load::run(self.load(server, writes, 1, Connections::Kept)).await?;
        let syncs = trace.finish().await?;
        let commits = tally.requests as usize;
        let Syncs {
            commits: seen,
            checkpoints,
        } = syncs;
        let detail = format!("{seen} syncs for {commits} commits, and {checkpoints} of checkpoints beside them");
        // After a checkpoint SQLite restarts its log, and the new header costs one more sync.
        let between = seen - seen.saturating_sub(commits).min(checkpoints);
        let measured = format!("{:.2}", between as f64 / commits as f64);
        let pass = between == commits;
        self.report.add(FIGURE, measured, "= 1", pass, detail);
        Ok(())
    }

    async fn replicas(&mut self, binary: &Path) -> Result<()> {
        const FIGURE: &str = "seen on four replicas, PostgreSQL";
        eprintln!("{FIGURE}");
        let fleet = Fleet::generate(SMALL_FLEET, self.dir)?;
        // On a blocking thread: it waits, and panics when it fails.
        let postgres = tokio::task::spawn_blocking(|| pgtest::Server::start(&[])).await?;
        let url = postgres.database();
        let replicas = Replicas::start(binary, fleet.dir.path(), &fleet.file, &url).await?;
        let delays = replicas.visibility(&fleet.clusters).await?;
        self.delays(FIGURE, "writes", &delays);
        eprintln!("revocation {FIGURE}");
        let delays = replicas.revocations(&fleet.clusters).await?;
        self.delays(&format!("revocation {FIGURE}"), "tokens", &delays);
        drop(replicas);
        eprintln!("a change to {LARGE_FLEET} clusters {FIGURE}");
        let fleet = Fleet::generate(LARGE_FLEET, self.dir)?;
        let replicas = Replicas::start(binary, fleet.dir.path(), &fleet.file, &postgres.database()).await?;
        let delays = replicas.everywhere(&fleet.clusters).await?;
        let seconds = |n: usize| delays[n].as_secs_f64();
        let (middle, longest) = (delays.len() / 2, delays.len() - 1);
        let detail = format!("p50 {:.2} s of {} changes", seconds(middle), delays.len());
        let name = format!("a change to {LARGE_FLEET} clusters {FIGURE}, longest");
        self.report.at_most(&name, seconds(longest), 2.0, " s", detail);
        Ok(())
    }

    /// Reports sorted delays.
    fn delays(&mut self, figure: &str, what: &str, delays: &[Duration]) {
        let millis = |quantile: usize| delays[(delays.len() - 1) * quantile / 1000].as_secs_f64() * 1e3;
        let detail = format!(
            "p50 {:.1} ms, p99.9 {:.1} ms, longest {:.1} ms of {} {what}",
            millis(500),
            millis(999),
            millis(1000),
            delays.len()
        );
        self.report
            .at_most(&format!("{figure}, p99"), millis(990), 50.0, " ms", detail);
    }

    /// Polls beside readers that read as much as they are allowed to.
    async fn heavy_reads(&mut self, binary: &Path) -> Result<()> {
        let fleet = Fleet::generate(FLEET, self.dir)?;
        let (server, _) = start(binary, &fleet).await?;
        eprintln!("heavy reads: filling the log");
        heavy::fill(server.addr, &fleet.clusters).await?;
        let polls = Arc::new(Source::polls(fleet.clusters.iter()));
        let load = (&server, vec![self.load(&server, &polls, 8, Connections::Kept)]);
        sample(&load, self.turn, 0).await?;
        let before = server.memory()?.now;
        let counts = Arc::new(heavy::Counts::default());
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for turn in 0..self.turns {
            alone.push(sample(&load, self.turn, turn).await?);
            let readers = heavy::Readers::start(server.addr, READERS, &fleet.clusters, &counts)?;
            beside.push(sample(&load, self.turn, turn).await?);
            readers.stop()?;
            let p99 = |samples: &[Sample]| samples[turn].tally.p99.as_micros();
            eprintln!(
                "heavy reads, turn {} of {}: p99 {} µs and {} µs",
                turn + 1,
                self.turns,
                p99(&alone),
                p99(&beside)
            );
        }
        let added = server.memory()?.peak.saturating_sub(before) as f64 / MIB;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let detail = format!(
            "{} replies with {:.0} MiB, {} rejected; {:.1} MiB before",
            count(&counts.replies),
            count(&counts.bytes) as f64 / MIB,
            count(&counts.refused),
            before as f64 / MIB
        );
        self.report
            .at_most("memory that 64 heavy readers add", added, 256.0, " MiB", detail);
        let p99 = |s: &Sample| s.tally.p99.as_micros() as f64;
        let middle = |samples: &[Sample]| median(samples.iter().map(p99));
        let detail = format!("{:.0} µs against {:.0} µs", middle(&beside), middle(&alone));
        let ratio = median_ratio(&alone, &beside, p99);
        self.report
            .at_most("p99 of polls beside 64 heavy readers", ratio, 2.0, "", detail);
        Ok(())
    }

    pub(crate) fn load(&self, server: &Server, source: &Arc<Source>, clients: usize, connections: Connections) -> Load {
        Load {
            addr: server.addr,
            tls: server.tls.clone(),
            source: source.clone(),
            clients,
            connections,
            duration: self.turn,
            seed: 0,
        }
    }

    /// Lets two sides take turns, each first as often as second, so that what the machine does meanwhile hits both. A side is
    /// a server and its loads; the first load is the one measured.
    pub(crate) async fn alternate(
        &self,
        name: &str,
        a: (&Server, Vec<Load>),
        b: (&Server, Vec<Load>),
    ) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        // A warm-up: kernel tables and allocator pools grow at first.
        for side in [&a, &b] {
            sample(side, self.turn, 0).await?;
        }
        for turn in 0..self.turns {
            if turn % 2 == 0 {
                left.push(sample(&a, self.turn, turn).await?);
                right.push(sample(&b, self.turn, turn).await?);
            } else {
                right.push(sample(&b, self.turn, turn).await?);
                left.push(sample(&a, self.turn, turn).await?);
            }
            let (x, y) = (left[turn].tally.per_second, right[turn].tally.per_second);
            let progress = format!("{name}, turn {} of {}", turn + 1, self.turns);
            eprintln!("{progress}: {x:.0}/s and {y:.0}/s, {:.3}", y / x);
            let others = left[turn].others + right[turn].others;
            if others > 0.2 * self.turn.as_secs_f64() {
                eprintln!("  other processes took {others:.1} s of CPU time meanwhile: do not trust this turn");
            }
        }
        Ok((left, right))
    }
}

async fn start(binary: &Path, fleet: &Fleet) -> Result<(Server, usize)> {
    let count = fleet.clusters.len();
    eprintln!("{count} clusters: import");
    let server = Server::product(binary, fleet.dir.path(), &fleet.file).await?;
    let size = load::poll_every_reply(&server, fleet.clusters.clone()).await?;
    eprintln!("{count} clusters: every reply polled and checked, {size} bytes on average");
    Ok((server, size))
}

pub(crate) async fn sample((server, loads): &(&Server, Vec<Load>), duration: Duration, turn: usize) -> Result<Sample> {
    let before = server.cpu_seconds()?;
    let others = other_cpu_seconds(server)?;
    let running: Vec<_> = loads
        .iter()
        .map(|load| {
            tokio::spawn(load::run(Load {
                seed: turn as u64,
                duration,
                ..load.clone()
            }))
        })
        .collect();
    let mut tallies = Vec::new();
    for load in running {
        tallies.push(load.await??);
    }
    // Closing the connections that are left is work of this turn, and must not slow down the next one.
    sleep(Duration::from_millis(300)).await;
    let cpu = server.cpu_seconds()? - before;
    let tally = tallies.remove(0);
    Ok(Sample {
        cpu_micros: cpu * 1e6 / tally.requests as f64,
        tally,
        beside: tallies,
        others: other_cpu_seconds(server)? - others,
    })
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn median_ratio(a: &[Sample], b: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(a.iter().zip(b).map(|(a, b)| figure(b) / figure(a)))
}
