//! `components check`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::counted;
use super::fleet_args::FleetArgs;
use crate::args::Global;
use crate::components::build::Builder;
use crate::components::{self, Checked, Problem, Tree};
use crate::error::Failure;
use crate::output::{Printer, Table, Tone};

pub(super) const AFTER_HELP: &str = "\
The registry COMPONENTS.yaml and the version folders must agree. Everything that a kustomization names must exist within the \
repository: nothing is fetched, and a remote path is a problem. Variables must be well-formed. Charts need a matching \
Chart.yaml, and values.

Every folder with a kustomization is built with `kustomize build` or, where kustomize is not on the PATH, with `kubectl \
kustomize`. A build may take 60 seconds. If neither program is on the PATH, the command says so and checks the rest; with \
--build it fails.

With --catalog or --server, every path and version that the catalog or a cluster names must exist too, whatever build \
(oci_tag) it comes from.";

const NOT_BUILT: &str = "neither kustomize nor kubectl is on the PATH";
const HOW_TO_BUILD: &str = "install kustomize (https://kubectl.docs.kubernetes.io/installation/kustomize/) or kubectl";

#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// The root of the repository
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Also compare it with the fleet of the server
    #[arg(long, conflicts_with = "catalog")]
    server: bool,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Fail if the folders cannot be built because neither kustomize nor kubectl is on the PATH
    #[arg(long)]
    build: bool,
}

/// Whether the repository has no problems.
pub(super) fn run(printer: &Printer, global: &Global, args: &CheckArgs) -> Result<bool, Failure> {
    let builder = Builder::find();
    if args.build && builder.is_none() {
        return Err(Failure::usage(format!("{NOT_BUILT}; --build needs one of them")).hint(HOW_TO_BUILD));
    }
    let tree = Tree::read(&args.dir)?;
    let mut checked = components::check(&tree);
    let mut counts = Counts::default();
    if args.server || !args.fleet.catalog.is_empty() {
        let uses = args.fleet.uses(global, &mut checked)?.all;
        uses.iter().for_each(|one| one.check(&tree, &mut checked));
        counts.references = Some(uses.len());
    }
    match builder {
        Some(builder) => counts.built = Some((builder, builder.build_all(&tree, &mut checked)?)),
        None => {
            printer.note(&format!(
                "warning: {NOT_BUILT}: no folder was built, so invalid kustomizations, patches and objects are not found"
            ));
            printer.hint(HOW_TO_BUILD);
        }
    }
    let problems = &checked.findings.problems;
    printer.print(
        &counts.document(&checked),
        |_| counts.table(&checked),
        || problems.iter().map(|problem| problem.file.clone()).collect(),
    )?;
    Ok(problems.is_empty())
}

/// What was checked besides the repository itself.
#[derive(Default)]
struct Counts {
    references: Option<usize>,
    built: Option<(Builder, usize)>,
}

impl Counts {
    fn document(&self, checked: &Checked) -> Value {
        let list = |problems: &BTreeSet<Problem>| problems.iter().map(Problem::to_json).collect::<Value>();
        let mut document = json!({
            "components": checked.registry.components.len(), "versions": checked.registry.versions(),
            "directories": checked.kustomizations.buildable().count(),
            "builder": self.built.map(|(builder, _)| builder.name()), "built": self.built.map_or(0, |(_, count)| count),
            "problems": list(&checked.findings.problems), "warnings": list(&checked.findings.warnings),
        });
        if let Some(count) = self.references {
            document["references"] = count.into();
        }
        document
    }

    fn table(&self, checked: &Checked) -> Table {
        let findings = &checked.findings;
        let mut table = Table::default();
        for problem in &findings.problems {
            table.line(problem.line(), Tone::Bad);
        }
        for warning in &findings.warnings {
            table.line(format!("warning: {}", warning.line()), Tone::Attention);
        }
        let mut summary = vec![
            counted(checked.registry.components.len(), "component"),
            counted(checked.registry.versions(), "version"),
            counted(checked.kustomizations.buildable().count(), "folder"),
        ];
        summary.extend(self.references.map(|count| counted(count, "reference")));
        summary.push(match self.built {
            Some((builder, count)) => format!("{count} built with {}", builder.program()),
            None => "none built".to_owned(),
        });
        summary.push(counted(findings.problems.len(), "problem"));
        let tone = match findings.problems.is_empty() {
            true => Tone::Good,
            false => Tone::Head,
        };
        table.line(summary.join(", "), tone);
        table
    }
}
