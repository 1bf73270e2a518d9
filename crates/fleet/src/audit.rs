//! Checks that a log is unchanged, and that the state is the one that the log leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::log::{Checkpoint, Digest, Head, Resource, Revision, RevisionRecord};

/// A place where a store differs from what was written. Each prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("revision {expected} is missing: revision {found} follows instead")]
    Missing { expected: Revision, found: Revision },
    #[error("revision {0} was changed: its digest does not match its content and the revision before it")]
    Changed(Revision),
    #[error("the log ends at revision {head}, before the anchor at {anchor}: its end was cut off")]
    Cut { head: Revision, anchor: Revision },
    #[error("revision {0} has another digest than the anchor: the log was rewritten")]
    Rewritten(Revision),
    #[error(
        "the log begins after revision {begins}: the anchor at {anchor} cannot be checked any more; use a later one"
    )]
    Forgotten { begins: Revision, anchor: Revision },
    #[error("{name} differs from revision {revision}: the state was changed")]
    Differs { name: String, revision: Revision },
    #[error("{name} is missing, but revision {revision} has it: the state was changed")]
    Gone { name: String, revision: Revision },
    #[error("{name} exists, but revision {revision} deleted it: the state was changed")]
    Undead { name: String, revision: Revision },
    #[error("{name} exists, but no revision created it: the state was changed")]
    Unknown { name: String },
    #[error("{name} exists twice")]
    Twice { name: String },
    #[error(
        "the resources that did not change since the checkpoint at revision {0} do not match it: the state or the checkpoint was changed"
    )]
    Checkpoint(Revision),
}

type Key = (Arc<str>, Arc<str>);

/// What the log says about one resource.
#[derive(Debug)]
struct Story {
    /// The digest of its body where the log begins.
    began: Option<Digest>,
    now: Option<(Digest, Option<Arc<str>>)>,
    /// The last revision that changed it; zero if none did.
    by: Revision,
    seen: bool,
}

/// Reads a log in its order, then the state in any order, and reports where they break. It keeps a digest per resource, never a
/// document.
#[derive(Debug)]
pub struct Audit {
    begins: Head,
    head: Head,
    anchors: Vec<Head>,
    stories: BTreeMap<Key, Story>,
    resources: u64,
}

/// The result of an audit without findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    pub begins: Head,
    pub head: Head,
    /// The digest of the resources where the log begins.
    pub state: Digest,
    pub resources: u64,
}

impl Audit {
    /// For a log that begins after `begins`. `anchors` are heads of it that were noted elsewhere.
    pub fn new(begins: Head, anchors: &[Head]) -> Result<Self, Broken> {
        for anchor in anchors {
            if anchor.revision < begins.revision {
                return Err(Broken::Forgotten {
                    begins: begins.revision,
                    anchor: anchor.revision,
                });
            }
        }
        let audit = Audit {
            begins,
            head: begins,
            anchors: anchors.to_vec(),
            stories: BTreeMap::new(),
            resources: 0,
        };
        audit.compare_anchors()?;
        Ok(audit)
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// Reads the next revision, and fails if it is broken.
    pub fn record(&mut self, record: &RevisionRecord) -> Result<(), Broken> {
        self.check(record)?;
        self.take(record);
        self.compare_anchors()
    }

    /// Reads the next revision, and adds its problems to `found`.
    pub fn try_record(&mut self, record: &RevisionRecord, found: &mut Vec<Broken>) {
        found.extend(self.check(record).err());
        self.take(record);
        found.extend(self.compare_anchors().err());
    }

    fn check(&self, record: &RevisionRecord) -> Result<(), Broken> {
        let expected = self.head.revision.next();
        if record.revision != expected {
            return Err(Broken::Missing {
                expected,
                found: record.revision,
            });
        }
        match record.chained(self.head.digest) == record.digest {
            true => Ok(()),
            false => Err(Broken::Changed(record.revision)),
        }
    }

    fn take(&mut self, record: &RevisionRecord) {
        self.head = record.head();
        for change in &record.changes {
            let key = (change.kind.clone(), change.id.clone());
            let story = self.stories.entry(key).or_insert_with(|| Story {
                began: change.before.as_ref().map(|body| fingerprint(body.as_str())),
                now: None,
                by: record.revision,
                seen: false,
            });
            let after = change.after.as_ref();
            story.now = after.map(|body| (fingerprint(body.as_str()), change.origin.clone()));
            story.by = record.revision;
        }
    }

    fn compare_anchors(&self) -> Result<(), Broken> {
        let mut here = self
            .anchors
            .iter()
            .filter(|anchor| anchor.revision == self.head.revision);
        match here.any(|anchor| anchor.digest != self.head.digest) {
            true => Err(Broken::Rewritten(self.head.revision)),
            false => Ok(()),
        }
    }

    /// Reads the next resource, after the last revision.
    pub fn resource(&mut self, resource: &Resource) -> Result<(), Broken> {
        let name = || format!("{}/{}", resource.kind, resource.id);
        let body = fingerprint(resource.body.as_str());
        let key = (resource.kind.clone(), resource.id.clone());
        self.resources += 1;
        let Some(story) = self.stories.get_mut(&key) else {
            if self.begins.revision == Revision::ZERO {
                return Err(Broken::Unknown { name: name() });
            }
            let untouched = Story {
                began: Some(body),
                now: None,
                by: Revision::ZERO,
                seen: true,
            };
            self.stories.insert(key, untouched);
            return Ok(());
        };
        if std::mem::replace(&mut story.seen, true) {
            return Err(Broken::Twice { name: name() });
        }
        let revision = story.by;
        match &story.now {
            None => Err(Broken::Undead { name: name(), revision }),
            Some((expected, origin)) if *expected != body || *origin != resource.origin => {
                Err(Broken::Differs { name: name(), revision })
            }
            Some(_) => Ok(()),
        }
    }

    /// Ends the audit, after the last resource.
    pub fn end(self) -> Result<Sum, Broken> {
        let mut found = Vec::new();
        let sum = self.try_end(&mut found);
        found.into_iter().next().map_or(Ok(sum), Err)
    }

    /// Ends the audit, and adds its problems to `found`.
    pub fn try_end(self, found: &mut Vec<Broken>) -> Sum {
        let beyond = self
            .anchors
            .iter()
            .filter(|anchor| anchor.revision > self.head.revision);
        found.extend(beyond.map(|anchor| Broken::Cut {
            head: self.head.revision,
            anchor: anchor.revision,
        }));
        let mut hash = Sha256::new();
        for ((kind, id), story) in &self.stories {
            if story.now.is_some() && !story.seen {
                found.push(Broken::Gone {
                    name: format!("{kind}/{id}"),
                    revision: story.by,
                });
            }
            if let Some(body) = story.began {
                for text in [kind, id] {
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(&**text);
                }
                hash.update(body.0);
            }
        }
        Sum {
            begins: self.begins,
            head: self.head,
            state: Digest(hash.finalize().into()),
            resources: self.resources,
        }
    }
}

impl Sum {
    /// Compares the state where the log begins with the checkpoint there.
    pub fn compare(&self, checkpoint: Option<Checkpoint>) -> Result<(), Broken> {
        match checkpoint {
            Some(checkpoint) if checkpoint.head != self.begins || checkpoint.state != self.state => {
                Err(Broken::Checkpoint(self.begins.revision))
            }
            _ => Ok(()),
        }
    }
}

fn fingerprint(text: &str) -> Digest {
    Digest(Sha256::digest(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::log::{Author, Batch, Change};

    fn change(id: &str, before: Option<&str>, after: Option<&str>) -> Change {
        let json = |text: &str| Json::from_canonical(text);
        Change {
            kind: "things".into(),
            id: id.into(),
            before: before.map(json),
            after: after.map(json),
            origin: None,
            unique: None,
            keeps_unique: false,
        }
    }

    /// Four revisions, and the state that they add up to.
    fn history() -> (Vec<RevisionRecord>, Vec<Resource>) {
        let mut head = Head::default();
        let mut log = Vec::new();
        for changes in [
            vec![change("a", None, Some("1")), change("b", None, Some("1"))],
            vec![change("c", None, Some("1"))],
            vec![change("a", Some("1"), Some("2"))],
            vec![change("b", Some("1"), None)],
        ] {
            let batch = Batch {
                author: Author::default(),
                changes,
                ..Batch::default()
            };
            log.push(RevisionRecord::on(head, &batch));
            head = log[log.len() - 1].head();
        }
        let resource = |id: &str, body: &str| Resource {
            kind: "things".into(),
            id: id.into(),
            body: Json::from_canonical(body),
            origin: None,
        };
        (log, vec![resource("a", "2"), resource("c", "1")])
    }

    fn audit(begins: Head, log: &[RevisionRecord], state: &[Resource], anchors: &[Head]) -> Result<Sum, Broken> {
        let mut audit = Audit::new(begins, anchors)?;
        log.iter().try_for_each(|record| audit.record(record))?;
        state.iter().try_for_each(|resource| audit.resource(resource))?;
        audit.end()
    }

    #[test]
    fn a_log_and_the_state_that_it_adds_up_to_fit() {
        let (log, state) = history();
        let sum = audit(Head::default(), &log, &state, &[log[1].head(), log[3].head()]).unwrap();
        assert_eq!((sum.head, sum.resources), (log[3].head(), 2));
        assert_eq!(sum.state, audit(Head::default(), &[], &[], &[]).unwrap().state);
        assert_eq!(sum.compare(None), Ok(()));
    }

    #[test]
    fn every_way_to_tamper_with_the_log_is_found_where_it_is() {
        let (good, state) = history();
        let broken = |edit: &dyn Fn(&mut Vec<RevisionRecord>), anchors: &[Head]| {
            let mut log = good.clone();
            edit(&mut log);
            audit(Head::default(), &log, &state, anchors).unwrap_err()
        };
        let two = Broken::Changed(Revision(2));
        assert_eq!(broken(&|log| log[1].author.actor = "eve".into(), &[]), two);
        assert_eq!(broken(&|log| log[1].author.reason = Some(String::new()), &[]), two);
        assert_eq!(broken(&|log| log[1].changes[0].id = "x".into(), &[]), two);
        assert_eq!(broken(&|log| log[1].changes.clear(), &[]), two);
        assert_eq!(broken(&|log| log[1].removed.lost = vec!["a".into()], &[]), two);
        assert_eq!(broken(&|log| log[1].author.overrides = vec!["a".into()], &[]), two);
        assert_eq!(broken(&|log| log[1].digest = Digest::default(), &[]), two);
        let swap = |log: &mut Vec<RevisionRecord>| {
            log.swap(1, 2);
            (log[1].revision, log[2].revision) = (Revision(2), Revision(3));
        };
        assert_eq!(broken(&swap, &[]), two);
        let renumber = |log: &mut Vec<RevisionRecord>| {
            log.remove(1);
            (log[1].revision, log[2].revision) = (Revision(2), Revision(3));
        };
        assert_eq!(broken(&renumber, &[]), two);
        let missing = |expected, found| Broken::Missing {
            expected: Revision(expected),
            found: Revision(found),
        };
        assert_eq!(broken(&|log| drop(log.remove(1)), &[]), missing(2, 3));
        assert_eq!(broken(&|log| drop(log.remove(0)), &[]), missing(1, 2));
        assert_eq!(broken(&|log| log.swap(1, 2), &[]), missing(2, 3));
        // Without its last revision the log is sound, and not what made the state.
        let cut = |log: &mut Vec<RevisionRecord>| drop(log.pop());
        let gone = Broken::Gone {
            name: "things/b".into(),
            revision: Revision(1),
        };
        assert_eq!(broken(&cut, &[]), gone);
    }

    #[test]
    fn an_anchor_finds_a_cut_end_and_a_rewritten_log() {
        let (log, state) = history();
        // Both were brought in line: only who noted the head can tell.
        let mut before = state.clone();
        before[0].body = Json::from_canonical("1");
        before.push(Resource {
            id: "b".into(),
            ..before[0].clone()
        });
        let cut = audit(Head::default(), &log[..2], &before, &[log[3].head()]);
        let (head, anchor) = (Revision(2), Revision(4));
        assert_eq!(cut, Err(Broken::Cut { head, anchor }));
        assert!(audit(Head::default(), &log[..2], &before, &[log[1].head()]).is_ok());

        let mut head = Head::default();
        let mut rewritten = log.clone();
        for record in &mut rewritten {
            record.author.actor = "eve".into();
            record.digest = record.chained(head.digest);
            head = record.head();
        }
        assert!(audit(Head::default(), &rewritten, &state, &[]).is_ok());
        let found = audit(Head::default(), &rewritten, &state, &[log[2].head()]);
        assert_eq!(found, Err(Broken::Rewritten(Revision(3))));
    }

    #[test]
    fn every_way_to_tamper_with_the_state_is_found() {
        let (log, good) = history();
        let broken = |edit: &dyn Fn(&mut Vec<Resource>)| {
            let mut state = good.clone();
            edit(&mut state);
            audit(Head::default(), &log, &state, &[]).unwrap_err().to_string()
        };
        let found = [
            broken(&|state| state[0].body = Json::from_canonical("3")),
            broken(&|state| state[1].origin = Some("seed".into())),
            broken(&|state| drop(state.remove(1))),
            broken(&|state| state.push(state[0].clone())),
            broken(&|state| state[0].id = "b".into()),
            broken(&|state| state[0].id = "x".into()),
        ];
        assert_eq!(
            found,
            [
                "things/a differs from revision 3: the state was changed",
                "things/c differs from revision 2: the state was changed",
                "things/c is missing, but revision 2 has it: the state was changed",
                "things/a exists twice",
                "things/b exists, but revision 4 deleted it: the state was changed",
                "things/x exists, but no revision created it: the state was changed",
            ]
        );
    }

    #[test]
    fn a_checkpoint_stands_for_what_no_later_revision_touched() {
        let (log, state) = history();
        let sum = audit(log[1].head(), &log[2..], &state, &[log[1].head(), log[3].head()]).unwrap();
        let checkpoint = Checkpoint {
            head: log[1].head(),
            state: sum.state,
        };
        assert_eq!(sum.compare(Some(checkpoint)), Ok(()));
        // The same state, seen from its own time.
        let mut then = state.clone();
        then[0].body = Json::from_canonical("1");
        then.push(Resource {
            id: "b".into(),
            ..then[0].clone()
        });
        assert_eq!(audit(log[1].head(), &[], &then, &[]).unwrap().state, sum.state);

        let broken = |state: &[Resource]| {
            let sum = audit(log[1].head(), &log[2..], state, &[]).unwrap();
            sum.compare(Some(checkpoint)).unwrap_err()
        };
        let at = Broken::Checkpoint(Revision(2));
        let mut edited = state.clone();
        edited[1].body = Json::from_canonical("9");
        assert_eq!(broken(&edited), at);
        assert_eq!(broken(&state[..1]), at);
        let mut more = state.clone();
        more.push(Resource {
            id: "x".into(),
            ..state[0].clone()
        });
        assert_eq!(broken(&more), at);
        assert_eq!(
            audit(log[1].head(), &log[2..], &state, &[log[0].head()]),
            Err(Broken::Forgotten {
                begins: Revision(2),
                anchor: Revision(1)
            })
        );
        let other = Head {
            digest: Digest::default(),
            ..log[1].head()
        };
        let found = audit(log[1].head(), &log[2..], &state, &[other]);
        assert_eq!(found, Err(Broken::Rewritten(Revision(2))));
    }
}
