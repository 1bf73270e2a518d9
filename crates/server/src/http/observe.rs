//! What happens around every request that is not a poll: its id, who asks, how long it takes, one line in the log.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fleet::log::Author;
use tracing::{debug, info};

use super::problem::{self, Problem};
use crate::app::App;
use crate::metrics::{ReasonLabels, RequestLabels};
use crate::tokens::{Actor, Right};

pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static CHANGE_REASON: HeaderName = HeaderName::from_static("x-change-reason");

/// The id of a request: the caller's, if it is one that can be logged, else our own.
#[derive(Clone, Debug)]
pub struct RequestId(pub HeaderValue);

pub async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let uri = request.uri().clone();
    request.extensions_mut().insert(RequestId(id.clone()));

    let mut response = next.run(request).await;

    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let actor = response.extensions().get::<Actor>().map_or("-", |actor| &actor.name);
    let milliseconds = elapsed.as_secs_f64() * 1e3;
    let shown = id.to_str().unwrap_or_default();
    let told = response.extensions().get::<problem::Told>();
    let (problem, detail) = (told.map(|told| told.name), told.map(|told| &*told.detail));
    // Reads that went well are many and say little.
    let quiet = status < 400 && matches!(method, Method::GET | Method::HEAD);
    if quiet {
        debug!(%method, route, path = uri.path(), status, milliseconds, request_id = shown, actor, "request");
    } else {
        info!(%method, route, path = uri.path(), status, problem, detail, milliseconds, request_id = shown, actor, "request");
    }
    let labels = RequestLabels {
        method: method_name(&method),
        route: route.to_owned(),
        status,
    };
    app.metrics.requests.get_or_create(&labels).inc();
    app.metrics.request_seconds.observe(elapsed.as_secs_f64());
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

/// Anybody can send any method: the metric's labels stay few.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=128).contains(&bytes.len())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(byte))
    };
    let given = headers.get(&REQUEST_ID).filter(sane).cloned();
    given.unwrap_or_else(|| HeaderValue::try_from(crate::request_id()).expect("hexadecimal digits"))
}

/// What gives away everything there is takes the token that may change everything.
const GUARDED: &str = "/backup";

/// Lets through who has a token with the right that the method needs.
pub async fn authenticate(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let needed = match *request.method() {
        Method::GET | Method::HEAD if request.uri().path() != GUARDED => Right::Read,
        _ => Right::Write,
    };
    let actor = match authorize(&app, request.headers(), needed) {
        Ok(actor) => actor,
        Err(problem) => return problem.into_response(),
    };
    // Held until the request is answered: that is how long what was parsed from its body is kept.
    let _reserved = match app.bodies.reserve(&request).await {
        Ok(reserved) => reserved,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(actor.clone());
    let mut response = next.run(request).await;
    // Who asks cannot know what its token is called here, and the log goes by that name.
    if let Ok(name) = HeaderValue::from_str(&actor.name) {
        response.headers_mut().insert("x-actor", name);
    }
    response.extensions_mut().insert(actor);
    response
}

/// Whose token the request carries, if that token allows what is asked.
pub fn authorize(app: &App, headers: &HeaderMap, needed: Right) -> Result<Actor, Problem> {
    let count = |reason| {
        app.metrics
            .authentication_failures
            .get_or_create(&ReasonLabels { reason })
            .inc()
    };
    let Some(token) = headers.get(AUTHORIZATION).and_then(bearer) else {
        count("missing");
        return Err(Problem::unauthorized("a bearer token is required"));
    };
    match app.tokens.check(token) {
        None => {
            count("unknown");
            Err(Problem::unauthorized("this token is not known"))
        }
        Some(actor) if actor.right < needed => {
            count("forbidden");
            Err(Problem::forbidden())
        }
        Some(actor) => Ok(actor),
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Who writes, when and why, for the log of changes.
pub fn author(headers: &HeaderMap, actor: &Actor, id: &RequestId, reason: Option<String>) -> Result<Author, Problem> {
    const MOST_REASON: usize = 1024;
    let given = match headers.get(&CHANGE_REASON) {
        None => None,
        Some(value) => {
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Problem::bad_request("X-Change-Reason is not UTF-8"))?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        }
    };
    let reason = reason.or(given);
    if reason.as_ref().is_some_and(|reason| reason.len() > MOST_REASON) {
        return Err(Problem::bad_request(format!(
            "a reason has at most {MOST_REASON} bytes"
        )));
    }
    Ok(Author {
        at: crate::now(),
        actor: actor.name.to_string(),
        request_id: id.0.to_str().unwrap_or_default().to_owned(),
        reason,
    })
}
