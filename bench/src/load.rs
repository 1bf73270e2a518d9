//! The load: many connections, each of which sends its next request when the last reply has arrived.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::task::{JoinSet, spawn_blocking};

use crate::Result;
use crate::generate::{Cluster, PATHS, Rng};
use crate::http::Client;
use crate::server::{READ_TOKEN, Server, WRITE_TOKEN};

/// How many idle connections all clients together leave open; Flux itself would leave them for 90 s.
const LEFT_OPEN: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

/// What the requests are.
#[derive(Debug)]
pub(crate) enum Source {
    /// Polls of random clusters, one of these at a time.
    Polls(Vec<Vec<u8>>),
    /// Patches of random clusters. Each sets a value that was never there before: a write without a change is no commit.
    Writes {
        clusters: Arc<Vec<Cluster>>,
        next: AtomicU64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Connections {
    Kept,
    OnePerRequest,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) addr: SocketAddr,
    /// None: plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) source: Arc<Source>,
    pub(crate) clients: usize,
    pub(crate) connections: Connections,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
}

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) connects: u64,
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Source {
    pub(crate) fn polls<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Self {
        let each = |cluster: &Cluster| PATHS.map(|path| poll(&cluster.dns, path));
        Self::Polls(clusters.flat_map(each).collect())
    }

    /// Polls that each have the token of their cluster.
    pub(crate) fn own_polls(clusters: &[Cluster], tokens: &[String]) -> Self {
        let each = |(cluster, token): (&Cluster, &String)| PATHS.map(|path| poll_as(&cluster.dns, path, token));
        Self::Polls(clusters.iter().zip(tokens).flat_map(each).collect())
    }

    pub(crate) fn writes(clusters: Arc<Vec<Cluster>>) -> Self {
        Self::Writes {
            clusters,
            next: AtomicU64::new(1_000),
        }
    }

    /// The next request of the client with this number; writers keep to clusters of their own.
    fn request<'a>(
        &'a self,
        rng: &mut Rng,
        number: usize,
        clients: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        match self {
            Self::Polls(all) => Ok(&all[rng.below(all.len())]),
            Self::Writes { clusters, next } => {
                let cluster = &clusters[rng.below(clusters.len() / clients) * clients + number];
                let value = next.fetch_add(1, Ordering::Relaxed);
                *scratch = write(cluster, value);
                Ok(scratch)
            }
        }
    }
}

/// A patch of one value of one cluster.
pub(crate) fn write(Cluster { id, component, .. }: &Cluster, value: u64) -> Vec<u8> {
    let body = format!(r#"{{"patches":{{"{component}":{{"replicaCount":"{value}"}}}}}}"#);
    let length = body.len();
    format!(
        "PATCH /clusters/{id} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The request that Flux Operator sends.
pub(crate) fn poll(dns: &str, path: &str) -> Vec<u8> {
    poll_as(dns, path, READ_TOKEN)
}

/// The same by an agent, with marks, as the shipped providers ask.
pub(crate) fn poll_of(dns: &str, path: &str, agent: &str) -> Vec<u8> {
    format!(
        "GET /api/v2/flux/clusters/{dns}/{path}?marked=true HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: {agent}\r\n\
         Accept: application/json\r\nAuthorization: Bearer {READ_TOKEN}\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .into_bytes()
}

/// The same with another token.
pub(crate) fn poll_as(dns: &str, path: &str, token: &str) -> Vec<u8> {
    format!(
        "GET /api/v2/flux/clusters/{dns}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: flux-operator/v0.58.1\r\n\
         Accept: application/json\r\nAuthorization: Bearer {token}\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .into_bytes()
}

/// Runs a load for its duration. Any failure, and any reply that is not 200, is an error: a server that answers wrongly is not
/// measured.
pub(crate) async fn run(load: Load) -> Result<Tally> {
    spawn_blocking(move || run_on_threads(&load)).await?
}

/// A single-threaded runtime per core costs less than one that steals work, and the loader ought to cost little.
fn run_on_threads(load: &Load) -> Result<Tally> {
    let threads = thread::available_parallelism()?.get().min(load.clients);
    let begun = Instant::now();
    let results: Vec<Result<(Vec<u32>, u64)>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|n| scope.spawn(move || run_clients(load, n, threads)))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().map_err(|_| "a load thread panicked")?)
            .collect()
    });
    let elapsed = begun.elapsed();
    let (mut micros, mut connects) = (Vec::new(), 0);
    for result in results {
        let (part, opened) = result?;
        micros.extend(part);
        connects += opened;
    }
    micros.sort_unstable();
    let quantile = |q: usize| Duration::from_micros(micros.get(micros.len() * q / 100).copied().unwrap_or(0).into());
    Ok(Tally {
        requests: micros.len() as u64,
        connects,
        per_second: micros.len() as f64 / elapsed.as_secs_f64(),
        p50: quantile(50),
        p99: quantile(99),
    })
}

fn run_clients(load: &Load, thread: usize, threads: usize) -> Result<(Vec<u32>, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in (thread..load.clients).step_by(threads) {
            clients.spawn(run_client(load.clone(), number));
        }
        let (mut micros, mut connects) = (Vec::new(), 0);
        let all = async {
            while let Some(result) = clients.join_next().await {
                let (part, opened) = result??;
                micros.extend(part);
                connects += opened;
            }
            Ok::<_, crate::Error>(())
        };
        tokio::time::timeout(load.duration + PATIENCE, all)
            .await
            .map_err(|_| "a request got no reply")??;
        Ok((micros, connects))
    })
}

async fn run_client(load: Load, number: usize) -> Result<(Vec<u32>, u64)> {
    let mut rng = Rng::new(load.seed << 32 | number as u64);
    let mut client = Client::new(load.addr, number).over_tls(load.tls.clone());
    let mut scratch = Vec::new();
    let mut micros = Vec::new();
    let end = Instant::now() + load.duration;
    loop {
        let request = load.source.request(&mut rng, number, load.clients, &mut scratch)?;
        let begun = Instant::now();
        let reply = client
            .send(request)
            .await
            .map_err(|error| format!("request failed: {error}"))?;
        if reply.status != 200 {
            return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)).into());
        }
        let done = Instant::now();
        micros.push((done - begun).as_micros() as u32);
        if load.connections == Connections::OnePerRequest {
            client.leave(LEFT_OPEN / load.clients);
        }
        if done >= end {
            return Ok((micros, client.connects));
        }
    }
}

/// Polls every reply of the fleet once and checks what is in it. Returns the average size of a body as sent.
pub(crate) async fn poll_every_reply(server: &Server, clusters: Arc<Vec<Cluster>>) -> Result<usize> {
    const CLIENTS: usize = 16;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let clusters = clusters.clone();
        let mut client = server.client(number);
        clients.spawn(async move {
            let mut bytes = 0;
            for cluster in clusters.iter().skip(number).step_by(CLIENTS) {
                for (path, inputs) in PATHS.iter().zip(cluster.inputs) {
                    let reply = client.send(&poll(&cluster.dns, path)).await?;
                    let wrong = |what: &str| format!("{path} of {}: {what}, status {}", cluster.dns, reply.status);
                    if reply.status != 200 || !reply.gzip {
                        return Err(wrong("no gzipped reply").into());
                    }
                    let document: Value = {
                        let mut text = Vec::new();
                        GzDecoder::new(&reply.body[..]).read_to_end(&mut text)?;
                        serde_json::from_slice(&text)?
                    };
                    if document["inputs"].as_array().map(Vec::len) != Some(inputs) {
                        return Err(wrong(&format!("not {inputs} inputs")).into());
                    }
                    bytes += reply.body.len();
                }
            }
            Ok::<_, crate::Error>(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(result) = clients.join_next().await {
        bytes += result??;
    }
    Ok(bytes / (clusters.len() * PATHS.len()))
}
