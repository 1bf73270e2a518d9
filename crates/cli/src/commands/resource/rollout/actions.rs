//! What a person does with a rollout: approve, pause, resume, promote, revert, complete, abort.

use clap::{Arg, ArgMatches, Command};
use fleet::kind::ROLLOUTS;
use serde_json::{Value, json};

use super::super::{Verb, id, id_arg, write_args_with};
use super::is_of;
use crate::args::{WriteArgs, given};
use crate::confirm::{Asks, Proposal};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::{Session, missing, text};

/// One action, and when it asks.
struct Action {
    name: &'static str,
    about: &'static str,
    question: &'static str,
    asks: Asks,
    /// Whether it is about the next wave.
    is_on_a_wave: bool,
}

const ACTIONS: [Action; 7] = [
    Action {
        name: "approve",
        about: "Approve the next wave of a rollout, so that it goes out once the gate has passed",
        question: "Approve",
        asks: Asks::Beyond,
        is_on_a_wave: true,
    },
    Action {
        name: "pause",
        about: "Pause a rollout: clusters keep what they have, and no further wave goes out",
        question: "Pause",
        asks: Asks::Beyond,
        is_on_a_wave: false,
    },
    Action {
        name: "resume",
        about: "Go on with a rollout that is paused, halted or reverted",
        question: "Resume",
        asks: Asks::Beyond,
        is_on_a_wave: false,
    },
    Action {
        name: "promote",
        about: "Promote the next wave of a rollout now, without waiting for its gate or an approval",
        question: "Promote",
        asks: Asks::Always,
        is_on_a_wave: true,
    },
    Action {
        name: "revert",
        about: "Take all waves of a rollout back: every cluster gets what it had before; it can be resumed",
        question: "Revert",
        asks: Asks::AtTerminal,
        is_on_a_wave: false,
    },
    Action {
        name: "complete",
        about: "Complete a rollout now: every cluster gets the change, and the shared documents have it",
        question: "Complete",
        asks: Asks::Always,
        is_on_a_wave: false,
    },
    Action {
        name: "abort",
        about: "Take all waves of a rollout back, and end it",
        question: "Abort",
        asks: Asks::AtTerminal,
        is_on_a_wave: false,
    },
];

pub(in super::super) const APPROVE: Verb = verb::<0>();
pub(in super::super) const PAUSE: Verb = verb::<1>();
pub(in super::super) const RESUME: Verb = verb::<2>();
pub(in super::super) const PROMOTE: Verb = verb::<3>();
pub(in super::super) const REVERT: Verb = verb::<4>();
pub(in super::super) const COMPLETE: Verb = verb::<5>();
pub(in super::super) const ABORT: Verb = verb::<6>();

const fn verb<const N: usize>() -> Verb {
    Verb {
        name: ACTIONS[N].name,
        command: command::<N>,
        run: run::<N>,
    }
}

fn command<const N: usize>(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let Action {
        name,
        about,
        is_on_a_wave,
        ..
    } = ACTIONS[N];
    let mut command = command.about(about).arg(id_arg(kind));
    let mut examples = format!("Examples:\n  flux-resourceset-cli rollout {name} podinfo-6.7.1 --reason 'ticket 7'");
    if is_on_a_wave {
        let help = "Act only if this is the next wave, so that a command that runs twice does not act on two waves [default: the next wave]";
        let wave = Arg::new(WAVE).long(WAVE).value_name("WAVE").value_parser(given);
        command = command.arg(wave.help(help));
        examples.push_str(&format!(
            "\n  flux-resourceset-cli rollout {name} podinfo-6.7.1 --wave rest"
        ));
    }
    is_of(kind).then(|| write_args_with(command, &examples))
}

const WAVE: &str = "wave";

fn run<const N: usize>(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let (action, id, how) = (&ACTIONS[N], id(matches), WriteArgs::read(matches)?);
    let wave = match action.is_on_a_wave {
        true => wave(session, kind, id, matches.get_one::<String>(WAVE))?,
        false => None,
    };
    let body = wave.as_ref().map_or_else(|| json!({}), |wave| json!({ "wave": wave }));
    let reason = how.reason.as_deref();
    let proposal = Proposal {
        question: &question(action, id, wave.as_deref()),
        asks: action.asks,
        warns_of_reverts: false,
        warnings: &[],
        send: &|conditions| {
            let client = session.client;
            client.act(ROLLOUTS, id, action.name, body.clone(), reason, conditions)
        },
    };
    let outcome = proposal.carry_out(session, &how);
    let outcome = outcome.map_err(|error| missing(error.into(), kind, id))?;
    session.show(&outcome)
}

/// The wave to act on: the one that is given, else the next one. None: every wave is promoted.
fn wave(session: &Session<'_>, kind: &Kind, id: &str, given: Option<&String>) -> Result<Option<String>, Failure> {
    if let Some(wave) = given {
        return Ok(Some(wave.clone()));
    }
    let found = session.client.resource(ROLLOUTS, id);
    let rollout = found.map_err(|error| missing(error.into(), kind, id))?;
    Ok(next_wave(&rollout.value).map(str::to_owned))
}

fn next_wave(rollout: &Value) -> Option<&str> {
    let waves = rollout["waves"].as_array()?;
    let promoted = rollout["wave"].as_str();
    let last = waves.iter().position(|wave| wave["name"].as_str() == promoted);
    let next = waves.get(last.map_or(0, |last| last + 1))?;
    Some(text(&next["name"]))
}

fn question(action: &Action, id: &str, wave: Option<&str>) -> String {
    match (action.is_on_a_wave, wave) {
        (true, Some(wave)) => format!("{} the wave {wave} of the rollout {id}", action.question),
        (true, None) => format!("{} the next wave of the rollout {id}", action.question),
        (false, _) => format!("{} the rollout {id}", action.question),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_wave() {
        let [approve, pause, ..] = &ACTIONS;
        let waves = json!([{"name": "canary"}, {"name": "rest"}]);
        for (wave, expected) in [
            (json!(null), "Approve the wave canary of the rollout r"),
            (json!("canary"), "Approve the wave rest of the rollout r"),
            (json!("rest"), "Approve the next wave of the rollout r"),
        ] {
            let rollout = json!({"wave": wave, "waves": waves});
            assert_eq!(question(approve, "r", next_wave(&rollout)), expected);
        }
        assert_eq!(question(pause, "r", None), "Pause the rollout r");
    }
}
