//! What Flux asks for. A poll is a lookup of bytes, and it is nearly all of the traffic, so polls do not go through the
//! router: one plain function answers them, from the token to the log line.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT, VARY,
};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::document::Etag;
use fleet::inputs::Reply;
use fleet::refusal::quote;
use fleet::snapshot::Poll;
use percent_encoding::percent_decode_str;

use super::observe::{self, REQUEST_ID};
use super::problem::Problem;
use super::request::Query;
use crate::app::reads::Class;
use crate::app::{App, ListError, ListQuery};
use crate::metrics::PollLabels;
use crate::tokens::Right;

/// Where polls live.
pub const PREFIX: &str = "/api/v2/flux/clusters/";
/// From this many connections on, Flux's are closed after the reply: it opens one per poll and leaves it idle.
const CROWDED: i64 = 1024;

/// Answers everything under [`PREFIX`].
pub fn answer<B>(app: &App, request: &Request<B>) -> Response {
    let started = Instant::now();
    let headers = request.headers();
    let actor = observe::authorize(app, headers, Right::Read);
    let (kind, outcome) = match (&actor, request.method()) {
        (Err(problem), _) => (Cow::Borrowed("none"), Err(problem.clone())),
        (Ok(_), &Method::GET | &Method::HEAD) => find(app, request.uri()),
        (Ok(_), method) => (
            Cow::Borrowed("none"),
            Err(Problem::method_not_allowed(method, "GET, HEAD")),
        ),
    };
    let refused = outcome.is_err().then(|| observe::request_id(headers));
    let mut response = outcome.map_or_else(Problem::into_response, |found| reply(headers, &found));
    if let Some(id) = &refused {
        response.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    }
    let is_flux = |agent: &HeaderValue| agent.as_bytes().starts_with(b"flux-operator/");
    if app.metrics.connections.get() > CROWDED && headers.get(USER_AGENT).is_some_and(is_flux) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let elapsed = started.elapsed();
    let status = response.status().as_u16();
    let (method, path) = (request.method(), request.uri().path());
    let milliseconds = elapsed.as_secs_f64() * 1e3;
    let actor = actor.as_ref().map_or("-", |actor| &actor.name);
    if let Some(id) = refused {
        let id = id.to_str().unwrap_or_default();
        tracing::info!(%method, path, status, milliseconds, request_id = id, actor, "poll refused");
    } else {
        let id = || headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
        tracing::debug!(%method, path, status, milliseconds, request_id = id(), actor, "poll");
    }
    count(app, kind.into_owned(), response.status(), elapsed);
    response
}

/// What is asked for, and under which label it is counted. What is nobody's is anybody's to make up, so it shares a label.
fn find<'a>(app: &App, uri: &'a Uri) -> (Cow<'a, str>, Result<Reply, Problem>) {
    let unknown = || {
        (
            Cow::Borrowed("none"),
            Err(Problem::not_found(format!("there is nothing at {}", quote(uri.path())))),
        )
    };
    let segments = uri.path().strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
    let Some((dns, path)) = segments.filter(|(_, path)| !path.contains('/')) else {
        return unknown();
    };
    let (Ok(dns), Ok(path)) = (
        percent_decode_str(dns).decode_utf8(),
        percent_decode_str(path).decode_utf8(),
    ) else {
        return (
            Cow::Borrowed("none"),
            Err(Problem::bad_request("the path is not UTF-8")),
        );
    };
    match app.engine.peek().poll(&dns, &path) {
        Poll::Reply(reply) => (path, Ok(reply)),
        Poll::UnknownCluster => (
            path,
            Err(Problem::not_found(format!(
                "no cluster has the DNS name \"{}\"",
                quote(&dns)
            ))),
        ),
        Poll::UnknownKind => (
            Cow::Borrowed("none"),
            Err(Problem::not_found(format!("no kind has the path \"{}\"", quote(&path)))),
        ),
        Poll::Breach(breach) => (path, Err(Problem::broken_reply(&breach))),
        Poll::Damaged => (Cow::Borrowed("none"), Err(Problem::damaged())),
    }
}

/// `GET /api/v2/flux/clusters`: for whoever provisions clusters. It may go through the whole fleet, so it waits its turn.
pub async fn clusters(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let started = Instant::now();
    let response = match list(&app, &uri).await {
        Ok(found) => reply(&headers, &found),
        Err(problem) => problem.into_response(),
    };
    count(&app, "clusters".to_owned(), response.status(), started.elapsed());
    response
}

async fn list(app: &Arc<App>, uri: &Uri) -> Result<Reply, Problem> {
    let wanted = list_query(app, uri)?;
    let fleet = app.fleet();
    if fleet.may_lack_names() {
        return Err(Problem::damaged());
    }
    // Like a DNS name that was never known. An empty store, by a wrong DATABASE_URL say, must not empty whoever asks.
    if fleet.clusters().is_empty() && fleet.decommissions().is_empty() && fleet.released_names().is_empty() {
        return Err(Problem::not_found("this fleet never had a cluster"));
    }
    let found = app.read(Class::Flux, move |app, turn| app.cluster_list(&wanted, turn));
    found.await?.map_err(|error| match error {
        ListError::Stopped(stop) => stop.into(),
        ListError::Selector(error) => Problem::bad_request(error.to_string()),
        ListError::Breach(breach) => Problem::list_too_large(&breach),
    })
}

fn count(app: &App, kind: String, status: StatusCode, elapsed: Duration) {
    let status = status.as_u16();
    app.metrics.polls.get_or_create(&PollLabels { kind, status }).inc();
    app.metrics.poll_seconds.observe(elapsed.as_secs_f64());
}

fn list_query(app: &App, uri: &Uri) -> Result<ListQuery, Problem> {
    let mut query = Query::new(uri)?;
    let wanted = ListQuery {
        environment: query.take("environment")?,
        selector: query.take("selector")?,
        shard: query.take("shard")?.map(|text| shard(&text)).transpose()?,
    };
    query.end("environment, selector, shard")?;
    if let Some(environment) = &wanted.environment {
        let fleet = app.fleet();
        let options = fleet
            .kinds()
            .clusters()
            .and_then(|kind| kind.schema["properties"]["environment"]["enum"].as_array().cloned());
        if options.is_some_and(|options| !options.iter().any(|option| option == environment.as_str())) {
            return Err(Problem::bad_request(format!(
                "\"{}\" is not an environment of this fleet",
                quote(environment)
            )));
        }
    }
    Ok(wanted)
}

/// `i/n`: the part `i` of `n`, counted from 0.
fn shard(text: &str) -> Result<(u32, u32), Problem> {
    let parsed = text
        .split_once('/')
        .and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    parsed.filter(|(part, parts)| part < parts).ok_or_else(|| {
        let text = quote(text);
        Problem::bad_request(format!("shard=\"{text}\": i/n is expected, with i from 0 to n-1"))
    })
}

/// A reply in the encoding that the client takes, or 304 if it has it.
fn reply(headers: &HeaderMap, reply: &Reply) -> Response {
    let gzip = wants_gzip(headers);
    let tag = tag(reply.etag, gzip);
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|value| names(value, &tag));
    let mut response = match (known, gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => Response::new(Body::from(reply.gzip.clone())),
        (false, false) => Response::new(Body::from(reply.identity())),
    };
    let out = response.headers_mut();
    if !known {
        out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if gzip {
            out.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    out.insert(VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(ETAG, tag);
    response
}

pub(super) fn tag(etag: Etag, gzip: bool) -> HeaderValue {
    let text = match gzip {
        true => format!("\"{:032x}-gzip\"", etag.0),
        false => format!("\"{:032x}\"", etag.0),
    };
    HeaderValue::try_from(text).expect("hexadecimal digits")
}

pub(super) fn wants_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().any(takes_gzip)
}

/// Whether an `Accept-Encoding` header allows gzip: by name, or, where it is not named, by `*`.
fn takes_gzip(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let weight_of = |wanted: &str| {
        let mut codings = text.split(',').map(|part| part.split(';').map(str::trim));
        let mut parameters = codings.find_map(|mut parts| {
            parts
                .next()
                .filter(|coding| coding.eq_ignore_ascii_case(wanted))
                .map(|_| parts)
        })?;
        let weight = parameters.find_map(|parameter| parameter.strip_prefix("q=")?.trim().parse::<f32>().ok());
        Some(weight.unwrap_or(1.0))
    };
    weight_of("gzip")
        .or_else(|| weight_of("*"))
        .is_some_and(|weight| weight > 0.0)
}

/// Whether an `If-None-Match` header names this tag.
pub fn names(value: &HeaderValue, tag: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    text.split(',')
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_when_it_is_offered_and_not_refused() {
        for (header, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, deflate", false),
            ("*", true),
            ("gzip;q=0, *", false),
            ("*;q=0, gzip", true),
            ("deflate", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&HeaderValue::from_static(header)), expected, "{header}");
        }
    }

    #[test]
    fn a_tag_is_found_in_a_list() {
        let tag = HeaderValue::from_static("\"a\"");
        for (header, expected) in [
            ("\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            assert_eq!(names(&HeaderValue::from_static(header), &tag), expected, "{header}");
        }
    }
}
