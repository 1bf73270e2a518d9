//! When failures are allowed: while something is down, and for a moment after.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long after the end of a fault failures are still part of it.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Disturbance(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    active: usize,
    ended: Option<Instant>,
}

impl Disturbance {
    pub(crate) fn begin(&self) {
        self.0.lock().expect("no panic while it is held").active += 1;
    }

    pub(crate) fn end(&self) {
        let mut state = self.0.lock().expect("no panic while it is held");
        state.active -= 1;
        state.ended = Some(Instant::now());
    }

    /// Whether something that began then may have met it.
    pub(crate) fn touches(&self, begun: Instant) -> bool {
        let state = self.0.lock().expect("no panic while it is held");
        state.active > 0 || state.ended.is_some_and(|ended| ended + GRACE > begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_overlaps_a_fault_or_follows_it_closely_is_touched() {
        let fault = Disturbance::default();
        let begun = Instant::now();
        assert!(!fault.touches(begun));
        fault.begin();
        assert!(fault.touches(begun));
        fault.end();
        assert!(fault.touches(begun), "it overlapped");
        assert!(fault.touches(Instant::now()), "it follows closely");
        assert!(!fault.touches(Instant::now() + GRACE * 2));
    }
}
