//! The past: what a resource was, what changed between two revisions, and the way back.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use fleet::Fleet;
use fleet::history::Scope;
use fleet::json::Json;
use fleet::kind::{CLUSTERS, KINDS};
use fleet::log::{Revision, RevisionRecord};
use fleet::refusal::{Violation, quote};
use fleet::selector::Selector;
use fleet::snapshot::Poll;
use serde_json::Value;
use store::AuditQuery;

use super::body::{Writer, respond};
use super::crud::{Caller, Options, REVISION, Reply, changes_of, json_text};
use super::plan;
use super::problem::Problem;
use super::records::{Reader, write_rest};
use super::request::{self, MOST_DOCUMENT, Page};
use crate::app::App;
use crate::app::engine::WriteRequest;
use crate::app::history::Back;
use crate::app::reads::{Class, Turn};

/// `GET /{kind}/{id}/history` and `GET /kinds/{kind}/history`
pub async fn history(app: &Arc<App>, kind: String, id: String, caller: &Caller) -> Reply {
    const USUAL: u64 = 100;
    const MOST: u64 = 10_000;
    let mut query = caller.query()?;
    let wanted = AuditQuery {
        after: query.number("after", 0)?.map(Revision),
        limit: usize::try_from(query.number("limit", 1)?.unwrap_or(USUAL).min(MOST)).unwrap_or_default(),
        kind: Some(kind.clone()),
        id: Some(id.clone()),
        ..AuditQuery::default()
    };
    query.end("after, limit")?;
    let from_the_start = wanted.after.is_none_or(|after| after == Revision::ZERO);
    let show = move |app: &App, out: &mut Writer| {
        let mut reader = Reader::page(wanted);
        let first = out.turn.wait(reader.next(&*app.store))?;
        // A page beyond the end is empty; a resource that never was is something else.
        if first.is_none() && from_the_start && app.fleet().document(&kind, &id).is_none() {
            return Err(never_was(&out.turn, app, &kind, &id));
        }
        write_rest(out, &*app.store, reader, first)
    };
    respond(app, caller.class(), show).await
}

fn never_was(turn: &Turn, app: &App, kind: &str, id: &str) -> Problem {
    let (kind, id) = (quote(kind), quote(id));
    match turn.wait(app.store.checkpoint()) {
        Err(error) => error.into(),
        Ok(None) => Problem::not_found(format!("there never was \"{id}\" among the {kind}")),
        Ok(Some(checkpoint)) => {
            let begins = checkpoint.head.revision;
            Problem::not_found(format!(
                "there is no \"{id}\" among the {kind}, and the log, which begins after revision {begins}, knows none"
            ))
        }
    }
}

/// What a resource was at a revision: what stood before its next change, or what stands now if there was none.
pub async fn resource_at(app: &App, kind: &str, id: &str, revision: Revision) -> Result<Json, Problem> {
    // Before the log is asked: what it knows nothing of until then has not changed here either.
    let now = app.fleet();
    if revision > now.revision() {
        return Err(Problem::not_found(format!("there is no revision {revision}")));
    }
    let next = AuditQuery {
        after: Some(revision),
        kind: Some(kind.to_owned()),
        id: Some(id.to_owned()),
        limit: 1,
        ..AuditQuery::default()
    };
    let found = match app.store.audit(&next).await?.into_iter().next() {
        Some(record) => record.change.before,
        None => now.document(kind, id).map(|document| document.body),
    };
    let (kind, id) = (quote(kind), quote(id));
    found.ok_or_else(|| Problem::not_found(format!("there was no \"{id}\" among the {kind} at revision {revision}")))
}

/// `GET /clusters/{id}/inputs/{path}`: what Flux is told, now or at a revision.
pub async fn inputs(
    State(app): State<Arc<App>>,
    Path((kind, id, view, path)): Path<(String, String, String, String)>,
    caller: Caller,
) -> Reply {
    if kind != CLUSTERS || view != "inputs" {
        return Err(Problem::not_found("there is nothing at this path"));
    }
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    let fleet = match revision {
        Some(revision) => {
            let found = app.read(caller.past_class(), move |app, turn| app.fleet_at(turn, revision));
            found.await??
        }
        None => app.fleet(),
    };
    let then = || {
        revision
            .map(|revision| format!(" at revision {revision}"))
            .unwrap_or_default()
    };
    let cluster = fleet.cluster(&id);
    if cluster.is_none() && fleet.is_damaged(CLUSTERS) {
        return Err(Problem::damaged());
    }
    let unknown = || Problem::not_found(format!("there is no cluster \"{}\"{}", quote(&id), then()));
    let cluster = cluster.ok_or_else(unknown)?;
    match fleet.poll(&cluster.head().dns, &path) {
        Poll::Reply(reply) => Ok(json_text(reply.identity())),
        Poll::Breach(breach) => Err(Problem::broken_reply(&breach)),
        Poll::Damaged => Err(Problem::damaged()),
        Poll::UnknownCluster | Poll::UnknownKind => {
            let path = quote(&path);
            Err(Problem::not_found(format!("no kind has the path \"{path}\"{}", then())))
        }
    }
}

/// `GET /diff`
pub async fn diff(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    let now = app.fleet();
    let missing = || Problem::bad_request("from=N says from which revision; to=M is the current one unless given");
    let from = Revision(query.number("from", 0)?.ok_or_else(missing)?);
    let to = query.number("to", 0)?.map_or(now.revision(), Revision);
    let selector = query.take("selector")?;
    query.end("from, to, selector, limit, offset")?;
    let show = move |app: &App, out: &mut Writer| show_diff(out, app, (from, to), selector.as_deref(), page);
    respond(&app, caller.past_class(), show).await
}

fn show_diff(
    out: &mut Writer,
    app: &App,
    (from, to): (Revision, Revision),
    selector: Option<&str>,
    page: Page,
) -> Result<(), Problem> {
    let mut difference = app.difference(&out.turn, from, to)?;
    if let Some(selector) = selector {
        let wanted = selected(&out.turn, selector, &difference.fleets)?;
        difference
            .effect
            .clusters
            .retain(|cluster| wanted.contains(&*cluster.id));
        difference
            .effect
            .relabelled
            .retain(|cluster| wanted.contains(&*cluster.id));
        difference
            .changes
            .retain(|change| &*change.kind != CLUSTERS || wanted.contains(&*change.id));
    }
    let record = RevisionRecord {
        revision: to,
        author: Default::default(),
        changes: difference.changes,
        removed: Default::default(),
        digest: Default::default(),
    };
    drop(difference.fleets);
    plan::show_difference(out, from, record, difference.effect, page)
}

/// The clusters that a selector matches in one of two fleets.
fn selected(turn: &Turn, selector: &str, fleets: &[Arc<Fleet>]) -> Result<BTreeSet<String>, Problem> {
    let mut found = BTreeSet::new();
    let mut failed = None;
    for fleet in fleets {
        match Selector::for_fleet(selector, fleet) {
            Ok(selector) => {
                for cluster in turn.until_stopped(selector.select(fleet)) {
                    found.insert(cluster?.document().id.to_string());
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error.into()),
        _ => Ok(found),
    }
}

/// `POST /rollback`
pub async fn rollback(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let options = Options::take(&caller, false)?;
    let body = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let (back, reason) = read(body)?;
    let write = WriteRequest {
        author: caller.author(reason)?,
        confirmation: options.confirmation,
        ..WriteRequest::default()
    };
    if options.dry_run {
        let (rendered, page) = (options.rendered(), options.page);
        let show = move |app: &App, out: &mut Writer| {
            let plan = app.plan_back(&out.turn, back, write, rendered)?;
            plan::show(out, plan, page)
        };
        return respond(&app, Class::Plan, show).await;
    }
    let written = app.go_back(back, write).await?;
    let mut response: Response = changes_of(&written);
    response
        .headers_mut()
        .insert(REVISION.clone(), written.revision.0.into());
    Ok(response)
}

/// The body of a rollback, and its reason.
fn read(body: Value) -> Result<(Back, Option<String>), Problem> {
    let Value::Object(mut fields) = body else {
        return Err(Problem::invalid(vec![Violation::new("", "an object is expected")]));
    };
    // A variable that is not set is sent as null, and without its scope a rollback is one of the whole fleet.
    let nulls = fields
        .iter()
        .filter(|(name, value)| value.is_null() && name.as_str() != "reason");
    let detail = "is null: say what is meant, or leave it out";
    let mut errors: Vec<_> = nulls
        .map(|(name, _)| Violation::new(fleet::refusal::segment(name), detail))
        .collect();
    let mut text = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => {
            errors.push(Violation::new(format!("/{name}"), "is not a string"));
            None
        }
    };
    let (kind, id, selector, reason) = (text("kind"), text("id"), text("selector"), text("reason"));
    let mut number = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => None,
        Some(value) => {
            if value.as_u64().is_none() {
                errors.push(Violation::new(format!("/{name}"), "is not the number of a revision"));
            }
            value.as_u64().map(Revision)
        }
    };
    let (revision, undo) = (number("revision"), number("undo"));
    for name in fields.keys() {
        let detail = "is not known here; known: revision, undo, kind, id, selector, reason";
        errors.push(Violation::new(fleet::refusal::segment(name), detail));
    }
    let back = match (revision, undo, kind, id, selector) {
        (Some(revision), None, None, None, None) => Some(Back::To(revision, Scope::Fleet)),
        (Some(revision), None, Some(kind), Some(id), None) => Some(Back::To(revision, Scope::Resource { kind, id })),
        (Some(revision), None, None, None, Some(selector)) => Some(Back::To(revision, Scope::Clusters(selector))),
        (None, Some(revision), None, None, None) => Some(Back::Undo(revision)),
        _ => None,
    };
    if back.is_none() && errors.is_empty() {
        let detail = "say {\"revision\": N}, with \"kind\" and \"id\" or with \"selector\" for a part of the fleet, or {\"undo\": N}";
        errors.push(Violation::new("", detail));
    }
    match back {
        Some(back) if errors.is_empty() => Ok((back, reason.filter(|reason| !reason.trim().is_empty()))),
        _ => Err(Problem::invalid(errors)),
    }
}

/// For whoever asks for `?revision=` of a document.
pub fn document_at(body: &Json, revision: Revision) -> Response {
    let mut response = json_text(body.as_str().to_owned());
    response.headers_mut().insert(REVISION.clone(), revision.0.into());
    response
}

/// `GET /kinds/{kind}/history`
pub async fn kind_history(State(app): State<Arc<App>>, Path(kind): Path<String>, caller: Caller) -> Reply {
    history(&app, KINDS.to_owned(), kind, &caller).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollback_says_one_thing() {
        for good in [
            json!({"revision": 3}),
            json!({"revision": 3, "kind": "clusters", "id": "a"}),
            json!({"revision": 0, "selector": "environment=dev", "reason": "x"}),
            json!({"undo": 3}),
        ] {
            assert!(read(good.clone()).is_ok(), "{good}");
        }
        for bad in [
            json!([]),
            json!({}),
            json!({"revision": "3"}),
            json!({"revision": 3, "undo": 3}),
            json!({"revision": 3, "kind": "clusters"}),
            json!({"revision": 3, "kind": "clusters", "id": "a", "selector": "*"}),
            json!({"undo": 3, "selector": "*"}),
            json!({"revision": 3, "slector": "*"}),
            json!({"revision": 3, "selector": null}),
            json!({"revision": 3, "kind": null, "id": null}),
            json!({"revision": 3, "undo": null}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
