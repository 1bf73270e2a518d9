//! The kinds themselves.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use fleet::Fleet;
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::KINDS;
use fleet::log::Revision;
use fleet::operation::{Operation, Verb};
use fleet::yaml;
use serde::Serialize;

use super::caller::{Caller, WriteOptions};
use super::negotiate::accepts;
use super::problem::Problem;
use super::request;
use super::resources;
use super::respond::{self, Reply, json_text, with_etag};
use super::write::run;
use crate::app::App;

/// A kind as `GET /kinds` lists it.
#[derive(Serialize)]
struct KindEntry<'a> {
    name: &'a str,
    singular: &'a str,
    command: &'a str,
    path: Option<&'a str>,
    references: Option<&'a str>,
    origin: &'a str,
    etag: String,
    document: &'a Json,
}

/// `GET /kinds`
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let text = app.read(caller.class(), |app, _| kinds_text(&app.fleet())).await??;
    let etag = Etag::of_bytes(text.as_bytes()).to_string();
    Ok(respond::unless_known(
        &caller.headers,
        with_etag(json_text(text), &etag),
    ))
}

fn kinds_text(fleet: &Fleet) -> Result<String, Problem> {
    if fleet.is_damaged(KINDS) {
        return Err(Problem::damaged());
    }
    let entries = fleet.kinds().iter().map(|kind| KindEntry {
        name: &kind.name,
        singular: &kind.singular,
        command: &kind.command,
        path: kind.path.as_deref(),
        references: kind.references.as_deref(),
        origin: kind
            .origin
            .as_deref()
            .map_or("api", |origin| origin.split(':').next().unwrap_or(origin)),
        etag: kind.etag.to_string(),
        document: &kind.document,
    });
    serde_json::to_string(&entries.collect::<Vec<_>>()).map_err(|_| Problem::internal())
}

/// `GET /kinds/{kind}`: the document as it was put.
pub async fn get(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    if let Some(revision) = revision {
        let body = app.document_at(KINDS, &name, revision).await?;
        return Ok(respond::document_at(&body, revision));
    }
    let kind = app.kind(&name)?;
    let response = match accepts(&caller.headers, "yaml") {
        true => {
            let document = kind.document.clone();
            let text = app.read(caller.class(), move |_, _| yaml::write(&document.parse()));
            let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
            ([content_type], text.await?).into_response()
        }
        false => json_text(kind.document.as_str().to_owned()),
    };
    let response = with_etag(response, &kind.etag.to_string());
    Ok(respond::unless_known(&caller.headers, response))
}

/// `PUT /kinds/{kind}`
pub async fn put(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let value = request::kind(&caller.headers, body).await?;
    let id = Some(name.clone());
    let operation = Operation::new(KINDS, Verb::Apply { id, value });
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        let mut changes = written.changes.iter();
        let status = match changes.any(|change| *change.kind == *KINDS && change.before.is_none()) {
            true => StatusCode::CREATED,
            false => StatusCode::OK,
        };
        respond::written(status, &written.fleet, KINDS, &name)
    })
    .await
}

/// `DELETE /kinds/{kind}`
pub async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let options = WriteOptions::of(&caller)?;
    resources::remove(&app, &caller, &options, KINDS, name).await
}
