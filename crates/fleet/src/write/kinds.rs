//! Operations on kinds, and what a changed kind means for the documents that are stored under it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::checks::invalid_unless_empty;
use super::documents::check_depth;
use super::{Draft, Fault, Touch};
use crate::json::Json;
use crate::kind::schema::fill_defaults;
use crate::kind::{self, CLUSTERS, KINDS, Kind, Kinds, PROFILES, Trust};
use crate::operation::Verb;
use crate::refusal::{Reason, Refusal, Violation, some_of};
use crate::snapshot::Fleet;

impl Draft<'_> {
    /// Runs the current operation, which is about a kind.
    pub(super) fn run_on_kinds(&mut self) -> Result<(), Fault> {
        match &self.operation().verb {
            Verb::Create { id, value } | Verb::Apply { id, value } => self.put_kind(id.as_deref(), value),
            Verb::Replace { id, value }
            | Verb::Restore {
                id, value: Some(value), ..
            } => self.put_kind(Some(id), value),
            Verb::Delete { id, .. } | Verb::Restore { id, value: None, .. } => Ok(self.delete_kind(id)?),
            _ => Err(Refusal::at(
                Reason::Invalid,
                "/op",
                "a kind can only be created, replaced, applied or deleted",
            )
            .into()),
        }
    }

    fn put_kind(&mut self, id: Option<&str>, value: &Value) -> Result<(), Fault> {
        let name = check_kind_document(id, value).map_err(Fault::Value)?;
        let operation = self.operation();
        let exists = self.now().document(KINDS, &name).is_some();
        if exists && matches!(operation.verb, Verb::Create { .. }) {
            let detail = format!("the kind \"{name}\" already exists");
            return Err(Refusal::at(Reason::Exists, "/id", detail).into());
        }
        if operation.if_match.is_some() {
            self.check_version(KINDS, &name)?;
        }
        let name: Arc<str> = name.into();
        let body = Json::new(value);
        // Putting the same document again changes nothing, so the origin stays too. A rollback restores the earlier origin.
        let restores = matches!(operation.verb, Verb::Restore { .. });
        let origin = match self.base.kinds().get(&name) {
            Some(kind) if kind.document == body && !restores => kind.origin.clone(),
            _ => operation.origin.clone(),
        };
        self.mark_touched(KINDS, name.clone(), origin.clone());
        self.edit.put_kind(name, Some((body, origin)));
        self.kinds_pending = true;
        Ok(())
    }

    fn delete_kind(&mut self, id: &str) -> Result<(), Refusal> {
        if kind::is_server_kind(id) {
            let detail = format!("the kind \"{id}\" is a part of the server and cannot be deleted");
            return Err(Refusal::at(Reason::InUse, "/id", detail));
        }
        self.check_version(KINDS, id)?;
        if id == CLUSTERS {
            let detail = "the kind \"clusters\" cannot be deleted";
            return Err(Refusal::at(Reason::InUse, "/id", detail));
        }
        // Checked now and not at the end: the definitions of a kind are gone once the kind is.
        let left = self.ids(id);
        if !left.is_empty() {
            let detail = format!("the kind \"{id}\" still has resources: {}", some_of(&left));
            return Err(Refusal::at(Reason::InUse, "/id", detail));
        }
        self.mark_touched(KINDS, id.into(), None);
        self.edit.put_kind(id.into(), None);
        self.kinds_pending = true;
        Ok(())
    }

    /// Puts pending kinds into effect, all consecutive ones at once. A kind may need another one that a later operation adds, so
    /// failures are only reported at the end.
    pub(super) fn settle_kinds(&mut self) -> Result<(), Refusal> {
        if !std::mem::take(&mut self.kinds_pending) {
            return Ok(());
        }
        let again = std::mem::replace(&mut self.kinds_settled, true);
        self.count_work(self.edit.work_of_kinds(again))?;
        self.kind_failures = self.edit.settle_kinds(Trust::Given).err().unwrap_or_default();
        Ok(())
    }

    /// Checks that the kinds fit together, that every stored document is valid under a changed kind, and that a removed kind is
    /// not in use.
    pub(super) fn check_kinds(&mut self) -> Result<(), Refusal> {
        let touched: Vec<Arc<str>> = self.touched_ids(KINDS).cloned().collect();
        let Some(first) = touched.first() else {
            return Ok(());
        };
        self.check_kind_failures(&touched, first)?;
        let (before, after) = (self.base.kinds().clone(), self.now().kinds().clone());
        let array = |kinds: &Kinds, name: &str| kinds.get(name).and_then(|kind| kind.references.clone());
        let mut clusters_hold_array = false;
        for name in &touched {
            let (old, new) = (array(&before, name), array(&after, name));
            if old != new {
                old.map_or(Ok(()), |array| self.remove_array(name, &array))?;
                clusters_hold_array |= new.is_some_and(|array| self.touch_holders(name, &array));
            }
        }
        let is_changed = |kind: &&Arc<Kind>| before.get(&kind.name).is_some_and(|old| !kind.accepts_all_of(old));
        // Not only the touched ones: a schema may depend on another kind by `$ref`.
        let mut changed: BTreeSet<Arc<str>> = after.iter().filter(is_changed).map(|kind| kind.name.clone()).collect();
        // The clusters' schema has the references of every kind, but a kind that is added or removed leaves clusters valid.
        let is_added_or_removed = |name: &Arc<str>| before.get(name).is_none() || after.get(name).is_none();
        if !clusters_hold_array && touched.iter().all(is_added_or_removed) {
            changed.remove(CLUSTERS);
            changed.remove(PROFILES);
        }
        let mut errors = Vec::new();
        for name in changed {
            let kind = after.get(&name).expect("changed kinds exist").clone();
            let is_touched = touched.contains(&name);
            self.check_documents(&kind, is_touched, first, &mut errors)?;
        }
        invalid_unless_empty(errors)
    }

    /// Reports kinds that could not be put into effect. `first` is blamed for kinds that this write did not touch.
    fn check_kind_failures(&self, touched: &[Arc<str>], first: &str) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for (kind, found) in &self.kind_failures {
            let is_touched = touched.iter().any(|name| **name == **kind);
            errors.extend(found.iter().map(|error| match is_touched {
                true => Violation::new(self.blame(KINDS, kind, &error.pointer), error.detail.clone()),
                false => {
                    let detail = format!("the kind \"{kind}\": {}", error.detail);
                    Violation::new(self.blame(KINDS, first, ""), detail)
                }
            }));
        }
        invalid_unless_empty(errors)
    }

    /// Checks every document of a changed kind against the new schema. If the kind itself was put, its documents also get the new
    /// defaults. `first` is blamed otherwise.
    fn check_documents(
        &mut self,
        kind: &Kind,
        is_touched: bool,
        first: &str,
        errors: &mut Vec<Violation>,
    ) -> Result<(), Refusal> {
        const MOST: usize = 100;
        let blamed = if is_touched { &*kind.name } else { first };
        let pointer = self.blame(KINDS, blamed, "");
        self.current = self.operation_on_kind(blamed);
        for id in self.ids(&kind.name) {
            let Some(document) = self.now().document(&kind.name, &id) else {
                continue;
            };
            let mut value = document.body.parse();
            if is_touched {
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
            if is_touched && Json::new(&value) != document.body {
                self.put(&kind.name, id, Some(value))?;
            }
        }
        Ok(())
    }

    /// Removes the array of references of a kind that is removed or renames its array. Empty arrays are dropped; others block the
    /// write.
    fn remove_array(&mut self, kind: &Arc<str>, array: &str) -> Result<(), Refusal> {
        self.current = self.operation_on_kind(kind);
        let mut holders = holders(self.now(), array);
        if matches!(self.operation().verb, Verb::Restore { .. }) {
            // If the clusters' schema is open, the restored fleet may have had such a field before the kind existed.
            let clusters = self.kind(CLUSTERS)?;
            holders.retain(|(_, value)| !clusters.validate(value).is_empty());
        }
        self.remove_array_of_profiles(kind, array)?;
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
            self.put(CLUSTERS, id, Some(value))?;
        }
        Ok(())
    }

    /// The same for the array in profiles.
    fn remove_array_of_profiles(&mut self, kind: &Arc<str>, array: &str) -> Result<(), Refusal> {
        let profiles = self.now().profiles().iter();
        let holders: Vec<_> = profiles
            .filter(|profile| profile.value().get(array).is_some())
            .cloned()
            .collect();
        let full = holders.iter().filter(|profile| profile.value()[array] != json!([]));
        let full: Vec<&str> = full.map(|profile| &**profile.id()).collect();
        if !full.is_empty() {
            let detail = format!("profiles still refer to {kind}: {}", some_of(&full));
            let mut refusal = Refusal::at(Reason::InUse, &self.blame(KINDS, kind, ""), detail);
            refusal.resources = full.iter().map(|id| format!("{PROFILES}/{id}")).collect();
            return Err(refusal);
        }
        for profile in &holders {
            let mut value = profile.value().clone();
            value.as_object_mut().and_then(|fields| fields.remove(array));
            self.put(PROFILES, profile.id().clone(), Some(value))?;
        }
        Ok(())
    }

    /// Checks clusters that had a field of this name before the kind was added, which an open schema allows, as if this write
    /// wrote them. Returns whether there are any.
    fn touch_holders(&mut self, kind: &Arc<str>, array: &str) -> bool {
        let operation = self.operation_on_kind(kind);
        let holders = holders(self.base, array);
        for (id, _) in &holders {
            let key = (CLUSTERS.into(), id.clone());
            let origin = None;
            self.touched.entry(key).or_insert(Touch { operation, origin });
        }
        !holders.is_empty()
    }

    fn operation_on_kind(&self, kind: &str) -> usize {
        self.touch(KINDS, kind).map_or(0, |touch| touch.operation)
    }
}

/// Checks what can be said about a kind's document on its own. Gives the name of the kind.
fn check_kind_document(id: Option<&str>, value: &Value) -> Result<String, Vec<Violation>> {
    check_depth(value).map_err(|error| vec![error])?;
    let name = kind::name_of(value).map_err(|error| vec![error])?;
    let unknown = kind::unknown_settings(value);
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let taken = kind::names_of_the_merge(value);
    if !taken.is_empty() {
        return Err(taken);
    }
    match id {
        Some(id) if id != name => {
            let detail = format!("the document describes the kind \"{name}\": send it to /kinds/{name}");
            Err(vec![Violation::new("/kind", detail)])
        }
        _ => Ok(name),
    }
}

/// Clusters that have a field of this name, each with its document.
fn holders(fleet: &Fleet, field: &str) -> Vec<(Arc<str>, Value)> {
    let quoted = Json::new(&field.into());
    let clusters = fleet.clusters().values().map(|cluster| cluster.document());
    // The text is searched first: parsing every document of a large fleet takes seconds.
    let mentions = clusters.filter(|document| document.body.as_str().contains(quoted.as_str()));
    let documents = mentions.map(|document| (document.id.clone(), document.body.parse()));
    documents.filter(|(_, value)| value.get(field).is_some()).collect()
}
