//! Signing in with a token, and out. The module `oidc` signs in with an issuer.

use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::api::{Client, Problem};
use crate::query::Query;
use crate::session::{self, Source};
use crate::visit::Who;
use crate::{PREFIX, Ui, form, layout, oidc, reply};

/// `GET /ui/login`
pub(crate) async fn show(State(ui): State<Ui>, headers: HeaderMap, uri: axum::http::Uri) -> Response {
    let query = Query::parse(uri.query());
    let note = query.get("ended").map(|_| Note::Ended);
    let markup = page(&ui, query.get("next"), note.as_ref());
    reply::html(StatusCode::OK, layout::bare("Sign in", &markup), &headers)
}

/// What the form says besides what to fill in.
enum Note<'a> {
    /// The token of the browser's cookies is no longer good.
    Ended,
    /// Why signing in failed.
    Failed(&'a Problem),
}

#[derive(Debug, Deserialize)]
struct Filled {
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

/// `POST /ui/login`
pub(crate) async fn submit(State(ui): State<Ui>, request: Request) -> Response {
    let headers = request.headers().clone();
    if Source::of(&ui, &headers) == Source::Other {
        let problem = Problem::new(
            StatusCode::FORBIDDEN,
            "the form was not sent from a page of this server (Origin)",
        );
        return layout::bare_problem(&problem, &headers);
    }
    // The token of the form counts, whatever else the request has.
    let client = Client::new(ui.api.clone(), &headers, (ui.carry)(request.extensions()));
    let secure = session::is_secure(&ui, &headers);
    let filled: Filled = match form::sign_in(request).await {
        Ok(filled) => filled,
        Err(problem) => return refused(&ui, &problem, None, &headers),
    };
    let next = Some(filled.next.as_str()).filter(|next| !next.is_empty());
    match check(client, filled.token.trim()).await {
        Ok(()) => keep(&ui, filled.token.trim(), next, secure, &headers),
        Err(problem) => refused(&ui, &problem, next, &headers),
    }
}

/// Whether a token is good, and may see pages.
pub(crate) async fn check(client: Client, token: &str) -> Result<(), Problem> {
    let refuse = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, detail);
    if token.is_empty() {
        return Err(refuse("enter a token"));
    }
    let client = client
        .with_token(token)
        .ok_or_else(|| refuse("the token is not valid"))?;
    let who: Who = client.get("/whoami").await?;
    match who.may_read() {
        true => Ok(()),
        false => {
            let detail = format!("{} has the role {}, which may not read the fleet", who.id, who.role);
            Err(Problem::new(StatusCode::FORBIDDEN, detail))
        }
    }
}

/// Keeps a token in the browser, and goes on to the page that was wanted.
pub(crate) fn keep(ui: &Ui, token: &str, next: Option<&str>, is_secure: bool, request: &HeaderMap) -> Response {
    let Some(cookies) = session::kept(token, is_secure) else {
        let problem = Problem::new(
            StatusCode::BAD_REQUEST,
            "the token is too long for the cookies of a browser",
        );
        return refused(ui, &problem, next, request);
    };
    redirect(page_of_ours(next), cookies)
}

pub(crate) fn redirect(to: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
    let mut response = Redirect::to(to).into_response();
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    reply::protect(response.headers_mut());
    response
}

/// Where to go: a page of ours, whatever the form says.
pub(crate) fn page_of_ours(next: Option<&str>) -> &str {
    let is_ours = |next: &&str| {
        let rest = next.strip_prefix(PREFIX);
        let is_plain = !next.contains(|c: char| c == '\\' || c.is_control());
        is_plain && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    };
    next.filter(is_ours).unwrap_or(PREFIX)
}

pub(crate) fn refused(ui: &Ui, problem: &Problem, next: Option<&str>, request: &HeaderMap) -> Response {
    let markup = page(ui, next, Some(&Note::Failed(problem)));
    reply::html(problem.code(), layout::bare("Sign in", &markup), request)
}

/// `POST /ui/logout`
pub(crate) async fn sign_out(State(ui): State<Ui>, headers: HeaderMap) -> Response {
    if Source::of(&ui, &headers) == Source::Other {
        let problem = Problem::new(
            StatusCode::FORBIDDEN,
            "the form was not sent from a page of this server (Origin)",
        );
        return layout::bare_problem(&problem, &headers);
    }
    let cookies = session::forgotten(session::is_secure(&ui, &headers));
    redirect(&format!("{PREFIX}/login"), cookies)
}

fn page(ui: &Ui, next: Option<&str>, note: Option<&Note<'_>>) -> Markup {
    html! {
        h1 { "Sign in" }
        @match note {
            Some(Note::Ended) => p role="status" { "Your session has ended." },
            Some(Note::Failed(problem)) => p.error role="alert" { (problem.detail) },
            None => {}
        }
        @if let Some(issuer) = &ui.issuer {
            // A link and not a form: the policy of our pages lets forms lead to us only.
            p { a.button href=(oidc::address(next)) { "Sign in with " (issuer.name()) } }
        }
        p { "Sign in with the token of a reader, an operator or an admin. It stays in this browser, in a cookie that only this server reads." }
        form.stack method="post" action=(format!("{PREFIX}/login")) {
            @if let Some(next) = next { input type="hidden" name="next" value=(next); }
            // Browsers keep a password with a name.
            input type="text" name="username" value="token" autocomplete="username" hidden;
            label for="token" { "Token" }
            input #token type="password" name="token" required autocomplete="current-password" autofocus spellcheck="false";
            button type="submit" { "Sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_pages_of_ours_only() {
        for ours in ["/ui", "/ui/clusters/a?x=1", "/ui?q=tier%3Dgold"] {
            assert_eq!(page_of_ours(Some(ours)), ours);
        }
        for other in [
            "https://evil.example.com",
            "//evil.example.com",
            "/uievil",
            "/clusters",
            "/ui\\evil",
            "/ui/\r\nSet-Cookie: a=b",
            "/ui/\u{1}",
            "",
        ] {
            assert_eq!(page_of_ours(Some(other)), "/ui", "{other}");
        }
    }
}
