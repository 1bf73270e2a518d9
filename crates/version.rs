//! The build script of both programs: which commit they are built from, for `--version`.
//!
//! `GIT_COMMIT` and `GIT_COMMIT_DATE` say so where there is no repository, as in a container build; else git is asked. Where
//! neither knows, the version stands alone. Whether files were changed is not said: no build is repeated for that alone.

use std::env;
use std::path::Path;
use std::process::Command;

/// As many digits as git shows for large repositories.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=../version.rs");
    println!("cargo::rerun-if-env-changed=GIT_COMMIT");
    println!("cargo::rerun-if-env-changed=GIT_COMMIT_DATE");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // Empty where it is unknown, so that no variable of the same name stands in.
    let (commit, date) = commit().unwrap_or_default();
    let text = match commit.as_str() {
        "" => version,
        _ => format!("{version} ({})", format!("{commit} {date}").trim_end()),
    };
    for (name, value) in [("VERSION", text), ("COMMIT", commit), ("COMMIT_DATE", date)] {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The commit and its date, which may be unknown.
fn commit() -> Option<(String, String)> {
    let given = |name| env::var(name).ok().map(|text| text.trim().to_owned());
    if let Some(commit) = given("GIT_COMMIT").filter(|commit| !commit.is_empty()) {
        let date = given("GIT_COMMIT_DATE").or_else(|| git(&["log", "-1", "--format=%cs", &commit]));
        return Some((commit.chars().take(DIGITS).collect(), date.unwrap_or_default()));
    }
    // A copy of the sources inside of somebody else's repository is not of that repository's commit.
    let workspace = Path::new("../..").canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?
        != workspace
    {
        return None;
    }
    watch();
    let commit = git(&["rev-parse", &format!("--short={DIGITS}"), "HEAD"])?;
    Some((commit, git(&["log", "-1", "--format=%cs"])?))
}

/// Has the build repeated when another commit is checked out or made. The log of HEAD sees both; where none is kept, it is the
/// files that HEAD leads to. A file that is not there may not be watched: the build would be repeated each time.
fn watch() {
    let file = |name: &str| git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).is_file());
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let watched = match file("logs/HEAD") {
        Some(log) => vec![log],
        None => ["HEAD", "packed-refs", &branch].into_iter().filter_map(file).collect(),
    };
    for path in watched {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
