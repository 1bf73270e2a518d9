//! What clusters have otherwise than the catalog says, where something is assigned: enable, disable, override, pins, unpin.

use std::collections::BTreeMap;

use clap::ArgMatches;
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::id;
use super::references::target_of;
use super::resource::missing;
use crate::args::{Target, WriteArgs, field_values};
use crate::client::{Operation, with_query};
use crate::error::Failure;
use crate::kinds::Kind;
use crate::output::{Table, Tone, cell};
use crate::session::{ATTEMPTS, Session, blame, text};

pub(crate) fn switch(session: &Session<'_>, kind: &Kind, matches: &ArgMatches, on: bool) -> Result<(), Failure> {
    let switches = kind.switches().unwrap_or_default();
    let values: Map<String, Value> = switches
        .into_iter()
        .map(|(name, off)| (name.to_owned(), (off != on).into()))
        .collect();
    edit(session, kind, matches, |_| Some(values.clone()))
}

pub(crate) fn set(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut values = field_values(&kind.overridable, matches);
    for field in matches.get_many::<String>("clear").into_iter().flatten() {
        if values
            .insert(field.clone(), Value::Null)
            .is_some_and(|value| !value.is_null())
        {
            return Err(Failure::usage(format!("\"{field}\" is both set and cleared")));
        }
    }
    // Clearing what is not set would only remove a null.
    edit(session, kind, matches, |reference| {
        let wanted = values
            .iter()
            .filter(|(name, value)| !value.is_null() || !reference[name.as_str()].is_null());
        let wanted: Map<_, _> = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
        (!wanted.is_empty()).then_some(wanted)
    })
}

pub(crate) fn unpin(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    edit(session, kind, matches, |reference| {
        let pinned = overrides(kind, reference).map(|(name, _)| (name.to_owned(), Value::Null));
        let pinned: Map<_, _> = pinned.collect();
        (!pinned.is_empty()).then_some(pinned)
    })
}

/// The fields that a reference sets against the catalog.
fn overrides<'a>(kind: &'a Kind, reference: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let set = |name: &'a str| {
        reference
            .get(name)
            .filter(|value| !value.is_null())
            .map(|value| (name, value))
    };
    kind.overridable.iter().filter_map(move |field| set(&field.name))
}

fn reference<'a>(kind: &Kind, id: &str, cluster: &'a Value) -> Option<&'a Value> {
    let all = cluster[kind.references.as_deref()?].as_array()?;
    all.iter().find(|reference| reference["id"] == id)
}

/// A cluster, and the version that it was read in.
struct Found {
    cluster: Value,
    etag: String,
}

/// Changes references where they are. The API's `assign` would also make new ones, so each cluster is named with the version
/// in which it was seen to have one; if one of them moved on, everything is read again.
fn edit(
    session: &Session<'_>,
    kind: &Kind,
    matches: &ArgMatches,
    change: impl Fn(&Value) -> Option<Map<String, Value>>,
) -> Result<(), Failure> {
    let (id, target, how) = (id(matches), target_of(matches)?, WriteArgs::read(matches)?);
    let label = format!("{} {id}", kind.command);
    let mut attempt = 1;
    loop {
        let found = find(session, &target, attempt > 1)?;
        let mut operations = Vec::new();
        let mut assigned = 0;
        for Found { cluster, etag } in &found {
            let name = text(&cluster["id"]);
            match reference(kind, id, cluster) {
                Some(reference) => {
                    assigned += 1;
                    if let Some(value) = change(reference) {
                        let body = json!({
                            "op": "assign", "kind": kind.name, "id": id, "cluster": name, "value": value, "if_match": etag,
                        });
                        operations.push(Operation::new(format!("{label} on {name}"), body));
                    }
                }
                None if matches!(target, Target::Clusters(_)) => {
                    return Err(not_assigned(session, kind, id, &format!("to {name}"))?);
                }
                None => {}
            }
        }
        if assigned == 0 {
            return Err(not_assigned(session, kind, id, "to any of these clusters")?);
        }
        if operations.is_empty() {
            return session.show_unchanged(&how);
        }
        match session.write(&operations, &how) {
            Ok(outcome) => return session.show(&outcome),
            Err(error) if error.is("stale") && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(blame(&operations, error)),
        }
    }
}

fn not_assigned(session: &Session<'_>, kind: &Kind, id: &str, place: &str) -> Result<Failure, Failure> {
    // A definition that does not exist is the better reason.
    session
        .client
        .resource(&kind.name, id)
        .map_err(|error| missing(error.into(), kind))?;
    let failure = Failure::refused(format!("{} {id} is not assigned {place}", kind.command));
    Ok(failure.hint(format!(
        "`{} assign {id}` assigns it, with overrides if you like",
        kind.command
    )))
}

/// The clusters of a target. A version is a digest of the document, so a list gives all of them at once; should a server
/// count versions otherwise, the second attempt asks for each.
fn find(session: &Session<'_>, target: &Target, exactly: bool) -> Result<Vec<Found>, Failure> {
    let ids = match target {
        Target::Clusters(ids) => ids.clone(),
        Target::Selector(selector) => {
            let list = session.client.get(&with_query(
                &format!("/{CLUSTERS}"),
                [("selector", Some(selector.clone()))],
            ))?;
            let Value::Array(clusters) = list else {
                return Ok(Vec::new());
            };
            if !exactly {
                let version = |cluster: &Value| Etag::of(&Json::new(cluster)).to_string();
                return Ok(clusters
                    .into_iter()
                    .map(|cluster| Found {
                        etag: version(&cluster),
                        cluster,
                    })
                    .collect());
            }
            clusters.iter().map(|cluster| text(&cluster["id"]).to_owned()).collect()
        }
    };
    let mut found = Vec::new();
    for id in ids {
        let hinted = |error| Failure::from(error).or_hint(|| "`cluster list` shows the clusters".to_owned());
        let one = session.client.resource(CLUSTERS, &id).map_err(hinted)?;
        found.push(Found {
            cluster: one.value,
            etag: one.etag,
        });
    }
    Ok(found)
}

/// Every override in the fleet, beside what the catalog says.
pub(crate) fn pins(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let only = matches.get_one::<String>("id");
    if let Some(id) = only {
        session
            .client
            .resource(&kind.name, id)
            .map_err(|error| missing(error.into(), kind))?;
    }
    let selector = matches.get_one::<String>("selector").cloned();
    let definitions = session.client.get(&format!("/{}", kind.name))?;
    let definitions: BTreeMap<&str, &Value> = definitions
        .as_array()
        .into_iter()
        .flatten()
        .map(|definition| (text(&definition["id"]), definition))
        .collect();
    let clusters = session
        .client
        .get(&with_query(&format!("/{CLUSTERS}"), [("selector", selector)]))?;
    let mut pins = Vec::new();
    for cluster in clusters.as_array().into_iter().flatten() {
        let array = kind.references.as_deref().unwrap_or_default();
        for reference in cluster[array].as_array().into_iter().flatten() {
            let id = text(&reference["id"]);
            if only.is_some_and(|only| only != id) {
                continue;
            }
            for (field, value) in overrides(kind, reference) {
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
        pins.iter()
            .map(|pin| format!("{CLUSTERS}/{}", text(&pin["cluster"])))
            .collect()
    };
    session.printer.print(&Value::Array(pins.clone()), table, names)
}
