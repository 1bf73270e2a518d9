//! Git beside the command line: files that hold the whole truth about some kinds, and files that are older than a kind.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::World;
use crate::transcript;

/// A folder with the fleet, one file for each kind; the server has a cluster, a namespace and its references more.
fn repository(world: World) -> World {
    fs::create_dir_all(world.work().join("repo")).unwrap();
    for kind in ["clusters", "namespaces", "platform_components", "rolebindings"] {
        let documents = world.sh(&format!("flux-resourceset-cli export {kind} -o yaml")).stdout;
        world.file(&format!("repo/{kind}.yaml"), &documents);
    }
    let more = "flux-resourceset-cli namespace create by-hand --cluster dev-1 --cluster dev-2 >/dev/null && \
                flux-resourceset-cli cluster create extra --cluster-dns extra.example.com --environment qa --label team=a \
                --component podinfo >/dev/null";
    assert_eq!(world.sh(more).code, 0);
    world
}

#[test]
fn what_the_files_do_not_hold_is_deleted_with_what_they_change() {
    transcript!(
        repository(World::fleet()),
        // Without --prune, it is counted.
        "flux-resourceset-cli diff -f repo -o table",
        "flux-resourceset-cli diff -f repo -o jsonpath='{.only_on_server}'",
        "flux-resourceset-cli diff -f repo --prune --kind cluster --kind namespaces -o table",
        // Nothing is done by a plan, and nothing without a word: a cluster goes.
        "flux-resourceset-cli apply -f repo --prune --kind clusters --kind namespaces -o name",
        "flux-resourceset-cli apply -f repo --prune --kind clusters --kind namespaces --yes -o table",
        "flux-resourceset-cli changes --after 4 -o jsonpath='{[*].revision}'",
        "flux-resourceset-cli diff -f repo --prune --kind clusters --kind namespaces -o table",
        "flux-resourceset-cli diff -f repo -o table",
    );
}

#[test]
fn a_plan_with_deletions_can_be_kept() {
    transcript!(
        repository(World::fleet()),
        "flux-resourceset-cli plan -f repo --prune --kind clusters --kind namespaces --out kept.json -o name",
        "flux-resourceset-cli apply --plan kept.json -o name",
        "flux-resourceset-cli apply --plan kept.json --prune --kind clusters",
    );
}

#[test]
fn a_selector_limits_clusters() {
    transcript!(
        repository(World::fleet()),
        "flux-resourceset-cli apply -f repo --prune --kind clusters -l team=b -o table --yes",
        "flux-resourceset-cli diff -f repo --prune --kind clusters -l team=a -o name",
        "flux-resourceset-cli apply -f repo --prune --kind clusters -l environment=qa --yes -o name",
        "flux-resourceset-cli diff -f repo --prune --kind clusters --kind namespaces -l team=b -o name",
        "flux-resourceset-cli apply -f repo --prune --kind namespaces -l team=a",
        "flux-resourceset-cli diff -f repo -l team=a",
        "flux-resourceset-cli apply -f repo --prune --kind clusters -l taem=a",
        "flux-resourceset-cli apply -f repo -l team=a",
    );
}

/// What is not read would be deleted.
#[test]
fn files_that_may_be_incomplete_prune_nothing() {
    let world = repository(World::fleet());
    let before = world.sh("flux-resourceset-cli changes").json();
    fs::create_dir_all(world.work().join("empty")).unwrap();
    fs::create_dir_all(world.work().join("nested/more/deeper")).unwrap();
    fs::create_dir_all(world.work().join("nested/notes")).unwrap();
    fs::create_dir_all(world.work().join("repo/.github")).unwrap();
    world.file("repo/.github/workflow.yaml", "on: push\n");
    world.file("nested/a.yaml", "kind: namespace\nid: podinfo\n");
    world.file("nested/notes/readme.txt", "nothing");
    world.file("nested/more/deeper/b.yaml", "kind: namespace\nid: traefik\n");
    world.file("broken.yaml", "kind: [");
    world.file("comment.yaml", "# moved away\n");
    transcript!(
        world,
        "flux-resourceset-cli apply -f repo --prune --yes",
        "flux-resourceset-cli apply -f repo --kind clusters --yes",
        "flux-resourceset-cli apply -f empty --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo -f empty --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo -f broken.yaml --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo -f comment.yaml --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo -f - --prune --kind namespaces --yes </dev/null",
        "flux-resourceset-cli apply -f repo -f missing.yaml --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo/clusters.yaml --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f nested --prune --kind namespaces --yes",
        "flux-resourceset-cli apply -f repo --prune --kind nothings --yes",
        "flux-resourceset-cli apply -f repo --prune --kind kinds --yes",
        // Clusters of the files still refer to it.
        "flux-resourceset-cli apply -f nested -R --prune --kind namespaces --yes",
    );
    assert_eq!(world.sh("flux-resourceset-cli changes").json(), before);
}

#[test]
fn deletions_are_under_the_budget() {
    let world = repository(World::fleet_with_budget("1"));
    world.file(
        "repo/clusters.yaml",
        &world.sh("flux-resourceset-cli export cluster dev-1 -o yaml").stdout,
    );
    transcript!(
        world,
        "flux-resourceset-cli apply -f repo --prune --kind clusters -o name 2>&1 | tail -n 2",
        "flux-resourceset-cli apply -f repo --prune --kind clusters --yes -o name 2>&1 | tail -n 2",
        "flux-resourceset-cli apply -f repo --prune --kind clusters --confirm-removals 5 -o name",
    );
}

#[test]
fn a_person_is_asked_before_anything_is_pruned() {
    let world = repository(World::fleet()).with("NO_COLOR", "1");
    let line = "apply -f repo --prune --kind clusters --kind namespaces -o name";
    let ran = world.at_a_terminal(line, "asked 1; echo n");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("- clusters/extra\n"), "{}", ran.stderr);
    let ran = world.at_a_terminal(line, "asked 1; echo y");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("namespaces/by-hand\n"), "{}", ran.stdout);
}

/// A cluster that is renamed in the files is another cluster with the same DNS name.
#[test]
fn a_cluster_is_renamed_by_the_files() {
    let world = World::fleet();
    let clusters = world.sh("flux-resourceset-cli export clusters -o yaml").stdout;
    let renamed = clusters
        .replace("id: dev-1\n", "id: dev-one\n")
        .replace("cluster_name: dev-1\n", "cluster_name: dev-one\n");
    world.file("clusters.yaml", &renamed);
    let done = world.sh("flux-resourceset-cli apply -f clusters.yaml --prune --kind clusters -o table");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(
        done.stdout,
        "clusters/dev-1 deleted\nclusters/dev-one created\nrevision 3\n"
    );
    let inputs = world
        .sh("flux-resourceset-cli inputs dev-1.example.com component -o name")
        .stdout;
    assert_eq!(
        inputs, "cert-manager\ntraefik\npodinfo\n",
        "nothing is removed in between"
    );
}

/// A pipeline names its kinds from the first run on, when the server does not have them yet.
#[test]
fn a_kind_of_the_files_can_be_named_before_the_server_has_it() {
    let world = World::demo();
    world.file("quota.yaml", QUOTA);
    world.file(
        "quotas.yaml",
        "kind: quota\nid: small\ncpu: \"2\"\n---\nkind: quota\nid: large\ncpu: \"9\"\n",
    );
    let apply = "flux-resourceset-cli apply -f quota.yaml -f quotas.yaml --prune --kind quota -o table";
    let first = world.sh(apply);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(
        first.stdout,
        "kinds/quotas created\nquotas/large created\nquotas/small created\nrevision 2\n"
    );
    world.file("quotas.yaml", "kind: quota\nid: small\ncpu: \"2\"\n");
    assert_eq!(world.sh(apply).stdout, "quotas/large deleted\nrevision 3\n");
}

#[test]
fn a_batch_has_a_limit() {
    let world = World::demo();
    let document = |n: usize| json!({"kind": "namespaces", "id": format!("n-{n}")}).to_string() + "\n";
    world.file("many.jsonl", &(0..9_999).map(document).collect::<String>());
    let ran = world.sh("flux-resourceset-cli apply -f many.jsonl --prune --kind namespaces");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(
        ran.stderr,
        "error: 9999 documents and 3 deletions are more than the 10000 operations of one revision\n\
         hint: apply the files in parts; with --prune, each part with its own -l or --kind\n"
    );
}

const QUOTA: &str = "kind: quota
apiVersion: v1
schema:
  type: object
  required: [cpu]
  properties:
    cpu: {type: string}
";

/// Three hundred clusters, their documents from before a kind was added, and the kind's references.
fn older_files() -> World {
    let world = World::demo();
    let clusters: Vec<Value> = (0..300)
        .map(|n| {
            let id = format!("c-{n:03}");
            json!({
                "kind": "clusters", "id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "dev",
                "platform_components": [], "namespaces": [{"id": "podinfo"}], "rolebindings": [],
            })
        })
        .collect();
    world.file("fleet.json", &Value::Array(clusters).to_string());
    world.file("quota.yaml", QUOTA);
    let setup = "flux-resourceset-cli apply -f fleet.json -f quota.yaml >/dev/null && flux-resourceset-cli quota create small --cpu 2 --all >/dev/null";
    assert_eq!(world.sh(setup).code, 0);
    world.sh("sed -i 's/\"environment\":\"dev\"/\"environment\":\"qa\"/g' fleet.json");
    world
}

#[test]
fn documents_that_predate_a_kind_are_refused_once_or_keep_what_is_there() {
    let world = older_files();
    transcript!(
        world,
        "flux-resourceset-cli apply -f fleet.json",
        "flux-resourceset-cli diff -f fleet.json",
        "flux-resourceset-cli plan -f fleet.json -o name",
        "flux-resourceset-cli diff -f fleet.json --keep-missing -o table",
        "flux-resourceset-cli apply -f fleet.json --keep-missing -o jsonpath='{.revision}'",
        "flux-resourceset-cli quota where small -o name | wc -l",
        "flux-resourceset-cli cluster get c-007 -o jsonpath='{.environment} {.quotas[*].id}'",
        // [] still removes what is there.
        "sed 's/\"rolebindings\":\\[\\]/\"rolebindings\":[],\"quotas\":[]/g' fleet.json >none.json",
        "flux-resourceset-cli diff -f none.json --keep-missing -o table | grep '^Flux'",
    );
}
