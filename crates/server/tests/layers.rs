//! The dependencies between crates, and between the modules of the server, as ARCHITECTURE.md describes them. One that is not
//! in a table here is a change of the design.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ALLOWED: [(&str, &[&str]); 14] = [
    ("fleet", &[]),
    ("store", &["fleet"]),
    ("gotemplate", &[]),
    ("resourceset", &["gotemplate"]),
    ("dashboard", &["fleet"]),
    ("flux-resourceset", &["dashboard", "fleet", "store", "resourceset"]),
    ("flux-resourceset-cli", &["fleet", "resourceset"]),
    ("flux-resourceset-reporter", &[]),
    ("fuzzing", &["fleet", "store", "resourceset", "flux-resourceset"]),
    ("bench", &TESTING),
    ("soak", &["bench", "pgtest"]),
    ("e2e", &[]),
    ("pgtest", &[]),
    ("testkit", &[]),
];

/// The crates that tests of any crate may use.
const TESTING: [&str; 2] = ["pgtest", "testkit"];

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
        "a crate that is not in the table: {names:?}"
    );
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = ALLOWED.iter().find(|(known, _)| *known == name).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let ours = dependencies
            .filter(|dependency| {
                dependency["kind"] != "dev" || !TESTING.contains(&dependency["name"].as_str().unwrap())
            })
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
    for forbidden in ["tokio", "sqlx", "axum", "hyper", "reqwest", "tracing"] {
        assert!(
            !dependencies.contains(forbidden),
            "crates/fleet must not know {forbidden}"
        );
    }
    // It may know what a time is, but not which one it is.
    for file in rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fleet/src")) {
        let content = std::fs::read_to_string(&file).unwrap();
        for clock in ["::now(", "SystemTime", "std::fs", "std::env", "std::net"] {
            assert!(!content.contains(clock), "{} has {clock}", file.display());
        }
    }
}

/// Text that the modules of the server must not contain: the folder or file, the text, and why.
const FORBIDDEN: [(&str, &str, &str); 9] = [
    ("app", "crate::http", "use cases do not know HTTP"),
    ("app", "axum::extract", "use cases do not know HTTP"),
    ("app", "axum::response", "use cases do not know HTTP"),
    ("http", ".store.", "handlers call use cases, not the store"),
    ("http", "dyn Store", "handlers call use cases, not the store"),
    ("http", "store::AuditQuery", "handlers call use cases, not the store"),
    (
        "http/openapi",
        "StatusCode::",
        "the document is made without handling requests",
    ),
    ("reference", "crate::app", "the reference is made from definitions"),
    ("metrics.rs", "crate::http", "metrics are below the layers that count"),
];

#[test]
fn modules_of_the_server_depend_on_each_other_only_downwards() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (place, text, reason) in FORBIDDEN {
        let files = rust_files(&source.join(place));
        assert!(!files.is_empty(), "{place} is gone: update the table");
        for file in files {
            let content = std::fs::read_to_string(&file).unwrap();
            // Tests at the end of a file may use anything.
            let content = content.split("#[cfg(test)]").next().unwrap();
            assert!(!content.contains(text), "{} has {text}: {reason}", file.display());
        }
    }
}

/// Only the conversion of errors names the store's crate in the HTTP layer.
#[test]
fn the_http_layer_knows_the_store_only_by_its_errors() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    for file in rust_files(&source) {
        let content = std::fs::read_to_string(&file).unwrap();
        let names = content.lines().filter(|line| line.starts_with("use store::"));
        let allowed = file.ends_with("problem.rs");
        for line in names {
            assert!(
                allowed && line == "use store::StoreError;",
                "{}: {line}",
                file.display()
            );
        }
    }
}

fn rust_files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let entries = std::fs::read_dir(place).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => rust_files(&path),
        false => vec![path],
    });
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// rust-toolchain.toml decides. The image and the lowest version that Cargo accepts name the same release.
#[test]
fn the_toolchain_is_the_same_everywhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let pinned = read("rust-toolchain.toml");
    let pinned = pinned.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let release = pinned.trim_matches('"').rsplit_once('.').unwrap().0;
    let cargo = format!("rust-version = \"{release}\"");
    assert!(read("Cargo.toml").contains(&cargo), "Cargo.toml: expected {cargo}");
    let image = format!("FROM rust:{release}-");
    assert!(read("Dockerfile").contains(&image), "Dockerfile: expected {image}");
}

/// The context of an image build has every file that is compiled into a program.
#[test]
fn the_image_can_be_built_from_its_context() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let ignored = std::fs::read_to_string(root.join(".dockerignore")).unwrap();
    let kept: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let mut included = 0;
    for file in rust_files(&root.join("crates")) {
        let is = |name: &str| file.components().any(|part| part.as_os_str() == name);
        // Tests, and the crate that no program uses.
        if !is("src") || is("fuzzing") {
            continue;
        }
        let content = std::fs::read_to_string(&file).unwrap();
        // Tests at the end of a file are not built.
        let content = content.split("#[cfg(test)]").next().unwrap();
        for name in content
            .split("include_str!(\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
        {
            let path = file.parent().unwrap().join(name).canonicalize().unwrap();
            let path = path.strip_prefix(&root).unwrap();
            assert!(
                kept.iter().any(|kept| path.starts_with(kept)),
                ".dockerignore leaves out {}, which {} needs",
                path.display(),
                file.display()
            );
            included += 1;
        }
    }
    assert!(included > 10, "{included}");
}

/// Each walk of ARCHITECTURE.md names files that exist, and each of them once: a reader follows it without a step back.
#[test]
fn the_walks_name_each_file_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let walks: Vec<&str> = text
        .split("\n## ")
        .filter(|part| part.starts_with("The walk of"))
        .collect();
    assert_eq!(walks.len(), 3);
    for walk in walks {
        let (title, _) = walk.split_once('\n').unwrap();
        let steps = walk
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("   "));
        let steps: String = steps.collect::<Vec<_>>().join("\n");
        let names = steps.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs"));
        let mut seen = Vec::new();
        for name in names.filter(|name| name.contains('/') || *name == "main.rs") {
            assert!(!seen.contains(&name), "{title} names {name} twice");
            let crates = root.join("crates");
            let places = [crates.join("server/src").join(name), crates.join(name)];
            assert!(places.iter().any(|place| place.exists()), "{title}: there is no {name}");
            seen.push(name);
        }
        assert!(seen.len() > 5, "{title} names {seen:?}");
    }
}
