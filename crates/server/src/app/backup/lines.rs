//! The form of the lines of a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::json::Json;
use fleet::log::{Author, Change, Checkpoint, Digest, Head, Removed, Resource, Revision, RevisionRecord};
use fleet::reversal::Reversal;
use serde::{Deserialize, Serialize};

/// The version of the format. Backups of other versions are refused.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    Backup(Header),
    Revision(RevisionLine),
    Resource(ResourceLine),
    End(End),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: u32,
    /// The release that wrote it, and when: for people.
    pub(super) release: String,
    pub(super) at: String,
    pub(super) head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<CheckpointLine>,
    pub(super) applied: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointLine {
    head: String,
    state: String,
}

impl From<Checkpoint> for CheckpointLine {
    fn from(checkpoint: Checkpoint) -> Self {
        CheckpointLine {
            head: checkpoint.head.to_string(),
            state: checkpoint.state.to_string(),
        }
    }
}

impl CheckpointLine {
    pub(super) fn read(&self) -> Option<Checkpoint> {
        Some(Checkpoint {
            head: Head::parse(&self.head)?,
            state: Digest::parse(&self.state)?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RevisionLine {
    revision: Revision,
    at: String,
    actor: String,
    request_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// An undo or a redo names the revision. At most one is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undoes: Option<Revision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redoes: Option<Revision>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overrides: Vec<String>,
    changes: Vec<ChangeLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed: Option<Removed>,
    digest: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChangeLine {
    kind: Arc<str>,
    id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Json>,
}

impl From<RevisionRecord> for RevisionLine {
    fn from(record: RevisionRecord) -> Self {
        let changes = record.changes.into_iter().map(|change| ChangeLine {
            kind: change.kind,
            id: change.id,
            origin: change.origin,
            before: change.before,
            after: change.after,
        });
        let (undoes, redoes) = Reversal::parts(record.author.reversal);
        RevisionLine {
            revision: record.revision,
            at: record.author.at,
            actor: record.author.actor,
            request_id: record.author.request_id,
            reason: record.author.reason,
            undoes,
            redoes,
            overrides: record.author.overrides,
            changes: changes.collect(),
            removed: Some(record.removed).filter(|removed| removed.count() > 0),
            digest: record.digest.to_string(),
        }
    }
}

impl RevisionLine {
    pub(super) fn read(self) -> Option<RevisionRecord> {
        let changes = self.changes.into_iter().map(|change| Change {
            kind: change.kind,
            id: change.id,
            before: change.before,
            after: change.after,
            origin: change.origin,
            unique: None,
            keeps_unique: false,
        });
        Some(RevisionRecord {
            revision: self.revision,
            author: Author {
                at: self.at,
                actor: self.actor,
                request_id: self.request_id,
                reason: self.reason,
                reversal: Reversal::from_parts(self.undoes, self.redoes).ok()?,
                overrides: self.overrides,
            },
            changes: changes.collect(),
            removed: self.removed.unwrap_or_default(),
            digest: Digest::parse(&self.digest)?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResourceLine {
    kind: Arc<str>,
    id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<str>>,
    body: Json,
}

impl From<Resource> for ResourceLine {
    fn from(resource: Resource) -> Self {
        ResourceLine {
            kind: resource.kind,
            id: resource.id,
            origin: resource.origin,
            body: resource.body,
        }
    }
}

impl ResourceLine {
    pub(crate) fn read(self) -> Resource {
        Resource {
            kind: self.kind,
            id: self.id,
            body: self.body,
            origin: self.origin,
        }
    }
}

/// The numbers of lines, and the head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub revisions: u64,
    pub resources: u64,
    /// As `revision:digest`, like the log line of each commit.
    pub head: String,
}
