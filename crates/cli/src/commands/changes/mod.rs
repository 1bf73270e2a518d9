//! `changes`: the revisions of the log, newest first, or its records.

mod records;
mod show;

use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use fleet::identity::IDENTITIES;
use fleet::kind::{KINDS, name_record};
use serde_json::{Value, json};

use crate::args::complete::kind_names;
use crate::args::given;
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::log::{Revisions, counts, overrides};
use crate::output::{Table, Tone};
use crate::session::{Session, text};
use crate::status::progress;
use crate::view::interval;

pub(crate) const AFTER_HELP: &str = "\
Each line is a revision: what was written together, by one actor and for one reason. `changes show N` shows what revision N \
changed, field by field; --records lists the changes of single resources, oldest first. --status shows how far each change has \
come: on how many of the clusters that it affects it has converged, fails, or is missing. Times are RFC 3339, a date, or an age \
such as 24h or 7d.";

#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ChangesArgs {
    #[command(subcommand)]
    command: Option<ChangesCommand>,
    /// Only revisions that changed a resource of this kind
    #[arg(long, value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only revisions that changed a resource with this id; or KIND/ID
    #[arg(long, value_parser = given)]
    id: Option<String>,
    /// Only revisions by this actor: the name of a token, or system
    #[arg(long, value_parser = given)]
    actor: Option<String>,
    /// Only revisions at this time or later
    #[arg(long, value_name = "TIME", value_parser = given, conflicts_with = "records")]
    since: Option<String>,
    /// Only revisions before this time
    #[arg(long, value_name = "TIME", value_parser = given, conflicts_with = "records")]
    until: Option<String>,
    /// Only revisions whose reason contains this text
    #[arg(long, value_name = "TEXT", value_parser = given, conflicts_with = "records")]
    reason: Option<String>,
    /// Only revisions after this one
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Only the newest N revisions, or records with --records
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    /// List records, the changes of single resources, oldest first
    #[arg(long)]
    records: bool,
    /// Show how far the newest 10 revisions have come on the clusters that they affect
    #[arg(long, conflicts_with_all = ["records", "follow"])]
    status: bool,
    /// Keep running, and print each revision as it comes; in JSON, one document per line
    #[arg(long, short = 'F', conflicts_with = "until")]
    follow: bool,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "follow")]
    interval: Duration,
}

#[derive(Clone, Debug, Subcommand)]
enum ChangesCommand {
    /// Show what one revision changed, field by field
    Show(show::ShowArgs),
}

pub(crate) fn run(session: &Session<'_>, args: &ChangesArgs) -> Result<(), Failure> {
    match &args.command {
        Some(ChangesCommand::Show(args)) => show::run(session, args),
        None if args.records => records::run(session, &with_kind(args)),
        None => list(session, &with_kind(args)),
    }
}

/// `--id clusters/demo-cluster-01` names the kind, too.
fn with_kind(args: &ChangesArgs) -> ChangesArgs {
    let mut args = args.clone();
    if let Some((kind, id)) = args.id.clone().as_deref().and_then(|id| id.split_once('/')) {
        args.kind.get_or_insert_with(|| kind.to_owned());
        args.id = Some(id.to_owned());
    }
    args
}

/// The name of the kind that is asked for. The log also has records of kinds, identities, decommissions and released names.
fn kind_name(session: &Session<'_>, args: &ChangesArgs) -> Result<Option<String>, Failure> {
    match args.kind.as_deref() {
        None => Ok(None),
        Some("identity") => Ok(Some(IDENTITIES.to_owned())),
        Some(name) if name == KINDS || name == IDENTITIES || name_record(name).is_some() => Ok(Some(name.to_owned())),
        Some(name) => Ok(Some(session.kinds()?.get(name)?.name.clone())),
    }
}

fn list(session: &Session<'_>, args: &ChangesArgs) -> Result<(), Failure> {
    let query = Revisions {
        kind: kind_name(session, args)?,
        id: args.id.clone(),
        actor: args.actor.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        reason: args.reason.clone(),
        ..Revisions::default()
    };
    let kinds = session.kinds()?;
    let mut found = newest(session, query.clone(), args.after.unwrap_or_default(), args.limit)?;
    if args.status {
        add_progress(session, &mut found);
    }
    if !args.follow {
        let names = || found.iter().map(|revision| revision["revision"].to_string()).collect();
        return session
            .printer
            .print(&json!(found), |wide| table(&found, kinds, wide), names);
    }
    let mut last = found.first().map_or(args.after.unwrap_or_default(), number);
    let first: Vec<Value> = found.into_iter().rev().collect();
    session
        .printer
        .heading(&table(&first, kinds, session.printer.is_wide()))?;
    let print = |revision: &Value| {
        let one = std::slice::from_ref(revision);
        let names = || vec![revision["revision"].to_string()];
        session.printer.stream(revision, |wide| table(one, kinds, wide), names)
    };
    first.iter().try_for_each(print)?;
    loop {
        thread::sleep(args.interval);
        let new = newest(session, query.clone(), last, usize::MAX)?;
        last = new.first().map_or(last, number);
        new.iter().rev().try_for_each(print)?;
    }
}

/// Adds how far revisions have come. Comparing what clusters are told takes time, so only the newest have it.
fn add_progress(session: &Session<'_>, found: &mut [Value]) {
    const MOST: usize = 10;
    for revision in found.iter_mut().take(MOST) {
        revision["status"] = status(session, number(revision)).unwrap_or_default();
    }
}

/// How far a revision has come; none where the server does not tell: it is older, or the log has been compacted.
fn status(session: &Session<'_>, revision: u64) -> Option<Value> {
    session.client.get(&format!("/revisions/{revision}/status")).ok()
}

/// The newest revisions after a revision, newest first.
fn newest(session: &Session<'_>, mut query: Revisions, after: u64, limit: usize) -> Result<Vec<Value>, Failure> {
    let mut found: Vec<Value> = Vec::new();
    while found.len() < limit
        && query.before.is_none_or(|before| before > after + 1)
        && let Some(page) = query.next(session.client, (limit - found.len()) as u64)?
    {
        let wanted = page.len();
        found.extend(page.into_iter().filter(|revision| number(revision) > after));
        if found.len() < wanted {
            break;
        }
    }
    Ok(found)
}

fn number(revision: &Value) -> u64 {
    revision["revision"].as_u64().unwrap_or_default()
}

fn table(revisions: &[Value], kinds: &Kinds, wide: bool) -> Table {
    let mut heading = vec!["revision", "at", "actor", "changes", "reason"];
    if wide {
        heading.insert(4, "request_id");
    }
    let with_progress = revisions.iter().any(|revision| revision.get("status").is_some());
    if with_progress {
        heading.insert(4, "progress");
    }
    let mut table = Table::new(heading).at_least(&[8, 20, 12, 24]);
    for revision in revisions {
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        let mut row = vec![
            plain(&revision["revision"].to_string()),
            plain(&seconds(text(&revision["at"]))),
            plain(text(&revision["actor"])),
            plain(&counts(revision, kinds)),
            plain(&described(revision)),
        ];
        if wide {
            row.insert(4, plain(text(&revision["request_id"])));
        }
        if with_progress {
            row.insert(
                4,
                plain(&progress(&revision["status"]).unwrap_or_else(|| "-".to_owned())),
            );
        }
        table.row(row);
    }
    table
}

/// A time without its fraction.
fn seconds(at: &str) -> String {
    match at.split_once('.') {
        Some((time, _)) => format!("{time}Z"),
        None => at.to_owned(),
    }
}

/// The reason, and what became of the revision.
fn described(revision: &Value) -> String {
    let reason = revision["reason"].as_str();
    let reversed = [("undone_by", "undone by"), ("redone_by", "redone by")];
    let reversed = reversed.iter().find_map(|(name, word)| {
        let by = revision[name].as_u64()?;
        Some(format!("({word} {by})"))
    });
    let overrides = overrides(revision);
    let marks = overrides.as_deref().into_iter().chain(reversed.as_deref());
    let parts: Vec<&str> = reason.into_iter().chain(marks).collect();
    match parts.is_empty() {
        true => "-".to_owned(),
        false => parts.join(" "),
    }
}
