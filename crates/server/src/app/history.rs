//! The fleet as it was, and the way back there.

use std::sync::Arc;

use fleet::Fleet;
use fleet::effect::Effect;
use fleet::history::{Rewind, Scope};
use fleet::kind::KINDS;
use fleet::log::{Change, Revision, RevisionRecord};
use fleet::operation::Operation;
use fleet::refusal::{Reason, Refusal};
use fleet::write::Rules;
use store::{AuditQuery, StoreError};

use super::engine::{WriteError, WriteRequest, Written};
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
    /// Our own fault.
    Internal,
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
}

impl App {
    /// What came after a revision, up to the fleet that is given.
    async fn rewind(&self, now: &Fleet, to: Revision) -> Result<Rewind, PastError> {
        const AT_ONCE: usize = 256;
        if to > now.revision() {
            return Err(PastError::NotYet(to));
        }
        let mut rewind = Rewind::default();
        let mut at = to;
        while at < now.revision() {
            let records = self.store.changes(at, AT_ONCE).await?;
            let Some(last) = records.last().map(|record| record.revision) else {
                return Err(PastError::Internal);
            };
            for record in records.iter().filter(|record| record.revision <= now.revision()) {
                rewind.add(record);
            }
            at = last;
        }
        for kind in rewind.kinds() {
            if let Some(origin) = self.origin_at(&kind, to).await? {
                rewind.came_from(kind, origin);
            }
        }
        Ok(rewind)
    }

    /// The origin of a kind at a revision, from its last change until then. None: the log does not keep that change any more.
    async fn origin_at(&self, kind: &str, at: Revision) -> Result<Option<Option<Arc<str>>>, PastError> {
        let mut query = AuditQuery {
            kind: Some(KINDS.to_owned()),
            id: Some(kind.to_owned()),
            limit: 256,
            ..AuditQuery::default()
        };
        let mut found = None;
        loop {
            let records = self.store.audit(&query).await?;
            let until = records.iter().take_while(|record| record.revision <= at);
            found = until.last().map(|record| record.change.origin.clone()).or(found);
            match records.last() {
                Some(last) if last.revision <= at && records.len() >= query.limit => query.after = Some(last.revision),
                _ => return Ok(found),
            }
        }
    }

    /// The fleet at a revision.
    pub async fn fleet_at(&self, revision: Revision) -> Result<Arc<Fleet>, PastError> {
        let now = self.fleet();
        if revision == now.revision() {
            return Ok(now);
        }
        let rewind = self.rewind(&now, revision).await?;
        self.rewound(now, revision, rewind).await.map(|(then, _)| then)
    }

    async fn rewound(&self, now: Arc<Fleet>, to: Revision, rewind: Rewind) -> Result<(Arc<Fleet>, Rewind), PastError> {
        let place = self.heavy().await;
        let working = tokio::task::spawn_blocking(move || {
            let _place = place;
            (now.rewound(to, &rewind), rewind)
        });
        match working.await {
            Ok((Ok(then), rewind)) => Ok((Arc::new(then), rewind)),
            Ok((Err(detail), _)) => {
                tracing::error!(detail, revision = to.0, "cannot reconstruct an earlier revision");
                Err(PastError::Internal)
            }
            Err(_) => Err(PastError::Internal),
        }
    }

    /// What leads from one revision to another.
    pub async fn difference(&self, from: Revision, to: Revision) -> Result<Difference, PastError> {
        let (before, after) = (self.fleet_at(from).await?, self.fleet_at(to).await?);
        // The resources that differ are among those that changed since the earlier one.
        let (earlier, later) = if from <= to {
            (&before, &after)
        } else {
            (&after, &before)
        };
        let rewind = self.rewind(later, earlier.revision()).await?;
        let place = self.heavy().await;
        let working = tokio::task::spawn_blocking(move || {
            let _place = place;
            let (later, back) = if from <= to { (&after, false) } else { (&before, true) };
            let mut changes = rewind.changes(later);
            if !back {
                for change in &mut changes {
                    std::mem::swap(&mut change.before, &mut change.after);
                }
            }
            let effect = Effect::of(&before, &after, &changes);
            Difference { changes, effect }
        });
        working.await.map_err(|_| PastError::Internal)
    }

    /// The operations that lead back, and the fleet that they are for.
    async fn operations_back(&self, back: &Back) -> Result<(Arc<Fleet>, Vec<Operation>), BackError> {
        let now = self.fleet();
        let operations = match back {
            Back::Undo(revision) => {
                let record = self.record(&now, *revision).await?;
                let before = Revision(revision.0 - 1);
                let rewind = self.rewind(&now, before).await?;
                let (then, _) = self.rewound(now.clone(), before, rewind).await?;
                now.undo(&then, &record)
            }
            Back::To(revision, scope) => {
                let rewind = self.rewind(&now, *revision).await?;
                let (then, rewind) = self.rewound(now.clone(), *revision, rewind).await?;
                now.rollback(&then, &rewind, scope)
            }
        };
        Ok((now, operations.map_err(WriteError::Refused)?))
    }

    /// One revision of the log.
    async fn record(&self, now: &Fleet, revision: Revision) -> Result<RevisionRecord, PastError> {
        let before = revision.0.checked_sub(1).map(Revision);
        let before = before
            .filter(|_| revision <= now.revision())
            .ok_or(PastError::NotYet(revision))?;
        let found = self.store.changes(before, 1).await?.into_iter().next();
        found
            .filter(|record| record.revision == revision)
            .ok_or(PastError::Internal)
    }

    /// Goes back, in one new revision.
    pub async fn go_back(&self, back: &Back, mut write: WriteRequest) -> Result<Written, BackError> {
        const TRIES: usize = 20;
        let WriteRequest {
            author, confirmation, ..
        } = &mut write;
        let (author, mut confirmation) = (std::mem::take(author), *confirmation);
        for _ in 0..TRIES {
            let (now, operations) = self.operations_back(back).await?;
            confirmation.base = Some(now.head());
            let write = WriteRequest {
                operations,
                rules: Rules::default(),
                author: author.clone(),
                confirmation,
            };
            match self.write(write).await {
                // Somebody wrote meanwhile: what leads back may be something else now.
                Err(WriteError::Refused(Refusal {
                    reason: Reason::Stale, ..
                })) => {}
                other => return Ok(other?),
            }
        }
        Err(WriteError::Unavailable("too many other writers".into()).into())
    }

    /// What going back would do.
    pub async fn plan_back(
        self: &Arc<Self>,
        back: &Back,
        mut write: WriteRequest,
        rendered: Option<Page>,
    ) -> Result<Plan, BackError> {
        (_, write.operations) = self.operations_back(back).await?;
        Ok(self.plan(write, rendered).await?)
    }
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
