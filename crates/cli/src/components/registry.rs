//! COMPONENTS.yaml: which components the repository has, where, and in which versions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Findings, Tree, Version, tree, yaml};

pub(crate) const REGISTRY: &str = "COMPONENTS.yaml";

#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// Where the tree is pushed to, as the catalog's `oci_url` has it.
    pub(crate) source: Option<String>,
    /// Where charts are pushed to.
    pub(crate) charts: Option<String>,
    pub(crate) components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) id: String,
    /// The folder that holds a folder for each version.
    pub(crate) path: String,
    /// Whether versions are Helm charts, and not manifests for kustomize.
    pub(crate) chart: bool,
    /// A folder for each within a version; none where a version is the same everywhere.
    pub(crate) environments: Vec<String>,
    pub(crate) versions: Vec<String>,
    /// The versions whose folders are there, oldest first.
    pub(crate) present: Vec<String>,
}

impl Component {
    pub(crate) fn folder(&self, version: &str) -> String {
        format!("{}/{version}", self.path)
    }
}

impl Registry {
    pub(super) fn read(tree: &Tree, findings: &mut Findings) -> Registry {
        let mut registry = Registry::default();
        let text = match tree.text(REGISTRY) {
            Ok(text) => text,
            Err(_) if !tree.is_file(REGISTRY) => {
                findings.problem(REGISTRY, "", "is not there; it names every component of the repository");
                return registry;
            }
            Err(detail) => {
                findings.problem(REGISTRY, "", detail);
                return registry;
            }
        };
        let document = match yaml::document(&text) {
            Ok(document) => document,
            Err((place, detail)) => {
                findings.problem(REGISTRY, place, detail);
                return registry;
            }
        };
        let Value::Object(fields) = document else {
            findings.problem(REGISTRY, "", "is an object with `components`");
            return registry;
        };
        known(&fields, "", &["source", "charts", "components"], findings);
        registry.source = address(&fields, "source", findings);
        registry.charts = address(&fields, "charts", findings);
        match fields.get("components") {
            Some(Value::Array(items)) => {
                for (n, item) in items.iter().enumerate() {
                    registry.add(tree, &format!("/components/{n}"), item, findings);
                }
            }
            Some(_) => findings.problem(REGISTRY, "/components", "is a list"),
            None => findings.problem(REGISTRY, "/components", "is not there"),
        }
        registry
    }

    fn add(&mut self, tree: &Tree, place: &str, item: &Value, findings: &mut Findings) {
        let Value::Object(fields) = item else {
            return findings.problem(REGISTRY, place, "is an object with `id`, `path` and `versions`");
        };
        known(
            fields,
            place,
            &[
                "id",
                "path",
                "owner",
                "description",
                "artifact",
                "environments",
                "versions",
            ],
            findings,
        );
        let id = text(fields, place, "id", findings).unwrap_or_default();
        let path = text(fields, place, "path", findings).unwrap_or_default();
        if !self.is_free(&id, &path, place, findings) {
            return;
        }
        for name in ["owner", "description"] {
            if fields.contains_key(name) {
                text(fields, place, name, findings);
            }
        }
        let chart = match fields.get("artifact").map(|value| value.as_str()) {
            None | Some(Some("manifests")) => false,
            Some(Some("chart")) => true,
            Some(_) => {
                findings.problem(REGISTRY, format!("{place}/artifact"), "is \"manifests\" or \"chart\"");
                false
            }
        };
        let environments = match fields.contains_key("environments") {
            true => texts(fields, place, "environments", findings),
            false => Vec::new(),
        };
        for (n, environment) in environments.iter().enumerate() {
            if !plain(environment) {
                findings.problem(
                    REGISTRY,
                    format!("{place}/environments/{n}"),
                    format!("\"{environment}\" names no folder"),
                );
            }
        }
        if chart && !environments.is_empty() {
            findings.problem(
                REGISTRY,
                format!("{place}/environments"),
                "a chart is the same in every environment",
            );
        }
        let versions = texts(fields, place, "versions", findings);
        for (n, version) in versions.iter().enumerate() {
            if Version::parse(version).is_none() {
                let detail = format!("\"{version}\" is no version, such as 1.14.0 or 1.14.0-1");
                findings.problem(REGISTRY, format!("{place}/versions/{n}"), detail);
            }
        }
        let component = Component {
            present: present(tree, &path),
            id,
            path,
            chart,
            environments,
            versions,
        };
        component.agree(tree, place, findings);
        self.components.push(component);
    }
    /// Whether a component can be told from all others: without that, nothing more can be said of it.
    fn is_free(&self, id: &str, path: &str, place: &str, findings: &mut Findings) -> bool {
        let mut free = !id.is_empty() && !path.is_empty();
        let mut problem = |name: &str, detail: String| {
            free = false;
            findings.problem(REGISTRY, format!("{place}/{name}"), detail);
        };
        if self.components.iter().any(|other| other.id == id) {
            problem("id", format!("{id} is there twice"));
        }
        if !path.is_empty() && !path.split('/').all(plain) {
            let detail = format!("\"{path}\" is no path within the repository, such as core/cert-manager");
            problem("path", detail);
        }
        let overlaps = |other: &&Component| tree::is_within(path, &other.path) || tree::is_within(&other.path, path);
        if let Some(other) = self.components.iter().find(overlaps) {
            problem(
                "path",
                format!("{path} is not apart from {} of {}", other.path, other.id),
            );
        }
        free
    }
}

impl Component {
    /// The registry and the folders say the same.
    fn agree(&self, tree: &Tree, place: &str, findings: &mut Findings) {
        if !tree.is_folder(&self.path) {
            return findings.problem(REGISTRY, format!("{place}/path"), format!("{} is no folder", self.path));
        }
        let children: BTreeSet<&str> = tree.children(&self.path).into_iter().collect();
        for (n, version) in self.versions.iter().enumerate() {
            if !children.contains(version.as_str()) {
                let detail = format!("{} is no folder", self.folder(version));
                findings.problem(REGISTRY, format!("{place}/versions/{n}"), detail);
            }
        }
        for child in children {
            let folder = self.folder(child);
            match Version::parse(child) {
                None => findings.problem(
                    &folder,
                    "",
                    "is no version directory: its name is no version, such as 1.14.0",
                ),
                Some(_) if !self.versions.iter().any(|version| version == child) => {
                    findings.problem(&folder, "", format!("{REGISTRY} does not list this version"));
                }
                Some(_) => {}
            }
        }
    }
}

fn present(tree: &Tree, path: &str) -> Vec<String> {
    let children = tree.children(path).into_iter();
    let mut found: Vec<(Version, &str)> = children
        .filter_map(|name| Some((Version::parse(name)?, name)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// A name of one file or folder, as `component_path` may have it.
fn plain(name: &str) -> bool {
    let fine = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    !name.is_empty() && name.chars().all(fine) && !name.starts_with(['.', '-', '+'])
}

fn known(fields: &Map<String, Value>, place: &str, names: &[&str], findings: &mut Findings) {
    for name in fields.keys().filter(|name| !names.contains(&name.as_str())) {
        let detail = format!("is none of {}", names.join(", "));
        findings.problem(REGISTRY, format!("{place}/{name}"), detail);
    }
}

fn text(fields: &Map<String, Value>, place: &str, name: &str, findings: &mut Findings) -> Option<String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
        Some(_) => findings.problem(REGISTRY, format!("{place}/{name}"), "is a text"),
        None => findings.problem(REGISTRY, format!("{place}/{name}"), "is not there"),
    }
    None
}

fn texts(fields: &Map<String, Value>, place: &str, name: &str, findings: &mut Findings) -> Vec<String> {
    let Some(Value::Array(items)) = fields.get(name) else {
        findings.problem(REGISTRY, format!("{place}/{name}"), "is a list of texts");
        return Vec::new();
    };
    let mut all: Vec<String> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let place = format!("{place}/{name}/{n}");
        match item.as_str() {
            None => findings.problem(REGISTRY, place, format!("{item} is not a text; put it in quotes")),
            Some(text) if all.iter().any(|known| known == text) => {
                findings.problem(REGISTRY, place, format!("{text} is there twice"));
            }
            Some(text) => all.push(text.to_owned()),
        }
    }
    all
}

fn address(fields: &Map<String, Value>, name: &str, findings: &mut Findings) -> Option<String> {
    let text = fields.get(name)?.as_str().unwrap_or_default();
    if !text.starts_with("oci://") {
        findings.problem(
            REGISTRY,
            format!("/{name}"),
            "is an address such as oci://registry.example/platform-components",
        );
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}
