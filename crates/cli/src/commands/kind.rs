//! `kind`: the kinds themselves.

use clap::{Args, Subcommand};
use fleet::kind::KINDS;
use serde_json::{Value, json};

use crate::args::complete::kind_names;
use crate::args::{Files, WriteArgs, given};
use crate::client::Operation;
use crate::confirm::NAMED_HELP;
use crate::documents;
use crate::error::Failure;
use crate::output::{Table, Tone, cell};
use crate::session::{Session, blame, text};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KindCommand {
    /// List the kinds
    List,
    /// Show the document of a kind
    Get(NameArgs),
    /// Add or change kinds: each has routes, validation, a Flux endpoint and commands
    #[command(after_help = NAMED_HELP)]
    Apply(KindApplyArgs),
    /// Delete a kind that has no resources
    #[command(after_help = NAMED_HELP)]
    Delete(KindDeleteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct NameArgs {
    /// The kind, by any of its names
    #[arg(value_parser = given, add = kind_names())]
    name: String,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct KindApplyArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct KindDeleteArgs {
    /// The kind, by any of its names
    #[arg(value_parser = given, add = kind_names())]
    name: String,
    #[command(flatten)]
    how: WriteArgs,
}

impl KindCommand {
    /// The command that shows one kind.
    pub(crate) fn get(name: &str) -> KindCommand {
        KindCommand::Get(NameArgs { name: name.to_owned() })
    }
}

pub(crate) fn run(session: &Session<'_>, command: &KindCommand) -> Result<(), Failure> {
    match command {
        KindCommand::List => list(session),
        KindCommand::Get(args) => session.printer.value(&session.kinds()?.get(&args.name)?.document),
        KindCommand::Apply(args) => {
            let documents = documents::read(&args.files.filename, args.files.recursive)?;
            if documents.iter().any(|document| document.value.get("schema").is_none()) {
                let failure = Failure::usage("the document of a kind has a `schema`; at least one of these has none");
                return Err(failure.hint("`apply -f` accepts resources and kinds"));
            }
            session.write_and_show(&documents::operations(session, &documents)?, &args.how)
        }
        KindCommand::Delete(args) => {
            let name = &session.kinds()?.get(&args.name)?.name;
            let body = json!({"op": "delete", "kind": KINDS, "id": name});
            let operations = [Operation::new(format!("kind {name}"), body)];
            let outcome = session
                .write(&operations, &args.how)
                .map_err(|error| match error.is("in-use") {
                    true => blame(&operations, error).hint("delete its resources first"),
                    false => blame(&operations, error),
                })?;
            session.show(&outcome)
        }
    }
}

fn list(session: &Session<'_>) -> Result<(), Failure> {
    let kinds = session.kinds()?.iter().map(|kind| {
        json!({
            "name": kind.name, "singular": kind.singular, "command": kind.command, "path": kind.path, "references": kind.references,
            "origin": kind.origin, "description": kind.description,
        })
    });
    let kinds: Vec<Value> = kinds.collect();
    let table = |wide: bool| {
        let mut heading = vec!["name", "command", "path", "origin"];
        if wide {
            heading.extend(["singular", "references", "description"]);
        }
        let mut table = Table::new(&heading);
        for kind in &kinds {
            table.row(heading.iter().map(|name| (cell(&kind[*name]), Tone::Plain)));
        }
        table
    };
    session.printer.print(&Value::Array(kinds.clone()), table, || {
        kinds
            .iter()
            .map(|kind| format!("{KINDS}/{}", text(&kind["name"])))
            .collect()
    })
}
