//! `get KIND [ID]`, and what `list` and `get` of every kind show.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use clap::{ArgMatches, Args, FromArgMatches as _};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::changes::Feed;
use super::resource::missing;
use crate::args::{given, ids_of_the_kind, kind_names, selector};
use crate::client::{encode, with_query};
use crate::error::{Code, Failure};
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// A kind by any of its names: cluster, components, platform_components, ...
    #[arg(value_parser = given, add = kind_names())]
    kind: String,
    /// The id of one resource; all of them if left out
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
    /// As it was at this revision
    #[arg(long, value_name = "REVISION", requires = "id", conflicts_with = "watch")]
    revision: Option<u64>,
    /// Only clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "id")]
    selector: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Go on, and print each change as it comes; one JSON document per line
    #[arg(short, long)]
    watch: bool,
    /// Seconds between looks at the log
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "watch")]
    interval: Duration,
}

impl WatchArgs {
    pub(crate) fn read(matches: &ArgMatches) -> Result<WatchArgs, Failure> {
        WatchArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// A span of time in seconds, not so short that it is a load.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds from 0.05 to 3600 is expected".to_owned())
}

pub(crate) fn run(session: &Session<'_>, args: &GetArgs) -> Result<(), Failure> {
    let kind = session.kinds()?.get(&args.kind)?;
    let path = match &args.id {
        Some(id) => path(kind, id, args.revision),
        None => {
            if args.selector.is_some() && kind.name != CLUSTERS {
                let command = &kind.command;
                let failure = Failure::usage(format!("a selector selects clusters, and {} are none", kind.name));
                return Err(failure.hint(format!("`{command} where ID -l SELECTOR` shows who has one")));
            }
            with_query(&format!("/{}", kind.name), [("selector", args.selector.clone())])
        }
    };
    show(session, kind, &path, args.id.as_deref(), &args.watch)
}

/// Where a resource is, or was at a revision.
pub(crate) fn path(kind: &Kind, id: &str, revision: Option<u64>) -> String {
    let path = format!("/{}/{}", kind.name, encode(id));
    with_query(&path, [("revision", revision.map(|revision| revision.to_string()))])
}

/// Shows what is at a path: one resource, or a list.
pub(crate) fn show(
    session: &Session<'_>,
    kind: &Kind,
    path: &str,
    id: Option<&str>,
    watch: &WatchArgs,
) -> Result<(), Failure> {
    // The log is asked first: what happens between the two is shown twice rather than never.
    let feed = match watch.watch {
        true => Some(Feed::from_now(session.client, Some(&kind.name), id)?),
        false => None,
    };
    let found = session.client.get(path).map_err(|error| match id {
        Some(id) if path.contains('?') => missing_then(error.into(), kind, id),
        Some(_) => missing(error.into(), kind),
        None => missing_list(error.into()),
    })?;
    let Some(feed) = feed else {
        let shape = Shape::new(kind, session.kinds()?);
        return session
            .printer
            .print(&found, |wide| shape.table(&found, wide), || names(kind, &found));
    };
    follow(session, kind, path, &found, feed, watch.interval)
}

/// What was not there at a revision may have been at another.
fn missing_then(failure: Failure, kind: &Kind, id: &str) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| format!("`{} history {id}` shows its revisions", kind.command)),
        _ => failure,
    }
}

/// A kind that is known has a list; a server without it has no lists at all.
fn missing_list(failure: Failure) -> Failure {
    match failure.code {
        Code::NotFound => failure
            .hint("a read-only server has only what Flux asks for: FLUX_API_URL must be a server with API_MODE=crud"),
        _ => failure,
    }
}

fn names(kind: &Kind, found: &Value) -> Vec<String> {
    items(found)
        .iter()
        .map(|item| format!("{}/{}", kind.name, text(&item["id"])))
        .collect()
}

/// One resource is a list of one.
fn items(found: &Value) -> &[Value] {
    match found {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

fn follow(
    session: &Session<'_>,
    kind: &Kind,
    path: &str,
    found: &Value,
    mut feed: Feed,
    interval: Duration,
) -> Result<(), Failure> {
    let shape = Shape::new(kind, session.kinds()?);
    let wide = session.printer.is_wide();
    let print = |item: &Value| {
        session
            .printer
            .stream(item, |wide| shape.table(item, wide), || names(kind, item))
    };
    session.printer.heading(&shape.table(&json!([]), wide))?;
    // With a selector or a filter, who matches is for the server to say.
    let filtered = path.contains('?');
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for item in items(found) {
        print(item)?;
        known.insert(text(&item["id"]).to_owned(), item.clone());
    }
    loop {
        let mut moved = false;
        for record in feed.next(session.client)? {
            moved = true;
            let changed = text(&record["id"]).to_owned();
            if filtered {
                continue;
            }
            match &record["after"] {
                Value::Null => gone(session, kind, &mut known, &changed)?,
                after if known.get(&changed) != Some(after) => {
                    print(after)?;
                    known.insert(changed, after.clone());
                }
                _ => {}
            }
        }
        if moved && filtered {
            let now = session.client.get(path)?;
            let left: Vec<String> = known
                .keys()
                .filter(|id| items(&now).iter().all(|item| item["id"] != id.as_str()))
                .cloned()
                .collect();
            for id in left {
                gone(session, kind, &mut known, &id)?;
            }
            for item in items(&now) {
                if known.insert(text(&item["id"]).to_owned(), item.clone()).as_ref() != Some(item) {
                    print(item)?;
                }
            }
        }
        thread::sleep(interval);
    }
}

fn gone(session: &Session<'_>, kind: &Kind, known: &mut BTreeMap<String, Value>, id: &str) -> Result<(), Failure> {
    known.remove(id);
    let mark = json!({"id": id, "$patch": "delete"});
    let table = |_: bool| {
        let mut table = Table::new(["id", "state"]);
        table.row([(id.to_owned(), Tone::Plain), ("gone".to_owned(), Tone::Bad)]);
        table
    };
    session
        .printer
        .stream(&mark, table, || vec![format!("{}/{id}", kind.name)])
}

/// The columns of a kind: what is short and telling, or with `wide` everything.
struct Shape<'a> {
    kind: &'a Kind,
    /// The arrays of references of a cluster, shown as counts.
    arrays: Vec<(&'a str, String)>,
}

impl<'a> Shape<'a> {
    fn new(kind: &'a Kind, kinds: &'a Kinds) -> Shape<'a> {
        let arrays = kinds
            .iter()
            .filter_map(|other| Some((other.references.as_deref()?, other.plural())));
        Shape {
            kind,
            arrays: arrays.filter(|_| kind.name == CLUSTERS).collect(),
        }
    }

    fn table(&self, found: &Value, wide: bool) -> Table {
        let is_array = |name: &str| self.arrays.iter().any(|(array, _)| *array == name);
        // A cluster's name is nearly always its id.
        let telling = |name: &str| !(self.kind.name == CLUSTERS && name == "cluster_name");
        let fields = self.kind.fields.iter().filter(|field| !is_array(&field.name));
        let fields = fields.filter(|field| {
            wide || (field.is_scalar() && field.required && telling(&field.name)) || field.name == "labels"
        });
        let fields: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
        let heading: Vec<String> = std::iter::once("id".to_owned())
            .chain(fields.iter().map(|name| (*name).to_owned()))
            .chain(self.arrays.iter().map(|(_, plural)| plural.clone()))
            .collect();
        let mut table = Table::new(&heading);
        for item in items(found) {
            let count = |array: &str| item[array].as_array().map_or(0, Vec::len).to_string();
            let row = std::iter::once(cell(&item["id"]))
                .chain(fields.iter().map(|name| cell(&item[*name])))
                .chain(
                    self.arrays
                        .iter()
                        .map(|(array, _)| if wide { cell(&item[*array]) } else { count(array) }),
                );
            table.row(row.map(|text| (text, Tone::Plain)));
        }
        table
    }
}
