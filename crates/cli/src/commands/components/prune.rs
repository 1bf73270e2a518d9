//! `components prune`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::counted;
use super::fleet_args::{FleetArgs, Uses};
use crate::args::Global;
use crate::components::prune::{self, Old};
use crate::components::{self, Tree};
use crate::error::Failure;
use crate::output::{Printer, Table, Tone};

pub(super) const AFTER_HELP: &str = "\
Without --yes, the command only shows what it would remove. With --yes, it removes the folders and their lines in \
COMPONENTS.yaml. A version stays if the catalog or a cluster names it, or if a version that stays includes it. The fleet \
is read from --catalog, else from the server. Nothing is removed from a repository that has problems, or that no fleet \
seems to use.";

#[derive(Args, Clone, Debug)]
pub(crate) struct PruneArgs {
    /// The root of the repository
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// How many versions of each component to keep: the newest ones
    #[arg(long, visible_alias = "older-than", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Remove the folders
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(printer: &Printer, global: &Global, args: &PruneArgs) -> Result<(), Failure> {
    let tree = Tree::read(&args.dir)?;
    let mut checked = components::check(&tree);
    let uses = args.fleet.uses(global, &mut checked)?;
    if !checked.findings.problems.is_empty() {
        let mut failure = Failure::refused(format!("{} has problems; nothing was removed", args.dir.display()));
        let details = checked.findings.problems.iter().take(5);
        failure.details = details
            .map(|problem| (problem.file.clone(), problem.detail.clone()))
            .collect();
        return Err(failure.hint(format!("`components check {}` lists all of them", args.dir.display())));
    }
    refuse_unknown_fleet(printer, &uses, args.yes)?;
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let old = prune::old(&checked, &uses.all, keep);
    let (unused, needed): (Vec<_>, Vec<_>) = old.iter().partition(|one| one.needed_by.is_empty());
    if args.yes {
        prune::remove(&tree, &unused)?;
    }
    let listed = |all: &[&Old]| all.iter().map(|one| one.to_json()).collect::<Value>();
    let document = json!({"keep": keep, "removed": args.yes, "old": listed(&unused), "needed": listed(&needed)});
    printer.print(
        &document,
        |_| table(&unused, &needed, args.yes),
        || unused.iter().map(|one| one.path.clone()).collect(),
    )
}

/// A fleet that uses nothing of the repository, or that has no clusters, does not show which versions are in use.
fn refuse_unknown_fleet(printer: &Printer, uses: &Uses, remove: bool) -> Result<(), Failure> {
    let unknown = match (uses.all.is_empty(), uses.has_clusters) {
        (true, _) => "the fleet uses nothing from the addresses of this repository",
        (false, false) => "the fleet has no clusters, so the versions in use are unknown",
        (false, true) => return Ok(()),
    };
    if remove {
        let hint = "give the addresses of the repository with --source and --charts, or a whole fleet with --catalog (see `export`)";
        return Err(Failure::refused(format!("{unknown}; nothing was removed")).hint(hint));
    }
    printer.note(&format!("warning: {unknown}"));
    Ok(())
}

fn table(unused: &[&Old], needed: &[&Old], removed: bool) -> Table {
    let mut table = Table::default();
    for one in unused {
        let verb = if removed { "removed" } else { "would be removed" };
        table.line(format!("{} {verb}", one.path), Tone::Bad);
    }
    for one in needed {
        let line = format!("{} is needed by {}", one.path, one.needed_by.join(", "));
        table.line(line, Tone::Plain);
    }
    match (unused.is_empty(), removed) {
        (true, _) => table.line("nothing to remove", Tone::Quiet),
        (false, false) => table.line("nothing was removed; use --yes to remove", Tone::Quiet),
        (false, true) => table.line(counted(unused.len(), "version") + " removed", Tone::Quiet),
    }
    table
}
