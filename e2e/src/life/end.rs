//! How things leave: one by one, and all at once.

use super::FLUX;
use super::look::unchanged;
use crate::Result;
use crate::kube::{self, Inventory};
use crate::story::Story;
use crate::world::World;

pub(super) fn unassign(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A component and its namespace are taken from a cluster");
    let (kube, cluster) = (&world.one.kube, world.one.name);
    let asked = story.ask(
        &world.fleet,
        &format!("component unassign worker --cluster {cluster}"),
        &[],
    )?;
    story.then(
        asked,
        "its HelmRelease is gone, and what the chart had installed",
        || {
            kube.gone(kube::HELM_RELEASE, FLUX, "platform-worker")?;
            kube.gone(kube::CONFIG_MAP, "worker", "worker")
        },
    )?;
    let asked = story.ask(
        &world.fleet,
        &format!("namespace unassign worker --cluster {cluster}"),
        &[],
    )?;
    story.then(asked, "its namespace is gone", || {
        kube.gone(kube::NAMESPACE, "", "worker")
    })?;
    world.one.installed("queue")?;
    story.tick("what it depended on is still there");
    Ok(())
}

/// `bare` is what the cluster held before it first phoned home.
pub(super) fn decommission(story: &mut Story, world: &World, bare: &Inventory) -> Result<()> {
    story.chapter("A cluster is decommissioned");
    let (one, other) = (&world.one, world.two.kube.inventory()?);
    let before = one.kube.inventory()?;
    let made = before.keys().filter(|key| !bare.contains_key(*key)).count();
    let asked = story.ask(&world.fleet, &format!("cluster delete {}", one.name), &[])?;
    story.then(
        asked,
        &format!("everything that was made is gone: {made} objects"),
        || {
            let now = one.kube.inventory()?;
            let left: Vec<&str> = now
                .keys()
                .filter(|key| !bare.contains_key(*key))
                .map(String::as_str)
                .collect();
            match left.is_empty() {
                true => Ok(()),
                false => Err(format!("still there: {}", left.join(", ")).into()),
            }
        },
    )?;
    let own_namespace = format!("Namespace {FLUX}");
    let now = one.kube.inventory()?;
    for (key, before) in bare {
        match now.get(key) {
            None => return Err(format!("{key} was there before, and is gone").into()),
            // The labels that the fleet gave it stay, too.
            Some(after) if before != after && *key != own_namespace => {
                return Err(format!("{key} was there before, and has changed").into());
            }
            Some(_) => {}
        }
    }
    story.tick("nothing else is: flux-system stays, which the fleet had too, and so does what others made");
    story.until("its providers are ready: an empty list is an answer", || one.polled())?;
    unchanged(&other, &world.two.kube.inventory()?)?;
    story.tick("the other cluster is as it was");
    Ok(())
}
