//! The clusters that use a definition, and their overrides.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::inputs::{Effective, reference_id, references};
use crate::kind::Kind;
use crate::snapshot::{Cluster, Definition};

/// One cluster's use of a definition.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    pub cluster: String,
    pub cluster_dns: String,
    pub environment: String,
    /// The definition with the cluster's overrides.
    pub values: Map<String, Value>,
    /// The fields that the cluster overrides.
    pub overridden: Vec<String>,
}

impl Usage {
    pub fn of(kind: &Kind, definition: &Definition, cluster: &Cluster) -> Option<Usage> {
        let document = cluster.document().body.parse();
        let id = &*definition.document.id;
        let reference = references(kind, &document)
            .iter()
            .find(|reference| reference_id(reference) == id)?;
        let effective = Effective::new(kind, definition.value(), reference, &document);
        let mut values = effective.to_map();
        values.remove("id");
        Some(Usage {
            cluster: cluster.document().id.to_string(),
            cluster_dns: cluster.head().dns.to_string(),
            environment: cluster.head().environment.to_string(),
            values,
            overridden: effective.overridden().map(str::to_owned).collect(),
        })
    }
}
