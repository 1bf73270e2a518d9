//! `rollback`.

use clap::Args;
use fleet::kind::KINDS;
use serde_json::{Value, json};

use crate::args::complete::kind_names;
use crate::args::target::selector;
use crate::args::{WriteArgs, given, revision};
use crate::confirm::{self, Asks, Proposal};
use crate::error::{ApiError, Failure};
use crate::session::{Session, unknown_revision};

const ABOUT: &str = "\
Resources that were created since are deleted, and resources that were deleted since are created again, kinds included, \
in one new revision. Decommissions and released names are not rolled back: a cluster that the rollback deletes is decommissioned.";

pub(crate) fn after_help() -> String {
    format!("{ABOUT}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RollbackArgs {
    /// The revision to roll back to
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    to: u64,
    /// Only one resource: its kind, by any of its names
    #[arg(long, requires = "id", value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only one resource: its id
    #[arg(long, requires = "kind", value_parser = given)]
    id: Option<String>,
    /// Only the clusters that match, now or then; definitions stay as they are
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "kind")]
    selector: Option<String>,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &RollbackArgs) -> Result<(), Failure> {
    let mut request = json!({ "revision": args.to });
    if let (Some(kind), Some(id)) = (&args.kind, &args.id) {
        let kind = kind_name(session, kind)?;
        // `clusters/demo-cluster-01` is an id too.
        let own = id
            .split_once('/')
            .filter(|(prefix, _)| kind_name(session, prefix).is_ok_and(|name| name == kind));
        request["id"] = own.map_or(id.as_str(), |(_, id)| id).into();
        request["kind"] = kind.into();
    }
    if let Some(selector) = &args.selector {
        request["selector"] = selector.as_str().into();
    }
    carry_out(session, &request, "Roll back", &args.how)
}

/// The plural of a kind. A kind that is unknown now may have existed at the revision.
fn kind_name(session: &Session<'_>, given: &str) -> Result<String, Failure> {
    Ok(match session.kinds()?.named(given) {
        Some(kind) => kind.name.clone(),
        None if given == "kind" => KINDS.to_owned(),
        None => given.to_owned(),
    })
}

/// Plans, confirms and sends a request to `POST /rollback`; `undo` and `redo` use it too.
pub(super) fn carry_out(
    session: &Session<'_>,
    request: &Value,
    question: &str,
    how: &WriteArgs,
) -> Result<(), Failure> {
    let proposal = Proposal {
        question,
        asks: Asks::Always,
        warns_of_reverts: false,
        warnings: &[],
        send: &|conditions| session.client.rollback(request, how.reason.as_deref(), conditions),
    };
    session.show(&proposal.carry_out(session, how).map_err(explain)?)
}

fn explain(error: ApiError) -> Failure {
    let is_conflict = error.is("conflict");
    let failure = Failure::from(error);
    // A revision that was already undone, or was not, needs no advice.
    match is_conflict && failure.message.ends_with("changed since") {
        true => failure.hint(
            "undo the later revisions first, newest first; or roll one resource back with `rollback --to REVISION --kind KIND --id ID`",
        ),
        false => unknown_revision(failure),
    }
}
