//! When and what is reported.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, eventually, ready, release};

#[tokio::test]
async fn everything_at_the_start_and_changes_at_once() {
    let mut world = World::new().await;
    world.kubernetes.put("helmreleases", release("a", "True"));
    world
        .kubernetes
        .put("helmreleases", ready("HelmRelease", "foreign", "True"));
    world
        .kubernetes
        .put("helmcharts", ready("HelmChart", "flux-system-platform-a", "True"));
    world
        .kubernetes
        .put("resourcesetinputproviders", world.provider("namespaces"));
    let mut set = ready("ResourceSet", "namespaces", "True");
    set["spec"] = json!({"inputsFrom": [{"name": "namespaces"}]});
    world.kubernetes.put("resourcesets", set);
    world.start().await;

    let (n, first) = world.fleet.report_after(0, |_| true).await;
    assert!(first.is_full());
    assert_eq!(n, 1);
    assert_eq!(first.token, "Bearer secret");
    assert_eq!(first.agent, first.body["reporter"].as_str().unwrap());
    assert!(first.agent.starts_with("flux-resourceset-reporter/"));
    let expected = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system", "name": "platform-a",
        "uid": "uid-platform-a", "resourceVersion": "2", "ready": true, "reason": "Because", "message": "of it",
        "version": "6.7.1", "input": "platform-components/a", "desired": "00000000000000ff",
        "at": "2026-11-16T10:00:00Z", "deleted": false,
    });
    assert_eq!(first.object("platform-a"), Some(&expected));
    assert_eq!(
        first.object("flux-system-platform-a").unwrap()["input"],
        "platform-components/a"
    );
    assert!(first.object("namespaces").is_some());
    assert!(first.object("foreign").is_none());
    let provider = json!({"namespace": "flux-system", "name": "namespaces", "ready": true, "reason": "Because", "message": "of it"});
    assert_eq!(first.body["providers"], json!([provider]));

    // A change is reported alone; what is not ours is not.
    world
        .kubernetes
        .put("helmreleases", ready("HelmRelease", "foreign", "False"));
    world.kubernetes.put("helmreleases", release("a", "False"));
    let (n, change) = world.fleet.report_after(n, |_| true).await;
    assert!(!change.is_full());
    assert_eq!(change.objects().len(), 1, "{change:#?}");
    assert_eq!(change.object("platform-a").unwrap()["ready"], false);

    // An object that comes and one that goes.
    world.kubernetes.put("kustomizations", {
        let mut new = release("b", "Unknown");
        new["kind"] = "Kustomization".into();
        new
    });
    let (n, change) = world
        .fleet
        .report_after(n, |call| call.object("platform-b").is_some())
        .await;
    assert_eq!(change.object("platform-b").unwrap()["ready"], json!(null));
    world.kubernetes.delete("kustomizations", "platform-b");
    let (n, change) = world.fleet.report_after(n, |_| true).await;
    let gone = change.object("platform-b").unwrap();
    assert_eq!(
        (&gone["deleted"], &gone["kind"]),
        (&json!(true), &json!("Kustomization"))
    );

    // A provider that fails.
    let mut provider = world.provider("namespaces");
    provider["status"]["conditions"][0]["status"] = "False".into();
    world.kubernetes.put("resourcesetinputproviders", provider);
    let (n, change) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(change.body["providers"][0]["ready"], false);
    assert!(change.objects().is_empty());

    // A provider that is gone, and with it our part in the ResourceSet: only a report of everything tells that.
    world.kubernetes.delete("resourcesetinputproviders", "namespaces");
    let (_, whole) = world.fleet.report_after(n, |_| true).await;
    assert!(whole.is_full() && whole.object("platform-a").is_some() && whole.object("namespaces").is_none());
    assert_eq!(whole.body["providers"], json!([]));
}

#[tokio::test]
async fn changes_that_follow_each_other_are_one_report() {
    let mut world = World::new().await;
    // Longer than the loop takes, even on a busy machine.
    world.pace.quiet = Duration::from_secs(2);
    world.pace.collect = Duration::from_secs(10);
    world.start().await;
    let (n, _) = world.fleet.report_after(0, |_| true).await;
    for id in 0..20 {
        world.kubernetes.put("helmreleases", release(&id.to_string(), "True"));
    }
    world.kubernetes.put("helmreleases", release("0", "False"));
    let (_, change) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(change.objects().len(), 20);
    assert_eq!(change.object("platform-0").unwrap()["ready"], false, "the newest state");
}

#[tokio::test]
async fn a_kind_without_a_definition_is_left_out_and_looked_for_again() {
    let mut world = World::new().await;
    world.kubernetes.remove_kind("buckets");
    world.kubernetes.remove_kind("kustomizations");
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.start().await;
    let (n, first) = world.fleet.report_after(0, |_| true).await;
    assert!(first.is_full() && first.objects().len() == 1, "{first:#?}");

    world.kubernetes.add_kind("kustomizations");
    let mut object = release("b", "True");
    object["kind"] = "Kustomization".into();
    world.kubernetes.put("kustomizations", object);
    let (n, change) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(change.object("platform-b").unwrap()["kind"], "Kustomization");

    // The definition is deleted, with its objects.
    world.kubernetes.remove_kind("kustomizations");
    let (_, change) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(change.object("platform-b").unwrap()["deleted"], true);
}

#[tokio::test]
async fn a_kind_that_may_not_be_read_is_left_out() {
    let mut world = World::new().await;
    world.kubernetes.refuse("gitrepositories", Some(403));
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.start().await;
    let (_, first) = world.fleet.report_after(0, |_| true).await;
    assert!(first.is_full() && first.objects().len() == 1);
}

#[tokio::test]
async fn nothing_is_reported_as_everything_while_a_kind_cannot_be_seen() {
    let mut world = World::new().await;
    world.config.full_every = Duration::from_millis(100);
    world.kubernetes.refuse("helmreleases", Some(500));
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.kubernetes.put("kustomizations", release("b", "True"));
    world.start().await;
    eventually("the other kinds are listed", || {
        world.kubernetes.lists("kustomizations") > 0
    })
    .await;
    world.kubernetes.refuse("helmreleases", None);
    let (_, first) = world.fleet.report_after(0, |_| true).await;
    assert_eq!(first.objects().len(), 2, "the first one has everything");

    // The watch fails later, or the right to it is taken away: what is seen of other kinds is still told, but no report claims to be complete.
    for status in [500, 403] {
        let before = world.fleet.reports().len();
        world.kubernetes.refuse("helmreleases", Some(status));
        world.kubernetes.put("kustomizations", release("b", "False"));
        let lost = |call: &crate::fleet::Call| !call.is_full() && call.object("platform-b").is_some();
        let (n, _) = world.fleet.report_after(before.saturating_sub(1), lost).await;
        world.kubernetes.put("kustomizations", release("b", "True"));
        let (n, _) = world.fleet.report_after(n, |_| true).await;
        world.kubernetes.refuse("helmreleases", None);
        let (_, healed) = world.fleet.report_after(n, crate::fleet::Call::is_full).await;
        assert_eq!(healed.objects().len(), 2, "nothing was taken for deleted");
    }
    let told = world.fleet.reports();
    assert!(
        told.iter()
            .flat_map(|call| call.objects())
            .all(|object| object["deleted"] == false)
    );
}

#[tokio::test]
async fn everything_again_after_a_while() {
    let mut world = World::new().await;
    world.config.full_every = Duration::from_millis(50);
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.start().await;
    let (n, _) = world.fleet.report_after(2, |_| true).await;
    assert!(
        world.fleet.reports()[..n]
            .iter()
            .all(|call| call.is_full() && call.objects().len() == 1)
    );
}

#[tokio::test]
async fn after_an_outage_the_newest_state_as_a_whole() {
    let mut world = World::new().await;
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.start().await;
    let (n, _) = world.fleet.report_after(0, |_| true).await;
    world
        .fleet
        .refuse(&[(503, None), (502, None), (503, None), (500, None)]);
    world.kubernetes.put("helmreleases", release("a", "False"));
    let (n, refused) = world.fleet.report_after(n, |_| true).await;
    assert!(!refused.is_full() && refused.status == 503);
    world.kubernetes.put("helmreleases", release("b", "True"));
    let (n, accepted) = world.fleet.report_after(n, |call| call.status == 202).await;
    assert!(accepted.is_full(), "{accepted:#?}");
    let (_, whole) = match accepted.objects().len() {
        // The reporter may have tried again before it saw the second release.
        1 => {
            world
                .fleet
                .report_after(n, |call| call.object("platform-b").is_some())
                .await
        }
        _ => (n, accepted.clone()),
    };
    assert_eq!(accepted.object("platform-a").unwrap()["ready"], false);
    assert_eq!(whole.object("platform-b").unwrap()["ready"], true);
    // In between, every try was a whole report.
    let tries = world.fleet.reports();
    assert!(tries[2..n].iter().all(crate::fleet::Call::is_full), "{tries:#?}");
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it_and_then_only_the_changes() {
    let mut world = World::new().await;
    world.kubernetes.put("helmreleases", release("a", "True"));
    world.start().await;
    let (n, _) = world.fleet.report_after(0, |_| true).await;
    world.fleet.refuse(&[(429, Some(1))]);
    world.kubernetes.put("helmreleases", release("a", "False"));
    let (n, refused) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(refused.status, 429);
    let (_, accepted) = world.fleet.report_after(n, |_| true).await;
    let waited = accepted.at - refused.at;
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert!(!accepted.is_full(), "the server has the rest");
    assert_eq!(accepted.object("platform-a").unwrap()["ready"], false);
}
