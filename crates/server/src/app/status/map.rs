//! The state of every cluster as one letter, in groups: a fleet of 100,000 in 100 kB, before it is packed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::log::Revision;
use fleet::refusal::quote;
use fleet::snapshot::{Cluster, Fleet, Number};
use fleet::status::State;
use serde::Serialize;

use super::App;
use super::overview::found;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;

/// The field that clusters are grouped by, unless a label is named.
pub const ENVIRONMENT: &str = "environment";
/// How long a request may judge clusters that changed. The others count as behind until the task that watches has judged them.
const JUDGING: Duration = Duration::from_millis(400);
/// The most values of a label that are listed, and the most groups of a map.
const VALUES: usize = 100;
const GROUPS: usize = 200;

/// Which clusters, and how they are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapQuery {
    pub selector: Option<String>,
    /// A part of the id or of the DNS name.
    pub search: Option<String>,
    /// [`ENVIRONMENT`], or a label.
    pub by: String,
}

/// A place in a map.
#[derive(Clone, Debug)]
pub struct Place {
    /// None: the clusters without the label.
    pub group: Option<String>,
    pub at: usize,
    /// Of the map.
    pub revision: Option<Revision>,
}

#[derive(Debug, Serialize)]
pub struct Map {
    at: String,
    pub revision: Revision,
    by: String,
    groups: Vec<Group>,
}

/// The clusters with one value of the label, in the order of ids.
#[derive(Debug, Serialize)]
struct Group {
    /// None: those without the label.
    name: Option<String>,
    states: String,
}

/// A label, and the values that most clusters have.
#[derive(Debug, Serialize)]
pub struct Label {
    key: String,
    values: Vec<LabelValue>,
    /// How many values there are besides.
    more: usize,
}

#[derive(Debug, Serialize)]
struct LabelValue {
    value: String,
    clusters: usize,
}

/// What names the group of a cluster.
enum Grouping<'a> {
    Environment,
    /// The values of a label, by the number of the cluster.
    Label(HashMap<Number, &'a str>),
}

impl<'a> Grouping<'a> {
    fn new(fleet: &'a Fleet, by: &str) -> Result<Self, ReadError> {
        if by == ENVIRONMENT {
            return Ok(Grouping::Environment);
        }
        let mut values = HashMap::new();
        for (value, clusters) in fleet.label_values(by) {
            values.extend(clusters.numbers().map(|number| (number, value)));
        }
        match fleet.label_values(by).take(GROUPS + 1).count() {
            0 => Err(ReadError::NotFound(format!(
                "by=\"{}\": no cluster has this label",
                quote(by)
            ))),
            count if count > GROUPS => Err(ReadError::BadParameter(format!(
                "by=\"{}\": the label has more than {GROUPS} values, and a map has at most so many groups",
                quote(by)
            ))),
            _ => Ok(Grouping::Label(values)),
        }
    }

    fn of<'c>(&self, cluster: &'c Cluster) -> Option<&'c str>
    where
        'a: 'c,
    {
        match self {
            Grouping::Environment => Some(&cluster.head().environment),
            Grouping::Label(values) => values.get(&cluster.number()).copied(),
        }
    }
}

impl App {
    /// The states of all clusters that match, as they were asked for at a moment.
    pub fn map(&self, turn: &Turn, query: &MapQuery, asked: Instant) -> Result<Arc<Map>, ReadError> {
        let make = |query: &MapQuery| self.make_map(turn, query);
        self.answers.maps.answer(query, asked, make)
    }

    fn make_map(&self, turn: &Turn, query: &MapQuery) -> Result<Map, ReadError> {
        let judge = self.judge();
        let grouping = Grouping::new(&judge.fleet, &query.by)?;
        // Clusters without the label come last.
        let mut groups: BTreeMap<(bool, Option<&str>), String> = BTreeMap::new();
        let (until, mut may_judge) = (Instant::now() + JUDGING, true);
        let clusters = found(&judge.fleet, query.selector.as_deref(), query.search.as_deref())?;
        for (n, cluster) in turn.until_stopped(clusters).enumerate() {
            let cluster = cluster?;
            if n % 16 == 0 {
                may_judge = Instant::now() < until;
            }
            let (lasting, last_poll) = judge.lasting(&self.evidence, cluster, may_judge);
            let (state, _) = lasting.at_poll(last_poll, judge.now, judge.silent_after);
            let name = grouping.of(cluster);
            groups.entry((name.is_none(), name)).or_default().push(letter(state));
        }
        let groups = groups.into_iter().map(|((_, name), states)| Group {
            name: name.map(str::to_owned),
            states,
        });
        Ok(Map {
            at: judge.now.to_string(),
            revision: judge.fleet.revision(),
            by: query.by.clone(),
            groups: groups.collect(),
        })
    }

    /// The cluster at a place of a group, in a map of a revision: which place a cluster has depends on the others.
    pub fn at_place(&self, turn: &Turn, query: &MapQuery, place: &Place) -> Result<Arc<Cluster>, ReadError> {
        let Place { group, at, revision } = place;
        let (group, at) = (group.as_deref(), *at);
        let fleet = self.fleet();
        let changed = fleet.clusters_changed().revision;
        if let Some(revision) = revision.filter(|revision| *revision < changed) {
            let detail = format!("the clusters changed after revision {revision}, at {changed}: read the map again");
            return Err(ReadError::BadParameter(detail));
        }
        let grouping = Grouping::new(&fleet, &query.by)?;
        let mut counted = 0;
        for cluster in turn.until_stopped(found(&fleet, query.selector.as_deref(), query.search.as_deref())?) {
            let cluster = cluster?;
            if grouping.of(cluster) == group {
                if counted == at {
                    return Ok(cluster.clone());
                }
                counted += 1;
            }
        }
        Err(ReadError::NotFound(format!(
            "the group has {counted} clusters, and none at {at}"
        )))
    }

    /// The labels of clusters, with their environments first.
    pub fn labels(&self) -> Vec<Label> {
        let fleet = self.fleet();
        let summary = self.transitions.summary();
        let environments = summary.by_environment.iter().map(|(name, counts)| LabelValue {
            value: name.to_string(),
            clusters: State::ALL.into_iter().map(|state| counts.of(state)).sum(),
        });
        let environments = Label::new(ENVIRONMENT, environments.collect());
        let labels = fleet.label_keys().map(|key| {
            let values = fleet.label_values(key).map(|(value, clusters)| LabelValue {
                value: value.to_owned(),
                clusters: clusters.len(),
            });
            Label::new(key, values.collect())
        });
        [environments].into_iter().chain(labels).collect()
    }
}

impl Label {
    fn new(key: &str, mut values: Vec<LabelValue>) -> Label {
        values.sort_by(|one, other| {
            other
                .clusters
                .cmp(&one.clusters)
                .then_with(|| one.value.cmp(&other.value))
        });
        let more = values.len().saturating_sub(VALUES);
        values.truncate(VALUES);
        Label {
            key: key.to_owned(),
            values,
            more,
        }
    }
}

/// The first letter of the state's name: no two begin with the same.
fn letter(state: State) -> char {
    match state {
        State::Failing => 'f',
        State::Silent => 's',
        State::Never => 'n',
        State::Behind => 'b',
        State::Told => 't',
        State::Converged => 'c',
    }
}
