//! Probes, metrics and the description of the API.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::kind::name_record;
use fleet::refusal::quote;
use serde_json::json;

use super::crud::REVISION;
use super::poll;
use super::problem::Problem;
use crate::app::App;
use crate::app::mirror::{Standing, Status};

/// `GET /health`: the process answers.
pub async fn health() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /ready`: there is a snapshot. It stays ready on the last one while the store is away, and says how old it is; unless
/// MAX_STALENESS would rather have others asked.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let (status, mirror) = (app.status(), app.mirror.as_deref());
    // What a mirror serves is as old as its origin's word for it.
    let age = status.age().max(mirror.map(Status::age).unwrap_or_default());
    if let Some(most) = app.max_staleness.filter(|most| age > *most) {
        let (age, most) = (age.as_secs(), most.as_secs());
        let who = mirror.map_or("store", |_| "origin");
        let detail = format!("the {who} last confirmed the snapshot {age} s ago, and MAX_STALENESS is {most} s");
        return Problem::unavailable(detail).into_response();
    }
    let mut body = json!({"status": "ok"});
    let revision = app.fleet().revision();
    if status.is_away() || mirror.is_some() {
        body["revision"] = json!(revision);
        body["age_seconds"] = age.as_secs().into();
    }
    if let Some(damage) = app.fleet().damage() {
        body["status"] = "damaged".into();
        body["damaged_rows"] = damage.count().into();
    }
    if let Some(mirror) = mirror {
        body["mirror"] = mirror.describe();
    }
    ([(REVISION.clone(), HeaderValue::from(revision.0))], Json(body)).into_response()
}

/// `GET /openapi.yaml`
pub async fn openapi_yaml(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Problem> {
    let found = app.description().await?;
    let gzip = poll::wants_gzip(&headers);
    let tag = poll::tag(found.etag, gzip);
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|value| poll::names(value, &tag));
    let mut response = match (known, gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => (
            [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))],
            found.gzip.clone(),
        )
            .into_response(),
        (false, false) => found.plain.clone().into_response(),
    };
    let out = response.headers_mut();
    out.insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    out.insert(VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(ETAG, tag);
    Ok(response)
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let dangling: usize = app.fleet().dangling().map(|(_, _, clusters)| clusters).sum();
    app.metrics
        .dangling_references
        .set(i64::try_from(dangling).unwrap_or(i64::MAX));
    app.metrics.snapshot_age_seconds.set(app.status().age().as_secs_f64());
    if let (Some(mirror), Some(metrics)) = (&app.mirror, &app.metrics.mirror) {
        let revision = mirror.origin().map_or(0, |revision| revision.0);
        metrics.origin_revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
        metrics.age_seconds.set(mirror.age().as_secs_f64());
        metrics.current.set((mirror.standing() == Standing::Current).into());
    }
    let accepts = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("application/openmetrics-text"))
    };
    let (kind, text) = match headers.get_all(ACCEPT).iter().any(accepts) {
        true => (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            app.metrics.encode(),
        ),
        false => (
            "text/plain; version=0.0.4; charset=utf-8",
            classic(&app.metrics.encode()),
        ),
    };
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// The same in the format before OpenMetrics, where a counter is called by the name of its sample.
fn classic(text: &str) -> String {
    let counters: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(text.len() + 1024);
    for line in text
        .lines()
        .filter(|line| *line != "# EOF" && !line.starts_with("# UNIT "))
    {
        let described = ["# HELP ", "# TYPE "].iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters.contains(name).then(|| format!("{word}{name}_total {rest}"))
        });
        out.push_str(described.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

pub async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", quote(uri.path())))
}

/// For a path that is there with other methods.
pub async fn only_get(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "GET, HEAD")
}

pub async fn only_post(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "POST")
}

/// Decommissions and released names are made by writes to clusters. A request can read and delete them.
pub const OF_NAME_RECORDS: &str = "GET, HEAD";
pub const OF_NAME_RECORD: &str = "GET, HEAD, DELETE";

pub async fn only_list(State(app): State<Arc<App>>, method: Method, Path(kind): Path<String>, uri: Uri) -> Problem {
    match kind.as_str() {
        kind if name_record(kind).is_some() => Problem::method_not_allowed(&method, OF_NAME_RECORDS),
        kind if is_kind(&app, kind) => Problem::method_not_allowed(&method, "GET, HEAD, POST"),
        _ => nothing_here(uri).await,
    }
}

fn is_kind(app: &App, kind: &str) -> bool {
    app.fleet().kinds().get(kind).is_some()
}

pub async fn only_kind(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "GET, HEAD, PUT, DELETE")
}

pub async fn only_resource(
    State(app): State<Arc<App>>,
    method: Method,
    Path((kind, _)): Path<(String, String)>,
    uri: Uri,
) -> Problem {
    match kind.as_str() {
        kind if name_record(kind).is_some() => Problem::method_not_allowed(&method, OF_NAME_RECORD),
        kind if is_kind(&app, kind) => Problem::method_not_allowed(&method, "GET, HEAD, PUT, PATCH, DELETE"),
        _ => nothing_here(uri).await,
    }
}
