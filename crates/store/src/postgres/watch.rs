//! Noticing other processes' commits.
//!
//! Each commit notifies, and whoever listens knows within a few milliseconds. Listening may break, and not only in ways that
//! show: a standby refuses it, and a network may forget a connection that is quiet. Hence the head is also looked at once a
//! second; while nobody listens, or where it has moved and nothing was heard, ten times a second.

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

/// How late a follower is at most while we hear nothing of commits, and know it.
const SOON: Duration = Duration::from_millis(100);

/// And when we do not know it yet.
const LATE: Duration = Duration::from_secs(1);

/// The longest pause between two tries to listen.
const REST: Duration = Duration::from_secs(5);

/// What the listener and the poller know of each other.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// How many notifications were heard.
    heard: AtomicU64,
    /// Whether somebody listens.
    listening: AtomicBool,
    /// Whether something was not heard since the last thing that was.
    deaf: AtomicBool,
    /// Asks for another connection.
    again: Notify,
}

impl Ears {
    fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    fn good(&self) -> bool {
        self.listening.load(Ordering::Acquire) && !self.deaf.load(Ordering::Acquire)
    }
}

pub(super) async fn listen(server: Server, head_signal: Arc<HeadSignal>, ears: Arc<Ears>) {
    let mut rest = SOON;
    loop {
        match within(PATIENCE, connect(&server)).await {
            Ok(listener) => {
                rest = SOON;
                ears.listening.store(true, Ordering::Release);
                // Something may have happened while nobody listened.
                head_signal.notify();
                let broken = hear(listener, &head_signal, &ears).await;
                ears.listening.store(false, Ordering::Release);
                tracing::info!(
                    "{} is polled, and listened to again in a moment: {broken}",
                    server.place()
                );
            }
            // The first time, and then only now and then.
            Err(e) if rest == SOON => tracing::warn!("cannot listen for commits, hence polling: {}", server.error(&e)),
            Err(e) => tracing::debug!("cannot listen for commits: {}", server.error(&e)),
        }
        sleep(rest).await;
        rest = (rest * 2).min(REST);
    }
}

async fn connect(server: &Server) -> sqlx::Result<PgListener> {
    // The driver's listener wants a pool; this one is never asked twice.
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

/// Returns why it cannot go on.
async fn hear(mut listener: PgListener, head_signal: &HeadSignal, ears: &Ears) -> String {
    loop {
        let heard = tokio::select! {
            heard = listener.try_recv() => heard,
            () = ears.again.notified() => return "a commit was not heard".to_owned(),
        };
        match heard {
            Ok(Some(_)) => {
                ears.heard.fetch_add(1, Ordering::AcqRel);
                ears.deaf.store(false, Ordering::Release);
                head_signal.notify();
            }
            Ok(None) => return "the connection broke".to_owned(),
            Err(e) => return e.to_string(),
        }
    }
}

pub(super) async fn poll(pool: Arc<Pool>, head_signal: Arc<HeadSignal>, ears: Arc<Ears>, mut last: Head) {
    loop {
        let before = ears.heard();
        sleep(if ears.good() { LATE } else { SOON }).await;
        // While the server is away, whoever reads it says so.
        let Ok(head) = super::head(&pool).await else { continue };
        if std::mem::replace(&mut last, head) == head {
            continue;
        }
        head_signal.notify();
        if ears.good() && ears.heard() == before {
            // It may be under way.
            sleep(SOON).await;
            if ears.heard() == before && !ears.deaf.swap(true, Ordering::AcqRel) {
                ears.again.notify_one();
            }
        }
    }
}
