//! Following the store: the commits of other processes, and a store that turns out to hold another history.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::log::{Head, Revision, RevisionRecord};
use store::StoreError;
use tracing::{error, info, warn};

use super::DAMAGED;
use super::task::{Task, gauge};
use crate::app::backup::RESTORED;

/// How often a damaged store is loaded again, in case it was repaired.
const RELOAD_DAMAGED_EVERY: Duration = Duration::from_secs(10);
/// How many revisions are read from the log at a time.
const REVISIONS: usize = 16;

impl Task {
    /// Applies what was committed since, by any process, and checks that the log still continues the snapshot.
    pub(super) async fn follow(&mut self) {
        loop {
            let fleet = self.fleet.load_full();
            let served = fleet.head();
            let head = match self.status.track(self.store.head()).await {
                Ok(head) => head,
                Err(error) => return self.mark_unavailable(&error),
            };
            if head == served {
                return self.confirm_snapshot(&fleet).await;
            }
            if head == Head::default() {
                // Whatever happened to the store, an empty one never replaces a fleet.
                return self.mark_unavailable(&"the store is empty");
            }
            if head.revision <= served.revision {
                return self.change_history(served, head).await;
            }
            let changes = self.store.changes(served.revision, REVISIONS);
            let records = match self.status.track(changes).await {
                Ok(records) => records,
                Err(error) => return self.recover_log(error, served, head).await,
            };
            for record in &records {
                self.removals.add(&record.author.at, &record.removed);
            }
            match tokio::task::spawn_blocking(move || replay(&fleet, &records)).await {
                Ok(Ok(fleet)) => self.serve(Arc::new(fleet)),
                Ok(Err(detail)) => {
                    warn!(detail, "the log does not continue the snapshot");
                    return self.change_history(served, head).await;
                }
                Err(_) => {
                    error!("following the log panicked: reloading the store");
                    return self.reload().await;
                }
            }
        }
    }

    /// The snapshot is at the head of the store.
    async fn confirm_snapshot(&mut self, fleet: &Fleet) {
        if fleet.damage().is_some() && self.reloaded.elapsed() > RELOAD_DAMAGED_EVERY {
            return self.reload().await;
        }
        self.mark_available();
        if self.epoch.is_none() {
            self.epoch = self.read_epoch().await;
        }
        self.status.confirm();
    }

    /// The log after the snapshot cannot be read.
    async fn recover_log(&mut self, error: StoreError, served: Head, head: Head) {
        match error {
            StoreError::Compacted(to) => {
                let epoch = self.read_epoch().await;
                if self.is_another_store(epoch.as_deref()) {
                    return self.change_history(served, head).await;
                }
                warn!(served = %served.revision, compacted = %to, "the log was compacted meanwhile: reloading the store");
                self.reload().await;
            }
            // The state may be intact all the same. If not, the snapshot stays, and this head is not tried again.
            StoreError::Corrupt { .. } if self.unreadable != Some(head) => {
                error!(%error, "the log cannot be followed: reloading the store");
                self.reload().await;
                self.unreadable = (self.fleet.load().head() != head).then_some(head);
            }
            StoreError::Corrupt { .. } => {}
            error => self.mark_unavailable(&error),
        }
    }

    /// The store does not contain the served head any more. The two histories are never mixed, and the change is logged and
    /// counted.
    async fn change_history(&mut self, served: Head, head: Head) {
        let epoch = self.read_epoch().await;
        let is_another = self.is_another_store(epoch.as_deref());
        if is_another && head.revision == Revision::ZERO.next() && served.revision > head.revision {
            // A new store with one revision: the database was probably lost, and a start filled it with the seed.
            match self.status.track(self.store.applied()).await {
                Ok(notes) if notes.contains_key(RESTORED) => {}
                Ok(_) => {
                    let reason = "the store was created again: restart this replica if that was intended";
                    return self.mark_unavailable(&reason);
                }
                Err(error) => return self.mark_unavailable(&error),
            }
        }
        // A mirror replaces its own store, and counts that itself.
        if self.metrics.mirror.is_none() {
            self.metrics.histories.inc();
        }
        let because = match (&self.epoch, &epoch) {
            (Some(_), Some(_)) if is_another => "the store was restored from a backup, or created again",
            (Some(_), Some(_)) => "the store lost commits, for example by a failover to a standby that was behind",
            _ => "unknown",
        };
        warn!(%served, store = %head, because, "the store has another history: reloading it");
        self.epoch = epoch;
        self.reload().await;
    }

    /// Loads the store as a whole. A snapshot that is intact is not replaced by a damaged state.
    pub(super) async fn reload(&mut self) {
        self.metrics.reloads.inc();
        self.reloaded = Instant::now();
        let state = match self.status.track(self.store.load()).await {
            Ok(state) => state,
            Err(error) => return self.mark_unavailable(&error),
        };
        if !state.damage.is_empty() && self.fleet.load().damage().is_none() {
            self.metrics.damaged_rows.set(gauge(state.damage.count()));
            let first = state.damage.lines().next().unwrap_or_default();
            return self.mark_unavailable(&format!("{DAMAGED}; {first}"));
        }
        self.removals_known = false;
        match tokio::task::spawn_blocking(move || Fleet::load(state)).await {
            Ok(Ok(fleet)) => {
                info!(head = %fleet.head(), "reloaded the store");
                self.status.confirm();
                self.mark_available();
                self.serve(Arc::new(fleet));
            }
            Ok(Err(detail)) => {
                error!(detail, "the stored fleet cannot be loaded: keeping the last snapshot");
                self.status.stop(detail);
            }
            Err(_) => error!("loading the store panicked: keeping the last snapshot"),
        }
    }

    async fn read_epoch(&self) -> Option<String> {
        self.status.track(self.store.epoch()).await.ok()
    }

    /// Whether this epoch is of another store than the one that was followed, as far as both are known.
    fn is_another_store(&self, epoch: Option<&str>) -> bool {
        let known = self.epoch.as_deref();
        known.is_some() && epoch.is_some() && known != epoch
    }
}

/// The fleet after these revisions, which must continue it by number and digest.
fn replay(fleet: &Fleet, records: &[RevisionRecord]) -> Result<Fleet, String> {
    if records.is_empty() {
        return Err(format!(
            "the log ends at revision {}, but the head is beyond it",
            fleet.revision()
        ));
    }
    let mut fleet = fleet.clone();
    for record in records {
        let head = fleet.head();
        if record.revision != head.revision.next() {
            return Err(format!("revision {} follows {}", record.revision, head.revision));
        }
        if record.chained(head.digest) != record.digest {
            return Err(format!(
                "the digest of revision {} does not follow from {}",
                record.revision, head.revision
            ));
        }
        fleet = fleet.follow(record)?;
    }
    Ok(fleet)
}
