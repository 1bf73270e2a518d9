//! What a fleet uses of the repository: the paths and versions that its catalog and its clusters name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Checked, Component, REGISTRY, tree, version};
use crate::components::Tree;

/// The part of a fleet that names components, and where it comes from.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// A file, or the address of a server.
    pub(crate) origin: String,
    pub(crate) components: Vec<Value>,
    pub(crate) clusters: Vec<Value>,
}

/// A component that the catalog or a cluster uses.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) origin: String,
    /// The user: `platform_components/grafana`, or `clusters/prod-1 grafana`.
    pub(crate) by: String,
    what: What,
    /// The version in the catalog.
    version: Option<String>,
    /// The keys of the cluster's patches, which are variables of the manifests.
    patches: Vec<String>,
}

#[derive(Clone, Debug)]
enum What {
    Manifests {
        path: String,
        /// Set if the environment is added to the path; the inner value is none for the entry of the catalog.
        environment: Option<Option<String>>,
    },
    Chart {
        name: String,
        /// None for the newest.
        version: Option<String>,
    },
}

impl Use {
    /// Everything that a fleet uses from `source` and `charts`. Without a source, every OCI artifact counts.
    pub(crate) fn all(catalog: &Catalog, source: Option<&str>, charts: Option<&str>) -> Vec<Use> {
        let by_id: BTreeMap<&str, &Value> = catalog
            .components
            .iter()
            .filter_map(|component| Some((id(component)?, component)))
            .collect();
        let mut uses = Vec::new();
        let from = |component: &Value, over: &Value, cluster: Option<&Value>| {
            let url = text(component, "oci_url")?.trim_end_matches('/');
            let field = |name: &str| text(over, name).or_else(|| text(component, name));
            let path = field("component_path")?.to_owned();
            if text(component, "oci_artifact") == Some("chart") {
                let version = |name| field(name).filter(|version| *version != "latest").map(str::to_owned);
                let version = version("oci_tag").or_else(|| version("component_version"));
                return (charts == Some(url)).then_some(What::Chart { name: path, version });
            }
            let ours = url.starts_with("oci://") && source.is_none_or(|source| source == url);
            let by_environment = component["cluster_env_enabled"] == true;
            let environment = || {
                cluster
                    .and_then(|cluster| text(cluster, "environment"))
                    .map(str::to_owned)
            };
            ours.then(|| What::Manifests {
                path,
                environment: by_environment.then(environment),
            })
        };
        for (id, component) in &by_id {
            if let Some(what) = from(component, &Value::Null, None) {
                uses.push(Use {
                    origin: catalog.origin.clone(),
                    by: format!("platform_components/{id}"),
                    what,
                    version: text(component, "component_version")
                        .filter(|version| *version != "latest")
                        .map(str::to_owned),
                    patches: Vec::new(),
                });
            }
        }
        for cluster in &catalog.clusters {
            let name = id(cluster)
                .or_else(|| text(cluster, "cluster_name"))
                .unwrap_or_default();
            for reference in cluster["platform_components"].as_array().into_iter().flatten() {
                let Some((component, what)) = id(reference).and_then(|id| {
                    let component = by_id.get(id)?;
                    Some((id, from(component, reference, Some(cluster))?))
                }) else {
                    continue;
                };
                let patches = cluster["patches"][component].as_object();
                uses.push(Use {
                    origin: catalog.origin.clone(),
                    by: format!("clusters/{name} {component}"),
                    what,
                    version: None,
                    patches: patches.into_iter().flatten().map(|(key, _)| key.clone()).collect(),
                });
            }
        }
        uses
    }

    /// The component and the version that this use names; all versions if any of them may be used; none if there is no match.
    pub(crate) fn versions<'a>(&self, components: &'a [Component]) -> Option<(&'a Component, Vec<String>)> {
        match &self.what {
            What::Manifests { path, .. } => {
                let path = tree::resolve("", path).ok()?;
                let component = components
                    .iter()
                    .find(|component| !component.chart && tree::is_within(&path, &component.path))?;
                let mut present = component.present.iter();
                let version = present.find(|version| tree::is_within(&path, &component.folder(version)))?;
                Some((component, vec![version.clone()]))
            }
            What::Chart { name, version } => {
                let component = components
                    .iter()
                    .find(|component| component.chart && component.id == *name)?;
                let present = component.present.clone();
                Some(match version {
                    Some(version) if present.contains(version) => (component, vec![version.clone()]),
                    // An exact version that does not exist. A range such as 1.x may match any version.
                    Some(version) if version::parse(version).is_some() => return None,
                    _ => (component, present),
                })
            }
        }
    }

    /// Reports what this use names and the repository does not have.
    pub(crate) fn check(&self, tree: &Tree, checked: &mut Checked) {
        let (origin, by) = (self.origin.clone(), self.by.clone());
        let components = &checked.registry.components;
        let found = self.versions(components);
        match (&self.what, found) {
            (What::Chart { name, version }, None) => {
                let known = components
                    .iter()
                    .find(|component| component.chart && component.id == *name);
                let detail = match (known, version) {
                    (Some(component), Some(version)) => {
                        format!("chart {name} {version} does not exist; {}", has(component))
                    }
                    _ => format!("{REGISTRY} has no chart {name}"),
                };
                checked.findings.problem(&origin, by, detail);
            }
            (What::Chart { .. }, Some(_)) => {}
            (What::Manifests { path, .. }, None) => {
                let near = components
                    .iter()
                    .find(|component| tree::is_within(path, &component.path));
                let detail = match near {
                    Some(component) => format!("{path} does not exist; {}", has(component)),
                    None => format!("{path} does not exist: {REGISTRY} has no component with this path"),
                };
                checked.findings.problem(&origin, by, detail);
            }
            (What::Manifests { path, environment }, Some((component, versions))) => {
                if let (Some(given), [version]) = (&self.version, versions.as_slice())
                    && given != version
                {
                    let detail = format!("component_version is {given}, but the path is of version {version}");
                    checked.findings.warning(&origin, by.clone(), detail);
                }
                let path = path.trim_end_matches('/');
                let directory = match environment {
                    Some(None) if component.environments.is_empty() => {
                        let detail = format!("cluster_env_enabled is set, but {} has no environments", component.id);
                        return checked.findings.problem(&origin, by, detail);
                    }
                    Some(None) => return,
                    Some(Some(environment)) => format!("{path}/{environment}"),
                    None => path.to_owned(),
                };
                let directory = tree::resolve("", &directory).unwrap_or_default();
                if !checked.kustomizations.contains(&directory) {
                    let detail = match (tree.is_folder(&directory), environment) {
                        (false, _) => format!("{directory} does not exist"),
                        (true, None) if !component.environments.is_empty() => {
                            format!("{directory} has a folder for each environment: set cluster_env_enabled")
                        }
                        (true, _) => format!("{directory} has no kustomization.yaml"),
                    };
                    return checked.findings.problem(&origin, by, detail);
                }
                let variables = checked.kustomizations.variables(&directory);
                let unused: Vec<&String> = self
                    .patches
                    .iter()
                    .filter(|key| !variables.contains(key.as_str()))
                    .collect();
                for key in unused {
                    let detail = format!("patch {key} is not a variable of {directory}");
                    checked.findings.warning(&origin, by.clone(), detail);
                }
            }
        }
    }
}

fn has(component: &Component) -> String {
    format!("{} has {}", component.id, component.present.join(", "))
}

fn id(value: &Value) -> Option<&str> {
    text(value, "id").or_else(|| text(value, "_id"))
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}
