//! How far rollouts have come, and what can be done with one.

use fleet::kind::{Kinds, ROLLOUTS};
use fleet::rollout::{Action, State};
use serde_json::{Value, json};

use super::Operation;
use crate::http::openapi::operation::or_dry_run;
use crate::http::openapi::schemas::{array, described, flag, integer, object, reference, text};

fn maybe_text(description: &str) -> Value {
    json!({"type": "string", "nullable": true, "description": description})
}

fn named(operation: Operation) -> Operation {
    operation
        .path("id", "The id of the rollout.")
        .problem(404, "There is no such rollout.")
}

pub fn status(_: &Kinds) -> Operation {
    let wave = object(
        &[
            "name",
            "members",
            "affected",
            "promoted",
            "approve",
            "told",
            "converged",
            "failing",
            "silent",
        ],
        json!({
            "name": text(),
            "members": described("How many clusters are in the wave.", integer()),
            "affected": described("Members for which the rollout changes something. The other numbers count these.", integer()),
            "promoted": flag(),
            "approve": described("Whether a person must approve the wave.", flag()),
            "told": integer(), "converged": integer(), "failing": integer(),
            "silent": described("Silent clusters, and those that nothing is known about.", integer()),
        }),
    );
    let states = [
        State::Running,
        State::Paused,
        State::Halted,
        State::Reverted,
        State::Completed,
        State::Aborted,
    ];
    let answer = object(
        &[
            "at",
            "id",
            "state",
            "wave",
            "since",
            "waiting_for",
            "waits",
            "message",
            "waves",
        ],
        json!({
            "at": described("The time of the server, to which the others are compared.", text()),
            "id": text(),
            "state": {"type": "string", "enum": states.map(State::name)},
            "wave": maybe_text("The wave that was promoted last."),
            "since": maybe_text("When state, wave or waiting_for changed last."),
            "waiting_for": maybe_text("What it waits for beyond the gate: approval/WAVE or guard/ID."),
            "waits": maybe_text("Why it does not go on, in words."),
            "message": maybe_text("Why it halted, or was reverted by its gate."),
            "waves": array(wave),
        }),
    );
    named(Operation::new(
        ROLLOUTS,
        "status_rollout",
        "How far a rollout has come, wave by wave.",
    ))
    .answer(200, "The rollout.", answer)
    .late()
}

fn action(action: Action, summary: &str) -> Operation {
    let mut fields = json!({
        "reason": maybe_text("Why; kept in the log."),
        "plan": maybe_text("Act only if the effect is still the one of this plan."),
    });
    if action.is_on_a_wave() {
        let wave = "Act only if this is the next wave, else 409 wrong-state. A request that is sent again then cannot act on the wave after it.";
        fields["wave"] = maybe_text(wave);
    }
    let body = object(&[], fields);
    let id = format!("{}_rollout", action.name());
    named(Operation::new(ROLLOUTS, id, summary))
        .writes()
        .if_match()
        .document_body(body)
        .answer(
            200,
            "The rollout afterwards, or the plan of a dry run.",
            or_dry_run(reference("rollout")),
        )
        .problem(409, "The rollout is not in a state for that, or a guard allows less.")
}

pub fn approve(_: &Kinds) -> Operation {
    action(Action::Approve, "Approve the next wave, which waits for that.")
}

pub fn pause(_: &Kinds) -> Operation {
    action(
        Action::Pause,
        "Pause a rollout: no further wave is promoted. Never refused by a guard.",
    )
}

pub fn resume(_: &Kinds) -> Operation {
    action(
        Action::Resume,
        "Let a rollout go on that is paused, halted or reverted.",
    )
}

pub fn promote(_: &Kinds) -> Operation {
    action(Action::Promote, "Promote the next wave now, whatever the gate says.")
}

pub fn revert(_: &Kinds) -> Operation {
    action(
        Action::Revert,
        "Give every cluster the documents from before. The rollout may be resumed. Never refused by a guard.",
    )
}

pub fn complete(_: &Kinds) -> Operation {
    action(
        Action::Complete,
        "Write the patched documents now, for every cluster, and end the rollout.",
    )
}

pub fn abort(_: &Kinds) -> Operation {
    action(
        Action::Abort,
        "Give every cluster the documents from before, and end the rollout. Never refused by a guard.",
    )
}
