//! `export`.

use std::collections::BTreeSet;

use clap::Args;
use fleet::kind::{self, CLUSTERS, GUARDS, KINDS, PROFILES, ROLLOUTS};
use serde_json::Value;

use crate::args::complete::{ids_of_the_kind, resources, selectors};
use crate::args::given;
use crate::args::ids::{self, Named};
use crate::args::target::{selector, selector_for};
use crate::client::with_query;
use crate::documents::tagged;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds, is_kind_of_kinds};
use crate::output::{Table, yaml};
use crate::session::{Session, text};
use crate::view;

pub(crate) const AFTER_HELP: &str = "\
Rollouts are left out, since elsewhere one would start again: the shared documents are those from before a rollout that has not \
ended. `export rollouts` writes them on request, without the fields of the server. Identities are never exported; `flux-resourceset \
backup` has everything.";

#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// Only this kind, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: Option<String>,
    /// Only these ids
    #[arg(requires = "kind", value_parser = given, add = ids_of_the_kind())]
    ids: Vec<String>,
    /// Only clusters that match; without a kind, also the definitions that they use
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "ids", add = selectors())]
    selector: Option<String>,
}

/// A document, with its kind.
pub(crate) type Exported = (String, Value);

pub(crate) fn run(session: &Session<'_>, args: &ExportArgs) -> Result<(), Failure> {
    let kinds = session.kinds()?;
    let documents = match &args.kind {
        Some(name) if is_kind_of_kinds(name) => kind_documents(kinds, &args.ids)?,
        Some(name) => of_kinds(session, &ids::resources(kinds, name, &args.ids)?, args)?,
        None => whole(session, kinds, args.selector.as_deref())?,
    };
    print(session, &documents)
}

fn of_kinds(session: &Session<'_>, named: &[Named<'_>], args: &ExportArgs) -> Result<Vec<Exported>, Failure> {
    let mut all = Vec::new();
    for Named { kind, ids } in named {
        if args.selector.is_some() && kind.name != CLUSTERS {
            return Err(selector_for(&kind.name));
        }
        let resources: Vec<Value> = match ids.is_empty() {
            true => list(session, kind, args.selector.as_deref())?,
            false => ids
                .iter()
                .map(|id| view::one(session, kind, id, None))
                .collect::<Result<_, _>>()?,
        };
        let resources = resources
            .into_iter()
            .map(|resource| without_server_fields(kind, resource));
        all.extend(resources.map(|resource| (kind.name.clone(), resource)));
    }
    Ok(all)
}

/// A document as a request may have it: without the fields that only the server writes.
fn without_server_fields(kind: &Kind, mut resource: Value) -> Value {
    let schema = &kind.document["schema"]["items"]["properties"];
    if let Some(fields) = resource.as_object_mut() {
        fields.retain(|name, _| schema[name]["readOnly"] != true);
    }
    resource
}

fn list(session: &Session<'_>, kind: &Kind, selector: Option<&str>) -> Result<Vec<Value>, Failure> {
    let query = [("selector", selector.map(str::to_owned))];
    match session.client.get(&with_query(&format!("/{}", kind.name), query))? {
        Value::Array(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// The named kinds; without names, all but the built-in ones, which every server has.
fn kind_documents(kinds: &Kinds, only: &[String]) -> Result<Vec<Exported>, Failure> {
    if only.is_empty() {
        return Ok(added(kinds).collect());
    }
    only.iter()
        .map(|name| Ok((KINDS.to_owned(), kinds.get(name)?.document.clone())))
        .collect()
}

fn added(kinds: &Kinds) -> impl Iterator<Item = Exported> {
    let added = kinds.iter().filter(|kind| kind.origin != "built-in");
    added.map(|kind| (KINDS.to_owned(), kind.document.clone()))
}

/// Kinds, then definitions, then profiles, then clusters: the order in which they can be created. Guards come last, so that they do
/// not refuse what comes before; a selection of clusters has none. Rollouts are left out: elsewhere, one would start again.
fn whole(session: &Session<'_>, kinds: &Kinds, selector: Option<&str>) -> Result<Vec<Exported>, Failure> {
    let (mut clusters, mut profiles, mut guards) = (Vec::new(), Vec::new(), Vec::new());
    let mut definitions: Vec<(&Kind, Vec<Value>)> = Vec::new();
    for kind in kinds.iter() {
        match kind.name.as_str() {
            CLUSTERS => clusters = list(session, kind, selector)?,
            PROFILES => profiles = list(session, kind, None)?,
            ROLLOUTS => {}
            GUARDS if selector.is_some() => {}
            GUARDS => guards = list(session, kind, None)?,
            _ => definitions.push((kind, list(session, kind, None)?)),
        }
    }
    if selector.is_some() {
        for (kind, all) in &mut definitions {
            // Which profiles the clusters match is not known here, so all are exported.
            let holders: Vec<&Value> = clusters.iter().chain(&profiles).collect();
            let used = used(kind, all, &holders);
            all.retain(|definition| used.contains(text(&definition["id"])));
        }
    }
    // A cluster has an array for every kind, so a selection needs all kinds.
    let mut documents: Vec<Exported> = added(kinds).collect();
    for (kind, all) in definitions {
        documents.extend(all.into_iter().map(|definition| (kind.name.clone(), definition)));
    }
    documents.extend(profiles.into_iter().map(|profile| (PROFILES.to_owned(), profile)));
    documents.extend(clusters.into_iter().map(|cluster| (CLUSTERS.to_owned(), cluster)));
    documents.extend(guards.into_iter().map(|guard| (GUARDS.to_owned(), guard)));
    Ok(documents)
}

/// The definitions that clusters and profiles refer to, and those that these depend on.
fn used(kind: &Kind, all: &[Value], holders: &[&Value]) -> BTreeSet<String> {
    let array = kind.references.as_deref().unwrap_or_default();
    let references = holders
        .iter()
        .flat_map(|holder| holder[array].as_array().into_iter().flatten());
    let mut open: Vec<String> = references.map(|reference| text(&reference["id"]).to_owned()).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        let definition = all.iter().find(|definition| definition["id"] == id.as_str());
        if let (Some(definition), Some(field)) = (definition, &kind.depends_on) {
            let needed = definition[field.as_str()]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            open.extend(needed.filter(|id| !used.contains(*id)).map(str::to_owned));
        }
        used.insert(id);
    }
    used
}

/// Prints resources with their kind. The document of a kind already has one.
pub(crate) fn print(session: &Session<'_>, documents: &[Exported]) -> Result<(), Failure> {
    let printer = session.printer.as_document();
    if printer.shows_yaml() {
        let mut out = String::new();
        for (kind, value) in documents {
            out.push_str("---\n");
            if kind == KINDS {
                out.push_str(&yaml(value));
            } else {
                out.push_str(&format!("kind: {kind}\n{}", yaml(value)));
            }
        }
        return printer.text(&out);
    }
    let tagged = documents.iter().map(|(kind, value)| match (kind.as_str(), value) {
        (KINDS, value) => value.clone(),
        (kind, value) => tagged(kind, value),
    });
    let names = || {
        documents
            .iter()
            .map(|(kind, value)| format!("{kind}/{}", name(kind, value)))
            .collect()
    };
    printer.print(&tagged.collect(), |_| Table::default(), names)
}

fn name(kind: &str, value: &Value) -> String {
    match kind {
        KINDS => kind::name_of(value).unwrap_or_default(),
        _ => text(&value["id"]).to_owned(),
    }
}
