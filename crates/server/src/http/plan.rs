//! The plan of a write as JSON: the reply to a dry run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::effect::Effect;
use fleet::identity::IDENTITIES;
use fleet::json::Json;
use fleet::log::{Action, ChangeRecord, Revision};
use fleet::overwrites::Overwrites;
use serde::Serialize;
use serde_json::{Value, json};

use super::body::Writer;
use super::problem::Problem;
use super::request::{Page, Query};
use super::respond::REVISION;
use crate::app::Plan;
use crate::app::history::Difference;

/// The most warnings that are listed: a plan may have several for each cluster of a large fleet. The totals count all.
const MOST_WARNINGS: usize = 1000;

/// The most clusters that are listed as entering or leaving a profile.
const MOST_MEMBERS: usize = 1000;

/// How much of a plan is listed. Its totals count everything.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The clusters, with what changes on each.
    pub clusters: Page,
    /// The most changes, and the most ids of clusters in every other list.
    pub changes: usize,
}

impl Listed {
    /// Everything.
    pub const ALL: Listed = Listed {
        clusters: Page::ALL,
        changes: usize::MAX,
    };

    pub fn take(query: &mut Query) -> Result<Listed, Problem> {
        let changes = query.number("changes", 0)?;
        Ok(Listed {
            clusters: Page::take(query)?,
            changes: changes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)),
        })
    }
}

/// Writes a plan. Its clusters are written one by one: it may have all clusters of the fleet.
pub fn show(out: &mut Writer, plan: Plan, listed: Listed) -> Result<(), Problem> {
    let losing = plan.effect.clusters.iter().filter(|cluster| cluster.loses());
    let losing: Vec<&str> = losing.map(|cluster| &**cluster.id()).take(listed.changes).collect();
    let removals = json!({
        "count": plan.removals.count,
        "window": plan.removals.window,
        "budget": plan.removals.budget,
        "clusters": losing,
    });
    out.headers.insert(REVISION.clone(), plan.base.0.into());
    let (digest, base) = (plan.digest, plan.base);
    out.text(&format!(r#"{{"plan":"{digest}","base":{base},"changes":["#))?;
    let changes = plan.record.records().count();
    let planned = plan.record.records().zip(&plan.overwrites).take(listed.changes);
    out.list(planned.map(|(record, overwrites)| PlannedChange { record, overwrites }))?;
    out.text(r#"],"clusters":["#)?;
    let (history, guards) = (json!(plan.history), json!(plan.guards));
    let demoted: Vec<&str> = plan.demoted.iter().map(|id| &**id).take(listed.changes).collect();
    let (rollouts, demotions) = (
        json!(plan.rollouts),
        json!({"count": plan.demoted.len(), "clusters": demoted}),
    );
    let ending = ending(
        &plan.effect,
        (changes, listed),
        &format!(
            r#""history":{history},"removals":{removals},"guards":{guards},"rollouts":{rollouts},"demotions":{demotions},"#
        ),
    );
    let page = listed.clusters;
    let clusters = plan.effect.clusters.into_iter().skip(page.offset).take(page.limit);
    let mut objects = plan.objects.into_iter();
    for (n, cluster) in clusters.enumerate() {
        let mut text = serde_json::to_string(&cluster).unwrap_or_default();
        if let Some(objects) = objects.next() {
            let (names, manifests) = match objects {
                Ok(objects) => (json!(objects.names), json!(objects.manifests)),
                Err(error) => (json!({"error": error}), json!([])),
            };
            text.truncate(text.len() - 1);
            text.push_str(&format!(r#","objects":{names},"manifests":{manifests}}}"#));
        }
        out.text(if n > 0 { "," } else { "" })?;
        out.text(&text)?;
    }
    out.text(&ending)
}

/// A change that is planned, and what it overwrites.
#[derive(Serialize)]
struct PlannedChange<'a> {
    #[serde(flatten)]
    record: ChangeRecord<'a>,
    #[serde(flatten)]
    overwrites: &'a Overwrites,
}

/// The fields after the clusters, of an effect of so many changes.
fn ending(effect: &Effect, (changes, listed): (usize, Listed), more: &str) -> String {
    format!(
        r#"],"totals":{},{more}"relabelled":{},"profiles":{},"warnings":{}}}"#,
        json!(Totals::of(effect, changes)),
        relabelled(effect, listed.changes),
        memberships(effect, listed.changes),
        warnings(effect)
    )
}

/// What differs between two revisions, in the form of a plan.
pub fn show_difference(
    out: &mut Writer,
    (from, to): (Revision, Revision),
    difference: Difference,
    listed: Listed,
) -> Result<(), Problem> {
    #[derive(Serialize)]
    struct Changed {
        action: Action,
        kind: Arc<str>,
        id: Arc<str>,
        before: Option<Json>,
        after: Option<Json>,
    }
    let Difference { changes, effect } = difference;
    let number = changes.len();
    out.text(&format!(r#"{{"from":{from},"to":{to},"changes":["#))?;
    // Each change is dropped once it is sent.
    out.list(changes.into_iter().take(listed.changes).map(|change| {
        // The documents of identities have the digests of tokens.
        let is_hidden = &*change.kind == IDENTITIES;
        Changed {
            action: change.action(),
            before: change.before.filter(|_| !is_hidden),
            after: change.after.filter(|_| !is_hidden),
            kind: change.kind,
            id: change.id,
        }
    }))?;
    out.text(r#"],"clusters":["#)?;
    let ending = ending(&effect, (number, listed), "");
    let page = listed.clusters;
    out.list(effect.clusters.into_iter().skip(page.offset).take(page.limit))?;
    out.text(&ending)
}

/// The sums of an effect.
#[derive(Default, Serialize)]
struct Totals<'a> {
    /// Documents that change.
    changes: usize,
    clusters: usize,
    /// Clusters, per environment.
    by_environment: BTreeMap<&'a str, usize>,
    /// Inputs, per path.
    by_kind: BTreeMap<&'a str, Sums>,
    warnings: usize,
}

#[derive(Default, Serialize)]
struct Sums {
    clusters: usize,
    added: usize,
    removed: usize,
    changed: usize,
}

impl<'a> Totals<'a> {
    fn of(effect: &'a Effect, changes: usize) -> Self {
        let mut totals = Totals {
            changes,
            clusters: effect.clusters.len(),
            warnings: effect.warnings.len(),
            ..Totals::default()
        };
        for cluster in &effect.clusters {
            *totals.by_environment.entry(cluster.environment()).or_default() += 1;
            totals.warnings += cluster.warnings.len();
            for (path, list) in &*cluster.inputs {
                let sums = totals.by_kind.entry(path).or_default();
                sums.clusters += 1;
                sums.added += list.added.len();
                sums.removed += list.removed.len();
                sums.changed += list.changed.len();
            }
        }
        totals
    }
}

/// The clusters whose labels or fields change: lists that select by these keys change, too.
fn relabelled(effect: &Effect, listed: usize) -> Value {
    let all = &effect.relabelled;
    let keys: BTreeSet<&String> = all.iter().flat_map(|cluster| &cluster.keys).collect();
    let clusters: Vec<&str> = all.iter().map(|cluster| &*cluster.id).take(listed).collect();
    json!({"count": all.len(), "keys": keys, "clusters": clusters})
}

/// The profiles that clusters enter and leave.
fn memberships(effect: &Effect, listed: usize) -> Value {
    let some = |clusters: &[Arc<str>]| {
        let listed: Vec<&str> = clusters.iter().take(listed.min(MOST_MEMBERS)).map(|id| &**id).collect();
        json!({"count": clusters.len(), "clusters": listed})
    };
    let all = effect.memberships.iter().map(|membership| {
        json!({
            "profile": &*membership.profile,
            "entered": some(&membership.entered),
            "left": some(&membership.left),
        })
    });
    all.collect()
}

fn warnings(effect: &Effect) -> Value {
    let own = effect.warnings.iter();
    let own = own.map(|warning| json!({"kind": warning.kind, "id": warning.id, "detail": warning.detail}));
    let of_clusters = effect.clusters.iter().flat_map(|cluster| {
        let warnings = cluster.warnings.iter();
        warnings.map(|warning| {
            json!({"cluster": &**cluster.id(), "kind": warning.kind, "id": warning.id, "detail": warning.detail})
        })
    });
    own.chain(of_clusters).take(MOST_WARNINGS).collect()
}
