//! Formats, and commands that go on.

use serde_json::{Value, json};

use crate::fixture::World;
use crate::transcript;

#[test]
fn formats() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli get namespaces",
        "flux-resourceset-cli get ns",
        "flux-resourceset-cli get namespace podinfo -o yaml",
        "flux-resourceset-cli get components -o name",
        "flux-resourceset-cli get platform_components -o table",
        "flux-resourceset-cli get rolebindings -o wide",
        "flux-resourceset-cli get clusters -o jsonpath='{.items[*].id}'",
        "flux-resourceset-cli get cluster demo-cluster-01 -o jsonpath='color={.patches.podinfo.ui\\.color}{\"\\n\"}'",
        "flux-resourceset-cli get components -o jsonpath='{range [*]}{.id}{\"\\t\"}{.oci_url}{\"\\n\"}{end}'",
        "flux-resourceset-cli get components -o jsonpath='{.items[?(@.id==\"podinfo\")].depends_on[0]}'",
        "flux-resourceset-cli get components -o jsonpath='{.items['",
        "flux-resourceset-cli get components -o xml",
        "flux-resourceset-cli inputs demo-cluster-01 component -o table",
        "CLICOLOR_FORCE=1 flux-resourceset-cli get namespaces -o table",
        "CLICOLOR_FORCE=1 NO_COLOR=1 flux-resourceset-cli get namespaces -o table",
        "flux-resourceset-cli version -o name",
    );
}

#[test]
fn the_version_names_the_commit() {
    let world = World::demo();
    let version = env!("CARGO_PKG_VERSION");
    let json = world.sh("flux-resourceset-cli version").json();
    assert_eq!(json["version"], version);
    let expected = match (json["commit"].as_str(), json["commit_date"].as_str()) {
        (None, None) => version.to_owned(),
        (Some(commit), date) => format!(
            "{version} ({})",
            format!("{commit} {}", date.unwrap_or_default()).trim_end()
        ),
        (None, Some(_)) => panic!("a date of nothing: {json}"),
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    assert!(
        json["commit"].is_string() || !std::path::Path::new(root).join(".git").exists(),
        "{json}"
    );
    for line in ["--version", "version -o table"] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (0, format!("flux-resourceset-cli {expected}").as_str())
        );
    }
}

#[test]
fn tables_do_not_steer_the_terminal() {
    let world = World::demo();
    world.file(
        "x.json",
        r#"{"kind": "namespaces", "id": "x", "annotations": {"a": "\u001b[31mred\u0007\ttab\r\nline\u0001"}}"#,
    );
    world
        .sh("flux-resourceset-cli apply -f x.json --reason \"$(printf 'bell\\007\\033[2J')\"")
        .json();
    for line in [
        "get namespace x -o wide",
        "changes -o table",
        "history namespace x -o wide",
    ] {
        let ran = world.sh(&format!("flux-resourceset-cli {line}"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        assert!(
            !ran.stdout.replace('\n', "").contains(char::is_control),
            "{line}: {:?}",
            ran.stdout
        );
    }
    let shown = world.sh("flux-resourceset-cli get namespace x -o wide").stdout;
    assert!(shown.contains(r"a=\u{1b}[31mred\u{7}\ttab\r\nline\u{1}"), "{shown}");
}

#[test]
fn the_log() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli namespace create a --reason 'because of ümlauts' -o name",
        "flux-resourceset-cli namespace update a --label x=y -o name",
        "flux-resourceset-cli component update podinfo --oci-tag 6.5.0 --reason release -o name",
        "flux-resourceset-cli undo -o name",
        "flux-resourceset-cli changes --after 2 --limit 1",
        "flux-resourceset-cli changes -o table",
        "flux-resourceset-cli changes --limit 2 -o name",
        "flux-resourceset-cli changes --kind namespace --actor write -o name",
        "flux-resourceset-cli changes --kind kinds -o name",
        "flux-resourceset-cli changes --id a --kind namespace -o yaml --limit 1 | grep -v request_id",
        "flux-resourceset-cli changes --reason lease --since 1h -o name",
        "flux-resourceset-cli changes --until 1h -o name",
        "flux-resourceset-cli changes --since yesterday",
        "flux-resourceset-cli changes show 4 -o table",
        "flux-resourceset-cli changes show 3",
        "flux-resourceset-cli changes show 99",
        "flux-resourceset-cli changes show 0",
        "flux-resourceset-cli changes --records --after 1 -o table",
        "flux-resourceset-cli changes --records --limit 1",
        "flux-resourceset-cli changes --records --kind namespace --actor write -o name",
        "flux-resourceset-cli changes --records --since 1h",
        "flux-resourceset-cli history namespace a -o table",
        "flux-resourceset-cli history namespace a -o wide",
        "flux-resourceset-cli namespace history a -o jsonpath='{[*].revision}'",
        "flux-resourceset-cli history namespace nope",
    );
}

#[test]
fn lists_are_paged_and_filtered() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli cluster list --limit 2 --offset 1 -o name",
        "flux-resourceset-cli cluster list --environment dev -o name",
        "flux-resourceset-cli cluster list --cluster-dns qa-1.example.com -o name",
        "flux-resourceset-cli component list --oci-tag latest -o name",
        "flux-resourceset-cli rolebinding list --role view -o name",
    );
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn watch_prints_each_change_as_it_comes() {
    let world = World::demo();
    let mut watch = world.follow("flux-resourceset-cli get namespaces -w --interval 0.05");
    for id in ["cert-manager", "podinfo", "traefik"] {
        assert_eq!(parsed(&watch.line())["id"], id);
    }
    world.sh("flux-resourceset-cli namespace create a --label x=y").json();
    assert_eq!(
        parsed(&watch.line()),
        json!({"id": "a", "labels": {"x": "y"}, "annotations": {}})
    );
    world.sh("flux-resourceset-cli namespace delete a").json();
    assert_eq!(parsed(&watch.line()), json!({"id": "a", "$patch": "delete"}));
    watch.stop();
}

#[test]
fn watch_follows_a_selector() {
    let world = World::fleet();
    let mut watch = world.follow("flux-resourceset-cli cluster list -l team=a -w --interval 0.05");
    for id in ["dev-1", "qa-1"] {
        assert_eq!(parsed(&watch.line())["id"], id);
    }
    world
        .sh("flux-resourceset-cli cluster update dev-1 --label team=b")
        .json();
    assert_eq!(parsed(&watch.line()), json!({"id": "dev-1", "$patch": "delete"}));
    world
        .sh("flux-resourceset-cli cluster update prod-1 --label team=a")
        .json();
    assert_eq!(parsed(&watch.line())["id"], "prod-1");
    watch.stop();
}

#[test]
fn changes_can_be_followed() {
    let world = World::demo();
    let mut follow = world.follow("flux-resourceset-cli changes --records --after 1 --follow --interval 0.05");
    let mut revisions = world.follow("flux-resourceset-cli changes --after 1 --follow --interval 0.05");
    for n in 2..5 {
        world
            .sh(&format!(
                "flux-resourceset-cli component patch podinfo --all --set n={n}"
            ))
            .json();
        let record = parsed(&follow.line());
        assert_eq!((&record["revision"], &record["action"]), (&json!(n), &json!("update")));
        let revision = parsed(&revisions.line());
        assert_eq!(
            (&revision["revision"], &revision["changes"]["clusters"]["update"]),
            (&json!(n), &json!(1))
        );
    }
    follow.stop();
    revisions.stop();
    for (form, expected) in [("--records", "namespaces/a"), ("", "1 namespace")] {
        let line = format!("flux-resourceset-cli changes {form} --after 3 --follow --interval 0.05 -o table");
        let mut table = world.follow(&line);
        let (heading, first) = (table.line(), table.line());
        assert!(heading.starts_with("REVISION"), "{heading}");
        world.sh("flux-resourceset-cli namespace create a --reason new").json();
        world.sh("flux-resourceset-cli namespace delete a").json();
        let (second, third) = (table.line(), table.line());
        assert!(second.contains(expected), "{second}");
        // Under their headings, whatever their lengths.
        for (name, value) in [("ACTOR", "write"), ("REASON", "new")] {
            assert_eq!(second.find(value), heading.find(name), "{heading}{second}");
        }
        for row in [first, third] {
            assert_eq!(row.find("write"), heading.find("ACTOR"), "{heading}{row}");
        }
        table.stop();
        world.sh("flux-resourceset-cli rollback --to 4").json();
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let world = World::demo();
    let ran = world.sh("(flux-resourceset-cli changes; echo $? >code) | true; cat code");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0\n", ""));
}
