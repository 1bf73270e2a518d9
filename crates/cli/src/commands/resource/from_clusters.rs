//! `profile from-clusters`: proposes the profile that some clusters share.

use clap::{Arg, ArgMatches, Command};
use fleet::kind::{CLUSTERS, PROFILES};
use fleet::profile::{Array, propose};
use serde_json::Value;

use super::{Verb, matching};
use crate::args::target::{selector_arg, target_selector};
use crate::commands::export;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::plan::clusters as counted;
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "from-clusters",
    command,
    run,
};

const EXAMPLES: &str = "\
Nothing is written. To apply what is proposed, with its plan first:
  flux-resourceset-cli profile from-clusters -l environment=prod | flux-resourceset-cli apply -f -

Examples:
  flux-resourceset-cli profile from-clusters -l environment=prod
  flux-resourceset-cli profile from-clusters -l 'team=payments' --id payments --priority 10";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let id = Arg::new("profile").long("id").value_name("ID");
    let priority = Arg::new("priority")
        .long("priority")
        .value_name("N")
        .allow_negative_numbers(true)
        .value_parser(clap::value_parser!(i64).range(-1000..=1000));
    let selector = selector_arg("The clusters, and the selector of the profile")
        .value_parser(target_selector)
        .required(true);
    let command = command
        .about("Propose the profile that clusters share, and their documents without it")
        .long_about(
            "Propose the profile that clusters share, and their documents without it.\n\nWhat every cluster that the selector matches \
             has in common moves to the profile; the rest stays on the clusters. Applied together, no cluster gets anything else than \
             before, but for the order of its inputs.",
        )
        .after_help(EXAMPLES)
        .arg(selector)
        .arg(id.help("The id of the profile; by default, made from the selector"))
        .arg(priority.help("Its priority; by default, above every other profile, as what is on clusters is"));
    (kind.name == PROFILES).then_some(command)
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let selector = matches.get_one::<String>("selector").cloned().unwrap_or_default();
    let id = matches.get_one::<String>("profile").cloned();
    let id = id.unwrap_or_else(|| name_of(&selector));
    if session.client.find(&kind.name, &id)?.is_some() {
        let failure = Failure::refused(format!("profile {id} exists already"));
        return Err(failure.hint("name another with --id"));
    }
    let documents: Vec<Value> = matching(session, &selector)?
        .into_iter()
        .map(|found| found.value)
        .collect();
    let priority = match matches.get_one::<i64>("priority") {
        Some(priority) => *priority,
        None => above_all(session)?,
    };
    let arrays: Vec<Array> = session.kinds()?.iter().filter_map(array).collect();
    let Some(proposal) = propose(&arrays, &id, &selector, priority, &documents) else {
        let failure = Failure::refused(format!("{} have nothing in common", counted(documents.len() as u64)));
        return Err(failure.hint("select fewer clusters, or write the profile by hand"));
    };
    let count = proposal.clusters.len() as u64;
    session.printer.hint(&format!(
        "a profile for {}; nothing is written: pipe this to `apply -f -`",
        counted(count)
    ));
    let clusters = proposal
        .clusters
        .into_iter()
        .map(|cluster| (CLUSTERS.to_owned(), cluster));
    let all: Vec<export::Exported> = std::iter::once((PROFILES.to_owned(), proposal.profile))
        .chain(clusters)
        .collect();
    export::print(session, &all)
}

fn array(kind: &Kind) -> Option<Array> {
    Some(Array {
        name: kind.references.clone()?,
        carried: kind.carried.iter().map(|field| field.name.clone()).collect(),
    })
}

/// What is on a cluster beats every profile, so what takes its place must, too.
fn above_all(session: &Session<'_>) -> Result<i64, Failure> {
    let profiles = session.client.get(&format!("/{PROFILES}"))?;
    let priorities = profiles.as_array().into_iter().flatten();
    let highest = priorities
        .map(|profile| profile["priority"].as_i64().unwrap_or_default())
        .max();
    match highest {
        None => Ok(0),
        Some(highest) if highest < 1000 => Ok((highest + 1).max(0)),
        Some(_) => {
            let failure = Failure::refused("another profile has the highest priority, 1000");
            Err(failure.hint("give one with --priority, and look at the plan"))
        }
    }
}

/// An id made from a selector: `environment=prod` gives environment-prod.
fn name_of(selector: &str) -> String {
    let words = selector
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let name = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    let name: String = name.chars().take(63).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() {
        "all".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_gives_a_name() {
        assert_eq!(name_of("environment=prod"), "environment-prod");
        assert_eq!(name_of("team in (a,b),!Canary"), "team-in-a-b-canary");
        assert_eq!(name_of("*"), "all");
        assert_eq!(name_of(&"a".repeat(80)).len(), 63);
    }
}
