//! Failures, grouped by what they have in common.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fleet::status::{Moment, Observation, State};

use super::App;
use crate::app::errors::ReadError;
use crate::app::reads::Turn;
use fleet::selector::Selector;

/// The most clusters that a cause names.
const NAMED: usize = 10;

/// A failure that several clusters may have.
#[derive(Clone, Debug)]
pub struct Cause {
    pub reason: Box<str>,
    /// The path and the id of the input. None: it belongs to no input.
    pub input: Option<(Box<str>, Box<str>)>,
    pub version: Box<str>,
    pub clusters: usize,
    /// The first ones.
    pub examples: Vec<Box<str>>,
    pub since: Moment,
    /// The newest.
    pub message: Box<str>,
    last: Moment,
}

impl App {
    /// The failures of the clusters that a selector matches, those of most clusters first, as they were asked for at a moment.
    pub fn causes(&self, turn: &Turn, selector: &Option<String>, asked: Instant) -> Result<Arc<Vec<Cause>>, ReadError> {
        let make = |selector: &Option<String>| self.find_causes(turn, selector.as_deref());
        self.answers.causes.answer(selector, asked, make)
    }

    fn find_causes(&self, turn: &Turn, selector: Option<&str>) -> Result<Vec<Cause>, ReadError> {
        let judge = self.judge();
        let selector = selector
            .map(|text| Selector::for_fleet(text, &judge.fleet))
            .transpose()?;
        let all: Box<dyn Iterator<Item = _>> = match &selector {
            Some(selector) => selector.select(&judge.fleet),
            None => Box::new(judge.fleet.clusters().values()),
        };
        let mut causes: BTreeMap<_, Cause> = BTreeMap::new();
        for cluster in turn.until_stopped(all) {
            let cluster = cluster?;
            let (lasting, _) = judge.lasting(&self.evidence, cluster, true);
            if lasting.state != State::Failing {
                continue;
            }
            let id = &cluster.document().id;
            let status = judge.status(&self.evidence, cluster);
            for kind in &status.kinds {
                let failing = kind.inputs.iter().filter(|input| input.state == State::Failing);
                for (input, seen) in failing.filter_map(|input| Some((input, input.seen.as_ref()?))) {
                    let name = Some((Box::from(&*kind.path), input.id.clone()));
                    note(&mut causes, id, name, seen);
                }
            }
            for seen in &status.objects {
                note(&mut causes, id, None, seen);
            }
        }
        let mut causes: Vec<_> = causes.into_values().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.clusters));
        Ok(causes)
    }
}

type Key = (Box<str>, Option<(Box<str>, Box<str>)>, Box<str>);

fn note(causes: &mut BTreeMap<Key, Cause>, cluster: &str, input: Option<(Box<str>, Box<str>)>, seen: &Observation) {
    let key = (seen.reason.clone(), input.clone(), seen.version.clone());
    let cause = causes.entry(key).or_insert_with(|| Cause {
        reason: seen.reason.clone(),
        input,
        version: seen.version.clone(),
        clusters: 0,
        examples: Vec::new(),
        since: seen.since,
        message: seen.message.clone(),
        last: seen.at,
    });
    // Several objects of one cluster may fail alike.
    if cause.examples.last().map(|last| &**last) != Some(cluster) {
        cause.clusters += 1;
        if cause.examples.len() < NAMED {
            cause.examples.push(cluster.into());
        }
    }
    cause.since = cause.since.min(seen.since);
    if seen.at > cause.last {
        (cause.last, cause.message) = (seen.at, seen.message.clone());
    }
}
