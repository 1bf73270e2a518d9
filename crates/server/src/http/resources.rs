//! Resources of every kind: list, create, get, replace, patch, delete, and the clusters that refer to one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::IntoResponse;
use fleet::kind::{CLUSTERS, GUARDS, Kind, ROLLOUTS};
use fleet::log::Revision;
use fleet::operation::{Operation, Target, Verb};

use super::body::{Writer, respond};
use super::caller::{Caller, WriteOptions};
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT, Page, Query};
use super::respond::{self, Reply, TOTAL};
use super::write::run;
use crate::app::App;
use crate::app::lists::Filters;

/// `GET /{kind}`
pub async fn list(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let class = caller.class();
    let list = move |app: &App, out: &mut Writer| {
        let mut query = caller.query()?;
        let page = Page::take(&mut query)?;
        let filters = filters(&*app.kind(&name)?, query)?;
        respond::write_list(out, app.list(&out.turn, &name, &filters)?, page)
    };
    respond(&app, class, list).await
}

/// The filters that a kind has.
fn filters(kind: &Kind, mut query: Query) -> Result<Filters, Problem> {
    let mut filters = Filters::default();
    let mut known = vec!["limit", "offset"];
    if &*kind.name == CLUSTERS {
        filters.selector = query.take("selector")?;
        known.push("selector");
    }
    if &*kind.name == GUARDS {
        filters.in_force = query.time("at")?;
        known.push("at");
    }
    if &*kind.name == ROLLOUTS {
        filters.active = query.choice("active")?;
        known.push("active");
    }
    for filter in &kind.filters {
        if let Some(value) = query.take(&filter.name)? {
            filters.fields.push((filter.name.clone(), value));
        }
        known.push(&filter.name);
    }
    query.end(&known.join(", "))?;
    Ok(filters)
}

/// `POST /{kind}`
pub async fn create(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    app.kind(&name)?;
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(&name, Verb::Create { id: None, value });
    run(&app, &caller, &options, operation, |written| {
        let created = written.changes.iter().find(|change| *change.kind == *name);
        let id = &created.ok_or_else(Problem::internal)?.id;
        let mut response = respond::written(StatusCode::CREATED, &written.fleet, &name, id)?;
        let location = HeaderValue::try_from(format!("/{name}/{id}")).map_err(|_| Problem::internal())?;
        response.headers_mut().insert(LOCATION, location);
        Ok(response)
    })
    .await
}

/// `GET /{kind}/{id}`
pub async fn get(State(app): State<Arc<App>>, Path((name, id)): Path<(String, String)>, caller: Caller) -> Reply {
    show(&app, &caller, &name, &id).await
}

/// A resource, now or at a revision.
pub async fn show(app: &App, caller: &Caller, kind: &str, id: &str) -> Reply {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    if let Some(revision) = revision {
        let body = app.document_at(kind, id, revision).await?;
        return Ok(respond::document_at(&body, revision));
    }
    let document = app.document(kind, id)?;
    Ok(respond::unless_known(&caller.headers, respond::document(&document)))
}

/// `PUT /{kind}/{id}`
pub async fn replace(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    caller: Caller,
    body: Body,
) -> Reply {
    let options = WriteOptions::of(&caller)?;
    // A rollout may be started so.
    if name != ROLLOUTS {
        app.document(&name, &id)?;
    }
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(&name, Verb::Replace { id: id.clone(), value });
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        respond::written(StatusCode::OK, &written.fleet, &name, &id)
    })
    .await
}

/// `PATCH /{kind}/{id}`
pub async fn patch(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    caller: Caller,
    body: Body,
) -> Reply {
    let options = WriteOptions::of(&caller)?;
    app.document(&name, &id)?;
    let (form, value) = request::patch(&caller.headers, body).await?;
    let on = Target::Id(id.clone());
    let operation = Operation::new(&name, Verb::Merge { on, form, value }).when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        respond::written(StatusCode::OK, &written.fleet, &name, &id)
    })
    .await
}

/// `DELETE /{kind}/{id}`
pub async fn delete(State(app): State<Arc<App>>, Path((name, id)): Path<(String, String)>, caller: Caller) -> Reply {
    let options = match name == CLUSTERS {
        true => WriteOptions::of(&caller)?,
        false => WriteOptions::with_cascade(&caller)?,
    };
    remove(&app, &caller, &options, &name, id).await
}

/// Deletes a resource, a kind or a name record.
pub async fn remove(app: &Arc<App>, caller: &Caller, options: &WriteOptions, kind: &str, id: String) -> Reply {
    let cascade = options.cascade;
    let operation = Operation::new(kind, Verb::Delete { id, cascade });
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(app, caller, options, operation, |_| {
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// `GET /{kind}/{id}/references`
pub async fn references(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    caller: Caller,
) -> Reply {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    let selector = query.take("selector")?;
    query.end("limit, offset, selector")?;
    let show = move |app: &App, out: &mut Writer| {
        let references = app.references(&out.turn, &name, &id, selector.as_deref())?;
        out.headers.insert(TOTAL.clone(), references.count().into());
        out.text("[")?;
        out.list(references.page(page))?;
        out.text("]")
    };
    respond(&app, caller.class(), show).await
}
