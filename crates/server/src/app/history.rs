//! Earlier states of the fleet, the difference between two of them, and rollbacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::history::{self, Rewind, Scope, WayBack};
use fleet::kind::{CLUSTERS, KINDS};
use fleet::log::{Change, Revision, RevisionRecord};
use fleet::selector::Selector;
use store::AuditQuery;

use super::engine::{WriteRequest, Written};
use super::errors::{ReadError, RollbackError};
use super::reads::{Class, Turn};
use super::{App, Page, Plan};

/// What is to be undone.
#[derive(Clone, Debug)]
pub enum Back {
    /// Everything since a revision, within a scope.
    To(Revision, Scope),
    /// One revision.
    Undo(Revision),
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
        effect.clusters.retain(|cluster| clusters.contains(&*cluster.id));
        effect.relabelled.retain(|cluster| clusters.contains(&*cluster.id));
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

    /// Prepares a rollback or an undo. Its operations are computed when the write is judged, so that writes in between do not
    /// make it stale.
    fn way_back(&self, turn: &Turn, back: Back) -> Result<WayBack, ReadError> {
        let now = self.fleet();
        let (to, back) = match back {
            Back::Undo(revision) => {
                let record = self.record(turn, &now, revision)?;
                (Revision(revision.0 - 1), history::Back::Undo(Box::new(record)))
            }
            Back::To(revision, scope) => (revision, history::Back::Rollback(scope)),
        };
        let rewind = self.rewind(turn, &now, to)?;
        let then = rewound(turn, &now, to, &rewind)?;
        Ok(WayBack { then, back })
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

    /// Rolls back, or undoes, in one new revision.
    pub async fn go_back(self: &Arc<Self>, back: Back, mut write: WriteRequest) -> Result<Written, RollbackError> {
        let way = self.read(Class::Plan, move |app, turn| app.way_back(turn, back));
        write.back = Some(way.await.map_err(ReadError::Stopped)??);
        Ok(self.write(write).await?)
    }

    /// The plan of a rollback or an undo.
    pub fn plan_back(
        &self,
        turn: &Turn,
        back: Back,
        mut write: WriteRequest,
        rendered: Option<Page>,
    ) -> Result<Plan, RollbackError> {
        write.back = Some(self.way_back(turn, back)?);
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
