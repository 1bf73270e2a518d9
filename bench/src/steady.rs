//! The everyday load of a large fleet for minutes: polls, writes and reports at fixed rates, whatever the server does. A reply that comes late counts
//! from the moment at which its request was due.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::Result;
use crate::generate::{Cluster, PATHS, Rng};
use crate::load::{self, poll_of};
use crate::measure::Fleet;
use crate::server::{Server, WRITE_TOKEN};
use crate::status::{FLUX, poll_all};

const POLLS: Rate = Rate {
    name: "polls",
    per_second: 10_000,
    clients: 64,
    expected: 200,
};
const WRITES: Rate = Rate {
    name: "writes",
    per_second: 50,
    clients: 10,
    expected: 200,
};
const REPORTS: Rate = Rate {
    name: "reports",
    per_second: 100,
    clients: 10,
    expected: 202,
};

/// How often the memory is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Requests at a fixed rate.
#[derive(Clone, Copy)]
struct Rate {
    name: &'static str,
    per_second: u32,
    clients: usize,
    expected: u16,
}

pub(crate) async fn run(binary: &Path, dir: &Path, size: usize, time: Duration) -> Result<()> {
    eprintln!("{size} clusters: import");
    let fleet = Fleet::generate(size, dir)?;
    let server = Server::product(binary, fleet.dir.path(), &fleet.file).await?;
    std::fs::remove_file(&fleet.file)?;
    // Every reply is made once, so that the memory has its full size.
    eprintln!("{size} clusters: the first poll of every reply");
    poll_all(&server, &fleet.clusters, FLUX).await?;
    eprintln!("{size} clusters: {} s of load", time.as_secs());
    let stop = Arc::<AtomicBool>::default();
    let polls = start(&server, &fleet, &stop, POLLS, |cluster, n| {
        poll_of(&cluster.dns, PATHS[n as usize % PATHS.len()], FLUX)
    });
    let writes = start(&server, &fleet, &stop, WRITES, load::write);
    let reports = start(&server, &fleet, &stop, REPORTS, report);
    let (begun, mut memory) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        sleep(LOOK_EVERY.min(time)).await;
        memory.push(server.memory()?.now);
    }
    stop.store(true, Ordering::Relaxed);
    println!(
        "| {size} clusters, {} s | per second | p50 | p99 | longest |",
        time.as_secs()
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (rate, clients) in [(POLLS, polls), (WRITES, writes), (REPORTS, reports)] {
        let mut micros = Vec::new();
        for times in clients.join_all().await {
            micros.extend(times?);
        }
        micros.sort_unstable();
        let at = |share: usize| f64::from(micros[(micros.len() - 1) * share / 1000]) / 1e3;
        println!(
            "| {} | {:.0} | {:.1} ms | {:.1} ms | {:.1} ms |",
            rate.name,
            micros.len() as f64 / time.as_secs_f64(),
            at(500),
            at(990),
            at(1000)
        );
    }
    let mebibytes = |bytes: &u64| bytes >> 20;
    let (least, most) = (memory.iter().min(), memory.iter().max());
    println!(
        "\nNo request failed. Memory: {:?} MiB after the first {} s, between {:?} and {:?} MiB, {:?} MiB at the end.",
        memory.first().map(mebibytes).unwrap_or_default(),
        LOOK_EVERY.as_secs(),
        least.map(mebibytes).unwrap_or_default(),
        most.map(mebibytes).unwrap_or_default(),
        memory.last().map(mebibytes).unwrap_or_default()
    );
    Ok(())
}

/// Starts clients that send requests at a rate until they are stopped, and give how long each took, in µs. A request that fails ends its client with an
/// error.
fn start(
    server: &Server,
    fleet: &Fleet,
    stop: &Arc<AtomicBool>,
    rate: Rate,
    request: fn(&Cluster, u64) -> Vec<u8>,
) -> JoinSet<Result<Vec<u32>>> {
    let mut clients = JoinSet::new();
    let pause = Duration::from_secs(rate.clients as u64) / rate.per_second;
    for number in 0..rate.clients {
        let (clusters, stop, mut client) = (fleet.clusters.clone(), stop.clone(), server.client(number));
        let first = Instant::now() + pause * number as u32 / rate.clients as u32;
        clients.spawn(async move {
            let mut rng = Rng::new(number as u64);
            let mut ticks = interval_at(first, pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut micros = Vec::new();
            for n in 0.. {
                let due = ticks.tick().await;
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let cluster = &clusters[rng.below(clusters.len())];
                let reply = client.send(&request(cluster, n)).await?;
                if reply.status != rate.expected {
                    let text = String::from_utf8_lossy(&reply.body).into_owned();
                    return Err(format!("{}: status {}: {text}", rate.name, reply.status).into());
                }
                micros.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(micros)
        });
    }
    clients
}

/// A report of one object, as the reporter sends it after a change.
fn report(cluster: &Cluster, n: u64) -> Vec<u8> {
    let component = &cluster.component;
    let body = format!(
        r#"{{"at":"2026-11-16T04:31:00Z","reporter":"bench","full":false,"objects":[{{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","namespace":"flux-system","name":"{component}","uid":"u","resourceVersion":"{n}","ready":true,"reason":"UpgradeSucceeded","message":"Helm upgrade succeeded","version":"1.{n}.0","input":"platform-components/{component}","desired":"0123456789abcdef","at":"2026-11-16T04:31:00Z"}}],"providers":[]}}"#
    );
    let (dns, length) = (&cluster.dns, body.len());
    format!(
        "POST /api/v2/flux/clusters/{dns}/report HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\n\
         Authorization: Bearer {WRITE_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
