//! `describe`: everything about a resource on one page. A cluster with its effective inputs and diagnostics, a definition with the
//! clusters that use it, each with its last changes.

use std::collections::BTreeMap;

use clap::Args;
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::kind::{self, KindCommand};
use super::resource::{diagnostics, matching, overrides, usages};
use super::{history, inputs};
use crate::args::complete::{ids_of_the_kind, resources, selectors};
use crate::args::given;
use crate::args::ids::{self, Named};
use crate::args::target::{selector, selector_for};
use crate::client::encode;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::log::{Feed, fields, tone};
use crate::output::{Page, Table, Tone};
use crate::plan::clusters;
use crate::session::{Session, text};
use crate::view;

pub(crate) const AFTER_HELP: &str = "\
The page is the same on a terminal and in a pipe; -o json and -o yaml print the same as data, and -o wide shortens nothing.

Examples:
  flux-resourceset-cli describe cluster demo-cluster-01
  flux-resourceset-cli describe components/podinfo
  flux-resourceset-cli describe clusters -l team=a";

/// How many of the last changes are shown, and how many clusters that use a definition.
const MOST_CHANGES: usize = 5;
const MOST_USERS: usize = 10;

#[derive(Args, Clone, Debug)]
pub(crate) struct DescribeArgs {
    /// A kind, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: String,
    /// The ids of resources
    #[arg(value_name = "ID", value_parser = given, add = ids_of_the_kind())]
    ids: Vec<String>,
    /// The clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "ids", add = selectors())]
    selector: Option<String>,
}

pub(crate) fn run(session: &Session<'_>, args: &DescribeArgs) -> Result<(), Failure> {
    if let Some(Some(name)) = ids::kind_of_kinds(&args.kind, args.ids.first()) {
        return kind::run(session, &KindCommand::get(name));
    }
    let mut named = ids::resources(session.kinds()?, &args.kind, &args.ids)?;
    if let (Some(selector), [one]) = (&args.selector, named.as_mut_slice()) {
        if one.kind.name != CLUSTERS {
            return Err(selector_for(&one.kind.name));
        }
        let found = matching(session, selector)?;
        one.ids = found.iter().map(|cluster| cluster.id().to_owned()).collect();
    }
    show(session, &named)
}

/// Shows a page for each resource.
pub(crate) fn show(session: &Session<'_>, named: &[Named<'_>]) -> Result<(), Failure> {
    if named.iter().any(|named| named.ids.is_empty()) {
        let failure = Failure::usage("name the resources to describe: KIND ID or KIND/ID");
        return Err(failure.hint("`get KIND` lists all of a kind"));
    }
    let mut all = Vec::new();
    for Named { kind, ids } in named {
        for id in ids {
            all.push((*kind, describe(session, kind, id)?));
        }
    }
    let kinds = session.kinds()?;
    let value = match all.as_slice() {
        [(_, one)] => one.clone(),
        several => several.iter().map(|(_, one)| one.clone()).collect(),
    };
    let page = |wide: bool, colour: bool| {
        let pages = all.iter().map(|(kind, value)| page(kinds, kind, value, wide, colour));
        pages.collect::<Vec<_>>().join("\n")
    };
    let names = || {
        all.iter()
            .map(|(kind, value)| format!("{}/{}", kind.name, text(&value["id"])))
            .collect()
    };
    session.printer.page(&value, page, names)
}

/// Everything about a resource, as data.
fn describe(session: &Session<'_>, kind: &Kind, id: &str) -> Result<Value, Failure> {
    let document = view::one(session, kind, id, None)?;
    let mut feed = Feed {
        kind: Some(kind.name.clone()),
        id: Some(id.to_owned()),
        ..Feed::default()
    };
    let changes = feed.newest(session.client, MOST_CHANGES)?;
    let mut all = json!({"kind": kind.name, "id": id, "document": document, "changes": changes});
    if kind.name == CLUSTERS {
        all["inputs"] = effective(session, id)?.into();
        all["diagnostics"] = diagnostics::of(session, id)?;
    }
    if kind.references.is_some() {
        all["used_by"] = usages(session, kind, id, None)?;
    }
    if let Some(field) = &kind.depends_on {
        let definitions = session.client.get(&format!("/{}", kind.name))?;
        let needs = |one: &&Value| {
            one[field]
                .as_array()
                .is_some_and(|needed| needed.iter().any(|needed| *needed == *id))
        };
        let dependents = definitions.as_array().into_iter().flatten().filter(needs);
        all["needed_by"] = dependents.map(|one| one["id"].clone()).collect();
    }
    Ok(all)
}

/// What Flux gets for a cluster, by the path of each kind.
fn effective(session: &Session<'_>, id: &str) -> Result<Map<String, Value>, Failure> {
    let mut all = Map::new();
    for path in session.kinds()?.iter().filter_map(|kind| kind.path.as_deref()) {
        let reply = session
            .client
            .get(&format!("/{CLUSTERS}/{}/inputs/{}", encode(id), encode(path)))?;
        all.insert(path.to_owned(), reply["inputs"].clone());
    }
    Ok(all)
}

fn page(kinds: &Kinds, kind: &Kind, value: &Value, wide: bool, colour: bool) -> String {
    let mut page = Page::new(&format!("{}/{}", kind.name, text(&value["id"])), colour);
    // The references and patches of a cluster are part of its inputs.
    let is_input = |name: &str| {
        let array = |kind: &Kind| kind.references.as_deref() == Some(name);
        kind.name == CLUSTERS && (name == "patches" || kinds.iter().any(array))
    };
    let document = value["document"].as_object().into_iter().flatten();
    let document = document.map(|(name, value)| (name.as_str(), value));
    page.fields(document.filter(|(name, _)| *name != "id" && !is_input(name)));
    for (path, found) in value["inputs"].as_object().into_iter().flatten() {
        let title = format!("Inputs: {path}");
        let kind = kinds.iter().find(|kind| kind.path.as_deref() == Some(path));
        let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
        match found {
            [] => page.empty(&title, "none"),
            found => page.section(&title, &inputs::table(&with_overrides(kind, &value["document"], found))),
        }
    }
    if value.get("diagnostics").is_some() {
        page.section("Diagnostics", &diagnostics::table(&value["diagnostics"]));
    }
    if let Some(dependents) = value["needed_by"].as_array().filter(|all| !all.is_empty()) {
        let mut table = Table::default();
        dependents.iter().for_each(|id| table.line(text(id), Tone::Plain));
        page.section("Needed by", &table);
    }
    if let Some(users) = value["used_by"].as_array() {
        used_by(&mut page, kind, users, wide);
    }
    match value["changes"].as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => page.empty("Last changes", "none: the log has been compacted"),
        changes => page.section("Last changes", &last_changes(changes, wide)),
    }
    page.finish()
}

/// The inputs, each with the fields in which the cluster differs from the catalog.
fn with_overrides(kind: Option<&Kind>, cluster: &Value, inputs: &[Value]) -> Vec<Value> {
    let Some((kind, array)) = kind.and_then(|kind| Some((kind, kind.references.as_deref()?))) else {
        return inputs.to_vec();
    };
    let marked = inputs.iter().cloned().map(|mut input| {
        let mut references = cluster[array].as_array().into_iter().flatten();
        let reference = references.find(|reference| reference["id"] == input["id"]);
        if let Some(reference) = reference.filter(|_| !kind.overridable.is_empty()) {
            input["overridden"] = overrides(kind, reference).map(|(name, _)| Value::from(name)).collect();
        }
        input
    });
    marked.collect()
}

/// The clusters that use a definition: how many there are in each environment, then the first ones.
fn used_by(page: &mut Page, kind: &Kind, users: &[Value], wide: bool) {
    let mut environments: BTreeMap<&str, usize> = BTreeMap::new();
    for user in users {
        *environments.entry(text(&user["environment"])).or_default() += 1;
    }
    let counts: Vec<String> = environments
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let title = match counts.is_empty() {
        true => return page.empty("Used by", "no cluster"),
        false => format!("Used by {}: {}", clusters(users.len() as u64), counts.join(", ")),
    };
    let shown = if wide {
        users
    } else {
        users.get(..MOST_USERS).unwrap_or(users)
    };
    let mut table = usages::table(kind, shown, false, wide);
    if let Some(more) = users.len().checked_sub(shown.len()).filter(|more| *more > 0) {
        table.line(format!("... and {more} more; -o wide shows all"), Tone::Quiet);
    }
    page.section(&title, &table);
}

fn last_changes(changes: &[Value], wide: bool) -> Table {
    let mut table = Table::default();
    for record in changes.iter().rev() {
        table.line(history::heading(record), tone(record));
        for field in fields(record).iter().filter(|_| wide || record["action"] == "update") {
            table.line(format!("  {}: {}", field.pointer, field.describe()), Tone::Plain);
        }
    }
    table
}
