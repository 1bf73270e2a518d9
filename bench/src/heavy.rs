//! Clients that read as much as they are allowed to, and how much they slow polls down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::Result;
use crate::generate::Cluster;
use crate::http::Client;
use crate::server::{READ_TOKEN, WRITE_TOKEN};

/// How many clusters get a large document, twice each.
const LARGE: usize = 100;
/// The number of values in such a document, and the bytes of each.
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

/// The requests of such a reader.
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

/// Readers that repeat their requests until they are stopped.
pub(crate) struct Readers {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// Their replies.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) replies: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Replies other than 200.
    pub(crate) refused: AtomicU64,
}

impl Readers {
    /// Starts them on a thread with the lowest priority: they stand for clients on other machines, which take no CPU time from
    /// the server.
    pub(crate) fn start(addr: SocketAddr, count: usize, clusters: &[Cluster], counts: &Arc<Counts>) -> Result<Self> {
        let (requests, counts) = (Arc::new(requests(clusters)), counts.clone());
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("readers".to_owned());
        let thread = thread.spawn(move || {
            let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
                .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for number in 0..count {
                    tasks.spawn(read_on(addr, requests.clone(), number, counts.clone()));
                }
                let _ = stopped.await;
                tasks.shutdown().await;
            });
            Ok(())
        })?;
        Ok(Readers { stop, thread })
    }

    /// Stops them, also in the middle of a reply.
    pub(crate) fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(self.thread.join().map_err(|_| "the readers' thread panicked")??)
    }
}

async fn read_on(addr: SocketAddr, requests: Arc<Vec<String>>, number: usize, counts: Arc<Counts>) {
    for path in requests.iter().cycle().skip(number % requests.len()) {
        if let Err(error) = read(addr, path, &counts).await {
            eprintln!("{path}: {error}");
        }
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
