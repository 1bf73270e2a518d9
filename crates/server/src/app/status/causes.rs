//! Failures, grouped by what they have in common.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
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
    /// When the last cluster got it.
    pub joined: Moment,
    /// The newest.
    pub message: Box<str>,
    last: Moment,
    /// The cluster that was counted last.
    counted: Box<str>,
}

/// A part of all causes.
#[derive(Debug)]
pub struct Shortened<'a> {
    pub causes: Vec<&'a Cause>,
    /// How many causes are left out because their only cluster has more of them than are asked for, and those clusters, the ones with most first.
    pub own: usize,
    pub clusters: Vec<(&'a str, usize)>,
}

impl<'a> Shortened<'a> {
    /// At most `limit` causes, and of those that only one cluster has, at most `own` of each cluster: so no cluster hides what the others have.
    pub fn of(causes: &'a [Cause], limit: usize, own: usize) -> Self {
        let mut owners: HashMap<&str, usize> = HashMap::new();
        let mut kept = Vec::new();
        for cause in causes {
            let is_shown = match cause.examples.as_slice() {
                [only] if cause.clusters == 1 => {
                    let number = owners.entry(only).or_default();
                    *number += 1;
                    *number <= own
                }
                _ => true,
            };
            if is_shown {
                kept.push(cause);
            }
        }
        kept.truncate(limit);
        let left_out = owners.into_iter().map(|(id, number)| (id, number.saturating_sub(own)));
        let mut clusters: Vec<_> = left_out.filter(|(_, number)| *number > 0).collect();
        clusters.sort_by_key(|(id, number)| (Reverse(*number), *id));
        let own = clusters.iter().map(|(_, number)| number).sum();
        clusters.truncate(limit);
        Shortened {
            causes: kept,
            own,
            clusters,
        }
    }
}

impl App {
    /// The failures of the clusters that a selector matches, those of most clusters and then the newest first, as they were asked for at a moment.
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
        causes.sort_by_key(|cause| Reverse((cause.clusters, cause.joined)));
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
        joined: seen.since,
        message: seen.message.clone(),
        last: seen.at,
        counted: Box::default(),
    });
    // Several objects of one cluster may fail alike.
    if *cause.counted != *cluster {
        cause.counted = cluster.into();
        cause.clusters += 1;
        if cause.examples.len() < NAMED {
            cause.examples.push(cluster.into());
        }
    }
    cause.since = cause.since.min(seen.since);
    cause.joined = cause.joined.max(seen.since);
    if seen.at > cause.last {
        (cause.last, cause.message) = (seen.at, seen.message.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(reason: &str, clusters: &[&str]) -> Cause {
        Cause {
            reason: reason.into(),
            input: None,
            version: "1.0".into(),
            clusters: clusters.len(),
            examples: clusters.iter().map(|id| Box::from(*id)).collect(),
            since: Moment(1),
            joined: Moment(1),
            message: "".into(),
            last: Moment(1),
            counted: Box::default(),
        }
    }

    #[test]
    fn one_cluster_does_not_hide_what_the_others_have() {
        let mut causes = vec![cause("shared", &["a", "b"])];
        causes.extend((0..1000).map(|n| cause(&format!("own-{n}"), &["a"])));
        causes.extend([cause("b-1", &["b"]), cause("b-2", &["b"])]);
        let short = Shortened::of(&causes, 100, 3);
        let reasons: Vec<&str> = short.causes.iter().map(|cause| &*cause.reason).collect();
        assert_eq!(reasons, ["shared", "own-0", "own-1", "own-2", "b-1", "b-2"]);
        assert_eq!((short.own, short.clusters), (997, vec![("a", 997)]));
        let all = Shortened::of(&causes, usize::MAX, usize::MAX);
        assert_eq!((all.causes.len(), all.own), (causes.len(), 0));
        assert_eq!(Shortened::of(&causes, 2, 3).causes.len(), 2);
    }

    fn observation(since: u64, at: u64) -> Observation {
        serde_json::from_value(serde_json::json!({
            "o": {"k": "HelmRelease", "n": "podinfo"}, "h": "f", "r": "UpgradeFailed", "a": at, "b": since, "c": at, "s": "r",
        }))
        .unwrap()
    }

    #[test]
    fn several_objects_of_a_cluster_count_once() {
        let mut causes = BTreeMap::new();
        for n in 0..3 * NAMED {
            for _ in 0..2 {
                note(&mut causes, &format!("c-{n}"), None, &observation(1, 1));
            }
        }
        let found = causes.into_values().next().unwrap();
        assert_eq!((found.clusters, found.examples.len()), (3 * NAMED, NAMED));
    }

    #[test]
    fn a_cause_is_as_new_as_its_last_cluster() {
        let mut causes = BTreeMap::new();
        for (cluster, since, at) in [("a", 10, 90), ("b", 50, 60)] {
            note(&mut causes, cluster, None, &observation(since, at));
        }
        let found = causes.into_values().next().unwrap();
        assert_eq!((found.clusters, found.since, found.joined), (2, Moment(10), Moment(50)));
    }
}
