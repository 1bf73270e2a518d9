//! Compares what every DNS name is answered before and after a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use super::changed_definitions::ChangedDefinitions;
use super::concerned::{Concerned, Key, counterpart, united};
use super::lists::{Input, List, ListEffect, inputs};
use super::placed::{self, Placed};
use super::{ClusterEffect, Detail, Lists};
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
    pub(super) fn run(before: &'a Fleet, after: &'a Fleet, changes: &[Change], detail: Detail) -> Vec<ClusterEffect> {
        // Nor do guards make inputs.
        let is_catalog = |change: &Change| &*change.kind != CLUSTERS && !stays_on_rollback(&change.kind);
        let comparison = Comparison {
            before,
            after,
            detail,
            same_catalog: !changes.iter().any(is_catalog),
        };
        let mut names = comparison.names_to_compare(changes);
        if [before, after].iter().any(|fleet| fleet.rollouts().active().is_some()) {
            return comparison.run_with_rollouts(changes, &names);
        }
        let placed = placed::with_changed_profiles(before, after, changes);
        let is_definition = |change: &Change| is_catalog(change) && &*change.kind != PROFILES;
        let placed_too = match changes.iter().any(is_definition) {
            // What a profile brings may be changed by both: only the whole answer tells.
            true => {
                let clusters = placed
                    .iter()
                    .flat_map(|cluster| [before, after].map(|fleet| fleet.cluster(&cluster.document().id)));
                names.extend(clusters.flatten().map(|cluster| cluster.head().dns_key.clone()));
                Vec::new()
            }
            false => placed,
        };
        let mut found = comparison.compare_names(&names);
        found.extend(comparison.compare_placed(&BTreeSet::new(), &placed_too, &names));
        let mut definitions: BTreeMap<&Arc<str>, BTreeSet<&str>> = BTreeMap::new();
        for change in changes.iter().filter(|change| is_catalog(change)) {
            if &*change.kind != KINDS {
                definitions.entry(&change.kind).or_default().insert(&change.id);
            }
        }
        let changed = definitions.iter();
        let changed = changed.filter_map(|(kind, ids)| ChangedDefinitions::new(before, after, kind, ids));
        let changed: Vec<_> = changed.filter(|changed| comparison.concerns(changed)).collect();
        found.extend(comparison.compare_users(&changed, &names));
        sorted(found)
    }

    /// The effect of a move of rollouts on some clusters, sorted by id.
    pub(super) fn among(
        before: &'a Fleet,
        after: &'a Fleet,
        changes: &[Change],
        clusters: &[Arc<str>],
    ) -> Vec<ClusterEffect> {
        let comparison = Comparison {
            before,
            after,
            detail: Detail::Full,
            same_catalog: false,
        };
        let definitions = Concerned::definitions(before, after, changes);
        let clusters: Vec<_> = clusters.iter().filter_map(|id| after.cluster(id)).collect();
        comparison.compare_placed(&definitions, &clusters, &BTreeSet::new())
    }

    /// The effect on some clusters that are there before and after, each compared as a whole. Some may see none.
    pub(super) fn whole(before: &'a Fleet, after: &'a Fleet, clusters: &[Arc<str>]) -> Vec<ClusterEffect> {
        let comparison = Comparison {
            before,
            after,
            detail: Detail::Full,
            same_catalog: false,
        };
        let clusters = clusters.iter().filter_map(|id| after.cluster(id));
        let names = clusters.map(|cluster| cluster.head().dns_key.clone()).collect();
        comparison.compare_names(&names)
    }

    /// The same with rollouts: a changed definition or profile, or a promotion, is for some clusters and not for others.
    fn run_with_rollouts(&self, changes: &[Change], names: &BTreeSet<Arc<str>>) -> Vec<ClusterEffect> {
        let mut found = self.compare_names(names);
        let concerned = Concerned::of(self.before, self.after, changes, self.detail);
        found.extend(self.compare_placed(&concerned.definitions, &concerned.clusters, names));
        sorted(found)
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
                            names.extend(
                                clusters
                                    .filter(|cluster| fleet.has_references(cluster, &change.id))
                                    .map(dns_key),
                            );
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

    fn compare_names(&self, names: &BTreeSet<Arc<str>>) -> Vec<ClusterEffect> {
        names.iter().filter_map(|dns| self.compare_name(dns)).collect()
    }

    /// Compares every answer to one DNS name.
    fn compare_name(&self, dns: &str) -> Option<ClusterEffect> {
        let (before, after) = (Told::by(self.before, dns), Told::by(self.after, dns));
        let cluster = after.cluster().or(before.cluster())?;
        if matches!(after, Told::Unknown | Told::Released(_)) || self.loses_nothing(&before, &after) {
            return None;
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
        Some(ClusterEffect {
            head: cluster.shared_head().clone(),
            deleted: matches!((&before, &after), (Told::Cluster(_), Told::Nothing)),
            before: before.cluster().map(|cluster| cluster.shared_head().clone()),
            inputs: lists,
            warnings,
        })
    }

    /// Whether the documents' texts alone show that nothing is lost. Every write is checked for losses, and parsing a document
    /// takes longer than the rest of the check.
    fn loses_nothing(&self, before: &Told<'_>, after: &Told<'_>) -> bool {
        let (Told::Cluster(old), Told::Cluster(new)) = (before, after) else {
            return false;
        };
        let [before, after] =
            [(self.before, old), (self.after, new)].map(|(fleet, cluster)| fleet.baseline(cluster).map(Arc::as_ptr));
        let rollouts = [self.before, self.after].map(|fleet| fleet.rollouts().active().is_some());
        self.detail == Detail::Losses
            && self.same_catalog
            && rollouts == [false, false]
            && before == after
            && same_references(self.after, old, new)
    }

    fn compare_paths(&self, old: &Side<'_>, new: &Side<'_>, remembered: &Remembered) -> Lists {
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

    /// Whether changed definitions can have an effect that is looked for.
    fn concerns(&self, changed: &ChangedDefinitions<'_>) -> bool {
        self.detail == Detail::Full || changed.objects_may_differ
    }

    /// Compares what changed definitions mean for the clusters that use them. Names in `compared` are done already.
    fn compare_users(&self, changed: &[ChangedDefinitions<'_>], compared: &BTreeSet<Arc<str>>) -> Vec<ClusterEffect> {
        let users = |fleet: &Fleet| changed.iter().map(|changed| changed.users(fleet)).collect();
        let users = united(self.before, self.after, users);
        in_parts(&users, |users| {
            let mut comparison = Users {
                all: self,
                changed,
                known: HashMap::new(),
            };
            let users = users.iter().filter(|user| !compared.contains(&user.head().dns_key));
            users.filter_map(|user| comparison.compare(user)).collect()
        })
    }

    /// Compares what changed profiles, and definitions that rollouts change, mean for clusters. They are those after, sorted by id. Names in
    /// `compared` are done already.
    fn compare_placed(
        &self,
        definitions: &BTreeSet<Key>,
        clusters: &[&Arc<Cluster>],
        compared: &BTreeSet<Arc<str>>,
    ) -> Vec<ClusterEffect> {
        in_parts(clusters, |clusters| {
            let mut placed = Placed::new(self.before, self.after, self.detail, definitions);
            let compare = |new: &&Arc<Cluster>| {
                let old = counterpart(self.before, self.after, new)?;
                if compared.contains(&new.head().dns_key) {
                    return None;
                }
                let seen = placed.compare(old, new);
                if new.head().protected && seen.lists.iter().any(|(_, list)| !list.lost.is_empty()) {
                    // Whether a list becomes empty depends on the other references.
                    return self.compare_name(&new.head().dns_key);
                }
                if seen.lists.is_empty() && seen.warnings.is_empty() {
                    return None;
                }
                Some(stays(new, seen.lists.clone(), seen.warnings.clone()))
            };
            clusters.iter().filter_map(compare).collect()
        })
    }
}

/// The effect on a cluster whose own document stays.
fn stays(cluster: &Cluster, inputs: Lists, warnings: Vec<Diagnostic>) -> ClusterEffect {
    let head = cluster.shared_head();
    ClusterEffect {
        head: head.clone(),
        deleted: false,
        before: Some(head.clone()),
        inputs,
        warnings,
    }
}

/// Sorted by id. Most of them are already.
fn sorted(mut found: Vec<ClusterEffect>) -> Vec<ClusterEffect> {
    found.sort_by(|one, other| (one.id(), one.dns()).cmp(&(other.id(), other.dns())));
    found
}

/// Compares clusters that use changed definitions. Those clusters' documents did not change, so only the references to the definitions are
/// compared; and since most clusters have equal references, each comparison is done once.
struct Users<'c, 'a> {
    all: &'c Comparison<'a>,
    changed: &'c [ChangedDefinitions<'c>],
    /// By the address of the merged profiles, the position of the kind, and the references.
    known: HashMap<(usize, usize, String), Lists>,
}

impl Users<'_, '_> {
    fn compare(&mut self, cluster: &Arc<Cluster>) -> Option<ClusterEffect> {
        let all = self.all;
        if cluster.head().protected && self.changed.iter().any(|changed| changed.objects_may_differ) {
            // Whether a list becomes empty depends on the other references.
            return all.compare_name(&cluster.head().dns_key);
        }
        let lists: Vec<Lists> = (0..self.changed.len()).map(|n| self.lists(n, cluster)).collect();
        let lists = match &lists[..] {
            [one] => one.clone(),
            several => several.iter().flat_map(|lists| lists.iter().cloned()).collect(),
        };
        let stalls = |changed: &ChangedDefinitions<'_>| changed.objects_may_differ || changed.dependencies_differ;
        let warnings = match all.detail == Detail::Full && self.changed.iter().any(stalls) {
            true => {
                let old = counterpart(all.before, all.after, cluster).map_or(Told::Unknown, Told::Cluster);
                let new = Told::Cluster(cluster);
                new_stalls(&Side::new(all.before, &old), &Side::new(all.after, &new))
            }
            false => Vec::new(),
        };
        (!lists.is_empty() || !warnings.is_empty()).then(|| stays(cluster, lists, warnings))
    }

    /// What the changed definitions of one kind do: one list, or none.
    fn lists(&mut self, n: usize, cluster: &Cluster) -> Lists {
        let changed = &self.changed[n];
        let profiles = self.all.after.merged_profiles(cluster);
        let address = std::ptr::from_ref(profiles).addr();
        let key = (address, n, changed.pick(cluster));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let list = changed.compare(&key.2, profiles, self.all.detail);
        let list = (!list.is_empty()).then(|| (changed.path.clone(), Arc::new(list)));
        let lists: Lists = list.into_iter().collect();
        self.known.insert(key, lists.clone());
        lists
    }
}

/// Works on a long list on every core, part by part, and gives all results in order.
fn in_parts<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    /// Fewer are done before a thread has started. In debug builds nearly every list is in parts, so that tests with few clusters have them, too.
    const WORTH_A_THREAD: usize = if cfg!(debug_assertions) { 2 } else { 10_000 };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let most = items.len().div_ceil(threads).max(WORTH_A_THREAD);
    if items.len() <= most {
        return work(items);
    }
    let work = &work;
    thread::scope(|scope| {
        let begin = |part| {
            let started = thread::Builder::new().spawn_scoped(scope, move || work(part));
            // No more threads are allowed: then this one does it.
            started.map_err(|_| part)
        };
        let parts: Vec<_> = items.chunks(most).map(begin).collect();
        let done = parts.into_iter().map(|part| match part {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(part) => work(part),
        });
        done.flatten().collect()
    })
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
