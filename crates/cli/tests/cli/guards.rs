//! Guards on the command line: how they are written, what plans say about them, what a refused write is told, and overrides.

use crate::fixture::World;
use crate::transcript;

const FREEZE: &str = "flux-resourceset-cli guard create freeze --selector environment=prod --changes 0 \
                      --until 2106-01-01T00:00:00Z --reason 'no changes to production' >/dev/null";

fn frozen() -> World {
    let world = World::fleet();
    assert_eq!(world.sh(FREEZE).code, 0);
    world
}

#[test]
fn a_guard_is_written_like_every_resource() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli guard list",
        "flux-resourceset-cli guard create freeze --selector environment=prod --changes 0 --from 2026-01-01T00:00:00Z --until 2106-01-01T00:00:00Z --reason 'no changes to production' -o table",
        "flux-resourceset-cli guard create past --selector '*' --changes 3 --removals 0 --until 2026-01-01T00:00:00Z --reason 'long ago' -o table",
        "flux-resourceset-cli guard list -o table",
        "flux-resourceset-cli guard list --at 2025-06-01T00:00:00Z -o name",
        "flux-resourceset-cli guard list --at now -o name",
        "flux-resourceset-cli guard list --at tomorrow",
        "flux-resourceset-cli guard get freeze -o yaml",
        "flux-resourceset-cli guard describe past",
        "flux-resourceset-cli guard update past --removals 2 --field-reason 'still long ago' --reason 'ticket 7' -o table",
        "flux-resourceset-cli guard update past --unset removals --dry-run -o table",
        "EDITOR='sed -i s/still/ever/' flux-resourceset-cli guard edit past -o name",
        "flux-resourceset-cli guard history past -o jsonpath='{[*].reason}'",
        "flux-resourceset-cli export -o name | tail -n 3",
        "flux-resourceset-cli export -l environment=prod | grep -c 'kind: guards'",
        "flux-resourceset-cli guard delete past -o table",
        "flux-resourceset-cli undo --dry-run -o name",
    );
}

#[test]
fn what_guards_cannot_be() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli guard create g --selector environment=prod --changes 0",
        "flux-resourceset-cli guard create g --selector environment=prod --reason x",
        "flux-resourceset-cli guard create g --selector environment=prod --changes -1 --reason x",
        "flux-resourceset-cli guard create g --selector environment=prod --changes none --reason x",
        "flux-resourceset-cli guard create g --selector environment=prod --changes 0 --from tomorrow --reason x",
        "flux-resourceset-cli guard create g --selector environment=prod --changes 0 --until 2026-12-20 --reason x",
        "flux-resourceset-cli guard create g --selector environment=prod --changes 0 --from 2027-01-01T00:00:00Z --until 2026-01-01T00:00:00Z --reason x",
        "flux-resourceset-cli guard create g --selector environment=prd --changes 0 --reason x",
        "flux-resourceset-cli guard create g --selector tema=a --changes 0 --reason x --dry-run -o table",
    );
}

#[test]
fn a_plan_says_what_guards_do_and_a_refused_write_says_what_to_do() {
    let world = frozen();
    let two = "flux-resourceset-cli guard create two --selector '*' --changes 2 --reason 'in small steps' >/dev/null";
    assert_eq!(world.sh(two).code, 0);
    transcript!(
        world,
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0 --dry-run -o table | grep -v '^plan'",
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0 --dry-run -o jsonpath='{range .guards[*]}{.id} {.of} {.limit} {.count} {.exceeded}{\"\\n\"}{end}'",
        "flux-resourceset-cli component update podinfo --oci-tag 6.8.0",
        "flux-resourceset-cli cluster update prod-1 --node-count 5 -o table",
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2",
        "flux-resourceset-cli component patch podinfo --cluster dev-1 --set replicas=2 -o table",
        "flux-resourceset-cli cluster delete prod-1 --yes",
        "flux-resourceset-cli component patch podinfo -l environment=dev --set replicas=3",
    );
}

#[test]
fn an_override_needs_an_admin_and_a_reason_and_is_in_the_log() {
    let world = frozen();
    let operator = "flux-resourceset-cli identity create ops --role operator --clusters '*' >/dev/null; \
                    flux-resourceset-cli token create ops >ops";
    assert_eq!(world.sh(operator).code, 0);
    transcript!(
        world,
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2 --override-guard freeze",
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2 --override-guard freze --reason 'ticket 7'",
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2 --override-guard freeze --dry-run -o table | grep -v '^plan'",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2 --override-guard freeze --reason 'ticket 7'",
        "FLUX_API_WRITE_TOKEN=$(cat ops) flux-resourceset-cli guard delete freeze",
        "flux-resourceset-cli component patch podinfo --cluster prod-1 --set replicas=2 --override-guard freeze --reason 'ticket 7' -o table",
        "flux-resourceset-cli changes --limit 1 -o jsonpath='{[0].reason} {[0].overrides}'",
        "flux-resourceset-cli changes --limit 1 -o table | sed 's/  */ /g'",
        "flux-resourceset-cli changes --records --limit 1 -o table | sed 's/  */ /g'",
        "flux-resourceset-cli history cluster prod-1 -o table | grep ticket",
        "flux-resourceset-cli undo",
        "flux-resourceset-cli undo --override-guard freeze --reason 'ticket 7 was wrong' -o table",
        "flux-resourceset-cli rollback --to 1 --kind guard --id freeze",
    );
}

#[test]
fn at_a_terminal_nobody_is_asked_about_what_is_refused_anyway() {
    let world = frozen();
    let seen = world.terminal_transcript(&[("component update podinfo --oci-tag 6.8.0", "sleep 1")]);
    assert!(seen.contains("guard freeze allows changes to 0 clusters"), "{seen}");
    assert!(seen.contains("--- exit 1") && !seen.contains("[y/N]"), "{seen}");
}
