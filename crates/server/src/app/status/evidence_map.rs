//! The evidence of every cluster, in memory. Each cluster's has a lock, so that polls of different clusters never wait for each
//! other, and nothing holds a lock for long. The map from ids is in parts, each with its lock, too; where both are held, that of the
//! part was taken first.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::log::{Head, Revision};
use fleet::snapshot::Cluster;
use fleet::status::{Evidence, Health, Lasting, Moment, News, Observation, Report, State, Told};
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
    /// Whether it is not in the map any more.
    is_forgotten: bool,
}

impl Kept {
    /// Adds a poll. Returns what is to be saved.
    fn poll(&mut self, map: &EvidenceMap, poll: PollSeen<'_>) -> Unsaved {
        let PollSeen {
            path,
            digest,
            revision,
            at,
            agent,
        } = poll;
        if self.evidence.poll_again(path, digest, revision, at, agent) {
            return Unsaved::Times;
        }
        self.evidence.poll(Told {
            path: map.shared(path),
            digest,
            revision,
            at,
            since: at,
            agent: map.shared(agent),
        });
        self.note(map)
    }

    /// Adds the polls that were noted with the replies only. Returns what is to be saved.
    ///
    /// They may have told the cluster something else than what is known: another process told it that before, and then this one told it again what it has cached.
    fn collect(&mut self, map: &EvidenceMap, fleet: &Fleet, cluster: &Cluster) -> Unsaved {
        let visits = fleet.visits(cluster);
        let news =
            visits.map(|(path, digest, visit)| self.evidence.polled_until(path, digest, visit.revision, visit.at));
        match news.max().unwrap_or_default() {
            News::Nothing => Unsaved::Nothing,
            News::Time => Unsaved::Times,
            News::Told => self.note(map),
        }
    }

    /// Notes that the evidence changed. Returns what is to be saved.
    fn note(&mut self, map: &EvidenceMap) -> Unsaved {
        self.version = self.version.wrapping_add(1);
        self.judged = None;
        map.learnt.fetch_add(1, Ordering::Relaxed);
        Unsaved::Content
    }

    /// Notes what is to be saved. Returns it, unless at least that was to be saved already.
    fn note_unsaved(&mut self, unsaved: Unsaved) -> Unsaved {
        if self.unsaved >= unsaved {
            return Unsaved::Nothing;
        }
        self.unsaved = unsaved;
        unsaved
    }

    /// What is to be saved, if it is.
    fn take(&mut self, id: &Arc<str>) -> Option<(Arc<str>, Evidence)> {
        (std::mem::take(&mut self.unsaved) != Unsaved::Nothing).then(|| (id.clone(), self.evidence.clone()))
    }
}

/// The state that follows from the evidence, as long as neither it nor the cluster nor the templates change.
#[derive(Debug)]
struct Judged {
    /// Weak, so that no other one gets the same address.
    cluster: Weak<Cluster>,
    templates: Weak<Bundle>,
    /// Kinds, definitions and profiles.
    catalog: u64,
    /// The state of all rollouts, and what they change for this cluster.
    rollouts: u64,
    patched: u64,
    lasting: Lasting,
}

impl Judged {
    /// Whether kinds, definitions and profiles are the same for the cluster as when it was judged.
    fn is_of_catalog(&mut self, fleet: &Fleet, cluster: &Cluster) -> bool {
        let is_same = fleet.has_same_catalog(self.catalog, cluster);
        if is_same {
            self.catalog = fleet.catalog();
        }
        is_same
    }

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

/// What a cluster has said since a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has to be judged.
    Something,
    /// Nothing; with its last poll.
    Nothing(Option<Moment>),
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
    clusters: HashMap<Arc<str>, Arc<Mutex<Kept>>>,
    unsaved: Collected,
}

/// Clusters whose evidence is to be saved: soon, and some time.
#[derive(Debug, Default)]
struct Collected {
    content: Vec<Arc<str>>,
    times: Vec<Arc<str>>,
}

impl Collected {
    fn add(&mut self, id: &Arc<str>, unsaved: Unsaved) {
        match unsaved {
            Unsaved::Nothing => {}
            Unsaved::Times => self.times.push(id.clone()),
            Unsaved::Content => self.content.push(id.clone()),
        }
    }

    /// Takes one that is at least as urgent.
    fn pop(&mut self, least: Unsaved) -> Option<Arc<str>> {
        let is_any = least == Unsaved::Times;
        self.content.pop().or_else(|| is_any.then(|| self.times.pop())?)
    }
}

/// The evidence of every cluster, by id.
pub struct EvidenceMap {
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    /// How many times something was learnt that a state may depend on.
    learnt: AtomicU64,
    /// Clusters whose polls were collected, to be saved. Not in the parts, because threads that only look must not hold locks that polls
    /// wait for.
    collected: Mutex<Collected>,
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
            learnt: AtomicU64::default(),
            collected: Mutex::default(),
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

    /// What is kept of a cluster.
    fn find(&self, id: &str) -> Option<Arc<Mutex<Kept>>> {
        self.part(id).clusters.get(id).cloned()
    }

    /// The same, from now on.
    fn entry(&self, id: &Arc<str>) -> Arc<Mutex<Kept>> {
        self.part(id).clusters.entry(id.clone()).or_default().clone()
    }

    /// Looks at what is kept of a cluster, if anything is. The cluster of the snapshot points to it, so that whoever looks at the whole fleet takes
    /// the lock of one cluster at a time, and hardly ever that of a part, which polls of many clusters may wait for.
    fn look<T>(&self, cluster: &Cluster, look: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let pointer = &cluster.head().kept;
        if let Some(kept) = pointer.get().and_then(|kept| kept.downcast_ref::<Mutex<Kept>>()) {
            let mut kept = lock(kept);
            if !kept.is_forgotten {
                return Some(look(&mut kept));
            }
        }
        let kept = self.find(&cluster.document().id)?;
        // It has a pointer already if it was deleted and created again within a moment.
        let _ = pointer.set(kept.clone());
        Some(look(&mut lock(&kept)))
    }

    /// The same, with every poll until now.
    fn look_now<T>(&self, fleet: &Fleet, cluster: &Cluster, look: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let (found, unsaved) = self.look(cluster, |kept| {
            let unsaved = kept.collect(self, fleet, cluster);
            (look(kept), kept.note_unsaved(unsaved))
        })?;
        if unsaved > Unsaved::Nothing {
            lock(&self.collected).add(&cluster.document().id, unsaved);
        }
        Some(found)
    }

    /// Collects the polls of every cluster, before the server stops.
    pub fn collect(&self, fleet: &Fleet) {
        for cluster in fleet.clusters().values() {
            self.look_now(fleet, cluster, |_| ());
        }
    }

    /// Identifies the program that polls.
    pub fn visitor(&self, agent: &str) -> u64 {
        self.hasher.hash_one(agent).max(1)
    }

    /// Notes a poll that is not noted with its reply ([`Fleet::visits`]). The cluster of the snapshot points to what is kept of it: a lookup by id would be the largest part of this.
    pub fn poll(&self, cluster: &Cluster, poll: PollSeen<'_>) {
        let id = &cluster.document().id;
        let kept = cluster.head().kept.get_or_init(|| self.entry(id));
        if let Some(kept) = kept.downcast_ref::<Mutex<Kept>>() {
            let mut kept = lock(kept);
            if !kept.is_forgotten {
                let unsaved = kept.poll(self, poll);
                return self.save(id, kept, unsaved);
            }
        }
        // It was deleted and created again within a moment. The pointer cannot change, until the cluster does.
        let kept = self.entry(id);
        let mut kept = lock(&kept);
        let unsaved = kept.poll(self, poll);
        self.save(id, kept, unsaved);
    }

    /// Notes what an event says. Returns whether that is new.
    pub fn observe(&self, id: &Arc<str>, now: Moment, observation: Option<Observation>) -> bool {
        let kept = self.entry(id);
        let mut kept = lock(&kept);
        let changed = kept.evidence.observe(now, observation);
        if changed {
            let unsaved = kept.note(self);
            self.save(id, kept, unsaved);
        }
        changed
    }

    /// Notes what a report says.
    pub fn report(&self, id: &Arc<str>, report: Report) {
        let kept = self.entry(id);
        let mut kept = lock(&kept);
        let unsaved = match kept.evidence.report(report) {
            true => kept.note(self),
            false => Unsaved::Times,
        };
        self.save(id, kept, unsaved);
    }

    /// Adds what other processes know.
    pub fn merge(&self, id: &Arc<str>, mut other: Evidence) {
        other.share_names(|name| self.shared(name));
        let kept = self.entry(id);
        let mut kept = lock(&kept);
        let theirs = other.clone();
        if kept.evidence.merge(other) {
            kept.note(self);
        }
        // What they lack must be saved: a process writes whole rows.
        if kept.evidence != theirs {
            self.save(id, kept, Unsaved::Times);
        }
    }

    /// Notes that the evidence of a cluster is to be saved.
    fn save(&self, id: &Arc<str>, mut kept: MutexGuard<'_, Kept>, unsaved: Unsaved) {
        let unsaved = kept.note_unsaved(unsaved);
        drop(kept);
        if unsaved > Unsaved::Nothing {
            self.part(id).unsaved.add(id, unsaved);
        }
    }

    /// A number that is another one after something was learnt that a state may depend on.
    pub fn learnt(&self) -> u64 {
        self.learnt.load(Ordering::Relaxed)
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

    pub fn get(&self, fleet: &Fleet, cluster: &Cluster) -> Evidence {
        self.look_now(fleet, cluster, |kept| kept.evidence.clone())
            .unwrap_or_default()
    }

    /// Whether a cluster has said anything that counts since a revision: it polled one of these paths then, or something there is not ready,
    /// whenever that was said.
    pub fn said_since<'a>(
        &self,
        fleet: &Fleet,
        cluster: &Cluster,
        mut paths: impl Iterator<Item = &'a str>,
        revision: Revision,
    ) -> Said {
        let said = self.look_now(fleet, cluster, |kept| {
            let evidence = &kept.evidence;
            let has_polled = |path: &str| evidence.told_at(path).is_some_and(|told| told.revision >= revision);
            match paths.any(has_polled) || evidence.objects().any(|seen| seen.health != Health::Ready) {
                true => Said::Something,
                false => Said::Nothing(evidence.last_poll()),
            }
        });
        said.unwrap_or(Said::Something)
    }

    /// What is known about a cluster, in short. None: nothing.
    pub fn outline(&self, fleet: &Fleet, cluster: &Arc<Cluster>, templates: &Arc<Bundle>) -> Option<Outline> {
        self.look_now(fleet, cluster, |kept| {
            let holds = |judged: &mut Judged| {
                std::ptr::eq(judged.templates.as_ptr(), Arc::as_ptr(templates))
                    && std::ptr::eq(judged.cluster.as_ptr(), Arc::as_ptr(cluster))
                    && judged.is_of_catalog(fleet, cluster)
                    && judged.is_of_rollouts(fleet, cluster)
            };
            let judged = kept.judged.as_mut();
            let lasting = judged.and_then(|judged| holds(judged).then_some(judged.lasting));
            Outline {
                last_poll: kept.evidence.last_poll(),
                lasting,
                version: kept.version,
                has_objects: kept.evidence.has_objects(),
            }
        })
    }

    /// Keeps a judgement of evidence with this version.
    pub fn keep(&self, fleet: &Fleet, cluster: &Arc<Cluster>, templates: &Arc<Bundle>, version: u32, lasting: Lasting) {
        let judged = Judged {
            cluster: Arc::downgrade(cluster),
            templates: Arc::downgrade(templates),
            catalog: fleet.catalog(),
            rollouts: fleet.rollouts().stamp(),
            patched: fleet.patched_for(cluster),
            lasting,
        };
        self.look(cluster, |kept| {
            if kept.version == version {
                kept.judged = Some(judged);
            }
        });
    }

    /// Notes the state that followers are told. Returns the one they were told before, if it is another.
    pub fn show(&self, cluster: &Cluster, state: State) -> Option<State> {
        let note = |kept: &mut Kept| kept.shown.replace(state).unwrap_or(State::Never);
        let before = match self.look(cluster, note) {
            Some(before) => before,
            // A cluster that nothing is known about has never polled.
            None if state == State::Never => return None,
            None => note(&mut lock(&self.entry(&cluster.document().id))),
        };
        (before != state).then_some(before)
    }

    /// Forgets the clusters that are not in the fleet any more. `fleet` is that of a moment ago, `current` the one that is served.
    pub fn forget(&self, fleet: &Fleet, current: impl Fn() -> Arc<Fleet>) {
        let mut forgotten = lock(&self.forgotten);
        let clusters = fleet.clusters_changed();
        if forgotten.0.replace(clusters) == Some(clusters) {
            return;
        }
        for part in &self.parts {
            let mut part = lock(part);
            // With the lock, so that every cluster that has polled is in this fleet, however new it is.
            let fleet = current();
            part.clusters.retain(|id, kept| {
                let is_known = fleet.cluster(id).is_some();
                if !is_known {
                    lock(kept).is_forgotten = true;
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
        while taken.len() < most {
            let Some(id) = lock(&self.collected).pop(least) else {
                break;
            };
            taken.extend(self.find(&id).and_then(|kept| lock(&kept).take(&id)));
        }
        for part in &self.parts {
            loop {
                let mut part = lock(part);
                let part = &mut *part;
                // Few at a time: polls wait meanwhile.
                for _ in 0..AT_ONCE {
                    let Some(id) = part.unsaved.pop(least) else { break };
                    let Some(mut kept) = part.clusters.get(&id).map(|kept| lock(kept)) else {
                        continue;
                    };
                    taken.extend(kept.take(&id));
                }
                let Collected { content, times } = &part.unsaved;
                let is_done = content.is_empty() && (times.is_empty() || least == Unsaved::Content);
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
            if let Some(kept) = self.find(id) {
                self.save(id, lock(&kept), Unsaved::Content);
            }
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
