//! The log: every change of the fleet is a revision.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::damage::Damage;
use crate::identity::IDENTITIES;
use crate::json::Json;
use crate::reversal::Reversal;

/// The number of a state of the fleet. 0 is the empty store; each commit adds one, in commit order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    pub const ZERO: Revision = Revision(0);

    #[must_use]
    pub fn next(self) -> Self {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// SHA-256 over a revision's content and its predecessor's digest. Zero before the first revision.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<Digest> {
        let mut digest = Digest::default();
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (n, byte) in digest.0.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
        }
        Some(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub revision: Revision,
    pub digest: Digest,
}

impl Head {
    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<Head> {
        let (revision, digest) = text.split_once(':')?;
        Some(Head {
            revision: Revision(revision.parse().ok()?),
            digest: Digest::parse(digest)?,
        })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.revision, self.digest)
    }
}

/// Replaces the revisions up to a head that were compacted. The log continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub head: Head,
    /// The digest of the resources at that head, see [`crate::audit`].
    pub state: Digest,
}

/// What one revision does to one resource. `before` is absent for a creation, `after` for a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: Arc<str>,
    pub id: Arc<str>,
    pub before: Option<Json>,
    pub after: Option<Json>,
    /// What wrote it, if that was not a request: a built-in file of a release, `RESOURCES_DIR`, the seed.
    pub origin: Option<Arc<str>>,
    /// A value that no two resources of the kind may share (a cluster's DNS name); the store enforces it.
    pub unique: Option<String>,
    /// Whether that value is unchanged, so that a store need not update it. Neither is in the log.
    pub keeps_unique: bool,
}

impl Change {
    pub fn action(&self) -> Action {
        match (&self.before, &self.after) {
            (None, _) => Action::Create,
            (Some(_), Some(_)) => Action::Update,
            (Some(_), None) => Action::Delete,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Create,
    Update,
    Delete,
}

/// Who wrote, when and why. `at` is RFC 3339 in UTC with microseconds, so that text order is time order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    pub at: String,
    pub actor: String,
    pub request_id: String,
    pub reason: Option<String>,
    /// What the revision takes back, if it is an undo or a redo.
    pub reversal: Option<Reversal>,
    /// The ids of the guards that the revision exceeds and that its author overrode.
    pub overrides: Vec<String>,
}

/// How the stored form of a revision's removals begins if its author overrode guards.
pub const OVERRIDES_PREFIX: &str = r#"{"overrides""#;

/// Parses the overridden guards from the stored form of a revision's removals. See [`RevisionRecord::removed_text`].
pub fn overrides_from_text(text: Option<&str>) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Stored {
        overrides: Vec<String>,
    }
    match text.filter(|text| text.starts_with(OVERRIDES_PREFIX)) {
        None => Ok(Vec::new()),
        Some(text) => {
            let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
            Ok(stored.overrides)
        }
    }
}

/// The clusters that lose something by a revision, by DNS name in lower case. The removal budget counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Clusters that Flux removes something from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Clusters that were deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Whether the request confirmed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirmed: bool,
}

impl Removed {
    /// The number of clusters.
    pub fn count(&self) -> usize {
        self.lost.len() + self.deleted.len()
    }

    /// The stored form; none if nothing is removed.
    pub fn to_text(&self) -> Option<String> {
        (self.count() > 0).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Parses the stored form.
    pub fn from_text(text: Option<&str>) -> Result<Self, String> {
        text.map_or(Ok(Removed::default()), |text| {
            serde_json::from_str(text).map_err(|error| error.to_string())
        })
    }
}

/// A batch of changes that a store is asked to commit as one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub author: Author,
    pub changes: Vec<Change>,
    /// Notes that are stored beside the state and never rolled back, such as the digest of each applied kind file.
    pub applied: Vec<(String, String)>,
    pub removed: Removed,
}

/// A revision as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionRecord {
    pub revision: Revision,
    pub author: Author,
    pub changes: Vec<Change>,
    pub removed: Removed,
    pub digest: Digest,
}

impl RevisionRecord {
    /// The record that `batch` becomes on top of `base`.
    pub fn on(base: Head, batch: &Batch) -> Self {
        let mut record = RevisionRecord {
            revision: base.revision.next(),
            author: batch.author.clone(),
            changes: batch.changes.clone(),
            removed: batch.removed.clone(),
            digest: Digest::default(),
        };
        record.digest = record.chained(base.digest);
        record
    }

    pub fn head(&self) -> Head {
        Head {
            revision: self.revision,
            digest: self.digest,
        }
    }

    /// The digest of this record after a record with the digest `previous`. Every part is hashed with its length, so no two
    /// different records hash the same input.
    pub fn chained(&self, previous: Digest) -> Digest {
        let mut hash = Sha256::new();
        hash.update(previous.0);
        hash.update(self.revision.0.to_be_bytes());
        part(&mut hash, Some(&self.author.at));
        part(&mut hash, Some(&self.author.actor));
        part(&mut hash, Some(&self.author.request_id));
        part(&mut hash, self.author.reason.as_deref());
        hash.update((self.changes.len() as u64).to_be_bytes());
        for change in &self.changes {
            part(&mut hash, Some(&change.kind));
            part(&mut hash, Some(&change.id));
            part(&mut hash, change.before.as_ref().map(Json::as_str));
            part(&mut hash, change.after.as_ref().map(Json::as_str));
            part(&mut hash, change.origin.as_deref());
        }
        // Most revisions remove nothing.
        if let Some(removed) = self.removed.to_text() {
            part(&mut hash, Some(&removed));
        }
        // Nor do most override guards.
        if !self.author.overrides.is_empty() {
            hash.update([4]);
            hash.update((self.author.overrides.len() as u64).to_be_bytes());
            self.author.overrides.iter().for_each(|id| part(&mut hash, Some(id)));
        }
        // Most revisions are neither. The first byte tells these from each other and from the parts before.
        let (tag, original) = match self.author.reversal {
            None => return Digest(hash.finalize().into()),
            Some(Reversal::Undo(original)) => (2, original),
            Some(Reversal::Redo(original)) => (3, original),
        };
        hash.update([tag]);
        hash.update(original.0.to_be_bytes());
        Digest(hash.finalize().into())
    }

    /// The stored form of what it removes and of the guards that its author overrode; none if there is neither. The overrides come
    /// first, so that a list of revisions finds them without reading the names of the clusters.
    pub fn removed_text(&self) -> Option<String> {
        #[derive(Serialize)]
        struct Stored<'a> {
            overrides: &'a [String],
            #[serde(flatten)]
            removed: Option<&'a Removed>,
        }
        if self.author.overrides.is_empty() {
            return self.removed.to_text();
        }
        let stored = Stored {
            overrides: &self.author.overrides,
            removed: (self.removed.count() > 0).then_some(&self.removed),
        };
        Some(serde_json::to_string(&stored).unwrap_or_default())
    }

    /// The change records of this revision, as the API shows them.
    pub fn records(&self) -> impl Iterator<Item = ChangeRecord<'_>> {
        self.changes.iter().enumerate().map(|(index, change)| ChangeRecord {
            revision: self.revision,
            index,
            author: &self.author,
            change,
            shows_identities: false,
        })
    }
}

/// Adds a part with its length to a digest, so no two different sequences of parts hash the same input.
pub(crate) fn part(hash: &mut Sha256, text: Option<&str>) {
    match text {
        Some(text) => {
            hash.update([1]);
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        None => hash.update([0]),
    }
}

/// One change with the revision it belongs to: a line of the audit log.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRecord<'a> {
    pub revision: Revision,
    pub index: usize,
    pub author: &'a Author,
    pub change: &'a Change,
    /// Whether the documents of identities are shown, which have the digests of tokens.
    pub shows_identities: bool,
}

impl ChangeRecord<'_> {
    fn is_hidden(&self) -> bool {
        &*self.change.kind == IDENTITIES && !self.shows_identities
    }
}

impl Serialize for ChangeRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            revision: Revision,
            index: usize,
            at: &'a str,
            actor: &'a str,
            request_id: &'a str,
            action: Action,
            kind: &'a str,
            id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            origin: Option<&'a str>,
            before: &'a Option<Json>,
            after: &'a Option<Json>,
            reason: &'a Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            undoes: Option<Revision>,
            #[serde(skip_serializing_if = "Option::is_none")]
            redoes: Option<Revision>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            overrides: &'a [String],
        }
        let (undoes, redoes) = Reversal::parts(self.author.reversal);
        Wire {
            revision: self.revision,
            index: self.index,
            at: &self.author.at,
            actor: &self.author.actor,
            request_id: &self.author.request_id,
            action: self.change.action(),
            kind: &self.change.kind,
            id: &self.change.id,
            origin: self.change.origin.as_deref(),
            before: if self.is_hidden() { &None } else { &self.change.before },
            after: if self.is_hidden() { &None } else { &self.change.after },
            reason: &self.author.reason,
            undoes,
            redoes,
            overrides: &self.author.overrides,
        }
        .serialize(serializer)
    }
}

/// One resource of the state that a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub kind: Arc<str>,
    pub id: Arc<str>,
    pub body: Json,
    pub origin: Option<Arc<str>>,
}

/// The whole state that a store holds, at its head.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub head: Head,
    /// The resources that are known to be correct.
    pub resources: Vec<Resource>,
    /// The damage of the others.
    pub damage: Damage,
}
