//! The other roads a component can take: files of an OCI artifact, and a chart in an OCI registry.

use serde_json::json;

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::artifacts::Files;
use crate::kube::{self, text};
use crate::story::Story;
use crate::world::World;

/// The monorepo artifact of the versioning chapter, with one component in it.
fn monorepo(release: &str) -> Files {
    let config = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: grafana, namespace: grafana}}\n\
         data: {{release: \"{release}\", ini: \"replicas = ${{GRAFANA_REPLICAS:=1}}\"}}\n"
    );
    let tier = |name: &str| {
        format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../base]\n\
             labels: [{{pairs: {{tier: {name}}}}}]\n"
        )
    };
    let base = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [grafana.yaml]\n";
    let file = |path: &str, text: String| (format!("observability/grafana/17.0.0/{path}"), text.into_bytes());
    Files::from([
        file("base/grafana.yaml", config),
        file("base/kustomization.yaml", base.to_owned()),
        file("dev/kustomization.yaml", tier("dev")),
        file("prod/kustomization.yaml", tier("prod")),
    ])
}

pub(super) fn kustomization(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("Files of an OCI artifact become a Kustomization");
    let (one, two) = (&world.one, &world.two);
    world
        .artifacts
        .oci_files("platform-components", "v1.0.0", &monorepo("v1.0.0"))?;
    world
        .artifacts
        .oci_files("platform-components", "v1.1.0", &monorepo("v1.1.0"))?;
    story.tick("the monorepo is pushed, v1.0.0 and v1.1.0");
    story.ask(&world.fleet, "namespace create grafana --all", &[])?;
    let url = world.artifacts.oci("platform-components");
    let source = format!("--oci-url {url} --oci-tag v1.0.0 --component-path observability/grafana/17.0.0");
    let create = format!("component create grafana {source} --cluster-env-enabled --all");
    let asked = story.ask(&world.fleet, &create, &[])?;
    for cluster in [one, two] {
        story.then(
            asked,
            &format!("{} has the files of its tier, {}", cluster.name, cluster.environment),
            || {
                kube::ready(&cluster.kube.need(kube::KUSTOMIZATION, FLUX, "platform-grafana")?)?;
                let made = cluster.kube.need(kube::CONFIG_MAP, "grafana", "grafana")?;
                same(&text(&made["metadata"]["labels"]["tier"]), &cluster.environment)?;
                same(&made["data"], &json!({"release": "v1.0.0", "ini": "replicas = 1"}))
            },
        )?;
    }
    let patch = format!(
        "component patch grafana --cluster {} --set GRAFANA_REPLICAS=3",
        one.name
    );
    let asked = story.ask(&world.fleet, &patch, &[])?;
    let made = || {
        one.kube
            .need(kube::CONFIG_MAP, "grafana", "grafana")
            .map(|mut made| made["data"].take())
    };
    story.then(asked, "the patch is a variable of the files", || {
        same(&made()?["ini"], &json!("replicas = 3"))
    })?;
    let asked = story.ask(&world.fleet, "component update grafana --oci-tag v1.1.0", &[])?;
    story.then(asked, "a new tag brings the new files", || {
        same(&made()?, &json!({"release": "v1.1.0", "ini": "replicas = 3"}))
    })?;
    Ok(())
}

pub(super) fn chart(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A chart in an OCI registry becomes a HelmRelease by chartRef");
    world.artifacts.oci_chart("charts/karma", "karma", "1.0.0")?;
    let (one, url) = (&world.one, world.artifacts.oci("charts"));
    story.ask(
        &world.fleet,
        &format!("namespace create karma --cluster {}", one.name),
        &[],
    )?;
    let source = format!("--oci-url {url} --oci-artifact chart --oci-tag 1.0.0 --component-path karma");
    let create = format!("component create karma {source} --cluster {}", one.name);
    let asked = story.ask(&world.fleet, &create, &[])?;
    story.then(asked, "the chart is installed", || {
        let release = one.kube.need(kube::HELM_RELEASE, FLUX, "platform-karma")?;
        same(&text(&release["spec"]["chartRef"]["kind"]), &"OCIRepository")?;
        // Flux adds the artifact's digest to the version.
        same(&one.installed("karma")?.version.split('+').next(), &Some("1.0.0"))
    })?;
    let patch = format!("component patch karma --cluster {} --set replicas=2", one.name);
    let asked = story.ask(&world.fleet, &patch, &[])?;
    story.then(asked, "a patch reaches it", || {
        same(&one.installed("karma")?.values, &json!({"replicas": 2}))
    })?;
    Ok(())
}
