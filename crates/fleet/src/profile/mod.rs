//! Profiles: what a cluster gets by what it is. A profile has a selector, a priority, and references and patches as clusters have
//! them. Every matching cluster has them beneath its own.
//!
//! Clusters that match the same profiles share one [`Baseline`]: the profiles' part of the merge, made once.

mod baseline;
mod explain;
mod propose;
mod warnings;

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::Value;

pub use self::baseline::Baseline;
pub(crate) use self::baseline::{Differences, KnownDifferences};
pub(crate) use self::explain::set_by_profiles;
pub use self::explain::{Explained, ExplainedInput, Explanation, explain};
pub use self::propose::{Array, Proposal, propose};
pub(crate) use self::warnings::warnings;
use crate::document::Document;
use crate::inputs::{reference_id, references};
use crate::json::Json;
use crate::kind::{Kind, Kinds};
use crate::selector::Selector;
use crate::snapshot::{ClusterSet, Number};

/// A profile, parsed: there are few of them, and each is merged into many replies.
#[derive(Debug)]
pub struct Profile {
    pub document: Document,
    value: Value,
    pub selector: Selector,
    pub priority: i64,
}

impl Profile {
    pub(crate) fn new(id: Arc<str>, body: Json) -> Result<Profile, String> {
        let value = body.parse();
        let selector = value["selector"].as_str().unwrap_or_default();
        let selector =
            Selector::parse(selector).map_err(|error| format!("the profile \"{id}\" cannot be read: {error}"))?;
        Ok(Profile {
            priority: value["priority"].as_i64().unwrap_or_default(),
            document: Document::new(id, body),
            value,
            selector,
        })
    }

    pub fn id(&self) -> &Arc<str> {
        &self.document.id
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Whether it refers to a definition, in whatever way.
    pub fn refers_to(&self, kind: &Kind, id: &str) -> bool {
        let mut all = references(kind, &self.value).iter();
        all.any(|reference| reference_id(reference) == id)
    }
}

/// The profiles of a fleet, and which clusters match which of them.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    by_id: OrdMap<Arc<str>, Arc<Profile>>,
    /// The clusters that match the same profiles. Clusters that match none are in no group.
    groups: OrdMap<Key, Group>,
    /// By the number of a cluster, what its group says. Those behind the end match none.
    of_clusters: Vector<Option<Arc<Baseline>>>,
}

/// The ids of the profiles of a group, in the order of the merge.
type Key = Arc<[Arc<str>]>;

#[derive(Clone, Debug)]
struct Group {
    baseline: Arc<Baseline>,
    members: ClusterSet,
}

impl Profiles {
    pub fn get(&self, id: &str) -> Option<&Arc<Profile>> {
        self.by_id.get(id)
    }

    /// Sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_id.values()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The clusters that match a profile.
    pub fn members(&self, profile: &str) -> ClusterSet {
        self.of_groups(|baseline| baseline.has(profile))
    }

    /// How many clusters match a profile.
    pub fn count(&self, profile: &str) -> usize {
        let groups = self.groups.values().filter(|group| group.baseline.has(profile));
        groups.map(|group| group.members.len()).sum()
    }

    /// The profiles that refer to a definition.
    pub fn referring_to(&self, kind: &Kind, id: &str) -> impl Iterator<Item = &Arc<Profile>> {
        self.iter().filter(move |profile| profile.refers_to(kind, id))
    }

    /// The clusters that match a profile that refers to a definition.
    pub(crate) fn users(&self, kind: &Kind, id: &str) -> ClusterSet {
        self.matching_any(self.referring_to(kind, id))
    }

    /// The clusters that match a profile that refers to any definition of a kind.
    pub(crate) fn all_users(&self, kind: &Kind) -> ClusterSet {
        self.matching_any(
            self.iter()
                .filter(|profile| !references(kind, profile.value()).is_empty()),
        )
    }

    fn matching_any<'a>(&self, profiles: impl Iterator<Item = &'a Arc<Profile>>) -> ClusterSet {
        let ids: BTreeSet<&Arc<str>> = profiles.map(|profile| profile.id()).collect();
        self.of_groups(|baseline| baseline.profiles().iter().any(|profile| ids.contains(profile.id())))
    }

    fn of_groups(&self, is_wanted: impl Fn(&Baseline) -> bool) -> ClusterSet {
        let groups = self.groups.values().filter(|group| is_wanted(&group.baseline));
        groups.map(|group| &group.members).collect()
    }

    /// All profiles in the order of the merge: by ascending priority, then by id.
    pub(crate) fn in_order(&self) -> Vec<Arc<Profile>> {
        let mut all: Vec<_> = self.iter().cloned().collect();
        // The sort is stable, and they are sorted by id.
        all.sort_by_key(|profile| profile.priority);
        all
    }

    pub(crate) fn put(&mut self, id: Arc<str>, after: Option<Json>) -> Result<(), String> {
        match after {
            Some(body) => self.by_id.insert(id.clone(), Arc::new(Profile::new(id, body)?)),
            None => self.by_id.remove(&id),
        };
        Ok(())
    }

    /// What the profiles of a cluster say together. None if it matches none.
    pub(crate) fn baseline(&self, cluster: Number) -> Option<&Arc<Baseline>> {
        self.of_clusters.get(cluster as usize)?.as_ref()
    }

    /// Takes a cluster, which is removed, out of the group that it is in.
    pub(crate) fn leave(&mut self, cluster: Number) {
        if let Some(baseline) = self.baseline(cluster).cloned() {
            self.leave_group(&baseline, &[cluster].into_iter().collect());
            self.of_clusters.set(cluster as usize, None);
        }
    }

    fn leave_group(&mut self, baseline: &Baseline, clusters: &ClusterSet) {
        let key = baseline.key();
        if let Some(group) = self.groups.get_mut(&key) {
            group.members.subtract(clusters);
            if group.members.is_empty() {
                self.groups.remove(&key);
            }
        }
    }

    /// Moves clusters from their group to that of other profiles, and gives the new group's part of the merge.
    pub(crate) fn move_clusters(
        &mut self,
        kinds: &Kinds,
        old: Option<&Baseline>,
        profiles: &[Arc<Profile>],
        clusters: &ClusterSet,
    ) -> Option<Arc<Baseline>> {
        if let Some(old) = old {
            self.leave_group(old, clusters);
        }
        let group = (!profiles.is_empty()).then(|| {
            let key: Key = profiles.iter().map(|profile| profile.id().clone()).collect();
            self.groups.entry(key).or_insert_with(|| Group {
                baseline: Arc::new(Baseline::new(kinds, profiles)),
                members: ClusterSet::default(),
            })
        });
        let baseline = group.map(|group| {
            group.members.unite(clusters);
            group.baseline.clone()
        });
        for cluster in clusters.numbers() {
            self.set_baseline(cluster, baseline.clone());
        }
        baseline
    }

    fn set_baseline(&mut self, cluster: Number, baseline: Option<Arc<Baseline>>) {
        let place = cluster as usize;
        while self.of_clusters.len() <= place && baseline.is_some() {
            self.of_clusters.push_back(None);
        }
        if place < self.of_clusters.len() {
            self.of_clusters.set(place, baseline);
        }
    }

    /// Adds a group with its members.
    pub(crate) fn add_group(&mut self, profiles: &[Arc<Profile>], baseline: Arc<Baseline>, members: ClusterSet) {
        for cluster in members.numbers() {
            self.set_baseline(cluster, Some(baseline.clone()));
        }
        let key: Key = profiles.iter().map(|profile| profile.id().clone()).collect();
        self.groups.insert(key, Group { baseline, members });
    }

    /// Whether a baseline is that of these profiles, as they are now.
    pub(crate) fn is_current(&self, baseline: Option<&Arc<Baseline>>, profiles: &[Arc<Profile>]) -> bool {
        let Some(baseline) = baseline else {
            return profiles.is_empty();
        };
        let own = baseline.profiles();
        let same = own.len() == profiles.len() && own.iter().zip(profiles).all(|(one, other)| Arc::ptr_eq(one, other));
        let group = || self.groups.get(&baseline.key());
        same && group().is_some_and(|group| Arc::ptr_eq(&group.baseline, baseline))
    }

    /// Forgets the groups that have one of these profiles, and gives their clusters: each must join again.
    pub(crate) fn dissolve(&mut self, is_changed: impl Fn(&Arc<str>) -> bool) -> ClusterSet {
        let is_changed = |key: &Key| key.iter().any(&is_changed);
        let changed: Vec<Key> = self.groups.keys().filter(|key| is_changed(key)).cloned().collect();
        let groups: Vec<Group> = changed.iter().filter_map(|key| self.groups.remove(key)).collect();
        groups.iter().map(|group| &group.members).collect()
    }
}
