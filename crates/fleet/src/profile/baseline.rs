//! The profiles' part of a merge, and the merge of a cluster's own references over it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::Profile;
use crate::inputs::{reference_id, references};
use crate::kind::{ADDS, EXCLUDED, Kind, Kinds};

/// What the profiles that a cluster matches say together.
#[derive(Debug, Default)]
pub struct Baseline {
    /// By ascending priority and id.
    profiles: Box<[Arc<Profile>]>,
    /// By kind. Kinds that no profile refers to are left out.
    lists: BTreeMap<Arc<str>, List>,
    patches: Map<String, Value>,
    /// The length of the patches as text.
    patch_bytes: usize,
}

/// The merged references to one kind.
#[derive(Debug, Default, PartialEq)]
struct List {
    references: Vec<Value>,
    /// The position of each id.
    positions: HashMap<String, usize>,
    /// References that add nothing, for ids that no profile adds.
    hotfixes: BTreeMap<String, Value>,
    /// An upper bound on the length that the list adds to a reply, beyond the definitions.
    bytes: usize,
}

impl Baseline {
    pub(crate) fn new(kinds: &Kinds, profiles: &[Arc<Profile>]) -> Baseline {
        let mut lists: BTreeMap<Arc<str>, List> = BTreeMap::new();
        let mut patches = Map::new();
        for profile in profiles {
            for kind in kinds.definitions() {
                for reference in references(kind, profile.value()) {
                    if is_true(reference, EXCLUDED) && kind.flux.patches {
                        patches.remove(reference_id(reference));
                    }
                    lists.entry(kind.name.clone()).or_default().add(reference);
                }
            }
            let own = profile.value().get("patches").and_then(Value::as_object);
            for (id, values) in own.into_iter().flatten() {
                merge_fields(patches.entry(id).or_insert_with(|| Map::new().into()), values.clone());
            }
        }
        for list in lists.values_mut() {
            let texts = list.references.iter().chain(list.hotfixes.values());
            list.bytes = texts.map(|reference| reference.to_string().len()).sum();
        }
        lists.retain(|_, list| !list.references.is_empty() || !list.hotfixes.is_empty());
        Baseline {
            profiles: profiles.into(),
            lists,
            patch_bytes: Value::from(patches.clone()).to_string().len(),
            patches,
        }
    }

    /// That of a cluster that matches no profile.
    pub(crate) fn none() -> &'static Baseline {
        static NONE: LazyLock<Baseline> = LazyLock::new(Baseline::default);
        &NONE
    }

    /// The profiles, by ascending priority and id.
    pub fn profiles(&self) -> &[Arc<Profile>] {
        &self.profiles
    }

    pub(crate) fn has(&self, profile: &str) -> bool {
        self.profiles.iter().any(|own| &**own.id() == profile)
    }

    pub(super) fn key(&self) -> Arc<[Arc<str>]> {
        self.profiles.iter().map(|profile| profile.id().clone()).collect()
    }

    /// How many references to a kind the profiles bring.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.lists.get(kind).map_or(0, |list| list.references.len())
    }

    /// Whether the profiles bring a definition.
    pub(crate) fn brings(&self, kind: &str, id: &str) -> bool {
        self.lists.get(kind).is_some_and(|list| list.positions.contains_key(id))
    }

    /// An upper bound on the length that the profiles add to a reply, beyond the definitions.
    pub(crate) fn bytes(&self, kind: &Kind) -> usize {
        let list = self.lists.get(&kind.name).map_or(0, |list| list.bytes);
        list + if kind.flux.patches { self.patch_bytes } else { 0 }
    }

    /// The ids of each kind that two baselines treat differently; kinds without any are left out.
    pub(crate) fn differences(old: &Baseline, new: &Baseline, kinds: &Kinds) -> Differences {
        let none = List::default();
        let patched: Vec<&String> = keys(&old.patches, &new.patches)
            .filter(|id| old.patches.get(*id) != new.patches.get(*id))
            .collect();
        let mut found = Differences::new();
        for kind in kinds.definitions() {
            let (old, new) = (old.lists.get(&kind.name), new.lists.get(&kind.name));
            let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
            let mut ids = old.differences(new);
            if kind.flux.patches {
                ids.extend(patched.iter().map(|id| (*id).clone()));
            }
            // The order of the list counts too: it is the order of the reply.
            let is_moved = old
                .references
                .iter()
                .map(reference_id)
                .ne(new.references.iter().map(reference_id));
            if !ids.is_empty() || is_moved {
                found.insert(kind.name.clone(), ids);
            }
        }
        found
    }

    /// Merges a cluster's own references to one kind, and its patches, over the profiles'.
    pub(crate) fn merge(&self, kind: &Kind, document: &mut Value) {
        let (Some(array), Value::Object(fields)) = (kind.references.as_deref(), document) else {
            return;
        };
        let own = fields.get_mut(array).and_then(Value::as_array_mut).map(std::mem::take);
        let merged = match (self.lists.get(&kind.name), own) {
            (Some(list), own) => Some(list.over(own.unwrap_or_default())),
            (None, own) => own.map(own_references),
        };
        if let Some(merged) = merged {
            fields.insert(array.to_owned(), merged.into());
        }
        if kind.flux.patches && !self.patches.is_empty() {
            let patches = fields.entry("patches").or_insert_with(|| Map::new().into());
            for (id, values) in &self.patches {
                let own = patches.get_mut(id).map(Value::take).unwrap_or_default();
                let mut merged = values.clone();
                merge_fields(&mut merged, own);
                patches[id] = merged;
            }
        }
    }
}

/// Per kind, ids that two baselines treat differently.
pub(crate) type Differences = BTreeMap<Arc<str>, BTreeSet<String>>;

/// The differences of pairs of baselines that many clusters share. It keeps the baselines, so that their addresses identify them.
#[derive(Default)]
pub(crate) struct KnownDifferences(HashMap<(usize, usize), Known>);

type Shared = Option<Arc<Baseline>>;

struct Known {
    _pair: (Shared, Shared),
    differences: Arc<Differences>,
}

impl KnownDifferences {
    pub(crate) fn between(&mut self, old: &Shared, new: &Shared, kinds: &Kinds) -> Arc<Differences> {
        let address = |baseline: &Shared| baseline.as_ref().map_or(0, |baseline| Arc::as_ptr(baseline).addr());
        let known = self.0.entry((address(old), address(new))).or_insert_with(|| {
            let [before, after] = [old, new].map(|baseline| baseline.as_deref().unwrap_or(Baseline::none()));
            Known {
                differences: Arc::new(Baseline::differences(before, after, kinds)),
                _pair: (old.clone(), new.clone()),
            }
        });
        known.differences.clone()
    }
}

impl List {
    /// Merges a profile's reference over those of the profiles before it.
    fn add(&mut self, reference: &Value) {
        let id = reference_id(reference);
        if is_true(reference, EXCLUDED) {
            self.hotfixes.remove(id);
            if let Some(position) = self.positions.remove(id) {
                self.references.remove(position);
                let after = self.positions.values_mut().filter(|other| **other > position);
                after.for_each(|other| *other -= 1);
            }
            return;
        }
        let adds = reference.get(ADDS) != Some(&Value::Bool(false));
        let own = without_marks(reference.clone());
        match self.positions.get(id) {
            Some(position) => merge_fields(&mut self.references[*position], own),
            None if adds => {
                let mut merged = self.hotfixes.remove(id).unwrap_or_else(|| Map::new().into());
                merge_fields(&mut merged, own);
                self.positions.insert(id.to_owned(), self.references.len());
                self.references.push(merged);
            }
            None => merge_fields(
                self.hotfixes.entry(id.to_owned()).or_insert_with(|| Map::new().into()),
                own,
            ),
        }
    }

    /// Merges a cluster's own references over the profiles'.
    fn over(&self, own: Vec<Value>) -> Vec<Value> {
        let mut merged: Vec<Option<Value>> = self.references.iter().cloned().map(Some).collect();
        for reference in own {
            let id = reference_id(&reference);
            let position = self.positions.get(id);
            if is_true(&reference, EXCLUDED) {
                if let Some(position) = position {
                    merged[*position] = None;
                }
                continue;
            }
            match (
                position.and_then(|position| merged[*position].as_mut()),
                self.hotfixes.get(id),
            ) {
                (Some(brought), _) => merge_fields(brought, without_marks(reference)),
                (None, Some(hotfix)) => {
                    let mut changed = hotfix.clone();
                    merge_fields(&mut changed, without_marks(reference));
                    merged.push(Some(changed));
                }
                (None, None) => merged.push(Some(without_marks(reference))),
            }
        }
        merged.into_iter().flatten().collect()
    }

    /// The ids that two lists treat differently.
    fn differences(&self, other: &List) -> BTreeSet<String> {
        if self == other {
            return BTreeSet::new();
        }
        let of = |list: &'_ List, id: &str| {
            let position = list.positions.get(id);
            (
                position.map(|position| list.references[*position].clone()),
                list.hotfixes.get(id).cloned(),
            )
        };
        let ids = [self, other].into_iter();
        let ids = ids.flat_map(|list| list.positions.keys().chain(list.hotfixes.keys()));
        let changed = ids.filter(|id| of(self, id) != of(other, id));
        changed.cloned().collect()
    }
}

/// A cluster's own references as they are without profiles: those that exclude something are none.
fn own_references(references: Vec<Value>) -> Vec<Value> {
    let own = references.into_iter();
    own.filter(|reference| !is_true(reference, EXCLUDED))
        .map(without_marks)
        .collect()
}

fn is_true(reference: &Value, field: &str) -> bool {
    reference.get(field) == Some(&Value::Bool(true))
}

/// The reference without what it says about the merge.
fn without_marks(mut reference: Value) -> Value {
    if let Value::Object(fields) = &mut reference {
        fields.remove(EXCLUDED);
        fields.remove(ADDS);
    }
    reference
}

/// Merges fields over others. A null leaves what is there.
fn merge_fields(below: &mut Value, above: Value) {
    let (Value::Object(below), Value::Object(above)) = (below, above) else {
        return;
    };
    for (name, value) in above {
        if !value.is_null() || !below.contains_key(&name) {
            below.insert(name, value);
        }
    }
}

fn keys<'a>(one: &'a Map<String, Value>, two: &'a Map<String, Value>) -> impl Iterator<Item = &'a String> {
    one.keys().chain(two.keys().filter(|key| !one.contains_key(*key)))
}
