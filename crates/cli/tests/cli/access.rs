//! Contexts and tokens.

use std::os::unix::fs::PermissionsExt as _;

use crate::fixture::World;
use crate::transcript;

fn without_environment() -> World {
    World::demo()
        .without("FLUX_API_URL")
        .without("FLUX_API_TOKEN")
        .without("FLUX_API_WRITE_TOKEN")
}

#[test]
fn contexts() {
    let world = without_environment();
    world.file("token", "read-token\n");
    let set = |rest: &str| format!("flux-resourceset-cli config set-context {rest}");
    transcript!(
        world,
        "flux-resourceset-cli config get-contexts",
        "flux-resourceset-cli config current-context",
        "flux-resourceset-cli config set-context demo",
        "flux-resourceset-cli config set-context demo --url example.com",
        &set(&format!(
            "demo --url {}/ --token-file token --write-token write-token",
            world.url
        )),
        "flux-resourceset-cli namespace create from-context -o name",
        &set("away --url http://127.0.0.1:1 --token secret --use"),
        "flux-resourceset-cli config get-contexts -o table",
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli cluster list -o name --context demo",
        "flux-resourceset-cli --context=demo cluster list -o name",
        "flux-resourceset-cli config use-context demo -o name",
        "flux-resourceset-cli config current-context -o table",
        "flux-resourceset-cli config current-context",
        "flux-resourceset-cli config current-context -o json",
        &set("demo --token-command 'echo read-token' -o name"),
        "flux-resourceset-cli cluster list -o name",
        &set("demo --token-command 'exit 3' -o name"),
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli config view",
        "flux-resourceset-cli config view --raw -o jsonpath='{.contexts.away.token}'",
        "flux-resourceset-cli config delete-context demo -o name",
        "flux-resourceset-cli cluster list",
        "flux-resourceset-cli cluster list --context demo",
        "flux-resourceset-cli config use-context demo",
        &set("x --url http://x --token a --token-file b"),
    );
    let file = world.home.path().join(".config/flux-resourceset/config.yaml");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_environment_wins_and_tokens_stay_with_their_address() {
    let world = without_environment();
    world
        .sh("flux-resourceset-cli config set-context away --url http://127.0.0.1:1 --token secret")
        .json();
    let url = world.url.clone();
    transcript!(
        world,
        &format!("FLUX_API_URL={url} FLUX_API_TOKEN=read-token flux-resourceset-cli cluster list -o name"),
        &format!("FLUX_API_URL={url} flux-resourceset-cli cluster list -o name"),
        &format!(
            "FLUX_API_URL={url} FLUX_API_TOKEN=read-token flux-resourceset-cli cluster list -o name --context away"
        ),
    );
}

#[test]
fn a_broken_file_is_named_and_not_in_the_way() {
    let world = World::demo().with("FLUX_RESOURCESET_CONFIG", "broken.yaml");
    world.file("broken.yaml", "contexts: {a: {address: x}}\n");
    transcript!(
        world,
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli config get-contexts",
        "FLUX_API_URL= flux-resourceset-cli cluster list",
    );
}
