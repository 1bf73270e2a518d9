//! Rollouts: how far each wave is, what the gate waits for, and what can be done about it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::PREFIX;
use crate::api::Problem;
use crate::call::{self, Call};
use crate::layout::Content;
use crate::pages::documents::new_document;
use crate::pages::revisions::of_document;
use crate::parts::{ago, count, document_address, grouped, pager, plan_button, value};
use crate::query::{Query, encoded};
use crate::visit::Visit;

const ADDRESS: &str = "/ui/rollouts";
/// The most rollouts whose waves the list shows, and how many of those that are over a page has.
const LISTED: u64 = 20;
const OVER: u64 = 50;

/// `GET /rollouts/{id}/status`
#[derive(Debug, Deserialize)]
struct Status {
    at: String,
    state: String,
    wave: Option<String>,
    since: Option<String>,
    waiting_for: Option<String>,
    waits: Option<String>,
    message: Option<String>,
    waves: Vec<Wave>,
}

#[derive(Debug, Deserialize)]
struct Wave {
    name: String,
    members: u64,
    affected: u64,
    promoted: bool,
    #[serde(default)]
    approve: bool,
    told: u64,
    converged: u64,
    failing: u64,
    silent: u64,
}

/// What can be done with a rollout, and in which states.
const ACTIONS: [Action; 7] = [
    Action {
        name: "approve",
        label: "Approve the next wave…",
        class: "primary",
        states: &["running"],
    },
    Action {
        name: "pause",
        label: "Pause…",
        class: "",
        states: &["running", "halted"],
    },
    Action {
        name: "resume",
        label: "Resume…",
        class: "",
        states: &["paused", "halted", "reverted"],
    },
    Action {
        name: "promote",
        label: "Promote the next wave now…",
        class: "",
        states: &["running", "paused", "halted"],
    },
    Action {
        name: "revert",
        label: "Revert…",
        class: "dangerous",
        states: &["running", "paused", "halted"],
    },
    Action {
        name: "complete",
        label: "Complete…",
        class: "",
        states: &["running", "paused", "halted"],
    },
    Action {
        name: "abort",
        label: "Abort…",
        class: "dangerous",
        states: &["running", "paused", "halted", "reverted"],
    },
];

struct Action {
    name: &'static str,
    label: &'static str,
    class: &'static str,
    states: &'static [&'static str],
}

impl Action {
    /// Names the wave that it is about, as it was shown.
    fn body(&self, status: &Status) -> Value {
        let next = status.waves.iter().find(|wave| !wave.promoted);
        match next.filter(|_| ["approve", "promote"].contains(&self.name)) {
            Some(wave) => json!({"wave": wave.name}),
            None => json!({}),
        }
    }

    /// Whether it makes sense now, and whether the caller may do it: some of them stand in for an approval.
    fn is_offered(&self, status: &Status, may_approve: bool) -> bool {
        let mut next = status.waves.iter().skip_while(|wave| wave.promoted);
        let approves = match self.name {
            "approve" => true,
            "promote" => next.next().is_some_and(|wave| wave.approve),
            "complete" => next.any(|wave| wave.approve),
            _ => false,
        };
        if approves && !may_approve {
            return false;
        }
        let waits_for_approval = || {
            status
                .waiting_for
                .as_deref()
                .is_some_and(|what| what.starts_with("approval/"))
        };
        self.states.contains(&status.state.as_str()) && (self.name != "approve" || waits_for_approval())
    }
}

pub(crate) async fn list(visit: Visit) -> Result<Content, Problem> {
    let offset = visit.query.number("offset").unwrap_or_default();
    let (running, under_way) = some(&visit, true, LISTED, 0).await?;
    let (over, ended) = some(&visit, false, OVER, offset).await?;
    let mut shown = Vec::new();
    for document in &running {
        let id = document["id"].as_str().unwrap_or_default();
        let status: Result<Status, Problem> = visit.client.get(&format!("/rollouts/{}/status", encoded(id))).await;
        shown.push((id, document, status));
    }
    let main = html! {
        h1 { "Rollouts" }
        (call::done(&visit))
        div #running data-live {
            @if running.is_empty() { p { "No rollout is under way." } }
            @for (id, document, status) in &shown {
                section {
                    h2 { a href=(format!("{ADDRESS}/{}", encoded(id))) { (id) } }
                    @if let Some(description) = document["description"].as_str() { p { (description) } }
                    @match status { Ok(status) => { (standing(status)) (waves(status)) }, Err(problem) => { (crate::layout::problem(problem)) } }
                }
            }
            @if under_way > LISTED { p.faint { "and " (grouped(under_way - LISTED)) " more" } }
            @if ended > 0 {
                h2 { "Over" }
                ul { @for document in &over { @let id = document["id"].as_str().unwrap_or_default(); li { a href=(format!("{ADDRESS}/{}", encoded(id))) { (id) } " " (document["state"].as_str().unwrap_or_default()) } } }
                (pager(&visit.query.without("done"), ADDRESS, offset, OVER, ended))
            }
        }
        @if visit.may_change("rollouts") { (new_document("rollouts", EXAMPLE, visit.path())) }
    };
    Ok(Content::new("Rollouts", main))
}

/// Rollouts that are under way, or over: a page of them, and how many there are.
async fn some(visit: &Visit, active: bool, limit: u64, offset: u64) -> Result<(Vec<Value>, u64), Problem> {
    let path = format!("/rollouts?active={active}&limit={limit}&offset={offset}");
    let answer = visit.client.answer(&path).await?;
    let documents: Vec<Value> = answer.json()?;
    let total = answer.number("x-total-count").unwrap_or(documents.len() as u64);
    Ok((documents, total))
}

/// What a new rollout starts with.
const EXAMPLE: &str = "\
id: podinfo-6-7-1
description: podinfo 6.7.1
operations:
  - op: merge
    kind: platform_components
    id: podinfo
    value:
      oci_tag: 6.7.1
waves:
  - name: canary
    percent: 10
  - name: rest
    approve: true
gate:
  converged: 95%
  soak: 30m
";

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let id = visit.parameter("id").to_owned();
    let path = format!("/rollouts/{}", encoded(&id));
    let document: Value = visit.client.get(&path).await?;
    let status: Status = visit.client.get(&format!("{path}/status")).await?;
    let history = of_document(&visit, "rollouts", &id).await;
    let action = |action: &Action| {
        let title = format!("{} {id}", capitalised(action.name));
        Call::new(title, "POST", format!("{path}/{}", action.name))
            .json(&action.body(&status))
            .back(visit.path())
    };
    // Each action is judged by what the rollout changes in the end.
    let operations = document["operations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut kinds = operations.iter().filter_map(|operation| operation["kind"].as_str());
    let may_act = visit.may_change("rollouts") && kinds.all(|kind| visit.may_change(kind));
    let main = html! {
        p { a href=(ADDRESS) { "← Rollouts" } }
        div.title {
            h1 { (id) }
            // Buttons without fields: nothing that somebody types is lost when they are replaced.
            @if may_act {
                div #actions .buttons data-live {
                    @for known in ACTIONS.iter().filter(|known| known.is_offered(&status, visit.who.may_approve())) { (plan_button(known.label, known.class, &action(known))) }
                }
            }
        }
        (call::done(&visit))
        @if let Some(description) = document["description"].as_str() { p { (description) } }
        div #status data-live { (standing(&status)) (waves(&status)) (failing(&status, operations)) }
        p.faint { (gate(&document["gate"])) }
        (patched(&document))
        div #changes data-live { (history) }
        details { summary { "The document" } pre tabindex="0" { (fleet::yaml::write(&document)) } }
        @if may_act {
            p { a href=(format!("{PREFIX}/documents/rollouts/{}", encoded(&id))) { "Edit or delete the document" } }
        }
    };
    Ok(Content::new(id.clone(), main))
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Where it stands, in words.
fn standing(status: &Status) -> Markup {
    html! {
        p.lead {
            strong.badge.(status.state) { (status.state) }
            @if let Some(wave) = &status.wave { " wave " strong { (wave) } }
            @if status.since.is_some() { " for " (ago(&status.at, status.since.as_deref())) }
            @if let Some(waits) = &status.waits { ": " (waits) }
            @else if let Some(what) = &status.waiting_for { ": waits for " (what) }
        }
        @if status.wave.is_some() { p { (evidence(status)) } }
        @if let Some(message) = &status.message { p.error { (message) } }
    }
}

/// What is known of the promoted clusters, such as `37 of 40 converged, 1 silent`.
fn evidence(status: &Status) -> String {
    let sum = |of: fn(&Wave) -> u64| status.waves.iter().filter(|wave| wave.promoted).map(of).sum::<u64>();
    let mut words = format!(
        "{} of {} converged",
        grouped(sum(|wave| wave.converged)),
        grouped(sum(|wave| wave.affected))
    );
    for (number, state) in [
        (sum(|wave| wave.failing), "failing"),
        (sum(|wave| wave.silent), "silent"),
    ] {
        if number > 0 {
            words.push_str(&format!(", {} {state}", grouped(number)));
        }
    }
    words
}

fn waves(status: &Status) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Wave" } th scope="col" { "Where it is" } th.number scope="col" { "Members" } th.number scope="col" { "Change" } th scope="col" { "Converged" }
                    th.number scope="col" { "Told" } th.number scope="col" { "Failing" } th.number scope="col" { "Silent" }
                }
            }
            tbody {
                @for wave in &status.waves {
                    tr {
                        th scope="row" { (wave.name) }
                        td {
                            @match (wave.promoted, wave.approve) {
                                (true, _) => { "promoted" },
                                (false, true) => { span.faint { "not yet, needs approval" } },
                                (false, false) => { span.faint { "not yet" } },
                            }
                        }
                        td.number { (grouped(wave.members)) }
                        td.number { (grouped(wave.affected)) }
                        td {
                            @if wave.promoted {
                                progress max=(wave.affected.max(1)) value=(if wave.affected == 0 { 1 } else { wave.converged })
                                    aria-label=(format!("{} of {} converged in {}", wave.converged, wave.affected, wave.name)) {}
                                " " (grouped(wave.converged)) " of " (grouped(wave.affected))
                            } @else { span.faint { "–" } }
                        }
                        td.number { @if wave.promoted { (grouped(wave.told)) } @else { span.faint { "–" } } }
                        td.number { @if wave.failing > 0 { span.state.failing { (grouped(wave.failing)) } } @else if wave.promoted { "0" } @else { span.faint { "–" } } }
                        td.number { @if wave.silent > 0 { span.state.silent { (grouped(wave.silent)) } } @else if wave.promoted { "0" } @else { span.faint { "–" } } }
                    }
                }
            }
        }
        p.faint { (count(status.waves.iter().map(|wave| wave.members).sum(), "cluster")) " in all." }
    }
}

/// Where to see what fails: the states of what it changes.
fn failing(status: &Status, operations: &[Value]) -> Markup {
    let definitions = operations.iter().filter(|operation| operation["kind"] != "profiles");
    let address = |operation: &Value| {
        let text = |field: &str| operation[field].as_str().unwrap_or_default().to_owned();
        let query = Query::default()
            .with("component", text("id"))
            .with("kind", text("kind"));
        query.with("state", "failing").at(PREFIX)
    };
    html! {
        @if status.waves.iter().any(|wave| wave.failing > 0) {
            p {
                @for operation in definitions { a href=(address(operation)) { "Where " (operation["id"].as_str().unwrap_or_default()) " fails, and why" } " · " }
                a href=(format!("{PREFIX}/problems")) { "All problems" }
            }
        }
    }
}

/// What the gate between two waves asks for, such as `at least 95% converged, at most 1 failing`.
fn gate(gate: &Value) -> String {
    let limits = [
        ("converged", "at least ", " converged"),
        ("told", "at least ", " told"),
        ("failures", "at most ", " failing"),
        ("silent", "at most ", " silent"),
        ("soak", "all for ", ""),
    ];
    let given = limits
        .iter()
        .filter(|(field, ..)| !gate[*field].is_null() && gate[*field] != "0s");
    let words: Vec<String> = given
        .map(|(field, before, after)| format!("{before}{}{after}", value(&gate[*field])))
        .collect();
    let deadline = match &gate["deadline"] {
        Value::String(deadline) => format!(" A wave that does not get there within {deadline} halts the rollout."),
        _ => String::new(),
    };
    format!("Before the next wave: {}.{deadline}", words.join(", "))
}

/// What it changes.
fn patched(document: &Value) -> Markup {
    let operations = document["operations"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        section {
            h2 { "What it changes" }
            ul {
                @for operation in operations {
                    @let (kind, id) = (operation["kind"].as_str().unwrap_or_default(), operation["id"].as_str().unwrap_or_default());
                    li {
                        a href=(document_address(kind, id)) { (kind) "/" (id) }
                        @for field in ["value", "set", "patch"] {
                            @for (n, (name, to)) in operation[field].as_object().into_iter().flatten().enumerate() {
                                (if n == 0 { ": " } else { ", " }) code { (name) } " becomes " strong { (value(to)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
