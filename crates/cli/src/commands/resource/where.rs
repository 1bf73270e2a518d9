//! `KIND where`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::Value;

use super::{Verb, id, id_arg, noun};
use crate::args::target::selector_arg;
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing, text};

pub(super) const VERB: Verb = Verb {
    name: "where",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    kind.references.as_ref()?;
    let about = format!(
        "List the clusters that have a {}, with the effective values",
        noun(kind)
    );
    let command = command.about(about).arg(id_arg(kind));
    Some(command.arg(selector_arg("Only clusters that match")))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let selector = matches.get_one::<String>("selector").cloned();
    let path = with_query(
        &format!("/{}/{}/references", kind.name, encode(id(matches))),
        [("selector", selector)],
    );
    let found = session.client.get(&path).map_err(|error| missing(error.into(), kind))?;
    let usages = found.as_array().map(Vec::as_slice).unwrap_or_default();
    session.printer.print(
        &found,
        |wide| table(kind, usages, wide),
        || {
            let clusters = usages.iter().map(|usage| text(&usage["cluster"]));
            clusters.map(|cluster| format!("{CLUSTERS}/{cluster}")).collect()
        },
    )
}

fn table(kind: &Kind, usages: &[Value], wide: bool) -> Table {
    // An optional field that no cluster has would be an empty column.
    let is_required = |name: &str| kind.fields.iter().any(|field| field.required && field.name == name);
    let is_set = |name: &str| usages.iter().any(|usage| !usage["values"][name].is_null());
    let overridable = kind.overridable.iter();
    let overridable = overridable.filter(|field| is_required(&field.name) || is_set(&field.name));
    let fields = overridable.chain(&kind.carried);
    let mut heading = vec!["cluster", "environment"];
    heading.extend(fields.map(|field| field.name.as_str()));
    if wide {
        heading.push("cluster_dns");
        if kind.patches {
            heading.push("patches");
        }
    }
    if !kind.overridable.is_empty() {
        heading.push("overridden");
    }
    let mut table = Table::new(&heading);
    for usage in usages {
        let overridden = usage["overridden"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tone = |attention: bool| if attention { Tone::Attention } else { Tone::Plain };
        table.row(heading.iter().map(|name| match *name {
            "overridden" => (cell(&usage["overridden"]), tone(!overridden.is_empty())),
            "cluster" | "environment" | "cluster_dns" => (text(&usage[*name]).to_owned(), Tone::Plain),
            field => {
                let own = overridden.iter().any(|name| name == field);
                (cell(&usage["values"][field]), tone(own))
            }
        }));
    }
    table
}
