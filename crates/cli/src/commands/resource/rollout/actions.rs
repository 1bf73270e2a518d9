//! What a person does with a rollout: approve, pause, resume, promote, revert, complete, abort.

use clap::{ArgMatches, Command};
use fleet::kind::ROLLOUTS;

use super::super::{Verb, id, id_arg, write_args_with};
use super::is_of;
use crate::args::WriteArgs;
use crate::confirm::{Asks, Proposal};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::{Session, missing};

/// One action, and when it asks.
struct Action {
    name: &'static str,
    about: &'static str,
    question: &'static str,
    asks: Asks,
}

const ACTIONS: [Action; 7] = [
    Action {
        name: "approve",
        about: "Approve the next wave of a rollout, so that it goes out once the gate has passed",
        question: "Approve the next wave of",
        asks: Asks::Beyond,
    },
    Action {
        name: "pause",
        about: "Pause a rollout: clusters keep what they have, and no further wave goes out",
        question: "Pause",
        asks: Asks::Beyond,
    },
    Action {
        name: "resume",
        about: "Go on with a rollout that is paused, halted or reverted",
        question: "Resume",
        asks: Asks::Beyond,
    },
    Action {
        name: "promote",
        about: "Promote the next wave of a rollout now, without waiting for its gate or an approval",
        question: "Promote the next wave of",
        asks: Asks::Always,
    },
    Action {
        name: "revert",
        about: "Take all waves of a rollout back: every cluster gets what it had before; it can be resumed",
        question: "Revert",
        asks: Asks::AtTerminal,
    },
    Action {
        name: "complete",
        about: "Complete a rollout now: every cluster gets the change, and the shared documents have it",
        question: "Complete",
        asks: Asks::Always,
    },
    Action {
        name: "abort",
        about: "Take all waves of a rollout back, and end it",
        question: "Abort",
        asks: Asks::AtTerminal,
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
    let Action { name, about, .. } = ACTIONS[N];
    let examples = format!("Examples:\n  flux-resourceset-cli rollout {name} podinfo-6.7.1 --reason 'ticket 7'");
    is_of(kind).then(|| write_args_with(command.about(about).arg(id_arg(kind)), &examples))
}

fn run<const N: usize>(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let (action, id, how) = (&ACTIONS[N], id(matches), WriteArgs::read(matches)?);
    let question = format!("{} the rollout {id}", action.question);
    let reason = how.reason.as_deref();
    let proposal = Proposal {
        question: &question,
        asks: action.asks,
        warns_of_reverts: false,
        warnings: &[],
        send: &|conditions| session.client.act(ROLLOUTS, id, action.name, reason, conditions),
    };
    let outcome = proposal.carry_out(session, &how);
    let outcome = outcome.map_err(|error| missing(error.into(), kind, id))?;
    session.show(&outcome)
}
