//! `KIND exclude`: takes out on clusters what profiles bring to them.

use clap::{ArgMatches, Command};
use serde_json::Map;

use super::{Verb, assign, noun, on_clusters};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "exclude",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = format!(
        "Take a {} that profiles bring out of clusters; `assign` brings it back",
        noun(kind)
    );
    on_clusters(command, kind, about)
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let excluded = Map::from_iter([("excluded".to_owned(), true.into())]);
    assign::write(session, kind, matches, excluded)
}
