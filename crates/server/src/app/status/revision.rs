//! How far a change has come.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use fleet::log::Revision;
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::status::{ClusterStatus, InputStatus, KindStatus, State};
use serde::Serialize;

use super::App;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;

/// How many clusters a change affects, and how it is with them. Every affected cluster counts once besides `affected`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RevisionStatus {
    pub revision: Revision,
    pub affected: usize,
    pub told: usize,
    pub converged: usize,
    pub failing: usize,
    pub silent: usize,
    pub behind: usize,
}

/// Which clusters of a revision.
#[derive(Clone, Debug, Default)]
pub struct RevisionQuery {
    pub selector: Option<String>,
    /// How many clusters that have not converged are named.
    pub limit: usize,
}

/// How far a revision has come, and who is not there yet.
#[derive(Debug)]
pub struct Progress {
    pub status: RevisionStatus,
    /// Clusters that have not converged, the worst first.
    pub missing: Vec<Missing>,
}

/// A cluster on which a revision has not converged.
#[derive(Clone, Debug)]
pub struct Missing {
    pub cluster: Arc<Cluster>,
    pub state: State,
    /// Whether it was told of the revision.
    pub told: bool,
    /// The input that the state comes from, and its path. None: the cluster was not told.
    pub input: Option<(Arc<str>, InputStatus)>,
}

/// What a revision changed for one cluster.
#[derive(Debug)]
struct Affected {
    id: Arc<str>,
    /// Path, and the inputs that are new or other.
    inputs: Vec<(Arc<str>, BTreeSet<String>)>,
}

/// What the last revisions that were asked for changed.
#[derive(Debug, Default)]
pub struct Effects(Mutex<Vec<(Revision, Arc<Vec<Affected>>)>>);

/// How many revisions are remembered.
const REMEMBERED: usize = 64;

impl App {
    /// How far a revision has come: the clusters whose replies it changed and that still exist.
    pub fn revision_status(
        &self,
        turn: &Turn,
        revision: Revision,
        query: &RevisionQuery,
    ) -> Result<Progress, ReadError> {
        let affected = self.affected(turn, revision)?;
        let judge = self.judge();
        let selector = query.selector.as_deref();
        let selector = selector
            .map(|text| Selector::for_fleet(text, &judge.fleet))
            .transpose()?;
        let clusters = judge.fleet.kinds().clusters();
        let matcher = selector
            .as_ref()
            .zip(clusters)
            .map(|(selector, kind)| selector.on(kind));
        let mut status = RevisionStatus {
            revision,
            ..RevisionStatus::default()
        };
        let mut found: [Vec<Missing>; 6] = Default::default();
        for affected in turn.until_stopped(affected.iter()) {
            let affected = affected?;
            let Some(cluster) = judge.fleet.cluster(&affected.id) else {
                continue;
            };
            if matcher.as_ref().is_some_and(|matcher| !matcher.matches(cluster)) {
                continue;
            }
            let is_told = |kind: &KindStatus| was_told(kind, revision);
            let judged = judge.status(&self.evidence, cluster);
            let missing = progress(cluster, &judged, &affected.inputs, is_told);
            status.count(missing.state);
            let place = &mut found[missing.state as usize];
            if missing.state != State::Converged && place.len() < query.limit {
                place.push(missing);
            }
        }
        let missing = found.into_iter().rev().flatten().take(query.limit).collect();
        Ok(Progress { status, missing })
    }

    fn affected(&self, turn: &Turn, revision: Revision) -> Result<Arc<Vec<Affected>>, ReadError> {
        let known = |all: &Vec<(Revision, Arc<Vec<Affected>>)>| {
            let known = all.iter().find(|(known, _)| *known == revision);
            known.map(|(_, affected)| affected.clone())
        };
        let lock = || self.effects.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(affected) = known(&lock()) {
            return Ok(affected);
        }
        if revision == Revision::ZERO {
            return Err(ReadError::no_revision(revision));
        }
        let difference = self.difference(turn, (Revision(revision.0 - 1), revision), None)?;
        let affected = difference.effect.clusters.into_iter().map(|cluster| Affected {
            id: cluster.id().clone(),
            inputs: cluster
                .inputs
                .iter()
                .map(|(path, list)| (path.clone(), list.present().map(str::to_owned).collect()))
                .collect(),
        });
        let affected = Arc::new(
            affected
                .filter(|affected| !affected.inputs.is_empty())
                .collect::<Vec<_>>(),
        );
        let mut all = lock();
        if all.len() >= REMEMBERED {
            all.remove(0);
        }
        all.push((revision, affected.clone()));
        Ok(affected)
    }
}

impl RevisionStatus {
    fn count(&mut self, state: State) {
        self.affected += 1;
        *match state {
            State::Failing => &mut self.failing,
            State::Silent | State::Never => &mut self.silent,
            State::Behind => &mut self.behind,
            State::Told => &mut self.told,
            State::Converged => &mut self.converged,
        } += 1;
    }
}

/// How a change of some inputs is doing on one cluster. `is_told` says whether the cluster was told of it.
pub(super) fn progress(
    cluster: &Arc<Cluster>,
    status: &ClusterStatus,
    inputs: &[(Arc<str>, BTreeSet<String>)],
    is_told: impl Fn(&KindStatus) -> bool,
) -> Missing {
    let mut worst = Missing {
        cluster: cluster.clone(),
        state: State::Converged,
        told: true,
        input: None,
    };
    for (path, ids) in inputs {
        let Some(kind) = status.kinds.iter().find(|kind| kind.path == *path) else {
            continue;
        };
        let was_told = is_told(kind);
        if !was_told {
            (worst.state, worst.told) = (worst.state.max(State::Behind), false);
        }
        for input in kind.inputs.iter().filter(|input| ids.contains(&*input.id)) {
            let state = input_progress(input, was_told);
            if state > worst.state {
                (worst.state, worst.input) = (state, Some((path.clone(), input.clone())));
            }
        }
    }
    if matches!(status.state, State::Silent | State::Never) && matches!(worst.state, State::Behind | State::Told) {
        worst.state = State::Silent;
    }
    worst
}

fn was_told(kind: &KindStatus, revision: Revision) -> bool {
    let told = kind.told.as_ref();
    told.is_some_and(|told| told.revision >= revision || told.digest == kind.current)
}

fn input_progress(input: &InputStatus, was_told: bool) -> State {
    let is_about_it = |mark| mark == Some(input.digest);
    match input.state {
        // Told of this change, whatever came after it.
        State::Behind if was_told => State::Told,
        // A failure without a mark, from before the cluster was told, may be what the change repairs.
        State::Failing if !was_told && !input.seen.as_ref().is_some_and(|seen| is_about_it(seen.mark)) => State::Behind,
        state => state,
    }
}
