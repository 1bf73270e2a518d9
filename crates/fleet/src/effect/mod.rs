//! What a change does to the clusters: which inputs are added, removed or changed for each.
//!
//! It compares the answers to each DNS name before and after, because Flux acts on those. A DNS name that is answered 404
//! afterwards loses nothing. If another cluster takes the name, in the same write or later, the name's last answers are compared
//! with that cluster's: [`crate::released`] keeps them. A path that no kind has any more counts as an empty list, although Flux
//! keeps what it has then, too: nothing records it, so there would be nothing to compare with when a kind takes the path later.

mod changed_definitions;
mod comparison;
mod concerned;
mod lists;
mod placed;
mod relabelled;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use self::comparison::Comparison;
pub(crate) use self::lists::{Input, Object, inputs};
pub use self::lists::{InputEffect, ListEffect};
pub use self::relabelled::Relabelled;
use crate::diagnose::Diagnostic;
use crate::diff::differences;
use crate::guard;
use crate::json::Json;
use crate::kind::{GUARDS, PROFILES, ROLLOUTS};
use crate::log::{Change, Digest};
use crate::profile;
use crate::refusal::{Reason, Refusal};
use crate::snapshot::{ClusterHead, Fleet};

/// The effect of a change on the clusters, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    pub clusters: Vec<ClusterEffect>,
    /// Clusters that selectors may see differently.
    pub relabelled: Vec<Relabelled>,
    /// The profiles that clusters enter and leave, by id.
    pub memberships: Vec<Membership>,
    /// What is suspicious about the profiles and guards that change.
    pub warnings: Vec<Diagnostic>,
}

/// The clusters that match a profile after a change and did not before, and the reverse. Sorted by id.
#[derive(Clone, Debug, Serialize)]
pub struct Membership {
    pub profile: Arc<str>,
    pub entered: Vec<Arc<str>>,
    pub left: Vec<Arc<str>>,
}

#[derive(Clone, Debug)]
pub struct ClusterEffect {
    head: Arc<ClusterHead>,
    /// Whether the change decommissions it.
    pub deleted: bool,
    /// The cluster that had the DNS name before, if any.
    before: Option<Arc<ClusterHead>>,
    /// Per path. Clusters with the same effect share it.
    pub inputs: Lists,
    /// What the change brings with it: dependencies that stall, exclusions of what no profile brings.
    pub warnings: Vec<Diagnostic>,
}

/// What happens to the lists of a cluster, per path.
pub type Lists = Arc<[(Arc<str>, Arc<ListEffect>)]>;

impl ClusterEffect {
    /// The cluster.
    pub fn id(&self) -> &Arc<str> {
        &self.head.document.id
    }

    pub fn dns(&self) -> &Arc<str> {
        &self.head.dns
    }

    pub fn environment(&self) -> &Arc<str> {
        &self.head.environment
    }

    /// The cluster that had the DNS name before, if any.
    pub fn before(&self) -> Option<&Arc<str>> {
        self.before.as_ref().map(|head| &head.document.id)
    }

    /// Whether Flux removes something from the cluster.
    pub fn loses(&self) -> bool {
        self.deleted || self.inputs.iter().any(|(_, list)| !list.lost.is_empty())
    }
}

impl Serialize for ClusterEffect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            id: &'a str,
            dns: &'a str,
            environment: &'a str,
            deleted: bool,
            inputs: BTreeMap<&'a str, &'a ListEffect>,
        }
        let inputs = self.inputs.iter().map(|(path, list)| (&**path, &**list)).collect();
        Wire {
            id: self.id(),
            dns: self.dns(),
            environment: self.environment(),
            deleted: self.deleted,
            inputs,
        }
        .serialize(serializer)
    }
}

/// How closely the effect of a change is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every difference, and new stalls: a plan.
    Full,
    /// Only losses: enough for the removal budget, which every write is checked against.
    Losses,
}

/// What is suspicious about the profiles and guards that change.
fn suspicions(after: &Fleet, changes: &[Change]) -> Vec<Diagnostic> {
    let ids = |kind: &'static str| {
        changes
            .iter()
            .filter(move |change| &*change.kind == kind)
            .map(|change| &change.id)
    };
    let profiles = ids(PROFILES).filter_map(|id| after.profiles().get(id));
    let guards = ids(GUARDS).filter_map(|id| after.guards().get(id));
    let of_profiles = profiles.flat_map(|profile| profile::warnings(after, profile));
    of_profiles
        .chain(guards.filter_map(|guard| guard::warnings(after, guard)))
        .collect()
}

impl Effect {
    /// What `changes`, which lead from one fleet to the other, do.
    pub fn of(before: &Fleet, after: &Fleet, changes: &[Change]) -> Effect {
        Effect::compare(before, after, changes, Detail::Full)
    }

    /// The same, but only the clusters that lose something.
    pub fn losses(before: &Fleet, after: &Fleet, changes: &[Change]) -> Effect {
        Effect::compare(before, after, changes, Detail::Losses)
    }

    /// What a move of rollouts does to some clusters, sorted by id.
    pub(crate) fn among(before: &Fleet, after: &Fleet, changes: &[Change], clusters: &[Arc<str>]) -> Effect {
        let mut clusters = Comparison::among(before, after, changes, clusters);
        clusters.retain(|cluster| !cluster.inputs.is_empty());
        Effect {
            clusters,
            ..Effect::default()
        }
    }

    /// Those of some clusters whose inputs a change changes.
    pub(crate) fn changed(before: &Fleet, after: &Fleet, clusters: &[Arc<str>]) -> Vec<Arc<str>> {
        let compared = Comparison::whole(before, after, clusters);
        let changed = compared.iter().filter(|cluster| !cluster.inputs.is_empty());
        let mut ids: Vec<Arc<str>> = changed.map(|cluster| cluster.id().clone()).collect();
        ids.sort_unstable();
        ids
    }

    fn compare(before: &Fleet, after: &Fleet, changes: &[Change], detail: Detail) -> Effect {
        let mut clusters = Comparison::run(before, after, changes, detail);
        clusters.retain(|cluster| match detail {
            Detail::Full => cluster.deleted || !cluster.inputs.is_empty() || !cluster.warnings.is_empty(),
            Detail::Losses => cluster.loses(),
        });
        match detail {
            Detail::Losses => Effect {
                clusters,
                ..Effect::default()
            },
            Detail::Full => Effect {
                clusters,
                relabelled: relabelled::relabelled(before, after, changes),
                memberships: placed::memberships(before, after, changes),
                warnings: suspicions(after, changes),
            },
        }
    }

    /// Refuses to remove everything of one kind from a cluster that was protected before the change: lifting the protection must
    /// be a revision of its own. Deletions are checked by the write itself.
    pub fn judge_protection(&self, before: &Fleet) -> Result<(), Refusal> {
        let is_protected = |id: &str| before.cluster(id).is_some_and(|cluster| cluster.head().protected);
        let emptied = self.clusters.iter().find_map(|cluster| {
            let mut lists = cluster.inputs.iter();
            let (path, _) = lists.find(|(_, list)| list.is_emptied())?;
            let id = cluster.before().filter(|_| !cluster.deleted)?;
            is_protected(id).then_some((id, path))
        });
        let Some((id, path)) = emptied else {
            return Ok(());
        };
        let detail =
            format!("cluster \"{id}\" is protected and would lose all of {path}: set \"protected\" to false first");
        let mut refusal = Refusal::new(Reason::Protected, detail);
        refusal.clusters.push(id.to_string());
        Err(refusal)
    }

    /// Identifies the effect: two changes with the same effect have the same digest, whatever fleets they start from.
    pub fn digest(&self, changes: &[Change]) -> Digest {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        for change in changes {
            let parsed = |body: &Option<Json>| {
                let mut value = body.as_ref().map(Json::parse)?;
                if let Some(fields) = value.as_object_mut().filter(|_| &*change.kind == ROLLOUTS) {
                    // They are not the same for the plan and the write.
                    fields.remove("since");
                    fields.remove("removals");
                    fields.remove("promotions");
                }
                Some(value)
            };
            part("change");
            part(&change.kind);
            part(&change.id);
            let fields = differences(parsed(&change.before).as_ref(), parsed(&change.after).as_ref());
            part(&serde_json::to_string(&(change.action(), fields)).unwrap_or_default());
        }
        // Clusters that share an effect share its digest.
        let mut known: HashMap<*const ListEffect, String> = HashMap::new();
        for cluster in &self.clusters {
            part("cluster");
            for text in [cluster.id(), cluster.dns(), cluster.environment()] {
                part(text);
            }
            part(if cluster.deleted { "deleted" } else { "" });
            for (path, list) in &*cluster.inputs {
                part(path);
                let digest = known.entry(Arc::as_ptr(list));
                part(digest.or_insert_with(|| list.digest().to_string()));
            }
        }
        Digest(hash.finalize().into())
    }
}
