//! A fleet that is being changed. Derived state that depends on several resources (DNS names, replies) is settled at the end, so
//! that changes may come in any order.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::hashmap::Entry;
use serde_json::Value;

use super::labels::Labels;
use super::outline::ClusterOutline;
use super::profiles::{Placed, Unsettled};
use super::{Cluster, ClusterSet, Fleet, Number};
use crate::document::{Document, Etag};
use crate::identity::IDENTITIES;
use crate::json::Json;
use crate::kind::{
    CLUSTERS, DECOMMISSIONS, Failures, GUARDS, KINDS, Kinds, PROFILES, RELEASED_NAMES, ROLLOUTS, Source, Trust,
};
use crate::rollout::Active;

pub(crate) struct Edit {
    pub(crate) fleet: Fleet,
    kinds_changed: bool,
    /// Whether something changed that rollouts are made of: they themselves, kinds, definitions, profiles.
    rollouts_unsettled: bool,
    /// Per kind, the clusters whose cached reply is out of date because the kind or a definition changed.
    dirty: BTreeMap<Arc<str>, Dirty>,
    /// Clusters whose DNS name belonged to another cluster when they were put.
    waiting: Vec<Arc<str>>,
    pub(super) unsettled: Unsettled,
    pub(super) placed: Placed,
    /// The names of environments, so that clusters share them.
    environments: HashSet<Arc<str>>,
    /// The clusters' documents that were read last: one write needs the same document several times.
    parsed: BTreeMap<Arc<str>, Arc<Value>>,
}

/// What changed about a kind.
#[derive(Default)]
struct Dirty {
    /// The clusters whose replies may differ.
    users: ClusterSet,
    /// The ids and versions of what was written.
    etags: Vec<(Arc<str>, Option<Etag>)>,
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
            placed: Placed::default(),
            environments: HashSet::new(),
            parsed: BTreeMap::new(),
        }
    }

    /// The document of a cluster as it is now.
    pub(crate) fn cluster_value(&mut self, id: &str) -> Option<Arc<Value>> {
        let cluster = self.fleet.cluster(id)?;
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
        let clusters = if again { self.fleet.clusters().len() } else { 0 };
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
            let own = definitions.entry(kind.name.clone()).or_default();
            if before.get(&kind.name).is_some_and(|old| old.etag != kind.etag) {
                own.forget_texts();
            }
            match before.get(&kind.name) {
                Some(old) if old.etag == kind.etag => {}
                Some(old) if old.references == kind.references => {
                    let dirty = self.dirty.entry(kind.name.clone()).or_default();
                    dirty.users.unite(&definitions[&kind.name].all_users());
                    dirty.users.unite(&self.fleet.profiles.all_users(kind));
                    dirty.etags.push((KINDS.into(), Some(kind.etag)));
                    // Clusters keep the labels that inputs carry. Marks are made of the path, so no cached reply may outlive it.
                    must_index |= old.flux.cluster_labels != kind.flux.cluster_labels || old.path != kind.path;
                }
                // Clusters may have the kind's array already, if their schema is open.
                _ => must_index = true,
            }
        }
        if must_index && !self.fleet.clusters().is_empty() {
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
        for old in self.fleet.clusters().clone().values() {
            let outline = ClusterOutline::of(old.document().body.as_str(), &self.fleet.kinds);
            let cluster = Arc::new(Cluster::new(
                old.number(),
                old.document().clone(),
                &outline,
                old.head.environment.clone(),
                &self.fleet.kinds,
                self.fleet.baseline(old).map(|profiles| &**profiles),
            ));
            self.index(old.number(), None, Some(&outline));
            self.replace_cluster(cluster);
        }
    }

    /// Puts another version of a cluster, with the same names.
    pub(super) fn replace_cluster(&mut self, cluster: Arc<Cluster>) {
        // A cluster that waits for a DNS name does not take it from the one that has it.
        if let Some(holder) = self.fleet.by_dns.get_mut(&cluster.head.dns_key)
            && holder.document().id == cluster.document().id
        {
            *holder = cluster.clone();
        }
        self.fleet.clusters.put(cluster);
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
            CLUSTERS => self.put_cluster(&id, after, value),
            DECOMMISSIONS => put_name(&mut self.fleet.decommissions, id, after),
            RELEASED_NAMES => put_name(&mut self.fleet.released_names, id, after),
            IDENTITIES => {
                let Fleet {
                    identities, clusters, ..
                } = &mut self.fleet;
                let shared = |cluster: &str| {
                    clusters
                        .by_id()
                        .get(cluster)
                        .map(|cluster| cluster.document().id.clone())
                };
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
                let etag = definitions.get(&id).map(|definition| definition.document.etag);
                let dirty = self.dirty.entry(kind.into()).or_default();
                dirty.users.unite(&self.fleet.users(kind, &id));
                dirty.etags.push((id, etag));
                self.rollouts_unsettled = true;
            }
        }
        Ok(())
    }

    pub(super) fn put_cluster(&mut self, id: &Arc<str>, after: Option<Json>, value: Option<Value>) {
        let old = self.fleet.cluster(id).cloned();
        let kinds = self.fleet.kinds.clone();
        let old_outline = old
            .as_ref()
            .map(|old| ClusterOutline::of(old.document().body.as_str(), &kinds));
        if let Some(old) = &old {
            self.release_dns(old);
        }
        let number = old
            .as_ref()
            .map_or_else(|| self.fleet.clusters.next_number(), |old| old.number());
        let Some(body) = after else {
            self.index(number, old_outline.as_ref(), None);
            self.fleet.profiles.leave(number);
            self.fleet.clusters.remove(id);
            self.parsed.remove(id);
            return;
        };
        let document = Document::new(id.clone(), body.clone());
        let outline = ClusterOutline::of(body.as_str(), &kinds);
        let environment = match &old {
            Some(old) if *old.head.environment == *outline.environment => old.head.environment.clone(),
            _ => self.environment(&outline.environment),
        };
        let profiles = self.fleet.profiles.baseline(number).map(|profiles| &**profiles);
        let mut cluster = Cluster::new(number, document, &outline, environment, &kinds, profiles);
        if !self.fleet.profiles.is_empty() {
            self.unsettled.clusters.insert(id.clone());
        }
        // Another label may promote it, or match another patched profile.
        let is_settled = self.fleet.rollouts.active().is_none();
        if let (Some(old), true) = (&old, is_settled) {
            cluster.keep_replies(old, &kinds);
        }
        let cluster = Arc::new(cluster);
        self.index(number, old_outline.as_ref(), Some(&outline));
        match value {
            Some(value) => self.keep_parsed(id.clone(), Arc::new(value)),
            None => drop(self.parsed.remove(id)),
        }
        self.add_cluster(cluster);
    }

    /// The name of an environment, shared.
    pub(super) fn environment(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.environments.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.environments.insert(new.clone());
        new
    }

    /// Puts a cluster that is indexed, with its DNS name if no other cluster has it.
    pub(super) fn add_cluster(&mut self, cluster: Arc<Cluster>) {
        match self.fleet.by_dns.entry(cluster.head.dns_key.clone()) {
            Entry::Occupied(_) => self.waiting.push(cluster.document().id.clone()),
            Entry::Vacant(place) => drop(place.insert(cluster.clone())),
        }
        self.fleet.clusters.put(cluster);
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
    pub(super) fn index(
        &mut self,
        cluster: Number,
        before: Option<&ClusterOutline<'_>>,
        after: Option<&ClusterOutline<'_>>,
    ) {
        self.index_references(cluster, before, after);
        self.fleet.labels.follow(cluster, before, after);
    }

    fn index_references(
        &mut self,
        cluster: Number,
        before: Option<&ClusterOutline<'_>>,
        after: Option<&ClusterOutline<'_>>,
    ) {
        for (position, kind) in self.fleet.kinds.definitions().enumerate() {
            let [old, new] =
                [before, after].map(|outline| outline.map_or(&[][..], |outline| &outline.references[position]));
            let Some(definitions) = self.fleet.definitions.get_mut(&kind.name).filter(|_| old != new) else {
                // Most writes change something else.
                continue;
            };
            let [before, after]: [HashSet<&str>; 2] = [old, new].map(|ids| ids.iter().map(|id| &**id).collect());
            let gone = old.iter().filter(|id| !after.contains(&***id));
            gone.for_each(|id| definitions.remove_user(id, cluster));
            let added = new.iter().filter(|id| !before.contains(&***id));
            added.for_each(|id| definitions.add_user(id, cluster));
        }
    }

    /// Clusters that cannot have their DNS name, each with the cluster that has it.
    pub(crate) fn dns_clashes(&self) -> Vec<(Arc<Cluster>, Arc<Cluster>)> {
        let clusters = self.waiting.iter().filter_map(|id| self.fleet.cluster(id));
        let clashes = clusters.filter_map(|cluster| {
            let holder = self.fleet.by_dns.get(&cluster.head.dns_key)?;
            (holder.document().id != cluster.document().id).then(|| (cluster.clone(), holder.clone()))
        });
        clashes.collect()
    }

    /// Gives waiting clusters their DNS name, if it is free by now.
    pub(crate) fn settle_dns(&mut self) {
        for id in &self.waiting {
            if let Some(cluster) = self.fleet.clusters.by_id().get(id) {
                self.fleet
                    .by_dns
                    .entry(cluster.head.dns_key.clone())
                    .or_insert_with(|| cluster.clone());
            }
        }
    }

    /// The clusters whose reply changed because of a definition or a kind and not their own document, per kind.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (&Arc<str>, &ClusterSet)> {
        self.dirty.iter().map(|(kind, dirty)| (kind, &dirty.users))
    }

    /// The clusters that were not written and whose reply changed because of their profiles, per kind.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Arc<str>, &ClusterSet)> {
        self.placed.by_kind.iter()
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
        for (kind, clusters) in std::mem::take(&mut self.placed.by_kind) {
            let dirty = self.dirty.entry(kind).or_default();
            dirty.users.unite(&clusters);
            dirty.etags.extend(self.placed.etags.iter().cloned());
        }
        for (kind, Dirty { users, etags }) in std::mem::take(&mut self.dirty) {
            self.fleet.catalog.change(&kind, users, &etags);
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
