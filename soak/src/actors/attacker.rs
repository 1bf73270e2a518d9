//! Attacks at a low rate, with a read token or a broken file. None may affect other clients.

use std::sync::Arc;
use std::time::Duration;

use bench::Result;
use bench::generate::Rng;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::{Request, WRITE_TOKEN};
use crate::process::Process;
use crate::run::Run;
use crate::site::{Site, write_tokens};

const STREAMS: usize = 300;
const SLOW: usize = 50;
/// How long an attack is kept up.
const HELD: Duration = Duration::from_secs(3);

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>) {
    let mut rng = run.rng(&format!("attacker {}", site.name), 0);
    let pause = (run.duration / 200).clamp(Duration::from_secs(3), Duration::from_secs(15));
    loop {
        sleep(pause).await;
        let Some(_place) = run.place().await else { return };
        site.attack.begin();
        run.tally.count("attacks");
        let process = site.any_crud(&mut rng);
        let name = attack(&run, &site, process, &mut rng).await;
        site.attack.end();
        run.tally.count(name);
    }
}

async fn attack(run: &Run, site: &Site, process: &Process, rng: &mut Rng) -> &'static str {
    match rng.below(6) {
        0 => {
            giant_selectors(process).await;
            "attack: giant selectors, clients gone"
        }
        1 => {
            log_readers(process).await;
            "attack: readers of the whole log"
        }
        2 => {
            hold((0..STREAMS).map(|_| Request::new("GET", "/changes/stream")), process).await;
            "attack: hundreds of streams"
        }
        3 => {
            slow_heads(process).await;
            "attack: slow heads"
        }
        4 => {
            large_batches(process).await;
            "attack: large batches"
        }
        _ => {
            let _edited = empty_secret(run, site, process).await;
            "attack: empty secret in a token file"
        }
    }
}

/// Four selectors of 27 KB, from clients that disconnect after a moment.
async fn giant_selectors(process: &Process) {
    let terms: Vec<String> = (0..1500).map(|n| format!("wave!=x{n:08}")).collect();
    let path = format!("/clusters?selector={}", terms.join(","));
    hold((0..4).map(|_| Request::new("GET", &path)), process).await;
}

/// Opens connections with these requests, reads nothing of the replies, and closes all of them after a while.
async fn hold(requests: impl Iterator<Item = Request>, process: &Process) {
    let mut opening = JoinSet::new();
    for request in requests {
        let addr = process.addr;
        opening.spawn(async move { timeout(HELD, request.open(addr)).await.ok()?.ok() });
    }
    let held: Vec<Option<TcpStream>> = opening.join_all().await;
    sleep(HELD).await;
    drop(held);
}

/// Eight clients that read the whole log at once, as fast as they can.
async fn log_readers(process: &Process) {
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        let addr = process.addr;
        readers.spawn(async move {
            let request = Request::new("GET", "/changes?limit=10000").header("Connection", "close");
            let mut stream = request.open(addr).await?;
            let mut scratch = vec![0; 64 << 10];
            while stream.read(&mut scratch).await? > 0 {}
            Ok::<_, bench::Error>(())
        });
    }
    let _slow = timeout(Duration::from_secs(20), readers.join_all()).await;
}

/// Connections that send a byte of their request now and then.
async fn slow_heads(process: &Process) {
    let mut slow = JoinSet::new();
    for _ in 0..SLOW {
        let addr = process.addr;
        slow.spawn(async move {
            let mut stream = TcpStream::connect(addr).await?;
            for byte in b"GET /rea" {
                stream.write_all(&[*byte]).await?;
                sleep(HELD / 8).await;
            }
            Ok::<_, std::io::Error>(())
        });
    }
    slow.join_all().await;
}

/// Batches of 8 MiB that come in at the same time, and are refused.
async fn large_batches(process: &Process) {
    let operation = json!({"op": "merge", "kind": "clusters", "id": "there-is-none", "value": {"labels": {"x": "y".repeat(8 << 10)}}});
    let body = json!({"operations": vec![operation; 1000]}).to_string().into_bytes();
    let mut senders = JoinSet::new();
    for number in 0..4 {
        let request = Request::with_token("POST", "/batch", WRITE_TOKEN).content("application/json", body.clone());
        let addr = process.addr;
        senders.spawn(async move { request.send(addr, number).await.map(|reply| reply.status) });
    }
    senders.join_all().await;
}

/// A line `ann:` in the token file must not become a token.
async fn empty_secret(run: &Run, site: &Site, process: &Process) -> Result<()> {
    let _tokens = site.tokens.lock().await;
    write_tokens(&site.launch.tokens, "ann:\n")?;
    sleep(HELD).await;
    for token in ["ann:", "ann", ""] {
        let reply = Request::with_token("GET", "/clusters?limit=1", token)
            .send(process.addr, 0)
            .await;
        if reply.is_ok_and(|reply| reply.status == 200) {
            run.findings.add(
                "an empty secret is no token",
                format!("{}: \"{token}\" is accepted", process.name),
            );
        }
    }
    write_tokens(&site.launch.tokens, "")
}
