//! From a write to what came of it: by polls alone, by events, by the reporter.

use std::time::{Duration, Instant};

use super::ask::{cluster, cluster_is, component, converges, course, kind_is};
use super::{FIRST, FLUX, REPAIRED, SHOP, reporter};
use crate::kube::text;
use crate::life::look::same;
use crate::story::Story;
use crate::world::World;
use crate::{Result, kube, setup, wait};

/// With nothing on the cluster but Flux, the API knows what it was told.
pub(super) fn polls(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("Status by polls alone: who was told what");
    let (fleet, two) = (&world.fleet, &world.two);
    for cluster in [&world.one, two] {
        story.until(
            &format!(
                "{}: components are told, namespaces and rolebindings converged",
                cluster.name
            ),
            || {
                kind_is(world, cluster, "platform-components", "told")?;
                kind_is(world, cluster, "namespaces", "converged")?;
                kind_is(world, cluster, "rolebindings", "converged")
            },
        )?;
    }
    let patch = format!("component patch cert-manager --cluster {} --set n=1", two.name);
    let asked = story.ask(fleet, &patch, &[])?;
    course(story, world, asked, two, "cert-manager", "told")?;
    story.then(asked, "Helm has upgraded the release", || {
        same(&two.installed("cert-manager")?.values["n"], &1.into())
    })?;
    let asked = story.ask(fleet, &format!("namespace create shelf --cluster {}", two.name), &[])?;
    story.then(asked, "a namespace is converged as soon as it is told", || {
        kind_is(world, two, "namespaces", "converged")
    })?;
    let input = component(world, two, "cert-manager")?;
    same(&(text(&input["state"]), text(&input["evidence"])), &("told", "poll"))?;
    story.tick("of the release nobody says that it is ready, so it stays told");
    Ok(())
}

/// With notifications, Flux tells what succeeds and what fails when it happens.
pub(super) fn events(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("Status with notifications");
    let (fleet, one) = (&world.fleet, &world.one);
    one.kube.apply(&setup::bootstrap(world, one, &["--notifications"])?)?;
    story.tick(&format!(
        "{}: what `cluster bootstrap --notifications` prints is applied",
        one.name
    ));
    story.ask(fleet, &format!("namespace create {SHOP} --cluster {}", one.name), &[])?;
    let create = format!(
        "component create {SHOP} --oci-url {} --component-path {SHOP} --oci-tag {FIRST} --cluster {}",
        world.artifacts.charts(),
        one.name
    );
    let asked = story.ask(fleet, &create, &[])?;
    let input = converges(story, world, asked, SHOP, (FIRST, None))?;
    same(&text(&input["evidence"]), &"event")?;
    let asked = story.ask(fleet, &set(world, 1), &[])?;
    let input = converges(story, world, asked, SHOP, (FIRST, Some(1)))?;
    same(&text(&input["evidence"]), &"event")?;
    let podinfo = component(world, one, "podinfo")?;
    same(&text(&podinfo["state"]), &"told")?;
    story.tick("podinfo has sent no event since, so it stays told");
    Ok(())
}

/// The command that gives the component another value.
pub(super) fn set(world: &World, n: u32) -> String {
    format!("component patch {SHOP} --cluster {} --set n={n}", world.one.name)
}

/// With the reporter, everything is known.
pub(super) fn reports(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("Status with the reporter");
    let objects = setup::bootstrap(world, &world.one, reporter::OPTIONS)?;
    world.one.kube.apply(&objects)?;
    story.tick(&format!(
        "{}: what `cluster bootstrap {}` prints is applied",
        world.one.name,
        reporter::OPTIONS.join(" ")
    ));
    let start = Instant::now();
    reporter::start(world)?;
    let asked = story.asked("the reporter starts", start);
    let (fleet, one) = (&world.fleet, &world.one);
    story.then(
        asked,
        &format!("{} is converged, with all that it has", one.name),
        || {
            let status = cluster(world, one)?;
            match text(&status["state"]) {
                "converged" => Ok(()),
                state => Err(format!("it is {state}: {status}").into()),
            }
        },
    )?;
    let status = cluster(world, one)?;
    story.tick(&format!("it has {}", text(&status["reporter"])));
    let releases = one.kube.list(kube::HELM_RELEASE)?;
    releases.iter().try_for_each(kube::ready)?;
    story.tick(&format!(
        "which is true: all {} releases in {FLUX} are ready",
        releases.len()
    ));

    let asked = story.ask(fleet, &set(world, 2), &[])?;
    converges(story, world, asked, SHOP, (REPAIRED, Some(2)))?;
    let asked = story.ask(fleet, &set(world, 3), &[])?;
    let all = format!("wait {} --timeout 1m", one.name);
    story.ask(fleet, &all, &[])?;
    story.saw(asked, "`wait` has ended", asked.elapsed());
    same(&one.installed(SHOP)?.values["n"], &3.into())?;
    story.tick("and the chart has the new value then");
    cluster_is(world, &world.two, "told")?;
    story.tick(&format!("{} has no reporter, and is told", world.two.name));
    Ok(())
}

/// Succeeds when a component keeps a state for a while.
pub(super) fn stays(world: &World, id: &str, state: &str, span: Duration) -> Result<()> {
    let start = Instant::now();
    wait::until(&format!("{id} to stay {state}"), || {
        let input = component(world, &world.one, id)?;
        match (text(&input["state"]) == state, start.elapsed() >= span) {
            (true, true) => Ok(Ok(())),
            (true, false) => Err("not long enough yet".into()),
            (false, _) => Ok(Err(format!("{id} does not stay {state}: {input}"))),
        }
    })??;
    Ok(())
}
