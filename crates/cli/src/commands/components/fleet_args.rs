//! The fleet that a repository is compared with: catalog files, or the server.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use fleet::kind::CLUSTERS;
use serde_json::Value;

use crate::args::Global;
use crate::client::Client;
use crate::components::{Catalog, Checked, Use};
use crate::config::Access;
use crate::documents;
use crate::error::Failure;

const COMPONENTS: &str = "platform_components";

// The fleet to compare with.
#[derive(Args, Clone, Debug)]
pub(super) struct FleetArgs {
    /// The fleet as a file: a seed, or the output of `export` (can be repeated)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) catalog: Vec<PathBuf>,
    /// The address that the repository is pushed to [default: `source` in COMPONENTS.yaml]
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// The address that its charts are pushed to [default: `charts` in COMPONENTS.yaml]
    #[arg(long, value_name = "URL")]
    charts: Option<String>,
}

/// What a fleet uses of a repository.
pub(super) struct Uses {
    pub(super) all: Vec<Use>,
    /// Whether the fleet has clusters. Without any, it is unknown which versions are in use.
    pub(super) has_clusters: bool,
}

impl FleetArgs {
    /// What the fleet uses of the repository. Using nothing is a warning, since a wrong address looks the same.
    pub(super) fn uses(&self, global: &Global, checked: &mut Checked) -> Result<Uses, Failure> {
        let catalog = self.catalog(global)?;
        if catalog.components.is_empty() && !self.catalog.is_empty() {
            let message = format!("{}: no {COMPONENTS} were found", catalog.origin);
            return Err(Failure::usage(message));
        }
        let address = |given: &Option<String>, registered: &Option<String>| {
            let url = given.as_ref().or(registered.as_ref());
            url.map(|url| url.trim_end_matches('/').to_owned())
        };
        let source = address(&self.source, &checked.registry.source);
        let charts = address(&self.charts, &checked.registry.charts);
        let all = Use::all(&catalog, source.as_deref(), charts.as_deref());
        if all.is_empty() {
            let from = source.unwrap_or_else(|| "an OCI artifact".to_owned());
            let detail = format!("no component is from {from}");
            checked.findings.warning(&catalog.origin, "", detail);
        }
        Ok(Uses {
            all,
            has_clusters: !catalog.clusters.is_empty(),
        })
    }

    /// All catalogs together: definitions and clusters may be in different files.
    fn catalog(&self, global: &Global) -> Result<Catalog, Failure> {
        if self.catalog.is_empty() {
            return from_server(global);
        }
        let catalogs = self.catalog.iter().map(from_file).collect::<Result<Vec<_>, _>>()?;
        let origins: Vec<&str> = catalogs.iter().map(|catalog| catalog.origin.as_str()).collect();
        Ok(Catalog {
            origin: origins.join(", "),
            components: catalogs.iter().flat_map(|catalog| catalog.components.clone()).collect(),
            clusters: catalogs.iter().flat_map(|catalog| catalog.clusters.clone()).collect(),
        })
    }
}

/// Reads a seed (one object with an array for each kind) or an export (one document for each resource).
fn from_file(path: &PathBuf) -> Result<Catalog, Failure> {
    let mut catalog = Catalog {
        origin: path.display().to_string(),
        components: Vec::new(),
        clusters: Vec::new(),
    };
    for document in documents::read(std::slice::from_ref(path), false)? {
        let kind = document.value["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            COMPONENTS | "platform_component" | "component" => catalog.components.push(document.value),
            CLUSTERS | "cluster" => catalog.clusters.push(document.value),
            "" => {
                let take = |kind: &str| document.value[kind].as_array().cloned().unwrap_or_default();
                catalog.components.extend(take(COMPONENTS));
                catalog.clusters.extend(take(CLUSTERS));
            }
            _ => {}
        }
    }
    Ok(catalog)
}

fn from_server(global: &Global) -> Result<Catalog, Failure> {
    let client = Client::new(Access::settle(&global.chosen())?);
    let list = |kind: &str| -> Result<Vec<Value>, Failure> {
        match client.get(&format!("/{kind}"))? {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    };
    Ok(Catalog {
        origin: client.shown_url(),
        components: list(COMPONENTS)?,
        clusters: list(CLUSTERS)?,
    })
}
