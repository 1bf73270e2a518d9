//! Backup and restore: one long read of one moment, and one long write that is invisible until its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleet::integrity::{Items, Total};
use fleet::log::{Checkpoint, Head, Resource, Revision, RevisionRecord};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection};

use super::server::{PATIENCE, Purpose, Server, within};
use super::write::{BEGIN, Rows};
use super::{applied, compact, integrity};
use crate::head_signal::HeadSignal;
use crate::rows::{Names, SELECT_LOG, SELECT_RESOURCE, add_row, creation, head_of, resource_of, revision_of};
use crate::{EXPORTED, Export, Restore, StoreError, size_of};

/// The time limit of statements on whole tables.
const LONG: Duration = Duration::from_secs(600);

/// A separate connection, whose transaction sees one moment.
#[derive(Debug)]
pub(super) struct Exporting {
    server: Server,
    conn: PgConnection,
    head: Head,
    checkpoint: Option<Checkpoint>,
    applied: BTreeMap<String, String>,
    log: Cursor,
    state: Cursor,
}

impl Exporting {
    pub(super) async fn begin(server: &Server) -> Result<Self, StoreError> {
        let mut conn = server.connect(Purpose::Long).await?;
        let begin = async {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
            within(PATIENCE, sqlx::raw_sql(begin).execute(&mut conn)).await?;
            let head = sqlx::query("SELECT revision, digest FROM flux_resourceset.store").fetch_one(&mut conn);
            let head = head_of(&within(PATIENCE, head).await?)?;
            let checkpoint = compact::checkpoint(&mut conn).await?;
            let applied = applied(&mut conn).await?;
            let log = format!(
                "DECLARE log NO SCROLL CURSOR FOR {SELECT_LOG} FROM flux_resourceset.revisions r \
                 LEFT JOIN flux_resourceset.changes c ON c.revision = r.revision \
                 WHERE r.revision > (SELECT coalesce(max(revision), 0) FROM flux_resourceset.checkpoint) \
                 ORDER BY r.revision, c.idx; \
                 DECLARE state NO SCROLL CURSOR FOR {SELECT_RESOURCE} FROM flux_resourceset.resources"
            );
            within(PATIENCE, sqlx::raw_sql(AssertSqlSafe(log)).execute(&mut conn)).await?;
            Ok((head, checkpoint, applied))
        };
        let (head, checkpoint, applied) = begin.await.map_err(|e| server.error(&e))?;
        Ok(Exporting {
            server: server.clone(),
            conn,
            head,
            checkpoint,
            applied,
            log: Cursor::new("FETCH 64 FROM log"),
            state: Cursor::new("FETCH 64 FROM state"),
        })
    }

    async fn next_revisions(&mut self) -> sqlx::Result<Vec<RevisionRecord>> {
        let (mut records, mut names) = (Vec::<RevisionRecord>::new(), Names::default());
        let mut size = 0;
        while let Some(row) = self.log.next(&mut self.conn).await? {
            if let Some(last) = records.last()
                && last.revision != revision_of(&row)?
            {
                size += size_of(last);
                if size > EXPORTED {
                    self.log.rows.push_front(row);
                    break;
                }
            }
            add_row(&mut records, &row, &mut names)?;
        }
        Ok(records)
    }

    async fn next_resources(&mut self) -> sqlx::Result<Vec<Resource>> {
        let (mut resources, mut names) = (Vec::<Resource>::new(), Names::default());
        let mut size = 0;
        while size < EXPORTED
            && let Some(row) = self.state.next(&mut self.conn).await?
        {
            let resource = resource_of(&row, &mut names)?;
            size += resource.body.as_str().len();
            resources.push(resource);
        }
        Ok(resources)
    }
}

/// Rows that are fetched in small portions, to save memory.
#[derive(Debug)]
struct Cursor {
    fetch: &'static str,
    rows: VecDeque<PgRow>,
}

impl Cursor {
    fn new(fetch: &'static str) -> Self {
        Cursor {
            fetch,
            rows: VecDeque::new(),
        }
    }

    async fn next(&mut self, conn: &mut PgConnection) -> sqlx::Result<Option<PgRow>> {
        if self.rows.is_empty() {
            // The first portion may take longer, if the server sorts.
            self.rows = within(PATIENCE * 6, sqlx::query(self.fetch).fetch_all(conn))
                .await?
                .into();
        }
        Ok(self.rows.pop_front())
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
        let revisions = self.next_revisions().await;
        revisions.map_err(|e| self.server.error(&e))
    }

    async fn resources(&mut self) -> Result<Vec<Resource>, StoreError> {
        let resources = self.next_resources().await;
        resources.map_err(|e| self.server.error(&e))
    }
}

/// One transaction; other writers wait for it. If this is dropped, its connection is dropped too, and the server rolls back.
#[derive(Debug)]
pub(super) struct Restoring {
    server: Server,
    conn: PgConnection,
    head_signal: Arc<HeadSignal>,
    /// The end of the log so far.
    head: Head,
    /// The total of the resources so far.
    total: Total,
}

impl Restoring {
    pub(super) async fn begin(
        server: &Server,
        replace: bool,
        head_signal: Arc<HeadSignal>,
    ) -> Result<Self, StoreError> {
        let mut conn = server.connect(Purpose::Restoring).await?;
        let begin = async {
            within(PATIENCE, sqlx::raw_sql(BEGIN).execute(&mut conn)).await?;
            let revision = sqlx::query("SELECT revision FROM flux_resourceset.store FOR UPDATE").fetch_one(&mut conn);
            let revision = revision_of(&within(PATIENCE, revision).await?)?;
            if replace {
                // Not TRUNCATE, which blocks readers.
                const EVERYTHING: &str = "DELETE FROM flux_resourceset.changes; DELETE FROM flux_resourceset.revisions; \
                     DELETE FROM flux_resourceset.resources; DELETE FROM flux_resourceset.applied; \
                     DELETE FROM flux_resourceset.checkpoint";
                within(LONG, sqlx::raw_sql(EVERYTHING).execute(&mut conn)).await?;
            }
            const ANEW: &str = "UPDATE flux_resourceset.store SET revision = 0, digest = $1, \
                 epoch = replace(gen_random_uuid()::text, '-', '')";
            let anew = sqlx::query(ANEW).bind(&Head::default().digest.0[..]).execute(&mut conn);
            within(PATIENCE, anew).await?;
            Ok(revision)
        };
        match begin.await.map_err(|e| server.error(&e))? {
            revision if !replace && revision > Revision::ZERO => Err(StoreError::NotEmpty {
                place: server.place().to_owned(),
                revision,
            }),
            _ => Ok(Restoring {
                server: server.clone(),
                conn,
                head_signal,
                head: Head::default(),
                total: Total::default(),
            }),
        }
    }

    async fn write(&mut self, rows: Rows<'_>, head: Head) -> Result<(), StoreError> {
        let written = rows.write(&mut self.conn, self.head, head).await;
        match written.map_err(|e| self.server.error(&e))? {
            true => self.head = head,
            // An incompatible release migrated before we got the lock.
            false => return Err(self.server.unavailable("its schema changed")),
        }
        Ok(())
    }
}

#[async_trait]
impl Restore for Restoring {
    async fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let put = compact::put(&mut self.conn, checkpoint).await;
        put.map_err(|e| self.server.error(&e))
    }

    async fn revisions(&mut self, records: &[RevisionRecord]) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        for record in records {
            // Only the last revision needs the digest of its state.
            rows.revision(record, None);
            for (index, change) in record.changes.iter().enumerate() {
                rows.change(Some((record, index)), change, Items::of(change), false);
            }
        }
        let head = records.last().map_or(self.head, RevisionRecord::head);
        self.write(rows, head).await
    }

    async fn resources(&mut self, resources: Vec<(Resource, Option<String>)>) -> Result<(), StoreError> {
        let made: Vec<_> = resources
            .into_iter()
            .map(|(resource, unique)| creation(resource, unique))
            .collect();
        let mut rows = Rows::default();
        for change in &made {
            let items = Items::of(change);
            self.total.apply(items);
            rows.change(None, change, items, true);
        }
        self.write(rows, self.head).await
    }

    async fn applied(&mut self, notes: Vec<(String, String)>) -> Result<(), StoreError> {
        let notes: BTreeMap<_, _> = notes.into_iter().collect();
        let mut rows = Rows::default();
        for (key, value) in &notes {
            rows.note(key, value);
        }
        self.write(rows, self.head).await
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let finish = async {
            integrity::put_total(&mut self.conn, self.head, self.total).await?;
            within(LONG, sqlx::raw_sql("COMMIT").execute(&mut self.conn)).await
        };
        finish.await.map_err(|e| self.server.error(&e))?;
        self.head_signal.notify();
        let _broken = within(PATIENCE, self.conn.close()).await;
        Ok(())
    }
}
