//! What a change does to the clusters: which inputs each is told of anew, no longer, or otherwise.
//!
//! It compares what each DNS name is answered before and after, for that is what Flux acts on. A DNS name that is answered 404
//! afterwards loses nothing; one that another cluster takes over is compared with what that one is told, in the same write or
//! later: [`crate::released`] remembers what the name was told last. A path that no kind has any more counts as an empty list,
//! though Flux keeps what it has then, too: nothing remembers it, so whatever takes the path later would be compared with nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::diagnose::{self, Diagnostic};
use crate::diff::{Difference, differences};
use crate::document::Document;
use crate::inputs::{Effective, reference_id, references};
use crate::json::{Fields, Json};
use crate::kind::{CLUSTERS, DECOMMISSIONS, KINDS, Kind, RELEASED_NAMES};
use crate::log::{Change, Digest};
use crate::refusal::{Reason, Refusal};
use crate::released::{self, Had};
use crate::snapshot::{Cluster, Definitions, Fleet};

/// The effect of a change on the clusters, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    pub clusters: Vec<ClusterEffect>,
    /// Clusters that selectors see otherwise.
    pub relabelled: Vec<Relabelled>,
}

/// A cluster of which something changes that selectors go by. Which lists of clusters it leaves or joins is not known here: that
/// depends on the selectors that are asked for.
#[derive(Clone, Debug)]
pub struct Relabelled {
    pub id: Arc<str>,
    /// The labels and fields that change.
    pub keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ClusterEffect {
    pub id: Arc<str>,
    pub dns: Arc<str>,
    pub environment: Box<str>,
    /// Whether the change decommissions it.
    pub deleted: bool,
    /// The cluster that had the DNS name before, if one had.
    pub before: Option<Arc<str>>,
    /// Per path. Clusters that a change does the same to share it.
    pub inputs: Vec<(Arc<str>, Arc<ListEffect>)>,
    /// Dependencies that stall after the change and did not before.
    pub warnings: Vec<Diagnostic>,
}

/// What happens to one list of inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListEffect {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<InputEffect>,
    /// Whether the path is answered 404 afterwards: no kind has it any more.
    #[serde(skip_serializing_if = "is_false")]
    pub unanswered: bool,
    /// What Flux garbage-collects: inputs that are removed, turned off, or rendered as another kind of object.
    #[serde(skip)]
    pub lost: Vec<String>,
    /// How many of those compared Flux still has something of afterwards.
    #[serde(skip)]
    left: usize,
    /// The whole of each input that Flux makes something new of: what is planned is that content, not only its id.
    #[serde(skip)]
    fresh: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputEffect {
    pub id: String,
    pub fields: Vec<Difference>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it.
fn is_false(value: &bool) -> bool {
    !value
}

impl ListEffect {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Counts what a name had when it was given up and the cluster that takes it does not have. What it has of that is listed
    /// as added like the rest, since it is told anew.
    fn compare_remembered(&mut self, had: &[Had], new: &[Input<'_>]) {
        let now: HashMap<&str, &Input<'_>> = new.iter().map(|input| (input.id, input)).collect();
        let is_kept = |had: &&Had| now.get(had.id.as_str()).is_some_and(|input| had.is_kept_by(input));
        for had in had.iter().filter(|had| !is_kept(had)) {
            self.removed.push(had.id.clone());
            self.lost.push(had.id.clone());
        }
    }
}

impl ClusterEffect {
    /// Whether Flux removes something from the cluster.
    pub fn loses(&self) -> bool {
        self.deleted || self.inputs.iter().any(|(_, list)| !list.lost.is_empty())
    }
}

impl Serialize for ClusterEffect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            id: &'a str,
            dns: &'a str,
            environment: &'a str,
            deleted: bool,
            inputs: BTreeMap<&'a str, &'a ListEffect>,
        }
        let inputs = self.inputs.iter().map(|(path, list)| (&**path, &**list)).collect();
        Wire {
            id: &self.id,
            dns: &self.dns,
            environment: &self.environment,
            deleted: self.deleted,
            inputs,
        }
        .serialize(serializer)
    }
}

/// What a DNS name is answered.
enum Told<'a> {
    /// 404: Flux keeps what it has.
    Unknown,
    /// 404 as well, and what Flux has is known.
    Released(&'a Document),
    /// A decommissioned cluster: no inputs.
    Nothing,
    Cluster(&'a Arc<Cluster>),
}

impl<'a> Told<'a> {
    fn by(fleet: &'a Fleet, dns: &str) -> Self {
        match fleet.cluster_at(dns) {
            Some(cluster) => Told::Cluster(cluster),
            None if fleet.decommissions().contains_key(dns) => Told::Nothing,
            None => fleet
                .released_names()
                .get(dns)
                .map_or(Told::Unknown, |name| Told::Released(name)),
        }
    }

    fn cluster(&self) -> Option<&'a Arc<Cluster>> {
        match self {
            Told::Cluster(cluster) => Some(cluster),
            Told::Unknown | Told::Released(_) | Told::Nothing => None,
        }
    }
}

/// An object, and what it takes its content from.
pub(crate) type Road<'a> = (&'a str, Option<&'a str>);

/// One input, as far as it matters here.
pub(crate) struct Input<'a> {
    pub(crate) id: &'a str,
    effective: Effective<'a>,
    /// The objects that Flux makes of it; none when it is off.
    pub(crate) object: Option<Option<Road<'a>>>,
}

pub(crate) fn inputs<'a>(kind: &'a Kind, definitions: &'a Definitions, document: &'a Value) -> Vec<Input<'a>> {
    let references = references(kind, document).iter();
    let found = references.filter_map(|reference| {
        let id = reference_id(reference);
        let definition = definitions.get(id)?.value();
        let effective = Effective::new(kind, definition, reference, document);
        let off = diagnose::is_off(&kind.flux.off, &effective);
        let rule = || kind.render(|field| effective.get(field));
        let object = (!off).then(|| rule().map(|rule| (rule.object.as_str(), rule.source.as_deref())));
        Some(Input { id, effective, object })
    });
    found.collect()
}

/// How closely two fleets are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Everything that differs, and what will stall.
    Full,
    /// Only what is lost: enough for the budget, which every write is held against.
    Losses,
}

struct Comparison<'a> {
    before: &'a Fleet,
    after: &'a Fleet,
    detail: Detail,
    /// Whether kinds and definitions are the same in both: then a cluster's own document is all that can differ.
    same_catalog: bool,
    found: BTreeMap<(Arc<str>, Arc<str>), ClusterEffect>,
}

impl Effect {
    /// What `changes`, which lead from one fleet to the other, do.
    pub fn of(before: &Fleet, after: &Fleet, changes: &[Change]) -> Effect {
        Effect::compare(before, after, changes, Detail::Full)
    }

    /// The same, but only the clusters that lose something.
    pub fn losses(before: &Fleet, after: &Fleet, changes: &[Change]) -> Effect {
        Effect::compare(before, after, changes, Detail::Losses)
    }

    fn compare(before: &Fleet, after: &Fleet, changes: &[Change], detail: Detail) -> Effect {
        let mut comparison = Comparison {
            before,
            after,
            detail,
            same_catalog: changes
                .iter()
                .all(|change| matches!(&*change.kind, CLUSTERS | DECOMMISSIONS | RELEASED_NAMES)),
            found: BTreeMap::new(),
        };
        let whole = comparison.names_to_compare(changes);
        for dns in &whole {
            comparison.whole(dns);
        }
        let mut definitions: BTreeMap<&Arc<str>, BTreeSet<&str>> = BTreeMap::new();
        for change in changes {
            if !matches!(&*change.kind, CLUSTERS | DECOMMISSIONS | RELEASED_NAMES | KINDS) {
                definitions.entry(&change.kind).or_default().insert(&change.id);
            }
        }
        for (kind, ids) in definitions {
            comparison.users(kind, &ids, &whole);
        }
        let clusters = comparison.found.into_values();
        let clusters = clusters.filter(|cluster| match detail {
            Detail::Full => cluster.deleted || !cluster.inputs.is_empty() || !cluster.warnings.is_empty(),
            Detail::Losses => cluster.loses(),
        });
        Effect {
            clusters: clusters.collect(),
            relabelled: match detail {
                Detail::Full => relabelled(before, after, changes),
                Detail::Losses => Vec::new(),
            },
        }
    }

    /// Refuses to take everything of some kind from a cluster that was protected until now: lifting that is a revision of its own.
    /// Whether one may be deleted is judged where it is.
    pub fn judge_protection(&self, before: &Fleet) -> Result<(), Refusal> {
        let protected = |id: &str| before.cluster(id).is_some_and(|cluster| cluster.head().protected);
        let emptied = self.clusters.iter().find_map(|cluster| {
            let (path, _) = cluster
                .inputs
                .iter()
                .find(|(_, list)| !list.lost.is_empty() && list.left == 0)?;
            let held = cluster
                .before
                .as_deref()
                .filter(|id| !cluster.deleted && protected(id))?;
            Some((held, path))
        });
        let Some((held, path)) = emptied else {
            return Ok(());
        };
        let id = held.to_owned();
        let detail =
            format!("cluster \"{id}\" is protected, and would lose all of {path}: set \"protected\" to false first");
        let mut refusal = Refusal::new(Reason::Protected, detail);
        refusal.clusters.push(id);
        Err(refusal)
    }

    /// Stands for the effect and for nothing else: two changes that do the same have the same, whatever they rest on.
    pub fn digest(&self, changes: &[Change]) -> Digest {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        for change in changes {
            let parsed = |body: &Option<Json>| body.as_ref().map(Json::parse);
            part("change");
            part(&change.kind);
            part(&change.id);
            let fields = differences(parsed(&change.before).as_ref(), parsed(&change.after).as_ref());
            part(&serde_json::to_string(&(change.action(), fields)).unwrap_or_default());
        }
        // Clusters that share an effect share its text.
        let mut texts: HashMap<*const ListEffect, String> = HashMap::new();
        for cluster in &self.clusters {
            part("cluster");
            for text in [&*cluster.id, &*cluster.dns, &*cluster.environment] {
                part(text);
            }
            part(if cluster.deleted { "deleted" } else { "" });
            for (path, list) in &cluster.inputs {
                part(path);
                let text = texts.entry(Arc::as_ptr(list));
                part(text.or_insert_with(|| serde_json::to_string(&(&**list, &list.fresh)).unwrap_or_default()));
            }
        }
        Digest(hash.finalize().into())
    }
}

impl<'a> Comparison<'a> {
    /// The DNS names whose answers may differ in any way: those of clusters that were written, those that no cluster has, and of all
    /// that use a kind whose inputs are made otherwise now.
    fn names_to_compare(&self, changes: &[Change]) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        for change in changes {
            match &*change.kind {
                CLUSTERS => {
                    let both = [self.before.cluster(&change.id), self.after.cluster(&change.id)];
                    names.extend(both.into_iter().flatten().map(|cluster| cluster.head().dns_key.clone()));
                }
                DECOMMISSIONS | RELEASED_NAMES => {
                    names.insert(change.id.clone());
                }
                KINDS => {
                    let (old, new) = (self.before.kinds().get(&change.id), self.after.kinds().get(&change.id));
                    if old.map(|kind| kind.way_of_inputs()) != new.map(|kind| kind.way_of_inputs()) {
                        for fleet in [self.before, self.after] {
                            let users = fleet
                                .clusters()
                                .values()
                                .filter(|cluster| cluster.refers_to(&change.id));
                            names.extend(users.map(|cluster| cluster.head().dns_key.clone()));
                        }
                    }
                }
                _ => {}
            }
        }
        names
    }

    fn entry(&mut self, cluster: &Cluster) -> &mut ClusterEffect {
        let (id, head) = (&cluster.document().id, cluster.head());
        let effect = || ClusterEffect {
            id: id.clone(),
            dns: head.dns.clone(),
            environment: head.environment.clone(),
            deleted: false,
            before: None,
            inputs: Vec::new(),
            warnings: Vec::new(),
        };
        self.found
            .entry((id.clone(), head.dns_key.clone()))
            .or_insert_with(effect)
    }

    /// Compares everything that one DNS name is answered.
    fn whole(&mut self, dns: &str) {
        let (before, after) = (Told::by(self.before, dns), Told::by(self.after, dns));
        let Some(cluster) = after.cluster().or(before.cluster()) else {
            return;
        };
        if matches!(after, Told::Unknown | Told::Released(_)) {
            return;
        }
        if self.detail == Detail::Losses
            && self.same_catalog
            && let (Told::Cluster(old), Told::Cluster(new)) = (&before, &after)
            && same_references(self.after, old, new)
        {
            return;
        }
        let parse = |told: &Told<'_>| told.cluster().map(|cluster| cluster.document().body.parse());
        let (old, new) = (parse(&before), parse(&after));
        let blocks = [&before, &after].map(|told| told.cluster().map(|cluster| cluster_block(cluster)));
        let remembered = match before {
            Told::Released(name) => released::remembered(name),
            _ => Default::default(),
        };
        let mut lists = Vec::new();
        let kinds = self
            .before
            .kinds()
            .definitions()
            .chain(self.after.kinds().definitions());
        let mut paths: BTreeSet<&str> = kinds.filter_map(|kind| kind.path.as_deref()).collect();
        paths.extend(remembered.keys().map(String::as_str));
        for path in paths {
            let side = |fleet: &'a Fleet| {
                let kind = fleet.kinds().at_path(path)?;
                Some((kind, fleet.definitions(&kind.name)?))
            };
            let (before_side, after_side) = (side(self.before), side(self.after));
            let [old_inputs, new_inputs] = [before_side.zip(old.as_ref()), after_side.zip(new.as_ref())].map(|told| {
                told.map_or_else(Vec::new, |((kind, definitions), document)| {
                    inputs(kind, definitions, document)
                })
            });
            let mut list = match (before_side.or(after_side), after_side.or(before_side)) {
                (Some((old_kind, _)), Some((new_kind, _))) => {
                    compare_lists((old_kind, new_kind), &old_inputs, &new_inputs, &blocks, self.detail)
                }
                // No kind has had the path since the name was given up.
                _ => ListEffect::default(),
            };
            if let Some(had) = remembered.get(path) {
                list.compare_remembered(had, &new_inputs);
            }
            list.unanswered = after_side.is_none();
            if !list.is_empty() || !list.lost.is_empty() {
                lists.push((Arc::from(path), Arc::new(list)));
            }
        }
        let warnings = match (self.detail, &after) {
            (Detail::Full, Told::Cluster(_)) => self.new_stalls(old.as_ref(), new.as_ref()),
            _ => Vec::new(),
        };
        let holder = before.cluster().map(|cluster| cluster.document().id.clone());
        let deleted = matches!((&before, &after), (Told::Cluster(_), Told::Nothing));
        let effect = self.entry(cluster);
        effect.deleted = deleted;
        effect.before = holder;
        effect.inputs = lists;
        effect.warnings = warnings;
    }

    /// Dependencies of a cluster that stall now and did not before.
    fn new_stalls(&self, old: Option<&Value>, new: Option<&Value>) -> Vec<Diagnostic> {
        let stalls =
            |fleet: &Fleet, document: Option<&Value>| document.map_or_else(Vec::new, |document| fleet.stalls(document));
        let known = stalls(self.before, old);
        let mut found = stalls(self.after, new);
        found.retain(|stall| !known.contains(stall));
        found
    }

    /// Compares what definitions that changed mean for the clusters that use them. Their own documents did not change, so
    /// only those references are looked at; and since most clusters have the same ones, the outcome is worked out once for
    /// each that there is.
    fn users(&mut self, kind: &Arc<str>, ids: &BTreeSet<&str>, whole: &BTreeSet<Arc<str>>) {
        let sides = [self.before, self.after].map(|fleet| (fleet.kinds().get(kind), fleet.definitions(kind)));
        let [(Some(old_kind), Some(old)), (Some(new_kind), Some(new))] = sides else {
            return;
        };
        let (Some(path), Some(array)) = (new_kind.path.as_deref(), new_kind.references.as_deref()) else {
            return;
        };
        let differs = |of: &dyn Fn(&Kind, &Value) -> Value| {
            ids.iter().any(|id| {
                let [old, new] = [(old_kind, old), (new_kind, new)]
                    .map(|(kind, definitions)| definitions.get(id).map(|definition| of(kind, definition.value())));
                old != new
            })
        };
        // A cluster may set the other fields of a rule otherwise, so what the definition alone becomes says nothing.
        let objects = differs(&|kind, value| {
            let fields = kind.flux.renders.iter().flat_map(|rule| rule.when.keys());
            fields.map(|field| value[field].clone()).collect()
        });
        let switched = differs(&|kind, value| kind.flux.off.keys().map(|field| value[field].clone()).collect());
        let waits = differs(&|kind, value| {
            kind.flux
                .depends_on
                .as_ref()
                .map_or(Value::Null, |field| value[field].clone())
        });
        if self.detail == Detail::Losses && !objects && !switched {
            return;
        }
        let path: Arc<str> = path.into();
        let users = ids.iter().flat_map(|id| old.users(id).chain(new.users(id)));
        let users: BTreeSet<&Arc<str>> = users.collect();
        let mut known: HashMap<String, Arc<ListEffect>> = HashMap::new();
        for user in users {
            let Some(cluster) = self.after.cluster(user) else {
                continue;
            };
            if whole.contains(&cluster.head().dns_key) {
                continue;
            }
            if cluster.head().protected && (objects || switched) {
                // Whether all is gone takes a look at the rest.
                self.whole(&cluster.head().dns_key);
                continue;
            }
            let body = cluster.document().body.as_str();
            let picked = pick(body, array, ids);
            let list = match known.get(&picked) {
                Some(list) => list.clone(),
                None => {
                    let document: Value = serde_json::from_str(&picked).unwrap_or_default();
                    let lists = (inputs(old_kind, old, &document), inputs(new_kind, new, &document));
                    let block = [None, None];
                    let list = compare_lists((old_kind, new_kind), &lists.0, &lists.1, &block, self.detail);
                    let list = Arc::new(list);
                    known.insert(picked, list.clone());
                    list
                }
            };
            let mut warnings = Vec::new();
            if self.detail == Detail::Full && (waits || objects || switched) {
                let document = cluster.document().body.parse();
                warnings = self.new_stalls(Some(&document), Some(&document));
            }
            if list.is_empty() && list.lost.is_empty() && warnings.is_empty() {
                continue;
            }
            let cluster = cluster.clone();
            let effect = self.entry(&cluster);
            effect.before = Some(cluster.document().id.clone());
            if !list.is_empty() || !list.lost.is_empty() {
                effect.inputs.push((path.clone(), list));
            }
            for warning in warnings {
                if !effect.warnings.contains(&warning) {
                    effect.warnings.push(warning);
                }
            }
        }
    }
}

/// Whether two documents refer to the same definitions in the same way, which most writes leave alone: then nothing is lost.
/// Told from their texts, since every write is held against it, and reading a document takes longer than all the rest.
fn same_references(fleet: &Fleet, old: &Cluster, new: &Cluster) -> bool {
    let [Some(old), Some(new)] = [old, new].map(|cluster| cluster.document().body.fields()) else {
        return false;
    };
    let mut kinds = fleet.kinds().definitions();
    kinds.all(|kind| {
        let Some(array) = kind.references.as_deref() else {
            return true;
        };
        let [old, new] = [&old, &new].map(|fields| fields.text(array));
        // Patches are the one part of an input that is not in its reference. No sane kind is turned off by them.
        old == new && !kind.flux.off.contains_key("patches")
    })
}

/// The clusters that were there and still are, with what selectors see otherwise of each. From their texts, as above.
fn relabelled(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Relabelled> {
    fn labels<'a>(all: &Fields<'a>) -> Fields<'a> {
        all.text("labels").and_then(Fields::of).unwrap_or_default()
    }
    fn differing<'f>(old: &'f Fields<'_>, new: &'f Fields<'_>) -> BTreeSet<&'f str> {
        let names = old.names().chain(new.names());
        names.filter(|name| old.text(name) != new.text(name)).collect()
    }
    let is_field = |name: &str| {
        let kinds = [before, after].map(|fleet| fleet.kinds().clusters());
        kinds.into_iter().flatten().any(|kind| kind.is_scalar_field(name))
    };
    let of = |change: &Change| {
        let (old, new) = (change.before.as_ref()?.fields()?, change.after.as_ref()?.fields()?);
        let names = differing(&old, &new);
        let mut keys: BTreeSet<&str> = names.iter().copied().filter(|name| is_field(name)).collect();
        let (old, new) = (labels(&old), labels(&new));
        keys.extend(differing(&old, &new));
        let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        let id = change.id.clone();
        (!keys.is_empty()).then_some(Relabelled { id, keys })
    };
    let clusters = changes.iter().filter(|change| &*change.kind == CLUSTERS);
    clusters.filter_map(of).collect()
}

fn cluster_block(cluster: &Cluster) -> Value {
    let head = cluster.head();
    serde_json::json!({"name": &*head.name, "dns": &*head.dns, "environment": &*head.environment})
}

fn compare_lists(
    (old_kind, new_kind): (&Kind, &Kind),
    old: &[Input<'_>],
    new: &[Input<'_>],
    [old_block, new_block]: &[Option<Value>; 2],
    detail: Detail,
) -> ListEffect {
    let mut effect = ListEffect {
        left: new.iter().filter(|input| input.object.is_some()).count(),
        ..ListEffect::default()
    };
    let find = |all: &'_ [Input<'_>], id: &str| all.iter().position(|input| input.id == id);
    let whole = |kind: &Kind, input: &Input<'_>, block: &Option<Value>| {
        let mut value = input.effective.nested(kind);
        if let Some(block) = block {
            value.insert("cluster".into(), block.clone());
        }
        Value::Object(value)
    };
    // Lists are mostly as they were, so the same place is looked at first.
    for (n, before) in old.iter().enumerate() {
        let place = match new.get(n) {
            Some(same) if same.id == before.id => Some(n),
            _ => find(new, before.id),
        };
        let Some(after) = place.map(|place| &new[place]) else {
            effect.removed.push(before.id.to_owned());
            if before.object.is_some() {
                effect.lost.push(before.id.to_owned());
            }
            continue;
        };
        if before.object.is_some() && before.object != after.object {
            effect.lost.push(before.id.to_owned());
        }
        if detail == Detail::Losses {
            continue;
        }
        if after.object.is_some() && before.object != after.object {
            effect.fresh.push(whole(new_kind, after, &None).to_string());
        }
        let same_block = old_block == new_block;
        if same_block && std::ptr::eq(old_kind, new_kind) && before.effective.same(&after.effective) {
            continue;
        }
        let fields = differences(
            Some(&whole(old_kind, before, old_block)),
            Some(&whole(new_kind, after, new_block)),
        );
        if !fields.is_empty() {
            effect.changed.push(InputEffect {
                id: before.id.to_owned(),
                fields,
            });
        }
    }
    if detail == Detail::Full {
        let added = new.iter().filter(|input| find(old, input.id).is_none());
        for input in added {
            effect.added.push(input.id.to_owned());
            effect.fresh.push(whole(new_kind, input, &None).to_string());
        }
    }
    effect
}

/// Of a cluster's document, only the references to some definitions: `{"<array>":[…]}`. Reading the whole document would take
/// most of the time that a plan takes.
fn pick(document: &str, array: &str, ids: &BTreeSet<&str>) -> String {
    struct Pick<'a>(&'a str);

    impl<'de> DeserializeSeed<'de> for Pick<'_> {
        type Value = Vec<&'de RawValue>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> Visitor<'de> for Pick<'_> {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a cluster's document")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                if key == self.0 {
                    found = map.next_value()?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut reader = serde_json::Deserializer::from_str(document);
    let all = Pick(array).deserialize(&mut reader).unwrap_or_default();
    let mut text = String::from("{");
    crate::json::write_str(array, &mut text);
    text.push_str(":[");
    let mut separator = "";
    for raw in all {
        // An id is in the text of its reference, with whatever else.
        if ids.len() == 1 && !ids.iter().any(|id| raw.get().contains(id)) {
            continue;
        }
        let reference: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        if ids.contains(reference_id(&reference)) {
            text.push_str(separator);
            text.push_str(raw.get());
            separator = ",";
        }
    }
    text.push_str("]}");
    text
}
