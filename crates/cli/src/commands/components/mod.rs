//! `components`: checks and prunes a repository of platform components.

mod check;
mod fleet_args;
mod prune;

use clap::Subcommand;

use crate::args::Global;
use crate::error::Failure;
use crate::output::Printer;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ComponentsCommand {
    /// Check a repository; exits with 1 on problems
    #[command(after_help = check::AFTER_HELP)]
    Check(check::CheckArgs),
    /// Remove old version folders that nothing uses
    #[command(after_help = prune::AFTER_HELP)]
    Prune(prune::PruneArgs),
}

/// Whether the check passed.
pub(crate) fn run(printer: &Printer, global: &Global, command: &ComponentsCommand) -> Result<bool, Failure> {
    match command {
        ComponentsCommand::Check(args) => check::run(printer, global, args),
        ComponentsCommand::Prune(args) => prune::run(printer, global, args).map(|()| true),
    }
}

/// `1 component`, `3 components`.
fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
