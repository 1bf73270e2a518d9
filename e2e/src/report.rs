//! The report of a failure: the conditions of the Flux objects, and the end of the logs.

use crate::cluster::Cluster;
use crate::kube::{self, readiness, text};
use crate::world::World;

/// Lines of each log.
const TOLD: usize = 5;

pub(crate) fn print(world: &mut World) {
    objects(&world.one);
    objects(&world.two);
    println!("\nThe end of the logs");
    for (place, process) in world.processes() {
        let name = process.name().to_owned();
        let ended = process.ended();
        // The API server says little that helps; what has died says why.
        if ended.is_none() && ["etcd", "apiserver", "controller-manager", "charts"].contains(&name.as_str()) {
            continue;
        }
        println!("\n  {place} {name} {}", ended.unwrap_or_default());
        for line in process.tail(TOLD).unwrap_or_else(|error| error.to_string()).lines() {
            println!("    {}", line.chars().take(400).collect::<String>());
        }
    }
}

fn objects(cluster: &Cluster) {
    println!("\nFlux' objects on {}", cluster.name);
    let kinds = [
        kube::PROVIDER,
        kube::RESOURCE_SET,
        kube::OCI_REPOSITORY,
        kube::KUSTOMIZATION,
        kube::HELM_REPOSITORY,
        kube::HELM_CHART,
        kube::HELM_RELEASE,
    ];
    for kind in kinds {
        for object in cluster.kube.list(kind).unwrap_or_default() {
            let (status, said) = readiness(&object);
            let name = text(&object["metadata"]["name"]);
            println!("  {:24} {name}: ready {status}, {said}", kind.plural());
        }
    }
}
