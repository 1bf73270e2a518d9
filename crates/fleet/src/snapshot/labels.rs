//! Which clusters have which labels, so that a selector need not look at every cluster.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde_json::Value;

/// The clusters by label key and value.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(OrdMap<Arc<str>, Values>);

/// The clusters by the value of one label.
type Values = OrdMap<Arc<str>, OrdSet<Arc<str>>>;

impl Labels {
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| &**key)
    }

    pub(super) fn clusters(&self, key: &str, value: &str) -> Option<&OrdSet<Arc<str>>> {
        self.0.get(key)?.get(value)
    }

    /// Follows the labels of one cluster from one document to another.
    pub(super) fn follow(&mut self, cluster: &Arc<str>, before: Option<&Value>, after: Option<&Value>) {
        for (key, value) in labels(before) {
            if label(after, key).as_ref() != Some(&value) {
                self.remove(key, &value, cluster);
            }
        }
        for (key, value) in labels(after) {
            if label(before, key).as_ref() != Some(&value) {
                self.add(key, &value, cluster);
            }
        }
    }

    fn add(&mut self, key: &str, value: &str, cluster: &Arc<str>) {
        let values = match self.0.get_mut(key) {
            Some(values) => values,
            None => self.0.entry(key.into()).or_default(),
        };
        match values.get_mut(value) {
            Some(clusters) => clusters.insert(cluster.clone()),
            None => values.entry(value.into()).or_default().insert(cluster.clone()),
        };
    }

    fn remove(&mut self, key: &str, value: &str, cluster: &str) {
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

fn labels(document: Option<&Value>) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let labels = document.and_then(|document| document.get("labels")?.as_object());
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), text(value)?)))
}

fn label<'a>(document: Option<&'a Value>, key: &str) -> Option<Cow<'a, str>> {
    text(document?.get("labels")?.get(key)?)
}

/// A label as selectors see it. The schema of clusters may allow other values than text.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.into()),
        other => Some(other.to_string().into()),
    }
}
