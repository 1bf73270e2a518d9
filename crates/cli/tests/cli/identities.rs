//! `identity`, `token` and `whoami`.

use regex::Regex;

use crate::fixture::World;

/// What the commands print, without what is random: tokens by their role, ids of tokens by their order.
pub(crate) fn tidy(text: &str) -> String {
    let tokens = Regex::new(r"frs_(\w)_[0-9A-Za-z]{49}").unwrap();
    let text = tokens.replace_all(text, "frs_${1}_TOKEN").into_owned();
    let mut known: Vec<String> = Vec::new();
    let ids = Regex::new(r"\b[0-9a-f]{16}\b").unwrap();
    ids.replace_all(&text, |found: &regex::Captures<'_>| {
        let id = found[0].to_owned();
        let n = known.iter().position(|one| *one == id).unwrap_or_else(|| {
            known.push(id);
            known.len() - 1
        });
        format!("TOKEN-ID-{}", n + 1)
    })
    .into_owned()
}

macro_rules! told {
    ($world:expr, $($line:expr),+ $(,)?) => {
        insta::with_settings!({omit_expression => true}, {
            insta::assert_snapshot!(tidy(&$world.transcript(&[$($line),+])))
        })
    };
}

#[test]
fn identities() {
    told!(
        World::fleet(),
        "flux-resourceset-cli identity list -o table",
        "flux-resourceset-cli identity create ann --role admin --description 'on call' --reason 'ticket 7' -o table",
        "flux-resourceset-cli identity create team-a --role operator --clusters team=a --kinds namespace,component --approve -o table",
        "flux-resourceset-cli identity create factory --role join --dns-suffix .k8s.example.com --environments dev,qa --label team=a --uses 3 -o name",
        "flux-resourceset-cli identity create eu --role mirror --certificate Mirror.eu.example.com --claim groups=mirrors --expires-at 2040-01-31T00:00:00Z",
        "flux-resourceset-cli identity create someone --role reader --dry-run -o table",
        "flux-resourceset-cli identity list -o table",
        "flux-resourceset-cli identity list -o wide --role mirror",
        "flux-resourceset-cli identity list --limit 1 --offset 1 -o name",
        "flux-resourceset-cli identity get team-a",
        "flux-resourceset-cli identity get identities/ann factory -o yaml",
        "flux-resourceset-cli identity update team-a --clusters 'team in (a,b)' --approve=false --unset kinds --reason 'two teams now' -o table",
        "flux-resourceset-cli identity update team-a --clusters 'team in (a,b)' -o table",
        "flux-resourceset-cli identity update factory --uses 10 --unset labels.team --dry-run -o table",
        "flux-resourceset-cli identity update eu --unset expires-at --unset claims --certificate mirror.example.com -o table",
        "flux-resourceset-cli identity list -o wide",
        "flux-resourceset-cli token create ann > ann && flux-resourceset-cli identity delete ann --dry-run -o table",
        "flux-resourceset-cli identity delete ann -o table",
        "flux-resourceset-cli identity get ann",
        "flux-resourceset-cli changes --records --kind identities -o jsonpath='{range .items[*]}{.id} {.action}: {.reason}{\"\\n\"}{end}'",
    );
}

#[test]
fn what_identities_cannot_be() {
    told!(
        World::fleet(),
        "flux-resourceset-cli identity create team-a --role operator",
        "flux-resourceset-cli identity create factory --role join",
        "flux-resourceset-cli identity create ann --role reader --clusters team=a",
        "flux-resourceset-cli identity create ann --role admin --uses 3",
        "flux-resourceset-cli identity create ann --role boss",
        "flux-resourceset-cli identity create dev-1 --role cluster",
        "flux-resourceset-cli identity create system --role admin",
        "flux-resourceset-cli identity create team-a --role operator --clusters ''",
        "flux-resourceset-cli identity create team-a --role operator --clusters team=a --kinds nonsense,clusters",
        "flux-resourceset-cli identity create ann --role reader --expires-in soon",
        "flux-resourceset-cli identity create ann --role reader --expires-in 90d --expires-at 2040-01-31T00:00:00Z",
        "flux-resourceset-cli identity create ann --role reader",
        "flux-resourceset-cli identity create ann --role reader",
        "flux-resourceset-cli identity get anna",
        "flux-resourceset-cli identity get clusters/ann",
        "flux-resourceset-cli identity update ann",
        "flux-resourceset-cli identity update ann --unset descripton",
        "flux-resourceset-cli identity update ann --dns-suffix .example.com",
        "flux-resourceset-cli identity delete nobody",
        "FLUX_API_WRITE_TOKEN= flux-resourceset-cli identity list",
        "flux-resourceset-cli rollback --to 1 --yes -o name && flux-resourceset-cli identity list -o name",
    );
}

#[test]
fn tokens() {
    told!(
        World::fleet(),
        "flux-resourceset-cli identity create team-a --role operator --clusters team=a -o name",
        "flux-resourceset-cli token create team-a --dry-run -o jsonpath='{.changes[*].action} {.changes[*].id}'",
        "TOKEN=$(flux-resourceset-cli token create team-a) && echo $TOKEN > team-a && FLUX_API_WRITE_TOKEN=$TOKEN flux-resourceset-cli whoami",
        "flux-resourceset-cli token create --cluster dev-1 --expires-in 90d --reason 'first boot'",
        "flux-resourceset-cli token create --cluster dev-1 -o json",
        "flux-resourceset-cli token create --cluster dev-1 -o table",
        "flux-resourceset-cli token list -o table",
        "flux-resourceset-cli token list --cluster dev-1 -o name",
        "flux-resourceset-cli token list team-a",
        "flux-resourceset-cli token rotate team-a",
        "flux-resourceset-cli token rotate team-a --revoke-old --dry-run -o jsonpath='{.changes[*].id}'",
        "flux-resourceset-cli token rotate team-a --revoke-old",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli whoami",
        "flux-resourceset-cli token revoke team-a $(flux-resourceset-cli token list team-a -o name) -o table",
        "flux-resourceset-cli token revoke --cluster dev-1 $(flux-resourceset-cli token list cluster:dev-1 -o name | head -n 1) --dry-run -o name",
        "flux-resourceset-cli token revoke --cluster dev-1 $(flux-resourceset-cli token list cluster:dev-1 -o name | head -n 1) -o table",
        "flux-resourceset-cli token list -o name",
        "flux-resourceset-cli identity delete cluster:dev-1 -o table",
        "flux-resourceset-cli token list --cluster dev-1",
    );
}

#[test]
fn what_tokens_cannot_be() {
    told!(
        World::fleet(),
        "flux-resourceset-cli token create",
        "flux-resourceset-cli token create nobody",
        "flux-resourceset-cli token create --cluster dev-9",
        "flux-resourceset-cli token create --cluster dev-1 --expires-in soon",
        "flux-resourceset-cli token revoke team-a",
        "flux-resourceset-cli token revoke team-a frs_o_secret",
        "flux-resourceset-cli token revoke team-a 0123456789abcdef",
        "flux-resourceset-cli identity create team-a --role operator --clusters team=a -o name",
        "flux-resourceset-cli token revoke team-a 0123456789abcdef",
        "FLUX_API_WRITE_TOKEN= flux-resourceset-cli token create team-a",
        // An operator issues and revokes the tokens of its clusters, and does not see identities.
        "flux-resourceset-cli token create team-a > team-a",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token create --cluster dev-1 -o jsonpath='{.id}' > id",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token create --cluster dev-2",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token list",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token rotate --cluster dev-1",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token rotate --cluster dev-1 --revoke-old",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli token revoke --cluster dev-1 $(cat id) -o table",
        "FLUX_API_WRITE_TOKEN=$(cat team-a) flux-resourceset-cli namespace create mine",
    );
}

#[test]
fn whoami() {
    told!(
        World::demo(),
        "flux-resourceset-cli whoami",
        "flux-resourceset-cli whoami -o table",
        "flux-resourceset-cli whoami --reading -o yaml",
        "flux-resourceset-cli identity create factory --role join --dns-suffix .k8s.example.com --uses 3 --expires-at 2040-01-31T00:00:00Z -o name",
        "FLUX_API_TOKEN=$(flux-resourceset-cli token create factory) FLUX_API_WRITE_TOKEN= flux-resourceset-cli whoami -o table",
        "FLUX_API_WRITE_TOKEN=wrong flux-resourceset-cli whoami",
    );
}

/// What is taken away is asked about at a terminal, as other deletions are.
#[test]
fn questions() {
    let world = World::demo();
    for line in [
        "flux-resourceset-cli identity create ann --role reader",
        "flux-resourceset-cli token create ann",
        "flux-resourceset-cli token create --cluster demo-cluster-01",
    ] {
        assert_eq!(world.sh(line).code, 0);
    }
    let told = world.terminal_transcript(&[
        ("identity delete ann", "asked 1; echo n"),
        ("token rotate ann --revoke-old", "asked 1; echo n"),
        ("identity delete cluster:demo-cluster-01", "asked 1; echo y"),
        ("identity delete ann --yes", ":"),
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(tidy(&told)) });
    let left = world.sh("flux-resourceset-cli identity list -o name");
    assert_eq!(left.stdout, "", "both are gone");
}

#[test]
fn shells_know_identities() {
    let world = World::demo();
    for id in ["ann", "anton", "bob"] {
        let line = format!("flux-resourceset-cli identity create {id} --role reader");
        assert_eq!(world.sh(&line).code, 0);
    }
    for words in [
        "identity get an",
        "token create an",
        "token revoke an",
        "identity delete an",
    ] {
        let count = words.split(' ').count();
        let line = format!(
            "FLUX_RESOURCESET_COMPLETE=bash _CLAP_COMPLETE_INDEX={count} _CLAP_IFS=' ' flux-resourceset-cli -- flux-resourceset-cli {words}"
        );
        let ran = world.sh(&line);
        assert_eq!(ran.stdout.trim(), "ann anton", "{words}: {}", ran.stderr);
    }
}
