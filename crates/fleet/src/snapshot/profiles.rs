//! Which clusters match which profiles, brought up to date at the end of an edit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Edit;
use crate::kind::CLUSTERS;
use crate::profile::Profile;
use crate::selector::Matcher;

/// What may have changed about profiles since they were settled last.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Profiles that were put or removed.
    pub(super) profiles: BTreeSet<Arc<str>>,
    /// Clusters that were put. Not kept while there are no profiles.
    pub(super) clusters: Vec<Arc<str>>,
    /// Kinds changed: selectors may be read differently, and references merged differently.
    pub(super) kinds: bool,
}

impl Edit {
    /// Gives every cluster the profiles that it matches now.
    pub(crate) fn settle_profiles(&mut self) {
        let unsettled = std::mem::take(&mut self.unsettled);
        let mut candidates: BTreeSet<Arc<str>> = unsettled.clusters.into_iter().collect();
        if unsettled.kinds {
            self.fleet.profiles.dissolve(|_| true);
            candidates.extend(self.fleet.clusters.keys().cloned());
        } else if !unsettled.profiles.is_empty() {
            candidates.extend(self.fleet.profiles.dissolve(|id| unsettled.profiles.contains(id)));
            for profile in unsettled.profiles.iter().filter_map(|id| self.fleet.profiles.get(id)) {
                let matching = profile.selector.select(&self.fleet);
                candidates.extend(matching.map(|cluster| cluster.document().id.clone()));
            }
        }
        if candidates.is_empty() {
            return;
        }
        let kinds = self.fleet.kinds.clone();
        let Some(clusters) = kinds.get(CLUSTERS) else { return };
        let profiles = self.fleet.profiles.in_order();
        let matchers: Vec<(&Arc<Profile>, Matcher)> = profiles
            .iter()
            .map(|profile| (profile, profile.selector.on(clusters)))
            .collect();
        for id in &candidates {
            self.place(id, &matchers);
        }
    }

    /// Gives one cluster its profiles.
    fn place(&mut self, id: &Arc<str>, profiles: &[(&Arc<Profile>, Matcher)]) {
        let Some(cluster) = self.fleet.clusters.get(id).cloned() else {
            return;
        };
        let matching = profiles.iter().filter(|(_, matcher)| matcher.matches(&cluster));
        let matching: Vec<Arc<Profile>> = matching.map(|(profile, _)| Arc::clone(profile)).collect();
        if let Some(old) = cluster.baseline() {
            self.fleet.profiles.leave(old, id);
        }
        let kinds = self.fleet.kinds.clone();
        let baseline = self.fleet.profiles.join(&kinds, &matching, id);
        if baseline.as_ref().map(Arc::as_ptr) == cluster.baseline().map(Arc::as_ptr) {
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
