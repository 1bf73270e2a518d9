//! The way back: rollback and undo.

use clap::Args;
use fleet::kind::KINDS;
use fleet::refusal::some_of;
use serde_json::{Value, json};

use super::changes::last_by;
use crate::args::{WriteArgs, given, kind_names, selector};
use crate::consent::{ConsentArgs, Proposal};
use crate::error::{ApiError, Code, Failure};
use crate::output::escaped;
use crate::session::{Session, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct RollbackArgs {
    /// The revision to go back to
    #[arg(long, value_name = "REVISION")]
    to: u64,
    /// Only one resource: its kind, by any of its names
    #[arg(long, requires = "id", value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only one resource: its id
    #[arg(long, requires = "kind", value_parser = given)]
    id: Option<String>,
    /// Only the clusters that match, now or then; what they refer to stays as it is
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "kind")]
    selector: Option<String>,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct UndoArgs {
    /// The revision to take back; the last one that was written with this token if left out
    revision: Option<u64>,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn rollback(session: &Session<'_>, args: &RollbackArgs) -> Result<(), Failure> {
    let mut back = json!({ "revision": args.to });
    if let (Some(kind), Some(id)) = (&args.kind, &args.id) {
        back["kind"] = kind_name(session, kind)?.into();
        back["id"] = id.as_str().into();
    }
    if let Some(selector) = &args.selector {
        back["selector"] = selector.as_str().into();
    }
    go(session, &back, "Go back", &args.how, &args.consent)
}

/// A kind's own name. One that is not there any more may have been there then.
fn kind_name(session: &Session<'_>, given: &str) -> Result<String, Failure> {
    Ok(match session.kinds()?.named(given) {
        Some(kind) => kind.name.clone(),
        None if given == "kind" => KINDS.to_owned(),
        None => given.to_owned(),
    })
}

pub(crate) fn undo(session: &Session<'_>, args: &UndoArgs) -> Result<(), Failure> {
    let revision = match args.revision {
        Some(revision) => revision,
        None => last_of_ours(session)?,
    };
    let back = json!({ "undo": revision });
    go(
        session,
        &back,
        &format!("Undo revision {revision}"),
        &args.how,
        &args.consent,
    )
}

/// The last revision by whoever our token stands for; says which one that is.
fn last_of_ours(session: &Session<'_>) -> Result<u64, Failure> {
    let (actor, head) = session.client.writer()?;
    let Some(actor) = actor else {
        return Err(Failure::usage(
            "the server does not say whose token this is: name the revision",
        ));
    };
    let records = last_by(session.client, &actor, head)?;
    let Some(first) = records.first() else {
        let failure = Failure::new(Code::NotFound, format!("the log has no revision by {actor}"));
        return Err(failure.hint("`changes` shows who wrote what; `undo REVISION` takes any of them back"));
    };
    let names = records
        .iter()
        .map(|record| format!("{}/{}", text(&record["kind"]), text(&record["id"])));
    let names: Vec<String> = names.collect();
    let reason = first["reason"].as_str();
    // Anybody's words, just where somebody decides.
    let reason = reason
        .map(|reason| format!(", \"{}\"", escaped(reason)))
        .unwrap_or_default();
    session.printer.note(&format!(
        "taking back revision {} by {actor}, {}{reason}: {}",
        first["revision"],
        text(&first["at"]),
        some_of(&names)
    ));
    Ok(first["revision"].as_u64().unwrap_or_default())
}

fn go(
    session: &Session<'_>,
    back: &Value,
    question: &str,
    how: &WriteArgs,
    consent: &ConsentArgs,
) -> Result<(), Failure> {
    let proposal = Proposal {
        question,
        send: &|conditions| session.client.rollback(back, how.reason.as_deref(), conditions),
        explain: &explain,
    };
    proposal.carry_out(session, how, consent)
}

fn explain(error: ApiError) -> Failure {
    let conflict = error.is("conflict");
    let failure = Failure::from(error);
    match conflict {
        true => failure.hint(
            "undo what came later first, the newest first, or `rollback --to REVISION --kind KIND --id ID` for one resource",
        ),
        false => match failure.code {
            Code::NotFound => failure.or_hint(|| "`changes` shows the revisions".to_owned()),
            _ => failure,
        },
    }
}
