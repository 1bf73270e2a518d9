//! A fleet that is being changed. Derived state that depends on several resources (DNS names, replies) is settled at the end, so
//! that changes may come in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use serde_json::Value;

use super::labels::Labels;
use super::profiles::Unsettled;
use super::{Cluster, ClusterSets, Fleet};
use crate::document::Document;
use crate::identity::IDENTITIES;
use crate::inputs::{reference_id, references};
use crate::json::Json;
use crate::kind::{
    CLUSTERS, DECOMMISSIONS, Failures, GUARDS, Kind, Kinds, PROFILES, RELEASED_NAMES, ROLLOUTS, Source, Trust,
};
use crate::profile::KnownDifferences;
use crate::rollout::Active;

pub(crate) struct Edit {
    pub(crate) fleet: Fleet,
    kinds_changed: bool,
    /// Whether something changed that rollouts are made of: they themselves, kinds, definitions, profiles.
    rollouts_unsettled: bool,
    /// Per kind, the clusters whose cached reply is out of date.
    dirty: BTreeMap<Arc<str>, ClusterSets>,
    /// Clusters whose DNS name belonged to another cluster when they were put.
    waiting: Vec<Arc<str>>,
    pub(super) unsettled: Unsettled,
    /// Per kind, the clusters whose reply changed because of their profiles.
    pub(super) placed: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    pub(super) differences: KnownDifferences,
    /// The clusters' documents that were read last: one write needs the same document several times.
    parsed: BTreeMap<Arc<str>, Arc<Value>>,
}

impl Edit {
    pub(crate) fn new(fleet: Fleet) -> Self {
        Edit {
            fleet,
            kinds_changed: false,
            rollouts_unsettled: false,
            dirty: BTreeMap::new(),
            waiting: Vec::new(),
            unsettled: Unsettled::default(),
            placed: BTreeMap::new(),
            differences: KnownDifferences::default(),
            parsed: BTreeMap::new(),
        }
    }

    /// The document of a cluster as it is now.
    pub(crate) fn cluster_value(&mut self, id: &str) -> Option<Arc<Value>> {
        let cluster = self.fleet.clusters.get(id)?;
        if let Some(value) = self.parsed.get(id) {
            return Some(value.clone());
        }
        let (id, value) = (cluster.document().id.clone(), Arc::new(cluster.document().body.parse()));
        self.keep_parsed(id, value.clone());
        Some(value)
    }

    fn keep_parsed(&mut self, id: Arc<str>, value: Arc<Value>) {
        // A write that selects the whole fleet must not keep it all parsed.
        const MOST: usize = 64;
        if self.parsed.len() >= MOST {
            self.parsed.clear();
        }
        self.parsed.insert(id, value);
    }

    pub(crate) fn put_kind(&mut self, name: Arc<str>, source: Option<Source>) {
        self.kinds_changed = true;
        match source {
            Some(source) => self.fleet.sources.insert(name, source),
            None => self.fleet.sources.remove(&name),
        };
    }

    /// The work of [`Edit::settle_kinds`], counted in resources that are put: kinds are compiled, and clusters are read again. The
    /// first time, reading clusters is free: the largest fleet must be able to change a kind.
    pub(crate) fn work_of_kinds(&self, again: bool) -> usize {
        const WORK_PER_KIND: usize = 50;
        const CLUSTERS_PER_WORK: usize = 4;
        let clusters = if again { self.fleet.clusters.len() } else { 0 };
        let Fleet { sources, kinds, .. } = &self.fleet;
        let built = sources
            .iter()
            .filter(|(name, source)| kinds.unchanged(name, source).is_none());
        built.count() * WORK_PER_KIND + sources.len() + clusters / CLUSTERS_PER_WORK
    }

    /// Puts changed kinds into effect. If there is a problem with any of them, the old ones stay in effect.
    pub(crate) fn settle_kinds(&mut self, trust: Trust) -> Result<(), Failures> {
        if !self.kinds_changed {
            return Ok(());
        }
        let kinds = Kinds::build(&self.fleet.sources, &self.fleet.kinds, trust)?;
        self.kinds_changed = false;
        self.rollouts_unsettled = true;
        self.unsettled.kinds |= !self.fleet.profiles.is_empty();
        let before = std::mem::replace(&mut self.fleet.kinds, Arc::new(kinds));
        let after = self.fleet.kinds.clone();
        let definitions = &mut self.fleet.definitions;
        definitions.retain(|name, _| after.get(name).is_some());
        let mut must_index = false;
        for kind in after.definitions() {
            definitions.entry(kind.name.clone()).or_default();
            match before.get(&kind.name) {
                Some(old) if old.etag == kind.etag => {}
                Some(old) if old.references == kind.references => {
                    let dirty = self.dirty.entry(kind.name.clone()).or_default();
                    dirty.add(&definitions[&kind.name].all_users());
                    dirty.add_all(&self.fleet.profiles.all_users(kind));
                    // Clusters keep the labels that inputs carry.
                    must_index |= old.flux.cluster_labels != kind.flux.cluster_labels;
                }
                // Clusters may have the kind's array already, if their schema is open.
                _ => must_index = true,
            }
        }
        if must_index && !self.fleet.clusters.is_empty() {
            self.index_clusters();
        }
        Ok(())
    }

    /// Reads the references and labels of every cluster again.
    fn index_clusters(&mut self) {
        for definitions in self.fleet.definitions.values_mut() {
            definitions.forget_users();
        }
        self.fleet.labels = Labels::default();
        for (id, old) in self.fleet.clusters.clone() {
            let value = old.document().body.parse();
            let cluster = Arc::new(Cluster::new(
                old.document().clone(),
                &value,
                &self.fleet.kinds,
                old.baseline().cloned(),
            ));
            self.index(&id, None, Some(&value));
            // A cluster that waits for a DNS name does not take it from the one that has it.
            if let Some(holder) = self.fleet.by_dns.get_mut(&cluster.head.dns_key)
                && holder.document().id == id
            {
                *holder = cluster.clone();
            }
            self.fleet.clusters.insert(id, cluster);
        }
    }

    /// Puts or removes a resource that is not a kind. `value` is the parsed `after`, if the caller has it.
    pub(crate) fn put(
        &mut self,
        kind: &str,
        id: Arc<str>,
        after: Option<Json>,
        value: Option<Value>,
    ) -> Result<(), String> {
        match kind {
            CLUSTERS => self.put_cluster(id, after, value),
            DECOMMISSIONS => put_name(&mut self.fleet.decommissions, id, after),
            RELEASED_NAMES => put_name(&mut self.fleet.released_names, id, after),
            IDENTITIES => {
                let Fleet {
                    identities, clusters, ..
                } = &mut self.fleet;
                let shared = |cluster: &str| clusters.get(cluster).map(|cluster| cluster.document().id.clone());
                identities.put(&id, after, |cluster| shared(cluster).unwrap_or_else(|| cluster.into()))?;
            }
            PROFILES => {
                self.fleet.profiles.put(id.clone(), after)?;
                self.unsettled.profiles.insert(id);
                self.rollouts_unsettled = true;
            }
            ROLLOUTS => {
                self.fleet.rollouts.put(id, after)?;
                self.rollouts_unsettled = true;
            }
            GUARDS => self.fleet.guards.put(id, after)?,
            kind => {
                let Some(definitions) = self.fleet.definitions.get_mut(kind) else {
                    return Err(format!(
                        "the store has \"{id}\" of the kind \"{kind}\", which does not exist"
                    ));
                };
                definitions.put(id.clone(), after, value);
                let dirty = self.dirty.entry(kind.into()).or_default();
                self.fleet.add_users(kind, &id, dirty);
                self.rollouts_unsettled = true;
            }
        }
        Ok(())
    }

    fn put_cluster(&mut self, id: Arc<str>, after: Option<Json>, value: Option<Value>) {
        let old = self.fleet.clusters.get(&id).cloned();
        let old_value = self.cluster_value(&id);
        if let Some(old) = &old {
            self.release_dns(old);
        }
        let baseline = old.as_ref().and_then(|old| old.baseline().cloned());
        let Some(body) = after else {
            self.index(&id, old_value.as_deref(), None);
            if let Some(baseline) = &baseline {
                self.fleet.profiles.leave(baseline, &id);
            }
            self.fleet.clusters.remove(&id);
            self.parsed.remove(&id);
            return;
        };
        let value = value.unwrap_or_else(|| body.parse());
        let document = Document::new(id.clone(), body);
        let mut cluster = Cluster::new(document, &value, &self.fleet.kinds, baseline);
        if !self.fleet.profiles.is_empty() {
            self.unsettled.clusters.insert(id.clone());
        }
        // Another label may promote it, or match another patched profile.
        let is_settled = self.fleet.rollouts.active().is_none();
        if let (Some(old), Some(old_value), true) = (&old, &old_value, is_settled) {
            cluster.keep_replies(&value, old, old_value, &self.fleet.kinds);
        }
        let cluster = Arc::new(cluster);
        self.index(&id, old_value.as_deref(), Some(&value));
        self.keep_parsed(id.clone(), Arc::new(value));
        let key = cluster.head.dns_key.clone();
        if self.fleet.by_dns.contains_key(&key) {
            self.waiting.push(id.clone());
        } else {
            self.fleet.by_dns.insert(key, cluster.clone());
        }
        self.fleet.clusters.insert(id, cluster);
    }

    /// Patches the shared documents that rollouts change, as they are now.
    pub(crate) fn settle_rollouts(&mut self) {
        if std::mem::take(&mut self.rollouts_unsettled) {
            let active = Active::of(&self.fleet);
            self.fleet.rollouts.set_active(active);
        }
    }

    fn release_dns(&mut self, cluster: &Cluster) {
        let key = &cluster.head.dns_key;
        let holder = self.fleet.by_dns.get(key);
        if holder.is_some_and(|holder| holder.document().id == cluster.document().id) {
            self.fleet.by_dns.remove(key);
        }
    }

    /// Keeps the indexes over clusters: which cluster refers to which definition, and which labels exist.
    fn index(&mut self, id: &Arc<str>, before: Option<&Value>, after: Option<&Value>) {
        self.index_references(id, before, after);
        self.fleet.labels.follow(id, before, after);
    }

    fn index_references(&mut self, id: &Arc<str>, before: Option<&Value>, after: Option<&Value>) {
        fn ids<'v>(kind: &Kind, value: Option<&'v Value>) -> impl Iterator<Item = &'v str> {
            let references = value.map_or(&[][..], |value| references(kind, value));
            references.iter().map(reference_id)
        }
        for kind in self.fleet.kinds.definitions() {
            // Most writes change something else.
            if ids(kind, before).eq(ids(kind, after)) {
                continue;
            }
            let Some(definitions) = self.fleet.definitions.get_mut(&kind.name) else {
                continue;
            };
            let old: BTreeSet<&str> = ids(kind, before).collect();
            let new: BTreeSet<&str> = ids(kind, after).collect();
            old.difference(&new).for_each(|gone| definitions.remove_user(gone, id));
            new.difference(&old).for_each(|added| definitions.add_user(added, id));
        }
    }

    /// Clusters that cannot have their DNS name, each with the cluster that has it.
    pub(crate) fn dns_clashes(&self) -> Vec<(Arc<Cluster>, Arc<Cluster>)> {
        let clusters = self.waiting.iter().filter_map(|id| self.fleet.clusters.get(id));
        let clashes = clusters.filter_map(|cluster| {
            let holder = self.fleet.by_dns.get(&cluster.head.dns_key)?;
            (holder.document().id != cluster.document().id).then(|| (cluster.clone(), holder.clone()))
        });
        clashes.collect()
    }

    /// Gives waiting clusters their DNS name, if it is free by now.
    pub(crate) fn settle_dns(&mut self) {
        for id in &self.waiting {
            if let Some(cluster) = self.fleet.clusters.get(id) {
                self.fleet
                    .by_dns
                    .entry(cluster.head.dns_key.clone())
                    .or_insert_with(|| cluster.clone());
            }
        }
    }

    /// The clusters whose reply changed because of a definition or a kind and not their own document, per kind.
    pub(crate) fn dirty(&self) -> &BTreeMap<Arc<str>, ClusterSets> {
        &self.dirty
    }

    /// The clusters whose reply changed because of their profiles, per kind.
    pub(crate) fn placed(&self) -> &BTreeMap<Arc<str>, Vec<Arc<str>>> {
        &self.placed
    }

    /// The changed fleet, with all derived state up to date.
    pub(crate) fn settle(mut self) -> Result<Fleet, String> {
        self.settle_profiles();
        self.settle_rollouts();
        self.settle_dns();
        if let Some((cluster, holder)) = self.dns_clashes().first() {
            let (one, two) = (&cluster.document().id, &holder.document().id);
            return Err(format!(
                "clusters \"{one}\" and \"{two}\" have the same DNS name {}",
                cluster.head.dns
            ));
        }
        for (kind, ids) in std::mem::take(&mut self.dirty) {
            for id in ids.sorted() {
                let Some(cluster) = self.fleet.clusters.get(&id) else {
                    continue;
                };
                let cluster = Arc::new(cluster.without_reply(&kind));
                self.fleet.by_dns.insert(cluster.head.dns_key.clone(), cluster.clone());
                self.fleet.clusters.insert(id, cluster);
            }
        }
        Ok(self.fleet)
    }
}

fn put_name(names: &mut OrdMap<Arc<str>, Arc<Document>>, id: Arc<str>, after: Option<Json>) {
    match after {
        Some(body) => names.insert(id.clone(), Arc::new(Document::new(id, body))),
        None => names.remove(&id),
    };
}
