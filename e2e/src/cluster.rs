//! One cluster: etcd, the API server, the controller manager, Flux Operator and Flux' controllers, each a process.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::kube::Kube;
use crate::process::{Process, free_address};
use crate::{Result, manifests, wait};

/// What `build.sh` has built.
#[derive(Debug)]
pub(crate) struct Parts {
    bin: PathBuf,
    crds: Vec<Value>,
}

impl Parts {
    pub(crate) fn new(folder: &Path) -> Result<Parts> {
        let crds = manifests::folder(&folder.join("crds"))?;
        let bin = folder.join("bin");
        Ok(Parts { bin, crds })
    }

    /// A command without anything of our own environment, which might name another cluster.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.env_clear();
        command
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) name: &'static str,
    pub(crate) dns: String,
    pub(crate) environment: &'static str,
    pub(crate) kube: Kube,
    /// What kubectl needs. The context has the cluster's name, so that the files of several clusters can be used together.
    pub(crate) kubeconfig: PathBuf,
    processes: Vec<Process>,
    /// How Flux was started, process by process.
    flux: Vec<(&'static str, Command)>,
    /// Where notification-controller takes events, if there is one.
    events: Option<String>,
    logs: PathBuf,
}

/// A cluster that is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) parts: &'a Parts,
    /// With notification-controller, if it has one.
    pub(crate) notification: Option<&'a Parts>,
    pub(crate) name: &'static str,
    pub(crate) environment: &'static str,
}

pub(crate) const OPERATOR: &str = "operator";
pub(crate) const NOTIFICATION: &str = "notification-controller";

const TOKEN: &str = "administrator-of-a-cluster-that-lives-for-minutes";

/// Seconds between looks at a dependency that is not ready. Flux' default is 30, which a test need not wait for.
const REQUEUE: &str = "--requeue-dependency=1s";

impl Cluster {
    /// Starts a cluster, and comes back when Kubernetes answers and Flux runs.
    pub(crate) fn start(plan: Plan<'_>, work: &Path, logs: &Path) -> Result<Cluster> {
        let name = plan.name;
        let (work, logs) = (work.join(name), logs.join(name));
        fs::create_dir_all(&work)?;
        fs::create_dir_all(&logs)?;
        let mut processes = vec![];
        let kubeconfig = work.join("kubeconfig");
        let kube = kubernetes(plan.parts, name, &kubeconfig, &work, &logs, &mut processes)?;
        for parts in [Some(plan.parts), plan.notification].into_iter().flatten() {
            kube.define(&parts.crds)?;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}});
        kube.apply(&[namespace])?;
        let mut cluster = Cluster {
            name,
            dns: format!("{name}.k8s.example.com"),
            environment: plan.environment,
            kube,
            kubeconfig,
            processes,
            flux: vec![],
            events: None,
            logs,
        };
        if let Some(parts) = plan.notification {
            notification(parts, &work, &mut cluster)?;
        }
        flux(plan.parts, &work, &mut cluster)?;
        Ok(cluster)
    }

    /// Stops a process of Flux.
    pub(crate) fn stop(&mut self, name: &str) -> Result<()> {
        let at = self.processes.iter().position(|process| process.name() == name);
        let at = at.ok_or_else(|| format!("{}: {name} does not run", self.name))?;
        self.processes.remove(at).stop()
    }

    /// Starts a process of Flux that was stopped, as it was started before.
    pub(crate) fn start_again(&mut self, name: &str) -> Result<()> {
        let started = self.flux.iter_mut().find(|(known, _)| *known == name);
        let (_, command) = started.ok_or_else(|| format!("{}: {name} never ran", self.name))?;
        self.processes.push(Process::start(name, command, &self.logs)?);
        match &self.events {
            Some(events) if name == NOTIFICATION => listens(events),
            _ => Ok(()),
        }
    }

    /// Starts a process of Flux for the first time.
    fn start_flux(&mut self, name: &'static str, command: Command) -> Result<()> {
        self.flux.push((name, command));
        self.start_again(name)
    }

    /// The file with the certificate of its API server, and the one that signed it.
    pub(crate) fn authority(&self) -> PathBuf {
        self.kubeconfig.with_file_name("certificates").join("apiserver.crt")
    }

    pub(crate) fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }
}

/// etcd, the API server, and of the controller manager what deletes namespaces and what belongs to deleted objects.
fn kubernetes(
    parts: &Parts,
    name: &str,
    kubeconfig: &Path,
    work: &Path,
    logs: &Path,
    processes: &mut Vec<Process>,
) -> Result<Kube> {
    let (etcd, peers, api) = (free_address()?, free_address()?, free_address()?);
    let mut command = parts.command("kube");
    command.arg("etcd").arg(work.join("etcd")).args([&etcd, &peers]);
    processes.push(Process::start("etcd", &mut command, logs)?);

    let (key, tokens, certificates) = (work.join("key.pem"), work.join("tokens.csv"), work.join("certificates"));
    let made = parts.command("kube").arg("key").arg(&key).status()?;
    if !made.success() {
        return Err("the key of the service accounts could not be made".into());
    }
    fs::write(&tokens, format!("{TOKEN},administrator,1,system:masters\n"))?;
    let (host, port) = api.split_once(':').unwrap_or_default();
    let mut command = parts.command("kube");
    command
        .arg("apiserver")
        .arg(format!("--etcd-servers=http://{etcd}"))
        .arg(format!("--bind-address={host}"))
        .arg(format!("--advertise-address={host}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--cert-dir={}", certificates.display()))
        .arg(format!("--token-auth-file={}", tokens.display()))
        .arg(format!("--service-account-issuer=https://{api}"))
        .arg(format!("--service-account-signing-key-file={}", key.display()))
        .arg(format!("--service-account-key-file={}", key.display()))
        .arg("--authorization-mode=RBAC")
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--endpoint-reconciler-type=none")
        .arg("--disable-admission-plugins=ServiceAccount");
    let server = Process::start("apiserver", &mut command, logs)?;

    let url = format!("https://{api}");
    let certificate = certificates.join("apiserver.crt");
    let kube = wait::until("the API server", || {
        let kube = Kube::new(url.clone(), TOKEN.to_owned(), &certificate)?;
        kube.ready()?;
        Ok(kube)
    });
    processes.push(server);
    let kube = kube?;

    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         clusters: [{{name: {name}, cluster: {{server: \"{url}\", certificate-authority: \"{}\"}}}}]\n\
         users: [{{name: {name}, user: {{token: \"{TOKEN}\"}}}}]\n\
         contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]\n",
        certificate.display()
    );
    fs::write(kubeconfig, config)?;
    let mut command = parts.command("kube");
    command
        .arg("controller-manager")
        .arg("--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller")
        .arg("--leader-elect=false")
        .arg("--secure-port=0")
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    processes.push(Process::start("controller-manager", &mut command, logs)?);
    Ok(kube)
}

/// A program of Flux, without the container that a FluxInstance would start it in.
fn controller(parts: &Parts, name: &str, work: &Path) -> Result<Command> {
    let home = work.join(name);
    fs::create_dir_all(&home)?;
    let mut command = parts.command(name);
    command
        .env("KUBECONFIG", work.join("kubeconfig"))
        .env("RUNTIME_NAMESPACE", "flux-system")
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .args([
            "--enable-leader-election=false",
            "--metrics-addr=127.0.0.1:0",
            "--health-addr=127.0.0.1:0",
        ]);
    Ok(command)
}

/// notification-controller, first of all: the others wait 15 s for each event as long as it does not answer.
fn notification(parts: &Parts, work: &Path, cluster: &mut Cluster) -> Result<()> {
    let (events, receivers) = (free_address()?, free_address()?);
    let mut command = controller(parts, NOTIFICATION, work)?;
    command.arg(format!("--events-addr={events}"));
    command.arg(format!("--receiverAddr={receivers}"));
    cluster.events = Some(events);
    cluster.start_flux(NOTIFICATION, command)
}

/// Waits until somebody listens at an address.
fn listens(address: &str) -> Result<()> {
    wait::until(&format!("{address} to be listened at"), || {
        TcpStream::connect(address)?;
        Ok(())
    })
}

/// Flux Operator and the controllers, which send events if there is somebody who takes them.
fn flux(parts: &Parts, work: &Path, cluster: &mut Cluster) -> Result<()> {
    let storage = free_address()?;
    let events = cluster.events.as_ref().map(|events| format!("http://{events}/"));
    let folder = |name: &str| format!("--storage-path={}", work.join(name).display());
    let mut operator = controller(parts, OPERATOR, work)?;
    operator
        .env("GODEBUG", "fips140=on") // it refuses to start otherwise
        .args([folder(OPERATOR), "--web-server-port=0".to_owned()])
        .envs(events.iter().map(|events| ("NOTIFICATION_CONTROLLER_ADDRESS", events)));
    cluster.start_flux(OPERATOR, operator)?;
    let source = [
        folder("source-controller"),
        format!("--storage-addr={storage}"),
        format!("--storage-adv-addr={storage}"),
    ];
    for (name, arguments) in [
        ("source-controller", &source[..]),
        ("kustomize-controller", &[REQUEUE.to_owned()]),
        ("helm-controller", &[REQUEUE.to_owned()]),
    ] {
        let mut command = controller(parts, name, work)?;
        command.args(arguments);
        command.args(events.iter().map(|events| format!("--events-addr={events}")));
        cluster.start_flux(name, command)?;
    }
    Ok(())
}
