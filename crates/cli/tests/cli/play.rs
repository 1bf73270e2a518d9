//! scripts/play.sh against a real server: what it tells is true, and it leaves nothing behind.

use std::process::Stdio;

use crate::fixture::{CLI, Ran, World};

const PLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/play.sh");

fn world() -> World {
    World::demo().with("FLUX_RESOURCESET_CLI", CLI)
}

fn play(world: &World, arguments: &str) -> Ran {
    world.sh(&format!("bash {PLAY} {arguments}"))
}

fn fleet(world: &World) -> String {
    let ran = world.sh("flux-resourceset-cli export -o yaml");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout
}

/// What a step says, by the words of its title.
fn step<'a>(told: &'a str, title: &str) -> &'a str {
    let start = told
        .find(title)
        .unwrap_or_else(|| panic!("no step {title:?} in\n{told}"));
    let rest = &told[start..];
    &rest[..rest.find("\n\n").unwrap_or(rest.len())]
}

#[test]
fn a_fleet_lives_and_nothing_is_left() {
    let world = world();
    let before = fleet(&world);
    let ran = play(&world, "");
    assert_eq!(ran.code, 0, "{}{}", ran.stderr, ran.stdout);
    let told = &ran.stdout;
    let has = |title: &str, parts: &[&str]| {
        let step = step(told, title);
        for part in parts {
            assert!(step.contains(part), "{part:?} is not in\n{step}");
        }
    };
    has(
        "1. A component",
        &[
            "\n  +kind: HelmRelease\n",
            "\n  +      version: 6.7.0\n",
            "\n  +kind: Namespace\n",
        ],
    );
    has(
        "2. The cluster phones home",
        &["HTTP 200\n  {\"inputs\":[{", "HTTP 404\n", "User-Agent: flux-operator/"],
    );
    has(
        "3. One cluster gets values",
        &["\n  +  replicaCount: \"3\"\n", "\n  +  valuesFrom:\n"],
    );
    has(
        "5. A change for every cluster",
        &[
            "the same on 2 clusters: play-01-dev, play-01-prod",
            "(the same as before)",
        ],
    );
    has(
        "6. The plan is applied",
        &[
            "render play-01-prod",
            "\n  -      version: 6.7.0\n  +      version: 6.7.1\n",
        ],
    );
    has(
        "7. It was a mistake",
        &["\n  -      version: 6.7.1\n  +      version: 6.7.0\n"],
    );
    has("8. Back to what", &["\n  -  valuesFrom:\n"]);
    has(
        "9. A cluster gets what",
        &[
            "profiles/play-01 created",
            "this reaches no cluster",
            "\n  +kind: HelmRelease\n",
            "play-01-next (profiles: play-01)",
        ],
    );
    has(
        "10. Who did what",
        &[
            " write: podinfo 6.7.1\n",
            "~ platform_components/play-01-web\n    /oci_tag: \"6.7.0\" -> \"6.7.1\"",
        ],
    );
    has(
        "11. A cluster is decommissioned",
        &["HTTP 200\n  {\"inputs\":[]}\n", "\n  -kind: Namespace\n"],
    );
    let wide: Vec<&str> = told
        .lines()
        .filter(|line| line.chars().count() > 80 && !line.contains("export "))
        .collect();
    assert!(wide.is_empty(), "it fits into 80 columns: {wide:#?}");
    assert_eq!(fleet(&world), before);

    let again = play(&world, "--yes");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(fleet(&world), before);
}

/// Killed in the middle, it cannot tidy up; the next one does. Asked to stop, it does so itself.
#[test]
fn a_run_that_was_stopped_leaves_nothing_for_long() {
    let world = world();
    let before = fleet(&world);
    for (signal, tidies_up) in [("KILL", false), ("TERM", true), ("INT", true)] {
        // `exec` for the pid; job control gives it a SIGINT that is not ignored.
        let mut command = world.command(&format!("exec bash {PLAY}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let reached = lines.find(|line| line.as_ref().unwrap().starts_with("3. One cluster"));
        assert!(reached.is_some());
        world.sh(&format!("kill -{signal} {}", child.id()));
        lines.for_each(drop);
        let _ = child.wait().unwrap();
        let left = fleet(&world) != before;
        assert_eq!(left, !tidies_up, "{signal}");
        if left {
            let ran = play(&world, "");
            assert!(
                ran.stdout.contains("an earlier run left play-01-dev behind"),
                "{}",
                ran.stdout
            );
            assert_eq!((ran.code, fleet(&world) == before), (0, true), "{}", ran.stderr);
        }
    }
}

#[test]
fn what_is_missing_is_said() {
    let away = world().with("FLUX_API_URL", "http://127.0.0.1:1");
    let ran = play(&away, "");
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.stderr,
        "play: nothing answers at http://127.0.0.1:1: run `make run` first, in another terminal\n"
    );
    let ran = play(&world().with("FLUX_API_WRITE_TOKEN", "read-token"), "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with("play: the server at "), "{}", ran.stderr);
    assert_eq!(play(&world(), "--nope").code, 2);
}
