//! Whose turn it is to write, of the commits of one process, and how one that keeps losing to another process gets to win.

use std::sync::Arc;
use std::time::Duration;

use fleet::integrity::Total;
use fleet::log::Head;

/// A connection that writes.
pub(crate) trait Undo: Send + 'static {
    /// Ends an open transaction as if it had never been; false if that cannot be said, and the connection must go.
    fn undo(&mut self) -> impl Future<Output = bool> + Send;
}

/// What commits share.
pub(crate) type Writer<C> = tokio::sync::Mutex<Turn<C>>;

#[derive(Debug)]
pub(crate) struct Turn<C> {
    /// The connection that writes. None while a commit has it, and after one that ended badly; the next one opens another.
    pub(crate) conn: Option<C>,
    /// How often in a row somebody else was faster.
    pub(crate) conflicts: u32,
    /// Counts the times that a transaction was left open for the next try, so that each is ended only once.
    held: u64,
    /// Whether one is open now.
    pub(crate) holds: bool,
    /// What the resources add up to at the head of the last commit, so that the next need not ask.
    pub(crate) total: Option<(Head, Total)>,
}

impl<C> Turn<C> {
    /// What the resources at `head` add up to, where that is known without asking.
    pub(crate) fn total_at(&self, head: Head) -> Option<Total> {
        if head == Head::default() {
            return Some(Total::default());
        }
        self.total.filter(|(at, _)| *at == head).map(|(_, total)| total)
    }

    pub(crate) fn new(conn: Option<C>) -> Self {
        Turn {
            conn,
            conflicts: 0,
            held: 0,
            holds: false,
            total: None,
        }
    }
}

/// How long a commit that lost twice keeps the others waiting for its next try. A caller with much to judge would otherwise
/// lose for ever to one with little.
const HOLD: Duration = Duration::from_secs(1);

/// Leaves the transaction of `conn` open for the next try, which nobody can be faster than.
pub(crate) fn hold<C: Undo>(writer: &Arc<Writer<C>>, turn: &mut Turn<C>, conn: C) {
    turn.conn = Some(conn);
    turn.holds = true;
    turn.held += 1;
    tokio::spawn(let_go(writer.clone(), turn.held));
}

/// Ends a transaction that was left open for a next try which did not come.
async fn let_go<C: Undo>(writer: Arc<Writer<C>>, held: u64) {
    tokio::time::sleep(HOLD).await;
    let mut turn = writer.lock().await;
    if turn.holds && turn.held == held {
        turn.holds = false;
        if let Some(mut conn) = turn.conn.take()
            && conn.undo().await
        {
            turn.conn = Some(conn);
        }
    }
}
