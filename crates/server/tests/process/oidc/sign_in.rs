//! Signing in to the dashboard with a real provider: by HTTP, as a browser does.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::client::{Client, Reply};
use testkit::{Folder, OidcProvider, Server, Setup};

use super::{at_last, create, issuer};

const ATTEMPT: &str = "flux-resourceset-sign-in";

fn setup(folder: &Folder, issuer: &str) -> Setup {
    folder
        .crud()
        .env("OIDC_ISSUER", issuer)
        .env("OIDC_AUDIENCE", "fleet,fleet-web")
}

/// A provider, and a server where its admins have an identity.
struct World {
    _folder: Folder,
    provider: OidcProvider,
    server: Server,
}

impl World {
    fn new() -> World {
        World::with("1h", |setup, _| setup)
    }

    fn with(lifetime: &str, change: impl FnOnce(Setup, &Folder) -> Setup) -> World {
        let (folder, provider) = (Folder::new(), OidcProvider::start(lifetime));
        let server = change(setup(&folder, provider.issuer()), &folder).start();
        create(
            &server,
            &json!({"id": "platform", "role": "admin", "claims": {"groups": "platform-admins"}}),
        );
        World {
            _folder: folder,
            provider,
            server,
        }
    }

    fn browser(&self) -> Browser {
        Browser::of(&self.server)
    }

    /// A browser that was led back from the provider, and the path that it was led to.
    fn led_back(&self, who: &str) -> (Browser, String) {
        let mut browser = self.browser();
        let page = browser.begin("/ui/login/oidc");
        let back = self.provider.sign_in(&page, who);
        let path = back.strip_prefix(&format!("http://{}", browser.host)).unwrap();
        (browser, path.to_owned())
    }
}

/// A browser: it keeps cookies, and sends them back.
struct Browser {
    client: Client,
    host: String,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn of(server: &Server) -> Browser {
        let client = server.anonymous();
        Browser {
            host: client.address.to_string(),
            client,
            cookies: BTreeMap::new(),
        }
    }

    fn get(&mut self, path: &str) -> Reply {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let headers = [
            ("x-forwarded-host", self.host.as_str()),
            ("cookie", &cookies.join("; ")),
        ];
        let reply = self.client.send("GET", path, &headers, &[]);
        for cookie in reply.headers("set-cookie") {
            let (name, rest) = cookie.split_once('=').unwrap();
            assert!(cookie.contains("; Path=/ui; HttpOnly; SameSite=Lax"), "{cookie}");
            match cookie.contains("Max-Age=0") {
                true => self.cookies.remove(name),
                false => {
                    let value = rest.split(';').next().unwrap();
                    assert!(cookie.len() < 4096, "browsers keep no cookie of {} bytes", cookie.len());
                    self.cookies.insert(name.to_owned(), value.to_owned())
                }
            };
        }
        reply
    }

    /// Begins a sign-in. Returns the page of the issuer.
    fn begin(&mut self, path: &str) -> String {
        let reply = self.get(path).expect(303);
        reply.header("location").unwrap().to_owned()
    }

    /// What the cookie of the sign-in has.
    fn attempt(&self) -> Value {
        let text = BASE64_URL_SAFE_NO_PAD.decode(&self.cookies[ATTEMPT]).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn change_attempt(&mut self, change: impl FnOnce(&mut Value)) {
        let mut attempt = self.attempt();
        change(&mut attempt);
        let text = BASE64_URL_SAFE_NO_PAD.encode(attempt.to_string());
        self.cookies.insert(ATTEMPT.to_owned(), text);
    }

    /// Whether it has a session, in how many cookies.
    fn session(&self) -> usize {
        self.cookies.keys().filter(|name| *name != ATTEMPT).count()
    }
}

/// The value of a parameter of an address.
fn parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = url.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// What the page says about a failure.
#[track_caller]
fn sentence(reply: &Reply) -> String {
    assert!(reply.headers("set-cookie").all(|cookie| cookie.contains("Max-Age=0")));
    let text = reply.text();
    let (_, rest) = text
        .split_once("role=\"alert\">")
        .unwrap_or_else(|| panic!("no failure: {text}"));
    rest.split('<').next().unwrap().to_owned()
}

const STRANGE: &str = "This sign-in was not begun in this browser, or more than 10 minutes ago, or another one was begun since. Sign in again.";

#[test]
fn a_person_signs_in_with_the_account_of_the_organisation() {
    let world = World::new();
    let mut browser = world.browser();
    let page = browser.get("/ui/revisions?limit=5").expect(303);
    let form = browser.get(page.header("location").unwrap()).expect(200);
    let link =
        "<a class=\"button\" href=\"/ui/login/oidc?next=%2Fui%2Frevisions%3Flimit%3D5\">Sign in with 127.0.0.1</a>";
    assert!(form.text().contains(link), "{}", form.text());
    assert!(!form.text().contains("Your session has ended"));

    let page = browser.begin("/ui/login/oidc?next=%2Fui%2Frevisions%3Flimit%3D5");
    let attempt = browser.attempt();
    assert_eq!(parameter(&page, "response_type"), Some("code"));
    assert_eq!(parameter(&page, "client_id"), Some("fleet"));
    assert_eq!(parameter(&page, "code_challenge_method"), Some("S256"));
    assert_eq!(parameter(&page, "state"), attempt["state"].as_str());
    assert_eq!(parameter(&page, "nonce"), attempt["nonce"].as_str());
    // Refresh tokens are not kept, so none is asked for. The secret of PKCE stays in the browser.
    assert_eq!(parameter(&page, "scope"), Some("openid%20profile%20email"));
    assert!(!page.contains(attempt["verifier"].as_str().unwrap()));

    let back = world.provider.sign_in(&page, "ann");
    let path = back.strip_prefix(&format!("http://{}", browser.host)).unwrap();
    let signed_in = browser.get(path).expect(303);
    assert_eq!(signed_in.header("location"), Some("/ui/revisions?limit=5"));
    assert_eq!((browser.session(), browser.cookies.get(ATTEMPT)), (1, None));
    let shown = browser.get("/ui/revisions?limit=5").expect(200);
    // As the log names her.
    assert!(
        shown.text().contains(">platform/") && shown.text().contains(" · admin<"),
        "{}",
        shown.text()
    );

    // Nothing of it is in the log.
    let log = world.server.process.log().join("\n");
    let (code, state) = (parameter(&back, "code").unwrap(), attempt["state"].as_str().unwrap());
    assert!(!log.contains(code) && !log.contains(state), "{log}");
}

#[test]
fn the_address_to_return_to_is_the_one_that_the_browser_has() {
    let world = World::new();
    let client = world.server.anonymous();
    let redirect = |headers: &[(&str, &str)]| {
        let reply = client.send("GET", "/ui/login/oidc", headers, &[]).expect(303);
        let secure = reply.headers("set-cookie").all(|cookie| cookie.contains("; Secure"));
        let lives = reply
            .headers("set-cookie")
            .all(|cookie| cookie.ends_with("; Max-Age=600"));
        assert!(lives && reply.headers("set-cookie").count() == 1);
        let page = reply.header("location").unwrap();
        (parameter(page, "redirect_uri").unwrap().to_owned(), secure)
    };
    let expected = |text: &str, secure| (text.to_owned(), secure);
    assert_eq!(
        redirect(&[]),
        expected("http%3A%2F%2Ftest%2Fui%2Flogin%2Fcallback", false)
    );
    let proxied = [
        ("x-forwarded-host", "fleet.example.com"),
        ("x-forwarded-proto", "https"),
    ];
    let address = "https%3A%2F%2Ffleet.example.com%2Fui%2Flogin%2Fcallback";
    assert_eq!(redirect(&proxied), expected(address, true));
    let wrong = client.send("GET", "/ui/login/oidc", &[("x-forwarded-host", "a@b")], &[]);
    assert_eq!(
        sentence(&wrong.expect(400)),
        "the request does not name this server (Host)"
    );
}

#[test]
fn a_client_of_the_web_has_a_secret_and_a_registered_address() {
    for in_file in [false, true] {
        let secret = "s3cret: +/%";
        let world = World::with("1h", |setup, folder| {
            let setup = setup
                .env("OIDC_UI_CLIENT_ID", "fleet-web")
                .env("UI_URL", "https://fleet.example.com/ui");
            match in_file {
                true => setup.env("OIDC_CLIENT_SECRET_FILE", folder.write("secret", format!("{secret}\n"))),
                false => setup.env("OIDC_CLIENT_SECRET", secret),
            }
        });
        // The proxy in front of it names nothing.
        let mut browser = world.browser();
        browser.host = "10.0.0.1".to_owned();
        let page = browser.begin("/ui/login/oidc");
        assert_eq!(parameter(&page, "client_id"), Some("fleet-web"));
        let back = world.provider.sign_in(&page, "ann");
        let path = back.strip_prefix("https://fleet.example.com").unwrap();
        let signed_in = browser.get(path).expect(303);
        assert!(
            signed_in
                .headers("set-cookie")
                .all(|cookie| cookie.contains("; Secure"))
        );
        browser.get("/ui").expect(200);
    }
}

#[test]
fn a_wrong_secret_is_the_issuers_refusal() {
    let world = World::with("1h", |setup, _| {
        setup
            .env("OIDC_UI_CLIENT_ID", "fleet-web")
            .env("OIDC_CLIENT_SECRET", "wrong")
            .env("UI_URL", "https://fleet.example.com/ui")
    });
    let mut browser = world.browser();
    let back = world.provider.sign_in(&browser.begin("/ui/login/oidc"), "ann");
    let reply = browser.get(back.strip_prefix("https://fleet.example.com").unwrap());
    let refused = sentence(&reply.expect(401));
    assert!(
        refused.starts_with("127.0.0.1 refuses: ") && refused.contains("invalid_client"),
        "{refused}"
    );
    let log = world.server.process.line("the OIDC issuer gave no ID token");
    assert!(log.contains("invalid_client") && !log.contains("wrong"), "{log}");
}

#[test]
fn a_state_of_another_browser_is_refused_and_ends_no_attempt() {
    let world = World::new();
    let (mut browser, path) = world.led_back("ann");
    let state = browser.attempt()["state"].as_str().unwrap().to_owned();
    // Whoever has the address of somebody's sign-in, and lets another browser open it.
    assert_eq!(sentence(&world.browser().get(&path).expect(400)), STRANGE);
    let (mut other, _) = world.led_back("ann");
    assert_eq!(sentence(&other.get(&path).expect(400)), STRANGE);
    assert!(other.cookies.contains_key(ATTEMPT) && other.session() == 0);
    for wrong in [
        path.replace(&state, ""),
        path.replace(&state, &state[1..]),
        path.replace("state=", "other="),
        "/ui/login/callback".to_owned(),
    ] {
        assert_eq!(sentence(&browser.get(&wrong).expect(400)), STRANGE, "{wrong}");
    }
    browser.get(&path).expect(303);
    assert_eq!(browser.session(), 1);
}

#[test]
fn a_code_is_good_once() {
    let world = World::new();
    let (mut browser, path) = world.led_back("ann");
    let attempt = browser.cookies[ATTEMPT].clone();
    browser.get(&path).expect(303);
    // The browser has forgotten the attempt; and if it had not, the issuer has.
    assert_eq!(sentence(&browser.get(&path).expect(400)), STRANGE);
    let mut again = world.browser();
    again.cookies.insert(ATTEMPT.to_owned(), attempt);
    let refused = sentence(&again.get(&path).expect(401));
    assert!(
        refused.starts_with("127.0.0.1 refuses: ") && refused.contains("invalid_grant"),
        "{refused}"
    );
    assert_eq!((again.session(), again.cookies.get(ATTEMPT)), (0, None));
}

#[test]
fn a_code_is_for_the_browser_that_has_the_verifier() {
    let world = World::new();
    let (mut browser, path) = world.led_back("ann");
    browser.change_attempt(|attempt| attempt["verifier"] = "x".repeat(43).into());
    let refused = sentence(&browser.get(&path).expect(401));
    assert!(refused.contains("invalid_grant"), "{refused}");
    assert_eq!(browser.session(), 0);
}

#[test]
fn a_token_of_another_sign_in_is_refused() {
    let world = World::new();
    let (other, _) = world.led_back("ann");
    let (mut browser, path) = world.led_back("ann");
    browser.change_attempt(|attempt| attempt["nonce"] = other.attempt()["nonce"].clone());
    assert_eq!(
        sentence(&browser.get(&path).expect(401)),
        "The token of 127.0.0.1 is not for this sign-in (nonce). Sign in again."
    );
    assert_eq!(browser.session(), 0);
}

#[test]
fn a_person_without_an_identity_is_told() {
    let world = World::new();
    let (mut browser, path) = world.led_back("bob");
    let page = browser.get(&path).expect(403);
    let told = sentence(&page);
    assert!(told.contains("no identity"), "{told}");
    // Somebody else may sign in.
    assert!(page.text().contains("Sign in with 127.0.0.1"));
    assert_eq!((browser.session(), browser.cookies.get(ATTEMPT)), (0, None));
    // And one whose role reads nothing.
    create(
        &world.server,
        &json!({"id": "machines", "role": "join", "scope": {"dns_suffix": ".example.com", "uses": 1}, "claims": {"groups": "staff"}}),
    );
    let (mut browser, path) = world.led_back("bob");
    let told = sentence(&browser.get(&path).expect(403));
    assert_eq!(told, "machines has the role join, which may not read the fleet");
}

#[test]
fn a_person_who_changes_their_mind_is_told_in_the_issuers_words() {
    let world = World::new();
    let mut browser = world.browser();
    browser.begin("/ui/login/oidc?next=%2Fui%2Fguards");
    let state = browser.attempt()["state"].as_str().unwrap().to_owned();
    let path = format!("/ui/login/callback?error=access_denied&error_description=not%20today%0a%3Cb%3E&state={state}");
    let page = browser.get(&path).expect(401);
    assert_eq!(sentence(&page), "127.0.0.1 refuses: not today&lt;b&gt; (access_denied)");
    assert!(page.text().contains("/ui/login/oidc?next=%2Fui%2Fguards"));
    // An answer without a code is none.
    browser.begin("/ui/login/oidc");
    let state = browser.attempt()["state"].as_str().unwrap().to_owned();
    let told = sentence(&browser.get(&format!("/ui/login/callback?state={state}")).expect(502));
    assert!(told.starts_with("127.0.0.1 did not answer as an issuer"), "{told}");
}

#[test]
fn a_long_token_is_in_several_cookies() {
    let world = World::new();
    let (mut browser, path) = world.led_back("eve");
    browser.get(&path).expect(303);
    assert!(browser.session() > 1, "{} cookies", browser.session());
    browser.get("/ui").expect(200);
    // A shorter one takes the place of all of them.
    let back = world.provider.sign_in(&browser.begin("/ui/login/oidc"), "ann");
    browser
        .get(back.strip_prefix(&format!("http://{}", browser.host)).unwrap())
        .expect(303);
    assert_eq!(browser.session(), 1);
    browser.get("/ui").expect(200);
}

#[test]
fn signing_in_leads_to_pages_of_ours_only() {
    let world = World::new();
    for (next, expected) in [
        ("https%3A%2F%2Fevil.example.com", "/ui"),
        ("%2F%2Fevil.example.com", "/ui"),
        ("%2Fui%5C..%5C..%2Fevil", "/ui"),
        ("%2Fui%2F%0D%0ASet-Cookie:a=b", "/ui"),
        ("%2Fui%2Fguards", "/ui/guards"),
    ] {
        let mut browser = world.browser();
        let page = browser.begin(&format!("/ui/login/oidc?next={next}"));
        let back = world.provider.sign_in(&page, "ann");
        let reply = browser.get(back.strip_prefix(&format!("http://{}", browser.host)).unwrap());
        assert_eq!(reply.expect(303).header("location"), Some(expected), "{next}");
    }
    // A page that no cookie holds is forgotten, and the sign-in works.
    let mut browser = world.browser();
    browser.begin(&format!("/ui/login/oidc?next=%2Fui%3Fq%3D{}", "x".repeat(4000)));
    assert_eq!(browser.attempt()["next"], Value::Null);
}

#[test]
fn any_replica_finishes_what_another_one_began() {
    let world = World::new();
    let folder = Folder::new();
    let other = setup(&folder, world.provider.issuer()).start();
    create(
        &other,
        &json!({"id": "platform", "role": "reader", "claims": {"groups": "platform-admins"}}),
    );
    let (mut browser, path) = world.led_back("ann");
    browser.client = other.anonymous();
    browser.get(&path).expect(303);
    browser.get("/ui").expect(200);
}

#[test]
fn a_session_ends_with_its_token() {
    let world = World::with("4s", |setup, _| setup);
    let (mut browser, path) = world.led_back("ann");
    browser.get(&path).expect(303);
    assert_eq!(browser.get("/ui/guards").status, 200);
    at_last("the token has expired", || browser.get("/ui/guards").status == 303);
    let page = browser.get("/ui/guards").expect(303);
    let place = page.header("location").unwrap().to_owned();
    assert_eq!(place, "/ui/login?next=%2Fui%2Fguards&ended=true");
    let form = browser.get(&place).expect(200);
    assert!(form.text().contains("Your session has ended."));
    let link = "/ui/login/oidc?next=%2Fui%2Fguards";
    assert!(form.text().contains(link), "{}", form.text());
}

#[test]
fn an_issuer_that_is_away_is_said_to_be() {
    let World {
        _folder,
        provider,
        server,
    } = World::new();
    let mut browser = Browser::of(&server);
    let back = provider.sign_in(&browser.begin("/ui/login/oidc"), "ann");
    let path = back
        .strip_prefix(&format!("http://{}", browser.host))
        .unwrap()
        .to_owned();
    let issuer = provider.issuer().to_owned();
    drop(provider);
    let away = "127.0.0.1 cannot be reached now. Try again in a moment, or sign in with a token.";
    let page = browser.get(&path).expect(503);
    assert_eq!(sentence(&page), away);
    assert!(page.text().contains("name=\"token\""));
    server.process.line("cannot reach the OIDC issuer for a sign-in");
    // A server that never saw it.
    let folder = Folder::new();
    let fresh = setup(&folder, &issuer).start();
    let mut browser = Browser::of(&fresh);
    browser.get("/ui/login").expect(200);
    let page = browser.get("/ui/login/oidc").expect(503);
    assert_eq!(sentence(&page), away);
    assert!(browser.cookies.is_empty());
}

#[test]
fn an_issuer_of_ci_jobs_only_cannot_be_signed_in_with() {
    let (folder, key) = (Folder::new(), issuer::Key::ec("key-1"));
    let ci = issuer::Issuer::start(&[&key]);
    let server = setup(&folder, &ci.url()).start();
    let told = sentence(&Browser::of(&server).get("/ui/login/oidc").expect(502));
    assert!(told.starts_with("127.0.0.1 did not answer as an issuer"), "{told}");
    let line = server.process.line("has no authorization_endpoint");
    assert!(line.contains(&ci.url()), "{line}");
}

#[test]
fn made_up_codes_do_not_reach_the_issuer_without_end() {
    let world = World::new();
    let mut browser = world.browser();
    browser.begin("/ui/login/oidc");
    let state = browser.attempt()["state"].as_str().unwrap().to_owned();
    let attempt = browser.cookies[ATTEMPT].clone();
    let limited = (0..700).any(|n| {
        browser.cookies.insert(ATTEMPT.to_owned(), attempt.clone());
        let reply = browser.get(&format!("/ui/login/callback?code=made-up-{n}&state={state}"));
        assert!([401, 429].contains(&reply.status), "{}", reply.text());
        reply.status == 429
    });
    assert!(limited, "no attempt was limited");
    // Those with a token are not concerned.
    world.server.reader().get("/clusters").expect(200);
}

#[test]
fn wrong_tokens_of_others_at_the_same_address_do_not_keep_people_from_signing_in() {
    let world = World::new();
    let stranger = world.server.with("wrong");
    assert!((0..700).any(|_| stranger.get("/clusters").status == 429));
    let (mut browser, path) = world.led_back("ann");
    browser.get(&path).expect(303);
    browser.get("/ui").expect(200);
}

#[test]
fn without_an_issuer_there_is_only_the_form() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let mut browser = Browser::of(&server);
    assert!(!browser.get("/ui/login").expect(200).text().contains("Sign in with 1"));
    let told = sentence(&browser.get("/ui/login/oidc").expect(404));
    assert_eq!(told, "this server has no issuer to sign in with (OIDC_ISSUER)");
    browser.get("/ui/login/callback?code=a&state=b").expect(400);
}
