//! `KIND pins`: every override in the fleet, beside the value in the catalog.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::{Verb, edit_references, id_arg};
use crate::args::target::selector_arg;
use crate::client::with_query;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing, text};

pub(super) const VERB: Verb = Verb {
    name: "pins",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = command
        .about("List every override: the cluster, the field, its value and the catalog's value")
        .arg(id_arg(kind).required(false))
        .arg(selector_arg("Only clusters that match"));
    (!kind.overridable.is_empty() && kind.references.is_some()).then_some(command)
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let only = matches.get_one::<String>("id");
    if let Some(id) = only {
        let found = session.client.resource(&kind.name, id);
        found.map_err(|error| missing(error.into(), kind, id))?;
    }
    let definitions = session.client.get(&format!("/{}", kind.name))?;
    let selector = matches.get_one::<String>("selector").cloned();
    let clusters = with_query(&format!("/{CLUSTERS}"), [("selector", selector)]);
    let clusters = session.client.get(&clusters)?;
    let pins = collect(kind, &definitions, &clusters, only.map(String::as_str));
    let table = |_| {
        let heading = ["cluster", "environment", "id", "field", "value", "catalog"];
        let mut table = Table::new(heading);
        for pin in &pins {
            let tone = |name: &str| if name == "value" { Tone::Attention } else { Tone::Plain };
            table.row(heading.iter().map(|name| (cell(&pin[*name]), tone(name))));
        }
        table
    };
    let names = || {
        let clusters = pins.iter().map(|pin| text(&pin["cluster"]));
        clusters.map(|cluster| format!("{CLUSTERS}/{cluster}")).collect()
    };
    session.printer.print(&Value::Array(pins.clone()), table, names)
}

fn collect(kind: &Kind, definitions: &Value, clusters: &Value, only: Option<&str>) -> Vec<Value> {
    let definitions: BTreeMap<&str, &Value> = definitions
        .as_array()
        .into_iter()
        .flatten()
        .map(|definition| (text(&definition["id"]), definition))
        .collect();
    let array = kind.references.as_deref().unwrap_or_default();
    let mut pins = Vec::new();
    for cluster in clusters.as_array().into_iter().flatten() {
        for reference in cluster[array].as_array().into_iter().flatten() {
            let id = text(&reference["id"]);
            if only.is_some_and(|only| only != id) {
                continue;
            }
            for (field, value) in edit_references::overrides(kind, reference) {
                let catalog = definitions
                    .get(id)
                    .map_or(&Value::Null, |definition| &definition[field]);
                pins.push(json!({
                    "cluster": cluster["id"], "environment": cluster["environment"], "id": id, "field": field, "value": value,
                    "catalog": catalog,
                }));
            }
        }
    }
    pins
}
