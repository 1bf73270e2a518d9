//! A repository of platform components: version folders, and the registry that lists them.
//!
//! Everything here only reads files of the repository, apart from `prune` and `build`; the fleet comes in as documents. Links are
//! not followed, and nothing outside of the repository is read.

pub(crate) mod build;
mod chart;
mod kustomizations;
pub(crate) mod prune;
mod references;
mod registry;
mod tree;
mod variables;
mod version;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub(crate) use self::kustomizations::Kustomizations;
pub(crate) use self::references::{Catalog, Use};
pub(crate) use self::registry::{Component, REGISTRY, Registry};
pub(crate) use self::tree::Tree;

/// A problem, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) file: String,
    /// A pointer or a line in the file; empty for the whole file.
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

/// What a check has found: problems, and warnings about what is usually a mistake.
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

/// A repository that was checked.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) registry: Registry,
    pub(crate) kustomizations: Kustomizations,
    pub(crate) findings: Findings,
}

/// Checks the registry and every version folder.
pub(crate) fn check(tree: &Tree) -> Checked {
    let mut findings = Findings::default();
    tree.oddities(&mut findings);
    let registry = Registry::read(tree, &mut findings);
    unregistered(tree, &registry, &mut findings);
    let mut kustomizations = Kustomizations::default();
    for component in &registry.components {
        for version in &component.present {
            match component.chart {
                true => chart::check(tree, component, version, &mut findings),
                false => version_folder(tree, component, version, &mut kustomizations, &mut findings),
            }
        }
    }
    Checked {
        registry,
        kustomizations,
        findings,
    }
}

/// A version has a folder to build for each environment; without environments, it is built itself.
fn version_folder(
    tree: &Tree,
    component: &Component,
    version: &str,
    kustomizations: &mut Kustomizations,
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
    for wanted in &wanted {
        if kustomizations::file_of(tree, wanted).is_none() {
            findings.problem(wanted, "", "has no kustomization.yaml, so it cannot be built");
        }
    }
    // Every folder must build by itself, also one that no environment includes yet.
    for folder in tree.folders_below(folder) {
        kustomizations.read(tree, &folder, findings);
    }
    let named = kustomizations.named();
    for file in tree.files_below(folder) {
        let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| file.ends_with(end));
        if !is_yaml || kustomizations::is_kustomization(&file) || named.contains(&file) {
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

/// Folders with the name of a version, of components that are not in the registry.
fn unregistered(tree: &Tree, registry: &Registry, findings: &mut Findings) {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for folder in tree.folders() {
        let Some((parent, name)) = folder.rsplit_once('/') else {
            continue;
        };
        let registered = |component: &Component| tree::is_within(folder, &component.path);
        if version::parse(name).is_some() && !registry.components.iter().any(registered) {
            missing.entry(parent).or_default().push(name);
        }
    }
    for (path, versions) in missing {
        let detail = format!("{REGISTRY} does not list this component ({})", versions.join(", "));
        findings.problem(path, "", detail);
    }
}
