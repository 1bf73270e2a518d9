//! No command without a transcript.

use std::fs;

use crate::fixture::World;
use crate::transcript;

/// Commands that kinds share are told once for each kind elsewhere or here.
#[test]
fn what_every_kind_has() {
    let world = World::demo().with("EDITOR", "sed -i s/stefanprodan/example/");
    transcript!(
        world,
        "flux-resourceset-cli namespace where podinfo",
        "flux-resourceset-cli namespace delete podinfo",
        "flux-resourceset-cli namespace delete podinfo --cascade",
        "flux-resourceset-cli component edit podinfo",
        "flux-resourceset-cli component history podinfo",
        "flux-resourceset-cli component delete podinfo --cascade --dry-run",
        "flux-resourceset-cli component delete cert-manager",
        "flux-resourceset-cli rolebinding where platform-admins",
        "flux-resourceset-cli rolebinding unassign platform-admins --cluster demo-cluster-01",
        "flux-resourceset-cli rolebinding assign platform-admins --cluster demo-cluster-01 --reason again",
        "flux-resourceset-cli rolebinding history platform-admins -o jsonpath='{.items[*].reason}'",
        "EDITOR='sed -i s/cluster-admin/view/' flux-resourceset-cli rolebinding edit platform-admins",
        "EDITOR='sed -i \"s/environment: dev/environment: qa/\"' flux-resourceset-cli cluster edit demo-cluster-01",
    );
}

#[test]
fn what_flux_makes_of_it() {
    let world = World::demo();
    let set = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: quotas, namespace: flux-system}\n\
               spec:\n  inputsFrom: [{name: namespaces}]\n  resources:\n    - apiVersion: v1\n      kind: ResourceQuota\n      \
               metadata: {name: << inputs.id >>, namespace: << inputs.id >>}\n";
    world.file("quotas.yaml", set);
    world.file(
        "broken.yaml",
        &set.replace("name: << inputs.id >>,", "name: << inputs.nope >>,"),
    );
    world.file("inputs.yaml", "- id: a\n- id: b\n");
    transcript!(
        world,
        "flux-resourceset-cli render demo-cluster-01 --kind component | head -n 40",
        "flux-resourceset-cli render demo-cluster-01 -o name",
        "flux-resourceset-cli render demo-cluster-01 --kind namespace -o jsonpath='{.items[*].metadata.name}'",
        "flux-resourceset-cli render demo-cluster-01 --template quotas.yaml --kind namespaces | tail -n 9",
        "flux-resourceset-cli render demo-cluster-01 --template quotas.yaml --kind rolebindings",
        "flux-resourceset-cli render demo-cluster-01 --template broken.yaml",
        "flux-resourceset-cli render demo-cluster-01 --revision 7",
        "flux-resourceset-cli render nobody",
        "flux-resourceset-cli render",
        "flux-resourceset-cli render -f quotas.yaml --inputs-from inputs.yaml",
        "flux-resourceset-cli render -f broken.yaml -i inputs.yaml",
        "flux-resourceset-cli render -f quotas.yaml",
        "flux-resourceset-cli render -f absent.yaml",
    );
}

#[test]
fn what_shells_and_man_are_given() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli completion bash",
        "flux-resourceset-cli completion nushell",
        "flux-resourceset-cli man --out pages && ls pages | head -n 5",
        "flux-resourceset-cli man --out /dev/null/pages",
        "grep -v '^.TH' pages/flux-resourceset-cli-version.1",
        "flux-resourceset-cli version | sed 's/: .*/: …/'",
    );
}

#[test]
fn each_command_of_the_chapter_is_in_a_transcript() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/snapshots");
    let transcripts: String = fs::read_dir(folder)
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let chapter = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/cli.md")).unwrap();
    let headings = chapter.lines().filter(|line| line.starts_with("##"));
    let commands: Vec<&str> = headings.filter_map(|line| line.split('`').nth(1)).collect();
    assert!(commands.len() > 50, "{commands:?}");
    for command in commands {
        let told = transcripts.contains(&format!("{command} ")) || transcripts.contains(&format!("{command}\n"));
        assert!(told, "no transcript has `{command}`");
    }
}
