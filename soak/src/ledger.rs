//! Compares acknowledged writes with the log.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// An acknowledged write of one resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acknowledged {
    pub(crate) id: String,
    /// A hash of the document in the reply, if there is one.
    pub(crate) document: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Acknowledged writes that were not looked up in the log yet.
    open: BTreeMap<u64, Vec<Acknowledged>>,
    /// The last revision of the log that was read.
    pub(crate) read_to: u64,
    pub(crate) checked: u64,
}

pub(crate) fn hash(document: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    document.to_string().hash(&mut hasher);
    hasher.finish()
}

impl Ledger {
    /// A ledger that begins after a revision.
    pub(crate) fn from(revision: u64) -> Ledger {
        Ledger {
            read_to: revision,
            ..Ledger::default()
        }
    }

    /// Remembers what a reply said. Two writes cannot have the same revision.
    pub(crate) fn acknowledge(&mut self, revision: u64, all: Vec<Acknowledged>) -> Result<(), String> {
        if revision <= self.read_to {
            return Err(format!(
                "revision {revision} is acknowledged after the log was read to {}",
                self.read_to
            ));
        }
        match self.open.insert(revision, all) {
            None => Ok(()),
            Some(_) => Err(format!("revision {revision} was acknowledged twice")),
        }
    }

    /// Adds the next records of the log. Reports every gap, and every acknowledged write that is missing.
    pub(crate) fn read(&mut self, records: &[Value]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut revisions: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        for record in records {
            revisions
                .entry(record["revision"].as_u64().unwrap_or_default())
                .or_default()
                .push(record);
        }
        for (revision, changes) in revisions {
            if revision != self.read_to + 1 {
                problems.push(format!("revision {revision} comes after {}", self.read_to));
            }
            self.read_to = revision;
            for acknowledged in self.open.remove(&revision).unwrap_or_default() {
                self.checked += 1;
                if !changes.iter().any(|change| acknowledged.is(change)) {
                    problems.push(format!(
                        "revision {revision} is not what was acknowledged for {}",
                        acknowledged.id
                    ));
                }
            }
        }
        problems
    }

    /// Acknowledged writes beyond the end of the log.
    pub(crate) fn lost(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }
}

impl Acknowledged {
    fn is(&self, change: &Value) -> bool {
        let same = |document: u64| hash(&change["after"]) == document;
        change["id"].as_str() == Some(&self.id) && self.document.is_none_or(same)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(revision: u64, id: &str, after: &Value) -> Value {
        json!({"revision": revision, "id": id, "after": after})
    }

    #[test]
    fn gaps_changed_documents_and_lost_revisions_are_found() {
        let document = json!({"id": "a", "n": 1});
        let mut ledger = Ledger::default();
        let write = |ledger: &mut Ledger, revision| {
            let document = Some(hash(&document));
            ledger.acknowledge(
                revision,
                vec![Acknowledged {
                    id: "a".to_owned(),
                    document,
                }],
            )
        };
        write(&mut ledger, 1).expect("new");
        write(&mut ledger, 2).expect("new");
        write(&mut ledger, 2).expect_err("twice");
        write(&mut ledger, 5).expect("new");
        assert!(ledger.read(&[record(1, "a", &document)]).is_empty());
        assert_eq!(ledger.read(&[record(2, "a", &json!({"id": "a", "n": 2}))]).len(), 1);
        assert_eq!(ledger.read(&[record(4, "b", &Value::Null)]).len(), 1);
        assert_eq!(ledger.lost(), [5]);
    }
}
