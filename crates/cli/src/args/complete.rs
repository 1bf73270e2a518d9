//! Completion of values. Errors are silent: a shell has no place to show them.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use fleet::kind::CLUSTERS;
use fleet::status::State;

use super::Chosen;
use crate::client::Client;
use crate::config::Access;
use crate::kinds::Kinds;
use crate::session::text;

/// Completes ids of a kind.
pub(crate) fn ids(kind: &str) -> ArgValueCompleter {
    let kind = kind.to_owned();
    ArgValueCompleter::new(move |current: &OsStr| {
        // The kind may stand before the id, as in `cluster get clusters/demo-cluster-01`.
        let prefix = current.to_string_lossy();
        let prefix = prefix
            .split_once('/')
            .map(|(kind, _)| format!("{kind}/"))
            .unwrap_or_default();
        let ids: Vec<String> = ids_of(&kind).into_iter().map(|id| prefix.clone() + &id).collect();
        starting_with(current, &ids)
    })
}

/// Completes ids of clusters.
pub(crate) fn cluster_ids() -> ArgValueCompleter {
    ids(CLUSTERS)
}

/// Completes output formats.
pub(crate) fn formats() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let formats = ["json", "yaml", "name", "table", "wide", "jsonpath=", "custom-columns="];
        starting_with(current, &formats.map(str::to_owned))
    })
}

/// Completes states.
pub(crate) fn states() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting_with(current, &State::ALL.map(|state| state.name().to_owned())))
}

/// Completes the commands of kinds.
pub(crate) fn kind_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let commands: Vec<String> = kinds().iter().map(|kind| kind.command.clone()).collect();
        starting_with(current, &commands)
    })
}

/// Completes the commands of kinds; after a slash, the ids: `cluster/demo-cluster-01`.
pub(crate) fn resources() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let kinds = kinds();
        let current = current.to_string_lossy();
        let names: Vec<String> = match current.split_once('/') {
            None => kinds.iter().map(|kind| kind.command.clone()).collect(),
            Some((prefix, _)) => {
                let ids = kinds.named(prefix).map(|kind| ids_of(&kind.name)).unwrap_or_default();
                ids.iter().map(|id| format!("{prefix}/{id}")).collect()
            }
        };
        starting_with(OsStr::new(&*current), &names)
    })
}

/// Completes selectors: the keys, and after `=` the values, of the last requirement.
pub(crate) fn selectors() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let current = current.to_string_lossy();
        let (before, last) = match current.rfind(',') {
            Some(at) => current.split_at(at + 1),
            None => ("", &*current),
        };
        let list = client().and_then(|client| client.get(&format!("/{CLUSTERS}")).ok());
        let clusters = list.as_ref().and_then(|list| list.as_array()).into_iter().flatten();
        let mut found = BTreeSet::new();
        for cluster in clusters {
            let labels = cluster["labels"].as_object().into_iter().flatten();
            let tier = ("environment", &cluster["environment"]);
            for (key, value) in labels.map(|(key, value)| (key.as_str(), value)).chain([tier]) {
                found.insert(match last.contains('=') {
                    true => format!("{before}{key}={}", text(value)),
                    false => format!("{before}{key}="),
                });
            }
        }
        let found: Vec<String> = found.into_iter().collect();
        starting_with(OsStr::new(&*current), &found)
    })
}

/// Completes ids of the kind that the line names: the second word, as in `get KIND ID`.
pub(crate) fn ids_of_the_kind() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let line = env::args_os()
            .filter_map(|arg| arg.into_string().ok())
            .skip_while(|arg| arg != "--")
            .skip(1);
        let mut words = line.skip(1).filter(|word| !word.starts_with('-'));
        let kinds = kinds();
        let kind = words.nth(1).unwrap_or_default();
        let current = current.to_string_lossy();
        let (named, prefix) = match current.split_once('/') {
            Some((prefix, _)) => (prefix, format!("{prefix}/")),
            None => (kind.as_str(), String::new()),
        };
        let ids = kinds.named(named).map(|kind| ids_of(&kind.name)).unwrap_or_default();
        let ids: Vec<String> = ids.into_iter().map(|id| prefix.clone() + &id).collect();
        starting_with(OsStr::new(&*current), &ids)
    })
}

pub(crate) fn starting_with(current: &OsStr, all: &[String]) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    all.iter()
        .filter(|one| one.starts_with(&*current))
        .map(CompletionCandidate::new)
        .collect()
}

/// The kinds of the server, or those that are known without it.
pub(crate) fn kinds() -> Kinds {
    let client = client();
    let loaded = client.as_ref().and_then(|client| Kinds::load(client).ok());
    loaded.unwrap_or_else(|| Kinds::remembered(client.as_ref().and_then(|client| client.url().ok())))
}

/// A client for the context that the line names so far.
fn client() -> Option<Client> {
    let given: Vec<String> = env::args_os().filter_map(|arg| arg.into_string().ok()).collect();
    Access::settle(&Chosen::in_line(&given)).ok().map(Client::new)
}

fn ids_of(kind: &str) -> Vec<String> {
    let list = client().and_then(|client| client.get(&format!("/{kind}")).ok());
    let items = list.as_ref().and_then(|list| list.as_array()).into_iter().flatten();
    items.map(|item| text(&item["id"]).to_owned()).collect()
}
