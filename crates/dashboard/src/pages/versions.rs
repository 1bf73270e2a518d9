//! Versions: which version of each component how many clusters have, and which clusters these are.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use crate::api::Problem;
use crate::layout::{Content, wrong_search};
use crate::pages::fleet::Labels;
use crate::parts::{cluster_link, count, document_address, grouped, is_selector, pager, search_field, state};
use crate::query::Query;
use crate::visit::Visit;

const ADDRESS: &str = "/ui/versions";
const LISTED: u64 = 100;

#[derive(Debug, Deserialize)]
struct Versions {
    kind: String,
    field: String,
    kinds: Vec<String>,
    components: Vec<Component>,
}

#[derive(Debug, Deserialize)]
struct Component {
    id: String,
    current: String,
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
    clusters: u64,
    pinned: u64,
    by_profile: u64,
    by_rollout: BTreeMap<String, u64>,
    environments: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Holders {
    total: u64,
    clusters: Vec<Holder>,
}

#[derive(Debug, Deserialize)]
struct Holder {
    id: String,
    environment: String,
    version: String,
    source: String,
    rollout: Option<String>,
    state: String,
}

fn searched(query: &Query) -> Query {
    let wanted = query.only(&["kind"]);
    match query.get("q") {
        Some(text) if is_selector(text) => wanted.with("selector", text),
        Some(text) => wanted.with("search", text),
        None => wanted,
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let labels = Labels::of(&visit).await;
    match visit.query.get("component") {
        Some(component) => holders(&visit, component, &labels).await,
        None => matrix(&visit, &labels).await,
    }
}

fn search(query: &Query, labels: &Labels, kinds: &[String], kind: &str) -> Markup {
    html! {
        form.search method="get" action=(ADDRESS) role="search" {
            @for name in ["component", "version"] {
                @if let Some(value) = query.exact(name) { input type="hidden" name=(name) value=(value); }
            }
            @if kinds.len() > 1 {
                label for="kind" { "Kind" }
                select #kind name="kind" { @for name in kinds { option value=(name) selected[name == kind] { (name) } } }
            } @else if let Some(kind) = query.get("kind") {
                input type="hidden" name="kind" value=(kind);
            }
            (search_field(query.get("q"), &labels.completions()))
            button type="submit" { "Show" }
        }
    }
}

async fn matrix(visit: &Visit, labels: &Labels) -> Result<Content, Problem> {
    let found: Result<Versions, Problem> = visit.client.get(&searched(&visit.query).at("/status/versions")).await;
    let found = match found {
        Ok(found) => found,
        Err(problem) if problem.is_of_search() => {
            let main = html! { h1 { "Versions" } (search(&visit.query, labels, &[], "")) (wrong_search(&problem)) };
            return Ok(Content::new("Versions", main));
        }
        Err(problem) => return Err(problem),
    };
    let main = html! {
        h1 { "Versions" }
        p.faint { "The " code { (found.field) } " of " (found.kind) " that clusters are told, and what says so." }
        (search(&visit.query, labels, &found.kinds, &found.kind))
        div #versions data-live {
            table {
                thead {
                    tr {
                        th scope="col" { "Component" } th scope="col" { "Catalog" } th scope="col" { "Version" } th.number scope="col" { "Clusters" } th scope="col" { "Share" }
                        th scope="col" { "Environments" } th scope="col" { "Set by" }
                    }
                }
                @for component in &found.components { tbody { (rows(&visit.query, &found.kind, component)) } }
            }
        }
    };
    Ok(Content::new("Versions", main))
}

fn rows(query: &Query, kind: &str, component: &Component) -> Markup {
    let total: u64 = component.versions.iter().map(|version| version.clusters).sum();
    let span = component.versions.len().max(1);
    let of = query.only(&["q"]).with("kind", kind).with("component", &component.id);
    let heading = html! {
        th scope="rowgroup" rowspan=(span) { a href=(of.at(ADDRESS)) { (component.id) } }
        td rowspan=(span) { a href=(document_address(kind, &component.id)) { (shown(&component.current)) } }
    };
    html! {
        @if component.versions.is_empty() {
            tr { (heading) td.faint colspan="5" { "no cluster has it" } }
        }
        @for (n, version) in component.versions.iter().enumerate() {
            tr {
                @if n == 0 { (heading) }
                td {
                    a href=(of.with("version", &version.version).at(ADDRESS)) { (shown(&version.version)) }
                    @if version.version != component.current { span.faint { " not the catalog's" } }
                }
                td.number { (grouped(version.clusters)) }
                td { (bar(version.clusters, total)) }
                td {
                    @for (n, (environment, number)) in version.environments.iter().enumerate() {
                        @if n > 0 { ", " } (environment) " " (grouped(*number))
                    }
                }
                td { (sources(version)) }
            }
        }
    }
}

fn shown(version: &str) -> &str {
    if version.is_empty() { "none" } else { version }
}

fn sources(version: &Version) -> Markup {
    let by_rollouts: u64 = version.by_rollout.values().sum();
    let by_definition = version.clusters - version.pinned - version.by_profile - by_rollouts;
    html! {
        @if by_definition > 0 { "catalog " (grouped(by_definition)) " " }
        @if version.pinned > 0 { strong { "pinned " (grouped(version.pinned)) } " " }
        @if version.by_profile > 0 { "profiles " (grouped(version.by_profile)) " " }
        @for (rollout, number) in &version.by_rollout {
            a href=(document_address("rollouts", rollout)) { "rollout " (rollout) } " " (grouped(*number)) " "
        }
    }
}

/// A share as a bar, with its number.
fn bar(part: u64, all: u64) -> Markup {
    let tenths = (part * 1000).checked_div(all).unwrap_or_default();
    let percent = match tenths % 10 {
        0 => format!("{}%", tenths / 10),
        rest => format!("{}.{rest}%", tenths / 10),
    };
    html! { progress.share max="1000" value=(tenths) aria-label=(format!("{percent} of the clusters that have it")) { (percent) } " " (percent) }
}

async fn holders(visit: &Visit, component: &str, labels: &Labels) -> Result<Content, Problem> {
    let offset = visit.query.number("offset").unwrap_or_default();
    let wanted = searched(&visit.query)
        .with("component", component)
        .with_number("limit", LISTED)
        .with_number("offset", offset);
    let version = visit.query.exact("version");
    let wanted = version.map_or(wanted.clone(), |version| wanted.with("version", version));
    let found: Holders = visit.client.get(&wanted.at("/status/versions")).await?;
    let title = match version {
        Some(version) => format!("Who runs {component} {}?", shown(version)),
        None => format!("Who runs {component}?"),
    };
    let main = html! {
        p { a href=(visit.query.only(&["kind", "q"]).at(ADDRESS)) { "← Versions" } }
        h1 { (title) }
        (search(&visit.query, labels, &[], ""))
        div #holders data-live {
            p { (count(found.total, "cluster")) "." }
            @if !found.clusters.is_empty() {
                table {
                    thead { tr { th scope="col" { "Cluster" } th scope="col" { "Environment" } th scope="col" { "Version" } th scope="col" { "Set by" } th scope="col" { "State of the cluster" } } }
                    tbody {
                        @for holder in &found.clusters {
                            tr {
                                th scope="row" { (cluster_link(&holder.id)) }
                                td { (holder.environment) }
                                td { (shown(&holder.version)) }
                                td {
                                    @match &holder.rollout {
                                        Some(rollout) => { a href=(document_address("rollouts", rollout)) { "rollout " (rollout) } },
                                        None => { (if holder.source == "definition" { "catalog" } else { &holder.source }) },
                                    }
                                }
                                td { (state(&holder.state)) }
                            }
                        }
                    }
                }
                (pager(&visit.query, ADDRESS, offset, LISTED, found.total))
            }
        }
    };
    Ok(Content::new(title, main))
}
