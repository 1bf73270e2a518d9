//! Providers that poll when their reply changed.

use std::time::Duration;

use serde_json::Value;

use crate::world::{World, eventually};

const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

async fn world() -> World {
    started(World::new().await).await
}

/// Starts a reporter that nudges.
async fn started(mut world: World) -> World {
    world.config.nudge = true;
    for path in ["namespaces", "rolebindings"] {
        world.kubernetes.put("resourcesetinputproviders", world.provider(path));
        world.fleet.change(path, "1");
    }
    world.start().await;
    world.fleet.report_after(0, |_| true).await;
    // The second one waits for a change, after the first told what there is.
    world.fleet.polled(2).await;
    world
}

fn nudged(world: &World) -> Vec<String> {
    world.kubernetes.patches().into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn a_provider_is_nudged_when_its_reply_changes() {
    let world = world().await;
    assert!(nudged(&world).is_empty(), "nothing changed at the start");
    world.fleet.change("namespaces", "2");
    eventually("a nudge", || !nudged(&world).is_empty()).await;
    let (name, patch) = world.kubernetes.patches()[0].clone();
    assert_eq!(name, "namespaces");
    let at: &Value = &patch["metadata"]["annotations"][REQUESTED_AT];
    assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{at}");
    // The next poll waits, because nothing changes; a poll asks for what it has.
    world.fleet.polled(3).await;
    let polls = world.fleet.polls();
    assert!(polls[0].body.get("since").is_none() && polls[1].body.get("since").is_some());
    assert_ne!(polls[1].body["since"], polls[2].body["since"]);
    assert_eq!(polls[2].token, "Bearer secret");
    world.fleet.change("rolebindings", "2");
    eventually("a nudge of the other", || nudged(&world).len() == 2).await;
    assert_eq!(nudged(&world), ["namespaces", "rolebindings"]);
}

#[tokio::test]
async fn after_an_outage_each_provider_that_is_not_ready_is_nudged_once() {
    let world = world().await;
    let mut failing = world.provider("rolebindings");
    failing["status"]["conditions"][0]["status"] = "False".into();
    world.kubernetes.put("resourcesetinputproviders", failing);
    world
        .fleet
        .report_after(1, |call| call.body["providers"][1]["ready"] == false)
        .await;
    // While the API is away, a path changes. Only the next poll can tell.
    world.fleet.refuse_polls(&[(503, None), (503, None)]);
    world.fleet.change("other", "1");
    eventually("the API is back", || {
        let polls = world.fleet.polls();
        let away = polls.iter().rposition(|poll| poll.status == 503);
        away.is_some_and(|away| polls.len() >= away + 3)
    })
    .await;
    eventually("a nudge", || !nudged(&world).is_empty()).await;
    world.fleet.change("namespaces", "2");
    eventually("a nudge of the other", || {
        nudged(&world).contains(&"namespaces".to_owned())
    })
    .await;
    assert_eq!(nudged(&world), ["rolebindings", "namespaces"], "each once");
    let polls = world.fleet.polls();
    let back = polls.iter().rposition(|poll| poll.status == 503).unwrap() + 1;
    assert!(
        polls[back].body.get("since").is_none(),
        "a poll that waits would not tell that the API is back"
    );
}

/// Each call waits longer after each failure. Whichever gets through first tells the other.
#[tokio::test]
async fn a_report_that_is_accepted_ends_the_pause_of_the_poll() {
    let mut world = World::new().await;
    world.pace.first_retry = Duration::from_secs(3600);
    world.pace.longest_retry = Duration::from_secs(3600);
    let world = started(world).await;
    world.fleet.refuse_polls(&[(503, None)]);
    world.fleet.change("namespaces", "2");
    let refused = || world.fleet.polls().iter().rposition(|poll| poll.status == 503);
    eventually("a refused poll", || refused().is_some()).await;
    let polled_again = || refused().is_some_and(|refused| world.fleet.polls().len() > refused + 1);
    let mut failing = world.provider("rolebindings");
    failing["status"]["conditions"][0]["status"] = "False".into();
    // The first report may come before the reporter has heard of the refusal. Without reports the next poll would be in an hour.
    for report in 0.. {
        if polled_again() {
            break;
        }
        assert!(report < 100, "no report ended the pause");
        failing["status"]["conditions"][0]["message"] = report.to_string().into();
        world.kubernetes.put("resourcesetinputproviders", failing.clone());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    eventually("nudges", || nudged(&world).len() == 2).await;
}

#[tokio::test]
async fn too_many_polls_are_no_outage() {
    let world = world().await;
    let mut failing = world.provider("rolebindings");
    failing["status"]["conditions"][0]["status"] = "False".into();
    world.kubernetes.put("resourcesetinputproviders", failing);
    world
        .fleet
        .report_after(1, |call| call.body["providers"][1]["ready"] == false)
        .await;
    world.fleet.refuse_polls(&[(429, Some(1))]);
    world.fleet.change("other", "1");
    eventually("a poll after the refused one", || {
        let polls = world.fleet.polls();
        let refused = polls.iter().rposition(|poll| poll.status == 429);
        refused.is_some_and(|refused| polls.len() >= refused + 2)
    })
    .await;
    let polls = world.fleet.polls();
    let refused = polls.iter().rposition(|poll| poll.status == 429).unwrap();
    assert!(
        (polls[refused + 1].at - polls[refused].at).as_millis() >= 1000,
        "it waits as long as it was asked to"
    );
    world.fleet.change("namespaces", "2");
    eventually("a nudge", || !nudged(&world).is_empty()).await;
    assert_eq!(nudged(&world), ["namespaces"]);
}

#[tokio::test]
async fn replicas_that_disagree_do_not_cause_a_nudge_each_time() {
    let world = world().await;
    let most = world.pace.nudges as usize;
    for digest in 0..40 {
        let before = world.fleet.polls().len();
        world
            .fleet
            .change("namespaces", if digest % 2 == 0 { "2" } else { "1" });
        world.fleet.polled(before + 1).await;
    }
    assert_eq!(nudged(&world), vec!["namespaces"; most]);
}

#[tokio::test]
async fn without_the_right_to_patch_reports_go_on() {
    let world = world().await;
    world.kubernetes.forbid_patches();
    world.fleet.change("namespaces", "2");
    eventually("a patch that is refused", || world.kubernetes.refused_patches() == 1).await;
    world.kubernetes.put("helmreleases", crate::world::release("a", "True"));
    world
        .fleet
        .report_after(0, |call| call.object("platform-a").is_some())
        .await;
    // It is not tried again, until something changes.
    world.fleet.change("rolebindings", "2");
    eventually("a patch of the other", || world.kubernetes.refused_patches() == 2).await;
}

#[tokio::test]
async fn a_path_without_a_provider_is_not_nudged() {
    let world = world().await;
    world.fleet.change("without-provider", "1");
    world.fleet.polled(3).await;
    world.fleet.change("namespaces", "2");
    eventually("a nudge", || !nudged(&world).is_empty()).await;
    assert_eq!(nudged(&world), ["namespaces"]);
}
