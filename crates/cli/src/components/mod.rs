//! A platform components repository: a tree of version directories, and the registry that names them.
//!
//! Everything here reads files and nothing else; what a catalog or a server says comes in as documents. Nothing follows a link, and
//! nothing outside of the tree is read.

pub(crate) mod build;
mod chart;
mod kustomization;
pub(crate) mod prune;
mod references;
mod registry;
mod tree;
mod variables;
mod version;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub(crate) use self::kustomization::Directories;
pub(crate) use self::references::{Catalog, Use};
pub(crate) use self::registry::{Component, REGISTRY, Registry};
pub(crate) use self::tree::Tree;
pub(crate) use self::version::Version;

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) file: String,
    /// A pointer into the file, or a line of it; empty when it is about the whole.
    pub(crate) place: String,
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<String>, place: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem {
            file: file.into(),
            place: place.into(),
            detail: detail.into(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"file": self.file, "place": self.place, "detail": self.detail})
    }

    pub(crate) fn line(&self) -> String {
        match self.place.as_str() {
            "" => format!("{}: {}", self.file, self.detail),
            place => format!("{} {place}: {}", self.file, self.detail),
        }
    }
}

/// What a look at a tree has found: problems, and what may be meant but often is not.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: BTreeSet<Problem>,
    pub(crate) warnings: BTreeSet<Problem>,
}

impl Findings {
    pub(crate) fn problem(&mut self, file: &str, place: impl Into<String>, detail: impl Into<String>) {
        self.problems.insert(Problem::new(file, place, detail));
    }

    pub(crate) fn warning(&mut self, file: &str, place: impl Into<String>, detail: impl Into<String>) {
        self.warnings.insert(Problem::new(file, place, detail));
    }
}

/// A tree that was looked at.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) registry: Registry,
    pub(crate) directories: Directories,
    pub(crate) findings: Findings,
}

/// Looks at every version directory, and at the registry.
pub(crate) fn check(tree: &Tree) -> Checked {
    let mut findings = Findings::default();
    tree.oddities(&mut findings);
    let registry = Registry::read(tree, &mut findings);
    unregistered(tree, &registry, &mut findings);
    let mut directories = Directories::default();
    for component in &registry.components {
        for version in &component.present {
            match component.chart {
                true => chart::check(tree, component, version, &mut findings),
                false => version_directory(tree, component, version, &mut directories, &mut findings),
            }
        }
    }
    Checked {
        registry,
        directories,
        findings,
    }
}

/// A version directory is built for each environment, or as it is where it knows none.
fn version_directory(
    tree: &Tree,
    component: &Component,
    version: &str,
    directories: &mut Directories,
    findings: &mut Findings,
) {
    let folder = &component.folder(version);
    let mut wanted: Vec<String> = component
        .environments
        .iter()
        .map(|environment| format!("{folder}/{environment}"))
        .collect();
    if wanted.is_empty() {
        wanted.push(folder.to_owned());
    }
    for directory in &wanted {
        if kustomization::file_of(tree, directory).is_none() {
            findings.problem(directory, "", "has no kustomization.yaml, so it cannot be built");
        }
    }
    // What an environment takes in must hold by itself, and so must what nobody takes in: it will be, one day.
    for directory in tree.folders_below(folder) {
        if kustomization::file_of(tree, &directory).is_some() {
            directories.build(tree, &directory, findings);
        }
    }
    let named = directories.named();
    for file in tree.files_below(folder) {
        let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| file.ends_with(end));
        if !is_yaml || kustomization::is_kustomization(&file) || named.contains(&file) {
            continue;
        }
        match tree
            .text(&file)
            .and_then(|text| yaml::documents(&text).map_err(|wrong| wrong.1))
        {
            Ok(_) => findings.warning(&file, "", "no kustomization names it"),
            Err(detail) => findings.problem(&file, "", detail),
        }
    }
}

/// Directories that look like versions, of components that the registry does not have.
fn unregistered(tree: &Tree, registry: &Registry, findings: &mut Findings) {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for folder in tree.folders() {
        let Some((parent, name)) = folder.rsplit_once('/') else {
            continue;
        };
        let registered = |component: &Component| tree::is_within(folder, &component.path);
        if Version::parse(name).is_some() && !registry.components.iter().any(registered) {
            missing.entry(parent).or_default().push(name);
        }
    }
    for (path, versions) in missing {
        let detail = format!("{REGISTRY} does not have this component ({})", versions.join(", "));
        findings.problem(path, "", detail);
    }
}
