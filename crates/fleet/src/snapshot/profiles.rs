//! Which clusters match which profiles, brought up to date at the end of an edit.
//!
//! What a cluster's profiles say is not a part of the cluster: a changed profile moves numbers of clusters from one group to another, and
//! the catalog knows whose replies differ. Only clusters that are written themselves, few at a time, drop their cached replies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::Peekable;
use std::sync::Arc;

use super::{Cluster, ClusterSet, Edit, Fleet, Number};
use crate::document::Etag;
use crate::kind::CLUSTERS;
use crate::profile::{Baseline, KnownDifferences, Profile};
use crate::selector::{Matcher, Subject};

/// What may have changed about profiles since they were settled last.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Profiles that were put or removed.
    pub(super) profiles: BTreeSet<Arc<str>>,
    /// Clusters that were put. Not kept while there are no profiles.
    pub(super) clusters: BTreeSet<Arc<str>>,
    /// Kinds changed: selectors may be read differently, and references merged differently.
    pub(super) kinds: bool,
}

/// The clusters that were not written and that profiles say something else about.
#[derive(Default)]
pub(super) struct Placed {
    /// Per kind, those whose reply may differ.
    pub(super) by_kind: BTreeMap<Arc<str>, ClusterSet>,
    /// The ids and versions of the profiles.
    pub(super) etags: Vec<(Arc<str>, Option<Etag>)>,
    differences: KnownDifferences,
}

impl Edit {
    /// Gives every cluster the profiles that it matches now.
    pub(crate) fn settle_profiles(&mut self) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        if unsettled.kinds {
            let all = self.fleet.profiles.iter().map(|profile| profile.id().clone());
            unsettled.profiles.extend(all);
        }
        let written = unsettled
            .clusters
            .iter()
            .filter_map(|id| self.fleet.cluster(id).cloned());
        let written: Vec<Arc<Cluster>> = written.collect();
        if !unsettled.profiles.is_empty() {
            let numbers = written.iter().map(|cluster| cluster.number()).collect();
            self.settle_changed(&unsettled.profiles, &numbers);
        }
        if !written.is_empty() {
            self.settle_written(&written);
        }
    }

    /// Moves the clusters that match a changed profile, before or after, except those that were written. What they match otherwise stays.
    fn settle_changed(&mut self, changed: &BTreeSet<Arc<str>>, written: &ClusterSet) {
        let is_changed = |id: &Arc<str>| changed.contains(id);
        let profiles: Vec<Arc<Profile>> = changed
            .iter()
            .filter_map(|id| self.fleet.profiles.get(id).cloned())
            .collect();
        let mut candidates = self.fleet.profiles.dissolve(is_changed);
        let sets: Vec<ClusterSet> = profiles
            .iter()
            .map(|profile| profile.selector.numbers(&self.fleet))
            .collect();
        sets.iter().for_each(|set| candidates.unite(set));
        // Clusters that had the same profiles, and match the same changed ones, move together.
        let mut moves: HashMap<(usize, Vec<usize>), Vec<Number>> = HashMap::new();
        let mut matching: Vec<_> = sets.iter().map(|set| set.numbers().peekable()).collect();
        for number in candidates.numbers() {
            let own = matching.iter_mut().map(|numbers| is_next(numbers, number)).enumerate();
            let own: Vec<usize> = own.filter(|(_, is_own)| *is_own).map(|(n, _)| n).collect();
            if !written.contains(number) {
                let old = self.fleet.profiles.baseline(number);
                let old = old.map_or(0, |old| Arc::as_ptr(old).addr());
                moves.entry((old, own)).or_default().push(number);
            }
        }
        for ((_, own), numbers) in moves {
            let old = self.fleet.profiles.baseline(numbers[0]).cloned();
            let kept = old.iter().flat_map(|old| old.profiles());
            let kept = kept.filter(|profile| !is_changed(profile.id())).cloned();
            let mut now: Vec<Arc<Profile>> = kept.chain(own.into_iter().map(|n| profiles[n].clone())).collect();
            now.sort_by(|one, other| (one.priority, one.id()).cmp(&(other.priority, other.id())));
            self.move_clusters(&old, &now, &numbers.into_iter().collect());
        }
        let etag = |id: &Arc<str>| Some(self.fleet.profiles.get(id)?.document.etag);
        self.placed
            .etags
            .extend(changed.iter().map(|id| (id.clone(), etag(id))));
    }

    /// Gives clusters that had the same profiles other ones, which are in the order of the merge.
    fn move_clusters(&mut self, old: &Option<Arc<Baseline>>, profiles: &[Arc<Profile>], clusters: &ClusterSet) {
        let kinds = self.fleet.kinds.clone();
        let new = self
            .fleet
            .profiles
            .move_clusters(&kinds, old.as_deref(), profiles, clusters);
        for kind in self.placed.differences.between(old, &new, &kinds).keys() {
            let count = |baseline: &Option<Arc<Baseline>>| baseline.as_ref().map_or(0, |one| one.count(kind));
            if count(&new) > 0 && count(old) == 0 {
                self.add_lists(kind, new.as_deref(), clusters);
            }
            self.placed.by_kind.entry(kind.clone()).or_default().unite(clusters);
        }
    }

    /// Gives clusters a place for their replies of a kind, where they have none yet.
    fn add_lists(&mut self, kind: &str, profiles: Option<&Baseline>, clusters: &ClusterSet) {
        for number in clusters.numbers() {
            let Some(cluster) = self.fleet.numbered(number).filter(|cluster| !cluster.has_list(kind)) else {
                continue;
            };
            let with_list = cluster.with_profiles(&self.fleet.kinds, profiles, |_| true);
            self.replace_cluster(Arc::new(with_list));
        }
    }

    /// Places clusters that were written: any profile may match.
    fn settle_written(&mut self, written: &[Arc<Cluster>]) {
        /// Beyond this share of the fleet, selecting by each profile is faster than trying all profiles on each cluster.
        const MANY: usize = 16;
        let kinds = self.fleet.kinds.clone();
        let Some(kind) = kinds.get(CLUSTERS) else { return };
        let profiles = self.fleet.profiles.in_order();
        let are_many = written.len() > self.fleet.clusters().len() / MANY + 1000;
        let sets: Vec<ClusterSet> = match are_many {
            true => profiles
                .iter()
                .map(|profile| profile.selector.numbers(&self.fleet))
                .collect(),
            false => Vec::new(),
        };
        let matchers: Vec<Matcher> = profiles.iter().map(|profile| profile.selector.on(kind)).collect();
        for cluster in written {
            let mut subject = Subject::new(cluster);
            let mut is_own = |n: usize| match sets.get(n) {
                Some(set) => set.contains(cluster.number()),
                None => matchers[n].matches_subject(&mut subject),
            };
            let own = profiles.iter().enumerate().filter(|(n, _)| is_own(*n));
            let own: Vec<Arc<Profile>> = own.map(|(_, profile)| profile.clone()).collect();
            self.place(cluster, &own);
        }
    }

    /// Gives one cluster its profiles, which are in the order of the merge.
    fn place(&mut self, cluster: &Cluster, profiles: &[Arc<Profile>]) {
        let (number, kinds) = (cluster.number(), self.fleet.kinds.clone());
        let old = self.fleet.profiles.baseline(number).cloned();
        if self.fleet.profiles.is_current(old.as_ref(), profiles) {
            return;
        }
        let clusters = [number].into_iter().collect();
        let new = self
            .fleet
            .profiles
            .move_clusters(&kinds, old.as_deref(), profiles, &clusters);
        let changed = self.placed.differences.between(&old, &new, &kinds);
        let placed = cluster.with_profiles(&kinds, new.as_deref(), |kind| !changed.contains_key(kind));
        self.replace_cluster(Arc::new(placed));
    }
}

/// Whether the next of some sorted numbers is this one, which is then read.
fn is_next(numbers: &mut Peekable<impl Iterator<Item = Number>>, number: Number) -> bool {
    numbers.next_if_eq(&number).is_some()
}

impl Fleet {
    /// What the profiles of a cluster say together, shared. None if it matches no profile.
    pub fn baseline(&self, cluster: &Cluster) -> Option<&Arc<Baseline>> {
        self.profiles.baseline(cluster.number())
    }

    /// What the profiles of a cluster say together.
    pub(crate) fn merged_profiles(&self, cluster: &Cluster) -> &Baseline {
        self.baseline(cluster).map_or(Baseline::none(), |baseline| &**baseline)
    }

    /// Whether a cluster has references to definitions of a kind, of its own or by its profiles.
    pub(crate) fn has_references(&self, cluster: &Cluster, kind: &str) -> bool {
        cluster.own(kind) > 0 || self.merged_profiles(cluster).count(kind) > 0
    }
}
