//! How far a change has come.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet::document::Etag;
use fleet::log::Revision;
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::status::{ClusterStatus, Evidence, InputStatus, KindStatus, Lasting, State, judge};
use serde::Serialize;

use super::{App, EvidenceMap, Judge};
use crate::app::changed_inputs::{ChangedInputs, Shared};
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
    /// Clusters with the same share it.
    inputs: Arc<ChangedInputs>,
}

/// What the last revisions that were asked for changed.
#[derive(Debug, Default)]
pub struct Effects(Mutex<Vec<Effect>>);

type Effect = (Revision, Arc<[Affected]>);

/// How many revisions are remembered, and how many clusters of them all. The last one always is.
const REMEMBERED: usize = 64;
const MOST_CLUSTERS: usize = 1_000_000;

impl Effects {
    fn lock(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, revision: Revision) -> Option<Arc<[Affected]>> {
        let all = self.lock();
        let known = all.iter().find(|(known, _)| *known == revision);
        known.map(|(_, affected)| affected.clone())
    }

    fn remember(&self, revision: Revision, affected: Arc<[Affected]>) {
        let mut all = self.lock();
        // Two may have asked for it at the same time.
        all.retain(|(known, _)| *known != revision);
        all.push((revision, affected));
        let clusters = |all: &[Effect]| all.iter().map(|(_, affected)| affected.len()).sum::<usize>();
        while all.len() > 1 && (all.len() > REMEMBERED || clusters(&all) > MOST_CLUSTERS) {
            all.remove(0);
        }
    }
}

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
            let missing = judge.progress_since(&self.evidence, cluster, &affected.inputs, revision);
            status.count(missing.state);
            let place = &mut found[missing.state as usize];
            if missing.state != State::Converged && place.len() < query.limit {
                place.push(missing);
            }
        }
        let missing = found.into_iter().rev().flatten().take(query.limit).collect();
        Ok(Progress { status, missing })
    }

    fn affected(&self, turn: &Turn, revision: Revision) -> Result<Arc<[Affected]>, ReadError> {
        if let Some(affected) = self.effects.get(revision) {
            return Ok(affected);
        }
        if revision == Revision::ZERO {
            return Err(ReadError::no_revision(revision));
        }
        let difference = self.difference(turn, (Revision(revision.0 - 1), revision), None)?;
        let mut shared = Shared::default();
        let clusters = difference.effect.clusters.iter();
        let affected = clusters
            .filter(|cluster| !cluster.inputs.is_empty())
            .map(|cluster| Affected {
                id: cluster.id().clone(),
                inputs: shared.of(cluster),
            });
        let affected: Arc<[Affected]> = affected.collect();
        self.effects.remember(revision, affected.clone());
        Ok(affected)
    }
}

impl Judge {
    /// How a revision that changed some inputs is doing on a cluster.
    fn progress_since(
        &self,
        map: &EvidenceMap,
        cluster: &Arc<Cluster>,
        inputs: &ChangedInputs,
        revision: Revision,
    ) -> Missing {
        // Nothing has to be merged for what is known to be well, or was told by polls alone.
        let outline = map.outline(&self.fleet, cluster, &self.templates);
        let lasting = outline.and_then(|outline| outline.lasting);
        if lasting.is_some_and(|lasting| lasting.state == State::Converged) {
            return Missing::nothing(cluster);
        }
        let evidence = map.get(&self.fleet, cluster);
        let by_polls = self.progress_by_polls(&evidence, cluster, inputs, revision);
        by_polls.unwrap_or_else(|| {
            let is_wanted = |path: &str| inputs.iter().any(|(own, _)| &**own == path);
            let status = judge(
                &evidence,
                &self.expected_at(cluster, is_wanted),
                self.now,
                self.silent_after,
            );
            progress(cluster, &status, inputs, |kind| was_told(kind, revision))
        })
    }

    /// The same, if no report or event told of the cluster and its inputs need not be looked at.
    fn progress_by_polls(
        &self,
        evidence: &Evidence,
        cluster: &Arc<Cluster>,
        inputs: &ChangedInputs,
        revision: Revision,
    ) -> Option<Missing> {
        if evidence.has_objects() {
            return None;
        }
        let mut missing = Missing::nothing(cluster);
        let mut is_certain = true;
        for (path, digest, waits, _) in self.replies(cluster) {
            let Some((_, ids)) = inputs.iter().find(|(own, _)| &**own == path) else {
                continue;
            };
            let told = evidence.told_at(path);
            if !is_told(told.map(|told| (told.revision, told.digest)), digest, revision) {
                (missing.state, missing.told) = (State::Behind, false);
            }
            let is_current = told.is_some_and(|told| told.digest == digest);
            is_certain &= is_current && (!waits || ids.is_empty());
        }
        if missing.state == State::Converged {
            return is_certain.then_some(missing);
        }
        let lasting = Lasting {
            state: missing.state,
            since: None,
        };
        let (state, _) = lasting.at(evidence, self.now, self.silent_after);
        if matches!(state, State::Silent | State::Never) {
            missing.state = State::Silent;
        }
        Some(missing)
    }
}

impl Missing {
    /// Nothing is missing.
    fn nothing(cluster: &Arc<Cluster>) -> Self {
        Missing {
            cluster: cluster.clone(),
            state: State::Converged,
            told: true,
            input: None,
        }
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
    let mut worst = Missing::nothing(cluster);
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
    let told = kind.told.as_ref().map(|told| (told.revision, told.digest));
    is_told(told, kind.current, revision)
}

/// Whether a cluster was told of a revision, by what it was told last and what it would be told now.
fn is_told(told: Option<(Revision, Etag)>, current: Etag, revision: Revision) -> bool {
    told.is_some_and(|(at, digest)| at >= revision || digest == current)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn affected(clusters: usize) -> Arc<[Affected]> {
        let inputs = Arc::new(ChangedInputs::new());
        let affected = (0..clusters).map(|_| Affected {
            id: "c".into(),
            inputs: inputs.clone(),
        });
        affected.collect()
    }

    #[test]
    fn revisions_are_remembered_within_bounds() {
        let effects = Effects::default();
        let known = || {
            effects
                .lock()
                .iter()
                .map(|(revision, _)| revision.0)
                .collect::<Vec<_>>()
        };
        (1..=100).for_each(|n| effects.remember(Revision(n), affected(10)));
        assert_eq!(known(), (37..=100).collect::<Vec<_>>());
        effects.remember(Revision(101), affected(MOST_CLUSTERS - 5));
        assert_eq!(known(), [101], "few that changed many");
        effects.remember(Revision(102), affected(5));
        assert_eq!(known(), [101, 102]);
        effects.remember(Revision(103), affected(MOST_CLUSTERS + 1));
        assert_eq!(known(), [103], "the last one always");
        effects.remember(Revision(103), affected(1));
        assert_eq!(known(), [103]);
    }
}
