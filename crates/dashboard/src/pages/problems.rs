//! Problems: what fails, grouped by cause, and who is silent.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use crate::PREFIX;
use crate::api::Problem;
use crate::layout::{Content, wrong_search};
use crate::pages::fleet::{Labels, within};
use crate::parts::{ago, cluster_link, count, grouped, is_selector, now, search_field, state};
use crate::query::Query;
use crate::visit::Visit;

/// How many causes are shown, and how many of those that only one cluster has.
const CAUSES: u64 = 100;
const OWN: u64 = 3;
/// How many silent clusters are asked for, and how many of an environment are named.
const NAMED: u64 = 200;
const EXAMPLES: usize = 10;

#[derive(Debug, Deserialize)]
struct Causes {
    causes: Vec<Cause>,
    total: u64,
    own: Own,
}

/// The causes of single clusters that are left out.
#[derive(Debug, Deserialize)]
struct Own {
    causes: u64,
    clusters: Vec<Owner>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    id: String,
    causes: u64,
}

#[derive(Debug, Deserialize)]
struct Cause {
    reason: String,
    path: Option<String>,
    component: Option<String>,
    version: String,
    clusters: u64,
    examples: Vec<String>,
    since: String,
    joined: String,
    message: String,
}

impl Cause {
    /// Such as `UpgradeFailed podinfo 6.7.1`.
    fn title(&self) -> String {
        let parts = [
            Some(self.reason.as_str()),
            self.component.as_deref(),
            Some(self.version.as_str()),
        ];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" ")
    }

    /// The list of the clusters that have it. A cause without a version has an empty one, as others have theirs.
    fn address(&self, narrowed: &Query) -> String {
        let parameters = [
            ("component", self.component.as_deref()),
            ("kind", self.path.as_deref()),
            ("reason", Some(self.reason.as_str())),
            ("version", Some(self.version.as_str())),
        ];
        let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given
            .fold(narrowed.clone(), |query, (name, value)| query.with(name, value))
            .at(PREFIX)
    }
}

#[derive(Debug, Deserialize)]
struct Unheard {
    at: String,
    total: u64,
    by_environment: BTreeMap<String, BTreeMap<String, u64>>,
    clusters: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    environment: String,
    state: String,
    last_poll: Option<String>,
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let selector = visit.query.get("q").filter(|text| is_selector(text));
    // The same selector on the page of the fleet.
    let links = selector.map_or(Query::default(), |text| Query::default().with("q", text));
    let narrowed = selector.map_or(Query::default(), |text| Query::default().with("selector", text));
    let wanted = narrowed.with_number("limit", CAUSES).with_number("own", OWN);
    let found: Result<Causes, Problem> = visit.client.get(&wanted.at("/status/causes")).await;
    let labels = Labels::of(&visit).await;
    let search = html! {
        form.search method="get" action=(format!("{PREFIX}/problems")) role="search" {
            (search_field(visit.query.get("q"), &labels.completions()))
            button type="submit" { "Show" }
        }
    };
    let mut found = match found {
        Ok(found) => found,
        Err(problem) if problem.is_of_search() => {
            let main = html! { h1 { "Problems" } (search) (wrong_search(&problem)) };
            return Ok(Content::new("Problems", main));
        }
        Err(problem) => return Err(problem),
    };
    found.causes.sort_by(|one, other| other.joined.cmp(&one.joined));
    let unheard = narrowed.with("state", "silent,never").with_number("limit", NAMED);
    let unheard: Unheard = visit.client.get(&unheard.at("/status")).await?;
    let main = html! {
        h1 { "Problems" }
        (search)
        @if visit.query.get("q").is_some() && selector.is_none() {
            p.faint { "Problems can be narrowed by a selector of labels, such as environment=prod." }
        }
        div #problems data-live {
            @if found.causes.is_empty() && unheard.total == 0 {
                p.ok { "Nothing fails, and nobody is silent." }
            }
            (failing(&found, &links))
            (silent(&unheard, &links))
        }
    };
    Ok(Content::new("Problems", main))
}

fn failing(found: &Causes, links: &Query) -> Markup {
    let now = now();
    let more = found
        .total
        .saturating_sub(found.causes.len() as u64)
        .saturating_sub(found.own.causes);
    html! {
        @if !found.causes.is_empty() {
            section aria-labelledby="failing" {
                h2 #failing { "Failing, the newest first" }
                @for cause in &found.causes {
                    article.cause {
                        h3 { span.state.failing { (cause.title()) } " on " a href=(cause.address(links)) { (count(cause.clusters, "cluster")) } }
                        p { (cause.message) }
                        p.faint {
                            "for " (ago(&now, Some(&cause.since)))
                            @if cause.clusters > 1 { ", on the last of them for " (ago(&now, Some(&cause.joined))) }
                            ": "
                            @for (n, id) in cause.examples.iter().enumerate() { @if n > 0 { ", " } (cluster_link(id)) }
                            @if cause.clusters > cause.examples.len() as u64 { " and " (grouped(cause.clusters - cause.examples.len() as u64)) " more" }
                        }
                    }
                }
                (left_out(&found.own, more))
            }
        }
    }
}

/// What is not shown one by one.
fn left_out(own: &Own, more: u64) -> Markup {
    html! {
        @for owner in &own.clusters {
            p.faint { (count(owner.causes, "more cause")) " on " (cluster_link(&owner.id)) " only" }
        }
        @if more > 0 { p.faint { "and " (count(more, "more cause")) ", each on fewer clusters" } }
    }
}

fn silent(unheard: &Unheard, links: &Query) -> Markup {
    let states = ["silent", "never"].into_iter();
    let groups = states.flat_map(|state| {
        let environments = unheard.by_environment.iter();
        environments
            .map(move |(environment, counts)| (state, environment, counts.get(state).copied().unwrap_or_default()))
    });
    let address = |environment: &str, state: &str| within(links, environment).with("state", state).at(PREFIX);
    html! {
        @if unheard.total > 0 {
            section aria-labelledby="silent" {
                h2 #silent { "Silent" }
                p {
                    a href=(links.with("state", "silent,never").at(PREFIX)) { (count(unheard.total, "cluster")) }
                    (if unheard.total == 1 { " does not poll, or never did." } else { " do not poll, or never did." })
                }
                table {
                    thead { tr { th scope="col" { "State" } th scope="col" { "Environment" } th.number scope="col" { "Clusters" } th scope="col" { "Such as, with the time since their last poll" } } }
                    tbody {
                        @for (name, environment, number) in groups.filter(|(_, _, number)| *number > 0) {
                            tr {
                                td { (state(name)) }
                                th scope="row" { (environment) }
                                td.number { a href=(address(environment, name)) { (grouped(number)) } }
                                td { (examples(unheard, name, environment, number)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The first clusters of an environment that have a state.
fn examples(unheard: &Unheard, state: &str, environment: &str, number: u64) -> Markup {
    let rows = unheard.clusters.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.state == state && row.environment == environment)
        .take(EXAMPLES)
        .collect();
    html! {
        @for (n, row) in rows.iter().enumerate() {
            @if n > 0 { ", " }
            (cluster_link(&row.id))
            @if row.last_poll.is_some() { span.faint { " " (ago(&unheard.at, row.last_poll.as_deref())) } }
        }
        @if number > rows.len() as u64 { span.faint { (if rows.is_empty() { "" } else { " and " }) (grouped(number - rows.len() as u64)) " more" } }
    }
}
