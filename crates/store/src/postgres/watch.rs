//! Noticing the commits of other processes.
//!
//! Each commit sends a notification, which listeners receive within a few milliseconds. Listening may fail, sometimes silently: a
//! standby refuses it, and a network may drop an idle connection. So the head is also read once a second; ten times a second
//! while the listener is down, or after a move without a notification.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fleet::log::Head;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::pool::Pool;
use super::server::{PATIENCE, Purpose, Server, within};
use super::write::CHANNEL;
use crate::head_signal::HeadSignal;

/// The interval of polls while notifications are known to fail.
const FAST: Duration = Duration::from_millis(100);

/// The interval of polls otherwise.
const SLOW: Duration = Duration::from_secs(1);

/// The longest pause between two tries to listen.
const MOST_PAUSE: Duration = Duration::from_secs(5);

/// What the listener and the poller share.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The number of received notifications.
    received: AtomicU64,
    /// Whether the listener is connected.
    connected: AtomicBool,
    /// Whether a move came without a notification, since the last notification.
    missed: AtomicBool,
    /// Asks the listener to reconnect.
    reconnect: Notify,
}

impl Listening {
    fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    fn works(&self) -> bool {
        self.connected.load(Ordering::Acquire) && !self.missed.load(Ordering::Acquire)
    }
}

pub(super) async fn listen(server: Server, head_signal: Arc<HeadSignal>, listening: Arc<Listening>) {
    let mut pause = FAST;
    loop {
        match within(PATIENCE, connect(&server)).await {
            Ok(listener) => {
                pause = FAST;
                listening.connected.store(true, Ordering::Release);
                // A commit may have been missed before.
                head_signal.notify();
                let broken = receive(listener, &head_signal, &listening).await;
                listening.connected.store(false, Ordering::Release);
                tracing::info!(
                    "lost the notifications of {}, polling until they are back: {broken}",
                    server.place()
                );
            }
            // Only the first failure is a warning.
            Err(e) if pause == FAST => {
                tracing::warn!("cannot listen for commits, polling instead: {}", server.error(&e));
            }
            Err(e) => tracing::debug!("cannot listen for commits: {}", server.error(&e)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

async fn connect(server: &Server) -> sqlx::Result<PgListener> {
    // The driver's listener needs a pool; this one has one connection.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(PATIENCE)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(server.options(Purpose::Listening));
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.ignore_pool_close_event(true);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Receives notifications until that fails. Returns why.
async fn receive(mut listener: PgListener, head_signal: &HeadSignal, listening: &Listening) -> String {
    loop {
        let received = tokio::select! {
            received = listener.try_recv() => received,
            () = listening.reconnect.notified() => return "a commit came without a notification".to_owned(),
        };
        match received {
            Ok(Some(_)) => {
                listening.received.fetch_add(1, Ordering::AcqRel);
                listening.missed.store(false, Ordering::Release);
                head_signal.notify();
            }
            Ok(None) => return "the connection broke".to_owned(),
            Err(e) => return e.to_string(),
        }
    }
}

pub(super) async fn poll(pool: Arc<Pool>, head_signal: Arc<HeadSignal>, listening: Arc<Listening>, mut last: Head) {
    loop {
        let before = listening.received();
        sleep(if listening.works() { SLOW } else { FAST }).await;
        // If the server is unavailable, its readers report it.
        let Ok(head) = super::head(&pool).await else { continue };
        if std::mem::replace(&mut last, head) == head {
            continue;
        }
        head_signal.notify();
        if listening.works() && listening.received() == before {
            // The notification may still arrive.
            sleep(FAST).await;
            if listening.received() == before && !listening.missed.swap(true, Ordering::AcqRel) {
                listening.reconnect.notify_one();
            }
        }
    }
}
