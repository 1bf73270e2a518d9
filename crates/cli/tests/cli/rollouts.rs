//! Rollouts on the command line: plan, start, follow, act, wait; what they refuse; and the offer of one where a guard refuses a change.

use regex::Regex;

use crate::fixture::World;
use crate::transcript;

/// Five clusters: dev-1 is the canary, qa-1 overrides the tag.
fn fleet() -> World {
    let world = World::fleet();
    world.done("flux-resourceset-cli label cluster dev-1 ring=canary");
    world.done("flux-resourceset-cli component override podinfo --cluster qa-1 --oci-tag 6.5.0");
    world
}

/// A rollout whose first wave is promoted, and waits for evidence that never comes.
fn started() -> World {
    let world = fleet();
    world.done(
        "flux-resourceset-cli rollout start --set platform_components/podinfo oci_tag=6.7.1 --waves canary,environment=dev,rest \
         --approve rest --reason 'ticket 7'",
    );
    world.until_wave("podinfo-6.7.1", "canary");
    // The driver has said what it waits for.
    world.until("flux-resourceset-cli rollout status podinfo-6.7.1 -o jsonpath='{.waits}' | grep -q must");
    world
}

impl World {
    fn done(&self, line: &str) {
        let ran = self.sh(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    }

    /// Waits for the driver.
    fn until_wave(&self, id: &str, wave: &str) {
        self.until(&format!(
            "[ \"$(flux-resourceset-cli rollout get {id} -o jsonpath='{{.wave}}')\" = {wave} ]"
        ));
    }

    fn until(&self, condition: &str) {
        self.done(&format!(
            "n=0; until {condition}; do n=$((n+1)); [ $n -lt 300 ] || exit 1; sleep 0.1; done"
        ));
    }

    /// A poll of each path, as Flux makes it.
    fn polls(&self, clusters: &[&str]) {
        for cluster in clusters {
            self.done(&format!(
                "for path in namespaces platform-components rolebindings; do curl -sf -A flux-operator/v0.58.1 \
                 -H 'Authorization: Bearer read-token' -o reply \
                 \"$FLUX_API_URL/api/v2/flux/clusters/{cluster}.example.com/$path?marked=true\"; done; rm reply"
            ));
        }
    }
}

/// Ages differ from run to run, and the width of their column with them.
fn without_ages(text: &str) -> String {
    let age = Regex::new(r"\b(since |running +|paused +|halted +|reverted +)\d+[smhd]\b *").unwrap();
    age.replace_all(text, "${1}AGE ").into_owned()
}

macro_rules! aged {
    ($world:expr, $($line:expr),+ $(,)?) => {
        insta::with_settings!({omit_expression => true}, {
            insta::assert_snapshot!(without_ages(&$world.transcript(&[$($line),+])))
        })
    };
}

const FILE: &str = "\
kind: rollouts
id: podinfo-6.7.1
description: podinfo 6.7.1
operations: [{op: merge, kind: platform_components, id: podinfo, value: {oci_tag: 6.7.1}}]
waves:
  - {name: canary, selector: ring=canary}
  - {name: rest, approve: true}
gate: {converged: 95%, failures: 1, soak: 30m}
";

#[test]
fn a_plan_shows_waves_and_starts_nothing() {
    let world = fleet();
    world.file("rollout.yaml", FILE);
    world.file("other.yaml", "kind: namespaces\nid: x\n");
    transcript!(
        world,
        "flux-resourceset-cli rollout plan -f rollout.yaml -o table | grep -v '^plan'",
        "flux-resourceset-cli rollout plan --set platform_components/podinfo oci_tag=6.7.1 --waves canary,40%,rest --approve rest -o jsonpath='{.rollouts[0]}'",
        "flux-resourceset-cli rollout plan big --set component/podinfo oci_tag=6.7.1 component_path=other --set component/traefik oci_tag=3 --waves environment=dev,rest --gate told=50% --gate soak=1h --on-failure revert --description 'two at once' -o table | grep -v '^plan'",
        "flux-resourceset-cli rollout list",
        "flux-resourceset-cli rollout plan -f other.yaml",
        "flux-resourceset-cli rollout plan",
        "flux-resourceset-cli rollout plan --set podinfo oci_tag=1 --waves rest",
        "flux-resourceset-cli rollout plan --set component/podinfo --waves rest",
        "flux-resourceset-cli rollout plan --set component/podinfo tag=1 --waves rest",
        "flux-resourceset-cli rollout plan --set component/nope oci_tag=1 --waves rest",
        "flux-resourceset-cli rollout plan --set cluster/dev-1 node_count=1 --waves rest",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves canary",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves 60%,60%,rest",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves canary,rest --approve all",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves rest --gate speed=1",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves rest --gate converged=many",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=1 --waves rest --on-failure stop",
        "flux-resourceset-cli rollout plan --set component/podinfo depends_on=traefik --waves rest",
        "flux-resourceset-cli profile create base --selector environment=dev -o name",
        "flux-resourceset-cli profile add base component/podinfo --set oci_tag=6.6.0 -o name",
        "flux-resourceset-cli rollout plan base --set profile/base 'platform_components=[{\"id\": \"podinfo\", \"oci_tag\": \"6.7.1\"}]' --waves canary,rest -o table | grep -v '^plan'",
    );
}

#[test]
fn a_rollout_is_followed_and_acted_on() {
    aged!(
        started(),
        "flux-resourceset-cli rollout status -o table",
        "flux-resourceset-cli rollout list -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -o yaml",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -o name",
        "flux-resourceset-cli rollout pause podinfo-6.7.1 --reason wait -o table",
        "flux-resourceset-cli rollout pause podinfo-6.7.1",
        "flux-resourceset-cli rollout promote podinfo-6.7.1 --dry-run -o table | grep -v -e '^plan' -e /since",
        "flux-resourceset-cli rollout promote podinfo-6.7.1 --yes -o table 2>&1 | grep -v -e '^plan' -e /since",
        "flux-resourceset-cli rollout promote podinfo-6.7.1 --wave dev --yes",
        "flux-resourceset-cli rollout approve podinfo-6.7.1 --wave rest -o table",
        "flux-resourceset-cli rollout approve podinfo-6.7.1",
        "flux-resourceset-cli rollout update podinfo-6.7.1 --gate soak=1h --gate failures=2 --gate deadline=null --on-failure revert -o table",
        "flux-resourceset-cli rollout update podinfo-6.7.1 --unset gate.failures -o table",
        "flux-resourceset-cli rollout update podinfo-6.7.2 --gate soak=1h",
        "flux-resourceset-cli rollout update podinfo-6.7.1 --gate soak=soon",
        "EDITOR='sed -i s/1h/2h/' flux-resourceset-cli rollout edit podinfo-6.7.1 -o table",
        "EDITOR='sed -i s/canary/first/' flux-resourceset-cli rollout edit podinfo-6.7.1",
        "flux-resourceset-cli rollout resume podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout revert podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout delete podinfo-6.7.1",
        "flux-resourceset-cli rollout complete podinfo-6.7.1 --reason 'it is good' -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout status -o table",
        "flux-resourceset-cli rollout history podinfo-6.7.1 -o table | sed 's/  */ /g'",
        "flux-resourceset-cli rollout history podinfo-6.7.1 -o jsonpath='{[*].reason}'",
        "flux-resourceset-cli rollout abort podinfo-6.7.1",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli rollout get podinfo-6.7.1 -o jsonpath='{.gate}'",
        "flux-resourceset-cli rollout start --set component/podinfo oci_tag=6.7.1 --waves rest",
        "flux-resourceset-cli rollout delete podinfo-6.7.1 -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1",
        "flux-resourceset-cli rollout history podinfo-6.7.2",
        "flux-resourceset-cli rollout create x",
    );
}

#[test]
fn what_a_promoted_cluster_has_is_shown_everywhere() {
    transcript!(
        started(),
        "flux-resourceset-cli component where podinfo -o table",
        "flux-resourceset-cli component versions podinfo -o table",
        "flux-resourceset-cli component pins -o table",
        "flux-resourceset-cli cluster explain dev-1 -o table | grep -A 1 'oci_tag.*6.7'",
        "flux-resourceset-cli cluster explain dev-2 -o table | grep -A 1 'oci_tag.*6.7'",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli rollout describe podinfo-6.7.1 | head -n 12",
        "flux-resourceset-cli rollout abort podinfo-6.7.1 --dry-run -o table | grep -v -e '^plan' -e /since",
        "flux-resourceset-cli rollout abort podinfo-6.7.1 --reason 'it is bad' -o name",
        "flux-resourceset-cli component versions podinfo -o table",
    );
}

#[test]
fn what_a_rollout_refuses_says_what_to_do() {
    transcript!(
        started(),
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0 --yes",
        "flux-resourceset-cli component update podinfo --component-version 6.8.0 --yes -o name 2>/dev/null",
        "flux-resourceset-cli component delete podinfo --cascade --yes",
        "flux-resourceset-cli rollout start --set component/podinfo oci_tag=6.8.0 --waves rest",
        "flux-resourceset-cli label cluster dev-1 ring-",
        "flux-resourceset-cli label cluster dev-1 ring- --dry-run -o table | grep -v '^plan'",
        "flux-resourceset-cli label cluster dev-1 ring- --confirm-demotions 2",
        // Without anybody in the canary wave, the next one would be promoted.
        "flux-resourceset-cli rollout pause podinfo-6.7.1 -o name",
        "flux-resourceset-cli label cluster dev-1 ring- --confirm-demotions 1 -o name",
        "flux-resourceset-cli component where podinfo -l team=a -o table",
    );
}

#[test]
fn what_a_rollout_removes_is_confirmed_at_its_start() {
    let world = World::fleet_with_budget("1");
    world
        .done("flux-resourceset-cli namespace create extra && flux-resourceset-cli profile create base --selector '*'");
    world.done("flux-resourceset-cli profile add base namespace/extra");
    let start = "flux-resourceset-cli rollout start none --set profile/base 'namespaces=[{\"id\": \"extra\", \"excluded\": true}]' --waves environment=dev,rest";
    transcript!(
        world,
        &format!(
            "{} -o table | grep -v '^plan'",
            start.replace("rollout start", "rollout plan")
        ),
        &format!("{start} 2>&1 | tail -n 2"),
        &format!("{start} --yes 2>&1 | tail -n 3"),
        &format!("{start} --confirm-removals 5 -o name"),
        "flux-resourceset-cli rollout get none -o jsonpath='{.removals}'",
    );
}

#[test]
fn an_operator_needs_the_kinds_and_the_right_to_approve() {
    let world = started();
    world.done(
        "flux-resourceset-cli identity create ops --role operator --clusters '*' --kinds rollouts,platform_components >/dev/null; \
         flux-resourceset-cli token create ops >ops; \
         flux-resourceset-cli identity create dev --role operator --clusters environment=dev --kinds rollouts,platform_components >/dev/null; \
         flux-resourceset-cli token create dev >dev",
    );
    transcript!(
        world,
        "FLUX_API_WRITE_TOKEN=$(cat dev) flux-resourceset-cli rollout pause podinfo-6.7.1",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli rollout pause podinfo-6.7.1 -o name",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli rollout promote podinfo-6.7.1 --yes -o name 2>/dev/null",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli rollout approve podinfo-6.7.1",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli rollout promote podinfo-6.7.1 --yes",
        "flux-resourceset-cli identity update ops --approve -o name",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli rollout approve podinfo-6.7.1 -o name",
        "FLUX_API_WRITE_TOKEN=$(cat dev) flux-resourceset-cli rollout start --set component/traefik oci_tag=2 --waves rest",
    );
}

#[test]
fn at_a_terminal_a_yes_starts_and_confirms_demotions() {
    let world = fleet();
    let start = "rollout start --set component/podinfo oci_tag=6.7.1 --waves canary,rest -o name";
    let seen = world.terminal_transcript(&[(start, "asked 1; echo y; sleep 1")]);
    assert!(
        seen.contains("Start this rollout? [y/N]") && seen.contains("rollouts/podinfo-6.7.1\n---"),
        "{seen}"
    );
    world.until_wave("podinfo-6.7.1", "canary");
    let seen = world.terminal_transcript(&[("label cluster dev-1 ring- -o name", "asked 1; echo y; sleep 1")]);
    assert!(
        seen.contains("1 cluster leaves a promoted wave") && seen.contains("--- exit 0"),
        "{seen}"
    );
    let seen = world.terminal_transcript(&[("rollout abort podinfo-6.7.1", "asked 1; echo n; sleep 1")]);
    assert!(
        seen.contains("Abort the rollout podinfo-6.7.1? [y/N]") && seen.contains("--- exit 1"),
        "{seen}"
    );
}

#[test]
fn pipelines_wait_and_tell_the_outcome_by_exit_codes() {
    let world = fleet();
    world.polls(&["dev-1", "dev-2", "qa-1", "prod-1"]);
    world.done(
        "flux-resourceset-cli rollout start --set component/podinfo oci_tag=6.7.1 --waves canary,rest --approve rest --gate told=100%",
    );
    world.until_wave("podinfo-6.7.1", "canary");
    let code = |line: &str| {
        world
            .sh(&format!("flux-resourceset-cli rollout status podinfo-6.7.1 {line}"))
            .code
    };
    assert_eq!(code("--wait --for canary --timeout 1s"), 6, "nobody was told yet");
    world.polls(&["dev-1"]);
    assert_eq!(code("--wait --for canary --timeout 30s"), 0);
    transcript!(
        world,
        "flux-resourceset-cli rollout status podinfo-6.7.1 --wait --timeout 0",
        "flux-resourceset-cli rollout status podinfo-6.7.1 --wait --for canary -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 --wait --for eleven",
        "flux-resourceset-cli rollout status --wait",
        "flux-resourceset-cli rollout status podinfo-6.8.0 --wait",
        "flux-resourceset-cli rollout revert podinfo-6.7.1 -o name",
        "flux-resourceset-cli rollout status podinfo-6.7.1 --wait",
        "flux-resourceset-cli rollout complete podinfo-6.7.1 -o name",
        "flux-resourceset-cli rollout status podinfo-6.7.1 --wait -o table",
        "flux-resourceset-cli rollout status podinfo-6.7.1 -w -o name",
    );
}

#[test]
fn status_is_followed_until_the_rollout_ends() {
    let world = started();
    let mut following = world.follow("flux-resourceset-cli rollout status podinfo-6.7.1 -w --interval 0.1 -o json");
    assert!(following.line().contains(r#""state":"running""#));
    world.done("flux-resourceset-cli rollout abort podinfo-6.7.1");
    let mut last = following.line();
    while !last.contains(r#""state":"aborted""#) {
        assert!(!last.is_empty(), "it ended before the rollout did");
        last = following.line();
    }
    assert_eq!(following.line(), "", "nothing follows the end");
}

#[test]
fn files_start_and_change_rollouts_and_exports_leave_them_out() {
    let world = fleet();
    world.file("rollout.yaml", FILE);
    world.file("changed.yaml", &FILE.replace("soak: 30m", "soak: 1h"));
    world.file("fixed.yaml", &FILE.replace("ring=canary", "ring=first"));
    transcript!(
        world,
        "flux-resourceset-cli apply -f rollout.yaml -o name",
        "flux-resourceset-cli apply -f rollout.yaml -o table",
        "flux-resourceset-cli apply -f changed.yaml -o name",
        "flux-resourceset-cli apply -f fixed.yaml",
        "flux-resourceset-cli rollout start -f rollout.yaml",
        "flux-resourceset-cli export -o name | grep -c rollouts",
        "flux-resourceset-cli export rollouts",
        "flux-resourceset-cli rollout abort podinfo-6.7.1 -o name",
        "flux-resourceset-cli rollout delete podinfo-6.7.1 -o name",
        "flux-resourceset-cli rollout start -f - -o name <changed.yaml",
    );
}

#[test]
fn a_change_that_a_guard_refuses_is_offered_as_a_rollout() {
    let world = fleet();
    world.done("flux-resourceset-cli guard create steps --selector '*' --changes 2 --reason 'in small steps'");
    world
        .done("flux-resourceset-cli component get podinfo -o yaml | sed 's/oci_tag: .*/oci_tag: 6.8.0/' >podinfo.yaml");
    let refused = world.sh("flux-resourceset-cli apply -f podinfo.yaml");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let command = refused
        .stderr
        .lines()
        .find_map(|line| line.split_once("a rollout stays within the limit: "));
    let (_, command) = command.unwrap_or_else(|| panic!("no offer in {}", refused.stderr));
    let plan = world.sh(&command.replace("rollout start", "rollout plan")).json();
    let waves = plan["rollouts"][0]["waves"].as_array().unwrap();
    assert!(
        waves.iter().all(|wave| wave["affected"].as_u64().unwrap() <= 2),
        "{waves:?}"
    );
    assert_eq!(plan["guards"][0]["exceeded"], false);
    transcript!(
        world,
        "flux-resourceset-cli apply -f podinfo.yaml",
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0 --component-path core/podinfo",
        "flux-resourceset-cli guard delete steps -o name",
        "flux-resourceset-cli guard create freeze --selector environment=prod --changes 0 --reason frozen -o name",
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0",
        "flux-resourceset-cli component patch podinfo --all --set a=b",
    );
}

#[test]
fn changes_of_profiles_and_cleared_fields_are_offered_as_rollouts() {
    let world = fleet();
    world.done("flux-resourceset-cli profile create base --selector 'environment in (dev,prod)'");
    world.done("flux-resourceset-cli namespace create extra && flux-resourceset-cli namespace create more");
    world.done("flux-resourceset-cli profile add base namespace/extra");
    world.done("flux-resourceset-cli component update podinfo --timeout 5m");
    world.done("flux-resourceset-cli guard create steps --selector '*' --changes 2 --reason 'in small steps'");
    transcript!(
        world,
        "flux-resourceset-cli profile add base namespace/more",
        "flux-resourceset-cli component update podinfo --unset timeout",
        // No merge does that.
        "flux-resourceset-cli profile delete base",
    );
    // Each offer starts, its waves keep the limit, and it ends with what was refused.
    for (change, shown, before, after) in [
        (
            "profile add base namespace/more",
            "profile get base -o jsonpath='{.namespaces[*].id}'",
            "extra",
            "extra more",
        ),
        (
            "component update podinfo --unset timeout --oci-tag 6.8.0",
            "component get podinfo -o jsonpath='{.oci_tag} {.timeout}'",
            "latest 5m",
            "6.8.0",
        ),
    ] {
        let shown = || {
            world
                .sh(&format!("flux-resourceset-cli {shown}"))
                .stdout
                .trim()
                .to_owned()
        };
        assert_eq!(shown(), before, "{change}");
        let refused = world.sh(&format!("flux-resourceset-cli {change}"));
        assert_eq!(refused.code, 1, "{change}: {}", refused.stderr);
        let command = refused
            .stderr
            .lines()
            .find_map(|line| line.split_once("a rollout stays within the limit: "));
        let (_, command) = command.unwrap_or_else(|| panic!("{change}: no offer in {}", refused.stderr));
        let planned = world.sh(&command.replace("rollout start", "rollout plan")).json();
        for wave in planned["rollouts"][0]["waves"].as_array().unwrap() {
            assert_eq!(wave["guards"][0]["exceeded"], false, "{command}: {planned}");
        }
        let started = world.sh(&format!("{command} -o name"));
        assert_eq!(started.code, 0, "{command}: {}", started.stderr);
        let id = started.stdout.trim().trim_start_matches("rollouts/").to_owned();
        world.done(&format!(
            "flux-resourceset-cli rollout complete {id} --override-guard steps --reason test --yes"
        ));
        assert_eq!(shown(), after, "{command}");
    }
}

#[test]
fn a_plan_says_which_wave_a_guard_holds() {
    let world = fleet();
    world.done(
        "flux-resourceset-cli guard create freeze --selector environment=prod --changes 0 --reason 'the holidays'",
    );
    transcript!(
        world,
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=6.7.1 --waves canary,environment=prod,rest -o table | grep -v '^plan'",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=6.7.1 --wave few:environment=dev,ring=canary --wave environment=prod --wave rest --approve few -o table | grep -v '^plan'",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=6.7.1 --wave canary --waves rest",
        "flux-resourceset-cli rollout plan --set component/podinfo oci_tag=6.7.1 --wave canary",
        "flux-resourceset-cli rollout plan --set component/podinfo timeout- oci_tag- --wave rest",
    );
}
