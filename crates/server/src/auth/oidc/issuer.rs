//! An issuer, its keys, and where people sign in: fetched at the start, from time to time, and when a token names a key that is not known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::fetch::{Addresses, Fetched, fetch};
use super::keys::Keys;

/// How long keys are used before they are fetched again, so that those that the issuer withdrew are forgotten.
const EVERY: Duration = Duration::from_secs(600);
/// The same after a failure.
const RETRY: Duration = Duration::from_secs(15);
/// The least time between two fetches, whatever tokens name: anybody can make up the ids of keys.
const REST: Duration = Duration::from_secs(5);
/// How long a request waits for a fetch.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Issuer {
    /// As tokens have it.
    pub(super) url: String,
    ca_file: Option<PathBuf>,
    /// None: they were never fetched.
    keys: ArcSwapOption<Keys>,
    /// Where people sign in, fetched with the keys.
    addresses: ArcSwapOption<Addresses>,
    /// Whether the last fetch succeeded.
    current: AtomicBool,
    phase: watch::Sender<Phase>,
    wanted: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A fetch is under way.
    Fetching,
    /// Just fetched: no fetch starts, even if one is wanted.
    Resting,
    /// A fetch starts when it is wanted.
    Waiting,
}

impl Issuer {
    pub(super) fn new(url: &str, ca_file: Option<PathBuf>) -> Issuer {
        Issuer {
            url: url.to_owned(),
            ca_file,
            keys: ArcSwapOption::empty(),
            addresses: ArcSwapOption::empty(),
            current: AtomicBool::new(true),
            phase: watch::Sender::new(Phase::Fetching),
            wanted: Notify::new(),
        }
    }

    /// Its keys. None if they were never fetched.
    pub(super) fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.load_full()
    }

    /// Where people sign in. None if that was never fetched.
    pub(super) fn addresses(&self) -> Option<Arc<Addresses>> {
        self.addresses.load_full()
    }

    pub(super) fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Whether the last fetch of its keys succeeded, or there was none yet.
    pub(super) fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed)
    }

    /// Asks for a fetch, which happens when the rate allows it.
    pub(super) fn want_keys(&self) {
        self.wanted.notify_one();
    }

    /// Asks for a fetch, and waits for its end. Does not wait if the last fetch was a moment ago.
    pub(super) async fn wait_for_keys(&self) {
        let mut phase = self.phase.subscribe();
        self.want_keys();
        let _ = timeout(PATIENCE, phase.wait_for(|phase| *phase == Phase::Resting)).await;
    }

    /// Keeps the keys current, and calls `fetched` after each fetch. While they cannot be fetched, those that are known stay in use.
    pub(super) async fn follow(&self, fetched: impl Fn()) {
        let mut logged = None;
        loop {
            self.phase.send_replace(Phase::Fetching);
            let found = fetch(&self.url, self.ca_file()).await;
            self.current.store(found.is_ok(), Ordering::Relaxed);
            fetched();
            let pause = match found {
                Ok(found) => {
                    logged = None;
                    self.put_in_force(found);
                    EVERY
                }
                Err(error) => {
                    if logged.as_ref() != Some(&error) {
                        let known = self.keys().map_or(0, |keys| keys.len());
                        warn!(issuer = self.url, known, %error, "cannot fetch the keys of the OIDC issuer: those that are known stay in use");
                    }
                    logged = Some(error);
                    RETRY
                }
            };
            self.phase.send_replace(Phase::Resting);
            sleep(REST).await;
            self.phase.send_replace(Phase::Waiting);
            let _ = timeout(pause.saturating_sub(REST), self.wanted.notified()).await;
        }
    }

    /// Unchanged keys stay the same object, by which tokens that they verified are known.
    fn put_in_force(&self, found: Fetched) {
        let Fetched { keys, addresses } = found;
        self.addresses.store(Some(Arc::new(addresses)));
        if self.keys.load().as_deref() != Some(&keys) {
            info!(issuer = self.url, keys = keys.len(), "keys of the OIDC issuer");
            self.keys.store(Some(Arc::new(keys)));
        }
    }
}
