//! The same fleet in several sizes, up to a million clusters: time and memory of each, without targets.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::generate::{Cluster, PATHS, Rng};
use crate::http::Client;
use crate::load::{self, Connections, Load, Source, Tally};
use crate::measure::Fleet;
use crate::report;
use crate::server::{DATABASE, Server, WRITE_TOKEN};
use crate::status::{FLUX, poll_all};

const CLIENTS: usize = 64;
const POLLS: Duration = Duration::from_secs(10);
/// As many clusters are polled; the requests of a million would take the loader a gigabyte.
const POLLED: usize = 50_000;
const WRITES: usize = 500;
const WRITES_BESIDE: usize = 51;
/// Every cluster of the generated fleet runs it.
pub(crate) const EVERYWHERE: &str = "/platform_components/component-00";

/// What is measured, in the order of the table.
const FIGURES: [&str; 31] = [
    "import",
    "documents per second",
    "database",
    "start, until ready",
    "memory then",
    "polls per second, 64 at a time",
    "p99 of a poll",
    "CPU to make a reply",
    "p50 of a write to one cluster",
    "plan of a change to every cluster",
    "the change itself",
    "ten clusters by a label",
    "polls that were polled before, per second",
    "p99 of such a poll",
    "start of a rollout to every cluster",
    "p50 of a write to one cluster beside polls",
    "promotion of a tenth of them beside polls",
    "p99 of polls during it",
    "polls per second while the rollout runs",
    "p99 of such a poll",
    "status of the rollout, with its gate",
    "its completion",
    "with 50 profiles: start, until ready",
    "memory then, more per cluster",
    "polls per second, 64 at a time",
    "p99 of a poll",
    "CPU to make a reply",
    "p50 of a write to one cluster",
    "p50 of a new label on one cluster",
    "plan of a profile for a tenth of them",
    "the profile itself",
];

pub(crate) async fn run(binary: &Path, dir: &Path, sizes: &[usize], out: Option<&Path>) -> Result<()> {
    let mut columns = Vec::new();
    for &size in sizes {
        columns.push(
            measure(binary, dir, size)
                .await
                .map_err(|e| format!("{size} clusters: {e}"))?,
        );
    }
    let table = table(sizes, &columns);
    println!("{table}");
    if let Some(out) = out {
        let page = PAGE
            .replace("{machine}", &report::machine(dir))
            .replace("{table}", &table);
        std::fs::write(out, page)?;
        eprintln!("written to {}", out.display());
    }
    Ok(())
}

async fn measure(binary: &Path, dir: &Path, size: usize) -> Result<[String; FIGURES.len()]> {
    eprintln!("{size} clusters: import");
    let fleet = Fleet::generate(size, dir)?;
    let begun = Instant::now();
    let url = Server::import(binary, fleet.dir.path(), &fleet.file).await?;
    let import = begun.elapsed();
    std::fs::remove_file(&fleet.file)?;
    let database = std::fs::metadata(fleet.dir.path().join(DATABASE))?.len();

    eprintln!("{size} clusters: start");
    let begun = Instant::now();
    let server = Server::started(binary, fleet.dir.path(), &url, "crud").await?;
    let start = begun.elapsed();
    let memory = server.memory()?.now;

    eprintln!("{size} clusters: polls and writes");
    let polls = polls(&fleet, &server).await?;
    let made = making(&fleet, &server).await?;
    let mut client = Client::new(server.addr, 0);
    let written_one = median(&mut client, &fleet, |cluster, n| load::write(cluster, 1_000 + n)).await?;

    eprintln!("{size} clusters: a change to all of them");
    let change = r#"{"oci_tag":"v9.9.9"}"#;
    let dry = request("PATCH", &format!("{EVERYWHERE}?dry_run=true&limit=1"), change);
    let plan = timed(&mut client, &dry).await?;
    let written = timed(&mut client, &request("PATCH", EVERYWHERE, change)).await?;
    let selected = "/clusters?selector=region%3Deu-west,wave%3D7&limit=10";
    let selected = timed(&mut client, &request("GET", selected, "")).await?;

    eprintln!("{size} clusters: a rollout");
    let rolled = Rolled::measure(&server, &fleet).await?;

    eprintln!("{size} clusters: with profiles");
    // The connection from before may have been idle for too long.
    let mut client = Client::new(server.addr, 0);
    timed(&mut client, &request("POST", "/batch", &profiles())).await?;
    drop(client);
    drop(server);
    let begun = Instant::now();
    let server = Server::started(binary, fleet.dir.path(), &url, "crud").await?;
    let profiled = Profiled::measure(&server, &fleet, begun.elapsed(), memory).await?;
    Ok([
        seconds(import),
        format!("{:.0}", size as f64 / import.as_secs_f64()),
        mebibytes(database),
        seconds(start),
        mebibytes(memory),
        format!("{:.0}", polls.per_second),
        milliseconds(polls.p99),
        microseconds(made),
        milliseconds(written_one),
        milliseconds(plan),
        milliseconds(written),
        milliseconds(selected),
        format!("{:.0}", rolled.before.per_second),
        milliseconds(rolled.before.p99),
        milliseconds(rolled.start),
        milliseconds(rolled.plain),
        milliseconds(rolled.promotion),
        milliseconds(rolled.during.p99),
        format!("{:.0}", rolled.active.per_second),
        milliseconds(rolled.active.p99),
        milliseconds(rolled.status),
        milliseconds(rolled.completion),
        seconds(profiled.start),
        format!("{} B", profiled.bytes_per_cluster),
        format!("{:.0}", profiled.polls.per_second),
        milliseconds(profiled.polls.p99),
        microseconds(profiled.made),
        milliseconds(profiled.write),
        milliseconds(profiled.label),
        milliseconds(profiled.plan),
        milliseconds(profiled.profile),
    ])
}

/// Polls random clusters.
async fn polls(fleet: &Fleet, server: &Server) -> Result<Tally> {
    let step = fleet.clusters.len().div_ceil(POLLED);
    let polled = fleet.clusters.iter().step_by(step);
    load::run(Load {
        addr: server.addr,
        tls: None,
        source: Arc::new(Source::polls(polled)),
        clients: CLIENTS,
        connections: Connections::Kept,
        duration: POLLS,
        seed: 1,
    })
    .await
}

/// The CPU time of the server for making a reply, merged and packed: that of first polls beyond that of polls again. Other clusters are polled
/// than by [`polls`].
async fn making(fleet: &Fleet, server: &Server) -> Result<Duration> {
    let step = fleet.clusters.len().div_ceil(POLLED / 4);
    let polled: Arc<Vec<Cluster>> = Arc::new(fleet.clusters.iter().skip(1).step_by(step.max(2)).cloned().collect());
    let mut times = Vec::new();
    for _ in 0..2 {
        let before = server.cpu_seconds()?;
        poll_all(server, &polled, "bench").await?;
        times.push(server.cpu_seconds()? - before);
    }
    let replies = (polled.len() * PATHS.len()) as f64;
    Ok(Duration::from_secs_f64((times[0] - times[1]).max(0.0) / replies))
}

/// The median of writes to random clusters.
async fn median(client: &mut Client, fleet: &Fleet, write: impl Fn(&Cluster, u64) -> Vec<u8>) -> Result<Duration> {
    let mut times = Vec::new();
    let mut rng = Rng::new(1);
    for n in 0..WRITES {
        let cluster = &fleet.clusters[rng.below(fleet.clusters.len())];
        times.push(timed(client, &write(cluster, n as u64)).await?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The figures of a rollout.
struct Rolled {
    before: Tally,
    start: Duration,
    /// The median of plain writes beside the same load.
    plain: Duration,
    promotion: Duration,
    during: Tally,
    active: Tally,
    status: Duration,
    completion: Duration,
}

impl Rolled {
    async fn measure(server: &Server, fleet: &Fleet) -> Result<Rolled> {
        polls(fleet, server).await?;
        let before = polls(fleet, server).await?;
        let mut client = Client::new(server.addr, 0);
        // Nobody is in the first wave, so that the second one is promoted when the load runs.
        let rollout = r#"{"id":"scale","operations":[{"op":"merge","kind":"platform_components","id":"component-00","value":{"oci_tag":"v9.9.10"}}],
            "waves":[{"name":"none","selector":"id=nobody"},{"name":"tenth","percent":10},{"name":"rest"}],"gate":{"converged":"100%"}}"#;
        let begun = Instant::now();
        let reply = client.send(&request("POST", "/rollouts", rollout)).await?;
        if reply.status != 201 {
            return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)).into());
        }
        let start = begun.elapsed();
        timed(&mut client, &request("POST", "/rollouts/scale/pause", "{}")).await?;
        if !is_promoted(&mut client, "none").await? {
            timed(&mut client, &request("POST", "/rollouts/scale/promote", "{}")).await?;
        }
        let loaded = polls(fleet, server);
        let promoted = async {
            tokio::time::sleep(POLLS / 4).await;
            let mut client = Client::new(server.addr, 1);
            let mut plain = Vec::new();
            for cluster in fleet.clusters.iter().take(WRITES_BESIDE) {
                plain.push(timed(&mut client, &load::write(cluster, 9_000)).await?);
            }
            plain.sort_unstable();
            let promotion = timed(&mut client, &request("POST", "/rollouts/scale/promote", "{}")).await?;
            Result::Ok((plain[plain.len() / 2], promotion))
        };
        let (during, promotion) = tokio::join!(loaded, promoted);
        let (during, (plain, promotion)) = (during?, promotion?);
        polls(fleet, server).await?;
        let active = polls(fleet, server).await?;
        // The gate counts evidence, so every cluster has to give some.
        poll_all(server, &fleet.clusters, FLUX).await?;
        let mut client = Client::new(server.addr, 2);
        let get = request("GET", "/rollouts/scale/status", "");
        // The first one also finds out whom the rollout affects.
        timed(&mut client, &get).await?;
        let status = timed(&mut client, &get).await?;
        let completion = timed(&mut client, &request("POST", "/rollouts/scale/complete", "{}")).await?;
        Ok(Rolled {
            before,
            start,
            plain,
            promotion,
            during,
            active,
            status,
            completion,
        })
    }
}

/// Whether a wave was promoted last.
async fn is_promoted(client: &mut Client, wave: &str) -> Result<bool> {
    let reply = client.send(&request("GET", "/rollouts/scale", "")).await?;
    let rollout: serde_json::Value = serde_json::from_slice(&reply.body)?;
    Ok(rollout["wave"] == wave)
}

/// The figures of a fleet with profiles.
struct Profiled {
    start: Duration,
    bytes_per_cluster: i64,
    polls: Tally,
    made: Duration,
    write: Duration,
    label: Duration,
    plan: Duration,
    profile: Duration,
}

impl Profiled {
    /// `memory` is that of the server after its start without profiles.
    async fn measure(server: &Server, fleet: &Fleet, start: Duration, memory: u64) -> Result<Profiled> {
        let more = server.memory()?.now as i64 - memory as i64;
        let polls = polls(fleet, server).await?;
        let made = making(fleet, server).await?;
        let mut client = Client::new(server.addr, 0);
        let write = median(&mut client, fleet, |cluster, n| load::write(cluster, 2_000 + n)).await?;
        // The label that the profiles select by: the cluster leaves some and enters others.
        let label = median(&mut client, fleet, |cluster, n| {
            let body = format!(r#"{{"labels":{{"wave":"{}"}}}}"#, n % 10);
            request("PATCH", &format!("/clusters/{}", cluster.id), &body)
        });
        let label = label.await?;
        let profile =
            r#"{"id":"new","selector":"wave=7","priority":5,"namespaces":[{"id":"team-00"},{"id":"team-01"}]}"#;
        let plan = timed(&mut client, &request("POST", "/profiles?dry_run=true&limit=1", profile)).await?;
        let begun = Instant::now();
        let reply = client.send(&request("POST", "/profiles", profile)).await?;
        if reply.status != 201 {
            return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)).into());
        }
        Ok(Profiled {
            start,
            bytes_per_cluster: more / fleet.clusters.len() as i64,
            polls,
            made,
            write,
            label,
            plan,
            profile: begun.elapsed(),
        })
    }
}

/// A batch with 50 profiles, of which each cluster matches ten. They say what the catalog says, so that no reply changes.
fn profiles() -> String {
    let references = r#"[{"id":"component-00","oci_tag":"v1.0.0","adds":false},{"id":"component-01","oci_tag":"v2.1.7","adds":false}]"#;
    let profile = |n: usize, selector: &str| {
        format!(
            r#"{{"op":"create","kind":"profiles","value":{{"id":"profile-{n:02}","selector":"{selector}","priority":{n},"platform_components":{references}}}}}"#
        )
    };
    let by_wave = (0..45).map(|n| profile(n, &format!("wave in ({},{})", n % 10, (n + 1) % 10)));
    let environments = ["dev", "qa", "uat", "prod"].iter().enumerate();
    let by_environment = environments.map(|(n, environment)| profile(45 + n, &format!("environment={environment}")));
    let all: Vec<String> = by_wave
        .chain(by_environment)
        .chain([profile(49, "wave=none")])
        .collect();
    format!(r#"{{"operations":[{}]}}"#, all.join(","))
}

async fn timed(client: &mut Client, request: &[u8]) -> Result<Duration> {
    let begun = Instant::now();
    let reply = client.send(request).await?;
    if reply.status != 200 {
        return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)).into());
    }
    Ok(begun.elapsed())
}

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn microseconds(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn table(sizes: &[usize], columns: &[[String; FIGURES.len()]]) -> String {
    let mut out = String::from("| clusters |");
    sizes.iter().for_each(|size| out.push_str(&format!(" {size} |")));
    out.push_str("\n| --- |");
    sizes.iter().for_each(|_| out.push_str(" ---: |"));
    for (n, figure) in FIGURES.iter().enumerate() {
        out.push_str(&format!("\n| {figure} |"));
        columns
            .iter()
            .for_each(|column| out.push_str(&format!(" {} |", column[n])));
    }
    out.push('\n');
    out
}

const PAGE: &str = "\
# Scale

`make scale` measures these figures and writes this page (`cargo run --release -p bench -- scale --out docs/src/scale.md`; about ten
minutes, 6 GiB of memory and 8 GiB of disk).
{machine}

{table}
One process on SQLite, with the fleet of the [benchmarks](benchmarks.md). They are times of one run on one machine, not ratios: read
them for how they grow. Loader and server share the cores.

- *Import* is `flux-resourceset import` into an empty database, a durable commit per thousand documents. The *database* holds the state and
  the whole log.
- *Polls* are of random clusters; most are the first of theirs, so that the reply is merged and packed for it.
- *CPU to make a reply* is what the server uses for first polls beyond what it uses for the same polls again: merging and packing.
- *A change to every cluster* is a new tag of a component that all of them run. Its plan names each cluster that it reaches. The change itself
  is one revision of one document, after which every poll is answered with it.
- *A rollout* changes the tag of that component. The tenth is promoted a quarter into ten seconds of polls, of clusters that were polled before. A promotion
  is one revision of one small document; the replies that it changes are made at the next poll. The *status* counts the evidence about the promoted wave, as
  the gate does, after every cluster has polled again.
- *With 50 profiles*, of which each cluster matches ten, the server is started again. They say what the catalog says, so the replies are the
  same, byte for byte. The profile for a tenth of the fleet is then a new one, which brings two namespaces.
- Replicas on PostgreSQL hold the same memory each. A million clusters that poll three kinds every five minutes make 10,000 polls per
  second.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_column() {
        let column = |text: &str| std::array::from_fn(|_| text.to_owned());
        let table = table(&[10, 20], &[column("a"), column("b")]);
        assert_eq!(table.lines().count(), 2 + FIGURES.len());
        assert!(table.contains("| import | a | b |"), "{table}");
    }
}
