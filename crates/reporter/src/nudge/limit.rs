//! How often a provider may be nudged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A few nudges of a path may follow each other closely; after that there is a least time between them. Replicas of the API that
/// disagree for good would otherwise have a provider poll all the time. A nudge that comes too early is not lost: it is due later.
#[derive(Debug)]
pub(crate) struct Limit {
    most: u32,
    every: Duration,
    /// By path: the time at which all nudges are allowed again.
    restored: BTreeMap<String, Instant>,
    waiting: BTreeMap<String, Instant>,
}

impl Limit {
    pub(crate) fn new(most: u32, every: Duration) -> Limit {
        Limit {
            most,
            every,
            restored: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// A path is to be nudged. Several requests for it are one.
    pub(crate) fn ask(&mut self, path: &str, now: Instant) {
        let restored = self.restored.get(path).copied().unwrap_or(now);
        // Each nudge moves that time away by `every`; it may be ahead by `most` of them.
        let due = (restored + self.every)
            .checked_sub(self.every * self.most)
            .unwrap_or(now);
        self.waiting.entry(path.to_owned()).or_insert(due.max(now));
    }

    /// When the next path is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.values().min().copied()
    }

    /// The paths that are due now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<String> {
        let due = self.waiting.iter().filter(|(_, time)| **time <= now);
        let due: Vec<String> = due.map(|(path, _)| path.clone()).collect();
        for path in &due {
            self.waiting.remove(path);
            let restored = self.restored.entry(path.clone()).or_insert(now);
            *restored = (*restored).max(now) + self.every;
        }
        due
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_few_at_once_then_one_at_a_time() {
        let start = Instant::now();
        let mut limit = Limit::new(3, 30 * SECOND);
        assert_eq!(limit.next(), None);
        for _ in 0..3 {
            limit.ask("a", start);
            assert_eq!(limit.due(start), ["a"]);
        }
        limit.ask("a", start);
        limit.ask("b", start);
        assert_eq!(limit.due(start), ["b"], "each path has its own limit");
        assert_eq!(limit.next(), Some(start + 30 * SECOND));
        assert!(limit.due(start + 29 * SECOND).is_empty());
        // Asked for again meanwhile: that is one nudge.
        limit.ask("a", start + 29 * SECOND);
        assert_eq!(limit.due(start + 30 * SECOND), ["a"]);
        assert_eq!(limit.next(), None);
    }

    #[test]
    fn replicas_that_disagree_for_good_cause_one_nudge_at_a_time() {
        let start = Instant::now();
        let mut limit = Limit::new(3, 30 * SECOND);
        let mut nudges = 0;
        for second in 0..3600 {
            let now = start + second * SECOND;
            limit.ask("a", now);
            nudges += limit.due(now).len();
        }
        assert_eq!(nudges, 3600 / 30 + 2);
        // After a rest, a few may follow each other again.
        let later = start + 7200 * SECOND;
        for _ in 0..3 {
            limit.ask("a", later);
            assert_eq!(limit.due(later), ["a"]);
        }
    }
}
