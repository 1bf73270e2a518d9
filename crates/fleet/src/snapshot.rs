//! The fleet at one revision, immutable: what polls are answered from and what writes are judged against.
//!
//! Maps are persistent (structure is shared between revisions), so the next revision costs what changed, and a reader keeps
//! the one it has for as long as it likes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use imbl::{HashMap, OrdMap, OrdSet};
use serde_json::Value;

use crate::damage::Damage;
use crate::document::Document;
use crate::inputs::{self, Breach, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::json::Json;
use crate::kind::{CLUSTERS, DECOMMISSIONS, Failures, KINDS, Kind, Kinds, RELEASED_NAMES, Trust};
use crate::log::{Head, Resource, Revision, RevisionRecord, State};

/// Who a cluster is: what every one of its inputs carries, and what it is looked up by.
#[derive(Debug)]
pub struct ClusterHead {
    pub document: Document,
    pub name: Box<str>,
    /// As it was written.
    pub dns: Arc<str>,
    /// In lower case: what it is looked up by.
    pub dns_key: Arc<str>,
    pub environment: Box<str>,
    pub protected: bool,
}

/// A cluster and its replies, each made when it is first asked for.
#[derive(Debug)]
pub struct Cluster {
    head: Arc<ClusterHead>,
    lists: Box<[List]>,
}

/// The references of a cluster to one kind.
#[derive(Clone, Debug)]
struct List {
    kind: Arc<str>,
    count: usize,
    reply: OnceLock<Result<Reply, Breach>>,
}

/// What no two resources of a kind may share ([`crate::log::Change::unique`]), by the document.
pub fn unique_of(kind: &str, body: &Json) -> Option<String> {
    let value: Value = (kind == CLUSTERS).then(|| serde_json::from_str(body.as_str()).ok())??;
    Some(value.get("cluster_dns")?.as_str()?.to_ascii_lowercase())
}

impl Cluster {
    fn new(document: Document, value: &Value, kinds: &Kinds) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let dns: Arc<str> = text("cluster_dns").into();
        let dns_key = match dns.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => dns.to_ascii_lowercase().into(),
            false => dns.clone(),
        };
        let lists = kinds
            .definitions()
            .map(|kind| (kind, inputs::references(kind, value).len()))
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| List {
                kind: kind.name.clone(),
                count,
                reply: OnceLock::new(),
            })
            .collect();
        Cluster {
            head: Arc::new(ClusterHead {
                document,
                name: text("cluster_name").into(),
                dns,
                dns_key,
                environment: text("environment").into(),
                protected: value.get("protected").and_then(Value::as_bool).unwrap_or_default(),
            }),
            lists,
        }
    }

    pub fn head(&self) -> &ClusterHead {
        &self.head
    }

    pub fn document(&self) -> &Document {
        &self.head.document
    }

    /// Whether it refers to anything of a kind.
    pub(crate) fn refers_to(&self, kind: &str) -> bool {
        self.list(kind).is_some()
    }

    fn list(&self, kind: &str) -> Option<&List> {
        self.lists.iter().find(|list| &*list.kind == kind)
    }

    /// Takes over the replies of the cluster as it was, where both documents say the same about all that is in them: most
    /// writes touch one kind.
    fn keep_replies(&mut self, value: &Value, old: &Cluster, old_value: &Value, kinds: &Kinds) {
        if inputs::cluster_block(self) != inputs::cluster_block(old) {
            return;
        }
        for list in &mut self.lists {
            let made = old.list(&list.kind).filter(|old| old.reply.get().is_some());
            if let (Some(old), Some(kind)) = (made, kinds.get(&list.kind))
                && inputs::told_of(kind, value) == inputs::told_of(kind, old_value)
            {
                list.reply = old.reply.clone();
            }
        }
    }

    /// The same cluster, with its reply for `kind` to be made anew.
    fn renewed(&self, kind: &str) -> Self {
        let mut lists = self.lists.clone();
        for list in lists.iter_mut().filter(|list| &*list.kind == kind) {
            list.reply = OnceLock::new();
        }
        Cluster {
            head: self.head.clone(),
            lists,
        }
    }
}

/// A definition, parsed: there are few of them, and each is merged into many replies.
#[derive(Debug)]
pub struct Definition {
    pub document: Document,
    value: Value,
}

impl Definition {
    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// The definitions of one kind, and which clusters refer to each.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    documents: OrdMap<Arc<str>, Arc<Definition>>,
    users: HashMap<Arc<str>, OrdSet<Arc<str>>>,
    /// No definition was ever longer than this: bounds a reply without making it.
    longest: usize,
}

impl Definitions {
    pub fn get(&self, id: &str) -> Option<&Arc<Definition>> {
        self.documents.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.documents.values()
    }

    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The ids of the clusters that refer to a definition, sorted.
    pub fn users(&self, id: &str) -> impl Iterator<Item = &Arc<str>> {
        self.users.get(id).into_iter().flatten()
    }

    pub fn is_used(&self, id: &str) -> bool {
        self.users.contains_key(id)
    }

    /// References to what is not there.
    fn dangling(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let missing = self.users.iter().filter(|(id, _)| !self.documents.contains_key(*id));
        missing.map(|(id, clusters)| (id, clusters.len()))
    }
}

/// The answer to a poll.
#[derive(Clone, Debug)]
pub enum Poll {
    Reply(Reply),
    UnknownCluster,
    UnknownKind,
    /// What is stored would break the contract: better no answer than a wrong one.
    Breach(Breach),
    /// What is stored is damaged, and the answer may depend on it.
    Damaged,
}

/// The whole fleet at one revision.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    head: Head,
    kinds: Arc<Kinds>,
    sources: OrdMap<Arc<str>, (Json, Option<Arc<str>>)>,
    definitions: BTreeMap<Arc<str>, Definitions>,
    clusters: OrdMap<Arc<str>, Arc<Cluster>>,
    by_dns: HashMap<Arc<str>, Arc<Cluster>>,
    decommissions: OrdMap<Arc<str>, Arc<Document>>,
    released_names: OrdMap<Arc<str>, Arc<Document>>,
    label_keys: OrdMap<Arc<str>, usize>,
    clusters_changed: Head,
    /// What is wrong with the store that it was loaded from. None: nothing.
    damage: Option<Arc<Damage>>,
}

impl Fleet {
    /// The fleet that a store holds: of a damaged one, what is left of it.
    pub fn load(state: State) -> Result<Fleet, String> {
        let mut damage = state.damage;
        let mut fleet = match Fleet::of(state.resources) {
            Ok(fleet) => fleet,
            Err(detail) if damage.is_empty() => return Err(detail),
            // What is left does not fit together.
            Err(detail) => {
                damage.everywhere.get_or_insert(detail);
                Fleet::default()
            }
        };
        fleet.head = state.head;
        fleet.clusters_changed = state.head;
        fleet.damage = (!damage.is_empty()).then(|| Arc::new(damage));
        Ok(fleet)
    }

    fn of(resources: Vec<Resource>) -> Result<Fleet, String> {
        let mut edit = Edit::new(Fleet::default());
        let (kinds, rest): (Vec<_>, Vec<_>) = resources.into_iter().partition(|resource| &*resource.kind == KINDS);
        for kind in kinds {
            edit.put_kind(kind.id, Some((kind.body, kind.origin)));
        }
        edit.settle_kinds(Trust::Stored)
            .map_err(|failed| describe_failures(&failed))?;
        for resource in rest {
            edit.put(&resource.kind, resource.id, Some(resource.body), None)?;
        }
        edit.settle()
    }

    /// What is wrong with the store that this was loaded from, if anything.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_deref()
    }

    /// Whether resources of a kind may be missing because the store is damaged.
    pub fn is_damaged(&self, kind: &str) -> bool {
        self.damage()
            .is_some_and(|damage| damage.hides_everything() || damage.hides(kind))
    }

    /// The fleet after the next revision.
    pub fn follow(&self, record: &RevisionRecord) -> Result<Fleet, String> {
        let mut edit = Edit::new(self.clone());
        let (kinds, rest): (Vec<_>, Vec<_>) = record.changes.iter().partition(|change| &*change.kind == KINDS);
        // All kinds at once: one may take the path or the array of another that goes.
        for change in &kinds {
            let source = change.after.clone().map(|after| (after, change.origin.clone()));
            edit.put_kind(change.id.clone(), source);
        }
        edit.settle_kinds(Trust::Stored)
            .map_err(|failed| describe_failures(&failed))?;
        for change in rest {
            let went_with_its_kind = kinds.iter().any(|kind| kind.id == change.kind && kind.after.is_none());
            // Clusters are kept apart from definitions, and do not go by themselves.
            if change.after.is_some() || !went_with_its_kind || &*change.kind == CLUSTERS {
                edit.put(&change.kind, change.id.clone(), change.after.clone(), None)?;
            }
        }
        let fleet = edit.settle()?;
        let touches_clusters = record.changes.iter().any(|change| &*change.kind == CLUSTERS);
        Ok(fleet.at(record.head(), touches_clusters))
    }

    pub(crate) fn at(mut self, head: Head, clusters_changed: bool) -> Fleet {
        self.head = head;
        if clusters_changed {
            self.clusters_changed = head;
        }
        self
    }

    pub fn head(&self) -> Head {
        self.head
    }

    pub fn revision(&self) -> Revision {
        self.head.revision
    }

    /// The last revision that wrote a cluster: what a list of clusters depends on. With its digest, since another history may
    /// use the same numbers.
    pub fn clusters_changed(&self) -> Head {
        self.clusters_changed
    }

    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.kinds
    }

    pub fn definitions(&self, kind: &str) -> Option<&Definitions> {
        self.definitions.get(kind)
    }

    pub fn clusters(&self) -> &OrdMap<Arc<str>, Arc<Cluster>> {
        &self.clusters
    }

    pub fn cluster(&self, id: &str) -> Option<&Arc<Cluster>> {
        self.clusters.get(id)
    }

    pub fn decommissions(&self) -> &OrdMap<Arc<str>, Arc<Document>> {
        &self.decommissions
    }

    /// DNS names that clusters gave up and that no cluster has taken since.
    pub fn released_names(&self) -> &OrdMap<Arc<str>, Arc<Document>> {
        &self.released_names
    }

    /// The documents of a kind for which [`crate::kind::name_record`] has a singular.
    pub fn name_records(&self, kind: &str) -> Option<&OrdMap<Arc<str>, Arc<Document>>> {
        match kind {
            DECOMMISSIONS => Some(&self.decommissions),
            RELEASED_NAMES => Some(&self.released_names),
            _ => None,
        }
    }

    pub fn cluster_at(&self, dns: &str) -> Option<&Arc<Cluster>> {
        self.by_dns.get(&*lower_case(dns))
    }

    pub fn has_label(&self, key: &str) -> bool {
        self.label_keys.contains_key(key)
    }

    /// Everything that the fleet is made of, as a store keeps it: [`Fleet::load`] makes the same fleet of it.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        let resource = |kind: &Arc<str>, document: &Document| Resource {
            kind: kind.clone(),
            id: document.id.clone(),
            body: document.body.clone(),
            origin: None,
        };
        let [kinds, clusters, decommissions, released] =
            [KINDS, CLUSTERS, DECOMMISSIONS, RELEASED_NAMES].map(Arc::<str>::from);
        let sources = self.sources.iter().map(move |(id, (body, origin))| Resource {
            kind: kinds.clone(),
            id: id.clone(),
            body: body.clone(),
            origin: origin.clone(),
        });
        let definitions = self.definitions.iter().flat_map(move |(kind, definitions)| {
            let definitions = definitions.iter();
            definitions.map(move |definition| resource(kind, &definition.document))
        });
        let of_clusters = self.clusters.values();
        let of_clusters = of_clusters.map(move |cluster| resource(&clusters, cluster.document()));
        let gone = self.decommissions.values();
        let gone = gone.map(move |document| resource(&decommissions, document));
        let given_up = self.released_names.values();
        let given_up = given_up.map(move |document| resource(&released, document));
        sources
            .chain(definitions)
            .chain(of_clusters)
            .chain(gone)
            .chain(given_up)
    }

    /// One resource, of whatever kind.
    pub fn document(&self, kind: &str, id: &str) -> Option<Document> {
        match kind {
            CLUSTERS => self.clusters.get(id).map(|cluster| cluster.document().clone()),
            DECOMMISSIONS | RELEASED_NAMES => self
                .name_records(kind)?
                .get(&*lower_case(id))
                .map(|document| Document::clone(document)),
            KINDS => self
                .sources
                .get_key_value(id)
                .map(|(name, (body, _))| Document::new(name.clone(), body.clone())),
            _ => self
                .definitions
                .get(kind)?
                .get(id)
                .map(|definition| definition.document.clone()),
        }
    }

    /// What the cluster with this DNS name is told of the kind at this path.
    pub fn poll(&self, dns: &str, path: &str) -> Poll {
        if self.damage().is_some_and(Damage::hides_everything) {
            return Poll::Damaged;
        }
        let Some(kind) = self.kinds.at_path(path) else {
            return match self.is_damaged(KINDS) {
                true => Poll::Damaged,
                false => Poll::UnknownKind,
            };
        };
        let key = lower_case(dns);
        match self.by_dns.get(&*key) {
            Some(cluster) if self.is_damaged(&kind.name) && self.dangles(cluster, kind) => Poll::Damaged,
            Some(cluster) => match self.reply(cluster, kind) {
                Ok(reply) => Poll::Reply(reply.clone()),
                Err(breach) => Poll::Breach(breach.clone()),
            },
            None if self.decommissions.contains_key(&*key) => Poll::Reply(Reply::empty().clone()),
            None if self.may_lack_names() => Poll::Damaged,
            None => Poll::UnknownCluster,
        }
    }

    /// Whether a DNS name that is not known here may belong to a damaged row.
    pub fn may_lack_names(&self) -> bool {
        let is_definition = |kind: &str| self.definitions.contains_key(kind);
        self.damage().is_some_and(|damage| damage.hides_names(is_definition))
    }

    /// Whether the cluster refers to a definition that is not there.
    fn dangles(&self, cluster: &Cluster, kind: &Kind) -> bool {
        let document: Value = cluster.document().body.parse();
        let definitions = self.definitions.get(&kind.name);
        let is_there = |id| definitions.is_some_and(|definitions| definitions.get(id).is_some());
        let mut ids = inputs::references(kind, &document).iter().map(inputs::reference_id);
        ids.any(|id| !is_there(id))
    }

    fn reply<'a>(&'a self, cluster: &'a Cluster, kind: &Kind) -> Result<&'a Reply, &'a Breach> {
        let (Some(list), Some(definitions)) = (cluster.list(&kind.name), self.definitions.get(&kind.name)) else {
            return Ok(Reply::empty());
        };
        list.reply
            .get_or_init(|| inputs::reply(kind, cluster, definitions))
            .as_ref()
    }

    /// How the cluster's reply for `kind` would break the contract, if it would. Cheap in all but extreme cases: the reply is
    /// made only when a bound says that it might be too large.
    pub(crate) fn breach(&self, cluster: &Cluster, kind: &Kind) -> Option<Breach> {
        let list = cluster.list(&kind.name)?;
        let definitions = self.definitions.get(&kind.name)?;
        // Per input: the definition, the cluster block, and the names of what is carried and nested. What the cluster itself
        // adds (overrides, patches) stands in its document, once.
        const PER_INPUT: usize = 128;
        let head = cluster.head();
        let block = PER_INPUT + 6 * (head.name.len() + head.dns.len() + head.environment.len()) + kind.carried_len();
        let bound = list.count * (definitions.longest + block) + cluster.document().body.as_str().len() + 64;
        if bound <= MAX_REPLY_BYTES && list.count <= MAX_INPUTS {
            return None;
        }
        inputs::body(kind, cluster, definitions).err()
    }

    /// References to definitions that do not exist, over the whole fleet.
    pub fn dangling(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, usize)> {
        let per_kind = self.definitions.iter();
        per_kind.flat_map(|(kind, definitions)| definitions.dangling().map(move |(id, count)| (kind, id, count)))
    }
}

fn lower_case(dns: &str) -> std::borrow::Cow<'_, str> {
    match dns.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => dns.to_ascii_lowercase().into(),
        false => dns.into(),
    }
}

fn put_name(names: &mut OrdMap<Arc<str>, Arc<Document>>, id: Arc<str>, after: Option<Json>) {
    match after {
        Some(body) => names.insert(id.clone(), Arc::new(Document::new(id, body))),
        None => names.remove(&id),
    };
}

fn describe_failures(failed: &Failures) -> String {
    let errors = failed
        .iter()
        .flat_map(|(kind, errors)| errors.iter().map(move |error| (kind, error)));
    let lines: Vec<_> = errors
        .map(|(kind, error)| format!("kind {kind}, {}: {}", error.pointer, error.detail))
        .collect();
    lines.join("; ")
}

/// A fleet that is being changed. Derived state that depends on several resources (DNS names, replies) is settled at the
/// end, so that changes may come in any order.
pub(crate) struct Edit {
    pub(crate) fleet: Fleet,
    kinds_changed: bool,
    /// Per kind, the clusters whose reply must be made anew.
    dirty: BTreeMap<Arc<str>, OrdSet<Arc<str>>>,
    /// Clusters whose DNS name another one still held when they were put.
    waiting: Vec<Arc<str>>,
    /// The clusters' documents that were looked at last: one write needs the same one several times.
    parsed: BTreeMap<Arc<str>, Arc<Value>>,
}

impl Edit {
    pub(crate) fn new(fleet: Fleet) -> Self {
        Edit {
            fleet,
            kinds_changed: false,
            dirty: BTreeMap::new(),
            waiting: Vec::new(),
            parsed: BTreeMap::new(),
        }
    }

    /// The document of a cluster as it is now.
    pub(crate) fn cluster_value(&mut self, id: &str) -> Option<Arc<Value>> {
        let cluster = self.fleet.clusters.get(id)?;
        if let Some(value) = self.parsed.get(id) {
            return Some(value.clone());
        }
        let (id, value) = (cluster.document().id.clone(), Arc::new(cluster.document().body.parse()));
        self.keep_parsed(id, value.clone());
        Some(value)
    }

    fn keep_parsed(&mut self, id: Arc<str>, value: Arc<Value>) {
        // A write that selects the whole fleet must not hold it all parsed.
        const MOST: usize = 64;
        if self.parsed.len() >= MOST {
            self.parsed.clear();
        }
        self.parsed.insert(id, value);
    }

    pub(crate) fn put_kind(&mut self, name: Arc<str>, source: Option<(Json, Option<Arc<str>>)>) {
        self.kinds_changed = true;
        match source {
            Some(source) => self.fleet.sources.insert(name, source),
            None => self.fleet.sources.remove(&name),
        };
    }

    /// What that takes, counted in resources that are put: kinds are compiled, and clusters read anew. Once is free of the latter:
    /// the largest fleet must be able to change a kind.
    pub(crate) fn work_of_kinds(&self, again: bool) -> usize {
        const OF_A_KIND: usize = 50;
        const CLUSTERS_READ: usize = 4;
        let clusters = if again { self.fleet.clusters.len() } else { 0 };
        let Fleet { sources, kinds, .. } = &self.fleet;
        let built = sources
            .iter()
            .filter(|(name, source)| kinds.unchanged(name, source).is_none());
        built.count() * OF_A_KIND + sources.len() + clusters / CLUSTERS_READ
    }

    /// Makes the kinds that were put take effect, or says what is wrong with them and leaves the old ones in force.
    pub(crate) fn settle_kinds(&mut self, trust: Trust) -> Result<(), Failures> {
        if !self.kinds_changed {
            return Ok(());
        }
        let kinds = Kinds::build(&self.fleet.sources, &self.fleet.kinds, trust)?;
        self.kinds_changed = false;
        let before = std::mem::replace(&mut self.fleet.kinds, Arc::new(kinds));
        let after = self.fleet.kinds.clone();
        let definitions = &mut self.fleet.definitions;
        definitions.retain(|name, _| after.get(name).is_some());
        let mut relisted = false;
        for kind in after.definitions() {
            definitions.entry(kind.name.clone()).or_default();
            match before.get(&kind.name) {
                Some(old) if old.etag == kind.etag => {}
                Some(old) if old.references == kind.references => {
                    let users = definitions[&kind.name].users.values().cloned();
                    self.dirty
                        .entry(kind.name.clone())
                        .or_default()
                        .extend(OrdSet::unions(users));
                }
                // A kind whose array may hold something already: only a store that others wrote to has that.
                _ => relisted = !self.fleet.clusters.is_empty(),
            }
        }
        if relisted {
            self.relist();
        }
        Ok(())
    }

    /// Reads the references of every cluster again.
    fn relist(&mut self) {
        for definitions in self.fleet.definitions.values_mut() {
            definitions.users = HashMap::new();
        }
        self.fleet.label_keys = OrdMap::new();
        for (id, old) in self.fleet.clusters.clone() {
            let value = old.document().body.parse();
            let cluster = Arc::new(Cluster::new(old.document().clone(), &value, &self.fleet.kinds));
            self.refer(&id, None, Some(&value));
            // A cluster that waits for its DNS name does not take it from the one that has it.
            if let Some(holder) = self.fleet.by_dns.get_mut(&cluster.head.dns_key)
                && holder.document().id == id
            {
                *holder = cluster.clone();
            }
            self.fleet.clusters.insert(id, cluster);
        }
    }

    /// Puts or removes a resource that is not a kind. `value` is the parsed `after`, where the caller has it.
    pub(crate) fn put(
        &mut self,
        kind: &str,
        id: Arc<str>,
        after: Option<Json>,
        value: Option<Value>,
    ) -> Result<(), String> {
        match kind {
            CLUSTERS => self.put_cluster(id, after, value),
            DECOMMISSIONS => put_name(&mut self.fleet.decommissions, id, after),
            RELEASED_NAMES => put_name(&mut self.fleet.released_names, id, after),
            kind => {
                let Some((name, definitions)) = self.fleet.definitions.get_key_value(kind) else {
                    return Err(format!(
                        "the store holds \"{id}\" of the kind \"{kind}\", which is not there"
                    ));
                };
                let (name, mut definitions) = (name.clone(), definitions.clone());
                if let Some(users) = definitions.users.get(&id) {
                    let dirty = self.dirty.entry(name.clone()).or_default();
                    *dirty = std::mem::take(dirty).union(users.clone());
                }
                match after {
                    Some(body) => {
                        definitions.longest = definitions.longest.max(body.as_str().len());
                        let value = value.unwrap_or_else(|| body.parse());
                        let document = Document::new(id.clone(), body);
                        definitions
                            .documents
                            .insert(id, Arc::new(Definition { document, value }));
                    }
                    None => {
                        definitions.documents.remove(&id);
                    }
                }
                self.fleet.definitions.insert(name, definitions);
            }
        }
        Ok(())
    }

    fn put_cluster(&mut self, id: Arc<str>, after: Option<Json>, value: Option<Value>) {
        let old = self.fleet.clusters.get(&id).cloned();
        let old_value = self.cluster_value(&id);
        if let Some(old) = &old {
            let key = &old.head.dns_key;
            if self
                .fleet
                .by_dns
                .get(key)
                .is_some_and(|holder| holder.document().id == id)
            {
                self.fleet.by_dns.remove(key);
            }
        }
        let Some(body) = after else {
            self.refer(&id, old_value.as_deref(), None);
            self.fleet.clusters.remove(&id);
            self.parsed.remove(&id);
            return;
        };
        let value = value.unwrap_or_else(|| body.parse());
        let document = Document::new(id.clone(), body);
        let mut cluster = Cluster::new(document, &value, &self.fleet.kinds);
        if let (Some(old), Some(old_value)) = (&old, &old_value) {
            cluster.keep_replies(&value, old, old_value, &self.fleet.kinds);
        }
        let cluster = Arc::new(cluster);
        self.refer(&id, old_value.as_deref(), Some(&value));
        self.keep_parsed(id.clone(), Arc::new(value));
        let key = cluster.head.dns_key.clone();
        if self.fleet.by_dns.contains_key(&key) {
            self.waiting.push(id.clone());
        } else {
            self.fleet.by_dns.insert(key, cluster.clone());
        }
        self.fleet.clusters.insert(id, cluster);
    }

    /// Keeps the indexes over clusters: who refers to what, and which labels there are.
    fn refer(&mut self, id: &Arc<str>, before: Option<&Value>, after: Option<&Value>) {
        let kinds = self.fleet.kinds.clone();
        for kind in kinds.definitions() {
            let references = |value| Option::map_or(value, &[][..], |value| inputs::references(kind, value));
            let (old, new) = (references(before), references(after));
            // Most writes change something else.
            if old
                .iter()
                .map(inputs::reference_id)
                .eq(new.iter().map(inputs::reference_id))
            {
                continue;
            }
            let ids = |references: &[Value]| -> OrdSet<String> {
                let ids = references.iter().map(inputs::reference_id);
                ids.map(str::to_owned).collect()
            };
            let (old, new) = (ids(old), ids(new));
            let Some(definitions) = self.fleet.definitions.get_mut(&kind.name) else {
                continue;
            };
            for gone in old.iter().filter(|id| !new.contains(*id)) {
                if let Some(users) = definitions.users.get_mut(gone.as_str()) {
                    users.remove(id);
                    if users.is_empty() {
                        definitions.users.remove(gone.as_str());
                    }
                }
            }
            for added in new.iter().filter(|id| !old.contains(*id)) {
                let known = definitions
                    .documents
                    .get(added.as_str())
                    .map(|definition| definition.document.id.clone());
                let key = known.unwrap_or_else(|| added.as_str().into());
                definitions.users.entry(key).or_default().insert(id.clone());
            }
        }
        let labels = |value: Option<&Value>| value.and_then(|value| value.get("labels")).cloned();
        let (old, new) = (labels(before), labels(after));
        if old == new {
            return;
        }
        let keys = |labels: Option<Value>| -> OrdSet<String> {
            let labels = labels.as_ref().and_then(Value::as_object);
            labels.into_iter().flatten().map(|(key, _)| key.clone()).collect()
        };
        let (old, new) = (keys(old), keys(new));
        for gone in old.iter().filter(|key| !new.contains(*key)) {
            let left = self.fleet.label_keys.get(gone.as_str()).copied().unwrap_or_default();
            match left {
                0 | 1 => self.fleet.label_keys.remove(gone.as_str()),
                more => self.fleet.label_keys.insert(gone.as_str().into(), more - 1),
            };
        }
        for added in new.iter().filter(|key| !old.contains(*key)) {
            *self.fleet.label_keys.entry(added.as_str().into()).or_default() += 1;
        }
    }

    /// Clusters that cannot have the DNS name they ask for, each with the one that has it.
    pub(crate) fn dns_clashes(&self) -> Vec<(Arc<Cluster>, Arc<Cluster>)> {
        let clusters = self.waiting.iter().filter_map(|id| self.fleet.clusters.get(id));
        let clashes = clusters.filter_map(|cluster| {
            let holder = self.fleet.by_dns.get(&cluster.head.dns_key)?;
            (holder.document().id != cluster.document().id).then(|| (cluster.clone(), holder.clone()))
        });
        clashes.collect()
    }

    /// Gives waiting clusters their DNS name, once those who held it have let go.
    pub(crate) fn settle_dns(&mut self) {
        for id in &self.waiting {
            if let Some(cluster) = self.fleet.clusters.get(id) {
                self.fleet
                    .by_dns
                    .entry(cluster.head.dns_key.clone())
                    .or_insert_with(|| cluster.clone());
            }
        }
    }

    /// The clusters whose reply changed because of something else than their own document, per kind.
    pub(crate) fn dirty(&self) -> &BTreeMap<Arc<str>, OrdSet<Arc<str>>> {
        &self.dirty
    }

    /// The changed fleet, with everything that is derived in place.
    pub(crate) fn settle(mut self) -> Result<Fleet, String> {
        self.settle_dns();
        if let Some((cluster, holder)) = self.dns_clashes().first() {
            let (one, two) = (&cluster.document().id, &holder.document().id);
            return Err(format!(
                "clusters \"{one}\" and \"{two}\" have the same DNS name {}",
                cluster.head.dns
            ));
        }
        for (kind, ids) in std::mem::take(&mut self.dirty) {
            for id in ids {
                let Some(cluster) = self.fleet.clusters.get(&id) else {
                    continue;
                };
                let renewed = Arc::new(cluster.renewed(&kind));
                self.fleet.by_dns.insert(renewed.head.dns_key.clone(), renewed.clone());
                self.fleet.clusters.insert(id, renewed);
            }
        }
        Ok(self.fleet)
    }
}
