//! Signing in and out.

use serde_json::json;
use testkit::{READ, WRITE};

use crate::browser::visit;
use crate::fleet::Fleet;

#[test]
fn a_wrong_token_is_refused_and_a_good_one_leads_to_the_page_that_was_wanted() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.tolerate("401 (Unauthorized)");
        page.open("/ui/revisions?actor=seed").await;
        page.at("/ui/login?next=%2Fui%2Frevisions%3Factor%3Dseed").await;
        let focused = page.run("return document.activeElement.id", vec![]).await;
        assert_eq!(focused, "token", "the field has the focus");
        page.fill("#token", "wrong").await;
        page.press("Sign in").await;
        page.see_in("[role=alert]", "the token is not valid").await;
        assert_eq!(page.count("nav").await, 0);

        page.fill("#token", READ).await;
        page.press("Sign in").await;
        page.at("/ui/revisions?actor=seed").await;
        page.see_in(".who", "reader").await;
    });
}

#[test]
fn signing_out_forgets_the_token() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(WRITE, "/ui/versions").await;
        let cookies = page.run("return document.cookie", vec![]).await;
        assert_eq!(cookies, "", "no script reads the token");
        assert!(!page.browser.get_all_cookies().await.unwrap().is_empty());
        page.press("Sign out").await;
        page.at("/ui/login").await;
        assert!(page.browser.get_all_cookies().await.unwrap().is_empty());
        page.open("/ui/versions").await;
        page.at("/ui/login?next=%2Fui%2Fversions").await;
    });
}

#[test]
fn a_page_that_is_open_when_its_token_is_revoked_leads_to_the_form() {
    let fleet = Fleet::small();
    let (token, id) = fleet.identity(&json!({"id": "ann", "role": "reader"}));
    visit(&fleet.server, async |page| {
        // The stream ends, and cannot be opened again.
        page.tolerate("EventSource's response has a MIME type");
        page.sign_in(&token, "/ui").await;
        page.see("12 clusters").await;
        fleet
            .admin()
            .delete(&format!("/identities/ann/tokens/{id}"))
            .expect(204);
        // Nothing is clicked: the page notices when the next change comes.
        fleet.poll(&crate::fleet::id(0));
        page.wait("the form", async || page.path().await.starts_with("/ui/login"))
            .await;
        assert!(!page.text_of("body").await.contains("12 clusters"));
    });
}
