//! `undo`.

use clap::Args;
use fleet::refusal::some_of;
use serde_json::json;

use super::rollback;
use crate::args::WriteArgs;
use crate::confirm;
use crate::error::{Code, Failure};
use crate::log::{last_by, name};
use crate::output::escaped;
use crate::session::{Session, text};

const ABOUT: &str = "\
An undo is refused where a resource of the revision has changed again since. An undo is a revision too: undoing it \
applies the changes again.";

pub(crate) fn after_help() -> String {
    format!("{ABOUT}\n\n{}", confirm::AFTER_HELP)
}

#[derive(Args, Clone, Debug)]
pub(crate) struct UndoArgs {
    /// The revision to undo [default: the last one that this token wrote]
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

/// The last revision that was written with our token; shows which one it is.
fn last_of_ours(session: &Session<'_>) -> Result<u64, Failure> {
    let (actor, head) = session.client.writer()?;
    let Some(actor) = actor else {
        return Err(Failure::usage(
            "the server does not return the name of this token: name the revision",
        ));
    };
    let records = last_by(session.client, &actor, head)?;
    let Some(first) = records.first() else {
        let failure = Failure::new(Code::NotFound, format!("the log has no revision by {actor}"));
        return Err(failure.hint("`changes` shows who wrote what; `undo REVISION` undoes any revision"));
    };
    let names: Vec<String> = records.iter().map(name).collect();
    // Somebody else may have written the reason: it must not control the terminal.
    let reason = first["reason"]
        .as_str()
        .map(|reason| format!(", \"{}\"", escaped(reason)))
        .unwrap_or_default();
    session.printer.note(&format!(
        "undoing revision {} by {actor}, {}{reason}: {}",
        first["revision"],
        text(&first["at"]),
        some_of(&names)
    ));
    Ok(first["revision"].as_u64().unwrap_or_default())
}
