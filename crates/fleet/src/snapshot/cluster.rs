//! A cluster of the snapshot, and its cached replies.

use std::any::Any;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Number;
use super::cell::Cell;
use super::outline::ClusterOutline;
use crate::document::Document;
use crate::inputs;
use crate::json::Json;
use crate::kind::{CLUSTERS, Kinds};
use crate::profile::Baseline;

/// The identity of a cluster: what each of its inputs carries, and what it is looked up by.
#[derive(Debug)]
pub struct ClusterHead {
    pub document: Document,
    pub name: Box<str>,
    /// As it was written.
    pub dns: Arc<str>,
    /// In lower case, for lookup.
    pub dns_key: Arc<str>,
    /// Clusters that were loaded together share it.
    pub environment: Arc<str>,
    /// The labels that inputs of some kind carry, by name.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub protected: bool,
    /// Whether it has patches of its own.
    pub has_patches: bool,
    /// A place for data of the process about the cluster, so that a poll finds it without a lookup. It is no part of the fleet, and the fleet never
    /// reads it.
    pub kept: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// A cluster and its replies, each created by the first poll that needs it.
#[derive(Debug)]
pub struct Cluster {
    number: Number,
    pub(super) head: Arc<ClusterHead>,
    lists: Box<[List]>,
}

/// The references of a cluster to one kind, of its own or by its profiles.
#[derive(Clone, Debug)]
pub(super) struct List {
    kind: Arc<str>,
    /// How many the cluster itself has.
    own: u32,
    pub(super) reply: Cell,
}

impl List {
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }
}

/// The value that no two resources of a kind may share ([`crate::log::Change::unique`]), from the document.
pub fn unique_of(kind: &str, body: &Json) -> Option<String> {
    let value: Value = (kind == CLUSTERS).then(|| serde_json::from_str(body.as_str()).ok())??;
    Some(value.get("cluster_dns")?.as_str()?.to_ascii_lowercase())
}

/// As [`Cluster::is_same`] has it: replies, which are made when they are asked for, do not count.
impl PartialEq for Cluster {
    fn eq(&self, other: &Cluster) -> bool {
        self.is_same(other)
    }
}

impl Cluster {
    pub(super) fn new(
        number: Number,
        document: Document,
        outline: &ClusterOutline<'_>,
        environment: Arc<str>,
        kinds: &Kinds,
        profiles: Option<&Baseline>,
    ) -> Self {
        let dns: Arc<str> = (&*outline.dns).into();
        let dns_key = match dns.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => dns.to_ascii_lowercase().into(),
            false => dns.clone(),
        };
        let own = outline.references.iter().map(Vec::len);
        let lists = lists(kinds, profiles, own);
        Cluster {
            number,
            head: Arc::new(ClusterHead {
                document,
                name: (&*outline.name).into(),
                dns,
                dns_key,
                environment,
                labels: carried_labels(outline, kinds),
                protected: outline.protected,
                has_patches: outline.has_patches,
                kept: OnceLock::new(),
            }),
            lists,
        }
    }

    /// The same cluster with other profiles. It keeps its replies of some kinds.
    pub(super) fn with_profiles(
        &self,
        kinds: &Kinds,
        profiles: Option<&Baseline>,
        is_kept: impl Fn(&Arc<str>) -> bool,
    ) -> Self {
        let mut lists = lists(kinds, profiles, kinds.definitions().map(|kind| self.own(&kind.name)));
        for list in lists.iter_mut().filter(|list| is_kept(&list.kind)) {
            if let Some(old) = self.list(&list.kind) {
                list.reply = old.reply.clone();
            }
        }
        Cluster {
            number: self.number,
            head: self.head.clone(),
            lists,
        }
    }

    /// Its number in the fleet.
    pub fn number(&self) -> Number {
        self.number
    }

    pub fn head(&self) -> &ClusterHead {
        &self.head
    }

    pub(crate) fn shared_head(&self) -> &Arc<ClusterHead> {
        &self.head
    }

    /// Whether both have the same document, whatever their replies.
    pub fn is_same(&self, other: &Cluster) -> bool {
        Arc::ptr_eq(&self.head, &other.head)
    }

    pub fn document(&self) -> &Document {
        &self.head.document
    }

    /// How many references to a kind it has itself.
    pub(crate) fn own(&self, kind: &str) -> usize {
        self.list(kind).map_or(0, |list| list.own as usize)
    }

    pub(super) fn has_list(&self, kind: &str) -> bool {
        self.list(kind).is_some()
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = &List> {
        self.lists.iter()
    }

    pub(super) fn list(&self, kind: &str) -> Option<&List> {
        self.lists.iter().find(|list| &*list.kind == kind)
    }

    /// Keeps the replies of the previous version, with the same profiles, where both documents agree on everything in them: most
    /// writes change one kind.
    pub(super) fn keep_replies(&mut self, old: &Cluster, kinds: &Kinds) {
        let documents = LazyCell::new(|| [&*self.head, &*old.head].map(|head| head.document.body.fields()));
        for list in &mut self.lists {
            let made = old.list(&list.kind).and_then(|made| made.reply.without_rollouts());
            let (Some(made), Some(kind)) = (made, kinds.get(&list.kind)) else {
                continue;
            };
            let [Some(new_fields), Some(old_fields)] = &*documents else {
                return;
            };
            let patches = kind.flux.patches.then_some("patches");
            let mut own = kind.references.as_deref().into_iter().chain(patches);
            if inputs::cluster_block(kind, &self.head) == inputs::cluster_block(kind, &old.head)
                && own.all(|field| new_fields.text(field) == old_fields.text(field))
            {
                list.reply = made;
            }
        }
    }
}

/// The lists that a cluster has: by its own references, or by its profiles. `own`: the number of its own references, per kind.
fn lists(kinds: &Kinds, profiles: Option<&Baseline>, own: impl Iterator<Item = usize>) -> Box<[List]> {
    let lists = kinds.definitions().zip(own).filter_map(|(kind, own)| {
        let brought = profiles.map_or(0, |profiles| profiles.count(&kind.name));
        (own + brought > 0).then(|| List {
            kind: kind.name.clone(),
            own: u32::try_from(own).unwrap_or(u32::MAX),
            reply: Cell::default(),
        })
    });
    lists.collect()
}

/// The labels of a cluster that inputs of some kind carry.
fn carried_labels(cluster: &ClusterOutline<'_>, kinds: &Kinds) -> Box<[(Box<str>, Box<str>)]> {
    let wanted = kinds.definitions().flat_map(|kind| &kind.flux.cluster_labels);
    let found = wanted.filter_map(|name| {
        let label = cluster.label(name).filter(|label| label.is_text)?;
        Some((name.as_str(), &*label.value))
    });
    let sorted: BTreeMap<&str, &str> = found.collect();
    let owned = sorted.into_iter().map(|(name, value)| (name.into(), value.into()));
    owned.collect()
}
