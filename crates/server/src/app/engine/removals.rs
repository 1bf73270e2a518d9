//! The recent removals of all processes, which the removal budget counts. The task updates them, plans read them.

use std::sync::{Arc, Mutex, MutexGuard};

use fleet::budget::Recent;
use fleet::log::Removed;
use store::{Store, StoreError};

use crate::config::Budget;

#[derive(Clone, Debug)]
pub(super) struct Removals {
    pub(super) budget: Budget,
    recent: Arc<Mutex<Recent>>,
}

impl Removals {
    pub(super) fn new(budget: Budget, recent: Recent) -> Self {
        Removals {
            budget,
            recent: Arc::new(Mutex::new(recent)),
        }
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().expect("not poisoned")
    }

    pub(super) fn add(&self, at: &str, removed: &Removed) {
        if self.budget.clusters.is_some() && removed.count() > 0 {
            let mut recent = self.recent();
            recent.forget(&crate::before(&crate::now(), self.budget.window));
            recent.add(at, removed);
        }
    }
}

/// The removals within the budget's window, from the log of the store.
pub async fn recent_removals(store: &dyn Store, budget: Budget) -> Result<Recent, StoreError> {
    let mut recent = Recent::default();
    if budget.clusters.is_some() {
        for (at, removed) in store.removed(&crate::before(&crate::now(), budget.window)).await? {
            recent.add(&at, &removed);
        }
    }
    Ok(recent)
}
