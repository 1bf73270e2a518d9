//! `diff`.

use clap::{ArgGroup, Args};
use fleet::kind::KINDS;

use super::plan;
use crate::args::target::selector;
use crate::client::with_query;
use crate::documents::{DocumentArgs, Files, PRUNE, WHOLE_DOCUMENTS};
use crate::error::Failure;
use crate::plan::Plan;
use crate::session::{Session, unknown_revision};

const ABOUT: &str = "\
Documents that only the server has are counted, and are no difference unless --prune is given.";

pub(crate) fn after_help() -> String {
    format!("{WHOLE_DOCUMENTS}\n\n{ABOUT}\n\n{PRUNE}")
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "from"]).required(true)))]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    documents: DocumentArgs,
    /// Show the Kubernetes objects that change, as a diff
    #[arg(long, requires = "filename")]
    manifests: bool,
    /// Compare the fleet at this revision with another revision
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    /// The other revision [default: the current one]
    #[arg(long, value_name = "REVISION", requires = "from")]
    to: Option<u64>,
    /// Only clusters that match: at either revision, or of those that --prune deletes
    #[arg(short = 'l', long, value_parser = selector)]
    selector: Option<String>,
}

/// Whether something differs.
pub(crate) fn run(session: &Session<'_>, args: &DiffArgs) -> Result<bool, Failure> {
    let selector = args.selector.as_deref();
    let plan = match args.from {
        Some(from) => between(session, from, args)?,
        None if selector.is_some() && !args.documents.prunes() => {
            return Err(Failure::usage(
                "-l needs --from or --prune: documents are compared whole",
            ));
        }
        None => {
            let files = args.documents.read(session, selector)?;
            let mut plan = plan::of(session, &files.wanted(session)?, args.manifests)?;
            if !args.documents.prunes() {
                plan.only_on_server(only_on_server(session, &files, &plan)?);
            }
            plan.show(session.printer)?;
            plan
        }
    };
    Ok(!plan.is_empty())
}

/// Shows what differs between two revisions.
fn between(session: &Session<'_>, from: u64, args: &DiffArgs) -> Result<Plan, Failure> {
    let parameters = [
        ("from", Some(from.to_string())),
        ("to", args.to.map(|to| to.to_string())),
        ("selector", args.selector.clone()),
    ];
    let found = session.client.get(&with_query("/diff", parameters));
    let plan = Plan::read(found.map_err(|error| unknown_revision(error.into()))?);
    plan.show_difference(session.printer)?;
    Ok(plan)
}

/// How many resources of each kind the files do not hold. Documents that the plan does not create are on the server.
fn only_on_server(session: &Session<'_>, files: &Files<'_>, plan: &Plan) -> Result<Vec<(String, u64)>, Failure> {
    let mut found = Vec::new();
    for kind in session.kinds()?.iter().filter(|kind| kind.name != KINDS) {
        let present = files.held(&kind.name).saturating_sub(plan.created(&kind.name));
        let more = session.client.count(&kind.name)?.saturating_sub(present);
        if more > 0 {
            found.push((kind.name.clone(), more));
        }
    }
    Ok(found)
}
