//! `changes --records`: the changes of single resources.

use std::thread;

use serde_json::{Value, json};

use super::{ChangesArgs, kind_name};
use crate::error::Failure;
use crate::log::{Feed, fields, name, overrides, tone};
use crate::output::{Table, Tone};
use crate::session::{Session, text};

pub(super) fn run(session: &Session<'_>, args: &ChangesArgs) -> Result<(), Failure> {
    let mut feed = feed(session, args)?;
    let newest = match feed.newest(session.client, args.limit) {
        // The start was chosen here, and the log has been compacted past it: read what is left.
        Err(gone) if args.after.is_none() && gone.is("compacted") => {
            feed.after = 0;
            feed.newest(session.client, args.limit)?
        }
        read => read?,
    };
    if !args.follow {
        return session.printer.print(
            &json!(newest),
            |wide| table(&newest, wide),
            || newest.iter().map(name).collect(),
        );
    }
    session.printer.heading(&table(&newest, session.printer.is_wide()))?;
    let print = |record: Value| {
        let records = [record];
        session
            .printer
            .stream(&records[0], |wide| table(&records, wide), || vec![name(&records[0])])
    };
    newest.into_iter().try_for_each(print)?;
    loop {
        thread::sleep(args.interval);
        feed.next(session.client)?.into_iter().try_for_each(print)?;
    }
}

fn feed(session: &Session<'_>, args: &ChangesArgs) -> Result<Feed, Failure> {
    let kind = kind_name(session, args)?;
    let filtered = kind.is_some() || args.id.is_some() || args.actor.is_some();
    // The log is read from front to back. Without a filter, the newest N records are in the newest N revisions.
    let after = match args.after {
        Some(after) => after,
        None if filtered => 0,
        None => session.client.revision()?.saturating_sub(args.limit as u64),
    };
    Ok(Feed {
        after,
        kind,
        id: args.id.clone(),
        actor: args.actor.clone(),
    })
}

/// The reason, and the guards that were overridden.
fn reason(record: &Value) -> String {
    let reason = record["reason"].as_str().unwrap_or("-");
    match overrides(record) {
        Some(overrides) => format!("{reason} {overrides}"),
        None => reason.to_owned(),
    }
}

fn table(records: &[Value], wide: bool) -> Table {
    let mut heading = vec!["revision", "at", "actor", "action", "resource", "reason"];
    if wide {
        heading.extend(["request_id", "fields"]);
    }
    let mut table = Table::new(heading).at_least(&[8, 27, 12, 6, 36]);
    for record in records {
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        let mut row = vec![
            plain(&record["revision"].to_string()),
            plain(text(&record["at"])),
            plain(text(&record["actor"])),
            (text(&record["action"]).to_owned(), tone(record)),
            plain(&name(record)),
            plain(&reason(record)),
        ];
        if wide {
            let changed: Vec<String> = fields(record).into_iter().map(|field| field.pointer).collect();
            row.extend([plain(text(&record["request_id"])), plain(&changed.join(","))]);
        }
        table.row(row);
    }
    table
}
