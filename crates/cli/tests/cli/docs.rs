//! What is generated from the definition of the command line.

use std::fs;

use crate::fixture::World;

#[test]
fn the_chapter_on_the_command_line_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/cli.md");
    // No server is asked: the chapter is about the built-in kinds.
    let docs = World::demo()
        .without("FLUX_API_URL")
        .sh("flux-resourceset-cli docs")
        .stdout;
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(kept == docs, "docs/src/cli.md is stale: make generate");
}

#[test]
fn man_pages_are_written() {
    let world = World::demo();
    let ran = world.sh("flux-resourceset-cli man --out man/pages");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    let page = |name: &str| fs::read_to_string(world.work().join("man/pages").join(format!("{name}.1"))).unwrap();
    assert!(page("flux-resourceset-cli").contains("FLUX_API_URL"));
    assert!(page("flux-resourceset-cli-component-patch").contains("\\-\\-set"));
}

/// An example may fail, since its ids are made up; it is not wrong usage.
#[test]
fn examples_of_the_help_are_accepted() {
    let chapter = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/cli.md")).unwrap();
    let examples: Vec<&str> = chapter
        .lines()
        .filter(|line| line.starts_with("  flux-resourceset-cli "))
        .collect();
    assert!(examples.len() >= 20, "{examples:?}");
    let world = World::fleet();
    world.file(
        "rollout.yaml",
        "kind: rollouts\nid: r\noperations: [{op: merge, kind: namespaces, id: podinfo, value: {labels: {a: b}}}]\nwaves: [{name: rest}]\n",
    );
    for example in examples.iter().filter(|example| !example.contains("-f old/")) {
        // No cluster polls here.
        let example = match example.contains("-cli wait ") {
            true => format!("{} --timeout 0s", example.replace(" --timeout 15m", "")),
            // It goes on until the rollout ends.
            false if example.contains("rollout status") => format!("timeout 1 {}", example.trim()),
            false => (*example).to_owned(),
        };
        let ran = world.sh(&example);
        assert_ne!(ran.code, 2, "{example}: {}", ran.stderr);
    }
}

#[test]
fn every_shell_has_a_script() {
    let world = World::demo();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = world.sh(&format!("flux-resourceset-cli completion {shell}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        assert!(ran.stdout.contains("FLUX_RESOURCESET_COMPLETE"), "{shell}");
    }
}

/// What a shell would offer for the last word.
pub(crate) fn offered(world: &World, words: &str) -> Vec<String> {
    let index = words.split_whitespace().count() - 1;
    let words = words.replace('_', "''");
    let line = format!(
        "FLUX_RESOURCESET_COMPLETE=bash _CLAP_IFS='\n' _CLAP_COMPLETE_INDEX={index} flux-resourceset-cli -- {words}"
    );
    let ran = world.sh(&line);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn ids_are_completed_by_asking_the_server() {
    let world = World::fleet();
    let complete = |words: &str| offered(&world, words);
    assert_eq!(complete("flux-resourceset-cli component get p"), ["podinfo"]);
    assert_eq!(
        complete("flux-resourceset-cli component assign podinfo --cluster dev"),
        ["dev-1", "dev-2"]
    );
    assert_eq!(
        complete("flux-resourceset-cli cluster create c --environment d"),
        ["dev"]
    );
    assert_eq!(complete("flux-resourceset-cli compo"), ["component", "components"]);
    assert!(complete("flux-resourceset-cli inputs _").contains(&"prod-1".to_owned()));
    assert_eq!(complete("flux-resourceset-cli history comp"), ["component"]);
    assert_eq!(complete("flux-resourceset-cli edit components po"), ["podinfo"]);
    let away = world.with("FLUX_API_URL", "http://127.0.0.1:1");
    assert_eq!(
        offered(&away, "flux-resourceset-cli component get p"),
        Vec::<String>::new()
    );
}
