//! The cached reply of one cluster for one kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::catalog::CatalogStamp;
use crate::document::Etag;
use crate::inputs::{Breach, Form, Reply};
use crate::log::Revision;
use crate::rollout::Stamp;
use crate::status::Moment;

/// A reply in the form that was polled last: a cluster polls in one form, and both would take twice the memory.
///
/// Nobody ever waits for the lock, so that a thread that was interrupted while it held it cannot delay a poll. A cell that is
/// busy counts as empty, and is not filled: the reply is made again. Polls of one cell share it, and do not disturb each other.
/// (`arc_swap` would do as well, but dropping such a cell writes to memory of every thread.)
#[derive(Debug, Default)]
pub(super) struct Cell(RwLock<Option<Arc<Kept>>>);

/// What was made, and what with. What breaks the contract does so in both forms.
#[derive(Debug)]
struct Kept {
    made: Made,
    catalog: AtomicU64,
    rollouts: Stamp,
    visit: LastVisit,
}

/// A poll by the cluster itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Identifies the program that polled; not 0.
    pub by: u64,
    pub at: Moment,
    pub revision: Revision,
}

/// The last visit for which a reply was used. A poll has the reply at hand, and writes here only; whoever looks at what is known about the
/// cluster collects it ([`Cell::visit`]). It is no part of the fleet.
#[derive(Debug, Default)]
struct LastVisit {
    /// 0: there was none.
    by: AtomicU64,
    at: AtomicU64,
    revision: AtomicU64,
}

impl LastVisit {
    fn new(visit: Option<Visit>) -> Self {
        let last = LastVisit::default();
        if let Some(visit) = visit {
            last.note(visit);
        }
        last
    }

    /// Returns whether the visit before was by the same.
    fn note(&self, visit: Visit) -> bool {
        self.at.store(visit.at.0, Ordering::Relaxed);
        self.revision.store(visit.revision.0, Ordering::Relaxed);
        self.by.load(Ordering::Relaxed) == visit.by || {
            self.by.store(visit.by, Ordering::Relaxed);
            false
        }
    }

    fn get(&self) -> Option<Visit> {
        let by = self.by.load(Ordering::Relaxed);
        (by != 0).then(|| Visit {
            by,
            at: Moment(self.at.load(Ordering::Relaxed)),
            revision: Revision(self.revision.load(Ordering::Relaxed)),
        })
    }
}

type Made = Result<Reply, Breach>;

/// What a reply is made with, besides the cluster: nothing that was made with something else is used.
pub(super) trait Ingredients {
    fn catalog(&self) -> CatalogStamp;

    /// Whether a reply that was made with another catalog is the same with this one.
    fn is_same_with(&self, catalog: CatalogStamp) -> bool;

    fn rollouts(&self) -> Stamp;
}

impl Cell {
    /// What was made in this form.
    pub(super) fn get(&self, form: Form, with: &impl Ingredients) -> Option<Made> {
        self.look(with, |kept| kept.in_form(form))
    }

    /// The same for a poll: what holds with this catalog, too, is kept as made with it, so that the next poll need not find out again. (A
    /// plan looks with a catalog that may never be.)
    ///
    /// Also notes the visit, and returns whether the last one for this reply was by the same.
    pub(super) fn poll(&self, form: Form, with: &impl Ingredients, visit: Option<Visit>) -> Option<(Made, bool)> {
        self.look(with, |kept| {
            if kept.catalog.load(Ordering::Relaxed) != with.catalog() {
                kept.catalog.store(with.catalog(), Ordering::Relaxed);
            }
            let made = kept.in_form(form)?;
            Some((made, visit.is_some_and(|visit| kept.visit.note(visit))))
        })
    }

    /// The last visit for the reply that is here, and the digest of its plain form.
    pub(super) fn visit(&self) -> Option<(Etag, Visit)> {
        let kept = self.0.try_read().ok()?;
        let kept = kept.as_ref()?;
        Some((kept.made.as_ref().ok()?.plain, kept.visit.get()?))
    }

    /// The same, if no rollout had a part in it: which clusters are promoted depends on more than what makes a reply.
    pub(super) fn without_rollouts(&self) -> Option<Self> {
        let kept = self.0.try_read().ok()?;
        let kept = kept.as_ref().filter(|kept| kept.rollouts == 0)?;
        Some(Cell(RwLock::new(Some(kept.clone()))))
    }

    /// What was made in this form, with this content, whatever it was made with.
    pub(super) fn same(&self, form: Form, plain: Etag) -> Option<Reply> {
        let kept = self.0.try_read().ok()?;
        let is_same = |reply: &&Reply| reply.form == form && reply.plain == plain;
        kept.as_ref()?.made.as_ref().ok().filter(is_same).cloned()
    }

    /// The ETag of the plain form, whichever form is here, and whether an input is turned on.
    pub(super) fn outline(&self, with: &impl Ingredients) -> Option<Result<(Etag, bool), Breach>> {
        let outline = |reply: &Reply| (reply.plain, reply.active);
        self.look(with, |kept| {
            Some(kept.made.as_ref().map(outline).map_err(Breach::clone))
        })
    }

    /// Keeps what was made, in place of what was here.
    pub(super) fn fill(&self, made: &Made, with: &impl Ingredients, visit: Option<Visit>) {
        let kept = Kept {
            made: made.clone(),
            catalog: with.catalog().into(),
            rollouts: with.rollouts(),
            visit: LastVisit::new(visit),
        };
        if let Ok(mut place) = self.0.try_write() {
            *place = Some(Arc::new(kept));
        }
    }

    fn look<T>(&self, with: &impl Ingredients, read: impl FnOnce(&Kept) -> Option<T>) -> Option<T> {
        let kept = self.0.try_read().ok()?;
        let kept = kept.as_ref().filter(|kept| kept.rollouts == with.rollouts())?;
        let catalog = kept.catalog.load(Ordering::Relaxed);
        (catalog == with.catalog() || with.is_same_with(catalog)).then(|| read(kept))?
    }
}

impl Kept {
    fn in_form(&self, form: Form) -> Option<Made> {
        match &self.made {
            Ok(reply) if reply.form != form => None,
            made => Some(made.clone()),
        }
    }
}

/// Shares what is in it.
impl Clone for Cell {
    fn clone(&self) -> Self {
        let kept = self.0.try_read().ok().and_then(|kept| kept.clone());
        Cell(RwLock::new(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalog and rollouts; replies of the catalog before are the same.
    struct With(CatalogStamp, Stamp);

    impl Ingredients for With {
        fn catalog(&self) -> CatalogStamp {
            self.0
        }

        fn is_same_with(&self, catalog: CatalogStamp) -> bool {
            catalog + 1 == self.0
        }

        fn rollouts(&self) -> Stamp {
            self.1
        }
    }

    const WITH: With = With(3, 0);

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
        let etag = |form| cell.get(form, &WITH).map(|outcome| outcome.unwrap().etag);
        for (form, other, outcome) in [
            (Form::Plain, Form::Marked, &plain),
            (Form::Marked, Form::Plain, &marked),
        ] {
            cell.fill(outcome, &WITH, None);
            assert_eq!(etag(form), Some(outcome.as_ref().unwrap().etag));
            assert_eq!(etag(other), None);
            assert_eq!(cell.outline(&WITH), Some(Ok((Etag::of_bytes(b"plain"), false))));
            assert_eq!(
                cell.clone().get(form, &WITH).unwrap().unwrap().etag,
                etag(form).unwrap()
            );
        }
    }

    /// A poll that meets another one in the same cell must not wait.
    #[test]
    fn a_busy_cell_counts_as_empty_and_readers_share_it() {
        let cell = Cell::default();
        cell.fill(&Ok(Reply::new("a")), &WITH, None);
        let writer = cell.0.write().unwrap();
        assert!(cell.get(Form::Plain, &WITH).is_none());
        assert!(cell.clone().get(Form::Plain, &WITH).is_none());
        drop(writer);
        let reader = cell.0.read().unwrap();
        assert!(cell.get(Form::Plain, &WITH).is_some());
        cell.fill(&Err(Breach::TooMany(0)), &WITH, None);
        drop(reader);
        assert!(
            cell.get(Form::Plain, &WITH).unwrap().is_ok(),
            "what is being read stays"
        );
        cell.fill(&Err(Breach::TooMany(0)), &WITH, None);
        assert!(cell.get(Form::Plain, &WITH).unwrap().is_err() && cell.get(Form::Marked, &WITH).unwrap().is_err());
    }

    /// A rollout that moved may have changed what the cluster is told.
    #[test]
    fn what_was_made_while_rollouts_stood_differently_is_not_used() {
        let cell = Cell::default();
        for made in [Ok(Reply::new("a")), Err(Breach::TooMany(0))] {
            cell.fill(&made, &With(3, 7), None);
            assert!(cell.get(Form::Plain, &With(3, 7)).is_some() && cell.outline(&With(3, 7)).is_some());
            assert!(cell.get(Form::Plain, &With(3, 0)).is_none() && cell.outline(&With(3, 8)).is_none());
            assert!(cell.without_rollouts().is_none());
        }
    }

    #[test]
    fn what_was_made_with_another_catalog_is_used_only_if_nothing_changed_for_the_cluster() {
        let cell = Cell::default();
        cell.fill(&Ok(Reply::new("a")), &With(3, 0), None);
        for (catalog, is_used) in [(5, false), (2, false), (4, true), (5, false), (3, true)] {
            assert_eq!(cell.get(Form::Plain, &With(catalog, 0)).is_some(), is_used, "{catalog}");
        }
        // A poll keeps what it found out.
        for (catalog, is_used) in [(5, false), (4, true), (3, false), (5, true)] {
            assert_eq!(
                cell.poll(Form::Plain, &With(catalog, 0), None).is_some(),
                is_used,
                "{catalog}"
            );
        }
    }

    #[test]
    fn the_last_visit_is_kept_with_the_reply_it_was_for() {
        let cell = Cell::default();
        let visit = |by, at| Visit {
            by,
            at: Moment(at),
            revision: Revision(at + 1),
        };
        let poll = |visit| cell.poll(Form::Plain, &WITH, visit).unwrap().1;
        let plain = Etag::of_bytes(b"a");
        cell.fill(&Ok(Reply::new("a")), &WITH, None);
        assert_eq!(cell.visit(), None);
        assert!(!poll(None));
        assert!(!poll(Some(visit(7, 1))), "the first one");
        assert!(poll(Some(visit(7, 2))), "by the same");
        assert!(!poll(None), "who only looks leaves nothing");
        assert_eq!(cell.visit(), Some((plain, visit(7, 2))));
        assert!(!poll(Some(visit(8, 3))), "by another one");
        assert_eq!(cell.clone().visit(), Some((plain, visit(8, 3))));
        cell.fill(&Ok(Reply::new("b")), &WITH, Some(visit(8, 4)));
        assert_eq!(cell.visit(), Some((Etag::of_bytes(b"b"), visit(8, 4))));
        assert!(poll(Some(visit(8, 5))));
        cell.fill(&Err(Breach::TooMany(0)), &WITH, Some(visit(8, 6)));
        assert_eq!(cell.visit(), None, "it was told nothing");
    }

    /// A fleet of a million clusters has millions of them.
    #[test]
    fn a_cell_is_small() {
        assert!(size_of::<Cell>() <= 24, "{}", size_of::<Cell>());
    }
}
