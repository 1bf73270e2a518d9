//! The reference of the server's command line, from clap.

use std::fmt::Write as _;

use clap::{Arg, CommandFactory as _};

use super::{cell, warning};
use crate::commands::Cli;

const INTRODUCTION: &str = "
`flux-resourceset` is the server, and the tools that maintain its store. Every setting is an environment variable, or a flag with
the same name: `API_MODE=crud` and `--api-mode crud` mean the same, and the flag wins. [Configuration](configuration.md) helps to
choose.
";

/// The page: settings in one table, then each command.
pub fn page() -> String {
    let mut command = Cli::command().disable_help_subcommand(true).term_width(100);
    command.build();
    let mut out = format!(
        "# Server reference\n\n{}{INTRODUCTION}",
        warning("crates/server/src/commands/ or crates/server/src/config/options.rs")
    );
    out.push_str("\n## Settings\n\n| variable | default | |\n|---|---|---|\n");
    for argument in command.get_arguments().filter(|argument| argument.get_env().is_some()) {
        let variable = argument
            .get_env()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        let (text, fallback) = said(argument);
        let _ = writeln!(out, "| `{variable}` | {} | {} |", cell(&fallback), cell(&text));
    }
    out.push_str("\n## Commands\n\nWithout a command, the server runs. All commands use the settings above.\n");
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let name = inner.get_name().to_owned();
        let about = inner
            .get_long_about()
            .or_else(|| inner.get_about())
            .map(ToString::to_string);
        let about = sentence(about.unwrap_or_default());
        let _ = write!(out, "\n### `flux-resourceset {name}`\n\n{about}\n");
        let own: Vec<&Arg> = inner
            .get_arguments()
            .filter(|argument| !argument.is_global_set() && argument.get_id() != "help")
            .collect();
        if own.is_empty() {
            continue;
        }
        out.push_str("\n| argument | default | |\n|---|---|---|\n");
        for argument in own {
            let value = argument
                .get_value_names()
                .and_then(|names| names.first())
                .map(ToString::to_string);
            let value = value.unwrap_or_default();
            let mut name = match argument.get_long() {
                Some(long) if argument.get_action().takes_values() => format!("`--{long} {value}`"),
                Some(long) => format!("`--{long}`"),
                None => format!("`{value}`"),
            };
            if let Some(variable) = argument.get_env() {
                let _ = write!(name, ", `{}`", variable.display());
            }
            let (text, fallback) = said(argument);
            let _ = writeln!(out, "| {} | {} | {} |", cell(&name), cell(&fallback), cell(&text));
        }
    }
    out
}

/// The description of an argument, and its default: clap's, or the one in brackets at the end of the description.
fn said(argument: &Arg) -> (String, String) {
    let text = argument.get_long_help().or_else(|| argument.get_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let (text, told) = match text.split_once(" [default: ") {
        Some((text, rest)) => (text.to_owned(), rest.trim_end_matches(['.', ']']).to_owned()),
        None => (text, String::new()),
    };
    let text = sentence(text);
    let switch = !argument.get_action().takes_values();
    let set = argument.get_default_values().first().filter(|_| !switch);
    (text, set.map_or(told, |value| format!("`{}`", value.to_string_lossy())))
}

/// Adds the full stop that clap removes.
fn sentence(text: String) -> String {
    if text.ends_with('.') { text } else { format!("{text}.") }
}
