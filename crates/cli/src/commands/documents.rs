//! Documents in files: apply, diff, export, delete.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};
use fleet::files;
use fleet::kind::{self, CLUSTERS, KINDS};
use fleet::operation::Verb;
use serde_json::{Map, Value, json};

use super::resource::{missing, remove, unknown_revision};
use crate::args::{Files, WriteArgs, given, ids_of_the_kind, kind_names, selector};
use crate::client::{Conditions, Operation, encode, with_query};
use crate::consent::{ConsentArgs, Proposal};
use crate::error::{Code, Failure};
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, yaml};
use crate::plan::Plan;
use crate::saved::Saved;
use crate::session::{Session, blame, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    files: Files,
    /// Keep the plan in a file, for `apply --plan`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "plan"]).required(true)))]
pub(crate) struct ApplyArgs {
    /// A file or folder of documents, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// Look into folders within folders too
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Do exactly what a plan shows that `plan --out` kept, or nothing
    #[arg(long, value_name = "FILE", conflicts_with = "if_plan", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "from"]).required(true)))]
pub(crate) struct DiffArgs {
    /// Compare the fleet with documents: a file or folder, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// Look into folders within folders too
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Compare the fleet at this revision with another
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    /// The other revision; the current one if left out
    #[arg(long, value_name = "REVISION", requires = "from")]
    to: Option<u64>,
    /// Only clusters that match, at one revision or the other
    #[arg(short = 'l', long, value_parser = selector, requires = "from")]
    selector: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// Only this kind, by any of its names
    #[arg(value_parser = given, add = kind_names())]
    kind: Option<String>,
    /// Only these ids
    #[arg(requires = "kind", value_parser = given, add = ids_of_the_kind())]
    ids: Vec<String>,
    /// Only clusters that match; without a kind, also every definition that they use
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "ids")]
    selector: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// A kind by any of its names
    #[arg(value_parser = given, add = kind_names(), required_unless_present = "filename", conflicts_with = "filename", requires = "id")]
    kind: Option<String>,
    /// The id of the resource
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
    /// Delete what these documents name: a file, a folder, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Look into folders within folders too
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Also take definitions from the clusters that have them
    #[arg(long)]
    cascade: bool,
    /// Pass over what is not there
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    how: WriteArgs,
}

/// One document, and where it stands.
pub(crate) struct Document {
    place: String,
    pub(crate) value: Value,
}

/// Reads every document of files, folders and stdin.
pub(crate) fn read(paths: &[PathBuf], recursive: bool) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::file(Path::new("stdin"), &error))?;
            parse("stdin", &text, &mut documents)?;
            continue;
        }
        let mut files = Vec::new();
        collect(path, recursive, &mut files)?;
        if files.is_empty() {
            return Err(Failure::usage(format!(
                "{}: no .yaml, .yml, .json or .jsonl file is in this folder",
                path.display()
            )));
        }
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| Failure::file(&file, &error))?;
            parse(&file.display().to_string(), &text, &mut documents)?;
        }
    }
    match documents.is_empty() {
        true => Err(Failure::usage("there is no document in what was given")),
        false => Ok(documents),
    }
}

fn collect(path: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let unreadable = |error| Failure::file(path, &error);
    let entries: Result<Vec<_>, _> = fs::read_dir(path)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut entries = entries.map_err(unreadable)?;
    entries.sort();
    for entry in entries {
        let known = entry
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json", "jsonl"].iter().any(|known| end == *known));
        if entry.is_dir() {
            if recursive {
                collect(&entry, recursive, files)?;
            }
        } else if known {
            files.push(entry);
        }
    }
    Ok(())
}

/// Takes a text apart: JSON values one after the other, or YAML documents; a list is the documents in it.
fn parse(name: &str, text: &str, documents: &mut Vec<Document>) -> Result<(), Failure> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let values = match json {
        Ok(values) => values,
        Err(_) => {
            let options = serde_saphyr::options! { strict_booleans: true };
            serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                let line = line.strip_prefix("error: ").unwrap_or(line);
                Failure::new(Code::Usage, format!("{name}: {line}"))
            })?
        }
    };
    let values = values.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        one => vec![one],
    });
    let values: Vec<Value> = values.collect();
    let many = values.len() > 1;
    for (n, value) in values.into_iter().enumerate() {
        let place = if many {
            format!("{name} #{}", n + 1)
        } else {
            name.to_owned()
        };
        documents.push(Document { place, value });
    }
    Ok(())
}

/// A document as an operation: of what kind, under which id.
struct Applied {
    kind: String,
    id: String,
    operation: Operation,
}

/// The kinds that documents may be of: those of the server, and those among the documents themselves.
struct Known<'a> {
    session: &'a Session<'a>,
    /// Plural, and every other name.
    among: Vec<(String, Vec<String>)>,
}

impl<'a> Known<'a> {
    fn read(session: &'a Session<'a>, documents: &[Document]) -> Known<'a> {
        let kinds = documents
            .iter()
            .filter(|document| document.value.get("schema").is_some());
        let names = kinds.filter_map(|document| {
            let flux = &document.value["schema"]["x-flux"];
            let others = [&document.value["kind"], &flux["singular"], &flux["command"]];
            let others = others.into_iter().filter_map(Value::as_str);
            let others = others.map(|name| name.replace('-', "_")).collect();
            Some((kind::name_of(&document.value).ok()?, others))
        });
        Known {
            session,
            among: names.collect(),
        }
    }

    /// A kind's own name, by any of its names. One that is unknown is never merely "not there".
    fn name(&self, given: &str, place: &str) -> Result<String, Failure> {
        if given == KINDS {
            return Ok(given.to_owned());
        }
        let kinds = self.session.kinds()?;
        if let Some(kind) = kinds.named(given) {
            return Ok(kind.name.clone());
        }
        let wanted = given.to_ascii_lowercase().replace('-', "_");
        let among = self
            .among
            .iter()
            .find(|(name, others)| *name == wanted || others.contains(&wanted));
        match among {
            Some((name, _)) => Ok(name.clone()),
            None => kinds.get(given).map(|kind| kind.name.clone()).map_err(|mut failure| {
                failure.message = format!("{place}: {}", failure.message);
                failure
            }),
        }
    }
}

impl Applied {
    fn read(document: &Document, known: &Known<'_>) -> Result<Applied, Failure> {
        let wrong = |error: fleet::refusal::Violation| {
            let failure = Failure::usage(format!("{}: {}", document.place, error.detail));
            failure.hint("`kind list` names the kinds; a document with `schema` is a kind itself")
        };
        let operation = files::apply(document.value.clone()).map_err(wrong)?;
        let Verb::Apply { value, .. } = operation.verb else {
            return Err(Failure::usage(format!(
                "{}: this document cannot be applied",
                document.place
            )));
        };
        let kind = known.name(&operation.kind, &document.place)?;
        let id = match kind.as_str() {
            KINDS => kind::name_of(&value).map_err(wrong)?,
            _ => ["id", "_id", "cluster_name"]
                .iter()
                .find_map(|name| value[*name].as_str())
                .unwrap_or_default()
                .to_owned(),
        };
        let label = match id.as_str() {
            "" => format!("{} ({kind})", document.place),
            id => format!("{} ({kind}/{id})", document.place),
        };
        let body = json!({"op": "apply", "kind": kind, "value": value});
        Ok(Applied {
            operation: Operation::new(label, body),
            kind,
            id,
        })
    }
}

/// All documents, kinds first: the rest is held against them. The same thing twice is a mistake that the last one would hide.
fn read_all(session: &Session<'_>, documents: &[Document]) -> Result<Vec<Applied>, Failure> {
    let known = Known::read(session, documents);
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for document in documents {
        let applied = Applied::read(document, &known)?;
        if !applied.id.is_empty() && !seen.insert((applied.kind.clone(), applied.id.clone())) {
            return Err(Failure::new(
                Code::Usage,
                format!("{}: {}/{} is there twice", document.place, applied.kind, applied.id),
            ));
        }
        all.push(applied);
    }
    all.sort_by_key(|applied| applied.kind != KINDS);
    Ok(all)
}

fn operations(all: Vec<Applied>) -> Vec<Operation> {
    all.into_iter().map(|applied| applied.operation).collect()
}

/// What documents ask for.
fn wanted(session: &Session<'_>, paths: &[PathBuf], recursive: bool) -> Result<Vec<Operation>, Failure> {
    Ok(operations(read_all(session, &read(paths, recursive)?)?))
}

fn planned(session: &Session<'_>, operations: &[Operation]) -> Result<Plan, Failure> {
    let reply = session.client.batch(operations, None, &Conditions::dry_run());
    Ok(Plan::read(reply.map_err(|error| blame(operations, error))?))
}

pub(crate) fn plan(session: &Session<'_>, args: &PlanArgs) -> Result<(), Failure> {
    let operations = wanted(session, &args.files.filename, args.files.recursive)?;
    let plan = planned(session, &operations)?;
    if let Some(path) = &args.out {
        Saved::new(&plan, &operations).write(path)?;
    }
    plan.show_document(session.printer)
}

pub(crate) fn apply(session: &Session<'_>, args: &ApplyArgs) -> Result<(), Failure> {
    let mut how = args.how.clone();
    let operations = match &args.plan {
        Some(path) => {
            let saved = Saved::read(path)?;
            how.if_plan = Some(saved.plan.clone());
            saved.operations()
        }
        None => wanted(session, &args.filename, args.recursive)?,
    };
    let proposal = Proposal {
        question: "Apply these changes",
        send: &|conditions| session.client.batch(&operations, how.reason.as_deref(), conditions),
        explain: &|error| blame(&operations, error),
    };
    proposal.carry_out(session, &how, &args.consent)
}

pub(crate) fn apply_documents(session: &Session<'_>, documents: &[Document], how: &WriteArgs) -> Result<(), Failure> {
    session.write_and_show(&operations(read_all(session, documents)?), how)
}

pub(crate) fn diff(session: &Session<'_>, args: &DiffArgs) -> Result<bool, Failure> {
    let plan = match args.from {
        Some(from) => {
            let parameters = [
                ("from", Some(from.to_string())),
                ("to", args.to.map(|to| to.to_string())),
                ("selector", args.selector.clone()),
            ];
            let found = session.client.get(&with_query("/diff", parameters));
            let plan = Plan::read(found.map_err(|error| unknown_revision(error.into()))?);
            plan.show_difference(session.printer)?;
            plan
        }
        None => {
            let plan = planned(session, &wanted(session, &args.filename, args.recursive)?)?;
            plan.show(session.printer)?;
            plan
        }
    };
    Ok(!plan.is_empty())
}

pub(crate) fn delete(session: &Session<'_>, args: &DeleteArgs) -> Result<(), Failure> {
    if let (Some(name), Some(id)) = (&args.kind, &args.id) {
        // An unknown kind is wrong, whatever may be missing of it.
        let kind = session.kinds()?.get(name)?;
        return match remove(session, kind, id, args.cascade, &args.how) {
            Err(failure) if args.ignore_not_found && failure.code == Code::NotFound => {
                session.show_unchanged(&args.how)
            }
            other => other,
        };
    }
    let mut all = read_all(session, &read(&args.filename, args.recursive)?)?;
    // What refers goes before what it refers to, and kinds go last.
    all.sort_by_key(|applied| match applied.kind.as_str() {
        CLUSTERS => 0,
        KINDS => 2,
        _ => 1,
    });
    let mut operations = Vec::new();
    for applied in all {
        if applied.id.is_empty() {
            return Err(Failure::usage(format!(
                "{} /id: a document that is to be deleted says its id",
                applied.operation.label
            )));
        }
        if args.ignore_not_found && !is_there(session, &applied)? {
            continue;
        }
        let mut body = json!({"op": "delete", "kind": applied.kind, "id": applied.id});
        if args.cascade && applied.kind != CLUSTERS && applied.kind != KINDS {
            body["cascade"] = true.into();
        }
        operations.push(Operation::new(applied.operation.label, body));
    }
    match operations.is_empty() {
        true => session.show_unchanged(&args.how),
        false => session
            .write_and_show(&operations, &args.how)
            .map_err(|failure| match failure.code {
                Code::NotFound => failure.or_hint(|| "--ignore-not-found passes over what is not there".to_owned()),
                _ => failure,
            }),
    }
}

fn is_there(session: &Session<'_>, applied: &Applied) -> Result<bool, Failure> {
    Ok(session.client.find(&applied.kind, &applied.id)?.is_some())
}

/// What is exported: kinds that somebody added, then definitions, then clusters.
pub(crate) fn export(session: &Session<'_>, args: &ExportArgs) -> Result<(), Failure> {
    let kinds = session.kinds()?;
    let documents = match &args.kind {
        Some(name) if name == KINDS || name == "kind" => exported_kinds(kinds, &args.ids)?,
        Some(name) => {
            let kind = kinds.get(name)?;
            if args.selector.is_some() && kind.name != CLUSTERS {
                return Err(Failure::usage(format!(
                    "a selector selects clusters, and {} are none",
                    kind.name
                )));
            }
            let resources = match args.ids.is_empty() {
                true => list(session, kind, args.selector.as_deref())?,
                false => args
                    .ids
                    .iter()
                    .map(|id| one(session, kind, id))
                    .collect::<Result<_, _>>()?,
            };
            resources
                .into_iter()
                .map(|resource| (kind.name.clone(), resource))
                .collect()
        }
        None => whole(session, kinds, args.selector.as_deref())?,
    };
    print(session, &documents)
}

fn list(session: &Session<'_>, kind: &Kind, selector: Option<&str>) -> Result<Vec<Value>, Failure> {
    match session.client.get(&with_query(
        &format!("/{}", kind.name),
        [("selector", selector.map(str::to_owned))],
    ))? {
        Value::Array(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

fn one(session: &Session<'_>, kind: &Kind, id: &str) -> Result<Value, Failure> {
    session
        .client
        .get(&format!("/{}/{}", kind.name, encode(id)))
        .map_err(|error| missing(error.into(), kind))
}

/// Kinds as documents. Those of the release are left out: another release brings its own.
fn exported_kinds(kinds: &Kinds, only: &[String]) -> Result<Vec<(String, Value)>, Failure> {
    if !only.is_empty() {
        return only
            .iter()
            .map(|name| Ok((KINDS.to_owned(), kinds.get(name)?.document.clone())))
            .collect();
    }
    let added = kinds.iter().filter(|kind| kind.origin != "built-in");
    Ok(added.map(|kind| (KINDS.to_owned(), kind.document.clone())).collect())
}

fn whole(session: &Session<'_>, kinds: &Kinds, selector: Option<&str>) -> Result<Vec<(String, Value)>, Failure> {
    let mut clusters = Vec::new();
    let mut definitions: Vec<(&Kind, Vec<Value>)> = Vec::new();
    for kind in kinds.iter() {
        match kind.name.as_str() {
            CLUSTERS => clusters = list(session, kind, selector)?,
            _ => definitions.push((kind, list(session, kind, None)?)),
        }
    }
    if selector.is_some() {
        for (kind, all) in &mut definitions {
            let used = used(kind, all, &clusters);
            all.retain(|definition| used.contains(text(&definition["id"])));
        }
    }
    let mut documents = Vec::new();
    // Clusters have the arrays of every kind, so a selection takes all kinds with it.
    let added = kinds.iter().filter(|kind| kind.origin != "built-in");
    documents.extend(added.map(|kind| (KINDS.to_owned(), kind.document.clone())));
    for (kind, all) in definitions {
        documents.extend(all.into_iter().map(|definition| (kind.name.clone(), definition)));
    }
    documents.extend(clusters.into_iter().map(|cluster| (CLUSTERS.to_owned(), cluster)));
    Ok(documents)
}

/// The definitions that clusters refer to, and what those depend on.
fn used(kind: &Kind, all: &[Value], clusters: &[Value]) -> BTreeSet<String> {
    let array = kind.references.as_deref().unwrap_or_default();
    let references = clusters
        .iter()
        .flat_map(|cluster| cluster[array].as_array().into_iter().flatten());
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

/// A resource with its kind, as files have it; a kind's own document says its kind itself.
fn print(session: &Session<'_>, documents: &[(String, Value)]) -> Result<(), Failure> {
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
        (kind, Value::Object(fields)) => {
            let mut tagged = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
            tagged.extend(fields.clone());
            tagged.into()
        }
        (_, other) => other.clone(),
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
