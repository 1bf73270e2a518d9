//! References to and dependencies on missing definitions. A seed or an older database may have some; no ordinary write creates one.
//! A rollback may, if the state that it restores had one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::snapshot::Fleet;

/// Per missing definition (kind and id): the ids of the resources that name it.
type Holders = BTreeMap<(Arc<str>, Arc<str>), BTreeSet<Arc<str>>>;

/// Everything that dangles in one fleet.
#[derive(Clone, Debug, Default)]
pub struct Dangling {
    /// Clusters with a reference to the definition.
    references: Holders,
    /// Profiles with a reference to the definition.
    profiles: Holders,
    /// Definitions of the same kind that depend on the definition.
    dependencies: Holders,
}

impl Dangling {
    pub fn of(fleet: &Fleet) -> Dangling {
        let mut dangling = Dangling::default();
        for (kind, id, _) in fleet.dangling() {
            let definitions = fleet.definitions(&kind);
            let users = definitions.map(|all| fleet.ids(all.users(&id))).unwrap_or_default();
            let users = users.into_iter().collect();
            if let Some(kind) = fleet.kinds().get(&kind) {
                let profiles = fleet.profiles().referring_to(kind, &id);
                let profiles = profiles.map(|profile| profile.id().clone()).collect();
                dangling.profiles.insert((kind.name.clone(), id.clone()), profiles);
            }
            dangling.references.insert((kind, id), users);
        }
        for kind in fleet.kinds().definitions() {
            let Some(all) = fleet.definitions(&kind.name) else {
                continue;
            };
            for definition in all.iter() {
                let dependencies = kind.dependencies(definition.value());
                for id in dependencies.filter(|id| all.get(id).is_none()) {
                    let holders = dangling.dependencies.entry((kind.name.clone(), id.into())).or_default();
                    holders.insert(definition.document.id.clone());
                }
            }
        }
        dangling
    }

    /// Whether `cluster` refers to a missing definition.
    pub(crate) fn refers(&self, cluster: &str, kind: &Arc<str>, id: &str) -> bool {
        holds(&self.references, kind, id, cluster)
    }

    /// Whether `profile` refers to a missing definition.
    pub(crate) fn profile_refers(&self, profile: &str, kind: &Arc<str>, id: &str) -> bool {
        holds(&self.profiles, kind, id, profile)
    }

    /// Whether `definition` depends on a missing definition of its kind.
    pub(crate) fn depends(&self, definition: &str, kind: &Arc<str>, id: &str) -> bool {
        holds(&self.dependencies, kind, id, definition)
    }
}

fn holds(holders: &Holders, kind: &Arc<str>, id: &str, holder: &str) -> bool {
    let holders = holders.get(&(kind.clone(), Arc::from(id)));
    holders.is_some_and(|holders| holders.contains(holder))
}
