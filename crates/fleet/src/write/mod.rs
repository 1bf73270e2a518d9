//! The one way to write: operations against a snapshot give the changes of one revision and the snapshot after it, or a
//! refusal. Pure code; the caller makes the changes durable before anyone sees them.
//!
//! Operations run in order on a [`Draft`] (`verbs`, `kinds`). Rules that depend on several resources are checked once, on the
//! end state (`checks`). `pointers` decides where in the request each problem is reported.

mod checks;
mod documents;
mod guards;
mod identities;
mod kinds;
mod left_out;
mod names;
mod overlap;
mod pointers;
mod profiles;
mod rollouts;
mod verbs;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::left_out::LeftOut;
use self::pointers::Fault;
use crate::identity::IDENTITIES;
use crate::json::Json;
use crate::kind::{self, CLUSTERS, DECOMMISSIONS, Failures, GUARDS, KINDS, Kind, PROFILES, RELEASED_NAMES, ROLLOUTS};
use crate::log::{Change, Head};
use crate::operation::Operation;
use crate::refusal::{MOST_VIOLATIONS, Reason, Refusal};
use crate::snapshot::{Edit, Fleet};
use crate::status::Moment;

/// How a write is checked, and how its problems are pointed at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Pointers begin with `/operations/N`: the operations came as a batch.
    pub batch: bool,
    /// References to missing definitions are accepted and reported later: a seed may have some.
    pub allow_dangling: bool,
    /// Selectors may name labels that no cluster has, also in negated requirements: the clusters come later, or had the label once.
    pub allow_unknown_labels: bool,
    /// The author's time. None: what the write does has no time of its own.
    pub at: Option<Moment>,
    /// On how many clusters something may be removed, as confirmed: a rollout that the write starts keeps it.
    pub removals: Option<usize>,
}

impl Rules {
    /// Those of a single request.
    pub const PLAIN: Rules = Rules {
        batch: false,
        allow_dangling: false,
        allow_unknown_labels: false,
        at: None,
        removals: None,
    };

    fn in_batch(self) -> Self {
        Rules { batch: true, ..self }
    }
}

/// What a write does.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One per resource that changes; empty if nothing does.
    pub changes: Vec<Change>,
    fleet: Fleet,
}

impl Outcome {
    /// The fleet after the write, still with the revision that the write was checked against.
    pub fn preview(&self) -> &Fleet {
        &self.fleet
    }

    /// The fleet once the write is revision `head`.
    pub fn committed(self, head: Head) -> Fleet {
        let clusters = self.changes.iter().any(|change| &*change.kind == CLUSTERS);
        self.fleet.at(head, clusters)
    }
}

impl Fleet {
    /// What `operations` would do. Operations run in order, each on the result of the previous one; references and the contract
    /// with Flux are checked on the end state.
    pub fn write(&self, operations: &[Operation], rules: Rules) -> Result<Outcome, Refusal> {
        let mut draft = Draft::new(self, operations, rules);
        let outcome = draft.run_all().and_then(|()| draft.finish());
        outcome.map_err(|mut refusal| {
            // Without a batch there is no operation to point into, and for these reasons the document is not at fault.
            let reasons = [Reason::NotFound, Reason::Stale, Reason::InUse, Reason::Protected];
            if !rules.batch && reasons.contains(&refusal.reason) {
                refusal.errors.clear();
            }
            refusal
        })
    }
}

/// The most resources that one write may put, counted once per operation. Operations times clusters has no other bound, and
/// writers wait for each other.
const MOST_WORK: usize = 250_000;

/// The order of changes in a revision: it can be replayed from front to back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    KindPut,
    Definition,
    Cluster,
    Name,
    Identity,
    KindGone,
}

/// The last operation that wrote a resource, and the origin it gave.
struct Touch {
    operation: usize,
    origin: Option<Arc<str>>,
}

/// A write in progress.
struct Draft<'a> {
    base: &'a Fleet,
    operations: &'a [Operation],
    /// The number of the operation that is running, or on whose behalf a check writes.
    current: usize,
    edit: Edit,
    rules: Rules,
    /// Every resource that was written, by kind and id.
    touched: BTreeMap<(Arc<str>, Arc<str>), Touch>,
    /// Whether kinds were put that are not in effect yet.
    kinds_pending: bool,
    /// Whether kinds were put into effect before, in this write.
    kinds_settled: bool,
    kind_failures: Failures,
    /// What the documents of clusters leave out.
    left_out: LeftOut,
    /// How many resources were put so far, or the equivalent in other work.
    work: usize,
}

impl<'a> Draft<'a> {
    fn new(base: &'a Fleet, operations: &'a [Operation], rules: Rules) -> Self {
        Draft {
            base,
            operations,
            current: 0,
            edit: Edit::new(base.clone()),
            rules,
            touched: BTreeMap::new(),
            kinds_pending: false,
            kinds_settled: false,
            kind_failures: Vec::new(),
            left_out: LeftOut::default(),
            work: 0,
        }
    }

    /// Runs every operation. Problems of the same reason are reported together; others merely follow from the first one.
    fn run_all(&mut self) -> Result<(), Refusal> {
        let mut refused: Option<Refusal> = None;
        for current in 0..self.operations.len() {
            self.current = current;
            if let Err(fault) = self.run() {
                let refusal = self.in_request(fault);
                match &mut refused {
                    None => refused = Some(refusal),
                    Some(first) if first.reason == refusal.reason => {
                        first.errors.extend(refusal.errors);
                        first.clusters.extend(refusal.clusters);
                    }
                    Some(_) => {}
                }
            }
            let is_enough = |refusal: &Refusal| refusal.errors.len() >= MOST_VIOLATIONS;
            if self.work > MOST_WORK || refused.as_ref().is_some_and(is_enough) {
                break;
            }
        }
        let errors = match refused {
            None => Vec::new(),
            Some(refusal) if refusal.reason == Reason::Invalid => refusal.errors,
            Some(refusal) => return Err(refusal),
        };
        let errors: Vec<_> = self.left_out.violations().chain(errors).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Refusal::invalid(errors)),
        }
    }

    fn operation(&self) -> &'a Operation {
        &self.operations[self.current]
    }

    /// The fleet as the operations so far leave it.
    fn now(&self) -> &Fleet {
        &self.edit.fleet
    }

    fn kind(&self, name: &str) -> Result<Arc<Kind>, Refusal> {
        let unknown = || Refusal::at(Reason::NotFound, "/kind", format!("there is no kind \"{name}\""));
        self.now().kinds().get(name).cloned().ok_or_else(unknown)
    }

    fn not_found(&self, kind: &str, id: &str) -> Refusal {
        let singular = match kind {
            KINDS => "kind".to_owned(),
            IDENTITIES => "identity".to_owned(),
            kind => match (kind::name_record(kind), self.now().kinds().get(kind)) {
                (Some(singular), _) => singular.to_owned(),
                (None, Some(kind)) => kind.singular.clone(),
                (None, None) => kind.to_owned(),
            },
        };
        Refusal::at(Reason::NotFound, "/id", format!("there is no {singular} \"{id}\""))
    }

    /// The ids of all resources of a kind.
    fn ids(&self, kind: &str) -> Vec<Arc<str>> {
        match kind {
            CLUSTERS => return self.now().clusters().keys().cloned().collect(),
            PROFILES => return self.now().profiles().iter().map(|one| one.id().clone()).collect(),
            ROLLOUTS => return self.now().rollouts().iter().map(|one| one.id().clone()).collect(),
            GUARDS => return self.now().guards().iter().map(|one| one.id().clone()).collect(),
            _ => {}
        }
        let definitions = self.now().definitions(kind).into_iter().flat_map(|all| all.iter());
        definitions.map(|one| one.document.id.clone()).collect()
    }

    fn touch(&self, kind: &str, id: &str) -> Option<&Touch> {
        self.touched.get(&(Arc::from(kind), Arc::from(id)))
    }

    fn touched_ids<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'s Arc<str>> {
        let touched = self.touched.keys();
        touched.filter(move |(touched, _)| &**touched == kind).map(|(_, id)| id)
    }

    fn mark_touched(&mut self, kind: &str, id: Arc<str>, origin: Option<Arc<str>>) {
        let operation = self.current;
        self.touched.insert((kind.into(), id), Touch { operation, origin });
    }

    /// Counts work against the bound of one write.
    fn count_work(&mut self, work: usize) -> Result<(), Refusal> {
        self.work += work;
        if self.work > MOST_WORK {
            let detail = format!("more than {MOST_WORK} changes to resources in one write: split it");
            return Err(Refusal::at(Reason::Invalid, "", detail));
        }
        Ok(())
    }

    /// Puts or removes a resource that is not a kind.
    fn put(&mut self, kind: &str, id: Arc<str>, value: Option<Value>) -> Result<(), Refusal> {
        self.put_from(kind, id, value, None)
    }

    fn put_from(
        &mut self,
        kind: &str,
        id: Arc<str>,
        value: Option<Value>,
        origin: Option<Arc<str>>,
    ) -> Result<(), Refusal> {
        self.count_work(1)?;
        let body = value.as_ref().map(Json::new);
        self.mark_touched(kind, id.clone(), origin);
        if self.now().document(kind, &id).map(|document| document.body) == body {
            return Ok(());
        }
        let missing = |detail| Refusal::at(Reason::NotFound, "/kind", detail);
        self.edit.put(kind, id, body, value).map_err(missing)
    }

    /// Checks the end state, and gives the changes that lead to it.
    fn finish(mut self) -> Result<Outcome, Refusal> {
        self.settle_kinds()?;
        self.check_kinds()?;
        self.check_restored()?;
        self.check_profiles()?;
        self.check_guards()?;
        self.check_rollouts()?;
        self.check_stored_selectors()?;
        self.edit.settle_profiles();
        self.edit.settle_rollouts();
        self.check_dns()?;
        self.settle_names()?;
        self.settle_identities()?;
        self.check_references()?;
        self.check_removals()?;
        self.check_dependencies()?;
        self.check_contract()?;
        let changes = self.changes();
        let must_complete = self.concerns_rollouts();
        let edit = std::mem::replace(&mut self.edit, Edit::new(self.base.clone()));
        let fleet = edit.settle().map_err(|detail| Refusal::new(Reason::Exists, detail))?;
        if must_complete {
            self.check_completions(&fleet)?;
        }
        Ok(Outcome { changes, fleet })
    }

    /// One change per resource that is not what it was, in the order of [`Rank`].
    fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<(Rank, Change)> = Vec::new();
        for ((kind, id), Touch { origin, .. }) in &self.touched {
            let body = |fleet: &Fleet| fleet.document(kind, id).map(|document| document.body);
            let (before, after) = (body(self.base), body(self.now()));
            let origin_before = self.base.kinds().get(id).and_then(|kind| kind.origin.as_ref());
            let same_origin = &**kind != KINDS || after.is_none() || origin_before == origin.as_ref();
            if before == after && same_origin {
                continue;
            }
            let rank = match (&**kind, &after) {
                (KINDS, None) => Rank::KindGone,
                (KINDS, Some(_)) => Rank::KindPut,
                (CLUSTERS, _) => Rank::Cluster,
                (DECOMMISSIONS | RELEASED_NAMES, _) => Rank::Name,
                (IDENTITIES, _) => Rank::Identity,
                _ => Rank::Definition,
            };
            let unique_in = |fleet: &Fleet| match &**kind {
                CLUSTERS => fleet.cluster(id).map(|cluster| cluster.head().dns_key.to_string()),
                _ => None,
            };
            let unique = unique_in(self.now());
            let keeps_unique = unique == unique_in(self.base);
            let change = Change {
                kind: kind.clone(),
                id: id.clone(),
                before,
                after,
                origin: origin.clone(),
                unique,
                keeps_unique,
            };
            changes.push((rank, change));
        }
        changes.sort_by_key(|(rank, _)| *rank);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}
