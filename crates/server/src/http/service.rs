//! Probes, metrics and the OpenAPI document.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Http;
use super::negotiate::{accepts, names_tag, tag, wants_gzip};
use super::problem::Problem;
use super::respond::REVISION;
use crate::app::App;
use crate::app::mirror::{Standing, Status};

/// `GET /health`: the process answers.
pub async fn health() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /ready`: there is a snapshot. While the store is unavailable, the server stays ready with the last snapshot and says how
/// old it is, until that is older than MAX_STALENESS.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let (status, mirror) = (app.status(), app.mirror.as_deref());
    // A mirror's snapshot is as old as the last confirmation of its origin.
    let age = status.age().max(mirror.map(Status::age).unwrap_or_default());
    if let Some(most) = app.max_staleness.filter(|most| age > *most) {
        let (age, most) = (age.as_secs(), most.as_secs());
        let who = mirror.map_or("store", |_| "origin");
        let detail = format!("the {who} last confirmed the snapshot {age} s ago, and MAX_STALENESS is {most} s");
        return Problem::unavailable(detail).into_response();
    }
    let mut body = json!({"status": "ok"});
    let revision = app.fleet().revision();
    if status.is_unavailable() || mirror.is_some() {
        body["revision"] = json!(revision);
        body["age_seconds"] = age.as_secs().into();
    }
    if let Some(detail) = status.stopped() {
        body["status"] = "stopped".into();
        body["detail"] = format!("the store cannot be followed, and the last snapshot is served: {detail}").into();
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
pub async fn openapi_yaml(State(http): State<Http>, headers: HeaderMap) -> Result<Response, Problem> {
    let found = http.openapi.get(&http.app).await?;
    let gzip = wants_gzip(&headers);
    let tag = tag(found.etag, gzip);
    let mut given = headers.get_all(IF_NONE_MATCH).iter();
    let mut response = match (given.any(|value| names_tag(value, &tag)), gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => {
            let encoding = (CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            ([encoding], found.gzip.clone()).into_response()
        }
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
    let (kind, text) = match accepts(&headers, "application/openmetrics-text") {
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

/// Converts OpenMetrics to the older text format, where the name of a counter has the suffix of its sample.
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
