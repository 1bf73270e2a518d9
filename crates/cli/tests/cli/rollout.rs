//! Many clusters at once: selectors, overrides, pins, patches.

use serde_json::json;

use crate::fixture::World;
use crate::transcript;

#[test]
fn selectors_stand_wherever_cluster_does() {
    let world = World::fleet();
    transcript!(
        world,
        "flux-resourceset-cli component create keda --component-path keda --oci-url https://kedacore.github.io/charts --oci-tag 2.1.0 -o name",
        "flux-resourceset-cli component assign keda -l environment=dev",
        "flux-resourceset-cli component patch podinfo -l 'environment in (dev,qa)' --set replicaCount=3",
        "flux-resourceset-cli component patch podinfo --all --set ui.color=red --unset replicaCount -o name",
        "flux-resourceset-cli component where keda -o table",
        "flux-resourceset-cli component where keda -l team=b -o name",
        "flux-resourceset-cli namespace create shared --label a=b -l '!canary,team' --dry-run -o table",
        "flux-resourceset-cli namespace create shared --label a=b -l team=a -o name",
        "flux-resourceset-cli component unassign keda -l team=b -o table",
        "flux-resourceset-cli component unassign podinfo --cluster dev-1 --cluster dev-2 --drop-patches --yes -o name",
        "flux-resourceset-cli cluster list -l team=a -o table",
        "flux-resourceset-cli get clusters -l environment=prod -o name",
    );
    let cluster = world.sh("flux-resourceset-cli cluster get dev-1").json();
    assert_eq!(cluster["patches"], json!({}), "dropped with the reference");
}

#[test]
fn one_revision_for_all() {
    let world = World::fleet();
    let receipt = world
        .sh("flux-resourceset-cli component patch podinfo --all --set a=1")
        .json();
    assert_eq!(receipt["changes"].as_array().unwrap().len(), 5);
    let changes = world
        .sh(&format!(
            "flux-resourceset-cli changes --after {}",
            receipt["revision"].as_u64().unwrap() - 1
        ))
        .json();
    assert!(
        changes
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["revision"] == receipt["revision"])
    );
}

#[test]
fn a_selector_that_selects_nothing_is_refused() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component assign podinfo -l ''",
        "flux-resourceset-cli component assign podinfo -l \"$UNSET\"",
        "flux-resourceset-cli component assign podinfo -l team=z",
        "flux-resourceset-cli component assign podinfo -l taem=a",
        "flux-resourceset-cli component assign podinfo -l 'team=a,'",
        "flux-resourceset-cli component assign podinfo",
        "flux-resourceset-cli component assign podinfo -l team=a --all",
        "flux-resourceset-cli component unpin podinfo -l team=z",
        "flux-resourceset-cli component override podinfo -l taem=a --oci-tag 1",
    );
}

#[test]
fn a_hotfix_and_the_release_that_collapses_it() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component override cert-manager -l environment=prod --oci-tag v1.0.0-1 --component-path core/cert-manager/1.14.1 --reason CVE",
        "flux-resourceset-cli component override cert-manager --cluster dev-1 --oci-tag v1.1.0-rc1",
        "flux-resourceset-cli component where cert-manager -o table",
        "flux-resourceset-cli component where cert-manager -o wide -l environment=prod",
        "flux-resourceset-cli component where cert-manager -l environment=prod",
        "flux-resourceset-cli component pins",
        "flux-resourceset-cli component pins cert-manager -l environment=dev -o table",
        "flux-resourceset-cli component override cert-manager --cluster prod-1 --clear component_path --dry-run -o table",
        "flux-resourceset-cli component override cert-manager --cluster prod-1 --clear component-path -o name",
        "flux-resourceset-cli component update cert-manager --oci-tag v1.1.0 -o name",
        "flux-resourceset-cli component unpin cert-manager -l 'environment in (dev,prod)'",
        "flux-resourceset-cli component unpin cert-manager --all",
        "flux-resourceset-cli component pins",
        "flux-resourceset-cli component where cert-manager -o table",
    );
}

#[test]
fn components_are_turned_off_and_on_where_they_are() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component unassign podinfo --cluster qa-1 -o name",
        "flux-resourceset-cli component disable podinfo -l team=a",
        "flux-resourceset-cli component disable podinfo --cluster qa-1",
        "flux-resourceset-cli component disable nope --cluster qa-1",
        "flux-resourceset-cli component disable podinfo --cluster nope",
        "flux-resourceset-cli component where podinfo -o table",
        "flux-resourceset-cli component enable podinfo --all -o name",
    );
}

#[test]
fn assign_keeps_overrides_and_can_set_them() {
    let world = World::fleet();
    transcript!(
        world,
        "flux-resourceset-cli component override podinfo --cluster dev-1 --oci-tag 6.0.0 -o name",
        "flux-resourceset-cli component assign podinfo --cluster dev-1",
        "flux-resourceset-cli component assign podinfo --cluster dev-1 --component-path other --enabled=false -o name",
        "flux-resourceset-cli component where podinfo -l id=dev-1 -o table",
        "flux-resourceset-cli component unassign podinfo --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli component unassign podinfo --all --yes -o name",
    );
}

#[test]
fn patch_keys_are_set_and_removed() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --unset ui.message --set ui.color=blue=green",
        "flux-resourceset-cli cluster get demo-cluster-01 -o jsonpath='{.patches.podinfo}'",
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set a=1 --unset a",
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set novalue",
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01",
        "flux-resourceset-cli component patch nope --cluster demo-cluster-01 --set a=1",
        "flux-resourceset-cli component patch podinfo --cluster nope --set a=1",
    );
}

#[test]
fn patches_for_absent_components_are_reported() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component unassign podinfo -l environment=dev --yes -o name",
        "flux-resourceset-cli component patch podinfo -l 'environment in (dev,prod)' --set a=1 -o name",
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set a=2 -o name",
        "flux-resourceset-cli component patch podinfo --cluster qa-1 --cluster dev-1 --set a=1 --dry-run -o name",
    );
}

#[test]
fn two_writers_lose_nothing() {
    let world = World::fleet();
    // Each override rests on a list that the others change meanwhile.
    let line = |n: usize| {
        format!(
            "flux-resourceset-cli component override podinfo --all --{} v{n}",
            if n.is_multiple_of(2) {
                "oci-tag"
            } else {
                "component-path"
            }
        )
    };
    let children: Vec<_> = (0..6)
        .map(|n| {
            world
                .command(&line(n))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut done = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => done += 1,
            code => assert_eq!(
                (
                    code,
                    String::from_utf8_lossy(&output.stderr).contains("someone else has changed it")
                ),
                (Some(1), true)
            ),
        }
    }
    assert!(done > 0);
    let pins = world.sh("flux-resourceset-cli component pins podinfo").json();
    let fields = |name: &str| {
        pins.as_array()
            .unwrap()
            .iter()
            .filter(|pin| pin["field"] == name)
            .count()
    };
    assert!(
        [0, 5].contains(&fields("oci_tag")) && [0, 5].contains(&fields("component_path")),
        "{pins}"
    );
}
