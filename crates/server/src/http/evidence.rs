//! What clusters send: events of their notification-controller, reports of their reporter. And what the reporter waits for.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fleet::document::Etag;
use fleet::refusal::Violation;
use fleet::refusal::quote;
use fleet::status::{EventError, ReportError};
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::problem::Problem;
use super::request::{self, MOST_EVENT, MOST_REPORT, QUICK};
use super::respond::Reply;
use crate::app::App;
use crate::app::status::Crowded;
use crate::auth::Right;

/// How long a request for changes waits, usually and at most.
pub const PATIENCE: u64 = 50;
pub const MOST_PATIENCE: u64 = 300;
/// When to try again if too many wait.
const RETRY_AFTER: u64 = 60;

/// `POST /api/v2/flux/clusters/{cluster_dns}/events`
pub async fn event(State(app): State<Arc<App>>, Path(dns): Path<String>, caller: Caller, body: Body) -> Reply {
    let body = receive(&app, &dns, &caller, body, MOST_EVENT).await?;
    app.receive_event(&dns, &body).map_err(|error| match error {
        EventError::Syntax(detail) => Problem::bad_request(format!("the body is not an event of Flux: {detail}")),
        EventError::Field(pointer, detail) => Problem::invalid(vec![Violation::new(pointer, detail)]),
    })?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// `POST /api/v2/flux/clusters/{cluster_dns}/report`
pub async fn report(State(app): State<Arc<App>>, Path(dns): Path<String>, caller: Caller, body: Body) -> Reply {
    let body = receive(&app, &dns, &caller, body, MOST_REPORT).await?;
    let is_large = body.len() > QUICK;
    let receive = move || {
        app.receive_report(&dns, &body).map_err(|error| match error {
            ReportError::Syntax(detail) => Problem::bad_request(format!("the body is not a report: {detail}")),
            ReportError::Field(pointer, detail) => Problem::invalid(vec![Violation::new(pointer, detail)]),
        })
    };
    match is_large {
        true => request::apart(receive).await?,
        false => receive()?,
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// The body of evidence about a cluster that the caller may tell about.
async fn receive(app: &App, dns: &str, caller: &Caller, body: Body, most: usize) -> Result<bytes::Bytes, Problem> {
    check(app, dns, caller)?;
    caller.query()?.end("none")?;
    request::read(&caller.headers, body, most).await
}

/// A cluster tells about itself only, under the DNS name that it has or was decommissioned with.
fn check(app: &App, dns: &str, caller: &Caller) -> Result<(), Problem> {
    let fleet = app.engine.peek();
    let named = fleet.named(dns);
    match caller.actor().cluster() {
        Some(own) if named.is_of(own) => Ok(()),
        Some(_) => Err(Problem::not_its_cluster("a cluster may tell about itself only")),
        None if named.exists() => Ok(()),
        None => {
            let dns = quote(dns);
            Err(Problem::not_found(format!("no cluster has the DNS name \"{dns}\"")))
        }
    }
}

/// `GET /api/v2/flux/clusters/{cluster_dns}/changed`: waits until a reply of the cluster changes.
pub async fn changed(State(app): State<Arc<App>>, Path(dns): Path<String>, caller: Caller) -> Reply {
    check(&app, &dns, &caller)?;
    let mut query = caller.query()?;
    let since = query.take("since")?.filter(|text| !text.is_empty());
    let timeout = query.number("timeout", 0)?.unwrap_or(PATIENCE).min(MOST_PATIENCE);
    query.end("since, timeout")?;
    // What cannot be a digest is none of ours, and so not the current one.
    let since = since.and_then(|text| u128::from_str_radix(&text, 16).ok()).map(Etag);
    let changed = app.changed(&dns, since, Duration::from_secs(timeout)).await;
    let changed = changed
        .map_err(|Crowded| Problem::crowded("too many clusters wait for changes: poll without waiting", RETRY_AFTER))?;
    // Tokens expire and are revoked meanwhile.
    caller.authorize_again(&app, Right::Tell)?;
    check(&app, &dns, &caller)?;
    let digest = |etag: &Etag| Value::from(format!("{:032x}", etag.0));
    let (since, paths) = match &changed {
        Some(changed) => {
            let paths = changed.paths.iter().map(|(path, etag)| (path.clone(), digest(etag)));
            (digest(&changed.since), paths.collect::<Map<_, _>>())
        }
        // It was decommissioned: nothing will change any more.
        None => (digest(&Etag(0)), Map::new()),
    };
    Ok(json(&json!({"since": since, "paths": paths})))
}

fn json(value: &Value) -> Response {
    axum::Json(value).into_response()
}
