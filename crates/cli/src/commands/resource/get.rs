//! `KIND get`.

use clap::{Arg, ArgMatches, Args as _, Command};

use super::{Verb, ids, ids_arg, noun};
use crate::args::ids::Named;
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
        .about(format!("Show one {}, or several", noun(kind)))
        .arg(ids_arg(kind))
        .arg(revision);
    Some(WatchArgs::augment_args(command))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let revision = matches.get_one::<u64>("revision").copied();
    let named = [Named {
        kind,
        ids: ids(matches),
    }];
    view::show_named(session, &named, revision, &WatchArgs::read(matches)?)
}
