//! A plan with Kubernetes objects. The server renders the objects of a limited number of clusters for each request, so the plan is
//! read page by page.

use serde_json::Value;

use super::MOST;
use super::effect::items;
use super::objects::alike;
use crate::error::ApiError;

/// The clusters whose Kubernetes objects a plan has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Objects {
    #[default]
    None,
    /// Of clusters with the same change, one.
    Examples,
    /// Up to [`MOST_RENDERED`].
    All,
}

/// The most clusters that objects are asked for: each takes the server milliseconds, twice.
const MOST_RENDERED: usize = 1000;
/// How often the plan is read again because the fleet has changed between two requests.
const ATTEMPTS: usize = 3;

/// Reads the whole plan; `ask` sends the dry run with a query string. Clusters without `manifests` were not rendered; if the fleet
/// changes all the time, no cluster is, and the plan says so with `unrendered`.
pub(crate) fn read(objects: Objects, ask: impl Fn(&str) -> Result<Value, ApiError>) -> Result<Value, ApiError> {
    for _ in 0..ATTEMPTS {
        let plan = match objects {
            Objects::None => return ask("dry_run=true"),
            Objects::Examples => examples(&ask)?,
            Objects::All => pages(&ask)?,
        };
        if let Some(plan) = plan {
            return Ok(plan);
        }
    }
    let mut plan = ask("dry_run=true")?;
    plan["unrendered"] = true.into();
    Ok(plan)
}

/// The plan with the objects of one cluster of each group; none if the requests are not of the same plan.
fn examples(ask: impl Fn(&str) -> Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    let mut plan = ask("dry_run=true")?;
    let groups = alike(items(&plan["clusters"]));
    for first in groups.iter().take(MOST).filter_map(|group| group.first()) {
        let mut page = ask(&format!("dry_run=true&manifests=true&limit=1&offset={first}"))?;
        if page["plan"] != plan["plan"] {
            return Ok(None);
        }
        plan["clusters"][*first] = page["clusters"][0].take();
    }
    Ok(Some(plan))
}

/// All pages as one plan; none if they are not of the same plan.
fn pages(ask: impl Fn(&str) -> Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    let mut plan = ask("dry_run=true&manifests=true")?;
    let total = plan["totals"]["clusters"].as_u64().unwrap_or_default();
    let mut clusters = taken(&mut plan);
    while (clusters.len() as u64) < total {
        let offset = clusters.len();
        let manifests = if offset < MOST_RENDERED { "&manifests=true" } else { "" };
        let mut page = ask(&format!("dry_run=true{manifests}&offset={offset}"))?;
        let more = taken(&mut page);
        if page["plan"] != plan["plan"] || more.is_empty() {
            return Ok(None);
        }
        clusters.extend(more);
    }
    plan["clusters"] = clusters.into();
    Ok(Some(plan))
}

fn taken(plan: &mut Value) -> Vec<Value> {
    match plan["clusters"].take() {
        Value::Array(clusters) => clusters,
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    /// A server with so many clusters; `digest` names the plan at each request.
    fn plan(objects: Objects, total: usize, digest: impl Fn(usize) -> usize) -> (Value, Vec<String>) {
        let asked = RefCell::new(Vec::new());
        let found = read(objects, |query| {
            let number = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse().ok());
            let offset = number("offset=").unwrap_or(0);
            let rendered = query.contains("manifests=true");
            let limit = number("limit=").unwrap_or(if rendered { 100 } else { usize::MAX });
            let page = (offset..total).take(limit);
            let clusters: Vec<Value> = page
                .map(|n| match rendered {
                    true => json!({"id": n, "manifests": []}),
                    false => json!({"id": n}),
                })
                .collect();
            asked.borrow_mut().push(query.to_owned());
            let digest = digest(asked.borrow().len());
            Ok(json!({"plan": digest, "clusters": clusters, "totals": {"clusters": total}}))
        });
        (found.unwrap(), asked.into_inner())
    }

    #[test]
    fn pages_make_one_plan() {
        for total in [0, 1, 100, 101, 1000, 1234] {
            let (plan, asked) = plan(Objects::All, total, |_| 7);
            let ids: Vec<u64> = plan["clusters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].as_u64().unwrap())
                .collect();
            assert_eq!(ids, (0..total as u64).collect::<Vec<_>>());
            assert!(asked.len() <= 11, "{total}: {asked:?}");
        }
    }

    #[test]
    fn pages_of_two_plans_are_not_mixed() {
        let (found, asked) = plan(Objects::All, 150, |request| usize::from(request > 1));
        assert_eq!(asked.len(), 4, "{asked:?}");
        assert_eq!(found["plan"], 1);
        // A fleet that never rests: the plan without objects.
        let (found, asked) = plan(Objects::All, 150, |request| request);
        assert_eq!(asked.last().map(String::as_str), Some("dry_run=true"));
        assert_eq!(found["clusters"].as_array().unwrap().len(), 150);
        assert_eq!(found["unrendered"], true);
    }

    #[test]
    fn one_of_many_equal_clusters_is_an_example() {
        let (found, asked) = plan(Objects::Examples, 3000, |_| 7);
        assert_eq!(asked, ["dry_run=true", "dry_run=true&manifests=true&limit=1&offset=0"]);
        let rendered = found["clusters"].as_array().unwrap().iter();
        assert_eq!(rendered.filter(|cluster| cluster.get("manifests").is_some()).count(), 1);
        let (_, asked) = plan(Objects::None, 3000, |_| 7);
        assert_eq!(asked, ["dry_run=true"]);
    }
}
