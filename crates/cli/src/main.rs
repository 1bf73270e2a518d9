//! The command line of flux-resourceset: a client of the API for operators, CI jobs and demos.

mod args;
mod cli;
mod client;
mod commands;
mod components;
mod config;
mod confirm;
mod documents;
mod error;
mod identities;
mod kinds;
mod kubernetes;
mod log;
mod login;
mod offer;
mod output;
mod plan;
mod plan_file;
mod process;
mod scheme;
mod session;
mod status;
mod suggest;
mod tls;
mod view;

use std::env;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches as _};

use crate::args::{Chosen, Global};
use crate::cli::BuiltIn;
use crate::client::Client;
use crate::commands::{completion, resource};
use crate::config::Access;
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::Printer;
use crate::session::Session;

fn main() -> ExitCode {
    if completion::answer() {
        return ExitCode::SUCCESS;
    }
    let given: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match cli::first_word(&given) {
        Some(word) if cli::is_built_in(word) => run_built_in(&given),
        _ => run_with_kinds(&given),
    }
}

/// A built-in command: the line can be parsed without the kinds.
fn run_built_in(given: &[String]) -> ExitCode {
    let parsed = cli::root().try_get_matches_from(given).and_then(|matches| {
        let (printer, global) = globals(&matches)?;
        Ok((printer, global, BuiltIn::from_arg_matches(&matches)?))
    });
    match parsed {
        Ok((printer, global, command)) => finish(&printer, commands::run(&printer, &global, command)),
        Err(error) => usage(&error),
    }
}

/// A command of a kind, or help: the server says which kinds there are. Help also works without the server.
fn run_with_kinds(given: &[String]) -> ExitCode {
    let access = Access::settle(&Chosen::in_line(given));
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
    let matches = match cli::full(&kinds).try_get_matches_from(given) {
        Ok(matches) => matches,
        // The word may be a kind of the server that could not be asked.
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
            let session = Session::new(&client, &printer, Some(kinds));
            resource::run(&session, family, matches).map_err(|failure| suggest::improve(&session, failure))
        }
        (_, Some(failure), _) => Err(failure),
        _ => Err(Failure::usage("a command is expected")),
    };
    finish(&printer, outcome.map(|()| ExitCode::SUCCESS))
}

fn globals(matches: &ArgMatches) -> Result<(Printer, Global), clap::Error> {
    let global = Global::from_arg_matches(matches)?;
    let printer = Printer::new(global.output.clone()).without_headings(global.no_headers);
    Ok((printer, global))
}

/// Prints what clap found: help on stdout with code 0, errors on stderr with code 2.
fn usage(error: &clap::Error) -> ExitCode {
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
