//! The merge: what one cluster is told of one kind. For each reference, in order: the definition, the overrides that are not
//! null over it, what the reference carries, patches, nesting, the cluster block.

use std::collections::{BTreeSet, HashSet};
use std::io::{Read, Write};
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};

use crate::document::Etag;
use crate::json;
use crate::kind::Kind;
use crate::snapshot::{Cluster, Definitions};

/// Flux refuses a body that is larger, unpacked.
pub const MAX_REPLY_BYTES: usize = 900 * 1024;
/// `filter.limit` of the providers that we ship; Flux would cut off the rest and garbage-collect it.
pub const MAX_INPUTS: usize = 10_000;

/// What a poll is answered with, packed: Flux always asks for gzip, so that is the form that is kept.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Of the plain body; the packed one's is derived from it.
    pub etag: Etag,
    pub gzip: Bytes,
    /// The length of the plain body.
    pub size: usize,
}

impl Reply {
    pub fn new(body: &str) -> Self {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::new(6));
        encoder.write_all(body.as_bytes()).expect("writing to memory");
        let mut gzip = encoder.finish().expect("writing to memory");
        gzip.shrink_to_fit();
        Reply {
            etag: Etag::of_bytes(body.as_bytes()),
            gzip: gzip.into(),
            size: body.len(),
        }
    }

    /// The plain body, for the few who do not take gzip.
    pub fn identity(&self) -> Bytes {
        let mut body = Vec::with_capacity(self.size);
        GzDecoder::new(&self.gzip[..])
            .read_to_end(&mut body)
            .expect("our own gzip unpacks");
        body.into()
    }

    /// `{"inputs":[]}`: a cluster without any of a kind, and a decommissioned one.
    pub fn empty() -> &'static Reply {
        static EMPTY: LazyLock<Reply> = LazyLock::new(|| Reply::new(r#"{"inputs":[]}"#));
        &EMPTY
    }
}

/// How a reply would break the ExternalService contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    #[error("the reply would be {0} bytes, and Flux refuses more than {MAX_REPLY_BYTES}")]
    TooLarge(usize),
    #[error("the id \"{0}\" would be in the reply twice")]
    Twice(String),
    #[error("the reply would have {0} inputs, and Flux cuts off what is beyond {MAX_INPUTS}")]
    TooMany(usize),
}

/// The references of `cluster` (a parsed document) to definitions of `kind`.
pub fn references<'a>(kind: &Kind, cluster: &'a Value) -> &'a [Value] {
    let array = kind.references.as_deref().and_then(|name| cluster.get(name));
    array.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn reference_id(reference: &Value) -> &str {
    reference.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// All that a cluster's document says about its inputs of one kind, but for the cluster block, as text.
pub(crate) fn told_of(kind: &Kind, cluster: &Value) -> String {
    let mut told = String::with_capacity(1024);
    for reference in references(kind, cluster) {
        json::write(reference, &mut told);
        if let Some(patches) = patches(kind, reference, cluster) {
            json::write(patches, &mut told);
        }
        told.push('\n');
    }
    told
}

fn patches<'a>(kind: &Kind, reference: &Value, cluster: &'a Value) -> Option<&'a Value> {
    let all = cluster.get("patches").filter(|_| kind.flux.patches)?;
    all.get(reference_id(reference))
}

/// The reply of one cluster for one kind.
pub fn reply(kind: &Kind, cluster: &Cluster, definitions: &Definitions) -> Result<Reply, Breach> {
    body(kind, cluster, definitions).map(|body| Reply::new(&body))
}

/// The plain body of that reply, checked against the contract.
pub fn body(kind: &Kind, cluster: &Cluster, definitions: &Definitions) -> Result<String, Breach> {
    let document = cluster.document().body.parse();
    let block = cluster_block(cluster);
    let mut text = String::with_capacity(4096);
    let mut seen = HashSet::new();
    text.push_str(r#"{"inputs":["#);
    for reference in references(kind, &document) {
        let id = reference_id(reference);
        // Dangling: skipped here, and reported by the metric, the log and the diagnostics.
        let Some(definition) = definitions.get(id) else {
            continue;
        };
        if !seen.insert(id) {
            return Err(Breach::Twice(id.to_owned()));
        }
        if seen.len() > 1 {
            text.push(',');
        }
        let effective = Effective::new(kind, definition.value(), reference, &document);
        effective.write_input(kind, &block, &mut text);
    }
    text.push_str("]}");
    if seen.len() > MAX_INPUTS {
        return Err(Breach::TooMany(seen.len()));
    }
    if text.len() > MAX_REPLY_BYTES {
        return Err(Breach::TooLarge(text.len()));
    }
    Ok(text)
}

pub(crate) fn cluster_block(cluster: &Cluster) -> String {
    let mut block = String::with_capacity(128);
    block.push_str(r#"{"dns":"#);
    json::write_str(&cluster.head().dns, &mut block);
    block.push_str(r#","environment":"#);
    json::write_str(&cluster.head().environment, &mut block);
    block.push_str(r#","name":"#);
    json::write_str(&cluster.head().name, &mut block);
    block.push('}');
    block
}

/// A definition as one cluster sees it, flat: before nesting and without the cluster block.
#[derive(Debug)]
pub struct Effective<'a> {
    fields: Vec<(&'a str, &'a Value)>,
    overridden: BTreeSet<&'a str>,
}

static NO_PATCHES: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

impl<'a> Effective<'a> {
    pub fn new(kind: &'a Kind, definition: &'a Value, reference: &'a Value, cluster: &'a Value) -> Self {
        let set = |name: &str| reference.get(name).filter(|value| !value.is_null());
        let mut overridden = BTreeSet::new();
        let mut fields: Vec<(&str, &Value)> = Vec::with_capacity(16);
        for (name, value) in definition.as_object().into_iter().flatten() {
            if !kind.flux.overridable.iter().any(|field| field == name) {
                fields.push((name, value));
            }
        }
        for name in &kind.flux.overridable {
            if let Some(value) = set(name) {
                overridden.insert(name.as_str());
                fields.push((name, value));
            } else if let Some(value) = definition.get(name) {
                fields.push((name, value));
            }
        }
        for (name, schema) in &kind.flux.carried {
            if let Some(value) = set(name).or_else(|| schema.get("default")) {
                fields.push((name, value));
            }
        }
        if kind.flux.patches {
            let patches = patches(kind, reference, cluster).unwrap_or(&NO_PATCHES);
            fields.push(("patches", patches));
        }
        Effective { fields, overridden }
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| *value)
    }

    /// The fields that the cluster sets against the catalog.
    pub fn overridden(&self) -> impl Iterator<Item = &str> {
        self.overridden.iter().copied()
    }

    /// Whether another one would be written the same, by the same kind for the same cluster.
    pub(crate) fn same(&self, other: &Effective<'_>) -> bool {
        self.fields == other.fields
    }

    /// The input, but for its cluster block.
    pub(crate) fn nested(&self, kind: &Kind) -> Map<String, Value> {
        let mut out = self.to_map();
        for (target, fields) in &kind.flux.nest {
            let inner: Map<_, _> = fields.iter().filter_map(|field| out.remove_entry(field)).collect();
            if !inner.is_empty() {
                out.insert(target.clone(), inner.into());
            }
        }
        out
    }

    pub fn to_map(&self) -> Map<String, Value> {
        self.fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).clone()))
            .collect()
    }

    fn write_input(&self, kind: &Kind, cluster_block: &str, out: &mut String) {
        enum Part<'p> {
            Field(&'p Value),
            Nest(Vec<(&'p str, &'p Value)>),
            Cluster,
        }
        let nested_in = |field: &str| {
            kind.flux
                .nest
                .iter()
                .find(|(_, fields)| fields.iter().any(|name| name == field))
        };
        let mut parts: Vec<(&str, Part<'_>)> = vec![("cluster", Part::Cluster)];
        for &(name, value) in &self.fields {
            match nested_in(name) {
                None => parts.push((name, Part::Field(value))),
                Some((target, _)) => match parts.iter_mut().find(|(part, _)| part == target) {
                    Some((_, Part::Nest(inner))) => inner.push((name, value)),
                    _ => parts.push((target, Part::Nest(vec![(name, value)]))),
                },
            }
        }
        parts.sort_unstable_by_key(|(name, _)| *name);
        let mut separator = '{';
        for (name, part) in &mut parts {
            out.push(separator);
            separator = ',';
            json::write_str(name, out);
            out.push(':');
            match part {
                Part::Field(value) => json::write(value, out),
                Part::Cluster => out.push_str(cluster_block),
                Part::Nest(inner) => {
                    inner.sort_unstable_by_key(|(name, _)| *name);
                    let mut separator = '{';
                    for (name, value) in inner {
                        out.push(separator);
                        separator = ',';
                        json::write_str(name, out);
                        out.push(':');
                        json::write(value, out);
                    }
                    out.push('}');
                }
            }
        }
        out.push('}');
    }
}

/// The list of clusters for whoever provisions them: four fields of each, whatever else the documents hold.
pub fn cluster_list<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Result<String, Breach> {
    let mut text = String::from(r#"{"inputs":["#);
    let mut count = 0;
    for cluster in clusters {
        if count > 0 {
            text.push(',');
        }
        count += 1;
        let head = cluster.head();
        let fields: [(&str, &str); 4] = [
            ("cluster_dns", &head.dns),
            ("cluster_name", &head.name),
            ("environment", &head.environment),
            ("id", &cluster.document().id),
        ];
        let mut separator = '{';
        for (name, value) in fields {
            text.push(separator);
            separator = ',';
            json::write_str(name, &mut text);
            text.push(':');
            json::write_str(value, &mut text);
        }
        text.push('}');
    }
    text.push_str("]}");
    match (count, text.len()) {
        (count, _) if count > MAX_INPUTS => Err(Breach::TooMany(count)),
        (_, size) if size > MAX_REPLY_BYTES => Err(Breach::TooLarge(size)),
        _ => Ok(text),
    }
}
