//! One file per family of commands.

pub(crate) mod back;
pub(crate) mod changes;
pub(crate) mod complete;
pub(crate) mod components;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod documents;
pub(crate) mod edit;
pub(crate) mod get;
pub(crate) mod inputs;
pub(crate) mod kind;
pub(crate) mod overrides;
pub(crate) mod references;
pub(crate) mod render;
pub(crate) mod resource;

use clap::ArgMatches;

use crate::error::Failure;
use crate::kinds::Kind;
use crate::session::Session;

/// A command of a kind's family.
pub(crate) fn run(session: &Session<'_>, kind: &Kind, verb: &str, matches: &ArgMatches) -> Result<(), Failure> {
    match verb {
        "list" => resource::list(session, kind, matches),
        "get" => resource::get(session, kind, matches),
        "create" => resource::create(session, kind, matches),
        "update" => resource::update(session, kind, matches),
        "delete" => resource::delete(session, kind, matches),
        "diagnostics" => resource::diagnostics(session, matches),
        "edit" => edit::run(session, kind, id(matches), &crate::args::WriteArgs::read(matches)?),
        "history" => changes::history(session, &kind.name, id(matches)),
        "assign" => references::assign(session, kind, matches),
        "unassign" => references::unassign(session, kind, matches),
        "patch" => references::patch(session, kind, matches),
        "where" => references::whereabouts(session, kind, matches),
        "enable" => overrides::switch(session, kind, matches, true),
        "disable" => overrides::switch(session, kind, matches, false),
        "override" => overrides::set(session, kind, matches),
        "pins" => overrides::pins(session, kind, matches),
        "unpin" => overrides::unpin(session, kind, matches),
        other => Err(Failure::usage(format!("\"{other}\" is not a command of {}", kind.name))),
    }
}

/// The id that a command is about.
pub(crate) fn id(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("id").map(String::as_str).unwrap_or_default()
}
