//! Which clusters a command is for: `--cluster`, `--selector` or `--all`.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use fleet::kind::CLUSTERS;
use fleet::selector::{Selector, SelectorError};
use serde_json::Value;

use super::ids::{cluster_id, unique};
use super::{complete, switch};
use crate::client::Operation;
use crate::error::Failure;

/// The clusters that a command is for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Clusters(Vec<String>),
    Selector(String),
}

impl Target {
    /// The target of a command line, if it has one.
    pub(crate) fn find(matches: &ArgMatches) -> Option<Target> {
        if let Some(ids) = matches.get_many::<String>("cluster") {
            return Some(Target::Clusters(unique(ids.cloned().collect())));
        }
        if matches.get_flag("all") {
            return Some(Target::Selector("*".to_owned()));
        }
        matches.get_one::<String>("selector").cloned().map(Target::Selector)
    }

    /// The target of a command line that must have one.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Target, Failure> {
        Target::find(matches).ok_or_else(|| Failure::usage("name the clusters: --cluster, --selector or --all"))
    }

    /// One operation for each named cluster, or one for all clusters that the selector matches.
    pub(crate) fn operations(&self, label: &str, body: &Value) -> Vec<Operation> {
        match self {
            Target::Clusters(ids) => ids
                .iter()
                .map(|cluster| {
                    let mut body = body.clone();
                    body["cluster"] = cluster.as_str().into();
                    Operation::new(format!("{label} on {cluster}"), body)
                })
                .collect(),
            Target::Selector(selector) => {
                let mut body = body.clone();
                body["selector"] = selector.as_str().into();
                vec![Operation::new(label, body)]
            }
        }
    }
}

pub(crate) fn target_args(command: Command, required: bool) -> Command {
    let cluster = Arg::new("cluster")
        .long("cluster")
        .value_name("ID")
        .action(ArgAction::Append)
        .value_parser(cluster_id)
        .add(complete::ids(CLUSTERS));
    let group = ArgGroup::new("target")
        .args(["cluster", "selector", "all"])
        .required(required);
    command
        .arg(cluster.help("On this cluster (can be repeated)"))
        .arg(
            selector_arg("On the clusters that match: environment=dev, 'team in (a,b)', !canary")
                .value_parser(target_selector),
        )
        .arg(switch("all", "On every cluster of the fleet"))
        .group(group)
}

pub(crate) fn selector_arg(help: &'static str) -> Arg {
    Arg::new("selector")
        .short('l')
        .long("selector")
        .value_name("SELECTOR")
        .value_parser(selector)
        .add(complete::selectors())
        .help(help)
}

/// Parses a selector of a command that is for all clusters without one.
pub(crate) fn selector(text: &str) -> Result<String, String> {
    parse(
        text,
        "the selector is empty; leave it out, or use '*', for every cluster",
    )
}

/// Parses a selector of a command that needs a target.
pub(crate) fn target_selector(text: &str) -> Result<String, String> {
    parse(text, "the selector is empty; use --all, or '*', for every cluster")
}

/// Parses the selector of a scope.
pub(crate) fn scope_selector(text: &str) -> Result<String, String> {
    parse(text, "the selector is empty; use '*' for every cluster")
}

/// An empty selector usually comes from an unset shell variable, so it must not select the whole fleet.
fn parse(text: &str, empty: &str) -> Result<String, String> {
    Selector::parse(text).map_err(|error| match error {
        SelectorError::Empty => empty.to_owned(),
        error => error.to_string(),
    })?;
    Ok(text.to_owned())
}

/// The refusal of a selector for a kind that has none.
pub(crate) fn selector_for(kind: &str) -> Failure {
    Failure::usage(format!("--selector applies only to clusters, not to {kind}"))
}
