//! A rollout from its start to its end, by the buttons of its page.

use testkit::WRITE;

use crate::browser::{Page, visit};
use crate::fleet::{Fleet, Outcome, id};

const ROLLOUT: &str = "/ui/rollouts/podinfo-6-7-1";
/// The clusters of the first wave.
const CANARIES: [usize; 2] = [0, 1];

const DOCUMENT: &str = "\
id: podinfo-6-7-1
description: podinfo 6.7.1
operations:
  - op: merge
    kind: platform_components
    id: podinfo
    value:
      oci_tag: 6.7.1
waves:
  - name: canary
    selector: ring=canary
  - name: rest
    approve: true
gate:
  converged: 100%
";

/// Starts the rollout from its document.
async fn start(page: &Page) {
    page.sign_in(WRITE, "/ui/rollouts").await;
    page.see("No rollout is under way.").await;
    page.fill("#body", DOCUMENT).await;
    page.see_in("#check", "Valid.").await;
    page.press("Show the plan").await;
    page.see("Waves of podinfo-6-7-1").await;
    page.confirm("a new version").await;
    page.open(ROLLOUT).await;
    page.see_in("#status", "wave canary").await;
}

/// Presses a button of the rollout, and confirms its plan.
async fn act(page: &Page, button: &str, title: &str) {
    page.wait(&format!("the button {button}"), async || page.offers(button).await)
        .await;
    page.press(button).await;
    page.see_in("h1", title).await;
    page.confirm("by hand").await;
    page.see_in("h1", "podinfo-6-7-1").await;
}

#[test]
fn a_rollout_waits_for_its_gate_and_for_approval_and_completes() {
    let fleet = Fleet::small();
    fleet.converge();
    visit(&fleet.server, async |page| {
        start(page).await;
        page.see_in("#status", "0 of 2").await;
        for n in CANARIES {
            fleet.report(&id(n), Outcome::Ready);
        }
        page.see_in("#status", "approval").await;
        act(page, "Approve the next wave…", "Approve podinfo-6-7-1").await;
        page.see_in("#status", "wave rest").await;
        fleet.converge();
        page.see_in("#status", "completed").await;
        assert_eq!(
            fleet.admin().get("/platform_components/podinfo").json()["oci_tag"],
            "6.7.1"
        );
        page.open("/ui/rollouts").await;
        page.see_in("#running", "Over").await;
    });
}

#[test]
fn a_rollout_is_paused_resumed_promoted_and_reverted() {
    let fleet = Fleet::small();
    fleet.converge();
    visit(&fleet.server, async |page| {
        start(page).await;
        act(page, "Pause…", "Pause podinfo-6-7-1").await;
        page.see_in("#status", "paused").await;
        assert!(!page.offers("Pause…").await);
        act(page, "Resume…", "Resume podinfo-6-7-1").await;
        page.see_in("#status", "running").await;
        act(page, "Promote the next wave now…", "Promote podinfo-6-7-1").await;
        page.see_in("#status", "wave rest").await;
        assert_eq!(fleet.poll(&id(2))["inputs"][2]["source"]["oci_tag"], "6.7.1");
        act(page, "Revert…", "Revert podinfo-6-7-1").await;
        page.see_in("#status", "reverted").await;
        assert_eq!(fleet.poll(&id(2))["inputs"][2]["source"]["oci_tag"], "6.7.0");
    });
}

#[test]
fn a_rollout_is_completed_by_hand_and_another_one_aborted() {
    let fleet = Fleet::small();
    fleet.converge();
    let tag = || fleet.admin().get("/platform_components/podinfo").json()["oci_tag"].clone();
    visit(&fleet.server, async |page| {
        start(page).await;
        act(page, "Complete…", "Complete podinfo-6-7-1").await;
        page.see_in("#status", "completed").await;
        assert_eq!(tag(), "6.7.1");
    });
    let fleet = Fleet::small();
    fleet.converge();
    visit(&fleet.server, async |page| {
        start(page).await;
        act(page, "Abort…", "Abort podinfo-6-7-1").await;
        page.see_in("#status", "aborted").await;
        assert_eq!(
            fleet.admin().get("/platform_components/podinfo").json()["oci_tag"],
            "6.7.0"
        );
        assert_eq!(fleet.poll(&id(0))["inputs"][2]["source"]["oci_tag"], "6.7.0");
    });
}

#[test]
fn a_cluster_that_leaves_a_promoted_wave_is_counted_and_the_number_is_typed() {
    let fleet = Fleet::small();
    fleet.converge();
    visit(&fleet.server, async |page| {
        start(page).await;
        page.open(&format!("/ui/documents/clusters/{}", id(0))).await;
        let text = page.run("return document.getElementById('body').value", vec![]).await;
        let text = text.as_str().unwrap().replace("ring: canary", "ring: main");
        page.fill("#body", &text).await;
        page.see_in("#check", "1 cluster leaves a promoted wave").await;
        page.press("Show the plan").await;
        page.see("1 cluster leaves a promoted wave").await;
        page.fill("#demotions", "1").await;
        page.confirm("no longer a canary").await;
        assert_eq!(fleet.poll(&id(0))["inputs"][2]["source"]["oci_tag"], "6.7.0");
    });
}

#[test]
fn a_version_that_fails_halts_the_rollout_and_the_page_says_why() {
    let fleet = Fleet::small();
    fleet.converge();
    visit(&fleet.server, async |page| {
        start(page).await;
        fleet.report(&id(0), Outcome::Fails("podinfo", "UpgradeFailed", "timed out"));
        page.see_in("#status", "halted").await;
        page.see_in("#status", "too many failures").await;
        page.follow("Where podinfo fails, and why").await;
        page.see_in("#list", "UpgradeFailed: timed out").await;
        page.open(ROLLOUT).await;
        page.wait("the button to resume", async || page.offers("Resume…").await)
            .await;
        page.open("/ui/versions").await;
        page.see_in("#versions", "rollout podinfo-6-7-1 2").await;
    });
}
