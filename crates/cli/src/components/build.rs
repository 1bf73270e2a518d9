//! The real thing: `kustomize build`, by kustomize itself or the one within kubectl.

use std::process::Command;

use super::{Checked, Tree};
use crate::error::Failure;

/// Builds every directory that is fine so far. What is not is left alone: it might fetch something.
pub(crate) fn all(tree: &Tree, checked: &mut Checked) -> Result<usize, Failure> {
    let builder = builder()?;
    let directories: Vec<String> = checked.directories.buildable().map(str::to_owned).collect();
    for directory in &directories {
        let output = Command::new(builder[0])
            .args(&builder[1..])
            .arg(tree.root().join(directory))
            .output();
        let output =
            output.map_err(|error| Failure::refused(format!("{}: {}", builder[0], crate::error::plain(&error))))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: String = said
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(1000)
                .collect();
            checked
                .findings
                .problem(directory, "", format!("{} says: {said}", builder.join(" ")));
        }
    }
    Ok(directories.len())
}

fn builder() -> Result<&'static [&'static str], Failure> {
    let known: [&[&str]; 2] = [&["kustomize", "build"], &["kubectl", "kustomize"]];
    let there = |words: &&&[&str]| Command::new(words[0]).arg("--help").output().is_ok();
    known.iter().find(there).copied().ok_or_else(|| {
        let failure = Failure::usage("neither kustomize nor kubectl is on the PATH, and --build needs one of them");
        failure.hint("without --build, the directories are checked by this program alone")
    })
}
