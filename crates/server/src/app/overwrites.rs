//! What a plan overwrites, from the log: the last change of each document, and the fields that go back to an earlier value.

use fleet::kind::name_record;
use fleet::log::{Change, Revision};
use fleet::overwrites::{Overwrites, Search, Source};
use serde::Serialize;
use store::{LastChange, StoreError};

use super::App;
use super::reads::{Stop, Turn};

/// How many changes of a document are read, at most.
const DEPTH: usize = 10;
/// How many changes are read for a plan, besides the last one of each document.
const MOST_EARLIER: usize = 10_000;
/// How many documents are looked up at a time, and how many bytes they have.
const DOCUMENTS: usize = 256;
const BYTES: usize = 1 << 20;

/// How much of the log a plan knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum History {
    /// All that was looked for.
    #[default]
    Complete,
    /// Earlier changes of some documents were compacted.
    Compacted {
        /// The last revision that the log no longer has.
        through: Revision,
    },
    /// There were too many earlier changes to read them all.
    Partial,
    /// The store cannot be read now.
    Unavailable,
}

/// A search with its document.
struct Running<'a> {
    change: &'a Change,
    search: Search,
    /// The change that was read last.
    at: Revision,
    /// Whether the log has no earlier change.
    ended: bool,
}

impl App {
    /// What each change overwrites, at the revision `base`. A plan is not refused because the log cannot be read.
    pub(super) fn overwrites(
        &self,
        turn: &Turn,
        base: Revision,
        changes: &[Change],
    ) -> Result<(Vec<Overwrites>, History), Stop> {
        let mut found = Vec::with_capacity(changes.len());
        let (mut history, mut budget) = (History::Complete, MOST_EARLIER);
        if self.status().is_stuck() || self.status().is_unavailable() {
            // A plan does not wait for a store that is known not to answer.
            history = History::Unavailable;
        }
        for part in parts(changes) {
            turn.check()?;
            if history == History::Unavailable {
                found.extend(part.iter().map(|_| Overwrites::default()));
                continue;
            }
            match self.search(turn, base, part, &mut budget, &mut history) {
                Ok(overwrites) => found.extend(overwrites),
                Err(error) => {
                    tracing::warn!(%error, "a plan does not say what it overwrites: the log cannot be read");
                    history = History::Unavailable;
                    found.extend(part.iter().map(|_| Overwrites::default()));
                }
            }
        }
        Ok((found, history))
    }

    fn search(
        &self,
        turn: &Turn,
        base: Revision,
        changes: &[Change],
        budget: &mut usize,
        history: &mut History,
    ) -> Result<Vec<Overwrites>, StoreError> {
        let running = changes.iter().map(|change| Running {
            change,
            search: Search::of(change),
            at: base.next(),
            // Records of DNS names follow from clusters.
            ended: name_record(&change.kind).is_some(),
        });
        let mut running: Vec<_> = running.collect();
        for depth in 0..DEPTH {
            let mut wanted: Vec<_> = running
                .iter_mut()
                .filter(|one| !one.ended && one.search.goes_on())
                .collect();
            if depth > 0 {
                if *budget < wanted.len() {
                    *history = History::Partial;
                    break;
                }
                *budget -= wanted.len();
            }
            if wanted.is_empty() {
                break;
            }
            let query: Vec<_> = wanted.iter().map(|one| one.wanted()).collect();
            let records = turn.wait(self.store.last_changes(&query))?;
            for (one, record) in wanted.iter_mut().zip(records) {
                let Some(record) = record else {
                    one.ended = true;
                    continue;
                };
                one.at = record.revision;
                let source = Source {
                    revision: record.revision,
                    author: record.author,
                };
                one.search.add(&source, &record.change);
            }
        }
        let cut = running
            .iter()
            .any(|one| one.ended && one.search.goes_on() && one.existed());
        if cut
            && *history == History::Complete
            && let Some(checkpoint) = turn.wait(self.store.checkpoint())?
        {
            *history = History::Compacted {
                through: checkpoint.head.revision,
            };
        }
        Ok(running.into_iter().map(|one| one.search.finish()).collect())
    }
}

impl Running<'_> {
    fn wanted(&self) -> LastChange<'_> {
        LastChange {
            kind: &self.change.kind,
            id: &self.change.id,
            before: self.at,
        }
    }

    /// Whether the log must have had a change of it. A record of a DNS name is not looked for.
    fn existed(&self) -> bool {
        self.change.before.is_some() && name_record(&self.change.kind).is_none()
    }
}

/// The changes in parts of a bounded size.
fn parts(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |change: &&Change| {
            let fits = bytes < BYTES;
            bytes += store::size_of_changes([*change]);
            fits
        };
        let count = rest.iter().take(DOCUMENTS).take_while(fits).count();
        let (part, more) = rest.split_at(count);
        rest = more;
        (!part.is_empty()).then_some(part)
    })
}
