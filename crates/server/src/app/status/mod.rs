//! What came of it: the evidence that clusters give, and views of their states.
//!
//! Evidence is kept in memory (`evidence_map`), judged when somebody looks (`overview`) and by a task that tells followers
//! (`watch`), and shared with other processes through a table beside the log (`share`). Nothing here changes a reply.

mod causes;
mod changed;
mod evidence_map;
mod latest;
mod map;
mod overview;
mod receive;
mod revision;
mod share;
mod strays;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::inputs::{Form, Reply};
use fleet::snapshot::{Cluster, Poll};
use fleet::status::{ClusterStatus, Expected, ExpectedKind, KindStatus, Lasting, Moment, State, judge};
use resourceset::Bundle;

pub use self::causes::{Cause, Shortened};
pub use self::changed::{Changed, Crowded, Waiting};
pub use self::evidence_map::{EvidenceMap, PollSeen, Said};
use self::latest::Latest;
pub use self::map::{ENVIRONMENT, Label, Map, MapQuery, Place};
pub(super) use self::overview::found;
pub use self::overview::{Counts, LastTold, Overview, Row, StatusQuery, Summary};
pub use self::revision::{Effects, Missing, Progress, RevisionQuery, RevisionStatus};
pub use self::share::share;
pub use self::strays::Strays;
pub use self::watch::{Transition, Transitions, watch};
use super::App;
use super::errors::ReadError;
use super::resources::cluster_of;

/// The time now.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Answers that many ask for at the same time.
#[derive(Debug, Default)]
pub struct Answers {
    overviews: Latest<StatusQuery, Overview>,
    maps: Latest<MapQuery, Map>,
    causes: Latest<Option<String>, Vec<Cause>>,
}

/// What states are judged by, besides evidence: a fleet, and the templates that clusters render its replies with.
#[derive(Debug)]
pub struct Judge {
    pub fleet: Arc<Fleet>,
    templates: Arc<Bundle>,
    pub(super) silent_after: Duration,
    pub now: Moment,
}

impl App {
    /// Judges by the fleet as it is now.
    pub fn judge(&self) -> Judge {
        Judge {
            fleet: self.fleet(),
            templates: self.templates.current(),
            silent_after: self.silent_after,
            now: now(),
        }
    }

    /// The status of one cluster.
    pub fn cluster_status(&self, id: &str) -> Result<(Arc<Cluster>, ClusterStatus), ReadError> {
        let judge = self.judge();
        let cluster = cluster_of(&judge.fleet, id)?.clone();
        let status = judge.status(&self.evidence, &cluster);
        Ok((cluster, status))
    }
}

impl Judge {
    /// The status of a cluster, with everything that it rests on.
    pub fn status(&self, map: &EvidenceMap, cluster: &Arc<Cluster>) -> ClusterStatus {
        let evidence = map.get(&self.fleet, cluster);
        judge(&evidence, &self.expected(cluster), self.now, self.silent_after)
    }

    /// The lasting part of a cluster's state, and its last poll. Without `may_judge`, a cluster whose evidence or replies have changed
    /// since it was last judged counts as behind.
    pub(super) fn lasting(
        &self,
        map: &EvidenceMap,
        cluster: &Arc<Cluster>,
        may_judge: bool,
    ) -> (Lasting, Option<Moment>) {
        let Some(outline) = map.outline(&self.fleet, cluster, &self.templates) else {
            return (NEVER, None);
        };
        if let Some(lasting) = outline.lasting {
            return (lasting, outline.last_poll);
        }
        if !may_judge {
            let lasting = Lasting {
                state: State::Behind,
                since: outline.last_poll,
            };
            return (lasting, outline.last_poll);
        }
        let evidence = map.get(&self.fleet, cluster);
        let lasting = match outline.has_objects {
            true => judge(&evidence, &self.expected(cluster), self.now, self.silent_after).lasting,
            false => Lasting::of_polls(&evidence, self.replies(cluster)),
        };
        map.keep(&self.fleet, cluster, &self.templates, outline.version, lasting);
        (lasting, outline.last_poll)
    }

    /// What the cluster would be told now.
    pub fn expected(&self, cluster: &Cluster) -> Expected {
        self.expected_at(cluster, |_| true)
    }

    /// The same for some paths.
    fn expected_at(&self, cluster: &Cluster, is_wanted: impl Fn(&str) -> bool) -> Expected {
        let named = self.fleet.named(&cluster.head().dns);
        let kinds = self.fleet.kinds().definitions().filter_map(|kind| {
            let path = kind.path.as_deref().filter(|path| is_wanted(path))?;
            let (watched, sets) = self.rendering(path);
            Some(match named.read(path, Form::Plain) {
                Poll::Reply(body) => ExpectedKind::read(path.into(), &body, watched, sets),
                // It gets no answer, so what it was told is not what it should have.
                _ => ExpectedKind {
                    path: path.into(),
                    digest: Etag(0),
                    watched,
                    sets,
                    inputs: Vec::new(),
                },
            })
        });
        Expected { kinds: kinds.collect() }
    }

    /// How a change of some inputs, by path, is doing on a cluster, and whether the cluster was told what it would be told now.
    pub(super) fn progress_on(
        &self,
        map: &EvidenceMap,
        cluster: &Arc<Cluster>,
        inputs: &[(Arc<str>, BTreeSet<String>)],
    ) -> (State, bool) {
        let evidence = map.get(&self.fleet, cluster);
        let is_wanted = |path: &str| inputs.iter().any(|(own, _)| &**own == path);
        // Without a report, the digests of replies tell all: nothing has to be merged for that.
        if !evidence.has_objects() {
            let replies: Vec<_> = self.replies(cluster).filter(|(path, ..)| is_wanted(path)).collect();
            let is_told = |(path, digest, ..): &(&str, Etag, bool, bool)| {
                evidence.told_at(path).is_some_and(|told| told.digest == *digest)
            };
            if !replies.iter().all(is_told) {
                return (State::Behind, false);
            }
            return (Lasting::of_polls(&evidence, replies.into_iter()).state, true);
        }
        let expected = self.expected_at(cluster, is_wanted);
        let status = judge(&evidence, &expected, self.now, self.silent_after);
        let is_told = |kind: &KindStatus| kind.told.as_ref().is_some_and(|told| told.digest == kind.current);
        let found = revision::progress(cluster, &status, inputs, is_told);
        (found.state, found.told)
    }

    /// The digests of what the cluster would be told now: path, digest, whether anything in it can become ready, and whether it
    /// has any input.
    fn replies<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = (&'a str, Etag, bool, bool)> {
        self.fleet.kinds().definitions().filter_map(|kind| {
            let path = kind.path.as_deref()?;
            let (digest, active) = self.fleet.reply_outline(cluster, kind).unwrap_or((Etag(0), false));
            let has_inputs = digest != Reply::empty().plain;
            Some((path, digest, active && self.templates.waits(path), has_inputs))
        })
    }

    /// Whether what is rendered from the inputs of a path tells when it is ready, and the ResourceSets that render it.
    fn rendering(&self, path: &str) -> (bool, Arc<[Box<str>]>) {
        let sets = self.templates.sets_of(path).map(Box::from).collect();
        (self.templates.waits(path), sets)
    }
}

const NEVER: Lasting = Lasting {
    state: State::Never,
    since: None,
};
