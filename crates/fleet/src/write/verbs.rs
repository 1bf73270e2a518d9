//! What each verb does to resources that are not kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::documents::own_id;
use super::{Draft, Fault};
use crate::identity::IDENTITIES;
use crate::json::Json;
use crate::kind::{self, CLUSTERS, EXCLUDED, KINDS, Kind, PROFILES, ROLLOUTS};
use crate::operation::{Target, Verb};
use crate::patch::{self, Form, References};
use crate::profile::Profile;
use crate::refusal::{Reason, Refusal, quote};
use crate::selector::Selector;
use crate::snapshot::Fleet;

impl Draft<'_> {
    /// Runs the current operation.
    pub(super) fn run(&mut self) -> Result<(), Fault> {
        let operation = self.operation();
        let name = operation.kind.as_str();
        if name == KINDS {
            return self.run_on_kinds();
        }
        self.settle_kinds()?;
        if name == IDENTITIES {
            return self.run_on_identities();
        }
        if let Some(singular) = kind::name_record(name) {
            return self.run_on_names(name, singular);
        }
        let kind = self.kind(name)?;
        if name == ROLLOUTS {
            return self.run_on_rollouts(&kind);
        }
        match &operation.verb {
            Verb::Create { id, value } => self.create(&kind, id.as_deref(), value),
            Verb::Replace { id, value } => self.replace(&kind, id, value),
            Verb::Apply { id, value } => self.apply(&kind, id.as_deref(), value),
            Verb::Merge { on, form, value } => {
                if let Target::Id(id) = on {
                    self.check_version(name, id)?;
                }
                let ids = self.targets(on)?;
                ids.iter().try_for_each(|id| self.merge(&kind, id, *form, value))
            }
            Verb::Restore { id, value, .. } => self.restore(&kind, id, value.as_ref()),
            Verb::Delete { id, cascade } => {
                self.check_version(name, id)?;
                self.delete(&kind, id, *cascade)
            }
            Verb::Assign { id, on, value } => self.assign(&kind, id, on, value),
            Verb::Unassign { id, on, drop_patches } => self.unassign(&kind, id, on, *drop_patches),
            Verb::Patch { id, on, set, unset } => self.patch(&kind, id, on, set, unset),
            Verb::Step { .. } => {
                let detail = format!("{name} have no waves: only rollouts do");
                Err(Refusal::at(Reason::Invalid, "/kind", detail).into())
            }
            Verb::IssueToken { .. } | Verb::RevokeToken { .. } | Verb::Register { .. } => {
                let detail = format!("{name} have no tokens: only identities do");
                Err(Refusal::at(Reason::Invalid, "/kind", detail).into())
            }
        }
    }

    /// Decommissions and released names are made by writes to clusters; a request can only delete one.
    fn run_on_names(&mut self, name: &str, singular: &str) -> Result<(), Fault> {
        let Verb::Delete { id, .. } = &self.operation().verb else {
            let detail = format!("a {singular} can only be deleted");
            return Err(Refusal::at(Reason::Invalid, "/op", detail).into());
        };
        self.check_version(name, id)?;
        Ok(self.put(name, id.to_ascii_lowercase().into(), None)?)
    }

    fn create(&mut self, kind: &Kind, id: Option<&str>, value: &Value) -> Result<(), Fault> {
        let mut value = value.clone();
        let id = self.complete(kind, id, &mut value).map_err(Fault::Value)?;
        if self.now().document(&kind.name, &id).is_some() {
            let detail = format!("{} \"{id}\" already exists", kind.singular);
            return Err(Refusal::at(Reason::Exists, "/id", detail).into());
        }
        self.put_as_sent(kind, id, value)
    }

    fn replace(&mut self, kind: &Kind, id: &str, value: &Value) -> Result<(), Fault> {
        self.check_version(&kind.name, id)?;
        let mut value = value.clone();
        if &*kind.name == CLUSTERS {
            if self.operation().keep_missing {
                self.keep_left_out(id, &mut value);
            }
            self.check_left_out(id, &value)?;
        }
        let id = self.complete(kind, Some(id), &mut value).map_err(Fault::Value)?;
        self.put_as_sent(kind, id, value)
    }

    fn apply(&mut self, kind: &Kind, id: Option<&str>, value: &Value) -> Result<(), Fault> {
        let given = id.map(str::to_owned).or_else(|| own_id(kind, value));
        let given = given.unwrap_or_default();
        if self.now().document(&kind.name, &given).is_some() || self.operation().if_match.is_some() {
            return self.replace(kind, &given, value);
        }
        let mut value = value.clone();
        let id = self.complete(kind, id, &mut value).map_err(Fault::Value)?;
        self.put_as_sent(kind, id, value)
    }

    /// A restored document is checked at the end, against the kinds as they will be: a kind that was added since may be removed by
    /// the same write.
    fn restore(&mut self, kind: &Kind, id: &str, value: Option<&Value>) -> Result<(), Fault> {
        match value {
            Some(value) => self.put_as_sent(kind, id.into(), value.clone()),
            None if self.now().document(&kind.name, id).is_some() => self.delete(kind, id, false),
            None => Ok(()),
        }
    }

    fn put_as_sent(&mut self, kind: &Kind, id: Arc<str>, value: Value) -> Result<(), Fault> {
        let origin = self.operation().origin.clone();
        Ok(self.put_from(&kind.name, id, Some(value), origin)?)
    }

    /// Merges a patch into one resource.
    pub(super) fn merge(&mut self, kind: &Kind, id: &str, form: Form, patch: &Value) -> Result<(), Fault> {
        let present = match &*kind.name {
            CLUSTERS => self.edit.cluster_value(id),
            name => self
                .now()
                .document(name, id)
                .map(|document| Arc::new(document.body.parse())),
        };
        let Some(present) = present else {
            return Err(self.not_found(&kind.name, id).into());
        };
        if form == Form::Merge && &*kind.name == CLUSTERS {
            self.check_null_references(&present, patch)?;
        }
        let kinds = self.now().kinds();
        let definitions = kinds
            .definitions()
            .filter(|_| [CLUSTERS, PROFILES].contains(&&*kind.name));
        let arrays = definitions.filter_map(|kind| {
            let (array, carried) = (kind.references.as_deref()?, &kind.flux.carried);
            Some(References { array, carried })
        });
        let arrays: Vec<References<'_>> = arrays.collect();
        let mut merged = Value::clone(&present);
        patch::apply(form, &arrays, &mut merged, patch).map_err(Fault::Value)?;
        if merged.get("id").is_none() {
            return Err(Fault::value("/id", "the id cannot be removed"));
        }
        match self.complete(kind, Some(id), &mut merged) {
            Ok(id) => Ok(self.put(&kind.name, id, Some(merged))?),
            Err(errors) if form == Form::Merge => Err(Fault::Merged { errors, merged }),
            Err(errors) => Err(Fault::Value(errors)),
        }
    }

    pub(super) fn delete(&mut self, kind: &Kind, id: &str, cascade: bool) -> Result<(), Fault> {
        if &*kind.name == CLUSTERS {
            return Ok(self.delete_cluster(id)?);
        }
        if cascade && kind.references.is_some() {
            self.remove_references(kind, id)?;
        }
        Ok(self.put(&kind.name, id.into(), None)?)
    }

    /// Removes the references to a definition, and its patches, from every cluster and profile.
    fn remove_references(&mut self, kind: &Kind, id: &str) -> Result<(), Fault> {
        let array = kind.references.as_deref().expect("definitions have references");
        let definitions = self.now().definitions(&kind.name);
        let users = definitions.map(|all| self.now().ids(all.users(id)));
        let mut users: BTreeSet<Arc<str>> = users.into_iter().flatten().collect();
        if kind.flux.patches {
            users.extend(self.patched(id));
        }
        let patch = unassignment(array, id, kind.flux.patches);
        let clusters = self.kind(CLUSTERS)?;
        let mut users = users.iter();
        users.try_for_each(|cluster| self.merge(&clusters, cluster, Form::Merge, &patch))?;
        let is_patched = |profile: &Profile| kind.flux.patches && profile.value()["patches"].get(id).is_some();
        let profiles = self.now().profiles().iter();
        let profiles = profiles.filter(|profile| profile.refers_to(kind, id) || is_patched(profile));
        let profiles: Vec<_> = profiles.cloned().collect();
        let kind_of_profiles = self.kind(PROFILES)?;
        profiles.iter().try_for_each(|profile| {
            let patch = unassignment(array, id, is_patched(profile));
            self.merge(&kind_of_profiles, profile.id(), Form::Merge, &patch)
        })
    }

    /// Clusters that have patches for a definition, assigned or not.
    fn patched(&self, id: &str) -> Vec<Arc<str>> {
        let quoted = Json::new(&id.into());
        let clusters = self.now().clusters().values();
        let mentions = clusters.filter(|cluster| cluster.document().body.as_str().contains(quoted.as_str()));
        let patched = mentions.filter(|cluster| cluster.document().body.parse()["patches"].get(id).is_some());
        patched.map(|cluster| cluster.document().id.clone()).collect()
    }

    fn assign(&mut self, kind: &Kind, id: &str, on: &Target, value: &Map<String, Value>) -> Result<(), Fault> {
        let array = reference_array(kind)?;
        let mut reference = value.clone();
        if reference.contains_key("$patch") {
            return Err(Fault::value(
                "/$patch",
                "assign cannot remove a reference: use unassign",
            ));
        }
        reference.insert("id".into(), id.into());
        // What was excluded is not, once it is assigned.
        reference.entry(EXCLUDED).or_insert(Value::Null);
        // What a profile brings stays as profiles say, but for what is given.
        let mut brought = reference.clone();
        for field in kind.flux.carried.keys() {
            brought.entry(field).or_insert(Value::Null);
        }
        self.edit.settle_profiles();
        let [plain, brought] = [reference, brought].map(|reference| json!({ array: [reference] }));
        self.on_clusters(on, |now, cluster| match now.is_only_brought(kind, id, cluster) {
            true => &brought,
            false => &plain,
        })
    }

    fn unassign(&mut self, kind: &Kind, id: &str, on: &Target, drop_patches: bool) -> Result<(), Fault> {
        let array = reference_array(kind)?;
        let patch = unassignment(array, id, drop_patches && kind.flux.patches);
        self.on_clusters(on, |_, _| &patch)
    }

    fn patch(
        &mut self,
        kind: &Kind,
        id: &str,
        on: &Target,
        set: &Map<String, Value>,
        unset: &[String],
    ) -> Result<(), Fault> {
        reference_array(kind)?;
        if !kind.flux.patches {
            let detail = format!("{} do not support patches", kind.name);
            return Err(Refusal::at(Reason::Invalid, "/kind", detail).into());
        }
        if self.now().document(&kind.name, id).is_none() {
            let detail = format!("there is no {} \"{id}\"", kind.singular);
            return Err(Refusal::at(Reason::Invalid, "/id", detail).into());
        }
        let mut values = set.clone();
        values.extend(unset.iter().map(|key| (key.clone(), Value::Null)));
        let patch = json!({"patches": { id: values }});
        self.on_clusters(on, |_, _| &patch)
    }

    /// Merges a patch into each cluster of a target.
    fn on_clusters<'p>(&mut self, on: &Target, patch: impl Fn(&Fleet, &str) -> &'p Value) -> Result<(), Fault> {
        let kind = self.kind(CLUSTERS)?;
        if let Target::Id(id) = on {
            if self.now().cluster(id).is_none() {
                let detail = format!("there is no cluster \"{id}\"");
                return Err(Refusal::at(Reason::NotFound, "/cluster", detail).into());
            }
            self.check_version(CLUSTERS, id)?;
        }
        let ids = self.targets(on)?;
        ids.iter().try_for_each(|id| {
            let patch = patch(self.now(), id);
            self.merge(&kind, id, Form::Merge, patch)
        })
    }

    fn targets(&mut self, on: &Target) -> Result<Vec<Arc<str>>, Refusal> {
        let selector = match on {
            Target::Id(id) => return Ok(vec![id.as_str().into()]),
            Target::Selector(selector) => selector,
        };
        let refuse = |detail: String| Refusal::at(Reason::Invalid, "/selector", detail);
        let selector = Selector::for_fleet(selector, self.now()).map_err(|error| refuse(error.to_string()))?;
        let clusters_per_work = if selector.reads_documents() { 16 } else { 256 };
        self.count_work(self.now().clusters().len() / clusters_per_work)?;
        let selected = selector.select(self.now());
        let ids: Vec<_> = selected.map(|cluster| cluster.document().id.clone()).collect();
        match ids.is_empty() {
            true => {
                let selector = selector.to_string();
                Err(refuse(format!("\"{}\" matches no cluster", quote(&selector))))
            }
            false => Ok(ids),
        }
    }

    /// Checks that a resource exists, in the version that the current operation asks for.
    pub(super) fn check_version(&self, kind: &str, id: &str) -> Result<(), Refusal> {
        let Some(document) = self.now().document(kind, id) else {
            return Err(self.not_found(kind, id));
        };
        match &self.operation().if_match {
            Some(versions) if !versions.accepts(document.etag) => {
                let detail = format!("\"{id}\" is now at version {}, not the one in If-Match", document.etag);
                Err(Refusal::at(Reason::Stale, "/if_match", detail))
            }
            _ => Ok(()),
        }
    }
}

/// The clusters' array of references to a kind.
fn reference_array(kind: &Kind) -> Result<&str, Refusal> {
    let none = || {
        let detail = format!("clusters cannot refer to {}", kind.name);
        Refusal::at(Reason::Invalid, "/kind", detail)
    };
    kind.references.as_deref().ok_or_else(none)
}

/// The patch that removes a reference from a cluster, and its patches too if asked.
fn unassignment(array: &str, id: &str, drop_patches: bool) -> Value {
    let mut patch = json!({ array: [{"id": id, "$patch": "delete"}] });
    if drop_patches {
        patch["patches"] = json!({ id: null });
    }
    patch
}
