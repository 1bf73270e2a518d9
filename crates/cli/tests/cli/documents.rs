//! Documents: apply, diff, export, delete, edit.

use serde_json::Value;

use crate::fixture::World;
use crate::transcript;

const MIXED: &str = "kind: clusters
id: c9
cluster_name: c9
cluster_dns: c9.example.com
environment: dev
quotas: [{id: small}]
---
# Kinds may come after what needs them.
kind: quota
apiVersion: v1
schema:
  type: object
  required: [cpu]
  properties:
    cpu: {type: string}
---
kind: quotas
id: small
cpu: \"2\"
";

#[test]
fn apply_takes_many_documents_and_kinds_among_them() {
    let world = World::demo();
    world.file("mixed.yaml", MIXED);
    transcript!(
        world,
        "flux-resourceset-cli diff -f mixed.yaml -o table",
        "flux-resourceset-cli apply -f mixed.yaml --dry-run -o name",
        "flux-resourceset-cli apply -f mixed.yaml --reason 'quotas at last'",
        "flux-resourceset-cli apply -f mixed.yaml",
        "flux-resourceset-cli diff -f mixed.yaml",
        "flux-resourceset-cli quota get small -o yaml",
        "flux-resourceset-cli delete -f mixed.yaml --dry-run -o table",
        "flux-resourceset-cli delete -f mixed.yaml -o name",
        "flux-resourceset-cli delete -f mixed.yaml",
        "flux-resourceset-cli delete -f mixed.yaml --ignore-not-found",
    );
}

#[test]
fn apply_takes_folders_json_and_stdin() {
    let world = World::demo();
    std::fs::create_dir_all(world.work().join("docs/deeper")).unwrap();
    world.file("docs/a.json", r#"{"kind": "namespaces", "id": "a"}"#);
    world.file(
        "docs/b.jsonl",
        "{\"kind\": \"namespaces\", \"id\": \"b1\"}\n{\"kind\": \"namespaces\", \"id\": \"b2\"}\n",
    );
    world.file("docs/c.yml", "[{kind: namespaces, id: c1}, {kind: namespaces, id: c2}]");
    world.file("docs/notes.txt", "not a document");
    world.file(
        "docs/deeper/d.yaml",
        "kind: namespaces\nid: d\nannotations: {answer: no}\n",
    );
    transcript!(
        world,
        "flux-resourceset-cli apply -f docs -o name",
        "flux-resourceset-cli apply -f docs -R -o name",
        "echo '{kind: namespaces, id: e}' | flux-resourceset-cli apply -f - -o name",
        "flux-resourceset-cli namespace get d -o jsonpath='{.annotations.answer}'",
        "flux-resourceset-cli diff -f docs/a.json -o table",
    );
}

#[test]
fn what_is_wrong_with_documents_is_said_with_its_place() {
    let world = World::demo();
    world.file(
        "bad.yaml",
        "kind: namespaces\nid: ok\n---\nkind: namespaces\nid: Not_Ok\nlabels: {a: 1}\n---\nkind: clusters\nid: c\n",
    );
    world.file("broken.yaml", "kind: [");
    world.file("nokind.yaml", "id: x");
    world.file("twice.yaml", "kind: namespaces\nid: x\n---\nkind: namespaces\nid: x\n");
    world.file("unknown.yaml", "kind: nothings\nid: x");
    world.file("forgets.yaml", "kind: clusters\nid: demo-cluster-01\ncluster_name: demo-cluster-01\ncluster_dns: demo-cluster-01.k8s.example.com\nenvironment: dev");
    world.file("empty.yaml", "# nothing\n");
    transcript!(
        world,
        "flux-resourceset-cli apply -f bad.yaml",
        "flux-resourceset-cli apply -f broken.yaml",
        "flux-resourceset-cli apply -f nokind.yaml",
        "flux-resourceset-cli apply -f twice.yaml",
        "flux-resourceset-cli apply -f unknown.yaml",
        "flux-resourceset-cli apply -f forgets.yaml",
        "flux-resourceset-cli apply -f empty.yaml",
        "flux-resourceset-cli apply -f missing.yaml",
        "flux-resourceset-cli kind apply -f nokind.yaml",
        "flux-resourceset-cli apply",
    );
}

#[test]
fn export_gives_what_apply_takes_and_changes_nothing() {
    let world = World::fleet();
    let awkward = [
        "no",
        "1.10",
        "null",
        "~",
        "0x1",
        "1e3",
        "- a",
        "# b",
        " c ",
        "a: b",
        "'",
        "\"",
        "{",
        "*x",
        "&y",
        "",
        "2026-01-01",
    ];
    for (n, value) in awkward.iter().enumerate() {
        let quoted = value.replace('\'', r"'\''");
        let ran = world.sh(&format!(
            "flux-resourceset-cli component patch podinfo --all --set 'key.{n}={quoted}'"
        ));
        assert_eq!(ran.code, 0, "{value}: {}", ran.stderr);
    }
    world
        .sh("flux-resourceset-cli component patch podinfo --all --set \"lines=a\nb\n\n  c\"")
        .json();
    world.file("mixed.yaml", MIXED);
    world.sh("flux-resourceset-cli apply -f mixed.yaml").json();
    for export in [
        "export",
        "export -o yaml",
        "export -o json",
        "export clusters -l environment=dev",
        "export -o yaml -l team=a",
        "export component podinfo",
    ] {
        let ran = world.sh(&format!(
            "flux-resourceset-cli {export} > out.yaml && flux-resourceset-cli diff -f out.yaml"
        ));
        assert_eq!(ran.code, 0, "{export}: {}{}", ran.stdout, ran.stderr);
        let applied = world.sh("flux-resourceset-cli apply -f out.yaml").json();
        assert_eq!(applied["changes"], Value::Array(Vec::new()), "{export}");
    }
}

#[test]
fn export_can_start_another_fleet() {
    let world = World::fleet();
    world.file("mixed.yaml", MIXED);
    world.sh("flux-resourceset-cli apply -f mixed.yaml").json();
    // The profile comes before the clusters that have its label.
    world.file(
        "profile.yaml",
        "{kind: profiles, id: rest, selector: 'team!=b', namespaces: [{id: podinfo}]}",
    );
    world.sh("flux-resourceset-cli apply -f profile.yaml").json();
    let other = World::demo();
    other.sh("flux-resourceset-cli cluster delete demo-cluster-01").json();
    for line in ["export -o yaml -l team=a", "export"] {
        let documents = world.sh(&format!("flux-resourceset-cli {line}")).stdout;
        other.file("fleet.yaml", &documents);
        other.sh("flux-resourceset-cli apply -f fleet.yaml").json();
    }
    // A cluster from before a kind has no array for it; one that is created after has an empty one. Both mean the same.
    let clusters = |world: &World| {
        let mut list = world.sh("flux-resourceset-cli cluster list").json();
        for cluster in list.as_array_mut().unwrap() {
            let empty = Value::Array(Vec::new());
            cluster.as_object_mut().unwrap().entry("quotas").or_insert(empty);
        }
        list
    };
    assert_eq!(clusters(&world), clusters(&other));
    let profiles = |world: &World| world.sh("flux-resourceset-cli profile list -o json").json();
    assert_eq!(profiles(&world), profiles(&other));
    assert_eq!(profiles(&other)[0]["id"], "rest");
}

#[test]
fn a_selection_is_exported_with_what_it_uses() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli export -l id=dev-1 -o yaml",
        "flux-resourceset-cli export namespace podinfo",
        "flux-resourceset-cli export -o name",
        "flux-resourceset-cli export namespace nope",
        "flux-resourceset-cli export namespaces -l team=a",
    );
}

#[test]
fn delete_names_what_it_deletes() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli delete namespace podinfo",
        "flux-resourceset-cli delete namespace podinfo --cascade --dry-run -o table",
        "flux-resourceset-cli delete namespace podinfo --cascade -o name",
        "flux-resourceset-cli delete component cert-manager --cascade",
        "flux-resourceset-cli delete namespace podinfo",
        "flux-resourceset-cli delete namespace podinfo --ignore-not-found",
        "flux-resourceset-cli delete namespace",
        "flux-resourceset-cli delete nothing x",
    );
}

#[test]
fn edit_opens_an_editor() {
    let world = World::demo();
    transcript!(
        world,
        "EDITOR='sed -i s/traefik/edge/' flux-resourceset-cli edit namespace traefik",
        "EDITOR='sed -i s/app:.traefik/app:edge/' flux-resourceset-cli edit namespace traefik -o name",
        "EDITOR='sed -i \"s/app: traefik/app: edge/\"' flux-resourceset-cli edit namespace traefik --reason edited -o name",
        "flux-resourceset-cli namespace get traefik -o jsonpath='{.labels.app}'",
        "EDITOR=true flux-resourceset-cli namespace edit traefik",
        "EDITOR=false flux-resourceset-cli namespace edit traefik",
        "EDITOR=true flux-resourceset-cli edit namespace nope",
    );
}

#[test]
fn edit_opens_again_when_it_is_refused() {
    let world = World::demo();
    world.file(
        "editor",
        "if grep -q '^# error' \"$1\"; then cp \"$1\" second; sed -i 's/NOT OK/fine/' \"$1\"; else sed -i 's/app: podinfo/app: NOT OK/' \"$1\"; fi\n",
    );
    // A person is at a terminal: `script` makes one.
    let at_a_terminal = |line: &str| {
        world.file("line", &format!("flux-resourceset-cli {line} >stdout 2>stderr\n"));
        let shown = "code=$?; cat stdout; cat stderr >&2; exit $code";
        format!("script --quiet --return --command 'sh line' /dev/null </dev/null; {shown}")
    };
    let mut seen = world.transcript(&[
        &at_a_terminal("edit namespace podinfo -o name").replace("script", "EDITOR='sh editor' script"),
        "cat second",
        "flux-resourceset-cli namespace get podinfo -o jsonpath='{.labels.app}'",
    ]);
    seen.push_str(&world.transcript(&[
        &at_a_terminal("edit namespace podinfo").replace("script", "EDITOR='sed -i s/^id:/ids:/' script"),
    ]));
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(seen) });
    // An editor that never gets it right is not asked for ever.
    world.file("worse", "echo x >>count; echo \"x$(wc -l <count): 1\" >>\"$1\"\n");
    let line = at_a_terminal("edit namespace podinfo").replace("script", "EDITOR='sh worse' script");
    let ran = world.sh(&line);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("error:").count(), 10, "{}", ran.stderr);
    assert!(ran.stderr.contains("your text is in"), "{}", ran.stderr);
}

#[test]
fn edit_without_a_terminal_is_refused_once_and_loses_nothing() {
    let world = World::demo();
    world.file("worse", "echo x >>count; echo \"x$(wc -l <count): 1\" >>\"$1\"\n");
    let ran = world.sh("EDITOR='sh worse' flux-resourceset-cli edit namespace podinfo");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert_eq!(world.sh("wc -l <count").stdout.trim(), "1");
    let (_, path) = ran.stderr.trim_end().split_once("your text is in ").unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains("\nx1: 1\n"));
}

#[test]
fn documents_take_every_name_of_a_kind() {
    let world = World::demo();
    let document =
        |kind: &str| format!("kind: {kind}\nid: x\ncomponent_path: x\noci_url: oci://example.com/x\noci_tag: v1\n");
    for name in [
        "component",
        "components",
        "platform_component",
        "platform-components",
        "platform_components",
    ] {
        world.file("x.yaml", &document(name));
        for (line, code) in [
            ("diff -f x.yaml -o name", 1),
            ("apply -f x.yaml -o name", 0),
            ("delete -f x.yaml -o name", 0),
        ] {
            let ran = world.sh(&format!("flux-resourceset-cli {line}"));
            let seen = (ran.code, ran.stdout.as_str());
            assert_eq!(seen, (code, "platform_components/x\n"), "{name} {line}: {}", ran.stderr);
        }
    }
    // The names of a kind that comes with them, too.
    world.file("mixed.yaml", &MIXED.replace("kind: quotas", "kind: quota"));
    let ran = world.sh("flux-resourceset-cli apply -f mixed.yaml -o name");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("quotas/small"), "{}", ran.stdout);
}

#[test]
fn only_ids_may_be_missing_from_what_is_deleted() {
    let world = World::demo();
    world.file("id.yaml", "kind: namespace\nid: nope\n");
    world.file("kind.yaml", "kind: namepsaces\nid: podinfo\n");
    world.file("none.yaml", "kind: namespace\n");
    transcript!(
        world,
        "flux-resourceset-cli delete -f id.yaml --ignore-not-found -o table",
        "flux-resourceset-cli delete -f id.yaml",
        "flux-resourceset-cli delete -f kind.yaml --ignore-not-found",
        "flux-resourceset-cli delete namepsace podinfo --ignore-not-found",
        "flux-resourceset-cli delete -f none.yaml --ignore-not-found",
        "flux-resourceset-cli apply -f none.yaml",
    );
}

#[test]
fn edit_is_repeated_on_what_someone_else_left() {
    let world = World::demo();
    // The editor is slow: meanwhile somebody else writes.
    world.file("other.sh", "flux-resourceset-cli namespace update podinfo --annotation owner=other >/dev/null; sed -i 's/team: platform/team: me/' \"$1\"\n");
    world.file("clash.sh", "flux-resourceset-cli namespace update podinfo --label team=they >/dev/null; sed -i 's/team: me/team: us/' \"$1\"\n");
    transcript!(
        world,
        "EDITOR='sh other.sh' flux-resourceset-cli edit namespace podinfo -o name",
        "flux-resourceset-cli namespace get podinfo -o yaml",
        "EDITOR='sh clash.sh' flux-resourceset-cli edit namespace podinfo",
    );
}
