//! `cluster diagnostics`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::Verb;
use super::chosen::{Chosen, chosen_args, matching};
use crate::client::encode;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::plan::clusters;
use crate::session::{Session, missing_cluster, text};

pub(super) const VERB: Verb = Verb {
    name: "diagnostics",
    command,
    run,
};

const COLUMNS: [&str; 4] = ["code", "kind", "id", "detail"];

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli cluster diagnostics demo-cluster-01
  flux-resourceset-cli cluster diagnostics -l environment=prod
  flux-resourceset-cli cluster diagnostics --all -o custom-columns=CLUSTER:.cluster,CODE:.code";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = command
        .about("Show problems with the references and dependencies of a cluster, or of several")
        .after_help(EXAMPLES);
    (kind.name == CLUSTERS).then(|| chosen_args(command, kind))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let ids = match Chosen::read(kind, matches) {
        Chosen::Ids(ids) => ids,
        Chosen::Selector(selector) => {
            let found = matching(session, &selector)?;
            found.iter().map(|cluster| cluster.id().to_owned()).collect()
        }
    };
    let is_one = ids.len() == 1 && matches.contains_id("id") && matches.get_one::<String>("id").is_some();
    let mut problems = Vec::new();
    for id in &ids {
        let found = of(session, id)?;
        match is_one {
            true => return show_one(session, id, &found),
            false => problems.extend(found.as_array().into_iter().flatten().map(|problem| named(id, problem))),
        }
    }
    show_several(session, &problems, ids.len())
}

/// The problems of a cluster.
pub(crate) fn of(session: &Session<'_>, id: &str) -> Result<Value, Failure> {
    let found = session.client.get(&format!("/{CLUSTERS}/{}/diagnostics", encode(id)));
    found.map_err(|error| missing_cluster(error.into(), id))
}

/// The table of the problems of a cluster.
pub(crate) fn table(problems: &Value) -> Table {
    let items = || problems.as_array().into_iter().flatten();
    if items().next().is_none() {
        let mut table = Table::default();
        table.line("no problems", Tone::Good);
        return table;
    }
    let mut table = Table::new(COLUMNS);
    for item in items() {
        table.row(COLUMNS.map(|name| (cell(&item[name]), Tone::Attention)));
    }
    table
}

fn show_one(session: &Session<'_>, id: &str, found: &Value) -> Result<(), Failure> {
    session
        .printer
        .print(found, |_| table(found), || vec![format!("{CLUSTERS}/{id}")])
}

/// A problem, with the cluster that has it.
fn named(cluster: &str, problem: &Value) -> Value {
    let mut named = json!({ "cluster": cluster });
    if let (Value::Object(named), Value::Object(fields)) = (&mut named, problem) {
        named.extend(fields.clone());
    }
    named
}

fn show_several(session: &Session<'_>, problems: &[Value], checked: usize) -> Result<(), Failure> {
    let mut affected: Vec<&str> = problems.iter().map(|problem| text(&problem["cluster"])).collect();
    affected.dedup();
    let table = |_| {
        let mut table = Table::default();
        if !problems.is_empty() {
            table = Table::new(std::iter::once("cluster").chain(COLUMNS));
        }
        for problem in problems {
            let cells = std::iter::once("cluster").chain(COLUMNS);
            table.row(cells.map(|name| (cell(&problem[name]), Tone::Attention)));
        }
        let closing = match affected.len() {
            0 => format!("no problems on {}", clusters(checked as u64)),
            some => format!("problems on {some} of {}", clusters(checked as u64)),
        };
        table.line(closing, if problems.is_empty() { Tone::Good } else { Tone::Quiet });
        table
    };
    let names = || affected.iter().map(|cluster| format!("{CLUSTERS}/{cluster}")).collect();
    session.printer.print(&json!(problems), table, names)
}
