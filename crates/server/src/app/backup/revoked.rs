//! What the store revoked since the backup, which stays revoked when the store is replaced.

use fleet::identity::{IDENTITIES, Revocations};
use fleet::log::{Author, Batch, Change, Head, Resource, RevisionRecord};
use store::{Store, StoreError};

use crate::app::start::SYSTEM;

/// Reads what the store revoked, for a backup with this head whose log begins after `begins`.
pub(super) async fn read(store: &dyn Store, head: Head, begins: Head) -> Result<Revocations, StoreError> {
    let mut revocations = Revocations::default();
    let mut export = store.export().await?;
    let mut is_other_history = false;
    loop {
        let records = export.revisions().await?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            revocations.note(record);
            is_other_history |= record.revision == begins.revision && record.digest != begins.digest;
        }
    }
    let log_begins = export.checkpoint().map(|checkpoint| checkpoint.head.revision);
    if log_begins.is_some_and(|begins| begins > head.revision) {
        revocations.keep_only_present();
        loop {
            let resources = export.resources().await?;
            if resources.is_empty() {
                break;
            }
            let identities = resources.iter().filter(|resource| &*resource.kind == IDENTITIES);
            identities.for_each(|resource| revocations.add_present(&resource.body));
        }
    }
    if !is_other_history {
        revocations.begin(begins.revision);
    }
    Ok(revocations)
}

/// Takes from the identities of a backup what was revoked.
#[derive(Debug)]
pub(super) struct Revoked {
    revocations: Revocations,
    changes: Vec<Change>,
    /// What was taken, one line each.
    lines: Vec<String>,
}

impl Revoked {
    pub(super) fn new(revocations: Revocations) -> Self {
        Revoked {
            revocations,
            changes: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Reads the next revision of the backup.
    pub(super) fn contain(&mut self, record: &RevisionRecord) {
        self.revocations.contain(record);
    }

    /// What is left of an identity.
    pub(super) fn reduce(&mut self, mut resource: Resource) -> Option<Resource> {
        let Some(reduced) = self.revocations.reduce(&resource.id, &resource.body) else {
            return Some(resource);
        };
        let after = reduced.change.after.clone();
        self.changes.push(reduced.change);
        self.lines.extend(reduced.revoked);
        resource.body = after?;
        Some(resource)
    }

    /// The revision after `head` that revokes it all, with a line for each. None: nothing was revoked.
    pub(super) fn record(self, head: Head) -> Option<(RevisionRecord, Vec<String>)> {
        let author = Author {
            at: crate::now(),
            actor: SYSTEM.into(),
            request_id: crate::request_id(),
            reason: Some("flux-resourceset restore: revoked since the backup".to_owned()),
            reversal: None,
            overrides: Vec::new(),
        };
        let batch = Batch {
            author,
            changes: self.changes,
            ..Batch::default()
        };
        (!batch.changes.is_empty()).then(|| (RevisionRecord::on(head, &batch), self.lines))
    }
}
