//! Somebody else writes between what a command reads and what it writes.

use serde_json::json;

use crate::fixture::World;
use crate::transcript;

/// A world in which `line` happens after a command has read, and before it writes: the command that gives the write token does it.
fn meddled(world: World, line: &str) -> World {
    let url = world.url.clone();
    world.file(
        "meddle.sh",
        &format!(
            "export FLUX_API_URL={url} FLUX_API_TOKEN=write-token\n[ -e done ] || flux-resourceset-cli {line} >/dev/null\ntouch done\n\
             echo write-token\n"
        ),
    );
    let world = world
        .without("FLUX_API_URL")
        .without("FLUX_API_TOKEN")
        .without("FLUX_API_WRITE_TOKEN");
    let set = format!("config set-context x --url {url} --token read-token --write-token-command 'sh meddle.sh'");
    world.sh(&format!("flux-resourceset-cli {set}")).json();
    world
}

const CREATE: &str = "flux-resourceset-cli component create podinfo --component-path podinfo --oci-tag latest \
                      --oci-url https://stefanprodan.github.io/podinfo --depends-on traefik --cluster demo-cluster-01";

#[test]
fn what_was_equal_when_it_was_read_is_read_again() {
    let world = meddled(World::demo(), "component update podinfo --oci-tag 6.0.0");
    transcript!(world, CREATE);
}

#[test]
fn what_was_absent_when_it_was_read_is_read_again() {
    let world = meddled(World::demo(), "namespace create new --label owner=them");
    transcript!(
        world,
        "flux-resourceset-cli namespace create new --label owner=us --cluster demo-cluster-01"
    );
}

#[test]
fn an_override_does_not_bring_back_what_was_taken_meanwhile() {
    let world = meddled(World::fleet(), "component unassign podinfo --cluster dev-1");
    let receipt = world
        .sh("flux-resourceset-cli component override podinfo -l environment=dev --oci-tag 6.0.0")
        .json();
    let changed: Vec<_> = receipt["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["id"].clone())
        .collect();
    assert_eq!(changed, [json!("demo-cluster-01"), json!("dev-2")]);
    let names = world
        .sh("flux-resourceset-cli component where podinfo -l environment=dev -o name")
        .stdout;
    assert_eq!(names, "clusters/demo-cluster-01\nclusters/dev-2\n");
}

#[test]
fn a_merge_loses_nothing() {
    let world = meddled(World::demo(), "namespace update podinfo --annotation owner=them");
    world
        .sh("flux-resourceset-cli namespace update podinfo --label team=us")
        .json();
    let namespace = world.sh("flux-resourceset-cli namespace get podinfo").json();
    assert_eq!(
        (&namespace["annotations"]["owner"], &namespace["labels"]["team"]),
        (&json!("them"), &json!("us"))
    );
}

#[test]
fn what_should_be_pruned_may_be_gone_already() {
    let world = World::demo();
    world.file(
        "namespaces.yaml",
        &world.sh("flux-resourceset-cli export namespaces -o yaml").stdout,
    );
    for name in ["one", "two"] {
        world
            .sh(&format!("flux-resourceset-cli namespace create {name}"))
            .json();
    }
    let world = meddled(world, "namespace delete one");
    transcript!(
        world,
        "flux-resourceset-cli apply -f - --prune --kind namespaces -o table <namespaces.yaml"
    );
}
