//! Old version folders, and which of them are still needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use serde_json::{Value, json};

use super::{Checked, REGISTRY, Tree, Use, tree, yaml};
use crate::error::Failure;

/// A version folder that is older than the versions to keep.
#[derive(Debug)]
pub(crate) struct Old {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) path: String,
    /// What still needs it; empty if it can be removed.
    pub(crate) needed_by: Vec<String>,
}

impl Old {
    pub(crate) fn to_json(&self) -> Value {
        json!({"id": self.id, "version": self.version, "path": self.path, "needed_by": self.needed_by})
    }
}

/// Every version folder older than the newest `keep` of its component, with what needs it.
pub(crate) fn old(checked: &Checked, uses: &[Use], keep: usize) -> Vec<Old> {
    let components = &checked.registry.components;
    let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in uses {
        if let Some((component, versions)) = one.versions(components) {
            for version in versions {
                needed
                    .entry(component.folder(&version))
                    .or_default()
                    .insert(one.by.clone());
            }
        }
    }
    let mut old = Vec::new();
    let mut kept: Vec<String> = Vec::new();
    for component in components {
        let mut versions = component.present.clone();
        let newest = versions.split_off(versions.len().saturating_sub(keep));
        kept.extend(newest.iter().map(|version| component.folder(version)));
        for version in versions {
            let path = component.folder(&version);
            old.push(Old {
                needed_by: needed.get(&path).into_iter().flatten().cloned().collect(),
                id: component.id.clone(),
                version,
                path,
            });
        }
    }
    // A version that stays may include an old one, which may include another.
    kept.extend(
        old.iter()
            .filter(|one| !one.needed_by.is_empty())
            .map(|one| one.path.clone()),
    );
    while let Some(folder) = kept.pop() {
        let included = checked.kustomizations.included_by(&folder);
        for one in &mut old {
            let wanted = included.iter().any(|directory| tree::is_within(directory, &one.path));
            if wanted && !one.needed_by.contains(&folder) {
                if one.needed_by.is_empty() {
                    kept.push(one.path.clone());
                }
                one.needed_by.push(folder.clone());
            }
        }
    }
    old
}

/// Removes version folders, and their lines in the registry. The registry comes first: if it cannot be changed, nothing is.
pub(crate) fn remove(tree: &Tree, gone: &[&Old]) -> Result<(), Failure> {
    if gone.is_empty() {
        return Ok(());
    }
    let path = tree.root().join(REGISTRY);
    let failed = |error: &io::Error| Failure::file(&path, error);
    let before = fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let after = without(&before, gone).ok_or_else(|| {
        let versions: Vec<String> = gone.iter().map(|one| format!("{} {}", one.id, one.version)).collect();
        Failure::refused(format!(
            "the versions cannot be removed from {REGISTRY}, because they are not listed one per line"
        ))
        .hint(format!(
            "write `versions` one per line, or remove these yourself: {}",
            versions.join(", ")
        ))
    })?;
    let folder = path.parent().unwrap_or(tree.root());
    let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    let kept = fs::metadata(&path).and_then(|about| fs::set_permissions(file.path(), about.permissions()));
    kept.and_then(|()| fs::write(file.path(), after))
        .map_err(|error| failed(&error))?;
    file.persist(&path).map_err(|error| failed(&error.error))?;
    for one in gone {
        let folder = tree.root().join(&one.path);
        fs::remove_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
    }
    Ok(())
}

/// The text of the registry without some versions, comments kept; none if the lines cannot be removed one by one.
fn without(text: &str, gone: &[&Old]) -> Option<String> {
    let mut wanted = yaml::document(text).ok()?;
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    for component in wanted["components"].as_array_mut()? {
        let id = component["id"].as_str()?.to_owned();
        let versions = component["versions"].as_array_mut()?;
        for old in gone.iter().filter(|old| old.id == id) {
            versions.retain(|version| version != old.version.as_str());
            let listed = |line: &str| {
                let line = line.split(" #").next().unwrap_or_default().trim();
                let item = line.strip_prefix("- ").unwrap_or_default().trim();
                item.trim_matches(['"', '\'']) == old.version
            };
            let first = lines.iter().position(|line| names(line, &id))?;
            let n = first + lines[first..].iter().position(|line| listed(line))?;
            lines.remove(n);
        }
    }
    let after = lines.concat();
    // The result must parse to exactly what is wanted.
    (yaml::document(&after).ok()? == wanted).then_some(after)
}

/// Whether a line is `id: ID`.
fn names(line: &str, id: &str) -> bool {
    let line = line
        .split(" #")
        .next()
        .unwrap_or_default()
        .trim()
        .trim_start_matches("- ");
    let value = line
        .strip_prefix("id:")
        .map(|value| value.trim().trim_matches(['"', '\'']));
    value == Some(id)
}

#[cfg(test)]
mod tests {
    use super::{Old, without};

    fn old(id: &str, version: &str) -> Old {
        Old {
            id: id.to_owned(),
            version: version.to_owned(),
            path: String::new(),
            needed_by: Vec::new(),
        }
    }

    #[test]
    fn versions_are_removed_and_comments_stay() {
        let text = "# all\ncomponents:\n  - id: a\n    versions:\n      - 1.0.0 # first\n      - \"1.1.0\"\n  - id: b # two\n    versions:\n      - 1.0.0\n      - 1.1.0\n";
        let after = without(text, &[&old("b", "1.0.0")]).expect("the version is removed");
        assert_eq!(
            after,
            text.replace("two\n    versions:\n      - 1.0.0\n", "two\n    versions:\n")
        );
        let after = without(text, &[&old("a", "1.1.0"), &old("a", "1.0.0")]);
        assert_eq!(after, None, "an empty list would be null");
    }

    #[test]
    fn a_list_on_one_line_is_not_changed() {
        assert_eq!(
            without(
                "components: [{id: a, versions: [1.0.0, 1.1.0]}]\n",
                &[&old("a", "1.0.0")]
            ),
            None
        );
    }
}
