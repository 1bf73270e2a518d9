//! Overrides of a field that is a map.

use crate::fixture::World;
use crate::transcript;

const CHART: &str = "kind: chart
apiVersion: v1
schema:
  type: object
  x-flux: {overridable: [values, tag]}
  properties:
    tag: {type: string}
    values: {type: object, additionalProperties: true}
";

/// A kind with a map that clusters may override, assigned to every cluster.
fn world() -> World {
    let world = World::fleet();
    world.file("chart.yaml", CHART);
    let create = "flux-resourceset-cli kind apply -f chart.yaml >/dev/null && flux-resourceset-cli chart create web --tag 1 \
                  --values '{\"replicas\":2,\"resources\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"host\":\"a\"}' --all >/dev/null";
    let made = world.sh(create);
    assert_eq!(made.code, 0, "{}", made.stderr);
    world
}

#[test]
fn the_keys_that_an_override_loses_are_named() {
    let values =
        |cluster: &str| format!("flux-resourceset-cli inputs {cluster} chart -o jsonpath='{{.inputs[0].values}}'");
    let (dev_1, dev_2) = (values("dev-1"), values("dev-2"));
    transcript!(
        world(),
        "flux-resourceset-cli chart override web -l 'id in (dev-1,dev-2)' --values '{\"replicas\":3}' --dry-run -o table",
        "flux-resourceset-cli chart override web -l 'id in (dev-1,dev-2)' --values '{\"replicas\":3,\"resources\":{\"cpu\":\"2\"}}' -o name",
        &dev_1,
        // The override itself has more keys.
        "flux-resourceset-cli chart override web --cluster dev-1 --values '{\"host\":\"b\"}' -o name",
        &dev_1,
        // Nothing is lost.
        "flux-resourceset-cli chart override web --cluster dev-1 --values '{\"host\":\"c\",\"extra\":1}' -o name",
        "flux-resourceset-cli chart override web --cluster dev-1 --tag 2 -o name",
        // Key by key, with the override that is in force, or with the catalog.
        "flux-resourceset-cli chart override web --cluster dev-1 --values '{\"host\":null,\"resources\":{\"cpu\":\"3\"}}' --merge -o name",
        &dev_1,
        "flux-resourceset-cli chart override web --cluster qa-1 --values '{\"resources\":{\"cpu\":\"3\"}}' --merge --dry-run -o table",
        "flux-resourceset-cli chart unpin web --all -o name",
        &dev_2,
    );
}

#[test]
fn a_person_is_asked_before_keys_are_lost() {
    let world = world().with("NO_COLOR", "1");
    let line = "chart override web --cluster dev-1 --values '{\"replicas\":3}' -o name";
    let ran = world.at_a_terminal(line, "asked 1; echo n");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(
            "warning: on dev-1, charts/web loses values/host, values/resources: the override replaces the whole map; \
             --merge keeps the other keys\n"
        ),
        "{}",
        ran.stderr
    );
    let ran = world.at_a_terminal(&format!("{line} --merge"), "true");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "clusters/dev-1\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn only_kinds_with_maps_merge() {
    let world = world();
    world.file(
        "plain.yaml",
        &CHART
            .replace("kind: chart", "kind: plain")
            .replace("[values, tag]", "[tag]"),
    );
    world.sh("flux-resourceset-cli kind apply -f plain.yaml").json();
    let help = |command: &str| {
        world
            .sh(&format!("flux-resourceset-cli {command} override --help"))
            .stdout
    };
    assert!(help("chart").contains("--merge"), "{}", help("chart"));
    assert!(!help("plain").contains("--merge"), "{}", help("plain"));
}
