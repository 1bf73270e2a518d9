//! Shows the resources of a kind: once, or again whenever they change.

mod columns;
mod watch;

use std::time::Duration;

use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::Value;

use self::columns::Columns;
use self::watch::Watch;
use crate::client::{encode, with_query};
use crate::error::{Code, Failure};
use crate::kinds::Kind;
use crate::log::Feed;
use crate::session::{Session, missing, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Keep running, and print each change; in JSON, one document per line
    #[arg(short, long)]
    watch: bool,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "watch")]
    interval: Duration,
}

impl WatchArgs {
    pub(crate) fn read(matches: &ArgMatches) -> Result<WatchArgs, Failure> {
        WatchArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// Parses a number of seconds. The lower limit protects the server.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.05 to 3600".to_owned())
}

/// The path of a resource, now or at a revision.
pub(crate) fn path(kind: &Kind, id: &str, revision: Option<u64>) -> String {
    let path = format!("/{}/{}", kind.name, encode(id));
    with_query(&path, [("revision", revision.map(|revision| revision.to_string()))])
}

/// Shows what a path returns: one resource, or a list.
pub(crate) fn show(
    session: &Session<'_>,
    kind: &Kind,
    path: &str,
    id: Option<&str>,
    args: &WatchArgs,
) -> Result<(), Failure> {
    // The position in the log is read first: a change between the two requests is then shown twice, not lost.
    let feed = match args.watch {
        true => Some(Feed::from_now(session.client, Some(&kind.name), id)?),
        false => None,
    };
    let found = session.client.get(path).map_err(|error| match id {
        Some(id) if path.contains('?') => missing_at_revision(error.into(), kind, id),
        Some(_) => missing(error.into(), kind),
        None => missing_list(error.into()),
    })?;
    let columns = Columns::new(kind, session.kinds()?);
    match feed {
        Some(feed) => Watch::new(session, kind, path, columns).run(&found, feed, args.interval),
        None => session
            .printer
            .print(&found, |wide| columns.table(&found, wide), || names(kind, &found)),
    }
}

fn missing_at_revision(failure: Failure, kind: &Kind, id: &str) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| format!("`{} history {id}` lists its revisions", kind.command)),
        _ => failure,
    }
}

/// Every known kind has a list, unless the server is read-only.
fn missing_list(failure: Failure) -> Failure {
    match failure.code {
        Code::NotFound => failure.hint(
            "a read-only server only answers Flux: set FLUX_API_URL to the address of a server with API_MODE=crud",
        ),
        _ => failure,
    }
}

fn names(kind: &Kind, found: &Value) -> Vec<String> {
    items(found)
        .iter()
        .map(|item| format!("{}/{}", kind.name, text(&item["id"])))
        .collect()
}

/// The resources of a reply; a single resource is a list of one.
fn items(found: &Value) -> &[Value] {
    match found {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}
