//! `changes`.

use std::thread;
use std::time::Duration;

use clap::Args;
use fleet::kind::{KINDS, name_record};
use serde_json::{Value, json};

use crate::args::complete::kind_names;
use crate::args::given;
use crate::error::Failure;
use crate::log::{Feed, fields, name, tone};
use crate::output::{Table, Tone};
use crate::session::{Session, text};
use crate::view::interval;

#[derive(Args, Clone, Debug)]
pub(crate) struct ChangesArgs {
    /// Only this kind
    #[arg(long, value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only this id
    #[arg(long, value_parser = given)]
    id: Option<String>,
    /// Only changes by this actor: the name of a token, or system
    #[arg(long, value_parser = given)]
    actor: Option<String>,
    /// Only revisions after this one
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Only the newest N records
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    /// Keep running, and print each change; in JSON, one document per line
    #[arg(long, short = 'F')]
    follow: bool,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "follow")]
    interval: Duration,
}

pub(crate) fn run(session: &Session<'_>, args: &ChangesArgs) -> Result<(), Failure> {
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
    session.printer.heading(&table(&[], session.printer.is_wide()))?;
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
    let kind = match args.kind.as_deref() {
        None => None,
        // The log also has records of kinds, decommissions and released names.
        Some(name) if name == KINDS || name_record(name).is_some() => Some(name.to_owned()),
        Some(name) => Some(session.kinds()?.get(name)?.name.clone()),
    };
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
            plain(&name(record)),
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
