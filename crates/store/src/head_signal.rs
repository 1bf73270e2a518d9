//! Wakes followers when the head moves.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Unlike a `Notify`, it wakes every waiter, and also remembers a move that happened while nobody waited.
#[derive(Debug, Default)]
pub(crate) struct HeadSignal {
    moves: watch::Sender<u64>,
    seen: AtomicU64,
}

impl HeadSignal {
    /// The head may have moved.
    pub(crate) fn notify(&self) {
        self.moves.send_modify(|moves| *moves += 1);
    }

    /// Returns when the head may have moved since this last returned. A move counts as seen only when this returns, so dropping
    /// the future loses none.
    pub(crate) async fn moved(&self) {
        let mut moves = self.moves.subscribe();
        let now = *moves.borrow_and_update();
        if self.seen.fetch_max(now, Ordering::AcqRel) >= now {
            // This cannot fail: the sender is a field of `self`.
            let _ = moves.changed().await;
            self.seen.fetch_max(*moves.borrow(), Ordering::AcqRel);
        }
    }
}
