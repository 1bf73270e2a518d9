//! Which clusters match which profiles, brought up to date at the end of an edit.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Cluster, Edit};
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
        let mut matching: HashMap<Arc<str>, Vec<Arc<Profile>>> = HashMap::new();
        for id in self.fleet.profiles.dissolve(is_changed).sorted() {
            matching.insert(id, Vec::new());
        }
        for profile in unsettled.profiles.iter().filter_map(|id| self.fleet.profiles.get(id)) {
            for cluster in profile.selector.select(&self.fleet) {
                let found = matching.entry(cluster.document().id.clone()).or_default();
                found.push(profile.clone());
            }
        }
        matching.retain(|id, _| !unsettled.clusters.contains(id));
        for (id, mut profiles) in matching {
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
