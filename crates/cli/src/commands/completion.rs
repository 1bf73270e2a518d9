//! `completion`: the script that lets a shell ask this program for completions, and the answers.

use std::env;
use std::ffi::OsString;

use clap::{Args, ValueEnum};
use clap_complete::env::{CompleteEnv, Shells};

use crate::args::complete::kinds;
use crate::cli::{self, NAME};
use crate::error::Failure;
use crate::output::Printer;

/// The script sets this variable when a shell asks for completions.
const VARIABLE: &str = "FLUX_RESOURCESET_COMPLETE";

#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell; for bash, add this to ~/.bashrc: source <(flux-resourceset-cli completion bash)
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// Answers a shell that asks for completions; false if none does.
pub(crate) fn answer() -> bool {
    if env::var_os(VARIABLE).is_none() {
        return false;
    }
    let here = env::current_dir().ok();
    let given: Vec<OsString> = env::args_os().collect();
    CompleteEnv::with_factory(|| cli::full(&kinds()))
        .var(VARIABLE)
        .bin(NAME)
        .try_complete(given, here.as_deref())
        .unwrap_or(true)
}

pub(crate) fn run(printer: &Printer, args: &CompletionArgs) -> Result<(), Failure> {
    let name = args
        .shell
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let mut script = Vec::new();
    let written = Shells::builtins()
        .completer(&name)
        .map(|shell| shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script));
    match (written, String::from_utf8(script)) {
        (Some(Ok(())), Ok(script)) => printer.text(&script),
        _ => Err(Failure::usage(format!("there is no completion script for {name}"))),
    }
}
