//! A store in memory: for demos and tests, and the simplest description of what a store does.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use fleet::log::{Author, Batch, Checkpoint, Head, Removed, Resource, Revision, RevisionRecord, State};
use fleet::reversal::{LastReversals, Reversal};
use fleet::summary::{RevisionSummary, Summary};

use crate::chain::{chain, still_kept};
use crate::head_signal::HeadSignal;
use crate::{
    AuditQuery, AuditRecord, CommitError, EXPORTED, Export, LastChange, Repair, Restore, RevisionPage, RevisionQuery,
    Store, StoreError, Unique, size_of, size_of_changes,
};

#[derive(Debug, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    content: Mutex<Content>,
    head_signal: HeadSignal,
}

#[derive(Clone, Debug)]
struct Epoch(String);

impl Default for Epoch {
    fn default() -> Self {
        // The only source of randomness in the standard library.
        let random = || RandomState::new().hash_one(());
        Epoch(format!("{:016x}{:016x}", random(), random()))
    }
}

type Key = (Arc<str>, Arc<str>);

/// The maps are persistent: a commit changes a copy, and replaces the original only if all of it succeeds.
#[derive(Clone, Debug, Default)]
struct Content {
    /// The checkpoint before the log, if it was compacted.
    checkpoint: Option<Checkpoint>,
    /// Consecutive revisions.
    log: imbl::Vector<Arc<RevisionRecord>>,
    resources: imbl::OrdMap<Key, (Resource, Option<Key>)>,
    /// The unique values in use, by kind.
    taken: imbl::OrdSet<Key>,
    applied: imbl::OrdMap<String, String>,
    epoch: Epoch,
}

impl Content {
    fn head(&self) -> Head {
        self.log.last().map(|record| record.head()).unwrap_or_default()
    }

    /// The head that the log begins after.
    fn begins(&self) -> Revision {
        self.checkpoint
            .map(|checkpoint| checkpoint.head.revision)
            .unwrap_or_default()
    }

    fn after(&self, revision: Revision) -> Result<impl Iterator<Item = &Arc<RevisionRecord>>, StoreError> {
        still_kept(revision, self.checkpoint)?;
        let known = revision.0 - self.begins().0;
        Ok(self.log.iter().skip(usize::try_from(known).unwrap_or(usize::MAX)))
    }

    fn summary_of(&self, record: &RevisionRecord) -> RevisionSummary {
        let (revision, itself) = (record.revision, record.author.reversal);
        let original = itself.map_or(revision, Reversal::original);
        let last = |reversal| {
            let mut newest = self.log.iter().rev();
            newest
                .find(|record| record.author.reversal == Some(reversal))
                .map(|record| record.revision)
        };
        let last = LastReversals {
            undo: last(Reversal::Undo(original)),
            redo: last(Reversal::Redo(original)),
        };
        RevisionSummary {
            revision,
            author: record.author.clone(),
            changes: Summary::of(&record.changes),
            reversed_by: last.reverses(revision, itself),
        }
    }

    fn put(&mut self, resource: Resource, unique: Option<String>) -> Result<(), ()> {
        let unique: Option<Key> = unique.map(|value| (resource.kind.clone(), value.into()));
        if let Some(unique) = &unique
            && self.taken.insert(unique.clone()).is_some()
        {
            return Err(());
        }
        let key = (resource.kind.clone(), resource.id.clone());
        self.resources.insert(key, (resource, unique));
        Ok(())
    }

    fn apply(&mut self, batch: &Batch, mut record: RevisionRecord) -> Result<(), CommitError> {
        // All deletions come before any insertion, so that two resources can swap their unique values.
        for change in &batch.changes {
            if let Some((_, Some(unique))) = self.resources.remove(&(change.kind.clone(), change.id.clone())) {
                self.taken.remove(&unique);
            }
        }
        for change in &batch.changes {
            let Some(body) = change.after.clone() else { continue };
            let resource = Resource {
                kind: change.kind.clone(),
                id: change.id.clone(),
                body,
                origin: change.origin.clone(),
            };
            self.put(resource, change.unique.clone())
                .map_err(|()| CommitError::duplicate(change))?;
        }
        self.applied.extend(batch.applied.iter().cloned());
        for change in &mut record.changes {
            (change.unique, change.keeps_unique) = (None, false);
        }
        self.log.push_back(Arc::new(record));
        Ok(())
    }
}

impl Shared {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("nothing panics while it holds the lock")
    }
}

#[async_trait]
impl Store for Memory {
    async fn load(&self) -> Result<State, StoreError> {
        let content = self.shared.content().clone();
        Ok(State {
            head: content.head(),
            resources: content
                .resources
                .values()
                .map(|(resource, _)| resource.clone())
                .collect(),
            ..State::default()
        })
    }

    async fn head(&self) -> Result<Head, StoreError> {
        Ok(self.shared.content().head())
    }

    async fn log(
        &self,
        after: Revision,
        index: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<RevisionRecord>, StoreError> {
        let content = self.shared.content().clone();
        let (mut given, mut size, mut skip) = (Vec::new(), 0, index);
        for record in content.after(after)?.take(limit) {
            let mut part = RevisionRecord {
                changes: Vec::new(),
                ..RevisionRecord::clone(record)
            };
            for change in record.changes.iter().skip(std::mem::take(&mut skip)) {
                size += size_of_changes([change]);
                part.changes.push(change.clone());
                if size >= bytes {
                    break;
                }
            }
            given.push(part);
            if size >= bytes {
                break;
            }
        }
        Ok(given)
    }

    async fn commit(&self, base: Head, batches: &[Batch]) -> Result<Vec<Head>, CommitError> {
        let records = chain(base, batches);
        let heads = records.iter().map(RevisionRecord::head).collect();
        {
            let mut content = self.shared.content();
            if content.head() != base {
                return Err(CommitError::Conflict);
            }
            let mut next = content.clone();
            for (batch, record) in batches.iter().zip(records) {
                next.apply(batch, record)?;
            }
            *content = next;
        }
        self.shared.head_signal.notify();
        Ok(heads)
    }

    async fn head_moved(&self) {
        self.shared.head_signal.moved().await;
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let content = self.shared.content().clone();
        let (mut found, mut size) = (Vec::new(), 0);
        let enough = |size: usize| query.bytes.is_some_and(|bytes| size >= bytes);
        for record in content.after(query.starts_after().unwrap_or(content.begins()))? {
            if found.len() >= query.limit || enough(size) {
                break;
            }
            if is(&query.actor, &record.author.actor) {
                let author: Arc<Author> = Arc::new(record.author.clone());
                let changes = record.changes.iter().enumerate();
                let is_behind = |index| query.behind.is_none_or(|behind| (record.revision, index) > behind);
                let matching = changes.filter(|(index, change)| {
                    is(&query.kind, &change.kind) && is(&query.id, &change.id) && is_behind(*index)
                });
                for (index, change) in matching {
                    size += size_of_changes([change]);
                    found.push(AuditRecord {
                        revision: record.revision,
                        index,
                        author: author.clone(),
                        change: change.clone(),
                    });
                    if enough(size) {
                        break;
                    }
                }
            }
        }
        Ok(found)
    }

    async fn revisions(&self, query: &RevisionQuery) -> Result<RevisionPage, StoreError> {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let content = self.shared.content().clone();
        let changed = |record: &RevisionRecord| {
            if query.kind.is_none() && query.id.is_none() {
                return true;
            }
            let mut changes = record.changes.iter();
            changes.any(|change| is(&query.kind, &change.kind) && is(&query.id, &change.id))
        };
        let at = |record: &RevisionRecord| {
            let at = record.author.at.as_str();
            let since = query.since.as_ref().is_none_or(|since| at >= since.as_str());
            since && query.until.as_ref().is_none_or(|until| at < until.as_str())
        };
        let reason = |record: &RevisionRecord| {
            let found = |text: &String| {
                record
                    .author
                    .reason
                    .as_ref()
                    .is_some_and(|reason| reason.contains(text))
            };
            query.reason.as_ref().is_none_or(found)
        };
        let in_time: Vec<_> = content.log.iter().filter(|record| at(record)).collect();
        let (Some(first), Some(last)) = (in_time.first(), in_time.last()) else {
            return Ok(RevisionPage::default());
        };
        let candidates = content.log.iter().rev().filter(|record| {
            let known = query.before.is_none_or(|before| record.revision < before);
            let found = match query.id {
                Some(_) => changed(record),
                None => is(&query.actor, &record.author.actor),
            };
            known && found && (first.revision..=last.revision).contains(&record.revision)
        });
        let candidates: Vec<_> = candidates.take(query.examine).collect();
        let wanted = candidates
            .iter()
            .filter(|record| is(&query.actor, &record.author.actor) && changed(record) && at(record) && reason(record));
        let found = wanted
            .take(query.limit)
            .map(|record| content.summary_of(record))
            .collect();
        let oldest = candidates.last().map(|record| record.revision);
        Ok(RevisionPage::new(found, query, (candidates.len(), oldest)))
    }

    async fn last_changes(&self, wanted: &[LastChange<'_>]) -> Result<Vec<Option<AuditRecord>>, StoreError> {
        let content = self.shared.content().clone();
        let mut found: Vec<Option<AuditRecord>> = wanted.iter().map(|_| None).collect();
        // One pass over the log for all of them.
        let mut open: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        for (n, wanted) in wanted.iter().enumerate() {
            open.entry((wanted.kind, wanted.id)).or_default().push(n);
        }
        for record in content.log.iter().rev() {
            if open.is_empty() {
                break;
            }
            let author = Arc::new(record.author.clone());
            for (index, change) in record.changes.iter().enumerate() {
                let key = (&*change.kind, &*change.id);
                let Some(places) = open.get_mut(&key) else { continue };
                places.retain(|place| {
                    let is_later = record.revision >= wanted[*place].before;
                    if !is_later {
                        found[*place] = Some(AuditRecord {
                            revision: record.revision,
                            index,
                            author: author.clone(),
                            change: change.clone(),
                        });
                    }
                    is_later
                });
                if places.is_empty() {
                    open.remove(&key);
                }
            }
        }
        Ok(found)
    }

    async fn removed(&self, since: &str) -> Result<Vec<(String, Removed)>, StoreError> {
        let content = self.shared.content().clone();
        let since = content.log.iter().filter(|record| record.author.at.as_str() > since);
        let removing = since.filter(|record| record.removed.count() > 0);
        Ok(removing
            .map(|record| (record.author.at.clone(), record.removed.clone()))
            .collect())
    }

    async fn applied(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let content = self.shared.content().clone();
        Ok(content.applied.into_iter().collect())
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.shared.content().checkpoint)
    }

    async fn holds(&self, head: Head) -> Result<bool, StoreError> {
        let content = self.shared.content();
        let begins = content.checkpoint.map(|checkpoint| checkpoint.head);
        let place = head.revision.0.checked_sub(content.begins().0 + 1);
        let record = place.and_then(|place| content.log.get(usize::try_from(place).ok()?));
        let there = record.is_some_and(|record| record.head() == head);
        Ok(there || begins == Some(head) || head == Head::default())
    }

    async fn epoch(&self) -> Result<String, StoreError> {
        Ok(self.shared.content().epoch.0.clone())
    }

    async fn first_since(&self, at: &str, removing: bool) -> Result<Option<Revision>, StoreError> {
        let content = self.shared.content().clone();
        let wanted =
            |record: &&Arc<RevisionRecord>| record.author.at.as_str() > at && (!removing || record.removed.count() > 0);
        Ok(content.log.iter().find(wanted).map(|record| record.revision))
    }

    async fn compact(&self, checkpoint: Checkpoint) -> Result<(), CommitError> {
        let mut content = self.shared.content();
        if content.checkpoint == Some(checkpoint) {
            return Ok(());
        }
        let place = content.log.iter().position(|record| record.head() == checkpoint.head);
        match place {
            Some(place) if place + 1 < content.log.len() => {
                content.log = content.log.skip(place + 1);
                content.checkpoint = Some(checkpoint);
                Ok(())
            }
            _ => Err(CommitError::Conflict),
        }
    }

    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        let content = self.shared.content().clone();
        Ok(Box::new(Exporting {
            applied: content.applied.clone().into_iter().collect(),
            content,
            revisions: 0,
            resources: 0,
        }))
    }

    async fn restore(&self, replace: bool) -> Result<Box<dyn Restore>, StoreError> {
        let restoring = Restoring {
            shared: self.shared.clone(),
            replace,
            content: Content::default(),
        };
        restoring.check(&self.shared.content())?;
        Ok(Box::new(restoring))
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn repair(&self, _apply: bool, _unique: Unique) -> Result<Repair, StoreError> {
        Ok(Repair {
            head: self.shared.content().head(),
            ..Repair::default()
        })
    }

    async fn close(&self) {}
}

#[derive(Debug)]
struct Exporting {
    content: Content,
    applied: BTreeMap<String, String>,
    /// The number of revisions and resources that were read.
    revisions: usize,
    resources: usize,
}

#[async_trait]
impl Export for Exporting {
    fn head(&self) -> Head {
        self.content.head()
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.content.checkpoint
    }

    fn applied(&self) -> &BTreeMap<String, String> {
        &self.applied
    }

    async fn revisions(&mut self) -> Result<Vec<RevisionRecord>, StoreError> {
        let (mut given, mut size) = (Vec::new(), 0);
        for record in self.content.log.iter().skip(self.revisions) {
            given.push(RevisionRecord::clone(record));
            size += size_of(record);
            if size > EXPORTED {
                break;
            }
        }
        self.revisions += given.len();
        Ok(given)
    }

    async fn resources(&mut self) -> Result<Vec<Resource>, StoreError> {
        const AT_ONCE: usize = 256;
        let rest = self.content.resources.values().skip(self.resources);
        let given: Vec<_> = rest.take(AT_ONCE).map(|(resource, _)| resource.clone()).collect();
        self.resources += given.len();
        Ok(given)
    }
}

#[derive(Debug)]
struct Restoring {
    shared: Arc<Shared>,
    replace: bool,
    content: Content,
}

impl Restoring {
    fn check(&self, now: &Content) -> Result<(), StoreError> {
        match now.head().revision {
            Revision::ZERO => Ok(()),
            _ if self.replace => Ok(()),
            revision => Err(StoreError::NotEmpty {
                place: PLACE.to_owned(),
                revision,
            }),
        }
    }
}

const PLACE: &str = "the store in memory";

#[async_trait]
impl Restore for Restoring {
    async fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.content.checkpoint = Some(checkpoint);
        Ok(())
    }

    async fn revisions(&mut self, records: &[RevisionRecord]) -> Result<(), StoreError> {
        self.content.log.extend(records.iter().cloned().map(Arc::new));
        Ok(())
    }

    async fn resources(&mut self, resources: Vec<(Resource, Option<String>)>) -> Result<(), StoreError> {
        for (resource, unique) in resources {
            let name = format!("{}/{}", resource.kind, resource.id);
            self.content.put(resource, unique).map_err(|()| StoreError::Corrupt {
                place: PLACE.to_owned(),
                detail: format!("{name}: another resource already has its unique value"),
            })?;
        }
        Ok(())
    }

    async fn applied(&mut self, notes: Vec<(String, String)>) -> Result<(), StoreError> {
        self.content.applied.extend(notes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        {
            let mut content = self.shared.content();
            self.check(&content)?;
            *content = self.content.clone();
        }
        self.shared.head_signal.notify();
        Ok(())
    }
}
