//! A fleet from the resources that a store holds.
//!
//! Reading documents takes most of the time, so it is done on every core; what was read is put into the fleet in order, by one thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use super::outline::ClusterOutline;
use super::{Cluster, ClusterSet, Edit, Fleet, describe_failures};
use crate::document::{Document, Etag};
use crate::identity::{IDENTITIES, Identities};
use crate::kind::{CLUSTERS, KINDS, Kinds, PROFILES, Trust};
use crate::log::Resource;
use crate::profile::{Baseline, Profile};
use crate::selector::{Matcher, Subject};

/// How many clusters are read at a time. In debug builds few, so that tests with few clusters have several parts, too.
const AT_ONCE: usize = if cfg!(debug_assertions) { 2 } else { 1024 };

/// Resources in the order in which they are put.
#[derive(Default)]
struct Sorted {
    kinds: Vec<Resource>,
    /// Before clusters, so that each cluster is made once.
    profiles: Vec<Resource>,
    others: Vec<Resource>,
    /// Before clusters, too: their documents are dropped once they are read, and clusters can use that memory.
    identities: Vec<Resource>,
    clusters: Vec<Resource>,
}

impl Fleet {
    pub(super) fn of(resources: Vec<Resource>) -> Result<Fleet, String> {
        let mut sorted = Sorted::default();
        for resource in resources {
            let place = match &*resource.kind {
                KINDS => &mut sorted.kinds,
                PROFILES => &mut sorted.profiles,
                CLUSTERS => &mut sorted.clusters,
                IDENTITIES => &mut sorted.identities,
                _ => &mut sorted.others,
            };
            place.push(resource);
        }
        let mut edit = Edit::new(Fleet::default());
        for kind in sorted.kinds {
            edit.put_kind(kind.id, Some((kind.body, kind.origin)));
        }
        edit.settle_kinds(Trust::Stored)
            .map_err(|failed| describe_failures(&failed))?;
        for resource in sorted.profiles.into_iter().chain(sorted.others) {
            edit.put(&resource.kind, resource.id, Some(resource.body), None)?;
        }
        // In no order, because sorted keys leave the nodes of a tree half full.
        sorted
            .identities
            .sort_by_cached_key(|resource| Etag::of_bytes(resource.id.as_bytes()).0);
        for resource in sorted.identities {
            edit.put(&resource.kind, resource.id, Some(resource.body), None)?;
        }
        // There are no clusters yet, so that this only marks the profiles as settled.
        edit.settle_profiles();
        edit.load_clusters(&sorted.clusters)?;
        edit.settle()
    }
}

/// A cluster's document, and what was read of it.
struct Read<'a> {
    document: Document,
    outline: ClusterOutline<'a>,
    /// The profiles that it matches, by their position.
    profiles: Vec<usize>,
}

/// What clusters are read with.
struct Reader<'a> {
    kinds: &'a Kinds,
    identities: Identities,
    matchers: Vec<Matcher>,
}

impl Reader<'_> {
    fn read<'r>(&self, resource: &'r Resource) -> Read<'r> {
        // The id as the identity of the cluster has it, so that it is kept once.
        let id = self.identities.cluster_id(&resource.id).unwrap_or(&resource.id);
        let document = Document::new(id.clone(), resource.body.clone());
        let outline = ClusterOutline::of(resource.body.as_str(), self.kinds);
        let mut subject = Subject::of_outline(&document, &outline);
        let profiles = self.matchers.iter().enumerate();
        let profiles = profiles.filter(|(_, matcher)| matcher.matches_subject(&mut subject));
        let profiles = profiles.map(|(position, _)| position).collect();
        Read {
            document,
            outline,
            profiles,
        }
    }
}

/// The clusters that match the same profiles.
struct Group {
    profiles: Vec<Arc<Profile>>,
    baseline: Arc<Baseline>,
    members: ClusterSet,
}

impl Edit {
    /// Puts clusters into a fleet that has none yet, and whose profiles are settled.
    fn load_clusters(&mut self, clusters: &[Resource]) -> Result<(), String> {
        let kinds = self.fleet.kinds.clone();
        let profiles = self.fleet.profiles.in_order();
        let clusters_kind = kinds.get(CLUSTERS);
        let matchers = profiles
            .iter()
            .filter_map(|profile| Some(profile.selector.on(clusters_kind?)));
        let reader = &Reader {
            kinds: &kinds,
            identities: self.fleet.identities.clone(),
            matchers: matchers.collect(),
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut groups: HashMap<Vec<usize>, Group> = HashMap::new();
        thread::scope(|scope| {
            // Each thread reads every n-th part, so that the parts can be taken in order.
            let begin = |first| {
                let (sender, receiver) = sync_channel::<Vec<Read<'_>>>(2);
                let parts = clusters.chunks(AT_ONCE).skip(first).step_by(threads);
                let read = move || {
                    for part in parts {
                        if sender.send(part.iter().map(|one| reader.read(one)).collect()).is_err() {
                            return;
                        }
                    }
                };
                let started = thread::Builder::new().spawn_scoped(scope, read);
                started.map_err(|error| format!("cannot start a thread to read clusters: {error}"))?;
                Ok::<_, String>(receiver)
            };
            let readers: Vec<_> = (0..threads).map(begin).collect::<Result<_, _>>()?;
            for part in readers.iter().cycle() {
                // They end in turn: after the first one that has no more parts, none has.
                let Ok(part) = part.recv() else { break };
                part.into_iter()
                    .for_each(|read| self.load_cluster(read, &profiles, &mut groups));
            }
            Ok::<_, String>(())
        })?;
        for Group {
            profiles,
            baseline,
            members,
        } in groups.into_values()
        {
            self.fleet.profiles.add_group(&profiles, baseline, members);
        }
        Ok(())
    }

    fn load_cluster(&mut self, read: Read<'_>, all: &[Arc<Profile>], groups: &mut HashMap<Vec<usize>, Group>) {
        // Only a damaged store has an id twice. Then the last one counts.
        if self.fleet.cluster(&read.document.id).is_some() {
            let Document { id, body, .. } = read.document;
            self.put_cluster(&id, Some(body), None);
            return;
        }
        let number = self.fleet.clusters.next_number();
        let profiles = (!read.profiles.is_empty()).then(|| {
            let kinds = &self.fleet.kinds;
            let group = groups.entry(read.profiles).or_insert_with_key(|positions| {
                let profiles: Vec<_> = positions.iter().map(|position| all[*position].clone()).collect();
                Group {
                    baseline: Arc::new(Baseline::new(kinds, &profiles)),
                    profiles,
                    members: ClusterSet::default(),
                }
            });
            group.members.insert(number);
            &*group.baseline
        });
        let environment = self.environment(&read.outline.environment);
        let (document, outline) = (read.document, &read.outline);
        let cluster = Cluster::new(number, document, outline, environment, &self.fleet.kinds, profiles);
        self.index(number, None, Some(outline));
        self.add_cluster(Arc::new(cluster));
    }
}
