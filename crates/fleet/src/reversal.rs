//! Undo and redo: what a revision takes back, and which revisions are taken back.

use crate::log::Revision;

/// What an undo or a redo does. Each names the original revision: the undo of an undo is a redo of the original, and the undo of
/// a redo undoes the original again. So the last of them tells whether the original is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// Takes back the changes of this revision.
    Undo(Revision),
    /// Makes the changes of this revision again, after an undo.
    Redo(Revision),
}

impl Reversal {
    /// What it means to undo `revision`, which itself may be an undo or a redo.
    pub fn undoing(revision: Revision, itself: Option<Reversal>) -> Self {
        match itself {
            None => Reversal::Undo(revision),
            Some(Reversal::Undo(original)) => Reversal::Redo(original),
            Some(Reversal::Redo(original)) => Reversal::Undo(original),
        }
    }

    /// The original revision.
    pub fn original(self) -> Revision {
        let (Reversal::Undo(original) | Reversal::Redo(original)) = self;
        original
    }

    /// The reason in the log if the request has none.
    pub fn reason(self) -> String {
        match self {
            Reversal::Undo(original) => format!("undo of revision {original}"),
            Reversal::Redo(original) => format!("redo of revision {original}"),
        }
    }

    /// Parses the stored form. An error if both are given.
    pub fn from_parts(undoes: Option<Revision>, redoes: Option<Revision>) -> Result<Option<Self>, &'static str> {
        match (undoes, redoes) {
            (None, None) => Ok(None),
            (Some(original), None) => Ok(Some(Reversal::Undo(original))),
            (None, Some(original)) => Ok(Some(Reversal::Redo(original))),
            (Some(_), Some(_)) => Err("a revision that is both an undo and a redo"),
        }
    }

    /// The stored form: the revision that is undone, and the one that is redone. At most one is there.
    pub fn parts(reversal: Option<Self>) -> (Option<Revision>, Option<Revision>) {
        match reversal {
            None => (None, None),
            Some(Reversal::Undo(original)) => (Some(original), None),
            Some(Reversal::Redo(original)) => (None, Some(original)),
        }
    }
}

/// The last undo and the last redo of an original revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastReversals {
    pub undo: Option<Revision>,
    pub redo: Option<Revision>,
}

impl LastReversals {
    /// The later revision that takes `revision` back, if it is taken back: the undo of a change or of a redo, the redo of an undo.
    /// `self` is about the original revision.
    pub fn reverses(self, revision: Revision, itself: Option<Reversal>) -> Option<Revision> {
        match itself {
            None => self.undo.filter(|_| self.undo > self.redo),
            Some(Reversal::Undo(_)) => self.redo.filter(|redo| *redo > revision),
            Some(Reversal::Redo(_)) => self.undo.filter(|undo| *undo > revision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reversals of a log: its revisions are 1, 2, …; each names the revision that it undoes, or none.
    fn reversals(undone: &[Option<u64>]) -> Vec<Option<Reversal>> {
        let mut found: Vec<Option<Reversal>> = Vec::new();
        for undone in undone {
            let reversal = undone.map(|n| Reversal::undoing(Revision(n), found[n as usize - 1]));
            found.push(reversal);
        }
        found
    }

    /// The revision that takes each revision back.
    fn reversed(undone: &[Option<u64>]) -> Vec<Option<u64>> {
        let all = reversals(undone);
        let numbered = || {
            all.iter()
                .enumerate()
                .map(|(n, reversal)| (Revision(n as u64 + 1), *reversal))
        };
        let state = |(revision, reversal): (Revision, Option<Reversal>)| {
            let original = reversal.map_or(revision, Reversal::original);
            let last = LastReversals {
                undo: numbered()
                    .filter(|(_, r)| *r == Some(Reversal::Undo(original)))
                    .map(|(n, _)| n)
                    .next_back(),
                redo: numbered()
                    .filter(|(_, r)| *r == Some(Reversal::Redo(original)))
                    .map(|(n, _)| n)
                    .next_back(),
            };
            last.reverses(revision, reversal).map(|by| by.0)
        };
        numbered().map(state).collect()
    }

    #[test]
    fn an_undo_takes_a_revision_back_and_its_undo_brings_it_again() {
        assert_eq!(reversed(&[None, None]), [None, None]);
        assert_eq!(reversed(&[None, None, Some(2)]), [None, Some(3), None]);
        // 3 undoes 2, 4 undoes 1.
        assert_eq!(
            reversed(&[None, None, Some(2), Some(1)]),
            [Some(4), Some(3), None, None]
        );
        // 4 is the undo of the undo: a redo of 2.
        assert_eq!(reversed(&[None, None, Some(2), Some(3)]), [None, None, Some(4), None]);
        // 5 undoes the redo.
        assert_eq!(
            reversed(&[None, None, Some(2), Some(3), Some(4)]),
            [None, Some(5), Some(4), Some(5), None]
        );
        // 5 undoes 2 again, as `undo` does after `undo` and `redo`.
        assert_eq!(
            reversed(&[None, None, Some(2), Some(3), Some(2)]),
            [None, Some(5), Some(4), Some(5), None]
        );
    }

    #[test]
    fn the_stored_form_has_at_most_one_part() {
        for reversal in [
            None,
            Some(Reversal::Undo(Revision(3))),
            Some(Reversal::Redo(Revision(4))),
        ] {
            let (undoes, redoes) = Reversal::parts(reversal);
            assert_eq!(Reversal::from_parts(undoes, redoes), Ok(reversal));
        }
        assert!(Reversal::from_parts(Some(Revision(1)), Some(Revision(2))).is_err());
    }
}
