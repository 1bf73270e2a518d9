//! What is known about one cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::observation::{Health, MOST_REPORTER, Object, Observation, Source, cut};
use super::{Moment, Report};
use crate::document::Etag;
use crate::log::Revision;

/// The most objects that are kept of a cluster, from events only and altogether. The newest count.
const MOST_HINTS: usize = 256;
const MOST_OBJECTS: usize = 10_000;
/// The most bytes of text that are kept of them. A whole report has fewer.
const MOST_TEXT: usize = 4 << 20;

/// What a cluster was told about one kind, by its last poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    #[serde(rename = "p")]
    pub path: Arc<str>,
    /// Of the plain reply.
    #[serde(rename = "d", with = "as_hex")]
    pub digest: Etag,
    /// The revision that the reply was made from.
    #[serde(rename = "r")]
    pub revision: Revision,
    #[serde(rename = "t")]
    pub at: Moment,
    /// When it was first told this reply.
    #[serde(rename = "s")]
    pub since: Moment,
    #[serde(rename = "a")]
    pub agent: Arc<str>,
}

/// What is new about the polls of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    #[default]
    Nothing,
    /// It polled again.
    Time,
    /// It was told something else than before.
    Told,
}

/// All evidence of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// By path.
    #[serde(rename = "p", default)]
    told: Vec<Told>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    seen: Option<Box<Seen>>,
}

/// What events and reports say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// When the last whole report was made. What is older than that counts no longer.
    #[serde(rename = "f", default)]
    full: Moment,
    /// When the cluster was last heard, other than by a poll.
    #[serde(rename = "h", default)]
    heard: Moment,
    /// The reporter, if there is one.
    #[serde(rename = "r", default, skip_serializing_if = "str::is_empty")]
    reporter: Box<str>,
    #[serde(rename = "o", default, with = "as_list")]
    objects: BTreeMap<Object, Observation>,
}

impl Evidence {
    /// Replaces names that many clusters have by shared ones.
    pub fn share_names(&mut self, shared: impl Fn(&str) -> Arc<str>) {
        for told in &mut self.told {
            told.path = shared(&told.path);
            told.agent = shared(&told.agent);
        }
        self.told.shrink_to_fit();
    }

    /// The last poll of each path, by path.
    pub fn told(&self) -> &[Told] {
        &self.told
    }

    pub fn told_at(&self, path: &str) -> Option<&Told> {
        self.told.iter().find(|told| &*told.path == path)
    }

    pub fn last_poll(&self) -> Option<Moment> {
        self.told.iter().map(|told| told.at).max()
    }

    /// What events and reports say of objects that were not deleted.
    pub fn objects(&self) -> impl Iterator<Item = &Observation> {
        let objects = self.seen.iter().flat_map(|seen| seen.objects.values());
        objects.filter(|seen| seen.health != Health::Gone)
    }

    /// What events and reports said last, the newest first, also of objects that were deleted.
    pub fn newest(&self, most: usize) -> Vec<&Observation> {
        let mut all: Vec<_> = self.seen.iter().flat_map(|seen| seen.objects.values()).collect();
        all.sort_by_key(|seen| Reverse(seen.at));
        all.truncate(most);
        all
    }

    /// Whether an event or a report says anything.
    pub fn has_objects(&self) -> bool {
        self.objects().next().is_some()
    }

    /// When the cluster was last heard, other than by a poll.
    pub fn heard(&self) -> Option<Moment> {
        self.seen.as_ref().map(|seen| seen.heard)
    }

    /// The reporter on the cluster, with its version.
    pub fn reporter(&self) -> Option<&str> {
        let seen = self.seen.as_ref()?;
        (!seen.reporter.is_empty()).then_some(&*seen.reporter)
    }

    /// Adds a poll that told the cluster what it was told before. False if it is another poll: then nothing is changed.
    pub fn poll_again(&mut self, path: &str, digest: Etag, revision: Revision, at: Moment, agent: &str) -> bool {
        let known = self.told.iter_mut().find(|known| &*known.path == path);
        let Some(known) = known.filter(|known| known.digest == digest && &*known.agent == agent) else {
            return false;
        };
        if at >= known.at {
            (known.at, known.revision) = (at, revision);
        }
        true
    }

    /// Adds a poll by the program that polled there last, and tells what is new.
    pub fn polled_until(&mut self, path: &str, digest: Etag, revision: Revision, at: Moment) -> News {
        let known = self.told.iter_mut().find(|known| &*known.path == path);
        let Some(known) = known.filter(|known| known.at < at) else {
            return News::Nothing;
        };
        (known.at, known.revision) = (at, revision);
        if known.digest == digest {
            return News::Time;
        }
        (known.digest, known.since) = (digest, at);
        News::Told
    }

    /// Adds a poll. Returns whether the cluster was told something else than before.
    pub fn poll(&mut self, told: Told) -> bool {
        match self.told.binary_search_by(|known| known.path.cmp(&told.path)) {
            Ok(at) => {
                let known = &mut self.told[at];
                let changed = known.digest != told.digest;
                *known = join(known, &told);
                changed
            }
            Err(at) => {
                self.told.reserve_exact(1);
                self.told.insert(at, told);
                true
            }
        }
    }

    /// Adds an observation from an event. Returns whether that changed anything.
    pub fn observe(&mut self, heard: Moment, observation: Option<Observation>) -> bool {
        let seen = self.seen.get_or_insert_default();
        seen.heard = seen.heard.max(heard);
        let changed = observation.is_some_and(|observation| seen.add(observation.trim()));
        seen.bound();
        changed
    }

    /// Adds a report. Returns whether that changed anything but times.
    pub fn report(&mut self, report: Report) -> bool {
        let before = self.seen.as_ref().map(|seen| seen.outline());
        let seen = self.seen.get_or_insert_default();
        seen.heard = seen.heard.max(report.at);
        if !report.reporter.is_empty() {
            seen.reporter = report.reporter;
        }
        for observation in report.objects {
            seen.add(observation.trim());
        }
        if report.full {
            seen.begin(report.at);
        }
        seen.bound();
        before.as_ref() != Some(&seen.outline())
    }

    /// Adds what another process knows. Returns whether this changed.
    pub fn merge(&mut self, other: Evidence) -> bool {
        let before = self.clone();
        for told in other.told {
            match self.told.binary_search_by(|known| known.path.cmp(&told.path)) {
                Ok(at) => self.told[at] = join(&self.told[at], &told),
                Err(at) => self.told.insert(at, told),
            }
        }
        if let Some(other) = other.seen {
            let seen = self.seen.get_or_insert_default();
            seen.heard = seen.heard.max(other.heard);
            seen.reporter = std::mem::take(&mut seen.reporter).max(other.reporter);
            cut(&mut seen.reporter, MOST_REPORTER);
            // Another release may have kept longer texts.
            let bounded = other.objects.into_values().filter(|seen| seen.object.is_bounded());
            for observation in bounded {
                seen.add(observation.trim());
            }
            seen.begin(other.full);
            seen.bound();
        }
        *self != before
    }
}

/// The later of two polls of one path; and since when the cluster has been told its reply.
fn join(known: &Told, other: &Told) -> Told {
    let key = |told: &Told| (told.at, told.revision, told.digest.0);
    let (older, newer) = match key(known) <= key(other) {
        true => (known, other),
        false => (other, known),
    };
    let mut joined = newer.clone();
    if older.digest == newer.digest {
        joined.since = older.since.min(newer.since);
    }
    joined
}

impl Seen {
    /// Keeps the newer observation of an object.
    fn add(&mut self, observation: Observation) -> bool {
        if observation.at < self.full {
            return false;
        }
        match self.objects.get_mut(&observation.object) {
            // Sent twice, or to two processes.
            Some(known) if known.repeats(&observation) => {
                known.learnt = known.learnt.min(observation.learnt);
                false
            }
            Some(known) if known.order(&observation).is_ge() => false,
            Some(known) => {
                *known = observation;
                true
            }
            None => {
                self.objects.insert(observation.object.clone(), observation);
                true
            }
        }
    }

    /// Forgets what is older than a whole report.
    fn begin(&mut self, full: Moment) {
        if full > self.full {
            self.full = full;
            self.objects.retain(|_, seen| seen.at >= full);
        }
    }

    /// Forgets the oldest of too many.
    fn bound(&mut self) {
        let hints = self.objects.values().filter(|seen| seen.source == Source::Event);
        if hints.count() > MOST_HINTS {
            self.forget(MOST_HINTS, |seen| seen.source == Source::Event);
        }
        let text: usize = self.objects.values().map(Observation::text_len).sum();
        if self.objects.len() > MOST_OBJECTS || text > MOST_TEXT {
            self.forget(MOST_OBJECTS, |_| true);
        }
    }

    /// Keeps the newest ones, as many as allowed.
    fn forget(&mut self, most: usize, which: impl Fn(&Observation) -> bool) {
        let mut all: Vec<_> = self.objects.values().filter(|seen| which(seen)).cloned().collect();
        all.sort_by(|one, other| other.order(one).then_with(|| one.object.cmp(&other.object)));
        let mut text = 0;
        let kept = all.iter().take(most).take_while(|seen| {
            text += seen.text_len();
            text <= MOST_TEXT
        });
        let kept = kept.count();
        for seen in all.drain(kept..) {
            self.objects.remove(&seen.object);
        }
    }

    /// What a state can depend on.
    fn outline(&self) -> Vec<Observation> {
        let times = Moment::default();
        let outline = self.objects.values().map(|seen| Observation {
            at: times,
            learnt: times,
            resource_version: 0,
            ..seen.clone()
        });
        outline.collect()
    }
}

/// A map whose values contain their keys, as a list.
mod as_list {
    use super::{BTreeMap, Object, Observation};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        objects: &BTreeMap<Object, Observation>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(objects.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Object, Observation>, D::Error> {
        let all = Vec::<Observation>::deserialize(deserializer)?;
        Ok(all.into_iter().map(|seen| (seen.object.clone(), seen)).collect())
    }
}

/// A digest as hexadecimal digits: JSON has no numbers of that size.
mod as_hex {
    use super::Etag;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(digest: &Etag, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", digest.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Etag, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Etag).map_err(de::Error::custom)
    }
}
