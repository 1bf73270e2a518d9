//! What came of it: the states that the API tells of clusters, by polls alone, by events, and by the reporter.

mod ask;
mod evidence;
mod failures;
mod nudge;
mod outages;
mod reporter;

use std::collections::BTreeMap;

use serde_json::json;

use super::look::same;
use super::{FLUX, rollouts};
use crate::Result;
use crate::artifacts::Files;
use crate::cluster::Cluster;
use crate::kube::{self, Inventory, text};
use crate::story::Story;
use crate::world::World;

/// The component of these chapters.
pub(super) const SHOP: &str = "shop";
/// A version that is as it should be,
const FIRST: &str = "1.0.0";
/// one whose template fails,
const BROKEN: &str = "1.0.1";
/// what Helm says then,
const COMPLAINT: &str = "shop needs a database";
/// one that repairs it,
const REPAIRED: &str = "1.0.2";
/// one that is slow: its Deployment becomes ready when the test says so,
const SLOW: &str = "1.1.0";
/// one that does not exist,
const ABSENT: &str = "1.9.9";
/// and one that is published while the API is away.
const LATE: &str = "2.0.0";

pub(super) fn status(story: &mut Story, world: &mut World) -> Result<()> {
    publish(world)?;
    evidence::polls(story, world)?;
    evidence::events(story, world)?;
    failures::by_event(story, world)?;
    outages::stopped(story, world)?;
    evidence::reports(story, world)?;
    failures::slow(story, world)?;
    outages::api_away(story, world)?;
    nudge::ten_changes(story, world)
}

/// After everything that other chapters do: what the API says of each component is what Flux says of it.
pub(super) fn agrees(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("What the API says of each component is what Flux says");
    let one = &world.one;
    let counts = story.until(&format!("{}: all states are true", one.name), || {
        let status = ask::cluster(world, one)?;
        let mut counts = BTreeMap::<String, usize>::new();
        let inputs = status["kinds"]["platform-components"]["inputs"].as_array();
        for input in inputs.into_iter().flatten().filter(|input| input["enabled"] == true) {
            let truth = truth(&world.one, text(&input["id"]))?;
            same(&text(&input["state"]), &truth).map_err(|error| format!("{input}: {error}"))?;
            *counts.entry(truth.to_owned()).or_default() += 1;
        }
        Ok(counts)
    })?;
    story.tick(&format!("components by state: {counts:?}"));
    match counts.get("converged") {
        Some(2..) => Ok(()),
        _ => Err("that is too few to say anything".into()),
    }
}

/// The state of a component by Flux's own objects: what deploys it, and its sources.
fn truth(cluster: &Cluster, id: &str) -> Result<&'static str> {
    let name = format!("platform-{id}");
    let mut objects = cluster.named(kube::OCI_REPOSITORY, &format!("{name}-"))?;
    objects.extend(cluster.named(kube::HELM_REPOSITORY, &format!("charts-{id}-"))?);
    objects.extend(cluster.kube.get(kube::HELM_CHART, FLUX, &format!("{FLUX}-{name}"))?);
    objects.push(match cluster.kube.get(kube::HELM_RELEASE, FLUX, &name)? {
        Some(release) => release,
        None => cluster.kube.need(kube::KUSTOMIZATION, FLUX, &name)?,
    });
    let failing = objects.iter().any(|object| kube::readiness(object).0 == "False");
    match (failing, objects.iter().try_for_each(kube::ready)) {
        (true, _) => Ok("failing"),
        (false, Ok(())) => Ok("converged"),
        (false, Err(_)) => Ok("told"),
    }
}

/// Later chapters run with all of it: notifications and reporter stay when the cluster is decommissioned.
pub(super) fn left(world: &World, bare: &mut Inventory) -> Result<()> {
    let ours = |key: &str| {
        let (kind, name) = key.split_once(' ').unwrap_or_default();
        let name = name.strip_prefix(FLUX).unwrap_or_default();
        name.starts_with("/flux-resourceset-reporter")
            || name == "/flux-resourceset-events"
            // There is a new token in it.
            || name == "/internal-api-token"
            || ["Provider", "Alert"].contains(&kind)
    };
    let now = world.one.kube.inventory()?;
    bare.extend(now.into_iter().filter(|(key, _)| ours(key)));
    Ok(())
}

/// The versions of the component.
fn publish(world: &mut World) -> Result<()> {
    let template = |text: String| Files::from([("templates/more.yaml".to_owned(), text.into_bytes())]);
    let labels = json!({"app": SHOP});
    let container = json!({"name": SHOP, "image": "shop.example.com/shop"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": SHOP},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    for (version, more) in [
        (FIRST, Files::new()),
        (BROKEN, template(format!("{{{{ fail {COMPLAINT:?} }}}}"))),
        (REPAIRED, Files::new()),
        (SLOW, template(deployment.to_string())),
        // Flux reads the index now and then: what a later chapter rolls out is in it from the start.
        (rollouts::GOOD, Files::new()),
        (rollouts::BAD, template(format!("{{{{ fail {COMPLAINT:?} }}}}"))),
    ] {
        world.artifacts.chart_with("", SHOP, version, &more)?;
    }
    Ok(())
}
