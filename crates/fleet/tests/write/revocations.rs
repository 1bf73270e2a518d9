//! What a store revoked, held against the identities of a backup.

use std::sync::Arc;

use fleet::identity::{IDENTITIES, Revocations, Time, Token};
use fleet::log::{Revision, RevisionRecord};
use fleet::operation::{Operation, Verb};
use fleet::write::Rules;

use super::*;
use crate::common::commit;

/// A fleet, and how it came to be.
#[derive(Clone)]
struct History {
    fleet: Fleet,
    log: Vec<RevisionRecord>,
}

impl History {
    fn new() -> History {
        History {
            fleet: small(),
            log: Vec::new(),
        }
    }

    /// The history with one more revision.
    fn then(&self, verb: Verb) -> History {
        let (fleet, record) = commit(&self.fleet, &[Operation::new(IDENTITIES, verb)], Rules::default()).unwrap();
        let mut log = self.log.clone();
        log.push(record);
        History { fleet, log }
    }

    fn created(&self, id: &str) -> History {
        let value = json!({"id": id, "role": "reader"});
        let token = Token::new(Token::digest_of(id.as_bytes()), Time::from_seconds(0), None);
        let (id, created) = (id.to_owned(), self.then(Verb::Create { id: None, value }));
        created.then(Verb::IssueToken { id, token })
    }

    fn deleted(&self, id: &str) -> History {
        self.then(Verb::Delete {
            id: id.into(),
            cascade: false,
        })
    }

    fn revision(&self) -> Revision {
        self.fleet.revision()
    }
}

/// What is revoked when the store is replaced by a backup whose log begins after a revision.
fn revoked(store: &History, backup: &History, begins: Revision) -> Vec<String> {
    let mut revocations = Revocations::default();
    store.log.iter().for_each(|record| revocations.note(record));
    revocations.begin(begins);
    let log = backup.log.iter().filter(|record| record.revision > begins);
    log.for_each(|record| revocations.contain(record));
    let mut lines = Vec::new();
    for id in backup.fleet.identities().ids() {
        let document = backup.fleet.document(IDENTITIES, &id).unwrap();
        if let Some(reduced) = revocations.reduce(&Arc::clone(&id), &document.body) {
            lines.extend(reduced.revoked);
        }
    }
    lines
}

fn token_of(id: &str) -> String {
    format!(
        "{id} token {}",
        Token::new(Token::digest_of(id.as_bytes()), Time::from_seconds(0), None).id
    )
}

#[test]
fn what_was_revoked_after_the_backup_is_revoked() {
    let backup = History::new().created("ann").created("bob");
    let none = backup.revision();
    assert_eq!(revoked(&backup, &backup, Revision::ZERO), [""; 0]);
    let store = backup.deleted("ann").created("eve").deleted("eve");
    let expected = ["ann is deleted".to_owned(), token_of("ann")];
    assert_eq!(revoked(&store, &backup, Revision::ZERO), expected);
    assert_eq!(revoked(&store, &backup, none), expected, "its log was compacted");
    // An older backup does not have it yet, and a newer one no longer.
    assert_eq!(revoked(&store, &History::new(), Revision::ZERO), [""; 0]);
    assert_eq!(revoked(&store, &store, Revision::ZERO), [""; 0]);
}

#[test]
fn a_name_that_was_used_again_before_the_backup_is_not_the_deleted_one() {
    let early = History::new().created("ann").deleted("ann");
    let value = json!({"id": "ann", "role": "admin"});
    let backup = early.then(Verb::Create { id: None, value });
    assert_eq!(revoked(&backup, &backup, Revision::ZERO), [""; 0]);
    assert_eq!(revoked(&backup, &backup, early.revision()), [""; 0]);
    let store = backup.deleted("ann");
    assert_eq!(revoked(&store, &backup, Revision::ZERO), ["ann is deleted"]);
}

#[test]
fn a_store_that_went_another_way_keeps_what_it_revoked() {
    let common = History::new().created("ann").created("bob");
    let backup = common.created("late");
    // The same number of revisions, and others.
    let store = common.deleted("ann").deleted("bob");
    assert_eq!(store.revision(), backup.revision());
    let expected = ["ann", "bob"]
        .map(|id| [format!("{id} is deleted"), token_of(id)])
        .concat();
    assert_eq!(revoked(&store, &backup, Revision::ZERO), expected);
    // Tokens are never used again, so they count however far back the log of the backup goes. Names are.
    let expected = ["ann", "bob"].map(token_of);
    assert_eq!(revoked(&store, &backup, backup.revision()), expected);
}
