//! The middleware of every request that is not a poll: request id, authentication, metrics, one line in the log.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fleet::Fleet;
use fleet::identity::{IDENTITIES, Token, TokenId};
use fleet::log::Author;
use tracing::{debug, info};

use super::client_address::{Peer, client_address};
use super::poll::PREFIX;
use super::problem::{Problem, Reported};
use super::{Http, routes};
use crate::app::App;
use crate::auth::oidc::Refused;
use crate::auth::{Actor, Known, Right, Unknown};
use crate::metrics::{ReasonLabels, RequestLabels};

pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static CHANGE_REASON: HeaderName = HeaderName::from_static("x-change-reason");

/// The routes that send the whole store: who uses them is logged.
const COPIES: [&str; 2] = ["/backup", "/changes/stream"];

/// The most characters of a reason.
pub const MOST_REASON: usize = 1024;

/// The id of a request: the one that the client sent, if it can be logged, or a new one.
#[derive(Clone, Debug)]
pub struct RequestId(pub HeaderValue);

pub async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let uri = request.uri().clone();
    let client = client_address(Peer::of(request.extensions()), request.headers(), &app.trusted_proxies);
    request.extensions_mut().insert(RequestId(id.clone()));

    let mut response = next.run(request).await;

    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let reported = response.extensions().get::<Reported>();
    let refused = reported.and_then(|problem| problem.actor.as_deref());
    let actor = response.extensions().get::<Actor>().map(|actor| actor.name.to_string());
    let actor = actor.as_deref().or(refused).unwrap_or("-");
    let milliseconds = elapsed.as_secs_f64() * 1e3;
    let shown = id.to_str().unwrap_or_default();
    let problem = reported.map(|problem| problem.name);
    let detail = reported.map(|problem| &*problem.detail);
    // Successful reads, and what clusters send, are many and say little, except reads of everything.
    let says_little = matches!(method, Method::GET | Method::HEAD) || route.starts_with(PREFIX);
    let quiet = status < 400 && says_little && !COPIES.contains(&route);
    if quiet {
        debug!(%method, route, path = uri.path(), status, milliseconds, request_id = shown, actor, "request");
    } else {
        let client = client.map(tracing::field::display);
        info!(%method, route, path = uri.path(), status, problem, detail, milliseconds, request_id = shown, actor, client, "request");
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

/// Unknown methods share one metric label, so that callers cannot create new ones.
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

/// Refuses requests without a token that has the right that the route needs.
pub async fn authenticate(State(http): State<Http>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let needed = routes::right(route.map_or("", MatchedPath::as_str), request.method());
    let actor = authorize_patiently(&http.app, request.headers(), Peer::of(request.extensions()), needed);
    let actor = match actor.await {
        Ok(actor) => actor,
        Err(problem) => return problem.into_response(),
    };
    // Held until the request is answered: the parsed body is in memory until then.
    let _reserved = match http.bodies.reserve(&request).await {
        Ok(reserved) => reserved,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(actor.clone());
    let mut response = next.run(request).await;
    // The client does not know the name of its token, which is what the log has.
    if let Ok(name) = HeaderValue::from_str(&actor.name.to_string()) {
        response.headers_mut().insert("x-actor", name);
    }
    response.extensions_mut().insert(actor);
    response
}

/// The actor whose token the request has, if the token has the right. A JWT with a key that is not known does not wait for the key.
pub fn authorize(app: &App, headers: &HeaderMap, peer: &Peer, needed: Right) -> Result<Actor, Problem> {
    authorize_by(app, &app.engine.peek(), headers, peer, needed).map(Known::into_actor)
}

/// The same by the identities of a snapshot, for one who also answers from it.
pub fn authorize_by<'a>(
    app: &App,
    fleet: &'a Fleet,
    headers: &HeaderMap,
    peer: &Peer,
    needed: Right,
) -> Result<Known<'a>, Problem> {
    let known = identify(app, fleet, headers, peer);
    judge(app, fleet, headers, peer, needed, known)
}

/// The same, and waits for the keys of the issuer of a JWT if that can help.
pub async fn authorize_patiently(app: &App, headers: &HeaderMap, peer: &Peer, needed: Right) -> Result<Actor, Problem> {
    {
        let fleet = app.engine.peek();
        let known = identify(app, &fleet, headers, peer);
        if !known.as_ref().is_err_and(Unknown::needs_keys) {
            return judge(app, &fleet, headers, peer, needed, known).map(Known::into_actor);
        }
    }
    if let Some(oidc) = &app.oidc
        && let Some(token) = headers.get(AUTHORIZATION).and_then(token)
    {
        oidc.wait_for_keys(&token).await;
    }
    authorize(app, headers, peer, needed)
}

/// Who makes a request.
fn identify<'a>(app: &App, fleet: &'a Fleet, headers: &HeaderMap, peer: &Peer) -> Result<Known<'a>, Unknown> {
    let token = headers
        .get(AUTHORIZATION)
        .map(|header| token(header).ok_or(Unknown::Missing));
    match (token, &peer.certificate) {
        (Some(token), _) => Known::of_token(&app.environment, app.oidc.as_deref(), fleet, &token?),
        (None, Some(certificate)) if !certificate.is_valid() => Err(Unknown::Outdated),
        (None, Some(certificate)) => Actor::of_names(fleet, certificate.names()).map(Known::Other),
        (None, None) => Err(Unknown::Missing),
    }
}

/// Counts and answers callers that are not known, or may not do what they ask for.
fn judge<'a>(
    app: &App,
    fleet: &Fleet,
    headers: &HeaderMap,
    peer: &Peer,
    needed: Right,
    known: Result<Known<'a>, Unknown>,
) -> Result<Known<'a>, Problem> {
    let count = |reason| {
        app.metrics
            .authentication_failures
            .get_or_create(&ReasonLabels { reason })
            .inc()
    };
    match known {
        // The caller may be an identity that cannot be read.
        Err(Unknown::Invalid | Unknown::Unclaimed(_)) if fleet.is_damaged(IDENTITIES) => Err(Problem::damaged()),
        // A machine that registers learns that its join identity has ended, and not that its token may be wrong.
        Err(Unknown::Expired) if needed == Right::Register => {
            count("expired");
            Err(Problem::ended())
        }
        Err(unknown @ Unknown::Jwt(Refused::NoKeys)) => {
            count(unknown.label());
            Err(Problem::unavailable(unknown.detail()))
        }
        Err(unknown) if unknown.is_authentic() => {
            count(unknown.label());
            Err(Problem::unclaimed(unknown.detail()))
        }
        Err(unknown) => {
            count(unknown.label());
            let token = headers.get(AUTHORIZATION).filter(|_| unknown.label() == "expired");
            let token = token.and_then(self::token);
            let token = token.map(|token| TokenId::of(&Token::digest_of(&token)));
            let address = client_address(peer, headers, &app.trusted_proxies);
            Err(match app.failures.count(address, token) {
                None => Problem::unauthorized(unknown.detail()),
                Some(wait) => Problem::too_many_failures(wait),
            })
        }
        Ok(known) if !needed.allows(known.role()) => {
            count("forbidden");
            Err(Problem::forbidden(known.role(), needed).of(&known.into_actor()))
        }
        Ok(known) => Ok(known),
    }
}

/// The token of an `Authorization` header: a bearer, or the password of basic authentication, which is all that some clients can
/// send. The user name does not count.
fn token(value: &HeaderValue) -> Option<Cow<'_, [u8]>> {
    // What Flux sends.
    if let Some(token) = value.as_bytes().strip_prefix(b"Bearer ")
        && token.iter().all(u8::is_ascii_graphic)
    {
        return Some(token.into());
    }
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.as_bytes().into());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = BASE64_STANDARD.decode(rest).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        return Some(pair[colon + 1..].to_vec().into());
    }
    None
}

/// The author of a change, for the log: who, when and why.
pub fn author(headers: &HeaderMap, actor: &Actor, id: &RequestId, reason: Option<String>) -> Result<Author, Problem> {
    let given = match headers.get(&CHANGE_REASON) {
        None => None,
        Some(value) => {
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Problem::bad_request("X-Change-Reason is not UTF-8"))?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        }
    };
    let is_long = |reason: &&String| reason.chars().count() > MOST_REASON;
    if reason.iter().chain(&given).any(|reason| is_long(&reason)) {
        let detail = format!("the reason is longer than {MOST_REASON} characters");
        return Err(Problem::bad_request(detail));
    }
    let reason = reason.or(given);
    Ok(Author {
        at: crate::now(),
        actor: actor.name.to_string(),
        request_id: id.0.to_str().unwrap_or_default().to_owned(),
        reason,
        reversal: None,
        overrides: Vec::new(),
    })
}
