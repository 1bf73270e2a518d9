//! An open page shows what changes, without being loaded again.

use serde_json::json;
use testkit::{READ, WRITE};

use crate::browser::{Page, visit};
use crate::fleet::{Fleet, Outcome, id};

/// Leaves a mark that a reload would remove.
async fn mark(page: &Page) {
    page.run("window.marked = true", vec![]).await;
}

async fn assert_not_reloaded(page: &Page) {
    assert_eq!(
        page.run("return window.marked === true", vec![]).await,
        true,
        "the page was loaded again"
    );
}

#[test]
fn counts_follow_polls_and_changes() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        page.see_in(".tile.never", "12").await;
        mark(page).await;
        fleet.report(&id(0), Outcome::Ready);
        page.see_in(".tile.converged", "1").await;
        page.see_in(".tile.never", "11").await;
        fleet.patch("/platform_components/podinfo", &json!({"oci_tag": "6.7.1"}));
        page.see_in(".tile.behind", "1").await;
        page.see_in("#overview", "at revision 2").await;
        // The map follows, too.
        page.see_in("#map", "1 behind").await;
        assert_not_reloaded(page).await;
    });
}

#[test]
fn the_log_and_the_page_of_a_cluster_follow() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui/revisions").await;
        mark(page).await;
        fleet.patch("/platform_components/podinfo", &json!({"oci_tag": "6.7.1"}));
        page.see_in("#revisions", "by the API").await;
        assert_not_reloaded(page).await;

        page.open(&format!("/ui/clusters/{}", id(0))).await;
        page.see_in("#facts", "never").await;
        mark(page).await;
        fleet.report(&id(0), Outcome::Fails("podinfo", "InstallFailed", "no such chart"));
        page.see_in("#view", "no such chart").await;
        page.see_in("#facts", "failing").await;
        assert_not_reloaded(page).await;
    });
}

#[test]
fn what_somebody_opened_stays_open_and_keeps_the_focus() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, &format!("/ui/clusters/{}?tab=inputs", id(1))).await;
        page.click("//summary[normalize-space()='podinfo']").await;
        page.see_in("#view details[open]", "6.7.0").await;
        fleet.patch("/platform_components/podinfo", &json!({"oci_tag": "6.7.1"}));
        page.see_in("#view details[open]", "6.7.1").await;
        let focused = page.run("return document.activeElement.textContent", vec![]).await;
        assert_eq!(focused, "podinfo");
    });
}

#[test]
fn what_somebody_types_is_not_replaced() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/rollouts").await;
        page.fill("#body", "id: mine\n").await;
        let rollout = json!({
            "id": "theirs", "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
            "waves": [{"name": "all"}], "gate": {"converged": "100%"},
        });
        fleet.admin().post("/rollouts", &rollout).expect(201);
        page.see_in("#running", "theirs").await;
        let typed = page.run("return document.getElementById('body').value", vec![]).await;
        assert_eq!(typed, "id: mine\n");
    });
}

#[test]
fn a_page_says_when_the_server_is_away() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.tolerate("ERR_");
        page.sign_in(READ, "/ui").await;
        page.see("12 clusters").await;
        assert_eq!(page.text_of("#live").await, "");
        fleet.server.process.signal("KILL");
        page.see_in("#live", "No connection: what you see may be old.").await;
        page.see("12 clusters").await;
    });
}

#[test]
fn a_hidden_page_closes_its_stream() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        page.see_in(".tile.never", "12").await;
        let is_open = async || page.run("return live.source !== null", vec![]).await == true;
        page.wait("a stream", is_open).await;
        let hide = "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true }); \
                    document.dispatchEvent(new Event('visibilitychange'))";
        page.run(hide, vec![true.into()]).await;
        assert!(!is_open().await, "a hidden page needs none");
        fleet.report(&id(0), Outcome::Ready);
        // Looked at again, it shows what it missed.
        page.run(hide, vec![false.into()]).await;
        page.see_in(".tile.converged", "1").await;
        assert!(is_open().await);
    });
}

#[test]
fn what_changed_before_the_stream_was_open_is_shown() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        page.see_in(".tile.never", "12").await;
        // As a page that came over a slow line: it was made before something changed, and its stream is opened after the server noticed.
        page.run("live.close()", vec![]).await;
        fleet.report(&id(0), Outcome::Ready);
        testkit::eventually("the count", || {
            fleet.admin().get("/status?limit=0").json()["counts"]["converged"] == 1
        });
        page.run("live.open(false)", vec![]).await;
        page.see_in(".tile.converged", "1").await;
    });
}
