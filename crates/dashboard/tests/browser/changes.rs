//! Changes: what is typed is checked, planned, confirmed, made, and undone.

use serde_json::json;
use testkit::WRITE;

use crate::browser::visit;
use crate::fleet::{Fleet, id};

const PODINFO: &str = "/ui/documents/platform_components/podinfo";
/// What the editor has for the version.
const TAG: &str = "oci_tag: \"6.7.0\"";

/// Replaces a text in the editor, as somebody who types does.
async fn edit(page: &crate::browser::Page, from: &str, to: &str) {
    let text = page.run("return document.getElementById('body').value", vec![]).await;
    let text = text.as_str().unwrap();
    assert!(text.contains(from), "no {from:?} in {text}");
    page.fill("#body", &text.replace(from, to)).await;
}

#[test]
fn a_document_is_checked_while_somebody_types_then_planned_made_and_undone() {
    let fleet = Fleet::small();
    fleet.converge();
    let tag = || fleet.admin().get("/platform_components/podinfo").json()["oci_tag"].clone();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, PODINFO).await;
        edit(page, TAG, "oci_tag: [").await;
        page.see_in("#check [role=alert]", "YAML").await;
        page.open(PODINFO).await;
        edit(page, TAG, "oci_tag: 6.7.1\nunknown_field: 1").await;
        page.see_in("#check", "unknown_field").await;
        page.open(PODINFO).await;
        edit(page, TAG, "oci_tag: 6.7.1").await;
        page.see_in("#check", "Valid. Changes 1 document, and what 12 clusters get")
            .await;

        page.press("Show the plan").await;
        page.see_in("h1", "Change platform_components/podinfo").await;
        page.see_in("pre.diff .removed", TAG).await;
        page.see_in("pre.diff .added", "oci_tag: \"6.7.1\"").await;
        page.see(&id(3)).await;
        assert_eq!(tag(), "6.7.0", "a plan changes nothing");

        page.confirm("tested in dev").await;
        page.at(&format!("{PODINFO}?done=2")).await;
        assert_eq!(tag(), "6.7.1");
        page.see("tested in dev").await;

        page.follow("See who has it").await;
        page.see_in("#progress", "12 behind").await;
        page.press("Undo this revision…").await;
        page.see_in("h1", "Undo revision 2").await;
        page.confirm("it was too early").await;
        assert_eq!(tag(), "6.7.0");
        page.see("undone by 3").await;

        page.press("Redo it…").await;
        page.see_in("h1", "Redo revision 2").await;
        page.confirm("now").await;
        assert_eq!(tag(), "6.7.1");
        page.open("/ui/revisions/1").await;
        page.press("Roll the whole fleet back to here…").await;
        page.see_in("h1", "Roll back to revision 1").await;
        page.confirm("start again").await;
        assert_eq!(tag(), "6.7.0");
    });
}

#[test]
fn a_token_is_revoked() {
    let fleet = Fleet::small();
    let (token, _) = fleet.identity(&json!({"id": "ann", "role": "reader"}));
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/identities").await;
        page.follow("ann").await;
        page.press("Revoke…").await;
        page.see_in("h1", "Revoke a token of ann").await;
        page.confirm("she left").await;
        page.see("It has none.").await;
    });
    fleet.server.with(&token).get("/whoami").expect(401);
}

#[test]
fn a_plan_can_be_cancelled() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, PODINFO).await;
        edit(page, TAG, "oci_tag: 6.7.1").await;
        page.press("Show the plan").await;
        page.see_in("h1", "Change platform_components/podinfo").await;
        page.follow("Cancel").await;
        page.at(PODINFO).await;
        assert_eq!(
            fleet.admin().get("/platform_components/podinfo").json()["oci_tag"],
            "6.7.0"
        );
    });
}

#[test]
fn what_clusters_lose_is_typed_before_it_is_deleted() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, PODINFO).await;
        page.press("Delete, with all references to it…").await;
        page.see("12 clusters lose something, and Flux deletes it there").await;
        page.fill("#reason", "nobody uses it").await;
        for wrong in ["", "11"] {
            page.fill("#removals", wrong).await;
            page.press("Make this change").await;
            let valid = page
                .run("return document.getElementById('removals').checkValidity()", vec![])
                .await;
            assert_eq!(valid, false, "{wrong:?}");
            assert_eq!(page.path().await, "/ui/plan");
        }
        fleet.admin().get("/platform_components/podinfo").expect(200);
        page.fill("#removals", "12").await;
        page.press("Make this change").await;
        page.see_in(".done", "The change is made").await;
        page.at("/ui/documents/platform_components?done=2").await;
        fleet.admin().get("/platform_components/podinfo").expect(404);
    });
}

#[test]
fn a_document_is_made_and_a_cluster_is_decommissioned() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/documents/namespaces").await;
        page.fill("#body", "id: billing\nlabels: {team: billing}\n").await;
        page.see_in("#check", "Valid. Changes 1 document. What clusters get stays the same.")
            .await;
        page.press("Show the plan").await;
        page.see_in("h1", "New document of namespaces").await;
        page.confirm("").await;
        page.follow("billing").await;
        page.see_in("h1", "namespaces/billing").await;

        page.open(&format!("/ui/clusters/{}", id(1))).await;
        page.press("Decommission…").await;
        page.see_in("h1", &format!("Decommission {}", id(1))).await;
        page.see("the cluster is deleted").await;
        page.fill("#removals", "1").await;
        page.confirm("moved").await;
        page.at("/ui?done=3").await;
        page.see("11 clusters").await;
    });
}

#[test]
fn a_guard_refuses_until_an_admin_overrides_it() {
    let fleet = Fleet::small();
    let guard = json!({"id": "freeze", "selector": "environment=prod", "changes": 0, "reason": "holidays"});
    fleet.admin().post("/guards", &guard).expect(201);
    let operator =
        json!({"id": "ops", "role": "operator", "scope": {"clusters": "*", "kinds": ["platform_components"]}});
    let (operator, _) = fleet.identity(&operator);
    visit(&fleet.server, async |page| {
        page.sign_in(&operator, PODINFO).await;
        edit(page, TAG, "oci_tag: 6.7.1").await;
        page.see_in("#check", "The guard freeze refuses this").await;
        page.press("Show the plan").await;
        page.see("A guard refuses this change. An admin can override it.").await;
        page.see("holidays").await;
        assert!(!page.offers("Make this change").await);

        page.press("Sign out").await;
        page.at("/ui/login").await;
        page.sign_in(WRITE, PODINFO).await;
        edit(page, TAG, "oci_tag: 6.7.1").await;
        page.press("Show the plan").await;
        page.see("The guard freeze refuses this").await;
        page.fill("#reason", "a security fix").await;
        page.press("Make this change").await;
        assert_eq!(page.path().await, "/ui/plan", "the box must be ticked");
        page.click_at("input[name=overrides]").await;
        page.press("Make this change").await;
        page.see_in(".done", "The change is made").await;
        assert_eq!(
            fleet.admin().get("/platform_components/podinfo").json()["oci_tag"],
            "6.7.1"
        );
        page.open("/ui/revisions").await;
        page.see_in("#revisions", "overrode freeze").await;
    });
}

#[test]
fn profiles_guards_and_identities_are_made_changed_and_deleted() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui").await;
        for (kind, list, text, from, to) in [
            (
                "profiles",
                "/ui/documents/profiles",
                "id: gold\nselector: tier=gold\ndescription: the best\n",
                "the best",
                "the very best",
            ),
            (
                "guards",
                "/ui/guards",
                "id: gold\nselector: tier=gold\nchanges: 1\nreason: careful\n",
                "careful",
                "very careful",
            ),
            (
                "identities",
                "/ui/identities",
                "id: gold\nrole: reader\ndescription: a robot\n",
                "a robot",
                "a tame robot",
            ),
        ] {
            page.open(list).await;
            page.fill("#body", text).await;
            page.press("Show the plan").await;
            page.see_in("h1", &format!("New document of {kind}")).await;
            page.confirm("").await;
            page.follow("gold").await;
            page.see_in("h1", &format!("{kind}/gold")).await;
            edit(page, from, to).await;
            page.press("Show the plan").await;
            page.see_in(".lead", "Changes 1 document").await;
            // Documents of identities are in no plan: they have the digests of tokens.
            if kind != "identities" {
                page.see_in("pre.diff .added", to).await;
            }
            page.confirm("").await;
            assert!(
                fleet
                    .admin()
                    .get(&format!("/{kind}/gold"))
                    .expect(200)
                    .text()
                    .contains(to)
            );
            page.press("Delete…").await;
            page.see_in("h1", &format!("Delete {kind}/gold")).await;
            page.confirm("").await;
            page.see_in("#documents", "There are none.").await;
            fleet.admin().get(&format!("/{kind}/gold")).expect(404);
        }
    });
}
