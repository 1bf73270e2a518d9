//! All kinds of a fleet, built together: the clusters' schema has the references to every other kind.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::built_in::{is_server_kind, server_sources};
use super::cost::{self, Cost, MOST_KINDS, MOST_TEXT, MOST_WEIGHT, MOST_WEIGHT_OF_ALL, MOST_WIDTH, Scales};
use super::draft::{Draft, Reference, Surroundings};
use super::{CLUSTERS, Kind, PROFILES, schema};
use crate::json::Json;
use crate::refusal::Violation;

/// The kinds of a fleet, checked against each other.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    by_name: BTreeMap<Arc<str>, Arc<Kind>>,
    by_path: BTreeMap<String, Arc<Kind>>,
}

/// A kind's document, and its origin.
pub(crate) type Source = (Json, Option<Arc<str>>);

/// The problems of each kind.
pub(crate) type Failures = Vec<(String, Vec<Violation>)>;

/// Whether the cost of kinds is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// They come from a store that accepted them: it must stay readable, whatever they cost.
    Stored,
    /// They come from a request: their cost is checked.
    Given,
}

/// How clusters and profiles refer to each kind, by singular.
type References = BTreeMap<String, Reference>;

impl Kinds {
    /// Builds the registry, or returns the problems of each kind. Unchanged kinds are taken from `before`.
    pub(crate) fn build<'a>(
        sources: impl IntoIterator<Item = (&'a Arc<str>, &'a Source)>,
        before: &'a Kinds,
        trust: Trust,
    ) -> Result<Kinds, Failures> {
        let mut sources: Vec<_> = sources.into_iter().collect();
        // A fleet without kinds has none of these either.
        if !sources.is_empty() {
            sources.extend(server_sources().iter().map(|(name, source)| (name, source)));
        }
        let mut build = Build {
            sources,
            before,
            trust,
            failed: Vec::new(),
        };
        if trust == Trust::Given {
            build.check_count()?;
            build.check_text()?;
        }
        let (drafts, references) = build.read();
        let parts = build.weigh(drafts, &references)?;
        build.compile(parts)
    }

    /// The kind of this name, if it was built from this document.
    pub(crate) fn unchanged(&self, name: &str, (document, origin): &Source) -> Option<&Arc<Kind>> {
        self.get(name)
            .filter(|kind| kind.document == *document && kind.origin == *origin)
    }

    fn references(&self) -> References {
        let references = self.iter().filter_map(|kind| kind.reference.clone());
        references.map(Reference::by_singular).collect()
    }

    /// Adds a kind, unless another one has one of its names.
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

    /// The kinds that clusters and profiles refer to.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.iter().filter(|kind| kind.references.is_some())
    }

    pub fn clusters(&self) -> Option<&Arc<Kind>> {
        self.get(CLUSTERS)
    }
}

/// A registry that is being built. Kinds are read, then weighed, and compiled only if they are light enough.
struct Build<'a> {
    sources: Vec<(&'a Arc<str>, &'a Source)>,
    before: &'a Kinds,
    trust: Trust,
    failed: Failures,
}

/// A kind's document, and the draft that was read from it.
type Read = (Draft, Value);

/// A kind that is ready for the registry.
enum Part<'a> {
    /// Unchanged: not compiled again, since compiling is most of the work.
    Old(Arc<Kind>),
    New(Box<New<'a>>),
}

impl<'a> Build<'a> {
    fn check_count(&self) -> Result<(), Failures> {
        let count = self.sources.iter().filter(|(name, _)| !is_server_kind(name)).count();
        if count <= MOST_KINDS.max(self.before.by_name.len()) {
            return Ok(());
        }
        let added = self.sources.iter().find(|(name, _)| self.before.get(name).is_none());
        let name = added.map(|(name, _)| name.to_string()).unwrap_or_default();
        let detail = format!("there would be {count} kinds, and at most {MOST_KINDS} are allowed");
        Err(vec![(name, vec![Violation::new("/kind", detail)])])
    }

    fn check_text(&self) -> Result<(), Failures> {
        let length: usize = self.sources.iter().map(|(_, (body, _))| body.as_str().len()).sum();
        let before = || self.before.iter().map(|kind| kind.document.as_str().len()).sum();
        if length <= MOST_TEXT || length <= before() {
            return Ok(());
        }
        let mut sources = self.sources.iter();
        let changed = sources.find(|(name, source)| self.before.unchanged(name, source).is_none());
        let name = changed.map(|(name, _)| name.to_string()).unwrap_or_default();
        let detail = format!(
            "the documents of all kinds would be {length} bytes long together, and {MOST_TEXT} are allowed: \
             shorten descriptions and examples, or delete a kind"
        );
        Err(vec![(name, vec![Violation::new("/schema", detail)])])
    }

    /// Reads the changed kinds. Returns the references to all kinds, changed or not.
    fn read(&mut self) -> (BTreeMap<&'a Arc<str>, Read>, References) {
        let mut drafts = BTreeMap::new();
        let mut references = References::new();
        for (name, source) in &self.sources {
            if let Some(old) = self.before.unchanged(name, source) {
                references.extend(old.reference.clone().map(Reference::by_singular));
                continue;
            }
            let parsed = source.0.parse();
            match Draft::read(&parsed, self.trust) {
                Ok(draft) => {
                    references.extend(draft.reference().map(Reference::by_singular));
                    drafts.insert(*name, (draft, parsed));
                }
                Err(errors) => {
                    let name = super::name_of(&parsed).unwrap_or_default();
                    self.failed.push((name, errors));
                }
            }
        }
        (drafts, references)
    }

    /// Gives every kind its schema and adds up what they cost, before any is compiled.
    fn weigh(
        &mut self,
        mut drafts: BTreeMap<&Arc<str>, Read>,
        references: &References,
    ) -> Result<Vec<Part<'a>>, Failures> {
        let references_changed = *references != self.before.references();
        let patches = self.patches(&drafts);
        let surroundings = Surroundings {
            references,
            patches: &patches,
        };
        let clusters_changed = drafts.keys().any(|name| &***name == CLUSTERS);
        let mut parts = Vec::new();
        let mut weight = 0;
        let mut last_given = String::new();
        for (name, source) in self.sources.clone() {
            let (draft, parsed) = match (drafts.remove(name), self.before.unchanged(name, source)) {
                (Some(read), _) => {
                    last_given = name.to_string();
                    read
                }
                // Its schema contains references to other kinds, and they changed.
                (None, Some(old))
                    if (references_changed && old.depends) || (clusters_changed && &**name == PROFILES) =>
                {
                    let parsed = source.0.parse();
                    let draft = Draft::read(&parsed, Trust::Stored);
                    (draft.map_err(|errors| vec![(name.to_string(), errors)])?, parsed)
                }
                (None, Some(old)) => {
                    weight += if self.trust == Trust::Given {
                        old.cost().weight
                    } else {
                        0
                    };
                    parts.push(Part::Old(old.clone()));
                    continue;
                }
                // It could not be read.
                (None, None) => continue,
            };
            let name = draft.name.clone();
            match New::of(draft, source, parsed, &surroundings, self.before, self.trust) {
                Ok(new) => {
                    weight += new.cost.unwrap_or_default().weight;
                    parts.push(Part::New(Box::new(new)));
                }
                Err((errors, seen)) => {
                    weight += seen;
                    self.failed.push((name, errors));
                }
            }
            if self.is_too_heavy(weight) {
                break;
            }
        }
        if self.is_too_heavy(weight) {
            let most = MOST_WEIGHT_OF_ALL >> 20;
            let detail = format!("the kinds would take more than {most} MiB of memory together");
            self.failed.push((last_given, vec![Violation::new("/schema", detail)]));
            return Err(std::mem::take(&mut self.failed));
        }
        Ok(parts)
    }

    /// The schema of a cluster's patches, as it will be.
    fn patches(&self, drafts: &BTreeMap<&Arc<str>, Read>) -> Value {
        let mut drafts = drafts.values();
        let given = drafts.find(|(draft, _)| draft.is_clusters()).map(|(draft, _)| {
            let unresolved = |_: &str| Err(String::new());
            schema::normalise(&draft.properties()["patches"], "", &unresolved, &mut Vec::new())
        });
        let stored = || {
            self.before
                .clusters()
                .map(|kind| kind.schema["properties"]["patches"].clone())
        };
        given.or_else(stored).unwrap_or_else(|| json!({"type": "object"}))
    }

    fn is_too_heavy(&self, weight: usize) -> bool {
        self.trust == Trust::Given
            && weight > MOST_WEIGHT_OF_ALL
            && weight > self.before.iter().map(|kind| kind.cost().weight).sum()
    }

    fn compile(self, parts: Vec<Part<'a>>) -> Result<Kinds, Failures> {
        let Build { mut failed, trust, .. } = self;
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
            // A store may hold a kind with the singular of profiles or guards, from before there were any.
            if is_server_kind(&kind.name) && trust == Trust::Stored {
                kinds.by_name.insert(kind.name.clone(), kind);
                continue;
            }
            if let Err(error) = kinds.admit(&kind) {
                failed.push((kind.name.to_string(), vec![error]));
            }
        }
        if failed.is_empty() { Ok(kinds) } else { Err(failed) }
    }
}

/// A new or changed kind with its schema, not compiled yet.
struct New<'a> {
    draft: Draft,
    source: &'a Source,
    parsed: Value,
    schema: Value,
    errors: Vec<Violation>,
    depends: bool,
    cost: Option<Cost>,
}

impl<'a> New<'a> {
    /// Gives a kind its schema, and checks its cost. On failure: the problems, and the weight that was counted until then.
    fn of(
        draft: Draft,
        source: &'a Source,
        parsed: Value,
        surroundings: &Surroundings<'_>,
        before: &Kinds,
        trust: Trust,
    ) -> Result<Self, (Vec<Violation>, usize)> {
        let mut errors = Vec::new();
        let depends = Cell::new(draft.has_references());
        let unfolded = Cell::new(0_usize);
        let resolve = |target: &str| {
            let name = target.strip_prefix("#/components/schemas/");
            let found = name.and_then(|name| surroundings.references.get(name.strip_suffix("_ref")?));
            let unknown = "is unknown: use \"#/components/schemas/<singular>_ref\" of an existing kind";
            let schema = &found.ok_or(unknown)?.schema;
            depends.set(true);
            unfolded.set(unfolded.get().saturating_add(cost::of_values(schema)));
            if trust == Trust::Given && unfolded.get() > MOST_WEIGHT {
                return Err("is used too often".to_owned());
            }
            Ok(Value::clone(schema))
        };
        let Some(schema) = draft.schema(surroundings, &resolve, &mut errors) else {
            return Err((errors, 0));
        };
        let cost = match trust {
            Trust::Stored => None,
            Trust::Given if super::is_built_in(&parsed) => Some(Cost::OF_OURS),
            Trust::Given => {
                let (cost, too_much) = weigh(&draft, source, &parsed, &schema, before.get(&draft.name));
                if !too_much.is_empty() {
                    errors.extend(too_much);
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

/// The cost of a kind, and why it is too much. A kind may always cost what it did before.
fn weigh(
    draft: &Draft,
    source: &Source,
    parsed: &Value,
    schema: &Value,
    old: Option<&Arc<Kind>>,
) -> (Cost, Vec<Violation>) {
    let was = old.map(|old| old.cost()).unwrap_or_default();
    let mut scales = Scales::new(MOST_WEIGHT.max(was.weight));
    let cost = scales.kind(parsed, schema, draft.at);
    // An unchanged document was accepted before, so its faults are not reported. Other kinds may still make it too heavy.
    if old.is_some_and(|old| old.document == source.0) {
        scales.faults.clear();
    }
    if scales.faults.is_empty() && cost.width > MOST_WIDTH.max(was.width) {
        let detail = "validating one place in a document takes too much work: too many schemas or patterns apply to it, \
                  or unevaluatedProperties are nested";
        scales.faults.push(Violation::new(draft.at, detail));
    }
    (cost, scales.faults.into_iter().chain(scales.too_heavy).collect())
}
