//! The other roads a component can take: a version directory of a components repository, and a chart in an OCI registry.

use serde_json::{Value, json};

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::cluster::Cluster;
use crate::kube::{self, text};
use crate::setup::{self, COMPONENTS};
use crate::story::Story;
use crate::world::World;

/// A release that came with the files of a component: the chart's version, and the values that reached it.
fn shipped(cluster: &Cluster, component: &str, release: &str, namespace: &str) -> Result<(String, Value)> {
    let name = format!("platform-{component}");
    kube::ready(&cluster.kube.need(kube::KUSTOMIZATION, FLUX, &name)?)?;
    kube::ready(&cluster.kube.need(kube::HELM_RELEASE, FLUX, release)?)?;
    let made = cluster.kube.need(kube::CONFIG_MAP, namespace, release)?;
    let values = serde_json::from_str(text(&made["data"]["values"]))?;
    Ok((text(&made["data"]["version"]).to_owned(), values))
}

/// The example of a components repository is what it says it is.
pub(super) fn repository(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("A components repository is checked, built and pushed");
    let example = world.components().display().to_string();
    let found = story.show(
        &world.fleet,
        &format!("components check {example} --catalog {example}/catalog.yaml --build"),
    )?;
    same(&json!([found["problems"], found["warnings"]]), &json!([[], []]))?;
    same(&found["built"], &found["directories"])?;
    story.tick(&format!(
        "kustomize builds every one of its {} directories",
        found["built"]
    ));
    setup::publish_components(world)?;
    story.tick("it is pushed: a release v1.0.0, its hotfix v1.0.0-1, the next release v1.1.0");
    Ok(())
}

pub(super) fn kustomization(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A version directory becomes a Kustomization");
    let (one, two, fleet) = (&world.one, &world.two, &world.fleet);
    let (url, charts) = (world.artifacts.oci(COMPONENTS), world.artifacts.charts());
    story.ask(fleet, "namespace create grafana --all", &[])?;
    let source = format!("--oci-url {url} --oci-tag v1.0.0 --component-path observability/grafana/17.0.0");
    story.ask(
        fleet,
        &format!("component create grafana {source} --component-version 17.0.0 --cluster-env-enabled"),
        &[],
    )?;
    let mirror = format!("component patch grafana --all --set GRAFANA_CHARTS={charts}");
    story.ask(fleet, &mirror, &[])?;
    let asked = story.ask(fleet, "component assign grafana --all", &[])?;
    let grafana = |cluster: &Cluster| shipped(cluster, "grafana", "grafana", "grafana");
    for (cluster, replicas) in [(one, 1), (two, 2)] {
        let effect = format!("{} has what its tier, {}, says", cluster.name, cluster.environment);
        story.then(asked, &effect, || {
            let (version, values) = grafana(cluster)?;
            same(&version.as_str(), &"8.8.2")?;
            let root_url = format!("https://grafana.{}", cluster.dns);
            let ini = json!({"server": {"root_url": root_url}});
            same(&values, &json!({"replicas": replicas, "grafana.ini": ini}))
        })?;
    }
    let patch = format!(
        "component patch grafana --cluster {} --set GRAFANA_REPLICAS=3",
        one.name
    );
    let asked = story.ask(fleet, &patch, &[])?;
    story.then(asked, "the patch is a variable of the files", || {
        same(&grafana(one)?.1["replicas"], &json!(3))
    })?;

    let next = "--component-path observability/grafana/17.1.0 --oci-tag v1.1.0";
    let pin = format!("component override grafana --cluster {} {next}", one.name);
    let asked = story.ask(fleet, &pin, &[])?;
    story.then(
        asked,
        &format!("{} runs the next version directory, 17.1.0", one.name),
        || same(&grafana(one)?.0.as_str(), &"8.9.0"),
    )?;
    same(&grafana(two)?.0.as_str(), &"8.8.2")?;
    story.tick(&format!("{} still runs 17.0.0", two.name));
    story.ask(
        fleet,
        &format!("component update grafana --component-version 17.1.0 {next}"),
        &[],
    )?;
    let asked = story.ask(fleet, "component unpin grafana --all", &[])?;
    story.then(asked, "the catalog follows, and all clusters with it", || {
        same(&grafana(two)?.0.as_str(), &"8.9.0")?;
        same(&grafana(one)?.0.as_str(), &"8.9.0")
    })?;
    Ok(())
}

/// Only one component moves, to a path and a tag of its own, and only where it has to.
pub(super) fn hotfix(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A hotfix: one component takes another build, on one cluster");
    let (one, two, fleet) = (&world.one, &world.two, &world.fleet);
    let (url, charts) = (world.artifacts.oci(COMPONENTS), world.artifacts.charts());
    // The demo has a cert-manager already, so this one is called otherwise, and lives in a namespace of its own.
    story.ask(fleet, "namespace create certificates --all", &[])?;
    let source = format!("--oci-url {url} --oci-tag v1.0.0 --component-path core/cert-manager/1.14.0");
    story.ask(
        fleet,
        &format!("component create certificates {source} --component-version 1.14.0 --cluster-env-enabled"),
        &[],
    )?;
    let variables = format!("--set CERT_MANAGER_CHARTS={charts} --set CERT_MANAGER_NAMESPACE=certificates");
    story.ask(fleet, &format!("component patch certificates --all {variables}"), &[])?;
    let asked = story.ask(fleet, "component assign certificates --all", &[])?;
    let installed = |cluster: &Cluster| shipped(cluster, "certificates", "cert-manager", "certificates");
    for cluster in [one, two] {
        story.then(asked, &format!("{} has cert-manager 1.14.0", cluster.name), || {
            same(&installed(cluster)?.0.as_str(), &"1.14.0")
        })?;
    }
    let fix = "--component-path core/cert-manager/1.14.1 --oci-tag v1.0.0-1";
    let pin = format!("component override certificates --cluster {} {fix}", one.name);
    let asked = story.ask(fleet, &pin, &[])?;
    story.then(asked, &format!("{} has the fix, 1.14.1", one.name), || {
        same(&installed(one)?.0.as_str(), &"1.14.1")
    })?;
    same(&installed(two)?.0.as_str(), &"1.14.0")?;
    let sources = one.named(kube::OCI_REPOSITORY, "platform-grafana-")?;
    let tags: Vec<&str> = sources
        .iter()
        .map(|source| text(&source["spec"]["ref"]["tag"]))
        .collect();
    same(&tags, &vec!["v1.1.0"])?;
    story.tick("the other cluster and every other component stay where they are");

    let example = world.components().display().to_string();
    let own = format!("--source {url} --charts {}", world.artifacts.oci("charts"));
    let found = story.show(fleet, &format!("components check {example} --server {own}"))?;
    same(&found["problems"], &json!([]))?;
    story.tick(&format!(
        "all {} paths that the fleet names are in the repository",
        found["references"]
    ));
    let pruned = story.show(fleet, &format!("components prune {example} --keep 1 {own}"))?;
    let paths = |name: &str| -> Vec<&str> {
        let all = pruned[name].as_array().into_iter().flatten();
        all.map(|old| text(&old["path"])).collect()
    };
    same(&paths("old"), &vec!["observability/grafana/17.0.0"])?;
    same(&paths("needed"), &vec!["core/cert-manager/1.14.0"])?;
    story.tick("of the older versions one could go, and one is still run by a cluster");
    Ok(())
}

/// The same in every environment: no folders for them.
pub(super) fn everywhere_alike(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A component without environments");
    let (two, fleet) = (&world.two, &world.fleet);
    let (url, charts) = (world.artifacts.oci(COMPONENTS), world.artifacts.charts());
    story.ask(
        fleet,
        &format!("namespace create ingress-nginx --cluster {}", two.name),
        &[],
    )?;
    let source = format!("--oci-url {url} --oci-tag v1.1.0 --component-path networking/ingress-nginx/4.9.0");
    story.ask(fleet, &format!("component create ingress-nginx {source}"), &[])?;
    let patch = format!(
        "component patch ingress-nginx --cluster {} --set INGRESS_NGINX_CHARTS={charts}",
        two.name
    );
    story.ask(fleet, &patch, &[])?;
    let assign = format!("component assign ingress-nginx --cluster {}", two.name);
    let asked = story.ask(fleet, &assign, &[])?;
    story.then(asked, "its version directory is built as it is", || {
        let (version, values) = shipped(two, "ingress-nginx", "ingress-nginx", "ingress-nginx")?;
        same(&version.as_str(), &"4.9.0")?;
        same(&values, &json!({"controller": {"replicaCount": 1}}))
    })?;
    Ok(())
}

pub(super) fn chart(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A chart in an OCI registry becomes a HelmRelease by chartRef");
    let (one, url) = (&world.one, world.artifacts.oci("charts"));
    story.ask(
        &world.fleet,
        &format!("namespace create welcome --cluster {}", one.name),
        &[],
    )?;
    let source = format!("--oci-url {url} --oci-artifact chart --oci-tag 1.0.0 --component-path welcome");
    let create = format!("component create welcome {source} --cluster {}", one.name);
    let asked = story.ask(&world.fleet, &create, &[])?;
    story.then(asked, "the chart is installed", || {
        let release = one.kube.need(kube::HELM_RELEASE, FLUX, "platform-welcome")?;
        same(&text(&release["spec"]["chartRef"]["kind"]), &"OCIRepository")?;
        // Flux adds the artifact's digest to the version.
        same(&one.installed("welcome")?.version.split('+').next(), &Some("1.0.0"))
    })?;
    let patch = format!("component patch welcome --cluster {} --set replicas=2", one.name);
    let asked = story.ask(&world.fleet, &patch, &[])?;
    story.then(asked, "a patch reaches it", || {
        same(&one.installed("welcome")?.values, &json!({"replicas": 2}))
    })?;
    Ok(())
}
