//! How far rollouts have come, and what can be done with one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use fleet::identity::Reach;
use fleet::kind::ROLLOUTS;
use fleet::log::Digest;
use fleet::operation::{Operation, Verb};
use fleet::refusal::Violation;
use fleet::rollout::{Action, Rollout, Step};
use serde_json::{Value, json};

use super::body::{Writer, respond};
use super::caller::{Caller, WriteOptions};
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT};
use super::respond::{self, Reply};
use super::write::run_all;
use crate::app::App;
use crate::app::rollouts::WaveStatus;

/// `GET /rollouts/{id}/status`
pub async fn status(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let show = move |app: &App, out: &mut Writer| {
        let status = app.rollout_status(&out.turn, &id)?;
        let rollout = &status.rollout;
        let wave = rollout.wave.map(|wave| &rollout.waves[wave].name);
        out.json(&json!({
            "at": crate::app::status::now().to_string(), "id": rollout.id(), "state": rollout.state, "wave": wave, "since": rollout.since,
            "waiting_for": rollout.waiting_for, "waits": status.waits, "message": rollout.message,
            "waves": status.waves.iter().map(wave_status).collect::<Vec<_>>(),
        }))
    };
    respond(&app, caller.class(), show).await
}

fn wave_status(wave: &WaveStatus) -> Value {
    let counts = wave.counts;
    json!({
        "name": wave.name, "members": wave.members, "affected": counts.affected, "promoted": wave.promoted, "approve": wave.approve,
        "told": counts.told, "converged": counts.converged, "failing": counts.failing, "silent": counts.unheard(),
    })
}

/// `POST /rollouts/{id}/approve`
pub async fn approve(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Approve).await
}

/// `POST /rollouts/{id}/pause`
pub async fn pause(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Pause).await
}

/// `POST /rollouts/{id}/resume`
pub async fn resume(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Resume).await
}

/// `POST /rollouts/{id}/promote`
pub async fn promote(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Promote).await
}

/// `POST /rollouts/{id}/revert`
pub async fn revert(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Revert).await
}

/// `POST /rollouts/{id}/complete`
pub async fn complete(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Complete).await
}

/// `POST /rollouts/{id}/abort`
pub async fn abort(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    act(&app, id, &caller, body, Action::Abort).await
}

async fn act(app: &Arc<App>, id: String, caller: &Caller, body: Body, action: Action) -> Reply {
    let mut options = WriteOptions::of(caller)?;
    let body = request::document_or_empty(&caller.headers, body, MOST_DOCUMENT).await?;
    let ActionBody { reason, plan, wave } = read_action(body, action)?;
    options.confirmation.plan = plan.or(options.confirmation.plan);
    let fleet = app.fleet();
    if let Some(rollout) = fleet.rollouts().get(&id) {
        check_approval(rollout, caller, action)?;
    }
    let mut write = caller.write(&options, reason)?;
    let verb = Verb::Step {
        id: id.clone(),
        step: Step::Action(action),
        wave,
    };
    write.operations = vec![Operation::new(ROLLOUTS, verb).when(request::if_match(&caller.headers)?)];
    write.unguarded = action.is_safe();
    run_all(app, &options, write, |written| {
        respond::written(StatusCode::OK, &written.fleet, ROLLOUTS, &id)
    })
    .await
}

/// The body of an action.
#[derive(Default)]
struct ActionBody {
    reason: Option<String>,
    /// The plan that was reviewed.
    plan: Option<Digest>,
    /// The wave that must be the next one.
    wave: Option<String>,
}

fn read_action(body: Value, action: Action) -> Result<ActionBody, Problem> {
    let Value::Object(fields) = body else {
        return Err(Problem::invalid(vec![Violation::new("", "must be an object")]));
    };
    let known: &[&str] = match action.is_on_a_wave() {
        true => &["reason", "plan", "wave"],
        false => &["reason", "plan"],
    };
    let (mut read, mut errors) = (ActionBody::default(), Vec::new());
    for (name, value) in fields {
        let pointer = fleet::refusal::segment(&name);
        match (name.as_str(), value.as_str()) {
            (name, _) if !known.contains(&name) => {
                let detail = format!("is not known here: use {}", known.join(", "));
                errors.push(Violation::new(pointer, detail));
            }
            (_, None) if value.is_null() => {}
            (_, None) => errors.push(Violation::new(pointer, "must be a string")),
            ("reason", Some(text)) => read.reason = Some(text.to_owned()),
            ("wave", Some(text)) => read.wave = Some(text.to_owned()),
            (_, Some(text)) => match Digest::parse(text) {
                Some(digest) => read.plan = Some(digest),
                None => {
                    let detail = "must be the `plan` of a dry run: 64 hexadecimal digits";
                    errors.push(Violation::new(pointer, detail));
                }
            },
        }
    }
    match errors.is_empty() {
        true => Ok(read),
        false => Err(Problem::invalid(errors)),
    }
}

/// Refuses what stands in for an approval that the caller may not give.
fn check_approval(rollout: &Rollout, caller: &Caller, action: Action) -> Result<(), Problem> {
    let next = rollout.wave.map_or(0, |wave| wave + 1);
    let mut skipped = match action {
        Action::Approve => return may_approve(caller, true),
        Action::Promote => rollout.waves.iter().skip(next).take(1),
        Action::Complete => rollout.waves.iter().skip(next).take(usize::MAX),
        _ => return Ok(()),
    };
    may_approve(caller, skipped.any(|wave| rollout.must_approve(wave)))
}

fn may_approve(caller: &Caller, is_asked: bool) -> Result<(), Problem> {
    match caller.reach() {
        Reach::Within(scope) if is_asked && !scope.approve => Err(Problem::may_not_approve()),
        _ => Ok(()),
    }
}
