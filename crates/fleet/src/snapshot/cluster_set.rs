//! Sets of clusters as bitmaps of their numbers. A definition that a million clusters refer to takes a bit for each, and to unite or to
//! intersect large sets costs next to nothing.

use std::sync::Arc;

use roaring::RoaringBitmap;

/// The number of a cluster in its fleet. A cluster keeps it as long as it exists; then another one may get it.
pub type Number = u32;

/// Some clusters of a fleet, by number. Copies share their content until one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSet(Arc<RoaringBitmap>);

impl ClusterSet {
    pub fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, number: Number) -> bool {
        self.0.contains(number)
    }

    /// The numbers, sorted.
    pub fn numbers(&self) -> impl Iterator<Item = Number> {
        self.0.iter()
    }

    pub(crate) fn insert(&mut self, number: Number) {
        Arc::make_mut(&mut self.0).insert(number);
    }

    pub(crate) fn remove(&mut self, number: Number) {
        Arc::make_mut(&mut self.0).remove(number);
    }

    /// Takes out the clusters of another set.
    pub(crate) fn subtract(&mut self, other: &ClusterSet) {
        *Arc::make_mut(&mut self.0) -= &*other.0;
    }

    /// Adds the clusters of another set.
    pub(crate) fn unite(&mut self, other: &ClusterSet) {
        if self.is_empty() {
            self.clone_from(other);
        } else if !Arc::ptr_eq(&self.0, &other.0) {
            *Arc::make_mut(&mut self.0) |= &*other.0;
        }
    }

    /// Keeps only the clusters that another set has, too.
    pub(crate) fn intersect(&mut self, other: &ClusterSet) {
        if !Arc::ptr_eq(&self.0, &other.0) {
            *Arc::make_mut(&mut self.0) &= &*other.0;
        }
    }
}

impl FromIterator<Number> for ClusterSet {
    fn from_iter<T: IntoIterator<Item = Number>>(numbers: T) -> Self {
        ClusterSet(Arc::new(numbers.into_iter().collect()))
    }
}

impl FromIterator<ClusterSet> for ClusterSet {
    fn from_iter<T: IntoIterator<Item = ClusterSet>>(sets: T) -> Self {
        let mut all = ClusterSet::default();
        sets.into_iter().for_each(|set| all.unite(&set));
        all
    }
}

impl<'a> FromIterator<&'a ClusterSet> for ClusterSet {
    fn from_iter<T: IntoIterator<Item = &'a ClusterSet>>(sets: T) -> Self {
        let mut all = ClusterSet::default();
        sets.into_iter().for_each(|set| all.unite(set));
        all
    }
}
