//! The clusters that use a definition, and their overrides.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::inputs::{Effective, reference_id, references};
use crate::kind::{EXCLUDED, Kind};
use crate::profile::set_by_profiles;
use crate::snapshot::{Cluster, Fleet, View};

/// One cluster's use of a definition.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    pub cluster: String,
    pub cluster_dns: String,
    pub environment: String,
    /// The definition with the overrides of the cluster and its profiles.
    pub values: Map<String, Value>,
    /// The fields that the cluster itself overrides.
    pub overridden: Vec<String>,
    /// The fields that profiles set, each with the profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set_by_profiles: BTreeMap<String, String>,
    /// The profiles that bring or change it, by ascending priority.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
}

impl Usage {
    pub fn of(kind: &Kind, id: &str, view: &View<'_>) -> Option<Usage> {
        let (cluster, document) = (view.cluster(), view.effective_for(kind));
        let definitions = view.definitions(&kind.name)?;
        let definition = definitions.get(id)?;
        let find = |document| {
            let mut all = references(kind, document).iter();
            all.find(|reference| reference_id(reference) == id)
        };
        let effective = Effective::new(kind, definition.value(), find(&document)?, &document);
        let own_document = cluster.document().body.parse();
        let own =
            |field: &String| find(&own_document).is_some_and(|own| own.get(field).is_some_and(|own| !own.is_null()));
        let mut values = effective.to_map();
        values.remove("id");
        let (profiles, mut set_by_profiles) = set_by_profiles(kind, view, id);
        set_by_profiles.retain(|field, _| !own(field));
        Some(Usage {
            cluster: cluster.document().id.to_string(),
            cluster_dns: cluster.head().dns.to_string(),
            environment: cluster.head().environment.to_string(),
            values,
            overridden: kind
                .flux
                .overridable
                .iter()
                .filter(|field| own(field))
                .cloned()
                .collect(),
            set_by_profiles,
            profiles,
        })
    }
}

impl Fleet {
    /// Whether a cluster that may have a definition (see [`Fleet::users`]) has it: something may exclude it.
    pub fn uses(&self, cluster: &Cluster, kind: &Kind, id: &str) -> bool {
        let refers = self
            .definitions(&kind.name)
            .is_some_and(|all| all.is_user(id, cluster.number()));
        let view = self.view(cluster);
        let brought = view.profiles().brings(&kind.name, id);
        // Only the cluster's own reference can exclude now, and few clusters have such a reference.
        let may_exclude = || refers && cluster.document().body.as_str().contains(EXCLUDED);
        match may_exclude() {
            true => {
                let document = view.effective_for(kind);
                references(kind, &document)
                    .iter()
                    .any(|reference| reference_id(reference) == id)
            }
            false => refers || brought,
        }
    }
}
