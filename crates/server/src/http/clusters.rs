//! Views of one cluster: its inputs and where they come from, its Kubernetes objects and what renders them, its diagnostics.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use fleet::inputs::Form;
use fleet::json::Json;
use fleet::log::Revision;
use fleet::refusal::Violation;
use serde_json::json;

use super::body::{Writer, respond};
use super::caller::Caller;
use super::negotiate::accepts;
use super::problem::Problem;
use super::respond::{Reply, json_text};
use crate::app::App;
use crate::app::effective::Wanted;
use crate::app::manifests::Manifests;
use crate::app::reads::Class;

/// `GET /clusters/{id}/inputs/{path}`: what Flux gets, now or at a revision.
pub async fn inputs(State(app): State<Arc<App>>, Path((id, path)): Path<(String, String)>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    let form = match query.flag("marked")? {
        true => Form::Marked,
        false => Form::Plain,
    };
    query.end("marked, revision")?;
    let inputs = app.inputs(caller.past_class(), &id, &path, form, revision).await?;
    Ok(json_text(inputs))
}

/// `GET /clusters/{id}/diagnostics`
pub async fn diagnostics(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let show = move |app: &App, out: &mut Writer| out.json(&app.diagnose(&id)?);
    respond(&app, caller.class(), show).await
}

/// `GET /clusters/{id}/effective`: the document with what profiles bring.
pub async fn effective(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    let revision = revision_only(&caller)?;
    let show = move |app: &App, out: &mut Writer| {
        let document = app.effective(&out.turn, &id, revision)?;
        out.text(Json::new(&document).as_str())
    };
    respond(&app, class_at(&caller, revision), show).await
}

/// `GET /clusters/{id}/explain`: where each value comes from, and what it beats.
pub async fn explain(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    explain_part(app, id, Wanted::default(), caller).await
}

/// `GET /clusters/{id}/explain/{path}`
pub async fn explain_path(
    State(app): State<Arc<App>>,
    Path((id, path)): Path<(String, String)>,
    caller: Caller,
) -> Reply {
    let (path, input) = (Some(path), None);
    explain_part(app, id, Wanted { path, input }, caller).await
}

/// `GET /clusters/{id}/explain/{path}/{input}`
pub async fn explain_input(
    State(app): State<Arc<App>>,
    Path((id, path, input)): Path<(String, String, String)>,
    caller: Caller,
) -> Reply {
    let (path, input) = (Some(path), Some(input));
    explain_part(app, id, Wanted { path, input }, caller).await
}

async fn explain_part(app: Arc<App>, id: String, wanted: Wanted, caller: Caller) -> Reply {
    let revision = revision_only(&caller)?;
    let show = move |app: &App, out: &mut Writer| out.json(&app.explain(&out.turn, &id, &wanted, revision)?);
    respond(&app, class_at(&caller, revision), show).await
}

/// The revision of a request that has no other parameter.
fn revision_only(caller: &Caller) -> Result<Option<Revision>, Problem> {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    Ok(revision)
}

/// A past fleet is computed from the log, and has fewer places.
fn class_at(caller: &Caller, revision: Option<Revision>) -> Class {
    match revision {
        Some(_) => caller.past_class(),
        None => caller.class(),
    }
}

/// `GET /clusters/{id}/manifests`: the objects that the cluster renders from its inputs, now or at a revision.
pub async fn manifests(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let (revision, kind) = (query.number("revision", 0)?.map(Revision), query.take("kind")?);
    query.end("kind, revision")?;
    let class = class_at(&caller, revision);
    let show = move |app: &App, out: &mut Writer| {
        let manifests = app.objects(&out.turn, &id, kind.as_deref(), revision)?;
        write_manifests(out, &manifests, &caller.headers)
    };
    respond(&app, class, show).await
}

/// `GET /clusters/{id}/resourcesets`: what the cluster applies to render its inputs.
pub async fn resource_sets(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let class = caller.class();
    let show = move |app: &App, out: &mut Writer| write_manifests(out, &app.resource_sets(&id)?, &caller.headers);
    respond(&app, class, show).await
}

/// YAML, unless only JSON is accepted. Notes are comments, or a field that is there only if there are any.
fn write_manifests(out: &mut Writer, manifests: &Manifests, headers: &HeaderMap) -> Result<(), Problem> {
    let Manifests { objects, notes } = manifests;
    if accepts(headers, "json") && !accepts(headers, "yaml") {
        let mut list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        if !notes.is_empty() {
            list["notes"] = json!(notes);
        }
        return out.json(&list);
    }
    let yaml = HeaderValue::from_static("application/yaml");
    out.headers.insert(CONTENT_TYPE, yaml);
    for note in notes {
        out.text(&format!("# {note}\n"))?;
    }
    for object in objects {
        let text = resourceset::to_yaml(object);
        out.text("---\n")?;
        out.text(&text.map_err(|error| Problem::invalid(vec![Violation::new("", error.to_string())]))?)?;
    }
    Ok(())
}
