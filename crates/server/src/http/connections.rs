//! The state of each open connection, and which one is closed at the limit. Polls have priority.
//!
//! A connection is accepted even at the limit, and the least valuable one is closed for it: idle ones first, then those that have
//! not sent a whole request, then those that do not read their reply. Requests other than polls use at most a share of the
//! limit, so that there is always room for polls.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Notify;
use tracing::warn;

use crate::metrics::ReasonLabels;

/// How long a connection may wait for its first or next request before it can be closed for another one. A client sends its
/// request right after it connects.
const GRACE: Duration = Duration::from_millis(200);
/// How long a client may read nothing of its reply before it can be closed for another one: for a poll, and for other requests.
const STALLED_POLL: Duration = Duration::from_secs(5);
const STALLED: Duration = Duration::from_secs(1);
/// More than one connection is closed at a time if they have waited this long, since going through all takes time.
const LONG: Duration = Duration::from_secs(1);
/// How long a connection may be silent: before its first request, within the head of a request, between requests. Flux keeps its
/// connections idle for 90 s, which would waste sockets.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// How often silent connections are looked for. A timer for each request, as hyper has it, would cost a poll more than its lookup.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the log warns that connections are closed.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Doing {
    /// It has not sent a whole request yet.
    Opening,
    /// It got its reply, and has sent no further request.
    Idle,
    Poll,
    Other,
    /// Everything is sent; the peer has not closed its side.
    Ending,
}

impl Doing {
    const ALL: [Doing; 5] = [Doing::Opening, Doing::Idle, Doing::Poll, Doing::Other, Doing::Ending];
}

/// Why a connection is closed for another one, the least valuable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Idle,
    SlowRequest,
    SlowReader,
    SlowPoll,
}

/// Why a request is refused when too many others are in progress.
const BUSY: &str = "busy";

impl Victim {
    fn reason(self) -> &'static str {
        match self {
            Victim::Idle => "idle",
            Victim::SlowRequest => "slow_request",
            Victim::SlowReader | Victim::SlowPoll => "slow_reader",
        }
    }
}

/// The values of [`Connection::replied`].
const NOT_REPLIED: u8 = 0;
const REPLIED: u8 = 1;
/// Replied as soon as the request had arrived.
const REPLIED_AT_ONCE: u8 = 2;

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The server stops: answer the request in progress, if there is one, and no more.
    LastRequest,
    /// Another connection needs the place.
    Close,
    /// It has been silent for too long.
    Silent,
}

impl Notice {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Notice::LastRequest => "the server stops",
            Notice::Close => "another connection needs its place",
            Notice::Silent => "it was silent for too long",
        }
    }
}

/// All connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    epoch: Instant,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Requests in progress that are not polls.
    others: AtomicUsize,
    /// Whether a new connection waits for a place.
    crowded: AtomicBool,
    /// Whether the server stops.
    stopping: AtomicBool,
    /// What was closed or refused, by reason.
    shed: Family<ReasonLabels, Counter>,
    warned: Mutex<Option<Instant>>,
}

/// One connection. Only its own task changes its state.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    number: u64,
    doing: AtomicU8,
    /// Whether the whole reply is written, and waits to be sent.
    replied: AtomicU8,
    /// When the state began, and when the peer stopped reading (0: it reads), in milliseconds since the epoch.
    since: AtomicU64,
    stalled: AtomicU64,
    close: Notify,
}

impl Connections {
    pub(super) fn new(most: usize, shed: Family<ReasonLabels, Counter>) -> Arc<Self> {
        // All counters begin at zero: a missing one would look like a renamed one.
        let victims = [Victim::Idle, Victim::SlowRequest, Victim::SlowReader].map(Victim::reason);
        for reason in victims.into_iter().chain([BUSY]) {
            drop(shed.get_or_create(&ReasonLabels { reason }));
        }
        Arc::new(Connections {
            most,
            epoch: Instant::now(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            others: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            shed,
            warned: Mutex::default(),
        })
    }

    /// The most requests other than polls in progress: three quarters of the connections, so that there is room for polls.
    fn share(&self) -> usize {
        (self.most - self.most / 4).max(1)
    }

    pub(super) fn add(self: &Arc<Self>) -> Arc<Connection> {
        let connection = Arc::new(Connection {
            all: self.clone(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            doing: AtomicU8::new(Doing::Opening as u8),
            replied: AtomicU8::new(NOT_REPLIED),
            since: AtomicU64::new(self.now()),
            stalled: AtomicU64::new(0),
            close: Notify::new(),
        });
        let mut open = self.open.lock().expect("not poisoned");
        open.insert(connection.number, connection.clone());
        connection
    }

    /// Milliseconds since the epoch, never 0.
    fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, time: Instant) -> u64 {
        let milliseconds = time.duration_since(self.epoch).as_millis();
        u64::try_from(milliseconds).unwrap_or(u64::MAX).max(1)
    }

    /// While a new connection waits for a place, connections are closed after their replies.
    pub(super) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Tells every connection that the server stops.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        for connection in self.open.lock().expect("not poisoned").values() {
            connection.close.notify_one();
        }
    }

    /// Tells connections that have been silent for too long, until there are none any more and the listener is gone.
    pub(super) async fn watch_silence(all: Weak<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(all) = all.upgrade() else { return };
            let (now, open) = (all.now(), all.open.lock().expect("not poisoned"));
            for connection in open.values().filter(|connection| connection.is_silent(now)) {
                connection.close.notify_one();
            }
        }
    }

    /// Asks the least valuable connections to close. One that gets a request in the meantime stays open.
    pub(super) fn make_room(&self) {
        let now = self.now();
        let mut victims: Vec<_> = {
            let open = self.open.lock().expect("not poisoned");
            let found = open.values().filter_map(|connection| {
                let (victim, since) = connection.victim(now)?;
                Some((victim, since, connection.clone()))
            });
            found.collect()
        };
        let wanted = self.most / 64 + 1;
        victims.sort_unstable_by_key(|(victim, since, connection)| (*victim, *since, connection.number));
        for (n, (_, since, connection)) in victims.into_iter().take(wanted).enumerate() {
            if n == 0 || Duration::from_millis(now.saturating_sub(since)) >= LONG {
                connection.close.notify_one();
            }
        }
    }

    fn count(&self, reason: &'static str) {
        self.shed.get_or_create(&ReasonLabels { reason }).inc();
        let mut warned = self.warned.lock().expect("not poisoned");
        if warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            *warned = Some(Instant::now());
            warn!(
                reason,
                limit = self.most,
                "MAX_CONNECTIONS is reached: polls come first, other connections are closed or refused (metric connections_shed)"
            );
        }
    }
}

impl Connection {
    fn doing(&self) -> Doing {
        Doing::ALL[usize::from(self.doing.load(Ordering::Relaxed))]
    }

    fn set(&self, doing: Doing, since: u64) {
        self.since.store(since, Ordering::Relaxed);
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// Whether this connection can be closed for another one, and since when it does nothing useful.
    fn victim(&self, now: u64) -> Option<(Victim, u64)> {
        let (since, stalled) = (self.since.load(Ordering::Relaxed), self.stalled.load(Ordering::Relaxed));
        let (victim, since, least) = match self.doing() {
            Doing::Ending => (Victim::Idle, since, Duration::ZERO),
            Doing::Idle => (Victim::Idle, since, GRACE),
            Doing::Opening => (Victim::SlowRequest, since, GRACE),
            Doing::Other if stalled > 0 => (Victim::SlowReader, stalled, STALLED),
            Doing::Poll if stalled > 0 => (Victim::SlowPoll, stalled, STALLED_POLL),
            Doing::Other | Doing::Poll => return None,
        };
        (Duration::from_millis(now.saturating_sub(since)) >= least).then_some((victim, since))
    }

    /// Whether it has been silent for too long.
    fn is_silent(&self, now: u64) -> bool {
        let silent = Duration::from_millis(now.saturating_sub(self.since.load(Ordering::Relaxed)));
        matches!(self.doing(), Doing::Opening | Doing::Idle) && silent >= SILENCE
    }

    /// Returns when the server stops, unless the connection knows that, or when the connection must be closed. Polled after the
    /// connection itself: an idle connection that has got a request by then stays open.
    pub(super) async fn notice(&self, knows_the_end: bool) -> Notice {
        loop {
            if !knows_the_end && self.all.stopping.load(Ordering::Relaxed) {
                return Notice::LastRequest;
            }
            self.close.notified().await;
            let now = self.all.now();
            if self.is_silent(now) {
                return Notice::Silent;
            }
            if let Some((victim, _)) = self.victim(now) {
                self.all.count(victim.reason());
                return Notice::Close;
            }
        }
    }

    /// A request begins. None: it is not a poll, and such requests already use their share of the connections.
    pub(super) fn begin(self: &Arc<Self>, is_poll: bool, now: Instant) -> Option<InProgress> {
        if !is_poll {
            let share = self.all.share();
            let more = |others: usize| (others < share).then_some(others + 1);
            let entered = self.all.others.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            if entered.is_err() {
                self.all.count(BUSY);
                // Clients that do not read their replies use the share for nothing.
                self.all.make_room();
                return None;
            }
        }
        self.replied.store(NOT_REPLIED, Ordering::Relaxed);
        self.set(if is_poll { Doing::Poll } else { Doing::Other }, self.all.at(now));
        Some(InProgress {
            connection: self.clone(),
            is_poll,
            reply: REPLIED,
        })
    }

    /// Whether a new connection waits for the place of another one.
    pub(super) fn is_crowded(&self) -> bool {
        self.all.crowded.load(Ordering::Relaxed)
    }

    /// The peer stops reading, or reads again.
    pub(super) fn stalls(&self, stalls: bool) {
        match (stalls, self.stalled.load(Ordering::Relaxed)) {
            (true, 0) => self.stalled.store(self.all.now(), Ordering::Relaxed),
            (true, _) | (false, 0) => {}
            (false, _) => {
                self.stalled.store(0, Ordering::Relaxed);
                self.since.store(self.all.now(), Ordering::Relaxed);
            }
        }
    }

    /// Everything that was written is passed to the operating system.
    pub(super) fn flushed(&self) {
        let since = match self.replied.load(Ordering::Relaxed) {
            NOT_REPLIED => return,
            // Since the request arrived, or since the peer reads again: the clock need not be asked.
            REPLIED_AT_ONCE => self.since.load(Ordering::Relaxed),
            _ => self.all.now(),
        };
        self.replied.store(NOT_REPLIED, Ordering::Relaxed);
        self.set(Doing::Idle, since);
    }

    /// The connection is closed.
    pub(super) fn leave(&self) {
        self.all.open.lock().expect("not poisoned").remove(&self.number);
    }

    pub(super) fn ends(&self) {
        if self.doing() != Doing::Ending {
            self.set(Doing::Ending, self.all.now());
        }
    }
}

/// A request, until the whole reply is written.
#[derive(Debug)]
pub(super) struct InProgress {
    connection: Arc<Connection>,
    is_poll: bool,
    /// What [`Connection::replied`] will be.
    reply: u8,
}

impl InProgress {
    /// The request is answered as soon as it has arrived.
    pub(super) fn at_once(mut self) -> Self {
        self.reply = REPLIED_AT_ONCE;
        self
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if !self.is_poll {
            self.connection.all.others.fetch_sub(1, Ordering::Relaxed);
        }
        self.connection.replied.store(self.reply, Ordering::Relaxed);
    }
}

/// The body of a reply, which keeps its request in progress.
#[derive(Debug)]
pub(super) struct ReplyBody {
    content: Content,
    _request: Option<InProgress>,
}

#[derive(Debug)]
enum Content {
    /// As polls have it: without a box around it.
    Whole(Full<Bytes>),
    Other(Body),
}

impl ReplyBody {
    pub(super) fn new(body: Body, request: InProgress) -> Self {
        ReplyBody {
            content: Content::Other(body),
            _request: Some(request),
        }
    }

    pub(super) fn whole(body: Bytes, request: Option<InProgress>) -> Self {
        ReplyBody {
            content: Content::Whole(Full::new(body)),
            _request: request,
        }
    }
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.content {
            Content::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Content::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(body) => body.is_end_stream(),
            Content::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(body) => body.size_hint(),
            Content::Other(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(most: usize) -> Arc<Connections> {
        let mut all = Connections::new(most, Family::default());
        // As if it were old, so that nothing is within its grace.
        let then = Instant::now().checked_sub(Duration::from_secs(3600)).unwrap();
        Arc::get_mut(&mut all).unwrap().epoch = then;
        all
    }

    /// Closes what is told to close, and gives the numbers.
    fn closed(all: &Arc<Connections>, connections: &[Arc<Connection>]) -> Vec<u64> {
        all.make_room();
        let told = connections.iter().filter(|connection| {
            let mut told = std::pin::pin!(connection.close.notified());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            told.as_mut().poll(&mut cx).is_ready()
        });
        told.map(|connection| connection.number).collect()
    }

    fn long_ago(connection: &Connection, milliseconds: u64) {
        let then = connection.all.now() - milliseconds;
        connection.since.store(then, Ordering::Relaxed);
    }

    #[test]
    fn the_connection_that_is_worth_least_goes_first() {
        let all = table(4);
        let four: Vec<_> = (0..4).map(|_| all.add()).collect();
        let [poll, other, idle, opening] = [&four[0], &four[1], &four[2], &four[3]];
        assert_eq!(closed(&all, &four), [0; 0], "none for longer than its grace");
        let (_poll, _other) = (
            poll.begin(true, Instant::now()).unwrap(),
            other.begin(false, Instant::now()).unwrap(),
        );
        drop(idle.begin(true, Instant::now()));
        assert_eq!(idle.doing(), Doing::Poll, "its reply is not sent yet");
        idle.flushed();
        for connection in &four {
            long_ago(connection, 500);
        }
        assert_eq!(closed(&all, &four), [idle.number]);
        idle.leave();
        assert_eq!(closed(&all, &four), [opening.number]);
        opening.leave();
        assert_eq!(closed(&all, &four), [0; 0], "requests in progress stay");
        other.stalls(true);
        poll.stalls(true);
        assert_eq!(closed(&all, &four), [0; 0]);
        other.stalled.store(all.now() - 2000, Ordering::Relaxed);
        poll.stalled.store(all.now() - 2000, Ordering::Relaxed);
        assert_eq!(closed(&all, &four), [other.number]);
        other.stalls(false);
        assert_eq!(closed(&all, &four), [0; 0], "a poll gets more time");
        poll.stalled.store(all.now() - 6000, Ordering::Relaxed);
        assert_eq!(closed(&all, &four), [poll.number]);
    }

    #[test]
    fn the_longest_idle_goes_first_and_many_go_together_once_they_waited_long() {
        let all = table(640);
        let many: Vec<_> = (0..20).map(|_| all.add()).collect();
        for (n, connection) in many.iter().enumerate() {
            connection.set(Doing::Idle, all.now());
            long_ago(connection, 200 + 10 * n as u64);
        }
        assert_eq!(closed(&all, &many), [19]);
        for connection in &many {
            long_ago(connection, 3000);
        }
        assert_eq!(closed(&all, &many).len(), 11);
    }

    #[test]
    fn a_connection_may_be_silent_for_a_while_and_a_request_in_progress_is_not_silence() {
        let all = table(4);
        let connection = all.add();
        let is_silent = |milliseconds| {
            long_ago(&connection, milliseconds);
            connection.is_silent(all.now())
        };
        assert!(!is_silent(9_000) && is_silent(10_000), "before its first request");
        let poll = connection.begin(true, Instant::now()).unwrap();
        assert!(!is_silent(60_000));
        drop(poll.at_once());
        connection.flushed();
        assert!(
            connection.is_silent(all.now()),
            "a poll is answered at once: idle since it arrived"
        );
        connection.stalls(true);
        connection.stalls(false);
        assert!(
            !connection.is_silent(all.now()),
            "or since the client has read the reply"
        );
        drop(connection.begin(false, Instant::now()));
        long_ago(&connection, 60_000);
        connection.flushed();
        assert!(!connection.is_silent(all.now()), "or since another reply was sent");
        assert!(!is_silent(9_000) && is_silent(10_000));
    }

    #[test]
    fn what_is_no_poll_has_a_share_and_polls_have_none() {
        let all = table(8);
        let many: Vec<_> = (0..20).map(|_| all.add()).collect();
        let held: Vec<_> = many
            .iter()
            .filter_map(|connection| connection.begin(false, Instant::now()))
            .collect();
        assert_eq!(held.len(), 6);
        assert!(
            many.iter()
                .all(|connection| connection.begin(true, Instant::now()).is_some())
        );
        drop(held);
        assert!(many[0].begin(false, Instant::now()).is_some());
        assert_eq!(all.others.load(Ordering::Relaxed), 0);
        // One connection alone can still do everything.
        assert!(table(1).add().begin(false, Instant::now()).is_some());
    }
}
