//! How clusters and fleet are brought together: what is published, and what a cluster is given to phone home with.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::artifacts::{Files, read_folder};
use crate::cluster::Cluster;
use crate::fleet::READ_TOKEN;
use crate::kube::text;
use crate::world::World;
use crate::{Result, manifests};

/// Where `k8s/` is pushed to.
pub(crate) const MANIFESTS: &str = "flux-resourceset-manifests";

/// Where the components repository is pushed to.
pub(crate) const COMPONENTS: &str = "platform-components";

/// Builds of the components repository by their tags, each with the version directories that came later. They are those of the
/// versioning chapter: a release, its hotfix, and the next release.
pub(crate) const BUILDS: [(&str, &[&str]); 3] = [
    ("v1.0.0", &["core/cert-manager/1.14.1", "observability/grafana/17.1.0"]),
    ("v1.0.0-1", &["observability/grafana/17.1.0"]),
    ("v1.1.0", &[]),
];

/// What a cluster that is not bootstrapped by the command has otherwise than the shipped Kustomization says: its API has a
/// certificate of our own authority, and it is polled every second instead of every five minutes.
const QUICK: &str = r#"
- {op: add, path: /spec/certSecretRef, value: {name: internal-api-tls}}
- {op: replace, path: /metadata/annotations/fluxcd.controlplane.io~1reconcileEvery, value: 1s}
"#;

/// Publishes the charts of the demo fleet, and `k8s/`.
pub(crate) fn publish(world: &mut World) -> Result<()> {
    for (name, versions) in [
        ("cert-manager", &["1.0.0"][..]),
        ("traefik", &["1.0.0"]),
        ("podinfo", &["1.0.0", "1.1.0", "2.0.0-rc.1"]),
        ("queue", &["1.0.0"]),
        ("worker", &["1.0.0"]),
    ] {
        versions
            .iter()
            .try_for_each(|version| world.artifacts.chart(name, version))?;
    }
    world
        .artifacts
        .oci_files(MANIFESTS, "latest", &read_folder(&world.repository.join("k8s"))?)
}

/// Publishes the example of a components repository: its builds, the charts that its releases name, and its own chart.
pub(crate) fn publish_components(world: &mut World) -> Result<()> {
    let files = read_folder(&world.components())?;
    let mut charts = BTreeSet::new();
    for (path, bytes) in &files {
        if !path.ends_with("release.yaml") {
            continue;
        }
        for release in manifests::objects(std::str::from_utf8(bytes)?)? {
            let chart = &release["spec"]["chart"]["spec"];
            charts.insert((text(&chart["chart"]).to_owned(), text(&chart["version"]).to_owned()));
        }
    }
    for (name, version) in &charts {
        world.artifacts.chart(name, version)?;
    }
    for (tag, later) in BUILDS {
        let within = |path: &str| later.iter().any(|folder| path.starts_with(&format!("{folder}/")));
        let build: Files = files
            .iter()
            .filter(|(path, _)| !within(path))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        world.artifacts.oci_files(COMPONENTS, tag, &build)?;
    }
    world.artifacts.oci_chart("charts", "welcome", "1.0.0").map(drop)
}

/// `k8s/base` with what the provisioner of this cluster puts in: its identity and its token. Flux is here already, so the
/// FluxInstance is left out.
pub(crate) fn base(world: &World, cluster: &Cluster) -> Result<Vec<Value>> {
    let mut objects = kustomization(world, "k8s/base")?;
    objects.retain(|object| object["kind"] != "FluxInstance");
    for object in &mut objects {
        match text(&object["metadata"]["name"]) {
            "cluster-identity" => {
                object["data"] = json!({
                    "CLUSTER_NAME": cluster.name,
                    "CLUSTER_DNS": cluster.dns,
                    "ENVIRONMENT": cluster.environment,
                    "INTERNAL_API_URL": world.fleet.url(),
                });
            }
            "internal-api-token" => object["stringData"] = json!({"token": READ_TOKEN}),
            _ => {}
        }
    }
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "internal-api-tls", "namespace": "flux-system"},
        "stringData": {"ca.crt": world.fleet.certificates().authority()},
    }));
    Ok(objects)
}

/// What `cluster bootstrap` prints for a cluster that the fleet knows: everything that it applies.
pub(crate) fn bootstrap(world: &World, cluster: &Cluster, more: &[&str]) -> Result<Vec<Value>> {
    bootstrap_every(world, cluster, "1s", more)
}

/// The same for a cluster that polls at another interval.
pub(crate) fn bootstrap_every(world: &World, cluster: &Cluster, interval: &str, more: &[&str]) -> Result<Vec<Value>> {
    let (url, source) = (world.fleet.url(), world.artifacts.oci(MANIFESTS));
    let authority = world.fleet.certificates().authority_file().display().to_string();
    let mut arguments = vec![
        "cluster",
        "bootstrap",
        cluster.name,
        "--url",
        &url,
        "--ca-file",
        &authority,
    ];
    arguments.extend(["--source", &source, "--interval", interval]);
    arguments.extend(more);
    match world.fleet.cli(&arguments)? {
        Value::String(printed) => manifests::objects(&printed),
        other => Err(format!("cluster bootstrap printed {other}").into()),
    }
}

/// `k8s/bootstrap` with the address of this registry.
pub(crate) fn phone_home_objects(world: &World) -> Result<Vec<Value>> {
    let mut objects = kustomization(world, "k8s/bootstrap")?;
    for object in &mut objects {
        match text(&object["kind"]) {
            "OCIRepository" => object["spec"]["url"] = world.artifacts.oci(MANIFESTS).into(),
            "Kustomization" => {
                let patch = json!({"target": {"kind": "ResourceSetInputProvider"}, "patch": QUICK});
                object["spec"]["patches"] = json!([patch]);
            }
            _ => {}
        }
    }
    Ok(objects)
}

/// The objects of the files that a plain kustomization.yaml lists.
pub(crate) fn kustomization(world: &World, folder: &str) -> Result<Vec<Value>> {
    let folder = world.repository.join(folder);
    let mut objects = Vec::new();
    for listed in manifests::file(&folder.join("kustomization.yaml"))? {
        for resource in listed["resources"].as_array().into_iter().flatten() {
            objects.extend(manifests::file(&folder.join(text(resource)))?);
        }
    }
    Ok(objects)
}

/// The document of the demo's own cluster, as `apply` takes it.
pub(crate) fn first_cluster(world: &World) -> Value {
    let mut cluster = world.seed["clusters"][0].clone();
    cluster["kind"] = "clusters".into();
    cluster
}

/// The command that makes the second one, with the same components.
pub(crate) fn second_cluster(world: &World) -> String {
    let Cluster {
        name, dns, environment, ..
    } = &world.two;
    let mut command = format!("cluster create {name} --cluster-dns {dns} --environment {environment}");
    for id in ["cert-manager", "traefik", "podinfo"] {
        command.push_str(&format!(" --component {id} --namespace {id}"));
    }
    command.push_str(" --rolebinding platform-admins");
    command
}
