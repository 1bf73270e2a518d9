//! Completion of values. Errors are silent: a shell has no place to show them.

use std::env;
use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use fleet::kind::CLUSTERS;

use crate::client::Client;
use crate::config::Access;
use crate::kinds::Kinds;
use crate::session::text;

/// Completes ids of a kind.
pub(crate) fn ids(kind: &str) -> ArgValueCompleter {
    let kind = kind.to_owned();
    ArgValueCompleter::new(move |current: &OsStr| starting_with(current, &ids_of(&kind)))
}

/// Completes ids of clusters.
pub(crate) fn cluster_ids() -> ArgValueCompleter {
    ids(CLUSTERS)
}

/// Completes the commands of kinds.
pub(crate) fn kind_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let commands: Vec<String> = kinds().iter().map(|kind| kind.command.clone()).collect();
        starting_with(current, &commands)
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
        let kind = words.nth(1).and_then(|name| kinds.named(&name).cloned());
        let ids = kind.map(|kind| ids_of(&kind.name)).unwrap_or_default();
        starting_with(current, &ids)
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
    Access::settle(crate::cli::context_in(&given).as_deref())
        .ok()
        .map(Client::new)
}

fn ids_of(kind: &str) -> Vec<String> {
    let list = client().and_then(|client| client.get(&format!("/{kind}")).ok());
    let items = list.as_ref().and_then(|list| list.as_array()).into_iter().flatten();
    items.map(|item| text(&item["id"]).to_owned()).collect()
}
