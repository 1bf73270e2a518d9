//! `cluster diagnostics`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;

use super::{Verb, id, id_arg};
use crate::client::encode;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "diagnostics",
    command,
    run,
};

const COLUMNS: [&str; 4] = ["code", "kind", "id", "detail"];

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = command
        .about("Show problems with the references and dependencies of a cluster")
        .arg(id_arg(kind));
    (kind.name == CLUSTERS).then_some(command)
}

fn run(session: &Session<'_>, _: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let found = session
        .client
        .get(&format!("/{CLUSTERS}/{}/diagnostics", encode(id(matches))))?;
    let items = || found.as_array().into_iter().flatten();
    let table = |_| {
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
    };
    session
        .printer
        .print(&found, table, || vec![format!("{CLUSTERS}/{}", id(matches))])
}
