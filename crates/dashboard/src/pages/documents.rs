//! The documents of every kind: lists, and one editor, which always goes through a plan.

use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::PREFIX;
use crate::api::Problem;
use crate::call::{self, Call};
use crate::editor::editor;
use crate::layout::Content;
use crate::pages::revisions::of_document;
use crate::parts::{cluster_address, count, pager, plan_button, value};
use crate::query::encoded;
use crate::visit::Visit;

/// How many documents a page lists.
const LISTED: u64 = 100;
/// The most fields of a document that a list shows, and the longest value.
const FIELDS: usize = 5;
const LONGEST: usize = 80;

/// Kinds that are a part of the server, with what they are for.
const OF_THE_SERVER: [(&str, &str); 3] = [
    ("profiles", "What clusters get by their labels."),
    ("guards", "Limits on how many clusters a change may reach, and when."),
    ("rollouts", "Changes that go out wave by wave."),
];

/// A kind, in `GET /kinds`.
#[derive(Debug, Deserialize)]
struct Kind {
    name: String,
    document: Value,
}

impl Kind {
    fn description(&self) -> &str {
        self.document["metadata"]["description"].as_str().unwrap_or_default()
    }
}

pub(crate) async fn kinds(visit: Visit) -> Result<Content, Problem> {
    let kinds: Vec<Kind> = visit.client.get("/kinds").await?;
    let main = html! {
        h1 { "Documents" }
        (call::done(&visit))
        div #kinds data-live { table {
            thead { tr { th scope="col" { "Kind" } th scope="col" { "What it is" } th scope="col" { "Its definition" } } }
            tbody {
                @for kind in &kinds {
                    tr {
                        th scope="row" { a href=(list_address(&kind.name)) { (kind.name) } }
                        td { (kind.description()) }
                        td { a href=(format!("{PREFIX}/documents/kinds/{}", encoded(&kind.name))) { "schema of " (kind.name) } }
                    }
                }
                @for (kind, what) in OF_THE_SERVER {
                    @if !kinds.iter().any(|known| known.name == kind) {
                        tr { th scope="row" { a href=(list_address(kind)) { (kind) } } td { (what) } td { span.faint { "a part of the server" } } }
                    }
                }
            }
        } }
        @if visit.may_change("kinds") { p.faint { "A new kind is made with " code { "flux-resourceset-cli kind apply -f FILE" } "." } }
    };
    Ok(Content::new("Documents", main))
}

fn list_address(kind: &str) -> String {
    match kind {
        "kinds" => format!("{PREFIX}/documents"),
        "rollouts" | "guards" | "identities" => format!("{PREFIX}/{kind}"),
        _ => format!("{PREFIX}/documents/{}", encoded(kind)),
    }
}

pub(crate) async fn list(visit: Visit) -> Result<Content, Problem> {
    let kind = visit.parameter("kind").to_owned();
    match kind.as_str() {
        "kinds" => kinds(visit).await,
        kind => listed(&visit, kind, "").await,
    }
}

pub(crate) async fn guards(visit: Visit) -> Result<Content, Problem> {
    let about = "A guard limits how many clusters a change may reach, always or for a time. A change that exceeds one is refused, unless an admin overrides it with a reason.";
    listed(&visit, "guards", about).await
}

pub(crate) async fn identities(visit: Visit) -> Result<Content, Problem> {
    let about = "Who may call the API, besides the tokens of the environment and the clusters themselves. Tokens are made with the command line: flux-resourceset-cli token create ID.";
    listed(&visit, "identities", about).await
}

/// Whether a name is one of documents: other routes of the API have such paths, too, and some never end.
async fn check_kind(visit: &Visit, name: &str) -> Result<(), Problem> {
    const OTHERS: [&str; 7] = [
        "profiles",
        "guards",
        "rollouts",
        "identities",
        "kinds",
        "decommissions",
        "released_names",
    ];
    if OTHERS.contains(&name) {
        return Ok(());
    }
    let kinds: Vec<Kind> = visit.client.get("/kinds").await?;
    match kinds.iter().any(|kind| kind.name == name) {
        true => Ok(()),
        false => Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no kind {name}"))),
    }
}

async fn listed(visit: &Visit, kind: &str, about: &str) -> Result<Content, Problem> {
    check_kind(visit, kind).await?;
    let offset = visit.query.number("offset").unwrap_or_default();
    let path = format!("/{}?limit={LISTED}&offset={offset}", encoded(kind));
    let answer = visit.client.answer(&path).await?;
    let documents: Vec<Value> = answer.json()?;
    let total = answer.number("x-total-count").unwrap_or(documents.len() as u64);
    let main = html! {
        h1 { (kind) }
        (call::done(visit))
        @if !about.is_empty() { p.faint { (about) } }
        div #documents data-live {
            p { (count(total, "document")) "." }
            @if documents.is_empty() { p { "There are none." } } @else { (table(kind, &documents)) }
            (pager(&visit.query.without("done"), visit.path(), offset, LISTED, total))
        }
        @if visit.may_change(kind) { (new_document(kind, "id: \n", visit.path())) }
    };
    Ok(Content::new(kind, main))
}

fn table(kind: &str, documents: &[Value]) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Id" } th scope="col" { "Fields" } } }
            tbody {
                @for document in documents {
                    @let id = document["id"].as_str().unwrap_or_default();
                    tr {
                        th scope="row" { a href=(format!("{PREFIX}/documents/{}/{}", encoded(kind), encoded(id))) { (id) } }
                        td { (fields(document)) }
                    }
                }
            }
        }
    }
}

/// A form for a new document, which starts with an example.
pub(crate) fn new_document(kind: &str, example: &str, back: &str) -> Markup {
    html! {
        h2 { "New" }
        @if kind != "identities" { p { a href=(format!("{PREFIX}/documents/kinds/{}", encoded(kind))) { "The fields of " (kind) } } }
        (editor(
            &Call::new(format!("New document of {kind}"), "POST", format!("/{}", encoded(kind))).back(back),
            example,
            "The new document, as YAML",
        ))
    }
}

/// The first fields of a document, in brief.
fn fields(document: &Value) -> Markup {
    let fields = document.as_object().into_iter().flatten();
    let simple = fields.filter(|(name, value)| *name != "id" && !value.is_null());
    html! {
        @for (n, (name, field)) in simple.take(FIELDS).enumerate() {
            @if n > 0 { " · " }
            span.faint { (name) ": " } (shortened(value(field)))
        }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Content, Problem> {
    let (kind, id) = (visit.parameter("kind"), visit.parameter("id"));
    check_kind(&visit, kind).await?;
    let path = format!("/{}/{}", encoded(kind), encoded(id));
    let answer = visit.client.answer(&path).await?;
    let document: Value = answer.json()?;
    let history = of_document(&visit, kind, id).await;
    let text = fleet::yaml::write(&document);
    let title = format!("{kind}/{id}");
    let (deletion, delete) = match kind {
        "profiles" | "guards" | "rollouts" | "identities" | "kinds" | "clusters" => (path.clone(), "Delete…"),
        _ => (format!("{path}?cascade=true"), "Delete, with all references to it…"),
    };
    let may_change = match kind {
        "clusters" => visit.may_change_cluster(id).await,
        _ => visit.may_change(kind),
    };
    let list = list_address(kind);
    let main = html! {
        p {
            @if kind == "clusters" { a href=(cluster_address(id)) { "← " (id) } } @else { a href=(list) { "← " (kind) } }
        }
        h1 { (title) }
        (call::done(&visit))
        @if may_change {
            // The text is that of one version. A deletion is of the document that its plan shows.
            (editor(
                &Call::new(format!("Change {title}"), "PUT", &path).if_match(answer.etag().as_deref()).back(visit.path()),
                &text,
                "The document, as YAML",
            ))
            div.buttons { (plan_button(delete, "dangerous", &Call::new(format!("Delete {title}"), "DELETE", deletion).back(&list))) }
        } @else {
            @if visit.may_change(kind) { p.faint { "You are " (visit.who.reach()) ": this one is outside your scope." } }
            div #document data-live { pre tabindex="0" { (text) } }
        }
        @if kind == "identities" { div #issued data-live { (tokens(&visit, id, &document)) } }
        div #changes data-live { (history) }
    };
    Ok(Content::new(title, main))
}

/// The tokens of an identity. The API never shows them again, only when each was made and ends.
fn tokens(visit: &Visit, identity: &str, document: &Value) -> Markup {
    let tokens = document["tokens"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        section aria-labelledby="tokens" {
            h2 #tokens { "Tokens" }
            @if tokens.is_empty() { p { "It has none. Make one with " code { "flux-resourceset-cli token create " (identity) } "." } }
            @else {
                table {
                    thead { tr { th scope="col" { "Id" } th scope="col" { "Made" } th scope="col" { "Ends" } th scope="col" { span.hidden { "Revoke" } } } }
                    tbody {
                        @for token in tokens {
                            @let id = token["id"].as_str().unwrap_or_default();
                            tr {
                                th scope="row" { code { (id) } }
                                td { (value(&token["created_at"])) }
                                td { (value(&token["expires_at"])) }
                                td {
                                    @if visit.may_change("identities") {
                                        (plan_button("Revoke…", "dangerous", &Call::new(
                                            format!("Revoke a token of {identity}"), "DELETE",
                                            format!("/identities/{}/tokens/{}", encoded(identity), encoded(id)),
                                        ).back(visit.path())))
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
