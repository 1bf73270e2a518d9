//! The audit log: changes, history, and following it.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use clap::Args;
use fleet::kind::{KINDS, name_record};
use serde_json::{Value, json};

use super::get::interval;
use crate::args::{given, ids_of_the_kind, kind_names};
use crate::client::{Client, with_query};
use crate::error::{ApiError, Code, Failure};
use crate::output::{Table, Tone};
use crate::session::{Session, text};
use fleet::diff::{Difference, differences};

/// How many records one request asks for.
const PAGE: u64 = 1000;

#[derive(Args, Clone, Debug)]
pub(crate) struct ChangesArgs {
    /// Only this kind
    #[arg(long, value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only this id
    #[arg(long, value_parser = given)]
    id: Option<String>,
    /// Only what this actor did: the name of a token, or system
    #[arg(long, value_parser = given)]
    actor: Option<String>,
    /// Only revisions after this one
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// The newest this many
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    /// Go on, and print each change as it comes; one JSON document per line
    #[arg(long, short = 'F')]
    follow: bool,
    /// Seconds between looks at the log
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "follow")]
    interval: Duration,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HistoryArgs {
    /// A kind by any of its names
    #[arg(value_parser = given, add = kind_names())]
    kind: String,
    /// The id of the resource; it may be gone
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: String,
}

/// Pages of the log, from some revision on.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Zero: from where the log begins, which may have been compacted.
    after: u64,
    kind: Option<String>,
    id: Option<String>,
    actor: Option<String>,
}

impl Feed {
    /// What happens from now on.
    pub(crate) fn from_now(client: &Client, kind: Option<&str>, id: Option<&str>) -> Result<Feed, ApiError> {
        Ok(Feed {
            after: client.revision()?,
            kind: kind.map(str::to_owned),
            id: id.map(str::to_owned),
            actor: None,
        })
    }

    /// The records that came since the last look; none when there are no more.
    pub(crate) fn next(&mut self, client: &Client) -> Result<Vec<Value>, ApiError> {
        let path = with_query(
            "/changes",
            [
                ("after", (self.after > 0).then(|| self.after.to_string())),
                ("limit", Some(PAGE.to_string())),
                ("kind", self.kind.clone()),
                ("id", self.id.clone()),
                ("actor", self.actor.clone()),
            ],
        );
        let Value::Array(records) = client.get(&path)? else {
            return Ok(Vec::new());
        };
        if let Some(last) = records.last().and_then(|record| record["revision"].as_u64()) {
            self.after = last;
        }
        Ok(records)
    }
}

pub(crate) fn run(session: &Session<'_>, args: &ChangesArgs) -> Result<(), Failure> {
    let kind = match args.kind.as_deref() {
        None => None,
        // Kinds, decommissions and released names have their records too.
        Some(name) if name == KINDS || name_record(name).is_some() => Some(name.to_owned()),
        Some(name) => Some(session.kinds()?.get(name)?.name.clone()),
    };
    let filtered = kind.is_some() || args.id.is_some() || args.actor.is_some();
    // The log is read from front to back: without a filter, the newest N are in the newest N revisions.
    let after = match args.after {
        Some(after) => after,
        None if filtered => 0,
        None => session.client.revision()?.saturating_sub(args.limit as u64),
    };
    let mut feed = Feed {
        after,
        kind,
        id: args.id.clone(),
        actor: args.actor.clone(),
    };
    let newest = match read(session.client, &mut feed, args.limit) {
        // The newest are wanted, however few are kept.
        Err(gone) if args.after.is_none() && gone.is("compacted") => {
            feed.after = 0;
            read(session.client, &mut feed, args.limit)?
        }
        read => read?,
    };
    if !args.follow {
        return show(session, &newest);
    }
    session.printer.heading(&table(&[], session.printer.is_wide()))?;
    let print = |record: Value| {
        let records = [record];
        session
            .printer
            .stream(&records[0], |wide| table(&records, wide), || names(&records))
    };
    newest.into_iter().try_for_each(print)?;
    loop {
        thread::sleep(args.interval);
        feed.next(session.client)?.into_iter().try_for_each(print)?;
    }
}

fn read(client: &Client, feed: &mut Feed, limit: usize) -> Result<Vec<Value>, ApiError> {
    let mut newest = VecDeque::new();
    loop {
        let page = feed.next(client)?;
        if page.is_empty() {
            return Ok(newest.into());
        }
        for record in page {
            newest.push_back(record);
            if newest.len() > limit {
                newest.pop_front();
            }
        }
    }
}

/// The records of the last revision by an actor; none where there is none. The log is read from its end, in ever longer pieces: who
/// takes something back has mostly just done it.
pub(crate) fn last_by(client: &Client, actor: &str, head: u64) -> Result<Vec<Value>, ApiError> {
    let mut span = 64;
    loop {
        let after = head.saturating_sub(span);
        let mut feed = Feed {
            after,
            kind: None,
            id: None,
            actor: Some(actor.to_owned()),
        };
        let mut last: Vec<Value> = Vec::new();
        loop {
            let page = feed.next(client)?;
            let Some(newest) = page.last().map(|record| record["revision"].clone()) else {
                break;
            };
            // A page never splits a revision.
            last = page.into_iter().filter(|record| record["revision"] == newest).collect();
        }
        if !last.is_empty() || after == 0 {
            return Ok(last);
        }
        span = span.saturating_mul(8);
    }
}

pub(crate) fn run_history(session: &Session<'_>, args: &HistoryArgs) -> Result<(), Failure> {
    match args.kind.as_str() {
        KINDS | "kind" => history(session, KINDS, &args.id),
        name => history(session, &session.kinds()?.get(name)?.name, &args.id),
    }
}

pub(crate) fn history(session: &Session<'_>, kind: &str, id: &str) -> Result<(), Failure> {
    let mut feed = Feed {
        after: 0,
        kind: Some(kind.to_owned()),
        id: Some(id.to_owned()),
        actor: None,
    };
    let records = read(session.client, &mut feed, usize::MAX)?;
    if records.is_empty() {
        return Err(Failure::new(
            Code::NotFound,
            format!("the log knows nothing of {kind}/{id}"),
        ));
    }
    let table = |wide: bool| {
        let mut out = Table::default();
        for record in &records {
            let reason = record["reason"]
                .as_str()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            let line = format!(
                "revision {} {} by {}, {}{reason}",
                record["revision"],
                text(&record["action"]),
                text(&record["actor"]),
                text(&record["at"])
            );
            out.line(line, tone(record));
            for field in fields(record).iter().filter(|_| wide || record["action"] == "update") {
                out.line(format!("    {}: {}", field.pointer, field.describe()), Tone::Plain);
            }
        }
        out
    };
    session
        .printer
        .print(&Value::Array(records.clone()), table, || names(&records))
}

fn fields(record: &Value) -> Vec<Difference> {
    let some = |value: &'_ Value| Some(value.clone()).filter(|value| !value.is_null());
    differences(some(&record["before"]).as_ref(), some(&record["after"]).as_ref())
}

fn tone(record: &Value) -> Tone {
    match text(&record["action"]) {
        "create" => Tone::Good,
        "delete" => Tone::Bad,
        _ => Tone::Attention,
    }
}

fn names(records: &[Value]) -> Vec<String> {
    records
        .iter()
        .map(|record| format!("{}/{}", text(&record["kind"]), text(&record["id"])))
        .collect()
}

fn show(session: &Session<'_>, records: &[Value]) -> Result<(), Failure> {
    session
        .printer
        .print(&json!(records), |wide| table(records, wide), || names(records))
}

fn table(records: &[Value], wide: bool) -> Table {
    let mut heading = vec!["revision", "at", "actor", "action", "resource", "reason"];
    if wide {
        heading.extend(["request_id", "fields"]);
    }
    let mut table = Table::new(heading);
    for record in records {
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        let mut row = vec![
            plain(&record["revision"].to_string()),
            plain(text(&record["at"])),
            plain(text(&record["actor"])),
            (text(&record["action"]).to_owned(), tone(record)),
            plain(&format!("{}/{}", text(&record["kind"]), text(&record["id"]))),
            plain(record["reason"].as_str().unwrap_or("-")),
        ];
        if wide {
            let changed: Vec<String> = fields(record).into_iter().map(|field| field.pointer).collect();
            row.extend([plain(text(&record["request_id"])), plain(&changed.join(","))]);
        }
        table.row(row);
    }
    table
}
