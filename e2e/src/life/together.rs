//! Version and values change together: one upgrade per change on each road, without a state in between.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::FLUX;
use super::deployed::{Deployed, one_upgrade, version};
use super::look::same;
use crate::artifacts::Files;
use crate::kube::{self, Kind, text};
use crate::story::Story;
use crate::world::World;
use crate::{Result, wait};

/// How many times version and values change together.
const CHANGES: u32 = 10;

const HTTPS: &str = "pair-https";
const OCI: &str = "pair-oci";
const FILES: &str = "pair-files";

/// The component of each road, and the Flux object that deploys it.
const ROADS: [(&str, Kind); 3] = [
    (HTTPS, kube::HELM_RELEASE),
    (OCI, kube::HELM_RELEASE),
    (FILES, kube::KUSTOMIZATION),
];

/// The Helm repository that the https road moves to.
const MIRROR: &str = "mirror";

/// A version that does not exist.
const ABSENT: &str = "9.9.9";

pub(super) fn together(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("Version and values change together: one upgrade per change");
    publish(world)?;
    create(story, world)?;
    let mut roads = ROADS.map(|(component, kind)| Deployed::new(&world.one, component, kind));
    change(story, world, &ROADS, &version(0), 0)?;
    for road in &mut roads {
        story.until(&format!("{} is installed", road.component), || road.states_until(0))?;
    }

    ten_changes(story, world, &mut roads)?;
    absent_version(story, world, &mut roads)?;
    let next = CHANGES + 1;
    change(story, world, &ROADS, &version(next), next)?;
    for road in &mut roads {
        upgraded(road, next)??;
    }
    story.tick("with a version that exists, each makes one upgrade");
    other_repository(story, world, &mut roads[0], next + 1)?;
    for road in &roads {
        let left = format!("{}: old values and sources are gone", road.component);
        story.until(&left, || road.tidy())?;
    }
    Ok(())
}

/// Charts and files of every version, and a second Helm repository that has only a later one.
fn publish(world: &mut World) -> Result<()> {
    for n in 0..=CHANGES + 1 {
        let version = version(n);
        world.artifacts.chart(HTTPS, &version)?;
        world.artifacts.oci_chart("charts", OCI, &version)?;
        world.artifacts.oci_files(FILES, &version, &files(&version))?;
    }
    world.artifacts.chart_in(MIRROR, HTTPS, &version(CHANGES + 2))
}

/// The ConfigMap of the charts as a plain file with a variable.
fn files(version: &str) -> Files {
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FILES, "namespace": FILES},
        "data": {"version": version, "values": "{\"n\": ${n:=0}}"},
    });
    Files::from([("app/config.yaml".to_owned(), config.to_string().into_bytes())])
}

fn create(story: &mut Story, world: &World) -> Result<()> {
    let (fleet, artifacts) = (&world.fleet, &world.artifacts);
    for source in [
        format!("{HTTPS} --oci-url {} --component-path {HTTPS}", artifacts.charts()),
        format!(
            "{OCI} --oci-url {} --component-path {OCI} --oci-artifact chart",
            artifacts.oci("charts")
        ),
        format!("{FILES} --oci-url {} --component-path app", artifacts.oci(FILES)),
    ] {
        let create = format!("component create {source} --oci-tag {}", version(0));
        story.ask(fleet, &create, &[])?;
    }
    for (component, _) in ROADS {
        let create = format!("namespace create {component} --cluster {}", world.one.name);
        story.ask(fleet, &create, &[])?;
    }
    Ok(())
}

/// The document of the cluster with another version and another value of some components.
fn with(world: &World, roads: &[(&str, Kind)], version: &str, n: u32) -> Result<Value> {
    let mut cluster = world.fleet.cli(&["cluster", "get", world.one.name])?;
    cluster["kind"] = "clusters".into();
    let references = cluster["platform_components"].as_array_mut();
    let references = references.ok_or("the cluster has no components")?;
    references.retain(|reference| roads.iter().all(|(component, _)| reference["id"] != *component));
    references.extend(roads.iter().map(|(id, _)| json!({"id": id, "oci_tag": version})));
    for (component, _) in roads {
        cluster["patches"][component] = json!({"n": n.to_string()});
    }
    Ok(cluster)
}

/// One revision with the version and the value of some components.
fn change(story: &mut Story, world: &World, roads: &[(&str, Kind)], version: &str, n: u32) -> Result<()> {
    let cluster = with(world, roads, version, n)?;
    world.fleet.file("together.yaml", &cluster.to_string())?;
    let reason = format!("{version} with n={n}");
    story.ask(&world.fleet, "apply -f together.yaml --reason", &[&reason])?;
    Ok(())
}

/// Waits until a component has deployed `n`, and judges what it deployed on the way.
fn upgraded(road: &mut Deployed<'_>, n: u32) -> Result<Result<()>> {
    let states = wait::until(&format!("{} to deploy {n}", road.component), || road.states_until(n))?;
    Ok(one_upgrade(&states, n).map_err(|error| format!("{}: {error}", road.component).into()))
}

fn ten_changes(story: &mut Story, world: &World, roads: &mut [Deployed<'_>]) -> Result<()> {
    let before = releases(roads)?;
    let mut wrong: BTreeMap<&str, u32> = BTreeMap::new();
    for n in 1..=CHANGES {
        change(story, world, &ROADS, &version(n), n)?;
        for road in roads.iter_mut() {
            if let Err(error) = upgraded(road, n)? {
                println!("  ✗ {error}");
                *wrong.entry(road.component).or_default() += 1;
            }
        }
    }
    if !wrong.is_empty() {
        return Err(format!("changes of {CHANGES} that deployed a state in between: {wrong:?}").into());
    }
    story.tick(&format!("{CHANGES} changes on each road, and no state in between"));
    let each: Vec<u32> = Iterator::zip(releases(roads)?.iter(), before)
        .map(|(after, before)| after - before)
        .collect();
    same(&each, &vec![CHANGES, CHANGES, 0])?;
    story.tick("Helm has made one release for each");
    Ok(())
}

fn releases(roads: &[Deployed<'_>]) -> Result<Vec<u32>> {
    roads.iter().map(Deployed::releases).collect()
}

/// New values with a version that does not exist: the old version stays, with the old values.
fn absent_version(story: &mut Story, world: &World, roads: &mut [Deployed<'_>]) -> Result<()> {
    let kube = &world.one.kube;
    change(story, world, &ROADS, ABSENT, 99)?;
    story.until(&format!("no source finds version {ABSENT}"), || {
        let chart = kube.need(kube::HELM_CHART, FLUX, &format!("{FLUX}-platform-{HTTPS}"))?;
        same(&text(&chart["spec"]["version"]), &ABSENT)?;
        let sources = kube.list(kube::OCI_REPOSITORY)?;
        let sources = sources.iter().filter(|source| source["spec"]["ref"]["tag"] == ABSENT);
        let ready: Vec<String> = sources
            .chain([&chart])
            .map(|source| kube::readiness(source).0)
            .collect();
        same(&ready, &vec!["False".to_owned(); ROADS.len()])
    })?;
    // Each looks once more now that its source has failed: if it were to deploy anything, it would do so here.
    roads.iter().try_for_each(Deployed::reconcile)?;
    for road in roads {
        story.until(&format!("{} is not ready", road.component), || {
            let object = road.object()?;
            kube::handled(&object)?;
            same(&kube::readiness(&object).0.as_str(), &"False")
        })?;
        let deployed = road.states()?;
        same(&deployed, &Vec::new()).map_err(|error| format!("{}: {error}", road.component))?;
    }
    story.tick("nothing was deployed: the old version keeps the old values");
    Ok(())
}

/// The Helm repository moves while the values change. Without a pinned version, the repository decides which chart is the newest.
fn other_repository(story: &mut Story, world: &World, road: &mut Deployed<'_>, n: u32) -> Result<()> {
    let fleet = &world.fleet;
    let latest = format!(
        "component override {HTTPS} --cluster {} --oci-tag latest",
        world.one.name
    );
    story.ask(fleet, &latest, &[])?;
    story.until(&format!("{HTTPS} follows the newest version"), || {
        let release = road.object()?;
        same(&text(&release["spec"]["chart"]["spec"]["version"]), &"*")?;
        kube::ready(&release)
    })?;
    let mut component = fleet.cli(&["component", "get", HTTPS])?;
    component["kind"] = "platform_components".into();
    component["oci_url"] = world.artifacts.charts_in(MIRROR).into();
    let cluster = with(world, &ROADS[..1], "latest", n)?;
    fleet.file("moved.yaml", &format!("---\n{component}\n---\n{cluster}\n"))?;
    story.ask(
        fleet,
        "apply -f moved.yaml --reason",
        &["another repository and other values"],
    )?;
    upgraded(road, n)??;
    story.tick("a repository at another address, and other values: one upgrade");
    Ok(())
}
