//! What was, and the way back there: rollback, undo, diff between revisions, time travel.

use serde_json::json;

use crate::fixture::World;
use crate::transcript;

#[test]
fn the_fleet_goes_back_as_a_whole_or_in_part() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component override podinfo --all --oci-tag 6.0.0 --reason 'canary for all' -o name",
        "flux-resourceset-cli namespace create team-x -l team=a -o name",
        "flux-resourceset-cli component update traefik --oci-tag 30.0.0 -o name",
        "flux-resourceset-cli rollback --to 2 --dry-run -o table",
        "flux-resourceset-cli rollback --to 2 --kind component --id traefik --reason 'not traefik' -o table",
        "flux-resourceset-cli rollback --to 2 -l environment=dev -o name",
        "flux-resourceset-cli rollback --to 2 -l environment=dev --yes -o name",
        "flux-resourceset-cli component pins podinfo -o name",
        "flux-resourceset-cli rollback --to 2 --yes -o table",
        "flux-resourceset-cli diff --from 2 -o table",
        "flux-resourceset-cli rollback --to 2",
        "flux-resourceset-cli changes --actor write --after 5 -o jsonpath='{[*].reason}'",
        "flux-resourceset-cli rollback --to 0",
    );
}

#[test]
fn a_rollback_that_is_impossible_says_why() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli rollback --to 99",
        "flux-resourceset-cli rollback --to 1 --kind component",
        "flux-resourceset-cli rollback --to 1 --kind component --id nope",
        "flux-resourceset-cli rollback --to 1 -l taem=a",
        "flux-resourceset-cli rollback --to 1 -l ''",
        "flux-resourceset-cli rollback",
        "flux-resourceset-cli undo",
        "flux-resourceset-cli undo 99",
        "flux-resourceset-cli undo 0",
        "flux-resourceset-cli redo",
        "flux-resourceset-cli redo 1",
        "flux-resourceset-cli redo 99",
    );
}

#[test]
fn the_last_revision_of_ones_own_is_undone() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli namespace create a --label x=y -o name",
        "flux-resourceset-cli component update podinfo --oci-tag 6.5.0 --reason release -o name",
        "flux-resourceset-cli undo --dry-run -o table",
        "flux-resourceset-cli undo --reason 'it was bad' -o name",
        // Of the undo itself: the release is there again.
        "flux-resourceset-cli undo 5 -o name",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli undo 3 -o table",
        "flux-resourceset-cli undo 3 -o table",
        "flux-resourceset-cli component update podinfo --oci-tag 6.6.0 -o name",
        "flux-resourceset-cli undo 4",
        // Four clusters go with the revision that brought them.
        "flux-resourceset-cli undo 2 -o name",
        "flux-resourceset-cli undo 2 --yes -o name",
    );
}

/// As in an editor: undo twice goes back two revisions, and redo brings them back.
#[test]
fn undo_goes_back_step_by_step_and_redo_brings_back() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component update podinfo --oci-tag 6.5.0 --reason one -o name",
        "flux-resourceset-cli component update podinfo --oci-tag 6.6.0 --reason two -o name",
        "flux-resourceset-cli undo -o name",
        "flux-resourceset-cli undo -o name",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli redo --dry-run -o table",
        "flux-resourceset-cli redo -o name",
        "flux-resourceset-cli redo --yes --reason 'it was good' -o name",
        "flux-resourceset-cli redo",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli undo -o name",
        "flux-resourceset-cli changes --limit 7 -o table",
        // Something else was written: an older undo must be named.
        "flux-resourceset-cli namespace create a -o name",
        "flux-resourceset-cli redo",
        "flux-resourceset-cli redo 4 -o name",
        "flux-resourceset-cli component get podinfo -o jsonpath='{.oci_tag}'",
    );
}

/// What others did meanwhile is not ours to undo, and their many revisions do not hide the one that is.
#[test]
fn undo_looks_for_the_actor_of_its_token() {
    let world = World::with_writers("alice:alice-token\nbob:bob-token\n");
    let of = |name: &str, line: &str| format!("FLUX_API_WRITE_TOKEN={name}-token flux-resourceset-cli {line}");
    world.sh(&of("alice", "namespace create ours")).json();
    let many = of("bob", "namespace update podinfo --label n=$n >/dev/null || exit");
    let ran = world.sh(&format!("n=0; while [ $n -lt 80 ]; do {many}; n=$((n+1)); done"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let undone = world.sh(&of("alice", "undo"));
    assert!(
        undone.stderr.starts_with("undoing revision 2 by alice, "),
        "{}",
        undone.stderr
    );
    assert!(undone.stderr.ends_with(": 1 namespace\n"), "{}", undone.stderr);
    assert_eq!(
        undone.json()["changes"],
        json!([{"action": "delete", "kind": "namespaces", "id": "ours", "etag": null}])
    );
    let undone = world.sh(&of("bob", "undo"));
    assert!(
        undone.stderr.starts_with("undoing revision 82 by bob, "),
        "{}",
        undone.stderr
    );
    // What somebody else undid is not undone again, and not ours to redo.
    world.sh(&of("alice", "undo 81")).json();
    let undone = world.sh(&of("bob", "undo"));
    assert!(
        undone.stderr.starts_with("undoing revision 80 by bob, "),
        "{}",
        undone.stderr
    );
    let redone = world.sh(&of("alice", "redo"));
    assert!(
        redone.stderr.starts_with("redoing revision 81 by bob, "),
        "{}",
        redone.stderr
    );
}

#[test]
fn two_revisions_are_compared() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli component update podinfo --oci-tag 6.5.0 -o name",
        "flux-resourceset-cli component unassign podinfo --cluster dev-1 -o name",
        "flux-resourceset-cli cluster delete qa-1 -o name",
        "flux-resourceset-cli diff --from 2 -o table",
        "flux-resourceset-cli diff --from 2 --to 3 -o table",
        "flux-resourceset-cli diff --from 5 --to 3 -o table",
        "flux-resourceset-cli diff --from 3 --to 4",
        "flux-resourceset-cli diff --from 2 --to 4 -l id=dev-1 -o name",
        "flux-resourceset-cli diff --from 3 --to 4 -l id=dev-2 -o table",
        "flux-resourceset-cli diff --from 4 --to 4 -o table",
        "flux-resourceset-cli diff --from 99",
        "flux-resourceset-cli diff --from 2 -l taem=a",
        "flux-resourceset-cli diff",
        "flux-resourceset-cli diff --to 2",
        "flux-resourceset-cli diff -f x.yaml --from 2",
    );
}

#[test]
fn the_past_can_be_looked_at() {
    transcript!(
        World::demo(),
        "flux-resourceset-cli component update podinfo --oci-tag 6.5.0 -o name",
        "flux-resourceset-cli component patch podinfo --cluster demo-cluster-01 --set replicaCount=9 -o name",
        "flux-resourceset-cli get component podinfo --revision 1 -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli component get podinfo --revision 2 -o jsonpath='{.oci_tag}'",
        "flux-resourceset-cli get component podinfo --revision 0",
        "flux-resourceset-cli get component podinfo --revision 99",
        "flux-resourceset-cli get component --revision 1",
        "flux-resourceset-cli inputs demo-cluster-01 component --revision 1 -o jsonpath='{.inputs[2].source.oci_tag} {.inputs[2].patches.replicaCount}'",
        "flux-resourceset-cli inputs demo-cluster-01 component --revision 3 -o jsonpath='{.inputs[2].source.oci_tag} {.inputs[2].patches.replicaCount}'",
        "flux-resourceset-cli inputs demo-cluster-01 component --revision 99",
        "flux-resourceset-cli history component podinfo -o jsonpath='{[*].revision}'",
    );
}
