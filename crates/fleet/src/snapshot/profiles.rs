//! Which clusters match which profiles, brought up to date at the end of an edit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Cluster, Edit, Fleet};
use crate::kind::CLUSTERS;
use crate::profile::Profile;
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

impl Edit {
    /// Gives every cluster the profiles that it matches now.
    pub(crate) fn settle_profiles(&mut self) {
        /// Beyond this share of the fleet, selecting by each profile is faster than trying all profiles on each cluster.
        const MANY: usize = 16;
        let mut unsettled = std::mem::take(&mut self.unsettled);
        if unsettled.kinds || unsettled.clusters.len() > self.fleet.clusters.len() / MANY + 1000 {
            unsettled
                .profiles
                .extend(self.fleet.profiles.iter().map(|profile| profile.id().clone()));
            unsettled.clusters.clear();
        }
        if !unsettled.profiles.is_empty() {
            self.settle_changed(&unsettled);
        }
        if !unsettled.clusters.is_empty() {
            self.settle_written(&unsettled.clusters);
        }
    }

    /// Places the clusters that match a changed profile, before or after. What they match otherwise stays.
    fn settle_changed(&mut self, unsettled: &Unsettled) {
        let is_changed = |id: &Arc<str>| unsettled.profiles.contains(id);
        let mut candidates = self.fleet.profiles.dissolve(is_changed).sorted();
        let changed = unsettled.profiles.iter().filter_map(|id| self.fleet.profiles.get(id));
        let mut matching: Vec<Matching> = changed.map(|profile| Matching::of(profile, &self.fleet)).collect();
        candidates.extend(
            matching
                .iter()
                .flat_map(|matching| matching.clusters.as_slice().iter().cloned()),
        );
        candidates.sort_unstable();
        candidates.dedup();
        for id in candidates {
            // Every list of matching clusters is sorted, too, and is read once.
            let mut profiles: Vec<Arc<Profile>> = matching.iter_mut().filter_map(|one| one.next_is(&id)).collect();
            if unsettled.clusters.contains(&id) {
                continue;
            }
            let Some(cluster) = self.fleet.clusters.get(&id).cloned() else {
                continue;
            };
            let kept = cluster.merged_profiles().profiles().iter();
            profiles.extend(kept.filter(|profile| !is_changed(profile.id())).cloned());
            profiles.sort_by(|one, other| (one.priority, one.id()).cmp(&(other.priority, other.id())));
            self.place(&cluster, &profiles);
        }
    }

    /// Places clusters that were written: any profile may match.
    fn settle_written(&mut self, written: &BTreeSet<Arc<str>>) {
        let kinds = self.fleet.kinds.clone();
        let Some(kind) = kinds.get(CLUSTERS) else { return };
        let profiles = self.fleet.profiles.in_order();
        let matchers: Vec<Matcher> = profiles.iter().map(|profile| profile.selector.on(kind)).collect();
        for id in written {
            let Some(cluster) = self.fleet.clusters.get(id).cloned() else {
                continue;
            };
            let mut subject = Subject::new(&cluster);
            let all = profiles.iter().zip(&matchers);
            let matching = all.filter(|(_, matcher)| matcher.matches_subject(&mut subject));
            let matching: Vec<Arc<Profile>> = matching.map(|(profile, _)| profile.clone()).collect();
            self.place(&cluster, &matching);
        }
    }

    /// Gives one cluster its profiles, which are in the order of the merge.
    fn place(&mut self, cluster: &Arc<Cluster>, profiles: &[Arc<Profile>]) {
        let id = &cluster.document().id;
        let kinds = self.fleet.kinds.clone();
        if let Some(old) = cluster.baseline() {
            if self.fleet.profiles.is_current(old, profiles) {
                return;
            }
            self.fleet.profiles.leave(old, id);
        }
        let baseline = self.fleet.profiles.join(&kinds, profiles, id);
        if baseline.is_none() && cluster.baseline().is_none() {
            return;
        }
        let changed = self
            .differences
            .between(&cluster.baseline().cloned(), &baseline, &kinds);
        for kind in changed.keys() {
            self.placed.entry(kind.clone()).or_default().push(id.clone());
        }
        let placed = Arc::new(cluster.with_baseline(&kinds, baseline, &changed));
        if let Some(holder) = self.fleet.by_dns.get_mut(&placed.head.dns_key)
            && holder.document().id == *id
        {
            *holder = placed.clone();
        }
        self.fleet.clusters.insert(id.clone(), placed);
    }
}

/// A profile and the clusters that match it, sorted, as far as they are not read yet.
struct Matching {
    profile: Arc<Profile>,
    clusters: std::vec::IntoIter<Arc<str>>,
}

impl Matching {
    fn of(profile: &Arc<Profile>, fleet: &Fleet) -> Matching {
        let clusters = profile.selector.select(fleet);
        let clusters: Vec<Arc<str>> = clusters.map(|cluster| cluster.document().id.clone()).collect();
        Matching {
            profile: profile.clone(),
            clusters: clusters.into_iter(),
        }
    }

    /// The profile, if the next of its clusters is this one, which is then read.
    fn next_is(&mut self, id: &Arc<str>) -> Option<Arc<Profile>> {
        if self.clusters.as_slice().first() != Some(id) {
            return None;
        }
        self.clusters.next();
        Some(self.profile.clone())
    }
}
