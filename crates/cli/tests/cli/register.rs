//! `register`: a cluster that joins by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::fixture::World;

const REGISTER: &str = "FLUX_API_WRITE_TOKEN= FLUX_API_TOKEN=$(cat join) flux-resourceset-cli register -o table --environment dev --token-file";

#[test]
fn a_cluster_joins_within_the_scope_of_its_identity() {
    let world = World::demo();
    let create = "flux-resourceset-cli identity create factory --role join --dns-suffix .edge.example.com --environments dev --label ring=edge --uses 2";
    assert_eq!(world.sh(create).code, 0);
    assert_eq!(world.sh("flux-resourceset-cli token create factory > join").code, 0);
    let register = |rest: &str| format!("{REGISTER} {rest}");
    let told = world.transcript(&[
        &register("one edge-1 --dns edge-1.edge.example.com"),
        // The same again: the response may have been lost.
        &register("one edge-1 --dns edge-1.edge.example.com"),
        "flux-resourceset-cli cluster get edge-1 -o jsonpath='{.environment} {.cluster_dns} {.labels.ring}'",
        "FLUX_API_TOKEN=$(cat one) flux-resourceset-cli whoami --reading -o table",
        // Someone else with the same name.
        &register("two edge-1 --dns edge-1.edge.example.com"),
        &register("two edge-2 --dns edge-2.example.com"),
        &register("two edge-2 --dns edge-2.edge.example.com --label ring=core"),
        &register("two edge-2 --dns edge-2.edge.example.com --environment prod").replace("--environment dev ", ""),
        &register("two edge-2 --dns edge-2.edge.example.com --label rack=r7"),
        &register("three edge-3 --dns edge-3.edge.example.com"),
        "flux-resourceset-cli identity list -o table",
        "flux-resourceset-cli cluster list -o name",
        // Other tokens do not register, and no place for the token is no registration.
        "flux-resourceset-cli register edge-4 --dns edge-4.edge.example.com --environment dev --token-file four -o name",
        "flux-resourceset-cli register edge-4 --dns edge-4.edge.example.com --environment dev",
        "flux-resourceset-cli register edge-4 --dns edge-4.edge.example.com --environment dev --secret internal-api-token",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(told) });
    let kept = world.work().join("one");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&kept).unwrap();
    let list = world.sh("flux-resourceset-cli token list").stdout;
    assert!(token.starts_with("frs_c_") && !list.contains(token.trim()));
}

#[test]
fn an_identity_that_has_expired_registers_nobody() {
    let world = World::demo();
    let create = "flux-resourceset-cli identity create factory --role join --dns-suffix .edge.example.com --uses 2 --expires-in 1s";
    assert_eq!(world.sh(create).code, 0);
    assert_eq!(
        world
            .sh("flux-resourceset-cli token create factory > join; sleep 2")
            .code,
        0
    );
    let ran = world.sh(&format!("{REGISTER} one edge-1 --dns edge-1.edge.example.com"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("expired"), "{}", ran.stderr);
    assert_eq!(
        world.sh("flux-resourceset-cli cluster list -o name").stdout,
        "clusters/demo-cluster-01\n"
    );
}
