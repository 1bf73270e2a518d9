//! `history`.

use clap::Args;
use fleet::kind::KINDS;
use serde_json::Value;

use crate::args::complete::{ids_of_the_kind, resources};
use crate::args::{given, ids};
use crate::error::{Code, Failure};
use crate::log::{Feed, fields, name, overrides, tone};
use crate::output::{Table, Tone};
use crate::session::{Session, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct HistoryArgs {
    /// A kind, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: String,
    /// The id of the resource, which may have been deleted
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
}

pub(crate) fn run(session: &Session<'_>, args: &HistoryArgs) -> Result<(), Failure> {
    if let Some(Some(name)) = ids::kind_of_kinds(&args.kind, args.id.as_ref()) {
        return show(session, KINDS, name);
    }
    let (kind, id) = ids::resource(session.kinds()?, &args.kind, args.id.as_ref())?;
    show(session, &kind.name, &id)
}

pub(crate) fn show(session: &Session<'_>, kind: &str, id: &str) -> Result<(), Failure> {
    let mut feed = Feed {
        kind: Some(kind.to_owned()),
        id: Some(id.to_owned()),
        ..Feed::default()
    };
    let records = feed.newest(session.client, usize::MAX)?;
    if records.is_empty() {
        let failure = Failure::new(Code::NotFound, format!("the log has no record of {kind}/{id}"));
        return Err(failure.about(kind, id));
    }
    session.printer.print(
        &Value::Array(records.clone()),
        |wide| table(&records, wide),
        || records.iter().map(name).collect(),
    )
}

fn table(records: &[Value], wide: bool) -> Table {
    let mut out = Table::default();
    for record in records {
        out.line(heading(record), tone(record));
        for field in fields(record).iter().filter(|_| wide || record["action"] == "update") {
            out.line(format!("    {}: {}", field.pointer, field.describe()), Tone::Plain);
        }
    }
    out
}

/// Which change it was, by whom, when and why.
pub(crate) fn heading(record: &Value) -> String {
    let reason = record["reason"]
        .as_str()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let overrides = overrides(record)
        .map(|overrides| format!(" {overrides}"))
        .unwrap_or_default();
    format!(
        "revision {} {} by {}, {}{reason}{overrides}",
        record["revision"],
        text(&record["action"]),
        text(&record["actor"]),
        text(&record["at"])
    )
}
