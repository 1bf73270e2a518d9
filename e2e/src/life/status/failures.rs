//! What fails, with Flux's own words; and what is slow, which is not ready before it is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ask::{cluster, component, converges, course};
use super::evidence::stays;
use super::{ABSENT, BROKEN, COMPLAINT, REPAIRED, SHOP, SLOW};
use crate::kube::text;
use crate::life::look::same;
use crate::story::{Asked, Story};
use crate::world::World;
use crate::{Result, kube, wait};

fn update(story: &mut Story, world: &World, version: &str) -> Result<Asked> {
    story.ask(
        &world.fleet,
        &format!("component update {SHOP} --oci-tag {version}"),
        &[],
    )
}

/// Events tell of failures within seconds.
pub(super) fn by_event(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A chart fails: the API says so, with Helm's own message");
    let one = &world.one;
    let asked = update(story, world, BROKEN)?;
    let input = course(story, world, asked, one, SHOP, "failing")?;
    same(&text(&input["evidence"]), &"event")?;
    says(story, &input, COMPLAINT)?;
    let cause = cause(world)?;
    same(&cause["examples"], &json!([one.name]))?;
    same(
        &(&cause["reason"], &cause["path"]),
        &(&input["reason"], &json!("platform-components")),
    )?;
    same(&cause["message"], &input["message"])?;
    story.tick("GET /status/causes names it, with the component and the cluster");
    let failing = world.fleet.get("/status?state=failing")?;
    same(&failing["total"], &json!(1))?;
    same(&failing["clusters"][0]["id"], &json!(one.name))?;
    story.tick("GET /status?state=failing lists this cluster and no other");
    let asked = update(story, world, REPAIRED)?;
    converges(story, world, asked, SHOP, (REPAIRED, Some(1)))?;
    same(&self::cause(world).is_err(), &true)?;
    story.tick("the cause is gone");

    story.chapter("A version does not exist");
    let asked = update(story, world, ABSENT)?;
    let input = course(story, world, asked, one, SHOP, "failing")?;
    says(story, &input, ABSENT)?;
    story.tick(&format!("what fails is {}", text(&input["object"])));
    let asked = update(story, world, REPAIRED)?;
    course(story, world, asked, one, SHOP, "told")?;
    story.until("Flux has the former version again", || {
        kube::ready(
            &one.kube
                .need(kube::HELM_RELEASE, super::FLUX, &format!("platform-{SHOP}"))?,
        )
    })?;
    stays(world, SHOP, "told", Duration::from_secs(2))?;
    story.tick("it sends no event about that: by events alone it stays told");
    Ok(())
}

/// The cause of the component's failure.
fn cause(world: &World) -> Result<Value> {
    let mut causes = world.fleet.get("/status/causes")?;
    let mut causes = causes["causes"].as_array_mut().into_iter().flatten();
    let cause = causes.find(|cause| cause["component"] == SHOP);
    Ok(cause.ok_or_else(|| format!("no cause names {SHOP}"))?.take())
}

/// Succeeds when the first line of what is said about an input has these words.
fn says(story: &Story, said: &Value, words: &str) -> Result<()> {
    let message = text(&said["message"]).lines().next().unwrap_or_default();
    if !message.contains(words) {
        return Err(format!("it does not say {words:?}: {said}").into());
    }
    story.tick(&format!("{}: {message}", text(&said["reason"])));
    Ok(())
}

/// While an upgrade runs, nobody may say that it is done.
pub(super) fn slow(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("An upgrade is slow: it is not converged before Helm is done");
    const SPAN: Duration = Duration::from_secs(8);
    let kube = &world.one.kube;
    let asked = update(story, world, SLOW)?;
    story.then(asked, "Helm waits for a Deployment", || {
        kube.need(kube::DEPLOYMENT, SHOP, SHOP)
    })?;
    let (start, mut looks, mut last) = (Instant::now(), 0_u32, Value::Null);
    while start.elapsed() < SPAN {
        last = component(world, &world.one, SHOP)?;
        looks += 1;
        match text(&last["state"]) {
            "told" | "behind" => {}
            state => return Err(format!("it is {state} while Helm waits: {last}").into()),
        }
        wait::pause()?;
    }
    story.tick(&format!(
        "{looks} looks in {} s: never converged, and not failing; last it was {}: {} {}",
        SPAN.as_secs(),
        text(&last["state"]),
        text(&last["reason"]),
        text(&last["message"])
    ));
    let ready = json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ],
    });
    let at = Instant::now();
    kube.merge(
        kube::DEPLOYMENT,
        SHOP,
        &format!("{SHOP}/status"),
        &json!({"status": ready}),
    )?;
    let asked = story.asked("the Deployment becomes ready", at);
    converges(story, world, asked, SHOP, (SLOW, Some(3)))?;

    // With the reporter, also the way back to what ran before is known.
    let asked = update(story, world, BROKEN)?;
    let input = course(story, world, asked, &world.one, SHOP, "failing")?;
    says(story, &input, COMPLAINT)?;
    let refusal = story.refused(&world.fleet, &format!("wait {} --timeout 1m", world.one.name), &[])?;
    match refusal.contains(SHOP) {
        true => story.tick("`wait` fails at once, and names it"),
        false => return Err(format!("`wait` does not name {SHOP}: {refusal}").into()),
    }
    let asked = update(story, world, SLOW)?;
    let input = converges(story, world, asked, SHOP, (SLOW, Some(3)))?;
    same(&text(&input["evidence"]), &"report")?;
    story.tick("the reporter tells that the former version is ready again, of which Flux sends no event");
    let status = cluster(world, &world.one)?;
    same(&text(&status["state"]), &"converged")
}
