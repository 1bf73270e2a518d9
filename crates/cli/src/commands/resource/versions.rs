//! `KIND versions`: how many clusters have which version.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};
use serde_json::{Value, json};

use super::usages::{all_usages, say_unmatched, usages, version_fields, with_id};
use super::{Verb, id_arg, noun};
use crate::args::target::selector_arg;
use crate::cli::{NAME, family_name};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, text};

pub(super) const VERB: Verb = Verb {
    name: "versions",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    kind.references.as_ref()?;
    let fields = version_fields(kind);
    let field = fields.first()?;
    let noun = noun(kind);
    let about = format!(
        "Count the clusters that have each version of a {noun}: the effective {}",
        field.name
    );
    let command = command.about(about).arg(id_arg(kind).required(false));
    Some(
        command
            .arg(selector_arg("Only clusters that match"))
            .after_help(format!(
                "Examples:\n  {NAME} {0} versions\n  {NAME} {0} versions ID -l environment=prod",
                family_name(kind)
            )),
    )
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let selector = matches.get_one::<String>("selector").map(String::as_str);
    let all = match matches.get_one::<String>("id") {
        Some(id) => match usages(session, kind, id, selector)? {
            Value::Array(all) => all.into_iter().map(|usage| with_id(id, usage)).collect(),
            _ => Vec::new(),
        },
        None => all_usages(session, kind, selector)?,
    };
    say_unmatched(session, &all, selector);
    let Some(field) = version_fields(kind).first().map(|field| field.name.clone()) else {
        return Err(Failure::usage(format!("{} have no versions", kind.name)));
    };
    let versions = count(&all, &field);
    let table = |_| {
        let mut table = Table::new(["id", "version", "clusters", "share", "environments"]);
        for version in &versions {
            let cells = [
                cell(&version["id"]),
                cell(&version["version"]),
                cell(&version["clusters"]),
                format!("{}%", percent(version)),
                environments(version),
            ];
            table.row(cells.map(|text| (text, Tone::Plain)));
        }
        table
    };
    let names = || {
        versions
            .iter()
            .map(|version| format!("{}/{}", kind.name, text(&version["id"])))
            .collect()
    };
    session.printer.print(&json!(versions), table, names)
}

/// One entry for each version of each definition, the most frequent first.
fn count(usages: &[Value], field: &str) -> Vec<Value> {
    let mut ids: BTreeMap<&str, BTreeMap<String, BTreeMap<&str, u64>>> = BTreeMap::new();
    for usage in usages {
        let versions = ids.entry(text(&usage["id"])).or_default();
        let environments = versions.entry(cell(&usage["values"][field])).or_default();
        *environments.entry(text(&usage["environment"])).or_default() += 1;
    }
    let mut all = Vec::new();
    for (id, versions) in ids {
        let total: u64 = versions.values().flat_map(BTreeMap::values).sum();
        let mut entries: Vec<(u64, String, BTreeMap<&str, u64>)> = versions
            .into_iter()
            .map(|(version, environments)| (environments.values().sum(), version, environments))
            .collect();
        entries.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        all.extend(entries.into_iter().map(|(clusters, version, environments)| {
            let share = (clusters as f64 / total as f64 * 1000.0).round() / 1000.0;
            json!({"id": id, "version": version, "clusters": clusters, "share": share, "environments": environments})
        }));
    }
    all
}

fn percent(version: &Value) -> String {
    let percent = (version["share"].as_f64().unwrap_or_default() * 1000.0).round() / 10.0;
    format!("{percent}")
}

fn environments(version: &Value) -> String {
    let counts = version["environments"].as_object().into_iter().flatten();
    counts
        .map(|(name, count)| format!("{count} {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_counted_for_each_definition() {
        let usage = |id: &str, tag: &str, tier: &str| json!({"id": id, "environment": tier, "values": {"tag": tag}});
        let all = [
            usage("p", "v2", "dev"),
            usage("p", "v1", "dev"),
            usage("p", "v1", "prod"),
            usage("a", "v1", "dev"),
        ];
        assert_eq!(
            json!(count(&all, "tag")),
            json!([
                {"id": "a", "version": "v1", "clusters": 1, "share": 1.0, "environments": {"dev": 1}},
                {"id": "p", "version": "v1", "clusters": 2, "share": 0.667, "environments": {"dev": 1, "prod": 1}},
                {"id": "p", "version": "v2", "clusters": 1, "share": 0.333, "environments": {"dev": 1}},
            ])
        );
    }
}
