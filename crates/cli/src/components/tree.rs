//! The files of a repository. They are listed once; links are not followed, and the size of files is limited.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Findings;
use crate::error::{Code, Failure};

/// More entries than any repository of components has: a larger folder is the wrong one.
const MOST_ENTRIES: usize = 50_000;
const MOST_DEPTH: usize = 32;
/// No file of manifests is longer: Kubernetes limits objects to 1.5 MiB.
const MOST_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// Everything below the root, by path (with slashes).
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File,
    Link,
    /// A pipe, a socket or a device: opening one may block for ever.
    Other,
    /// A folder that is nested too deeply to be read.
    Deep,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Tree, Failure> {
        let unreadable = |path: &Path, error: &std::io::Error| Failure::file(path, error);
        let about = fs::metadata(root).map_err(|error| unreadable(root, &error))?;
        if !about.is_dir() {
            return Err(Failure::new(Code::Usage, format!("{}: not a folder", root.display())));
        }
        let mut entries = BTreeMap::new();
        let mut open = vec![(root.to_owned(), String::new(), 0)];
        while let Some((folder, name, depth)) = open.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
                let entry = entry.map_err(|error| unreadable(&folder, &error))?;
                let file_name = entry.file_name().to_string_lossy().into_owned();
                // .git and other hidden entries are not part of the artifact.
                if depth == 0 && file_name.starts_with('.') {
                    continue;
                }
                let path = match name.as_str() {
                    "" => file_name,
                    name => format!("{name}/{file_name}"),
                };
                let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), &error))?;
                let kind = match () {
                    () if kind.is_symlink() => Entry::Link,
                    () if kind.is_dir() && depth + 1 >= MOST_DEPTH => Entry::Deep,
                    () if kind.is_dir() => Entry::Folder,
                    () if kind.is_file() => Entry::File,
                    () => Entry::Other,
                };
                if kind == Entry::Folder {
                    open.push((entry.path(), path.clone(), depth + 1));
                }
                entries.insert(path, kind);
                if entries.len() > MOST_ENTRIES {
                    let message = format!("{}: more than {MOST_ENTRIES} files and folders", root.display());
                    return Err(Failure::new(Code::Usage, message).hint("is this the root of a components repository?"));
                }
            }
        }
        Ok(Tree {
            root: root.to_owned(),
            entries,
        })
    }

    /// Reports entries that an artifact cannot contain, or that cannot be read.
    pub(super) fn oddities(&self, findings: &mut Findings) {
        for (path, entry) in &self.entries {
            let detail = match entry {
                Entry::Link => "is a symbolic link, which an artifact cannot contain",
                Entry::Other => "is neither a file nor a folder",
                Entry::Deep => "is nested too deeply",
                Entry::Folder | Entry::File => continue,
            };
            findings.problem(path, "", detail);
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || self.entries.get(path) == Some(&Entry::Folder)
    }

    pub(super) fn is_file(&self, path: &str) -> bool {
        self.entries.get(path) == Some(&Entry::File)
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|(_, entry)| **entry == Entry::Folder)
            .map(|(path, _)| path.as_str())
    }

    /// A folder, and all folders within it.
    pub(super) fn folders_below(&self, folder: &str) -> Vec<String> {
        self.folders()
            .filter(|path| is_within(path, folder))
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn files_below(&self, folder: &str) -> Vec<String> {
        let files = self
            .entries
            .iter()
            .filter(|(path, entry)| **entry == Entry::File && is_within(path, folder));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The names of the folders directly in a folder.
    pub(super) fn children(&self, folder: &str) -> Vec<&str> {
        let child = |path| match folder {
            "" => Some(path),
            _ => str::strip_prefix(path, folder)?.strip_prefix('/'),
        };
        self.folders()
            .filter_map(child)
            .filter(|name| !name.contains('/'))
            .collect()
    }

    /// The text of a file, or why it cannot be read.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        if !self.is_file(path) {
            return Err("is not a file".to_owned());
        }
        let file = fs::File::open(self.root.join(path)).map_err(|error| crate::error::plain(&error))?;
        let mut bytes = Vec::new();
        // Reading one byte more than allowed detects a file that is too long, even if it is still growing.
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| crate::error::plain(&error))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("is longer than {} MiB", MOST_BYTES >> 20));
        }
        String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
    }
}

/// Whether a path is another, or lies within it.
pub(super) fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path that a file in `folder` names, as a path from the root.
pub(super) fn resolve(folder: &str, given: &str) -> Result<String, String> {
    if given.starts_with('/') {
        return Err(format!("{given} is an absolute path"));
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in given.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(format!("{given} is outside of the repository"));
                }
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{is_within, resolve};

    #[test]
    fn paths_stay_within_the_tree() {
        assert_eq!(resolve("a/b", "../c/./d//e"), Ok("a/c/d/e".to_owned()));
        assert_eq!(resolve("a", ".."), Ok(String::new()));
        assert!(resolve("a", "../..").is_err());
        assert!(resolve("a", "/etc/passwd").is_err());
        assert!(resolve("a/b", "../../../a/b").is_err());
    }

    #[test]
    fn a_common_prefix_is_not_a_parent() {
        assert!(is_within("a/b/c", "a/b") && is_within("a/b", "a/b"));
        assert!(!is_within("a/bc", "a/b"));
    }
}
