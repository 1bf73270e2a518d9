//! All kinds of a fleet together: the cluster's schema knows the references of every other kind.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::cost::{self, Cost, MOST_KINDS, MOST_TEXT, MOST_WEIGHT, MOST_WEIGHT_OF_ALL, MOST_WIDTH, Scales};
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

/// What is wrong, by kind.
pub(crate) type Failures = Vec<(String, Vec<Violation>)>;

/// Where kinds come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// From a store, which took them once: it must stay readable, whatever they cost.
    Stored,
    /// From somebody who puts them now: they are held against what kinds may cost.
    Given,
}

/// How clusters refer to each kind: by its singular, the array and the schema of a reference.
type References = BTreeMap<String, (String, Arc<Value>)>;

/// A kind on its way into the registry.
enum Part<'a> {
    /// It is as it was: compiling it is most of the work.
    Old(Arc<Kind>),
    New(Box<New<'a>>),
}

struct New<'a> {
    draft: Draft,
    source: &'a Source,
    parsed: Value,
    schema: Value,
    errors: Vec<Violation>,
    depends: bool,
    cost: Option<Cost>,
}

impl Kinds {
    /// Builds the registry, or says for each kind what is wrong with it. What is as it was `before` is taken from there.
    pub(crate) fn build<'a>(
        sources: impl IntoIterator<Item = (&'a Arc<str>, &'a Source)>,
        before: &Kinds,
        trust: Trust,
    ) -> Result<Kinds, Failures> {
        let sources: Vec<_> = sources.into_iter().collect();
        if trust == Trust::Given && sources.len() > MOST_KINDS.max(before.by_name.len()) {
            let added = sources.iter().find(|(name, _)| before.get(name).is_none());
            let detail = format!("there would be {} kinds, and there may be {MOST_KINDS}", sources.len());
            let name = added.map(|(name, _)| name.to_string()).unwrap_or_default();
            return Err(vec![(name, vec![Violation::new("/kind", detail)])]);
        }
        let length: usize = sources.iter().map(|(_, (document, _))| document.as_str().len()).sum();
        let before_length = || before.iter().map(|kind| kind.document.as_str().len()).sum();
        if trust == Trust::Given && length > MOST_TEXT && length > before_length() {
            let changed = sources
                .iter()
                .find(|(name, source)| before.unchanged(name, source).is_none());
            let detail = format!(
                "with this the documents of all kinds are {length} bytes long, and {MOST_TEXT} are allowed together: \
                 shorten descriptions and examples, or delete a kind"
            );
            let name = changed.map(|(name, _)| name.to_string()).unwrap_or_default();
            return Err(vec![(name, vec![Violation::new("/schema", detail)])]);
        }
        let mut failed = Vec::new();
        let mut drafts = BTreeMap::new();
        let mut references = References::new();
        for (name, source) in &sources {
            if let Some(old) = before.unchanged(name, source) {
                references.extend(old.reference());
                continue;
            }
            let parsed = source.0.parse();
            match Draft::read(&parsed, trust) {
                Ok(draft) => {
                    references.extend(draft.reference());
                    drafts.insert(*name, (draft, parsed));
                }
                Err(errors) => failed.push((super::name_of(&parsed).unwrap_or_default(), errors)),
            }
        }
        let moved = references != before.references();
        let mut parts = Vec::new();
        let mut weight = 0;
        let too_heavy = |weight: usize| {
            trust == Trust::Given
                && weight > MOST_WEIGHT_OF_ALL
                && weight > before.iter().map(|kind| kind.cost().weight).sum()
        };
        let mut given = String::new();
        for (name, source) in sources {
            let (draft, parsed) = match (drafts.remove(name), before.unchanged(name, source)) {
                (Some(new), _) => {
                    given = name.to_string();
                    new
                }
                (None, Some(old)) if moved && old.depends => {
                    let parsed = source.0.parse();
                    let draft = Draft::read(&parsed, Trust::Stored);
                    (draft.map_err(|errors| vec![(name.to_string(), errors)])?, parsed)
                }
                (None, Some(old)) => {
                    weight += if trust == Trust::Given { old.cost().weight } else { 0 };
                    parts.push(Part::Old(old.clone()));
                    continue;
                }
                (None, None) => continue, // It failed.
            };
            let name = draft.name.clone();
            match New::of(draft, source, parsed, &references, before, trust) {
                Ok(new) => {
                    weight += new.cost.unwrap_or_default().weight;
                    parts.push(Part::New(Box::new(new)));
                }
                Err((errors, seen)) => {
                    weight += seen;
                    failed.push((name, errors));
                }
            }
            if too_heavy(weight) {
                break;
            }
        }
        // Before any of them is compiled.
        if too_heavy(weight) {
            let most = MOST_WEIGHT_OF_ALL >> 20;
            let detail = format!("with this the kinds take more than {most} MiB of memory together");
            failed.push((given, vec![Violation::new("/schema", detail)]));
            return Err(failed);
        }
        let mut kinds = Kinds::default();
        for part in parts {
            let kind = match part {
                Part::Old(kind) => kind,
                Part::New(new) => {
                    let name = new.draft.name.clone();
                    match new.into_kind() {
                        Ok(kind) => Arc::new(kind),
                        Err(errors) => {
                            failed.push((name, errors));
                            continue;
                        }
                    }
                }
            };
            if let Err(error) = kinds.admit(&kind) {
                failed.push((kind.name.to_string(), vec![error]));
            }
        }
        if failed.is_empty() { Ok(kinds) } else { Err(failed) }
    }

    /// The kind of this name, if it was made from this document.
    pub(crate) fn unchanged(&self, name: &str, (document, origin): &Source) -> Option<&Arc<Kind>> {
        self.get(name)
            .filter(|kind| kind.document == *document && kind.origin == *origin)
    }

    fn references(&self) -> References {
        self.iter().filter_map(|kind| kind.reference()).collect()
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

impl Kind {
    fn reference(&self) -> Option<(String, (String, Arc<Value>))> {
        let reference = (self.references.clone()?, self.reference.clone()?);
        Some((self.singular.clone(), reference))
    }
}

impl<'a> New<'a> {
    /// Gives a kind its schema, and holds it against what kinds may cost. If it is too much: what is, and what it weighed so far.
    fn of(
        draft: Draft,
        source: &'a Source,
        parsed: Value,
        references: &References,
        before: &Kinds,
        trust: Trust,
    ) -> Result<Self, (Vec<Violation>, usize)> {
        let mut errors = Vec::new();
        let depends = Cell::new(draft.is_clusters());
        let unfolded = Cell::new(0_usize);
        let resolve = |target: &str| {
            let name = target.strip_prefix("#/components/schemas/");
            let found = name.and_then(|name| references.get(name.strip_suffix("_ref")?));
            let unknown = "is not known: only \"#/components/schemas/<singular>_ref\" of a kind that exists is";
            let (_, schema) = found.ok_or(unknown)?;
            depends.set(true);
            unfolded.set(unfolded.get().saturating_add(cost::of_values(schema)));
            if trust == Trust::Given && unfolded.get() > MOST_WEIGHT {
                return Err("is there too often".to_owned());
            }
            Ok(Value::clone(schema))
        };
        let arrays = references.values().map(|(array, schema)| (array.as_str(), &**schema));
        let Some(schema) = draft.schema(arrays, &resolve, &mut errors) else {
            return Err((errors, 0));
        };
        let cost = match trust {
            Trust::Stored => None,
            Trust::Given if super::is_built_in(&parsed) => Some(Cost::OF_OURS),
            Trust::Given => {
                let old = before.get(&draft.name);
                let was = old.map(|old| old.cost()).unwrap_or_default();
                let mut scales = Scales::new(MOST_WEIGHT.max(was.weight));
                let cost = scales.kind(&parsed, &schema, draft.at);
                // What was taken once is no fault now. But it may become too much by what others change.
                if old.is_some_and(|old| old.document == source.0) {
                    scales.faults.clear();
                }
                if scales.faults.is_empty() && cost.width > MOST_WIDTH.max(was.width) {
                    let detail = "one place in a document is held against too much: too many schemas or patterns beside \
                                  each other, or unevaluatedProperties within each other";
                    scales.faults.push(Violation::new(draft.at, detail));
                }
                let before_these = errors.len();
                errors.extend(scales.faults.into_iter().chain(scales.too_heavy));
                if errors.len() > before_these {
                    return Err((errors, cost.weight));
                }
                Some(cost)
            }
        };
        Ok(New {
            depends: depends.get(),
            draft,
            source,
            parsed,
            schema,
            errors,
            cost,
        })
    }

    fn into_kind(self) -> Result<Kind, Vec<Violation>> {
        let origin = self.source.1.clone();
        let kind = self.draft.into_kind(&self.parsed, origin, self.schema, self.errors)?;
        Ok(Kind {
            depends: self.depends,
            cost: self.cost.map(Into::into).unwrap_or_default(),
            ..kind
        })
    }
}
