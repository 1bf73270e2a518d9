//! The fleet as it was: made from the fleet as it is, and what the log says came before each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::json::Json;
use crate::kind::{CLUSTERS, DECOMMISSIONS, KINDS};
use crate::log::{Change, Digest, Head, Revision, RevisionRecord};
use crate::operation::{Operation, Verb};
use crate::refusal::{Reason, Refusal, some_of};
use crate::selector::Selector;
use crate::snapshot::Fleet;

/// What every resource that changed since some revision was then. Absent ones did not exist.
#[derive(Clone, Debug, Default)]
pub struct Rewind {
    then: BTreeMap<(Arc<str>, Arc<str>), Option<Json>>,
}

impl Rewind {
    /// Takes note of the next revision after the ones before. Only what came before the first change of a resource counts.
    pub fn add(&mut self, record: &RevisionRecord) {
        for change in &record.changes {
            let key = (change.kind.clone(), change.id.clone());
            self.then.entry(key).or_insert_with(|| change.before.clone());
        }
    }

    /// The changes that lead from `now` back to then.
    pub fn changes(&self, now: &Fleet) -> Vec<Change> {
        let back = self.then.iter().map(|((kind, id), then)| Change {
            kind: kind.clone(),
            id: id.clone(),
            before: now.document(kind, id).map(|document| document.body),
            after: then.clone(),
            origin: None,
            unique: None,
            keeps_unique: false,
        });
        back.filter(|change| change.before != change.after).collect()
    }
}

/// Which resources a rollback is about.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of them, kinds included.
    Fleet,
    Resource {
        kind: String,
        id: String,
    },
    /// The clusters that match, now or then.
    Clusters(String),
}

impl Fleet {
    /// The fleet at an earlier revision, from which `rewind` knows everything since.
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

    /// What restores resources as they were. Decommissions are nobody's to bring back: a cluster that goes is deleted like any
    /// other, and one that comes ends its own.
    pub fn rollback(&self, then: &Fleet, rewind: &Rewind, scope: &Scope) -> Result<Vec<Operation>, Refusal> {
        let changes = rewind.changes(self);
        let mut wanted: Vec<&Change> = match scope {
            Scope::Fleet => changes.iter().collect(),
            Scope::Resource { kind, id } => {
                let exists = |fleet: &Fleet| fleet.document(kind, id).is_some();
                if kind == DECOMMISSIONS || !(exists(self) || exists(then)) {
                    let detail = format!("there is no {kind} \"{id}\" to roll back, neither now nor then");
                    return Err(Refusal::new(Reason::NotFound, detail));
                }
                let this = |change: &&Change| *change.kind == **kind && *change.id == **id;
                changes.iter().filter(this).collect()
            }
            Scope::Clusters(selector) => {
                let mut ids = BTreeSet::new();
                let mut failed = None;
                for fleet in [self, then] {
                    match Selector::for_fleet(selector, fleet) {
                        Ok(selector) => {
                            ids.extend(selector.select(fleet).map(|cluster| cluster.document().id.clone()));
                        }
                        Err(error) => failed = Some(error),
                    }
                }
                if ids.is_empty() {
                    let detail = failed.map_or_else(|| format!("\"{selector}\" matches no cluster"), |e| e.to_string());
                    return Err(Refusal::at(Reason::Invalid, "/selector", detail));
                }
                let this = |change: &&Change| &*change.kind == CLUSTERS && ids.contains(&change.id);
                changes.iter().filter(this).collect()
            }
        };
        wanted.retain(|change| &*change.kind != DECOMMISSIONS);
        let dangled = then.dangling().map(|(kind, id, _)| format!("{kind}/{id}")).collect();
        Ok(restore(wanted, dangled))
    }

    /// What takes back one revision, and only that one.
    pub fn undo(&self, record: &RevisionRecord) -> Result<Vec<Operation>, Refusal> {
        let ours = record.changes.iter().filter(|change| &*change.kind != DECOMMISSIONS);
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
            let detail = format!(
                "revision {} cannot be undone alone: {} changed since",
                record.revision,
                some_of(&moved)
            );
            let mut refusal = Refusal::new(Reason::Conflict, detail);
            refusal.resources = moved;
            return Err(refusal);
        }
        Ok(restore(back.iter().collect(), BTreeSet::new()))
    }
}

/// Operations that lead where the changes do, in an order that holds: kinds come before what is of them and go after it,
/// definitions come before clusters refer to them.
fn restore(mut changes: Vec<&Change>, dangled: BTreeSet<String>) -> Vec<Operation> {
    let dangled = Arc::new(dangled);
    changes.sort_by_key(|change| match (&*change.kind, &change.after) {
        (KINDS, Some(_)) => 0,
        (CLUSTERS, _) => 2,
        (KINDS, None) => 4,
        (_, Some(_)) => 1,
        (_, None) => 3,
    });
    let operations = changes.into_iter().map(|change| {
        let value: Option<Value> = change.after.as_ref().map(Json::parse);
        let id = change.id.to_string();
        Operation::new(
            &*change.kind,
            Verb::Restore {
                id,
                value,
                dangled: dangled.clone(),
            },
        )
    });
    operations.collect()
}
