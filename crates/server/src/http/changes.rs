//! The log of changes: pages of it, lines of JSON, the history of one resource, the difference between two revisions.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use fleet::identity::IDENTITIES;
use fleet::kind::KINDS;
use fleet::log::Revision;
use futures_util::stream;
use serde::Serialize;

use super::body::{Writer, respond};
use super::caller::Caller;
use super::negotiate::wants_lines;
use super::plan::{self, Listed};
use super::problem::Problem;
use super::request::Query;
use super::respond::{REVISION, Reply, write_records};
use crate::app::App;
use crate::app::log::{Export, LogQuery};

/// Lines of JSON.
pub const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// How many records a page has by default, and at most.
const USUAL: u64 = 100;
const MOST: u64 = 10_000;

/// The limit as it was given, and as a page has it.
fn limit(query: &mut Query) -> Result<(Option<usize>, usize), Problem> {
    let given = query.number("limit", 1)?;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((given.map(size), size(given.unwrap_or(USUAL).min(MOST))))
}

/// `GET /changes`
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let (given, most) = limit(&mut query)?;
    let wanted = LogQuery {
        after: query.number("after", 0)?.map(Revision),
        kind: query.take("kind")?,
        id: query.take("id")?,
        actor: query.take("actor")?,
    };
    query.end("after, limit, kind, id, actor")?;
    if wants_lines(&caller.headers) {
        return lines(app.export(wanted, given)?).await;
    }
    let show = move |app: &App, out: &mut Writer| {
        out.headers.insert(REVISION.clone(), app.fleet().revision().0.into());
        write_records(out, app.log(wanted, most))
    };
    respond(&app, caller.class(), show).await
}

/// The records as lines of JSON.
async fn lines(mut export: Export) -> Reply {
    let headers = [(CONTENT_TYPE, LINES), (REVISION.clone(), export.revision.0.into())];
    // Read before anything is sent, so that an error is a problem and not half a reply.
    let first = next_lines(&mut export).await?;
    let pages = stream::try_unfold((first, export), |(page, mut export)| async move {
        let Some(page) = page else { return Ok(None) };
        let next = next_lines(&mut export).await;
        let next = next.map_err(|_| io::Error::other("the log cannot be read"))?;
        Ok::<_, io::Error>(Some((page, (next, export))))
    });
    Ok((headers, Body::from_stream(pages)).into_response())
}

async fn next_lines(export: &mut Export) -> Result<Option<Bytes>, Problem> {
    let Some(records) = export.next().await? else {
        return Ok(None);
    };
    let mut text = Vec::new();
    for record in &records {
        add_line(&mut text, &record.record());
        tokio::task::yield_now().await;
    }
    Ok(Some(text.into()))
}

/// Adds a line, or none if the record is damaged and not JSON: half a line would break the next one.
fn add_line(text: &mut Vec<u8>, value: &impl Serialize) {
    let start = text.len();
    if let Err(error) = serde_json::to_writer(&mut *text, value) {
        tracing::error!(%error, "a record of the log is not valid JSON");
        text.truncate(start);
        return;
    }
    text.push(b'\n');
}

/// `GET /{kind}/{id}/history`
pub async fn history(State(app): State<Arc<App>>, Path((kind, id)): Path<(String, String)>, caller: Caller) -> Reply {
    history_of(&app, &caller, kind, id).await
}

/// `GET /kinds/{kind}/history`
pub async fn kind_history(State(app): State<Arc<App>>, Path(kind): Path<String>, caller: Caller) -> Reply {
    history_of(&app, &caller, KINDS.to_owned(), kind).await
}

/// `GET /identities/{id}/history`
pub async fn identity_history(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    history_of(&app, &caller, IDENTITIES.to_owned(), id).await
}

async fn history_of(app: &Arc<App>, caller: &Caller, kind: String, id: String) -> Reply {
    let mut query = caller.query()?;
    let (_, most) = limit(&mut query)?;
    let after = query.number("after", 0)?.map(Revision);
    query.end("after, limit")?;
    let show = move |app: &App, out: &mut Writer| {
        let records = app.history(&out.turn, (&kind, &id), after, most)?;
        write_records(out, records)
    };
    respond(app, caller.class(), show).await
}

/// `GET /diff`
pub async fn diff(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let listed = Listed::take(&mut query)?;
    let missing =
        || Problem::bad_request("from=N is required: the revision to compare with to=M, or with the current one");
    let from = Revision(query.number("from", 0)?.ok_or_else(missing)?);
    let to = query.number("to", 0)?.map_or(app.fleet().revision(), Revision);
    let selector = query.take("selector")?;
    query.end("from, to, selector, changes, limit, offset")?;
    let show = move |app: &App, out: &mut Writer| {
        let difference = app.difference(&out.turn, (from, to), selector.as_deref())?;
        plan::show_difference(out, (from, to), difference, listed)
    };
    respond(&app, caller.past_class(), show).await
}
