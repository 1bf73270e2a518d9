//! What a cluster is merged with: its profiles and the definitions, each as it is, or as a rollout patches it for this cluster.

use std::sync::Arc;

use serde_json::Value;

use super::{Cluster, Definition, Definitions, Fleet};
use crate::kind::Kind;
use crate::profile::Baseline;
use crate::rollout::{Active, Promoted};

/// One cluster, as one fleet sees it.
#[derive(Clone, Debug)]
pub struct View<'a> {
    fleet: &'a Fleet,
    cluster: &'a Cluster,
    promoted: Promoted,
    /// The profiles that rollouts patch, merged. None: the cluster's own.
    patched: Option<Arc<Baseline>>,
}

/// The definitions of a kind, as clusters see them that are promoted in the same rollouts.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    kind: &'a str,
    definitions: &'a Definitions,
    patched: Option<(&'a Active, Promoted)>,
}

impl<'a> Seen<'a> {
    /// The definitions as they are, without rollouts.
    pub(crate) fn present_in(kind: &'a Kind, definitions: &'a Definitions) -> Self {
        Seen {
            kind: &kind.name,
            definitions,
            patched: None,
        }
    }

    pub fn get(&self, id: &str) -> Option<&'a Arc<Definition>> {
        let present = self.definitions.get(id)?;
        let patched = self
            .patched
            .and_then(|(active, promoted)| active.definition(promoted, self.kind, id));
        Some(patched.map_or(present, |(_, definition)| definition))
    }

    /// The rollout that patches a definition here.
    pub(crate) fn rollout(&self, id: &str) -> Option<&'a str> {
        let (active, promoted) = self.patched?;
        active
            .definition(promoted, self.kind, id)
            .map(|(rollout, _)| &**rollout.id())
    }

    /// The definition as it is without rollouts.
    pub(crate) fn present(&self, id: &str) -> Option<&'a Arc<Definition>> {
        self.definitions.get(id)
    }
}

impl Fleet {
    /// A cluster of this fleet, with what it is merged with.
    pub fn view<'a>(&'a self, cluster: &'a Cluster) -> View<'a> {
        self.view_as(cluster, self.promoted(cluster))
    }

    /// The same, as if it were promoted in these rollouts.
    pub(crate) fn view_as<'a>(&'a self, cluster: &'a Cluster, promoted: Promoted) -> View<'a> {
        let active = self.rollouts.active().filter(|_| promoted != Promoted::NONE);
        View {
            fleet: self,
            cluster,
            promoted,
            patched: active.and_then(|active| active.baseline(self, promoted, cluster)),
        }
    }

    /// The rollouts that a cluster is promoted in.
    pub(crate) fn promoted(&self, cluster: &Cluster) -> Promoted {
        let active = self.rollouts.active();
        active.map_or(Promoted::NONE, |active| active.promoted(cluster))
    }

    /// Identifies what rollouts change for a cluster. 0: nothing.
    pub fn patched_for(&self, cluster: &Cluster) -> u64 {
        let active = self.rollouts.active();
        active.map_or(0, |active| active.patched_stamp(active.promoted(cluster)))
    }

    /// The definitions of a kind, as clusters see them that are promoted in these rollouts.
    pub(crate) fn seen<'a>(&'a self, kind: &'a str, promoted: Promoted) -> Option<Seen<'a>> {
        let active = self.rollouts.active().filter(|_| promoted != Promoted::NONE);
        Some(Seen {
            kind,
            definitions: self.definitions.get(kind)?,
            patched: active.map(|active| (&**active, promoted)),
        })
    }
}

impl<'a> View<'a> {
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// What its profiles say together.
    pub(crate) fn profiles(&self) -> &Baseline {
        self.patched
            .as_deref()
            .unwrap_or_else(|| self.fleet.merged_profiles(self.cluster))
    }

    /// The same, shared. None if it matches no profile.
    pub(crate) fn baseline(&self) -> Option<&Arc<Baseline>> {
        self.patched.as_ref().or_else(|| self.fleet.baseline(self.cluster))
    }

    pub(crate) fn promoted(&self) -> Promoted {
        self.promoted
    }

    pub(crate) fn definitions<'k>(&'k self, kind: &'k str) -> Option<Seen<'k>> {
        self.fleet.seen(kind, self.promoted)
    }

    /// Its document, with the references and patches of its profiles merged into its own.
    pub fn effective(&self) -> Value {
        let mut document = self.cluster.document().body.parse();
        for kind in self.fleet.kinds.definitions() {
            self.profiles().merge(kind, &mut document);
        }
        document
    }

    /// Of that document, only the references to one kind and the patches.
    pub(crate) fn effective_for(&self, kind: &Kind) -> Value {
        let array = kind.references.as_deref().unwrap_or_default();
        let body = &self.cluster.document().body;
        let mut document = body.pick(|field| field == array || kind.flux.patches && field == "patches");
        self.profiles().merge(kind, &mut document);
        document
    }

    /// That document as it is shown: fields of references that nothing sets have their defaults.
    pub fn shown_effective(&self) -> Value {
        let mut document = self.effective();
        for kind in self.fleet.kinds.definitions() {
            let array = kind
                .references
                .as_deref()
                .and_then(|array| document.get_mut(array)?.as_array_mut());
            for reference in array.into_iter().flatten() {
                for (field, schema) in &kind.flux.carried {
                    if let Some(default) = schema.get("default")
                        && reference.get(field).is_none_or(Value::is_null)
                    {
                        reference[field] = default.clone();
                    }
                }
            }
        }
        document
    }

    /// An upper bound on the number of inputs of a kind.
    pub(super) fn most_inputs(&self, kind: &Kind) -> usize {
        self.cluster.own(&kind.name) + self.profiles().count(&kind.name)
    }
}
