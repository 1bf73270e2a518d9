//! The server's binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The binary of the profile that the calling test was built with, built if it is not there. Tests of the server's own crate
/// always find it up to date: cargo builds it before them.
pub fn server_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM.
        let folder = test.parent().unwrap();
        let folder = if folder.ends_with("deps") {
            folder.parent().unwrap()
        } else {
            folder
        };
        let binary = folder.join("flux-resourceset");
        if !binary.exists() {
            build(folder);
        }
        binary
    })
}

fn build(profile: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "flux-resourceset", "--target-dir"])
        .arg(profile.parent().unwrap())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the server does not build");
}
