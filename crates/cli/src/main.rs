//! The command line of flux-resourceset: how operators, CI jobs and demos use the API.

mod args;
mod client;
mod commands;
mod components;
mod config;
mod consent;
mod error;
mod kinds;
mod output;
mod plan;
mod saved;
mod session;

use std::env;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches as _};
use serde_json::json;

use crate::args::{Global, Static};
use crate::client::Client;
use crate::commands::{
    back, changes, complete, components as repository, config as contexts, demo, documents, edit, get, inputs, kind,
    render,
};
use crate::config::Access;
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::{Printer, Table, Tone};
use crate::session::Session;

fn main() -> ExitCode {
    if complete::serve() {
        return ExitCode::SUCCESS;
    }
    let given: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match first_word(&given) {
        Some(word) if args::is_static(word) => run_static(&given),
        _ => run_with_kinds(&given),
    }
}

/// The first word that is no flag: the command. What flags mean is known only for those that may stand before it.
fn first_word(given: &[String]) -> Option<&str> {
    let mut rest = given.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--context" | "-o" | "--output" => {
                rest.next();
            }
            flag if flag.starts_with('-') => {}
            word => return Some(word),
        }
    }
    None
}

/// The context that a line names, before the line is understood: what it means may depend on the server's kinds.
pub(crate) fn context_in(given: &[String]) -> Option<String> {
    let mut rest = given.iter();
    while let Some(word) = rest.next() {
        if word == "--context" {
            return rest.next().cloned();
        }
        if let Some(name) = word.strip_prefix("--context=") {
            return Some(name.to_owned());
        }
    }
    None
}

/// A command of ours: no kinds are needed to understand it.
fn run_static(given: &[String]) -> ExitCode {
    let matches = match args::root().try_get_matches_from(given) {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    let (printer, global) = match globals(&matches) {
        Ok(found) => found,
        Err(error) => return usage(&error),
    };
    let command = match Static::from_arg_matches(&matches) {
        Ok(command) => command,
        Err(error) => return usage(&error),
    };
    finish(&printer, dispatch(&printer, &global, command))
}

fn dispatch(printer: &Printer, global: &Global, command: Static) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let remote = |run: &dyn Fn(&Session<'_>) -> Result<(), Failure>| with_session(printer, global, run);
    match command {
        Static::Get(args) => remote(&|session| get::run(session, &args)),
        Static::Plan(args) => remote(&|session| documents::plan(session, &args)),
        Static::Apply(args) => remote(&|session| documents::apply(session, &args)),
        Static::Diff(args) => {
            let differs = with_session(printer, global, |session| documents::diff(session, &args))?;
            return Ok(ExitCode::from(u8::from(differs)));
        }
        Static::Rollback(args) => remote(&|session| back::rollback(session, &args)),
        Static::Undo(args) => remote(&|session| back::undo(session, &args)),
        Static::Export(args) => remote(&|session| documents::export(session, &args)),
        Static::Delete(args) => remote(&|session| documents::delete(session, &args)),
        Static::Edit(args) => remote(&|session| edit::run_static(session, &args)),
        Static::Changes(args) => remote(&|session| changes::run(session, &args)),
        Static::History(args) => remote(&|session| changes::run_history(session, &args)),
        Static::Inputs(args) => remote(&|session| inputs::run(session, &args)),
        Static::Render(args) => match args.offline() {
            Some(file) => render::from_files(printer, &args, file),
            None => remote(&|session| render::of_cluster(session, &args)),
        },
        Static::Kind(command) => remote(&|session| kind::run(session, &command)),
        Static::Demo(command) => remote(&|session| demo::run(session, &command)),
        Static::Components(command) => {
            let fine = repository::run(printer, global, &command)?;
            return Ok(ExitCode::from(u8::from(!fine)));
        }
        Static::Config(command) => contexts::run(printer, command),
        Static::Completion(args) => complete::completion(printer, &args),
        Static::Man(args) => complete::man(printer, &args),
        Static::Version => version(printer),
        Static::Docs => complete::docs(printer),
    }
    .map(done)
}

fn with_session<T>(
    printer: &Printer,
    global: &Global,
    run: impl FnOnce(&Session<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let client = Client::new(Access::settle(global.context.as_deref())?);
    run(&Session::new(&client, printer, None))
}

fn version(printer: &Printer) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let mut all = json!({ "version": version });
    let build = [("commit", env!("COMMIT")), ("commit_date", env!("COMMIT_DATE"))];
    for (name, value) in build.into_iter().filter(|(_, value)| !value.is_empty()) {
        all[name] = value.into();
    }
    let mut table = Table::default();
    table.line(format!("{} {}", args::NAME, env!("VERSION")), Tone::Plain);
    printer.print(&all, |_| table, || vec![version.to_owned()])
}

/// A command of a kind, or none, or help: the server says which kinds there are, and help does without it if need be.
fn run_with_kinds(given: &[String]) -> ExitCode {
    let access = Access::settle(context_in(given).as_deref());
    let (client, loaded) = match access {
        Ok(access) => {
            let client = Client::new(access);
            let loaded = Kinds::load(&client).map_err(Failure::from);
            (Some(client), loaded)
        }
        Err(failure) => (None, Err(failure)),
    };
    let (kinds, failure) = match loaded {
        Ok(kinds) => (kinds, None),
        Err(failure) => (
            Kinds::remembered(client.as_ref().and_then(|client| client.url().ok())),
            Some(failure),
        ),
    };
    let matches = match args::full(&kinds).try_get_matches_from(given) {
        Ok(matches) => matches,
        // The word may well be a kind of the server that could not be asked.
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand && failure.is_some() => {
            return finish(&Printer::new(None), failure.map_or(Ok(ExitCode::SUCCESS), Err));
        }
        Err(error) => return usage(&error),
    };
    let printer = match globals(&matches) {
        Ok((printer, _)) => printer,
        Err(error) => return usage(&error),
    };
    let outcome = match (client, failure, matches.subcommand()) {
        (Some(client), None, Some((family, matches))) => {
            let kind = kinds.iter().find(|kind| args::family_name(kind) == family).cloned();
            let session = Session::new(&client, &printer, Some(kinds));
            match (kind, matches.subcommand()) {
                (Some(kind), Some((verb, matches))) => commands::run(&session, &kind, verb, matches),
                _ => Err(Failure::usage(format!("\"{family}\" is not a command"))),
            }
        }
        (_, Some(failure), _) => Err(failure),
        _ => Err(Failure::usage("a command is expected")),
    };
    finish(&printer, outcome.map(|()| ExitCode::SUCCESS))
}

fn globals(matches: &ArgMatches) -> Result<(Printer, Global), clap::Error> {
    let global = Global::from_arg_matches(matches)?;
    Ok((Printer::new(global.output.clone()), global))
}

fn usage(error: &clap::Error) -> ExitCode {
    // Help goes to stdout with code 0, everything else to stderr with code 2.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn finish(printer: &Printer, outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            printer.failure(&failure);
            ExitCode::from(failure.code as u8)
        }
    }
}
