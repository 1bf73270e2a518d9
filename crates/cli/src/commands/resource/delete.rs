//! `KIND delete`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::json;

use super::chosen::{Chosen, chosen_args, matching};
use super::{Verb, label, noun, write_args, write_args_with};
use crate::args::ids::Named;
use crate::args::{WriteArgs, switch};
use crate::cli::family_name;
use crate::client::Operation;
use crate::error::{ApiError, Code, Failure};
use crate::kinds::{Kind, Kinds};
use crate::session::{Session, blame};

pub(super) const VERB: Verb = Verb {
    name: "delete",
    command,
    run,
};

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli cluster delete demo-cluster-01
  flux-resourceset-cli cluster delete dev-1 dev-2 --reason 'end of the trial'
  flux-resourceset-cli cluster delete -l team=a --dry-run
  flux-resourceset-cli cluster delete -l team=a --yes";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = match kind.name.as_str() {
        CLUSTERS => "Decommission clusters, in one revision: Flux removes everything from them".to_owned(),
        _ => format!("Delete a {}, or several in one revision", noun(kind)),
    };
    let command = chosen_args(command.about(about), kind);
    let command = match kind.references {
        Some(_) => command.arg(switch("cascade", "Also unassign it from the clusters that refer to it")),
        None => command,
    };
    Some(match kind.name.as_str() {
        CLUSTERS => write_args_with(command, EXAMPLES),
        _ => write_args(command),
    })
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let cascade = kind.references.is_some() && matches.get_flag("cascade");
    let how = WriteArgs::read(matches)?;
    match Chosen::read(kind, matches) {
        Chosen::Ids(ids) => remove(session, &[Named { kind, ids }], cascade, &how),
        Chosen::Selector(selector) => remove_matching(session, kind, &selector, &how),
    }
}

/// Deletes resources by name.
pub(crate) fn remove(
    session: &Session<'_>,
    named: &[Named<'_>],
    cascade: bool,
    how: &WriteArgs,
) -> Result<(), Failure> {
    let mut operations = Vec::new();
    for Named { kind, ids } in named {
        for id in ids {
            let mut body = json!({"op": "delete", "kind": kind.name, "id": id});
            if cascade && kind.references.is_some() {
                body["cascade"] = true.into();
            }
            operations.push(Operation::new(label(kind, id), body));
        }
    }
    let explain = |error: ApiError| {
        let can_cascade = error.can_cascade() && !cascade;
        let failure = blame(&operations, error);
        match can_cascade {
            true => failure.hint("use --cascade to also unassign it from these clusters"),
            false => list_hint(named, failure),
        }
    };
    session.show(&session.write(&operations, how).map_err(explain)?)
}

fn list_hint(named: &[Named<'_>], failure: Failure) -> Failure {
    match (named, failure.code) {
        ([Named { kind, .. }], Code::NotFound) => {
            failure.or_hint(|| format!("`{} list` lists all of them", family_name(kind)))
        }
        _ => failure,
    }
}

/// Deletes the clusters that match. Each is named with its version, so that none is deleted that has changed since and may not
/// match any more.
pub(crate) fn remove_matching(
    session: &Session<'_>,
    kind: &Kind,
    selector: &str,
    how: &WriteArgs,
) -> Result<(), Failure> {
    let found = matching(session, selector)?;
    let operations: Vec<Operation> = found
        .iter()
        .map(|cluster| {
            let body = json!({"op": "delete", "kind": kind.name, "id": cluster.id(), "if_match": cluster.etag});
            Operation::new(label(kind, cluster.id()), body)
        })
        .collect();
    session.write_and_show(&operations, how)
}
