//! What a store revoked, held against the identities of a backup: a restore must not bring back a token that was revoked since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{IDENTITIES, Identity, Time, TokenId, cluster_of};
use crate::json::Json;
use crate::log::{Change, Digest, Revision, RevisionRecord};

/// Something that lets a caller in, and that can be taken away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grant {
    Identity(Arc<str>),
    Token(TokenId),
    /// A DNS name of certificates of an identity.
    Certificate(Arc<str>, Arc<str>),
    /// The claims of an identity, as JSON.
    Claims(Arc<str>, String),
}

/// The grants of an identity. One of a cluster is nothing but its tokens.
fn grants(identity: &Identity) -> BTreeSet<Grant> {
    let id = &identity.id;
    let mut grants: BTreeSet<Grant> = identity.tokens.iter().map(|token| Grant::Token(token.id)).collect();
    if cluster_of(id).is_none() {
        grants.insert(Grant::Identity(id.clone()));
    }
    let certificates = identity.certificates.iter();
    grants.extend(certificates.map(|dns| Grant::Certificate(id.clone(), dns.clone())));
    if !identity.claims.is_empty() {
        grants.insert(claims(identity));
    }
    grants
}

fn claims(identity: &Identity) -> Grant {
    let claims = identity.claims.clone().into_iter().collect();
    Grant::Claims(identity.id.clone(), Value::Object(claims).to_string())
}

fn identity(body: &Option<Json>) -> Option<Identity> {
    serde_json::from_str(body.as_ref()?.as_str()).ok()
}

/// What a store revoked. Read its log in order with [`Revocations::note`], then the log of the backup with
/// [`Revocations::contain`].
#[derive(Debug, Default)]
pub struct Revocations {
    revoked: BTreeMap<Grant, Revision>,
    /// Identities that end earlier than before.
    ends: BTreeMap<Arc<str>, (Time, Revision)>,
    /// The digests of revisions that revoked something.
    digests: BTreeMap<Revision, Digest>,
    /// Those of them that the backup contains: what it has was granted after them.
    contained: BTreeSet<Revision>,
    /// Set if the log of the store begins after the backup: all that the store has. The rest counts as revoked.
    present: Option<BTreeSet<Grant>>,
}

/// An identity without what was revoked.
#[derive(Debug)]
pub struct Reduced {
    pub change: Change,
    /// What was taken away, one line each.
    pub revoked: Vec<String>,
}

impl Revocations {
    /// Reads the next revision of the store.
    pub fn note(&mut self, record: &RevisionRecord) {
        for change in record.changes.iter().filter(|change| &*change.kind == IDENTITIES) {
            let (before, after) = (identity(&change.before), identity(&change.after));
            let had = before.as_ref().map(grants).unwrap_or_default();
            let has = after.as_ref().map(grants).unwrap_or_default();
            for grant in had.difference(&has) {
                self.revoked.insert(grant.clone(), record.revision);
                self.digests.insert(record.revision, record.digest);
            }
            for grant in &has {
                self.revoked.remove(grant);
            }
            if let (Some(before), Some(after)) = (before, after) {
                self.note_end(record, &before, &after);
            }
        }
    }

    fn note_end(&mut self, record: &RevisionRecord, before: &Identity, after: &Identity) {
        match after.expires_at {
            Some(end) if before.expires_at.is_none_or(|old| end < old) => {
                self.ends.insert(after.id.clone(), (end, record.revision));
                self.digests.insert(record.revision, record.digest);
            }
            end if end != before.expires_at => drop(self.ends.remove(&after.id)),
            _ => {}
        }
    }

    /// For a store whose log begins after the backup: it does not tell what was revoked since. Each identity of the state is added
    /// with [`Revocations::add_present`], and what the state lacks counts as revoked.
    pub fn keep_only_present(&mut self) {
        self.present = Some(BTreeSet::new());
    }

    /// Adds an identity of the store.
    pub fn add_present(&mut self, body: &Json) {
        if let (Some(present), Some(identity)) = (&mut self.present, identity(&Some(body.clone()))) {
            present.extend(grants(&identity));
        }
    }

    /// Says where the log of the backup begins: it contains what came before. Not for a store that is known to have another history there.
    pub fn begin(&mut self, begins: Revision) {
        self.contained
            .extend(self.digests.range(..=begins).map(|(revision, _)| *revision));
    }

    /// Reads the next revision of the backup.
    pub fn contain(&mut self, record: &RevisionRecord) {
        if self.digests.get(&record.revision) == Some(&record.digest) {
            self.contained.insert(record.revision);
        }
    }

    fn is_revoked(&self, grant: &Grant) -> bool {
        let Some(revision) = self.revoked.get(grant) else {
            return self.present.as_ref().is_some_and(|present| !present.contains(grant));
        };
        // Names are used again. Tokens are not.
        matches!(grant, Grant::Token(_)) || !self.contained.contains(revision)
    }

    /// What is left of an identity of the backup. None: all of it.
    pub fn reduce(&self, id: &Arc<str>, body: &Json) -> Option<Reduced> {
        let mut left = identity(&Some(body.clone()))?;
        let lost: Vec<Grant> = grants(&left)
            .into_iter()
            .filter(|grant| self.is_revoked(grant))
            .collect();
        let end = self.ends.get(id).filter(|(_, by)| !self.contained.contains(by));
        let end = end.filter(|(end, _)| left.expires_at.is_none_or(|old| *end < old));
        if lost.is_empty() && end.is_none() {
            return None;
        }
        let mut revoked: Vec<String> = lost.iter().map(|grant| describe(id, grant)).collect();
        if let Some((end, _)) = end {
            left.expires_at = Some(*end);
            revoked.push(format!("{id} expires at {end}"));
        }
        left.tokens.retain(|token| !lost.contains(&Grant::Token(token.id)));
        left.certificates
            .retain(|dns| !lost.contains(&Grant::Certificate(id.clone(), dns.clone())));
        if lost.contains(&claims(&left)) {
            left.claims.clear();
        }
        let is_gone = lost.contains(&Grant::Identity(id.clone())) || cluster_of(id).is_some() && left.tokens.is_empty();
        let change = Change {
            kind: IDENTITIES.into(),
            id: id.clone(),
            before: Some(body.clone()),
            after: (!is_gone).then(|| left.document().body),
            origin: None,
            unique: None,
            keeps_unique: false,
        };
        Some(Reduced { change, revoked })
    }
}

fn describe(id: &str, grant: &Grant) -> String {
    match grant {
        Grant::Identity(_) => format!("{id} is deleted"),
        Grant::Token(token) => format!("{id} token {token}"),
        Grant::Certificate(_, dns) => format!("{id} certificate {dns}"),
        Grant::Claims(..) => format!("{id} claims"),
    }
}
