//! Clusters as sets that may overlap: to unite large ones would take longer than what is done with them.

use std::sync::Arc;

use imbl::OrdSet;

/// Some clusters, by id.
#[derive(Clone, Debug, Default)]
pub struct ClusterSets(Vec<OrdSet<Arc<str>>>);

impl ClusterSets {
    pub(crate) fn add(&mut self, set: &OrdSet<Arc<str>>) {
        let is_known = |known: &OrdSet<Arc<str>>| known.ptr_eq(set);
        if !set.is_empty() && !self.0.iter().any(is_known) {
            self.0.push(set.clone());
        }
    }

    pub(crate) fn add_all(&mut self, other: &ClusterSets) {
        other.0.iter().for_each(|set| self.add(set));
    }

    /// Each cluster once, sorted.
    pub fn sorted(&self) -> Vec<Arc<str>> {
        let mut all: Vec<Arc<str>> = self.0.iter().flatten().cloned().collect();
        if self.0.len() > 1 {
            all.sort_unstable();
            all.dedup();
        }
        all
    }
}

impl<'a> FromIterator<&'a OrdSet<Arc<str>>> for ClusterSets {
    fn from_iter<T: IntoIterator<Item = &'a OrdSet<Arc<str>>>>(sets: T) -> Self {
        let mut all = ClusterSets::default();
        sets.into_iter().for_each(|set| all.add(set));
        all
    }
}
