//! What users of kubectl type.

use serde_json::{Value, json};

use crate::fixture::World;
use crate::transcript;

#[test]
fn resources_can_be_named_in_every_way() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli cluster get dev-1 dev-2 -o name",
        "flux-resourceset-cli cluster get clusters/dev-1 cluster/dev-2 dev-1 -o name",
        "flux-resourceset-cli get cluster dev-1 nope -o table",
        "flux-resourceset-cli get cluster nope dev1",
        "flux-resourceset-cli get clusters/dev-1 components/podinfo -o table",
        "flux-resourceset-cli get clusters/dev-1 components/podinfo -o jsonpath='{.items[*].kind}'",
        "flux-resourceset-cli get namespaces,rolebindings -o name",
        "flux-resourceset-cli get namespaces,rolebindings podinfo",
        "flux-resourceset-cli get clusters/dev-1 podinfo",
        "flux-resourceset-cli get clusters/dev-1 -l team=a",
        "flux-resourceset-cli get clusters dev-1 dev-2 -w",
        "flux-resourceset-cli get kinds -o name",
        "flux-resourceset-cli get kind clusters -o jsonpath={.apiVersion}",
        "flux-resourceset-cli cluster get namespaces/podinfo",
        "flux-resourceset-cli component assign components/podinfo --cluster clusters/dev-1 --oci-tag 6.5.0 -o name",
        "flux-resourceset-cli cluster create new --cluster-dns new.example.com --environment dev --component platform_components/podinfo -o name",
        "flux-resourceset-cli changes --id clusters/new -o name",
        "flux-resourceset-cli changes --records --id clusters/new -o name",
        "flux-resourceset-cli history clusters/new -o jsonpath='{[*].action}'",
        "EDITOR='sed -i s/qa-1.example/qa-2.example/' flux-resourceset-cli edit cluster/qa-1 -o name",
        "flux-resourceset-cli inputs clusters/new component -o name",
        "flux-resourceset-cli render clusters/new --kind component -o name",
        "flux-resourceset-cli export clusters/new namespaces/podinfo -o name",
        "flux-resourceset-cli delete clusters/new clusters/dev-1 --yes -o name",
        "flux-resourceset-cli get clusters/",
        "flux-resourceset-cli get all -o name",
        "flux-resourceset-cli clusters get qa-1 -o name",
        "flux-resourceset-cli platform-component get podinfo -o name",
        "flux-resourceset-cli describe kind namespaces -o jsonpath={.kind}",
        "flux-resourceset-cli demo add-namespace clusters/qa-1 fresh -o name",
        "flux-resourceset-cli rollback --to 2 --kind cluster --id clusters/qa-1 --dry-run -o name",
    );
}

#[test]
fn everything_about_a_resource_is_on_one_page() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component override podinfo --cluster dev-1 --oci-tag 6.5.0 --reason hotfix -o name",
        "flux-resourceset-cli component disable traefik --cluster dev-1 -o name",
        "flux-resourceset-cli cluster describe dev-1",
        "flux-resourceset-cli component describe podinfo",
        "flux-resourceset-cli describe component traefik -o wide",
        "flux-resourceset-cli namespace describe podinfo",
        "flux-resourceset-cli rolebinding describe dev-readers -o jsonpath='{.document.role} {.used_by[*].cluster}'",
        "flux-resourceset-cli describe clusters -l team=a | grep ^clusters/",
        "flux-resourceset-cli describe clusters/dev-1 components/podinfo -o name",
        "flux-resourceset-cli describe clusters",
        "flux-resourceset-cli describe components -l team=a",
        "flux-resourceset-cli describe cluster dev1",
    );
    let world = World::fleet();
    let page = world.sh("flux-resourceset-cli describe cluster dev-1 -o json").json();
    let inputs = world.sh("flux-resourceset-cli inputs dev-1 component").json();
    assert_eq!(page["inputs"]["platform-components"], inputs["inputs"]);
    assert_eq!(
        page["document"],
        world.sh("flux-resourceset-cli cluster get dev-1").json()
    );
    assert_eq!(
        page["changes"],
        world.sh("flux-resourceset-cli history cluster dev-1").json()
    );
}

#[test]
fn columns_and_filters_are_those_of_kubectl() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli get components -o custom-columns=NAME:.id,TAG:.oci_tag,ARTIFACT:.oci_artifact",
        "flux-resourceset-cli get clusters -o custom-columns=NAME:.id,TEAM:.labels.team,RUNS:.platform_components[*].id --no-headers",
        "flux-resourceset-cli get cluster dev-1 -o custom-columns=NAME:id",
        "flux-resourceset-cli inputs dev-1 component -o custom-columns=ID:.id,TAG:.source.oci_tag",
        "flux-resourceset-cli render dev-1 --kind component -o custom-columns=KIND:.kind,NAME:.metadata.name",
        "flux-resourceset-cli get clusters -o custom-columns=NAME",
        "flux-resourceset-cli get clusters -o custom-columns=",
        "flux-resourceset-cli get clusters -o jsonpath='{.items[?(@.environment==\"dev\" && @.labels.team==\"a\")].id}'",
        "flux-resourceset-cli get clusters -o jsonpath='{.items[?(@.environment==\"prod\" || @.labels.team==\"a\")].id}'",
        "flux-resourceset-cli get clusters -o jsonpath='{.items[?(@.environment==\"prod\" |)].id}'",
        "flux-resourceset-cli get namespaces -o table --no-headers",
        "flux-resourceset-cli get clusters --sort-by=.environment -o custom-columns=TIER:.environment,ID:.id",
        "flux-resourceset-cli cluster list --sort-by '{.labels.team}' -o name",
        "flux-resourceset-cli get clusters --sort-by '.labels['",
        "flux-resourceset-cli get clusters -o jsonpath='{.items[*].metadata.name}'",
        "flux-resourceset-cli cluster list -l team=c -o table",
        "flux-resourceset-cli component list --oci-tag v9 -o table",
    );
}

/// What `get -o yaml` prints can be applied, and changes nothing.
#[test]
fn documents_that_are_read_can_be_applied() {
    let world = World::fleet();
    world
        .sh("flux-resourceset-cli component override podinfo --cluster dev-1 --oci-tag '1.10'")
        .json();
    world.file(
        "note.yaml",
        "kind: namespaces\nid: note\nannotations: {text: \"a: b\\n\\n  - c\\n\", yes: \"no\"}\n",
    );
    world.sh("flux-resourceset-cli apply -f note.yaml").json();
    let before = world.sh("flux-resourceset-cli export -o yaml").stdout;
    for (what, count) in [
        ("cluster get dev-1", 1),
        ("cluster get dev-1 dev-2", 2),
        ("cluster list", 5),
        ("cluster list -l team=a", 2),
        ("get components,namespaces,rolebindings", 9),
        ("get clusters/dev-1 namespaces/note", 2),
        ("namespace get note", 1),
    ] {
        let read = world.sh(&format!(
            "flux-resourceset-cli {what} -o yaml | tee read.yaml | grep -cE '^(- )?kind: '"
        ));
        assert_eq!(read.stdout.trim(), count.to_string(), "{what}");
        let applied = world.sh("flux-resourceset-cli apply -f read.yaml").json();
        assert_eq!(applied["changes"], json!([]), "{what}");
        let diff = world.sh("flux-resourceset-cli diff -f read.yaml");
        assert_eq!(diff.code, 0, "{what}: {}", diff.stdout);
    }
    assert_eq!(world.sh("flux-resourceset-cli export -o yaml").stdout, before);
    let json = world.sh("flux-resourceset-cli cluster get dev-1 -o json | flux-resourceset-cli apply -f -");
    assert_eq!(json.code, 2);
    assert!(json.stderr.contains("`get -o yaml`"), "{}", json.stderr);
}

#[test]
fn many_clusters_are_written_in_one_revision() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli cluster update dev-1 dev-2 --node-count 3 -o table",
        "flux-resourceset-cli cluster update -l environment=dev --node-count 5 --dry-run -o table",
        "flux-resourceset-cli cluster update -l environment=dev --node-count 5 -o table",
        "flux-resourceset-cli cluster update dev-1 nope --node-count 7",
        "flux-resourceset-cli cluster update -l team=x --node-count 7",
        "flux-resourceset-cli cluster update --node-count 7 2>&1 | head -n 2",
        "flux-resourceset-cli cluster update dev-1 --all --node-count 7 2>&1 | head -n 1",
        "flux-resourceset-cli cluster list -o jsonpath='{.items[*].node_count}'",
        "flux-resourceset-cli cluster delete -l team=b --dry-run -o table",
        "flux-resourceset-cli cluster delete -l team=b",
        "flux-resourceset-cli cluster delete -l team=b --yes -o table",
        "flux-resourceset-cli cluster delete -l team=b",
        "flux-resourceset-cli delete clusters --all --confirm-removals 1",
        "flux-resourceset-cli delete namespaces -l team=a",
        "flux-resourceset-cli delete cluster dev-1 -l team=a 2>&1 | head -n 1",
        "flux-resourceset-cli namespace delete podinfo traefik --cascade --yes -o name",
        "flux-resourceset-cli delete namespaces/cert-manager clusters/qa-1 --cascade --yes -o name",
        "flux-resourceset-cli delete cluster qa-1 dev-1 --ignore-not-found -o name",
    );
}

#[test]
fn labels_are_set_as_in_kubectl() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli cluster label dev-1 wave=1 -o table",
        "flux-resourceset-cli cluster label dev-1 wave=1 -o table",
        "flux-resourceset-cli cluster label dev-1 wave=2",
        "flux-resourceset-cli cluster label dev-1 wave=2 --overwrite --reason 'second wave' -o table",
        "flux-resourceset-cli cluster label -l environment=dev wave=3 team=c",
        "flux-resourceset-cli cluster label -l environment=dev wave=3 --overwrite --dry-run -o table",
        "flux-resourceset-cli cluster label clusters/dev-1 dev-2 team- tier=a -o table",
        "flux-resourceset-cli cluster label --all teir- -o table",
        "flux-resourceset-cli label clusters -l environment=dev tier- -o name",
        "flux-resourceset-cli label cluster/qa-1 cluster/prod-1 tier=b -o name",
        "flux-resourceset-cli label namespaces/podinfo tier=b -o name",
        "flux-resourceset-cli namespace label podinfo traefik tier=c --overwrite -o name",
        "flux-resourceset-cli label rolebinding dev-readers tier=b",
        "flux-resourceset-cli label namespaces -l team=a tier=b",
        "flux-resourceset-cli cluster label dev-1",
        "flux-resourceset-cli cluster label wave=1",
        "flux-resourceset-cli cluster label dev-1 --all wave=1",
        "flux-resourceset-cli cluster label dev-1 wave=1 wave-",
        "flux-resourceset-cli cluster label dev1 wave=1",
        "flux-resourceset-cli cluster label dev-1 environment=dev",
        "flux-resourceset-cli cluster list -o jsonpath='{range .items[*]}{.id} {.labels}{\"\\n\"}{end}'",
    );
}

#[test]
fn a_write_to_many_changes_all_or_nothing() {
    let world = World::fleet();
    let before = world.sh("flux-resourceset-cli changes").json();
    for line in [
        "cluster update -l environment=dev --cluster-dns same.example.com",
        "cluster update dev-1 dev-2 prod-1 nope --node-count 1",
        "cluster label --all 'no spaces=x'",
        "cluster label dev-1 dev-2 nope wave=1",
        "cluster delete dev-1 nope --yes",
        "namespace delete podinfo nope --cascade --yes",
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert!(ran.code == 1 || ran.code == 4, "{line}: {} {}", ran.code, ran.stderr);
    }
    assert_eq!(world.sh("flux-resourceset-cli changes").json(), before);
    let ran = world.sh("flux-resourceset-cli cluster label --all wave=1").json();
    let records = world
        .sh(&format!(
            "flux-resourceset-cli changes --records --after {}",
            ran["revision"].as_u64().unwrap() - 1
        ))
        .json();
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), 5, "one revision for all clusters");
    assert!(records.iter().all(|record| record["revision"] == ran["revision"]));
}

#[test]
fn versions_are_found_and_counted() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component override podinfo -l environment=dev --oci-tag 6.7.0 -o name",
        "flux-resourceset-cli component versions -o table",
        "flux-resourceset-cli component versions podinfo -l team=a -o json",
        "flux-resourceset-cli component versions podinof",
        "flux-resourceset-cli component where podinfo --version 6.7.0 -o table",
        "flux-resourceset-cli component where --oci-tag 6.7.0 -o name",
        "flux-resourceset-cli component where --oci-tag latest --enabled false -o name",
        "flux-resourceset-cli component where --version latest -l team=b,environment=dev -o table",
        "flux-resourceset-cli component where podinfo --version 6.7.1 -o table",
        "flux-resourceset-cli component where",
        "flux-resourceset-cli namespace where",
    );
}

#[test]
fn what_was_meant_is_proposed() {
    let world = World::fleet();
    for (line, code, proposed) in [
        ("cluster get dev1", 4, "did you mean \"dev-1\"?"),
        ("cluster get DEV-1", 4, "did you mean \"dev-1\"?"),
        ("cluster get pord-1", 4, "did you mean \"prod-1\"?"),
        ("cluster delete dev1", 4, "did you mean \"dev-1\"?"),
        ("cluster update dev1 --node-count 1", 4, "did you mean \"dev-1\"?"),
        ("cluster edit dev1", 4, "did you mean \"dev-1\"?"),
        ("cluster history dev1", 4, "did you mean \"dev-1\"?"),
        ("cluster diagnostics dev1", 4, "did you mean \"dev-1\"?"),
        ("inputs dev1 component", 4, "did you mean \"dev-1\"?"),
        ("inputs dev1 component --revision 1", 4, "did you mean \"dev-1\"?"),
        ("render dev1", 4, "did you mean \"dev-1\"?"),
        ("export cluster dev1", 4, "did you mean \"dev-1\"?"),
        ("component get podifno", 4, "did you mean \"podinfo\"?"),
        ("component assign podifno --all", 4, "did you mean \"podinfo\"?"),
        ("component assign podinfo --cluster dev1", 4, "did you mean \"dev-1\"?"),
        (
            "component override podinfo --cluster dev1 --oci-tag 1",
            4,
            "did you mean \"dev-1\"?",
        ),
        (
            "component patch podifno --all --set a=1",
            4,
            "did you mean \"podinfo\"?",
        ),
        ("component where podifno", 4, "did you mean \"podinfo\"?"),
        ("component pins podifno", 4, "did you mean \"podinfo\"?"),
        ("get compnents", 4, "did you mean \"component\"?"),
        ("get comp", 4, "did you mean \"component\"?"),
        ("kind get clutser", 4, "did you mean \"cluster\"?"),
        ("history kind clustrs", 4, "did you mean \"clusters\"?"),
        ("clutser list", 2, "'cluster'"),
        (
            "cluster update dev-1 --enviroment qa",
            2,
            "a similar argument exists: '--environment'",
        ),
        ("cluster update dev-1 --environment prd", 1, "did you mean \"prod\"?"),
        ("cluster update dev-1 --unset lables", 2, "did you mean \"labels\"?"),
        ("cluster list -l enviroment=dev", 1, "did you mean \"environment\"?"),
        ("cluster list -l taem=a", 1, "did you mean \"team\"?"),
        ("cluster list -l environment=pord", 1, "did you mean \"prod\"?"),
        ("cluster list --environment pord", 1, "did you mean \"prod\"?"),
        ("component assign podinfo -l team=A", 1, "did you mean \"a\"?"),
        ("cluster delete -l team=A", 1, "did you mean \"a\"?"),
        ("cluster list -l team=A", 0, "did you mean \"a\"?"),
        ("component where podinfo -l team=A", 0, "did you mean \"a\"?"),
        ("component versions -l team=A", 0, "did you mean \"a\"?"),
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains(proposed), "{line}: {}", ran.stderr);
    }
}

/// A kind whose command is taken has its plural as a command, and hints name that one.
#[test]
fn hints_name_the_commands_that_a_kind_has() {
    let world = World::demo();
    world.file(
        "export.yaml",
        "kind: export\nschema: {type: object, properties: {id: {type: string}, size: {type: string}}}\n",
    );
    world.sh("flux-resourceset-cli kind apply -f export.yaml").json();
    world.sh("flux-resourceset-cli exports create small --size s").json();
    for (line, hint) in [
        ("exports get nothing-alike", "`exports list`"),
        ("exports create small", "`exports update small`"),
        ("exports create small --size l --all", "`exports assign small`"),
        ("get exports small --revision 1", "`exports history small`"),
        ("get exports -l environment=dev", "`exports where ID -l SELECTOR`"),
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_ne!(ran.code, 0, "{line}");
        assert!(ran.stderr.contains(hint), "{line}: {}", ran.stderr);
    }
    // A dependency cannot be removed by a cascade, so that is not proposed.
    let needed = world.sh("flux-resourceset-cli component unassign cert-manager --all -o name && flux-resourceset-cli component delete cert-manager");
    assert_eq!(needed.code, 1);
    assert!(!needed.stderr.contains("cascade"), "{}", needed.stderr);
}

/// Nothing is proposed where nothing is alike, or where the name exists.
#[test]
fn nothing_is_proposed_that_would_not_help() {
    let world = World::fleet();
    for line in [
        "cluster get entirely-else",
        "component delete nothing",
        "get cluster dev-1 --revision 1",
        "render dev-1 --revision 99",
        "inputs dev-1 component --revision 1",
        "cluster list -l team=x",
        "cluster list -l '!team,environment=qa'",
        "cluster get ''",
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert!(!ran.stderr.contains("did you mean"), "{line}: {}", ran.stderr);
    }
}

#[test]
fn common_mistakes_are_one_sentence() {
    let world = World::demo();
    let component =
        |tag: &str| format!("kind: component\nid: x\ncomponent_path: x\noci_url: https://x.example\noci_tag: {tag}\n");
    world.file("float.yaml", &component("1.10"));
    world.file("space.yaml", &component("\"1.10 \""));
    world.file(
        "key.yaml",
        &component("\"1.10\"").replace("component_path", "component_paht"),
    );
    std::fs::create_dir_all(world.work().join("outer/inner")).unwrap();
    std::fs::create_dir_all(world.work().join("empty/none")).unwrap();
    world.file("outer/inner/x.yaml", &component("\"1.10\""));
    transcript!(
        world,
        "flux-resourceset-cli apply -f float.yaml",
        "flux-resourceset-cli apply -f space.yaml",
        "flux-resourceset-cli apply -f key.yaml",
        "flux-resourceset-cli component update podinfo --oci-tag 'v1 '",
        "flux-resourceset-cli component override podinfo --all --oci-tag ' v1'",
        "flux-resourceset-cli apply -f outer",
        "flux-resourceset-cli apply -f empty",
        "flux-resourceset-cli apply -R -f outer -o name",
    );
}

#[test]
fn ids_kinds_and_selectors_are_completed() {
    let world = World::fleet();
    let offered =
        |words: &str| -> Vec<String> { crate::docs::offered(&world, &format!("flux-resourceset-cli {words}")) };
    for (words, expected) in [
        ("get clusters/dev", vec!["clusters/dev-1", "clusters/dev-2"]),
        ("get clusters dev", vec!["dev-1", "dev-2"]),
        ("get clusters dev-1 dev-2 q", vec!["qa-1"]),
        ("describe comp", vec!["component"]),
        ("cluster get clusters/q", vec!["clusters/qa-1"]),
        ("cluster delete dev-1 p", vec!["prod-1"]),
        ("cluster label q", vec!["qa-1"]),
        ("cluster list -l t", vec!["team="]),
        ("cluster list -l team=", vec!["team=a", "team=b"]),
        ("cluster delete -l team=a,env", vec!["team=a,environment="]),
        ("get clusters -o cu", vec!["custom-columns="]),
    ] {
        assert_eq!(offered(words), expected, "{words}");
    }
}

fn told(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A cluster that changed after it was selected is not deleted: it may not match any more.
#[test]
fn what_changed_since_is_not_deleted() {
    let world = World::fleet();
    let plan = world
        .sh("flux-resourceset-cli cluster delete -l team=a --dry-run")
        .json();
    world
        .sh("flux-resourceset-cli cluster label dev-1 team=b --overwrite")
        .json();
    let ran = world.sh(&format!(
        "flux-resourceset-cli cluster delete -l team=a --if-plan {}",
        told(&plan["plan"])
    ));
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("the plan is out of date"), "{}", ran.stderr);
    assert_eq!(
        world
            .sh("flux-resourceset-cli get clusters -o name")
            .stdout
            .lines()
            .count(),
        5
    );
}
