//! Decommissions and released names: DNS names that no cluster has. Writes to clusters create them; a request can read and
//! delete them.

use std::sync::Arc;

use axum::extract::{MatchedPath, Path, State};

use super::body::{Writer, respond};
use super::caller::{Caller, WriteOptions};
use super::request::Page;
use super::resources;
use super::respond::{self, Reply};
use crate::app::App;

/// `GET /decommissions`, `GET /released_names`
pub async fn list(State(app): State<Arc<App>>, route: MatchedPath, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    query.end("limit, offset")?;
    let kind = kind_of(&route).to_owned();
    let list = move |app: &App, out: &mut Writer| respond::write_list(out, app.list_name_records(&kind)?, page);
    respond(&app, caller.class(), list).await
}

/// `GET /decommissions/{id}`, `GET /released_names/{id}`
pub async fn get(State(app): State<Arc<App>>, route: MatchedPath, Path(id): Path<String>, caller: Caller) -> Reply {
    resources::show(&app, &caller, kind_of(&route), &id).await
}

/// `DELETE /decommissions/{id}`, `DELETE /released_names/{id}`
pub async fn delete(State(app): State<Arc<App>>, route: MatchedPath, Path(id): Path<String>, caller: Caller) -> Reply {
    let options = WriteOptions::of(&caller)?;
    resources::remove(&app, &caller, &options, kind_of(&route), id).await
}

/// The kind is the first segment of its routes.
fn kind_of(route: &MatchedPath) -> &str {
    route.as_str().split('/').nth(1).unwrap_or_default()
}
