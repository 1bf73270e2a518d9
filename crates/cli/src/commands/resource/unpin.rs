//! `KIND unpin`.

use clap::{ArgMatches, Command};
use serde_json::{Map, Value};

use super::{Verb, edit_references, noun, on_clusters};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "unpin",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    if kind.overridable.is_empty() {
        return None;
    }
    let about = format!(
        "Clear every override of a {}: the catalog's values apply again",
        noun(kind)
    );
    on_clusters(command, kind, about)
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    edit_references::edit(session, kind, matches, |reference| {
        let pinned = edit_references::overrides(kind, reference).map(|(name, _)| (name.to_owned(), Value::Null));
        let pinned: Map<_, _> = pinned.collect();
        (!pinned.is_empty()).then(|| pinned.into())
    })
}
