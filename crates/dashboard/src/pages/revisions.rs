//! The log: who changed what, when and why; what came of it; and the way back.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use crate::PREFIX;
use crate::api::Problem;
use crate::call::{self, Call, Plan};
use crate::layout::Content;
use crate::parts::{ago, cluster_link, count, grouped, now, plan_button, revision_link, state};
use crate::query::Query;
use crate::visit::Visit;

/// How many revisions a page lists.
const LISTED: u64 = 50;
/// How many changes of a document its page lists.
const CHANGES: u64 = 20;
/// How many of the documents of a difference a page lists, and how many if they are too large for a page. And how many clusters.
const DIFFERENCES: [u64; 3] = [50, 5, 0];
const DIFFERENT: u64 = 50;
/// How many clusters that are missing a page lists.
const MISSING: u64 = 20;

/// `GET /revisions`
#[derive(Debug, Deserialize)]
struct Revisions {
    revisions: Vec<Revision>,
    next: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Revision {
    revision: u64,
    at: String,
    actor: String,
    reason: Option<String>,
    #[serde(default)]
    changes: BTreeMap<String, Actions>,
    undoes: Option<u64>,
    redoes: Option<u64>,
    undone_by: Option<u64>,
    #[serde(default)]
    overrides: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Actions {
    create: u64,
    update: u64,
    delete: u64,
}

impl Revision {
    /// What it changed, such as `clusters ~3 +1`.
    fn summary(&self) -> String {
        let kinds = self.changes.iter().map(|(kind, actions)| {
            let parts = [('+', actions.create), ('~', actions.update), ('−', actions.delete)];
            let parts = parts.iter().filter(|(_, count)| *count > 0);
            let parts: Vec<String> = parts
                .map(|(sign, count)| format!("{sign}{}", grouped(*count)))
                .collect();
            format!("{kind} {}", parts.join(" "))
        });
        kinds.collect::<Vec<_>>().join(", ")
    }

    fn marks(&self) -> Markup {
        html! {
            @if let Some(other) = self.undoes { span.faint { " undoes " (revision_link(other)) } }
            @if let Some(other) = self.redoes { span.faint { " redoes " (revision_link(other)) } }
            @if let Some(other) = self.undone_by { span.faint { " undone by " (revision_link(other)) } }
            @if !self.overrides.is_empty() { span.failing { " overrode " (self.overrides.join(", ")) } }
        }
    }
}

/// `GET /revisions/{n}/status`
#[derive(Debug, Deserialize)]
struct Progress {
    affected: u64,
    told: u64,
    converged: u64,
    failing: u64,
    silent: u64,
    behind: u64,
    #[serde(default)]
    clusters: Vec<Missing>,
}

#[derive(Debug, Deserialize)]
struct Missing {
    id: String,
    environment: String,
    state: String,
}

pub(crate) async fn list(visit: Visit) -> Result<Content, Problem> {
    let filters = ["actor", "kind", "id", "since", "until", "reason", "before"];
    let wanted = visit.query.only(&filters).with_number("limit", LISTED);
    let found: Revisions = visit.client.get(&wanted.at("/revisions")).await?;
    let main = html! {
        h1 { "Revisions" }
        (call::done(&visit))
        form.search method="get" action=(format!("{PREFIX}/revisions")) role="search" {
            @for (name, label) in [("actor", "Who"), ("reason", "Why has"), ("kind", "Kind"), ("id", "Id"), ("since", "Since")] {
                label for=(name) { (label) }
                input id=(name) type="text" name=(name) value=[visit.query.get(name)] size="12";
            }
            button type="submit" { "Show" }
        }
        div #revisions data-live {
            (table(&found.revisions))
            @if let Some(next) = found.next {
                nav.pager aria-label="Pages" { a rel="next" href=(visit.query.with_number("before", next).at("/ui/revisions")) { "older →" } }
            }
        }
    };
    Ok(Content::new("Revisions", main))
}

fn table(revisions: &[Revision]) -> Markup {
    let now = now();
    html! {
        table {
            thead {
                tr {
                    th.number scope="col" { "Revision" } th scope="col" { "When" } th scope="col" { "Who" }
                    th scope="col" { "What" } th scope="col" { "Why" }
                }
            }
            tbody {
                @for revision in revisions {
                    tr {
                        th.number scope="row" { (revision_link(revision.revision)) }
                        td { (ago(&now, Some(&revision.at))) " ago" }
                        td { (revision.actor) }
                        td { (revision.summary()) (revision.marks()) }
                        td { @if let Some(reason) = &revision.reason { (reason) } }
                    }
                }
            }
        }
    }
}

/// The last changes of one document, the newest first.
pub(crate) async fn of_document(visit: &Visit, kind: &str, id: &str) -> Markup {
    let wanted = Query::default().with("kind", kind).with("id", id);
    let path = wanted.with_number("limit", CHANGES).at("/revisions");
    let found: Result<Revisions, Problem> = visit.client.get(&path).await;
    html! {
        section aria-labelledby="history" {
            h2 #history { "History" }
            @match &found {
                Ok(found) if found.revisions.is_empty() => { p.faint { "The log has no change of it." } },
                Ok(found) => {
                    (table(&found.revisions))
                    @if found.next.is_some() { p { a href=(wanted.at("/ui/revisions")) { "Older changes" } } }
                },
                Err(problem) => { p.faint { "The log cannot be shown: " (problem.detail) } },
            }
        }
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let text = visit.parameter("revision");
    let missing = || Problem::new(StatusCode::NOT_FOUND, format!("there is no revision {text}"));
    let number: u64 = text.parse().map_err(|_| missing())?;
    let path = format!("/revisions?before={}&limit=1", number.saturating_add(1));
    let found: Revisions = visit.client.get(&path).await?;
    let revision = found
        .revisions
        .into_iter()
        .find(|revision| revision.revision == number)
        .ok_or_else(missing)?;
    let path = format!("/revisions/{number}/status?limit={MISSING}");
    let progress: Result<Progress, Problem> = visit.client.get(&path).await;
    let difference = match visit.is_again() {
        true => None,
        false => Some(difference(&visit, number).await),
    };
    let main = html! {
        h1 { "Revision " (number) }
        (call::done(&visit))
        div #facts data-live { dl.facts {
            div { dt { "When" } dd { (ago(&now(), Some(&revision.at))) " ago" } }
            div { dt { "Who" } dd { (revision.actor) } }
            div { dt { "Why" } dd { (revision.reason.as_deref().unwrap_or("–")) } }
            div { dt { "What" } dd { (revision.summary()) (revision.marks()) } }
        } }
        @if visit.may_write() { div #back data-live { (ways_back(&visit, &revision)) } }
        div #progress data-live { (came_of_it(&progress)) }
        @match &difference {
            None => {},
            Some(Ok(difference)) => (difference.details()),
            Some(Err(problem)) => p.faint { "The difference cannot be shown: " (problem.detail) },
        }
    };
    Ok(Content::new(format!("Revision {number}"), main))
}

/// What a revision changed.
async fn difference(visit: &Visit, number: u64) -> Result<Plan, Problem> {
    let before = number.saturating_sub(1);
    let mut found = Err(Problem::default());
    for listed in DIFFERENCES {
        let path = format!("/diff?from={before}&to={number}&limit={DIFFERENT}&changes={listed}");
        found = visit.client.get(&path).await;
        if !found.as_ref().is_err_and(Problem::is_of_size) {
            break;
        }
    }
    found
}

fn ways_back(visit: &Visit, revision: &Revision) -> Markup {
    let number = revision.revision;
    let call =
        |title: String, body: serde_json::Value| Call::new(title, "POST", "/rollback").json(&body).back(visit.path());
    html! {
        div.buttons {
            @if number > 1 && revision.undone_by.is_none() {
                (plan_button("Undo this revision…", "", &call(format!("Undo revision {number}"), json!({"undo": number}))))
            }
            @if revision.undone_by.is_some() {
                (plan_button("Redo it…", "", &call(format!("Redo revision {number}"), json!({"redo": number}))))
            }
            // It would change what is outside any scope.
            @if visit.who.is_unlimited() {
                (plan_button("Roll the whole fleet back to here…", "dangerous", &call(format!("Roll back to revision {number}"), json!({"revision": number}))))
            }
        }
    }
}

fn came_of_it(progress: &Result<Progress, Problem>) -> Markup {
    let progress = match progress {
        Ok(progress) => progress,
        Err(problem) => return html! { p.faint { "What came of it is not known: " (problem.detail) } },
    };
    html! {
        section aria-labelledby="came-of-it" {
            h2 #came-of-it { "What came of it" }
            @if progress.affected == 0 {
                p { "It changed nothing that a cluster gets." }
            } @else {
                p {
                    "It changed what " (count(progress.affected, "cluster")) " get: "
                    (grouped(progress.converged)) " converged, " (grouped(progress.told)) " told, " (grouped(progress.failing)) " failing, "
                    (grouped(progress.silent)) " silent, " (grouped(progress.behind)) " behind."
                }
                @if !progress.clusters.is_empty() {
                    table {
                        caption.hidden { "Clusters that do not have it yet" }
                        thead { tr { th scope="col" { "Not there yet" } th scope="col" { "Environment" } th scope="col" { "State" } } }
                        tbody {
                            @for cluster in &progress.clusters {
                                tr { th scope="row" { (cluster_link(&cluster.id)) } td { (cluster.environment) } td { (state(&cluster.state)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
