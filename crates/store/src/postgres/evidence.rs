//! Evidence in a table of its own, which replicas that only read may write, too.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::Mutex;

use super::Access;
use super::server::{PATIENCE, Purpose, Server, within};
use crate::StoreError;
use crate::evidence::{EvidenceRow, PART, SharedEvidence, writer};

/// Rows are found by the transaction that wrote them. Numbers of a sequence would not do: they become visible in another order.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS flux_resourceset.evidence (
    id text PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(), writer text NOT NULL, body text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS evidence_by_tx ON flux_resourceset.evidence (tx)";

/// The rows that replicas share.
#[derive(Debug)]
pub struct PostgresEvidence {
    server: Server,
    access: Access,
    writer: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    conn: Option<PgConnection>,
    position: Position,
}

/// What was read.
#[derive(Clone, Debug)]
enum Position {
    /// The rows up to this id. The transactions from `low` on may have written others since.
    Loading { low: Option<String>, after: String },
    /// The rows of all transactions before this one, and perhaps of later ones.
    Following { low: String },
}

impl Default for Position {
    fn default() -> Self {
        Position::Loading {
            low: None,
            after: String::new(),
        }
    }
}

impl PostgresEvidence {
    /// The evidence in the database at `url`. It is connected to when it is first used. With [`Access::Write`], the table is created.
    pub fn of(url: &str, access: Access) -> Result<Self, StoreError> {
        Ok(PostgresEvidence {
            server: Server::parse(url, access)?,
            access,
            writer: writer(),
            state: Mutex::default(),
        })
    }

    async fn open(&self) -> Result<PgConnection, StoreError> {
        let mut conn = self.server.connect(Purpose::Writing).await?;
        if self.access == Access::Write {
            let created = within(PATIENCE, sqlx::raw_sql(SCHEMA).execute(&mut conn)).await;
            created.map_err(|error| self.server.error(&error))?;
        }
        Ok(conn)
    }

    /// Does something with the connection. After an error it is opened again.
    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection, &mut Position) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        let mut conn = match state.conn.take() {
            Some(conn) => conn,
            None => self.open().await?,
        };
        let result = work(&mut conn, &mut state.position).await;
        if result.is_ok() {
            state.conn = Some(conn);
        }
        result.map_err(|error| self.server.error(&error))
    }
}

async fn lowest(conn: &mut PgConnection) -> sqlx::Result<String> {
    let lowest = sqlx::query_scalar("SELECT pg_snapshot_xmin(pg_current_snapshot())::text");
    within(PATIENCE, lowest.fetch_one(conn)).await
}

#[async_trait]
impl SharedEvidence for PostgresEvidence {
    async fn put(&self, rows: &[EvidenceRow]) -> Result<(), StoreError> {
        // By id, so that two writers do not wait for each other in turn.
        let mut rows: Vec<&EvidenceRow> = rows.iter().collect();
        rows.sort_unstable();
        let (ids, bodies): (Vec<&str>, Vec<&str>) = rows.iter().map(|row| (&*row.0, &*row.1)).unzip();
        self.with(async |conn, _| {
            let put = sqlx::query(
                "INSERT INTO flux_resourceset.evidence AS known (id, writer, body) \
                 SELECT new.id, $3, new.body FROM unnest($1::text[], $2::text[]) AS new (id, body) \
                 ON CONFLICT (id) DO UPDATE SET body = excluded.body, writer = excluded.writer, tx = pg_current_xact_id()",
            );
            let put = put.bind(&ids).bind(&bodies).bind(&self.writer);
            within(PATIENCE, put.execute(conn)).await.map(|_| ())
        })
        .await
    }

    async fn news(&self) -> Result<Vec<EvidenceRow>, StoreError> {
        self.with(async |conn, position| {
            let rows: Vec<(String, String)> = match position.clone() {
                Position::Loading { low, after } => {
                    let low = match low {
                        Some(low) => low,
                        None => lowest(conn).await?,
                    };
                    let rows = sqlx::query_as(
                        "SELECT id, body FROM flux_resourceset.evidence WHERE id > $1 ORDER BY id LIMIT $2",
                    );
                    let rows: Vec<(String, String)> =
                        within(PATIENCE, rows.bind(after).bind(PART).fetch_all(conn)).await?;
                    *position = match rows.last() {
                        Some((id, _)) => Position::Loading {
                            low: Some(low),
                            after: id.clone(),
                        },
                        None => Position::Following { low },
                    };
                    rows
                }
                Position::Following { low } => {
                    let next = lowest(conn).await?;
                    let rows = sqlx::query_as(
                        "SELECT id, body FROM flux_resourceset.evidence WHERE tx >= $1::text::xid8 AND writer <> $2",
                    );
                    let rows = rows.bind(low).bind(&self.writer);
                    let rows = within(PATIENCE, rows.fetch_all(conn)).await?;
                    *position = Position::Following { low: next };
                    rows
                }
            };
            Ok(rows.into_iter().map(|(id, body)| (id.into(), body)).collect())
        })
        .await
    }

    async fn remove(&self, ids: &[Arc<str>]) -> Result<(), StoreError> {
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        self.with(async |conn, _| {
            let remove = sqlx::query("DELETE FROM flux_resourceset.evidence WHERE id = ANY ($1)").bind(&ids);
            within(PATIENCE, remove.execute(conn)).await.map(|_| ())
        })
        .await
    }

    async fn close(&self) {
        if let Some(conn) = self.state.lock().await.conn.take() {
            let _closed = within(PATIENCE, conn.close()).await;
        }
    }
}
