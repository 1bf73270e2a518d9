//! Everything in memory: for demos and tests, and the plainest statement of what a store does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use fleet::log::{Author, Batch, Head, Removed, Resource, Revision, RevisionRecord, State};

use crate::bell::Bell;
use crate::{AuditQuery, AuditRecord, CommitError, Store, StoreError, chain};

#[derive(Debug, Default)]
pub struct Memory {
    content: Mutex<Content>,
    bell: Bell,
}

type Key = (Arc<str>, Arc<str>);

/// Persistent maps, because a commit works on a copy and puts it in place only when all of it holds.
#[derive(Clone, Debug, Default)]
struct Content {
    /// Revision N is at N-1.
    log: imbl::Vector<Arc<RevisionRecord>>,
    resources: imbl::OrdMap<Key, (Resource, Option<Key>)>,
    /// The unique values in use, by kind.
    taken: imbl::OrdSet<Key>,
    applied: imbl::OrdMap<String, String>,
}

impl Content {
    fn head(&self) -> Head {
        self.log.last().map(|record| record.head()).unwrap_or_default()
    }

    fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<RevisionRecord>> {
        self.log.iter().skip(usize::try_from(revision.0).unwrap_or(usize::MAX))
    }

    fn apply(&mut self, batch: &Batch, mut record: RevisionRecord) -> Result<(), CommitError> {
        // All of them leave before any comes in, so that two resources can swap their unique value.
        for change in &batch.changes {
            if let Some((_, Some(unique))) = self.resources.remove(&(change.kind.clone(), change.id.clone())) {
                self.taken.remove(&unique);
            }
        }
        for change in &batch.changes {
            let Some(body) = change.after.clone() else { continue };
            let unique = change
                .unique
                .as_deref()
                .map(|value| (change.kind.clone(), value.into()));
            if unique
                .as_ref()
                .is_some_and(|unique| self.taken.insert(unique.clone()).is_some())
            {
                return Err(CommitError::duplicate(change));
            }
            let (kind, id) = (change.kind.clone(), change.id.clone());
            let key = (kind.clone(), id.clone());
            let origin = change.origin.clone();
            self.resources
                .insert(key, (Resource { kind, id, body, origin }, unique));
        }
        self.applied.extend(batch.applied.iter().cloned());
        for change in &mut record.changes {
            (change.unique, change.keeps_unique) = (None, false);
        }
        self.log.push_back(Arc::new(record));
        Ok(())
    }
}

impl Memory {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("nothing panics while it holds the lock")
    }
}

#[async_trait]
impl Store for Memory {
    async fn load(&self) -> Result<State, StoreError> {
        let content = self.content().clone();
        Ok(State {
            head: content.head(),
            resources: content
                .resources
                .values()
                .map(|(resource, _)| resource.clone())
                .collect(),
        })
    }

    async fn head(&self) -> Result<Head, StoreError> {
        Ok(self.content().head())
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<RevisionRecord>, StoreError> {
        let content = self.content().clone();
        Ok(content
            .after(after)
            .take(limit)
            .map(|record| RevisionRecord::clone(record))
            .collect())
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        let records = chain(base, batches);
        let heads = records.iter().map(RevisionRecord::head).collect();
        {
            let mut content = self.content();
            if content.head() != base {
                return Err(CommitError::Conflict);
            }
            let mut next = content.clone();
            for (batch, record) in batches.iter().zip(records) {
                next.apply(batch, record)?;
            }
            *content = next;
        }
        self.bell.ring();
        Ok(heads)
    }

    async fn head_moved(&self) {
        self.bell.rung().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let content = self.content().clone();
        let mut found = Vec::new();
        for record in content.after(query.after) {
            if found.len() >= query.limit {
                break;
            }
            if is(&query.actor, &record.author.actor) {
                let author: Arc<Author> = Arc::new(record.author.clone());
                let changes = record.changes.iter().enumerate();
                let matching = changes.filter(|(_, change)| is(&query.kind, &change.kind) && is(&query.id, &change.id));
                found.extend(matching.map(|(index, change)| AuditRecord {
                    revision: record.revision,
                    index,
                    author: author.clone(),
                    change: change.clone(),
                }));
            }
        }
        Ok(found)
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        let content = self.content().clone();
        let since = content.log.iter().filter(|record| record.author.at.as_str() > since);
        let removing = since.filter(|record| record.removed.count() > 0);
        Ok(removing
            .map(|record| (record.author.at.clone(), record.removed.clone()))
            .collect())
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let content = self.content().clone();
        Ok(content.applied.into_iter().collect())
    }

    async fn close(&self) {}
}
