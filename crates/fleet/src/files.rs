//! Documents in files: seeds, and documents that name their kind.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;
use crate::kind::{self, CLUSTERS, KINDS};
use crate::operation::{Operation, Verb};
use crate::refusal::{Violation, segment, shorten};

/// A seed: one object with an array per kind. Its documents stay text until they are written, because a parsed fleet takes ten
/// times the memory.
#[derive(Debug)]
pub struct Seed<'a> {
    text: &'a str,
    /// Sorted by rank; within a rank, in the order of the file.
    documents: Vec<Document<'a>>,
    origin: Arc<str>,
}

#[derive(Debug)]
struct Document<'a> {
    kind: Arc<str>,
    /// Its position in the array of its kind.
    index: usize,
    text: &'a RawValue,
}

/// The order of documents: kinds first, because they define the rest; clusters last, because they refer to the rest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Kind,
    Definition,
    Cluster,
}

impl Document<'_> {
    fn rank(&self) -> Rank {
        match &*self.kind {
            KINDS => Rank::Kind,
            CLUSTERS => Rank::Cluster,
            _ => Rank::Definition,
        }
    }
}

/// The most documents and bytes of clusters in one part of a seed.
const MOST_IN_PART: usize = 1000;
const MOST_BYTES_IN_PART: usize = 4 << 20;

impl<'a> Seed<'a> {
    pub fn read(text: &'a str) -> Result<Seed<'a>, Vec<Violation>> {
        let wrong = |detail: String| vec![Violation::new("", detail)];
        let not_json = |error: serde_json::Error| wrong(format!("is not JSON: {error}"));
        let whole: &RawValue = serde_json::from_str(text).map_err(not_json)?;
        if !whole.get().starts_with('{') {
            return Err(wrong("a seed must be one object with an array per kind".to_owned()));
        }
        let Arrays(arrays) = serde_json::from_str(text).map_err(not_json)?;
        let mut errors = Vec::new();
        let mut documents = Vec::new();
        for (kind, array) in arrays {
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
                errors.push(Violation::new(segment(&kind), "must be an array of resources"));
                continue;
            };
            let kind: Arc<str> = kind.into();
            documents.extend(items.into_iter().enumerate().map(|(index, text)| Document {
                kind: kind.clone(),
                index,
                text,
            }));
        }
        if !errors.is_empty() {
            errors.sort();
            return Err(errors);
        }
        documents.sort_by_key(Document::rank);
        Ok(Seed {
            text,
            documents,
            origin: "seed".into(),
        })
    }

    /// The documents in parts that can be written one after the other: kinds first (possibly none), then definitions, then
    /// clusters.
    pub fn parts(&self) -> Vec<Range<usize>> {
        let kinds = self
            .documents
            .partition_point(|document| document.rank() < Rank::Definition);
        let mut start = self
            .documents
            .partition_point(|document| document.rank() < Rank::Cluster);
        let mut parts = Vec::new();
        parts.push(0..kinds);
        if kinds < start {
            parts.push(kinds..start);
        }
        let mut bytes = 0;
        for (n, document) in self.documents.iter().enumerate().skip(start) {
            if n - start >= MOST_IN_PART || bytes >= MOST_BYTES_IN_PART {
                parts.push(start..n);
                (start, bytes) = (n, 0);
            }
            bytes += document.text.get().len();
        }
        if start < self.documents.len() {
            parts.push(start..self.documents.len());
        }
        parts
    }

    /// The operations that create a part of the documents.
    pub fn operations(&self, part: Range<usize>) -> Result<Vec<Operation>, Vec<Violation>> {
        let mut errors = Vec::new();
        let mut operations = Vec::with_capacity(part.len());
        for n in part {
            let document = &self.documents[n];
            match json::parse(document.text.get().as_bytes()) {
                Ok(value) => {
                    let create = Verb::Create { id: None, value };
                    operations.push(Operation::new(&*document.kind, create).from(&self.origin));
                }
                Err(error) => errors.push(Violation::new(
                    self.place(n).unwrap_or_default(),
                    format!("is not JSON: {}", self.in_file(document, &error)),
                )),
            }
        }
        if errors.is_empty() { Ok(operations) } else { Err(errors) }
    }

    /// The pointer of a document in the file, to report a problem of its operation.
    pub fn place(&self, n: usize) -> Option<String> {
        let document = self.documents.get(n)?;
        Some(format!("{}/{}", segment(&document.kind), document.index))
    }

    /// An error in one document, with its line in the file.
    fn in_file(&self, document: &Document<'_>, error: &serde_json::Error) -> String {
        let text = error.to_string();
        let offset = (document.text.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let above = self
            .text
            .as_bytes()
            .iter()
            .take(offset)
            .filter(|byte| **byte == b'\n')
            .count();
        let detail = text.rsplit_once(" at line ").map_or(&*text, |(detail, _)| detail);
        format!("{detail} at line {}", above + error.line())
    }
}

/// The arrays of a seed by name; no name occurs twice.
struct Arrays<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Arrays<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
                let mut all: Self::Value = Vec::new();
                while let Some(name) = fields.next_key::<String>()? {
                    if all.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("{:?} occurs twice", shorten(name, 100))));
                    }
                    all.push((name, fields.next_value()?));
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(Fields).map(Arrays)
    }
}

/// The operation for a document of a file. A document with a `schema` is a kind; any other names its kind.
pub fn apply(mut document: Value) -> Result<Operation, Violation> {
    let Value::Object(fields) = &mut document else {
        return Err(Violation::new("", "a document must be an object"));
    };
    if fields.contains_key("schema") {
        kind::name_of(&document)?;
        return Ok(Operation::new(
            KINDS,
            Verb::Apply {
                id: None,
                value: document,
            },
        ));
    }
    match fields.remove("kind") {
        Some(Value::String(kind)) => Ok(Operation::new(
            kind,
            Verb::Apply {
                id: None,
                value: document,
            },
        )),
        _ => Err(Violation::new(
            "/kind",
            "\"kind\" is required, for example \"kind\": \"clusters\"",
        )),
    }
}
