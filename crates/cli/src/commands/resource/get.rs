//! `KIND get`.

use clap::{Arg, ArgMatches, Args as _, Command};

use super::{Verb, id, id_arg, noun};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;
use crate::view::{self, WatchArgs};

pub(super) const VERB: Verb = Verb {
    name: "get",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let revision = Arg::new("revision")
        .long("revision")
        .value_name("REVISION")
        .value_parser(clap::value_parser!(u64))
        .conflicts_with("watch")
        .help("Show it as it was at this revision");
    let command = command
        .about(format!("Show one {}", noun(kind)))
        .arg(id_arg(kind))
        .arg(revision);
    Some(WatchArgs::augment_args(command))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let revision = matches.get_one::<u64>("revision").copied();
    let path = view::path(kind, id(matches), revision);
    view::show(session, kind, &path, Some(id(matches)), &WatchArgs::read(matches)?)
}
