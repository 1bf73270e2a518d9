//! What must not harm a cluster: an API that is unavailable, a wrong token, a reply that is too long.

use std::time::Instant;

use serde_json::json;

use super::FLUX;
use super::look::{same, unchanged};
use crate::Result;
use crate::kube;
use crate::story::Story;
use crate::world::World;

pub(super) fn api_down(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("The API goes down, and the clusters stay as they are");
    let before = (world.one.kube.inventory()?, world.two.kube.inventory()?);
    world.fleet.stop_reads()?;
    story.tick("the process that clusters poll has ended");
    let patch = format!("component patch podinfo --cluster {} --set", world.one.name);
    story.ask(&world.fleet, &patch, &["ui.message=while you were away"])?;
    for cluster in [&world.one, &world.two] {
        cluster.poll_failed("connection refused")?;
        story.tick(&format!(
            "{}: every provider reports that it is not ready",
            cluster.name
        ));
        cluster.render_again()?;
    }
    story.tick("every ResourceSet is made to render again, without news from the API");
    unchanged(&before.0, &world.one.kube.inventory()?)?;
    unchanged(&before.1, &world.two.kube.inventory()?)?;
    story.tick("nothing has changed on either cluster");

    let back = Instant::now();
    world.fleet.start_reads()?;
    let asked = story.asked("the API is back", back);
    world.one.poll()?;
    world.two.poll()?;
    for cluster in [&world.one, &world.two] {
        story.then(
            asked,
            &format!("{}: the providers are ready again", cluster.name),
            || cluster.polled(),
        )?;
    }
    story.then(asked, "what was written meanwhile has arrived", || {
        same(
            &world.one.installed("podinfo")?.values["ui"]["message"],
            &json!("while you were away"),
        )
    })?;
    Ok(())
}

pub(super) fn wrong_token(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A cluster has the wrong token");
    let one = &world.one;
    let before = one.kube.inventory()?;
    let secret = one.kube.need(kube::SECRET, FLUX, "internal-api-token")?;
    let token = |data: &serde_json::Value| {
        one.kube
            .merge(kube::SECRET, FLUX, "internal-api-token", &json!({"data": data}))
    };
    token(&json!({"token": "d3Jvbmc="}))?;
    one.poll()?;
    one.poll_failed("401")?;
    story.tick("every provider reports 401");
    story.until("the other cluster's are ready", || world.two.polled())?;
    one.render_again()?;
    token(&secret["data"])?;
    unchanged(&before, &one.kube.inventory()?)?;
    story.tick("nothing has changed on the cluster");
    one.poll()?;
    story.until("with the right token they are ready again", || one.polled())
}

/// Flux refuses a reply of more than 900 KiB, so the API refuses the change that would cause it.
pub(super) fn too_large(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A change would make a reply longer than Flux takes");
    let one = &world.one;
    let before = one.kube.inventory()?;
    let sets: Vec<String> = (0..15)
        .map(|n| format!("--set=blob{n}={}", "x".repeat(64_000)))
        .collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let patch = format!("component patch podinfo --cluster {}", one.name);
    let refusal = story.refused(&world.fleet, &patch, &sets)?;
    match refusal.contains(one.name) && refusal.contains("Flux refuses") {
        true => story.tick(&format!("refused: {}", refusal.trim_start_matches("error: "))),
        false => return Err(format!("refused, but it does not say why: {refusal}").into()),
    }
    one.poll()?;
    story.until("the next poll is as good as the last", || one.polled())?;
    unchanged(&before, &one.kube.inventory()?)?;
    story.tick("nothing has changed on the cluster");
    Ok(())
}
