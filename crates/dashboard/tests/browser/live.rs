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

#[test]
fn ages_move_when_nothing_changes() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        fleet.report(&id(0), Outcome::Ready);
        page.sign_in(READ, &format!("/ui/clusters/{}", id(0))).await;
        mark(page).await;
        page.run("live.aging = 200; live.close(); live.open(false)", vec![])
            .await;
        for age in ["2s ago", "3s ago", "4s ago"] {
            page.see_in("#facts", age).await;
        }
        assert_not_reloaded(page).await;
    });
}

#[test]
fn what_is_selected_stays_until_it_no_longer_is() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, &format!("/ui/clusters/{}", id(0))).await;
        page.see_in("#facts", "never").await;
        page.run(
            "getSelection().selectAllChildren(document.querySelector('#facts dd'))",
            vec![],
        )
        .await;
        fleet.report(&id(0), Outcome::Fails("podinfo", "InstallFailed", "no such chart"));
        page.see_in("#view", "no such chart").await;
        let selected = page.run("return getSelection().toString()", vec![]).await;
        assert!(selected.as_str().unwrap().contains("never"), "{selected}");
        page.run("getSelection().removeAllRanges()", vec![]).await;
        page.see_in("#facts", "failing").await;
    });
}

#[test]
fn the_focus_stays_on_the_link_that_had_it() {
    let fleet = Fleet::of(16);
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        // Several links have the same number as their text.
        let focus = "const links = [...document.querySelectorAll('#environments a')].filter((one) => one.textContent === arguments[0]); \
                     links.at(-1).focus(); return [links.length, links.at(-1).href]";
        let found = page.run(focus, vec!["2".into()]).await;
        assert!(found[0].as_u64().unwrap() > 1, "{found}");
        fleet.report(&id(0), Outcome::Ready);
        page.see_in(".tile.converged", "1").await;
        let focused = page.run("return document.activeElement.href", vec![]).await;
        assert_eq!(focused, found[1]);
    });
}

#[test]
fn lists_of_documents_follow_and_an_editor_says_when_its_document_changed() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/guards").await;
        mark(page).await;
        let guard = json!({"id": "freeze", "selector": "environment=prod", "changes": 3, "reason": "holidays"});
        fleet.admin().post("/guards", &guard).expect(201);
        page.see_in("#documents", "freeze").await;
        assert_not_reloaded(page).await;

        page.open("/ui/documents/guards/freeze").await;
        mark(page).await;
        fleet.patch("/guards/freeze", &json!({"changes": 2}));
        page.see_in("[data-stale]", "Somebody changed this document meanwhile")
            .await;
        page.see_in("#changes", "by the API").await;
        assert_not_reloaded(page).await;
        // The text that was opened is of the version before.
        page.press("Show the plan").await;
        page.see("Somebody else changed this document").await;
        page.see_in("pre.diff .removed", "changes: 2").await;
        page.press("Show the plan").await;
        page.confirm("as it was").await;
        assert_eq!(fleet.admin().get("/guards/freeze").json()["changes"], 3);
    });
}

#[test]
fn a_text_is_not_lost_when_the_session_ends() {
    let fleet = Fleet::small();
    let (token, token_id) = fleet.identity(&json!({"id": "ann", "role": "admin"}));
    visit(&fleet.server, async |page| {
        page.tolerate("EventSource's response has a MIME type");
        page.sign_in(&token, "/ui/documents/namespaces").await;
        page.fill("#body", "id: mine\n").await;
        mark(page).await;
        fleet
            .admin()
            .delete(&format!("/identities/ann/tokens/{token_id}"))
            .expect(204);
        page.see_in("#live", "Your session has ended: sign in again in another tab")
            .await;
        let typed = page.run("return document.getElementById('body').value", vec![]).await;
        assert_eq!(typed, "id: mine\n");
        assert_not_reloaded(page).await;
    });
}

#[test]
fn an_editor_has_one_check_under_way() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/documents/namespaces").await;
        let watch = "window.checks = []; const send = window.fetch; window.fetch = (address, options) => { \
                     if (address === '/ui/check') checks.push(options.signal); return send(address, options); }";
        page.run(watch, vec![]).await;
        let given_up = async || page.run("return checks.map((signal) => signal.aborted)", vec![]).await;
        for (text, expected) in [("id: a", json!([false])), ("id: b", json!([true, false]))] {
            let type_in = "const field = document.getElementById('body'); field.value = arguments[0]; \
                           field.dispatchEvent(new Event('input', { bubbles: true }))";
            page.run(type_in, vec![text.into()]).await;
            page.wait("a check", async || given_up().await == expected).await;
        }
        page.see_in("#check", "Valid").await;
    });
}
