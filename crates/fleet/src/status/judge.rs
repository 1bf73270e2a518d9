//! The state of a cluster: a function of evidence, of what the cluster would be told now, and of the time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::observation::{Health, InputRef, Observation, PROVIDER, RESOURCE_SET, Source};
use super::{Evidence, Expected, ExpectedInput, ExpectedKind, Moment, State, Told};
use crate::document::Etag;
use crate::inputs::Mark;
use crate::log::Revision;

/// The state of one cluster, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStatus {
    pub state: State,
    /// None: not known.
    pub since: Option<Moment>,
    pub last_poll: Option<Moment>,
    pub kinds: Vec<KindStatus>,
    /// What fails and belongs to no input.
    pub objects: Vec<Observation>,
    /// The state without the time: it stays until evidence or the fleet changes.
    pub lasting: Lasting,
}

/// The state of a cluster as long as it goes on polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting {
    pub state: State,
    pub since: Option<Moment>,
}

/// What a cluster should have of one kind, and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct KindStatus {
    pub path: Arc<str>,
    pub current: Etag,
    pub state: State,
    pub told: Option<ToldStatus>,
    pub inputs: Vec<InputStatus>,
    since: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldStatus {
    pub digest: Etag,
    pub revision: Revision,
    pub at: Moment,
    pub since: Moment,
    pub agent: Arc<str>,
}

/// The state of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputStatus {
    pub id: Box<str>,
    pub state: State,
    pub digest: Mark,
    pub enabled: bool,
    pub since: Option<Moment>,
    /// What the state rests on. None: polls.
    pub seen: Option<Observation>,
}

/// The status of a cluster.
pub fn judge(evidence: &Evidence, expected: &Expected, now: Moment, silent_after: Duration) -> ClusterStatus {
    let grouped = Grouped::new(evidence);
    let kinds = expected.kinds.iter().map(|kind| kind_status(kind, evidence, &grouped));
    let kinds: Vec<_> = kinds.collect();
    let objects: Vec<_> = strays(evidence, expected, &grouped).cloned().collect();
    let lasting = lasting(evidence, &kinds, &objects);
    let (state, since) = lasting.at(evidence, now, silent_after);
    ClusterStatus {
        state,
        since,
        last_poll: evidence.last_poll(),
        kinds,
        objects,
        lasting,
    }
}

impl Lasting {
    /// The same for a cluster that no event or report has told about, from the digests of its replies alone: path, digest, whether
    /// anything in the reply can become ready, and whether it has any input.
    pub fn of_polls<'a>(evidence: &Evidence, replies: impl Iterator<Item = (&'a str, Etag, bool, bool)>) -> Lasting {
        if evidence.told().is_empty() {
            return NEVER;
        }
        let mut worst = Lasting {
            state: State::Converged,
            since: evidence.told().iter().map(|told| told.since).max(),
        };
        for (path, digest, watched, has_inputs) in replies {
            let told = evidence.told_at(path);
            let state = poll_state(told, digest, has_inputs);
            let state = if watched { state.max(State::Told) } else { state };
            worst = worst.or(state, poll_since(told, state));
        }
        worst
    }

    /// The worse of both; of equal ones, the one that began last, or for bad ones first.
    fn or(self, state: State, since: Option<Moment>) -> Lasting {
        if state != self.state {
            return if state > self.state {
                Lasting { state, since }
            } else {
                self
            };
        }
        let both = [self.since, since].into_iter().flatten();
        let since = match state {
            State::Converged | State::Told => both.max(),
            _ => both.min(),
        };
        Lasting { state, since }
    }

    /// The state at a time.
    pub fn at(self, evidence: &Evidence, now: Moment, silent_after: Duration) -> (State, Option<Moment>) {
        self.at_poll(evidence.last_poll(), now, silent_after)
    }

    /// The same, by the last poll.
    pub fn at_poll(self, last_poll: Option<Moment>, now: Moment, silent_after: Duration) -> (State, Option<Moment>) {
        match last_poll {
            _ if self.state == State::Failing => (State::Failing, self.since),
            None => (State::Never, None),
            Some(last) if now.since(last) > silent_after => (State::Silent, Some(last.plus(silent_after))),
            Some(_) => (self.state, self.since),
        }
    }
}

const NEVER: Lasting = Lasting {
    state: State::Never,
    since: None,
};

fn lasting(evidence: &Evidence, kinds: &[KindStatus], strays: &[Observation]) -> Lasting {
    let mut worst = match evidence.told().is_empty() {
        true => NEVER,
        false => Lasting {
            state: State::Converged,
            since: evidence.told().iter().map(|told| told.since).max(),
        },
    };
    for kind in kinds {
        worst = worst.or(kind.state, kind.since);
    }
    for stray in strays {
        worst = worst.or(State::Failing, Some(stray.since));
    }
    worst
}

/// What polls say about a reply.
fn poll_state(told: Option<&Told>, current: Etag, has_inputs: bool) -> State {
    match told {
        Some(told) if told.digest == current => State::Converged,
        // There is nothing to be told.
        None if !has_inputs => State::Converged,
        _ => State::Behind,
    }
}

/// Since when: a cluster is behind since its last poll at the earliest.
fn poll_since(told: Option<&Told>, state: State) -> Option<Moment> {
    told.map(|told| match state {
        State::Behind => told.at,
        _ => told.since,
    })
}

/// Observations by what they are about.
struct Grouped<'a> {
    /// By path and id.
    inputs: HashMap<(&'a str, &'a str), Vec<&'a Observation>>,
    /// Those of no input.
    others: Vec<&'a Observation>,
}

impl<'a> Grouped<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let name = |input: &'a InputRef| (&*input.path, &*input.id);
        let releases = evidence.objects().filter(|seen| &*seen.object.kind == "HelmRelease");
        let charts = releases.filter_map(|seen| Some((seen.object.chart(), name(seen.input.as_ref()?))));
        let charts: HashMap<String, _> = charts.collect();
        let mut grouped = Grouped {
            inputs: HashMap::new(),
            others: Vec::new(),
        };
        for seen in evidence.objects() {
            let of_chart = || {
                charts
                    .get(&*seen.object.name)
                    .filter(|_| &*seen.object.kind == "HelmChart")
            };
            match seen.input.as_ref().map(name).or_else(|| of_chart().copied()) {
                Some(input) => grouped.inputs.entry(input).or_default().push(seen),
                None => grouped.others.push(seen),
            }
        }
        grouped
    }
}

fn kind_status(kind: &ExpectedKind, evidence: &Evidence, grouped: &Grouped<'_>) -> KindStatus {
    let told = evidence.told_at(&kind.path);
    let by_poll = poll_state(told, kind.digest, !kind.inputs.is_empty());
    let set = grouped.others.iter().copied().find(|seen| {
        let renders = &*seen.object.kind == RESOURCE_SET && kind.sets.contains(&seen.object.name);
        renders && seen.health == Health::Failing && !is_outdated(seen, told)
    });
    let inputs = kind.inputs.iter().map(|input| {
        let seen = grouped.inputs.get(&(&*kind.path, &*input.id));
        input_status(kind, input, told, by_poll, seen.map_or(&[], Vec::as_slice), set)
    });
    let inputs: Vec<_> = inputs.collect();
    let mut worst = Lasting {
        state: by_poll,
        since: poll_since(told, by_poll),
    };
    if let Some(set) = set {
        worst = worst.or(State::Failing, Some(set.since));
    }
    for input in &inputs {
        worst = worst.or(input.state, input.since);
    }
    KindStatus {
        path: kind.path.clone(),
        current: kind.digest,
        state: worst.state,
        told: told.map(|told| ToldStatus {
            digest: told.digest,
            revision: told.revision,
            at: told.at,
            since: told.since,
            agent: told.agent.clone(),
        }),
        inputs,
        since: worst.since,
    }
}

/// Whether a hint without a mark is older than what the cluster was told last.
fn is_outdated(seen: &Observation, told: Option<&Told>) -> bool {
    seen.source == Source::Event && told.is_some_and(|told| seen.learnt < told.since)
}

fn input_status(
    kind: &ExpectedKind,
    input: &ExpectedInput,
    told: Option<&Told>,
    by_poll: State,
    seen: &[&Observation],
    set: Option<&Observation>,
) -> InputStatus {
    let is_current = |seen: &Observation| seen.mark == Some(input.mark);
    let status = |state: State, seen: Option<&Observation>| InputStatus {
        id: input.id.clone(),
        state,
        digest: input.mark,
        enabled: input.enabled,
        since: seen.map(|seen| seen.since).or_else(|| poll_since(told, state)),
        seen: seen.cloned(),
    };
    let success = success(input.mark, seen);
    let failing = seen.iter().filter(|seen| {
        let counts = is_current(seen) || (seen.mark.is_none() && !is_outdated(seen, told));
        // An event is a hint that a later success answers. A report says what is.
        let answered = seen.source == Source::Event && success.is_some_and(|success| success.at > seen.at);
        seen.health == Health::Failing && counts && !answered
    });
    // What applies the input says more than its source does.
    if let Some(failing) = failing.max_by_key(|seen| (seen.object.applies(), seen.at)) {
        return status(State::Failing, Some(failing));
    }
    if let Some(success) = success.filter(|success| !is_overtaken(success, seen)) {
        return status(State::Converged, Some(success));
    }
    if let Some(set) = set {
        return status(State::Failing, Some(set));
    }
    let latest = seen
        .iter()
        .copied()
        .filter(|seen| is_current(seen))
        .max_by_key(|seen| (seen.object.applies(), seen.at));
    match by_poll {
        State::Converged if kind.watched && input.enabled => status(State::Told, latest),
        State::Converged => status(State::Converged, None),
        behind => status(behind, latest),
    }
}

/// The observation that proves an input ready with this content, if there is one.
fn success<'a>(mark: Mark, seen: &[&'a Observation]) -> Option<&'a Observation> {
    let proves = |seen: &Observation| seen.mark == Some(mark) && !seen.inferred && seen.health == Health::Ready;
    let appliers: Vec<_> = seen
        .iter()
        .copied()
        .filter(|seen| seen.object.applies())
        // An event about an earlier content may be of an object that is gone.
        .filter(|seen| seen.source == Source::Report || seen.mark == Some(mark))
        .collect();
    let proof = match appliers.is_empty() {
        false => appliers,
        true => {
            let reported = seen.iter().copied();
            let reported = reported.filter(|seen| seen.source == Source::Report && seen.mark == Some(mark));
            reported.collect()
        }
    };
    let all = proof.iter().all(|seen| proves(seen));
    proof.into_iter().filter(|_| all).max_by_key(|seen| seen.at)
}

/// Whether the input had another content after an event told of this success. Then the cluster has to come back to this one first, of which Flux
/// sends no event. A report tells what an object is now.
fn is_overtaken(success: &Observation, seen: &[&Observation]) -> bool {
    let time = |seen: &Observation| (seen.at, seen.learnt);
    let mut other = seen
        .iter()
        .filter(|seen| seen.mark.is_some() && seen.mark != success.mark);
    success.source == Source::Event && other.any(|other| time(other) > time(success))
}

/// What fails and belongs to no input: objects that nobody marked, and providers.
fn strays<'a>(
    evidence: &Evidence,
    expected: &'a Expected,
    grouped: &'a Grouped<'a>,
) -> impl Iterator<Item = &'a Observation> {
    let last_poll = evidence.last_poll();
    let last_told = evidence.told().iter().map(|told| told.since).max();
    let renders = |seen: &Observation| {
        let mut sets = expected.kinds.iter().flat_map(|kind| kind.sets.iter());
        &*seen.object.kind == RESOURCE_SET && sets.any(|set| *set == seen.object.name)
    };
    grouped.others.iter().copied().filter(move |seen| {
        let later = |moment: Option<Moment>| moment.is_some_and(|moment| moment > seen.learnt);
        let answered = match &*seen.object.kind {
            // It polls again. Flux sends no event then.
            PROVIDER => later(last_poll),
            _ => later(last_told),
        };
        let answered = answered && seen.source == Source::Event;
        seen.health == Health::Failing && !renders(seen) && !answered
    })
}
