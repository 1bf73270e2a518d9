//! All kinds of a fleet together: the cluster's schema knows the references of every other kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{CLUSTERS, Draft, Kind};
use crate::json::Json;
use crate::refusal::Violation;

/// The kinds of a fleet, checked against each other.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    by_name: BTreeMap<Arc<str>, Arc<Kind>>,
    by_path: BTreeMap<String, Arc<Kind>>,
}

/// A kind's document with what wrote it.
pub(crate) type Source = (Json, Option<Arc<str>>);

impl Kinds {
    /// Builds the registry, or says for each kind what is wrong with it.
    pub(crate) fn build<'a>(
        sources: impl IntoIterator<Item = &'a Source>,
    ) -> Result<Kinds, Vec<(String, Vec<Violation>)>> {
        let mut failed = Vec::new();
        let mut drafts = Vec::new();
        for (document, origin) in sources {
            let document = document.parse();
            match Draft::read(&document) {
                Ok(draft) => drafts.push((draft, document, origin.clone())),
                Err(errors) => failed.push((super::name_of(&document).unwrap_or_default(), errors)),
            }
        }
        let mut ignored = Vec::new();
        let reference_schemas: BTreeMap<String, (String, Value)> = drafts
            .iter()
            .filter_map(|(draft, ..)| Some((draft.singular.clone(), draft.references()?, draft)))
            .map(|(singular, array, draft)| (singular, (array, draft.reference_schema(&mut ignored))))
            .collect();
        let arrays: Vec<(String, Value)> = reference_schemas.values().cloned().collect();
        let resolve = |target: &str| {
            let name = target.strip_prefix("#/components/schemas/")?.strip_suffix("_ref")?;
            Some(reference_schemas.get(name)?.1.clone())
        };
        let mut kinds = Kinds::default();
        for (draft, document, origin) in drafts {
            let name = draft.name.clone();
            match draft.into_kind(&document, origin, &arrays, &resolve) {
                Ok(kind) => {
                    let kind = Arc::new(kind);
                    if let Err(error) = kinds.admit(&kind) {
                        failed.push((name, vec![error]));
                    }
                }
                Err(errors) => failed.push((name, errors)),
            }
        }
        if failed.is_empty() { Ok(kinds) } else { Err(failed) }
    }

    fn admit(&mut self, kind: &Arc<Kind>) -> Result<(), Violation> {
        let taken =
            |what: &str, other: &Kind| Violation::new("/kind", format!("kind \"{}\" has the same {what}", other.name));
        for other in self.by_name.values() {
            if kind.references.is_some() && other.references == kind.references {
                return Err(taken("array of references", other));
            }
            if other.singular == kind.singular || other.command == kind.command {
                return Err(taken("singular or command", other));
            }
        }
        if let Some(path) = &kind.path
            && let Some(other) = self.by_path.insert(path.clone(), kind.clone())
        {
            return Err(taken("path", &other));
        }
        match self.by_name.insert(kind.name.clone(), kind.clone()) {
            Some(other) => Err(taken("name", &other)),
            None => Ok(()),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Kind>> {
        self.by_name.get(name)
    }

    /// The kind whose Flux endpoint ends in `path`.
    pub fn at_path(&self, path: &str) -> Option<&Arc<Kind>> {
        self.by_path.get(path)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_name.values()
    }

    /// The kinds that clusters refer to.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.iter().filter(|kind| kind.references.is_some())
    }

    pub fn clusters(&self) -> Option<&Arc<Kind>> {
        self.get(CLUSTERS)
    }
}
