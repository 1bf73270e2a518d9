//! `KIND assign`.

use clap::{ArgMatches, Command};
use serde_json::{Map, Value, json};

use super::{Verb, explain, id, label, noun, on_clusters};
use crate::args::WriteArgs;
use crate::args::fields::{field_arg, field_values};
use crate::args::target::Target;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "assign",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = format!(
        "Assign a {} to clusters; an existing reference keeps its overrides",
        noun(kind)
    );
    let fields = kind.overridable.iter().chain(&kind.carried);
    let fields = fields.map(|field| field_arg(field, false).help_heading("Values of the reference"));
    Some(on_clusters(command, kind, about)?.args(fields))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut values = field_values(&kind.overridable, matches);
    values.extend(field_values(&kind.carried, matches));
    write(session, kind, matches, values)
}

/// Gives clusters a reference with these values, or changes the one that they have.
pub(super) fn write(
    session: &Session<'_>,
    kind: &Kind,
    matches: &ArgMatches,
    values: Map<String, Value>,
) -> Result<(), Failure> {
    let id = id(matches);
    let mut body = json!({"op": "assign", "kind": kind.name, "id": id});
    if !values.is_empty() {
        body["value"] = values.into();
    }
    let operations = Target::read(matches)?.operations(&label(kind, id), &body);
    let outcome = session.write(&operations, &WriteArgs::read(matches)?);
    session.show(&outcome.map_err(|error| explain(session, kind, id, &operations, error))?)
}
