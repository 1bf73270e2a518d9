//! Problems of accepted documents: dangling references, dependencies that stall, patches without effect.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::inputs::{self, Effective, reference_id, references};
use crate::kind::{EXCLUDED, Kind};
use crate::rollout::Promoted;
use crate::snapshot::{Cluster, Fleet, View};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// `dangling`, `stalled`, `unused`, `ignored`, `excludes` or `contract`; for rendered manifests, `template`, `duplicate`, `unmet` or
    /// `untemplated`.
    pub code: &'static str,
    pub kind: String,
    pub id: String,
    pub detail: String,
}

impl Fleet {
    /// The problems of one cluster, in the order of its references.
    pub fn diagnose(&self, cluster: &Cluster) -> Vec<Diagnostic> {
        let view = self.view(cluster);
        let (own, document) = (cluster.document().body.parse(), view.effective());
        let mut found = Vec::new();
        let mut patched: BTreeMap<&str, ()> = own["patches"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, _)| (id.as_str(), ()))
            .collect();
        for kind in self.kinds().definitions() {
            self.diagnose_kind(kind, &view, &document, &mut found);
            found.extend(idle_exclusions(kind, &view, &own));
            if kind.flux.patches {
                for reference in references(kind, &document) {
                    patched.remove(reference_id(reference));
                }
            }
        }
        if let Some(kind) = self.kinds().definitions().find(|kind| kind.flux.patches) {
            for id in patched.into_keys() {
                let known = self.document(&kind.name, id).is_some();
                let why = if known {
                    "is not assigned to this cluster"
                } else {
                    "does not exist"
                };
                let detail = format!("the cluster has patches for \"{id}\", which {why}");
                found.push(Diagnostic::new("unused", kind, id, detail));
            }
        }
        found
    }

    /// What a cluster excludes although no profile brings it.
    pub(crate) fn idle_exclusions(&self, cluster: &Cluster) -> Vec<Diagnostic> {
        // Few clusters exclude anything, and reading a document takes longer than the rest.
        if !cluster.document().body.as_str().contains(EXCLUDED) {
            return Vec::new();
        }
        let (own, view) = (cluster.document().body.parse(), self.view(cluster));
        let kinds = self.kinds().definitions();
        kinds.flat_map(|kind| idle_exclusions(kind, &view, &own)).collect()
    }

    /// Dependencies that will never be met on a cluster with this document, which is promoted in these rollouts.
    pub(crate) fn stalls(&self, document: &Value, promoted: Promoted) -> Vec<Diagnostic> {
        let kinds = self.kinds().definitions();
        kinds
            .flat_map(|kind| self.stalls_of(kind, document, promoted))
            .collect()
    }

    fn diagnose_kind(&self, kind: &Kind, view: &View<'_>, document: &Value, found: &mut Vec<Diagnostic>) {
        let Some(definitions) = view.definitions(&kind.name) else {
            return;
        };
        for reference in references(kind, document) {
            let id = reference_id(reference);
            if definitions.get(id).is_none() {
                let detail = format!("there is no {} \"{id}\": the reference is skipped", kind.singular);
                found.push(Diagnostic::new("dangling", kind, id, detail));
            }
        }
        for reference in references(kind, document) {
            let Some(definition) = definitions.get(reference_id(reference)) else {
                continue;
            };
            let effective = Effective::new(kind, definition.value(), reference, document);
            if !effective.is_off() {
                found.extend(ignored(kind, &effective));
            }
        }
        found.extend(self.stalls_of(kind, document, view.promoted()));
        if let Some(breach) = inputs::breach(kind, view) {
            found.push(Diagnostic::new("contract", kind, "", breach.to_string()));
        }
    }

    fn stalls_of(&self, kind: &Kind, document: &Value, promoted: Promoted) -> Vec<Diagnostic> {
        let definitions = self.seen(&kind.name, promoted);
        let Some(definitions) = definitions.filter(|_| kind.flux.depends_on.is_some()) else {
            return Vec::new();
        };
        let mut running = BTreeMap::new();
        for reference in references(kind, document) {
            let id = reference_id(reference);
            let Some(definition) = definitions.get(id) else {
                continue;
            };
            let effective = Effective::new(kind, definition.value(), reference, document);
            if !effective.is_off() {
                let rule = effective.render();
                running.insert(id, (definition, rule.map(|rule| rule.object.as_str())));
            }
        }
        let mut found = Vec::new();
        for (id, (definition, object)) in &running {
            for dependency in kind.dependencies(definition.value()) {
                let detail = match running.get(dependency) {
                    None => format!("waits for \"{dependency}\", which does not run on this cluster"),
                    Some((_, other)) if other != object => format!(
                        "is a {} and cannot wait for \"{dependency}\", which is a {}",
                        object.unwrap_or("resource"),
                        other.unwrap_or("resource")
                    ),
                    Some(_) => continue,
                };
                found.push(Diagnostic::new("stalled", kind, id, detail));
            }
        }
        found
    }
}

/// The same for one kind. `own` is the cluster's document.
fn idle_exclusions(kind: &Kind, view: &View<'_>, own: &Value) -> Vec<Diagnostic> {
    let excludes = |reference: &&Value| reference.get(EXCLUDED) == Some(&Value::Bool(true));
    let excluded = references(kind, own).iter().filter(excludes).map(reference_id);
    let idle = excluded.filter(|id| !view.profiles().brings(&kind.name, id));
    let report = |id| {
        let detail = "is excluded, but no profile brings it to this cluster".to_owned();
        Diagnostic::new("excludes", kind, id, detail)
    };
    idle.map(report).collect()
}

/// Fields and patches of an input that have no effect on the object that Flux makes of it.
fn ignored(kind: &Kind, effective: &Effective<'_>) -> Vec<Diagnostic> {
    let Some(rule) = effective.render() else {
        return Vec::new();
    };
    let id = effective.get("id").and_then(Value::as_str).unwrap_or_default();
    let report = |what: String| {
        let detail = format!("{what} has no effect: it becomes a {}", rule.object);
        Diagnostic::new("ignored", kind, id, detail)
    };
    let mut found = Vec::new();
    for (field, value) in &rule.ignores {
        match effective.get(field) {
            Some(given) if given == value || (value.is_null() && !given.is_null()) => {
                found.push(report(format!("{field} = {given}")));
            }
            _ => {}
        }
    }
    let patches = effective.get("patches").and_then(Value::as_object);
    for (key, value) in patches.into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let fits =
            |pattern: &Option<regex::Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        if !fits(&rule.patch_keys, key) {
            found.push(report(format!("the patch \"{key}\"")));
        } else if !fits(&rule.patch_values, &text) {
            found.push(report(format!("part of the value of the patch \"{key}\"")));
        }
    }
    found
}

impl Diagnostic {
    fn new(code: &'static str, kind: &Kind, id: &str, detail: String) -> Self {
        Diagnostic {
            code,
            kind: kind.name.to_string(),
            id: id.to_owned(),
            detail,
        }
    }
}
