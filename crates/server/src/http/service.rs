//! Probes, metrics and the description of the API.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use fleet::kind::DECOMMISSIONS;
use serde_json::json;

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
    let mut body = json!({"status": "ok", "revision": app.fleet().revision(), "age_seconds": age.as_secs()});
    if status.is_stale() {
        body["stale_seconds"] = age.as_secs().into();
    }
    if let Some(mirror) = mirror {
        body["mirror"] = mirror.describe();
    }
    Json(body).into_response()
}

/// `GET /openapi.yaml`
pub async fn openapi_yaml(State(app): State<Arc<App>>) -> Response {
    (
        [(CONTENT_TYPE, HeaderValue::from_static("application/yaml"))],
        app.openapi(),
    )
        .into_response()
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
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
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(CONTENT_TYPE, kind)], app.metrics.encode()).into_response()
}

pub async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", uri.path()))
}

/// For a path that is there with other methods.
pub async fn only_get(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "GET, HEAD")
}

pub async fn only_post(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "POST")
}

pub async fn only_list(method: Method, Path(kind): Path<String>) -> Problem {
    // A decommission is made by deleting a cluster, and can only be forgotten.
    let allowed = match kind.as_str() {
        DECOMMISSIONS => "GET, HEAD",
        _ => "GET, HEAD, POST",
    };
    Problem::method_not_allowed(&method, allowed)
}

pub async fn only_kind(method: Method) -> Problem {
    Problem::method_not_allowed(&method, "GET, HEAD, PUT, DELETE")
}

pub async fn only_resource(method: Method, Path((kind, _)): Path<(String, String)>) -> Problem {
    let allowed = match kind.as_str() {
        DECOMMISSIONS => "GET, HEAD, DELETE",
        _ => "GET, HEAD, PUT, PATCH, DELETE",
    };
    Problem::method_not_allowed(&method, allowed)
}
