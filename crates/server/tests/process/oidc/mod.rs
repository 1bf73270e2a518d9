//! JWTs: which are accepted, whose they are, and what happens when keys change or the issuer is away. The issuer is the test's own; the tests
//! of [`sign_in`] have a real one.

pub mod issuer;
mod sign_in;

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use testkit::{Folder, READ, Server, Setup, eventually};

use self::issuer::{AUDIENCE, Issuer, Key, now};

const DEMO: &str = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces";

pub fn setup(folder: &Folder, issuers: &[&Issuer]) -> Setup {
    let issuers: Vec<String> = issuers.iter().map(|issuer| issuer.url()).collect();
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json");
    let setup = folder.crud().env("SEED_FILE", seed);
    setup
        .env("OIDC_ISSUER", issuers.join(","))
        .env("OIDC_AUDIENCE", format!("other,{AUDIENCE}"))
}

/// Waits until a condition holds, with some time between requests: their failures are limited.
fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || {
        std::thread::sleep(Duration::from_millis(150));
        is_so()
    });
}

fn create(server: &Server, identity: &Value) {
    server.writer().post("/identities", identity).expect(201);
}

/// A server with one issuer, one key and the identity `readers`.
struct World {
    _folder: Folder,
    issuer: Issuer,
    key: Key,
    server: Server,
}

impl World {
    fn new() -> World {
        let (folder, key) = (Folder::new(), Key::ec("key-1"));
        let issuer = Issuer::start(&[&key]);
        let server = setup(&folder, &[&issuer]).start();
        create(
            &server,
            &json!({"id": "readers", "role": "reader", "claims": {"groups": "readers"}}),
        );
        World {
            _folder: folder,
            issuer,
            key,
            server,
        }
    }

    /// A valid token of the group.
    fn claims(&self, more: &Value) -> Value {
        let mut claims = self.issuer.claims(&json!({"groups": ["staff", "readers"]}));
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        claims
    }

    fn status(&self, token: &str) -> u16 {
        self.server.with(token).get("/clusters").status
    }

    /// Asserts that a token gets 401, and returns the detail.
    #[track_caller]
    fn refusal(&self, token: &str) -> String {
        let reply = self.server.with(token).get("/clusters").expect(401);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        let problem = reply.json();
        assert_eq!(problem["type"], "/problems/unauthorized");
        problem["detail"].as_str().unwrap().to_owned()
    }
}

fn encode(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn a_jwt_is_the_identity_whose_claims_it_has() {
    let world = World::new();
    let (server, key) = (&world.server, &world.key);
    let token = key.sign(&world.claims(&json!({})));
    let whoami = server.with(&token).get("/whoami").expect(200);
    assert_eq!(whoami.header("x-actor"), Some("readers/ann"));
    let whoami = whoami.json();
    let shown = ["id", "subject", "role"].map(|field| whoami[field].as_str().unwrap());
    assert_eq!(shown, ["readers", "ann", "reader"]);
    // As a bearer, as the password of basic authentication, and for polls.
    server.with(&token).get(DEMO).expect(200);
    let basic = base64::prelude::BASE64_STANDARD.encode(format!("x:{token}"));
    let basic = [("authorization", &*format!("Basic {basic}"))];
    server.anonymous().send("GET", "/clusters", &basic, &[]).expect(200);
    server.with(&token).post("/namespaces", &json!({"id": "x"})).expect(403);

    // Operators have their scope, and the log names the person.
    let scope = json!({"clusters": "environment=prod", "kinds": ["namespaces"]});
    create(
        server,
        &json!({"id": "ops", "role": "operator", "scope": scope, "claims": {"groups": ["ops", "readers"]}}),
    );
    let token = key.sign(&world.claims(&json!({"groups": ["readers", "ops"], "sub": "bob"})));
    let operator = server.with(&token);
    operator.post("/namespaces", &json!({"id": "x"})).expect(201);
    assert_eq!(server.reader().changes().last().unwrap()["actor"], "ops/bob");
    let refused = operator.send(
        "PATCH",
        "/clusters/demo-cluster-01",
        &[("content-type", "application/json")],
        br#"{"labels":{"a":"b"}}"#,
    );
    assert_eq!(refused.expect(403).json()["type"], "/problems/out-of-scope");
}

#[test]
fn claims_of_nobody_and_of_several_identities_are_refused_with_403() {
    let world = World::new();
    let detail = |token: &str| {
        let problem = world.server.with(token).get("/whoami").expect(403).json();
        assert_eq!(problem["type"], "/problems/forbidden");
        problem["detail"].as_str().unwrap().to_owned()
    };
    let nobody = world.key.sign(&world.claims(&json!({"groups": ["guests"]})));
    assert_eq!(
        detail(&nobody),
        "the token of \"ann\" is valid, and no identity has its claims"
    );
    create(
        &world.server,
        &json!({"id": "staff", "role": "admin", "claims": {"groups": "staff"}}),
    );
    let both = world.key.sign(&world.claims(&json!({})));
    assert_eq!(
        detail(&both),
        "the claims of the token match several identities equally: readers, staff"
    );
    // The one with more claims wins.
    create(
        &world.server,
        &json!({"id": "ann", "role": "reader", "claims": {"groups": "staff", "sub": "ann"}}),
    );
    assert_eq!(world.server.with(&both).get("/whoami").expect(200).json()["id"], "ann");
}

#[test]
fn an_identity_that_is_changed_revoked_or_expires_acts_at_once() {
    let world = World::new();
    let token = world.key.sign(&world.claims(&json!({})));
    let (caller, admin) = (world.server.with(&token), world.server.writer());
    let json = [("content-type", "application/json")];
    let expires_at =
        |reply: testkit::client::Reply| reply.expect(200).json()["expires_at"].as_str().unwrap().to_owned();
    let of_token = expires_at(caller.get("/whoami"));
    let patch = |body: &str| {
        admin
            .send("PATCH", "/identities/readers", &json, body.as_bytes())
            .expect(200)
    };
    // The earlier of the identity's expiry and the token's.
    patch(r#"{"expires_at": "2100-01-01T00:00:00Z"}"#);
    assert_eq!(expires_at(caller.get("/whoami")), of_token);
    let soon = jiff::Timestamp::from_second(i64::try_from(now()).unwrap() + 600)
        .unwrap()
        .to_string();
    patch(&format!(r#"{{"expires_at": "{soon}"}}"#));
    assert_eq!(expires_at(caller.get("/whoami")), soon);
    patch(r#"{"expires_at": "2020-01-01T00:00:00Z"}"#);
    assert_eq!(world.refusal(&token), "the identity \"readers\" has expired");
    patch(r#"{"expires_at": null, "claims": {"groups": "writers"}}"#);
    caller.get("/clusters").expect(403);
    patch(r#"{"claims": {"groups": "readers"}}"#);
    caller.get("/clusters").expect(200);
    admin.delete("/identities/readers").expect(204);
    caller.get("/clusters").expect(403);
}

#[test]
fn every_wrong_token_is_refused_with_its_reason() {
    let world = World::new();
    let (key, claims) = (&world.key, |more: &Value| world.claims(more));
    assert_eq!(world.status(&key.sign(&claims(&json!({})))), 200);
    for (wrong, reason) in [
        (
            json!({"aud": "elsewhere"}),
            "its audience (aud) is not one of OIDC_AUDIENCE",
        ),
        (json!({"aud": null}), "its audience (aud) is not one of OIDC_AUDIENCE"),
        (
            json!({"iss": "https://evil.example.com"}),
            "its issuer \"https://evil.example.com\" is not the one of OIDC_ISSUER",
        ),
        (json!({"iss": null}), "it has no issuer (iss)"),
        (json!({"exp": now() - 1}), "it has expired"),
        (json!({"exp": "never"}), "its time of expiry (exp) is not a number"),
        (
            json!({"nbf": now() + 600}),
            "it is not valid yet (nbf): do the clocks agree?",
        ),
        (json!({"sub": ""}), "it has no subject (sub)"),
    ] {
        let detail = world.refusal(&key.sign(&claims(&wrong)));
        assert_eq!(detail, format!("the token is not valid: {reason}"));
    }
    let accepted = "is not one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";
    let body = encode(&claims(&json!({})));
    // No signature, in each spelling that libraries fell for.
    for name in ["none", "None", "NONE"] {
        let token = format!("{}.{body}.", encode(&json!({"alg": name, "kid": "key-1"})));
        let detail = world.refusal(&token);
        assert_eq!(
            detail,
            format!("the token is not valid: its algorithm \"{name}\" {accepted}")
        );
    }
    // The public key as a shared secret.
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("key-1".to_owned());
    let secret = EncodingKey::from_secret(key.public.to_string().as_bytes());
    let forged = jsonwebtoken::encode(&header, &claims(&json!({})), &secret).unwrap();
    assert!(
        world
            .refusal(&forged)
            .ends_with(&format!("its algorithm \"HS256\" {accepted}"))
    );
    // Another key under a known id, a key of another type, an unknown one, none.
    let detail = world.refusal(&Key::ec("key-1").sign(&claims(&json!({}))));
    assert_eq!(detail, "the token is not valid: its signature is wrong");
    for (other, id) in [(Key::ed("key-1"), "key-1"), (Key::ec("key-2"), "key-2")] {
        let detail = world.refusal(&other.sign(&claims(&json!({}))));
        assert_eq!(
            detail,
            format!("the token is not valid: its issuer has no key \"{id}\" for its algorithm")
        );
    }
    let nameless = key.sign_with(&Header::new(Algorithm::ES256), &claims(&json!({})));
    assert_eq!(
        world.refusal(&nameless),
        "the token is not valid: it does not name its key (kid)"
    );
    // Changed after it was signed.
    let good = key.sign(&claims(&json!({})));
    let parts: Vec<&str> = good.split('.').collect();
    let changed = format!("{}.{}.{}", parts[0], encode(&claims(&json!({"sub": "root"}))), parts[2]);
    assert_eq!(
        world.refusal(&changed),
        "the token is not valid: its signature is wrong"
    );
    let cut = &good[..good.len() - 4];
    assert_eq!(world.refusal(cut), "the token is not valid: its signature is wrong");
    let long = key.sign(&claims(&json!({"filler": "x".repeat(16 << 10)})));
    assert_eq!(
        world.refusal(&long),
        "the token is not valid: it is a JWT of more than 16384 bytes"
    );
    assert_eq!(world.refusal("not.a.jwt"), "the token is not valid");
    assert_eq!(world.status(&good), 200);
    // Nothing of a token is logged.
    let log = world.server.process.log().join("\n");
    assert!(
        log.contains("its signature is wrong") && !log.contains(parts[1]),
        "{log}"
    );
}

#[test]
fn failures_are_counted_and_limited_and_good_tokens_are_not() {
    let world = World::new();
    let good = world.key.sign(&world.claims(&json!({})));
    let bad = Key::ec("key-1").sign(&world.claims(&json!({})));
    let limited = (0..700).filter(|_| world.status(&bad) == 429).count();
    assert!(limited > 0, "no failure was limited");
    assert_eq!(world.status(&good), 200);
    assert_eq!(world.status(READ), 200);
    let metrics = world.server.reader().get("/metrics").expect(200);
    let line = "flux_resourceset_authentication_failures_total{reason=\"jwt\"} 700";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[test]
fn keys_are_rotated_and_unknown_ones_are_looked_up_at_a_bounded_rate() {
    let world = World::new();
    let next = Key::ed("key-2");
    let (old, new) = (
        world.key.sign(&world.claims(&json!({}))),
        next.sign(&world.claims(&json!({}))),
    );
    assert_eq!(world.status(&old), 200);
    world.issuer.publish(&[&world.key, &next]);
    at_last("the new key is known", || world.status(&new) == 200);
    assert_eq!(world.status(&old), 200);

    // A storm of keys that nobody has.
    let (before, start) = (world.issuer.fetches(), Instant::now());
    for n in 0..200 {
        let unknown = Key::ec(&format!("made-up-{n}")).sign(&world.claims(&json!({})));
        assert!(world.refusal(&unknown).contains("has no key"));
    }
    let (fetches, time) = (world.issuer.fetches() - before, start.elapsed());
    let most = 2 + usize::try_from(time.as_secs()).unwrap() / 5;
    assert!(fetches <= most, "{fetches} fetches in {time:?}");

    // A key that the issuer withdrew is forgotten, also by those who remember its tokens.
    world.issuer.publish(&[&next]);
    at_last("the old key is forgotten", || {
        world.status(&Key::ec("made-up").sign(&world.claims(&json!({}))));
        world.status(&old) == 401
    });
    assert_eq!(world.status(&new), 200);
}

#[test]
fn an_issuer_that_is_away_locks_out_no_known_key() {
    let world = World::new();
    let token = world.key.sign(&world.claims(&json!({})));
    assert_eq!(world.status(&token), 200);
    let current = |value: u8| {
        let line = format!("\nflux_resourceset_oidc_keys_current {value}\n");
        world.server.reader().get("/metrics").text().contains(&line)
    };
    assert!(current(1));
    world.issuer.go_away(true);
    let unknown = Key::ec("key-2").sign(&world.claims(&json!({})));
    at_last("the failure is seen", || {
        assert_eq!(world.status(&unknown), 401);
        current(0)
    });
    let line = world.server.process.line("cannot fetch the keys of the OIDC issuer");
    assert!(
        line.contains("known=1") && line.contains("/.well-known/openid-configuration: "),
        "{line}"
    );
    // Another token, so that it is not remembered.
    let another = world.key.sign(&world.claims(&json!({"sub": "bob"})));
    assert_eq!((world.status(&token), world.status(&another)), (200, 200));
    world.issuer.go_away(false);
    at_last("the issuer is back", || {
        world.status(&unknown);
        current(1)
    });
}

#[test]
fn a_server_starts_while_the_issuer_is_away() {
    let (folder, key) = (Folder::new(), Key::ec("key-1"));
    let issuer = Issuer::start(&[&key]);
    issuer.go_away(true);
    let server = setup(&folder, &[&issuer]).start();
    server.process.line("cannot fetch the keys of the OIDC issuer");
    create(
        &server,
        &json!({"id": "readers", "role": "reader", "claims": {"sub": "ann"}}),
    );
    let caller = server.with(&key.sign(&issuer.claims(&json!({}))));
    // Not the caller's fault.
    let problem = caller.get("/clusters").expect(503);
    assert!(
        problem
            .text()
            .contains("the keys of its issuer could not be fetched yet"),
        "{}",
        problem.text()
    );
    assert!(problem.header("retry-after").is_some());
    server.reader().get("/clusters").expect(200);
    issuer.go_away(false);
    at_last("the keys are there", || caller.get("/clusters").status == 200);
}

#[test]
fn requests_wait_for_the_keys_of_a_server_that_just_started() {
    for _ in 0..5 {
        let world = World::new();
        assert_eq!(world.status(&world.key.sign(&world.claims(&json!({})))), 200);
    }
}

#[test]
fn a_further_issuer_claims_only_identities_that_name_it() {
    let (folder, key, other) = (Folder::new(), Key::ec("key-1"), Key::ec("key-1"));
    let (people, ci) = (Issuer::start(&[&key]), Issuer::start(&[&other]));
    let server = setup(&folder, &[&people, &ci]).start();
    create(
        &server,
        &json!({"id": "admins", "role": "admin", "claims": {"sub": "ann"}}),
    );
    create(
        &server,
        &json!({"id": "ci", "role": "reader", "claims": {"iss": ci.url(), "repository": "acme/fleet"}}),
    );
    let repository = json!({"repository": "acme/fleet"});
    let who = |token: &str| server.with(token).get("/whoami");
    assert_eq!(
        who(&key.sign(&people.claims(&json!({})))).expect(200).json()["id"],
        "admins"
    );
    assert_eq!(who(&other.sign(&ci.claims(&repository))).expect(200).json()["id"], "ci");
    // An account of the same name elsewhere is nobody; and an issuer does not sign for another.
    who(&other.sign(&ci.claims(&json!({})))).expect(403);
    who(&other.sign(&people.claims(&json!({})))).expect(401);
}

#[test]
fn a_server_with_an_issuer_needs_no_token() {
    let (folder, key) = (Folder::new(), Key::ec("key-1"));
    let issuer = Issuer::start(&[&key]);
    let bare = |folder: &Folder| {
        setup(folder, &[&issuer])
            .without("AUTH_TOKEN")
            .without("CRUD_AUTH_TOKEN")
    };
    let claim = [
        "identity",
        "create",
        "root",
        "--role",
        "admin",
        "--claim",
        "groups=admins",
        "--claim",
        "groups=all",
    ];
    let created = bare(&folder).args(&claim).run();
    assert_eq!((created.status.code(), &*created.stdout), (Some(0), ""), "{created:?}");
    let again = bare(&folder)
        .args(&["identity", "create", "root", "--claim", "a=b"])
        .run_for_its_error();
    assert!(again.contains("--claim is for a new identity"), "{again}");
    let server = bare(&folder).env("OIDC_USERNAME_CLAIM", "email").start();
    let claims = json!({"groups": ["all", "admins"], "email": "ann@example.com"});
    let admin = server.with(&key.sign(&issuer.claims(&claims)));
    admin.post("/namespaces", &json!({"id": "x"})).expect(201);
    assert_eq!(admin.changes().last().unwrap()["actor"], "root/ann@example.com");
    server
        .with(&key.sign(&issuer.claims(&json!({"groups": "admins"}))))
        .get("/clusters")
        .expect(403);
}

#[test]
fn how_to_log_in_is_public() {
    let world = World::new();
    let found = world
        .server
        .anonymous()
        .get("/.well-known/flux-resourceset")
        .expect(200)
        .json();
    let login = json!({
        "issuer": world.issuer.url(), "client_id": "other", "scopes": "openid profile email offline_access",
    });
    assert_eq!(found, json!({ "login": login }));
    let folder = Folder::new();
    let plain = folder.crud().start();
    let found = plain
        .anonymous()
        .get("/.well-known/flux-resourceset")
        .expect(200)
        .json();
    assert_eq!(found, json!({ "login": null }));
    // A JWT is not mistaken for a token of ours.
    let token = world.key.sign(&world.claims(&json!({})));
    let problem = plain.with(&token).get("/clusters").expect(401).json();
    assert_eq!(
        problem["detail"],
        "the token is not valid: it is a JWT, and this server accepts none (OIDC_ISSUER is not set)"
    );
}

#[test]
fn an_issuer_that_calls_itself_otherwise_is_not_accepted() {
    let (folder, key) = (Folder::new(), Key::ec("key-1"));
    let issuer = Issuer::start(&[&key]);
    let server = setup(&folder, &[&issuer])
        .env("OIDC_ISSUER", format!("{}/", issuer.url()))
        .start();
    let line = server.process.line("cannot fetch the keys of the OIDC issuer");
    assert!(line.contains("they must be equal"), "{line}");
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let empty = folder.write("empty.pem", "");
    let empty = empty.to_str().unwrap();
    for (settings, expected) in [
        (
            &[("OIDC_ISSUER", "https://login.example.com")][..],
            "error: OIDC_AUDIENCE: is required with OIDC_ISSUER",
        ),
        (&[("OIDC_AUDIENCE", "fleet")], "error: OIDC_AUDIENCE: needs OIDC_ISSUER"),
        (&[("OIDC_CA_FILE", "ca.pem")], "error: OIDC_CA_FILE: needs OIDC_ISSUER"),
        (
            &[("OIDC_CLIENT_SECRET", "s")],
            "error: OIDC_CLIENT_SECRET: needs OIDC_ISSUER",
        ),
        (
            &[
                ("OIDC_ISSUER", "https://a.example"),
                ("OIDC_AUDIENCE", "fleet"),
                ("OIDC_UI_CLIENT_ID", "web"),
            ],
            "error: OIDC_UI_CLIENT_ID: \"web\" is not one of OIDC_AUDIENCE",
        ),
        (
            &[
                ("OIDC_ISSUER", "https://a.example"),
                ("OIDC_AUDIENCE", "fleet"),
                ("OIDC_CLIENT_SECRET", "s"),
                ("OIDC_CLIENT_SECRET_FILE", empty),
            ],
            "error: OIDC_CLIENT_SECRET: and OIDC_CLIENT_SECRET_FILE cannot both be set",
        ),
        (
            &[
                ("OIDC_ISSUER", "https://a.example"),
                ("OIDC_AUDIENCE", "fleet"),
                ("OIDC_CLIENT_SECRET_FILE", empty),
            ],
            "empty.pem: is empty",
        ),
        (
            &[("UI_URL", "https://fleet.example.com")],
            "error: UI_URL: \"https://fleet.example.com\" is not the address of the dashboard, as in https://fleet.example.com/ui",
        ),
        (
            &[("OIDC_ISSUER", "http://login.example.com"), ("OIDC_AUDIENCE", "fleet")],
            "error: OIDC_ISSUER: \"http://login.example.com\" must begin with https://",
        ),
        (
            &[("OIDC_ISSUER", ","), ("OIDC_AUDIENCE", "")],
            "error: OIDC_AUDIENCE: is empty",
        ),
        (
            &[
                ("OIDC_ISSUER", "https://a.example"),
                ("OIDC_AUDIENCE", "fleet"),
                ("OIDC_CA_FILE", empty),
            ],
            "empty.pem: contains no certificate",
        ),
    ] {
        let setup = settings
            .iter()
            .fold(folder.crud(), |setup, (name, value)| setup.env(name, value));
        let error = setup.run_for_its_error();
        assert!(error.contains(expected), "{settings:?}: {error}");
    }
}
