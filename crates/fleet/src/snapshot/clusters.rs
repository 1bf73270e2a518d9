//! The clusters of a fleet, by id and by number.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use super::{Cluster, ClusterSet, Number};

#[derive(Clone, Debug, Default)]
pub(super) struct Clusters {
    by_id: OrdMap<Arc<str>, Arc<Cluster>>,
    /// By number. None: no cluster has it.
    numbered: Vector<Option<Arc<Cluster>>>,
    /// The numbers that no cluster has any more.
    free: ClusterSet,
}

impl Clusters {
    pub(super) fn by_id(&self) -> &OrdMap<Arc<str>, Arc<Cluster>> {
        &self.by_id
    }

    /// The number that the next new cluster gets.
    pub(super) fn next_number(&self) -> Number {
        let unused = || Number::try_from(self.numbered.len()).expect("a fleet has less than four billion clusters");
        self.free.numbers().next().unwrap_or_else(unused)
    }

    /// Puts a cluster in the place of the one with its number, or of none.
    pub(super) fn put(&mut self, cluster: Arc<Cluster>) {
        let place = cluster.number() as usize;
        match place == self.numbered.len() {
            true => self.numbered.push_back(Some(cluster.clone())),
            false => {
                self.free.remove(cluster.number());
                self.numbered.set(place, Some(cluster.clone()));
            }
        }
        self.by_id.insert(cluster.document().id.clone(), cluster);
    }

    pub(super) fn remove(&mut self, id: &str) {
        if let Some(cluster) = self.by_id.remove(id) {
            self.numbered.set(cluster.number() as usize, None);
            self.free.insert(cluster.number());
        }
    }

    pub(super) fn numbered(&self, number: Number) -> Option<&Arc<Cluster>> {
        self.numbered.get(number as usize)?.as_ref()
    }

    /// The clusters of a set, sorted by id.
    pub(super) fn sorted<'a>(&'a self, set: ClusterSet) -> Box<dyn Iterator<Item = &'a Arc<Cluster>> + 'a> {
        /// Beyond this share of the fleet, to look at every cluster is faster than to sort.
        const MANY: usize = 16;
        if set.len() > self.by_id.len() / MANY {
            return Box::new(
                self.by_id
                    .values()
                    .filter(move |cluster| set.contains(cluster.number())),
            );
        }
        let mut found: Vec<_> = set.numbers().filter_map(|number| self.numbered(number)).collect();
        // Stable, because that is fast where most are sorted already: a store is loaded in the order of ids.
        found.sort_by(|one, other| one.document().id.cmp(&other.document().id));
        Box::new(found.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::json::Json;
    use crate::kind::Kinds;
    use crate::snapshot::ClusterOutline;

    fn put(clusters: &mut Clusters, id: &str) -> Number {
        let number = clusters.next_number();
        let document = Document::new(id.into(), Json::from_canonical("{}"));
        let (outline, kinds) = (ClusterOutline::default(), Kinds::default());
        clusters.put(Arc::new(Cluster::new(
            number,
            document,
            &outline,
            "dev".into(),
            &kinds,
            None,
        )));
        number
    }

    fn sorted(clusters: &Clusters, numbers: &[Number]) -> Vec<String> {
        let found = clusters.sorted(numbers.iter().copied().collect());
        found.map(|cluster| cluster.document().id.to_string()).collect()
    }

    #[test]
    fn clusters_have_numbers_which_are_used_again_and_sets_are_sorted_by_id() {
        let mut clusters = Clusters::default();
        let numbers: Vec<Number> = ["d", "b", "c", "a"].iter().map(|id| put(&mut clusters, id)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(sorted(&clusters, &[0, 1, 3]), ["a", "b", "d"]);
        clusters.remove("b");
        clusters.remove("nobody");
        assert_eq!(sorted(&clusters, &[0, 1, 3]), ["a", "d"], "what is gone is left out");
        assert_eq!(put(&mut clusters, "e"), 1);
        assert_eq!(put(&mut clusters, "f"), 4);
        assert_eq!(sorted(&clusters, &[1, 0]), ["d", "e"]);
        // Few of many are sorted, many are found in the order of ids: both ways give the same.
        for n in 0..100 {
            put(&mut clusters, &format!("x{:02}", 99 - n));
        }
        assert_eq!(sorted(&clusters, &[104, 5, 0]), ["d", "x00", "x99"]);
    }
}
