//! The resources that a command of a kind is for: one id, several, or the clusters that a selector matches. What reaches several
//! resources is one revision.

use clap::{ArgGroup, ArgMatches, Command};
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::CLUSTERS;
use fleet::selector::Selector;
use serde_json::Value;

use super::{ids, ids_arg};
use crate::args::switch;
use crate::args::target::{selector_arg, target_selector};
use crate::client::with_query;
use crate::error::{Failure, Subject};
use crate::kinds::Kind;
use crate::session::{Session, missing, text};

/// The resources that a command is for.
#[derive(Clone, Debug)]
pub(crate) enum Chosen {
    Ids(Vec<String>),
    /// Only of clusters.
    Selector(String),
}

/// A resource, and its version.
pub(crate) struct Found {
    pub(crate) value: Value,
    pub(crate) etag: String,
}

impl Found {
    pub(crate) fn id(&self) -> &str {
        text(&self.value["id"])
    }
}

impl Chosen {
    /// What a command line chooses.
    pub(super) fn read(kind: &Kind, matches: &ArgMatches) -> Chosen {
        match kind.name == CLUSTERS {
            true => Chosen::selected(matches).unwrap_or_else(|| Chosen::Ids(ids(matches))),
            false => Chosen::Ids(ids(matches)),
        }
    }

    /// The selector of a command line, if it has one.
    pub(super) fn selected(matches: &ArgMatches) -> Option<Chosen> {
        match matches.get_flag("all") {
            true => Some(Chosen::Selector("*".to_owned())),
            false => matches.get_one::<String>("selector").cloned().map(Chosen::Selector),
        }
    }

    /// The resources as they are. A selector must match at least one.
    pub(crate) fn find(&self, session: &Session<'_>, kind: &Kind) -> Result<Vec<Found>, Failure> {
        match self {
            Chosen::Ids(ids) => {
                let one = |id: &String| {
                    let found = session.client.resource(&kind.name, id);
                    let found = found.map_err(|error| missing(error.into(), kind, id))?;
                    let (value, etag) = (found.value, found.etag);
                    Ok(Found { value, etag })
                };
                ids.iter().map(one).collect()
            }
            Chosen::Selector(selector) => matching(session, selector),
        }
    }
}

/// The clusters that a selector matches; at least one. The version of a cluster is the digest of its document.
pub(crate) fn matching(session: &Session<'_>, selector: &str) -> Result<Vec<Found>, Failure> {
    let query = [("selector", Some(selector.to_owned()))];
    let found = session.client.get(&with_query(&format!("/{CLUSTERS}"), query))?;
    match found {
        Value::Array(clusters) if !clusters.is_empty() => {
            let versioned = clusters.into_iter().map(|value| Found {
                etag: Etag::of(&Json::new(&value)).to_string(),
                value,
            });
            Ok(versioned.collect())
        }
        _ => {
            // As the server says it.
            let shown = Selector::parse(selector).map_or_else(|_| selector.to_owned(), |selector| selector.to_string());
            let mut failure = Failure::refused(format!("\"{shown}\" matches no cluster"));
            failure.subject = Some(Box::new(Subject::Selector(selector.to_owned())));
            Err(failure)
        }
    }
}

/// The arguments of a command for one resource, several, or selected clusters.
pub(super) fn chosen_args(command: Command, kind: &Kind) -> Command {
    if kind.name != CLUSTERS {
        return command.arg(ids_arg(kind));
    }
    let group = ArgGroup::new("target").args(["id", "selector", "all"]).required(true);
    selection_args(command.arg(ids_arg(kind).required(false))).group(group)
}

/// `--selector` and `--all`.
pub(super) fn selection_args(command: Command) -> Command {
    let selector = selector_arg("The clusters that match: environment=dev, 'team in (a,b)', !canary");
    command
        .arg(selector.value_parser(target_selector))
        .arg(switch("all", "Every cluster of the fleet"))
}
