//! What a change may concern while rollouts run: the clusters, and the definitions that some of them see differently.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Detail;
use super::changed_definitions::object_fields;
use super::placed::in_changed_profiles;
use crate::kind::{PROFILES, ROLLOUTS};
use crate::log::Change;
use crate::rollout::{Patch, Rollout};
use crate::snapshot::{Cluster, ClusterSet, Definition, Fleet};

/// A definition: its kind and its id.
pub(super) type Key = (Arc<str>, Arc<str>);

pub(super) struct Concerned<'f> {
    /// Those that are there afterwards, sorted by id.
    pub(super) clusters: Vec<&'f Arc<Cluster>>,
    /// The definitions that a cluster may see differently afterwards.
    pub(super) definitions: BTreeSet<Key>,
}

impl<'f> Concerned<'f> {
    /// The definitions that a move of rollouts concerns.
    pub(super) fn definitions(before: &Fleet, after: &Fleet, changes: &[Change]) -> BTreeSet<Key> {
        let moved = changes.iter().filter(|change| &*change.kind == ROLLOUTS);
        let patches = moved.flat_map(|change| moved_patches(before, after, &change.id));
        let definitions = patches.filter(|patch| &*patch.kind != PROFILES);
        definitions.map(|patch| (patch.kind, patch.id)).collect()
    }

    pub(super) fn of(before: &'f Fleet, after: &'f Fleet, changes: &[Change], detail: Detail) -> Self {
        let mut definitions = BTreeSet::new();
        let mut profiles: BTreeSet<Arc<str>> = BTreeSet::new();
        for change in changes {
            match &*change.kind {
                PROFILES => {
                    profiles.insert(change.id.clone());
                }
                ROLLOUTS => {
                    for patch in moved_patches(before, after, &change.id) {
                        match &*patch.kind {
                            PROFILES => profiles.insert(patch.id.clone()),
                            _ => definitions.insert((patch.kind.clone(), patch.id.clone())),
                        };
                    }
                }
                kind if before.definitions(kind).is_some() && after.definitions(kind).is_some() => {
                    definitions.insert((change.kind.clone(), change.id.clone()));
                }
                _ => {}
            }
        }
        if detail == Detail::Losses {
            definitions.retain(|key| may_lose(before, after, key));
        }
        let concerned = |fleet: &Fleet| -> ClusterSet {
            let users = definitions.iter().map(|(kind, id)| fleet.users(kind, id));
            users.chain(profiles.iter().map(|id| fleet.members(id))).collect()
        };
        let clusters = united(before, after, |fleet| {
            let mut all = concerned(fleet);
            all.unite(&in_changed_profiles(fleet, changes));
            all
        });
        Concerned { clusters, definitions }
    }
}

/// The patches of a rollout, before and after, if a cluster may be promoted in it after a change and was not before, or the reverse.
fn moved_patches(before: &Fleet, after: &Fleet, id: &str) -> Vec<Patch> {
    let promoting = |fleet: &Fleet| {
        let rollout = fleet.rollouts().get(id)?;
        (rollout.is_active() && rollout.wave.is_some()).then(|| rollout.clone())
    };
    let (old, new) = (promoting(before), promoting(after));
    if let (Some(old), Some(new)) = (&old, &new)
        && old.promotes_as(new)
    {
        return Vec::new();
    }
    let both = [old, new].into_iter().flatten();
    both.flat_map(|rollout: Arc<Rollout>| rollout.patches.clone()).collect()
}

/// Whether Flux may remove something when a cluster sees one version of a definition instead of another.
fn may_lose(before: &Fleet, after: &Fleet, (kind, id): &Key) -> bool {
    let versions = [before, after].into_iter().flat_map(|fleet| {
        let present = fleet.definitions(kind).and_then(|all| all.get(id));
        let active = fleet.rollouts().active();
        let patched = active.and_then(|active| active.patched(kind, id));
        [present, patched]
    });
    let versions: Vec<&Arc<Definition>> = versions.flatten().collect();
    let kinds = [before, after].map(|fleet| fleet.kinds().get(kind));
    let [Some(old), Some(new)] = kinds else { return true };
    let differs = |field: &String| {
        let mut values = versions.iter().map(|version| version.value().get(field));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    object_fields(old).into_iter().chain(object_fields(new)).any(differs)
}

/// Clusters of two fleets, each once, as they are after, sorted by id. Those that are not there any more are left out.
pub(super) fn united<'f>(
    before: &'f Fleet,
    after: &'f Fleet,
    clusters: impl Fn(&Fleet) -> ClusterSet,
) -> Vec<&'f Arc<Cluster>> {
    let [old, mut new] = [before, after].map(clusters);
    // The numbers of one fleet mean nothing in another, unless no cluster differs.
    match has_same_clusters(before, after) {
        true => new.unite(&old),
        false => {
            let old = before.sorted(old).filter_map(|old| after.cluster(&old.document().id));
            new.unite(&old.map(|cluster| cluster.number()).collect());
        }
    }
    after.sorted(new).collect()
}

/// A cluster of the fleet after a change, as it was before.
pub(super) fn counterpart<'f>(before: &'f Fleet, after: &Fleet, cluster: &'f Arc<Cluster>) -> Option<&'f Arc<Cluster>> {
    match has_same_clusters(before, after) {
        true => Some(cluster),
        false => before.cluster(&cluster.document().id),
    }
}

fn has_same_clusters(before: &Fleet, after: &Fleet) -> bool {
    before.clusters().ptr_eq(after.clusters())
}
