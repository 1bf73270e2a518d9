//! What changed profiles mean for clusters whose own documents did not change.
//!
//! Most of them match the same profiles, before and after, and do not refer to what the profiles changed: one comparison serves all of
//! them. The others are compared by their own references to what changed, and clusters with equal ones share a comparison.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::concerned::Key;
use super::lists::{List, ListEffect, inputs};
use super::{Detail, Membership};
use crate::diagnose::Diagnostic;
use crate::inputs::reference_id;
use crate::json::{Fields, Json};
use crate::kind::{CLUSTERS, Kind, PROFILES};
use crate::log::Change;
use crate::profile::{Baseline, Differences, KnownDifferences};
use crate::rollout::Promoted;
use crate::snapshot::{Cluster, ClusterSets, Fleet, View};

/// Compares clusters that got other profiles, or profiles with other content.
pub(super) struct Placed<'a> {
    before: &'a Fleet,
    after: &'a Fleet,
    detail: Detail,
    differences: KnownDifferences,
    /// The definitions that may differ, too: rollouts run, and clusters see one version or another.
    pub(super) definitions: BTreeSet<Key>,
    /// What each pair of baselines concerns, by the address of their differences, and the rollouts that clusters are promoted in.
    concerns: HashMap<(usize, Promoted, Promoted), Arc<Concern>>,
    known: HashMap<(usize, String), Arc<Compared>>,
}

/// What a difference of two baselines, and of two versions of definitions, concerns.
struct Concern {
    /// Per kind, the ids whose references on a cluster matter: those that changed and, for stalls, those that they depend on and that
    /// depend on them.
    ids: BTreeMap<Arc<str>, BTreeSet<String>>,
}

/// What one cluster, or many, see.
pub(super) struct Compared {
    pub(super) lists: Vec<(Arc<str>, Arc<ListEffect>)>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl<'a> Placed<'a> {
    pub(super) fn new(before: &'a Fleet, after: &'a Fleet, detail: Detail) -> Self {
        Placed {
            before,
            after,
            detail,
            differences: KnownDifferences::default(),
            definitions: BTreeSet::new(),
            concerns: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Compares one cluster, whose document is the same in both fleets.
    pub(super) fn compare(&mut self, old: &Cluster, new: &Cluster) -> Arc<Compared> {
        let (old, new) = (self.before.view(old), self.after.view(new));
        let concern = self.concern(&old, &new);
        let key = (Arc::as_ptr(&concern).addr(), self.pick(&concern, new.cluster()));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let compared = Arc::new(self.compare_picked(&concern, &key.1, &old, &new));
        self.known.insert(key, compared.clone());
        compared
    }

    fn concern(&mut self, old: &View<'_>, new: &View<'_>) -> Arc<Concern> {
        let (from, to) = (old.baseline().cloned(), new.baseline().cloned());
        let differences = self.differences.between(&from, &to, self.after.kinds());
        let key = (Arc::as_ptr(&differences).addr(), old.promoted(), new.promoted());
        if let Some(known) = self.concerns.get(&key) {
            return known.clone();
        }
        let mut ids: Differences = (*differences).clone();
        for (kind, id) in &self.definitions {
            let version = |view: &View<'_>| Some(view.definitions(kind)?.get(id)?.document.etag);
            if version(old) != version(new) {
                ids.entry(kind.clone()).or_default().insert(id.to_string());
            }
        }
        if self.detail == Detail::Full {
            for (kind, ids) in &mut ids {
                ids.extend(self.neighbours(kind, ids));
            }
        }
        let concern = Arc::new(Concern { ids });
        self.concerns.insert(key, concern.clone());
        concern
    }

    /// The definitions that some others depend on, and those that depend on them.
    fn neighbours(&self, kind: &str, ids: &BTreeSet<String>) -> Vec<String> {
        let (Some(all), Some(kind)) = (self.after.definitions(kind), self.after.kinds().get(kind)) else {
            return Vec::new();
        };
        if kind.flux.depends_on.is_none() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for definition in all.iter() {
            let id = &definition.document.id;
            let dependencies: Vec<&str> = kind.dependencies(definition.value()).collect();
            if ids.contains(&**id) {
                found.extend(dependencies.iter().map(|id| (*id).to_owned()));
            } else if dependencies.iter().any(|dependency| ids.contains(*dependency)) {
                found.push(id.to_string());
            }
        }
        found
    }

    /// Of a cluster's document, only the references that matter and their patches, as text. Empty for most clusters, which the index of
    /// references tells without reading the document.
    fn pick(&self, concern: &Concern, cluster: &Cluster) -> String {
        let id = &cluster.document().id;
        let refers = |(kind, ids): (&Arc<str>, &BTreeSet<String>)| {
            let definitions = self.after.definitions(kind);
            definitions.is_some_and(|all| ids.iter().any(|definition| all.is_user(definition, id)))
        };
        if !concern.ids.iter().any(refers) {
            return String::new();
        }
        let fields = cluster.document().body.fields().unwrap_or_default();
        let mut picked = Map::new();
        let mut patched = BTreeSet::new();
        for (name, ids) in &concern.ids {
            let Some(kind) = self.after.kinds().get(name) else {
                continue;
            };
            let Some(array) = kind.references.as_deref() else {
                continue;
            };
            let references = pick_references(&fields, array, ids);
            if kind.flux.patches {
                patched.extend(references.iter().map(|reference| reference_id(reference).to_owned()));
            }
            picked.insert(array.to_owned(), references.into());
        }
        if !patched.is_empty() {
            let patches = fields.text("patches").and_then(|text| serde_json::from_str(text).ok());
            let mut patches: Map<String, Value> = patches.unwrap_or_default();
            patches.retain(|id, _| patched.contains(id));
            picked.insert("patches".to_owned(), patches.into());
        }
        Json::new(&picked.into()).as_str().to_owned()
    }

    fn compare_picked(&self, concern: &Concern, picked: &str, old: &View<'_>, new: &View<'_>) -> Compared {
        let own: Value = serde_json::from_str(picked).unwrap_or_else(|_| json!({}));
        let merged = |view: &View<'_>| {
            let mut document = own.clone();
            let kinds = concern.ids.keys().filter_map(|kind| self.after.kinds().get(kind));
            kinds.for_each(|kind| view.profiles().merge(kind, &mut document));
            document
        };
        let (before, after) = (merged(old), merged(new));
        let kinds = concern.ids.keys().filter_map(|kind| self.after.kinds().get(kind));
        let lists = kinds.filter_map(|kind| self.compare_list(kind, (old, &before), (new, &after)));
        Compared {
            lists: lists.collect(),
            warnings: match self.detail {
                Detail::Full => {
                    let known = self.before.stalls(&before, old.promoted());
                    let mut found = self.after.stalls(&after, new.promoted());
                    found.retain(|stall| !known.contains(stall));
                    found
                }
                Detail::Losses => Vec::new(),
            },
        }
    }

    fn compare_list(
        &self,
        kind: &Kind,
        (old, before): (&View<'_>, &Value),
        (new, after): (&View<'_>, &Value),
    ) -> Option<(Arc<str>, Arc<ListEffect>)> {
        let name = &kind.name;
        let old = (self.before.kinds().get(name)?, old.definitions(name)?, before);
        let new = (self.after.kinds().get(name)?, new.definitions(name)?, after);
        let [old, new] = [old, new].map(|(kind, definitions, document)| List {
            inputs: inputs(kind, definitions, document),
            cluster: None,
        });
        let effect = ListEffect::of(&old, &new, self.detail);
        let path = kind.path.as_deref()?;
        (!effect.is_empty()).then(|| (path.into(), Arc::new(effect)))
    }
}

/// The references of an array to some ids.
fn pick_references(fields: &Fields<'_>, array: &str, ids: &BTreeSet<String>) -> Vec<Value> {
    let all: Vec<&RawValue> = fields
        .text(array)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let parsed = all
        .into_iter()
        .filter_map(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    parsed
        .filter(|reference| ids.contains(reference_id(reference)))
        .collect()
}

/// The clusters that match a changed profile, before or after.
pub(super) fn with_changed_profiles(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Arc<str>> {
    let mut members = ClusterSets::default();
    for change in changes.iter().filter(|change| &*change.kind == PROFILES) {
        for fleet in [before, after] {
            members.add_all(&fleet.profiles().members(&change.id));
        }
    }
    members.sorted()
}

/// Which clusters enter and leave which profile, by id. Only those that match a changed profile, and those that are written, can.
pub(super) fn memberships(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Membership> {
    if before.profiles().is_empty() && after.profiles().is_empty() {
        return Vec::new();
    }
    let mut concerned = with_changed_profiles(before, after, changes);
    let written = changes.iter().filter(|change| &*change.kind == CLUSTERS);
    concerned.extend(written.map(|change| change.id.clone()));
    concerned.sort_unstable();
    concerned.dedup();
    let mut found: BTreeMap<Arc<str>, Membership> = BTreeMap::new();
    let mut known: HashMap<[usize; 2], Moved> = HashMap::new();
    for id in concerned {
        let sides = [before, after].map(|fleet| {
            fleet
                .cluster(&id)
                .map_or(Baseline::none(), |cluster| cluster.merged_profiles())
        });
        let key = sides.map(|baseline| std::ptr::from_ref(baseline).addr());
        let moved = known.entry(key).or_insert_with(|| Moved::between(sides));
        for (profiles, entered) in [(&moved.entered, true), (&moved.left, false)] {
            for profile in profiles {
                let membership = found.entry(profile.clone()).or_insert_with(|| Membership {
                    profile: profile.clone(),
                    entered: Vec::new(),
                    left: Vec::new(),
                });
                let clusters = if entered {
                    &mut membership.entered
                } else {
                    &mut membership.left
                };
                clusters.push(id.clone());
            }
        }
    }
    found.into_values().collect()
}

/// The profiles that one of two baselines has and the other does not.
struct Moved {
    entered: Vec<Arc<str>>,
    left: Vec<Arc<str>>,
}

impl Moved {
    fn between(sides: [&Baseline; 2]) -> Moved {
        let [old, new] = sides.map(|baseline| {
            let ids = baseline.profiles().iter().map(|profile| profile.id().clone());
            ids.collect::<BTreeSet<_>>()
        });
        Moved {
            entered: new.difference(&old).cloned().collect(),
            left: old.difference(&new).cloned().collect(),
        }
    }
}
