//! What the API says while a part is down: notification-controller, a cluster, itself.

use std::time::{Duration, Instant};

use serde_json::json;

use super::ask::{cluster, cluster_is, component, converges, course, kind_is};
use super::{FLUX, LATE, SHOP};
use crate::cluster::{NOTIFICATION, OPERATOR};
use crate::fleet::SILENT_AFTER;
use crate::kube::text;
use crate::life::look::same;
use crate::story::Story;
use crate::world::World;
use crate::{Result, kube, wait};

/// The first cluster loses its notification-controller and goes on polling. The second one stops polling.
pub(super) fn stopped(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("A cluster stops polling and becomes silent; one that loses notification-controller does not");
    world.two.stop(OPERATOR)?;
    let stopped = Instant::now();
    world.one.stop(NOTIFICATION)?;
    story.tick(&format!(
        "{}: Flux Operator is stopped; {}: notification-controller is",
        world.two.name, world.one.name
    ));
    let asked = story.asked(&format!("{} stops", world.two.name), stopped);
    let (fleet, one, two) = (&world.fleet, &world.one, &world.two);
    let created = story.ask(fleet, &format!("namespace create shelf --cluster {}", one.name), &[])?;
    story.then(created, "a namespace reaches the other cluster all the same", || {
        one.kube.need(kube::NAMESPACE, "", "shelf")?;
        kind_is(world, one, "namespaces", "converged")
    })?;
    let mut looks = 0_u32;
    let mut polls_go_on = || {
        looks += 1;
        match text(&cluster(world, one)?["state"]) {
            "silent" => Err(format!("{} is said to be silent, and polls", one.name)),
            _ => Ok(()),
        }
        .map_err(crate::Error::from)
    };
    story.then(asked, &format!("{} is silent", two.name), || {
        if let Err(error) = polls_go_on() {
            return Ok(Err(error));
        }
        cluster_is(world, two, "silent").map(Ok)
    })??;
    while stopped.elapsed() < SILENT_AFTER + Duration::from_secs(10) {
        polls_go_on()?;
        wait::pause()?;
    }
    story.tick(&format!("{looks} looks: {} never is, it polls", one.name));
    let silent = fleet.get("/status?state=silent")?;
    same(&silent["total"], &json!(1))?;
    same(&silent["clusters"][0]["id"], &json!(two.name))?;
    story.tick("GET /status?state=silent lists the one that is");

    world.one.start_again(NOTIFICATION)?;
    let start = Instant::now();
    world.two.start_again(OPERATOR)?;
    let asked = story.asked(&format!("{} is back", world.two.name), start);
    story.then(asked, "it is told again", || cluster_is(world, &world.two, "told"))?;
    Ok(())
}

/// The API is away while things change: in the fleet, and on the cluster.
pub(super) fn api_away(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("The API is away for a while: what it missed is known soon after");
    const AWAY: Duration = Duration::from_secs(45);
    let late = format!("component update {SHOP} --oci-tag {LATE}");
    let asked = story.ask(&world.fleet, &late, &[])?;
    course(story, world, asked, &world.one, SHOP, "failing")?;
    let left = Instant::now();
    world.fleet.stop_reads()?;
    story.tick("the process that clusters speak to has ended");
    world.artifacts.chart(SHOP, LATE)?;
    let one = &world.one;
    for repository in one.named(kube::HELM_REPOSITORY, &format!("charts-{SHOP}-"))? {
        let name = text(&repository["metadata"]["name"]);
        one.kube.reconcile(kube::HELM_REPOSITORY, FLUX, name)?;
    }
    story.until("the missing version is published, and Helm installs it", || {
        same(&one.installed(SHOP)?.version.as_str(), &LATE)
    })?;
    let patch = format!("component patch cert-manager --cluster {} --set n=7", one.name);
    story.ask(&world.fleet, &patch, &[])?;
    same(&text(&component(world, one, SHOP)?["state"]), &"failing")?;
    story.tick(&format!("the API still has {SHOP} as failing: it was not told"));
    while left.elapsed() < AWAY {
        wait::pause()?;
    }
    cluster_is(world, &world.two, "silent")?;
    story.tick(&format!(
        "after {} s without a poll the other cluster is silent, since nobody reaches the API",
        AWAY.as_secs()
    ));

    let back = Instant::now();
    world.fleet.start_reads()?;
    let asked = story.asked("the API is back", back);
    converges(story, world, asked, SHOP, (LATE, Some(3)))?;
    converges(story, world, asked, "cert-manager", ("1.0.0", Some(7)))?;
    let reporter = world.reporter.as_ref().ok_or("the reporter does not run")?;
    story.then(
        asked,
        "the reporter has nudged the providers that had backed off",
        || reporter.logged("the API is back: providers that are not ready are nudged"),
    )?;
    story.then(asked, "both clusters are as they were", || {
        cluster_is(world, &world.one, "converged")?;
        cluster_is(world, &world.two, "told")
    })?;
    Ok(())
}
