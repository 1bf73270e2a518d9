//! `plan`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

use crate::args::objects;
use crate::args::target::selector;
use crate::client::Conditions;
use crate::documents::{DocumentArgs, PRUNE, Wanted};
use crate::error::Failure;
use crate::plan::Plan;
use crate::plan_file::PlanFile;
use crate::session::Session;

const ABOUT: &str = "\
A change that is the same on many clusters is shown once; -o wide lists every cluster and shortens nothing. -o json \
prints the plan as the server returns it. The digest at the end identifies the effect: `apply --if-plan DIGEST` makes \
exactly these changes, or none. `apply --plan FILE` does the same with a file that --out wrote. Neither asks for \
confirmation, because the plan was already shown; removals beyond the budget still need --confirm-removals.";

pub(crate) fn after_help() -> String {
    format!("{ABOUT}\n\n{PRUNE}")
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename"]).required(true)))]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    documents: DocumentArgs,
    /// With --prune: of the clusters, delete only those that match; other kinds are not selected
    #[arg(short = 'l', long, requires = "prune", value_parser = selector)]
    selector: Option<String>,
    /// Show the Kubernetes objects that change, as a diff
    #[arg(long)]
    manifests: bool,
    /// Save the plan to a file, for `apply --plan`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

pub(crate) fn run(session: &Session<'_>, args: &PlanArgs) -> Result<(), Failure> {
    let wanted = args
        .documents
        .read(session, args.selector.as_deref())?
        .wanted(session)?;
    let plan = of(session, &wanted, args.manifests)?;
    if let Some(path) = &args.out {
        PlanFile::new(&plan, &wanted.operations).write(path)?;
    }
    plan.show_document(session.printer)
}

/// The plan of documents.
pub(crate) fn of(session: &Session<'_>, wanted: &Wanted, manifests: bool) -> Result<Plan, Failure> {
    let conditions = Conditions::dry_run(objects(manifests, session.printer, true));
    let reply = session.client.batch(&wanted.operations, None, &conditions);
    Ok(Plan::read(reply.map_err(|error| wanted.explain(error))?))
}
