//! Commands come from the kinds that the server has.

use serde_json::json;

use crate::fixture::World;
use crate::transcript;

/// The file of the book's chapter "Extending with New Resource Types".
const NETWORK_POLICY: &str = "kind: network_policy
apiVersion: v1
schema:
  type: object
  required: [id, target_namespace, ingress_rules]
  properties:
    id:
      type: string
      example: allow-monitoring
    target_namespace:
      type: string
      example: monitoring
    ingress_rules:
      type: array
      items:
        type: object
        properties:
          from_namespace:
            type: string
          port:
            type: integer
";

#[test]
fn a_kind_that_is_added_has_its_commands() {
    let world = World::demo();
    world.file("network_policy.yaml", NETWORK_POLICY);
    transcript!(
        world,
        "flux-resourceset-cli network-policy list",
        "flux-resourceset-cli kind apply -f network_policy.yaml --dry-run -o name",
        "flux-resourceset-cli kind apply -f network_policy.yaml",
        "flux-resourceset-cli kind list -o table",
        "flux-resourceset-cli network-policy list",
        "flux-resourceset-cli network-policy create allow-monitoring --target-namespace monitoring \\\n  --ingress-rule from_namespace=prometheus,port=9090 --cluster demo-cluster-01",
        "flux-resourceset-cli network-policy get allow-monitoring",
        "flux-resourceset-cli network-policy create bad --target-namespace x --ingress-rule to=y",
        "flux-resourceset-cli network-policy where allow-monitoring -o table",
        "flux-resourceset-cli inputs demo-cluster-01 network-policy",
        "flux-resourceset-cli cluster list -o table",
        "flux-resourceset-cli network-policy unassign allow-monitoring --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli network-policy assign allow-monitoring --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli network-policy update allow-monitoring --target-namespace other -o name",
        "flux-resourceset-cli kind delete network-policy",
        "flux-resourceset-cli network-policy delete allow-monitoring",
        "flux-resourceset-cli network-policy delete allow-monitoring --cascade -o name",
        "flux-resourceset-cli kind delete network-policy -o name",
        "flux-resourceset-cli kind get network-policy",
    );
}

#[test]
fn the_commands_of_a_new_kind_have_help() {
    let world = World::demo();
    world.file("network_policy.yaml", NETWORK_POLICY);
    world
        .sh("flux-resourceset-cli kind apply -f network_policy.yaml")
        .json();
    transcript!(
        world,
        "flux-resourceset-cli network-policy --help",
        "flux-resourceset-cli network-policy create --help"
    );
}

#[test]
fn kinds_are_kept_by_their_version() {
    let world = World::demo();
    world.sh("flux-resourceset-cli cluster list").json();
    let cache = world.home.path().join(".cache/flux-resourceset");
    let file = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    // What the server still confirms is not sent again: a mark in what was kept shows up.
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, kept.replace("The component catalog", "The KEPT catalog")).unwrap();
    assert!(
        world
            .sh("flux-resourceset-cli component --help")
            .stdout
            .contains("The KEPT catalog")
    );
    // Once the server has other kinds, what was kept is gone.
    world.file("network_policy.yaml", NETWORK_POLICY);
    world
        .sh("flux-resourceset-cli kind apply -f network_policy.yaml")
        .json();
    assert!(
        world
            .sh("flux-resourceset-cli component --help")
            .stdout
            .contains("The component catalog")
    );
}

#[test]
fn help_needs_no_server() {
    let world = World::demo().with("FLUX_API_URL", "http://127.0.0.1:1");
    for line in [
        "--help",
        "component --help",
        "component create --help",
        "cluster list --help",
        "apply --help",
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
    }
    assert!(
        world
            .sh("flux-resourceset-cli component create --help")
            .stdout
            .contains("--component-path")
    );
}

#[test]
fn rolebindings_have_commands_too() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli rolebinding list -o table",
        "flux-resourceset-cli rolebinding create ops --role edit --subject kind=Group,name=ops,apiGroup=rbac.authorization.k8s.io \\\n  --subject '{\"kind\": \"User\", \"name\": \"jo\"}' --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli rolebinding get ops",
        "flux-resourceset-cli rolebinding update ops --role view -o name",
        "flux-resourceset-cli rolebinding get ops -o jsonpath='{.role}'",
        "flux-resourceset-cli rolebinding delete ops",
        "flux-resourceset-cli rolebinding unassign ops --cluster demo-cluster-01 -o name",
        "flux-resourceset-cli rolebinding delete ops",
    );
}

#[test]
fn clusters_are_created_changed_and_decommissioned() {
    let world = World::demo();
    transcript!(
        world,
        "flux-resourceset-cli cluster create new --cluster-dns new.example.com --environment qa --label team=a --node-count 3 \\\n  --component podinfo --namespace podinfo",
        "flux-resourceset-cli cluster get new",
        "flux-resourceset-cli cluster create new --cluster-dns new.example.com --environment qa",
        "flux-resourceset-cli cluster update new --node-count 5 --unset labels.team --protected",
        "flux-resourceset-cli cluster list --environment qa -o wide",
        "flux-resourceset-cli cluster diagnostics new",
        "flux-resourceset-cli cluster delete new",
        "flux-resourceset-cli cluster update new --protected=false -o name",
        "flux-resourceset-cli cluster delete new --reason 'end of life'",
        "flux-resourceset-cli inputs new.example.com component",
        "flux-resourceset-cli cluster history new -o table",
    );
    let changes = world.sh("flux-resourceset-cli changes --id new").json();
    assert_eq!(
        changes.as_array().unwrap().first().unwrap()["reason"],
        json!("end of life")
    );
}
