//! The connection between the snapshot and the store: whether the store answers, and how old the snapshot is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an idle engine confirms with the store that the snapshot is current.
pub(super) const CONFIRM_EVERY: Duration = Duration::from_secs(5);
/// How long a store that was unavailable may take to answer before a write is rejected.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a store call may take before new writes are rejected instead of queueing up behind it.
const STUCK_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Status {
    /// Time origin, moved back by the age of the snapshot. The times below are milliseconds since then.
    epoch: Instant,
    /// When the store last confirmed the snapshot.
    confirmed: AtomicU64,
    /// When the running store call began; 0 while none is running.
    called: AtomicU64,
    /// Whether the last store call failed.
    unavailable: AtomicBool,
    /// Why this process does not follow the store any more, although the store answers.
    stopped: Mutex<Option<String>>,
}

impl Status {
    /// The status of a snapshot that is current, or that has this age because the store is unavailable.
    pub(super) fn new(age: Option<Duration>) -> Self {
        let now = Instant::now();
        let before = age.unwrap_or_default() + Duration::from_millis(1);
        let status = Status {
            epoch: now.checked_sub(before).unwrap_or(now),
            confirmed: AtomicU64::new(0),
            called: AtomicU64::new(0),
            unavailable: AtomicBool::new(age.is_some()),
            stopped: Mutex::default(),
        };
        if age.is_none() {
            status.confirm();
        }
        status
    }

    /// How long ago the store last confirmed that the snapshot is current.
    pub fn age(&self) -> Duration {
        self.since(self.confirmed.load(Ordering::Relaxed))
    }

    /// Whether several confirmations in a row are missing.
    pub fn is_stale(&self) -> bool {
        self.age() > 3 * CONFIRM_EVERY
    }

    /// Whether the last store call failed.
    pub fn is_unavailable(&self) -> bool {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// Records that the store is unavailable.
    pub(super) fn set_unavailable(&self) {
        self.unavailable.store(true, Ordering::Relaxed);
    }

    /// Records that the store is available. True: it was not before.
    pub(super) fn set_available(&self) -> bool {
        self.unavailable.swap(false, Ordering::Relaxed)
    }

    /// Records that the snapshot is current.
    pub(super) fn confirm(&self) {
        *self.reason() = None;
        self.confirmed.store(self.now(), Ordering::Relaxed);
    }

    /// Records that the store holds what this process cannot serve, such as what a later release wrote.
    pub(super) fn stop(&self, detail: String) {
        *self.reason() = Some(detail);
    }

    /// Why this process does not follow the store any more. None: it does.
    pub fn stopped(&self) -> Option<String> {
        self.reason().clone()
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the running store call takes too long. The limit is shorter if the store was unavailable before.
    pub fn is_stuck(&self) -> bool {
        let limit = if self.is_unavailable() {
            PROBE_TIMEOUT
        } else {
            STUCK_AFTER
        };
        // Loaded once: the call may end at any moment.
        match self.called.load(Ordering::Relaxed) {
            0 => false,
            called => self.since(called) > limit,
        }
    }

    /// Runs a store call, and records that it is running, so that `is_stuck` can see it.
    pub(super) async fn track<T>(&self, call: impl Future<Output = T>) -> T {
        self.called.store(self.now().max(1), Ordering::Relaxed);
        let answer = call.await;
        self.called.store(0, Ordering::Relaxed);
        answer
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_is_never_stuck() {
        let status = Status::new(Some(Duration::from_secs(60)));
        let call = || {
            let call = std::pin::pin!(status.track(async {}));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(call.poll(&mut context).is_ready());
        };
        std::thread::scope(|scope| {
            let calls = scope.spawn(|| (0..200_000).for_each(|_| call()));
            while !calls.is_finished() {
                assert!(!status.is_stuck());
            }
        });
    }
}
