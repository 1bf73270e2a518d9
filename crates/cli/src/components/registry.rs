//! COMPONENTS.yaml, the registry: the components of the repository, their paths and their versions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Findings, Tree, tree, version, yaml};

pub(crate) const REGISTRY: &str = "COMPONENTS.yaml";

/// The fields of a component.
const FIELDS: [&str; 7] = [
    "id",
    "path",
    "owner",
    "description",
    "artifact",
    "environments",
    "versions",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// The address that the repository is pushed to: `oci_url` in the catalog.
    pub(crate) source: Option<String>,
    /// The address that charts are pushed to.
    pub(crate) charts: Option<String>,
    pub(crate) components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) id: String,
    /// The folder with a folder for each version.
    pub(crate) path: String,
    /// Whether the versions are Helm charts instead of kustomizations.
    pub(crate) chart: bool,
    /// The environments that a version has a folder for; empty if a version is the same everywhere.
    pub(crate) environments: Vec<String>,
    pub(crate) versions: Vec<String>,
    /// The versions that have a folder, oldest first.
    pub(crate) present: Vec<String>,
}

impl Component {
    pub(crate) fn folder(&self, version: &str) -> String {
        format!("{}/{version}", self.path)
    }
}

impl Registry {
    /// How many version folders there are.
    pub(crate) fn versions(&self) -> usize {
        self.components.iter().map(|component| component.present.len()).sum()
    }

    pub(super) fn read(tree: &Tree, findings: &mut Findings) -> Registry {
        let mut registry = Registry::default();
        let text = match tree.text(REGISTRY) {
            Ok(text) => text,
            Err(_) if !tree.is_file(REGISTRY) => {
                findings.problem(
                    REGISTRY,
                    "",
                    "does not exist; it lists every component of the repository",
                );
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
            findings.problem(REGISTRY, "", "must be an object with `components`");
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
            Some(_) => findings.problem(REGISTRY, "/components", "must be a list"),
            None => findings.problem(REGISTRY, "/components", "is required"),
        }
        registry
    }

    fn add(&mut self, tree: &Tree, place: &str, item: &Value, findings: &mut Findings) {
        let Value::Object(fields) = item else {
            return findings.problem(REGISTRY, place, "must be an object with `id`, `path` and `versions`");
        };
        known(fields, place, &FIELDS, findings);
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
        let chart = is_chart(fields, place, findings);
        let component = Component {
            present: present(tree, &path),
            id,
            path,
            chart,
            environments: environments(fields, place, chart, findings),
            versions: versions(fields, place, findings),
        };
        component.agree(tree, place, findings);
        self.components.push(component);
    }

    /// Whether the id and the path of a component are valid and unique. Without that, it is not checked any further.
    fn is_free(&self, id: &str, path: &str, place: &str, findings: &mut Findings) -> bool {
        let mut free = !id.is_empty() && !path.is_empty();
        let mut problem = |name: &str, detail: String| {
            free = false;
            findings.problem(REGISTRY, format!("{place}/{name}"), detail);
        };
        if self.components.iter().any(|other| other.id == id) {
            problem("id", format!("{id} is listed twice"));
        }
        if !path.is_empty() && !path.split('/').all(plain) {
            let detail = format!("\"{path}\" is not a path within the repository such as core/cert-manager");
            problem("path", detail);
        }
        let overlaps = |other: &&Component| tree::is_within(path, &other.path) || tree::is_within(&other.path, path);
        if let Some(other) = self.components.iter().find(overlaps) {
            problem(
                "path",
                format!("{path} overlaps with {}, the path of {}", other.path, other.id),
            );
        }
        free
    }
}

impl Component {
    /// Checks that the registry and the folders agree.
    fn agree(&self, tree: &Tree, place: &str, findings: &mut Findings) {
        if !tree.is_folder(&self.path) {
            return findings.problem(
                REGISTRY,
                format!("{place}/path"),
                format!("{} is not a folder", self.path),
            );
        }
        let children: BTreeSet<&str> = tree.children(&self.path).into_iter().collect();
        for (n, version) in self.versions.iter().enumerate() {
            if !children.contains(version.as_str()) {
                let detail = format!("{} is not a folder", self.folder(version));
                findings.problem(REGISTRY, format!("{place}/versions/{n}"), detail);
            }
        }
        for child in children {
            let folder = self.folder(child);
            match version::parse(child) {
                None => findings.problem(
                    &folder,
                    "",
                    "is not a version folder: its name is not a version such as 1.14.0",
                ),
                Some(_) if !self.versions.iter().any(|version| version == child) => {
                    findings.problem(&folder, "", format!("{REGISTRY} does not list this version"));
                }
                Some(_) => {}
            }
        }
    }
}

fn is_chart(fields: &Map<String, Value>, place: &str, findings: &mut Findings) -> bool {
    match fields.get("artifact").map(|value| value.as_str()) {
        None | Some(Some("manifests")) => false,
        Some(Some("chart")) => true,
        Some(_) => {
            findings.problem(
                REGISTRY,
                format!("{place}/artifact"),
                "must be \"manifests\" or \"chart\"",
            );
            false
        }
    }
}

fn environments(fields: &Map<String, Value>, place: &str, chart: bool, findings: &mut Findings) -> Vec<String> {
    let environments = match fields.contains_key("environments") {
        true => texts(fields, place, "environments", findings),
        false => Vec::new(),
    };
    let place = format!("{place}/environments");
    for (n, environment) in environments.iter().enumerate().filter(|(_, name)| !plain(name)) {
        let detail = format!("\"{environment}\" is not the name of a folder");
        findings.problem(REGISTRY, format!("{place}/{n}"), detail);
    }
    if chart && !environments.is_empty() {
        findings.problem(REGISTRY, place, "a chart has no environments");
    }
    environments
}

fn versions(fields: &Map<String, Value>, place: &str, findings: &mut Findings) -> Vec<String> {
    let versions = texts(fields, place, "versions", findings);
    for (n, version) in versions.iter().enumerate() {
        if version::parse(version).is_none() {
            let detail = format!("\"{version}\" is not a version such as 1.14.0 or 1.14.0-1");
            findings.problem(REGISTRY, format!("{place}/versions/{n}"), detail);
        }
    }
    versions
}

fn present(tree: &Tree, path: &str) -> Vec<String> {
    let children = tree.children(path).into_iter();
    let mut found: Vec<(semver::Version, &str)> = children
        .filter_map(|name| Some((version::parse(name)?, name)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Whether a name can be a segment of `component_path`.
fn plain(name: &str) -> bool {
    let fine = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    !name.is_empty() && name.chars().all(fine) && !name.starts_with(['.', '-', '+'])
}

fn known(fields: &Map<String, Value>, place: &str, names: &[&str], findings: &mut Findings) {
    for name in fields.keys().filter(|name| !names.contains(&name.as_str())) {
        let detail = format!("is not one of {}", names.join(", "));
        findings.problem(REGISTRY, format!("{place}/{name}"), detail);
    }
}

fn text(fields: &Map<String, Value>, place: &str, name: &str, findings: &mut Findings) -> Option<String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
        Some(_) => findings.problem(REGISTRY, format!("{place}/{name}"), "must be a text"),
        None => findings.problem(REGISTRY, format!("{place}/{name}"), "is required"),
    }
    None
}

fn texts(fields: &Map<String, Value>, place: &str, name: &str, findings: &mut Findings) -> Vec<String> {
    let Some(Value::Array(items)) = fields.get(name) else {
        findings.problem(REGISTRY, format!("{place}/{name}"), "must be a list of texts");
        return Vec::new();
    };
    let mut all: Vec<String> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let place = format!("{place}/{name}/{n}");
        match item.as_str() {
            None => findings.problem(REGISTRY, place, format!("{item} is not a text; put it in quotes")),
            Some(text) if all.iter().any(|known| known == text) => {
                findings.problem(REGISTRY, place, format!("{text} is listed twice"));
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
            "must be an address such as oci://registry.example/platform-components",
        );
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}
