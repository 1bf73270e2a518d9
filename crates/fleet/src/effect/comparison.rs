//! Compares what every DNS name is answered before and after a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::changed_definitions::ChangedDefinitions;
use super::concerned::Concerned;
use super::lists::{Input, List, ListEffect, inputs};
use super::placed::{self, Placed};
use super::{ClusterEffect, Detail};
use crate::diagnose::Diagnostic;
use crate::document::Document;
use crate::kind::{CLUSTERS, DECOMMISSIONS, KINDS, PROFILES, RELEASED_NAMES, stays_on_rollback};
use crate::log::Change;
use crate::released::{self, Remembered};
use crate::rollout::Promoted;
use crate::snapshot::{Cluster, ClusterHead, Fleet, View};

pub(super) struct Comparison<'a> {
    before: &'a Fleet,
    after: &'a Fleet,
    detail: Detail,
    /// Whether kinds and definitions are the same in both: then only a cluster's own document can make a difference.
    same_catalog: bool,
    found: BTreeMap<(Arc<str>, Arc<str>), ClusterEffect>,
}

/// What a DNS name is answered.
enum Told<'a> {
    /// 404: Flux keeps what it has.
    Unknown,
    /// 404 as well, and what Flux has is recorded.
    Released(&'a Document),
    /// A decommissioned cluster: no inputs.
    Nothing,
    Cluster(&'a Arc<Cluster>),
}

impl<'a> Told<'a> {
    fn by(fleet: &'a Fleet, dns: &str) -> Self {
        match fleet.cluster_at(dns) {
            Some(cluster) => Told::Cluster(cluster),
            None if fleet.decommissions().contains_key(dns) => Told::Nothing,
            None => fleet
                .released_names()
                .get(dns)
                .map_or(Told::Unknown, |name| Told::Released(name)),
        }
    }

    fn cluster(&self) -> Option<&'a Arc<Cluster>> {
        match self {
            Told::Cluster(cluster) => Some(cluster),
            Told::Unknown | Told::Released(_) | Told::Nothing => None,
        }
    }
}

/// One fleet, as one DNS name sees it.
struct Side<'a> {
    fleet: &'a Fleet,
    cluster: Option<&'a ClusterHead>,
    document: Option<Value>,
    promoted: Promoted,
}

impl<'a> Side<'a> {
    fn new(fleet: &'a Fleet, told: &Told<'a>) -> Self {
        let view = told.cluster().map(|cluster| fleet.view(cluster));
        Side {
            fleet,
            cluster: view.as_ref().map(|view| view.cluster().head()),
            document: view.as_ref().map(View::effective),
            promoted: view.map_or(Promoted::NONE, |view| view.promoted()),
        }
    }

    fn list(&self, path: &str) -> List<'_> {
        let inputs = || -> Option<Vec<Input<'_>>> {
            let kind = self.fleet.kinds().at_path(path)?;
            let definitions = self.fleet.seen(&kind.name, self.promoted)?;
            Some(inputs(kind, definitions, self.document.as_ref()?))
        };
        List {
            inputs: inputs().unwrap_or_default(),
            cluster: self.cluster,
        }
    }

    fn answers(&self, path: &str) -> bool {
        self.fleet.kinds().at_path(path).is_some()
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        let kinds = self.fleet.kinds().definitions();
        kinds.filter_map(|kind| kind.path.as_deref())
    }

    /// Dependencies that stall on the cluster.
    fn stalls(&self) -> Vec<Diagnostic> {
        let document = self.document.as_ref();
        document.map_or_else(Vec::new, |document| self.fleet.stalls(document, self.promoted))
    }
}

impl<'a> Comparison<'a> {
    /// The effect on every cluster that may see a difference, in the order of ids. Some may see none.
    pub(super) fn run(
        before: &'a Fleet,
        after: &'a Fleet,
        changes: &[Change],
        detail: Detail,
    ) -> impl Iterator<Item = ClusterEffect> + use<> {
        // Nor do guards make inputs.
        let is_catalog = |change: &Change| &*change.kind != CLUSTERS && !stays_on_rollback(&change.kind);
        let mut comparison = Comparison {
            before,
            after,
            detail,
            same_catalog: !changes.iter().any(is_catalog),
            found: BTreeMap::new(),
        };
        let mut names = comparison.names_to_compare(changes);
        if [before, after].iter().any(|fleet| fleet.rollouts().active().is_some()) {
            comparison.run_with_rollouts(changes, &names);
            return comparison.found.into_values();
        }
        let placed = placed::with_changed_profiles(before, after, changes);
        let is_definition = |change: &Change| is_catalog(change) && &*change.kind != PROFILES;
        let placed_too = match changes.iter().any(is_definition) {
            // What a profile brings may be changed by both: only the whole answer tells.
            true => {
                let clusters = placed
                    .iter()
                    .flat_map(|id| [before, after].map(|fleet| fleet.cluster(id)));
                names.extend(clusters.flatten().map(|cluster| cluster.head().dns_key.clone()));
                Vec::new()
            }
            false => placed,
        };
        for dns in &names {
            comparison.compare_name(dns);
        }
        let all = Placed::new(before, after, detail);
        comparison.compare_placed(all, &placed_too, &names);
        let mut definitions: BTreeMap<&Arc<str>, BTreeSet<&str>> = BTreeMap::new();
        for change in changes.iter().filter(|change| is_catalog(change)) {
            if &*change.kind != KINDS {
                definitions.entry(&change.kind).or_default().insert(&change.id);
            }
        }
        for (kind, ids) in definitions {
            if let Some(changed) = ChangedDefinitions::new(before, after, kind, &ids) {
                comparison.compare_users(&changed, &names);
            }
        }
        comparison.found.into_values()
    }

    /// The effect of a move of rollouts on some clusters, sorted by id.
    pub(super) fn among(
        before: &'a Fleet,
        after: &'a Fleet,
        changes: &[Change],
        clusters: &[Arc<str>],
    ) -> impl Iterator<Item = ClusterEffect> + use<> {
        let mut comparison = Comparison {
            before,
            after,
            detail: Detail::Full,
            same_catalog: false,
            found: BTreeMap::new(),
        };
        let mut placed = Placed::new(before, after, Detail::Full);
        placed.definitions = Concerned::definitions(before, after, changes);
        comparison.compare_placed(placed, clusters, &BTreeSet::new());
        comparison.found.into_values()
    }

    /// The same with rollouts: a changed definition or profile, or a promotion, is for some clusters and not for others.
    fn run_with_rollouts(&mut self, changes: &[Change], names: &BTreeSet<Arc<str>>) {
        for dns in names {
            self.compare_name(dns);
        }
        let concerned = Concerned::of(self.before, self.after, changes, self.detail);
        let mut placed = Placed::new(self.before, self.after, self.detail);
        placed.definitions = concerned.definitions;
        self.compare_placed(placed, &concerned.clusters, names);
    }

    /// The DNS names of which every answer may differ: those of written clusters, those that no cluster has, and those of all
    /// users of a kind that makes inputs differently now.
    fn names_to_compare(&self, changes: &[Change]) -> BTreeSet<Arc<str>> {
        let dns_key = |cluster: &Arc<Cluster>| cluster.head().dns_key.clone();
        let mut names = BTreeSet::new();
        for change in changes {
            match &*change.kind {
                CLUSTERS => {
                    let both = [self.before.cluster(&change.id), self.after.cluster(&change.id)];
                    names.extend(both.into_iter().flatten().map(dns_key));
                }
                DECOMMISSIONS | RELEASED_NAMES => {
                    names.insert(change.id.clone());
                }
                KINDS => {
                    let (old, new) = (self.before.kinds().get(&change.id), self.after.kinds().get(&change.id));
                    if old.map(|kind| kind.input_settings()) != new.map(|kind| kind.input_settings()) {
                        for fleet in [self.before, self.after] {
                            let clusters = fleet.clusters().values();
                            names.extend(clusters.filter(|cluster| cluster.refers_to(&change.id)).map(dns_key));
                            names.extend(
                                fleet
                                    .members_by_rollouts()
                                    .iter()
                                    .filter_map(|id| fleet.cluster(id))
                                    .map(dns_key),
                            );
                        }
                    }
                }
                _ => {}
            }
        }
        names
    }

    fn entry(&mut self, cluster: &Cluster) -> &mut ClusterEffect {
        let (id, head) = (&cluster.document().id, cluster.head());
        let effect = || ClusterEffect {
            id: id.clone(),
            dns: head.dns.clone(),
            environment: head.environment.clone(),
            deleted: false,
            before: None,
            inputs: Vec::new(),
            warnings: Vec::new(),
        };
        let key = (id.clone(), head.dns_key.clone());
        self.found.entry(key).or_insert_with(effect)
    }

    /// Compares every answer to one DNS name.
    fn compare_name(&mut self, dns: &str) {
        let (before, after) = (Told::by(self.before, dns), Told::by(self.after, dns));
        let Some(cluster) = after.cluster().or(before.cluster()) else {
            return;
        };
        if matches!(after, Told::Unknown | Told::Released(_)) || self.loses_nothing(&before, &after) {
            return;
        }
        let (old, new) = (Side::new(self.before, &before), Side::new(self.after, &after));
        let remembered = match before {
            Told::Released(name) => released::remembered(name),
            _ => Remembered::new(),
        };
        let lists = self.compare_paths(&old, &new, &remembered);
        let warnings = match (self.detail, &after) {
            (Detail::Full, Told::Cluster(now)) => {
                let mut warnings = new_stalls(&old, &new);
                let known = before
                    .cluster()
                    .map_or_else(Vec::new, |then| self.before.idle_exclusions(then));
                let idle = self.after.idle_exclusions(now).into_iter();
                warnings.extend(idle.filter(|idle| !known.contains(idle)));
                warnings
            }
            _ => Vec::new(),
        };
        let deleted = matches!((&before, &after), (Told::Cluster(_), Told::Nothing));
        let effect = self.entry(cluster);
        effect.deleted = deleted;
        effect.before = before.cluster().map(|cluster| cluster.document().id.clone());
        effect.inputs = lists;
        effect.warnings = warnings;
    }

    /// Whether the documents' texts alone show that nothing is lost. Every write is checked for losses, and parsing a document
    /// takes longer than the rest of the check.
    fn loses_nothing(&self, before: &Told<'_>, after: &Told<'_>) -> bool {
        let (Told::Cluster(old), Told::Cluster(new)) = (before, after) else {
            return false;
        };
        let same_profiles = old.baseline().map(Arc::as_ptr) == new.baseline().map(Arc::as_ptr);
        let rollouts = [self.before, self.after].map(|fleet| fleet.rollouts().active().is_some());
        self.detail == Detail::Losses
            && self.same_catalog
            && rollouts == [false, false]
            && same_profiles
            && same_references(self.after, old, new)
    }

    fn compare_paths(
        &self,
        old: &Side<'_>,
        new: &Side<'_>,
        remembered: &Remembered,
    ) -> Vec<(Arc<str>, Arc<ListEffect>)> {
        let mut paths: BTreeSet<&str> = old.paths().chain(new.paths()).collect();
        paths.extend(remembered.keys().map(String::as_str));
        let lists = paths.into_iter().filter_map(|path| {
            let new_list = new.list(path);
            let mut effect = ListEffect::of(&old.list(path), &new_list, self.detail);
            if let Some(had) = remembered.get(path) {
                effect.compare_remembered(had, &new_list.inputs);
            }
            effect.unanswered = !new.answers(path);
            (!effect.is_empty()).then(|| (Arc::from(path), Arc::new(effect)))
        });
        lists.collect()
    }

    /// Compares what changed definitions mean for the clusters that use them. Those clusters' documents did not change, so only
    /// the references to the definitions are compared; and since most clusters have equal references, each comparison is done
    /// once. Names in `compared` are done already.
    fn compare_users(&mut self, changed: &ChangedDefinitions<'_>, compared: &BTreeSet<Arc<str>>) {
        let objects = changed.objects_may_differ();
        if self.detail == Detail::Losses && !objects {
            return;
        }
        let may_stall = self.detail == Detail::Full && (objects || changed.dependencies_differ());
        let mut known: HashMap<(usize, String), Arc<ListEffect>> = HashMap::new();
        for user in changed.users(self.before, self.after) {
            let Some(cluster) = self.after.cluster(&user) else {
                continue;
            };
            if compared.contains(&cluster.head().dns_key) {
                continue;
            }
            if cluster.head().protected && objects {
                // Whether the list becomes empty depends on the other references.
                self.compare_name(&cluster.head().dns_key);
                continue;
            }
            let profiles = cluster.merged_profiles();
            let key = (
                std::ptr::from_ref(profiles).addr(),
                changed.pick(&cluster.document().body),
            );
            let list = match known.get(&key) {
                Some(list) => list.clone(),
                None => {
                    let list = Arc::new(changed.compare(&key.1, profiles, self.detail));
                    known.insert(key, list.clone());
                    list
                }
            };
            let warnings = match may_stall {
                true => {
                    let told = Told::Cluster(cluster);
                    new_stalls(&Side::new(self.before, &told), &Side::new(self.after, &told))
                }
                false => Vec::new(),
            };
            self.add_user(cluster, changed.path, list, warnings);
        }
    }

    /// Compares what changed profiles mean for the clusters that match them. Names in `compared` are done already.
    fn compare_placed(&mut self, mut placed: Placed<'a>, clusters: &[Arc<str>], compared: &BTreeSet<Arc<str>>) {
        for id in clusters {
            let (Some(old), Some(new)) = (self.before.cluster(id), self.after.cluster(id)) else {
                continue;
            };
            if compared.contains(&new.head().dns_key) {
                continue;
            }
            let seen = placed.compare(old, new);
            if new.head().protected && seen.lists.iter().any(|(_, list)| !list.lost.is_empty()) {
                // Whether a list becomes empty depends on the other references.
                self.compare_name(&new.head().dns_key);
                continue;
            }
            if seen.lists.is_empty() && seen.warnings.is_empty() {
                continue;
            }
            let effect = self.entry(new);
            effect.before = Some(id.clone());
            effect.inputs.clone_from(&seen.lists);
            effect.warnings.clone_from(&seen.warnings);
        }
    }

    fn add_user(&mut self, cluster: &Cluster, path: &str, list: Arc<ListEffect>, warnings: Vec<Diagnostic>) {
        if list.is_empty() && warnings.is_empty() {
            return;
        }
        let effect = self.entry(cluster);
        effect.before = Some(cluster.document().id.clone());
        if !list.is_empty() {
            effect.inputs.push((path.into(), list));
        }
        for warning in warnings {
            if !effect.warnings.contains(&warning) {
                effect.warnings.push(warning);
            }
        }
    }
}

/// Dependencies of a cluster that stall now and did not before.
fn new_stalls(old: &Side<'_>, new: &Side<'_>) -> Vec<Diagnostic> {
    let known = old.stalls();
    let mut found = new.stalls();
    found.retain(|stall| !known.contains(stall));
    found
}

/// Whether two documents have the same references, which most writes leave alone: then nothing is lost.
fn same_references(fleet: &Fleet, old: &Cluster, new: &Cluster) -> bool {
    let [Some(old), Some(new)] = [old, new].map(|cluster| cluster.document().body.fields()) else {
        return false;
    };
    let mut kinds = fleet.kinds().definitions();
    kinds.all(|kind| {
        let Some(array) = kind.references.as_deref() else {
            return true;
        };
        let [old, new] = [&old, &new].map(|fields| fields.text(array));
        // Patches are the one part of an input that is not in its reference. Hardly any kind is turned off by them.
        old == new && !kind.flux.off.contains_key("patches")
    })
}
