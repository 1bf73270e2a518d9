//! The evidence of every cluster, in memory. In parts, each with its lock, so that polls of different clusters hardly ever wait
//! for each other, and nothing holds a lock for long.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::log::{Head, Revision};
use fleet::snapshot::Cluster;
use fleet::status::{Evidence, Lasting, Moment, Observation, Report, State, Told};
use resourceset::Bundle;

/// How many parts there are.
const PARTS: usize = 256;
/// The most names of paths and agents that are shared, and the longest one: callers choose those of agents.
const MOST_NAMES: usize = 1024;
const LONGEST_NAME: usize = 64;

/// How many clusters are looked at while a lock is held.
const AT_ONCE: usize = 64;

/// What is kept of one cluster.
#[derive(Debug, Default)]
struct Kept {
    evidence: Evidence,
    /// Counts changes of the evidence that a state can depend on.
    version: u32,
    judged: Option<Judged>,
    /// The state that followers were told.
    shown: Option<State>,
    unsaved: Unsaved,
}

/// The state that follows from the evidence, as long as neither it nor the cluster nor the templates change.
#[derive(Debug)]
struct Judged {
    /// Weak, so that no other one gets the same address.
    cluster: Weak<Cluster>,
    templates: Weak<Bundle>,
    /// The state of all rollouts, and what they change for this cluster.
    rollouts: u64,
    patched: u64,
    lasting: Lasting,
}

impl Judged {
    /// Whether rollouts change the same for the cluster as when it was judged.
    fn is_of_rollouts(&mut self, fleet: &Fleet, cluster: &Cluster) -> bool {
        let rollouts = fleet.rollouts().stamp();
        if self.rollouts != rollouts {
            // Most clusters do not notice that a rollout moved.
            if self.patched != fleet.patched_for(cluster) {
                return false;
            }
            self.rollouts = rollouts;
        }
        true
    }
}

/// What other processes do not know yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsaved {
    #[default]
    Nothing,
    /// That the cluster polled again.
    Times,
    Content,
}

/// A poll of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct PollSeen<'a> {
    pub path: &'a str,
    pub digest: Etag,
    pub revision: Revision,
    pub at: Moment,
    pub agent: &'a str,
}

/// What is known about a cluster, in short.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    pub last_poll: Option<Moment>,
    /// None: the evidence has to be judged again.
    pub lasting: Option<Lasting>,
    pub version: u32,
    pub has_objects: bool,
}

/// A part of the clusters.
#[derive(Debug, Default)]
struct Part {
    clusters: HashMap<Arc<str>, Kept>,
    /// Clusters whose evidence is to be saved: soon, and some time.
    content: Vec<Arc<str>>,
    times: Vec<Arc<str>>,
}

impl Part {
    /// What is kept of a cluster.
    fn entry(&mut self, id: &Arc<str>) -> &mut Kept {
        self.clusters.entry(id.clone()).or_default()
    }

    /// Notes that the evidence of a cluster is to be saved.
    fn save(&mut self, id: &Arc<str>, unsaved: Unsaved) {
        let Some(kept) = self.clusters.get_mut(id).filter(|kept| kept.unsaved < unsaved) else {
            return;
        };
        kept.unsaved = unsaved;
        match unsaved {
            Unsaved::Nothing => {}
            Unsaved::Times => self.times.push(id.clone()),
            Unsaved::Content => self.content.push(id.clone()),
        }
    }
}

/// The evidence of every cluster, by id.
pub struct EvidenceMap {
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    /// Of paths and agents: clusters share them.
    names: Mutex<HashSet<Arc<str>>>,
    /// Clusters that are not in the fleet any more, and the revision of the list of clusters that was looked at for that.
    forgotten: Mutex<(Option<Head>, Vec<Arc<str>>)>,
}

impl Default for EvidenceMap {
    fn default() -> Self {
        EvidenceMap {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            names: Mutex::default(),
            forgotten: Mutex::default(),
        }
    }
}

impl fmt::Debug for EvidenceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvidenceMap").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EvidenceMap {
    #[allow(clippy::cast_possible_truncation)]
    fn part(&self, id: &str) -> MutexGuard<'_, Part> {
        lock(&self.parts[self.hasher.hash_one(id) as usize % PARTS])
    }

    /// Notes a poll.
    pub fn poll(&self, id: &Arc<str>, poll: PollSeen<'_>) {
        let mut part = self.part(id);
        if let Some(kept) = part.clusters.get_mut(id)
            && kept
                .evidence
                .poll_again(poll.path, poll.digest, poll.revision, poll.at, poll.agent)
        {
            if kept.unsaved == Unsaved::Nothing {
                part.save(id, Unsaved::Times);
            }
            return;
        }
        let told = Told {
            path: self.shared(poll.path),
            digest: poll.digest,
            revision: poll.revision,
            at: poll.at,
            since: poll.at,
            agent: self.shared(poll.agent),
        };
        part.entry(id).evidence.poll(told);
        note(&mut part, id);
    }

    /// Notes what an event says. Returns whether that is new.
    pub fn observe(&self, id: &Arc<str>, now: Moment, observation: Option<Observation>) -> bool {
        let mut part = self.part(id);
        let changed = part.entry(id).evidence.observe(now, observation);
        if changed {
            note(&mut part, id);
        }
        changed
    }

    /// Notes what a report says.
    pub fn report(&self, id: &Arc<str>, report: Report) {
        let mut part = self.part(id);
        match part.entry(id).evidence.report(report) {
            true => note(&mut part, id),
            false => part.save(id, Unsaved::Times),
        }
    }

    /// Adds what other processes know.
    pub fn merge(&self, id: &Arc<str>, mut other: Evidence) {
        other.share_names(|name| self.shared(name));
        let mut part = self.part(id);
        let kept = part.entry(id);
        let theirs = other.clone();
        if kept.evidence.merge(other) {
            kept.version = kept.version.wrapping_add(1);
            kept.judged = None;
        }
        // What they lack must be saved: a process writes whole rows.
        if kept.evidence != theirs {
            part.save(id, Unsaved::Times);
        }
    }

    /// A name, shared by all clusters that have it.
    fn shared(&self, name: &str) -> Arc<str> {
        let mut names = lock(&self.names);
        if let Some(known) = names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.chars().take(LONGEST_NAME).collect::<String>().into();
        if names.len() < MOST_NAMES {
            names.insert(name.clone());
        }
        name
    }

    pub fn get(&self, id: &str) -> Evidence {
        let part = self.part(id);
        let kept = part.clusters.get(id);
        kept.map(|kept| kept.evidence.clone()).unwrap_or_default()
    }

    /// What is known about a cluster, in short. None: nothing.
    pub fn outline(&self, fleet: &Fleet, cluster: &Arc<Cluster>, templates: &Arc<Bundle>) -> Option<Outline> {
        let mut part = self.part(&cluster.document().id);
        let kept = part.clusters.get_mut(&cluster.document().id)?;
        let holds = |judged: &mut Judged| {
            std::ptr::eq(judged.templates.as_ptr(), Arc::as_ptr(templates))
                && std::ptr::eq(judged.cluster.as_ptr(), Arc::as_ptr(cluster))
                && judged.is_of_rollouts(fleet, cluster)
        };
        let judged = kept.judged.as_mut();
        let lasting = judged.and_then(|judged| holds(judged).then_some(judged.lasting));
        Some(Outline {
            last_poll: kept.evidence.last_poll(),
            lasting,
            version: kept.version,
            has_objects: kept.evidence.has_objects(),
        })
    }

    /// Keeps a judgement of evidence with this version.
    pub fn keep(&self, fleet: &Fleet, cluster: &Arc<Cluster>, templates: &Arc<Bundle>, version: u32, lasting: Lasting) {
        let mut part = self.part(&cluster.document().id);
        if let Some(kept) = part.clusters.get_mut(&cluster.document().id)
            && kept.version == version
        {
            kept.judged = Some(Judged {
                cluster: Arc::downgrade(cluster),
                templates: Arc::downgrade(templates),
                rollouts: fleet.rollouts().stamp(),
                patched: fleet.patched_for(cluster),
                lasting,
            });
        }
    }

    /// Notes the state that followers are told. Returns the one they were told before, if it is another.
    pub fn show(&self, id: &Arc<str>, state: State) -> Option<State> {
        let mut part = self.part(id);
        // A cluster that nothing is known about has never polled.
        if state == State::Never && !part.clusters.contains_key(id) {
            return None;
        }
        let before = part.entry(id).shown.replace(state).unwrap_or(State::Never);
        (before != state).then_some(before)
    }

    /// Forgets the clusters that are not in the fleet any more.
    pub fn forget(&self, fleet: &Fleet) {
        let mut forgotten = lock(&self.forgotten);
        let clusters = fleet.clusters_changed();
        if forgotten.0.replace(clusters) == Some(clusters) {
            return;
        }
        for part in &self.parts {
            lock(part).clusters.retain(|id, _| {
                let is_known = fleet.cluster(id).is_some();
                if !is_known {
                    forgotten.1.push(id.clone());
                }
                is_known
            });
        }
    }

    /// Takes the ids of clusters that were forgotten.
    pub fn take_forgotten(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut lock(&self.forgotten).1)
    }

    /// Takes evidence that is to be saved, at least as urgent as `least`, of at most `most` clusters.
    pub fn take_unsaved(&self, least: Unsaved, most: usize) -> Vec<(Arc<str>, Evidence)> {
        let mut taken = Vec::new();
        for part in &self.parts {
            loop {
                let mut part = lock(part);
                let part = &mut *part;
                // Few at a time: polls wait meanwhile.
                for _ in 0..AT_ONCE {
                    let next = part.content.pop();
                    let next = next.or_else(|| match least {
                        Unsaved::Times => part.times.pop(),
                        _ => None,
                    });
                    let Some(id) = next else { break };
                    if let Some(kept) = part.clusters.get_mut(&id)
                        && kept.unsaved != Unsaved::Nothing
                    {
                        kept.unsaved = Unsaved::Nothing;
                        taken.push((id, kept.evidence.clone()));
                    }
                }
                let is_done = part.content.is_empty() && (part.times.is_empty() || least == Unsaved::Content);
                if is_done || taken.len() >= most {
                    break;
                }
            }
            if taken.len() >= most {
                break;
            }
        }
        taken
    }

    /// Marks clusters whose evidence could not be saved.
    pub fn put_back<'a>(&self, ids: impl IntoIterator<Item = &'a Arc<str>>) {
        for id in ids {
            self.part(id).save(id, Unsaved::Content);
        }
    }

    /// How many clusters have evidence.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).clusters.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Notes that the evidence of a cluster says something new.
fn note(part: &mut Part, id: &Arc<str>) {
    let kept = part.entry(id);
    kept.version = kept.version.wrapping_add(1);
    kept.judged = None;
    part.save(id, Unsaved::Content);
}
