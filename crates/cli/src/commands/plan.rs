//! `plan`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::args::Files;
use crate::client::{Conditions, Operation};
use crate::documents;
use crate::error::Failure;
use crate::plan::Plan;
use crate::plan_file::PlanFile;
use crate::session::{Session, blame};

pub(crate) const AFTER_HELP: &str = "\
A change that is the same on many clusters is shown once; -o wide lists every cluster and shortens nothing. -o json \
prints the plan as the server returns it. The digest at the end identifies the effect: `apply --if-plan DIGEST` makes \
exactly these changes, or none. `apply --plan FILE` does the same with a file that --out wrote. Neither asks for \
confirmation, because the plan was already shown; removals beyond the budget still need --confirm-removals.";

#[derive(Args, Clone, Debug)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    files: Files,
    /// Save the plan to a file, for `apply --plan`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

pub(crate) fn run(session: &Session<'_>, args: &PlanArgs) -> Result<(), Failure> {
    let operations = documents::operations_of(session, &args.files.filename, args.files.recursive)?;
    let plan = of(session, &operations)?;
    if let Some(path) = &args.out {
        PlanFile::new(&plan, &operations).write(path)?;
    }
    plan.show_document(session.printer)
}

/// The plan of operations.
pub(crate) fn of(session: &Session<'_>, operations: &[Operation]) -> Result<Plan, Failure> {
    let reply = session.client.batch(operations, None, &Conditions::dry_run());
    Ok(Plan::read(reply.map_err(|error| blame(operations, error))?))
}
