//! `cluster explain`: where each value of a cluster's inputs comes from, and what it beats.

use clap::{Arg, ArgMatches, Command};
use fleet::kind::{CLUSTERS, KINDS, PROFILES};
use serde_json::Value;

use super::{Verb, id, id_arg};
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone};
use crate::session::{Session, missing_cluster, text, unknown_revision};

pub(super) const VERB: Verb = Verb {
    name: "explain",
    command,
    run,
};

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli cluster explain demo-cluster-01
  flux-resourceset-cli cluster explain demo-cluster-01 component/podinfo
  flux-resourceset-cli cluster explain demo-cluster-01 namespaces --revision 12";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let input = Arg::new("input")
        .value_name("KIND[/ID]")
        .help("Only the inputs of this kind, or one of them: component/podinfo");
    let revision = Arg::new("revision")
        .long("revision")
        .value_name("N")
        .value_parser(clap::value_parser!(u64))
        .help("As it was at this revision");
    let command = command
        .about("Show where each value of a cluster's inputs comes from, and what it beats")
        .after_help(EXAMPLES)
        .arg(id_arg(kind))
        .arg(input)
        .arg(revision);
    (kind.name == CLUSTERS).then_some(command)
}

fn run(session: &Session<'_>, _: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let id = id(matches);
    let mut path = format!("/{CLUSTERS}/{}/explain", encode(id));
    if let Some(input) = matches.get_one::<String>("input") {
        path.push_str(&part(session.kinds()?, input)?);
    }
    let revision = matches.get_one::<u64>("revision").map(u64::to_string);
    let found = session.client.get(&with_query(&path, [("revision", revision)]));
    let explanation =
        found
            .map_err(Failure::from)
            .map_err(|failure| match failure.message.contains("there is no cluster") {
                true => missing_cluster(failure, id),
                false => unknown_revision(failure),
            })?;
    let table = |wide| tree(&explanation, wide);
    session
        .printer
        .print(&explanation, table, || vec![format!("{CLUSTERS}/{id}")])
}

/// The end of the path for `KIND` or `KIND/ID`.
fn part(kinds: &Kinds, input: &str) -> Result<String, Failure> {
    let (kind, id) = match input.split_once('/') {
        Some((kind, id)) => (kind, Some(id)),
        None => (input, None),
    };
    let by_path = kinds.iter().find(|other| other.path.as_deref() == Some(kind));
    let kind = by_path.map_or_else(|| kinds.get(kind), Ok)?;
    let Some(path) = &kind.path else {
        return Err(Failure::usage(format!("clusters have no inputs of {}", kind.name)));
    };
    let id = id.map(|id| format!("/{}", encode(id))).unwrap_or_default();
    Ok(format!("/{path}{id}"))
}

fn tree(explanation: &Value, wide: bool) -> Table {
    let mut table = Table::default();
    let profiles = explanation["profiles"].as_array().into_iter().flatten().map(text);
    let profiles: Vec<&str> = profiles.collect();
    let profiles = match profiles.is_empty() {
        true => "no profile".to_owned(),
        false => format!("profiles: {}", profiles.join(", ")),
    };
    table.line(format!("{} ({profiles})", text(&explanation["cluster"])), Tone::Plain);
    for (path, inputs) in explanation["inputs"].as_object().into_iter().flatten() {
        for input in inputs.as_array().into_iter().flatten() {
            table.line(format!("  {path}/{}", text(&input["id"])), Tone::Good);
            let fields = input["fields"].as_object().into_iter().flatten();
            // The cluster's own names are in every input, and never come from elsewhere.
            let shown = fields.filter(|(pointer, _)| wide || !pointer.starts_with("/cluster/"));
            shown.for_each(|(pointer, field)| lines(pointer, field, &mut table));
        }
    }
    table
}

fn lines(pointer: &str, field: &Value, table: &mut Table) {
    let name = pointer.trim_start_matches('/').replace("~1", "/").replace("~0", "~");
    let from = text(&field["from"]);
    let is_own = from.starts_with(&format!("{CLUSTERS}/")) || from.starts_with(&format!("{PROFILES}/"));
    let tone = if is_own { Tone::Attention } else { Tone::Plain };
    table.line(format!("    {name} = {} from {}", field["value"], origin(from)), tone);
    for beaten in field["over"].as_array().into_iter().flatten() {
        let line = format!("      over {} from {}", beaten["value"], origin(text(&beaten["from"])));
        table.line(line, Tone::Quiet);
    }
}

/// A document, or the default of a kind.
fn origin(from: &str) -> String {
    match from.strip_prefix(KINDS).and_then(|rest| rest.strip_prefix('/')) {
        Some(kind) => format!("the default of {kind}"),
        None => from.to_owned(),
    }
}
