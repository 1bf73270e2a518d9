//! What goes wrong, how it is told, and the exit code.

use crate::fixture::World;
use crate::transcript;

#[test]
fn refusals_show_every_field() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli component create Bad_Id --component-path '' --oci-url ftp://x --oci-tag v1",
        "flux-resourceset-cli component create new --component-path x --oci-url https://x --oci-tag v1 --depends-on nope",
        "flux-resourceset-cli namespace create podinfo",
        "flux-resourceset-cli namespace create x --cluster nope",
        "flux-resourceset-cli component update podinfo --cluster-env-enabled=maybe",
        "flux-resourceset-cli cluster update demo-cluster-01 --node-count many",
        "flux-resourceset-cli cluster update demo-cluster-01 --unset lables.team",
        "flux-resourceset-cli component override podinfo --all --clear tag",
        "flux-resourceset-cli cluster list --environment nowhere",
        "flux-resourceset-cli cluster list -l colour=red",
    );
}

#[test]
fn what_an_unset_variable_leaves_is_wrong_usage() {
    let world = World::demo();
    let before = world.sh("flux-resourceset-cli changes").json();
    for line in [
        "namespace create e1 --cluster ''",
        "namespace create e1 --cluster demo-cluster-01 --cluster ''",
        "namespace create ''",
        "namespace create ' '",
        "namespace get ''",
        "namespace delete ''",
        "namespace edit ''",
        "namespace history ''",
        "namespace where ''",
        "namespace assign '' --all",
        "namespace assign podinfo --cluster ''",
        "component unassign podinfo --cluster ''",
        "component patch podinfo --cluster '' --set a=1",
        "component override podinfo --cluster '' --oci-tag v1",
        "component unpin podinfo --cluster=",
        "component pins ''",
        "cluster create c --cluster-dns c.example.com --environment dev --component ''",
        "cluster diagnostics ''",
        "get '' podinfo",
        "get namespace ''",
        "delete namespace '' --ignore-not-found",
        "edit namespace ''",
        "history namespace ''",
        "changes --id ''",
        "export namespace ''",
        "export -l ''",
        "inputs '' component",
        "kind get ''",
        "kind delete ''",
        "demo add-namespace '' x",
        "demo add-namespace demo-cluster-01 ''",
        "demo patch-component demo-cluster-01 '' --set a=1",
        "config use-context ''",
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains("empty"), "{line}: {}", ran.stderr);
    }
    assert_eq!(world.sh("flux-resourceset-cli changes").json(), before);
}

#[test]
fn exit_codes_tell_scripts_what_happened() {
    let world = World::demo();
    for (line, code) in [
        ("cluster get demo-cluster-01", 0),
        ("namespace create podinfo", 1),
        ("namespace delete podinfo", 1),
        ("namespace get nope", 4),
        ("get nothing", 4),
        ("namespace delete nope", 4),
        ("history cluster nope", 4),
        ("inputs nope component", 4),
        ("inputs nope.example.com component", 4),
        ("namespace", 2),
        ("namespace get", 2),
        ("nonsense", 2),
        ("namespace list --nonsense", 2),
        ("namespace list -o nonsense", 2),
        ("namespace create x --label novalue", 2),
        ("component create x", 2),
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
        assert_eq!(ran.stderr.is_empty(), code == 0, "{line}");
        assert_eq!(
            ran.stdout.is_empty(),
            code != 0,
            "{line}: nothing but data is on stdout"
        );
    }
    let away = world.with("FLUX_API_URL", "http://127.0.0.1:1");
    for line in [
        "cluster list",
        "apply -f -",
        "get clusters",
        "network-policy list",
        "component assign x --all",
        "changes",
    ] {
        let ran = away.sh(&format!(
            "echo '{{kind: namespaces, id: x}}' | flux-resourceset-cli {line}"
        ));
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{line}: {}", ran.stderr);
    }
    let unknown = away
        .with("FLUX_API_URL", "http://nowhere.invalid")
        .sh("flux-resourceset-cli cluster list");
    assert_eq!(unknown.code, 3, "{}", unknown.stderr);
}

#[test]
fn an_unreachable_server_is_named() {
    transcript!(
        World::demo().with("FLUX_API_URL", "http://127.0.0.1:1"),
        "flux-resourceset-cli cluster list",
        "FLUX_API_URL=nowhere flux-resourceset-cli cluster list",
        "FLUX_API_URL= flux-resourceset-cli cluster list",
    );
}

#[test]
fn tokens_without_the_right_are_told_apart() {
    transcript!(
        World::demo().without("FLUX_API_WRITE_TOKEN"),
        "FLUX_API_TOKEN=wrong flux-resourceset-cli cluster list",
        "flux-resourceset-cli namespace create x",
        "FLUX_API_TOKEN= flux-resourceset-cli cluster list",
        "FLUX_API_WRITE_TOKEN=wrong flux-resourceset-cli namespace create x",
    );
}

#[test]
fn a_read_only_server_still_tells_what_flux_gets() {
    transcript!(
        World::read_only(),
        "flux-resourceset-cli inputs demo-cluster-01.k8s.example.com namespaces -o name",
        "flux-resourceset-cli demo flux-namespaces demo-cluster-01.k8s.example.com -o name",
        "flux-resourceset-cli cluster list",
    );
}

#[test]
fn every_write_can_be_tried() {
    let world = World::demo();
    world.file("x.yaml", "kind: namespaces\nid: x\n");
    world.file(
        "k.yaml",
        "kind: quota\nschema: {type: object, properties: {cpu: {type: string}}}\n",
    );
    let on = "--cluster demo-cluster-01";
    let before = world.sh("flux-resourceset-cli changes").json();
    for line in [
        "cluster create c --cluster-dns c.example.com --environment dev".to_owned(),
        "cluster update demo-cluster-01 --node-count 3".to_owned(),
        "cluster delete demo-cluster-01".to_owned(),
        format!("namespace create x {on}"),
        "namespace delete podinfo --cascade".to_owned(),
        format!("namespace unassign podinfo {on}"),
        format!("component assign podinfo {on} --oci-tag v9"),
        format!("component unassign podinfo {on}"),
        format!("component patch podinfo {on} --set a=1"),
        format!("component override podinfo {on} --oci-tag v9"),
        format!("component disable podinfo {on}"),
        format!("component enable podinfo {on}"),
        format!("component unpin podinfo {on}"),
        "apply -f x.yaml".to_owned(),
        "delete namespace podinfo --cascade".to_owned(),
        "kind apply -f k.yaml".to_owned(),
        "demo add-namespace demo-cluster-01 x".to_owned(),
        "demo patch-component demo-cluster-01 podinfo --set a=1".to_owned(),
    ] {
        let plan = world.sh(&format!("flux-resourceset-cli {line} --dry-run")).json();
        assert_eq!(plan["dry_run"], true, "{line}");
        let nothing = line.contains("enable") || line.contains("unpin");
        assert_eq!(plan["changes"].as_array().unwrap().is_empty(), nothing, "{line}");
    }
    assert_eq!(world.sh("flux-resourceset-cli changes").json(), before);
}
