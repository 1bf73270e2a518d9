//! `KIND history`.

use clap::{ArgMatches, Command};

use super::{Verb, id, id_arg, noun, rollout};
use crate::commands::history;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "history",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = match rollout::is_of(kind) {
        true => "Show each step of a rollout, and the evidence that it rests on".to_owned(),
        false => format!("Show the changes of a {}", noun(kind)),
    };
    Some(command.about(about).arg(id_arg(kind)))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    if rollout::is_of(kind) {
        return rollout::show_history(session, id(matches));
    }
    history::show(session, &kind.name, id(matches))
}
