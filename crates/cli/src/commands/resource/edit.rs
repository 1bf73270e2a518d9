//! `KIND edit`.

use clap::{ArgMatches, Command};

use super::{Verb, id, id_arg, noun, write_args};
use crate::args::WriteArgs;
use crate::commands::edit;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "edit",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = format!("Change a {} in $EDITOR", noun(kind));
    Some(write_args(command.about(about).arg(id_arg(kind))))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    edit::edit(session, kind, id(matches), &WriteArgs::read(matches)?)
}
