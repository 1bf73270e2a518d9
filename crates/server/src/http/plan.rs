//! The plan of a write, as it is sent: what a dry run is answered with.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use fleet::effect::Effect;
use fleet::json::Json;
use fleet::log::{Action, Revision, RevisionRecord};
use serde::Serialize;
use serde_json::{Value, json};

use super::crud::{REVISION, stream};
use super::request::Page;
use crate::app::Plan;

/// How many warnings are listed: a plan for a large fleet may have some for each cluster. The sums count all of them.
const MOST_WARNINGS: usize = 1000;

/// The plan, its clusters in pieces: there may be as many as the fleet has.
pub fn show(plan: Plan, page: Page) -> Response {
    let changes: Vec<_> = plan.record.records().collect();
    let losing = plan.effect.clusters.iter().filter(|cluster| cluster.loses());
    let losing: Vec<&str> = losing.map(|cluster| &*cluster.id).collect();
    let removals = json!({
        "count": plan.removals.count,
        "window": plan.removals.window,
        "budget": plan.removals.budget,
        "clusters": losing,
    });
    let opening = format!(
        r#"{{"plan":"{}","base":{},"changes":{},"clusters":["#,
        plan.digest,
        plan.base,
        text(&changes)
    );
    let ending = format!(
        r#"],"totals":{},"removals":{removals},"relabelled":{},"warnings":{}}}"#,
        json!(Totals::of(&plan.effect)),
        relabelled(&plan.effect),
        warnings(&plan.effect)
    );
    let base = plan.base.0;
    let clusters = plan.effect.clusters.into_iter().skip(page.offset).take(page.limit);
    let mut objects = plan.objects.into_iter();
    let clusters = clusters.map(move |cluster| {
        let mut text = serde_json::to_string(&cluster).unwrap_or_default();
        if let Some(objects) = objects.next() {
            let objects = match objects {
                Ok(objects) => json!(objects),
                Err(error) => json!({"error": error}),
            };
            text.truncate(text.len() - 1);
            text.push_str(&format!(r#","objects":{objects}}}"#));
        }
        text
    });
    let mut response = stream(opening, clusters, ending);
    response.headers_mut().insert(REVISION.clone(), base.into());
    response
}

/// Straight to text: as values, the documents of a large fleet would take thirty times their size.
fn text(changes: &impl Serialize) -> String {
    serde_json::to_string(changes).unwrap_or_default()
}

/// What differs between two revisions, in the shape of a plan.
pub fn show_difference(from: Revision, record: &RevisionRecord, effect: Effect, page: Page) -> Response {
    #[derive(Serialize)]
    struct Changed<'a> {
        action: Action,
        kind: &'a str,
        id: &'a str,
        before: &'a Option<Json>,
        after: &'a Option<Json>,
    }
    let changes: Vec<_> = record
        .changes
        .iter()
        .map(|change| Changed {
            action: change.action(),
            kind: &change.kind,
            id: &change.id,
            before: &change.before,
            after: &change.after,
        })
        .collect();
    let opening = format!(
        r#"{{"from":{from},"to":{},"changes":{},"clusters":["#,
        record.revision,
        text(&changes)
    );
    let ending = format!(
        r#"],"totals":{},"relabelled":{},"warnings":{}}}"#,
        json!(Totals::of(&effect)),
        relabelled(&effect),
        warnings(&effect)
    );
    let clusters = effect.clusters.into_iter().skip(page.offset).take(page.limit);
    let clusters = clusters.map(|cluster| serde_json::to_string(&cluster).unwrap_or_default());
    stream(opening, clusters, ending)
}

/// What the effect comes to.
#[derive(Default, Serialize)]
struct Totals<'a> {
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
    fn of(effect: &'a Effect) -> Self {
        let mut totals = Totals {
            clusters: effect.clusters.len(),
            ..Totals::default()
        };
        for cluster in &effect.clusters {
            *totals.by_environment.entry(&cluster.environment).or_default() += 1;
            totals.warnings += cluster.warnings.len();
            for (path, list) in &cluster.inputs {
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

/// The clusters that selectors see otherwise: lists of clusters that go by these keys change, too.
fn relabelled(effect: &Effect) -> Value {
    let all = &effect.relabelled;
    let keys: BTreeSet<&String> = all.iter().flat_map(|cluster| &cluster.keys).collect();
    let clusters: Vec<&str> = all.iter().map(|cluster| &*cluster.id).collect();
    json!({"count": clusters.len(), "keys": keys, "clusters": clusters})
}

fn warnings(effect: &Effect) -> Value {
    let all = effect.clusters.iter().flat_map(|cluster| {
        let warnings = cluster.warnings.iter();
        warnings.map(|warning| {
            json!({"cluster": &*cluster.id, "kind": warning.kind, "id": warning.id, "detail": warning.detail})
        })
    });
    all.take(MOST_WARNINGS).collect()
}
