//! What the dashboard costs: its first page, and polls beside many open pages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;
use crate::http::Client;
use crate::load::{Connections, Source};
use crate::measure::{Bench, Fleet, READERS, Sample, median, median_ratio, sample};
use crate::server::{Server, WRITE_TOKEN};
use crate::status::{FLUX, poll_all};

/// As many clusters as the first page is measured with.
const SIZE: usize = 100_000;
/// As many open pages.
const OPEN: usize = 500;
/// The map that the page Fleet draws.
const MAP: &str = "/ui/map?by=environment";
/// How the script of a page rests between two readings of it.
const LEAST_REST: Duration = Duration::from_millis(900);
const REST: u32 = 10;
/// A page rests for seconds between two readings.
const TURN: Duration = Duration::from_secs(10);
const TURNS: usize = 5;
/// How often somebody looks whether to go on.
const LOOK_UP: Duration = Duration::from_millis(200);
/// The time between two changes of the fleet, which every open page shows.
const CHANGES: Duration = Duration::from_secs(1);

impl Bench<'_> {
    /// All figures of the dashboard.
    pub(crate) async fn pages(&mut self, binary: &Path) -> Result<()> {
        eprintln!("pages, {SIZE} clusters: import");
        let fleet = Fleet::generate(SIZE, self.dir)?;
        let server = Server::product(binary, fleet.dir.path(), &fleet.file).await?;
        std::fs::remove_file(&fleet.file)?;
        eprintln!("pages, {SIZE} clusters: polls of Flux");
        poll_all(&server, &fleet.clusters, FLUX).await?;
        self.first_page(&server).await?;
        self.open_pages(&server, &fleet).await
    }

    async fn first_page(&mut self, server: &Server) -> Result<()> {
        const TIMES: usize = 21;
        let mut client = server.client(0);
        let (mut size, mut times) = (0, Vec::new());
        for _ in 0..TIMES {
            let begun = Instant::now();
            let page = ask(&mut client, "/ui").await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            size = page;
        }
        let longest = times.iter().copied().fold(0.0, f64::max);
        let detail = format!("the longest of {TIMES} {longest:.1} ms");
        let name = format!("first page, {SIZE} clusters");
        self.report
            .at_most(&name, median(times.into_iter()), 200.0, " ms", detail);
        let begun = Instant::now();
        let map = ask(&mut client, MAP).await?;
        let elapsed = begun.elapsed().as_secs_f64() * 1e3;
        let detail = format!(
            "{:.1} KB the page, {:.1} KB the map, in {elapsed:.0} ms",
            kilobytes(size),
            kilobytes(map)
        );
        let name = format!("first page with its map, packed, {SIZE} clusters");
        self.report.at_most(&name, kilobytes(size + map), 300.0, " KB", detail);
        Ok(())
    }

    /// Polls beside open pages, which show a change every second, against polls alone.
    async fn open_pages(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        let polls = Arc::new(Source::polls(fleet.clusters.iter().take(50_000)));
        let load = (server, vec![self.load(server, &polls, READERS, Connections::Kept)]);
        let (mut alone, mut beside, mut read) = (Vec::new(), Vec::new(), 0);
        for turn in 0..self.turns.min(TURNS) {
            alone.push(sample(&load, TURN, turn).await?);
            let pages = Pages::open(server, &fleet.clusters[0].id).await?;
            let before = pages.read.load(Ordering::Relaxed);
            beside.push(sample(&load, TURN, turn).await?);
            read += pages.read.load(Ordering::Relaxed) - before;
            pages.close().await?;
        }
        let rereads = read as f64 / (beside.len() as f64 * TURN.as_secs_f64());
        let rate = |s: &Sample| s.tally.per_second;
        let middle = |samples: &[Sample]| median(samples.iter().map(rate));
        let detail = format!(
            "{:.0} polls/s beside {OPEN} pages, {rereads:.0} of which are read again each second, {:.0} alone",
            middle(&beside),
            middle(&alone)
        );
        let name = format!("polls beside {OPEN} open pages, {SIZE} clusters");
        self.report
            .at_least(&name, median_ratio(&alone, &beside, rate), 0.9, detail);
        Ok(())
    }
}

fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1e3
}

fn get(path: &str) -> String {
    get_with(path, "")
}

/// A request with more headers, each with its line end.
fn get_with(path: &str, headers: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n{headers}\r\n"
    )
}

/// Asks for a page, and returns the bytes of its body as they were sent.
async fn ask(client: &mut Client, path: &str) -> Result<usize> {
    send(client, path, &get(path)).await
}

/// Reads the page Fleet again for what changed in it, and its map.
async fn read_again(client: &mut Client) -> Result<()> {
    send(client, "/ui", &get_with("/ui", "X-Live: 1\r\n")).await?;
    ask(client, MAP).await?;
    Ok(())
}

async fn send(client: &mut Client, path: &str, request: &str) -> Result<usize> {
    let reply = client.send(request.as_bytes()).await?;
    match reply.status {
        200 => Ok(reply.body.len()),
        status => Err(format!("{path}: {status}").into()),
    }
}

/// Pages that somebody looks at: each listens to its stream, and is read again when something changed, as the script does.
struct Pages {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    pages: JoinSet<Result<()>>,
}

impl Pages {
    async fn open(server: &Server, cluster: &str) -> Result<Pages> {
        let (stop, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut pages = JoinSet::new();
        for number in 0..OPEN {
            let mut stream = TcpStream::connect(server.addr).await?;
            stream.write_all(get("/ui/stream").as_bytes()).await?;
            let (stop, read, client) = (stop.clone(), read.clone(), server.client(number));
            pages.spawn(async move { look(stream, client, &stop, &read).await });
        }
        let (stopped, mut client, cluster) = (stop.clone(), server.client(0), cluster.to_owned());
        pages.spawn(async move {
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                change(&mut client, &cluster, n).await?;
                tokio::time::sleep(CHANGES).await;
            }
            Ok(())
        });
        // Every page is there before anything is measured: to open a page is another thing than to have it open.
        while read.load(Ordering::Relaxed) < OPEN as u64 && !pages.is_empty() {
            tokio::time::sleep(LOOK_UP).await;
        }
        Ok(Pages { stop, read, pages })
    }

    async fn close(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(page) = self.pages.join_next().await {
            page??;
        }
        Ok(())
    }
}

async fn look(mut stream: TcpStream, mut client: Client, stop: &AtomicBool, read: &AtomicU64) -> Result<()> {
    let mut heard = vec![0; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        let Ok(received) = tokio::time::timeout(LOOK_UP, stream.read(&mut heard)).await else {
            continue;
        };
        let received = received?;
        if received == 0 {
            return Err("a stream of a page ended".into());
        }
        let has_counts = heard[..received].windows(13).any(|bytes| bytes == b"event: counts");
        if has_counts && !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            read_again(&mut client).await?;
            read.fetch_add(1, Ordering::Relaxed);
            let rest = (begun.elapsed() * REST).max(LEAST_REST);
            let until = Instant::now() + rest;
            while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK_UP.min(rest)).await;
            }
        }
    }
    Ok(())
}

/// Changes what one cluster gets.
async fn change(client: &mut Client, cluster: &str, n: usize) -> Result<()> {
    let body = format!(r#"{{"patches":{{"component-00":{{"turn":"{n}"}}}}}}"#);
    let length = body.len();
    let request = format!(
        "PATCH /clusters/{cluster} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let reply = client.send(request.as_bytes()).await?;
    match reply.status {
        200 => Ok(()),
        status => Err(format!("a change: {status} {}", String::from_utf8_lossy(&reply.body)).into()),
    }
}
