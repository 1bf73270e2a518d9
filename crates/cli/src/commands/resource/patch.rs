//! `KIND patch`.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::{Map, Value, json};

use super::{Verb, explain, id, label, noun, on_clusters};
use crate::args::WriteArgs;
use crate::args::target::Target;
use crate::client::encode;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds, pair};
use crate::session::{Outcome, Session, text};

pub(super) const VERB: Verb = Verb {
    name: "patch",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    if !kind.patches {
        return None;
    }
    let about = format!("Set or remove patch values of a {} on clusters", noun(kind));
    let set = Arg::new("set")
        .long("set")
        .value_name("PATH=VALUE")
        .action(ArgAction::Append)
        .value_parser(pair)
        .help("Set a value, always as a string: replicaCount=3 stores \"3\"");
    let unset = Arg::new("unset")
        .long("unset")
        .value_name("PATH")
        .action(ArgAction::Append)
        .help("Remove a value");
    let group = ArgGroup::new("values")
        .args(["set", "unset"])
        .required(true)
        .multiple(true);
    Some(on_clusters(command, kind, about)?.arg(set).arg(unset).group(group))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let set = matches
        .get_many::<(String, String)>("set")
        .into_iter()
        .flatten()
        .cloned();
    let unset: Vec<String> = matches
        .get_many::<String>("unset")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let (target, how) = (Target::read(matches)?, WriteArgs::read(matches)?);
    set_values(session, kind, id(matches), &target, set, &unset, &how)
}

/// Sets and removes patch values. Values are strings, because templates write them into a ConfigMap.
pub(crate) fn set_values(
    session: &Session<'_>,
    kind: &Kind,
    id: &str,
    target: &Target,
    set: impl Iterator<Item = (String, String)>,
    unset: &[String],
    how: &WriteArgs,
) -> Result<(), Failure> {
    let mut body = json!({"op": "patch", "kind": kind.name, "id": id});
    let set: Map<String, Value> = set.map(|(path, value)| (path, value.into())).collect();
    if let Some(path) = unset.iter().find(|path| set.contains_key(*path)) {
        return Err(Failure::usage(format!("\"{path}\" is both set and unset")));
    }
    if !set.is_empty() {
        body["set"] = set.into();
    }
    if !unset.is_empty() {
        body["unset"] = unset.into();
    }
    let operations = target.operations(&label(kind, id), &body);
    let outcome = session.write(&operations, how);
    let outcome = outcome.map_err(|error| explain(session, kind, id, &operations, error))?;
    session.show(&outcome)?;
    hint_at_unassigned(session, kind, id, &outcome)
}

/// Patch values may be set before the assignment. On many clusters at once that is often a mistake, so it is pointed out.
fn hint_at_unassigned(session: &Session<'_>, kind: &Kind, id: &str, outcome: &Outcome) -> Result<(), Failure> {
    let patched = outcome.ids();
    if patched.is_empty() {
        return Ok(());
    }
    let found = session
        .client
        .get(&format!("/{}/{}/references", kind.name, encode(id)))?;
    let usages = found.as_array().map(Vec::as_slice).unwrap_or_default();
    let assigned: BTreeSet<&str> = usages.iter().map(|usage| text(&usage["cluster"])).collect();
    let without: Vec<&str> = patched.into_iter().filter(|id| !assigned.contains(id)).collect();
    let Some(first) = without.first() else {
        return Ok(());
    };
    let label = label(kind, id);
    let place = match without.len() {
        1 => format!("{first} does not have {label}"),
        many => format!("{many} of these clusters do not have {label}, for example {first}"),
    };
    session
        .printer
        .hint(&format!("{place}: the values take effect once it is assigned"));
    Ok(())
}
