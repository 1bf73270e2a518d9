//! `KIND override`.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::{Map, Value};

use super::{Verb, edit_references, noun, on_clusters};
use crate::args::fields::{field_arg, field_name, field_values};
use crate::error::Failure;
use crate::kinds::{Field, Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "override",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    if kind.overridable.is_empty() {
        return None;
    }
    let about = format!(
        "Set or clear overrides of a {} on the clusters that have it",
        noun(kind)
    );
    let known: Vec<String> = kind.overridable.iter().map(|field| field.name.clone()).collect();
    let clear = Arg::new("clear")
        .long("clear")
        .value_name("FIELD")
        .action(ArgAction::Append)
        .value_parser(move |text: &str| field_name(text, &known))
        .help("Clear the override of a field: the catalog's value applies again");
    let fields = kind.overridable.iter().map(|field| field_arg(field, false));
    let names = kind.overridable.iter().map(Field::arg).chain(["clear".to_owned()]);
    let group = ArgGroup::new("values").args(names).required(true).multiple(true);
    Some(on_clusters(command, kind, about)?.args(fields).arg(clear).group(group))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut values = field_values(&kind.overridable, matches);
    for field in matches.get_many::<String>("clear").into_iter().flatten() {
        if values
            .insert(field.clone(), Value::Null)
            .is_some_and(|value| !value.is_null())
        {
            return Err(Failure::usage(format!("\"{field}\" is both set and cleared")));
        }
    }
    // Clearing a field that has no override would only remove a null.
    edit_references::edit(session, kind, matches, |reference| {
        let wanted = values
            .iter()
            .filter(|(name, value)| !value.is_null() || !reference[name.as_str()].is_null());
        let wanted: Map<_, _> = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
        (!wanted.is_empty()).then_some(wanted)
    })
}
