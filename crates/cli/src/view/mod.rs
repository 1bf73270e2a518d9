//! Shows the resources of a kind: once, or again whenever they change.

mod columns;
mod watch;

use std::time::Duration;

use clap::{ArgMatches, Args, FromArgMatches as _};
use fleet::kind::{CLUSTERS, GUARDS};
use serde_json::Value;

use self::columns::Columns;
use self::watch::Watch;
use crate::args::ids::Named;
use crate::cli::family_name;
use crate::client::{encode, with_query};
use crate::documents::tagged;
use crate::error::{Code, Failure};
use crate::kinds::Kind;
use crate::log::Feed;
use crate::output::cell;
use crate::output::jsonpath::JsonPath;
use crate::session::{Session, missing, text};
use crate::status::Rows;
use crate::suggest;

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

/// Parses the path of `--sort-by`; a dot at its start and braces may be left out, as in kubectl.
pub(crate) fn sort_path(text: &str) -> Result<JsonPath, String> {
    match text.starts_with(['.', '[', '{', '$']) {
        true => JsonPath::parse(text),
        false => JsonPath::parse(&format!(".{text}")),
    }
}

/// Sorts a list by a value of each resource: numbers as numbers, resources without a value first.
fn sort(found: &mut Value, path: &JsonPath) {
    let Value::Array(items) = found else { return };
    items.sort_by(|one, other| {
        let (one, other) = (path.find(one), path.find(other));
        let numbers = (
            one.first().and_then(|value| value.as_f64()),
            other.first().and_then(|value| value.as_f64()),
        );
        match numbers {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => one
                .first()
                .map(|value| cell(value))
                .cmp(&other.first().map(|value| cell(value))),
        }
    });
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

/// Shows a list of a kind, with the filters of a query.
pub(crate) fn show_list(
    session: &Session<'_>,
    kind: &Kind,
    query: Vec<(&str, Option<String>)>,
    order: Option<&JsonPath>,
    args: &WatchArgs,
) -> Result<(), Failure> {
    let selector = query.iter().find(|(name, _)| *name == "selector");
    let selector = selector.and_then(|(_, selector)| selector.clone());
    let path = with_query(&format!("/{}", kind.name), query);
    if args.watch {
        return watch(session, kind, &path, None, args);
    }
    let mut found = session.client.get(&path).map_err(|error| missing_list(error.into()))?;
    if let Some(path) = order {
        sort(&mut found, path);
    }
    if items(&found).is_empty() {
        // A table without rows looks like a mistake, and JSON without items is an answer.
        if let Some(hint) = selector
            .as_deref()
            .and_then(|selector| suggest::unmatched(session, selector))
        {
            session.printer.hint(&hint);
        } else if session.printer.is_table() {
            session
                .printer
                .note(&format!("no {} found", kind.plural().replace('_', " ")));
        }
        if session.printer.is_table() {
            return Ok(());
        }
    }
    // Documents stay what they are: only tables have the states.
    let states = || Rows::of_clusters(session, selector.as_deref());
    let states = (kind.name == CLUSTERS && session.printer.is_table()).then(states);
    let columns = Columns::new(kind, session.kinds()?).with_states(states.flatten());
    let columns = match kind.name == GUARDS && session.printer.is_table() {
        true => columns.with_in_force(in_force(session)?),
        false => columns,
    };
    session.printer.print(
        &document(session, kind, &found),
        |wide| columns.table(&found, wide),
        || names(kind, &found),
    )
}

/// The ids of the guards that are in force now, by the clock of the server.
fn in_force(session: &Session<'_>) -> Result<Vec<String>, Failure> {
    let now = session.client.get(&format!("/{GUARDS}?at=now"))?;
    Ok(items(&now).iter().map(|guard| text(&guard["id"]).to_owned()).collect())
}

/// Shows resources by name, also of several kinds. Those that exist are shown even if others do not.
pub(crate) fn show_named(
    session: &Session<'_>,
    named: &[Named<'_>],
    revision: Option<u64>,
    args: &WatchArgs,
) -> Result<(), Failure> {
    if args.watch {
        return match named {
            [Named { kind, ids }] if ids.len() == 1 => {
                watch(session, kind, &path(kind, &ids[0], None), Some(&ids[0]), args)
            }
            _ => Err(Failure::usage("--watch is for one resource, or for all of a kind")),
        };
    }
    let mut found = Vec::new();
    let mut absent: Vec<Failure> = Vec::new();
    let many = named.iter().map(|named| named.ids.len()).sum::<usize>() > 1;
    for Named { kind, ids } in named {
        let mut all = Vec::new();
        for id in ids {
            match one(session, kind, id, revision) {
                Ok(resource) => all.push(resource),
                Err(failure) if failure.code == Code::NotFound => absent.push(suggest::improve(session, failure)),
                Err(failure) => return Err(failure),
            }
        }
        match many {
            true => found.push((*kind, Value::Array(all))),
            false => found.extend(all.into_iter().map(|one| (*kind, one))),
        }
    }
    if !found.iter().all(|(_, found)| items(found).is_empty()) {
        print(session, &found)?;
    }
    all_absent(absent)
}

/// One failure for all resources that do not exist.
fn all_absent(mut absent: Vec<Failure>) -> Result<(), Failure> {
    match absent.len() {
        0 => Ok(()),
        1 => {
            let mut failure = absent.remove(0);
            failure.subject = None;
            Err(failure)
        }
        count => {
            let mut failure = Failure::new(Code::NotFound, format!("{count} resources do not exist"));
            let detail = |one: Failure| match one.hint.filter(|hint| hint.starts_with("did you mean")) {
                Some(like) => format!("{}; {like}", one.message),
                None => one.message,
            };
            failure.details = absent.into_iter().map(|one| (String::new(), detail(one))).collect();
            Err(failure)
        }
    }
}

fn path(kind: &Kind, id: &str, revision: Option<u64>) -> String {
    let path = format!("/{}/{}", kind.name, encode(id));
    with_query(&path, [("revision", revision.map(|revision| revision.to_string()))])
}

/// A resource, now or at a revision.
pub(crate) fn one(session: &Session<'_>, kind: &Kind, id: &str, revision: Option<u64>) -> Result<Value, Failure> {
    let found = session.client.get(&path(kind, id, revision)).map_err(Failure::from);
    found.map_err(|failure| match (failure.code, revision) {
        (Code::NotFound, Some(_)) => {
            failure.or_hint(|| format!("`{} history {id}` lists its revisions", family_name(kind)))
        }
        _ => missing(failure, kind, id),
    })
}

fn watch(session: &Session<'_>, kind: &Kind, path: &str, id: Option<&str>, args: &WatchArgs) -> Result<(), Failure> {
    // The position in the log is read first: a change between the two requests is then shown twice, not lost.
    let feed = Feed::from_now(session.client, Some(&kind.name), id)?;
    let found = session.client.get(path).map_err(|error| match id {
        Some(id) => missing(error.into(), kind, id),
        None => missing_list(error.into()),
    })?;
    let columns = Columns::new(kind, session.kinds()?);
    Watch::new(session, kind, path, columns).run(&found, feed, args.interval)
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

/// Prints resources, by kind. JSON is as the API has it; YAML is as `apply` reads it.
pub(crate) fn print(session: &Session<'_>, found: &[(&Kind, Value)]) -> Result<(), Failure> {
    let (printer, kinds) = (session.printer, session.kinds()?);
    if let [(kind, found)] = found {
        let columns = Columns::new(kind, kinds);
        return printer.print(
            &document(session, kind, found),
            |wide| columns.table(found, wide),
            || names(kind, found),
        );
    }
    if printer.is_table() {
        for (n, (kind, found)) in found.iter().filter(|(_, found)| !items(found).is_empty()).enumerate() {
            if n > 0 {
                printer.text("\n")?;
            }
            let columns = Columns::new(kind, kinds);
            printer.print(found, |wide| columns.table(found, wide), Vec::new)?;
        }
        return Ok(());
    }
    // Only their kinds tell resources of several kinds apart.
    let all = found
        .iter()
        .flat_map(|(kind, found)| items(found).iter().map(|item| tagged(&kind.name, item)));
    let names = || found.iter().flat_map(|(kind, found)| names(kind, found)).collect();
    printer.print(&all.collect(), |_| Default::default(), names)
}

/// A resource, or a list, in the form of the output.
fn document(session: &Session<'_>, kind: &Kind, found: &Value) -> Value {
    match session.printer.shows_yaml() {
        true => tagged(&kind.name, found),
        false => found.clone(),
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
