//! Evidence in a file of its own, `FILE.evidence`: commits never wait for it, and a damaged one is replaced by an empty one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::Mutex;

use super::file::File;
use crate::StoreError;
use crate::evidence::{EvidenceRow, PART, SharedEvidence, writer};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS evidence (
    id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, writer TEXT NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS evidence_by_sequence ON evidence (sequence)";

/// How long a process waits for another one that writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The rows that processes on one host share.
#[derive(Debug)]
pub struct SqliteEvidence {
    file: File,
    path: PathBuf,
    writer: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    conn: Option<SqliteConnection>,
    /// The last row that was read.
    sequence: i64,
}

impl SqliteEvidence {
    /// The evidence beside the database at `url`. The file is opened when it is first used.
    pub fn beside(url: &str) -> Result<Self, StoreError> {
        let file = File::parse(url)?;
        let mut path = file.path().to_owned().into_os_string();
        path.push(".evidence");
        Ok(SqliteEvidence {
            file,
            path: path.into(),
            writer: writer(),
            state: Mutex::default(),
        })
    }

    fn error(&self, error: &sqlx::Error) -> StoreError {
        match self.file.error(error) {
            StoreError::Corrupt { detail, .. } => StoreError::Corrupt {
                place: self.place(),
                detail,
            },
            other => StoreError::Unavailable {
                place: self.place(),
                detail: other.to_string(),
            },
        }
    }

    fn place(&self) -> String {
        format!("the evidence in {}", self.path.display())
    }

    async fn open(&self) -> sqlx::Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(true)
            .busy_timeout(PATIENCE)
            .journal_mode(SqliteJournalMode::Wal)
            // What a crash of the machine costs, clusters tell again.
            .synchronous(SqliteSynchronous::Normal)
            .disable_statement_logging();
        let mut conn = options.connect().await?;
        sqlx::raw_sql(SCHEMA).execute(&mut conn).await?;
        Ok(conn)
    }

    /// Does something with the connection. After an error it is opened again; a file that cannot be read is replaced.
    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection, &mut i64) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        let opened = match state.conn.take() {
            Some(conn) => Ok(conn),
            None => self.open().await,
        };
        let result = match opened {
            Err(error) => Err(error),
            Ok(mut conn) => {
                let result = work(&mut conn, &mut state.sequence).await;
                if result.is_ok() {
                    state.conn = Some(conn);
                } else {
                    let _closing = conn.close().await;
                }
                result
            }
        };
        result.map_err(|error| {
            let error = self.error(&error);
            if let StoreError::Corrupt { detail, .. } = &error {
                tracing::warn!(detail, "{} is damaged and begins anew", self.place());
                state.sequence = 0;
                for suffix in ["", "-wal", "-shm"] {
                    let mut path = self.path.clone().into_os_string();
                    path.push(suffix);
                    let _absent = std::fs::remove_file(path);
                }
            }
            error
        })
    }
}

#[async_trait]
impl SharedEvidence for SqliteEvidence {
    async fn put(&self, rows: &[EvidenceRow]) -> Result<(), StoreError> {
        // By id, so that neighbours are on one page.
        let mut rows: Vec<&EvidenceRow> = rows.iter().collect();
        rows.sort_unstable();
        self.with(async |conn, _| {
            let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
            let last: i64 = sqlx::query_scalar("SELECT coalesce(max(sequence), 0) FROM evidence")
                .fetch_one(&mut *transaction)
                .await?;
            for (row, sequence) in rows.into_iter().zip(last + 1..) {
                sqlx::query("INSERT OR REPLACE INTO evidence (id, sequence, writer, body) VALUES (?, ?, ?, ?)")
                    .bind(&*row.0)
                    .bind(sequence)
                    .bind(&self.writer)
                    .bind(&row.1)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        })
        .await
    }

    async fn news(&self) -> Result<Vec<EvidenceRow>, StoreError> {
        self.with(async |conn, sequence| {
            loop {
                let rows: Vec<(String, i64, String, String)> = sqlx::query_as(
                    "SELECT id, sequence, writer, body FROM evidence WHERE sequence > ? ORDER BY sequence LIMIT ?",
                )
                .bind(*sequence)
                .bind(PART)
                .fetch_all(&mut *conn)
                .await?;
                let Some(last) = rows.last() else { return Ok(Vec::new()) };
                *sequence = last.1;
                let others = rows.into_iter().filter(|row| row.2 != self.writer);
                let others: Vec<EvidenceRow> = others.map(|(id, _, _, body)| (id.into(), body)).collect();
                if !others.is_empty() {
                    return Ok(others);
                }
            }
        })
        .await
    }

    async fn remove(&self, ids: &[Arc<str>]) -> Result<(), StoreError> {
        self.with(async |conn, _| {
            let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
            for id in ids {
                sqlx::query("DELETE FROM evidence WHERE id = ?")
                    .bind(&**id)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        })
        .await
    }

    async fn close(&self) {
        if let Some(conn) = self.state.lock().await.conn.take() {
            let _closed = conn.close().await;
        }
    }
}
