//! `KIND override`.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use fleet::refusal::some_of;
use serde_json::{Map, Value};

use super::edit_references::{self, Edit};
use super::{Verb, id, maps, noun, on_clusters};
use crate::args::fields::{field_arg, field_name, field_values};
use crate::args::switch;
use crate::confirm::NAMED_HELP;
use crate::error::Failure;
use crate::kinds::{Field, Form, Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "override",
    command,
    run,
};

const MAPS: &str = "\
An override of a map replaces the whole map: keys that it does not have are lost. The plan names these keys, and the \
command asks at a terminal. With --merge, the given keys are merged into the map in force (the override, or else the \
definition's map), and the result is the override: the definition's later values for that map do not apply here.";

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
    let command = on_clusters(command, kind, about)?.args(fields).arg(clear).group(group);
    let merge = "Merge a map, key by key, with the value in force, instead of replacing it; null removes a key";
    Some(match has_maps(kind) {
        true => command
            .arg(switch("merge", merge))
            .after_help(format!("{MAPS}\n\n{NAMED_HELP}")),
        false => command,
    })
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
    let merge = has_maps(kind) && matches.get_flag("merge");
    // The definition matters only for maps, where the override replaces its keys.
    let definition = match values.values().any(Value::is_object) {
        true => session.client.find(&kind.name, id(matches))?.map(|found| found.value),
        false => None,
    };
    let definition = definition.unwrap_or_default();
    edit_references::edit(session, kind, matches, |reference| {
        let edit = overridden(&values, reference, &definition, merge);
        (!edit.values.is_empty()).then_some(edit)
    })
}

/// Whether a field that can be overridden is a map.
fn has_maps(kind: &Kind) -> bool {
    let is_map = |field: &Field| matches!(field.form, Form::Json | Form::Pairs);
    kind.overridable.iter().any(is_map)
}

/// The new overrides of one reference.
fn overridden(values: &Map<String, Value>, reference: &Value, definition: &Value, merge: bool) -> Edit {
    let mut edit = Edit::from(Map::new());
    let mut lost: Vec<String> = Vec::new();
    for (name, value) in values {
        let present = &reference[name.as_str()];
        // Clearing a field that has no override would only remove a null.
        if value.is_null() && present.is_null() {
            continue;
        }
        let in_force = if present.is_null() {
            &definition[name.as_str()]
        } else {
            present
        };
        let value = match (value, in_force) {
            (Value::Object(_), Value::Object(_)) if merge => maps::merged(in_force, value),
            (Value::Object(_), Value::Object(_)) => {
                let keys = maps::lost_keys(in_force, value);
                lost.extend(keys.iter().map(|key| format!("{name}{key}")));
                value.clone()
            }
            _ => value.clone(),
        };
        edit.values.insert(name.clone(), maps::patch(present, &value));
    }
    if !lost.is_empty() {
        edit.warning = Some(format!(
            "loses {}: the override replaces the whole map; --merge keeps the other keys",
            some_of(&lost)
        ));
    }
    edit
}
