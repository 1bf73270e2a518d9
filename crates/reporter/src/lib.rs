//! The reporter: runs in a cluster, watches the objects that came of its inputs, and tells the API of the fleet how they are.
//!
//! `watch` follows each kind, `inventory` holds what is seen and decides what is reported, `sender` posts it, and `nudge` has
//! providers poll when their reply changed. What can be decided without a network is a pure function: `readiness`, `ours`,
//! `State::changes_since`, `backoff`, `nudge::limit`.

pub mod config;

mod api;
mod backoff;
mod inventory;
mod kind;
mod nudge;
mod ours;
mod pace;
mod readiness;
mod report;
mod seen;
mod sender;
mod watch;

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use tracing::info;

pub use self::pace::Pace;

use self::api::Api;
use self::config::Config;
use self::inventory::Inventory;
use self::kind::Kind;
use self::nudge::Nudger;
use self::ours::Ours;
use self::sender::Reporter;
use self::watch::Watch;

/// Watches and reports until it is dropped. Returns only what it cannot start or go on with.
pub async fn run(config: &Config, client: Client, pace: Pace) -> String {
    let api = match Api::new(config) {
        Ok(api) => Arc::new(api),
        Err(problem) => return problem,
    };
    let namespaces = match config.namespaces.as_slice() {
        [] => vec![client.default_namespace().to_owned()],
        named => named.to_vec(),
    };
    let ours = Ours::new(&config.url, &config.dns);
    let (sender, receiver) = tokio::sync::watch::channel(Inventory::new(&namespaces));
    info!(
        url = config.url,
        dns = config.dns,
        namespaces = namespaces.join(","),
        nudge = config.nudge,
        "watching"
    );
    let mut tasks = JoinSet::new();
    for namespace in namespaces {
        for kind in Kind::ALL {
            let watch = Watch {
                client: client.clone(),
                kind,
                namespace: namespace.clone(),
                inventory: sender.clone(),
                pace,
            };
            tasks.spawn(watch.run());
        }
    }
    if config.nudge {
        tasks.spawn(Nudger::new(api.clone(), client, ours.clone(), receiver.clone(), pace).run());
    }
    tasks.spawn(Reporter::new(api, ours, receiver, config.full_every, pace).run());
    // None of them returns.
    match tasks.join_next().await {
        Some(Err(error)) => error.to_string(),
        _ => "a task ended".to_owned(),
    }
}
