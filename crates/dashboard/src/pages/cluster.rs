//! One cluster: its state and the evidence for it, what it is told and where each value comes from, its objects, its history.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::PREFIX;
use crate::api::Problem;
use crate::call::{self, Call};
use crate::layout::Content;
use crate::pages::revisions::of_document;
use crate::parts::{STATES, ago, document_address, grouped, plan_button, revision_link, state, value};
use crate::query::{Query, encoded};
use crate::visit::Visit;

/// The views of a cluster, with their names.
const TABS: [(&str, &str); 6] = [
    ("state", "State"),
    ("events", "Events"),
    ("inputs", "Inputs"),
    ("objects", "Objects"),
    ("document", "Document"),
    ("history", "History"),
];

#[derive(Debug, Deserialize)]
struct Status {
    at: String,
    dns: String,
    environment: String,
    state: String,
    since: Option<String>,
    last_poll: Option<String>,
    heard: Option<String>,
    reporter: Option<String>,
    kinds: BTreeMap<String, KindStatus>,
    #[serde(default)]
    objects: Vec<Observation>,
}

#[derive(Debug, Deserialize)]
struct KindStatus {
    state: String,
    told: Option<Told>,
    inputs: Vec<InputStatus>,
}

#[derive(Debug, Deserialize)]
struct Told {
    revision: u64,
    at: String,
    agent: String,
}

#[derive(Debug, Deserialize)]
struct InputStatus {
    id: String,
    state: String,
    enabled: bool,
    since: Option<String>,
    object: Option<String>,
    version: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    evidence: String,
    at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Observation {
    object: String,
    reason: String,
    message: String,
    evidence: String,
    at: String,
}

/// How many events, and how many other objects that fail, a page lists.
const EVENTS: u64 = 200;
const OBJECTS: usize = 100;

/// `GET /clusters/{id}/status?events=N`
#[derive(Debug, Deserialize)]
struct Events {
    at: String,
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Event {
    input: Option<String>,
    health: String,
    #[serde(flatten)]
    seen: Observation,
}

#[derive(Debug, Deserialize)]
struct Explained {
    profiles: Vec<String>,
    inputs: BTreeMap<String, Vec<ExplainedInput>>,
}

#[derive(Debug, Deserialize)]
struct ExplainedInput {
    id: String,
    fields: BTreeMap<String, Field>,
}

#[derive(Debug, Deserialize)]
struct Field {
    #[serde(default)]
    value: Value,
    from: String,
    #[serde(default)]
    over: Vec<Layer>,
}

#[derive(Debug, Deserialize)]
struct Layer {
    #[serde(default)]
    value: Value,
    from: String,
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let id = visit.parameter("id").to_owned();
    let path = format!("/clusters/{}", encoded(&id));
    let document: Value = visit.client.get(&path).await?;
    let status: Status = visit.client.get(&format!("{path}/status")).await?;
    let tab = visit
        .query
        .get("tab")
        .filter(|tab| TABS.iter().any(|(name, _)| name == tab))
        .unwrap_or("state");
    let shown = match tab {
        "events" => events(&visit, &path).await?,
        "inputs" => inputs(&visit, &path).await?,
        "objects" => objects(&visit, &path).await,
        "document" => html! { pre tabindex="0" { (fleet::yaml::write(&document)) } },
        "history" => of_document(&visit, "clusters", &id).await,
        _ => evidence(&status),
    };
    let may_change = visit.may_change_cluster(&id).await;
    let main = html! {
        p { a href=(PREFIX) { "← Fleet" } }
        div.title {
            h1 { (id) }
            @if may_change { (buttons(&id, &path)) }
        }
        (call::done(&visit))
        div #facts data-live { (facts(&status, &document)) }
        nav.tabs aria-label="Views of the cluster" {
            @for (name, label) in TABS {
                a href=(visit.query.only(&[]).with("tab", name).at(visit.path())) aria-current=[(name == tab).then_some("page")] { (label) }
            }
        }
        div #view data-live { (shown) }
    };
    Ok(Content::new(id.clone(), main))
}

fn facts(status: &Status, document: &Value) -> Markup {
    let labels = document["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, label)| format!("{key}={}", value(label))).collect();
    html! {
        dl.facts {
            div { dt { "State" } dd { (state(&status.state)) @if status.since.is_some() { " for " (ago(&status.at, status.since.as_deref())) } } }
            div { dt { "Environment" } dd { (status.environment) } }
            div { dt { "DNS name" } dd { (status.dns) } }
            @if !labels.is_empty() { div { dt { "Labels" } dd { (labels.join(", ")) } } }
            div { dt { "Last poll" } dd { (ago(&status.at, status.last_poll.as_deref())) @if status.last_poll.is_some() { " ago" } } }
            @if status.heard.is_some() {
                div {
                    dt { "Last event or report" }
                    dd { (ago(&status.at, status.heard.as_deref())) " ago" @if let Some(reporter) = &status.reporter { " by " (reporter) } }
                }
            }
            @if let Some(address) = web_address(document) { div { dt { "Its own UI" } dd { a href=(address) rel="noopener noreferrer" { (address) } } } }
        }
    }
}

/// The address of the cluster's own UI. The schema allows nothing else, but a kind can be replaced.
fn web_address(document: &Value) -> Option<&str> {
    let address = document["web_url"].as_str()?;
    (address.starts_with("https://") || address.starts_with("http://")).then_some(address)
}

fn buttons(id: &str, path: &str) -> Markup {
    html! {
        div.buttons {
            a.button href=(format!("{PREFIX}/documents/clusters/{}", encoded(id))) { "Edit its document…" }
            (plan_button("Decommission…", "dangerous", &Call::new(format!("Decommission {id}"), "DELETE", path).back(PREFIX)))
        }
    }
}

fn evidence(status: &Status) -> Markup {
    // What is not well comes first.
    let worst = |kind: &KindStatus| STATES.iter().position(|(name, _)| *name == kind.state);
    let mut kinds: Vec<_> = status.kinds.iter().collect();
    kinds.sort_by_key(|(_, kind)| worst(kind));
    let inputs = kinds
        .iter()
        .flat_map(|(path, kind)| kind.inputs.iter().map(move |input| (path, input)));
    let failing = inputs.filter(|(_, input)| input.state == "failing");
    html! {
        @for (path, input) in failing { (failure(path, input, &status.at)) }
        @for (path, kind) in kinds {
            section {
                h2 { (path) " " (state(&kind.state)) }
                p.faint {
                    @match &kind.told {
                        Some(told) => { "Told revision " (revision_link(told.revision)) ", " (ago(&status.at, Some(&told.at))) " ago, to " (told.agent) },
                        None => { "Never polled." },
                    }
                }
                @if !kind.inputs.is_empty() {
                    table.evidence {
                        thead { tr { th scope="col" { "Input" } th scope="col" { "State" } th scope="col" { "For" } th scope="col" { "Version" } th scope="col" { "What is known" } } }
                        tbody { @for input in &kind.inputs { (input_row(input, &status.at)) } }
                    }
                }
            }
        }
        @if !status.objects.is_empty() {
            section {
                h2 { "Other objects that fail" }
                table {
                    thead { tr { th scope="col" { "Object" } th scope="col" { "Reason" } th scope="col" { "Message" } th scope="col" { "Seen" } } }
                    tbody {
                        @for seen in status.objects.iter().take(OBJECTS) {
                            tr { th scope="row" { (seen.object) } td { (seen.reason) } td { (seen.message) } td { (ago(&status.at, Some(&seen.at))) " ago, " (seen.evidence) } }
                        }
                    }
                }
                @if status.objects.len() > OBJECTS { p.faint { "and " (grouped((status.objects.len() - OBJECTS) as u64)) " more" } }
            }
        }
    }
}

/// An input that fails, why, and where else it does.
fn failure(path: &str, input: &InputStatus, now: &str) -> Markup {
    let elsewhere = Query::default().with("component", &*input.id).with("kind", path);
    let elsewhere = match &input.reason {
        Some(reason) => elsewhere.with("reason", reason.as_str()),
        None => elsewhere.with("state", "failing"),
    };
    html! {
        article.cause {
            h2 { span.state.failing { (input.id) @if let Some(version) = &input.version { " " (version) } @if let Some(reason) = &input.reason { ": " (reason) } } }
            @if let Some(message) = &input.message { p { (message) } }
            p.faint {
                "for " (ago(now, input.since.as_deref())) ". "
                a href=(elsewhere.at(PREFIX)) { "Where else it fails" }
            }
        }
    }
}

fn input_row(input: &InputStatus, now: &str) -> Markup {
    html! {
        tr {
            th scope="row" { (input.id) @if !input.enabled { span.faint { " disabled" } } }
            td { (state(&input.state)) }
            td { (ago(now, input.since.as_deref())) }
            td { (input.version.as_deref().unwrap_or("–")) }
            td {
                @if let (Some(reason), "failing") = (&input.reason, input.state.as_str()) { strong { (reason) } ": " }
                @if let Some(message) = &input.message { (message) " " }
                div.faint {
                    @if let Some(object) = &input.object { (object) ", " }
                    "by " (input.evidence) @if input.at.is_some() { ", " (ago(now, input.at.as_deref())) " ago" }
                }
            }
        }
    }
}

/// What its events and reports said last of each object, the newest first.
async fn events(visit: &Visit, path: &str) -> Result<Markup, Problem> {
    let found: Events = visit.client.get(&format!("{path}/status?events={EVENTS}")).await?;
    Ok(html! {
        @if found.events.is_empty() {
            p { "No event and no report was received from it, or none is kept." }
        } @else {
            table {
                caption.hidden { "What events and reports said last of each object" }
                thead { tr { th scope="col" { "When" } th scope="col" { "Object" } th scope="col" { "Input" } th scope="col" { "It is" } th scope="col" { "What was said" } } }
                tbody { @for event in &found.events { (event_row(event, &found.at)) } }
            }
            @if found.events.len() as u64 == EVENTS { p.faint { "The newest " (EVENTS) "." } }
        }
    })
}

fn event_row(event: &Event, now: &str) -> Markup {
    let seen = &event.seen;
    html! {
        tr {
            td { (ago(now, Some(&seen.at))) " ago, " (seen.evidence) }
            th scope="row" { (seen.object) }
            td { @match &event.input { Some(input) => { (input) }, None => { span.faint { "–" } } } }
            td { (event.health) }
            td.message { @if !seen.reason.is_empty() { strong { (seen.reason) } " " } (seen.message) }
        }
    }
}

/// What it is told, value by value, with the document that each value comes from.
async fn inputs(visit: &Visit, path: &str) -> Result<Markup, Problem> {
    let explained: Explained = visit.client.get(&format!("{path}/explain")).await?;
    Ok(html! {
        @if !explained.profiles.is_empty() {
            p {
                "Profiles, the strongest last: "
                @for (n, profile) in explained.profiles.iter().enumerate() { @if n > 0 { ", " } a href=(document_address("profiles", profile)) { (profile) } }
            }
        }
        @for (path, inputs) in &explained.inputs {
            section {
                h2 { (path) }
                @if inputs.is_empty() { p.faint { "none" } }
                @for input in inputs {
                    details {
                        summary { (input.id) }
                        table {
                            thead { tr { th scope="col" { "Field" } th scope="col" { "Value" } th scope="col" { "From" } th scope="col" { "Instead of" } } }
                            tbody { @for (pointer, field) in &input.fields { (field_row(pointer, field)) } }
                        }
                    }
                }
            }
        }
    })
}

fn field_row(pointer: &str, field: &Field) -> Markup {
    html! {
        tr {
            th scope="row" { code { (pointer) } }
            td { (value(&field.value)) }
            td { (source(&field.from)) }
            td { @for (n, layer) in field.over.iter().enumerate() { @if n > 0 { "; " } (value(&layer.value)) " from " (source(&layer.from)) } }
        }
    }
}

/// A layer, such as `profiles/prod`, as a link to its document.
fn source(from: &str) -> Markup {
    match from.split_once('/') {
        Some((kind, id)) if !id.is_empty() && !id.contains('/') => {
            html! { a href=(document_address(kind, id)) { (from) } }
        }
        _ => html! { (from) },
    }
}

/// The Kubernetes objects that its inputs become.
async fn objects(visit: &Visit, path: &str) -> Markup {
    match visit
        .client
        .text(&format!("{path}/manifests"), "application/yaml")
        .await
    {
        Ok(text) if text.trim().is_empty() => html! { p { "No objects." } },
        Ok(text) => html! { pre tabindex="0" { (text) } },
        Err(problem) => crate::layout::problem(&problem),
    }
}
