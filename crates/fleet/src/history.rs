//! The fleet at an earlier revision, from the fleet of now and the `before` of each change in the log; rollback and undo.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::dangling::Dangling;
use crate::json::Json;
use crate::kind::{CLUSTERS, GUARDS, KINDS, built_in_origin, has_own_routes, is_built_in, stays_on_rollback};
use crate::log::{Change, Digest, Head, Revision, RevisionRecord};
use crate::operation::{Operation, Verb};
use crate::refusal::{Reason, Refusal, some_of};
use crate::selector::Selector;
use crate::snapshot::Fleet;

/// The earlier state of every resource that changed since some revision. `None`: it did not exist.
#[derive(Clone, Debug, Default)]
pub struct Rewind {
    then: BTreeMap<(Arc<str>, Arc<str>), Option<Json>>,
    /// The earlier origins of kinds, as far as the log still has them.
    origins: BTreeMap<Arc<str>, Option<Arc<str>>>,
}

impl Rewind {
    /// Adds the next revision of the log. Only the first change of each resource counts.
    pub fn add(&mut self, record: &RevisionRecord) {
        record.changes.iter().for_each(|change| self.note(change));
    }

    /// Adds the next change of the log.
    pub fn note(&mut self, change: &Change) {
        let key = (change.kind.clone(), change.id.clone());
        self.then.entry(key).or_insert_with(|| change.before.clone());
    }

    /// The kinds that changed since and existed then. A change does not record the origin before it, so the caller looks up each
    /// kind's last change before, and passes its origin to [`Rewind::came_from`].
    pub fn kinds(&self) -> Vec<Arc<str>> {
        let kinds = self
            .then
            .iter()
            .filter(|((kind, _), then)| &**kind == KINDS && then.is_some());
        kinds.map(|((_, id), _)| id.clone()).collect()
    }

    /// Sets the origin that a kind had then.
    pub fn came_from(&mut self, kind: Arc<str>, origin: Option<Arc<str>>) {
        self.origins.insert(kind, origin);
    }

    /// The changes that lead from `now` back to the earlier state. Another origin of a kind is a change too.
    pub fn changes(&self, now: &Fleet) -> Vec<Change> {
        let mut changes = Vec::new();
        for ((kind, id), then) in &self.then {
            let before = now.document(kind, id).map(|document| document.body);
            let (mut origin, mut same_origin) = (None, true);
            if &**kind == KINDS && then.is_some() {
                let present = now.kinds().get(id).and_then(|kind| kind.origin.clone());
                let unknown = || origin_of(then, &before, &present);
                origin = self.origins.get(id).cloned().unwrap_or_else(unknown);
                same_origin = origin == present;
            }
            if before != *then || !same_origin {
                changes.push(Change {
                    kind: kind.clone(),
                    id: id.clone(),
                    before,
                    after: then.clone(),
                    origin,
                    unique: None,
                    keeps_unique: false,
                });
            }
        }
        changes
    }
}

/// The origin of a kind whose earlier changes were compacted: the present one if the document is the same, ours if it is a built-in
/// kind of this release, and otherwise none, as for a request.
fn origin_of(then: &Option<Json>, now: &Option<Json>, present: &Option<Arc<str>>) -> Option<Arc<str>> {
    if then == now {
        return present.clone();
    }
    let is_ours = then.as_ref().is_some_and(|document| is_built_in(&document.parse()));
    is_ours.then(built_in_origin)
}

/// A rollback or an undo. Its operations are computed when the write is checked, so other writes cannot make them stale.
#[derive(Clone, Debug)]
pub struct WayBack {
    /// The fleet to restore; for an undo, the fleet before the revision.
    pub then: Arc<Fleet>,
    pub back: Back,
}

#[derive(Clone, Debug)]
pub enum Back {
    Rollback(Scope),
    /// Only this revision.
    Undo {
        record: Box<RevisionRecord>,
        /// The later revision that already took it back, if any. It may have been made again since, by hand.
        reversed_by: Option<Revision>,
    },
}

impl WayBack {
    /// The operations that lead from `now` to the earlier state.
    pub fn operations(&self, now: &Fleet) -> Result<Vec<Operation>, Refusal> {
        match &self.back {
            Back::Rollback(scope) => now.rollback(&self.then, scope),
            Back::Undo { record, reversed_by } => now.undo(&self.then, record, *reversed_by),
        }
    }
}

/// The resources that a rollback restores.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of them, kinds included.
    Fleet,
    Resource {
        kind: String,
        id: String,
    },
    /// The clusters that match a selector, now or then.
    Clusters(String),
}

impl Fleet {
    /// The fleet at an earlier revision. `rewind` has every change since.
    pub fn rewound(&self, revision: Revision, rewind: &Rewind) -> Result<Fleet, String> {
        let record = RevisionRecord {
            revision,
            author: Default::default(),
            changes: rewind.changes(self),
            removed: Default::default(),
            digest: Digest::default(),
        };
        let fleet = self.follow(&record)?;
        let head = Head {
            revision,
            digest: Digest::default(),
        };
        Ok(fleet.at(head, true))
    }

    /// The operations that restore resources as in `then`. Records of DNS names are not restored but follow from the clusters: a
    /// deleted cluster is decommissioned, a renamed one releases its name, a restored one ends the record of its name.
    fn rollback(&self, then: &Fleet, scope: &Scope) -> Result<Vec<Operation>, Refusal> {
        let mut wanted = match scope {
            Scope::Fleet => self.changes_to(then),
            Scope::Resource { kind, .. } if kind == GUARDS => {
                let detail = "rollback leaves guards as they are: write the guard again as it should be";
                return Err(Refusal::at(Reason::Invalid, "/kind", detail));
            }
            Scope::Resource { kind, id } => {
                let exists = |fleet: &Fleet| fleet.document(kind, id).is_some();
                if has_own_routes(kind) || !(exists(self) || exists(then)) {
                    let detail = format!("there is no {kind} \"{id}\" to roll back: it exists neither now nor then");
                    return Err(Refusal::new(Reason::NotFound, detail));
                }
                self.change_to(then, kind, id).into_iter().collect()
            }
            Scope::Clusters(selector) => {
                let ids = self.selected_now_or_in(then, selector)?;
                let changes = ids.iter().filter_map(|id| self.change_to(then, CLUSTERS, id));
                changes.collect()
            }
        };
        wanted.retain(|change| !stays_on_rollback(&change.kind));
        Ok(restore(wanted.iter().collect(), then))
    }

    /// The clusters that a selector matches in this fleet or in `then`.
    fn selected_now_or_in(&self, then: &Fleet, selector: &str) -> Result<BTreeSet<Arc<str>>, Refusal> {
        let mut ids = BTreeSet::new();
        let mut failed = None;
        for fleet in [self, then] {
            match Selector::for_fleet(selector, fleet) {
                Ok(selector) => ids.extend(selector.select(fleet).map(|cluster| cluster.document().id.clone())),
                Err(error) => failed = Some(error),
            }
        }
        if ids.is_empty() {
            let detail = failed.map_or_else(|| format!("\"{selector}\" matches no cluster"), |e| e.to_string());
            return Err(Refusal::at(Reason::Invalid, "/selector", detail));
        }
        Ok(ids)
    }

    /// The changes that lead to `then`.
    fn changes_to(&self, then: &Fleet) -> Vec<Change> {
        let restored = then.resources();
        let restored = restored.filter_map(|resource| self.change_to(then, &resource.kind, &resource.id));
        let new = self.resources();
        let new = new.filter(|resource| then.document(&resource.kind, &resource.id).is_none());
        let removed = new.filter_map(|resource| self.change_to(then, &resource.kind, &resource.id));
        restored.chain(removed).collect()
    }

    /// The change that makes one resource as in `then`, if it differs. Another origin of a kind is a change too.
    fn change_to(&self, then: &Fleet, kind: &str, id: &str) -> Option<Change> {
        let body = |fleet: &Fleet| fleet.document(kind, id).map(|document| document.body);
        let origin = |fleet: &Fleet| {
            let kind = fleet.kinds().get(id).filter(|_| kind == KINDS);
            kind.and_then(|kind| kind.origin.clone())
        };
        let (before, after) = (body(self), body(then));
        if before == after && origin(self) == origin(then) {
            return None;
        }
        Some(Change {
            kind: kind.into(),
            id: id.into(),
            before,
            after,
            origin: origin(then),
            unique: None,
            keeps_unique: false,
        })
    }

    /// The operations that undo one revision. `then` is the fleet before it.
    fn undo(
        &self,
        then: &Fleet,
        record: &RevisionRecord,
        reversed_by: Option<Revision>,
    ) -> Result<Vec<Operation>, Refusal> {
        let ours = record.changes.iter().filter(|change| !stays_on_rollback(&change.kind));
        let back: Vec<Change> = ours
            .map(|change| Change {
                before: change.after.clone(),
                after: change.before.clone(),
                ..change.clone()
            })
            .collect();
        let moved = back.iter().filter(|change| {
            let now = self.document(&change.kind, &change.id).map(|document| document.body);
            now != change.before
        });
        let moved: Vec<String> = moved.map(|change| format!("{}/{}", change.kind, change.id)).collect();
        if !moved.is_empty() {
            let (revision, moved_on) = (record.revision, some_of(&moved));
            let detail = match reversed_by {
                Some(by) => format!("revision {revision} cannot be undone: revision {by} already took it back"),
                None => format!("revision {revision} cannot be undone: {moved_on} changed since"),
            };
            let mut refusal = Refusal::new(Reason::Conflict, detail);
            refusal.resources = moved;
            return Err(refusal);
        }
        Ok(restore(back.iter().collect(), then))
    }
}

/// The operations for some changes, in a valid order: kinds are put before their resources and removed after them, and definitions
/// are put before clusters refer to them. What dangled then may dangle again; kinds get their earlier origin.
fn restore(mut changes: Vec<&Change>, then: &Fleet) -> Vec<Operation> {
    let dangled = Arc::new(Dangling::of(then));
    changes.sort_by_key(|change| match (&*change.kind, &change.after) {
        (KINDS, Some(_)) => 0,
        (CLUSTERS, _) => 2,
        (KINDS, None) => 4,
        (_, Some(_)) => 1,
        (_, None) => 3,
    });
    let operations = changes.into_iter().map(|change| {
        let value: Option<Value> = change.after.as_ref().map(Json::parse);
        let verb = Verb::Restore {
            id: change.id.to_string(),
            value,
            dangled: dangled.clone(),
        };
        let kind = then.kinds().get(&change.id).filter(|_| &*change.kind == KINDS);
        Operation {
            origin: kind.and_then(|kind| kind.origin.clone()),
            ..Operation::new(&*change.kind, verb)
        }
    });
    operations.collect()
}
