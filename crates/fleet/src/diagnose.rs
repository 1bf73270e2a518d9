//! What is accepted and will not do what its author hopes: dangling references, dependencies that stall, patches for nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::inputs::{self, Effective, reference_id, references};
use crate::kind::Kind;
use crate::snapshot::{Cluster, Fleet};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The problem's class: `dangling`, `stalled`, `unused`, `contract`.
    pub code: &'static str,
    pub kind: String,
    pub id: String,
    pub detail: String,
}

impl Fleet {
    /// Everything noteworthy about one cluster, in the order of its references.
    pub fn diagnose(&self, cluster: &Cluster) -> Vec<Diagnostic> {
        let document = cluster.document().body.parse();
        let mut found = Vec::new();
        let mut patched: BTreeMap<&str, ()> = document["patches"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, _)| (id.as_str(), ()))
            .collect();
        for kind in self.kinds().definitions() {
            self.diagnose_kind(kind, cluster, &document, &mut found);
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
                found.push(Diagnostic {
                    code: "unused",
                    kind: kind.name.to_string(),
                    id: id.to_owned(),
                    detail: format!("the cluster has patches for \"{id}\", which {why}"),
                });
            }
        }
        found
    }

    fn diagnose_kind(&self, kind: &Kind, cluster: &Cluster, document: &Value, found: &mut Vec<Diagnostic>) {
        let Some(definitions) = self.definitions(&kind.name) else {
            return;
        };
        let mut report = |code, id: &str, detail: String| {
            found.push(Diagnostic {
                code,
                kind: kind.name.to_string(),
                id: id.to_owned(),
                detail,
            });
        };
        let mut running = BTreeMap::new();
        for reference in references(kind, document) {
            let id = reference_id(reference);
            match definitions.get(id) {
                Some(definition) => {
                    let effective = Effective::new(kind, definition.value(), reference, document);
                    if !is_off(&kind.flux.off, &effective) {
                        running.insert(id, kind.renders(definition.value()));
                    }
                }
                None => report(
                    "dangling",
                    id,
                    format!("there is no {} \"{id}\": the reference is skipped", kind.singular),
                ),
            }
        }
        if let Some(field) = &kind.flux.depends_on {
            for (id, object) in &running {
                let definition = definitions.get(id).expect("it runs");
                for dependency in definition.value()[field]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                {
                    match (running.get(dependency), object) {
                        (None, _) => report(
                            "stalled",
                            id,
                            format!("waits for \"{dependency}\", which does not run on this cluster"),
                        ),
                        (Some(other), object) if other != object => report(
                            "stalled",
                            id,
                            format!(
                                "is a {} and cannot wait for \"{dependency}\", which is a {}",
                                object.unwrap_or("resource"),
                                other.unwrap_or("resource")
                            ),
                        ),
                        _ => {}
                    }
                }
            }
        }
        if let Err(breach) = inputs::body(kind, cluster, definitions) {
            report("contract", "", breach.to_string());
        }
    }
}

/// Whether Flux garbage-collects an input though it stays in the list.
pub fn is_off(off: &Map<String, Value>, effective: &Effective<'_>) -> bool {
    !off.is_empty() && off.iter().all(|(field, value)| effective.get(field) == Some(value))
}
