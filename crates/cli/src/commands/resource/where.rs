//! `KIND where`.

use clap::{Arg, ArgMatches, Command};
use fleet::kind::CLUSTERS;
use fleet::nearest::did_you_mean;
use serde_json::Value;

use super::usages::{add_states, all_usages, say_unmatched, table, usages, version_fields};
use super::{Verb, id_arg, noun};
use crate::args::target::selector_arg;
use crate::cli::{NAME, family_name};
use crate::error::Failure;
use crate::kinds::{Field, Kind, Kinds, free_flag};
use crate::output::cell;
use crate::session::{Session, text};

pub(super) const VERB: Verb = Verb {
    name: "where",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    kind.references.as_ref()?;
    let about = format!(
        "List the clusters that have a {}, with effective values and states",
        noun(kind)
    );
    let filters = filters(kind);
    let mut command = command
        .about(about)
        .arg(id_arg(kind).required(filters.is_empty()))
        .arg(selector_arg("Only clusters that match"));
    for field in &filters {
        let filter = Arg::new(format!("filter:{}", field.name)).long(flag(field));
        let help = format!("Only where the effective {} is this", field.name);
        command = command.arg(filter.value_name("VALUE").help(help));
    }
    if let Some(version) = version(kind) {
        let help = format!(
            "Only where the effective {} is this, as `versions` counts it",
            version.name
        );
        let arg = Arg::new("any-version").long("version").value_name("VERSION");
        command = command
            .arg(arg.help(help).conflicts_with(format!("filter:{}", version.name)))
            .after_help(examples(kind, version));
    }
    Some(command)
}

/// The field that `--version` is about; none if a field has this flag itself.
fn version(kind: &Kind) -> Option<&Field> {
    let is_taken = filters(kind).iter().any(|field| flag(field) == "version");
    version_fields(kind).into_iter().next().filter(|_| !is_taken)
}

fn flag(field: &Field) -> String {
    free_flag(field.name.replace('_', "-"))
}

fn examples(kind: &Kind, version: &Field) -> String {
    let (command, flag) = (format!("{NAME} {}", family_name(kind)), flag(version));
    format!(
        "Without an id, a value finds every {} that has it.\n\nExamples:\n  {command} where ID\n  {command} where ID \
         --version 6.7.0 -l environment=prod\n  {command} where --{flag} v1.2.3",
        noun(kind)
    )
}

/// The fields that have a flag: those that differ from cluster to cluster, and versions.
fn filters(kind: &Kind) -> Vec<&Field> {
    let mut fields: Vec<&Field> = kind.overridable.iter().chain(&kind.carried).collect();
    for field in version_fields(kind) {
        if fields.iter().all(|known| known.name != field.name) {
            fields.push(field);
        }
    }
    fields.retain(|field| field.is_scalar());
    fields
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let selector = matches.get_one::<String>("selector").map(String::as_str);
    let tests = tests(kind, matches);
    let id = matches.get_one::<String>("id");
    let all = match id {
        Some(id) => match usages(session, kind, id, selector)? {
            Value::Array(all) => all,
            _ => Vec::new(),
        },
        None if tests.is_empty() => {
            return Err(Failure::usage(format!("name a {}, or a value to look for", noun(kind))));
        }
        None => all_usages(session, kind, selector)?,
    };
    say_unmatched(session, &all, selector);
    let mut found: Vec<Value> = all
        .iter()
        .filter(|usage| tests.iter().all(|test| test.holds(usage)))
        .cloned()
        .collect();
    add_states(session, kind, id.map(String::as_str), selector, &mut found);
    if found.is_empty() {
        say_why(session, &all, &tests);
    }
    session.printer.print(
        &Value::Array(found.clone()),
        |wide| table(kind, &found, id.is_none(), wide),
        || {
            let clusters = found.iter().map(|usage| text(&usage["cluster"]));
            clusters.map(|cluster| format!("{CLUSTERS}/{cluster}")).collect()
        },
    )
}

/// A value that a usage must have in a field.
struct Test {
    field: String,
    wanted: String,
}

impl Test {
    fn holds(&self, usage: &Value) -> bool {
        self.value(usage) == self.wanted
    }

    fn value(&self, usage: &Value) -> String {
        cell(&usage["values"][self.field.as_str()])
    }
}

fn tests(kind: &Kind, matches: &ArgMatches) -> Vec<Test> {
    let given = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
    let versions = version(kind).map(|field| (field, "any-version".to_owned()));
    let filters = filters(kind)
        .into_iter()
        .map(|field| (field, format!("filter:{}", field.name)));
    let tests = filters.chain(versions).filter_map(|(field, arg)| {
        let field = field.name.clone();
        given(&arg).map(|wanted| Test { field, wanted })
    });
    tests.collect()
}

/// A value that is nowhere may be misspelt.
fn say_why(session: &Session<'_>, all: &[Value], tests: &[Test]) {
    let nowhere = tests.iter().find(|test| !all.iter().any(|usage| test.holds(usage)));
    let Some(test) = nowhere.filter(|_| !all.is_empty()) else {
        return;
    };
    let known: Vec<String> = all.iter().map(|usage| test.value(usage)).collect();
    let like = did_you_mean(&test.wanted, known.iter().map(String::as_str));
    let like = like.map(|like| format!("; {like}")).unwrap_or_default();
    let field = &test.field;
    session
        .printer
        .hint(&format!("no cluster has {field} \"{}\"{like}", test.wanted));
}
