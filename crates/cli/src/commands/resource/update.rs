//! `KIND update`.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::chosen::{Chosen, chosen_args};
use super::{Verb, label, noun, rollout, write_args, write_args_with};
use crate::args::WriteArgs;
use crate::args::fields::{field_arg, field_path, field_values};
use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::{Field, Kind, Kinds};
use crate::session::{Session, blame, missing};

pub(super) const VERB: Verb = Verb {
    name: "update",
    command,
    run,
};

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli cluster update demo-cluster-01 --node-count 5
  flux-resourceset-cli cluster update dev-1 dev-2 --unset labels.team
  flux-resourceset-cli cluster update -l environment=dev --k0s-version v1.31.2 --dry-run";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let fields = changeable(kind);
    let known: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
    let unset = Arg::new("unset")
        .long("unset")
        .value_name("FIELD")
        .action(ArgAction::Append)
        .value_parser(move |text: &str| field_path(text, &known))
        .help("Clear a field, or one key of it: labels.team");
    let command = command
        .about(format!(
            "Change fields of a {}, or of several; the others stay",
            noun(kind)
        ))
        .args(fields.iter().map(|field| field_arg(field, false)))
        .arg(unset);
    let names = fields.iter().map(|field| field.arg()).chain(["unset".to_owned()]);
    let group = ArgGroup::new("values").args(names).required(true).multiple(true);
    let command = chosen_args(command, kind).group(group);
    Some(match kind.name.as_str() {
        CLUSTERS => write_args_with(command, EXAMPLES),
        _ => write_args(command),
    })
}

/// The fields that can change. Most of a rollout is fixed at its start.
fn changeable(kind: &Kind) -> Vec<Field> {
    let is_fixed = |field: &Field| rollout::is_of(kind) && !rollout::CHANGEABLE.contains(&field.name.as_str());
    kind.fields.iter().filter(|field| !is_fixed(field)).cloned().collect()
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut value = Value::Object(field_values(&changeable(kind), matches));
    let unset = matches.get_many::<(String, Option<String>)>("unset");
    let unset: Vec<_> = unset.into_iter().flatten().cloned().collect();
    let chosen = Chosen::read(kind, matches);
    if let (Value::Object(set), Chosen::Ids(ids), true) = (&value, &chosen, rollout::is_of(kind)) {
        let operations = rollout::update::operations(session, kind, ids, set, &unset)?;
        return session.write_and_show(&operations, &WriteArgs::read(matches)?);
    }
    for (field, key) in &unset {
        match key {
            Some(key) if value[field].is_object() || value[field].is_null() => value[field][key] = Value::Null,
            _ => value[field] = Value::Null,
        }
    }
    let operations: Vec<Operation> = match &chosen {
        Chosen::Ids(ids) => {
            let body = |id: &String| json!({"op": "merge", "kind": kind.name, "id": id, "value": value});
            ids.iter().map(|id| Operation::new(label(kind, id), body(id))).collect()
        }
        Chosen::Selector(selector) => {
            let body = json!({"op": "merge", "kind": kind.name, "selector": selector, "value": value});
            vec![Operation::new(kind.plural(), body)]
        }
    };
    let outcome = session.write(&operations, &WriteArgs::read(matches)?);
    let outcome = outcome.map_err(|error| match &chosen {
        Chosen::Ids(ids) if ids.len() == 1 => missing(blame(&operations, error), kind, &ids[0]),
        _ => blame(&operations, error),
    })?;
    session.show(&outcome)
}
