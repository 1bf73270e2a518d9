//! Seen before it is done: plans, the question, the removal budget, protection.

use crate::fixture::World;
use crate::transcript;

/// A release in the catalog, as a document.
const RELEASE: &str = "kind: component
id: podinfo
component_path: podinfo
component_version: \"6.5\"
oci_url: https://stefanprodan.github.io/podinfo
oci_tag: latest
depends_on: [traefik]
";

/// A cluster that gives up podinfo, by what its document no longer says.
const SMALLER: &str = "kind: cluster
id: dev-1
cluster_name: dev-1
cluster_dns: dev-1.example.com
environment: dev
labels: {team: a}
platform_components: [{id: cert-manager}, {id: traefik}]
namespaces: []
rolebindings: []
";

fn world() -> World {
    let world = World::fleet();
    world.file("release.yaml", RELEASE);
    world.file("smaller.yaml", SMALLER);
    world
}

#[test]
fn a_plan_shows_what_happens_on_the_clusters() {
    transcript!(
        world(),
        "flux-resourceset-cli plan -f release.yaml -o table",
        "flux-resourceset-cli plan -f release.yaml -f smaller.yaml -o table",
        "flux-resourceset-cli plan -f release.yaml -f smaller.yaml -o wide",
        "flux-resourceset-cli plan -f release.yaml",
        "flux-resourceset-cli plan -f release.yaml -o jsonpath='{.totals.by_environment}'",
        "flux-resourceset-cli plan -f missing.yaml",
        "echo '{kind: namespaces, id: Bad_Id}' | flux-resourceset-cli plan -f -",
        "flux-resourceset-cli changes --actor write -o jsonpath='{[*].revision}'",
    );
}

#[test]
fn the_colours_say_what_is_dangerous() {
    let world = world();
    let shown = world.sh("CLICOLOR_FORCE=1 flux-resourceset-cli plan -f release.yaml -f smaller.yaml -o table");
    let red = |text: &str| format!("\u{1b}[1m\u{1b}[31m{text}");
    assert!(
        shown.stdout.contains(&red("Flux removes something from 1 cluster")),
        "{:?}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains(&red("    - platform-components/podinfo")),
        "{:?}",
        shown.stdout
    );
    assert!(
        shown
            .stdout
            .contains("\u{1b}[33m    ~ platform-components/podinfo /component_version"),
        "{:?}",
        shown.stdout
    );
}

#[test]
fn dependencies_that_will_stall_are_warned_of() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component disable traefik -l 'environment in (dev,qa)' --dry-run -o table",
        "flux-resourceset-cli component unassign traefik --cluster prod-1 --dry-run -o table",
    );
}

#[test]
fn a_plan_can_be_kept_and_done_later() {
    transcript!(
        world(),
        "flux-resourceset-cli plan -f release.yaml --out kept.json -o name",
        "flux-resourceset-cli apply --plan kept.json --dry-run -o name",
        // Somebody else gives a cluster another version meanwhile: the effect is another one.
        "flux-resourceset-cli component override podinfo --cluster qa-1 --oci-tag 6.0.0 -o name",
        "flux-resourceset-cli component unassign podinfo --cluster dev-2 -o name",
        "flux-resourceset-cli apply --plan kept.json",
        "flux-resourceset-cli plan -f release.yaml --out kept.json -o name",
        "flux-resourceset-cli apply --plan kept.json --reason 'as reviewed' -o table",
        "flux-resourceset-cli apply --plan kept.json",
        "flux-resourceset-cli plan -f release.yaml -o table",
        "flux-resourceset-cli apply --plan release.yaml",
        "flux-resourceset-cli apply --plan missing.json",
        "flux-resourceset-cli apply --plan kept.json -f release.yaml",
        "flux-resourceset-cli plan -f release.yaml --out nowhere/kept.json",
    );
}

#[test]
fn a_digest_binds_any_write_to_its_plan() {
    let world = world();
    for line in [
        "apply -f release.yaml",
        "component update podinfo --oci-tag 7.0.0",
        "undo",
        "rollback --to 2",
    ] {
        let line = format!("flux-resourceset-cli {line}");
        let plan = world.sh(&format!("{line} --dry-run")).json();
        let digest = plan["plan"].as_str().unwrap();
        let wrong = world.sh(&format!("{line} --if-plan {}", "0".repeat(64)));
        assert_eq!(wrong.code, 1, "{line}");
        assert!(
            wrong.stderr.contains("hint: check the new plan"),
            "{line}: {}",
            wrong.stderr
        );
        let done = world.sh(&format!("{line} --if-plan {digest}")).json();
        assert_eq!(
            done["changes"].as_array().map(Vec::len),
            plan["changes"].as_array().map(Vec::len),
            "{line}"
        );
    }
    assert_eq!(
        world.sh("flux-resourceset-cli apply -f release.yaml --if-plan 12").code,
        2
    );
}

#[test]
fn without_a_terminal_only_removals_need_yes() {
    transcript!(
        world(),
        "flux-resourceset-cli apply -f release.yaml -o name",
        "flux-resourceset-cli apply -f release.yaml -o table",
        "flux-resourceset-cli apply -f smaller.yaml -o name",
        "cat smaller.yaml | flux-resourceset-cli apply -f - -o name",
        "flux-resourceset-cli apply -f smaller.yaml --confirm-removals 2 -o name",
        "flux-resourceset-cli apply -f smaller.yaml --yes -o name",
        "flux-resourceset-cli component where podinfo -o name",
        "flux-resourceset-cli apply -f smaller.yaml --yes",
    );
}

#[test]
fn the_budget_has_to_be_confirmed() {
    let world = World::fleet_with_budget("2");
    world.file(
        "smaller.yaml",
        &format!(
            "{SMALLER}---\n{}---\n{}",
            SMALLER.replace("dev-1", "dev-2"),
            SMALLER.replace("dev-1", "qa-1")
        ),
    );
    transcript!(
        world,
        "flux-resourceset-cli component unassign podinfo --all --dry-run -o table",
        "flux-resourceset-cli component unassign podinfo --all",
        "flux-resourceset-cli component unassign podinfo --all --confirm-removals 3",
        "flux-resourceset-cli apply -f smaller.yaml --yes -o name",
        "flux-resourceset-cli apply -f smaller.yaml --confirm-removals 3 -o name",
        // One by one is not a way around it.
        "flux-resourceset-cli component disable traefik --cluster dev-1 -o name",
        "flux-resourceset-cli component disable traefik --cluster dev-2 -o name",
        "flux-resourceset-cli component disable traefik --cluster qa-1 --dry-run -o table",
        "flux-resourceset-cli component disable traefik --cluster qa-1",
        "flux-resourceset-cli component disable traefik --cluster qa-1 --confirm-removals 1 -o name",
        "EDITOR='sed -i s/true/false/' flux-resourceset-cli cluster edit prod-1",
        "flux-resourceset-cli delete cluster prod-1 --confirm-removals many",
    );
}

#[test]
fn protected_clusters_are_not_deleted() {
    let world = World::fleet();
    let emptied = "kind: cluster\nid: prod-1\ncluster_name: prod-1\ncluster_dns: prod-1.example.com\nenvironment: prod\nprotected: true\n\
                   platform_components: []\nnamespaces: []\nrolebindings: []\n";
    world.file("emptied.yaml", emptied);
    transcript!(
        world,
        "flux-resourceset-cli cluster update prod-1 --protected -o name",
        "flux-resourceset-cli cluster delete prod-1",
        "flux-resourceset-cli component unassign podinfo --cluster prod-1 --dry-run -o name",
        "flux-resourceset-cli plan -f emptied.yaml",
        "flux-resourceset-cli apply -f emptied.yaml --yes",
        "flux-resourceset-cli cluster update prod-1 --protected=false -o name",
        "flux-resourceset-cli cluster delete prod-1 -o name",
    );
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    let world = world().with("NO_COLOR", "1");
    let transcript = world.terminal_transcript(&[
        ("apply -f release.yaml", "asked 1; echo n"),
        ("apply -f release.yaml", "asked 1; echo"),
        ("apply -f release.yaml", "asked 1; printf '\\004'"),
        ("apply -f release.yaml -o name", "asked 1; echo y"),
        ("apply -f release.yaml -o name", "true"),
        ("apply -f smaller.yaml -o name", "asked 1; echo Yes"),
        ("undo -o name", "asked 1; echo y"),
        ("rollback --to 2 -o name --yes", "true"),
        ("cluster delete -l team=b", "asked 1; echo n"),
        ("cluster delete -l team=b -o name", "asked 1; echo y"),
        ("cluster label --all wave=1 -o name", "asked 1; echo y"),
        ("cluster update dev-1 qa-1 --node-count 3", "asked 1; echo n"),
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(transcript) });
}

#[test]
fn a_yes_confirms_the_removals_that_were_shown() {
    let world = World::fleet_with_budget("0");
    world.file("smaller.yaml", SMALLER);
    let refused = world.sh("flux-resourceset-cli apply -f smaller.yaml --yes");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--confirm-removals 1"), "{}", refused.stderr);
    let ran = world.at_a_terminal("apply -f smaller.yaml -o name", "asked 1; echo y");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "clusters/dev-1\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_was_shown_is_what_happens() {
    let world = world();
    // Between the question and the answer somebody takes the component from a cluster.
    let meddle = "flux-resourceset-cli component unassign podinfo --cluster qa-1 >/dev/null";
    let ran = world.at_a_terminal(
        "apply -f release.yaml -o name",
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
    // And a second thought is heard.
    world.file("release.yaml", &RELEASE.replace("6.5", "6.6"));
    let meddle = "flux-resourceset-cli component assign podinfo --cluster qa-1 >/dev/null";
    let ran = world.at_a_terminal(
        "apply -f release.yaml -o name",
        &format!("asked 1; {meddle}; echo y; asked 2; echo n"),
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
}

#[test]
fn a_plan_for_three_thousand_clusters_fits_on_a_screen() {
    let world = World::demo();
    world.file("release.yaml", RELEASE);
    let cluster = |n: usize| {
        format!(
            "{{\"kind\": \"clusters\", \"id\": \"c-{n:04}\", \"cluster_name\": \"c-{n:04}\", \"cluster_dns\": \"c-{n:04}.example.com\", \
             \"environment\": \"dev\", \"platform_components\": [{{\"id\": \"podinfo\"}}]}}\n"
        )
    };
    world.file("fleet.jsonl", &(0..3000).map(cluster).collect::<String>());
    let planned = world.sh("flux-resourceset-cli plan -f fleet.jsonl -o table");
    assert!(
        planned
            .stdout
            .starts_with("+ 3000 clusters: c-0000, c-0001, c-0002, c-0003, c-0004 and 2995 more\n"),
        "{}",
        planned.stdout
    );
    assert!(planned.stdout.lines().count() < 15, "{}", planned.stdout);
    world.sh("flux-resourceset-cli apply -f fleet.jsonl --yes").json();
    let shown = world.sh("flux-resourceset-cli plan -f release.yaml -o table").stdout;
    assert!(
        shown.contains("the same on 3001 clusters: c-0000, c-0001, c-0002, c-0003, c-0004 and 2996 more\n"),
        "{shown}"
    );
    assert!(shown.lines().count() < 10, "{shown}");
    let all = world.sh("flux-resourceset-cli plan -f release.yaml -o wide").stdout;
    assert!(
        all.contains(", c-2999, demo-cluster-01\n"),
        "-o wide names every cluster"
    );
    let refused = world.sh("flux-resourceset-cli component unassign podinfo --all");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--confirm-removals 3001"), "{}", refused.stderr);
    assert!(refused.stderr.len() < 2000, "{}", refused.stderr);
}

/// CI applies what its repository has: a hotfix that is not in there is not undone unseen.
#[test]
fn a_plan_says_what_it_overwrites() {
    let world = World::fleet();
    let exported = world.sh("flux-resourceset-cli export component > catalog.yaml && cat catalog.yaml");
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    transcript!(
        world,
        "flux-resourceset-cli component update podinfo --oci-tag 6.9.9 --reason 'hotfix: 6.5.0 leaks memory' -o name",
        "flux-resourceset-cli component update podinfo --component-version 6.9 --reason 'its version' -o name",
        "flux-resourceset-cli plan -f catalog.yaml -o table",
        "flux-resourceset-cli diff -f catalog.yaml -o jsonpath='{.changes[*].last_change.revision} {.changes[*].reverts[*].pointer} {.history.status}'",
        "flux-resourceset-cli apply -f catalog.yaml --dry-run -o jsonpath='{.changes[*].reverts[*].reason}'",
        "flux-resourceset-cli cluster delete dev-1 --dry-run -o table",
        // Where nobody can be asked, it is said at least.
        "flux-resourceset-cli apply -f catalog.yaml -o name",
        "flux-resourceset-cli apply -f catalog.yaml -o name",
    );
}
