//! `cluster bootstrap`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::fixture::World;
use crate::identities::tidy;
use crate::tls::Authority;

const BOOTSTRAP: &str = "flux-resourceset-cli cluster bootstrap demo-cluster-01 --url https://fleet.example.com";

/// The objects of a bootstrap by kind and name.
fn objects(world: &World, line: &str) -> Vec<Value> {
    let list = world.sh(&format!("{line} -o json")).json();
    list["items"].as_array().unwrap().clone()
}

fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let found = found.find(|object| object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{kind} {name}"))
}

fn tokens(world: &World) -> usize {
    world
        .sh("flux-resourceset-cli token list")
        .json()
        .as_array()
        .unwrap()
        .len()
}

#[test]
fn what_a_cluster_applies() {
    let world = World::demo();
    let told = world.transcript(&[
        &format!("{BOOTSTRAP} -o name"),
        &format!("{BOOTSTRAP} --interval 30s --expires-in 90d --reason 'first boot' | head -n 70"),
        &format!("{BOOTSTRAP} --dry-run --source oci://127.0.0.1:5000/manifests:v1 --flux-instance --interval 1m | tail -n 44"),
        "flux-resourceset-cli changes --records --kind identities -o jsonpath='{range .items[*]}{.id}: {.reason}{\"\\n\"}{end}'",
        "flux-resourceset-cli cluster bootstrap demo-cluster-01 --dry-run | grep -A 8 'type: ExternalService' | head -n 9",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(tidy(&told)) });
    assert_eq!(tokens(&world), 2, "each run that is not a dry run issues one");
}

#[test]
fn the_token_is_the_clusters_own() {
    let world = World::demo();
    let all = objects(&world, BOOTSTRAP);
    let token = object(&all, "Secret", "internal-api-token")["stringData"]["token"]
        .as_str()
        .unwrap();
    let who = world.sh(&format!("FLUX_API_TOKEN={token} flux-resourceset-cli whoami --reading"));
    assert_eq!(who.json()["id"], "cluster:demo-cluster-01");
    // The templates are those that the server renders plans with.
    let shipped = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../k8s/resourcesets/platform-components.yaml"
    ));
    let set = object(&all, "ResourceSet", "platform-components");
    let template = set["spec"]["resourcesTemplate"].as_str().unwrap();
    let first = template.lines().find(|line| line.len() > 20).unwrap();
    assert!(shipped.unwrap().contains(first), "{first}");
}

#[test]
fn a_kind_that_is_added_has_a_provider_and_the_template_of_the_server() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/examples/network-policies");
    let plain = World::demo();
    let add = format!("flux-resourceset-cli kind apply -f {example}/network_policy.yaml");
    assert_eq!(plain.sh(&add).code, 0);
    let ran = plain.sh(&format!("{BOOTSTRAP} -o name"));
    assert!(
        ran.stdout
            .contains("ResourceSetInputProvider/flux-system/network-policies\n"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains("ResourceSet/flux-system/network-policies"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr
            .contains("no ResourceSet of the server reads network-policies"),
        "{}",
        ran.stderr
    );

    // A server with templates of its own: a provider may have another name than its path, and default values.
    let provider = fs::read_to_string(format!("{example}/provider.yaml")).unwrap();
    let provider = provider.replace("name: network-policies", "name: policies") + "  defaultValues: {interval: 1m}\n";
    let set = fs::read_to_string(format!("{example}/resourceset.yaml")).unwrap();
    let templates = format!(
        "{provider}---\n{}",
        set.replace("name: network-policies", "name: policies")
    );
    let own = World::with_templates(&templates);
    assert_eq!(own.sh(&add).code, 0);
    let all = objects(&own, BOOTSTRAP);
    let provider = object(&all, "ResourceSetInputProvider", "policies");
    let url =
        "https://fleet.example.com/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/network-policies?marked=true";
    assert_eq!(provider["spec"]["url"], url);
    assert_eq!(provider["spec"]["defaultValues"], json!({"interval": "1m"}));
    assert_eq!(
        object(&all, "ResourceSet", "policies")["spec"]["inputsFrom"][0]["name"],
        "policies"
    );
    // Every kind has a provider, also those that these templates leave out.
    object(&all, "ResourceSetInputProvider", "namespaces");
}

#[test]
fn the_reporter_and_notifications() {
    let world = World::demo();
    let told = world.transcript(&[
        &format!("{BOOTSTRAP} --reporter -o name | tail -n 4"),
        &format!("{BOOTSTRAP} --reporter --nudge --notifications -o name | tail -n 9"),
        &format!("{BOOTSTRAP} --nudge"),
        &format!("{BOOTSTRAP} --reporter --notifications -o out && ls -l out | awk 'NR > 1 {{print $1, $NF}}'"),
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(tidy(&told)) });

    let all = objects(
        &world,
        &format!("{BOOTSTRAP} --reporter --notifications --flux-instance"),
    );
    let token = object(&all, "Secret", "internal-api-token")["stringData"]["token"]
        .as_str()
        .unwrap();
    let events = object(&all, "Secret", "flux-resourceset-events");
    assert_eq!(
        events["stringData"],
        json!({"headers": format!("Authorization: Bearer {token}\n")})
    );
    let provider = object(&all, "Provider", "flux-resourceset");
    let url = "https://fleet.example.com/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/events";
    assert_eq!(provider["spec"]["address"], url);
    assert_eq!(
        provider["spec"]["secretRef"],
        json!({"name": "flux-resourceset-events"})
    );
    let components = &object(&all, "FluxInstance", "flux")["spec"]["components"];
    assert!(
        components
            .as_array()
            .unwrap()
            .contains(&"notification-controller".into()),
        "{components}"
    );
    let container = |all: &[Value]| {
        object(all, "Deployment", "flux-resourceset-reporter")["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let image = concat!("ghcr.io/example/flux-resourceset-reporter:", env!("CARGO_PKG_VERSION"));
    assert_eq!(container(&all)["image"], image);
    assert!(!container(&all).to_string().contains("NUDGE"));
    let can_patch = |all: &[Value]| {
        all.iter()
            .any(|object| object["kind"] == "Role" && object.to_string().contains("patch"))
    };
    assert!(!can_patch(&all), "only the nudge needs to patch");

    let all = objects(
        &world,
        &format!("{BOOTSTRAP} --reporter --nudge --reporter-image registry.example/reporter:v1"),
    );
    assert_eq!(container(&all)["image"], "registry.example/reporter:v1");
    let env = container(&all)["env"].as_array().unwrap().clone();
    assert_eq!(env.last().unwrap(), &json!({"name": "NUDGE", "value": "true"}));
    assert!(can_patch(&all));

    // A cluster with a client certificate shows it instead of a token.
    let authority = Authority::new();
    world.file("ca.pem", &authority.0.pem());
    authority.sign(&world, "own", "demo-cluster-01.k8s.example.com");
    let own = "--ca-file ca.pem --cert-file own.pem --key-file own.key --notifications";
    let all = objects(&world, &format!("{BOOTSTRAP} {own}"));
    let provider = object(&all, "Provider", "flux-resourceset");
    assert_eq!(provider["spec"]["certSecretRef"], json!({"name": "internal-api-tls"}));
    assert!(provider["spec"].get("secretRef").is_none(), "{provider}");
    assert!(
        all.iter()
            .all(|object| object["metadata"]["name"] != "flux-resourceset-events")
    );
}

#[test]
fn certificates() {
    let world = World::demo();
    let authority = Authority::new();
    world.file("ca.pem", &authority.0.pem());
    authority.sign(&world, "own", "demo-cluster-01.k8s.example.com");
    authority.sign(&world, "other", "other.example.com");

    let all = objects(&world, &format!("{BOOTSTRAP} --ca-file ca.pem --source oci://h/n"));
    let provider = object(&all, "ResourceSetInputProvider", "namespaces");
    assert_eq!(provider["spec"]["certSecretRef"], json!({"name": "internal-api-tls"}));
    assert_eq!(provider["spec"]["secretRef"], json!({"name": "internal-api-token"}));
    let secret = object(&all, "Secret", "internal-api-tls");
    assert_eq!(secret["stringData"], json!({"ca.crt": authority.0.pem()}));
    let patch = object(&all, "Kustomization", "flux-resourceset")["spec"]["patches"][0]["patch"]
        .as_str()
        .unwrap();
    assert!(
        patch.contains("/spec/certSecretRef") && !patch.contains("secretRef\n  op: remove"),
        "{patch}"
    );
    assert_eq!(tokens(&world), 1);

    let own = "--ca-file ca.pem --cert-file own.pem --key-file own.key";
    let all = objects(&world, &format!("{BOOTSTRAP} {own} --source oci://h/n"));
    let provider = object(&all, "ResourceSetInputProvider", "namespaces");
    assert!(provider["spec"].get("secretRef").is_none(), "{provider}");
    let keys: Vec<&String> = object(&all, "Secret", "internal-api-tls")["stringData"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    assert!(
        all.iter()
            .all(|object| object["metadata"]["name"] != "internal-api-token")
    );
    assert_eq!(tokens(&world), 1, "a certificate needs no token");

    let told = world.transcript(&[
        &format!("{BOOTSTRAP} --ca-file missing.pem"),
        &format!("{BOOTSTRAP} --ca-file own.key"),
        &format!("{BOOTSTRAP} --cert-file own.pem"),
        &format!("{BOOTSTRAP} --cert-file own.pem --key-file other.key"),
        &format!("{BOOTSTRAP} --cert-file own.pem --key-file own.key --expires-in 90d"),
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(told) });
    assert_eq!(tokens(&world), 1);
}

#[test]
fn a_folder() {
    let world = World::demo();
    let told = world.transcript(&[
        &format!("{BOOTSTRAP} -o out --source oci://h/n && ls out && cat out/kustomization.yaml"),
        &format!("{BOOTSTRAP} -o out"),
        "flux-resourceset-cli token list -o name | wc -l",
        &format!("touch out/mine && {BOOTSTRAP} -o out --force && ls out"),
        &format!("touch file && {BOOTSTRAP} -o file"),
        // The folder cannot be made: the token that was issued for it is revoked.
        &format!("{BOOTSTRAP} -o /proc/nowhere"),
        "flux-resourceset-cli token list -o name | wc -l",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(tidy(&told)) });
    let mode = |name: &str| {
        fs::metadata(world.work().join("out").join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("internal-api-token.yaml"), 0o600);
    assert_eq!(mode("providers.yaml"), 0o644);
}

#[test]
fn nothing_is_issued_for_what_cannot_be_bootstrapped() {
    let world = World::fleet();
    assert_eq!(
        world
            .sh("flux-resourceset-cli identity create a --role operator --clusters team=a")
            .code,
        0
    );
    assert_eq!(world.sh("flux-resourceset-cli token create a > a").code, 0);
    let told = world.transcript(&[
        "flux-resourceset-cli cluster bootstrap dev-9",
        "flux-resourceset-cli cluster bootstrap",
        "flux-resourceset-cli cluster bootstrap dev-1 --url fleet.example.com",
        "flux-resourceset-cli cluster bootstrap dev-1 --source ghcr.io/a/b",
        "flux-resourceset-cli cluster bootstrap dev-1 --expires-in soon",
        "FLUX_API_WRITE_TOKEN= flux-resourceset-cli cluster bootstrap dev-1",
        "FLUX_API_WRITE_TOKEN=$(cat a) flux-resourceset-cli cluster bootstrap dev-2",
        "FLUX_API_WRITE_TOKEN=$(cat a) flux-resourceset-cli cluster bootstrap dev-1 -o name",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(tidy(&told)) });
    assert_eq!(tokens(&world), 2, "that of the operator, and the one that it may issue");
}
