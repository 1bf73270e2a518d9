//! Without its script, the dashboard shows everything but the map, and changes everything.

use testkit::WRITE;

use crate::browser::visit;
use crate::fleet::{Fleet, id};

#[test]
fn pages_and_forms_work_without_the_script() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.without_script().await;
        page.sign_in(WRITE, "/ui").await;
        page.see("The map is drawn by a script.").await;
        page.see_in("#list", &id(11)).await;
        page.fill("#q", "environment=qa").await;
        page.press("Show").await;
        page.see_count("#list tbody tr", 1).await;
        for place in [
            "Problems",
            "Versions",
            "Rollouts",
            "Revisions",
            "Documents",
            "Guards",
            "Identities",
        ] {
            page.follow(place).await;
            page.see_in("nav [aria-current=page]", place).await;
        }

        page.open("/ui/documents/namespaces/ingress").await;
        page.fill("#body", "id: ingress\nlabels: {team: network}\n").await;
        page.press("Show the plan").await;
        page.see_in("pre.diff .added", "team: network").await;
        page.confirm("a team of its own").await;
        let changed = fleet.admin().get("/namespaces/ingress").json();
        assert_eq!(changed["labels"]["team"], "network");
        page.follow("See who has it").await;
        page.press("Undo this revision…").await;
        page.confirm("").await;
        let changed = fleet.admin().get("/namespaces/ingress").json();
        assert_eq!(changed["labels"]["team"], "platform");
        page.press("Sign out").await;
        page.at("/ui/login").await;
    });
}
