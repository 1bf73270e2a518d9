//! `KIND history`.

use clap::{ArgMatches, Command};

use super::{Verb, id, id_arg, noun};
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
    let about = format!("Show the changes of a {}", noun(kind));
    Some(command.about(about).arg(id_arg(kind)))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    history::show(session, &kind.name, id(matches))
}
