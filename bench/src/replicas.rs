//! How soon a write is visible on the other replicas of a PostgreSQL database, and how soon a revoked token is refused there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::generate::{Cluster, PATHS, Rng};
use crate::http::Client;
use crate::load;
use crate::scale::EVERYWHERE;
use crate::server::{Server, WRITE_TOKEN};

const READERS: usize = 4;
const WRITES: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two polls of a replica, which is the precision of the figure.
const PAUSE: Duration = Duration::from_millis(1);

/// A writer and the replicas that read the same database.
pub(crate) struct Replicas {
    writer: Server,
    readers: Vec<Server>,
}

impl Replicas {
    pub(crate) async fn start(binary: &Path, dir: &Path, fleet: &Path, url: &str) -> Result<Self> {
        let writer = Server::filled(binary, dir, fleet, url).await?;
        let mut readers = Vec::new();
        for _ in 0..READERS {
            readers.push(Server::replica(binary, dir, url).await?);
        }
        Ok(Replicas { writer, readers })
    }

    /// For each of many writes, how long after its acknowledgement the last of the replicas answered with it.
    pub(crate) async fn visibility(&self, clusters: &[Cluster]) -> Result<Vec<Duration>> {
        let mut client = self.writer.client(0);
        let mut rng = Rng::new(0);
        let mut delays = Vec::new();
        for value in 0..WRITES {
            let cluster = &clusters[rng.below(clusters.len())];
            let poll = load::poll(&cluster.dns, PATHS[0]);
            let mut watched = Vec::new();
            for mut reader in self.clients() {
                let before = answer(&mut reader, &poll).await?;
                watched.push((reader, before));
            }
            sent(&mut client, &load::write(cluster, 1_000 + value), 200).await?;
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
            delays.push(slowest(waiting).await?);
        }
        delays.sort_unstable();
        Ok(delays)
    }

    /// For each of some changes to every cluster, how long after its acknowledgement the last of the replicas answered with it, for clusters all
    /// over the fleet.
    pub(crate) async fn everywhere(&self, clusters: &[Cluster]) -> Result<Vec<Duration>> {
        const CHANGES: usize = 11;
        const WATCHED: usize = 100;
        let mut client = self.writer.client(0);
        let watched = clusters.iter().step_by((clusters.len() / WATCHED).max(1));
        let polls: Arc<Vec<Vec<u8>>> = Arc::new(watched.map(|cluster| load::poll(&cluster.dns, PATHS[0])).collect());
        let mut delays = Vec::new();
        for n in 0..CHANGES {
            let before = answers(&mut client, &polls).await?;
            let body = format!(r#"{{"oci_tag":"v9.0.{n}"}}"#);
            let change = request_with("PATCH", EVERYWHERE, &body);
            sent(&mut client, &change, 200).await?;
            let acknowledged = Instant::now();
            let expected = Arc::new(answers(&mut client, &polls).await?);
            if *expected == before {
                return Err("a change to every cluster changes nothing".into());
            }
            let mut waiting = JoinSet::new();
            for mut reader in self.clients() {
                let (polls, expected) = (polls.clone(), expected.clone());
                waiting.spawn(async move {
                    for (poll, expected) in polls.iter().zip(&*expected) {
                        while answer(&mut reader, poll).await? != *expected {
                            sleep(PAUSE).await;
                        }
                    }
                    Ok::<_, crate::Error>(acknowledged.elapsed())
                });
            }
            delays.push(slowest(waiting).await?);
        }
        delays.sort_unstable();
        Ok(delays)
    }

    /// For each of many tokens, how long after the acknowledgement of its revocation the last of the replicas refused it.
    pub(crate) async fn revocations(&self, clusters: &[Cluster]) -> Result<Vec<Duration>> {
        let mut client = self.writer.client(0);
        let mut rng = Rng::new(1);
        let mut delays = Vec::new();
        for _ in 0..WRITES {
            let Cluster { id, dns, .. } = &clusters[rng.below(clusters.len())];
            let issued = sent(&mut client, &request("POST", &format!("/clusters/{id}/token")), 201).await?;
            let issued: Value = serde_json::from_slice(&issued)?;
            let field = |name: &str| issued[name].as_str().unwrap_or_default().to_owned();
            let poll = load::poll_as(dns, PATHS[0], &field("token"));
            slowest(self.until_accepted(&poll, true, Instant::now())).await?;
            let revoke = request("DELETE", &format!("/identities/cluster:{id}/tokens/{}", field("id")));
            sent(&mut client, &revoke, 204).await?;
            delays.push(slowest(self.until_accepted(&poll, false, Instant::now())).await?);
        }
        delays.sort_unstable();
        Ok(delays)
    }

    fn clients(&self) -> impl Iterator<Item = Client> {
        let readers = self.readers.iter().enumerate();
        readers.map(|(number, reader)| reader.client(number))
    }

    /// Polls each replica until it accepts the token, or refuses it. Returns how long after `since` it did. So many refusals that they are
    /// limited (429) are refusals, too.
    fn until_accepted(&self, poll: &[u8], accepted: bool, since: Instant) -> JoinSet<Result<Duration>> {
        let mut waiting = JoinSet::new();
        for mut reader in self.clients() {
            let poll = poll.to_vec();
            waiting.spawn(async move {
                while (reader.send(&poll).await?.status == 200) != accepted {
                    sleep(PAUSE).await;
                }
                Ok(since.elapsed())
            });
        }
        waiting
    }
}

async fn slowest(mut waiting: JoinSet<Result<Duration>>) -> Result<Duration> {
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
    Ok(slowest)
}

fn request(method: &str, path: &str) -> Vec<u8> {
    request_with(method, path, "")
}

fn request_with(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {WRITE_TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

async fn answers(client: &mut Client, polls: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for poll in polls {
        all.push(answer(client, poll).await?);
    }
    Ok(all)
}

async fn sent(client: &mut Client, request: &[u8], expected: u16) -> Result<Vec<u8>> {
    let reply = client.send(request).await?;
    match reply.status == expected {
        true => Ok(reply.body.into_owned()),
        false => Err(format!("a write: status {}", reply.status).into()),
    }
}

async fn answer(client: &mut Client, poll: &[u8]) -> Result<Vec<u8>> {
    let reply = client.send(poll).await?;
    match reply.status {
        200 => Ok(reply.body.into_owned()),
        status => Err(format!("a poll: status {status}").into()),
    }
}
