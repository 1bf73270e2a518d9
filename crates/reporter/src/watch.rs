//! Watches one kind in one namespace.

use std::pin::pin;

use futures_util::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch::Sender;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::backoff::{Backoff, about};
use crate::inventory::Inventory;
use crate::kind::Kind;
use crate::pace::Pace;
use crate::seen::Seen;

pub(crate) struct Watch {
    pub(crate) client: Client,
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) inventory: Sender<Inventory>,
    pub(crate) pace: Pace,
}

impl Watch {
    /// Follows the objects, for good. After a failure the list is read again, so that nothing is missed.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(self.pace.first_retry, self.pace.longest_retry);
        let mut past = Past::default();
        loop {
            let Err(error) = self.follow(&mut backoff, &mut past).await;
            let (kind, namespace) = (self.kind.name(), &self.namespace);
            if let Some(reason) = absence(&error) {
                self.inventory.send_if_modified(|inventory| {
                    // The objects are still there if only the right to see them is gone.
                    if reason == Absence::Forbidden && past.was_listed {
                        return inventory.lose(self.kind, &self.namespace);
                    }
                    inventory.replace(self.kind, &self.namespace, Vec::new());
                    true
                });
                if past.absent.replace(reason) != Some(reason) {
                    match reason {
                        Absence::Unknown => info!(
                            kind,
                            namespace, "the cluster does not have this kind; looking again later"
                        ),
                        Absence::Forbidden => {
                            warn!(kind, namespace, %error, "these objects may not be read; trying again later");
                        }
                    }
                }
                sleep(about(self.pace.look_again)).await;
                continue;
            }
            self.inventory
                .send_if_modified(|inventory| inventory.lose(self.kind, &self.namespace));
            let pause = backoff.pause(None);
            warn!(kind, namespace, %error, retry_in = ?pause, "the watch failed");
            sleep(pause).await;
        }
    }

    async fn follow(&self, backoff: &mut Backoff, past: &mut Past) -> Result<std::convert::Infallible, watcher::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &self.kind.resource());
        let mut events = pin!(watcher(api, watcher::Config::default()));
        let mut listed = Vec::new();
        loop {
            // The stream of a watcher does not end.
            let Some(event) = events.next().await else {
                return std::future::pending().await;
            };
            match event? {
                Event::Init => listed.clear(),
                Event::InitApply(object) => listed.push((object.name_any(), Seen::of(self.kind, &object))),
                Event::InitDone => {
                    let listed = std::mem::take(&mut listed);
                    debug!(kind = self.kind.name(), objects = listed.len(), "listed");
                    backoff.reset();
                    *past = Past {
                        was_listed: true,
                        absent: None,
                    };
                    self.inventory
                        .send_modify(|inventory| inventory.replace(self.kind, &self.namespace, listed));
                }
                Event::Apply(object) => {
                    let seen = Seen::of(self.kind, &object);
                    self.inventory.send_modify(|inventory| {
                        inventory.put(self.kind, &self.namespace, object.name_any(), seen);
                    });
                }
                Event::Delete(object) => self.inventory.send_modify(|inventory| {
                    inventory.remove(self.kind, &self.namespace, &object.name_any());
                }),
            }
        }
    }
}

/// What happened before.
#[derive(Default)]
struct Past {
    /// Whether the objects were ever listed.
    was_listed: bool,
    /// What was last logged, so that a kind that stays away is logged once.
    absent: Option<Absence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    Unknown,
    Forbidden,
}

/// Why there are no objects of a kind, if the API server says so.
fn absence(error: &watcher::Error) -> Option<Absence> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    match status.code {
        404 => Some(Absence::Unknown),
        403 => Some(Absence::Forbidden),
        _ => None,
    }
}
