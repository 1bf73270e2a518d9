//! Responses: JSON, documents with their version, and 304 for a client that has it.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fleet::Fleet;
use fleet::document::Document;
use fleet::json::Json;
use fleet::log::Revision;
use serde_json::json;

use super::body::Writer;
use super::negotiate::names_tag;
use super::problem::Problem;
use super::request::Page;
use crate::app::engine::Written;
use crate::app::log::Records;

/// The revision that a response shows.
pub static REVISION: HeaderName = HeaderName::from_static("x-revision");
/// How many items a list has on all pages.
pub static TOTAL: HeaderName = HeaderName::from_static("x-total-count");

pub type Reply = Result<Response, Problem>;

/// A text that is JSON.
pub fn json_text(text: impl Into<Body>) -> Response {
    (
        [(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        text.into(),
    )
        .into_response()
}

/// A document and its version.
pub fn document(document: &Document) -> Response {
    with_etag(json_text(document.body.as_str().to_owned()), &document.etag.to_string())
}

/// A document as it was at a revision.
pub fn document_at(body: &Json, revision: Revision) -> Response {
    let mut response = json_text(body.as_str().to_owned());
    response.headers_mut().insert(REVISION.clone(), revision.0.into());
    response
}

/// A resource as a write left it.
pub fn written(status: StatusCode, fleet: &Fleet, kind: &str, id: &str) -> Reply {
    let found = fleet.document(kind, id).ok_or_else(Problem::internal)?;
    let mut response = document(&found);
    *response.status_mut() = status;
    Ok(response)
}

/// The revision of a write, and the new version of each resource that it changed.
pub fn changes(written: &Written) -> Response {
    let changes = written.changes.iter().map(|change| {
        let document = written.fleet.document(&change.kind, &change.id);
        json!({
            "action": change.action(), "kind": change.kind, "id": change.id,
            "etag": document.map(|document| document.etag.to_string()),
        })
    });
    let changes: Vec<_> = changes.collect();
    axum::Json(json!({"revision": written.revision, "changes": changes})).into_response()
}

pub fn with_etag(mut response: Response, etag: &str) -> Response {
    let etag = HeaderValue::try_from(etag).expect("an etag is hexadecimal digits in quotes");
    response.headers_mut().insert(ETAG, etag);
    response
}

/// The response, or 304 if `If-None-Match` names its version.
pub fn unless_known(request: &HeaderMap, response: Response) -> Response {
    let known = response.headers().get(ETAG).cloned().filter(|tag| {
        let mut given = request.get_all(IF_NONE_MATCH).iter();
        given.any(|value| names_tag(value, tag))
    });
    match known {
        Some(tag) => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
        None => response,
    }
}

/// Writes one page of documents as an array, and how many there are in all.
pub fn write_list(out: &mut Writer, items: Vec<Json>, page: Page) -> Result<(), Problem> {
    out.headers.insert(TOTAL.clone(), items.len().into());
    out.text("[")?;
    for (n, item) in items.into_iter().skip(page.offset).take(page.limit).enumerate() {
        out.text(if n > 0 { "," } else { "" })?;
        out.text(item.as_str())?;
    }
    out.text("]")
}

/// Writes records of the log as an array, while they are read.
pub fn write_records(out: &mut Writer, mut records: Records) -> Result<(), Problem> {
    out.text("[")?;
    let mut begun = false;
    while let Some(part) = out.turn.wait(records.next())? {
        for record in &part {
            out.text(if begun { "," } else { "" })?;
            out.json(&record.record())?;
            begun = true;
        }
    }
    out.text("]")
}
