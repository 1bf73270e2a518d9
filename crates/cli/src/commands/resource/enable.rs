//! `KIND enable` and `KIND disable`.

use clap::{ArgMatches, Command};
use serde_json::{Map, Value};

use super::{Verb, edit_references, noun, on_clusters};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const ENABLE: Verb = Verb {
    name: "enable",
    command: |command, kind: &Kind, _: &Kinds| {
        let about = format!("Turn a {} on, on the clusters that have it", noun(kind));
        command_of(command, kind, about)
    },
    run: |session, kind, matches| switch(session, kind, matches, true),
};

pub(super) const DISABLE: Verb = Verb {
    name: "disable",
    command: |command, kind: &Kind, _: &Kinds| {
        let about = format!(
            "Turn a {} off, on the clusters that have it; Flux removes it there",
            noun(kind)
        );
        command_of(command, kind, about)
    },
    run: |session, kind, matches| switch(session, kind, matches, false),
};

fn command_of(command: Command, kind: &Kind, about: String) -> Option<Command> {
    kind.switches()?;
    on_clusters(command, kind, about)
}

fn switch(session: &Session<'_>, kind: &Kind, matches: &ArgMatches, on: bool) -> Result<(), Failure> {
    let switches = kind.switches().unwrap_or_default();
    let values: Map<String, Value> = switches
        .into_iter()
        .map(|(name, off)| (name.to_owned(), (off != on).into()))
        .collect();
    edit_references::edit(session, kind, matches, |_| Some(values.clone().into()))
}
