//! What one cluster is told about one kind: its references, merged with their definitions, as the body of a reply.

mod mark;
mod merge;
mod reply;

use std::collections::HashSet;

use serde_json::Value;

pub(crate) use self::mark::DESIRED;
use self::mark::write_marked;
pub use self::mark::{Mark, NotAMark, mark};
pub use self::merge::Effective;
pub(crate) use self::merge::{Part, cluster_block};
pub use self::reply::{Breach, Form, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::document::Etag;
use crate::json;
use crate::kind::Kind;
use crate::snapshot::{Cluster, Definitions};

/// How every reply begins and ends.
const START: &str = r#"{"inputs":["#;
const END: &str = "]}";

/// The references of `cluster` (a parsed document) to definitions of `kind`.
pub fn references<'a>(kind: &Kind, cluster: &'a Value) -> &'a [Value] {
    let array = kind.references.as_deref().and_then(|name| cluster.get(name));
    array.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn reference_id(reference: &Value) -> &str {
    reference.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// What a cluster's document contributes to its inputs of one kind, without the cluster block, as text: with the same profiles,
/// equal texts give equal inputs.
pub(crate) fn own_part(kind: &Kind, cluster: &Value, has_profiles: bool) -> String {
    let mut text = String::with_capacity(1024);
    for reference in references(kind, cluster) {
        json::write(reference, &mut text);
        if let Some(patches) = patches(kind, reference, cluster) {
            json::write(patches, &mut text);
        }
        text.push('\n');
    }
    // They may be for what a profile brings.
    if let Some(patches) = cluster.get("patches").filter(|_| has_profiles && kind.flux.patches) {
        json::write(patches, &mut text);
    }
    text
}

/// The patches of a cluster for one reference.
fn patches<'a>(kind: &Kind, reference: &Value, cluster: &'a Value) -> Option<&'a Value> {
    let all = cluster.get("patches").filter(|_| kind.flux.patches)?;
    all.get(reference_id(reference))
}

/// The most bytes that the marks of `inputs` inputs add to a reply.
pub(crate) fn mark_bytes(inputs: usize) -> usize {
    inputs * mark::MARK_BYTES
}

/// What one cluster is told about one kind, as text.
pub(crate) struct Body {
    plain: String,
    /// Only if it was asked for.
    marked: Option<String>,
    inputs: usize,
    /// How many inputs have a mark in the marked form.
    marks: usize,
    /// Whether an input is turned on.
    active: bool,
}

impl Body {
    /// Checked against the contract, in the plain form.
    pub(crate) fn new(kind: &Kind, cluster: &Cluster, definitions: &Definitions, form: Form) -> Result<Self, Breach> {
        let mut plain = String::with_capacity(4096);
        let mut marked = (form == Form::Marked).then(|| String::with_capacity(4096));
        let path = kind.path.as_deref().unwrap_or_default();
        let (mut marks, mut active) = (0, false);
        plain.push_str(START);
        marked.iter_mut().for_each(|text| text.push_str(START));
        let inputs = each_input(kind, cluster, definitions, |n, _, input| {
            if n > 0 {
                plain.push(',');
            }
            let start = plain.len();
            input.write(&mut plain);
            marks += usize::from(!input.has(DESIRED));
            active |= !input.is_off("enabled");
            if let Some(text) = &mut marked {
                if n > 0 {
                    text.push(',');
                }
                write_marked(input, mark(path, &plain[start..]), text);
            }
        })?;
        plain.push_str(END);
        marked.iter_mut().for_each(|text| text.push_str(END));
        Breach::check_size(plain.len(), inputs)?;
        Ok(Body {
            plain,
            marked,
            inputs,
            marks,
            active,
        })
    }

    /// The reply in the form that was asked for. What fits only without marks has none: it was stored before there were marks, and
    /// the cluster must go on being answered.
    pub(crate) fn into_reply(self) -> Reply {
        let mut reply = match self.marked.filter(|marked| marked.len() <= MAX_REPLY_BYTES) {
            Some(marked) => Reply::marked(&marked, Etag::of_bytes(self.plain.as_bytes())),
            None => Reply::new(&self.plain),
        };
        reply.active = self.active;
        reply
    }

    /// The text of that reply.
    pub(crate) fn into_text(self) -> String {
        let marked = self.marked.filter(|marked| marked.len() <= MAX_REPLY_BYTES);
        marked.unwrap_or(self.plain)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    pub(crate) fn plain_etag(&self) -> Etag {
        Etag::of_bytes(self.plain.as_bytes())
    }
}

/// How a reply would break the contract in its larger form, the marked one. Writes are checked for that.
pub(crate) fn breach(kind: &Kind, cluster: &Cluster, definitions: &Definitions) -> Option<Breach> {
    let check = |body: Body| Breach::check_size(body.plain.len() + mark_bytes(body.marks), body.inputs);
    Body::new(kind, cluster, definitions, Form::Plain).and_then(check).err()
}

/// The id and the mark of each input, in the order of the reply.
pub(crate) fn marks(kind: &Kind, cluster: &Cluster, definitions: &Definitions) -> Result<Vec<(String, Mark)>, Breach> {
    let path = kind.path.as_deref().unwrap_or_default();
    let mut marks = Vec::new();
    let mut text = String::with_capacity(1024);
    each_input(kind, cluster, definitions, |_, id, input| {
        text.clear();
        input.write(&mut text);
        marks.push((id.to_owned(), mark(path, &text)));
    })?;
    Ok(marks)
}

/// Passes on each input with its position and id. Returns how many there are.
fn each_input(
    kind: &Kind,
    cluster: &Cluster,
    definitions: &Definitions,
    mut pass: impl FnMut(usize, &str, Part<'_>),
) -> Result<usize, Breach> {
    let document = cluster.effective_for(kind);
    let mut seen = HashSet::new();
    for reference in references(kind, &document) {
        let id = reference_id(reference);
        // A dangling reference is skipped; the metric, the log and the diagnostics report it.
        let Some(definition) = definitions.get(id) else {
            continue;
        };
        if !seen.insert(id) {
            return Err(Breach::Twice(id.to_owned()));
        }
        let effective = Effective::new(kind, definition.value(), reference, &document);
        pass(seen.len() - 1, id, effective.input(Some(cluster.head())));
    }
    Ok(seen.len())
}

/// The list of clusters for provisioning: four fields of each, whatever else the documents hold.
pub fn cluster_list<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Result<String, Breach> {
    let mut text = String::from(START);
    let mut count = 0;
    for cluster in clusters {
        if count > 0 {
            text.push(',');
        }
        count += 1;
        let head = cluster.head();
        let fields = vec![
            ("cluster_dns", Part::Text(&head.dns)),
            ("cluster_name", Part::Text(&head.name)),
            ("environment", Part::Text(&head.environment)),
            ("id", Part::Text(&cluster.document().id)),
        ];
        Part::Object(fields).write(&mut text);
    }
    text.push_str(END);
    Breach::check_size(text.len(), count)?;
    Ok(text)
}
