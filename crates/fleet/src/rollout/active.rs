//! What the rollouts that run mean for clusters: the patched documents, and who is promoted.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::wave::Waves;
use super::{Patch, Rollout};
use crate::json::Json;
use crate::kind::PROFILES;
use crate::kind::schema::fill_defaults;
use crate::patch::{self, Form, References};
use crate::profile::{Baseline, Profile};
use crate::selector::{Matcher, Subject};
use crate::snapshot::{Cluster, Definition, Fleet};

/// The rollouts that a cluster is promoted in, by their position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Promoted(u64);

impl Promoted {
    /// In no rollout.
    pub const NONE: Promoted = Promoted(0);
    /// How many rollouts may run at a time.
    pub const MOST: usize = 64;

    pub(crate) fn has(self, position: usize) -> bool {
        self.0 & (1 << position) != 0
    }

    fn add(&mut self, position: usize) {
        self.0 |= 1 << position;
    }
}

/// The rollouts that have not ended, with their patched documents.
pub struct Active {
    rollouts: Vec<(Arc<Rollout>, Waves)>,
    /// Per kind and id, the position of the rollout and the patched definition.
    definitions: BTreeMap<Arc<str>, PatchedDefinitions>,
    profiles: Vec<Patched>,
    /// Per kind, a digest of all that clusters are told differently: see [`Active::stamp`].
    stamps: BTreeMap<Arc<str>, Stamp>,
    /// A digest of all of it.
    whole: Stamp,
    /// Per rollout, a digest of its patched documents.
    patched: Vec<Stamp>,
    /// The merged profiles of clusters that are promoted, by group and rollouts.
    baselines: Mutex<HashMap<BaselineKey, Arc<Baseline>>>,
}

/// By id, the position of the rollout and the definition.
type PatchedDefinitions = BTreeMap<Arc<str>, (usize, Arc<Definition>)>;

/// What a cached reply was made with.
pub(crate) type Stamp = u64;

/// The profiles of a baseline, by address. The values keep them alive.
type BaselineKey = Vec<usize>;

/// A profile that a rollout patches.
struct Patched {
    rollout: usize,
    profile: Arc<Profile>,
    /// Set if the patch changes who matches.
    matcher: Option<Matcher>,
}

impl fmt::Debug for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.rollouts.iter().map(|(rollout, _)| rollout.id());
        f.debug_list().entries(ids).finish()
    }
}

impl Active {
    /// None: no rollout runs. Documents that do not exist are left out: only a damaged store lacks one.
    pub(crate) fn of(fleet: &Fleet) -> Option<Active> {
        let running: Vec<_> = fleet.rollouts().running().take(Promoted::MOST).cloned().collect();
        if running.is_empty() {
            return None;
        }
        let clusters = fleet.kinds().clusters();
        let mut active = Active {
            rollouts: Vec::new(),
            definitions: BTreeMap::new(),
            profiles: Vec::new(),
            stamps: BTreeMap::new(),
            whole: 0,
            patched: Vec::new(),
            baselines: Mutex::default(),
        };
        for (position, rollout) in running.iter().enumerate() {
            for patch in &rollout.patches {
                active.patch(fleet, position, patch);
            }
            let waves = Waves::new(rollout, clusters.map(|kind| &**kind));
            active.rollouts.push((rollout.clone(), waves));
        }
        active.stamp_all(fleet);
        Some(active)
    }

    fn patch(&mut self, fleet: &Fleet, rollout: usize, patch: &Patch) {
        let Some(value) = patched(fleet, patch) else { return };
        let (id, body) = (patch.id.clone(), Json::new(&value));
        if &*patch.kind != PROFILES {
            let of_kind = self.definitions.entry(patch.kind.clone()).or_default();
            of_kind.insert(id.clone(), (rollout, Arc::new(Definition::new(id, body, value))));
            return;
        }
        let (Ok(profile), Some(present)) = (Profile::new(id, body), fleet.profiles().get(&patch.id)) else {
            return;
        };
        let clusters = fleet
            .kinds()
            .clusters()
            .filter(|_| profile.selector != present.selector);
        self.profiles.push(Patched {
            rollout,
            matcher: clusters.map(|kind| profile.selector.on(kind)),
            profile: Arc::new(profile),
        });
    }

    /// Two fleets with the same stamp of a kind, and the same documents of a cluster, tell the cluster the same.
    fn stamp_all(&mut self, fleet: &Fleet) {
        let mut of_profiles = Sha256::new();
        // It decides which keys of selectors are fields.
        let clusters = fleet.kinds().clusters().map_or(0, |kind| kind.etag.0);
        of_profiles.update(clusters.to_be_bytes());
        for patched in &self.profiles {
            self.add_promotion(patched.rollout, &mut of_profiles);
            of_profiles.update(patched.profile.document.etag.0.to_be_bytes());
        }
        // What a patched profile excludes may be what any other brings.
        for profile in fleet.profiles().iter().filter(|_| !self.profiles.is_empty()) {
            of_profiles.update(profile.document.etag.0.to_be_bytes());
        }
        let mut stamps = BTreeMap::new();
        for kind in fleet.kinds().definitions() {
            let definitions = self.definitions.get(&kind.name);
            if definitions.is_none() && self.profiles.is_empty() {
                continue;
            }
            let mut hash = of_profiles.clone();
            hash.update(kind.etag.0.to_be_bytes());
            for (position, definition) in definitions.into_iter().flat_map(BTreeMap::values) {
                self.add_promotion(*position, &mut hash);
                hash.update(definition.document.id.as_bytes());
                hash.update(definition.document.etag.0.to_be_bytes());
            }
            stamps.insert(kind.name.clone(), stamp_of(hash));
        }
        let mut whole = Sha256::new();
        stamps.values().for_each(|stamp| whole.update(stamp.to_be_bytes()));
        self.whole = stamp_of(whole);
        self.patched = (0..self.rollouts.len())
            .map(|position| self.stamp_documents(fleet, position))
            .collect();
        self.stamps = stamps;
    }

    /// A digest of the documents that a rollout patches.
    fn stamp_documents(&self, fleet: &Fleet, position: usize) -> Stamp {
        let mut hash = Sha256::new();
        hash.update(self.rollouts[position].0.id().as_bytes());
        let definitions = self.definitions.values().flat_map(BTreeMap::values);
        for (_, definition) in definitions.filter(|(own, _)| *own == position) {
            hash.update(definition.document.etag.0.to_be_bytes());
        }
        let profiles = || self.profiles.iter().filter(|patched| patched.rollout == position);
        if profiles().next().is_some() {
            let own = profiles().map(|patched| patched.profile.document.etag);
            let others = fleet.profiles().iter().map(|profile| profile.document.etag);
            // Whether what a profile sets is another value than the definition's depends on the definition.
            let kinds = fleet.kinds().definitions();
            let definitions = kinds.filter_map(|kind| fleet.definitions(&kind.name));
            let definitions = definitions
                .flat_map(|all| all.iter())
                .map(|definition| definition.document.etag);
            let all = own.chain(others).chain(definitions);
            all.for_each(|etag| hash.update(etag.0.to_be_bytes()));
        }
        stamp_of(hash)
    }

    /// Identifies the state of all rollouts.
    pub(crate) fn whole_stamp(&self) -> Stamp {
        self.whole
    }

    /// Identifies what these rollouts patch. 0: nothing.
    pub(crate) fn patched_stamp(&self, promoted: Promoted) -> Stamp {
        let stamps = self.patched.iter().enumerate();
        let stamps = stamps
            .filter(|(position, _)| promoted.has(*position))
            .map(|(_, stamp)| *stamp);
        stamps.fold(0, |all, stamp| all.rotate_left(1) ^ stamp)
    }

    /// Adds what decides who is promoted.
    fn add_promotion(&self, position: usize, hash: &mut Sha256) {
        let (rollout, _) = &self.rollouts[position];
        hash.update(rollout.id().as_bytes());
        hash.update(rollout.wave.map_or(0, |wave| wave as u64 + 1).to_be_bytes());
        for wave in &rollout.waves {
            let selector = wave.selector.as_ref().map(ToString::to_string).unwrap_or_default();
            hash.update((selector.len() as u64).to_be_bytes());
            hash.update(selector);
            hash.update(wave.percent.map_or(0, |percent| percent.0).to_be_bytes());
        }
    }

    /// The stamp of replies of a kind. A reply with another one is made again.
    pub(crate) fn stamp(&self, kind: &str) -> Stamp {
        self.stamps.get(kind).copied().unwrap_or_default()
    }

    pub fn rollouts(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.rollouts.iter().map(|(rollout, _)| rollout)
    }

    /// All of them, as if each were complete.
    pub(crate) fn everyone(&self) -> Promoted {
        let mut all = Promoted::NONE;
        (0..self.rollouts.len()).for_each(|position| all.add(position));
        all
    }

    /// The rollouts that a cluster is promoted in.
    pub(crate) fn promoted(&self, cluster: &Cluster) -> Promoted {
        let mut promoted = Promoted::NONE;
        for (position, (_, waves)) in self.rollouts.iter().enumerate() {
            if waves.has_promoted(cluster) {
                promoted.add(position);
            }
        }
        promoted
    }

    /// Identifies the documents that a rollout patches, as it patches them. 0: it does not run.
    pub fn documents_of(&self, rollout: &str) -> u64 {
        let mut all = self.rollouts.iter().zip(&self.patched);
        all.find(|((one, _), _)| &**one.id() == rollout)
            .map_or(0, |(_, stamp)| *stamp)
    }

    /// Identifies what the other rollouts are, and how far.
    pub fn others(&self, rollout: &str) -> u64 {
        let others = self.rollouts.iter().zip(&self.patched);
        let others = others.filter(|((one, _), _)| &**one.id() != rollout);
        others.fold(0, |all, ((one, _), stamp)| {
            let wave = one.wave.map_or(0, |wave| wave as u64 + 1);
            (all.rotate_left(1) ^ stamp).wrapping_add(wave)
        })
    }

    /// The position of the wave that a cluster is in.
    pub fn wave_of(&self, rollout: &str, cluster: &Cluster) -> Option<usize> {
        let mut all = self.rollouts.iter();
        all.find(|(one, _)| &**one.id() == rollout)
            .map(|(_, waves)| waves.of(cluster))
    }

    /// The patched definition that a promoted cluster has.
    pub(crate) fn definition(
        &self,
        promoted: Promoted,
        kind: &str,
        id: &str,
    ) -> Option<(&Arc<Rollout>, &Arc<Definition>)> {
        let (position, definition) = self.definitions.get(kind)?.get(id)?;
        promoted
            .has(*position)
            .then(|| (&self.rollouts[*position].0, definition))
    }

    /// A definition as a rollout patches it.
    pub(crate) fn patched(&self, kind: &str, id: &str) -> Option<&Arc<Definition>> {
        Some(&self.definitions.get(kind)?.get(id)?.1)
    }

    /// The length of the longest patched definition of a kind.
    pub(crate) fn longest(&self, kind: &str) -> usize {
        let all = self.definitions.get(kind).into_iter().flat_map(BTreeMap::values);
        let lengths = all.map(|(_, definition)| definition.document.body.as_str().len());
        lengths.max().unwrap_or_default()
    }

    pub(crate) fn patches_profiles(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// The profiles as rollouts patch them.
    pub(crate) fn patched_profiles(&self) -> impl Iterator<Item = (&Arc<Rollout>, &Arc<Profile>)> {
        let patched = self.profiles.iter();
        patched.map(|patched| (&self.rollouts[patched.rollout].0, &patched.profile))
    }

    /// The merged profiles of a promoted cluster. None: those that it has anyway.
    pub(crate) fn baseline(&self, fleet: &Fleet, promoted: Promoted, cluster: &Cluster) -> Option<Arc<Baseline>> {
        let patched: Vec<&Patched> = self.profiles.iter().filter(|one| promoted.has(one.rollout)).collect();
        if patched.is_empty() {
            return None;
        }
        let own = fleet.merged_profiles(cluster);
        let is_patched = |profile: &Arc<Profile>| patched.iter().any(|one| one.profile.id() == profile.id());
        let mut profiles: Vec<Arc<Profile>> = own.profiles().iter().filter(|one| !is_patched(one)).cloned().collect();
        let mut subject = Subject::new(cluster);
        for one in patched {
            let matches = match &one.matcher {
                Some(matcher) => matcher.matches_subject(&mut subject),
                None => own.has(one.profile.id()),
            };
            if matches {
                profiles.push(one.profile.clone());
            }
        }
        profiles.sort_by(|one, other| (one.priority, one.id()).cmp(&(other.priority, other.id())));
        let key = profiles.iter().map(|profile| Arc::as_ptr(profile).addr()).collect();
        let mut known = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        let made = known
            .entry(key)
            .or_insert_with(|| Arc::new(Baseline::new(fleet.kinds(), &profiles)));
        Some(made.clone())
    }
}

fn stamp_of(hash: Sha256) -> Stamp {
    let digest = hash.finalize();
    u64::from_be_bytes(digest[..8].try_into().expect("SHA-256 has 32 bytes"))
}

/// A shared document as a rollout patches it. None if it does not exist, or the patch does not fit it.
fn patched(fleet: &Fleet, patch: &Patch) -> Option<Value> {
    let kinds = fleet.kinds();
    let kind = kinds.get(&patch.kind)?;
    let mut value = fleet.document(&patch.kind, &patch.id)?.body.parse();
    let arrays = kinds.definitions().filter(|_| &*kind.name == PROFILES);
    let arrays = arrays.filter_map(|kind| {
        let (array, carried) = (kind.references.as_deref()?, &kind.flux.carried);
        Some(References { array, carried })
    });
    let arrays: Vec<References<'_>> = arrays.collect();
    patch::apply(Form::Merge, &arrays, &mut value, &patch.value).ok()?;
    fill_defaults(&kind.schema, &mut value);
    Some(value)
}
