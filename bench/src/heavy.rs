//! Readers that ask for as much as they may, and what they take from the polls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;
use crate::generate::Cluster;
use crate::http::Client;
use crate::server::{READ_TOKEN, WRITE_TOKEN};

/// How many clusters get a large document, twice each.
const LARGE: usize = 100;
/// Of values: so many, each of so many bytes.
const VALUES: usize = 10;
const LENGTH: usize = 60_000;

/// Fills the log with large documents: each change has half a megabyte or more.
pub(crate) async fn fill(addr: SocketAddr, clusters: &[Cluster]) -> Result<()> {
    let mut client = Client::new(addr, 0);
    for round in ["x", "y"] {
        let text = round.repeat(LENGTH);
        for Cluster { id, component, .. } in &clusters[..LARGE] {
            let values: Vec<_> = (0..VALUES).map(|n| format!(r#""blob{n}":"{text}""#)).collect();
            let body = format!(r#"{{"patches":{{"{component}":{{{}}}}}}}"#, values.join(","));
            let length = body.len();
            let request = format!(
                "PATCH /clusters/{id} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            let reply = client.send(request.as_bytes()).await?;
            if reply.status != 200 {
                return Err(format!("filling the log: status {}", reply.status).into());
            }
        }
    }
    Ok(())
}

/// What such a reader asks for.
fn requests(clusters: &[Cluster]) -> Vec<String> {
    let id = &clusters[0].id;
    vec![
        "/changes?limit=10000".to_owned(),
        "/diff?from=1".to_owned(),
        "/clusters".to_owned(),
        "/clusters?selector=environment!=qa,node_count!=1,!protected".to_owned(),
        format!("/clusters/{id}/history?limit=10000"),
        format!("/clusters/{id}/manifests"),
        format!("/clusters/{id}/manifests?revision=1"),
        "/kinds".to_owned(),
        "/openapi.yaml".to_owned(),
    ]
}

/// Readers that go on until they are stopped.
pub(crate) struct Readers {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

/// What they got.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) replies: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Told to come back later.
    pub(crate) refused: AtomicU64,
}

impl Readers {
    pub(crate) fn start(addr: SocketAddr, count: usize, clusters: &[Cluster], counts: &Arc<Counts>) -> Self {
        let requests = Arc::new(requests(clusters));
        let stop = Arc::<AtomicBool>::default();
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let (requests, stop, counts) = (requests.clone(), stop.clone(), counts.clone());
            tasks.spawn(async move {
                for path in requests.iter().cycle().skip(number % requests.len()) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(error) = read(addr, path, &counts).await {
                        eprintln!("{path}: {error}");
                    }
                }
            });
        }
        Readers { tasks, stop }
    }

    /// Stops them where they are.
    pub(crate) async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.shutdown().await;
    }
}

/// Reads a reply to its end without keeping it.
async fn read(addr: SocketAddr, path: &str, counts: &Counts) -> Result<()> {
    let mut stream = TcpStream::connect(addr).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {READ_TOKEN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 64 << 10];
    let mut first = true;
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            break;
        }
        if std::mem::take(&mut first) && !buffer.starts_with(b"HTTP/1.1 200") {
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        counts.bytes.fetch_add(length as u64, Ordering::Relaxed);
    }
    counts.replies.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
