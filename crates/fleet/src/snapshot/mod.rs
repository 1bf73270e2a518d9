//! The fleet at one revision, immutable: polls are answered from it, and writes are checked against it.
//!
//! Maps are persistent (revisions share structure), so the next revision costs what changed, and a reader can keep its revision
//! for as long as it needs.

mod catalog;
mod cell;
mod cluster;
mod cluster_set;
mod clusters;
mod definitions;
mod edit;
mod labels;
mod load;
mod outline;
mod poll;
mod profiles;
mod view;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{HashMap, OrdMap};

use self::catalog::Catalog;
pub use self::cell::Visit;
pub use self::cluster::{Cluster, ClusterHead, unique_of};
pub use self::cluster_set::{ClusterSet, Number};
use self::clusters::Clusters;
pub use self::definitions::{Definition, Definitions};
pub(crate) use self::edit::Edit;
use self::labels::Labels;
pub(crate) use self::outline::ClusterOutline;
pub use self::poll::{Named, Poll};
pub use self::view::{Seen, View};
use crate::damage::Damage;
use crate::document::Document;
use crate::guard::Guards;
use crate::identity::{IDENTITIES, Identities};
use crate::inputs::{reference_id, references};
use crate::kind::{
    CLUSTERS, DECOMMISSIONS, Failures, GUARDS, KINDS, Kind, Kinds, PROFILES, RELEASED_NAMES, ROLLOUTS, Source, Trust,
};
use crate::log::{Head, Resource, Revision, RevisionRecord, State};
use crate::profile::Profiles;
use crate::rollout::Rollouts;

/// The whole fleet at one revision.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    head: Head,
    kinds: Arc<Kinds>,
    /// The documents of the kinds.
    sources: OrdMap<Arc<str>, Source>,
    definitions: BTreeMap<Arc<str>, Definitions>,
    /// Identifies kinds, definitions and profiles, and whom their last changes concern.
    catalog: Catalog,
    clusters: Clusters,
    by_dns: HashMap<Arc<str>, Arc<Cluster>>,
    decommissions: OrdMap<Arc<str>, Arc<Document>>,
    released_names: OrdMap<Arc<str>, Arc<Document>>,
    identities: Identities,
    profiles: Profiles,
    rollouts: Rollouts,
    guards: Guards,
    labels: Labels,
    clusters_changed: Head,
    /// The damage of the store that the fleet was loaded from, if any.
    damage: Option<Arc<Damage>>,
}

impl Fleet {
    /// The fleet that a store holds. If the store is damaged: the part of it that can be read.
    pub fn load(state: State) -> Result<Fleet, String> {
        let mut damage = state.damage;
        let mut fleet = match Fleet::of(state.resources) {
            Ok(fleet) => fleet,
            Err(detail) if damage.is_empty() => return Err(detail),
            // The readable part does not fit together.
            Err(detail) => {
                damage.everywhere.get_or_insert(detail);
                Fleet::default()
            }
        };
        fleet.head = state.head;
        fleet.clusters_changed = state.head;
        fleet.damage = (!damage.is_empty()).then(|| Arc::new(damage));
        Ok(fleet)
    }

    /// The damage of the store that the fleet was loaded from, if any.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_deref()
    }

    /// Whether resources of a kind may be missing because the store is damaged.
    pub fn is_damaged(&self, kind: &str) -> bool {
        self.damage()
            .is_some_and(|damage| damage.hides_everything() || damage.hides(kind))
    }

    /// The fleet after the next revision.
    pub fn follow(&self, record: &RevisionRecord) -> Result<Fleet, String> {
        let mut edit = Edit::new(self.clone());
        let (kinds, rest): (Vec<_>, Vec<_>) = record.changes.iter().partition(|change| &*change.kind == KINDS);
        // All kinds at once: one may take the path or the array of another that is removed.
        for change in &kinds {
            let source = change.after.clone().map(|after| (after, change.origin.clone()));
            edit.put_kind(change.id.clone(), source);
        }
        edit.settle_kinds(Trust::Stored)
            .map_err(|failed| describe_failures(&failed))?;
        for change in rest {
            let went_with_its_kind = kinds.iter().any(|kind| kind.id == change.kind && kind.after.is_none());
            // Definitions are removed with their kind; clusters are not.
            if change.after.is_some() || !went_with_its_kind || &*change.kind == CLUSTERS {
                edit.put(&change.kind, change.id.clone(), change.after.clone(), None)?;
            }
        }
        let fleet = edit.settle()?;
        let touches_clusters = record.changes.iter().any(|change| &*change.kind == CLUSTERS);
        Ok(fleet.at(record.head(), touches_clusters))
    }

    pub(crate) fn at(mut self, head: Head, clusters_changed: bool) -> Fleet {
        self.head = head;
        if clusters_changed {
            self.clusters_changed = head;
        }
        self
    }

    pub fn head(&self) -> Head {
        self.head
    }

    pub fn revision(&self) -> Revision {
        self.head.revision
    }

    /// The last revision that wrote a cluster: the version of any list of clusters. It includes the digest, because another
    /// history may use the same numbers.
    pub fn clusters_changed(&self) -> Head {
        self.clusters_changed
    }

    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.kinds
    }

    pub fn definitions(&self, kind: &str) -> Option<&Definitions> {
        self.definitions.get(kind)
    }

    pub fn clusters(&self) -> &OrdMap<Arc<str>, Arc<Cluster>> {
        self.clusters.by_id()
    }

    /// The cluster with a number.
    pub(crate) fn numbered(&self, number: Number) -> Option<&Arc<Cluster>> {
        self.clusters.numbered(number)
    }

    /// The clusters of a set, sorted by id.
    pub fn sorted(&self, set: ClusterSet) -> impl Iterator<Item = &Arc<Cluster>> {
        self.clusters.sorted(set)
    }

    /// The ids of the clusters of a set, sorted.
    pub fn ids(&self, set: ClusterSet) -> Vec<Arc<str>> {
        let clusters = self.clusters.sorted(set);
        clusters.map(|cluster| cluster.document().id.clone()).collect()
    }

    /// Identifies kinds, definitions and profiles.
    pub fn catalog(&self) -> u64 {
        self.catalog.stamp()
    }

    /// Whether no change of kinds, definitions and profiles since an earlier fleet concerns a cluster, given what [`Fleet::catalog`] was there. Few of them are
    /// known: after many changes, all clusters count as concerned.
    pub fn has_same_catalog(&self, since: u64, cluster: &Cluster) -> bool {
        self.catalog.is_same(since, None, cluster.number())
    }

    /// The clusters whose document is not that of an earlier fleet, by id: as they were, and as they are. What both fleets share
    /// is not looked at.
    pub fn clusters_since<'a>(
        &'a self,
        earlier: &'a Fleet,
    ) -> impl Iterator<Item = (Option<&'a Arc<Cluster>>, Option<&'a Arc<Cluster>>)> {
        earlier.clusters().diff(self.clusters()).map(|item| match item {
            DiffItem::Add(_, new) => (None, Some(new)),
            DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
            DiffItem::Remove(_, old) => (Some(old), None),
        })
    }

    pub fn cluster(&self, id: &str) -> Option<&Arc<Cluster>> {
        self.clusters().get(id)
    }

    pub fn decommissions(&self) -> &OrdMap<Arc<str>, Arc<Document>> {
        &self.decommissions
    }

    /// DNS names that a cluster gave up and that no cluster has now.
    pub fn released_names(&self) -> &OrdMap<Arc<str>, Arc<Document>> {
        &self.released_names
    }

    /// Who may call.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// What clusters get by what they are.
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Changes that go out wave by wave.
    pub fn rollouts(&self) -> &Rollouts {
        &self.rollouts
    }

    /// Limits on what one write may do.
    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// The clusters that may have a definition: by a reference of their own, or by a profile.
    pub fn users(&self, kind: &str, id: &str) -> ClusterSet {
        let definitions = self.definitions.get(kind);
        let mut users = definitions.map(|all| all.users(id)).unwrap_or_default();
        if let Some(kind) = self.kinds.get(kind).filter(|_| !self.profiles.is_empty()) {
            users.unite(&self.profiles.users(kind, id));
            self.add_users_by_rollouts(kind, id, &mut users);
        }
        users
    }

    /// The clusters that a patched profile may bring a definition to.
    fn add_users_by_rollouts(&self, kind: &Kind, id: &str, users: &mut ClusterSet) {
        let patched = self
            .rollouts
            .active()
            .into_iter()
            .flat_map(|active| active.patched_profiles());
        for (_, profile) in patched.filter(|(_, profile)| profile.refers_to(kind, id)) {
            users.unite(&self.members(profile.id()));
        }
    }

    /// The clusters that match a profile which a rollout patches.
    pub(crate) fn members_by_rollouts(&self) -> Vec<Arc<str>> {
        let mut members = ClusterSet::default();
        let patched = self
            .rollouts
            .active()
            .into_iter()
            .flat_map(|active| active.patched_profiles());
        patched.for_each(|(_, profile)| members.unite(&self.members(profile.id())));
        self.ids(members)
    }

    /// The clusters that match a profile, as it is or as a rollout patches it.
    pub fn members(&self, id: &str) -> ClusterSet {
        let mut members = self.profiles.members(id);
        let patched = self
            .rollouts
            .active()
            .into_iter()
            .flat_map(|active| active.patched_profiles());
        for (_, profile) in patched.filter(|(_, profile)| &**profile.id() == id) {
            let present = self.profiles.get(id);
            if present.is_none_or(|present| present.selector != profile.selector) {
                members.unite(&profile.selector.numbers(self));
            }
        }
        members
    }

    /// Whether a cluster has a definition by its profiles, and does not refer to it itself.
    pub(crate) fn is_only_brought(&self, kind: &Kind, id: &str, cluster: &str) -> bool {
        let refers = |cluster: &Cluster| {
            let definitions = self.definitions.get(&kind.name);
            definitions.is_some_and(|all| all.is_user(id, cluster.number()))
        };
        let cluster = self.cluster(cluster);
        cluster.is_some_and(|cluster| self.view(cluster).profiles().brings(&kind.name, id) && !refers(cluster))
    }

    /// The records of DNS names of this kind: decommissions or released names.
    pub fn name_records(&self, kind: &str) -> Option<&OrdMap<Arc<str>, Arc<Document>>> {
        match kind {
            DECOMMISSIONS => Some(&self.decommissions),
            RELEASED_NAMES => Some(&self.released_names),
            _ => None,
        }
    }

    pub fn cluster_at(&self, dns: &str) -> Option<&Arc<Cluster>> {
        self.by_dns.get(&*lower_case(dns))
    }

    pub fn has_label(&self, key: &str) -> bool {
        self.labels.has(key)
    }

    /// Every label that a cluster has.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.labels.keys()
    }

    /// The values of a label, each with its clusters.
    pub fn label_values(&self, key: &str) -> impl Iterator<Item = (&str, &ClusterSet)> {
        self.labels.values(key)
    }

    /// The clusters that have a label with one of these values.
    pub(crate) fn labelled(&self, key: &str, values: &[String]) -> impl Iterator<Item = &ClusterSet> {
        values.iter().filter_map(move |value| self.labels.clusters(key, value))
    }

    /// All resources of the fleet, as a store keeps them. [`Fleet::load`] turns them into the same fleet.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        let resource = |kind: &Arc<str>, document: &Document| Resource {
            kind: kind.clone(),
            id: document.id.clone(),
            body: document.body.clone(),
            origin: None,
        };
        let [kinds, profiles, guards, rollouts] = [KINDS, PROFILES, GUARDS, ROLLOUTS].map(Arc::<str>::from);
        let [clusters, decommissions, released, identities] =
            [CLUSTERS, DECOMMISSIONS, RELEASED_NAMES, IDENTITIES].map(Arc::<str>::from);
        let sources = self.sources.iter().map(move |(id, (body, origin))| Resource {
            kind: kinds.clone(),
            id: id.clone(),
            body: body.clone(),
            origin: origin.clone(),
        });
        let definitions = self.definitions.iter().flat_map(move |(kind, definitions)| {
            let definitions = definitions.iter();
            definitions.map(move |definition| resource(kind, &definition.document))
        });
        let of_profiles = self.profiles.iter();
        let of_profiles = of_profiles.map(move |profile| resource(&profiles, &profile.document));
        let of_rollouts = self.rollouts.iter();
        let of_rollouts = of_rollouts.map(move |rollout| resource(&rollouts, &rollout.document));
        let of_guards = self.guards.iter().map(move |guard| resource(&guards, &guard.document));
        let of_clusters = self.clusters().values();
        let of_clusters = of_clusters.map(move |cluster| resource(&clusters, cluster.document()));
        let gone = self.decommissions.values();
        let gone = gone.map(move |document| resource(&decommissions, document));
        let given_up = self.released_names.values();
        let given_up = given_up.map(move |document| resource(&released, document));
        let callers = self.identities.ids().filter_map(|id| self.identities.document(&id));
        let callers = callers.map(move |document| resource(&identities, &document));
        sources
            .chain(definitions)
            .chain(of_profiles)
            .chain(of_rollouts)
            .chain(of_guards)
            .chain(of_clusters)
            .chain(gone)
            .chain(given_up)
            .chain(callers)
    }

    /// One resource of any kind.
    pub fn document(&self, kind: &str, id: &str) -> Option<Document> {
        match kind {
            CLUSTERS => self.cluster(id).map(|cluster| cluster.document().clone()),
            DECOMMISSIONS | RELEASED_NAMES => self
                .name_records(kind)?
                .get(&*lower_case(id))
                .map(|document| Document::clone(document)),
            IDENTITIES => self.identities.document(id),
            PROFILES => self.profiles.get(id).map(|profile| profile.document.clone()),
            ROLLOUTS => self.rollouts.get(id).map(|rollout| rollout.document.clone()),
            GUARDS => self.guards.get(id).map(|guard| guard.document.clone()),
            KINDS => self
                .sources
                .get_key_value(id)
                .map(|(name, (body, _))| Document::new(name.clone(), body.clone())),
            _ => self
                .definitions
                .get(kind)?
                .get(id)
                .map(|definition| definition.document.clone()),
        }
    }

    /// References to missing definitions, over the whole fleet: kind, id, and the number of clusters.
    pub fn dangling(&self) -> impl Iterator<Item = (Arc<str>, Arc<str>, usize)> {
        let mut found: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
        for (kind, definitions) in &self.definitions {
            found.extend(definitions.dangling().map(|id| (kind.clone(), id.clone())));
        }
        for profile in self.profiles.iter() {
            for kind in self.kinds.definitions() {
                let ids = references(kind, profile.value()).iter().map(reference_id);
                let missing = ids.filter(|id| self.document(&kind.name, id).is_none());
                found.extend(missing.map(|id| (kind.name.clone(), id.into())));
            }
        }
        found.into_iter().map(|(kind, id)| {
            let users = self.users(&kind, &id).len();
            (kind, id, users)
        })
    }
}

fn lower_case(dns: &str) -> Cow<'_, str> {
    match dns.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => dns.to_ascii_lowercase().into(),
        false => dns.into(),
    }
}

fn describe_failures(failed: &Failures) -> String {
    let errors = failed
        .iter()
        .flat_map(|(kind, errors)| errors.iter().map(move |error| (kind, error)));
    let lines: Vec<_> = errors
        .map(|(kind, error)| format!("kind {kind}, {}: {}", error.pointer, error.detail))
        .collect();
    lines.join("; ")
}
