//! What clusters have of a kind: assign, unassign, patch, where.

use std::collections::BTreeSet;

use clap::ArgMatches;
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::id;
use super::resource::missing;
use crate::args::{Target, WriteArgs, field_values};
use crate::client::{Operation, encode, with_query};
use crate::error::{ApiError, Failure};
use crate::kinds::Kind;
use crate::output::{Table, Tone, cell};
use crate::session::{Outcome, Session, blame, on_clusters, text};

pub(crate) fn target_of(matches: &ArgMatches) -> Result<Target, Failure> {
    Target::read(matches).ok_or_else(|| Failure::usage("say on which clusters: --cluster, --selector or --all"))
}

pub(crate) fn assign(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut values = field_values(&kind.overridable, matches);
    values.extend(field_values(&kind.carried, matches));
    let mut body = json!({"op": "assign", "kind": kind.name, "id": id(matches)});
    if !values.is_empty() {
        body["value"] = values.into();
    }
    let operations = on_clusters(
        &target_of(matches)?,
        &format!("{} {}", kind.command, id(matches)),
        &body,
    );
    let outcome = session.write(&operations, &WriteArgs::read(matches)?);
    session.show(&outcome.map_err(|error| better_reason(session, kind, id(matches), &operations, error))?)
}

/// A definition that does not exist is not found, though for the server the batch that names it is invalid.
fn better_reason(session: &Session<'_>, kind: &Kind, id: &str, operations: &[Operation], error: ApiError) -> Failure {
    if error.is("invalid")
        && let Err(absent) = session.client.resource(&kind.name, id)
        && absent.is("not-found")
    {
        return missing(absent.into(), kind);
    }
    blame(operations, error)
}

pub(crate) fn unassign(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let id = id(matches);
    let drop = kind.patches && matches.get_flag("drop-patches");
    let how = WriteArgs::read(matches)?;
    let target = target_of(matches)?;
    let mut body = json!({"op": "unassign", "kind": kind.name, "id": id});
    if drop {
        body["drop_patches"] = true.into();
    }
    session.write_and_show(&on_clusters(&target, &format!("{} {id}", kind.command), &body), &how)?;
    if kind.patches && !drop {
        offer_to_drop(session, kind, id, &target)?;
    }
    Ok(())
}

/// Patches outlive the reference, for whoever assigns it again: say so where there are some.
fn offer_to_drop(session: &Session<'_>, kind: &Kind, id: &str, target: &Target) -> Result<(), Failure> {
    let flag = "--drop-patches drops them";
    let count = |cluster: &Value| cluster["patches"][id].as_object().map_or(0, Map::len);
    let clusters = match target {
        Target::Clusters(clusters) => clusters,
        Target::Selector(selector) => {
            let query = [("selector", Some(selector.clone()))];
            let found = session.client.get(&with_query(&format!("/{CLUSTERS}"), query))?;
            let keep = found
                .as_array()
                .into_iter()
                .flatten()
                .filter(|cluster| count(cluster) > 0);
            match keep.count() {
                0 => {}
                keep => session.printer.hint(&format!(
                    "{keep} of these clusters still have patch values for {} {id}; {flag}",
                    kind.command
                )),
            }
            return Ok(());
        }
    };
    for cluster in clusters {
        let document = session.client.get(&format!("/{CLUSTERS}/{}", encode(cluster)))?;
        let count = count(&document);
        if count > 0 {
            session.printer.hint(&format!(
                "{cluster} keeps {count} patch values for {} {id}; {flag}",
                kind.command
            ));
        }
    }
    Ok(())
}

pub(crate) fn patch(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
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
    set_values(
        session,
        kind,
        id(matches),
        &target_of(matches)?,
        set,
        &unset,
        &WriteArgs::read(matches)?,
    )
}

/// Values are stored as strings: that is what templates put into a ConfigMap.
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
    let operations = on_clusters(target, &format!("{} {id}", kind.command), &body);
    let outcome = session.write(&operations, how);
    let outcome = outcome.map_err(|error| better_reason(session, kind, id, &operations, error))?;
    session.show(&outcome)?;
    tell_where_unassigned(session, kind, id, &outcome)
}

/// Values may be there before what they are for. On many clusters at once, that is more often a slip.
fn tell_where_unassigned(session: &Session<'_>, kind: &Kind, id: &str, outcome: &Outcome) -> Result<(), Failure> {
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
    let place = match without.len() {
        1 => format!("{first} does not have {} {id}", kind.command),
        many => format!(
            "{many} of these clusters, {first} among them, do not have {} {id}",
            kind.command
        ),
    };
    let hint = format!("{place}: the values take effect once it is assigned");
    session.printer.hint(&hint);
    Ok(())
}

pub(crate) fn whereabouts(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let id = id(matches);
    let selector = matches.get_one::<String>("selector").cloned();
    let path = with_query(
        &format!("/{}/{}/references", kind.name, encode(id)),
        [("selector", selector)],
    );
    let found = session.client.get(&path).map_err(|error| missing(error.into(), kind))?;
    let usages = found.as_array().map(Vec::as_slice).unwrap_or_default();
    let table = |wide: bool| {
        let fields = kind.overridable.iter().chain(&kind.carried);
        let fields: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
        let mut heading = vec!["cluster", "environment"];
        heading.extend(&fields);
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
            let row = heading.iter().map(|name| match *name {
                "overridden" => (
                    cell(&usage["overridden"]),
                    if overridden.is_empty() {
                        Tone::Plain
                    } else {
                        Tone::Attention
                    },
                ),
                "cluster" | "environment" | "cluster_dns" => (text(&usage[*name]).to_owned(), Tone::Plain),
                field => {
                    let own = overridden.iter().any(|name| name == field);
                    (
                        cell(&usage["values"][field]),
                        if own { Tone::Attention } else { Tone::Plain },
                    )
                }
            });
            table.row(row);
        }
        table
    };
    session.printer.print(&found, table, || {
        usages
            .iter()
            .map(|usage| format!("{CLUSTERS}/{}", text(&usage["cluster"])))
            .collect()
    })
}
