//! The same fleet in several sizes, up to a million clusters: time and memory of each, without targets.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::generate::{Cluster, Rng};
use crate::http::Client;
use crate::load::{self, Connections, Load, Source};
use crate::measure::Fleet;
use crate::report;
use crate::server::{DATABASE, Server, WRITE_TOKEN};

const CLIENTS: usize = 64;
const POLLS: Duration = Duration::from_secs(10);
/// As many clusters are polled; the requests of a million would take the loader a gigabyte.
const POLLED: usize = 50_000;
const WRITES: usize = 500;
/// Every cluster of the generated fleet runs it.
const EVERYWHERE: &str = "/platform_components/component-00";

/// What is measured, in the order of the table.
const FIGURES: [&str; 11] = [
    "import",
    "documents per second",
    "database",
    "start, until ready",
    "memory then",
    "polls per second, 64 at a time",
    "p99 of a poll",
    "p50 of a write to one cluster",
    "plan of a change to every cluster",
    "the change itself",
    "ten clusters by a label",
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
    let step = size.div_ceil(POLLED);
    let polled = fleet.clusters.iter().step_by(step);
    let polls = load::run(Load {
        addr: server.addr,
        source: Arc::new(Source::polls(polled)),
        clients: CLIENTS,
        connections: Connections::Kept,
        duration: POLLS,
        seed: 1,
    });
    let polls = polls.await?;
    let mut client = Client::new(server.addr, 0);
    let mut writes = Vec::new();
    let mut rng = Rng::new(1);
    for value in 0..WRITES {
        let cluster: &Cluster = &fleet.clusters[rng.below(size)];
        writes.push(timed(&mut client, &load::write(cluster, 1_000 + value as u64)).await?);
    }
    writes.sort_unstable();

    eprintln!("{size} clusters: a change to all of them");
    let change = r#"{"oci_tag":"v9.9.9"}"#;
    let dry = request("PATCH", &format!("{EVERYWHERE}?dry_run=true&limit=1"), change);
    let plan = timed(&mut client, &dry).await?;
    let written = timed(&mut client, &request("PATCH", EVERYWHERE, change)).await?;
    let selected = "/clusters?selector=region%3Deu-west,wave%3D7&limit=10";
    let selected = timed(&mut client, &request("GET", selected, "")).await?;
    Ok([
        seconds(import),
        format!("{:.0}", size as f64 / import.as_secs_f64()),
        mebibytes(database),
        seconds(start),
        mebibytes(memory),
        format!("{:.0}", polls.per_second),
        milliseconds(polls.p99),
        milliseconds(writes[writes.len() / 2]),
        milliseconds(plan),
        milliseconds(written),
        milliseconds(selected),
    ])
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

`make scale` measures these figures and writes this page (`cargo run --release -p bench -- scale --out docs/src/scale.md`; about five
minutes, 6 GiB of memory and 8 GiB of disk).
{machine}

{table}
One process on SQLite, with the fleet of the [benchmarks](benchmarks.md). They are times of one run on one machine, not ratios: read
them for how they grow. Loader and server share the cores.

- *Import* is `flux-resourceset import` into an empty database, a durable commit per thousand documents. The *database* holds the state and
  the whole log.
- *Polls* are of random clusters; most are the first of theirs, so that the reply is merged and packed for it.
- *A change to every cluster* is a new tag of a component that all of them run. Its plan names each cluster that it reaches. The change itself
  is one revision of one document, after which every poll is answered with it.
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
