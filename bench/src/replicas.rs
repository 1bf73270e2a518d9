//! How soon a write is visible on the other replicas of a PostgreSQL database.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::generate::{Cluster, PATHS, Rng};
use crate::http::Client;
use crate::load;
use crate::server::Server;

const READERS: usize = 4;
const WRITES: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two polls of a replica, which is the precision of the figure.
const PAUSE: Duration = Duration::from_millis(1);

/// For each of many writes, how long after its acknowledgement the last of the replicas answered with it.
pub(crate) async fn visibility(
    binary: &Path,
    dir: &Path,
    fleet: &Path,
    clusters: &[Cluster],
    url: &str,
) -> Result<Vec<Duration>> {
    let writer = Server::filled(binary, dir, fleet, url).await?;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(Server::replica(binary, dir, url).await?);
    }
    let addresses: Vec<SocketAddr> = readers.iter().map(|reader| reader.addr).collect();
    let mut client = Client::new(writer.addr, 0);
    let mut rng = Rng::new(0);
    let mut delays = Vec::new();
    for value in 0..WRITES {
        let cluster = &clusters[rng.below(clusters.len())];
        let poll = load::poll(&cluster.dns, PATHS[0]);
        let mut watched = Vec::new();
        for (number, addr) in addresses.iter().enumerate() {
            let mut reader = Client::new(*addr, number);
            let before = answer(&mut reader, &poll).await?;
            watched.push((reader, before));
        }
        let reply = client.send(&load::write(cluster, 1_000 + value)).await?;
        if reply.status != 200 {
            return Err(format!("a write: status {}", reply.status).into());
        }
        let acknowledged = Instant::now();
        let mut waiting = JoinSet::new();
        for (mut reader, before) in watched {
            let poll = poll.clone();
            waiting.spawn(async move {
                while answer(&mut reader, &poll).await? == before {
                    sleep(PAUSE).await;
                }
                Ok::<_, crate::Error>(acknowledged.elapsed())
            });
        }
        let mut slowest = Duration::ZERO;
        let all = async {
            while let Some(seen) = waiting.join_next().await {
                slowest = slowest.max(seen??);
            }
            Ok::<_, crate::Error>(())
        };
        timeout(PATIENCE, all)
            .await
            .map_err(|_| "a replica does not see a write")??;
        delays.push(slowest);
    }
    delays.sort_unstable();
    Ok(delays)
}

async fn answer(client: &mut Client, poll: &[u8]) -> Result<Vec<u8>> {
    let reply = client.send(poll).await?;
    match reply.status {
        200 => Ok(reply.body.into_owned()),
        status => Err(format!("a poll: status {status}").into()),
    }
}
