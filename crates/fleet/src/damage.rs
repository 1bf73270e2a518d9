//! Which resources of a damaged store are missing or wrong, and what may still be answered without them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::integrity::{Items, Total, item};
use crate::json::Json;
use crate::kind::KINDS;
use crate::log::{Digest, Head, Resource, Revision, RevisionRecord};

/// What a damaged row may hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hides {
    /// This resource.
    Resource(Arc<str>, Arc<str>),
    /// A resource of unknown kind and id.
    Something,
    /// No resource: the row is superfluous, or its document is correct nevertheless.
    Nothing,
}

/// One damaged place of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub hides: Hides,
    pub detail: String,
    /// The revision of the log that has the document of the row, and the document's digest.
    pub logged: Option<(Revision, Digest)>,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hides {
            Hides::Resource(kind, id) => write!(f, "{kind}/{id}: {}", self.detail)?,
            Hides::Something | Hides::Nothing => f.write_str(&self.detail)?,
        }
        match self.logged {
            Some((revision, _)) => write!(f, "; revision {revision} of the log has the document"),
            None => Ok(()),
        }
    }
}

/// The damage of a store's state. Empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    pub rows: Vec<Damaged>,
    /// Set if it is not known which resources are damaged, and why: then nothing is served.
    pub everywhere: Option<String>,
}

impl Damage {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.everywhere.is_none()
    }

    /// The number of damaged places.
    pub fn count(&self) -> usize {
        self.rows.len() + usize::from(self.everywhere.is_some())
    }

    /// Whether a resource of `kind` may be missing.
    pub fn hides(&self, kind: &str) -> bool {
        self.everywhere.is_some() || self.rows.iter().any(|row| row.may_hide(kind))
    }

    /// Whether a resource other than a definition may be missing: a cluster, a decommission or a released name.
    pub fn hides_names(&self, is_definition: impl Fn(&str) -> bool) -> bool {
        let hides = |row: &Damaged| match &row.hides {
            Hides::Resource(kind, _) => !is_definition(kind),
            Hides::Something => true,
            Hides::Nothing => false,
        };
        self.everywhere.is_some() || self.rows.iter().any(hides)
    }

    /// Whether no answer can be trusted. A missing kind is enough: kinds decide what all other resources mean.
    pub fn hides_everything(&self) -> bool {
        let is_kind = |row: &Damaged| matches!(&row.hides, Hides::Resource(kind, _) if &**kind == KINDS);
        self.everywhere.is_some() || self.rows.iter().any(is_kind)
    }

    /// Each place as one line.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let everywhere = self.everywhere.iter().cloned();
        everywhere.chain(self.rows.iter().map(ToString::to_string))
    }
}

impl Damaged {
    fn may_hide(&self, kind: &str) -> bool {
        match &self.hides {
            Hides::Resource(of, _) => &**of == kind,
            Hides::Something => true,
            Hides::Nothing => false,
        }
    }
}

/// A damaged row of the state.
#[derive(Clone, Debug)]
pub struct BadRow {
    /// The readable part.
    pub found: Option<Resource>,
    /// The document's digest, from the digest column.
    pub stored: Option<Digest>,
    pub detail: String,
}

impl BadRow {
    fn computed(&self) -> Option<Digest> {
        let found = self.found.as_ref()?;
        Some(item(&found.kind, &found.id, &found.body))
    }

    fn name(&self) -> String {
        match &self.found {
            Some(found) => format!("the row of {}/{}", found.kind, found.id),
            None => "an unreadable row".to_owned(),
        }
    }
}

type Key = (Arc<str>, Arc<str>);

/// A document and its origin.
pub type Logged = (Json, Option<Arc<str>>);

/// The result of replaying a log, as far as it is intact: a digest for each resource, and the wanted documents.
#[derive(Debug, Default)]
pub struct Replay {
    begins: Head,
    head: Head,
    broken: bool,
    last: HashMap<Key, (Option<Digest>, Revision)>,
    wanted: HashMap<Digest, Option<Logged>>,
}

impl Replay {
    /// Replays a log that begins after `begins`.
    pub fn new(begins: Head) -> Self {
        Replay {
            begins,
            head: begins,
            ..Replay::default()
        }
    }

    /// The same, and keeps the documents with these digests.
    pub fn wanting(begins: Head, items: impl IntoIterator<Item = Digest>) -> Self {
        let wanted = items.into_iter().map(|item| (item, None)).collect();
        Replay {
            wanted,
            ..Replay::new(begins)
        }
    }

    /// Records that a part of the log cannot be read.
    pub fn broken(&mut self) {
        self.broken = true;
    }

    /// Reads the next revision, and says whether it is intact. A broken one changes nothing.
    pub fn record(&mut self, record: &RevisionRecord) -> bool {
        let follows = record.revision == self.head.revision.next();
        let sound = follows && record.chained(self.head.digest) == record.digest;
        self.head = record.head();
        if !sound {
            self.broken = true;
            return false;
        }
        for change in &record.changes {
            let after = Items::of(change).after;
            let key = (change.kind.clone(), change.id.clone());
            self.last.insert(key, (after, record.revision));
            if let Some(wanted) = after.and_then(|after| self.wanted.get_mut(&after)) {
                *wanted = change.after.clone().map(|after| (after, change.origin.clone()));
            }
        }
        true
    }

    /// Whether the log is complete up to `head`.
    fn is_whole(&self, head: Head) -> bool {
        !self.broken && self.begins == Head::default() && self.head == head
    }

    /// A wanted document, and its origin.
    pub fn document(&self, item: Digest) -> Option<&Logged> {
        self.wanted.get(&item)?.as_ref()
    }
}

/// Finds the damage. `total` is the expected total of the resources at `head`, if it can be read; `sound` are the rows that match
/// their digests. Returns the resources that are known to be correct, and the damage of the rest.
pub fn localise(
    head: Head,
    total: Option<Total>,
    sound: Vec<Resource>,
    bad: Vec<BadRow>,
    log: &Replay,
) -> (Vec<Resource>, Damage) {
    if log.is_whole(head) {
        return by_log(total, sound, &bad, log);
    }
    let Some(total) = total else {
        let detail = "the digest of the state is damaged and the log is incomplete, so it is unknown which resources are missing";
        return nowhere(detail, bad);
    };
    by_total(total, sound, bad, log)
}

/// With a complete log: it has the digest of each resource.
fn by_log(total: Option<Total>, sound: Vec<Resource>, bad: &[BadRow], log: &Replay) -> (Vec<Resource>, Damage) {
    let mut damage = Damage::default();
    let mut kept = Vec::with_capacity(sound.len());
    let mut seen = HashSet::new();
    for resource in sound {
        let key = (resource.kind.clone(), resource.id.clone());
        let this = Some(item(&resource.kind, &resource.id, &resource.body));
        let name = format!("{}/{}", resource.kind, resource.id);
        let detail = match log.last.get(&key) {
            Some((expected, _)) if *expected == this && seen.insert(key) => {
                kept.push(resource);
                continue;
            }
            Some((expected, _)) if *expected == this => format!("{name} exists twice"),
            Some((Some(_), revision)) => format!("{name} is older than revision {revision} of it"),
            Some((None, revision)) => format!("{name} exists, but revision {revision} deleted it"),
            None => format!("{name} exists, but no revision created it"),
        };
        damage.rows.push(Damaged {
            hides: Hides::Nothing,
            detail,
            logged: None,
        });
    }
    for row in bad {
        let detail = format!("{} is damaged: {}", row.name(), row.detail);
        // Its document may still be correct.
        let right = row.found.as_ref().zip(row.computed()).and_then(|(found, computed)| {
            let key = (found.kind.clone(), found.id.clone());
            let (expected, revision) = log.last.get(&key)?;
            (*expected == Some(computed) && seen.insert(key)).then_some((found, (*revision, computed)))
        });
        let (hides, logged) = (Hides::Nothing, right.map(|(_, logged)| logged));
        kept.extend(right.map(|(found, _)| found.clone()));
        damage.rows.push(Damaged { hides, detail, logged });
    }
    let mut expected = Total::default();
    for ((kind, id), (left, revision)) in &log.last {
        let Some(left) = *left else { continue };
        expected.add(left);
        if !seen.contains(&(kind.clone(), id.clone())) {
            damage.rows.push(Damaged {
                hides: Hides::Resource(kind.clone(), id.clone()),
                detail: format!("its row is damaged or missing, but revision {revision} has it"),
                logged: Some((*revision, left)),
            });
        }
    }
    if total != Some(expected) {
        damage.rows.push(Damaged {
            hides: Hides::Nothing,
            detail: "the digest of the state does not match the log".to_owned(),
            logged: None,
        });
    }
    sort(&mut damage);
    (kept, damage)
}

/// With the expected total: it decides whether a set of digests is complete. The log, as far as there is one, names them.
fn by_total(total: Total, sound: Vec<Resource>, bad: Vec<BadRow>, log: &Replay) -> (Vec<Resource>, Damage) {
    let item_of = |resource: &Resource| item(&resource.kind, &resource.id, &resource.body);
    let mut present = Total::default();
    present.extend(sound.iter().map(item_of));
    if let Some(items) = explain(total, present, &bad) {
        return named(sound, bad, &items, log);
    }
    // Rows may be lost or old: replace them by the digests of the log.
    let is_expected = |resource: &Resource| {
        let key = (resource.kind.clone(), resource.id.clone());
        let logged = log.last.get(&key);
        logged.is_none_or(|(expected, _)| *expected == Some(item_of(resource)))
    };
    let (kept, old): (Vec<_>, Vec<_>) = sound.into_iter().partition(is_expected);
    let there: HashSet<Key> = kept.iter().map(|one| (one.kind.clone(), one.id.clone())).collect();
    let missing = log.last.iter().filter(|(key, _)| !there.contains(*key));
    let missing = missing.filter_map(|(key, (left, revision))| Some((key, (*left)?, *revision)));
    let missing: Vec<_> = missing.collect();
    let mut present = Total::default();
    present.extend(kept.iter().map(item_of).chain(missing.iter().map(|(_, item, _)| *item)));
    if present != total {
        let detail = "rows are missing or outdated, and the log does not go back far enough to tell which";
        return nowhere(detail, bad);
    }
    let mut damage = Damage::default();
    for ((kind, id), item, revision) in missing {
        damage.rows.push(Damaged {
            hides: Hides::Resource(kind.clone(), id.clone()),
            detail: format!("its row is damaged or missing, but revision {revision} has it"),
            logged: Some((revision, item)),
        });
    }
    let old = old
        .iter()
        .map(|one| format!("{}/{} is outdated or deleted, by the log", one.kind, one.id));
    let bad = bad
        .iter()
        .map(|row| format!("{} is damaged: {}", row.name(), row.detail));
    damage.rows.extend(old.chain(bad).map(|detail| Damaged {
        hides: Hides::Nothing,
        detail,
        logged: None,
    }));
    sort(&mut damage);
    (kept, damage)
}

/// The digest of each damaged row, if the total is right with them: then no other row is lost or old.
fn explain(total: Total, present: Total, bad: &[BadRow]) -> Option<Vec<Digest>> {
    // Either the document is damaged or its digest. With more rows than this, only the former is tried.
    const MOST: usize = 10;
    let choices = if bad.len() <= MOST { 1_u32 << bad.len() } else { 1 };
    (0..choices).find_map(|choice| {
        let item = |(n, row): (usize, &BadRow)| match n < MOST && choice & (1 << n) != 0 {
            true => row.computed(),
            false => row.stored,
        };
        let items: Vec<Digest> = bad.iter().enumerate().map(item).collect::<Option<_>>()?;
        let mut sum = present;
        sum.extend(items.iter().copied());
        (sum == total).then_some(items)
    })
}

/// Names the damaged rows by the digests that they must have.
fn named(mut sound: Vec<Resource>, bad: Vec<BadRow>, items: &[Digest], log: &Replay) -> (Vec<Resource>, Damage) {
    let logged = log.last.iter();
    let logged = logged.filter_map(|(key, (item, revision))| Some(((*item)?, (key, *revision))));
    let logged: HashMap<Digest, (&Key, Revision)> = logged.collect();
    let mut damage = Damage::default();
    for (row, item) in bad.into_iter().zip(items) {
        let detail = format!("{} is damaged: {}", row.name(), row.detail);
        let right = row.computed() == Some(*item);
        let (hides, logged) = match logged.get(item) {
            Some((_, revision)) if right => (Hides::Nothing, Some((*revision, *item))),
            None if right => (Hides::Nothing, None),
            Some(((kind, id), revision)) => (Hides::Resource(kind.clone(), id.clone()), Some((*revision, *item))),
            None => (Hides::Something, None),
        };
        damage.rows.push(Damaged { hides, detail, logged });
        sound.extend(row.found.filter(|_| right));
    }
    sort(&mut damage);
    (sound, damage)
}

fn nowhere(detail: &str, bad: Vec<BadRow>) -> (Vec<Resource>, Damage) {
    let rows = bad.into_iter().map(|row| Damaged {
        hides: Hides::Something,
        detail: format!("{} is damaged: {}", row.name(), row.detail),
        logged: None,
    });
    let damage = Damage {
        rows: rows.collect(),
        everywhere: Some(detail.to_owned()),
    };
    (Vec::new(), damage)
}

fn sort(damage: &mut Damage) {
    damage.rows.sort_by_cached_key(ToString::to_string);
}
