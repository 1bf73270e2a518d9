//! The effect of a write beside the limits of guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Guard;
use crate::effect::Effect;
use crate::refusal::{Exceeded, Reason, Refusal, quote, some_of};
use crate::selector::{Matcher, Subject};
use crate::snapshot::Fleet;

/// What a limit of a guard counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// Clusters whose replies change.
    Changes,
    /// Clusters that lose something.
    Removals,
}

/// One limit of a guard, and how many clusters a write counts for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuardLimit {
    pub id: Arc<str>,
    pub reason: String,
    pub selector: String,
    /// When the guard ends; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    pub of: Limited,
    pub limit: usize,
    pub count: usize,
}

/// One limit of a guard in force, and what it means for a write.
#[derive(Clone, Debug, Serialize)]
pub struct GuardCheck {
    #[serde(flatten)]
    pub limit: GuardLimit,
    /// Whether the write exceeds it.
    pub exceeded: bool,
    /// Whether the request overrides the guard.
    pub overridden: bool,
    /// The clusters that count.
    #[serde(skip)]
    clusters: Vec<Arc<str>>,
}

impl GuardCheck {
    /// Whether the write is refused because of it.
    pub fn refuses(&self) -> bool {
        self.exceeded && !self.overridden
    }
}

/// Compares the effect of a write with every limit of some guards, in the order of their ids. A cluster counts if it existed before,
/// and matches before or after. For `changes`, `effect` must have every cluster whose reply changes.
pub(crate) fn check(
    guards: &[&Arc<Guard>],
    overrides: &[String],
    before: &Fleet,
    after: &Fleet,
    effect: &Effect,
) -> Vec<GuardCheck> {
    if guards.is_empty() {
        return Vec::new();
    }
    compare(
        guards,
        overrides,
        count(guards, &[before, after], touched(before, effect)),
    )
}

/// Compares a part of an effect with every limit of some guards: the clusters of a fleet whose replies change, each with whether it loses
/// something.
pub fn check_part(guards: &[&Arc<Guard>], fleet: &Fleet, part: &BTreeMap<&Arc<str>, bool>) -> Vec<GuardCheck> {
    let part = part.iter().map(|(id, loses)| (*id, *loses)).collect();
    compare(guards, &[], count(guards, &[fleet], part))
}

fn compare(guards: &[&Arc<Guard>], overrides: &[String], counted: Vec<Counted>) -> Vec<GuardCheck> {
    let mut checks = Vec::new();
    for (guard, Counted { changed, losing }) in guards.iter().zip(counted) {
        let limits = [
            (Limited::Changes, guard.changes, changed),
            (Limited::Removals, guard.removals, losing),
        ];
        for (of, limit, clusters) in limits {
            let Some(limit) = limit else { continue };
            checks.push(GuardCheck {
                exceeded: clusters.len() > limit,
                overridden: overrides.iter().any(|id| **id == **guard.id()),
                limit: GuardLimit {
                    id: guard.id().clone(),
                    reason: guard.reason().to_owned(),
                    selector: guard.selector_text().to_owned(),
                    until: guard.until_text().map(str::to_owned),
                    of,
                    limit,
                    count: clusters.len(),
                },
                clusters,
            });
        }
    }
    checks
}

/// The clusters that a write counts for one guard.
#[derive(Default)]
struct Counted {
    changed: Vec<Arc<str>>,
    losing: Vec<Arc<str>>,
}

/// Those of the touched clusters that match a guard in one of the fleets.
fn count(guards: &[&Arc<Guard>], fleets: &[&Fleet], touched: BTreeMap<&Arc<str>, bool>) -> Vec<Counted> {
    let matchers = fleets.iter().map(|fleet| {
        let kind = fleet.kinds().clusters();
        let of = |guard: &&Arc<Guard>| kind.map(|kind| guard.selector.on(kind));
        guards.iter().map(of).collect::<Vec<Option<Matcher>>>()
    });
    let matchers: Vec<_> = matchers.collect();
    let mut counted: Vec<Counted> = guards.iter().map(|_| Counted::default()).collect();
    for (id, loses) in touched {
        let subjects = fleets
            .iter()
            .map(|fleet| fleet.cluster(id).map(|cluster| Subject::new(cluster)));
        let mut subjects: Vec<_> = subjects.collect();
        for (n, counted) in counted.iter_mut().enumerate() {
            let mut sides = subjects.iter_mut().zip(&matchers);
            let matches = sides.any(|(subject, matchers)| match (subject, &matchers[n]) {
                (Some(subject), Some(matcher)) => matcher.matches_subject(subject),
                _ => false,
            });
            if matches {
                counted.changed.push(id.clone());
                counted.losing.extend(loses.then(|| id.clone()));
            }
        }
    }
    counted
}

/// The clusters from before the write whose replies change, each with whether it loses something. One whose DNS name another
/// cluster takes is among them; a cluster that the write creates is not.
fn touched<'a>(before: &Fleet, effect: &'a Effect) -> BTreeMap<&'a Arc<str>, bool> {
    let mut touched: BTreeMap<&Arc<str>, bool> = BTreeMap::new();
    let changed = effect.clusters.iter();
    for cluster in changed.filter(|cluster| cluster.deleted || !cluster.inputs.is_empty()) {
        let ids = cluster.before().into_iter().chain([cluster.id()]);
        for id in ids.filter(|id| before.cluster(id).is_some()) {
            *touched.entry(id).or_default() |= cluster.loses();
        }
    }
    touched
}

/// Why a write is refused, if guards refuse it.
pub(crate) fn refusal(checks: &[GuardCheck]) -> Option<Refusal> {
    let refusing: Vec<&GuardCheck> = checks.iter().filter(|check| check.refuses()).collect();
    let first = refusing.first()?;
    let others = match refusing.len() - 1 {
        0 => String::new(),
        1 => "; 1 more limit is exceeded".to_owned(),
        more => format!("; {more} more limits are exceeded"),
    };
    let detail = format!(
        "{}{others}; wait, change fewer clusters at a time, or let an admin override it with X-Override-Guard: {} and a reason",
        describe(&first.limit, &first.clusters),
        first.limit.id
    );
    let mut refusal = Refusal::new(Reason::Guarded, detail);
    let mut clusters: Vec<String> = refusing
        .iter()
        .flat_map(|check| &check.clusters)
        .map(ToString::to_string)
        .collect();
    clusters.sort_unstable();
    clusters.dedup();
    refusal.clusters = clusters;
    let guards = refusing.iter().map(|check| check.limit.clone()).collect();
    refusal.exceeded = Some(Box::new(Exceeded { guards }));
    Some(refusal)
}

fn describe(limit: &GuardLimit, clusters: &[Arc<str>]) -> String {
    let (noun, verb) = match limit.of {
        Limited::Changes => ("changes to", "changes"),
        Limited::Removals => ("removals from", "removes something from"),
    };
    let most = match limit.limit {
        1 => "1 cluster".to_owned(),
        most => format!("{most} clusters"),
    };
    let until = limit.until.as_ref().map(|until| format!(" until {until}"));
    format!(
        "the guard \"{}\" ({}) allows {noun} {most} of {}{}, and this {verb} {} ({})",
        limit.id,
        quote(&limit.reason),
        quote(&limit.selector),
        until.unwrap_or_default(),
        limit.count,
        some_of(clusters)
    )
}
