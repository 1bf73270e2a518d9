//! The cached reply of one cluster for one kind.

use std::sync::RwLock;

use crate::document::Etag;
use crate::inputs::{Breach, Form, Reply};
use crate::rollout::Stamp;

/// A reply in the form that was polled last: a cluster polls in one form, and both would take twice the memory.
///
/// Nobody ever waits for the lock, so that a thread that was interrupted while it held it cannot delay a poll. A cell that is
/// busy counts as empty, and is not filled: the reply is made again. Polls of one cell share it, and do not disturb each other.
/// (`arc_swap` would do as well, but dropping such a cell writes to memory of every thread, and a changed definition drops the
/// cells of all its users.)
#[derive(Debug, Default)]
pub(super) struct Cell(RwLock<Option<Kept>>);

/// What breaks the contract does so in both forms. What was made while the rollouts stood differently is not used.
type Kept = Result<Reply, (Breach, Stamp)>;

type Made = Result<Reply, Breach>;

impl Cell {
    /// What was made in this form.
    pub(super) fn get(&self, form: Form, stamp: Stamp) -> Option<Made> {
        self.look(stamp, |made| match made {
            Ok(reply) if reply.form != form => None,
            Ok(reply) => Some(Ok(reply.clone())),
            Err(breach) => Some(Err(breach.clone())),
        })
    }

    /// The same, if no rollout had a part in it: which clusters are promoted depends on more than what makes a reply.
    pub(super) fn without_rollouts(&self) -> Option<Self> {
        let kept = self.0.try_read().ok()?;
        let stamp = match kept.as_ref()? {
            Ok(reply) => reply.stamp,
            Err((_, stamp)) => *stamp,
        };
        (stamp == 0).then(|| Cell(RwLock::new(kept.clone())))
    }

    /// What was made in this form, with this content, however the rollouts stood.
    pub(super) fn same(&self, form: Form, plain: Etag) -> Option<Reply> {
        let kept = self.0.try_read().ok()?;
        let is_same = |reply: &&Reply| reply.form == form && reply.plain == plain;
        kept.as_ref()?.as_ref().ok().filter(is_same).cloned()
    }

    /// The ETag of the plain form, whichever form is here, and whether an input is turned on.
    pub(super) fn outline(&self, stamp: Stamp) -> Option<Result<(Etag, bool), Breach>> {
        let outline = |reply: &Reply| (reply.plain, reply.active);
        self.look(stamp, |made| Some(made.map(outline).map_err(Breach::clone)))
    }

    /// Keeps what was made, in place of what was here.
    pub(super) fn fill(&self, made: &Made, stamp: Stamp) {
        let made = match made {
            Ok(reply) => Ok(Reply { stamp, ..reply.clone() }),
            Err(breach) => Err((breach.clone(), stamp)),
        };
        if let Ok(mut kept) = self.0.try_write() {
            *kept = Some(made);
        }
    }

    fn look<T>(&self, stamp: Stamp, read: impl FnOnce(Result<&Reply, &Breach>) -> Option<T>) -> Option<T> {
        let kept = self.0.try_read().ok()?;
        match kept.as_ref()? {
            Ok(reply) if reply.stamp == stamp => read(Ok(reply)),
            Err((breach, made)) if *made == stamp => read(Err(breach)),
            _ => None,
        }
    }
}

impl Clone for Cell {
    fn clone(&self) -> Self {
        let kept = self.0.try_read().ok().and_then(|kept| kept.clone());
        Cell(RwLock::new(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_the_form_that_was_asked_for_last() {
        let cell = Cell::default();
        assert!(cell.without_rollouts().is_none());
        let plain = Ok(Reply::new("plain"));
        let marked = Ok(Reply {
            form: Form::Marked,
            plain: Etag::of_bytes(b"plain"),
            ..Reply::new("marked")
        });
        let etag = |form| cell.get(form, 0).map(|outcome| outcome.unwrap().etag);
        for (form, other, outcome) in [
            (Form::Plain, Form::Marked, &plain),
            (Form::Marked, Form::Plain, &marked),
        ] {
            cell.fill(outcome, 0);
            assert_eq!(etag(form), Some(outcome.as_ref().unwrap().etag));
            assert_eq!(etag(other), None);
            assert_eq!(cell.outline(0), Some(Ok((Etag::of_bytes(b"plain"), false))));
            assert_eq!(cell.clone().get(form, 0).unwrap().unwrap().etag, etag(form).unwrap());
        }
    }

    /// A poll that meets another one in the same cell must not wait.
    #[test]
    fn a_busy_cell_counts_as_empty_and_readers_share_it() {
        let cell = Cell::default();
        cell.fill(&Ok(Reply::new("a")), 0);
        let writer = cell.0.write().unwrap();
        assert!(cell.get(Form::Plain, 0).is_none());
        assert!(cell.clone().get(Form::Plain, 0).is_none());
        drop(writer);
        let reader = cell.0.read().unwrap();
        assert!(cell.get(Form::Plain, 0).is_some());
        cell.fill(&Err(Breach::TooMany(0)), 0);
        drop(reader);
        assert!(cell.get(Form::Plain, 0).unwrap().is_ok(), "what is being read stays");
        cell.fill(&Err(Breach::TooMany(0)), 0);
        assert!(cell.get(Form::Plain, 0).unwrap().is_err() && cell.get(Form::Marked, 0).unwrap().is_err());
    }

    /// A rollout that moved may have changed what the cluster is told.
    #[test]
    fn what_was_made_while_rollouts_stood_differently_is_not_used() {
        let cell = Cell::default();
        for made in [Ok(Reply::new("a")), Err(Breach::TooMany(0))] {
            cell.fill(&made, 7);
            assert!(cell.get(Form::Plain, 7).is_some() && cell.outline(7).is_some());
            assert!(cell.get(Form::Plain, 0).is_none() && cell.outline(8).is_none());
            assert!(cell.without_rollouts().is_none());
        }
    }

    /// A fleet of a million clusters has millions of them.
    #[test]
    fn a_cell_is_small() {
        assert!(size_of::<Cell>() <= 96, "{}", size_of::<Cell>());
    }
}
