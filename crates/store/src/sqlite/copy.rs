//! Backup and restore: one long read of one moment, and one long write that is invisible until its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use fleet::integrity::{Items, Total};
use fleet::log::{Checkpoint, Head, Resource, Revision, RevisionRecord};
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use tokio::sync::Notify;

use super::file::File;
use super::marker::Marker;
use super::script::{Script, created};
use super::{compact, head, integrity};
use crate::chain::Digests;
use crate::head_signal::HeadSignal;
use crate::rows::{Names, SELECT_LOG, SELECT_RESOURCE, add_row, creation, head_of, integer, resource_of};
use crate::{EXPORTED, Export, Restore, StoreError, size_of};

/// A separate connection, whose transaction sees one moment.
#[derive(Debug)]
pub(super) struct Exporting {
    file: File,
    conn: SqliteConnection,
    head: Head,
    checkpoint: Option<Checkpoint>,
    applied: BTreeMap<String, String>,
    /// The last revision that was read.
    revision: Revision,
    /// The row of the last resource that was read.
    resource: i64,
}

impl Exporting {
    pub(super) async fn begin(file: &File) -> Result<Self, StoreError> {
        let mut file = file.clone();
        // Rows may be a megabyte each, so few are read ahead.
        file.options = file.options.row_buffer_size(16).pragma("query_only", "ON");
        let mut conn = file.connect().await?;
        let begin = async {
            sqlx::query("BEGIN").execute(&mut conn).await?;
            let head = head(&mut conn).await?;
            let checkpoint = compact::checkpoint(&mut conn).await?;
            Ok((head, checkpoint, integrity::notes(&mut conn).await?))
        };
        let (head, checkpoint, applied) = begin.await.map_err(|e| file.error(&e))?;
        Ok(Exporting {
            file,
            conn,
            head,
            checkpoint,
            applied,
            revision: checkpoint
                .map(|checkpoint| checkpoint.head.revision)
                .unwrap_or_default(),
            resource: i64::MIN,
        })
    }
}

#[async_trait]
impl Export for Exporting {
    fn head(&self) -> Head {
        self.head
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
    }

    fn applied(&self) -> &BTreeMap<String, String> {
        &self.applied
    }

    async fn revisions(&mut self) -> Result<Vec<RevisionRecord>, StoreError> {
        let sql = format!(
            "{SELECT_LOG} FROM revisions r LEFT JOIN changes c ON c.revision = r.revision \
             WHERE r.revision > ? ORDER BY r.revision, c.idx"
        );
        let read = async {
            let mut rows = sqlx::query(AssertSqlSafe(sql))
                .bind(integer(self.revision.0))
                .fetch(&mut self.conn);
            let (mut records, mut names) = (Vec::<RevisionRecord>::new(), Names::default());
            let mut size = 0;
            while let Some(row) = rows.try_next().await? {
                if let Some(last) = records.last()
                    && last.revision != head_of(&row)?.revision
                {
                    size += size_of(last);
                    if size > EXPORTED {
                        break;
                    }
                }
                add_row(&mut records, &row, &mut names)?;
            }
            Ok(records)
        };
        let records = read.await.map_err(|e| self.file.error(&e))?;
        if let Some(last) = records.last() {
            self.revision = last.revision;
        }
        Ok(records)
    }

    async fn resources(&mut self) -> Result<Vec<Resource>, StoreError> {
        let read = async {
            // By row and never by an index, which may be damaged.
            let sql = format!("{SELECT_RESOURCE}, rowid FROM resources NOT INDEXED WHERE rowid > ? ORDER BY rowid");
            let mut rows = sqlx::query(AssertSqlSafe(sql))
                .bind(self.resource)
                .fetch(&mut self.conn);
            let (mut resources, mut names) = (Vec::<Resource>::new(), Names::default());
            let (mut size, mut last) = (0, self.resource);
            while size < EXPORTED
                && let Some(row) = rows.try_next().await?
            {
                let resource = resource_of(&row, &mut names)?;
                size += resource.body.as_str().len();
                resources.push(resource);
                let number: i64 = row.try_get(6)?;
                if number <= last {
                    return Err(sqlx::Error::Decode("the rows of the state are out of order".into()));
                }
                last = number;
            }
            Ok((resources, last))
        };
        let (resources, last) = read.await.map_err(|e| self.file.error(&e))?;
        self.resource = last;
        Ok(resources)
    }
}

/// One transaction. If this is dropped, its connection is dropped too, and SQLite rolls back.
#[derive(Debug)]
pub(super) struct Restoring {
    file: File,
    conn: SqliteConnection,
    head_signal: Arc<HeadSignal>,
    committed: Arc<Notify>,
    marker: Arc<Marker>,
    /// The total of the resources so far.
    total: Total,
}

impl Restoring {
    pub(super) async fn begin(
        file: &File,
        replace: bool,
        head_signal: Arc<HeadSignal>,
        committed: Arc<Notify>,
        marker: Arc<Marker>,
    ) -> Result<Self, StoreError> {
        let mut conn = file.connect().await?;
        let begin = async {
            sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await?;
            let revision = head(&mut conn).await?.revision;
            if replace {
                const EVERYTHING: &str = "DELETE FROM changes; DELETE FROM revisions; DELETE FROM resources; \
                     DELETE FROM applied; DELETE FROM checkpoint";
                sqlx::raw_sql(EVERYTHING).execute(&mut conn).await?;
            }
            sqlx::query("UPDATE epoch SET epoch = lower(hex(randomblob(16)))")
                .execute(&mut conn)
                .await?;
            Ok(revision)
        };
        match begin.await.map_err(|e| file.error(&e))? {
            revision if !replace && revision > Revision::ZERO => Err(StoreError::NotEmpty {
                place: file.place(),
                revision,
            }),
            _ => Ok(Restoring {
                file: file.clone(),
                conn,
                head_signal,
                committed,
                marker,
                total: Total::default(),
            }),
        }
    }

    async fn run(&mut self, script: Script) -> Result<(), StoreError> {
        let ran = script.run(&mut self.conn).await;
        ran.map_err(|e| self.file.error(&e))
    }
}

#[async_trait]
impl Restore for Restoring {
    async fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let put = compact::put(&mut self.conn, checkpoint).await;
        put.map_err(|e| self.file.error(&e))
    }

    async fn revisions(&mut self, records: &[RevisionRecord]) -> Result<(), StoreError> {
        let items = |record: &RevisionRecord| record.changes.iter().map(Items::of).collect();
        let digests = Digests {
            items: records.iter().map(items).collect(),
            // Only the last revision needs the digest of its state.
            states: vec![[0; 64]; records.len()],
            total: Total::default(),
        };
        let mut script = Script::new("");
        script.log(records, &digests, None);
        self.run(script).await
    }

    async fn resources(&mut self, resources: Vec<(Resource, Option<String>)>) -> Result<(), StoreError> {
        let made = resources
            .into_iter()
            .map(|(resource, unique)| creation(resource, unique));
        let made: Vec<_> = made.collect();
        let made = created(&made);
        self.total.extend(made.iter().filter_map(|(_, item)| *item));
        let mut script = Script::new("");
        script.state(&made, &[]);
        self.run(script).await
    }

    async fn applied(&mut self, notes: Vec<(String, String)>) -> Result<(), StoreError> {
        let mut script = Script::new("");
        script.state(&[], &notes.iter().collect::<Vec<_>>());
        self.run(script).await
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let finish = async {
            let head = head(&mut self.conn).await?;
            integrity::put_total(&mut self.conn, head, self.total).await?;
            let epoch: String = sqlx::query_scalar("SELECT epoch FROM epoch")
                .fetch_one(&mut self.conn)
                .await?;
            sqlx::query("COMMIT").execute(&mut self.conn).await?;
            Ok((epoch, head))
        };
        let (epoch, head) = finish.await.map_err(|e| self.file.error(&e))?;
        if let Err(error) = self.marker.restored(&epoch, head) {
            tracing::warn!("cannot update the marker beside the store: {error}");
        }
        self.head_signal.notify();
        self.committed.notify_one();
        self.conn.close().await.map_err(|e| self.file.error(&e))
    }
}
