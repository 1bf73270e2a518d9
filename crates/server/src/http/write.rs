//! Writes: done, or planned where `dry_run` asks for that. `POST /batch` and `POST /rollback` are here; the writes of one
//! resource are beside its reads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use fleet::history::Scope;
use fleet::log::Revision;
use fleet::operation::Operation;
use fleet::refusal::{Violation, segment};
use fleet::write::Rules;
use serde_json::{Map, Value};

use super::body::{Writer, respond};
use super::caller::{Caller, WriteOptions};
use super::plan;
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT, MOST_NUMBER};
use super::respond::{self, REVISION, Reply};
use crate::app::App;
use crate::app::engine::{WriteRequest, Written};
use crate::app::history::Back;
use crate::app::reads::Class;

/// Does one operation, or plans it.
pub async fn run(
    app: &Arc<App>,
    caller: &Caller,
    options: &WriteOptions,
    operation: Operation,
    convert: impl FnOnce(Written) -> Reply,
) -> Reply {
    let write = WriteRequest {
        operations: vec![operation],
        ..caller.write(options, None)?
    };
    run_all(app, options, write, convert).await
}

pub async fn run_all(
    app: &Arc<App>,
    options: &WriteOptions,
    write: WriteRequest,
    convert: impl FnOnce(Written) -> Reply,
) -> Reply {
    if options.dry_run {
        let (rendered, listed) = (options.rendered(), options.listed);
        let show = move |app: &App, out: &mut Writer| plan::show(out, app.plan(&out.turn, write, rendered)?, listed);
        return respond(app, Class::Plan, show).await;
    }
    let written = app.write(write).await?;
    let revision = written.revision;
    with_revision(convert(written)?, revision)
}

pub fn with_revision(mut response: axum::response::Response, revision: Revision) -> Reply {
    response.headers_mut().insert(REVISION.clone(), revision.0.into());
    Ok(response)
}

/// `POST /batch`
pub async fn batch(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let batch = request::batch(&caller.headers, body).await?;
    let rules = Rules {
        batch: true,
        ..Rules::default()
    };
    let write = WriteRequest {
        operations: batch.operations,
        rules,
        ..caller.write(&options, batch.reason)?
    };
    run_all(&app, &options, write, |written| Ok(respond::changes(&written))).await
}

/// `POST /rollback`
pub async fn rollback(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let body = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let (back, reason) = read_rollback(body)?;
    let write = caller.write(&options, reason)?;
    if options.dry_run {
        let (rendered, listed) = (options.rendered(), options.listed);
        let show = move |app: &App, out: &mut Writer| {
            let plan = app.plan_back(&out.turn, back, write, rendered)?;
            plan::show(out, plan, listed)
        };
        return respond(&app, Class::Plan, show).await;
    }
    let written = app.go_back(back, write).await?;
    with_revision(respond::changes(&written), written.revision)
}

/// The body of a rollback, and its reason.
fn read_rollback(body: Value) -> Result<(Back, Option<String>), Problem> {
    let Value::Object(fields) = body else {
        return Err(Problem::invalid(vec![Violation::new("", "must be an object")]));
    };
    let mut body = RollbackBody::of(fields);
    let (kind, id) = (body.text("kind"), body.text("id"));
    let (selector, reason) = (body.text("selector"), body.text("reason"));
    let (revision, undo, redo) = (body.revision("revision"), body.revision("undo"), body.revision("redo"));
    let mut errors = body.end();
    let scope = match (kind, id, selector) {
        (None, None, None) => Some(Scope::Fleet),
        (Some(kind), Some(id), None) => Some(Scope::Resource { kind, id }),
        (None, None, Some(selector)) => Some(Scope::Clusters(selector)),
        _ => None,
    };
    let back = match (revision, undo, redo, scope) {
        (Some(revision), None, None, Some(scope)) => Some(Back::To(revision, scope)),
        (None, Some(revision), None, Some(Scope::Fleet)) => Some(Back::Undo(revision)),
        (None, None, Some(revision), Some(Scope::Fleet)) => Some(Back::Redo(revision)),
        _ => None,
    };
    if back.is_none() && errors.is_empty() {
        let detail = "send {\"revision\": N}, with \"kind\" and \"id\" or with \"selector\" for a part of the fleet, or {\"undo\": N}, or {\"redo\": N}";
        errors.push(Violation::new("", detail));
    }
    match back {
        Some(back) if errors.is_empty() => Ok((back, reason)),
        _ => Err(Problem::invalid(errors)),
    }
}

/// The fields of a rollback that are not read yet, and what is wrong with those that are.
struct RollbackBody {
    fields: Map<String, Value>,
    errors: Vec<Violation>,
}

impl RollbackBody {
    /// A null is refused: a script that sends an unset variable as null would roll back the whole fleet, not a part of it.
    fn of(fields: Map<String, Value>) -> Self {
        let nulls = fields
            .iter()
            .filter(|(name, value)| value.is_null() && *name != "reason");
        let detail = "must not be null: give a value, or leave it out";
        let errors = nulls.map(|(name, _)| Violation::new(segment(name), detail)).collect();
        RollbackBody { fields, errors }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.errors.push(Violation::new(format!("/{name}"), "must be a string"));
                None
            }
        }
    }

    fn revision(&mut self, name: &str) -> Option<Revision> {
        let value = self.fields.remove(name).filter(|value| !value.is_null())?;
        let number = value.as_u64().filter(|number| *number <= MOST_NUMBER);
        let detail = match number {
            Some(0) => "must be the number of a revision: revisions begin at 1",
            Some(number) => return Some(Revision(number)),
            None => "must be the number of a revision",
        };
        self.errors.push(Violation::new(format!("/{name}"), detail));
        None
    }

    fn end(mut self) -> Vec<Violation> {
        for name in self.fields.keys() {
            let detail = "unknown field; known: revision, undo, redo, kind, id, selector, reason";
            self.errors.push(Violation::new(segment(name), detail));
        }
        self.errors
    }
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
            json!({"revision": 1, "selector": "environment=dev", "reason": "x"}),
            json!({"undo": 3}),
            json!({"redo": 3}),
        ] {
            assert!(read_rollback(good.clone()).is_ok(), "{good}");
        }
        for bad in [
            json!([]),
            json!({}),
            json!({"revision": "3"}),
            json!({"revision": 0}),
            json!({"undo": 0}),
            json!({"redo": 0}),
            json!({"undo": 3, "redo": 3}),
            json!({"redo": 3, "kind": "clusters", "id": "a"}),
            json!({"revision": 3, "undo": 3}),
            json!({"revision": 3, "kind": "clusters"}),
            json!({"revision": 3, "kind": "clusters", "id": "a", "selector": "*"}),
            json!({"undo": 3, "selector": "*"}),
            json!({"revision": 3, "slector": "*"}),
            json!({"revision": 3, "selector": null}),
            json!({"revision": 3, "kind": null, "id": null}),
            json!({"revision": 3, "undo": null}),
        ] {
            assert!(read_rollback(bad.clone()).is_err(), "{bad}");
        }
    }
}
