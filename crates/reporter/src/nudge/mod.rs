//! The nudge: a provider polls as soon as its reply changed.
//!
//! One long poll tells which paths have another reply. What they had at the start is only taken note of. When the API was away,
//! providers that are not ready are nudged once it is back: Flux has backed off, and would come late.

pub(crate) mod limit;

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api as KubeApi, DynamicObject, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use self::limit::Limit;
use crate::api::{Api, Changed, Trouble};
use crate::backoff::Backoff;
use crate::inventory::Inventory;
use crate::kind::Kind;
use crate::ours::Ours;
use crate::pace::Pace;

/// A changed value makes the controller reconcile at once.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

pub(crate) struct Nudger {
    api: Arc<Api>,
    client: Client,
    ours: Ours,
    inventory: Receiver<Inventory>,
    pace: Pace,
    limit: Limit,
    known: Option<Changed>,
    /// Whether the last poll failed, for another reason than too many calls.
    away: bool,
}

impl Nudger {
    pub(crate) fn new(api: Arc<Api>, client: Client, ours: Ours, inventory: Receiver<Inventory>, pace: Pace) -> Nudger {
        Nudger {
            api,
            client,
            ours,
            inventory,
            pace,
            limit: Limit::new(pace.nudges, pace.nudge_every),
            known: None,
            away: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(self.pace.first_retry, self.pace.longest_retry);
        loop {
            match self.poll().await {
                Ok(changed) => {
                    backoff.reset();
                    self.hear(changed);
                    self.nudge().await;
                    sleep(self.pace.between_polls).await;
                }
                Err(trouble) => {
                    self.away |= trouble.is_outage();
                    let pause = backoff.pause(trouble.retry_after);
                    warn!(problem = %trouble, retry_in = ?pause, "cannot hear of changes");
                    self.api.wait(pause, &trouble).await;
                }
            }
        }
    }

    /// Waits for a change. Nudges that were put off are done meanwhile.
    async fn poll(&mut self) -> Result<Changed, Trouble> {
        let api = self.api.clone();
        // Without it the server answers at once. After an outage that tells that it is back.
        let since = self
            .known
            .as_ref()
            .filter(|_| !self.away)
            .map(|known| known.since.clone());
        let mut poll = pin!(api.changed(since.as_deref()));
        loop {
            let due = self.limit.next();
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                reply = &mut poll => return reply,
                () = due => self.nudge().await,
            }
        }
    }

    /// Takes note of what each path has, and asks for the nudges that follow.
    fn hear(&mut self, changed: Changed) {
        let now = Instant::now();
        if self.known.is_none() {
            info!(paths = changed.paths.len(), "listens for changes");
        }
        let known = self.known.as_ref().map(|known| &known.paths);
        for path in changed_paths(known, &changed.paths) {
            self.limit.ask(path, now);
        }
        if self.away {
            info!("the API is back: providers that are not ready are nudged");
            let providers = self.inventory.borrow().providers(&self.ours);
            for provider in providers.iter().filter(|provider| provider.ready != Some(true)) {
                self.limit.ask(&provider.path, now);
            }
        }
        self.away = false;
        self.known = Some(changed);
    }

    /// Nudges the providers of the paths that are due.
    async fn nudge(&mut self) {
        let due = self.limit.due(Instant::now());
        if due.is_empty() {
            return;
        }
        let providers = self.inventory.borrow().providers(&self.ours);
        for provider in providers.iter().filter(|provider| due.contains(&provider.path)) {
            let (name, namespace) = (&provider.name, &provider.namespace);
            let api: KubeApi<DynamicObject> =
                KubeApi::namespaced_with(self.client.clone(), namespace, &Kind::InputProvider.resource());
            let change = json!({"metadata": {"annotations": {REQUESTED_AT: Timestamp::now().to_string()}}});
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await {
                Ok(_) => info!(
                    provider = name,
                    namespace,
                    path = provider.path,
                    "nudged: its reply changed, or the API was away"
                ),
                Err(kube::Error::Api(status)) if status.code == 404 => debug!(provider = name, "is gone"),
                // The provider polls at its interval in any case.
                Err(error) => warn!(provider = name, namespace, %error, "cannot nudge"),
            }
        }
    }
}

/// The paths whose reply is another one. At the start that is not known of any; a path that is new has a new reply.
fn changed_paths<'a>(
    known: Option<&BTreeMap<String, String>>,
    now: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    let changed = now
        .iter()
        .filter(move |(path, digest)| known.is_some_and(|known| known.get(*path) != Some(digest)));
    changed.map(|(path, _)| path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_with_another_reply_are_nudged() {
        let paths = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs
                .iter()
                .map(|(path, digest)| ((*path).to_owned(), (*digest).to_owned()));
            pairs.collect()
        };
        let before = paths(&[("a", "1"), ("b", "1"), ("gone", "1")]);
        let after = paths(&[("a", "1"), ("b", "2"), ("new", "1")]);
        assert_eq!(changed_paths(Some(&before), &after).collect::<Vec<_>>(), ["b", "new"]);
        assert_eq!(changed_paths(Some(&after), &after).count(), 0);
        assert_eq!(changed_paths(None, &after).count(), 0, "nothing is known at the start");
    }
}
