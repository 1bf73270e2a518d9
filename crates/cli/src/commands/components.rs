//! A platform components repository, held against itself and against the fleet that takes from it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::documents;
use crate::args::Global;
use crate::client::Client;
use crate::components::{self, Catalog, Checked, Problem, Tree, Use, build, prune};
use crate::config::Access;
use crate::error::Failure;
use crate::output::{Printer, Table, Tone};

const COMPONENTS: &str = "platform_components";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ComponentsCommand {
    /// Look for what is wrong with a repository; exit code 1 when something is
    #[command(after_help = CHECKED)]
    Check(CheckArgs),
    /// Remove version directories that are older than the newest few, and that nothing needs
    #[command(after_help = PRUNED)]
    Prune(PruneArgs),
}

const CHECKED: &str = "\
COMPONENTS.yaml and the version directories must agree. Every directory must build in isolation: its
kustomization and all that it names are there, within the repository, and parse; patches find their
objects, variables are well-formed. Charts have a Chart.yaml that fits, and values. No server is asked.

With --catalog or --server, every path and version that the catalog names, and each cluster instead of
it, must be there too, whichever build (oci_tag) it is taken from: what a fleet still names stays.";

const PRUNED: &str = "\
Shows what would go; --yes removes it, and takes it out of COMPONENTS.yaml. What the catalog or any
cluster names stays, and so does what a directory that stays takes in. The fleet is that of the server,
or of --catalog. A repository with problems is left alone, and so is one that no fleet seems to use.";

// Which fleet a repository is held against.
#[derive(Args, Clone, Debug)]
struct Against {
    /// The fleet as a file: a seed, or what `export` writes (can be repeated)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    catalog: Vec<PathBuf>,
    /// The address that the repository is pushed to, if it is not what COMPONENTS.yaml says
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// The same for its charts
    #[arg(long, value_name = "URL")]
    charts: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// The root of the repository
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Also hold it against the fleet of the server
    #[arg(long, conflicts_with = "catalog")]
    server: bool,
    #[command(flatten)]
    against: Against,
    /// Also build every directory with kustomize, or the one within kubectl
    #[arg(long)]
    build: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PruneArgs {
    /// The root of the repository
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// How many versions of each component stay, the newest ones
    #[arg(long, visible_alias = "older-than", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    #[command(flatten)]
    against: Against,
    /// Remove them
    #[arg(short, long)]
    yes: bool,
}

/// Whether all is well.
pub(crate) fn run(printer: &Printer, global: &Global, command: &ComponentsCommand) -> Result<bool, Failure> {
    match command {
        ComponentsCommand::Check(args) => check(printer, global, args),
        ComponentsCommand::Prune(args) => prune(printer, global, args).map(|()| true),
    }
}

fn check(printer: &Printer, global: &Global, args: &CheckArgs) -> Result<bool, Failure> {
    let tree = Tree::read(&args.dir)?;
    let mut checked = components::check(&tree);
    let mut references = None;
    if args.server || !args.against.catalog.is_empty() {
        let (uses, _) = args.against.uses(global, &mut checked)?;
        uses.iter().for_each(|one| one.check(&tree, &mut checked));
        references = Some(uses.len());
    }
    let built = match args.build {
        true => Some(build::all(&tree, &mut checked)?),
        false => None,
    };
    let registry = &checked.registry.components;
    let versions: usize = registry.iter().map(|component| component.present.len()).sum();
    let told =
        |problems: &std::collections::BTreeSet<Problem>| problems.iter().map(Problem::to_json).collect::<Value>();
    let directories = checked.directories.buildable().count();
    let findings = &checked.findings;
    let mut document = json!({
        "components": registry.len(), "versions": versions, "directories": directories,
        "problems": told(&findings.problems), "warnings": told(&findings.warnings),
    });
    for (name, count) in [("references", references), ("built", built)] {
        if let Some(count) = count {
            document[name] = count.into();
        }
    }
    let table = |_| {
        let mut table = Table::default();
        for problem in &findings.problems {
            table.line(problem.line(), Tone::Bad);
        }
        for warning in &findings.warnings {
            table.line(format!("warning: {}", warning.line()), Tone::Attention);
        }
        let mut summary = vec![
            counted(registry.len(), "component"),
            counted(versions, "version"),
            counted(directories, "directory that builds"),
        ];
        summary.extend(references.map(|count| counted(count, "reference")));
        summary.extend(built.map(|count| format!("{count} built by kustomize")));
        summary.push(counted(findings.problems.len(), "problem"));
        let tone = if findings.problems.is_empty() {
            Tone::Good
        } else {
            Tone::Head
        };
        table.line(summary.join(", "), tone);
        table
    };
    printer.print(&document, table, || {
        findings.problems.iter().map(|problem| problem.file.clone()).collect()
    })?;
    Ok(findings.problems.is_empty())
}

fn counted(count: usize, one: &str) -> String {
    match (count, one) {
        (1, one) => format!("1 {one}"),
        (count, "directory that builds") => format!("{count} directories that build"),
        (count, one) => format!("{count} {one}s"),
    }
}

fn prune(printer: &Printer, global: &Global, args: &PruneArgs) -> Result<(), Failure> {
    let tree = Tree::read(&args.dir)?;
    let mut checked = components::check(&tree);
    let (uses, clusters) = args.against.uses(global, &mut checked)?;
    if !checked.findings.problems.is_empty() {
        let mut failure = Failure::refused(format!("{} has problems, so nothing is removed", args.dir.display()));
        let details = checked.findings.problems.iter().take(5);
        failure.details = details
            .map(|problem| (problem.file.clone(), problem.detail.clone()))
            .collect();
        return Err(failure.hint(format!("`components check {}` names them all", args.dir.display())));
    }
    let unknown = match (uses.is_empty(), clusters) {
        (true, _) => Some("nothing in the fleet is from this repository, as far as its addresses say"),
        (false, false) => Some("there is no cluster in what was given, so what clusters still run is not known"),
        (false, true) => None,
    };
    match unknown {
        Some(unknown) if args.yes => {
            let hint = "--source and --charts say where the repository is pushed to; `export` writes a whole fleet for --catalog";
            return Err(Failure::refused(format!("{unknown}: nothing is removed")).hint(hint));
        }
        Some(unknown) => printer.note(&format!("warning: {unknown}")),
        None => {}
    }
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let old = prune::old(&checked, &uses, keep);
    let (gone, kept): (Vec<_>, Vec<_>) = old.iter().partition(|one| one.needed_by.is_empty());
    if args.yes {
        prune::remove(&tree, &gone)?;
    }
    let listed = |all: &[&prune::Old]| all.iter().map(|one| one.to_json()).collect::<Value>();
    let document = json!({"keep": keep, "removed": args.yes, "old": listed(&gone), "needed": listed(&kept)});
    let table = |_| {
        let mut table = Table::default();
        for one in &gone {
            let verb = if args.yes { "removed" } else { "would be removed" };
            table.line(format!("{} {verb}", one.path), Tone::Bad);
        }
        for one in &kept {
            table.line(format!("{} stays: {}", one.path, one.needed_by.join(", ")), Tone::Plain);
        }
        match (gone.is_empty(), args.yes) {
            (true, _) => table.line("nothing is to be removed", Tone::Quiet),
            (false, false) => table.line("nothing was removed; --yes does it", Tone::Quiet),
            (false, true) => table.line(counted(gone.len(), "version") + " removed", Tone::Quiet),
        }
        table
    };
    printer.print(&document, table, || gone.iter().map(|one| one.path.clone()).collect())
}

impl Against {
    /// What the fleet takes from the repository, and whether there are clusters in it at all. That it takes nothing is told, since a
    /// wrong address looks the same.
    fn uses(&self, global: &Global, checked: &mut Checked) -> Result<(Vec<Use>, bool), Failure> {
        let catalogs = match self.catalog.is_empty() {
            false => self.catalog.iter().map(from_file).collect::<Result<Vec<_>, _>>()?,
            true => vec![from_server(global)?],
        };
        let source = self.source.clone().or_else(|| checked.registry.source.clone());
        let charts = self.charts.clone().or_else(|| checked.registry.charts.clone());
        let trimmed = |url: &Option<String>| url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let (source, charts) = (trimmed(&source), trimmed(&charts));
        // Definitions and clusters may well be in files of their own.
        let origin = catalogs
            .iter()
            .map(|catalog| catalog.origin.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let together = Catalog {
            origin,
            components: catalogs.iter().flat_map(|catalog| catalog.components.clone()).collect(),
            clusters: catalogs.iter().flat_map(|catalog| catalog.clusters.clone()).collect(),
        };
        if together.components.is_empty() && !self.catalog.is_empty() {
            let message = format!("{}: there is no {COMPONENTS} in it", together.origin);
            return Err(Failure::usage(message));
        }
        let uses = Use::all(&together, source.as_deref(), charts.as_deref());
        if uses.is_empty() {
            let from = source.unwrap_or_else(|| "an OCI artifact".to_owned());
            checked
                .findings
                .warning(&together.origin, "", format!("no component is from {from}"));
        }
        Ok((uses, !together.clusters.is_empty()))
    }
}

/// A seed is one object with an array for each kind; an export is a document for each resource.
fn from_file(path: &PathBuf) -> Result<Catalog, Failure> {
    let mut catalog = Catalog {
        origin: path.display().to_string(),
        components: Vec::new(),
        clusters: Vec::new(),
    };
    for document in documents::read(std::slice::from_ref(path), false)? {
        let kind = document.value["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            COMPONENTS | "platform_component" | "component" => catalog.components.push(document.value),
            CLUSTERS | "cluster" => catalog.clusters.push(document.value),
            "" => {
                let take = |kind: &str| match document.value[kind].as_array() {
                    Some(items) => items.clone(),
                    None => Vec::new(),
                };
                catalog.components.extend(take(COMPONENTS));
                catalog.clusters.extend(take(CLUSTERS));
            }
            _ => {}
        }
    }
    Ok(catalog)
}

fn from_server(global: &Global) -> Result<Catalog, Failure> {
    let client = Client::new(Access::settle(global.context.as_deref())?);
    let list = |kind: &str| -> Result<Vec<Value>, Failure> {
        match client.get(&format!("/{kind}"))? {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    };
    Ok(Catalog {
        origin: client.shown_url(),
        components: list(COMPONENTS)?,
        clusters: list(CLUSTERS)?,
    })
}
