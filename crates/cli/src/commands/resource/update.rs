//! `KIND update`.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::{Value, json};

use super::{Verb, id, id_arg, label, noun, write_args};
use crate::args::WriteArgs;
use crate::args::fields::{field_arg, field_path, field_values};
use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::{Field, Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "update",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let known: Vec<String> = kind.fields.iter().map(|field| field.name.clone()).collect();
    let unset = Arg::new("unset")
        .long("unset")
        .value_name("FIELD")
        .action(ArgAction::Append)
        .value_parser(move |text: &str| field_path(text, &known))
        .help("Clear a field, or one key of it: labels.team");
    let command = command
        .about(format!("Change fields of a {}; the others stay", noun(kind)))
        .arg(id_arg(kind))
        .args(kind.fields.iter().map(|field| field_arg(field, false)))
        .arg(unset);
    let names = kind.fields.iter().map(Field::arg).chain(["unset".to_owned()]);
    let group = ArgGroup::new("values").args(names).required(true).multiple(true);
    Some(write_args(command.group(group)))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut value = Value::Object(field_values(&kind.fields, matches));
    for (field, key) in matches
        .get_many::<(String, Option<String>)>("unset")
        .into_iter()
        .flatten()
    {
        match key {
            Some(key) if value[field].is_object() || value[field].is_null() => value[field][key] = Value::Null,
            _ => value[field] = Value::Null,
        }
    }
    let body = json!({"op": "merge", "kind": kind.name, "id": id(matches), "value": value});
    let operation = Operation::new(label(kind, id(matches)), body);
    session.write_and_show(&[operation], &WriteArgs::read(matches)?)
}
