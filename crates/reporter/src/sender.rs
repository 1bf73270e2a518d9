//! Sends reports: everything at the start and now and then, changes at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use crate::api::{Api, Trouble};
use crate::backoff::{Backoff, about};
use crate::inventory::Inventory;
use crate::ours::Ours;
use crate::pace::Pace;
use crate::report::{Object, State};

pub(crate) struct Reporter {
    api: Arc<Api>,
    ours: Ours,
    inventory: Receiver<Inventory>,
    full_every: Duration,
    pace: Pace,
    /// What the API has, as far as we know. None: it may have lost everything.
    sent: Option<State>,
    /// When everything is reported again.
    full_due: Instant,
    /// Providers at other addresses that were logged.
    logged: BTreeSet<String>,
}

/// The next report.
struct Batch {
    state: State,
    /// None: everything.
    changes: Option<Vec<Object>>,
}

impl Reporter {
    pub(crate) fn new(
        api: Arc<Api>,
        ours: Ours,
        inventory: Receiver<Inventory>,
        full_every: Duration,
        pace: Pace,
    ) -> Reporter {
        Reporter {
            api,
            ours,
            inventory,
            full_every,
            pace,
            sent: None,
            full_due: Instant::now(),
            logged: BTreeSet::new(),
        }
    }

    /// Reports, for good. What could not be sent is not kept: each try sends how it is then.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(self.pace.first_retry, self.pace.longest_retry);
        loop {
            if let Some(batch) = self.next() {
                match self.send(&batch).await {
                    Ok(()) => {
                        backoff.reset();
                        self.accepted(batch);
                    }
                    Err(trouble) => {
                        if trouble.is_outage() {
                            self.sent = None;
                        }
                        let pause = backoff.pause(trouble.retry_after);
                        warn!(problem = %trouble, retry_in = ?pause, "the report was not accepted");
                        self.api.wait(pause, &trouble).await;
                        continue;
                    }
                }
            }
            if self.wait().await.is_err() {
                return;
            }
        }
    }

    /// What is to be said now, if anything.
    fn next(&mut self) -> Option<Batch> {
        let inventory = self.inventory.borrow_and_update();
        for (name, url) in inventory.elsewhere(&self.ours) {
            if self.logged.insert(name.to_owned()) {
                warn!(
                    provider = name,
                    url, "this provider polls another address than the one that is reported to: it is not ours"
                );
            }
        }
        let state = inventory.state(&self.ours);
        // A report of everything takes out what it does not have, so nothing may be missing for another reason.
        let incomplete = self.sent.as_ref().is_none_or(|sent| state.lacks_providers_of(sent));
        if inventory.is_current() && (incomplete || Instant::now() >= self.full_due) {
            return Some(Batch { state, changes: None });
        }
        let changes = state.changes_since(self.sent.as_ref()?)?;
        Some(Batch {
            state,
            changes: Some(changes),
        })
    }

    async fn send(&self, batch: &Batch) -> Result<(), Trouble> {
        let (state, at) = (&batch.state, Timestamp::now());
        let reports = match &batch.changes {
            None => state.reports(state.objects.values(), true, at),
            Some(changes) => state.reports(changes.iter(), false, at),
        };
        for report in reports {
            self.api.report(report).await?;
        }
        Ok(())
    }

    fn accepted(&mut self, batch: Batch) {
        let objects = batch.changes.as_ref().map_or(batch.state.objects.len(), Vec::len);
        match batch.changes {
            None => {
                info!(objects, providers = batch.state.providers.len(), "reported everything");
                self.full_due = Instant::now() + about(self.full_every);
            }
            Some(_) => debug!(objects, "reported changes"),
        }
        self.sent = Some(batch.state);
    }

    /// Waits until there may be something to say. Fails when nobody watches any more.
    async fn wait(&mut self) -> Result<(), tokio::sync::watch::error::RecvError> {
        let current = self.inventory.borrow().is_current();
        tokio::select! {
            changed = self.inventory.changed() => changed?,
            () = sleep_until(self.full_due), if current && self.sent.is_some() => return Ok(()),
        }
        let end = Instant::now() + self.pace.collect;
        // A change is often followed by others: wait until it is quiet.
        loop {
            self.inventory.borrow_and_update();
            let quiet = (Instant::now() + self.pace.quiet).min(end);
            match timeout_at(quiet, self.inventory.changed()).await {
                Err(_) => return Ok(()),
                Ok(changed) => changed?,
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }
}
