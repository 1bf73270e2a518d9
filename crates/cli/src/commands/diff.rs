//! `diff`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

use super::plan;
use crate::args::target::selector;
use crate::client::with_query;
use crate::documents;
use crate::error::Failure;
use crate::plan::Plan;
use crate::session::{Session, unknown_revision};

pub(crate) use crate::documents::WHOLE_DOCUMENTS as AFTER_HELP;

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "from"]).required(true)))]
pub(crate) struct DiffArgs {
    /// Compare the fleet with documents: a file or folder, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// Also read the folders within folders
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Compare the fleet at this revision with another revision
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    /// The other revision [default: the current one]
    #[arg(long, value_name = "REVISION", requires = "from")]
    to: Option<u64>,
    /// Only clusters that match, at either revision
    #[arg(short = 'l', long, value_parser = selector, requires = "from")]
    selector: Option<String>,
}

/// Whether something differs.
pub(crate) fn run(session: &Session<'_>, args: &DiffArgs) -> Result<bool, Failure> {
    let plan = match args.from {
        Some(from) => {
            let parameters = [
                ("from", Some(from.to_string())),
                ("to", args.to.map(|to| to.to_string())),
                ("selector", args.selector.clone()),
            ];
            let found = session.client.get(&with_query("/diff", parameters));
            let plan = Plan::read(found.map_err(|error| unknown_revision(error.into()))?);
            plan.show_difference(session.printer)?;
            plan
        }
        None => {
            let operations = documents::operations_of(session, &args.filename, args.recursive)?;
            let plan = plan::of(session, &operations)?;
            plan.show(session.printer)?;
            plan
        }
    };
    Ok(!plan.is_empty())
}
