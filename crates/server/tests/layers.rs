//! The arrows between the crates, as ARCHITECTURE.md draws them: an edge that is not in the table is a design change.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

const ALLOWED: [(&str, &[&str]); 11] = [
    ("fleet", &[]),
    ("store", &["fleet"]),
    ("gotemplate", &[]),
    ("resourceset", &["gotemplate"]),
    ("flux-resourceset", &["fleet", "store", "resourceset"]),
    ("flux-resourceset-cli", &["fleet", "resourceset"]),
    ("fuzzing", &["fleet", "store", "resourceset", "flux-resourceset"]),
    ("bench", &[TESTING]),
    ("soak", &["bench", TESTING]),
    ("e2e", &[]),
    (TESTING, &[]),
];

/// What tests of any crate may use.
const TESTING: &str = "pgtest";

#[test]
fn crates_depend_on_each_other_only_downwards() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
            manifest,
        ])
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names.len(),
        ALLOWED.len(),
        "a crate that the table does not know: {names:?}"
    );
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = ALLOWED.iter().find(|(known, _)| *known == name).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let ours = dependencies
            .filter(|dependency| dependency["kind"] != "dev" || dependency["name"] != TESTING)
            .map(|dependency| dependency["name"].as_str().unwrap())
            .filter(|name| names.contains(name));
        for dependency in ours {
            assert!(allowed.contains(&dependency), "{name} may not depend on {dependency}");
        }
    }
}

#[test]
fn the_domain_does_no_io() {
    let manifest = include_str!("../../fleet/Cargo.toml");
    let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
    for forbidden in ["tokio", "sqlx", "axum", "hyper", "jiff", "reqwest", "tracing"] {
        assert!(
            !dependencies.contains(forbidden),
            "crates/fleet must not know {forbidden}"
        );
    }
}
