//! `man`: one page per command.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueHint};

use crate::args::complete::kinds;
use crate::cli::{self, NAME};
use crate::error::Failure;
use crate::output::Printer;

#[derive(Args, Clone, Debug)]
pub(crate) struct ManArgs {
    /// The folder to write to; it is created if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
}

pub(crate) fn run(printer: &Printer, args: &ManArgs) -> Result<(), Failure> {
    fs::create_dir_all(&args.out).map_err(|error| Failure::file(&args.out, &error))?;
    let mut command = cli::full(&kinds()).disable_help_subcommand(true);
    command.build();
    let count = pages(&command, NAME, &args.out)?;
    printer.note(&format!("{count} pages in {}", args.out.display()));
    Ok(())
}

/// Writes the page of a command and of each subcommand; returns their number.
fn pages(command: &Command, name: &str, folder: &Path) -> Result<usize, Failure> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    let renamed = command.clone().name(name.to_owned()).version(env!("CARGO_PKG_VERSION"));
    let written = clap_mangen::Man::new(renamed)
        .render(&mut page)
        .and_then(|()| fs::write(&path, page));
    written.map_err(|error| Failure::file(&path, &error))?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        count += pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(count)
}
