//! Logging in, with a real provider: in a browser, on another device, again without being asked, and out.

use testkit::OidcProvider;

use crate::fixture::World;

/// What a person does in a browser: follows redirects, fills in the form, and follows redirects again, at the end to the program that waits.
const BROWSER: &str = r#"#!/bin/sh
set -eu
page=$(curl -sfL -o /dev/null -w '%{url_effective}' "$1")
issuer=${page%/login/username*}
curl -sfL --data-urlencode "id=${page#*authRequestID=}" --data-urlencode "username=$WHO" --data password=password \
  "$issuer/login/username" > page.txt
"#;

/// The same on another device, with the page and the code that the program printed.
const DEVICE: &str = r#"set -eu
flux-resourceset-cli login --device -o table > out 2> err &
until grep -qs 'enter the code: ' err; do sleep 0.05; done
code=$(sed -n 's/.*enter the code: //p' err)
page=$(sed -n 's/^  \(http.*\)$/\1/p' err)
curl -sf "$page/?user_code=$code" > /dev/null
curl -sf -c cookies --data-urlencode "user_code=$code" --data "username=$WHO&password=password" "$page/login" > /dev/null
curl -sf -b cookies "$page/confirm?action=$1" > /dev/null
wait $! || echo "exit code $?"
cat out; sed '/^  http/s/.*/  PAGE/; s/code: .*/code: CODE/' err"#;

/// A server that trusts a provider, an identity for its admins, and a context.
struct Fleet {
    world: World,
    provider: OidcProvider,
}

fn fleet(lifetime: &str) -> Fleet {
    let provider = OidcProvider::start(lifetime);
    let world = World::trusting(provider.issuer(), provider.client());
    let body = r#"{"id": "platform", "role": "admin", "claims": {"groups": ["staff", "platform-admins"]}}"#;
    world.file("identity.json", body);
    world.file("browser", BROWSER);
    world.file("device", DEVICE);
    let ran = world.sh(
        "chmod +x browser && curl -sf -o /dev/null -H 'Authorization: Bearer write-token' -H 'Content-Type: application/json' \
         $FLUX_API_URL/identities -d @identity.json && flux-resourceset-cli config set-context fleet --url $FLUX_API_URL",
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let world = world
        .without("FLUX_API_URL")
        .without("FLUX_API_TOKEN")
        .without("FLUX_API_WRITE_TOKEN")
        .with("BROWSER", "./browser")
        .with("WHO", "ann");
    Fleet { world, provider }
}

impl Fleet {
    fn told(&self, lines: &[&str]) -> String {
        let told = self.world.transcript(lines).replace(self.provider.issuer(), "ISSUER/");
        let address = regex::Regex::new(r"ISSUER/auth\?\S+").unwrap();
        let told = address.replace_all(&told, "ISSUER/auth?…");
        let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").unwrap();
        time.replace_all(&told, "2026-01-01T00:00:00Z").into_owned()
    }
}

#[test]
fn in_a_browser() {
    let fleet = fleet("1h");
    insta::assert_snapshot!(fleet.told(&[
        "flux-resourceset-cli login -o table",
        "cat page.txt",
        "flux-resourceset-cli whoami -o table",
        "flux-resourceset-cli namespace create team-a --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli changes -o jsonpath='{.items[0].actor}'",
        "stat -c %a ~/.config/flux-resourceset/config.yaml",
        "flux-resourceset-cli config view -o yaml",
        "flux-resourceset-cli config get-contexts -o table",
        // The environment comes first.
        "FLUX_API_TOKEN=read-token flux-resourceset-cli login -o table",
        "flux-resourceset-cli logout",
        "flux-resourceset-cli logout",
        "flux-resourceset-cli whoami",
        "grep -c token ~/.config/flux-resourceset/config.yaml",
    ]));
}

#[test]
fn the_first_login_needs_only_the_address() {
    let fleet = fleet("1h");
    let url = fleet.world.url.clone();
    let Fleet { world, provider } = fleet;
    let fleet = Fleet {
        world: world.with("FLUX_API_URL", &url),
        provider,
    };
    insta::assert_snapshot!(fleet.told(&[
        "rm ~/.config/flux-resourceset/config.yaml && flux-resourceset-cli login -o name 2> /dev/null",
        "flux-resourceset-cli config get-contexts -o table",
        "unset FLUX_API_URL; flux-resourceset-cli whoami -o name",
    ]));
}

#[test]
fn those_who_are_nobody_are_told() {
    let fleet = fleet("1h");
    insta::assert_snapshot!(fleet.told(&[
        "WHO=bob flux-resourceset-cli login",
        "flux-resourceset-cli cluster list",
        "flux-resourceset-cli login --issuer http://login.example.com",
        "flux-resourceset-cli login --issuer http://127.0.0.1:1/",
    ]));
}

#[test]
fn on_another_device() {
    let fleet = fleet("1h");
    insta::assert_snapshot!(fleet.told(&[
        "bash ./device allowed",
        "flux-resourceset-cli whoami -o table",
        // This provider does not know whose refresh token it gave to a device.
        "flux-resourceset-cli logout",
        "bash ./device denied",
    ]));
}

#[test]
fn expired_tokens_are_refreshed_and_a_login_that_ended_says_so() {
    // Each token is old as soon as it is issued, so that each command fetches one.
    let fleet = fleet("12s");
    let token = "sed -n 's/ *id-token: //p' ~/.config/flux-resourceset/config.yaml";
    let ran = fleet.world.sh(&format!(
        "set -e; flux-resourceset-cli login -o name 2> /dev/null; {token} > first; flux-resourceset-cli whoami -o name; {token} > second; \
         ! cmp -s first second; for n in 1 2 3 4; do flux-resourceset-cli whoami -o name & done; wait; flux-resourceset-cli whoami -o name"
    ));
    // Commands that run at the same time do not use a refresh token twice.
    assert_eq!(
        (ran.code, ran.stdout.lines().collect::<Vec<_>>()),
        (0, vec!["platform"; 7]),
        "{}",
        ran.stderr
    );
    // The issuer forgets what it gave out: the refresh token is used up behind our back.
    let steal = "cp ~/.config/flux-resourceset/config.yaml old && flux-resourceset-cli whoami -o name && cp old ~/.config/flux-resourceset/config.yaml";
    assert_eq!(fleet.world.sh(steal).code, 0);
    insta::assert_snapshot!(fleet.told(&["flux-resourceset-cli whoami -o table"]));
    let Fleet { world, provider } = fleet;
    drop(provider);
    let away = world.sh("flux-resourceset-cli login; flux-resourceset-cli whoami");
    assert_eq!(away.code, 3, "{}", away.stderr);
    assert!(away.stderr.contains("cannot reach the issuer: "), "{}", away.stderr);
}

#[test]
fn servers_without_an_issuer_say_so() {
    let world = World::demo();
    let none = world.transcript(&[
        "flux-resourceset-cli login",
        "flux-resourceset-cli config get-contexts",
        "env -u FLUX_API_URL flux-resourceset-cli login",
        "flux-resourceset-cli config set-context other --url http://127.0.0.1:1 --use",
        "flux-resourceset-cli login",
        "flux-resourceset-cli login --context nowhere",
        "flux-resourceset-cli logout",
    ]);
    insta::assert_snapshot!(none);
}
