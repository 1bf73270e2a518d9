//! `profile add` and `profile remove`: what a profile brings.

use clap::{Arg, ArgAction, ArgMatches, Command};
use fleet::kind::PROFILES;
use fleet::nearest::did_you_mean;
use serde_json::{Map, Value, json};

use super::{Verb, id, id_arg, write_args_with};
use crate::args::ids::{Named, resources};
use crate::args::{WriteArgs, complete, given, switch};
use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds, pair};
use crate::session::Session;

pub(super) const ADD: Verb = Verb {
    name: "add",
    command: add_command,
    run: add,
};

pub(super) const REMOVE: Verb = Verb {
    name: "remove",
    command: remove_command,
    run: remove,
};

const ADD_EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli profile add baseline component/cert-manager component/traefik
  flux-resourceset-cli profile add baseline component/podinfo --set oci_tag=6.7.1
  flux-resourceset-cli profile add edge component/podinfo --excluded
  flux-resourceset-cli profile add cve-2026-1 component/podinfo --set oci_tag=6.7.2 --hotfix";

const REMOVE_EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli profile remove baseline component/podinfo";

fn add_command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let set = Arg::new("set")
        .long("set")
        .value_name("FIELD=VALUE")
        .action(ArgAction::Append)
        .value_parser(pair)
        .help("Set a field of the references: oci_tag=6.7.1, enabled=false (can be repeated)");
    let hotfix = switch(
        "hotfix",
        "Change it where clusters have it, by other profiles or by themselves, and add it nowhere",
    );
    let excluded =
        switch("excluded", "Take out what profiles of lower priority bring").conflicts_with_all(["set", "hotfix"]);
    let command = command
        .about("Add references to a profile, or change them")
        .arg(id_arg(kind))
        .arg(referred());
    let command = command.arg(set).arg(hotfix).arg(excluded);
    (kind.name == PROFILES).then(|| write_args_with(command, ADD_EXAMPLES))
}

fn remove_command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = command
        .about("Remove references from a profile")
        .arg(id_arg(kind))
        .arg(referred());
    (kind.name == PROFILES).then(|| write_args_with(command, REMOVE_EXAMPLES))
}

fn referred() -> Arg {
    Arg::new("referred")
        .value_name("KIND/ID")
        .required(true)
        .num_args(1..)
        .value_parser(given)
        .add(complete::resources())
        .help("What the profile brings: component/podinfo (several can be given)")
}

fn add(session: &Session<'_>, _: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let set: Vec<(String, String)> = matches.get_many("set").into_iter().flatten().cloned().collect();
    let (hotfix, excluded) = (matches.get_flag("hotfix"), matches.get_flag("excluded"));
    write(session, matches, |kind, id| {
        let mut reference = values(kind, &set)?;
        reference.insert("id".to_owned(), id.into());
        if hotfix {
            reference.insert("adds".to_owned(), false.into());
        }
        if excluded {
            reference.insert("excluded".to_owned(), true.into());
        }
        Ok(reference.into())
    })
}

fn remove(session: &Session<'_>, _: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    write(session, matches, |_, id| Ok(json!({"id": id, "$patch": "delete"})))
}

/// Merges references into a profile, in one operation.
fn write(
    session: &Session<'_>,
    matches: &ArgMatches,
    reference: impl Fn(&Kind, &str) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let profile = id(matches);
    let mut value = Map::new();
    for Named { kind, ids } in named(session.kinds()?, matches)? {
        let Some(array) = &kind.references else {
            return Err(Failure::usage(format!("profiles cannot refer to {}", kind.name)));
        };
        let references: Result<Vec<Value>, Failure> = ids.iter().map(|id| reference(kind, id)).collect();
        value.insert(array.clone(), references?.into());
    }
    let body = json!({"op": "merge", "kind": PROFILES, "id": profile, "value": value});
    let operations = [Operation::new(format!("profile {profile}"), body)];
    session.write_and_show(&operations, &WriteArgs::read(matches)?)
}

fn named<'k>(kinds: &'k Kinds, matches: &ArgMatches) -> Result<Vec<Named<'k>>, Failure> {
    let mut words = matches.get_many::<String>("referred").into_iter().flatten();
    let first = words.next().map(String::as_str).unwrap_or_default();
    if !first.contains('/') {
        return Err(Failure::usage(format!(
            "\"{first}\" must be KIND/ID: component/podinfo"
        )));
    }
    let others: Vec<String> = words.cloned().collect();
    resources(kinds, first, &others)
}

/// The fields of a reference, read as their kind has them.
fn values(kind: &Kind, set: &[(String, String)]) -> Result<Map<String, Value>, Failure> {
    let fields = || kind.overridable.iter().chain(&kind.carried);
    let mut values = Map::new();
    for (name, text) in set {
        let Some(field) = fields().find(|field| field.name == *name) else {
            let like = did_you_mean(name, fields().map(|field| field.name.as_str()));
            let like = like.map(|like| format!("; {like}")).unwrap_or_default();
            let detail = format!("references to {} have no field \"{name}\"{like}", kind.name);
            return Err(Failure::usage(detail));
        };
        let value = field.form.parse(text);
        let value = value.map_err(|detail| Failure::usage(format!("{name}: {detail}")))?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}
