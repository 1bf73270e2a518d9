//! Everything that runs: two clusters, the place that charts come from, and our side.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};

use crate::artifacts::Artifacts;
use crate::cluster::{Cluster, Parts, Plan};
use crate::fleet::Fleet;
use crate::process::Process;
use crate::story::Story;
use crate::{Args, Result};

/// Where the example of a components repository is.
const EXAMPLE: &str = "examples/platform-components";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) one: Cluster,
    pub(crate) two: Cluster,
    pub(crate) artifacts: Artifacts,
    pub(crate) fleet: Fleet,
    /// The reporter of the first cluster, when it runs.
    pub(crate) reporter: Option<Process>,
    pub(crate) reporter_program: Option<PathBuf>,
    /// The demo fleet that we ship, its charts taken from loopback.
    pub(crate) seed: Value,
    pub(crate) repository: PathBuf,
    /// Logs, databases and everything else that does not stay.
    pub(crate) folder: PathBuf,
}

impl World {
    pub(crate) fn start(args: &Args, folder: &Path, story: &Story) -> Result<World> {
        story.chapter("Two clusters start");
        let parts = Parts::new(&args.parts)?;
        let (work, logs) = (folder.join("work"), folder.join("logs"));
        fs::create_dir_all(&logs)?;
        // The second cluster shows that everything works without it.
        let notification = args.notification.as_deref().map(Parts::new).transpose()?;
        let one = Plan {
            parts: &parts,
            notification: notification.as_ref(),
            name: "demo-cluster-01",
            environment: "dev",
        };
        let two = Plan {
            notification: None,
            name: "demo-cluster-02",
            environment: "prod",
            ..one
        };
        let (one, two) = thread::scope(|scope| {
            let one = scope.spawn(|| Cluster::start(one, &work, &logs));
            let two = scope.spawn(|| Cluster::start(two, &work, &logs));
            let joined = |thread: thread::ScopedJoinHandle<'_, Result<Cluster>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a cluster's thread panicked".into()))
            };
            (joined(one), joined(two))
        });
        let (one, two) = (one?, two?);
        story.tick("two API servers answer, each with a controller manager, Flux Operator and Flux' controllers");
        let mould = args.repository.join(EXAMPLE).join("apps/welcome/1.0.0");
        let artifacts = Artifacts::start(&parts, &mould, &work, &logs)?;
        story.tick("a Helm repository and an OCI registry serve on loopback");
        let seed = seed(&args.repository, &artifacts.charts())?;
        let mut catalog = seed.clone();
        catalog["clusters"] = json!([]);
        let fleet = Fleet::new(args, &catalog, &work, &logs)?;
        Ok(World {
            one,
            two,
            artifacts,
            fleet,
            reporter: None,
            reporter_program: args.reporter.clone(),
            seed,
            // Commands that are told of it run elsewhere.
            repository: args.repository.canonicalize()?,
            folder: folder.to_owned(),
        })
    }

    /// The example of a components repository.
    pub(crate) fn components(&self) -> PathBuf {
        self.repository.join(EXAMPLE)
    }

    /// Every process, for whoever looks for one that has died.
    pub(crate) fn processes(&mut self) -> impl Iterator<Item = (&'static str, &mut Process)> {
        let of = |cluster: &'static str, processes| Iterator::zip(std::iter::repeat(cluster), processes);
        let (one, two) = (&mut self.one, &mut self.two);
        let clusters = of(one.name, one.processes().iter_mut()).chain(of(two.name, two.processes().iter_mut()));
        let ours = self.fleet.processes().chain([self.artifacts.process()]);
        let ours = ours.chain(&mut self.reporter);
        clusters.chain(Iterator::zip(std::iter::repeat("fleet"), ours))
    }
}

/// `data/seed.json`, with charts that are served here instead of on the internet.
fn seed(repository: &Path, charts: &str) -> Result<Value> {
    let path = repository.join("data/seed.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut seed: Value = serde_json::from_str(&text)?;
    for component in seed["platform_components"].as_array_mut().into_iter().flatten() {
        component["oci_url"] = charts.into();
    }
    Ok(seed)
}
