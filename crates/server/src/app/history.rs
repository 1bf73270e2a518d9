//! The fleet as it was, and the way back there.

use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::history::{self, Rewind, Scope, WayBack};
use fleet::kind::KINDS;
use fleet::log::{Change, Revision, RevisionRecord};
use store::{AuditQuery, StoreError};

use super::engine::{WriteError, WriteRequest, Written};
use super::reads::{Class, Stop, Turn};
use super::{App, Page, Plan};

/// What is to be undone.
#[derive(Clone, Debug)]
pub enum Back {
    /// Everything since a revision, or the part of it that is meant.
    To(Revision, Scope),
    /// One revision.
    Undo(Revision),
}

/// Why the past is not to be had.
#[derive(Debug)]
pub enum PastError {
    /// There is no such revision yet.
    NotYet(Revision),
    Store(StoreError),
    Stopped(Stop),
    /// It is made from the present, which is damaged.
    Damaged,
    /// Our own fault.
    Internal,
}

impl From<Stop> for PastError {
    fn from(stop: Stop) -> Self {
        PastError::Stopped(stop)
    }
}

impl From<StoreError> for PastError {
    fn from(error: StoreError) -> Self {
        PastError::Store(error)
    }
}

/// What differs between two revisions.
#[derive(Debug)]
pub struct Difference {
    pub changes: Vec<Change>,
    pub effect: Effect,
    /// The fleets before and after.
    pub fleets: [Arc<Fleet>; 2],
}

/// How much of the log is read at a time, in bytes and in records.
const PART: usize = 1 << 20;
const RECORDS: usize = 500;

impl App {
    /// What came after a revision, up to the fleet that is given.
    fn rewind(&self, turn: &Turn, now: &Fleet, to: Revision) -> Result<Rewind, PastError> {
        if to > now.revision() {
            return Err(PastError::NotYet(to));
        }
        if now.damage().is_some() {
            return Err(PastError::Damaged);
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

    /// The origin of a kind at a revision, from its last change until then. None: the log does not keep that change any more.
    fn origin_at(&self, turn: &Turn, kind: &str, at: Revision) -> Result<Option<Option<Arc<str>>>, PastError> {
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
    pub fn fleet_at(&self, turn: &Turn, revision: Revision) -> Result<Arc<Fleet>, PastError> {
        let now = self.fleet();
        if revision == now.revision() {
            return Ok(now);
        }
        let rewind = self.rewind(turn, &now, revision)?;
        rewound(turn, &now, revision, &rewind)
    }

    /// What leads from one revision to another.
    pub fn difference(&self, turn: &Turn, from: Revision, to: Revision) -> Result<Difference, PastError> {
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
        Ok(Difference {
            changes,
            effect,
            fleets: [before, after],
        })
    }

    /// What leads back. It holds whatever is written meanwhile.
    fn way_back(&self, turn: &Turn, back: Back) -> Result<WayBack, PastError> {
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
    fn record(&self, turn: &Turn, now: &Fleet, revision: Revision) -> Result<RevisionRecord, PastError> {
        let before = revision.0.checked_sub(1).map(Revision);
        let before = before
            .filter(|_| revision <= now.revision())
            .ok_or(PastError::NotYet(revision))?;
        let found = turn.wait(self.store.changes(before, 1))?.into_iter().next();
        found
            .filter(|record| record.revision == revision)
            .ok_or(PastError::Internal)
    }

    /// Goes back, in one new revision.
    pub async fn go_back(self: &Arc<Self>, back: Back, mut write: WriteRequest) -> Result<Written, BackError> {
        let way = self.read(Class::Plan, move |app, turn| app.way_back(turn, back));
        write.back = Some(way.await.map_err(PastError::Stopped)??);
        Ok(self.write(write).await?)
    }

    /// What going back would do.
    pub fn plan_back(
        &self,
        turn: &Turn,
        back: Back,
        mut write: WriteRequest,
        rendered: Option<Page>,
    ) -> Result<Plan, BackError> {
        write.back = Some(self.way_back(turn, back)?);
        Ok(self.plan(turn, write, rendered)?)
    }
}

fn rewound(turn: &Turn, now: &Fleet, to: Revision, rewind: &Rewind) -> Result<Arc<Fleet>, PastError> {
    turn.check()?;
    let then = now.rewound(to, rewind).map_err(|detail| {
        tracing::error!(detail, revision = to.0, "cannot reconstruct a revision");
        PastError::Internal
    });
    Ok(Arc::new(then?))
}

/// Why there is no way back.
#[derive(Debug)]
pub enum BackError {
    Past(PastError),
    Write(WriteError),
}

impl From<PastError> for BackError {
    fn from(error: PastError) -> Self {
        BackError::Past(error)
    }
}

impl From<WriteError> for BackError {
    fn from(error: WriteError) -> Self {
        BackError::Write(error)
    }
}
