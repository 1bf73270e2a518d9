//! When writers share a commit. The writers of the last commit were just answered, and many of them write again at once. A wait
//! of a millisecond lets these share the next commit, where otherwise many small commits would follow each other. A single
//! writer never waits.

use std::time::{Duration, Instant};

/// How long a group waits for the writers that are expected.
pub(super) const WAIT: Duration = Duration::from_millis(1);

/// How many writers there seem to be.
#[derive(Default)]
pub(super) struct GroupCommit {
    expected: usize,
    since: Option<Instant>,
}

impl GroupCommit {
    /// How many writes make a group that is worth committing: half of the expected ones, since the others arrive during the
    /// commit.
    pub(super) fn enough(&self) -> usize {
        let is_fresh = self.since.is_some_and(|since| since.elapsed() < 2 * WAIT);
        if is_fresh { self.expected / 2 + 1 } else { 1 }
    }

    /// Records a commit of so many writers, while others were waiting.
    pub(super) fn committed(&mut self, writers: usize, waiting: usize) {
        self.expected = writers + waiting;
        self.since = Some(Instant::now());
    }
}
