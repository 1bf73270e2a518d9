//! `apply`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

use crate::args::WriteArgs;
use crate::args::target::selector;
use crate::client::Operation;
use crate::confirm::{self, Asks, Proposal, note_restart};
use crate::documents::{DocumentArgs, PRUNE, WHOLE_DOCUMENTS};
use crate::error::{ApiError, Failure};
use crate::plan_file::PlanFile;
use crate::session::{ATTEMPTS, Outcome, Session, blame};

pub(crate) fn after_help() -> String {
    format!("{WHOLE_DOCUMENTS}\n\n{PRUNE}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "plan"]).required(true)))]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    documents: DocumentArgs,
    /// With --prune: of the clusters, delete only those that match; other kinds are not selected
    #[arg(short = 'l', long, requires = "prune", value_parser = selector)]
    selector: Option<String>,
    /// Make exactly the changes of a plan that `plan --out` saved, or none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["if_plan", "prune"], value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &ApplyArgs) -> Result<(), Failure> {
    if let Some(path) = &args.plan {
        let file = PlanFile::read(path)?;
        let how = WriteArgs {
            if_plan: Some(file.plan.clone()),
            ..args.how.clone()
        };
        let operations = file.operations();
        let outcome = send(session, &operations, &how).map_err(|error| blame(&operations, error))?;
        return session.show(&outcome);
    }
    let files = args.documents.read(session, args.selector.as_deref())?;
    let mut attempt = 1;
    loop {
        let wanted = files.wanted(session)?;
        match send(session, &wanted.operations, &args.how) {
            Ok(outcome) => return session.show(&outcome),
            // What should be pruned was deleted meanwhile.
            Err(error) if error.is("not-found") && args.documents.prunes() && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(wanted.explain(error)),
        }
        note_restart(session, &args.how);
    }
}

fn send(session: &Session<'_>, operations: &[Operation], how: &WriteArgs) -> Result<Outcome, ApiError> {
    let proposal = Proposal {
        question: "Apply these changes",
        asks: Asks::Always,
        warns_of_reverts: true,
        warnings: &[],
        send: &|conditions| session.client.batch(operations, how.reason.as_deref(), conditions),
    };
    proposal.carry_out(session, how)
}
