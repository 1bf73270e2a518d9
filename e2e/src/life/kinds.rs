//! A new kind, added to a running fleet.

use std::fs;

use serde_json::{Value, json};

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::artifacts::read_folder;
use crate::kube::{self, Inventory};
use crate::setup::MANIFESTS;
use crate::story::Story;
use crate::world::World;

const EXAMPLE: &str = "examples/network-policies";

/// `bare` learns of the provider and the ResourceSet, which belong to the bootstrap and not to the fleet.
pub(super) fn network_policies(story: &mut Story, world: &World, bare: &mut Inventory) -> Result<()> {
    story.chapter("A new kind, network policies, while everything runs");
    let one = &world.one;
    let k8s = world.repository.join("k8s");
    let kind = fs::read_to_string(k8s.join(EXAMPLE).join("network_policy.yaml"))?;
    world.fleet.file("network_policy.yaml", &kind)?;
    story.ask(&world.fleet, "kind apply -f network_policy.yaml", &[])?;
    story.tick("the API knows the kind, and so does a command line that was built before it");

    let mut files = read_folder(&k8s)?;
    let listed = files
        .get_mut("kustomization.yaml")
        .ok_or("k8s/ has no kustomization.yaml")?;
    listed.extend_from_slice(format!("  - {EXAMPLE}\n").as_bytes());
    world.artifacts.oci_files(MANIFESTS, "latest", &files)?;
    for cluster in [one, &world.two] {
        cluster.kube.reconcile(kube::OCI_REPOSITORY, FLUX, "flux-resourceset")?;
        story.until(
            &format!(
                "{}: its provider and its ResourceSet come with the manifests",
                cluster.name
            ),
            || {
                kube::ready(&cluster.kube.need(kube::PROVIDER, FLUX, "network-policies")?)?;
                kube::ready(&cluster.kube.need(kube::RESOURCE_SET, FLUX, "network-policies")?)
            },
        )?;
    }
    let now = one.kube.inventory()?;
    for kind in ["ResourceSetInputProvider", "ResourceSet"] {
        let key = format!("{kind} {FLUX}/network-policies");
        bare.extend(
            now.get_key_value(&key)
                .map(|(key, object)| (key.clone(), object.clone())),
        );
    }

    let create = format!(
        "network-policy create allow-traefik --cluster {} --target-namespace podinfo",
        one.name
    );
    let asked = story.ask(
        &world.fleet,
        &create,
        &["--ingress-rule", "from_namespace=traefik,port=9898"],
    )?;
    let rule = || -> Result<Value> {
        let policy = one.kube.need(kube::NETWORK_POLICY, "podinfo", "allow-traefik")?;
        let rule = &policy["spec"]["ingress"][0];
        let from = &rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
        Ok(json!([from, rule["ports"][0]["port"]]))
    };
    story.then(asked, "the NetworkPolicy is there", || {
        same(&rule()?, &json!(["traefik", 9898]))
    })?;
    let change = ["--ingress-rule", "from_namespace=queue,port=80"];
    let asked = story.ask(&world.fleet, "network-policy update allow-traefik", &change)?;
    story.then(asked, "a change of it arrives", || {
        same(&rule()?, &json!(["queue", 80]))
    })?;
    world.two.kube.gone(kube::NETWORK_POLICY, "podinfo", "allow-traefik")?;
    story.tick("the other cluster has none");
    Ok(())
}
