//! Which clusters have which labels, so that a selector need not look at every cluster.

use std::borrow::Cow;
use std::sync::Arc;

use super::outline::{ClusterOutline, Label};
use super::{ClusterSet, Number};
use imbl::OrdMap;

/// The clusters by label key and value.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(OrdMap<Arc<str>, Values>);

/// The clusters by the value of one label.
type Values = OrdMap<Arc<str>, ClusterSet>;

impl Labels {
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| &**key)
    }

    pub(super) fn clusters(&self, key: &str, value: &str) -> Option<&ClusterSet> {
        self.0.get(key)?.get(value)
    }

    /// The values of a label, each with its clusters.
    pub(super) fn values(&self, key: &str) -> impl Iterator<Item = (&str, &ClusterSet)> {
        let values = self.0.get(key).into_iter().flatten();
        values.map(|(value, clusters)| (&**value, clusters))
    }

    /// Follows the labels of one cluster from one document to another.
    pub(super) fn follow(
        &mut self,
        cluster: Number,
        before: Option<&ClusterOutline<'_>>,
        after: Option<&ClusterOutline<'_>>,
    ) {
        for Label { key, value, .. } in labels(before) {
            if label(after, key) != Some(value) {
                self.remove(key, value, cluster);
            }
        }
        for Label { key, value, .. } in labels(after) {
            if label(before, key) != Some(value) {
                self.add(key, value, cluster);
            }
        }
    }

    fn add(&mut self, key: &str, value: &str, cluster: Number) {
        let values = match self.0.get_mut(key) {
            Some(values) => values,
            None => self.0.entry(key.into()).or_default(),
        };
        match values.get_mut(value) {
            Some(clusters) => clusters.insert(cluster),
            None => values.entry(value.into()).or_default().insert(cluster),
        }
    }

    fn remove(&mut self, key: &str, value: &str, cluster: Number) {
        let Some(values) = self.0.get_mut(key) else { return };
        if let Some(clusters) = values.get_mut(value) {
            clusters.remove(cluster);
            if clusters.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.0.remove(key);
        }
    }
}

fn labels<'o, 'a>(cluster: Option<&'o ClusterOutline<'a>>) -> impl Iterator<Item = &'o Label<'a>> {
    cluster.into_iter().flat_map(|cluster| &cluster.labels)
}

fn label<'o>(cluster: Option<&'o ClusterOutline<'_>>, key: &str) -> Option<&'o Cow<'o, str>> {
    cluster?.label(key).map(|label| &label.value)
}
