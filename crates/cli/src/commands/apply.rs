//! `apply`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

use crate::args::WriteArgs;
use crate::confirm::{self, ConfirmArgs, Proposal};
use crate::documents::{self, WHOLE_DOCUMENTS};
use crate::error::Failure;
use crate::plan_file::PlanFile;
use crate::session::{Session, blame};

pub(crate) fn after_help() -> String {
    format!("{WHOLE_DOCUMENTS}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "plan"]).required(true)))]
pub(crate) struct ApplyArgs {
    /// A file or folder of documents, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// Also read the folders within folders
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Make exactly the changes of a plan that `plan --out` saved, or none
    #[arg(long, value_name = "FILE", conflicts_with = "if_plan", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &ApplyArgs) -> Result<(), Failure> {
    let mut how = args.how.clone();
    let operations = match &args.plan {
        Some(path) => {
            let file = PlanFile::read(path)?;
            how.if_plan = Some(file.plan.clone());
            file.operations()
        }
        None => documents::operations_of(session, &args.filename, args.recursive)?,
    };
    let proposal = Proposal {
        question: "Apply these changes",
        send: &|conditions| session.client.batch(&operations, how.reason.as_deref(), conditions),
        explain: &|error| blame(&operations, error),
    };
    proposal.carry_out(session, &how, &args.confirm)
}
