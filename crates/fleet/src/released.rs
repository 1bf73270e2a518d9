//! DNS names that clusters gave up. Such a name is answered 404, so Flux keeps what it was told last. That is remembered beside
//! the decommissions until a cluster takes the name: what the taker does not have then is a removal like any other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::Document;
use crate::effect::{Input, inputs};
use crate::snapshot::{Cluster, Fleet};

/// The stored document of one name.
#[derive(Serialize, Deserialize)]
struct ReleasedName {
    id: String,
    cluster_dns: String,
    cluster_id: String,
    inputs: Remembered,
}

/// What Flux has of each path.
pub(crate) type Remembered = BTreeMap<String, Vec<Had>>;

/// An input that was on, and what Flux made of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Had {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl Had {
    fn of(input: &Input<'_>) -> Option<Had> {
        let object = input.object?;
        Some(Had {
            id: input.id.to_owned(),
            object: object.map(|(object, _)| object.to_owned()),
            source: object.and_then(|(_, source)| source).map(str::to_owned),
        })
    }

    /// Whether Flux keeps it when it is told `input` of that id instead.
    pub(crate) fn is_kept_by(&self, input: &Input<'_>) -> bool {
        let object = self.object.as_deref().map(|object| (object, self.source.as_deref()));
        input.object == Some(object)
    }
}

/// The document that remembers what `cluster` was told by `fleet`. None: it had nothing that could be lost.
pub(crate) fn document(fleet: &Fleet, cluster: &Cluster) -> Option<Value> {
    let document = cluster.document().body.parse();
    let mut remembered = Remembered::new();
    for kind in fleet.kinds().definitions() {
        let (Some(path), Some(definitions)) = (&kind.path, fleet.definitions(&kind.name)) else {
            continue;
        };
        let told = inputs(kind, definitions, &document);
        let had: Vec<Had> = told.iter().filter_map(Had::of).collect();
        if !had.is_empty() {
            remembered.insert(path.clone(), had);
        }
    }
    let head = cluster.head();
    let name = ReleasedName {
        id: head.dns_key.to_string(),
        cluster_dns: head.dns.to_string(),
        cluster_id: cluster.document().id.to_string(),
        inputs: remembered,
    };
    let had_any = !name.inputs.is_empty();
    had_any.then(|| serde_json::to_value(&name).unwrap_or_default())
}

/// What a document of [`document`] remembers.
pub(crate) fn remembered(document: &Document) -> Remembered {
    let name: Result<ReleasedName, _> = serde_json::from_str(document.body.as_str());
    name.map(|name| name.inputs).unwrap_or_default()
}
