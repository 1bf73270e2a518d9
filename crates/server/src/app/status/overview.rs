//! The states of many clusters: how many there are of each, and a page of them, the worst first.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::Fleet;
use fleet::log::Revision;
use fleet::refusal::quote;
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::status::{InputStatus, Moment, Observation, State};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{App, Judge};
use crate::app::Page;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;

/// How long a request may judge clusters whose evidence or replies changed. The others count as behind until the task that watches
/// has judged them.
const JUDGING: Duration = Duration::from_millis(400);
/// The oldest summary that a request is answered with; in a large fleet the last one is, which says of when it is. To count so many clusters
/// takes longer than an answer may.
const FRESH: Duration = Duration::from_secs(5);
const LARGE: usize = 50_000;

/// Which clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    pub selector: Option<String>,
    /// A part of the id or of the DNS name.
    pub search: Option<String>,
    /// Empty: all.
    pub states: Vec<State>,
    /// A kind, by any of its names.
    pub kind: Option<String>,
    /// The id of an input: the states are those of this input on the clusters that have it.
    pub component: Option<String>,
    /// Why something fails there: only such clusters. With a component, why that input fails.
    pub reason: Option<String>,
    /// The version that fails there.
    pub version: Option<String>,
    pub page: Page,
}

impl StatusQuery {
    fn has_cause(&self) -> bool {
        self.reason.is_some() || self.version.is_some()
    }
}

/// How many clusters have each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([usize; 6]);

impl Counts {
    pub fn add(&mut self, state: State) {
        self.0[state as usize] += 1;
    }

    pub fn of(&self, state: State) -> usize {
        self.0[state as usize]
    }
}

/// Every state, also those that no cluster has.
impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        for state in State::ALL {
            map.serialize_entry(state.name(), &self.of(state))?;
        }
        map.end()
    }
}

/// How many clusters have each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub at: Moment,
    pub revision: Revision,
    pub counts: Counts,
    pub by_environment: BTreeMap<Arc<str>, Counts>,
    /// Another number once something is known that was not before.
    pub learnt: u64,
}

/// One cluster of a list.
#[derive(Clone, Debug)]
pub struct Row {
    pub cluster: Arc<Cluster>,
    pub state: State,
    pub since: Option<Moment>,
    pub last_poll: Option<Moment>,
    /// What it was told last, on any path.
    pub told: Option<LastTold>,
    /// The input that was asked for.
    pub input: Option<Box<InputStatus>>,
}

/// The last answer to a poll of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTold {
    pub revision: Revision,
    /// Who asked, by its User-Agent.
    pub agent: Arc<str>,
}

/// Counts, and a page.
#[derive(Debug)]
pub struct Overview {
    pub summary: Summary,
    /// How many clusters have the wanted states.
    pub total: usize,
    pub rows: Vec<Row>,
}

impl App {
    /// The states of clusters, as they were asked for at a moment. Counts are of all that the selector matches, whatever states are asked for.
    pub fn overview(&self, turn: &Turn, query: &StatusQuery, asked: Instant) -> Result<Arc<Overview>, ReadError> {
        /// The longest page that is kept for others.
        const MOST_KEPT: usize = 1000;
        if let Some(overview) = self.counts_only(query) {
            return Ok(overview.into());
        }
        match query.page.limit <= MOST_KEPT {
            true => {
                let make = |query: &StatusQuery| self.make_overview(turn, query);
                self.answers.overviews.answer(query, asked, make)
            }
            false => self.make_overview(turn, query).map(Arc::new),
        }
    }

    fn make_overview(&self, turn: &Turn, query: &StatusQuery) -> Result<Overview, ReadError> {
        let judge = self.judge();
        let wanted = wanted(&judge, query)?;
        let mut summary = Summary {
            at: judge.now,
            revision: judge.fleet.revision(),
            ..Summary::default()
        };
        let (mut found, mut total): ([Vec<Row>; 6], _) = (Default::default(), 0);
        let (until, mut may_judge) = (Instant::now() + JUDGING, true);
        for (n, cluster) in turn
            .until_stopped(clusters(&judge, query, wanted.as_ref())?)
            .enumerate()
        {
            let cluster = cluster?;
            // Looking at the clock takes as long as looking at a cluster.
            if n % 16 == 0 {
                may_judge = Instant::now() < until;
            }
            // What a cluster that does not fail rests on is not looked at.
            if query.has_cause() && !self.is_failing(&judge, cluster) {
                continue;
            }
            let Some(row) = self.row(&judge, cluster, wanted.as_ref(), may_judge) else {
                continue;
            };
            if !self.has_cause(&judge, &row, query) {
                continue;
            }
            summary.count(cluster, row.state);
            if query.states.is_empty() || query.states.contains(&row.state) {
                total += 1;
                // Of each state, no more can be on the page.
                let page = &mut found[row.state as usize];
                if page.len() < query.page.offset.saturating_add(query.page.limit) {
                    page.push(row);
                }
            }
        }
        let rows = found.into_iter().rev().flatten();
        let mut rows: Vec<Row> = rows.skip(query.page.offset).take(query.page.limit).collect();
        for row in &mut rows {
            row.told = self.last_told(&judge.fleet, &row.cluster);
        }
        Ok(Overview { summary, total, rows })
    }

    fn last_told(&self, fleet: &Fleet, cluster: &Cluster) -> Option<LastTold> {
        let evidence = self.evidence.get(fleet, cluster);
        let last = evidence.told().iter().max_by_key(|told| told.at)?;
        Some(LastTold {
            revision: last.revision,
            agent: last.agent.clone(),
        })
    }

    /// By its kept state, if it has one.
    fn is_failing(&self, judge: &Judge, cluster: &Arc<Cluster>) -> bool {
        let (lasting, _) = judge.lasting(&self.evidence, cluster, true);
        lasting.state == State::Failing
    }

    /// Whether what fails on a cluster fails for the reason and at the version of a query.
    fn has_cause(&self, judge: &Judge, row: &Row, query: &StatusQuery) -> bool {
        if !query.has_cause() {
            return true;
        }
        if row.state != State::Failing {
            return false;
        }
        let is_wanted = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| *wanted == *text);
        let fits =
            |seen: &Observation| is_wanted(&query.reason, &seen.reason) && is_wanted(&query.version, &seen.version);
        if let Some(input) = &row.input {
            return input.seen.as_ref().is_some_and(fits);
        }
        let status = judge.status(&self.evidence, &row.cluster);
        let inputs = status.kinds.iter().flat_map(|kind| &kind.inputs);
        let failing = inputs.filter(|input| input.state == State::Failing);
        let mut seen = failing.filter_map(|input| input.seen.as_ref()).chain(&status.objects);
        seen.any(fits)
    }

    /// The last counts of the task that watches, if nothing else is asked for.
    fn counts_only(&self, query: &StatusQuery) -> Option<Overview> {
        let everything = query.selector.is_none() && query.search.is_none() && query.states.is_empty();
        let everything = everything && query.component.is_none() && !query.has_cause();
        if !everything || query.kind.is_some() || query.page.limit > 0 {
            return None;
        }
        let summary = self.transitions.summary();
        let fleet = self.fleet();
        let answers = summary.answers(super::now(), fleet.revision(), fleet.clusters().len());
        answers.then(|| Overview {
            total: State::ALL.into_iter().map(|state| summary.counts.of(state)).sum(),
            summary: Summary::clone(&summary),
            rows: Vec::new(),
        })
    }

    /// The state of one cluster, or of one input on it. None: it does not have that input.
    fn row(&self, judge: &Judge, cluster: &Arc<Cluster>, wanted: Option<&Wanted>, may_judge: bool) -> Option<Row> {
        let Some(wanted) = wanted else {
            let (lasting, last_poll) = judge.lasting(&self.evidence, cluster, may_judge);
            let (state, since) = lasting.at_poll(last_poll, judge.now, judge.silent_after);
            return Some(Row {
                cluster: cluster.clone(),
                state,
                since,
                last_poll,
                told: None,
                input: None,
            });
        };
        let status = judge.status(&self.evidence, cluster);
        let kind = status.kinds.into_iter().find(|kind| *kind.path == *wanted.path)?;
        let (state, since, input) = match &wanted.input {
            None if kind.inputs.is_empty() && kind.told.is_none() => return None,
            None => (kind.state, None, None),
            Some(id) => {
                let input = kind.inputs.into_iter().find(|input| *input.id == **id)?;
                (input.state, input.since, Some(Box::new(input)))
            }
        };
        // A cluster that does not poll says nothing about its inputs.
        let (state, since) = match status.state {
            State::Silent | State::Never if state != State::Failing => (status.state, status.since),
            _ => (state, since),
        };
        Some(Row {
            cluster: cluster.clone(),
            state,
            since,
            last_poll: status.last_poll,
            told: None,
            input,
        })
    }
}

impl Summary {
    /// Whether to answer with these counts, now that a fleet of so many clusters has a revision.
    fn answers(&self, now: Moment, revision: Revision, clusters: usize) -> bool {
        let was_made = self.at != Moment::default();
        let is_fresh = self.revision == revision && now.since(self.at) < FRESH;
        was_made && (is_fresh || clusters > LARGE)
    }

    pub fn count(&mut self, cluster: &Cluster, state: State) {
        self.counts.add(state);
        let environment = &cluster.head().environment;
        match self.by_environment.get_mut(environment) {
            Some(counts) => counts.add(state),
            None => self.by_environment.entry(environment.clone()).or_default().add(state),
        }
    }
}

/// The inputs that a query is about.
#[derive(Debug)]
struct Wanted {
    kind: Arc<str>,
    path: String,
    input: Option<String>,
}

fn wanted(judge: &Judge, query: &StatusQuery) -> Result<Option<Wanted>, ReadError> {
    let fleet = &judge.fleet;
    let Some(name) = &query.kind else {
        let Some(id) = &query.component else { return Ok(None) };
        // Without a kind, the id must name one thing.
        let with_path = fleet.kinds().definitions().filter(|kind| kind.path.is_some());
        let holders: Vec<_> = with_path
            .filter(|kind| fleet.document(&kind.name, id).is_some())
            .collect();
        let quoted = quote(id);
        return match holders.as_slice() {
            [kind] => Ok(Some(Wanted {
                kind: kind.name.clone(),
                path: kind.path.clone().unwrap_or_default(),
                input: Some(id.clone()),
            })),
            [] => Err(ReadError::NotFound(format!(
                "component=\"{quoted}\": there is no such definition"
            ))),
            several => {
                let names: Vec<_> = several.iter().map(|kind| &*kind.name).collect();
                let names = names.join(", ");
                Err(ReadError::BadParameter(format!(
                    "component=\"{quoted}\": several kinds have it, so name one with kind: {names}"
                )))
            }
        };
    };
    let is_named = |kind: &&Arc<fleet::kind::Kind>| {
        *kind.name == **name || kind.singular == *name || kind.command == *name || kind.path.as_ref() == Some(name)
    };
    let kind = fleet.kinds().definitions().find(is_named);
    let found = kind.and_then(|kind| Some((kind.name.clone(), kind.path.clone()?)));
    let (kind, path) = found.ok_or_else(|| {
        let name = quote(name);
        ReadError::BadParameter(format!("kind=\"{name}\" is not a kind with a Flux endpoint"))
    })?;
    let input = query.component.clone();
    Ok(Some(Wanted { kind, path, input }))
}

/// The clusters that a query is about, by id.
fn clusters<'a>(judge: &'a Judge, query: &StatusQuery, wanted: Option<&Wanted>) -> Result<Found<'a>, ReadError> {
    let fleet = &*judge.fleet;
    if let Some((wanted, input)) = wanted.and_then(|wanted| Some((wanted, wanted.input.as_ref()?))) {
        let users = fleet.sorted(fleet.users(&wanted.kind, input));
        let selector = query.selector.as_deref();
        let selector = selector.map(|text| Selector::for_fleet(text, fleet)).transpose()?;
        let selected: Option<HashSet<_>> = selector.map(|selector| selector.select(fleet).map(Arc::as_ptr).collect());
        let users = users.filter(move |cluster| {
            selected
                .as_ref()
                .is_none_or(|selected| selected.contains(&Arc::as_ptr(cluster)))
        });
        return Ok(searched(Box::new(users), query.search.as_deref()));
    }
    found(fleet, query.selector.as_deref(), query.search.as_deref())
}

/// Clusters, by id.
pub(in crate::app) type Found<'a> = Box<dyn Iterator<Item = &'a Arc<Cluster>> + 'a>;

/// The clusters that a selector matches, and whose names have a part.
pub(in crate::app) fn found<'a>(
    fleet: &'a Fleet,
    selector: Option<&str>,
    search: Option<&str>,
) -> Result<Found<'a>, ReadError> {
    let selector = selector.map(|text| Selector::for_fleet(text, fleet)).transpose()?;
    let found: Found<'a> = match selector {
        None => Box::new(fleet.clusters().values()),
        Some(selector) => Box::new(selector.select(fleet).collect::<Vec<_>>().into_iter()),
    };
    Ok(searched(found, search))
}

/// Those whose id or DNS name has a part.
fn searched<'a>(clusters: Found<'a>, part: Option<&str>) -> Found<'a> {
    let Some(part) = part.map(str::to_ascii_lowercase) else {
        return clusters;
    };
    Box::new(clusters.filter(move |cluster| {
        let (id, dns) = (&cluster.document().id, &cluster.head().dns);
        id.to_ascii_lowercase().contains(&part) || dns.contains(&*part)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_now_or_of_a_large_fleet() {
        let made = Summary {
            at: Moment(100_000),
            revision: Revision(7),
            ..Summary::default()
        };
        for (now, revision, clusters, answers) in [
            (101_000, 7, 10, true),
            (101_000, 8, 10, false),
            (106_000, 7, 10, false),
            (106_000, 8, LARGE, false),
            (106_000, 8, LARGE + 1, true),
        ] {
            assert_eq!(
                made.answers(Moment(now), Revision(revision), clusters),
                answers,
                "{now} {revision} {clusters}"
            );
        }
        let never = Summary::default();
        assert!(
            !never.answers(Moment(1000), Revision(0), LARGE + 1),
            "before the first look"
        );
    }
}
