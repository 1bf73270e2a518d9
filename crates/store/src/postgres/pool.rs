//! A few connections for reading.
//!
//! Unlike the driver's pool, it reports at once why the server cannot be reached, and never reuses a connection whose call failed
//! or was abandoned: requests do not pile up on a server that hangs.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::server::{PATIENCE, Purpose, Server, within};
use crate::StoreError;
use crate::writer_lock::Rollback;

/// The most connections.
const MOST: usize = 4;

/// A connection that was idle for longer is checked before use: servers restart, and firewalls drop idle connections.
const IDLE: Duration = Duration::from_secs(1);

/// The time limit of that check.
const CHECK: Duration = Duration::from_secs(2);

/// A connection, and when it was last known to work.
#[derive(Debug)]
pub(super) struct Conn {
    conn: PgConnection,
    worked: Instant,
}

impl Conn {
    pub(super) async fn connect(server: &Server, purpose: Purpose) -> Result<Self, StoreError> {
        let conn = server.connect(purpose).await?;
        Ok(Conn {
            conn,
            worked: Instant::now(),
        })
    }

    /// This connection, or another one if it broke while it was idle.
    pub(super) async fn fresh(mut self, server: &Server, purpose: Purpose) -> Result<Self, StoreError> {
        if self.worked.elapsed() <= IDLE {
            return Ok(self);
        }
        match tokio::time::timeout(CHECK, self.conn.ping()).await {
            Ok(Ok(())) => Ok(self),
            Ok(Err(_)) => Conn::connect(server, purpose).await,
            // A new connection would wait as long.
            Err(_) => Err(server.unavailable("it does not answer")),
        }
    }

    pub(super) fn worked(&mut self) {
        self.worked = Instant::now();
    }

    pub(super) async fn close(self) {
        let _ = within(PATIENCE, self.conn.close()).await;
    }
}

impl Deref for Conn {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

impl Rollback for Conn {
    async fn roll_back(&mut self) -> bool {
        let done = within(PATIENCE, sqlx::raw_sql("ROLLBACK").execute(&mut self.conn)).await;
        done.is_ok()
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    server: Server,
    idle: Mutex<Vec<Conn>>,
    permits: Semaphore,
}

impl Pool {
    pub(super) fn new(server: Server) -> Self {
        Pool {
            server,
            idle: Mutex::default(),
            permits: Semaphore::new(MOST),
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let permit = match tokio::time::timeout(PATIENCE, self.permits.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(self.server.unavailable("it was closed")),
            Err(_) => return Err(self.server.unavailable("other reads take too long")),
        };
        let idle = self.idle().pop();
        let conn = match idle {
            Some(conn) => conn.fresh(&self.server, Purpose::Reading).await?,
            None => Conn::connect(&self.server, Purpose::Reading).await?,
        };
        Ok(Lent {
            pool: self,
            conn,
            _permit: permit,
        })
    }

    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        futures_util::future::join_all(idle.into_iter().map(Conn::close)).await;
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that [`Lent::done`] returns to the pool. If it is dropped, it is closed: it may be in the middle of an answer.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    conn: Conn,
    _permit: SemaphorePermit<'a>,
}

impl Lent<'_> {
    /// Returns the connection to the pool if the call succeeded.
    pub(super) fn done<T>(mut self, result: sqlx::Result<T>) -> Result<T, StoreError> {
        match result {
            Ok(value) => {
                self.conn.worked();
                if !self.pool.permits.is_closed() {
                    self.pool.idle().push(self.conn);
                }
                Ok(value)
            }
            Err(e) => Err(self.pool.server.error(&e)),
        }
    }
}

impl Deref for Lent<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}
