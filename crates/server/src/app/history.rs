//! Earlier states of the fleet, the difference between two of them, and rollbacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::history::{self, Rewind, Scope, WayBack};
use fleet::kind::{CLUSTERS, KINDS};
use fleet::log::{Change, Revision, RevisionRecord};
use fleet::refusal::{Reason, Refusal};
use fleet::reversal::Reversal;
use fleet::selector::Selector;
use store::AuditQuery;

use super::engine::{WriteError, WriteRequest, Written};
use super::errors::{ReadError, RollbackError};
use super::reads::{Class, Turn};
use super::{App, Page, Plan};

/// What is to be undone.
#[derive(Clone, Debug)]
pub enum Back {
    /// Everything since a revision, within a scope.
    To(Revision, Scope),
    /// One revision, which may be an undo or a redo itself.
    Undo(Revision),
    /// The undo of a revision; named by the undo, or by the revision that was undone.
    Redo(Revision),
}

/// What differs between two revisions.
#[derive(Debug)]
pub struct Difference {
    pub changes: Vec<Change>,
    pub effect: Effect,
}

impl Difference {
    /// Drops other clusters.
    fn retain(&mut self, clusters: &BTreeSet<String>) {
        let effect = &mut self.effect;
        effect.clusters.retain(|cluster| clusters.contains(&**cluster.id()));
        effect.relabelled.retain(|cluster| clusters.contains(&*cluster.id));
        for membership in &mut effect.memberships {
            membership.entered.retain(|id| clusters.contains(&**id));
            membership.left.retain(|id| clusters.contains(&**id));
        }
        effect
            .memberships
            .retain(|membership| !membership.entered.is_empty() || !membership.left.is_empty());
        self.changes
            .retain(|change| &*change.kind != CLUSTERS || clusters.contains(&*change.id));
    }
}

/// The clusters that a selector matches in one of two fleets. A key may be known in only one of them.
fn selected(turn: &Turn, selector: &str, fleets: &[&Arc<Fleet>]) -> Result<BTreeSet<String>, ReadError> {
    let mut found = BTreeSet::new();
    let mut failed = None;
    for fleet in fleets {
        match Selector::for_fleet(selector, fleet) {
            Ok(selector) => {
                for cluster in turn.until_stopped(selector.select(fleet)) {
                    found.insert(cluster?.document().id.to_string());
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error.into()),
        _ => Ok(found),
    }
}

/// How much of the log is read at a time, in bytes and in records.
const PART: usize = 1 << 20;
const RECORDS: usize = 500;

impl App {
    /// Collects the changes after a revision, up to the given fleet.
    fn rewind(&self, turn: &Turn, now: &Fleet, to: Revision) -> Result<Rewind, ReadError> {
        if to > now.revision() {
            return Err(ReadError::no_revision(to));
        }
        if now.damage().is_some() {
            return Err(ReadError::Damaged);
        }
        let mut rewind = Rewind::default();
        let mut query = AuditQuery {
            after: Some(to),
            limit: RECORDS,
            bytes: Some(PART),
            ..AuditQuery::default()
        };
        loop {
            turn.check()?;
            let records = turn.wait(self.store.audit(&query))?;
            let Some(last) = records.last() else { break };
            query.behind = Some((last.revision, last.index));
            let ended = last.revision > now.revision();
            for record in records.iter().filter(|record| record.revision <= now.revision()) {
                rewind.note(&record.change);
            }
            if ended {
                break;
            }
        }
        for kind in rewind.kinds() {
            if let Some(origin) = self.origin_at(turn, &kind, to)? {
                rewind.came_from(kind, origin);
            }
        }
        Ok(rewind)
    }

    /// The origin of a kind at a revision, from its last change until then. None: the log no longer has that change.
    fn origin_at(&self, turn: &Turn, kind: &str, at: Revision) -> Result<Option<Option<Arc<str>>>, ReadError> {
        let mut query = AuditQuery {
            kind: Some(KINDS.to_owned()),
            id: Some(kind.to_owned()),
            limit: 256,
            ..AuditQuery::default()
        };
        let mut found = None;
        loop {
            let records = turn.wait(self.store.audit(&query))?;
            let until = records.iter().take_while(|record| record.revision <= at);
            found = until.last().map(|record| record.change.origin.clone()).or(found);
            match records.last() {
                Some(last) if last.revision <= at && records.len() >= query.limit => query.after = Some(last.revision),
                _ => return Ok(found),
            }
        }
    }

    /// The fleet at a revision.
    pub fn fleet_at(&self, turn: &Turn, revision: Revision) -> Result<Arc<Fleet>, ReadError> {
        let now = self.fleet();
        if revision == now.revision() {
            return Ok(now);
        }
        let rewind = self.rewind(turn, &now, revision)?;
        rewound(turn, &now, revision, &rewind)
    }

    /// The difference between two revisions; with a selector, only of the clusters that match it at one of them.
    pub fn difference(
        &self,
        turn: &Turn,
        (from, to): (Revision, Revision),
        selector: Option<&str>,
    ) -> Result<Difference, ReadError> {
        let (low, high) = (from.min(to), from.max(to));
        let later = self.fleet_at(turn, high)?;
        let rewind = self.rewind(turn, &later, low)?;
        let earlier = match low == high {
            true => later.clone(),
            false => rewound(turn, &later, low, &rewind)?,
        };
        let mut changes = rewind.changes(&later);
        drop(rewind);
        turn.check()?;
        let (before, after) = match from <= to {
            true => (earlier, later),
            false => (later, earlier),
        };
        if from <= to {
            for change in &mut changes {
                std::mem::swap(&mut change.before, &mut change.after);
            }
        }
        let effect = Effect::of(&before, &after, &changes);
        let mut difference = Difference { changes, effect };
        if let Some(selector) = selector {
            difference.retain(&selected(turn, selector, &[&before, &after])?);
        }
        Ok(difference)
    }

    /// Prepares a rollback, an undo or a redo. Its operations are computed when the write is judged, so that writes in between do
    /// not make it stale.
    fn prepare(&self, turn: &Turn, back: Back, write: &mut WriteRequest) -> Result<(), RollbackError> {
        let now = self.fleet();
        let (to, back) = match back {
            Back::To(revision, scope) => (revision, history::Back::Rollback(scope)),
            Back::Undo(revision) => self.undo(turn, &now, revision, write)?,
            Back::Redo(revision) => {
                let undo = self.undo_to_redo(turn, &now, revision)?;
                self.undo(turn, &now, undo, write)?
            }
        };
        let rewind = self.rewind(turn, &now, to)?;
        let then = rewound(turn, &now, to, &rewind)?;
        write.back = Some(WayBack { then, back });
        Ok(())
    }

    /// The undo of a revision, and the revision before it. The log says which revision it undoes or redoes, and so does the
    /// reason if the request has none.
    fn undo(
        &self,
        turn: &Turn,
        now: &Fleet,
        revision: Revision,
        write: &mut WriteRequest,
    ) -> Result<(Revision, history::Back), ReadError> {
        let record = self.record(turn, now, revision)?;
        let reversed_by = self.revision(turn, now, revision)?.reversed_by;
        let reversal = Reversal::undoing(revision, record.author.reversal);
        write.author.reversal = Some(reversal);
        write.author.reason.get_or_insert_with(|| reversal.reason());
        let record = Box::new(record);
        let before = Revision(revision.0 - 1);
        Ok((before, history::Back::Undo { record, reversed_by }))
    }

    /// The undo that is undone to make the changes of a revision again.
    fn undo_to_redo(&self, turn: &Turn, now: &Fleet, revision: Revision) -> Result<Revision, RollbackError> {
        let found = self.revision(turn, now, revision)?;
        let detail = match (found.author.reversal, found.reversed_by) {
            (None, Some(undo)) => return Ok(undo),
            (Some(Reversal::Undo(_)), None) => return Ok(revision),
            (None, None) => format!("revision {revision} cannot be redone: it was not undone"),
            (Some(Reversal::Undo(original)), Some(redo)) => {
                format!("revision {revision}, the undo of revision {original}, was already undone by revision {redo}")
            }
            (Some(Reversal::Redo(original)), _) => {
                format!("revision {revision} cannot be redone: it is a redo itself, of revision {original}")
            }
        };
        let refusal = Refusal::new(Reason::Conflict, detail);
        Err(RollbackError::Write(WriteError::Refused(refusal)))
    }

    /// One revision of the log.
    fn record(&self, turn: &Turn, now: &Fleet, revision: Revision) -> Result<RevisionRecord, ReadError> {
        let before = revision.0.checked_sub(1).map(Revision);
        let before = before
            .filter(|_| revision <= now.revision())
            .ok_or_else(|| ReadError::no_revision(revision))?;
        let found = turn.wait(self.store.changes(before, 1))?.into_iter().next();
        found
            .filter(|record| record.revision == revision)
            .ok_or(ReadError::Internal)
    }

    /// Rolls back, undoes or redoes, in one new revision.
    pub async fn go_back(self: &Arc<Self>, back: Back, mut write: WriteRequest) -> Result<Written, RollbackError> {
        let prepared = self.read(Class::Plan, move |app, turn| {
            app.prepare(turn, back, &mut write).map(|()| write)
        });
        let write = prepared.await.map_err(ReadError::Stopped)??;
        Ok(self.write(write).await?)
    }

    /// The plan of a rollback, an undo or a redo.
    pub fn plan_back(
        &self,
        turn: &Turn,
        back: Back,
        mut write: WriteRequest,
        rendered: Option<Page>,
    ) -> Result<Plan, RollbackError> {
        self.prepare(turn, back, &mut write)?;
        Ok(self.plan(turn, write, rendered)?)
    }
}

fn rewound(turn: &Turn, now: &Fleet, to: Revision, rewind: &Rewind) -> Result<Arc<Fleet>, ReadError> {
    turn.check()?;
    let then = now.rewound(to, rewind).map_err(|detail| {
        tracing::error!(detail, revision = to.0, "cannot reconstruct a revision");
        ReadError::Internal
    });
    Ok(Arc::new(then?))
}
