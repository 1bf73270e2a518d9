//! The book (docs/) and the README are true: their shell blocks run, what they show comes out, their links lead somewhere.
//!
//! A shell block is marked, and mdBook and GitHub show none of it:
//!
//! - `sh run`: run, and must succeed. `sh run fails`: run, and its last command must fail.
//! - `sh norun`: needs what a test does not have (a cluster, a container, time).
//! - `text output`, `json output`, `yaml output`, right after one that runs: what it prints. `…` stands for anything within a line,
//!   a line of its own for any number of lines; in JSON, the text `"…"` for any value, as the last of an array for the rest of it,
//!   as a name for the other members.
//!
//! Blocks of a chapter share a shell, a folder and a fresh server with the demo fleet. `UPDATE=1` writes what came out.

mod blocks;
mod expect;
mod links;
mod markdown;
mod session;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The chapters of the book, and the README: what is run.
fn chapters() -> Vec<PathBuf> {
    let mut chapters: Vec<PathBuf> = markdown_files(&root().join("docs/src"));
    chapters.push(root().join("README.md"));
    chapters
}

fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().unwrap()
}

/// Every Markdown file in a folder, without what is built, fetched or hidden.
fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            found.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// The name that messages have for a file.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Fails with every problem, not with the first.
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
