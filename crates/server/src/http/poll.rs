//! What Flux asks for. A poll is a lookup of bytes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT, VARY,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::document::Etag;
use fleet::inputs::Reply;
use fleet::snapshot::Poll;

use super::observe::IsPoll;
use super::problem::Problem;
use super::request::Query;
use crate::app::{App, ListError, ListQuery};
use crate::metrics::PollLabels;

/// From this many connections on, Flux's are closed after the reply: it opens one per poll and leaves it idle.
const CROWDED: i64 = 1024;

/// `GET /api/v2/flux/clusters/{dns}/{path}`
pub async fn inputs(
    State(app): State<Arc<App>>,
    Path((dns, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let poll = app.engine.peek().poll(&dns, &path);
    let response = match &poll {
        Poll::Reply(found) => reply(&headers, found),
        Poll::UnknownCluster => Problem::not_found(format!("no cluster has the DNS name \"{dns}\"")).into_response(),
        Poll::UnknownKind => Problem::not_found(format!("no kind has the path \"{path}\"")).into_response(),
        Poll::Breach(breach) => Problem::broken_reply(breach).into_response(),
    };
    // Paths that are no kind's are anybody's to make up: they share one label.
    let kind = if matches!(poll, Poll::UnknownKind) {
        "unknown".to_owned()
    } else {
        path
    };
    finish(&app, &headers, kind, response)
}

/// `GET /api/v2/flux/clusters`
pub async fn clusters(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let response = match list(&app, &uri) {
        Ok(found) => reply(&headers, &found),
        Err(problem) => problem.into_response(),
    };
    finish(&app, &headers, "clusters".to_owned(), response)
}

fn finish(app: &App, headers: &HeaderMap, kind: String, mut response: Response) -> Response {
    let labels = PollLabels {
        kind,
        status: response.status().as_u16(),
    };
    app.metrics.polls.get_or_create(&labels).inc();
    let is_flux = |agent: &HeaderValue| agent.as_bytes().starts_with(b"flux-operator/");
    if app.metrics.connections.get() > CROWDED && headers.get(USER_AGENT).is_some_and(is_flux) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.extensions_mut().insert(IsPoll);
    response
}

fn list(app: &App, uri: &Uri) -> Result<Reply, Problem> {
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
                "\"{environment}\" is not an environment of this fleet"
            )));
        }
    }
    app.cluster_list(&wanted).map_err(|error| match error {
        ListError::Selector(error) => Problem::bad_request(error.to_string()),
        ListError::Breach(breach) => Problem::list_too_large(&breach),
    })
}

/// `i/n`: the part `i` of `n`, counted from 0.
fn shard(text: &str) -> Result<(u32, u32), Problem> {
    let parsed = text
        .split_once('/')
        .and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    parsed
        .filter(|(part, parts)| part < parts)
        .ok_or_else(|| Problem::bad_request(format!("shard=\"{text}\": i/n is expected, with i from 0 to n-1")))
}

/// A reply in the encoding that the client takes, or 304 if it has it.
fn reply(headers: &HeaderMap, reply: &Reply) -> Response {
    let gzip = headers.get_all(ACCEPT_ENCODING).iter().any(takes_gzip);
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

fn tag(etag: Etag, gzip: bool) -> HeaderValue {
    let text = match gzip {
        true => format!("\"{:032x}-gzip\"", etag.0),
        false => format!("\"{:032x}\"", etag.0),
    };
    HeaderValue::try_from(text).expect("hexadecimal digits")
}

/// Whether an `Accept-Encoding` header allows gzip.
fn takes_gzip(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    text.split(',').any(|part| {
        let mut parts = part.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let refused = parts.any(|parameter| {
            let weight = parameter.strip_prefix("q=").map(str::trim);
            weight.is_some_and(|weight| weight.parse::<f32>().is_ok_and(|weight| weight == 0.0))
        });
        (coding.eq_ignore_ascii_case("gzip") || coding == "*") && !refused
    })
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
