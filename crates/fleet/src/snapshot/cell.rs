//! The cached reply of one cluster for one kind.

use std::sync::RwLock;

use crate::document::Etag;
use crate::inputs::{Breach, Form, Reply};

/// A reply in the form that was polled last: a cluster polls in one form, and both would take twice the memory.
///
/// Nobody ever waits for the lock, so that a thread that was interrupted while it held it cannot delay a poll. A cell that is
/// busy counts as empty, and is not filled: the reply is made again. Polls of one cell share it, and do not disturb each other.
/// (`arc_swap` would do as well, but dropping such a cell writes to memory of every thread, and a changed definition drops the
/// cells of all its users.)
#[derive(Debug, Default)]
pub(super) struct Cell(RwLock<Option<Made>>);

/// What breaks the contract does so in both forms.
type Made = Result<Reply, Breach>;

impl Cell {
    /// What was made in this form.
    pub(super) fn get(&self, form: Form) -> Option<Made> {
        self.look(|made| match made {
            Ok(reply) if reply.form != form => None,
            made => Some(made.clone()),
        })
    }

    /// The ETag of the plain form, whichever form is here, and whether an input is turned on.
    pub(super) fn outline(&self) -> Option<Result<(Etag, bool), Breach>> {
        let outline = |reply: &Reply| (reply.plain, reply.active);
        self.look(|made| Some(made.as_ref().map(outline).map_err(Breach::clone)))
    }

    pub(super) fn is_filled(&self) -> bool {
        self.look(|_| Some(())).is_some()
    }

    /// Keeps what was made, in place of what was here.
    pub(super) fn fill(&self, made: &Made) {
        let made = made.clone();
        if let Ok(mut kept) = self.0.try_write() {
            *kept = Some(made);
        }
    }

    fn look<T>(&self, read: impl FnOnce(&Made) -> Option<T>) -> Option<T> {
        let kept = self.0.try_read().ok()?;
        kept.as_ref().and_then(read)
    }
}

impl Clone for Cell {
    fn clone(&self) -> Self {
        Cell(RwLock::new(self.look(|made| Some(made.clone()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_the_form_that_was_asked_for_last() {
        let cell = Cell::default();
        assert!(!cell.is_filled());
        let plain = Ok(Reply::new("plain"));
        let marked = Ok(Reply {
            form: Form::Marked,
            plain: Etag::of_bytes(b"plain"),
            ..Reply::new("marked")
        });
        let etag = |form| cell.get(form).map(|outcome| outcome.unwrap().etag);
        for (form, other, outcome) in [
            (Form::Plain, Form::Marked, &plain),
            (Form::Marked, Form::Plain, &marked),
        ] {
            cell.fill(outcome);
            assert_eq!(etag(form), Some(outcome.as_ref().unwrap().etag));
            assert_eq!(etag(other), None);
            assert_eq!(cell.outline(), Some(Ok((Etag::of_bytes(b"plain"), false))));
            assert_eq!(cell.clone().get(form).unwrap().unwrap().etag, etag(form).unwrap());
        }
    }

    /// A poll that meets another one in the same cell must not wait.
    #[test]
    fn a_busy_cell_counts_as_empty_and_readers_share_it() {
        let cell = Cell::default();
        cell.fill(&Ok(Reply::new("a")));
        let writer = cell.0.write().unwrap();
        assert!(cell.get(Form::Plain).is_none());
        assert!(!cell.clone().is_filled());
        drop(writer);
        let reader = cell.0.read().unwrap();
        assert!(cell.get(Form::Plain).is_some());
        cell.fill(&Err(Breach::TooMany(0)));
        drop(reader);
        assert!(cell.get(Form::Plain).unwrap().is_ok(), "what is being read stays");
        cell.fill(&Err(Breach::TooMany(0)));
        assert!(cell.get(Form::Plain).unwrap().is_err() && cell.get(Form::Marked).unwrap().is_err());
    }

    /// A fleet of a million clusters has millions of them.
    #[test]
    fn a_cell_is_small() {
        assert!(size_of::<Cell>() <= 96, "{}", size_of::<Cell>());
    }
}
