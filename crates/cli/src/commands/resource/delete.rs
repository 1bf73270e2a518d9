//! `KIND delete`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::json;

use super::{Verb, id, id_arg, label, noun, write_args};
use crate::args::{WriteArgs, switch};
use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::{Session, blame, missing};

pub(super) const VERB: Verb = Verb {
    name: "delete",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = match kind.name.as_str() {
        CLUSTERS => "Decommission a cluster: Flux removes everything from it".to_owned(),
        _ => format!("Delete a {}", noun(kind)),
    };
    let command = command.about(about).arg(id_arg(kind));
    Some(write_args(match kind.references {
        Some(_) => command.arg(switch("cascade", "Also unassign it from the clusters that refer to it")),
        None => command,
    }))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let cascade = kind.references.is_some() && matches.get_flag("cascade");
    remove(session, kind, id(matches), cascade, &WriteArgs::read(matches)?)
}

pub(crate) fn remove(
    session: &Session<'_>,
    kind: &Kind,
    id: &str,
    cascade: bool,
    how: &WriteArgs,
) -> Result<(), Failure> {
    let mut body = json!({"op": "delete", "kind": kind.name, "id": id});
    if cascade {
        body["cascade"] = true.into();
    }
    let operations = [Operation::new(label(kind, id), body)];
    let outcome = session.write(&operations, how).map_err(|error| {
        let in_use = error.is("in-use");
        let failure = missing(blame(&operations, error), kind);
        match in_use && !cascade {
            true => failure.hint("use --cascade to also unassign it from these clusters"),
            false => failure,
        }
    })?;
    session.show(&outcome)
}
