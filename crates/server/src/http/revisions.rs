//! The list of revisions.

use std::sync::Arc;

use axum::extract::State;
use fleet::log::Revision;
use fleet::refusal::quote;

use super::body::{Writer, respond};
use super::caller::Caller;
use super::problem::Problem;
use super::request::Query;
use super::respond::{REVISION, Reply};
use crate::app::App;
use crate::app::revisions::RevisionQuery;

/// How many revisions a page has by default, and at most.
pub const USUAL: u64 = 100;
pub const MOST: u64 = 1000;
/// The most revisions that a page looks at.
pub const MOST_EXAMINED: usize = 10_000;

/// `GET /revisions`
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let limit = query.number("limit", 1)?.unwrap_or(USUAL).min(MOST);
    let wanted = RevisionQuery {
        before: query.number("before", 0)?.map(Revision),
        actor: query.take("actor")?,
        kind: query.take("kind")?,
        id: query.take("id")?,
        since: time(&mut query, "since")?,
        until: time(&mut query, "until")?,
        reason: query.take("reason")?,
        limit: limit as usize,
        examine: MOST_EXAMINED,
    };
    query.end("before, limit, actor, kind, id, since, until, reason")?;
    let show = move |app: &App, out: &mut Writer| {
        let page = app.revisions(&out.turn, &wanted)?;
        out.headers.insert(REVISION.clone(), app.fleet().revision().0.into());
        out.text(r#"{"revisions":["#)?;
        out.list(page.revisions)?;
        out.text(r#"],"next":"#)?;
        out.json(&page.next)?;
        out.text("}")
    };
    respond(&app, caller.class(), show).await
}

fn time(query: &mut Query, name: &str) -> Result<Option<String>, Problem> {
    let Some(text) = query.take(name)? else { return Ok(None) };
    let problem = || {
        Problem::bad_request(format!(
            "{name}=\"{}\": must be a time such as 2026-01-31T12:00:00Z, a date, or an age such as 24h",
            quote(&text)
        ))
    };
    crate::moment(&text).map(Some).ok_or_else(problem)
}
