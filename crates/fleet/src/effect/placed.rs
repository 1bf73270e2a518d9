//! What changed profiles mean for clusters whose own documents did not change.
//!
//! Most of them match the same profiles, before and after, and do not refer to what the profiles changed: one comparison serves all of
//! them. The others are compared by their own references to what changed, and clusters with equal ones share a comparison.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::changed_definitions::{object_fields, pick_references};
use super::concerned::{Key, counterpart, united};
use super::lists::{List, ListEffect, inputs};
use super::{Detail, Lists, Membership};
use crate::diagnose::Diagnostic;
use crate::json::{self, Json};
use crate::kind::{CLUSTERS, Kind, PROFILES};
use crate::log::Change;
use crate::profile::{Baseline, Differences, KnownDifferences};
use crate::rollout::Promoted;
use crate::snapshot::{Cluster, ClusterSet, Definition, Fleet, View};

/// Compares clusters that got other profiles, or profiles with other content.
pub(super) struct Placed<'a> {
    before: &'a Fleet,
    after: &'a Fleet,
    detail: Detail,
    differences: KnownDifferences,
    /// The definitions that may differ, too: rollouts run, and clusters see one version or another.
    definitions: &'a BTreeSet<Key>,
    /// What each pair of baselines concerns, by the address of their differences, and the rollouts that clusters are promoted in.
    concerns: HashMap<(usize, Promoted, Promoted), Arc<Concern>>,
    known: HashMap<(usize, String), Arc<Compared>>,
}

/// What a difference of two baselines, and of two versions of definitions, concerns.
struct Concern {
    /// Per kind, the ids whose references on a cluster matter: those that changed and, for stalls, those that they depend on and that
    /// depend on them.
    ids: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// Whether the inputs of any of them carry patches.
    has_patches: bool,
}

/// What one cluster, or many, see.
pub(super) struct Compared {
    pub(super) lists: Lists,
    pub(super) warnings: Vec<Diagnostic>,
}

impl<'a> Placed<'a> {
    pub(super) fn new(before: &'a Fleet, after: &'a Fleet, detail: Detail, definitions: &'a BTreeSet<Key>) -> Self {
        Placed {
            before,
            after,
            detail,
            differences: KnownDifferences::default(),
            definitions,
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
        // The ids whose change may make a dependent stall, or stall themselves.
        let mut stalling = ids.clone();
        for (kind, id) in self.definitions {
            let [before, after] = [old, new].map(|view| view.definitions(kind).and_then(|all| all.get(id)));
            let etag = |definition: Option<&Arc<Definition>>| definition.map(|definition| definition.document.etag);
            if etag(before) != etag(after) {
                ids.entry(kind.clone()).or_default().insert(id.to_string());
                if self.may_stall(kind, before, after) {
                    stalling.entry(kind.clone()).or_default().insert(id.to_string());
                }
            }
        }
        if self.detail == Detail::Full {
            for (kind, changed) in &stalling {
                ids.entry(kind.clone())
                    .or_default()
                    .extend(self.neighbours(kind, changed));
            }
        }
        let patched = |kind: &str| self.after.kinds().get(kind).is_some_and(|kind| kind.flux.patches);
        let has_patches = ids.keys().any(|kind| patched(kind));
        let concern = Arc::new(Concern { ids, has_patches });
        self.concerns.insert(key, concern.clone());
        concern
    }

    /// Whether two versions of a definition differ in what decides about stalls: which object Flux makes of it, and what it depends on.
    fn may_stall(&self, kind: &str, before: Option<&Arc<Definition>>, after: Option<&Arc<Definition>>) -> bool {
        let (Some(kind), Some(before), Some(after)) = (self.after.kinds().get(kind), before, after) else {
            return true;
        };
        let mut fields = object_fields(kind).into_iter().chain(&kind.flux.depends_on);
        fields.any(|field| before.value().get(field) != after.value().get(field))
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

    /// Of a cluster's document, only the references and the patches that matter, as text. Empty for most clusters, which the index of
    /// references tells without reading the document.
    fn pick(&self, concern: &Concern, cluster: &Cluster) -> String {
        let number = cluster.number();
        let refers = |(kind, ids): (&Arc<str>, &BTreeSet<String>)| {
            let definitions = self.after.definitions(kind);
            definitions.is_some_and(|all| ids.iter().any(|definition| all.is_user(definition, number)))
        };
        // A cluster may patch what only its profiles bring.
        let may_patch = cluster.head().has_patches && concern.has_patches;
        if !may_patch && !concern.ids.iter().any(refers) {
            return String::new();
        }
        let body = &cluster.document().body;
        let mut text = String::from("{");
        let mut patched: BTreeSet<&str> = BTreeSet::new();
        for (name, ids) in &concern.ids {
            let kind = self.after.kinds().get(name);
            let Some((kind, array)) = kind.and_then(|kind| Some((kind, kind.references.as_deref()?))) else {
                continue;
            };
            let found = pick_references(body.field_text(array).unwrap_or("[]"), ids);
            add_member(&mut text, array);
            text.push('[');
            text.push_str(&found.join(","));
            text.push(']');
            if kind.flux.patches {
                patched.extend(ids.iter().map(String::as_str));
            }
        }
        if cluster.head().has_patches
            && let Some(patches) = pick_patches(body, &patched)
        {
            add_member(&mut text, "patches");
            text.push_str(&patches);
        }
        text.push('}');
        text
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

/// Begins a member of an object.
fn add_member(text: &mut String, name: &str) {
    if text.len() > 1 {
        text.push(',');
    }
    json::write_str(name, text);
    text.push(':');
}

/// The patches for some ids, as text. None: there are none.
fn pick_patches(document: &Json, ids: &BTreeSet<&str>) -> Option<String> {
    if ids.is_empty() {
        return None;
    }
    let text = document.field_text("patches")?;
    if !text.contains('\\') && !ids.iter().any(|id| text.contains(id)) {
        return None;
    }
    let mut patches: Map<String, Value> = serde_json::from_str(text).ok()?;
    patches.retain(|id, _| ids.contains(id.as_str()));
    (!patches.is_empty()).then(|| Json::new(&patches.into()).as_str().to_owned())
}

/// The clusters that match a changed profile.
pub(super) fn in_changed_profiles(fleet: &Fleet, changes: &[Change]) -> ClusterSet {
    let changed = changes.iter().filter(|change| &*change.kind == PROFILES);
    changed.map(|change| fleet.profiles().members(&change.id)).collect()
}

/// The clusters that match a changed profile, before or after, and are there after, sorted by id.
pub(super) fn with_changed_profiles<'f>(
    before: &'f Fleet,
    after: &'f Fleet,
    changes: &[Change],
) -> Vec<&'f Arc<Cluster>> {
    united(before, after, |fleet| in_changed_profiles(fleet, changes))
}

/// Which clusters enter and leave which profile, by id. Only those that match a changed profile, and those that are written, can.
pub(super) fn memberships(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Membership> {
    if before.profiles().is_empty() && after.profiles().is_empty() {
        return Vec::new();
    }
    fn profiles<'f>(fleet: &'f Fleet, cluster: Option<&Arc<Cluster>>) -> &'f Baseline {
        cluster.map_or(Baseline::none(), |cluster| fleet.merged_profiles(cluster))
    }
    let members = with_changed_profiles(before, after, changes).into_iter();
    let members = members.map(|cluster| {
        let old = counterpart(before, after, cluster);
        let sides = [profiles(before, old), profiles(after, Some(cluster))];
        (&cluster.document().id, sides)
    });
    let mut concerned: Vec<(&Arc<str>, [&Baseline; 2])> = members.collect();
    // Those that are written: also deleted ones.
    let written = changes.iter().filter(|change| &*change.kind == CLUSTERS);
    concerned.extend(written.map(|change| {
        let sides = [before, after].map(|fleet| profiles(fleet, fleet.cluster(&change.id)));
        (&change.id, sides)
    }));
    concerned.sort_by_key(|(id, _)| *id);
    concerned.dedup_by_key(|(id, _)| *id);
    let mut found: BTreeMap<Arc<str>, Membership> = BTreeMap::new();
    let mut known: HashMap<[usize; 2], Moved> = HashMap::new();
    for (id, sides) in concerned {
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
