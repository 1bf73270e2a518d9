//! The one way to write: operations against a snapshot give the changes of one revision and the snapshot after it, or a
//! refusal. Pure code; whoever calls it makes the changes durable before anyone sees them.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::dangling::Dangling;
use crate::inputs::{reference_id, references};
use crate::json::{Json, MOST_DEPTH, is_too_deep};
use crate::kind::schema::fill_defaults;
use crate::kind::{self, CLUSTERS, DECOMMISSIONS, Failures, KINDS, Kind, Kinds, RELEASED_NAMES, Trust};
use crate::log::{Change, Head};
use crate::operation::{Operation, Target, Verb};
use crate::patch;
use crate::refusal::{MOST_VIOLATIONS, Reason, Refusal, Violation, quote, segment, shorten, some_of};
use crate::released;
use crate::selector::Selector;
use crate::snapshot::{Edit, Fleet};

/// How a write is judged and how its problems are pointed at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Pointers begin with `/operations/N`: the operations came as a batch.
    pub batch: bool,
    /// References to what is not there are let in, to be reported: a seed may have some.
    pub allow_dangling: bool,
}

/// What a write does.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One per resource that changes; empty when nothing does.
    pub changes: Vec<Change>,
    fleet: Fleet,
}

impl Outcome {
    /// The fleet as the write leaves it, still under the revision it was judged against.
    pub fn preview(&self) -> &Fleet {
        &self.fleet
    }

    /// The fleet once the write is revision `head`.
    pub fn committed(self, head: Head) -> Fleet {
        let clusters = self.changes.iter().any(|change| &*change.kind == CLUSTERS);
        self.fleet.at(head, clusters)
    }
}

impl Fleet {
    /// What `operations` would do. Operations run in order, each on what the one before left; references and the contract are
    /// judged on the end state.
    pub fn write(&self, operations: &[Operation], rules: Rules) -> Result<Outcome, Refusal> {
        let mut draft = Draft {
            base: self,
            operations,
            edit: Edit::new(self.clone()),
            rules,
            touched: BTreeMap::new(),
            kinds_put: false,
            kinds_settled: false,
            kind_failures: Vec::new(),
            work: 0,
        };
        let mut refused: Option<Refusal> = None;
        for (n, operation) in operations.iter().enumerate() {
            if let Err(refusal) = draft.run(n, operation) {
                let refusal = refusal.under(&draft.prefix(n));
                match &mut refused {
                    None => refused = Some(refusal),
                    // Every problem of the same sort is reported; what merely follows from the first one is not.
                    Some(first) if first.reason == refusal.reason => {
                        first.errors.extend(refusal.errors);
                        first.clusters.extend(refusal.clusters);
                    }
                    Some(_) => {}
                }
            }
            let enough = |refusal: &Refusal| refusal.errors.len() >= MOST_VIOLATIONS;
            if draft.work > MOST_WORK || refused.as_ref().is_some_and(enough) {
                break;
            }
        }
        let outcome = match refused {
            Some(refusal) if refusal.reason == Reason::Invalid => Err(Refusal::invalid(refusal.errors)),
            Some(refusal) => Err(refusal),
            None => draft.finish(),
        };
        outcome.map_err(|mut refusal| {
            // Without a batch there is no operation to point into, and here the document is not what is wrong.
            let reasons = [Reason::NotFound, Reason::Stale, Reason::InUse, Reason::Protected];
            if !rules.batch && reasons.contains(&refusal.reason) {
                refusal.errors.clear();
            }
            refusal
        })
    }
}

/// How many times one write may put a resource. Operations times clusters can be any number, and writers wait for each other.
const MOST_WORK: usize = 250_000;

/// The order of changes in a revision: one that can be replayed from front to back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    KindPut,
    Definition,
    Cluster,
    Name,
    KindGone,
}

/// Which operation, on whose behalf.
type Touch = (usize, Option<Arc<str>>);

struct Draft<'a> {
    base: &'a Fleet,
    operations: &'a [Operation],
    edit: Edit,
    rules: Rules,
    /// What was written, by which operation last, on whose behalf.
    touched: BTreeMap<(Arc<str>, Arc<str>), Touch>,
    /// Whether kinds were put that have not taken effect yet.
    kinds_put: bool,
    /// Whether others did before.
    kinds_settled: bool,
    kind_failures: Failures,
    /// How many times a resource was put so far, or what is as much work.
    work: usize,
}

impl Draft<'_> {
    fn prefix(&self, operation: usize) -> String {
        match self.rules.batch {
            true => format!("/operations/{operation}"),
            false => String::new(),
        }
    }

    /// Where the document of an operation stands in what was sent.
    fn under_value(&self, errors: Vec<Violation>) -> Refusal {
        let prefix = if self.rules.batch { "/value" } else { "" };
        Refusal::invalid(errors.into_iter().map(|error| error.under(prefix)).collect())
    }

    fn now(&self) -> &Fleet {
        &self.edit.fleet
    }

    fn kind(&self, name: &str) -> Result<Arc<Kind>, Refusal> {
        let unknown = || Refusal::at(Reason::NotFound, "/kind", format!("there is no kind \"{name}\""));
        self.now().kinds().get(name).cloned().ok_or_else(unknown)
    }

    fn run(&mut self, n: usize, operation: &Operation) -> Result<(), Refusal> {
        let origin = operation.origin.as_ref();
        if operation.kind != KINDS {
            self.settle_kinds()?;
        }
        match (operation.kind.as_str(), &operation.verb) {
            (KINDS, verb) => self.run_on_kinds(n, verb, operation),
            (name @ (DECOMMISSIONS | RELEASED_NAMES), Verb::Delete { id, .. }) => {
                self.check_version(name, id, operation)?;
                self.put(n, name, id.to_ascii_lowercase().into(), None, None)
            }
            (name @ (DECOMMISSIONS | RELEASED_NAMES), _) => {
                let singular = kind::name_record(name).unwrap_or_default();
                let detail = format!("a {singular} can only be deleted");
                Err(Refusal::at(Reason::Invalid, "/op", detail))
            }
            (name, Verb::Create { id, value }) => {
                let kind = self.kind(name)?;
                let (id, value) = self.document(&kind, id.as_deref(), value.clone())?;
                if self.now().document(name, &id).is_some() {
                    let detail = format!("{} \"{id}\" exists already", kind.singular);
                    return Err(Refusal::at(Reason::Exists, "/id", detail));
                }
                self.put(n, name, id, Some(value), origin)
            }
            (name, Verb::Replace { id, value }) => {
                let kind = self.kind(name)?;
                self.check_version(name, id, operation)?;
                self.replace(n, &kind, id, value.clone(), origin)
            }
            (name, Verb::Apply { id, value }) => {
                let kind = self.kind(name)?;
                let given = id.clone().or_else(|| own_id(&kind, value)).unwrap_or_default();
                if self.now().document(name, &given).is_some() || operation.if_match.is_some() {
                    self.check_version(name, &given, operation)?;
                    return self.replace(n, &kind, &given, value.clone(), origin);
                }
                let (id, value) = self.document(&kind, id.as_deref(), value.clone())?;
                self.put(n, name, id, Some(value), origin)
            }
            (name, Verb::Merge { on, form, value }) => {
                let kind = self.kind(name)?;
                let ids = match on {
                    Target::Id(id) => {
                        self.check_version(name, id, operation)?;
                        vec![id.as_str().into()]
                    }
                    Target::Selector(selector) => self.select(selector)?,
                };
                for id in ids {
                    self.merge(n, &kind, &id, *form, value)?;
                }
                Ok(())
            }
            (name, Verb::Restore { id, value: None, .. }) => {
                let kind = self.kind(name)?;
                match self.now().document(name, id) {
                    Some(_) => self.delete(n, &kind, id, false),
                    None => Ok(()),
                }
            }
            // Judged at the end: kinds that go meanwhile must not be in the way of what was there before they came.
            (
                name,
                Verb::Restore {
                    id, value: Some(value), ..
                },
            ) => {
                self.kind(name)?;
                self.put(n, name, id.as_str().into(), Some(value.clone()), origin)
            }
            (name, Verb::Delete { id, cascade }) => {
                let kind = self.kind(name)?;
                self.check_version(name, id, operation)?;
                self.delete(n, &kind, id, *cascade)
            }
            (name, Verb::Assign { id, on, value }) => {
                let kind = self.definition_kind(name)?;
                let array = kind.references.clone().expect("definitions have references");
                let mut reference = value.clone();
                if reference.contains_key("$patch") {
                    return Err(self.under_value(vec![Violation::new("/$patch", "assign only adds and changes")]));
                }
                reference.insert("id".into(), id.as_str().into());
                let place = segment(&array);
                self.on_clusters(n, on, operation, &json!({ array: [reference] }), &place)
            }
            (name, Verb::Unassign { id, on, drop_patches }) => {
                let kind = self.definition_kind(name)?;
                let array = kind.references.clone().expect("definitions have references");
                let mut patch = json!({ array: [{"id": id, "$patch": "delete"}] });
                if *drop_patches && kind.flux.patches {
                    patch["patches"] = json!({ id: null });
                }
                self.on_clusters(n, on, operation, &patch, "")
            }
            (name, Verb::Patch { id, on, set, unset }) => {
                let kind = self.definition_kind(name)?;
                if !kind.flux.patches {
                    return Err(Refusal::at(
                        Reason::Invalid,
                        "/kind",
                        format!("{} take no patches", kind.name),
                    ));
                }
                if self.now().document(name, id).is_none() {
                    return Err(Refusal::at(
                        Reason::Invalid,
                        "/id",
                        format!("there is no {} \"{id}\"", kind.singular),
                    ));
                }
                let mut values = set.clone();
                values.extend(unset.iter().map(|key| (key.clone(), Value::Null)));
                let place = format!("/value/patches{}", segment(id));
                self.on_clusters(n, on, operation, &json!({"patches": { id: values }}), "")
                    .map_err(|mut refusal| {
                        for error in &mut refusal.errors {
                            if let Some(key) = error.pointer.strip_prefix(&place) {
                                error.pointer = format!("/set{key}");
                            }
                        }
                        refusal
                    })
            }
        }
    }

    fn definition_kind(&self, name: &str) -> Result<Arc<Kind>, Refusal> {
        let kind = self.kind(name)?;
        match kind.references {
            Some(_) => Ok(kind),
            None => Err(Refusal::at(
                Reason::Invalid,
                "/kind",
                format!("clusters do not refer to {name}"),
            )),
        }
    }

    /// Merges a patch into each cluster of a target. `place` is the array that the operation's value goes into.
    fn on_clusters(
        &mut self,
        n: usize,
        on: &Target,
        operation: &Operation,
        patch: &Value,
        place: &str,
    ) -> Result<(), Refusal> {
        let kind = self.kind(CLUSTERS)?;
        let ids = match on {
            Target::Id(id) => {
                if self.now().cluster(id).is_none() {
                    return Err(Refusal::at(
                        Reason::NotFound,
                        "/cluster",
                        format!("there is no cluster \"{id}\""),
                    ));
                }
                self.check_version(CLUSTERS, id, operation)?;
                vec![id.as_str().into()]
            }
            Target::Selector(selector) => self.select(selector)?,
        };
        for id in ids {
            self.merge(n, &kind, &id, patch::Form::Merge, patch)
                .map_err(|mut refusal| {
                    // A new reference stands last in the cluster, but it was made from the operation's value: point there.
                    for error in refusal.errors.iter_mut().filter(|_| !place.is_empty()) {
                        let inside = error
                            .pointer
                            .strip_prefix("/value")
                            .and_then(|rest| rest.strip_prefix(place));
                        if let Some(rest) = inside.and_then(|rest| rest.strip_prefix('/')) {
                            let field = rest
                                .split_once('/')
                                .map(|(_, field)| format!("/{field}"))
                                .unwrap_or_default();
                            error.pointer = format!("/value{field}");
                        }
                    }
                    refusal
                })?;
        }
        Ok(())
    }

    fn select(&mut self, selector: &str) -> Result<Vec<Arc<str>>, Refusal> {
        let refuse = |detail: String| Refusal::at(Reason::Invalid, "/selector", detail);
        let selector = Selector::for_fleet(selector, self.now()).map_err(|error| refuse(error.to_string()))?;
        let looks_per_put = if selector.reads_documents() { 16 } else { 256 };
        self.has_worked(self.now().clusters().len() / looks_per_put)?;
        let ids: Vec<_> = selector
            .select(self.now())
            .map(|cluster| cluster.document().id.clone())
            .collect();
        match ids.is_empty() {
            true => Err(refuse(format!(
                "\"{}\" matches no cluster",
                quote(&selector.to_string())
            ))),
            false => Ok(ids),
        }
    }

    fn check_version(&self, kind: &str, id: &str, operation: &Operation) -> Result<(), Refusal> {
        let Some(document) = self.now().document(kind, id) else {
            return Err(self.not_found(kind, id));
        };
        match &operation.if_match {
            Some(versions) if !versions.accepts(document.etag) => {
                let detail = format!("\"{id}\" is now at version {}, not the one in If-Match", document.etag);
                Err(Refusal::at(Reason::Stale, "/if_match", detail))
            }
            _ => Ok(()),
        }
    }

    fn not_found(&self, kind: &str, id: &str) -> Refusal {
        let singular = match kind {
            KINDS => "kind".to_owned(),
            kind => match (kind::name_record(kind), self.now().kinds().get(kind)) {
                (Some(singular), _) => singular.to_owned(),
                (None, Some(kind)) => kind.singular.clone(),
                (None, None) => kind.to_owned(),
            },
        };
        Refusal::at(Reason::NotFound, "/id", format!("there is no {singular} \"{id}\""))
    }

    /// A document as it will be stored: its id settled, its defaults filled in, valid.
    fn document(&self, kind: &Kind, id: Option<&str>, mut value: Value) -> Result<(Arc<str>, Value), Refusal> {
        let invalid = |errors| Err(self.under_value(errors));
        if is_too_deep(&value) {
            return invalid(vec![Violation::new(
                "",
                format!("is more than {MOST_DEPTH} levels deep"),
            )]);
        }
        let Value::Object(fields) = &mut value else {
            return invalid(vec![Violation::new("", format!("a {} is an object", kind.singular))]);
        };
        if let Some(given) = fields.remove("_id") {
            match fields.get("id") {
                None => {
                    fields.insert("id".into(), given);
                }
                Some(other) if *other == given => {}
                Some(_) => return invalid(vec![Violation::new("/_id", "\"_id\" and \"id\" differ")]),
            }
        }
        if !fields.contains_key("id") {
            let fallback = match id {
                Some(id) => Some(id.into()),
                None if &*kind.name == CLUSTERS => fields.get("cluster_name").cloned(),
                None => None,
            };
            if let Some(fallback) = fallback {
                fields.insert("id".into(), fallback);
            }
        }
        let own = fields.get("id").and_then(Value::as_str).unwrap_or_default();
        if let Some(id) = id
            && own != id
        {
            let detail = format!("this is \"{id}\": an id never changes");
            return invalid(vec![Violation::new("/id", detail)]);
        }
        let id: Arc<str> = own.into();
        fill_defaults(&kind.schema, &mut value);
        if &*kind.name == CLUSTERS {
            self.fill_references(&id, &mut value);
        }
        let errors = kind.validate(&value);
        if errors.is_empty() {
            Ok((id, value))
        } else {
            invalid(errors)
        }
    }

    /// A new cluster shows every array of references there is, and one that is there keeps the ones it has. A kind that came
    /// later does not change a cluster until something refers to it.
    fn fill_references(&self, id: &str, value: &mut Value) {
        let kinds = self.now().kinds();
        let arrays = kinds.definitions().filter_map(|kind| kind.references.as_deref());
        let missing: Vec<&str> = arrays.filter(|array| value.get(array).is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let present = self.now().cluster(id).map(|cluster| cluster.document().body.parse());
        for array in missing {
            if present.as_ref().is_none_or(|present| present.get(array).is_some()) {
                value[array] = json!([]);
            }
        }
    }

    fn replace(
        &mut self,
        n: usize,
        kind: &Kind,
        id: &str,
        value: Value,
        origin: Option<&Arc<str>>,
    ) -> Result<(), Refusal> {
        if &*kind.name == CLUSTERS {
            self.refuse_what_is_forgotten(id, &value)?;
        }
        let (id, value) = self.document(kind, Some(id), value)?;
        self.put(n, &kind.name, id, Some(value), origin)
    }

    /// A script that is older than a kind must not uninstall it: what is to go is said, not left out.
    fn refuse_what_is_forgotten(&self, id: &str, value: &Value) -> Result<(), Refusal> {
        let Some(cluster) = self.now().cluster(id) else {
            return Ok(());
        };
        let present = cluster.document().body.parse();
        let kinds = self.now().kinds();
        let forgotten = kinds.definitions().filter_map(|kind| {
            let array = kind.references.as_deref()?;
            let count = references(kind, &present).len();
            (count > 0 && value.get(array).is_none()).then(|| {
                let detail = format!(
                    "the cluster has {count} of these, and leaving them out would remove them: say [] to remove them"
                );
                Violation::new(segment(array), detail)
            })
        });
        let mut errors: Vec<_> = forgotten.collect();
        if cluster.head().protected && value.get("protected").is_none() {
            let detail = "the cluster is protected, and leaving this out would lift that: say false to lift it";
            errors.push(Violation::new("/protected", detail));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(self.under_value(errors))
        }
    }

    fn merge(&mut self, n: usize, kind: &Kind, id: &str, form: patch::Form, value: &Value) -> Result<(), Refusal> {
        let present = match &*kind.name {
            CLUSTERS => self.edit.cluster_value(id),
            name => self
                .now()
                .document(name, id)
                .map(|document| Arc::new(document.body.parse())),
        };
        let Some(present) = present else {
            return Err(self.not_found(&kind.name, id));
        };
        let mut merged = Value::clone(&present);
        if form == patch::Form::Merge && &*kind.name == CLUSTERS {
            self.refuse_null_references(&merged, value)?;
        }
        let apply = |merged: &mut Value| patch::apply(form, self.now().kinds(), kind, merged, value);
        apply(&mut merged).map_err(|errors| self.under_value(errors))?;
        if merged.get("id").is_none() {
            return Err(self.under_value(vec![Violation::new("/id", "an id never changes")]));
        }
        let (id, merged) = self.document(kind, Some(id), merged).map_err(|mut refusal| {
            let value_at = if self.rules.batch { "/value" } else { "" };
            let mut merged = Value::clone(&present);
            let _once_more = apply(&mut merged);
            for error in refusal.errors.iter_mut().filter(|_| form == patch::Form::Merge) {
                if let Some(pointer) = error.pointer.strip_prefix(value_at) {
                    error.pointer = format!("{value_at}{}", as_sent(pointer, &merged, value));
                }
            }
            refusal
        })?;
        self.put(n, &kind.name, id, Some(merged), None)
    }

    /// Null clears a field, but a client whose empty list is written as null must not uninstall everything.
    fn refuse_null_references(&self, present: &Value, patch: &Value) -> Result<(), Refusal> {
        let kinds = self.now().kinds();
        let nulls = kinds.definitions().filter_map(|kind| {
            let array = kind.references.as_deref()?;
            let count = references(kind, present).len();
            (count > 0 && patch.get(array).is_some_and(Value::is_null)).then(|| {
                let detail =
                    format!("null would remove {count} references: name each with \"$patch\": \"delete\", or PUT []");
                Violation::new(segment(array), detail)
            })
        });
        let errors: Vec<_> = nulls.collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(self.under_value(errors))
        }
    }

    fn delete(&mut self, n: usize, kind: &Kind, id: &str, cascade: bool) -> Result<(), Refusal> {
        if &*kind.name == CLUSTERS {
            // By what it was, too: lifting the protection is a revision of its own.
            let both = [self.base.cluster(id), self.now().cluster(id)];
            if both.into_iter().flatten().any(|cluster| cluster.head().protected) {
                let detail = format!("cluster \"{id}\" is protected: set \"protected\" to false first");
                let mut refusal = Refusal::at(Reason::Protected, "/id", detail);
                refusal.clusters.push(id.to_owned());
                return Err(refusal);
            }
            // The name that was served is the one to answer with empty inputs, whatever this batch renamed it to before. And a
            // cluster that this batch made was never told anything.
            if let Some(served) = self.base.cluster(id) {
                let head = served.head();
                let decommission = json!({
                    "id": &*head.dns_key,
                    "cluster_dns": &*head.dns,
                    "cluster_id": id,
                    "cluster_name": &*head.name,
                    "environment": &*head.environment,
                });
                self.put(n, DECOMMISSIONS, head.dns_key.clone(), Some(decommission), None)?;
            }
            return self.put(n, CLUSTERS, id.into(), None, None);
        }
        if cascade {
            let users: Vec<Arc<str>> = self.users(&kind.name, id);
            let clusters = self.kind(CLUSTERS)?;
            let array = kind.references.as_deref().expect("definitions have references");
            let mut patch = json!({ array: [{"id": id, "$patch": "delete"}] });
            let mut also: BTreeSet<Arc<str>> = users.into_iter().collect();
            if kind.flux.patches {
                patch["patches"] = json!({ id: null });
                also.extend(self.patched(id));
            }
            for cluster in also {
                self.merge(n, &clusters, &cluster, patch::Form::Merge, &patch)?;
            }
        }
        self.put(n, &kind.name, id.into(), None, None)
    }

    fn users(&self, kind: &str, id: &str) -> Vec<Arc<str>> {
        let definitions = self.now().definitions(kind);
        definitions
            .into_iter()
            .flat_map(|all| all.users(id).cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Clusters that keep patches for a component, assigned or not.
    fn patched(&self, id: &str) -> Vec<Arc<str>> {
        let quoted = Json::new(&id.into());
        let clusters = self.now().clusters().values();
        let mentions = clusters.filter(|cluster| cluster.document().body.as_str().contains(quoted.as_str()));
        let patched = mentions.filter(|cluster| cluster.document().body.parse()["patches"].get(id).is_some());
        patched.map(|cluster| cluster.document().id.clone()).collect()
    }

    fn run_on_kinds(&mut self, n: usize, verb: &Verb, operation: &Operation) -> Result<(), Refusal> {
        let (id, value) = match verb {
            Verb::Create { id, value } | Verb::Apply { id, value } => (id.clone(), value),
            Verb::Replace { id, value }
            | Verb::Restore {
                id, value: Some(value), ..
            } => (Some(id.clone()), value),
            Verb::Delete { id, .. } | Verb::Restore { id, value: None, .. } => {
                self.check_version(KINDS, id, operation)?;
                if id == CLUSTERS {
                    return Err(Refusal::at(
                        Reason::InUse,
                        "/id",
                        "everything refers to clusters: this kind stays",
                    ));
                }
                // Not at the end, as for references: without their kind, definitions are gone.
                let left = self.ids(id);
                if !left.is_empty() {
                    let detail = format!("the kind \"{id}\" still has resources: {}", some_of(&left));
                    return Err(Refusal::at(Reason::InUse, "/id", detail));
                }
                self.touched.insert((KINDS.into(), id.as_str().into()), (n, None));
                self.edit.put_kind(id.as_str().into(), None);
                self.kinds_put = true;
                return Ok(());
            }
            _ => return Err(Refusal::at(Reason::Invalid, "/op", "a kind is put as a whole")),
        };
        if is_too_deep(value) {
            let detail = format!("is more than {MOST_DEPTH} levels deep");
            return Err(self.under_value(vec![Violation::new("", detail)]));
        }
        let name = kind::name_of(value).map_err(|error| self.under_value(vec![error]))?;
        let unknown = kind::unknown_settings(value);
        if !unknown.is_empty() {
            return Err(self.under_value(unknown));
        }
        if let Some(id) = id
            && id != name
        {
            let detail = format!("this is the document of the kind \"{name}\": put it to /kinds/{name}");
            return Err(self.under_value(vec![Violation::new("/kind", detail)]));
        }
        let exists = self.now().document(KINDS, &name).is_some();
        match verb {
            Verb::Create { .. } if exists => {
                return Err(Refusal::at(
                    Reason::Exists,
                    "/id",
                    format!("the kind \"{name}\" exists already"),
                ));
            }
            _ if operation.if_match.is_some() => self.check_version(KINDS, &name, operation)?,
            _ => {}
        }
        let name: Arc<str> = name.into();
        let body = Json::new(value);
        // What is put as it was is not changed, and so keeps its origin too. A rollback restores the origin of then.
        let restores = matches!(verb, Verb::Restore { .. });
        let origin = match self.base.kinds().get(&name) {
            Some(kind) if kind.document == body && !restores => kind.origin.clone(),
            _ => operation.origin.clone(),
        };
        self.touched.insert((KINDS.into(), name.clone()), (n, origin.clone()));
        self.edit.put_kind(name, Some((body, origin)));
        self.kinds_put = true;
        Ok(())
    }

    /// Makes the kinds that were put take effect, all at once where they come one after the other. A kind may need another one
    /// that a later operation brings: what fails now is judged at the end.
    fn settle_kinds(&mut self) -> Result<(), Refusal> {
        if !std::mem::take(&mut self.kinds_put) {
            return Ok(());
        }
        let work = self
            .edit
            .work_of_kinds(std::mem::replace(&mut self.kinds_settled, true));
        self.has_worked(work)?;
        self.kind_failures = self.edit.settle_kinds(Trust::Given).err().unwrap_or_default();
        Ok(())
    }

    fn has_worked(&mut self, work: usize) -> Result<(), Refusal> {
        self.work += work;
        if self.work > MOST_WORK {
            let detail = format!("more than {MOST_WORK} changes to resources in one write: split it");
            return Err(Refusal::at(Reason::Invalid, "", detail));
        }
        Ok(())
    }

    fn put(
        &mut self,
        n: usize,
        kind: &str,
        id: Arc<str>,
        value: Option<Value>,
        origin: Option<&Arc<str>>,
    ) -> Result<(), Refusal> {
        self.has_worked(1)?;
        let body = value.as_ref().map(Json::new);
        self.touched.insert((kind.into(), id.clone()), (n, origin.cloned()));
        if self.now().document(kind, &id).map(|document| document.body) == body {
            return Ok(());
        }
        let missing = |detail| Refusal::at(Reason::NotFound, "/kind", detail);
        self.edit.put(kind, id, body, value).map_err(missing)
    }

    fn finish(mut self) -> Result<Outcome, Refusal> {
        self.settle_kinds()?;
        self.judge_kinds()?;
        self.judge_restored()?;
        self.judge_dns()?;
        self.settle_names()?;
        self.judge_references()?;
        self.judge_removals()?;
        self.judge_dependencies()?;
        self.judge_contract()?;
        let mut changes = Vec::new();
        for ((kind, id), (_, origin)) in &self.touched {
            let body = |fleet: &Fleet| fleet.document(kind, id).map(|document| document.body);
            let (before, after) = (body(self.base), body(&self.edit.fleet));
            let origin_then = self.base.kinds().get(id).and_then(|kind| kind.origin.as_ref());
            let same_origin = &**kind != KINDS || after.is_none() || origin_then == origin.as_ref();
            if before == after && same_origin {
                continue;
            }
            let rank = match (&**kind, &after) {
                (KINDS, None) => Rank::KindGone,
                (KINDS, Some(_)) => Rank::KindPut,
                (CLUSTERS, _) => Rank::Cluster,
                (DECOMMISSIONS | RELEASED_NAMES, _) => Rank::Name,
                _ => Rank::Definition,
            };
            let unique_in = |fleet: &Fleet| match &**kind {
                CLUSTERS => fleet.cluster(id).map(|cluster| cluster.head().dns_key.to_string()),
                _ => None,
            };
            let unique = unique_in(self.now());
            let keeps_unique = unique == unique_in(self.base);
            let change = Change {
                kind: kind.clone(),
                id: id.clone(),
                before,
                after,
                origin: origin.clone(),
                unique,
                keeps_unique,
            };
            changes.push((rank, change));
        }
        changes.sort_by_key(|(rank, _)| *rank);
        let settled = self.edit.settle();
        let fleet = settled.map_err(|detail| Refusal::new(Reason::Exists, detail))?;
        Ok(Outcome {
            changes: changes.into_iter().map(|(_, change)| change).collect(),
            fleet,
        })
    }

    /// Where the operation that last wrote a resource points for a problem found at the end. Not all of them carry the
    /// document that the problem is in.
    fn blame(&self, kind: &str, id: &str, pointer: &str) -> String {
        let Some((n, _)) = self.touched.get(&(Arc::from(kind), Arc::from(id))) else {
            return if self.rules.batch {
                "/operations".to_owned()
            } else {
                String::new()
            };
        };
        match &self.operations[*n].verb {
            verb @ (Verb::Create { .. }
            | Verb::Replace { .. }
            | Verb::Apply { .. }
            | Verb::Merge { .. }
            | Verb::Restore { .. }) => {
                let pointer = match (verb, self.now().document(kind, id)) {
                    (
                        Verb::Merge {
                            form: patch::Form::Merge,
                            value,
                            ..
                        },
                        Some(merged),
                    ) => as_sent(pointer, &merged.body.parse(), value),
                    _ => pointer.to_owned(),
                };
                let value = if self.rules.batch { "/value" } else { "" };
                format!("{}{value}{pointer}", self.prefix(*n))
            }
            Verb::Delete { .. } | Verb::Assign { .. } | Verb::Unassign { .. } | Verb::Patch { .. } => self.prefix(*n),
        }
    }

    fn touched_ids<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'s Arc<str>> {
        self.touched
            .keys()
            .filter(move |(touched, _)| &**touched == kind)
            .map(|(_, id)| id)
    }

    /// A changed kind must hold for every document stored under it; a kind that goes must not be in use.
    fn judge_kinds(&mut self) -> Result<(), Refusal> {
        let touched: Vec<Arc<str>> = self.touched_ids(KINDS).cloned().collect();
        if touched.is_empty() {
            return Ok(());
        }
        if !self.kind_failures.is_empty() {
            let mut errors = Vec::new();
            for (kind, found) in &self.kind_failures {
                let own = touched.iter().any(|name| **name == **kind);
                errors.extend(found.iter().map(|error| match own {
                    true => Violation::new(self.blame(KINDS, kind, &error.pointer), error.detail.clone()),
                    false => Violation::new(
                        self.blame(KINDS, &touched[0], ""),
                        format!("the kind \"{kind}\": {}", error.detail),
                    ),
                }));
            }
            return Err(Refusal::invalid(errors));
        }
        let before = self.base.kinds().clone();
        let after = self.now().kinds().clone();
        let array = |kinds: &Kinds, name: &str| kinds.get(name).and_then(|kind| kind.references.clone());
        let mut held = false;
        for name in &touched {
            let (old, new) = (array(&before, name), array(&after, name));
            if old != new {
                old.map_or(Ok(()), |array| self.judge_removed_array(name, &array))?;
                held |= new.is_some_and(|array| self.touch_holders(name, &array));
            }
        }
        // A schema may depend on another kind, by `$ref`.
        let changed = after
            .iter()
            .filter(|kind| before.get(&kind.name).is_some_and(|old| !kind.holds_what(old)));
        let mut judged: BTreeSet<Arc<str>> = changed.map(|kind| kind.name.clone()).collect();
        // The clusters' schema has every kind's references, but kinds that come or go need no look at each cluster.
        if !held
            && touched
                .iter()
                .all(|name| before.get(name).is_none() || after.get(name).is_none())
        {
            judged.remove(CLUSTERS);
        }
        let mut errors = Vec::new();
        for name in judged {
            let kind = after.get(&name).expect("judged kinds exist").clone();
            let own = touched.contains(&name);
            self.judge_documents(&kind, own, &touched[0], &mut errors)?;
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(errors))
        }
    }

    /// Holds every document of a kind against its new schema, and brings it to the new defaults.
    fn judge_documents(
        &mut self,
        kind: &Kind,
        own: bool,
        blamed: &str,
        errors: &mut Vec<Violation>,
    ) -> Result<(), Refusal> {
        const MOST: usize = 100;
        let blamed = if own { kind.name.to_string() } else { blamed.to_owned() };
        let pointer = self.blame(KINDS, &blamed, "");
        let operation = self
            .touched
            .get(&(KINDS.into(), Arc::from(blamed.as_str())))
            .map_or(0, |(n, _)| *n);
        for id in self.ids(&kind.name) {
            let Some(document) = self.now().document(&kind.name, &id) else {
                continue;
            };
            let mut value = document.body.parse();
            if own {
                fill_defaults(&kind.schema, &mut value);
            }
            for error in kind.validate(&value) {
                let detail = format!(
                    "{} \"{id}\" would be invalid at {}: {}",
                    kind.singular, error.pointer, error.detail
                );
                errors.push(Violation::new(pointer.clone(), detail));
            }
            if errors.len() >= MOST {
                return Ok(());
            }
            if own && Json::new(&value) != document.body {
                self.put(operation, &kind.name, id, Some(value), None)?;
            }
        }
        Ok(())
    }

    /// What was restored as it was must hold for the kinds as they will be.
    fn judge_restored(&self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for ((kind, id), (n, _)) in &self.touched {
            let restores = matches!(self.operations[*n].verb, Verb::Restore { value: Some(_), .. });
            let (Some(kind), Some(document)) = (self.now().kinds().get(kind), self.now().document(kind, id)) else {
                continue;
            };
            if restores && errors.len() < MOST_VIOLATIONS {
                let found = kind.validate(&document.body.parse()).into_iter();
                errors.extend(found.map(|error| {
                    let detail = format!("{} \"{id}\" as it was: {}", kind.singular, error.detail);
                    Violation::new(self.blame(&kind.name, id, &error.pointer), detail)
                }));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Refusal::invalid(errors)),
        }
    }

    fn ids(&self, kind: &str) -> Vec<Arc<str>> {
        match kind {
            CLUSTERS => self.now().clusters().keys().cloned().collect(),
            kind => {
                let definitions = self.now().definitions(kind);
                definitions
                    .into_iter()
                    .flat_map(|all| all.iter())
                    .map(|one| one.document.id.clone())
                    .collect()
            }
        }
    }

    /// The array of references of a kind goes, with the kind or to another name: empty ones go with it, others are in the way.
    fn judge_removed_array(&mut self, kind: &Arc<str>, array: &str) -> Result<(), Refusal> {
        let operation = self.touched.get(&(KINDS.into(), kind.clone())).map_or(0, |(n, _)| *n);
        let mut holders = holders(self.now(), array);
        if matches!(self.operations[operation].verb, Verb::Restore { .. }) {
            // The fleet as it was may have had such a field before the kind came, where the clusters' schema is open.
            let clusters = self.kind(CLUSTERS)?;
            holders.retain(|(_, value)| !clusters.validate(value).is_empty());
        }
        let (empty, full): (Vec<_>, Vec<_>) = holders.into_iter().partition(|(_, value)| value[array] == json!([]));
        if !full.is_empty() {
            let clusters: Vec<String> = full.into_iter().map(|(id, _)| id.to_string()).collect();
            let detail = format!("clusters still refer to {kind}: {}", some_of(&clusters));
            let mut refusal = Refusal::at(Reason::InUse, &self.blame(KINDS, kind, ""), detail);
            refusal.clusters = clusters;
            return Err(refusal);
        }
        for (id, mut value) in empty {
            value.as_object_mut().and_then(|fields| fields.remove(array));
            self.put(operation, CLUSTERS, id, Some(value), None)?;
        }
        Ok(())
    }

    /// Clusters that had such a field before the kind came, because their schema let it in, are judged as if they were
    /// written. Says whether there are any.
    fn touch_holders(&mut self, kind: &Arc<str>, array: &str) -> bool {
        let operation = self.touched.get(&(KINDS.into(), kind.clone())).map_or(0, |(n, _)| *n);
        let holders = holders(self.base, array);
        for (id, _) in &holders {
            self.touched
                .entry((CLUSTERS.into(), id.clone()))
                .or_insert((operation, None));
        }
        !holders.is_empty()
    }

    /// A cluster that has a DNS name ends the decommission of that name, and what is remembered of it. A name that no cluster
    /// has any more is remembered with what it was told until now, unless it is decommissioned.
    fn settle_names(&mut self) -> Result<(), Refusal> {
        let now = self.now();
        let mut settled: Vec<(&str, Arc<str>, Option<Value>)> = Vec::new();
        for id in self.touched_ids(CLUSTERS) {
            if let Some(cluster) = now.cluster(id) {
                let dns = &cluster.head().dns_key;
                let ended = [DECOMMISSIONS, RELEASED_NAMES].into_iter();
                let ended = ended.filter(|kind| now.document(kind, dns).is_some());
                settled.extend(ended.map(|kind| (kind, dns.clone(), None)));
            }
            if let Some(served) = self.base.cluster(id) {
                let dns = &served.head().dns_key;
                let is_released = now.cluster_at(dns).is_none() && !now.decommissions().contains_key(dns);
                let document = is_released.then(|| released::document(self.base, served)).flatten();
                settled.extend(document.map(|document| (RELEASED_NAMES, dns.clone(), Some(document))));
            }
        }
        for (kind, dns, document) in settled {
            self.put(0, kind, dns, document, None)?;
        }
        Ok(())
    }

    fn judge_dns(&mut self) -> Result<(), Refusal> {
        let renamed = self.touched_ids(CLUSTERS).find(|id| {
            let dns = |fleet: &Fleet| fleet.cluster(id).map(|cluster| cluster.head().dns_key.clone());
            let protected = self.base.cluster(id).is_some_and(|cluster| cluster.head().protected);
            protected && dns(self.base) != dns(self.now())
        });
        if let Some(id) = renamed {
            // Whoever takes the name next would decide what the cluster behind it is told.
            let detail =
                format!("cluster \"{id}\" is protected and keeps its DNS name: set \"protected\" to false first");
            let mut refusal = Refusal::at(Reason::Protected, &self.blame(CLUSTERS, id, "/cluster_dns"), detail);
            refusal.clusters.push(id.to_string());
            return Err(refusal);
        }
        self.edit.settle_dns();
        let clashes = self.edit.dns_clashes();
        let Some((cluster, holder)) = clashes.first() else {
            return Ok(());
        };
        let (id, other) = (&cluster.document().id, &holder.document().id);
        let detail = format!("the DNS name {} belongs to cluster \"{other}\"", cluster.head().dns);
        let mut refusal = Refusal::at(Reason::Exists, &self.blame(CLUSTERS, id, "/cluster_dns"), detail);
        refusal.clusters.push(other.to_string());
        Err(refusal)
    }

    /// Each reference that the write adds must be to something that is there, and none may be there twice.
    fn judge_references(&mut self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        let mut twice = Vec::new();
        let kinds = self.now().kinds().clone();
        let touched: Vec<_> = self.touched_ids(CLUSTERS).cloned().collect();
        for id in &touched {
            let Some(after) = self.edit.cluster_value(id) else {
                continue;
            };
            // Looked at only for a reference that dangles, which is rare.
            let before = LazyCell::new(|| self.base.cluster(id).map(|cluster| cluster.document().body.parse()));
            for kind in kinds.definitions() {
                let array = kind.references.as_deref().expect("definitions have references");
                let is_old = |target: &str| {
                    let before = before.as_ref().map_or(&[][..], |before| references(kind, before));
                    before.iter().any(|reference| reference_id(reference) == target)
                };
                let mut seen = BTreeSet::new();
                for (n, reference) in references(kind, &after).iter().enumerate() {
                    let target = reference_id(reference);
                    let pointer = || self.blame(CLUSTERS, id, &format!("{}/{n}/id", segment(array)));
                    if !seen.insert(target) {
                        let detail = format!("cluster \"{id}\" refers to the {} \"{target}\" twice", kind.singular);
                        twice.push((id.to_string(), Violation::new(pointer(), detail)));
                    }
                    let exists = self
                        .now()
                        .definitions(&kind.name)
                        .is_some_and(|all| all.get(target).is_some());
                    let dangled = || {
                        let then = self.dangling_then(CLUSTERS, id);
                        then.is_some_and(|then| then.refers(id, &kind.name, target))
                    };
                    if !exists && !self.rules.allow_dangling && !is_old(target) && !dangled() {
                        errors.push(Violation::new(
                            pointer(),
                            format!("there is no {} \"{target}\"", kind.singular),
                        ));
                    }
                }
            }
        }
        if !errors.is_empty() {
            return Err(Refusal::invalid(errors));
        }
        contract(twice)
    }

    /// What dangled in the state that a resource is restored from. None: an ordinary write put it.
    fn dangling_then(&self, kind: &str, id: &str) -> Option<&Dangling> {
        let (n, _) = self.touched.get(&(kind.into(), id.into()))?;
        match &self.operations[*n].verb {
            Verb::Restore { dangled, .. } => Some(dangled),
            _ => None,
        }
    }

    /// What is removed must not be referred to any more, by clusters or by other definitions. A rollback may remove what was
    /// referred to without being there.
    fn judge_removals(&self) -> Result<(), Refusal> {
        for (kind, id) in self.touched.keys() {
            let (Some(definitions), Some(kind)) = (self.now().definitions(kind), self.now().kinds().get(kind)) else {
                continue;
            };
            if definitions.get(id).is_some() || self.base.document(&kind.name, id).is_none() {
                continue;
            }
            let pointer = self.blame(&kind.name, id, "");
            let then = self.dangling_then(&kind.name, id);
            let dangled = |user: &str| then.is_some_and(|then| then.refers(user, &kind.name, id));
            let users = definitions.users(id).filter(|user| !dangled(user));
            let users: Vec<String> = users.map(|user| user.to_string()).collect();
            if !users.is_empty() {
                let count = users.len();
                let detail = format!(
                    "{} \"{id}\" is in use on {count} cluster{}: {}; cascade=true removes those references too",
                    kind.singular,
                    if count == 1 { "" } else { "s" },
                    some_of(&users)
                );
                let mut refusal = Refusal::at(Reason::InUse, &pointer, detail);
                refusal.clusters = users;
                return Err(refusal);
            }
            let Some(field) = &kind.flux.depends_on else { continue };
            let depends = |one: &&Arc<crate::snapshot::Definition>| {
                let dangled = || then.is_some_and(|then| then.depends(&one.document.id, &kind.name, id));
                strings(&one.value()[field]).any(|dependency| dependency == &**id) && !dangled()
            };
            let dependents: Vec<_> = definitions
                .iter()
                .filter(depends)
                .map(|one| &*one.document.id)
                .collect();
            if !dependents.is_empty() {
                let detail = format!(
                    "{} \"{id}\" is what others depend on: {}",
                    kind.singular,
                    some_of(&dependents)
                );
                return Err(Refusal::at(Reason::InUse, &pointer, detail));
            }
        }
        Ok(())
    }

    /// Dependencies exist and have no cycles.
    fn judge_dependencies(&self) -> Result<(), Refusal> {
        // Of each circle, however long.
        const TOLD: usize = 5;
        let mut errors = Vec::new();
        for (kind, id) in self.touched.keys() {
            let (Some(all), Some(kind)) = (self.now().definitions(kind), self.now().kinds().get(kind)) else {
                continue;
            };
            let (Some(field), Some(definition)) = (&kind.flux.depends_on, all.get(id)) else {
                continue;
            };
            let old = self
                .base
                .document(&kind.name, id)
                .map_or(Value::Null, |document| document.body.parse());
            let old: BTreeSet<&str> = strings(&old[field]).collect();
            let then = self.dangling_then(&kind.name, id);
            let dangled = |dependency: &str| then.is_some_and(|then| then.depends(id, &kind.name, dependency));
            for (n, dependency) in strings(&definition.value()[field]).enumerate() {
                let mut problem = |detail: String| {
                    let pointer = format!("{}/{n}", segment(field));
                    errors.push(Violation::new(self.blame(&kind.name, id, &pointer), detail));
                };
                if dependency == &**id {
                    problem(format!("{} \"{id}\" depends on itself", kind.singular));
                } else if all.get(dependency).is_none() && !old.contains(dependency) && !dangled(dependency) {
                    problem(format!("there is no {} \"{dependency}\"", kind.singular));
                }
            }
        }
        for kind in self.now().kinds().definitions() {
            let (Some(all), Some(field)) = (self.now().definitions(&kind.name), &kind.flux.depends_on) else {
                continue;
            };
            for group in circles(all, field, self.touched_ids(&kind.name)) {
                let is_touched = |id: &&&str| self.touched.contains_key(&(kind.name.clone(), Arc::from(**id)));
                // An old one, from before the kind knew of dependencies, is nobody's fault here.
                for id in group.iter().filter(is_touched).take(TOLD) {
                    let way = way_around(all, field, &group, id);
                    let value = all.get(id).map(|definition| &definition.value()[field]);
                    let n = value.and_then(|value| strings(value).position(|dependency| dependency == way[1]));
                    let pointer = format!("{}/{}", segment(field), n.unwrap_or_default());
                    let detail = format!("a cycle: {}", shorten(way.join(" → "), 1000));
                    errors.push(Violation::new(self.blame(&kind.name, id, &pointer), detail));
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(errors))
        }
    }

    /// No cluster's reply may break the ExternalService contract.
    fn judge_contract(&self) -> Result<(), Refusal> {
        let mut breaches = Vec::new();
        let mut judge = |id: &Arc<str>, kind: &Kind, pointer: &dyn Fn() -> String| {
            let Some(cluster) = self.now().cluster(id) else { return };
            if let Some(breach) = self.now().breach(cluster, kind) {
                let detail = format!(
                    "cluster \"{id}\", {}: {breach}",
                    kind.path.as_deref().unwrap_or_default()
                );
                breaches.push((id.to_string(), Violation::new(pointer(), detail)));
            }
        };
        for id in self.touched_ids(CLUSTERS) {
            for kind in self.now().kinds().definitions() {
                judge(id, kind, &|| self.blame(CLUSTERS, id, ""));
            }
        }
        for (name, clusters) in self.edit.dirty() {
            let Some(kind) = self.now().kinds().get(name) else {
                continue;
            };
            let by_definition = self.touched_ids(name).next().map(|id| self.blame(name, id, ""));
            let blamed = by_definition.unwrap_or_else(|| self.blame(KINDS, name, ""));
            for id in clusters {
                judge(id, kind, &|| blamed.clone());
            }
        }
        contract(breaches)
    }
}

/// Where a place in a merged document stands in the patch that was merged: references keep their ids, not their places.
fn as_sent(pointer: &str, merged: &Value, patch: &Value) -> String {
    let translated = || {
        let (array, rest) = pointer.strip_prefix('/')?.split_once('/')?;
        let (place, rest) = rest.split_once('/').map_or((rest, ""), |(place, rest)| (place, rest));
        let reference = merged.get(array)?.get(place.parse::<usize>().ok()?)?;
        let id = Some(reference_id(reference)).filter(|id| !id.is_empty())?;
        let sent = patch
            .get(array)?
            .as_array()?
            .iter()
            .position(|item| reference_id(item) == id)?;
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!("/{rest}")
        };
        Some(format!("/{array}/{sent}{rest}"))
    };
    translated().unwrap_or_else(|| pointer.to_owned())
}

fn contract(mut breaches: Vec<(String, Violation)>) -> Result<(), Refusal> {
    const MOST: usize = 100;
    let Some((_, first)) = breaches.first() else {
        return Ok(());
    };
    let detail = match breaches.len() {
        1 => first.detail.clone(),
        more => format!(
            "{more} replies would break the contract with Flux; the first: {}",
            first.detail
        ),
    };
    breaches.truncate(MOST);
    let (clusters, errors) = breaches.into_iter().unzip();
    Err(Refusal {
        errors,
        clusters,
        ..Refusal::new(Reason::Contract, detail)
    })
}

/// Clusters that have a field of this name, each with its document.
fn holders(fleet: &Fleet, field: &str) -> Vec<(Arc<str>, Value)> {
    let quoted = Json::new(&field.into());
    let clusters = fleet.clusters().values().map(|cluster| cluster.document());
    // The text is looked through first: parsing every document of a large fleet takes seconds.
    let mentions = clusters.filter(|document| document.body.as_str().contains(quoted.as_str()));
    let documents = mentions.map(|document| (document.id.clone(), document.body.parse()));
    documents.filter(|(_, value)| value.get(field).is_some()).collect()
}

fn own_id(kind: &Kind, value: &Value) -> Option<String> {
    let name = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let fallback = || {
        if &*kind.name == CLUSTERS {
            name("cluster_name")
        } else {
            None
        }
    };
    name("id").or_else(|| name("_id")).or_else(fallback)
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The groups of definitions that depend on each other in circles, as far as they can be reached from `starts`. Tarjan's way: each
/// definition is looked at once, however many depend on it.
fn circles<'a>(
    all: &'a crate::snapshot::Definitions,
    field: &str,
    starts: impl Iterator<Item = &'a Arc<str>>,
) -> Vec<BTreeSet<&'a str>> {
    let open = |id: &str| {
        let definition = all.get(id)?;
        Some((&*definition.document.id, strings(&definition.value()[field])))
    };
    let mut found = Vec::new();
    // When each was met first, and the earliest that can be reached from it among those that belong to no group yet.
    let mut met: HashMap<&str, usize> = HashMap::new();
    let mut earliest: HashMap<&str, usize> = HashMap::new();
    let mut ungrouped: Vec<&str> = Vec::new();
    for start in starts {
        let mut way = Vec::new();
        let mut next = open(start).filter(|(id, _)| !met.contains_key(id));
        loop {
            if let Some((id, dependencies)) = next.take() {
                let number = met.len();
                met.insert(id, number);
                earliest.insert(id, number);
                ungrouped.push(id);
                way.push((id, dependencies));
            }
            let Some((here, dependencies)) = way.last_mut() else {
                break;
            };
            let here = *here;
            if let Some(dependency) = dependencies.next() {
                match earliest.get(dependency).copied() {
                    Some(other) => {
                        earliest.entry(here).and_modify(|own| *own = other.min(*own));
                    }
                    None if met.contains_key(dependency) => {}
                    None => next = open(dependency),
                }
                continue;
            }
            way.pop();
            let own = earliest.get(here).copied().unwrap_or_default();
            if let Some((parent, _)) = way.last() {
                earliest
                    .entry(parent)
                    .and_modify(|parents| *parents = own.min(*parents));
            }
            if met.get(here) == Some(&own) {
                let begins = ungrouped.iter().rposition(|id| *id == here).unwrap_or_default();
                let group: BTreeSet<&str> = ungrouped.drain(begins..).collect();
                for id in &group {
                    earliest.remove(id);
                }
                if group.len() > 1 {
                    found.push(group);
                }
            }
        }
    }
    found
}

/// A way from a definition back to itself, within its group.
fn way_around<'a>(
    all: &'a crate::snapshot::Definitions,
    field: &str,
    group: &BTreeSet<&'a str>,
    id: &'a str,
) -> Vec<&'a str> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut open = vec![id];
    while let Some(here) = open.pop() {
        let value = all.get(here).map(|definition| &definition.value()[field]);
        for next in value
            .into_iter()
            .flat_map(strings)
            .filter_map(|next| group.get(next).copied())
        {
            if next == id && here != id {
                let mut way = vec![id, here];
                while let Some(previous) = came_from.get(way[way.len() - 1]) {
                    way.push(previous);
                }
                way.reverse();
                return way;
            }
            if next != id && !came_from.contains_key(next) {
                came_from.insert(next, here);
                open.push(next);
            }
        }
    }
    vec![id, id]
}
