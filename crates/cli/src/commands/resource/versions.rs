//! `KIND versions`: how many clusters have which version.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};
use serde_json::{Value, json};

use super::usages::{add_states, all_usages, say_unmatched, usages, version_fields, with_id};
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
    let mut all = match matches.get_one::<String>("id") {
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
    add_states(session, kind, None, selector, &mut all);
    let versions = count(&all, &field);
    let table = |_| {
        let mut heading = vec!["id", "version", "clusters", "share", "environments"];
        let with_states = versions.iter().any(|version| version["states"].is_object());
        if with_states {
            heading.extend(["states", "reported"]);
        }
        let mut table = Table::new(heading);
        for version in &versions {
            let mut cells = vec![
                cell(&version["id"]),
                cell(&version["version"]),
                cell(&version["clusters"]),
                format!("{}%", percent(version)),
                counted(&version["environments"]),
            ];
            if with_states {
                cells.extend(["states", "reported"].map(|name| counted(&version[name])));
            }
            table.row(cells.into_iter().map(|text| (text, Tone::Plain)));
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
    let mut ids: BTreeMap<&str, BTreeMap<String, Counted<'_>>> = BTreeMap::new();
    for usage in usages {
        let versions = ids.entry(text(&usage["id"])).or_default();
        versions.entry(cell(&usage["values"][field])).or_default().add(usage);
    }
    let mut all = Vec::new();
    for (id, versions) in ids {
        let total: u64 = versions.values().map(Counted::clusters).sum();
        let mut entries: Vec<(String, Counted<'_>)> = versions.into_iter().collect();
        entries.sort_by(|one, other| {
            let most = other.1.clusters().cmp(&one.1.clusters());
            most.then_with(|| one.0.cmp(&other.0))
        });
        all.extend(
            entries
                .iter()
                .map(|(version, counted)| counted.entry(id, version, total)),
        );
    }
    all
}

/// The clusters that have one version.
#[derive(Debug, Default)]
struct Counted<'a> {
    environments: BTreeMap<&'a str, u64>,
    /// Of those where it is known.
    states: BTreeMap<&'a str, u64>,
    /// The versions that evidence names.
    reported: BTreeMap<&'a str, u64>,
}

impl<'a> Counted<'a> {
    fn add(&mut self, usage: &'a Value) {
        *self.environments.entry(text(&usage["environment"])).or_default() += 1;
        let status = &usage["status"];
        for (counts, value) in [
            (&mut self.states, &status["state"]),
            (&mut self.reported, &status["version"]),
        ] {
            if let Some(name) = value.as_str() {
                *counts.entry(name).or_default() += 1;
            }
        }
    }

    fn clusters(&self) -> u64 {
        self.environments.values().sum()
    }

    fn entry(&self, id: &str, version: &str, total: u64) -> Value {
        let share = (self.clusters() as f64 / total as f64 * 1000.0).round() / 1000.0;
        let mut entry = json!({
            "id": id, "version": version, "clusters": self.clusters(), "share": share, "environments": self.environments,
        });
        if !self.states.is_empty() {
            (entry["states"], entry["reported"]) = (json!(self.states), json!(self.reported));
        }
        entry
    }
}

fn percent(version: &Value) -> String {
    let percent = (version["share"].as_f64().unwrap_or_default() * 1000.0).round() / 10.0;
    format!("{percent}")
}

/// `3 dev, 1 prod`
fn counted(counts: &Value) -> String {
    let all = counts.as_object().into_iter().flatten();
    let all: Vec<_> = all.map(|(name, count)| format!("{count} {name}")).collect();
    match all.is_empty() {
        true => "-".to_owned(),
        false => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_counted_for_each_definition() {
        let usage = |id: &str, tag: &str, tier: &str| json!({"id": id, "environment": tier, "values": {"tag": tag}});
        let mut seen = usage("p", "v1", "prod");
        seen["status"] = json!({"state": "converged", "version": "1.0.0"});
        let all = [
            usage("p", "v2", "dev"),
            usage("p", "v1", "dev"),
            seen,
            usage("a", "v1", "dev"),
        ];
        assert_eq!(
            json!(count(&all, "tag")),
            json!([
                {"id": "a", "version": "v1", "clusters": 1, "share": 1.0, "environments": {"dev": 1}},
                {"id": "p", "version": "v1", "clusters": 2, "share": 0.667, "environments": {"dev": 1, "prod": 1},
                    "states": {"converged": 1}, "reported": {"1.0.0": 1}},
                {"id": "p", "version": "v2", "clusters": 1, "share": 0.333, "environments": {"dev": 1}},
            ])
        );
    }
}
