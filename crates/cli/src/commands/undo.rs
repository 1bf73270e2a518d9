//! `undo`.

use clap::Args;
use fleet::kind::stays_on_rollback;
use serde_json::{Value, json};

use super::rollback;
use crate::args::{WriteArgs, revision};
use crate::confirm;
use crate::error::{Code, Failure};
use crate::log::{Revisions, counts};
use crate::output::escaped;
use crate::session::{Session, text};

const ABOUT: &str = "\
Without a revision, the last revision of this token that is neither an undo nor undone is undone: to undo twice goes back two \
revisions, and `redo` brings them back. An undo is refused where a resource of the revision has changed again since.";

pub(crate) fn after_help() -> String {
    format!("{ABOUT}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
pub(crate) struct UndoArgs {
    /// The revision to undo [default: the last one that this token wrote]
    #[arg(value_parser = revision)]
    revision: Option<u64>,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &UndoArgs) -> Result<(), Failure> {
    let revision = match args.revision {
        Some(revision) => revision,
        None => last_of_ours(session)?,
    };
    rollback::carry_out(
        session,
        &json!({ "undo": revision }),
        &format!("Undo revision {revision}"),
        &args.how,
    )
}

/// The last revision of our token that can be undone; shows which one it is.
fn last_of_ours(session: &Session<'_>) -> Result<u64, Failure> {
    let actor = actor(session)?;
    let mut revisions = Revisions {
        actor: Some(actor.clone()),
        ..Revisions::default()
    };
    let in_effect = |revision: &Value| !is_reversal(revision) && revision["undone_by"].is_null();
    let wanted = |revision: &Value| in_effect(revision) && can_be_undone(revision);
    let found = revisions.find(session.client, |revision| wanted(revision).then(|| revision.clone()))?;
    let Some(found) = found else {
        let message = format!("there is nothing to undo: the log has no revision by {actor} that is not undone");
        let failure = Failure::new(Code::NotFound, message);
        return Err(failure.hint("`changes` shows who wrote what; `undo REVISION` undoes any revision"));
    };
    announce(session, "undoing", &found)?;
    Ok(found["revision"].as_u64().unwrap_or_default())
}

/// Whether a revision changed something besides what an undo leaves as it is: guards and identities.
fn can_be_undone(revision: &Value) -> bool {
    let mut kinds = revision["changes"].as_object().into_iter().flatten();
    kinds.any(|(kind, _)| !stays_on_rollback(kind))
}

/// The name of our write token in the log.
pub(super) fn actor(session: &Session<'_>) -> Result<String, Failure> {
    let (actor, _) = session.client.writer()?;
    actor.ok_or_else(|| Failure::usage("the server does not return the name of this token: name the revision"))
}

/// Whether a revision is an undo or a redo.
pub(super) fn is_reversal(revision: &Value) -> bool {
    !revision["undoes"].is_null() || !revision["redoes"].is_null()
}

/// Says which revision was chosen.
pub(super) fn announce(session: &Session<'_>, doing: &str, revision: &Value) -> Result<(), Failure> {
    // Somebody else may have written the reason: it must not control the terminal.
    let reason = revision["reason"].as_str();
    let reason = reason
        .map(|reason| format!(", \"{}\"", escaped(reason)))
        .unwrap_or_default();
    session.printer.note(&format!(
        "{doing} revision {} by {}, {}{reason}: {}",
        revision["revision"],
        escaped(text(&revision["actor"])),
        text(&revision["at"]),
        counts(revision, session.kinds()?)
    ));
    Ok(())
}
