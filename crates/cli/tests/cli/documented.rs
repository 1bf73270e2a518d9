//! Every command of the book's chapters "CLI Usage", "Local Demo" and "Dynamic Patching", as printed there.

use serde_json::json;

use crate::fixture::World;
use crate::transcript;

#[test]
fn cluster_operations() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli cluster list",
        "flux-resourceset-cli cluster get demo-cluster-01"
    );
}

#[test]
fn namespace_operations() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli namespace list",
        "flux-resourceset-cli namespace get cert-manager",
        "flux-resourceset-cli namespace create team-sandbox --cluster demo-cluster-01 \\\n--label team=sandbox --annotation owner=platform",
        "flux-resourceset-cli namespace assign team-sandbox --cluster demo-cluster-01",
        "flux-resourceset-cli namespace unassign team-sandbox --cluster demo-cluster-01",
        "flux-resourceset-cli namespace get team-sandbox",
    );
}

const CREATE: &str = "flux-resourceset-cli component create cert-manager \\
--component-path core/cert-manager/1.14.0 \\
--component-version 1.14.0 \\
--oci-url oci://registry.example/platform-components \\
--oci-tag v1.0.0 \\
--cluster demo-cluster-01";

#[test]
fn component_operations() {
    let world = World::demo();
    transcript!(
        world,
        "flux-resourceset-cli component list",
        "flux-resourceset-cli component get cert-manager",
        // The demo's cert-manager is another one: that is said, and nothing is changed.
        CREATE,
        &format!("{CREATE} --update"),
        CREATE,
        "flux-resourceset-cli component assign cert-manager --cluster demo-cluster-01",
        "flux-resourceset-cli component unassign cert-manager --cluster demo-cluster-01",
        CREATE,
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set replicaCount=3",
    );
    let cluster = world.sh("flux-resourceset-cli cluster get demo-cluster-01").json();
    assert_eq!(
        cluster["patches"]["podinfo"]["replicaCount"], "3",
        "a string, as templates need it"
    );
}

#[test]
fn create_on_a_cluster_is_one_revision() {
    let world = World::demo();
    let create = "flux-resourceset-cli component create keda --component-path keda --oci-url https://kedacore.github.io/charts \
                  --oci-tag 2.1.0 --cluster demo-cluster-01";
    let receipt = world.sh(create).json();
    assert_eq!(receipt["revision"], 2);
    assert_eq!(receipt["changes"].as_array().unwrap().len(), 2);
    assert_eq!(
        world.sh(create).json(),
        json!({"revision": 2, "changes": []}),
        "saying it again changes nothing"
    );
}

#[test]
fn demo_commands() {
    let add = "flux-resourceset-cli demo add-namespace demo-cluster-01 demo-runtime \\\n--label team=platform \\\n--annotation owner=you";
    let patch = "flux-resourceset-cli demo patch-component demo-cluster-01 podinfo \\
--set replicaCount=3 \\
--set ui.message=\"Hello\" \\
--set ui.color=\"#3b82f6\"";
    transcript!(
        World::demo(),
        add,
        add,
        patch,
        patch,
        "flux-resourceset-cli demo flux-namespaces demo-cluster-01.k8s.example.com",
    );
}

#[test]
fn the_workflows() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli namespace create team-sandbox --cluster demo-cluster-01 \\\n--label team=sandbox --annotation owner=platform",
        "flux-resourceset-cli demo patch-component demo-cluster-01 podinfo --set replicaCount=5",
    );
}

#[test]
fn the_commands_that_are_piped_to_jq() {
    let world = World::demo();
    // The pipe is part of what is printed. Where jq is not installed, something stands in for it, and JSON is checked here.
    if !world.sh("command -v jq").stdout.starts_with('/') {
        let shim = world.home.path().join("bin/jq");
        std::fs::write(&shim, "#!/bin/sh\nexec cat\n").unwrap();
        std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for line in [
        "flux-resourceset-cli cluster list | jq .",
        "./target/debug/flux-resourceset-cli cluster list | jq .",
        "./target/debug/flux-resourceset-cli namespace list | jq .",
        "./target/debug/flux-resourceset-cli demo patch-component demo-cluster-01 podinfo \\
--set replicaCount=3 \\
--set ui.message=\"Hello from CLI patch\" \\
--set ui.color=\"#3b82f6\" | jq .",
    ] {
        let ran = world.sh(line);
        ran.json();
        assert_eq!(ran.stderr, "", "{line}");
    }
    let cluster = world.sh("flux-resourceset-cli cluster get demo-cluster-01").json();
    let expected = json!({"replicaCount": "3", "ui.message": "Hello from CLI patch", "ui.color": "#3b82f6"});
    assert_eq!(cluster["patches"]["podinfo"], expected);
}

#[test]
fn the_write_token_falls_back_to_the_read_token() {
    let world = World::demo()
        .with("FLUX_API_TOKEN", "write-token")
        .without("FLUX_API_WRITE_TOKEN");
    transcript!(world, "flux-resourceset-cli namespace create x -o name");
}
