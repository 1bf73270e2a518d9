//! What the tokens of clusters cost: time for each poll, and memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Result;
use crate::load::{Connections, Source};
use crate::measure::{Bench, Fleet, READERS, Sample, median, median_ratio};
use crate::server::{Server, WRITE_TOKEN};

/// How many clusters have an identity when its memory is measured.
const IDENTITIES: usize = 1_000_000;
/// As many clients ask for tokens at a time: they share commits.
const CLIENTS: usize = 256;

impl Bench<'_> {
    /// Polls with the token of each cluster, against polls with the shared one.
    pub(crate) async fn own_tokens(&mut self, server: &Server, fleet: &Fleet) -> Result<()> {
        const NAME: &str = "a cluster's own token";
        eprintln!("{NAME}: issuing tokens");
        let ids: Vec<String> = fleet.clusters.iter().map(|cluster| cluster.id.clone()).collect();
        let tokens = issue(server, ids).await?;
        let shared = Arc::new(Source::polls(fleet.clusters.iter()));
        let own = Arc::new(Source::own_polls(&fleet.clusters, &tokens));
        let load = |source| vec![self.load(server, source, READERS, Connections::Kept)];
        let (a, b) = self
            .alternate(NAME, (server, load(&shared)), (server, load(&own)))
            .await?;
        let cpu = |samples: &[Sample]| median(samples.iter().map(|s| s.cpu_micros));
        let rate = |samples: &[Sample]| median(samples.iter().map(|s| s.tally.per_second));
        let detail = format!(
            "{:.2} µs against {:.2} µs with the shared token; {:.0}/s against {:.0}/s",
            cpu(&b),
            cpu(&a),
            rate(&b),
            rate(&a)
        );
        let ratio = median_ratio(&a, &b, |s| s.cpu_micros);
        self.report
            .at_most(&format!("CPU per poll, {NAME}"), ratio, 1.05, "", detail);
        Ok(())
    }

    /// The resident memory of a server after its start, with and without the identities of its clusters.
    pub(crate) async fn identity_memory(&mut self, binary: &Path) -> Result<()> {
        let dir = TempDir::with_prefix_in("flux-resourceset-bench-", self.dir)?;
        let dir = dir.path();
        let file = dir.join("fleet.jsonl");
        let mut out = BufWriter::new(File::create(&file)?);
        let id = |n: usize| format!("cluster-{n:06}");
        for n in 0..IDENTITIES {
            let (id, dns) = (id(n), format!("cluster-{n:06}.k8s.example.com"));
            let cluster =
                json!({"kind": "clusters", "id": id, "cluster_name": id, "cluster_dns": dns, "environment": "dev"});
            writeln!(out, "{cluster}")?;
        }
        out.flush()?;
        eprintln!("{IDENTITIES} identities: importing clusters");
        let url = Server::import(binary, dir, &file).await?;
        let server = Server::started(binary, dir, &url, "crud").await?;
        let without = server.memory()?.now;
        eprintln!("{IDENTITIES} identities: issuing tokens");
        issue(&server, (0..IDENTITIES).map(id).collect()).await?;
        drop(server);
        let server = Server::started(binary, dir, &url, "crud").await?;
        let with = server.memory()?.now;
        let each = with.saturating_sub(without) as f64 / IDENTITIES as f64;
        let mebibytes = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
        let detail = format!(
            "{:.0} MiB with them, {:.0} MiB without",
            mebibytes(with),
            mebibytes(without)
        );
        self.report
            .at_most("memory of each of 1000000 identities", each, 150.0, " B", detail);
        Ok(())
    }
}

/// Issues a token for each cluster, in order.
async fn issue(server: &Server, ids: Vec<String>) -> Result<Vec<String>> {
    let ids = Arc::new(ids);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (ids, mut client) = (ids.clone(), server.client(number));
        clients.spawn(async move {
            let mut issued = Vec::new();
            for (n, id) in ids.iter().enumerate().skip(number).step_by(CLIENTS) {
                let request = format!(
                    "POST /clusters/{id}/token HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
                     Content-Length: 0\r\n\r\n"
                );
                let reply = client.send(request.as_bytes()).await?;
                let body: Value = serde_json::from_slice(&reply.body)?;
                let token = body["token"].as_str();
                let token = token.ok_or_else(|| format!("no token for {id}: {body}"))?;
                issued.push((n, token.to_owned()));
            }
            Ok::<_, crate::Error>(issued)
        });
    }
    let mut all = Vec::with_capacity(ids.len());
    while let Some(issued) = clients.join_next().await {
        all.extend(issued??);
    }
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, token)| token).collect())
}
