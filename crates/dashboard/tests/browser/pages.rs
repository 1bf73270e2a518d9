//! Every page: it is there, it is accessible in light and dark, its links lead somewhere.

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::{Value, json};
use testkit::WRITE;

use crate::browser::{Page, visit};
use crate::driver;
use crate::fleet::{Fleet, Outcome, id};

/// A fleet in which every page has something to show: failures, silence, a rollout, guards, profiles, identities, history.
fn eventful() -> Fleet {
    let fleet = Fleet::small();
    for n in 0..6 {
        fleet.report(&id(n), Outcome::Ready);
    }
    let outcome = Outcome::Fails(
        "podinfo",
        "UpgradeFailed",
        "Helm upgrade failed: timed out waiting for the condition",
    );
    fleet.report(&id(6), outcome);
    fleet.poll(&id(7));
    let admin = fleet.admin();
    admin.post("/profiles", &profile()).expect(201);
    let guard =
        json!({"id": "small-steps", "selector": "environment=prod", "changes": 100, "reason": "the year's end"});
    admin.post("/guards", &guard).expect(201);
    admin.post("/rollouts", &rollout()).expect(201);
    fleet.identity(&json!({"id": "ann", "role": "operator", "scope": {"clusters": "environment=dev", "kinds": []}}));
    fleet.patch(
        &format!("/clusters/{}", id(1)),
        &json!({"web_url": "https://flux.example.com"}),
    );
    fleet.patch("/platform_components/kyverno", &json!({"oci_tag": "3.3.5"}));
    fleet
}

fn profile() -> Value {
    json!({"id": "gold", "selector": "tier=gold", "namespaces": [{"id": "monitoring"}], "rolebindings": [], "platform_components": []})
}

fn rollout() -> Value {
    json!({
        "id": "podinfo-6-7-1", "description": "podinfo 6.7.1",
        "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
        "waves": [{"name": "canary", "selector": "ring=canary"}, {"name": "rest", "approve": true}],
        "gate": {"converged": "95%", "soak": "30m"},
    })
}

/// Pages with their headings.
fn pages() -> Vec<(String, String)> {
    let cluster = id(6);
    let fixed = [
        ("/ui", "Fleet"),
        (
            "/ui?q=environment%3Dprod,tier%3Dgold&state=failing,silent,never,behind&by=region",
            "Fleet",
        ),
        ("/ui?component=podinfo&kind=platform-components&state=failing", "Fleet"),
        ("/ui?q=nothing-has-this-name", "Fleet"),
        (
            "/ui?component=podinfo&kind=platform-components&reason=UpgradeFailed&version=6.7.0",
            "Fleet",
        ),
        ("/ui/documents/clusters", "clusters"),
        ("/ui/problems", "Problems"),
        ("/ui/versions", "Versions"),
        ("/ui/versions?component=traefik", "Who runs traefik?"),
        ("/ui/rollouts", "Rollouts"),
        ("/ui/rollouts/podinfo-6-7-1", "podinfo-6-7-1"),
        ("/ui/revisions", "Revisions"),
        ("/ui/revisions/2", "Revision 2"),
        ("/ui/documents", "Documents"),
        ("/ui/documents/platform_components", "platform_components"),
        (
            "/ui/documents/platform_components/podinfo",
            "platform_components/podinfo",
        ),
        ("/ui/documents/profiles", "profiles"),
        ("/ui/documents/kinds/clusters", "kinds/clusters"),
        ("/ui/guards", "guards"),
        ("/ui/documents/guards/small-steps", "guards/small-steps"),
        ("/ui/identities", "identities"),
        ("/ui/documents/identities/ann", "identities/ann"),
    ];
    let tabs = ["state", "events", "inputs", "objects", "document", "history"];
    let tabs = tabs.map(|tab| (format!("/ui/clusters/{cluster}?tab={tab}"), cluster.clone()));
    let fixed = fixed.map(|(path, heading)| (path.to_owned(), heading.to_owned()));
    fixed.into_iter().chain(tabs).collect()
}

/// What axe-core finds on the page that is shown, in light and in dark.
pub(crate) async fn check_accessibility(page: &Page) {
    const RUN: &str = "const done = arguments[arguments.length - 1];
        axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations']})
          .then((found) => done(found.violations.map((one) => `${one.id}: ${one.help}: ` + one.nodes.map((node) => node.html.slice(0, 200)).join(' | '))),
            (error) => done([String(error)]))";
    page.run(driver::axe(), vec![]).await;
    for scheme in ["light", "dark"] {
        page.colours(scheme).await;
        let found = page.browser.execute_async(RUN, vec![]).await.unwrap();
        assert_eq!(found, json!([]), "{} in {scheme}", page.path().await);
    }
}

/// Opens every third page, so that three tests can share the work.
fn check_pages(part: usize) {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui").await;
        for (path, heading) in pages().iter().skip(part).step_by(3) {
            page.open(path).await;
            assert_eq!(page.text_of("h1").await, *heading, "{path}");
            assert_eq!(page.count("h1").await, 1, "{path}");
            check_accessibility(page).await;
        }
    });
}

#[test]
fn pages_are_accessible_1_of_3() {
    check_pages(0);
}

#[test]
fn pages_are_accessible_2_of_3() {
    check_pages(1);
}

#[test]
fn pages_are_accessible_3_of_3() {
    check_pages(2);
}

#[test]
fn plans_problems_and_the_form_for_signing_in_are_accessible() {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.tolerate("404 (Not Found)");
        page.open("/ui/login").await;
        check_accessibility(page).await;
        page.sign_in(WRITE, "/ui/nothing-here").await;
        page.see("there is no page /ui/nothing-here").await;
        check_accessibility(page).await;
        page.open("/ui/documents/platform_components/traefik").await;
        page.press("Delete, with all references to it…").await;
        page.see("lose something").await;
        check_accessibility(page).await;
        page.open("/ui/documents/platform_components/podinfo").await;
        page.fill("#body", "id: podinfo\nwrong: true\n").await;
        page.see_in("#check", "wrong").await;
        check_accessibility(page).await;
    });
}

#[test]
fn the_navigation_leads_to_every_page_and_says_where_one_is() {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui").await;
        let places = [
            "Problems",
            "Versions",
            "Rollouts",
            "Revisions",
            "Documents",
            "Guards",
            "Identities",
            "Fleet",
        ];
        for place in places {
            page.follow(place).await;
            page.see_in("nav [aria-current=page]", place).await;
            assert_eq!(page.text_of("h1").await.to_lowercase(), place.to_lowercase());
            assert!(
                page.browser
                    .title()
                    .await
                    .unwrap()
                    .to_lowercase()
                    .starts_with(&place.to_lowercase())
            );
        }
        assert_eq!(page.count("header nav a").await, places.len() as u64);
    });
}

#[test]
fn every_view_of_a_cluster_shows_what_is_known() {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui").await;
        page.follow(&id(6)).await;
        page.see_in("#facts", "failing").await;
        page.see_in("#view", "Helm upgrade failed: timed out").await;
        page.follow("Where else it fails").await;
        page.see("Clusters on which podinfo fails with UpgradeFailed.").await;
        page.open(&format!("/ui/clusters/{}", id(6))).await;
        for (tab, content) in [
            ("Events", "UpgradeFailed Helm upgrade failed: timed out"),
            ("Inputs", "platform-components"),
            ("Objects", "kind: HelmRelease"),
            ("Document", "cluster_dns:"),
            ("History", "clusters +12"),
            ("State", "UpgradeFailed"),
        ] {
            page.follow(tab).await;
            page.see_in(".tabs [aria-current=page]", tab).await;
            page.see_in("#view", content).await;
        }
        page.follow("Inputs").await;
        page.see_in(".tabs [aria-current=page]", "Inputs").await;
        page.click_at("#view summary").await;
        page.see_in("#view details[open]", "namespaces/ingress").await;
    });
}

#[test]
fn problems_versions_and_the_fleet_lead_to_the_clusters_in_question() {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/problems").await;
        page.see_in(".cause", "UpgradeFailed podinfo 6.7.0 on 1 cluster").await;
        page.follow("1 cluster").await;
        page.see("Clusters on which podinfo 6.7.0 fails with UpgradeFailed.")
            .await;
        page.see_in("#list", &id(6)).await;
        page.see_in("#list", "UpgradeFailed: Helm upgrade failed: timed out")
            .await;
        page.see_count("#list tbody tr", 1).await;
        page.follow("Show all clusters").await;
        page.see_in("#list", &id(7)).await;

        // Who never polled, of those that a selector matches.
        page.open("/ui/problems?q=tier%3Dsilver").await;
        page.see_in("#problems", "never").await;
        let number = page.text_of("#problems tbody tr:last-child .number").await;
        page.click_at("#problems tbody tr:last-child .number a").await;
        page.see_in("#list", "never").await;
        page.see_count("#list tbody tr", number.parse().unwrap()).await;

        // A part of a name is kept when an environment is chosen.
        page.open("/ui?q=eu-west").await;
        page.click_at("#environments tbody th a").await;
        page.at("/ui?q=eu-west&environment=dev").await;
        page.see_count("#list tbody tr", 2).await;

        page.open("/ui/versions").await;
        page.follow("32.1.0").await;
        page.see_in("h1", "Who runs traefik 32.1.0?").await;
        page.see_in("#holders", &id(5)).await;

        page.open("/ui").await;
        page.click_at(".tile.failing").await;
        page.at("/ui?state=failing").await;
        page.see_count("#list tbody tr", 1).await;
    });
}

#[test]
fn a_search_is_completed_with_labels_and_every_search_has_an_address() {
    let fleet = eventful();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui").await;
        let options = page
            .run(
                "return [...document.getElementById('q').list.options].map((option) => option.value)",
                vec![],
            )
            .await;
        for label in ["environment=prod", "tier=gold", "region=eu-west", "ring=canary"] {
            assert!(
                options.as_array().unwrap().contains(&label.into()),
                "{label} in {options}"
            );
        }
        page.fill("#q", "environment=prod,tier=gold").await;
        page.press("Show").await;
        page.see_in("#list", &id(0)).await;
        page.see_count("#list tbody tr", 3).await;
        let address = page.path().await;
        page.fill("#q", "prod-us").await;
        let field = page.browser.find(Locator::Css("#q")).await.unwrap();
        field.send_keys(&Key::Enter.to_string()).await.unwrap();
        page.wait("another address", async || page.path().await != address)
            .await;
        page.see_count("#list tbody tr", 2).await;
        // What is wrong with a selector is said, and can be corrected.
        for path in ["/ui", "/ui/problems", "/ui/versions"] {
            page.open(&format!("{path}?q=enviroment%3Dprod")).await;
            page.see_in("[role=alert]", "did you mean").await;
            let kept = page.run("return document.getElementById('q').value", vec![]).await;
            assert_eq!(kept, "enviroment=prod");
        }
        // The address alone gives the same.
        page.open(&address).await;
        page.see_count("#list tbody tr", 3).await;
        let kept = page.run("return document.getElementById('q').value", vec![]).await;
        assert_eq!(kept, "environment=prod,tier=gold");
    });
}
