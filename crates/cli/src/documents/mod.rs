//! Documents in files, and the operations that they stand for.

mod files;
mod prune;
mod wanted;

use std::collections::BTreeSet;

use fleet::kind::{self, KINDS, Outline};
use fleet::operation::Verb;
use serde_json::{Map, Value, json};

pub(crate) use self::files::read;
pub(crate) use self::prune::AFTER_HELP as PRUNE;
pub(crate) use self::wanted::{DocumentArgs, Files, Wanted};
use crate::client::Operation;
use crate::error::{Code, Failure};
use crate::session::Session;

/// For the help of the commands that apply documents.
pub(crate) const WHOLE_DOCUMENTS: &str = "\
A document is the whole resource: a field that it leaves out is removed, or set to its default. Arrays of references are \
the exception: a document that leaves out one that is not empty on the server is refused, unless --keep-missing is given, \
and [] removes all references. To change single fields, use the `update` command of the kind. A document has a `kind` (any of the kind's names) and an `id`; a document with a \
`schema` is a kind itself.";

/// A resource as a document that `apply` accepts: with its kind. A list has one document per item.
pub(crate) fn tagged(kind: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut tagged = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
            tagged.extend(fields.clone());
            tagged.into()
        }
        Value::Array(items) => items.iter().map(|item| tagged(kind, item)).collect(),
        other => other.clone(),
    }
}

/// One document, and where it was read.
pub(crate) struct Document {
    place: String,
    pub(crate) value: Value,
}

impl Document {
    /// The file, and which document in it.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
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
            failure.hint("`kind list` lists the kinds; `get -o yaml` and `export` write documents with theirs")
        };
        let operation = fleet::files::apply(document.value.clone()).map_err(wrong)?;
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
