//! A change goes out wave by wave: two real clusters, and fifty that are simulated. Those poll and report as clusters do, and run
//! nothing.

use serde_json::{Value, json};

use super::look::same;
use super::status::SHOP;
use crate::kube::text;
use crate::story::Story;
use crate::world::World;
use crate::{Result, kube};

/// A version that is as it should be, and one whose template fails.
pub(super) const GOOD: &str = "3.0.0";
pub(super) const BAD: &str = "3.0.1";
const SIMULATED: usize = 50;

pub(super) fn rollouts(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A rollout: two clusters, and fifty that are simulated");
    let before = prepare(story, world)?;
    good(story, world, &before)?;
    bad(story, world)?;
    clean_up(story, world)
}

fn simulated() -> impl Iterator<Item = String> {
    (0..SIMULATED).map(|n| format!("simulated-{n:02}"))
}

/// Gives the second cluster the component, and makes the simulated ones. Gives the version that runs before.
fn prepare(story: &mut Story, world: &World) -> Result<String> {
    let (fleet, one, two) = (&world.fleet, &world.one, &world.two);
    let assign = |kind: &str, cluster: &str| json!({"op": "assign", "kind": kind, "id": SHOP, "cluster": cluster});
    let mut operations: Vec<Value> = simulated()
        .map(|id| {
            json!({"op": "create", "kind": "clusters", "value": {
                "id": id, "cluster_name": id, "cluster_dns": format!("{id}.k8s.example.com"), "environment": "dev",
                "platform_components": [{"id": SHOP}],
            }})
        })
        .collect();
    operations.push(assign("namespaces", two.name));
    operations.push(assign("platform_components", two.name));
    operations
        .push(json!({"op": "merge", "kind": "clusters", "id": one.name, "value": {"labels": {"ring": "canary"}}}));
    fleet.post(
        "/batch",
        &json!({"operations": operations, "reason": "clusters for the rollout"}),
    )?;
    let before = one.installed(SHOP)?.version;
    story.until(&format!("{}: has the component as well, {before}", two.name), || {
        same(&two.installed(SHOP)?.version, &before)
    })?;
    live(world)?;
    story.tick(&format!("{SIMULATED} simulated clusters poll and report"));
    Ok(before)
}

/// What the simulated clusters do all the time: they poll, and report that everything is ready.
fn live(world: &World) -> Result<()> {
    let now = world.fleet.get("/status?limit=0")?["at"].take();
    for id in simulated() {
        let dns = format!("{id}.k8s.example.com");
        for path in ["namespaces", "rolebindings"] {
            world.fleet.poll(&dns, path)?;
        }
        let reply = world.fleet.poll(&dns, "platform-components")?;
        let input = &reply["inputs"][0];
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": super::FLUX, "name": format!("platform-{SHOP}"),
            "uid": id, "resourceVersion": "1", "ready": true, "reason": "UpgradeSucceeded", "message": "simulated",
            "version": input["source"]["oci_tag"], "input": format!("platform-components/{SHOP}"),
            "desired": input["desired"]["input"], "at": now,
        });
        let report = json!({
            "at": now, "reporter": "simulated", "full": true, "objects": [object],
            "providers": [{"name": "platform-components", "ready": true}],
        });
        world
            .fleet
            .post(&format!("/api/v2/flux/clusters/{dns}/report"), &report)?;
    }
    Ok(())
}

/// The document of a rollout to a version.
fn start(story: &mut Story, world: &World, id: &str, version: &str) -> Result<crate::story::Asked> {
    let rollout = json!({
        "kind": "rollouts", "id": id, "description": "the next version of the shop",
        "operations": [{"op": "merge", "kind": "platform_components", "id": SHOP, "value": {"oci_tag": version}}],
        "waves": [
            {"name": "canary", "selector": "ring=canary"},
            {"name": "half", "percent": 50},
            {"name": "rest", "approve": true},
        ],
        // The second cluster has no reporter: what became of it is never known, so that 98 % is all there can be.
        "gate": {"converged": "95%", "failures": 0, "silent": 0, "soak": "3s", "deadline": "10m"},
    });
    world.fleet.file("rollout.json", &rollout.to_string())?;
    story.ask(&world.fleet, "rollout start -f rollout.json --yes --reason next", &[])
}

fn status(world: &World, id: &str) -> Result<Value> {
    world.fleet.get(&format!("/rollouts/{id}/status"))
}

/// While the simulated clusters live on, succeeds when the rollout is as wanted.
fn is(world: &World, id: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    live(world)?;
    let status = status(world, id)?;
    match wanted(&status) {
        true => Ok(status),
        false => Err(format!("it is {status}").into()),
    }
}

fn good(story: &mut Story, world: &World, before: &str) -> Result<()> {
    const ID: &str = "shop-3.0.0";
    story.chapter("A good version passes the canary, soaks, waits for approval, completes");
    let (fleet, one, two) = (&world.fleet, &world.one, &world.two);
    let asked = start(story, world, ID, GOOD)?;
    story.then(asked, "the first wave is promoted", || {
        is(world, ID, |status| status["wave"] == "canary")
    })?;
    story.then(asked, "Helm has upgraded the canary", || {
        live(world)?;
        same(&one.installed(SHOP)?.version.as_str(), &GOOD)
    })?;
    same(&two.installed(SHOP)?.version.as_str(), &before)?;
    story.tick(&format!("{} is as it was", two.name));
    let waiting = story.then(
        asked,
        "half of the fleet has it, and the rest waits for approval",
        || is(world, ID, |status| status["waiting_for"] == "approval/rest"),
    )?;
    story.tick(&format!("waves: {}", shown(&waiting)));
    let mut has_old = 0;
    for id in simulated() {
        let reply = fleet.poll(&format!("{id}.k8s.example.com"), "platform-components")?;
        has_old += usize::from(text(&reply["inputs"][0]["source"]["oci_tag"]) == before);
    }
    match has_old {
        10..=40 => story.tick(&format!(
            "{has_old} of {SIMULATED} simulated clusters are told the old version"
        )),
        other => return Err(format!("{other} of {SIMULATED} have the old version").into()),
    }
    let asked = story.ask(fleet, &format!("rollout approve {ID} --reason good"), &[])?;
    story.then(asked, "every cluster has it, and the rollout completes", || {
        is(world, ID, |status| status["state"] == "completed")
    })?;
    same(
        &fleet.get(&format!("/platform_components/{SHOP}"))?["oci_tag"],
        &json!(GOOD),
    )?;
    story.then(asked, &format!("{}: Helm has upgraded it", two.name), || {
        live(world)?;
        same(&two.installed(SHOP)?.version.as_str(), &GOOD)
    })?;
    Ok(())
}

fn bad(story: &mut Story, world: &World) -> Result<()> {
    const ID: &str = "shop-3.0.1";
    story.chapter("A version that fails halts after the canary; a revert brings it back");
    let (fleet, one, two) = (&world.fleet, &world.one, &world.two);
    let asked = start(story, world, ID, BAD)?;
    let halted = story.then(asked, "the rollout halts", || {
        is(world, ID, |status| status["state"] == "halted")
    })?;
    same(&halted["wave"], &json!("canary"))?;
    story.tick(text(&halted["message"]));
    let reply = fleet.poll(&two.dns, "platform-components")?;
    let inputs = reply["inputs"].as_array().into_iter().flatten();
    let told = inputs
        .filter(|input| input["id"] == SHOP)
        .map(|input| text(&input["source"]["oci_tag"]));
    same(&told.collect::<Vec<_>>(), &vec![GOOD])?;
    same(&two.installed(SHOP)?.version.as_str(), &GOOD)?;
    story.tick(&format!("{} never saw it", two.name));
    let asked = story.ask(fleet, &format!("rollout revert {ID} --yes --reason fails"), &[])?;
    story.then(asked, &format!("{}: the old release is ready again", one.name), || {
        live(world)?;
        let release = one
            .kube
            .need(kube::HELM_RELEASE, super::FLUX, &format!("platform-{SHOP}"))?;
        kube::ready(&release)?;
        same(&one.installed(SHOP)?.version.as_str(), &GOOD)
    })?;
    story.ask(fleet, &format!("rollout abort {ID} --yes --reason fails"), &[])?;
    let history = fleet.get(&format!("/changes?kind=rollouts&id={ID}"))?;
    let steps = history.as_array().into_iter().flatten().map(|change| {
        let (actor, state, wave) = (
            text(&change["actor"]),
            text(&change["after"]["state"]),
            text(&change["after"]["wave"]),
        );
        format!("{actor}: {state} {wave}")
    });
    story.tick(&format!("the log has it all: {}", steps.collect::<Vec<_>>().join("; ")));
    Ok(())
}

/// The waves on one line.
fn shown(status: &Value) -> String {
    let waves = status["waves"].as_array().into_iter().flatten().map(|wave| {
        format!(
            "{} {}/{} converged",
            text(&wave["name"]),
            wave["converged"],
            wave["affected"]
        )
    });
    waves.collect::<Vec<_>>().join(", ")
}

/// Leaves the clusters as later chapters expect them.
fn clean_up(story: &mut Story, world: &World) -> Result<()> {
    let (fleet, two) = (&world.fleet, &world.two);
    let unassign = |kind: &str| json!({"op": "unassign", "kind": kind, "id": SHOP, "cluster": two.name});
    let mut operations: Vec<Value> = simulated()
        .map(|id| json!({"op": "delete", "kind": "clusters", "id": id}))
        .collect();
    operations.push(unassign("platform_components"));
    operations.push(unassign("namespaces"));
    operations
        .push(json!({"op": "merge", "kind": "clusters", "id": world.one.name, "value": {"labels": {"ring": null}}}));
    fleet.confirmed("/batch", &json!({"operations": operations}), Some(SIMULATED + 1))?;
    let forget = |id| json!({"op": "delete", "kind": "decommissions", "id": format!("{id}.k8s.example.com")});
    fleet.post(
        "/batch",
        &json!({"operations": simulated().map(forget).collect::<Vec<_>>()}),
    )?;
    story.until(&format!("{}: the component is gone again", two.name), || {
        match two
            .kube
            .get(kube::HELM_RELEASE, super::FLUX, &format!("platform-{SHOP}"))?
        {
            None => Ok(()),
            Some(_) => Err("the release is there".into()),
        }
    })
}
