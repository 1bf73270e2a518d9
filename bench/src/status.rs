//! What status costs: time for each poll, memory, and answers about the whole fleet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::Result;
use crate::generate::{Cluster, PATHS};
use crate::load::{Connections, Source, poll_of};
use crate::measure::{Bench, Fleet, READERS, Sample, median, median_ratio, sample};
use crate::server::{Server, WRITE_TOKEN};

/// How many clients poll the whole fleet.
const CLIENTS: usize = 64;
/// As many clusters are polled in turns; the requests of a million would take the loader a gigabyte.
const POLLED: usize = 50_000;
/// Events of so many clusters, so many each second.
const TELLING: usize = 1_000;
const EVENTS_PER_SECOND: usize = 2_000;
const TELLERS: usize = 16;
/// Clusters that all poll within this time.
const INTERVAL: f64 = 300.0;

impl Bench<'_> {
    /// All figures of status, for a fleet of this size.
    pub(crate) async fn status(&mut self, binary: &Path, size: usize) -> Result<()> {
        eprintln!("status, {size} clusters: import");
        let fleet = Fleet::generate(size, self.dir)?;
        let server = Server::product(binary, fleet.dir.path(), &fleet.file).await?;
        std::fs::remove_file(&fleet.file)?;
        self.status_memory(&server, &fleet).await?;
        self.status_polls(&server, &fleet).await?;
        self.status_answers(&server, size).await?;
        self.status_events(&server, &fleet).await
    }

    /// Polls that nobody counts, then polls that count; and what it takes to keep them.
    async fn status_memory(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        let size = fleet.clusters.len();
        eprintln!("status, {size} clusters: polls that nobody counts");
        poll_all(server, &fleet.clusters, OTHER).await?;
        let without = server.memory()?.now;
        eprintln!("status, {size} clusters: polls of Flux");
        poll_all(server, &fleet.clusters, FLUX).await?;
        idle(server).await?;
        let with = server.memory()?.now;
        let each = with.saturating_sub(without) as f64 / (size * PATHS.len()) as f64;
        let detail = format!("{} MiB with, {} MiB without", with >> 20, without >> 20);
        let name = format!("memory of status per cluster and kind, {size} clusters");
        self.report.at_most(&name, each, 120.0, " B", detail);

        let uncounted = cpu_of_interval(server, fleet, OTHER).await?;
        let counted = cpu_of_interval(server, fleet, FLUX).await?;
        let spent = (counted - uncounted).max(0.0);
        let detail = format!(
            "{spent:.1} s of CPU to save and judge all of them: {counted:.1} s with their polls, {uncounted:.1} s for polls that nobody counts"
        );
        let name = format!("keeping {size} clusters that poll every 5 minutes, of a core");
        self.report.at_most(&name, spent / INTERVAL * 100.0, 5.0, " %", detail);
        Ok(())
    }

    /// Polls that are evidence against polls that are not.
    async fn status_polls(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        let size = fleet.clusters.len();
        let step = size.div_ceil(POLLED);
        let polls = |agent| polls_of(fleet.clusters.iter().step_by(step), agent);
        let load = |source| vec![self.load(server, &source, READERS, Connections::Kept)];
        let name = format!("status, {size} clusters");
        let (a, b) = self
            .alternate(&name, (server, load(polls(OTHER))), (server, load(polls(FLUX))))
            .await?;
        let cpu = |samples: &[Sample]| median(samples.iter().map(|s| s.cpu_micros));
        let detail = format!("{:.2} µs against {:.2} µs", cpu(&b), cpu(&a));
        let ratio = median_ratio(&a, &b, |s| s.cpu_micros);
        let name = format!("CPU per poll with status kept, {size} clusters");
        self.report.at_most(&name, ratio, 1.03, "", detail);
        Ok(())
    }

    async fn status_answers(&mut self, server: &Server, size: usize) -> Result<()> {
        idle(server).await?;
        for (name, path, times, target) in [
            ("GET /status", "/status", 5, 1000.0),
            ("counts of states", "/status?limit=0", 21, 50.0),
        ] {
            let mut client = server.client(0);
            let mut measured = Vec::new();
            for _ in 0..times {
                let begun = Instant::now();
                let reply = client.send(&get(path)).await?;
                let counts: Value = serde_json::from_slice(&reply.body)?;
                let told = counts["counts"]["told"].as_u64();
                if told != Some(size as u64) {
                    return Err(format!("{path}: {}", counts["counts"]).into());
                }
                measured.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let longest = measured.iter().copied().fold(0.0, f64::max);
            let detail = format!("the longest of {times} {longest:.1} ms");
            let name = format!("{name}, {size} clusters");
            self.report
                .at_most(&name, median(measured.into_iter()), target, " ms", detail);
        }
        Ok(())
    }

    /// Polls beside events.
    async fn status_events(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        let size = fleet.clusters.len();
        let step = size.div_ceil(POLLED);
        let polls = polls_of(fleet.clusters.iter().step_by(step), FLUX);
        let load = (server, vec![self.load(server, &polls, READERS, Connections::Kept)]);
        let (mut alone, mut beside, mut told, mut time) = (Vec::new(), Vec::new(), 0, 0.0);
        for turn in 0..self.turns {
            alone.push(sample(&load, self.turn, turn).await?);
            let begun = Instant::now();
            let tellers = Tellers::start(server, &fleet.clusters);
            beside.push(sample(&load, self.turn, turn).await?);
            told += tellers.stop().await?;
            time += begun.elapsed().as_secs_f64();
        }
        let rate = |s: &Sample| s.tally.per_second;
        let middle = |samples: &[Sample]| median(samples.iter().map(rate));
        let events = told as f64 / time;
        let detail = format!(
            "{:.0} polls/s beside {events:.0} events/s of {TELLING} clusters, {:.0} alone; none failed",
            middle(&beside),
            middle(&alone)
        );
        let name = format!("polls beside {EVENTS_PER_SECOND} events/s, {size} clusters");
        let ratio = median_ratio(&alone, &beside, rate);
        self.report.at_least(&name, ratio, 0.5, detail);
        let detail = format!("{told} events, each answered 202");
        let name = format!("events/s beside full polls, {size} clusters");
        let target = EVENTS_PER_SECOND as f64 * 0.95;
        self.report.at_least(&name, events, target, detail);
        Ok(())
    }
}

pub(crate) const FLUX: &str = "flux-operator/v0.58.1";
const OTHER: &str = "bench";

/// Polls of some clusters by an agent.
fn polls_of<'a>(clusters: impl Iterator<Item = &'a Cluster>, agent: &str) -> Arc<Source> {
    let each = |cluster: &Cluster| PATHS.map(|path| poll_of(&cluster.dns, path, agent));
    Arc::new(Source::Polls(clusters.flat_map(each).collect()))
}

fn get(path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\r\n"
    )
    .into_bytes()
}

/// Polls every reply of the fleet once.
pub(crate) async fn poll_all(server: &Server, clusters: &Arc<Vec<Cluster>>, agent: &'static str) -> Result<()> {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (clusters, mut client) = (clusters.clone(), server.client(number));
        clients.spawn(async move {
            for cluster in clusters.iter().skip(number).step_by(CLIENTS) {
                for path in PATHS {
                    let reply = client.send(&poll_of(&cluster.dns, path, agent)).await?;
                    if reply.status != 200 {
                        return Err(format!("{path} of {}: {}", cluster.dns, reply.status).into());
                    }
                }
            }
            Ok::<_, crate::Error>(())
        });
    }
    while let Some(result) = clients.join_next().await {
        result??;
    }
    Ok(())
}

/// The CPU time of the server while every cluster polls once and all of it is saved.
async fn cpu_of_interval(server: &Server, fleet: &Fleet, agent: &'static str) -> Result<f64> {
    let (begun, before) = (Instant::now(), server.cpu_seconds()?);
    poll_all(server, &fleet.clusters, agent).await?;
    // The server saves the times of polls once in so many seconds.
    let interval = (fleet.clusters.len() as f64 / 1000.0).clamp(5.0, INTERVAL);
    let interval = Duration::from_secs_f64(interval);
    tokio::time::sleep(interval.saturating_sub(begun.elapsed())).await;
    idle(server).await?;
    Ok(server.cpu_seconds()? - before)
}

/// Waits until the server has nothing more to do.
async fn idle(server: &Server) -> Result<()> {
    // Longer than the longest time between two saves of what was polled again.
    const QUIET: Duration = Duration::from_secs(6);
    let mut quiet = Instant::now();
    let mut before = server.cpu_seconds()?;
    while quiet.elapsed() < QUIET {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.cpu_seconds()?;
        if now - before > 0.05 {
            quiet = Instant::now();
        }
        before = now;
    }
    Ok(())
}

/// Clients that send events, a fixed number each second.
struct Tellers {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    clients: JoinSet<Result<()>>,
}

impl Tellers {
    fn start(server: &Server, clusters: &Arc<Vec<Cluster>>) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut clients = JoinSet::new();
        for number in 0..TELLERS {
            let (stop, sent, clusters) = (stop.clone(), sent.clone(), clusters.clone());
            let mut client = server.client(number);
            clients.spawn(async move {
                let pause = Duration::from_secs_f64(TELLERS as f64 / EVENTS_PER_SECOND as f64);
                let mut ticks = tokio::time::interval(pause);
                for n in 0.. {
                    ticks.tick().await;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let cluster = &clusters[(n * TELLERS + number) % TELLING.min(clusters.len())];
                    let reply = client.send(&event(cluster, n)).await?;
                    if reply.status != 202 {
                        return Err(format!("an event of {}: {}", cluster.dns, reply.status).into());
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        Tellers { stop, sent, clients }
    }

    /// Returns how many events were sent.
    async fn stop(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(result) = self.clients.join_next().await {
            result??;
        }
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

/// An event as notification-controller sends it.
fn event(cluster: &Cluster, n: usize) -> Vec<u8> {
    let component = &cluster.component;
    let body = format!(
        r#"{{"involvedObject":{{"kind":"HelmRelease","namespace":"flux-system","name":"{component}","uid":"u","apiVersion":"helm.toolkit.fluxcd.io/v2","resourceVersion":"{n}"}},"severity":"info","timestamp":"2026-11-16T04:31:00Z","message":"Helm upgrade succeeded","reason":"UpgradeSucceeded","metadata":{{"desired":"0123456789abcdef","input":"platform-components/{component}","revision":"1.{n}.0"}},"reportingController":"helm-controller","reportingInstance":"helm-controller-0"}}"#
    );
    let (dns, length) = (&cluster.dns, body.len());
    format!(
        "POST /api/v2/flux/clusters/{dns}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n\
         Authorization: Bearer {WRITE_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
