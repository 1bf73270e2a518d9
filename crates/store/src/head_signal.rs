//! Wakes those who wait for the head to move.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Unlike a `Notify`, it wakes everyone who waits and also remembers a ring that nobody waited for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: watch::Sender<u64>,
    heard: AtomicU64,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rings.send_modify(|rings| *rings += 1);
    }

    /// Returns when the bell has rung since this last returned. A ring counts as heard only when this returns, hence
    /// dropping the future loses none.
    pub(crate) async fn rung(&self) {
        let mut rings = self.rings.subscribe();
        let now = *rings.borrow_and_update();
        if self.heard.fetch_max(now, Ordering::AcqRel) >= now {
            // The sender is ours and lives: this returns only for a ring.
            let _ = rings.changed().await;
            self.heard.fetch_max(*rings.borrow(), Ordering::AcqRel);
        }
    }
}
