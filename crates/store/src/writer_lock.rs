//! The lock that the commits of one process share, and how a commit that keeps losing to other processes gets to win.

use std::sync::Arc;
use std::time::Duration;

use fleet::integrity::Total;
use fleet::log::Head;

/// A connection that writes.
pub(crate) trait Rollback: Send + 'static {
    /// Rolls back the open transaction. False if that fails: then the connection must not be used again.
    fn roll_back(&mut self) -> impl Future<Output = bool> + Send;
}

/// One commit at a time.
pub(crate) type WriterLock<C> = tokio::sync::Mutex<Writer<C>>;

/// What commits share.
#[derive(Debug)]
pub(crate) struct Writer<C> {
    /// The connection that writes. None while a commit uses it, and after one that failed; the next one opens another.
    pub(crate) conn: Option<C>,
    /// How many commits in a row lost to another process.
    pub(crate) conflicts: u32,
    /// Whether a transaction is open for the next try.
    pub(crate) holds: bool,
    /// The number of transactions that were kept open, so that a timer ends only its own.
    held: u64,
    /// The total of the resources at the head of the last commit, so that the next one need not read it.
    pub(crate) total: Option<(Head, Total)>,
}

impl<C> Writer<C> {
    pub(crate) fn new(conn: Option<C>) -> Self {
        Writer {
            conn,
            conflicts: 0,
            holds: false,
            held: 0,
            total: None,
        }
    }

    /// The total of the resources at `head`, if it is known without a query.
    pub(crate) fn total_at(&self, head: Head) -> Option<Total> {
        if head == Head::default() {
            return Some(Total::default());
        }
        self.total.filter(|(at, _)| *at == head).map(|(_, total)| total)
    }
}

/// How long a commit that lost twice keeps its transaction open for the next try, while other processes wait. Without it, a
/// caller with much to validate would always lose to one with little.
const HOLD: Duration = Duration::from_secs(1);

/// Keeps the transaction of `conn` open for the next try, which then cannot lose.
pub(crate) fn hold<C: Rollback>(lock: &Arc<WriterLock<C>>, writer: &mut Writer<C>, conn: C) {
    writer.conn = Some(conn);
    writer.holds = true;
    writer.held += 1;
    tokio::spawn(release_later(lock.clone(), writer.held));
}

/// Ends a transaction that was kept open for a next try that did not come.
async fn release_later<C: Rollback>(lock: Arc<WriterLock<C>>, held: u64) {
    tokio::time::sleep(HOLD).await;
    let mut writer = lock.lock().await;
    if writer.holds && writer.held == held {
        writer.holds = false;
        if let Some(mut conn) = writer.conn.take()
            && conn.roll_back().await
        {
            writer.conn = Some(conn);
        }
    }
}
