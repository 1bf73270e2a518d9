//! The demo: the same clusters as in the story, left running to try things on.

use std::path::Path;
use std::{env, fs};

use crate::story::Story;
use crate::world::World;
use crate::{Args, Result, setup, wait};

/// Brings the demo fleet up on both clusters, says what to try, and comes back when it is interrupted.
pub(crate) fn run(args: &Args, story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("The fleet");
    setup::publish(world)?;
    setup::publish_components(world)?;
    story.tick("charts, k8s/ and the components repository are published");
    world.fleet.start()?;
    story.tick("the API is up: one process for clusters, one for operators, on one database");
    world
        .fleet
        .file("demo-cluster-01.json", &setup::first_cluster(world).to_string())?;
    let (url, charts) = (world.artifacts.oci(setup::COMPONENTS), world.artifacts.charts());
    let grafana = format!(
        "component create grafana --oci-url {url} --oci-tag v1.0.0 --component-path observability/grafana/17.0.0 --cluster-env-enabled"
    );
    let second = setup::second_cluster(world);
    let mirror = format!("component patch grafana --all --set GRAFANA_CHARTS={charts}");
    for line in [
        "component update podinfo --oci-tag 1.0.0",
        "apply -f demo-cluster-01.json",
        &second,
        "namespace create grafana --all",
        &grafana,
        &mirror,
        "component assign grafana --all",
    ] {
        world.fleet.cli(&line.split_whitespace().collect::<Vec<_>>())?;
    }
    story.tick("the fleet knows both clusters");
    for cluster in [&world.one, &world.two] {
        cluster.kube.apply(&setup::bootstrap(world, cluster, &[])?)?;
        story.tick(&format!("{}: what `cluster bootstrap` prints is applied", cluster.name));
        cluster.poll()?;
        story.until(
            &format!("{} runs podinfo, and what it depends on", cluster.name),
            || cluster.installed("podinfo"),
        )?;
    }
    let environment = environment(args, world);
    let file = world.folder.join("environment");
    fs::write(&file, &environment)?;
    println!("{}", guide(args, world, &environment, &file));
    // Returns on Ctrl-C, or when a process ends unexpectedly.
    wait::for_ever("the demo to be stopped")
}

/// What a shell needs, as it would be typed.
fn environment(args: &Args, world: &World) -> String {
    let mut text = String::new();
    for (name, value) in world.fleet.environment() {
        text.push_str(&format!("export {name}={value}\n"));
    }
    let configs = [&world.one, &world.two].map(|cluster| cluster.kubeconfig.display().to_string());
    text.push_str(&format!("export KUBECONFIG={}\n", configs.join(":")));
    let folder = |program: &Path| program.parent().unwrap_or(program).to_owned();
    let (ours, tools) = (folder(&args.cli), folder(&args.kubectl));
    let path = env::var_os("PATH").unwrap_or_default();
    // Our own kubectl comes last on the PATH: an installed one is used first.
    text.push_str(&match env::split_paths(&path).any(|known| known == tools) {
        true => format!("export PATH={}:$PATH\n", ours.display()),
        false => format!("export PATH={}:$PATH:{}\n", ours.display(), tools.display()),
    });
    text
}

fn guide(args: &Args, world: &World, environment: &str, file: &Path) -> String {
    let (one, two) = (world.one.name, world.two.name);
    let exports: String = environment.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "
Everything runs: two clusters, which poll the API every second. kubectl is {kubectl}.

In another terminal take this environment, or `source {file}`:

{exports}
See what is there:

  flux-resourceset-cli cluster list
  kubectl --context {one} -n flux-system get resourcesets,helmreleases,kustomizations
  kubectl --context {two} -n flux-system get helmreleases

Change a value, and watch it arrive (what a chart was given is in its ConfigMap):

  flux-resourceset-cli component patch podinfo --cluster {one} --set replicaCount=3
  kubectl --context {one} -n flux-system get cm values-podinfo-{one} -o yaml
  kubectl --context {one} -n podinfo get cm podinfo -o jsonpath='{{.data}}{{\"\\n\"}}'
  kubectl --context {one} -n flux-system get helmreleases -w

Plan a new version for all, do it, take it back:

  flux-resourceset-cli component update podinfo --oci-tag 1.1.0 --dry-run -o table
  flux-resourceset-cli component update podinfo --oci-tag 1.1.0
  flux-resourceset-cli undo

A version directory of examples/platform-components, first on one cluster:

  flux-resourceset-cli component override grafana --cluster {one} \\
    --component-path observability/grafana/17.1.0 --oci-tag v1.1.0
  kubectl --context {one} -n flux-system get kustomizations -w

Take a cluster out of the fleet, and everything goes that the fleet had made:

  flux-resourceset-cli cluster delete {two}
  kubectl --context {two} get namespaces -w

Logs of every process: {logs}
Ctrl-C stops everything and removes it.",
        kubectl = args.kubectl.display(),
        file = file.display(),
        logs = world.folder.join("logs").display(),
    )
}
