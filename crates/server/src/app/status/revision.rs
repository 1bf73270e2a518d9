//! How far a change has come.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use fleet::log::Revision;
use fleet::status::{ClusterStatus, State};
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
    pub fn revision_status(&self, turn: &Turn, revision: Revision) -> Result<RevisionStatus, ReadError> {
        let affected = self.affected(turn, revision)?;
        let judge = self.judge();
        let mut status = RevisionStatus {
            revision,
            ..RevisionStatus::default()
        };
        for affected in turn.until_stopped(affected.iter()) {
            let affected = affected?;
            let Some(cluster) = judge.fleet.cluster(&affected.id) else {
                continue;
            };
            status.affected += 1;
            let state = progress(&judge.status(&self.evidence, cluster), affected, revision);
            *match state {
                State::Failing => &mut status.failing,
                State::Silent | State::Never => &mut status.silent,
                State::Behind => &mut status.behind,
                State::Told => &mut status.told,
                State::Converged => &mut status.converged,
            } += 1;
        }
        Ok(status)
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
            id: cluster.id,
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

/// How a revision is doing on one cluster.
fn progress(status: &ClusterStatus, affected: &Affected, revision: Revision) -> State {
    let mut worst = State::Converged;
    for (path, ids) in &affected.inputs {
        let Some(kind) = status.kinds.iter().find(|kind| kind.path == *path) else {
            continue;
        };
        let told = kind.told.as_ref();
        let was_told = told.is_some_and(|told| told.revision >= revision || told.digest == kind.current);
        if !was_told {
            worst = worst.max(State::Behind);
        }
        let inputs = kind.inputs.iter().filter(|input| ids.contains(&*input.id));
        for input in inputs {
            // Told of this change, whatever came after it.
            let state = match input.state {
                State::Behind if was_told => State::Told,
                state => state,
            };
            worst = worst.max(state);
        }
    }
    match status.state {
        State::Silent | State::Never if worst != State::Failing && worst != State::Converged => State::Silent,
        _ => worst,
    }
}
