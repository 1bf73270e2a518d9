//! Rules that depend on several resources, checked on the end state of a write: references, removals, dependencies, the
//! contract with Flux.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::Draft;
use crate::dangling::Dangling;
use crate::graph::Graph;
use crate::inputs::{reference_id, references};
use crate::kind::{CLUSTERS, KINDS, Kind, PROFILES};
use crate::nearest::did_you_mean;
use crate::operation::Verb;
use crate::refusal::{MOST_VIOLATIONS, Reason, Refusal, Violation, segment, shorten, some_of};
use crate::snapshot::{Cluster, Definitions};

/// Up to so many problems, the name that was probably meant is looked for: a write may name thousands that do not exist.
const MOST_PROPOSALS: usize = 20;

/// A reply that would break the contract: the cluster, and why.
type Breach = (String, Violation);

impl Draft<'_> {
    /// Checks restored documents against the kinds as they will be.
    pub(super) fn check_restored(&self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for ((kind, id), touch) in &self.touched {
            let restores = matches!(
                self.operations[touch.operation].verb,
                Verb::Restore { value: Some(_), .. }
            );
            let (Some(kind), Some(document)) = (self.now().kinds().get(kind), self.now().document(kind, id)) else {
                continue;
            };
            if restores && errors.len() < MOST_VIOLATIONS {
                let found = kind.validate(&document.body.parse()).into_iter();
                errors.extend(found.map(|error| {
                    let detail = format!("{} \"{id}\" cannot be restored: {}", kind.singular, error.detail);
                    Violation::new(self.blame(&kind.name, id, &error.pointer), detail)
                }));
            }
        }
        invalid_unless_empty(errors)
    }

    /// Checks that each reference the write adds has a definition, and that no cluster refers to a definition twice.
    pub(super) fn check_references(&mut self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        let mut twice = Vec::new();
        let kinds = self.now().kinds().clone();
        let touched: Vec<_> = self.touched_ids(CLUSTERS).cloned().collect();
        for id in &touched {
            let Some(after) = self.edit.cluster_value(id) else {
                continue;
            };
            // Read only for a dangling reference, which is rare.
            let before = LazyCell::new(|| self.base.cluster(id).map(|cluster| cluster.document().body.parse()));
            for kind in kinds.definitions() {
                let is_old = |target: &str| {
                    let before = before.as_ref().map_or(&[][..], |before| references(kind, before));
                    before.iter().any(|reference| reference_id(reference) == target)
                };
                let holder = Holder::Cluster(id);
                self.check_references_to(kind, holder, references(kind, &after), is_old, &mut errors, &mut twice);
            }
        }
        self.check_references_of_profiles(&mut errors);
        invalid_unless_empty(errors)?;
        contract(twice)
    }

    /// The same for profiles. A definition that one refers to twice is its own problem, and not one of the contract.
    fn check_references_of_profiles(&self, errors: &mut Vec<Violation>) {
        for id in self.touched_ids(PROFILES) {
            let Some(profile) = self.now().profiles().get(id) else {
                continue;
            };
            let before = self.base.profiles().get(id);
            let mut twice = Vec::new();
            for kind in self.now().kinds().definitions() {
                let is_old = |target: &str| before.is_some_and(|before| before.refers_to(kind, target));
                let holder = Holder::Profile(id);
                self.check_references_to(
                    kind,
                    holder,
                    references(kind, profile.value()),
                    is_old,
                    errors,
                    &mut twice,
                );
            }
            errors.extend(twice.into_iter().map(|(_, violation)| violation));
        }
    }

    /// Checks the references of one cluster or profile to one kind. `is_old` says whether a reference was there before the write.
    fn check_references_to(
        &self,
        kind: &Kind,
        holder: Holder<'_>,
        references: &[Value],
        is_old: impl Fn(&str) -> bool,
        errors: &mut Vec<Violation>,
        twice: &mut Vec<Breach>,
    ) {
        let array = kind.references.as_deref().expect("definitions have references");
        let definitions = self.now().definitions(&kind.name);
        let mut seen = BTreeSet::new();
        for (n, reference) in references.iter().enumerate() {
            let target = reference_id(reference);
            let (holders, id) = holder.kind_and_id();
            let pointer = || self.blame(holders, id, &format!("{}/{n}/id", segment(array)));
            if !seen.insert(target) {
                let detail = format!("{holder} refers to the {} \"{target}\" twice", kind.singular);
                twice.push((id.to_owned(), Violation::new(pointer(), detail)));
            }
            let exists = definitions.is_some_and(|all| all.get(target).is_some());
            let dangled = || {
                let then = self.dangling_then(holders, id);
                then.is_some_and(|then| match holder {
                    Holder::Cluster(id) => then.refers(id, &kind.name, target),
                    Holder::Profile(id) => then.profile_refers(id, &kind.name, target),
                })
            };
            if !exists && !self.rules.allow_dangling && !is_old(target) && !dangled() {
                let detail = absent(kind, target, definitions.filter(|_| errors.len() < MOST_PROPOSALS));
                errors.push(Violation::new(pointer(), detail));
            }
        }
    }

    /// What dangled in the state that a resource is restored from. None: it was not restored.
    fn dangling_then(&self, kind: &str, id: &str) -> Option<&Dangling> {
        match &self.operations[self.touch(kind, id)?.operation].verb {
            Verb::Restore { dangled, .. } => Some(dangled),
            _ => None,
        }
    }

    /// Checks that no cluster and no profile refers to a removed definition, and no other definition depends on it. A rollback may leave what
    /// dangled in the state that it restores.
    pub(super) fn check_removals(&self) -> Result<(), Refusal> {
        for (kind, id) in self.touched.keys() {
            let (Some(definitions), Some(kind)) = (self.now().definitions(kind), self.now().kinds().get(kind)) else {
                continue;
            };
            let is_removed = definitions.get(id).is_none() && self.base.document(&kind.name, id).is_some();
            if is_removed {
                self.check_users(kind, definitions, id)?;
                self.check_dependents(kind, definitions, id)?;
            }
        }
        Ok(())
    }

    /// Checks that no cluster and no profile refers to a removed definition.
    fn check_users(&self, kind: &Kind, definitions: &Definitions, id: &str) -> Result<(), Refusal> {
        let then = self.dangling_then(&kind.name, id);
        let own = self.now().ids(definitions.users(id)).into_iter();
        let own = own.filter(|user| !then.is_some_and(|then| then.refers(user, &kind.name, id)));
        let referring = self.now().profiles().referring_to(kind, id);
        let referring: Vec<_> = referring
            .filter(|profile| !then.is_some_and(|then| then.profile_refers(profile.id(), &kind.name, id)))
            .collect();
        let members = referring.iter().flat_map(|profile| {
            let members = self.now().profiles().members(profile.id());
            self.now().ids(members)
        });
        let users: BTreeSet<Arc<str>> = own.chain(members).collect();
        let users: Vec<String> = users.iter().map(ToString::to_string).collect();
        let profiles: Vec<&str> = referring.iter().map(|profile| &**profile.id()).collect();
        if users.is_empty() && profiles.is_empty() {
            return Ok(());
        }
        let mut uses = Vec::new();
        if !users.is_empty() {
            uses.push(format!("on {}: {}", counted(users.len(), "cluster"), some_of(&users)));
        }
        if !profiles.is_empty() {
            uses.push(format!(
                "by {}: {}",
                counted(profiles.len(), "profile"),
                some_of(&profiles)
            ));
        }
        let detail = format!(
            "{} \"{id}\" is in use {}; cascade=true removes those references too",
            kind.singular,
            uses.join(", and ")
        );
        let mut refusal = Refusal::at(Reason::InUse, &self.blame(&kind.name, id, ""), detail);
        refusal.resources = profiles.iter().map(|profile| format!("{PROFILES}/{profile}")).collect();
        refusal.clusters = users;
        Err(refusal)
    }

    /// Checks that no definition of the same kind depends on a removed one.
    fn check_dependents(&self, kind: &Kind, definitions: &Definitions, id: &str) -> Result<(), Refusal> {
        let then = self.dangling_then(&kind.name, id);
        let dangled = |dependent: &str| then.is_some_and(|then| then.depends(dependent, &kind.name, id));
        let dependents: Vec<&str> = definitions
            .iter()
            .filter(|one| kind.dependencies(one.value()).any(|dependency| dependency == id))
            .map(|one| &*one.document.id)
            .filter(|dependent| !dangled(dependent))
            .collect();
        if dependents.is_empty() {
            return Ok(());
        }
        let detail = format!("{} \"{id}\" is a dependency of {}", kind.singular, some_of(&dependents));
        Err(Refusal::at(Reason::InUse, &self.blame(&kind.name, id, ""), detail))
    }

    /// Checks that dependencies exist and have no cycles.
    pub(super) fn check_dependencies(&self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for (kind, id) in self.touched.keys() {
            if let (Some(all), Some(kind)) = (self.now().definitions(kind), self.now().kinds().get(kind)) {
                self.check_dependencies_of(kind, all, id, &mut errors);
            }
        }
        for kind in self.now().kinds().definitions() {
            if let Some(all) = self.now().definitions(&kind.name) {
                self.check_cycles(kind, all, &mut errors);
            }
        }
        invalid_unless_empty(errors)
    }

    /// Checks that what one definition depends on exists.
    fn check_dependencies_of(&self, kind: &Kind, all: &Definitions, id: &str, errors: &mut Vec<Violation>) {
        let (Some(field), Some(definition)) = (&kind.flux.depends_on, all.get(id)) else {
            return;
        };
        let old = self.base.document(&kind.name, id);
        let old = old.map_or(Value::Null, |document| document.body.parse());
        let old: BTreeSet<&str> = kind.dependencies(&old).collect();
        let then = self.dangling_then(&kind.name, id);
        let dangled = |dependency: &str| then.is_some_and(|then| then.depends(id, &kind.name, dependency));
        for (n, dependency) in kind.dependencies(definition.value()).enumerate() {
            let is_missing = all.get(dependency).is_none() && !old.contains(dependency) && !dangled(dependency);
            let detail = match dependency == id {
                true => format!("{} \"{id}\" depends on itself", kind.singular),
                false if is_missing => absent(kind, dependency, Some(all)),
                false => continue,
            };
            let pointer = self.blame(&kind.name, id, &format!("{}/{n}", segment(field)));
            errors.push(Violation::new(pointer, detail));
        }
    }

    /// Checks that the definitions of a kind that this write touches are in no cycle of dependencies. Other cycles date from
    /// before the kind had `depends_on`, and are not reported.
    fn check_cycles(&self, kind: &Kind, all: &Definitions, errors: &mut Vec<Violation>) {
        const MOST_PER_CYCLE: usize = 5;
        const MOST_TEXT: usize = 1000;
        let Some(field) = &kind.flux.depends_on else {
            return;
        };
        let graph = Graph::of(all, |definition| kind.dependencies(definition.value()).collect());
        for group in graph.cycles(self.touched_ids(&kind.name).map(|id| &**id)) {
            let touched = group.iter().filter(|id| self.touch(&kind.name, id).is_some());
            for id in touched.take(MOST_PER_CYCLE) {
                let path = graph.path_around(&group, id);
                let dependencies = graph.next(id);
                let n = dependencies.iter().position(|dependency| *dependency == path[1]);
                let pointer = format!("{}/{}", segment(field), n.unwrap_or_default());
                let detail = format!("dependency cycle: {}", shorten(path.join(" → "), MOST_TEXT));
                errors.push(Violation::new(self.blame(&kind.name, id, &pointer), detail));
            }
        }
    }

    /// Checks that no cluster's reply breaks the ExternalService contract.
    pub(super) fn check_contract(&self) -> Result<(), Refusal> {
        let mut breaches = Vec::new();
        let mut check = |cluster: &Cluster, kind: &Kind, pointer: &dyn Fn() -> String| {
            let id = &cluster.document().id;
            if let Some(breach) = self.now().breach(cluster, kind) {
                let path = kind.path.as_deref().unwrap_or_default();
                let profiles = self.now().merged_profiles(cluster).profiles().iter();
                let touched = profiles.filter(|profile| self.touch(PROFILES, profile.id()).is_some());
                let touched: Vec<&str> = touched.map(|profile| &**profile.id()).collect();
                let by = match touched.is_empty() {
                    true => String::new(),
                    false => format!(" with the profile {}", some_of(&touched)),
                };
                let detail = format!("cluster \"{id}\"{by}, {path}: {breach}");
                breaches.push((id.to_string(), Violation::new(pointer(), detail)));
            }
        };
        for cluster in self.touched_ids(CLUSTERS).filter_map(|id| self.now().cluster(id)) {
            let id = &cluster.document().id;
            for kind in self.now().kinds().definitions() {
                check(cluster, kind, &|| self.blame(CLUSTERS, id, ""));
            }
        }
        for (name, clusters) in self.edit.dirty() {
            let Some(kind) = self.now().kinds().get(name) else {
                continue;
            };
            let by_definition = self.touched_ids(name).next().map(|id| self.blame(name, id, ""));
            let blamed = by_definition.unwrap_or_else(|| self.blame(KINDS, name, ""));
            for cluster in self.now().sorted(clusters.clone()) {
                check(cluster, kind, &|| blamed.clone());
            }
        }
        let by_profile = self.touched_ids(PROFILES).next();
        let blamed = by_profile.map(|id| self.blame(PROFILES, id, "")).unwrap_or_default();
        for (name, clusters) in self.edit.placed() {
            if let Some(kind) = self.now().kinds().get(name) {
                let clusters = self.now().sorted(clusters.clone());
                let untouched = clusters.filter(|cluster| self.touch(CLUSTERS, &cluster.document().id).is_none());
                untouched.for_each(|cluster| check(cluster, kind, &|| blamed.clone()));
            }
        }
        contract(breaches)
    }
}

/// What has references.
#[derive(Clone, Copy)]
enum Holder<'a> {
    Cluster(&'a str),
    Profile(&'a str),
}

impl<'a> Holder<'a> {
    fn kind_and_id(self) -> (&'static str, &'a str) {
        match self {
            Holder::Cluster(id) => (CLUSTERS, id),
            Holder::Profile(id) => (PROFILES, id),
        }
    }
}

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Cluster(id) => write!(f, "cluster \"{id}\""),
            Holder::Profile(id) => write!(f, "profile \"{id}\""),
        }
    }
}

/// A number with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The problem of an id that does not exist, with the one that was probably meant.
fn absent(kind: &Kind, id: &str, known: Option<&Definitions>) -> String {
    let known = known.into_iter().flat_map(Definitions::iter);
    let like = did_you_mean(id, known.map(|definition| &*definition.document.id));
    let like = like.map(|like| format!("; {like}")).unwrap_or_default();
    format!("there is no {} \"{id}\"{like}", kind.singular)
}

pub(super) fn invalid_unless_empty(errors: Vec<Violation>) -> Result<(), Refusal> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Refusal::invalid(errors)),
    }
}

fn contract(mut breaches: Vec<Breach>) -> Result<(), Refusal> {
    const MOST: usize = 100;
    let Some((_, first)) = breaches.first() else {
        return Ok(());
    };
    let detail = match breaches.len() {
        1 => first.detail.clone(),
        more => format!(
            "{more} replies would break the contract with Flux; the first: {}",
            first.detail
        ),
    };
    breaches.truncate(MOST);
    let (clusters, errors) = breaches.into_iter().unzip();
    Err(Refusal {
        errors,
        clusters,
        ..Refusal::new(Reason::Contract, detail)
    })
}
