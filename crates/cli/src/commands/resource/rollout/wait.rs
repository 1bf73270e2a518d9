//! `rollout status --wait`: for pipelines, until a rollout has come so far.

use std::thread;
use std::time::{Duration, Instant};

use fleet::kind::ROLLOUTS;
use serde_json::Value;

use super::status::{lasting, promoted, waits};
use super::words::wave;
use crate::error::{Code, Failure};
use crate::output::{Table, Tone};
use crate::session::{Session, text};

/// What is waited for.
#[derive(Debug)]
pub(super) enum Goal {
    Completed,
    /// The gate of the wave with this name has passed.
    Wave(String),
}

impl Goal {
    pub(super) fn read(rollout: &Value, name: &str) -> Result<Goal, Failure> {
        let waves = rollout["waves"].as_array().into_iter().flatten();
        let names: Vec<&str> = waves.map(|wave| text(&wave["name"])).collect();
        match name {
            name if names.contains(&name) => Ok(Goal::Wave(name.to_owned())),
            "completed" => Ok(Goal::Completed),
            other => {
                let failure = Failure::usage(format!("--for: there is no wave \"{other}\""));
                Err(failure.hint(format!("use completed, or one of {}", names.join(", "))))
            }
        }
    }

    fn is_reached(&self, status: &Value) -> bool {
        let is_completed = status["state"] == "completed";
        match self {
            Goal::Completed => is_completed,
            Goal::Wave(name) => {
                let waves = status["waves"].as_array().map(Vec::as_slice).unwrap_or_default();
                let position = |name: &str| waves.iter().position(|wave| wave["name"] == name);
                let (wanted, last) = (position(name), status["wave"].as_str().and_then(position));
                // What waits for an approval or a guard has passed its gate.
                let has_passed = last > wanted || (last == wanted && status["waiting_for"].is_string());
                is_completed || (text(&status["state"]) == "running" && has_passed)
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            Goal::Completed => "completed",
            Goal::Wave(name) => name,
        }
    }
}

pub(super) fn until(
    session: &Session<'_>,
    goal: &Goal,
    timeout: Duration,
    interval: Duration,
    read: impl Fn() -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let end = Instant::now() + timeout;
    let mut shown = Value::Null;
    let mut status = read()?;
    loop {
        let now = lasting(&status);
        if now != shown {
            session.printer.note(&line(&status));
            shown = now;
        }
        if goal.is_reached(&status) {
            return show(session, goal, &status);
        }
        if ["halted", "reverted", "aborted"].contains(&text(&status["state"])) {
            return Err(stopped(&status));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let failure = Failure::new(Code::TimedOut, format!("{}; the time is up", line(&status)));
            return Err(failure.hint(format!("`rollout status {}` shows its waves", text(&status["id"]))));
        }
        thread::sleep(interval.min(left));
        status = match read() {
            Ok(status) => status,
            // The server may be restarting: the time limit ends this, too.
            Err(failure) if failure.code == Code::Unreachable => {
                session.printer.note(&format!("{}; trying again", failure.message));
                status
            }
            Err(failure) => return Err(failure),
        };
    }
}

fn line(status: &Value) -> String {
    let count = |name: &str| promoted(status, name);
    let mut words = format!("rollout {} is {}", text(&status["id"]), text(&status["state"]));
    if status["wave"].is_string() && !super::status::has_ended(status) {
        let (affected, told, converged) = (count("affected"), count("told"), count("converged"));
        words.push_str(&format!(
            ", wave {}: {affected} affected, {told} told, {converged} converged",
            wave(status)
        ));
        for name in ["failing", "silent"] {
            if count(name) > 0 {
                words.push_str(&format!(", {} {name}", count(name)));
            }
        }
    }
    match waits(status) {
        nothing if nothing == "-" => words,
        what => format!("{words}; waits for {what}"),
    }
}

fn show(session: &Session<'_>, goal: &Goal, status: &Value) -> Result<(), Failure> {
    let mut reached = status.clone();
    reached["reached"] = goal.name().into();
    let table = |_| {
        let mut table = Table::default();
        let id = text(&status["id"]);
        let text = match goal {
            Goal::Completed => format!("rollout {id} completed"),
            Goal::Wave(name) => format!("rollout {id}: the gate of {name} has passed"),
        };
        table.line(text, Tone::Good);
        table
    };
    let names = || vec![format!("{ROLLOUTS}/{}", text(&status["id"]))];
    session.printer.print(&reached, table, names)
}

/// The failure of a rollout that does not go on by itself.
fn stopped(status: &Value) -> Failure {
    let (id, state) = (text(&status["id"]), text(&status["state"]));
    let why = status["message"]
        .as_str()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    let failure = Failure::new(Code::Stopped, format!("the rollout {id} is {state}{why}"));
    match state {
        "aborted" => failure.hint(format!("`rollout history {id}` shows who ended it")),
        "reverted" => failure.hint(format!(
            "`rollout resume {id}` begins again; `rollout abort {id}` ends it"
        )),
        _ => failure.hint(format!(
            "`rollout resume {id}` goes on; `rollout revert {id}` or `rollout abort {id}` takes it back"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wave_is_reached_when_its_gate_has_passed() {
        let waves = json!([{"name": "canary"}, {"name": "ten"}, {"name": "rest"}]);
        let rollout = json!({ "waves": waves });
        let status = |state: &str, wave: Value, waiting_for: Value| json!({"state": state, "wave": wave, "waiting_for": waiting_for, "waves": waves});
        for (goal, state, wave, waiting_for, reached) in [
            ("canary", "running", json!(null), json!(null), false),
            ("canary", "running", json!("canary"), json!(null), false),
            ("canary", "running", json!("canary"), json!("approval/ten"), true),
            ("canary", "running", json!("ten"), json!(null), true),
            ("canary", "halted", json!("ten"), json!(null), false),
            ("rest", "running", json!("rest"), json!(null), false),
            ("rest", "completed", json!("rest"), json!(null), true),
            ("completed", "running", json!("rest"), json!(null), false),
            ("completed", "completed", json!("rest"), json!(null), true),
        ] {
            let goal = Goal::read(&rollout, goal).unwrap();
            let status = status(state, wave, waiting_for);
            assert_eq!(goal.is_reached(&status), reached, "{goal:?} {status}");
        }
        assert!(Goal::read(&rollout, "eleven").is_err());
    }
}
