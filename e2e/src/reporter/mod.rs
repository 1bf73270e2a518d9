//! `e2e reporter`: the reporter on a real Kubernetes API with the real Flux, as the ServiceAccount of k8s/reporter. The API of the fleet is
//! imitated, so that the test decides what it says and sees what it is told.

mod fleet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};

use self::fleet::Fleet;
use crate::account::Account;
use crate::cluster::{Cluster, Parts, Plan};
use crate::kube::{self, Kube, text};
use crate::process::Process;
use crate::{Result, manifests, wait};

/// Runs the reporter on a real Kubernetes API.
#[derive(Debug, Parser)]
#[command(name = "e2e reporter")]
pub(crate) struct Args {
    /// What build.sh built: bin/ and crds/
    #[arg(long, value_name = "DIR")]
    parts: PathBuf,
    /// The reporter
    #[arg(long, value_name = "PATH")]
    reporter: PathBuf,
    /// The repository, for its manifests
    #[arg(long, value_name = "DIR", default_value = ".")]
    repository: PathBuf,
}

const DNS: &str = "reporter.k8s.example.com";
const ACCOUNT: &str = "flux-resourceset-reporter";

pub(crate) fn check(args: &Args, folder: &Path) -> Result<()> {
    let (work, logs) = (folder.join("work"), folder.join("logs"));
    fs::create_dir_all(&logs)?;
    let parts = Parts::new(&args.parts)?;
    let plan = Plan {
        parts: &parts,
        notification: None,
        name: "reporter",
        environment: "dev",
    };
    let cluster = Cluster::start(plan, &work, &logs)?;
    let kube = &cluster.kube;
    let fleet = Fleet::start(DNS)?;
    fleet.set(&[("a", &mark(1), "charts"), ("b", &mark(1), "nowhere")]);
    kube.apply(&objects(&fleet))?;
    for file in ["rbac.yaml", "nudge/rbac.yaml"] {
        kube.apply(&manifests::file(&args.repository.join("k8s/reporter").join(file))?)?;
    }
    let account = Account::new(&cluster, ACCOUNT, &work)?;
    println!("A Kubernetes API and Flux run; the reporter has the rights of k8s/reporter");
    least_rights(&cluster, &account.token)?;
    println!("  ✓ with which it cannot read Secrets or change anything but providers");

    let mut command = Command::new(&args.reporter);
    command
        .env_clear()
        .env("KUBECONFIG", &account.kubeconfig)
        .env("FLUX_API_URL", fleet.url())
        .env("CLUSTER_DNS", DNS)
        .env("FLUX_API_TOKEN", "token")
        .env("NUDGE", "true")
        .env("RUST_LOG", "debug,hyper_util=info,tower=info");
    let reporter = Process::start("reporter", &mut command, &logs)?;
    let told = tell(kube, &fleet);
    if told.is_err() {
        eprintln!("{}", fs::read_to_string(logs.join("reporter.log")).unwrap_or_default());
        eprintln!("{:#}", json!(fleet.reports()));
    }
    told?;
    reporter.stop()?;
    println!("  ✓ SIGTERM ends it");
    Ok(())
}

fn tell(kube: &Kube, fleet: &Fleet) -> Result<()> {
    wait::until("both objects to be reported", || {
        let good = fleet.object("charts-a")?;
        is(
            &good,
            &json!({"ready": true, "input": "namespaces/a", "desired": mark(1), "kind": "HelmRepository"}),
        )?;
        text(&good["version"])
            .strip_prefix("sha256:")
            .ok_or("it has no version")?;
        let bad = fleet.object("charts-b")?;
        is(
            &bad,
            &json!({"ready": false, "input": "namespaces/b", "desired": mark(1)}),
        )?;
        match text(&bad["message"]).contains("404") {
            true => Ok(()),
            false => Err(format!("the message does not tell: {bad}").into()),
        }
    })?;
    let reports = fleet.reports();
    same(&reports[0]["full"], &json!(true))?;
    wait::until("its provider and its ResourceSet", || {
        is(
            &fleet.object("namespaces")?,
            &json!({"kind": "ResourceSet", "ready": true}),
        )?;
        let last = fleet.reports().pop().ok_or("no report")?;
        is(&last["providers"][0], &json!({"name": "namespaces", "ready": true}))
    })?;
    println!("  ✓ what is ready and what is not is reported, with the source's own message");

    let (mut times, polls) = (Vec::new(), fleet.polls());
    // As many as may follow each other closely.
    for number in 2..=6 {
        let mark = mark(number);
        let start = Instant::now();
        fleet.set(&[("a", &mark, "charts"), ("b", &self::mark(1), "nowhere")]);
        wait::until("the change to be reported as ready", || {
            is(&fleet.object("charts-a")?, &json!({"ready": true, "desired": mark}))
        })?;
        times.push(start.elapsed());
    }
    same(&(fleet.polls() - polls), &times.len())?;
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "  ✓ {} changes were polled at once, each with one poll: from the change to the report of it in {median:.1?} (median), {worst:.1?} (worst)",
        times.len()
    );
    if worst > Duration::from_secs(30) {
        return Err("a nudge takes too long".into());
    }

    // Without waiting for a nudge: the interval is an hour.
    fleet.set(&[("a", &mark(6), "charts")]);
    kube.reconcile(kube::PROVIDER, "flux-system", "namespaces")?;
    wait::until("the removal to be reported", || {
        is(&fleet.object("charts-b")?, &json!({"deleted": true}))
    })?;
    println!("  ✓ an object that is removed is reported as such");
    Ok(())
}

/// As the API makes them.
fn mark(number: u64) -> String {
    format!("{number:016x}")
}

/// The provider, with an interval that the test does not wait for, and a ResourceSet that makes Helm repositories.
fn objects(fleet: &Fleet) -> Vec<Value> {
    let metadata = json!({"name": "namespaces", "namespace": "flux-system", "annotations": {"fluxcd.controlplane.io/reconcileEvery": "1h"}});
    let url = format!("{}/api/v2/flux/clusters/{DNS}/namespaces?marked=true", fleet.url());
    let template = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": {
            "name": "charts-<< inputs.id >>",
            "namespace": "flux-system",
            "annotations": {
                "event.toolkit.fluxcd.io/input": "namespaces/<< inputs.id >>",
                "event.toolkit.fluxcd.io/desired": "<< inputs.desired.input | quote >>",
            },
        },
        "spec": {"interval": "1h", "url": format!("{}/<< inputs.place >>", fleet.url())},
    });
    let api = "fluxcd.controlplane.io/v1";
    vec![
        json!({
            "apiVersion": api, "kind": "ResourceSetInputProvider", "metadata": metadata,
            "spec": {"type": "ExternalService", "url": url, "insecure": true, "filter": {"limit": 10000}},
        }),
        json!({
            "apiVersion": api, "kind": "ResourceSet", "metadata": metadata,
            "spec": {"inputsFrom": [{"name": "namespaces"}], "resources": [template]},
        }),
    ]
}

fn least_rights(cluster: &Cluster, token: &str) -> Result<()> {
    let url = format!("https://{}", cluster.kube.address());
    let own = Kube::new(url, token.to_owned(), &cluster.authority())?;
    own.need(kube::PROVIDER, "flux-system", "namespaces")?;
    let change = json!({"metadata": {"annotations": {"a": "b"}}});
    forbidden(own.get(kube::SECRET, "flux-system", "internal-api-token"))?;
    forbidden(own.get(kube::PROVIDER, "default", "namespaces"))?;
    forbidden(own.merge(kube::RESOURCE_SET, "flux-system", "namespaces", &change))
}

fn forbidden<T>(outcome: Result<T>) -> Result<()> {
    match outcome {
        Err(error) if error.to_string().contains("403") => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err("the reporter may do what it need not".into()),
    }
}

/// Fails unless an object has these fields.
fn is(object: &Value, wanted: &Value) -> Result<()> {
    let wanted = wanted.as_object().into_iter().flatten();
    for (key, value) in wanted {
        same(&object[key], value).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {wanted:?}").into()),
    }
}
