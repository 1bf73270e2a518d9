//! Asked before it reaches many: every write, at a terminal and in a pipe.

use serde_json::{Value, json};

use crate::fixture::World;
use crate::transcript;

#[test]
fn writes_that_reach_several_clusters_or_remove_something_are_asked_about() {
    let world = World::fleet()
        .with("NO_COLOR", "1")
        .with("EDITOR", "sed -i s/traefik.github.io/example.com/");
    let yes = "asked 1; echo y";
    let no = "asked 1; echo n";
    let silent = "true";
    let transcript = world.terminal_transcript(&[
        ("component unassign podinfo --all -o name", no),
        ("component patch podinfo --all --set a=1 -o name", yes),
        ("component patch podinfo --cluster dev-1 --set a=2 -o name", silent),
        ("component unassign podinfo --cluster dev-1 -o name", no),
        ("component unassign podinfo --cluster dev-1 -o name", yes),
        ("component update traefik --oci-tag 30.0.0 -o name", no),
        ("component edit traefik -o name", no),
        ("cluster delete qa-1 -o name", no),
        ("delete cluster qa-1 -o name --yes", silent),
        ("namespace create new -o table", silent),
        ("namespace create shared -l team=b -o table", yes),
        ("namespace delete new -o table", silent),
        ("component delete podinfo --cascade -o name", no),
        ("cluster update dev-1 --label team=c -o table", silent),
        // Nothing changes, so there is nothing to ask.
        ("component assign traefik --all -o table", silent),
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(transcript) });
}

#[test]
fn no_leaves_everything_as_it_was() {
    let world = World::fleet().with("NO_COLOR", "1");
    let before = world.sh("flux-resourceset-cli changes").json();
    for line in [
        "component assign cert-manager --all --oci-tag v9",
        "component unassign podinfo -l environment=dev",
        "component override podinfo --all --oci-tag v9",
        "component disable podinfo --cluster dev-1",
        "component patch podinfo --all --set a=1",
        "component create podinfo --component-path x --oci-url https://example.com --oci-tag v9 --update",
        "component update podinfo --oci-tag v9",
        "namespace create shared --all",
        "namespace delete podinfo --cascade",
        "delete cluster dev-1",
        "cluster delete dev-1",
    ] {
        let ran = world.at_a_terminal(line, "asked 1; echo n");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{line}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("error: cancelled; nothing was changed\n"),
            "{line}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains("[y/N]"), "{line}: {}", ran.stderr);
    }
    assert_eq!(world.sh("flux-resourceset-cli changes").json(), before);
}

/// What is typed after the plan counts for that plan only.
#[test]
fn what_was_confirmed_is_what_happens() {
    let world = World::fleet();
    let meddle = "flux-resourceset-cli component unassign podinfo --cluster qa-1 >/dev/null";
    let ran = world.at_a_terminal(
        "component update podinfo --oci-tag 6.6.0 -o name",
        &format!("asked 1; {meddle}; echo y; asked 2; echo y"),
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "platform_components/podinfo\n"),
        "{}",
        ran.stderr
    );
    let (first, second) = ran
        .stderr
        .split_once("the fleet has changed since; this is the new plan:")
        .unwrap();
    assert!(first.contains("the same on 5 clusters"), "{first}");
    assert!(second.contains("the same on 4 clusters"), "{second}");
    // An override names the versions that it read: it starts over.
    let meddle = "flux-resourceset-cli cluster update dev-1 --label team=z >/dev/null";
    let ran = world.at_a_terminal(
        "component override podinfo -l environment=dev --oci-tag 6.7.0 -o name",
        &format!("asked 1; {meddle}; echo y; asked 2; echo y"),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("the fleet has changed since"), "{}", ran.stderr);
}

#[test]
fn without_a_terminal_removals_from_several_clusters_need_a_word() {
    transcript!(
        World::fleet_with_budget("4"),
        // What touches one cluster, or removes nothing, goes through.
        "flux-resourceset-cli component unassign podinfo --cluster dev-1 -o name",
        "flux-resourceset-cli component patch podinfo --all --set a=1 -o name",
        "flux-resourceset-cli cluster delete dev-1 -o name",
        "flux-resourceset-cli component unassign podinfo --cluster dev-2 --cluster qa-1 -o name",
        "flux-resourceset-cli component disable podinfo -l 'environment in (dev,qa)' -o name",
        "flux-resourceset-cli namespace create everywhere --all -o name",
        "flux-resourceset-cli namespace delete everywhere --cascade -o name",
        "flux-resourceset-cli namespace delete everywhere --cascade --yes -o name",
        "flux-resourceset-cli namespace delete everywhere --cascade --confirm-removals 4 -o name",
        "flux-resourceset-cli component unassign podinfo --cluster dev-2 --cluster qa-1 --yes -o name",
    );
}

#[test]
fn a_yes_at_a_terminal_confirms_the_budget_too() {
    let world = World::fleet_with_budget("0").with("NO_COLOR", "1");
    let refused = world.sh("flux-resourceset-cli component unassign podinfo --all --yes");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--confirm-removals 5"), "{}", refused.stderr);
    let ran = world.at_a_terminal("component unassign podinfo --all -o name", "asked 1; echo y");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("and remove something from 5 clusters? [y/N]"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout.lines().count(), 5, "{}", ran.stdout);
}

#[test]
fn a_plan_that_reaches_no_cluster_says_so() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli namespace create new --dry-run -o table",
        "flux-resourceset-cli cluster update dev-1 --label team=z --dry-run -o table",
        "echo '{kind: namespaces, id: new}' | flux-resourceset-cli plan -f - -o table",
        "flux-resourceset-cli component patch podinfo --cluster dev-1 --unset nothing --dry-run -o table",
    );
}

#[test]
fn the_objects_of_every_plan_can_be_seen() {
    let world = World::fleet();
    world.file(
        "cluster.yaml",
        "kind: cluster\nid: dev-1\ncluster_name: dev-1\ncluster_dns: dev-1.example.com\nenvironment: dev\nlabels: {team: a}\n\
         platform_components: [{id: cert-manager}]\nnamespaces: [{id: podinfo}]\nrolebindings: []\n",
    );
    transcript!(
        world,
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set replicaCount=3 --dry-run --manifests -o table",
        "flux-resourceset-cli component update podinfo --component-version 6.5 --dry-run --manifests -o table",
        "flux-resourceset-cli component update podinfo --component-version 6.5 --dry-run --manifests -o wide | grep '^objects'",
        "flux-resourceset-cli plan -f cluster.yaml --manifests -o table",
        "flux-resourceset-cli diff -f cluster.yaml --manifests -o table | tail -n 3",
        "flux-resourceset-cli namespace create new --dry-run --manifests -o table",
    );
}

#[test]
fn the_way_back_has_objects_too() {
    let world = World::demo().with("NO_COLOR", "1");
    world
        .sh("flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set replicaCount=3")
        .json();
    world.file("fleet.yaml", &world.sh("flux-resourceset-cli export -o yaml").stdout);
    world.sh("sed -i 's/replicaCount: \"3\"/replicaCount: \"2\"/' fleet.yaml");
    for line in [
        "undo --dry-run",
        "rollback --to 1 --dry-run",
        "apply -f fleet.yaml --dry-run",
        "plan -f fleet.yaml",
        "component patch podinfo --cluster demo-cluster-01 --set replicaCount=2 --dry-run",
        "demo patch-component demo-cluster-01 podinfo --set replicaCount=2 --dry-run",
    ] {
        let shown = world.sh(&format!("flux-resourceset-cli {line} --manifests -o table"));
        assert_eq!(shown.code, 0, "{line}: {}", shown.stderr);
        let (minus, plus) = ("-  replicaCount: \"3\"\n", "+  replicaCount: \"2\"\n");
        assert!(
            shown.stdout.contains(&format!("{minus}{plus}")),
            "{line}: {}",
            shown.stdout
        );
        let plan = world.sh(&format!("flux-resourceset-cli {line} --manifests")).json();
        let manifests = plan["clusters"][0]["manifests"].as_array().unwrap();
        assert!(
            manifests.iter().any(|one| one["after"]["data"]["replicaCount"] == "2"),
            "{line}"
        );
    }
    // Who asks for the objects wants to see them before the write, also where one cluster is reached.
    let ran = world.at_a_terminal(
        "component patch podinfo --cluster demo-cluster-01 --set replicaCount=2 --manifests -o name",
        "asked 1; echo y",
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "clusters/demo-cluster-01\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("+  replicaCount: \"2\"\n"), "{}", ran.stderr);
    let ran = world
        .sh("flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set replicaCount=4 --manifests");
    assert!(ran.stderr.contains("+  replicaCount: \"4\"\n"), "{}", ran.stderr);
    assert_eq!(ran.json()["changes"][0]["action"], "update");
}

/// The server renders a hundred clusters for each request.
#[test]
fn the_objects_of_many_clusters_are_read_page_by_page() {
    let world = World::demo();
    let clusters: Vec<Value> = (0..130)
        .map(|n| {
            let id = format!("c-{n:03}");
            json!({
                "kind": "clusters", "id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "dev",
                "namespaces": [{"id": "podinfo"}],
            })
        })
        .collect();
    world.file("fleet.json", &Value::Array(clusters).to_string());
    let plan = world.sh("flux-resourceset-cli plan -f fleet.json --manifests").json();
    let clusters = plan["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 130);
    for cluster in clusters {
        assert_eq!(cluster["objects"]["added"], json!(["Namespace//podinfo"]), "{cluster}");
        assert_eq!(cluster["manifests"][0]["after"]["kind"], "Namespace");
    }
    let shown = world
        .sh("flux-resourceset-cli plan -f fleet.json --manifests -o table")
        .stdout;
    assert!(
        shown.contains("objects on c-000, and in the same way on 129 more; -o wide shows all\n"),
        "{shown}"
    );
    assert!(shown.contains("--- /dev/null\n+++ Namespace//podinfo\n"), "{shown}");
    let all = world
        .sh("flux-resourceset-cli plan -f fleet.json --manifests -o wide")
        .stdout;
    assert_eq!(all.matches("+++ Namespace//podinfo\n").count(), 130);
}
