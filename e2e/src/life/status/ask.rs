//! How the API is asked what came of a change: at the process for operators, to which no cluster speaks.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::kube::text;
use crate::life::look::same;
use crate::story::{Asked, Story};
use crate::world::World;
use crate::{Result, wait};

/// The status of a cluster.
pub(super) fn cluster(world: &World, cluster: &Cluster) -> Result<Value> {
    world.fleet.get(&format!("/clusters/{}/status", cluster.name))
}

/// Succeeds when a cluster has a state.
pub(super) fn cluster_is(world: &World, cluster: &Cluster, state: &str) -> Result<()> {
    same(&text(&self::cluster(world, cluster)?["state"]), &state)
}

/// What is known about a component on a cluster.
pub(super) fn component(world: &World, cluster: &Cluster, id: &str) -> Result<Value> {
    let mut status = self::cluster(world, cluster)?;
    let inputs = status["kinds"]["platform-components"]["inputs"].as_array_mut();
    let input = inputs.into_iter().flatten().find(|input| input["id"] == id);
    let input = input.ok_or_else(|| format!("{} has no {id}", cluster.name))?;
    Ok(input.take())
}

/// Succeeds when all inputs of a path have a state.
pub(super) fn kind_is(world: &World, cluster: &Cluster, path: &str, state: &str) -> Result<()> {
    same(&text(&self::cluster(world, cluster)?["kinds"][path]["state"]), &state)
}

/// Follows a component from a change on until it has a state. Notes when each state was first seen, and gives what is known then.
pub(super) fn course(
    story: &mut Story,
    world: &World,
    asked: Asked,
    cluster: &Cluster,
    id: &str,
    last: &str,
) -> Result<Value> {
    let mut states: Vec<(String, Duration)> = Vec::new();
    let what = format!("{id} of {} to be {last}", cluster.name);
    let input = wait::until(&what, || {
        let input = component(world, cluster, id)?;
        let state = text(&input["state"]);
        if states.last().is_none_or(|(known, _)| known != state) {
            states.push((state.to_owned(), asked.elapsed()));
        }
        match state == last {
            true => Ok(input),
            false => Err(format!("it is {input}").into()),
        }
    })?;
    for (state, took) in states {
        story.saw(asked, &format!("{}: {id} is {state}", cluster.name), took);
    }
    Ok(input)
}

/// The same up to `converged`, which must be true when it is said: the release runs this version with this value of `n`.
pub(super) fn converges(
    story: &mut Story,
    world: &World,
    asked: Asked,
    id: &str,
    (version, n): (&str, Option<u32>),
) -> Result<Value> {
    let one = &world.one;
    let input = course(story, world, asked, one, id, "converged")?;
    let installed = one
        .installed(id)
        .map_err(|error| format!("{id} is said to be converged, but {error}"))?;
    same(&installed.version.as_str(), &version)?;
    same(&installed.values["n"], &n.into())?;
    same(&text(&input["version"]), &version)?;
    Ok(input)
}
