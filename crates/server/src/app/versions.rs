//! Which versions clusters have of the definitions of a kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use fleet::Fleet;
use fleet::kind::Kind;
use fleet::log::{Head, Revision};
use fleet::refusal::quote;
use fleet::snapshot::Cluster;
use fleet::status::State;
use fleet::versions::{Source, Version, versions};
use serde::Serialize;

use super::errors::ReadError;
use super::reads::Turn;
use super::status::found;
use super::{App, Page};

/// Which definitions, on which clusters.
#[derive(Clone, Debug)]
pub struct VersionQuery {
    /// None: the first kind that has versions.
    pub kind: Option<String>,
    pub selector: Option<String>,
    pub search: Option<String>,
}

/// Which clusters have a definition, or a version of it.
#[derive(Clone, Debug)]
pub struct HolderQuery {
    pub of: VersionQuery,
    pub component: String,
    pub version: Option<String>,
    pub page: Page,
}

/// The versions of the definitions of a kind.
#[derive(Debug, Serialize)]
pub struct Versions {
    pub revision: Revision,
    kind: Arc<str>,
    path: Option<String>,
    /// The field that is the version.
    field: String,
    /// Every kind that has versions.
    kinds: Vec<Arc<str>>,
    components: Vec<Component>,
}

#[derive(Debug, Serialize)]
struct Component {
    id: String,
    /// The version of the definition as it is.
    current: String,
    /// Those of most clusters first.
    versions: Vec<Counted>,
}

/// How many clusters have a version, and what says so.
#[derive(Debug, Default, Serialize)]
struct Counted {
    version: String,
    clusters: usize,
    /// By what their own documents say.
    pinned: usize,
    by_profile: usize,
    by_rollout: BTreeMap<String, usize>,
    environments: BTreeMap<String, usize>,
}

/// One cluster that has a definition.
#[derive(Debug, Serialize)]
pub struct HolderRow {
    id: Arc<str>,
    environment: Arc<str>,
    version: String,
    source: &'static str,
    rollout: Option<String>,
    state: State,
}

/// The versions on the whole fleet, by kind: remembered until the fleet changes.
#[derive(Debug, Default)]
pub struct Cache(Mutex<HashMap<Arc<str>, Known>>);

/// The versions, and the fleet that they are of.
type Known = (Head, Arc<Versions>);

impl App {
    /// How many clusters have which version.
    pub fn versions(&self, turn: &Turn, query: &VersionQuery) -> Result<Arc<Versions>, ReadError> {
        let fleet = self.fleet();
        let (kind, field) = kind_of(&fleet, query)?;
        let is_whole = query.selector.is_none() && query.search.is_none();
        // Held while they are counted: whoever else wants to know waits for the same answer.
        let mut known = is_whole.then(|| self.versions.0.lock().unwrap_or_else(PoisonError::into_inner));
        let counted = known.as_ref().and_then(|known| known.get(&kind.name));
        if let Some((_, versions)) = counted.filter(|(head, _)| *head == fleet.head()) {
            return Ok(versions.clone());
        }
        let mut counted: BTreeMap<String, HashMap<String, Counted>> = BTreeMap::new();
        for cluster in turn.until_stopped(found(&fleet, query.selector.as_deref(), query.search.as_deref())?) {
            let cluster = cluster?;
            for version in versions(&kind, &field, &fleet.view(cluster)) {
                let of_component = counted.entry(version.id.clone()).or_default();
                of_component
                    .entry(version.version.clone())
                    .or_default()
                    .add(version, cluster);
            }
        }
        let found = Arc::new(Versions {
            revision: fleet.revision(),
            path: kind.path.clone(),
            kinds: with_versions(&fleet).map(|kind| kind.name.clone()).collect(),
            components: components(&fleet, &kind, &field, counted),
            kind: kind.name.clone(),
            field,
        });
        if let Some(known) = &mut known {
            known.insert(kind.name.clone(), (fleet.head(), found.clone()));
        }
        Ok(found)
    }

    /// The clusters that have a definition, or one version of it, by id; and how many there are.
    pub fn holders(&self, turn: &Turn, query: &HolderQuery) -> Result<(usize, Vec<HolderRow>), ReadError> {
        let judge = self.judge();
        let (kind, field) = kind_of(&judge.fleet, &query.of)?;
        let (mut total, mut rows) = (0, Vec::new());
        let clusters = found(&judge.fleet, query.of.selector.as_deref(), query.of.search.as_deref())?;
        for cluster in turn.until_stopped(clusters) {
            let cluster = cluster?;
            if !judge.fleet.uses(cluster, &kind, &query.component) {
                continue;
            }
            let all = versions(&kind, &field, &judge.fleet.view(cluster));
            let wanted = |version: &Version| {
                version.id == query.component && query.version.as_ref().is_none_or(|wanted| *wanted == version.version)
            };
            let Some(version) = all.into_iter().find(wanted) else {
                continue;
            };
            total += 1;
            if total <= query.page.offset || rows.len() >= query.page.limit {
                continue;
            }
            let (lasting, last_poll) = judge.lasting(&self.evidence, cluster, true);
            let (state, _) = lasting.at_poll(last_poll, judge.now, judge.silent_after);
            rows.push(HolderRow {
                id: cluster.document().id.clone(),
                environment: cluster.head().environment.clone(),
                version: version.version,
                source: version.source.name(),
                rollout: match version.source {
                    Source::Rollout(id) => Some(id),
                    _ => None,
                },
                state,
            });
        }
        Ok((total, rows))
    }
}

impl Counted {
    fn add(&mut self, version: Version, cluster: &Cluster) {
        self.clusters += 1;
        self.version = version.version;
        match version.source {
            Source::Definition => {}
            Source::Cluster => self.pinned += 1,
            Source::Profile => self.by_profile += 1,
            Source::Rollout(id) => *self.by_rollout.entry(id).or_default() += 1,
        }
        match self.environments.get_mut(&*cluster.head().environment) {
            Some(count) => *count += 1,
            None => {
                self.environments.insert(cluster.head().environment.to_string(), 1);
            }
        }
    }
}

/// The kinds whose definitions have versions.
fn with_versions(fleet: &Fleet) -> impl Iterator<Item = &Arc<Kind>> {
    let kinds = fleet.kinds().definitions();
    kinds.filter(|kind| kind.path.is_some() && kind.version_field().is_some())
}

fn kind_of(fleet: &Fleet, query: &VersionQuery) -> Result<(Arc<Kind>, String), ReadError> {
    let is_wanted = |kind: &&Arc<Kind>| {
        let wanted = query.kind.as_ref();
        wanted.is_none_or(|name| *kind.name == **name || kind.path.as_ref() == Some(name))
    };
    let kind = with_versions(fleet).find(is_wanted);
    let found = kind.and_then(|kind| Some((kind.clone(), kind.version_field()?.to_owned())));
    found.ok_or_else(|| {
        let name = quote(query.kind.as_deref().unwrap_or_default());
        ReadError::BadParameter(format!("kind=\"{name}\" is not a kind whose definitions have versions"))
    })
}

fn components(
    fleet: &Fleet,
    kind: &Kind,
    field: &str,
    mut counted: BTreeMap<String, HashMap<String, Counted>>,
) -> Vec<Component> {
    let definitions = fleet.definitions(&kind.name);
    let ids = definitions.into_iter().flat_map(|all| all.iter()).map(|definition| {
        let current = definition.value().get(field).and_then(|value| value.as_str());
        (
            definition.document.id.to_string(),
            current.unwrap_or_default().to_owned(),
        )
    });
    let components = ids.map(|(id, current)| {
        let mut versions: Vec<Counted> = counted.remove(&id).into_iter().flat_map(HashMap::into_values).collect();
        versions.sort_by(|one, other| {
            other
                .clusters
                .cmp(&one.clusters)
                .then_with(|| one.version.cmp(&other.version))
        });
        Component { id, current, versions }
    });
    components.collect()
}
