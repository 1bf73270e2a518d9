//! The fleet: how many clusters have which state, a map of all of them, and a list, what is not well first.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::api::Problem;
use crate::layout::{Content, wrong_search};
use crate::parts::{STATES, ago, cluster_link, grouped, is_selector, pager, revision_link, search_field, state};
use crate::query::Query;
use crate::visit::Visit;
use crate::{PREFIX, call, parts, reply};

/// How many clusters a page lists.
const LISTED: u64 = 100;

/// `GET /status`
#[derive(Debug, Deserialize)]
struct Status {
    at: String,
    revision: u64,
    counts: Counts,
    by_environment: BTreeMap<String, Counts>,
    total: u64,
    clusters: Vec<Row>,
}

type Counts = BTreeMap<String, u64>;

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    dns: String,
    environment: String,
    state: String,
    since: Option<String>,
    last_poll: Option<String>,
    /// The revision that it was last told.
    told: Option<u64>,
    agent: Option<String>,
    /// With a component: what is known of it there.
    input: Option<Seen>,
}

#[derive(Debug, Deserialize)]
struct Seen {
    version: Option<String>,
    reason: Option<String>,
    message: Option<String>,
}

/// The most groups of a map.
const GROUPS: usize = 200;

/// What needs somebody.
const NOT_WELL: &str = "failing,silent,never,behind";

/// What the page can be narrowed to by links, besides search and state.
const NARROWED: [&str; 5] = ["component", "kind", "reason", "version", "environment"];

/// `GET /status/labels`
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Labels {
    labels: Vec<Label>,
}

#[derive(Debug, Deserialize)]
struct Label {
    key: String,
    values: Vec<LabelValue>,
    /// How many values there are besides.
    more: usize,
}

#[derive(Debug, Deserialize)]
struct LabelValue {
    value: String,
}

impl Labels {
    /// Those of the fleet. A page that is read again for what changed needs none: forms stay as they are.
    pub(crate) async fn of(visit: &Visit) -> Labels {
        match visit.is_again() {
            true => Labels::default(),
            false => visit.client.get("/status/labels").await.unwrap_or_default(),
        }
    }

    /// What a search can be completed with.
    pub(crate) fn completions(&self) -> Vec<String> {
        let pairs = self.labels.iter().flat_map(|label| {
            let values = label.values.iter();
            values.map(move |value| format!("{}={}", label.key, value.value))
        });
        pairs.collect()
    }

    /// The labels that a map can be grouped by.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let few = self.labels.iter();
        let few = few.filter(|label| label.values.len() + label.more <= GROUPS);
        few.map(|label| label.key.as_str())
    }
}

/// The parameters of the API for the search of a page.
fn searched(query: &Query) -> Query {
    let wanted = query.only(&["state", "kind", "component", "reason", "version"]);
    let environment = query.get("environment").map(|name| format!("environment={name}"));
    let (selector, search) = match query.get("q") {
        Some(text) if is_selector(text) => (Some(text), None),
        text => (None, text),
    };
    let selectors: Vec<&str> = selector.into_iter().chain(environment.as_deref()).collect();
    let wanted = match selectors.is_empty() {
        true => wanted,
        false => wanted.with("selector", selectors.join(",")),
    };
    search.map_or(wanted.clone(), |text| wanted.with("search", text))
}

/// The same page for one environment only.
pub(crate) fn within(query: &Query, environment: &str) -> Query {
    let requirement = format!("environment={environment}");
    match query.get("q") {
        None => query.with("q", requirement),
        Some(text) if is_selector(text) => match text.split(',').any(|one| one.trim() == requirement) {
            true => query.clone(),
            false => query.with("q", format!("{text},{requirement}")),
        },
        // A part of a name, which cannot be a part of a selector.
        Some(_) => query.with("environment", environment),
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let query = &visit.query;
    let offset = query.number("offset").unwrap_or_default();
    let wanted = searched(query)
        .with_number("limit", LISTED)
        .with_number("offset", offset);
    let status: Result<Status, Problem> = visit.client.get(&wanted.at("/status")).await;
    let labels = Labels::of(&visit).await;
    let by = query.get("by").unwrap_or("environment");
    let status = match status {
        Ok(status) => status,
        Err(problem) if problem.is_of_search() => {
            let main = html! { h1 { "Fleet" } (search(query, &labels, by)) (wrong_search(&problem)) };
            return Ok(Content::new("Fleet", main));
        }
        Err(problem) => return Err(problem),
    };
    let main = html! {
        h1 { "Fleet" }
        (call::done(&visit))
        (search(query, &labels, by))
        (narrowing(query))
        div #overview data-live { (counts(query, &status)) }
        div.beside {
            div #environments data-live { (environments(query, &status)) }
            // The map has the states of clusters, not of one component.
            @if query.get("component").or(query.get("reason")).is_none() { (map_place(query, by, &status)) }
        }
        div #list data-live {
            (list(query, &status, offset))
        }
    };
    Ok(Content::new("Fleet", main))
}

/// What a link has narrowed the page to, and the way back.
fn narrowing(query: &Query) -> Markup {
    let component = query.get("component");
    let everything = NARROWED
        .iter()
        .fold(query.without("offset"), |query, name| query.without(name));
    html! {
        @if NARROWED.iter().any(|name| query.get(name).is_some()) {
            p.narrowed {
                @match (component, query.get("reason")) {
                    (Some(component), Some(reason)) => {
                        "Clusters on which " strong { (component) @if let Some(version) = query.get("version") { " " (version) } @else if query.exact("version").is_some() { " without a version" } } " fails with " strong { (reason) } "."
                    },
                    (None, Some(reason)) => { "Clusters on which something fails with " strong { (reason) } "." },
                    (Some(component), None) => { "The states of " strong { (component) } " on the clusters that have it." },
                    (None, None) => {},
                }
                @if let Some(environment) = query.get("environment") { " Only the environment " strong { (environment) } "." }
                " " a href=(everything.at(PREFIX)) { "Show all clusters" }
            }
        }
    }
}

fn search(query: &Query, labels: &Labels, by: &str) -> Markup {
    let wanted = query.get("state");
    html! {
        form.search method="get" action=(PREFIX) role="search" {
            (search_field(query.get("q"), &labels.completions()))
            label for="state" { "State" }
            select #state name="state" {
                option value="" { "all" }
                option value=(NOT_WELL) selected[wanted == Some(NOT_WELL)] { "not well" }
                @for (name, _) in STATES { option value=(name) selected[wanted == Some(name)] { (name) } }
                @if let Some(others) = wanted.filter(|wanted| *wanted != NOT_WELL && wanted.contains(',')) {
                    option value=(others) selected { (others.replace(',', ", ")) }
                }
            }
            label for="by" { "Map by" }
            select #by name="by" {
                option value="environment" selected[by == "environment"] { "environment" }
                @for key in labels.keys().filter(|key| *key != "environment") { option value=(key) selected[by == key] { (key) } }
            }
            @for name in NARROWED {
                @if let Some(value) = query.exact(name) { input type="hidden" name=(name) value=(value); }
            }
            button type="submit" { "Show" }
        }
    }
}

fn of(counts: &Counts, state: &str) -> u64 {
    counts.get(state).copied().unwrap_or_default()
}

/// Counts by state. Each leads to its clusters.
fn counts(query: &Query, status: &Status) -> Markup {
    let all = query.without("offset").without("done");
    html! {
        p.faint {
            (parts::count(status.counts.values().sum(), "cluster")) " at revision " (revision_link(status.revision))
        }
        ul.tiles {
            @for (name, meaning) in STATES {
                li {
                    a.tile.(name).none[of(&status.counts, name) == 0] href=(all.with("state", name).at(PREFIX)) title=(meaning)
                        aria-current=[(query.get("state") == Some(name)).then_some("true")] {
                        strong { (grouped(of(&status.counts, name))) } span { (name) }
                    }
                }
            }
        }
    }
}

/// Counts by environment and state. Each leads to its clusters.
fn environments(query: &Query, status: &Status) -> Markup {
    let all = query.without("offset").without("done");
    html! {
        @if !status.by_environment.is_empty() {
            h2 { "Environments" }
            table.matrix {
                thead { tr { th scope="col" { span.hidden { "Environment" } } @for (name, _) in STATES { th.number scope="col" { (state(name)) } } } }
                tbody {
                    @for (environment, counts) in &status.by_environment {
                        tr {
                            th scope="row" { a href=(within(&all, environment).at(PREFIX)) { (environment) } }
                            @for (name, _) in STATES {
                                td.number {
                                    @match of(counts, name) {
                                        0 => { span.faint { "0" } },
                                        number => { a href=(within(&all, environment).with("state", name).at(PREFIX)) { (grouped(number)) } },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The place of the map, which the script draws.
fn map_place(query: &Query, by: &str, status: &Status) -> Markup {
    let source = searched(query)
        .only(&["selector", "search"])
        .with("by", by)
        .at("/ui/map");
    let total: u64 = status.counts.values().sum();
    html! {
        @if total > 0 {
            section.map aria-labelledby="map-title" {
                div.title {
                    h2 #map-title { "Map" }
                    p #map-name .map-name aria-live="polite" {}
                }
                noscript { p.faint { "The map is drawn by a script. The table of environments has the same counts." } }
                p #map-problem .error role="alert" {}
                div #map .panel data-source=(source) data-total=(total) {}
                ul.legend aria-label="Colours of the map" { @for (name, _) in STATES { li.(name) { (name) } } }
            }
        }
    }
}

fn list(query: &Query, status: &Status, offset: u64) -> Markup {
    let is_searched =
        query.get("q").or(query.get("state")).is_some() || NARROWED.iter().any(|name| query.get(name).is_some());
    let has_inputs = status.clusters.iter().any(|row| row.input.is_some());
    html! {
        h2 { "Clusters" }
        @if status.clusters.is_empty() && is_searched {
            p { "No cluster matches. " a href=(PREFIX) { "Show all clusters" } }
        } @else if status.clusters.is_empty() {
            p { "The fleet has no clusters yet. Make one in " a href=(format!("{PREFIX}/documents/clusters")) { "Documents" } ", or with " code { "flux-resourceset-cli cluster create" } "." }
        } @else {
            table {
                thead {
                    tr {
                        th scope="col" { "Cluster" } th scope="col" { "Environment" } th scope="col" { "State" } th scope="col" { "For" }
                        @if has_inputs { th scope="col" { "Version" } th scope="col" { "What is known" } }
                        th.number scope="col" { "Told revision" } th scope="col" { "Last poll" } th scope="col" { "Agent" }
                    }
                }
                tbody {
                    @for row in &status.clusters {
                        tr {
                            th scope="row" { (cluster_link(&row.id)) div.faint { (row.dns) } }
                            td { (row.environment) }
                            td { (state(&row.state)) }
                            td { (ago(&status.at, row.since.as_deref())) }
                            @if has_inputs { (seen(row)) }
                            td.number {
                                @match row.told { Some(told) => { (revision_link(told)) }, None => { span.faint { "–" } } }
                                span.faint { " of " (status.revision) }
                            }
                            td { (ago(&status.at, row.last_poll.as_deref())) @if row.last_poll.is_some() { " ago" } }
                            td { @match &row.agent { Some(agent) => { (agent) }, None => { span.faint { "–" } } } }
                        }
                    }
                }
            }
            (pager(&query.without("done"), PREFIX, offset, LISTED, status.total))
        }
    }
}

/// What is known of the component that the list is about, on one cluster.
fn seen(row: &Row) -> Markup {
    let seen = row.input.as_ref();
    let text = |of: fn(&Seen) -> &Option<String>| seen.and_then(|seen| of(seen).as_deref());
    html! {
        td { (text(|seen| &seen.version).unwrap_or("–")) }
        td.message {
            @if let (Some(reason), "failing") = (text(|seen| &seen.reason), row.state.as_str()) { strong { (reason) } ": " }
            (text(|seen| &seen.message).unwrap_or("–"))
        }
    }
}

/// `GET /ui/map`: the states of all clusters, for the script.
pub(crate) async fn map(visit: Visit) -> Response {
    let wanted = visit.query.only(&["selector", "search", "by"]).at("/status/map");
    match visit.client.answer(&wanted).await {
        Ok(answer) => json(&visit, answer.body.to_vec()),
        Err(problem) => failed(&problem),
    }
}

#[derive(Debug, Deserialize)]
struct Found {
    id: String,
}

/// `GET /ui/map/cluster`: the cluster in one place of the map: its name for the script, or its page.
pub(crate) async fn cluster_of_map(visit: Visit) -> Response {
    let wanted = visit.query.only(&["selector", "search", "by", "place", "revision"]);
    // A label may be empty, which is not to have none.
    let wanted = match visit.query.exact("group") {
        Some(group) => wanted.with("group", group),
        None => wanted,
    };
    let wanted = wanted.at("/status/map");
    let found: Result<Found, Problem> = visit.client.get(&wanted).await;
    match found {
        Ok(found) if visit.query.get("open").is_some() => {
            let mut response = Redirect::to(&parts::cluster_address(&found.id)).into_response();
            reply::protect(response.headers_mut());
            response
        }
        Ok(found) => json(&visit, serde_json::json!({"id": found.id}).to_string().into_bytes()),
        // Somebody clicked a cell: a page says why it leads nowhere.
        Err(problem) if visit.query.get("open").is_some() => {
            let main = html! {
                (crate::layout::problem(&problem))
                p { a href=(visit.query.only(&["by"]).at(PREFIX)) { "Back to the map" } }
            };
            let mut response = crate::layout::page(&visit, Ok(Content::new(problem.title.clone(), main)));
            *response.status_mut() = problem.code();
            response
        }
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &Problem) -> Response {
    let mut response = (problem.code(), problem.detail.clone()).into_response();
    reply::protect(response.headers_mut());
    response
}

fn json(visit: &Visit, body: Vec<u8>) -> Response {
    let mut response = reply::packed(body, &visit.headers);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply::protect(headers);
    *response.status_mut() = StatusCode::OK;
    response
}
