//! What every page has around its content.

use axum::http::HeaderMap;
use axum::response::Response;
use maud::{DOCTYPE, Markup, html};

use crate::api::Problem;
use crate::visit::Visit;
use crate::{PREFIX, assets, reply, session};

/// The content of a page.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) title: String,
    pub(crate) main: Markup,
}

impl Content {
    pub(crate) fn new(title: impl Into<String>, main: Markup) -> Content {
        Content {
            title: title.into(),
            main,
        }
    }
}

/// The places of the navigation: address, name, and whether the caller must be an admin.
const PLACES: [(&str, &str, bool); 8] = [
    ("/ui", "Fleet", false),
    ("/ui/problems", "Problems", false),
    ("/ui/versions", "Versions", false),
    ("/ui/rollouts", "Rollouts", false),
    ("/ui/revisions", "Revisions", false),
    ("/ui/documents", "Documents", false),
    ("/ui/guards", "Guards", false),
    ("/ui/identities", "Identities", true),
];

/// A page, or the problem in its place.
pub(crate) fn page(visit: &Visit, content: Result<Content, Problem>) -> Response {
    let (status, content) = match content {
        Ok(content) => (axum::http::StatusCode::OK, content),
        Err(problem) => (
            problem.code(),
            Content::new(problem.title.clone(), self::problem(&problem)),
        ),
    };
    let markup = document(
        &content.title,
        &html! {
            header.top {
                a.skip href="#main" { "Skip to the content" }
                a.brand href=(PREFIX) { img src=(assets::LOGO.address()) alt="" width="20" height="20"; "flux-resourceset" }
                nav aria-label="Main" {
                    ul {
                        @for (address, name, for_admins) in PLACES {
                            @if !for_admins || visit.may_change("identities") {
                                li { a href=(address) aria-current=[is_at(visit.path(), address).then_some("page")] { (name) } }
                            }
                        }
                    }
                }
                div.who {
                    span title=(format!("You are {}, {}", visit.who.id, visit.who.reach())) { (visit.who.name()) " · " (visit.who.role) }
                    @if session::token(&visit.headers).is_some() {
                        form method="post" action=(format!("{PREFIX}/logout")) { button.quiet type="submit" { "Sign out" } }
                    }
                }
            }
            main #main tabindex="-1" { (content.main) }
            p #live .live role="status" aria-live="polite" data-stream=(format!("{PREFIX}/stream")) data-made=(format!("{:.3}", visit.at)) {}
        },
    );
    reply::html(status, markup, &visit.headers)
}

fn is_at(path: &str, place: &str) -> bool {
    match place {
        PREFIX => path == PREFIX || path.starts_with("/ui/clusters"),
        _ => path == place || path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// A page without a caller.
pub(crate) fn bare(title: &str, main: &Markup) -> Markup {
    document(title, &html! { main #main .bare { (main) } })
}

/// A problem before it is known who the caller is.
pub(crate) fn bare_problem(problem: &Problem, request: &HeaderMap) -> Response {
    let main = html! {
        (self::problem(problem))
        p { a href=(format!("{PREFIX}/login")) { "Sign in" } }
    };
    reply::html(problem.code(), bare(&problem.title, &main), request)
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · flux-resourceset" }
                link rel="icon" href=(assets::LOGO.address());
                link rel="stylesheet" href=(assets::STYLE.address());
                script src=(assets::SCRIPT.address()) defer {}
            }
            body { (body) }
        }
    }
}

/// A problem, with every field that it names.
pub(crate) fn problem(problem: &Problem) -> Markup {
    html! {
        section.problem role="alert" {
            h1 { (if problem.title.is_empty() { "Something went wrong" } else { &problem.title }) }
            (details(problem))
        }
    }
}

/// A problem with what somebody searched for: the page stays, so that it can be corrected.
pub(crate) fn wrong_search(problem: &Problem) -> Markup {
    html! { section.problem role="alert" { (details(problem)) } }
}

fn details(problem: &Problem) -> Markup {
    html! {
        p { (problem.detail) }
        @if !problem.errors.is_empty() {
            ul {
                @for error in &problem.errors {
                    li { @if !error.pointer.is_empty() { code { (error.pointer) } ": " } (error.detail) }
                }
            }
        }
    }
}
