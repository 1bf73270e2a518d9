//! `changes show`: what one revision changed.

use clap::Args;
use serde_json::{Value, json};

use super::{described, seconds, status};
use crate::args::revision;
use crate::client::with_query;
use crate::error::{Code, Failure};
use crate::log::{Revisions, counts, name};
use crate::output::{Table, Tone};
use crate::plan::Plan;
use crate::session::{Session, text, unknown_revision};
use crate::status::progress;

#[derive(Args, Clone, Debug)]
pub(super) struct ShowArgs {
    /// The revision
    #[arg(value_parser = revision)]
    revision: u64,
}

pub(super) fn run(session: &Session<'_>, args: &ShowArgs) -> Result<(), Failure> {
    let records = records(session, args.revision)?;
    let mut query = Revisions {
        before: Some(args.revision.saturating_add(1)),
        ..Revisions::default()
    };
    let found = query.next(session.client, 1)?.unwrap_or_default();
    let revision = found.first().unwrap_or(&Value::Null);
    let kinds = session.kinds()?;
    let table = |wide| {
        let mut table = Table::default();
        let (actor, at) = (text(&revision["actor"]), seconds(text(&revision["at"])));
        let line = format!("revision {} by {actor}, {at}: {}", args.revision, described(revision));
        table.line(line, Tone::Head);
        table.line(counts(revision, kinds), Tone::Plain);
        let come = status(session, args.revision);
        if let Some(come) = come.as_ref().and_then(progress) {
            table.line(format!("on the clusters: {come}"), Tone::Plain);
        }
        Plan::read(json!({ "changes": records })).resources(wide, &mut table);
        table
    };
    session
        .printer
        .print(&json!(records), table, || records.iter().map(name).collect())
}

/// The records of one revision. A page of the log never splits one.
fn records(session: &Session<'_>, revision: u64) -> Result<Vec<Value>, Failure> {
    let after = Some((revision - 1).to_string());
    let path = with_query("/changes", [("after", after), ("limit", Some("1".to_owned()))]);
    let records = match session.client.get(&path)? {
        Value::Array(records) => records,
        _ => Vec::new(),
    };
    match records.first().is_some_and(|record| record["revision"] == revision) {
        true => Ok(records),
        false => {
            let failure = Failure::new(Code::NotFound, format!("there is no revision {revision}"));
            Err(unknown_revision(failure))
        }
    }
}
