//! `redo`.

use std::cell::Cell;

use clap::Args;
use serde_json::{Value, json};

use super::rollback;
use super::undo::{actor, announce, is_reversal};
use crate::args::{WriteArgs, revision};
use crate::confirm;
use crate::error::{Code, Failure};
use crate::log::Revisions;
use crate::session::Session;

const ABOUT: &str = "\
Without a revision, the last undo of this token is taken back, unless the token has written something else since. A redo is \
refused where a resource has changed again since the undo.";

pub(crate) fn after_help() -> String {
    format!("{ABOUT}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RedoArgs {
    /// The revision that was undone, or its undo [default: the last one that this token undid]
    #[arg(value_parser = revision)]
    revision: Option<u64>,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &RedoArgs) -> Result<(), Failure> {
    let revision = match args.revision {
        Some(revision) => revision,
        None => last_undo_of_ours(session)?,
    };
    rollback::carry_out(
        session,
        &json!({ "redo": revision }),
        &format!("Redo revision {revision}"),
        &args.how,
    )
}

/// The revision that the last undo of our token undid; shows which one it is.
fn last_undo_of_ours(session: &Session<'_>) -> Result<u64, Failure> {
    let actor = actor(session)?;
    let mut revisions = Revisions {
        actor: Some(actor.clone()),
        ..Revisions::default()
    };
    let redone = Cell::new(false);
    // The search ends at the last revision that is something else.
    let decide = |revision: &Value| match is_reversal(revision) {
        false => Some(Err(revision["revision"].clone())),
        true if revision["undoes"].is_null() || !revision["redone_by"].is_null() => {
            redone.set(true);
            None
        }
        true => Some(Ok(revision["undoes"].as_u64().unwrap_or_default())),
    };
    let nothing = |why: String| {
        let failure = Failure::new(Code::NotFound, format!("there is nothing to redo: {why}"));
        failure.hint("`changes` shows what was undone; `redo REVISION` redoes any of it")
    };
    let undone = match revisions.find(session.client, decide)? {
        Some(Ok(undone)) => undone,
        Some(Err(last)) if redone.get() => {
            return Err(nothing(format!(
                "every undo by {actor} since revision {last} was redone"
            )));
        }
        Some(Err(last)) => return Err(nothing(format!("{actor} has undone nothing since revision {last}"))),
        None => return Err(nothing(format!("the log has no undo by {actor}"))),
    };
    let mut original = Revisions {
        before: Some(undone + 1),
        ..Revisions::default()
    };
    let page = original.next(session.client, 1)?.unwrap_or_default();
    match page.iter().find(|revision| revision["revision"] == undone) {
        Some(original) => announce(session, "redoing", original)?,
        None => session.printer.note(&format!("redoing revision {undone}")),
    }
    Ok(undone)
}
