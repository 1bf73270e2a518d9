//! How a cluster joins the fleet: the shipped manifests, and the first call home.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::FLUX;
use super::look::{contains, same};
use crate::kube::{self, Inventory, text};
use crate::story::Story;
use crate::world::World;
use crate::{Result, setup};

/// Applies what we ship, and gives what each cluster holds before anything comes from the fleet: the first one's inventory.
pub(super) fn bootstrap(story: &mut Story, world: &mut World) -> Result<Inventory> {
    story.chapter("Bootstrap: by the command, and by the shipped Kustomization");
    setup::publish(world)?;
    story.tick("charts are published, k8s/ is pushed as an artifact");
    world.fleet.start()?;
    story.tick("the API is up: one process for clusters, one for operators, on one database");
    let one = &world.one;
    let create = format!(
        "cluster create {} --cluster-dns {} --environment {}",
        one.name, one.dns, one.environment
    );
    story.ask(&world.fleet, &create, &[])?;
    one.kube.apply(&setup::bootstrap(world, one, &[])?)?;
    story.tick(&format!("{}: what `cluster bootstrap` prints is applied", one.name));
    world.two.kube.apply(&setup::base(world, &world.two)?)?;
    world.two.kube.apply(&setup::phone_home_objects(world)?)?;
    story.tick(&format!(
        "{}: base and bootstrap are applied, with a shared token",
        world.two.name
    ));
    for cluster in [&world.one, &world.two] {
        cluster.kube.apply(&bystanders())?;
        story.until(
            &format!(
                "{}: the Kustomization has applied providers and ResourceSets",
                cluster.name
            ),
            || {
                kube::ready(&cluster.kube.need(kube::KUSTOMIZATION, FLUX, "flux-resourceset")?)?;
                let all = BTreeSet::from(["namespaces", "platform-components", "rolebindings"]);
                same(&names(&cluster.kube.list(kube::RESOURCE_SET)?), &all)?;
                same(&names(&cluster.kube.list(kube::PROVIDER)?), &all)
            },
        )?;
        let provider = cluster.kube.need(kube::PROVIDER, FLUX, "namespaces")?;
        let (api, dns) = (world.fleet.url(), &cluster.dns);
        let url = format!("{api}/api/v2/flux/clusters/{dns}/namespaces?marked=true");
        same(&text(&provider["spec"]["url"]), &url.as_str())?;
        story.tick(&format!("{}: its providers have its own address", cluster.name));
    }

    story.chapter("The fleet has nothing for the first cluster yet, and does not know the second one");
    one.poll()?;
    story.until(
        &format!("{}: every provider is ready, with an empty list", one.name),
        || one.polled(),
    )?;
    world.two.poll_failed("404")?;
    story.tick(&format!("{}: every provider reports 404", world.two.name));
    let bare = world.one.kube.inventory()?;
    story.tick(&format!(
        "nothing is made; {} holds {} objects of its own",
        world.one.name,
        bare.len()
    ));
    Ok(bare)
}

/// What others have made on the cluster, beside Flux and right among its objects.
fn bystanders() -> Vec<Value> {
    let config = |namespace| {
        let metadata = json!({"name": "not-ours", "namespace": namespace});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "not-ours"}});
    vec![namespace, config("not-ours"), config(FLUX)]
}

fn names(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().map(|object| text(&object["metadata"]["name"])).collect()
}

/// The demo fleet that we ship, on the first cluster.
pub(super) fn phone_home(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("The first cluster phones home");
    let one = &world.one;
    story.ask(&world.fleet, "component update podinfo --oci-tag 1.0.0", &[])?;
    let cluster = setup::first_cluster(world).to_string();
    world.fleet.file("demo-cluster-01.json", &cluster)?;
    let asked = story.ask(
        &world.fleet,
        "apply -f demo-cluster-01.json --reason",
        &["a new cluster"],
    )?;
    one.poll()?;

    story.then(
        asked,
        "its namespaces are there, with their labels and annotations",
        || {
            for definition in world.seed["namespaces"].as_array().into_iter().flatten() {
                let namespace = one.kube.need(kube::NAMESPACE, "", text(&definition["id"]))?;
                contains(&namespace["metadata"]["labels"], &definition["labels"])?;
                contains(&namespace["metadata"]["annotations"], &definition["annotations"])?;
            }
            Ok(())
        },
    )?;
    story.then(
        asked,
        "its rolebindings are there, with their roles and subjects",
        || {
            for definition in world.seed["rolebindings"].as_array().into_iter().flatten() {
                let binding = one.kube.need(kube::CLUSTER_ROLE_BINDING, "", text(&definition["id"]))?;
                same(&binding["roleRef"]["name"], &definition["role"])?;
                same(&binding["subjects"], &definition["subjects"])?;
            }
            Ok(())
        },
    )?;
    story.then(asked, "its patches are ConfigMaps", || {
        same(
            &one.patches("podinfo")?,
            &world.seed["clusters"][0]["patches"]["podinfo"],
        )
    })?;
    for component in ["cert-manager", "traefik", "podinfo"] {
        story.then(asked, &format!("{component} is installed by Helm"), || {
            one.installed(component)
        })?;
    }
    let podinfo = one.installed("podinfo")?;
    same(&podinfo.version.as_str(), &"1.0.0")?;
    let ui = json!({"color": "#2f855a", "message": "Hello from flux-resourceset"});
    same(&podinfo.values, &json!({"replicaCount": 2, "ui": ui}))?;
    story.tick("the chart has the values of the patches, and numbers are numbers");
    Ok(())
}

/// The second cluster, made on the command line. The fleet has an opinion on its flux-system, too.
pub(super) fn second_cluster(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A second cluster joins");
    let two = &world.two;
    let own = format!(
        "namespace create {FLUX} --label team=platform --cluster {}",
        world.one.name
    );
    let asked = story.ask(&world.fleet, &own, &[])?;
    story.then(asked, "the first cluster's flux-system has the fleet's label", || {
        let namespace = world.one.kube.need(kube::NAMESPACE, "", FLUX)?;
        contains(&namespace["metadata"]["labels"], &json!({"team": "platform"}))
    })?;
    let asked = story.ask(&world.fleet, &setup::second_cluster(world), &[])?;
    two.kube.apply(&setup::bootstrap(world, two, &[])?)?;
    story.tick("what `cluster bootstrap` prints is applied over the shared token");
    two.poll()?;
    story.then(asked, "podinfo is installed there, after what it depends on", || {
        two.installed("podinfo")
    })?;
    two.kube.gone(kube::CLUSTER_ROLE_BINDING, "", "dev-readers")?;
    story.tick("it has what it was given, and nothing of the other's");
    Ok(())
}
