//! Documents in files, and the operations that they stand for.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fleet::files;
use fleet::kind::{self, KINDS, Outline};
use fleet::operation::Verb;
use serde_json::{Value, json};

use crate::client::Operation;
use crate::error::{Code, Failure};
use crate::session::Session;

/// For the help of the commands that apply documents.
pub(crate) const WHOLE_DOCUMENTS: &str = "\
A document is the whole resource: a field that it leaves out is removed, or set to its default. Arrays of references are \
the exception: a document that leaves one out is refused, and [] removes all references. To change single fields, use \
the `update` command of the kind. A document has a `kind` (any of the kind's names) and an `id`; a document with a \
`schema` is a kind itself.";

/// One document, and where it was read.
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
                "{}: the folder has no .yaml, .yml, .json or .jsonl file",
                path.display()
            )));
        }
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| Failure::file(&file, &error))?;
            parse(&file.display().to_string(), &text, &mut documents)?;
        }
    }
    match documents.is_empty() {
        true => Err(Failure::usage("no document was found")),
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

/// Splits a text into documents: JSON values one after the other, or YAML documents. A list stands for its items.
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

/// A document as an operation, with its kind and id.
pub(crate) struct Applied {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) operation: Operation,
}

impl Applied {
    /// All documents, kinds first, since the other documents are validated against them. A resource that is given twice is
    /// refused: the last document would hide the first.
    pub(crate) fn read_all(session: &Session<'_>, documents: &[Document]) -> Result<Vec<Applied>, Failure> {
        let known = Known::read(session, documents);
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for document in documents {
            let applied = Applied::read(document, &known)?;
            if !applied.id.is_empty() && !seen.insert((applied.kind.clone(), applied.id.clone())) {
                return Err(Failure::new(
                    Code::Usage,
                    format!("{}: {}/{} is given twice", document.place, applied.kind, applied.id),
                ));
            }
            all.push(applied);
        }
        all.sort_by_key(|applied| applied.kind != KINDS);
        Ok(all)
    }

    fn read(document: &Document, known: &Known<'_>) -> Result<Applied, Failure> {
        let wrong = |error: fleet::refusal::Violation| {
            let failure = Failure::usage(format!("{}: {}", document.place, error.detail));
            failure.hint("`kind list` lists the kinds; a document with `schema` is a kind itself")
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

/// The kinds that documents may have: those of the server, and those among the documents themselves.
struct Known<'a> {
    session: &'a Session<'a>,
    /// The plural, and every other name.
    among: Vec<(String, Vec<String>)>,
}

impl<'a> Known<'a> {
    fn read(session: &'a Session<'a>, documents: &[Document]) -> Known<'a> {
        let kinds = documents
            .iter()
            .filter(|document| document.value.get("schema").is_some());
        let names = kinds.filter_map(|document| {
            let name = kind::name_of(&document.value).ok()?;
            let outline = Outline::read(&document.value);
            let given = document.value["kind"].as_str().unwrap_or_default();
            let others = [given, &outline.singular, &outline.command];
            Some((name, others.map(|name| name.replace('-', "_")).to_vec()))
        });
        Known {
            session,
            among: names.collect(),
        }
    }

    /// The plural of a kind, by any of its names.
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

/// The operations that apply documents.
pub(crate) fn operations(session: &Session<'_>, documents: &[Document]) -> Result<Vec<Operation>, Failure> {
    let all = Applied::read_all(session, documents)?;
    Ok(all.into_iter().map(|applied| applied.operation).collect())
}

/// The operations that apply the documents of files.
pub(crate) fn operations_of(
    session: &Session<'_>,
    paths: &[PathBuf],
    recursive: bool,
) -> Result<Vec<Operation>, Failure> {
    operations(session, &read(paths, recursive)?)
}
