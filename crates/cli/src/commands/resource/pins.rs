//! `KIND pins`: every override in the fleet, on clusters and in profiles, beside the value in the catalog.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};
use fleet::kind::{CLUSTERS, PROFILES};
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
        .about("List every override, of clusters and profiles: the field, its value and the catalog's value")
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
    let selects_all = selector.is_none();
    let clusters = with_query(&format!("/{CLUSTERS}"), [("selector", selector)]);
    let clusters = session.client.get(&clusters)?;
    let only = only.map(String::as_str);
    let mut pins = collect(kind, &definitions, &clusters, only);
    // An override of a profile is for whoever matches it, so a selection of clusters leaves it out.
    if selects_all && session.kinds()?.named(PROFILES).is_some() {
        let profiles = session.client.get(&format!("/{PROFILES}"))?;
        pins.extend(collect(kind, &definitions, &profiles, only).into_iter().map(of_profile));
    }
    let by_profile = pins.iter().any(|pin| pin.get("profile").is_some());
    let table = |_| {
        let mut heading = vec!["cluster", "environment", "id", "field", "value", "catalog"];
        if by_profile {
            heading.insert(0, "profile");
        }
        let mut table = Table::new(&heading);
        for pin in &pins {
            let tone = |name: &str| if name == "value" { Tone::Attention } else { Tone::Plain };
            table.row(heading.iter().map(|name| (cell(&pin[*name]), tone(name))));
        }
        table
    };
    let names = || {
        let named = |pin: &Value| match pin.get("profile") {
            Some(profile) => format!("{PROFILES}/{}", text(profile)),
            None => format!("{CLUSTERS}/{}", text(&pin["cluster"])),
        };
        pins.iter().map(named).collect()
    };
    session.printer.print(&Value::Array(pins.clone()), table, names)
}

/// The same, named by its profile.
fn of_profile(mut pin: Value) -> Value {
    if let Value::Object(fields) = &mut pin {
        let profile = fields.remove("cluster").unwrap_or_default();
        fields.remove("environment");
        fields.insert("profile".to_owned(), profile);
    }
    pin
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
