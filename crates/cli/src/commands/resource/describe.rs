//! `KIND describe`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;

use super::{Verb, ids, ids_arg, noun};
use crate::args::ids::Named;
use crate::commands::describe;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "describe",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let noun = noun(kind);
    let about = match kind.name.as_str() {
        CLUSTERS => "Show a cluster, its effective inputs, diagnostics and last changes on one page".to_owned(),
        _ if kind.references.is_some() => {
            format!("Show a {noun}, the clusters that use it and its last changes on one page")
        }
        _ => format!("Show a {noun} and its last changes on one page"),
    };
    Some(command.about(about).arg(ids_arg(kind)))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let named = [Named {
        kind,
        ids: ids(matches),
    }];
    describe::show(session, &named)
}
