//! One resource: as it is now, or as it was at a revision.

use std::sync::Arc;

use bytes::Bytes;
use fleet::Fleet;
use fleet::document::Document;
use fleet::identity::{IDENTITIES, Identity};
use fleet::inputs::Form;
use fleet::json::Json;
use fleet::kind::{CLUSTERS, KINDS, Kind, name_record};
use fleet::log::Revision;
use fleet::refusal::quote;
use fleet::snapshot::{Cluster, Poll};
use store::AuditQuery;

use super::App;
use super::errors::ReadError;
use super::reads::Class;

impl App {
    pub fn kind(&self, name: &str) -> Result<Arc<Kind>, ReadError> {
        kind_of(&self.fleet(), name)
    }

    /// A resource or a name record. Identities are neither: their documents contain digests of tokens.
    pub fn document(&self, kind: &str, id: &str) -> Result<Document, ReadError> {
        document_of(&self.fleet(), kind, id)
    }

    /// An identity.
    pub fn identity(&self, id: &str) -> Result<Arc<Identity>, ReadError> {
        let fleet = self.fleet();
        fleet
            .identities()
            .get(id)
            .ok_or_else(|| match fleet.is_damaged(IDENTITIES) {
                true => ReadError::Damaged,
                false => ReadError::NotFound(format!("there is no identity \"{}\"", quote(id))),
            })
    }

    /// A resource at a revision: what its next change replaced, or what it is now if it has not changed since. Its kind may be
    /// deleted by now.
    pub async fn document_at(&self, kind: &str, id: &str, revision: Revision) -> Result<Json, ReadError> {
        if kind == IDENTITIES {
            return Err(no_kind(kind));
        }
        // Read before the log: what has no change in the log until then is still the same in this fleet.
        let now = self.fleet();
        if revision > now.revision() {
            return Err(ReadError::no_revision(revision));
        }
        let next_change = AuditQuery {
            after: Some(revision),
            kind: Some(kind.to_owned()),
            id: Some(id.to_owned()),
            limit: 1,
            ..AuditQuery::default()
        };
        let found = match self.store.audit(&next_change).await?.into_iter().next() {
            Some(record) => record.change.before,
            None => now.document(kind, id).map(|document| document.body),
        };
        let (kind, id) = (quote(kind), quote(id));
        found.ok_or_else(|| ReadError::NotFound(format!("{kind} had no \"{id}\" at revision {revision}")))
    }

    /// The inputs that Flux gets for a cluster at a path, now or at a revision, as JSON.
    pub async fn inputs(
        self: &Arc<Self>,
        class: Class,
        id: &str,
        path: &str,
        form: Form,
        revision: Option<Revision>,
    ) -> Result<Bytes, ReadError> {
        let fleet = match revision {
            None => self.fleet(),
            Some(revision) => {
                self.read(class, move |app, turn| app.fleet_at(turn, revision))
                    .await??
            }
        };
        let then = revision.map_or_else(String::new, |revision| format!(" at revision {revision}"));
        let cluster = fleet.cluster(id).ok_or_else(|| match fleet.is_damaged(CLUSTERS) {
            true => ReadError::Damaged,
            false => ReadError::NotFound(format!("there is no cluster \"{}\"{then}", quote(id))),
        })?;
        match fleet.named(&cluster.head().dns).read(path, form) {
            Poll::Reply(body) => Ok(body),
            Poll::Breach(breach) => Err(ReadError::Breach(breach)),
            Poll::Damaged => Err(ReadError::Damaged),
            Poll::UnknownCluster | Poll::UnknownKind => {
                let path = quote(path);
                Err(ReadError::NotFound(format!("no kind has the path \"{path}\"{then}")))
            }
        }
    }
}

pub(super) fn kind_of(fleet: &Fleet, name: &str) -> Result<Arc<Kind>, ReadError> {
    let missing = || match fleet.is_damaged(KINDS) {
        true => ReadError::Damaged,
        false => no_kind(name),
    };
    fleet.kinds().get(name).cloned().ok_or_else(missing)
}

fn no_kind(name: &str) -> ReadError {
    ReadError::NotFound(format!("there is no kind \"{}\"", quote(name)))
}

pub(super) fn document_of(fleet: &Fleet, kind: &str, id: &str) -> Result<Document, ReadError> {
    let singular = match name_record(kind) {
        Some(singular) => singular.to_owned(),
        None => kind_of(fleet, kind)?.singular.clone(),
    };
    fleet.document(kind, id).ok_or_else(|| match fleet.is_damaged(kind) {
        true => ReadError::Damaged,
        false => ReadError::NotFound(format!("there is no {singular} \"{}\"", quote(id))),
    })
}

pub(super) fn cluster_of<'a>(fleet: &'a Fleet, id: &str) -> Result<&'a Arc<Cluster>, ReadError> {
    let missing = || ReadError::NotFound(format!("there is no cluster \"{}\"", quote(id)));
    fleet.cluster(id).ok_or_else(missing)
}
