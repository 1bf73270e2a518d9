//! The body of a reply in its two forms, from the references of a cluster.

use std::collections::HashSet;

use super::mark::{DESIRED, MARK_BYTES, mark, write_marked};
use super::merge::{Effective, Part};
use super::reply::{Breach, Form, MAX_REPLY_BYTES, Reply};
use super::{END, START, reference_id, references};
use crate::document::Etag;
use crate::kind::Kind;
use crate::snapshot::View;

/// What one cluster is told about one kind, as text.
pub(crate) struct Body {
    form: Form,
    plain: String,
    /// None: the plain form was asked for, or the marked one is too large.
    marked: Option<String>,
    inputs: usize,
    /// How many inputs have a mark in the marked form.
    marks: usize,
    /// Whether an input is turned on.
    active: bool,
}

impl Body {
    /// Checked against the contract. What fits only without marks has none: it was stored before there were marks, and the cluster
    /// must go on being answered.
    pub(crate) fn new(kind: &Kind, view: &View<'_>, form: Form) -> Result<Self, Breach> {
        let mut plain = String::with_capacity(4096);
        let mut marked = (form == Form::Marked).then(|| String::with_capacity(4096));
        let path = kind.path.as_deref().unwrap_or_default();
        let (mut marks, mut active) = (0, false);
        plain.push_str(START);
        marked.iter_mut().for_each(|text| text.push_str(START));
        let inputs = each_input(kind, view, |n, input| {
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
            form,
            plain,
            marked: marked.filter(|text| text.len() <= MAX_REPLY_BYTES),
            inputs,
            marks,
            active,
        })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// The reply in the form that was asked for.
    pub(crate) fn to_reply(&self) -> Reply {
        let (form, active) = (self.form, self.active);
        match &self.marked {
            None => Reply {
                form,
                active,
                ..Reply::new(&self.plain)
            },
            Some(marked) => Reply {
                form,
                active,
                plain: self.plain_etag(),
                ..Reply::new(marked)
            },
        }
    }

    /// The text of that reply.
    pub(crate) fn into_text(self) -> String {
        self.marked.unwrap_or(self.plain)
    }

    pub(crate) fn plain_etag(&self) -> Etag {
        Etag::of_bytes(self.plain.as_bytes())
    }
}

/// How a reply would break the contract in its larger form, the marked one. Writes are checked for that.
pub(crate) fn breach(kind: &Kind, view: &View<'_>) -> Option<Breach> {
    let check = |body: Body| Breach::check_size(body.plain.len() + body.marks * MARK_BYTES, body.inputs);
    Body::new(kind, view, Form::Plain).and_then(check).err()
}

/// Passes on each input with its position. Returns how many there are.
fn each_input(kind: &Kind, view: &View<'_>, mut pass: impl FnMut(usize, Part<'_>)) -> Result<usize, Breach> {
    let Some(definitions) = view.definitions(&kind.name) else {
        return Ok(0);
    };
    let document = view.effective_for(kind);
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
        pass(seen.len() - 1, effective.input(Some(view.cluster().head())));
    }
    Ok(seen.len())
}
