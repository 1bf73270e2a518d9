//! `KIND exclude`: takes out on clusters what profiles bring to them.

use clap::{ArgMatches, Command};
use serde_json::json;

use super::{Verb, explain, id, label, noun, on_clusters};
use crate::args::WriteArgs;
use crate::args::target::Target;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "exclude",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = format!(
        "Take a {} that profiles bring out of clusters; `assign` brings it back",
        noun(kind)
    );
    on_clusters(command, kind, about)
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let id = id(matches);
    let body = json!({"op": "assign", "kind": kind.name, "id": id, "value": {"excluded": true}});
    let operations = Target::read(matches)?.operations(&label(kind, id), &body);
    let outcome = session.write(&operations, &WriteArgs::read(matches)?);
    session.show(&outcome.map_err(|error| explain(session, kind, id, &operations, error))?)
}
