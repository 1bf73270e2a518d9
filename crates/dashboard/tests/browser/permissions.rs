//! What a caller may not do, the page says.

use serde_json::json;
use testkit::READ;

use crate::browser::{Page, visit};
use crate::fleet::{Fleet, id};

/// Replaces a text in the editor of a cluster.
async fn edit(page: &Page, cluster: &str, from: &str, to: &str) {
    page.open(&format!("/ui/documents/clusters/{cluster}")).await;
    let text = page.run("return document.getElementById('body').value", vec![]).await;
    let text = text.as_str().unwrap();
    assert!(text.contains(from), "no {from:?} in {text}");
    page.fill("#body", &text.replace(from, to)).await;
}

#[test]
fn an_operator_changes_what_is_in_scope_and_is_told_what_is_not() {
    let fleet = Fleet::small();
    let operator = json!({"id": "dev-team", "role": "operator", "scope": {"clusters": "environment=dev", "kinds": []}});
    let (token, _) = fleet.identity(&operator);
    visit(&fleet.server, async |page| {
        page.sign_in(&token, "/ui").await;
        page.see_in(".who", "dev-team · operator").await;
        assert_eq!(page.count("header nav a[href='/ui/identities']").await, 0);

        // A cluster of prod has no buttons, and its document no editor.
        page.open(&format!("/ui/clusters/{}", id(0))).await;
        page.see_in("#facts", "prod").await;
        assert_eq!(page.count("main form[method=post]").await, 0);
        page.open(&format!("/ui/documents/clusters/{}", id(0))).await;
        page.see("You are operator of the clusters environment=dev: this one is outside your scope.")
            .await;
        assert_eq!(page.count("main form[method=post], main textarea").await, 0);

        // One of dev cannot be moved out of the scope.
        edit(page, &id(1), "environment: dev", "environment: prod").await;
        page.see_in("#check", "scope").await;
        page.press("Show the plan").await;
        page.see_in(".problem", &id(1)).await;
        page.see_in(".problem", "scope").await;
        assert!(!page.offers("Make this change").await);
        page.follow("Back").await;
        page.at(&format!("/ui/documents/clusters/{}", id(1))).await;

        edit(page, &id(1), "tier: silver", "tier: iron").await;
        page.see_in("#check", "Valid. Changes 1 document").await;
        page.press("Show the plan").await;
        page.confirm("an iron age").await;
        let changed = fleet.admin().get(&format!("/clusters/{}", id(1))).json();
        assert_eq!(changed["labels"]["tier"], "iron");
    });
}

#[test]
fn who_may_not_approve_is_offered_nothing_that_approves() {
    let fleet = Fleet::small();
    fleet.converge();
    let rollout = json!({
        "id": "podinfo-6-7-1",
        "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
        "waves": [{"name": "canary", "selector": "ring=canary"}, {"name": "rest", "approve": true}],
        "gate": {"told": "100%"},
    });
    fleet.admin().post("/rollouts", &rollout).expect(201);
    testkit::eventually("the first wave", || {
        fleet.admin().get("/rollouts/podinfo-6-7-1/status").json()["wave"] == "canary"
    });
    fleet.poll(&id(0));
    fleet.poll(&id(1));
    let operator = |id: &str, approve: bool, kinds: &[&str]| {
        let scope = json!({"clusters": "*", "kinds": kinds, "approve": approve});
        let (token, _) = fleet.identity(&json!({"id": id, "role": "operator", "scope": scope}));
        token
    };
    let both = ["rollouts", "platform_components"];
    let (cautious, bold) = (operator("cautious", false, &both), operator("bold", true, &both));
    let other = operator("other", true, &["rollouts", "namespaces"]);
    visit(&fleet.server, async |page| {
        for (token, offered) in [
            (&cautious, &["Pause…", "Revert…", "Abort…"][..]),
            (
                &bold,
                &[
                    "Approve the next wave…",
                    "Promote the next wave now…",
                    "Complete…",
                    "Abort…",
                ][..],
            ),
            (&other, &[][..]),
        ] {
            page.sign_in(token, "/ui/rollouts/podinfo-6-7-1").await;
            page.see_in("#status", "approval").await;
            for name in offered {
                page.wait(name, async || page.offers(name).await).await;
            }
            for name in [
                "Approve the next wave…",
                "Promote the next wave now…",
                "Complete…",
                "Abort…",
            ] {
                assert_eq!(page.offers(name).await, offered.contains(&name), "{name}");
            }
            page.press("Sign out").await;
            page.at("/ui/login").await;
        }
    });
}

#[test]
fn a_reader_sees_everything_and_no_button_that_writes() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        for path in [
            format!("/ui/clusters/{}", id(0)),
            "/ui/documents/platform_components/podinfo".to_owned(),
            "/ui/rollouts".to_owned(),
            "/ui/revisions/1".to_owned(),
        ] {
            page.open(&path).await;
            assert_eq!(page.count("main form[method=post], main textarea").await, 0, "{path}");
        }
    });
}
