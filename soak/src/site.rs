//! A site: one database, the processes on it, and what they must serve.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bench::Result;
use bench::generate::{Rng, write_fleet};
use serde_json::Value;

use crate::Args;
use crate::client::{Reply, Request};
use crate::disturbance::Disturbance;
use crate::ledger::Ledger;
use crate::model::{Model, Shape};
use crate::process::{Launch, Mode, Process};

/// How many writers a site has; each owns every n-th cluster.
pub(crate) const WRITERS: usize = 4;
/// How many clusters of each writer come and go.
pub(crate) const COMING_AND_GOING: usize = 5;

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) processes: Vec<Process>,
    pub(crate) model: Mutex<Model>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Faults of the database.
    pub(crate) fault: Disturbance,
    /// Attacks, during which heavy reads may be rejected.
    pub(crate) attack: Disturbance,
    /// Held while the token file is edited, and while a process that reads it starts.
    pub(crate) tokens: tokio::sync::Mutex<()>,
    pub(crate) launch: Launch,
    /// The last head that was verified, as `revision:digest`.
    pub(crate) anchor: Mutex<Option<String>>,
    pub(crate) feed: Mutex<Feed>,
    pub(crate) postgres: Option<Arc<pgtest::Server>>,
}

/// The progress of the streams.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// The last revision of each stream.
    pub(crate) at: BTreeMap<usize, u64>,
    /// The digest of each revision, which all streams must agree on.
    pub(crate) digests: BTreeMap<u64, String>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Reply(Reply),
    /// No reply, or a 503, which a fault explains.
    Disturbed,
    /// The same, without a fault that explains it.
    Failed(String),
}

impl Site {
    pub(crate) async fn sqlite(binary: &Path, folder: &Path, args: &Args) -> Result<Site> {
        let url = format!("sqlite://{}?mode=rwc", folder.join("fleet.db").display());
        let processes = [
            ("crud-1", Mode::Crud, true),
            ("crud-2", Mode::Crud, false),
            ("reader-1", Mode::ReadOnly, false),
        ];
        Site::start("sqlite", binary, folder, url, &processes, None, args).await
    }

    pub(crate) async fn postgres(binary: &Path, folder: &Path, args: &Args) -> Result<Site> {
        let start = || {
            let server = pgtest::Server::start(&[]);
            let url = server.database();
            (Arc::new(server), url)
        };
        let (server, url) = tokio::task::spawn_blocking(start).await?;
        let processes = [
            ("crud-1", Mode::Crud, true),
            ("crud-2", Mode::Crud, false),
            ("reader-1", Mode::ReadOnly, true),
            ("reader-2", Mode::ReadOnly, false),
        ];
        Site::start("postgres", binary, folder, url, &processes, Some(server), args).await
    }

    async fn start(
        name: &'static str,
        binary: &Path,
        folder: &Path,
        url: String,
        processes: &[(&str, Mode, bool)],
        postgres: Option<Arc<pgtest::Server>>,
        args: &Args,
    ) -> Result<Site> {
        fs::create_dir_all(folder)?;
        let launch = Launch {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            url,
            tokens: folder.join("tokens"),
        };
        write_tokens(&launch.tokens, "")?;
        let model = fill(&launch, args.clusters).await?;
        let mut started = Vec::new();
        for (process, mode, steady) in processes {
            started.push(Process::start(&launch, format!("{name}-{process}"), *mode, *steady).await?);
        }
        let ready = Request::new("GET", "/ready").send(started[0].addr, 0).await?;
        // The imported revisions are not checked.
        let ledger = Ledger::from(ready.revision.ok_or("/ready has no X-Revision")?);
        Ok(Site {
            name,
            processes: started,
            model: Mutex::new(model),
            ledger: Mutex::new(ledger),
            fault: Disturbance::default(),
            attack: Disturbance::default(),
            tokens: tokio::sync::Mutex::default(),
            launch,
            anchor: Mutex::default(),
            feed: Mutex::default(),
            postgres,
        })
    }

    pub(crate) fn crud(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.mode == Mode::Crud)
    }

    pub(crate) fn any(&self, rng: &mut Rng) -> &Process {
        &self.processes[rng.below(self.processes.len())]
    }

    pub(crate) fn any_crud(&self, rng: &mut Rng) -> &Process {
        let all: Vec<_> = self.crud().collect();
        all[rng.below(all.len())]
    }

    /// Sends a request to a process. A failure is explained by a fault of the process or of the database.
    pub(crate) async fn send(&self, process: &Process, request: &Request, number: usize) -> Outcome {
        let begun = Instant::now();
        let sent = request.send(process.addr, number).await;
        let explained = || process.down.touches(begun) || self.fault.touches(begun);
        match sent {
            Ok(reply) if reply.status < 500 => Outcome::Reply(reply),
            Ok(reply) if reply.status == 503 && explained() => Outcome::Disturbed,
            Err(_) if explained() => Outcome::Disturbed,
            Ok(reply) => Outcome::Failed(format!("status {}: {}", reply.status, reply.text())),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    pub(crate) async fn stop(&self) {
        for process in &self.processes {
            let _ended = process.terminate().await;
        }
    }
}

/// Writes the token file in one step, as an operator's tool would: the good line, and what else an attack wants there.
pub(crate) fn write_tokens(file: &PathBuf, more: &str) -> Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, format!("soak-reader:another-read-token-0123456789\n{more}"))?;
    Ok(fs::rename(next, file)?)
}

/// Imports a generated fleet into the empty database, and makes the model of it, with the clusters that are still to come.
async fn fill(launch: &Launch, clusters: usize) -> Result<Model> {
    let mut text = Vec::new();
    write_fleet(clusters, &mut text)?;
    let file = launch.folder.join("fleet.jsonl");
    fs::write(&file, &text)?;
    let log = launch.folder.join("import.log");
    let status = launch.command(&log)?.arg("import").arg(&file).status().await?;
    if !status.success() {
        return Err(format!("import: {status}: see {}", log.display()).into());
    }
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let documents: Vec<Value> = lines
        .map(serde_json::from_slice)
        .collect::<std::result::Result<_, _>>()?;
    let clusters: Vec<Value> = documents.into_iter().filter(|one| one["kind"] == "clusters").collect();
    let mut model = Model::new(&clusters);
    for number in 0..WRITERS * COMING_AND_GOING {
        model.add(&format!("guest-{number:03}"), Shape::default());
    }
    Ok(model)
}
