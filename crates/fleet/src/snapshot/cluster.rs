//! A cluster of the snapshot, and its cached replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::cell::Cell;
use crate::document::Document;
use crate::inputs;
use crate::json::Json;
use crate::kind::{CLUSTERS, Kind, Kinds};
use crate::profile::{Baseline, Differences};

/// The identity of a cluster: what each of its inputs carries, and what it is looked up by.
#[derive(Debug)]
pub struct ClusterHead {
    pub document: Document,
    pub name: Box<str>,
    /// As it was written.
    pub dns: Arc<str>,
    /// In lower case, for lookup.
    pub dns_key: Arc<str>,
    pub environment: Box<str>,
    /// The labels that inputs of some kind carry, by name.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub protected: bool,
}

/// A cluster and its replies, each created by the first poll that needs it.
#[derive(Debug)]
pub struct Cluster {
    pub(super) head: Arc<ClusterHead>,
    /// None: it matches no profile.
    baseline: Option<Arc<Baseline>>,
    lists: Box<[List]>,
}

/// The references of a cluster to one kind.
#[derive(Clone, Debug)]
pub(super) struct List {
    kind: Arc<str>,
    /// How many the cluster itself has.
    pub(super) own: usize,
    /// An upper bound on the number of inputs, without rollouts.
    pub(super) count: usize,
    pub(super) reply: Cell,
}

/// The value that no two resources of a kind may share ([`crate::log::Change::unique`]), from the document.
pub fn unique_of(kind: &str, body: &Json) -> Option<String> {
    let value: Value = (kind == CLUSTERS).then(|| serde_json::from_str(body.as_str()).ok())??;
    Some(value.get("cluster_dns")?.as_str()?.to_ascii_lowercase())
}

impl Cluster {
    pub(super) fn new(document: Document, value: &Value, kinds: &Kinds, baseline: Option<Arc<Baseline>>) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let dns: Arc<str> = text("cluster_dns").into();
        let dns_key = match dns.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => dns.to_ascii_lowercase().into(),
            false => dns.clone(),
        };
        let lists = lists(kinds, baseline.as_deref(), |kind| inputs::references(kind, value).len());
        Cluster {
            head: Arc::new(ClusterHead {
                document,
                name: text("cluster_name").into(),
                dns,
                dns_key,
                environment: text("environment").into(),
                labels: carried_labels(value, kinds),
                protected: value.get("protected").and_then(Value::as_bool).unwrap_or_default(),
            }),
            baseline,
            lists,
        }
    }

    /// The same cluster with other profiles, without the replies that may differ.
    pub(super) fn with_baseline(&self, kinds: &Kinds, baseline: Option<Arc<Baseline>>, changed: &Differences) -> Self {
        let own = |kind: &Kind| self.list(&kind.name).map_or(0, |list| list.own);
        let mut lists = lists(kinds, baseline.as_deref(), own);
        for list in lists.iter_mut().filter(|list| !changed.contains_key(&list.kind)) {
            if let Some(old) = self.list(&list.kind) {
                list.reply = old.reply.clone();
            }
        }
        Cluster {
            head: self.head.clone(),
            baseline,
            lists,
        }
    }

    pub fn head(&self) -> &ClusterHead {
        &self.head
    }

    /// Whether both have the same document and the same profiles, whatever their replies.
    pub fn is_same(&self, other: &Cluster) -> bool {
        let address = |cluster: &Cluster| cluster.baseline.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.head, &other.head) && address(self) == address(other)
    }

    pub fn document(&self) -> &Document {
        &self.head.document
    }

    /// What its profiles say together. None if it matches no profile.
    pub fn baseline(&self) -> Option<&Arc<Baseline>> {
        self.baseline.as_ref()
    }

    /// What its profiles say together.
    pub(crate) fn merged_profiles(&self) -> &Baseline {
        self.baseline.as_deref().unwrap_or(Baseline::none())
    }

    /// Whether it refers to any definition of a kind.
    pub(crate) fn refers_to(&self, kind: &str) -> bool {
        self.list(kind).is_some()
    }

    pub(super) fn list(&self, kind: &str) -> Option<&List> {
        self.lists.iter().find(|list| &*list.kind == kind)
    }

    /// Keeps the replies of the previous version, with the same profiles, where both documents agree on everything in them: most
    /// writes change one kind.
    pub(super) fn keep_replies(&mut self, value: &Value, old: &Cluster, old_value: &Value, kinds: &Kinds) {
        let has_profiles = self.baseline.is_some();
        for list in &mut self.lists {
            let made = old.list(&list.kind).and_then(|made| made.reply.without_rollouts());
            if let (Some(made), Some(kind)) = (made, kinds.get(&list.kind))
                && inputs::cluster_block(kind, &self.head) == inputs::cluster_block(kind, &old.head)
                && inputs::own_part(kind, value, has_profiles) == inputs::own_part(kind, old_value, has_profiles)
            {
                list.reply = made;
            }
        }
    }

    /// The same cluster, without its cached reply for `kind`.
    pub(super) fn without_reply(&self, kind: &str) -> Self {
        let mut lists = self.lists.clone();
        for list in lists.iter_mut().filter(|list| &*list.kind == kind) {
            list.reply = Cell::default();
        }
        Cluster {
            head: self.head.clone(),
            baseline: self.baseline.clone(),
            lists,
        }
    }
}

/// The lists that a cluster has: by its own references, or by its profiles.
fn lists(kinds: &Kinds, baseline: Option<&Baseline>, own: impl Fn(&Kind) -> usize) -> Box<[List]> {
    let lists = kinds.definitions().filter_map(|kind| {
        let own = own(kind);
        let count = own + baseline.map_or(0, |baseline| baseline.count(&kind.name));
        let kind = kind.name.clone();
        let reply = Cell::default();
        (count > 0).then_some(List {
            kind,
            own,
            count,
            reply,
        })
    });
    lists.collect()
}

/// The labels of a cluster that inputs of some kind carry.
fn carried_labels(cluster: &Value, kinds: &Kinds) -> Box<[(Box<str>, Box<str>)]> {
    let wanted = kinds.definitions().flat_map(|kind| &kind.flux.cluster_labels);
    let found = wanted.filter_map(|name| Some((name.as_str(), cluster.get("labels")?.get(name)?.as_str()?)));
    let sorted: BTreeMap<&str, &str> = found.collect();
    let owned = sorted.into_iter().map(|(name, value)| (name.into(), value.into()));
    owned.collect()
}
