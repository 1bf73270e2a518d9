//! DNS names that clusters gave up. Such a name is answered 404, so Flux keeps its last inputs. They are recorded until a cluster
//! takes the name: the inputs that this cluster does not have are removals then, and the removal budget counts them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::Document;
use crate::effect::{Input, Object, inputs};
use crate::snapshot::{Cluster, Fleet};

/// The most released names: a few renames of the largest fleet. Each takes up to some kilobytes in every process.
pub const MOST_RELEASED: usize = 50_000;

/// The stored document of one name.
#[derive(Serialize, Deserialize)]
struct ReleasedName {
    id: String,
    cluster_dns: String,
    cluster_id: String,
    inputs: Remembered,
}

/// The last inputs of each path.
pub(crate) type Remembered = BTreeMap<String, Vec<Had>>;

/// An input that was on, and the object that Flux made of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Had {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl Had {
    fn of(input: &Input<'_>) -> Option<Had> {
        let object = input.object.as_ref()?.as_ref();
        Some(Had {
            id: input.id.to_owned(),
            object: object.map(|object| object.kind.to_owned()),
            source: object.and_then(|object| object.source).map(str::to_owned),
            place: object.and_then(|object| object.place.as_deref()).map(str::to_owned),
        })
    }

    /// Whether Flux keeps the object if the cluster has `input` of the same id instead.
    pub(crate) fn is_kept_by(&self, input: &Input<'_>) -> bool {
        let object = self.object.as_deref().map(|kind| Object {
            kind,
            source: self.source.as_deref(),
            place: self.place.as_deref().map(Cow::Borrowed),
        });
        input.object == Some(object)
    }
}

/// The record of the last inputs of `cluster` in `fleet`. None if it had none that could be lost.
pub(crate) fn document(fleet: &Fleet, cluster: &Cluster) -> Option<Value> {
    let view = fleet.view(cluster);
    let document = view.effective();
    let mut remembered = Remembered::new();
    for kind in fleet.kinds().definitions() {
        let (Some(path), Some(definitions)) = (&kind.path, view.definitions(&kind.name)) else {
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

/// The inputs in a record of [`document`].
pub(crate) fn remembered(document: &Document) -> Remembered {
    let name: Result<ReleasedName, _> = serde_json::from_str(document.body.as_str());
    name.map(|name| name.inputs).unwrap_or_default()
}
