//! The body of a reply in its two forms, from the references of a cluster.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::common::Common;
use super::mark::{DESIRED, MARK_BYTES, Mark, mark, write_marked};
use super::merge::{Effective, Part};
use super::reply::{Breach, Form, MAX_REPLY_BYTES, Reply};
use super::{END, START, cluster_block, reference_id, references};
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
    plain_etag: OnceCell<Etag>,
}

/// An input, to be written.
enum Input<'a> {
    /// As every cluster has it that says nothing about it, and the cluster block.
    Common(&'a Common, &'a str),
    Merged(Part<'a>),
}

impl Input<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Input::Common(common, block) => common.write(block, out),
            Input::Merged(part) => part.write(out),
        }
    }

    fn write_marked(self, mark: Mark, out: &mut String) {
        match self {
            Input::Common(common, block) => common.write_marked(block, mark, out),
            Input::Merged(part) => write_marked(part, mark, out),
        }
    }

    fn can_be_marked(&self) -> bool {
        match self {
            Input::Common(..) => true,
            Input::Merged(part) => !part.has(DESIRED),
        }
    }

    fn is_active(&self) -> bool {
        match self {
            Input::Common(common, _) => common.is_active,
            Input::Merged(part) => !part.is_off("enabled"),
        }
    }
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
            marks += usize::from(input.can_be_marked());
            active |= input.is_active();
            if let Some(text) = &mut marked {
                if n > 0 {
                    text.push(',');
                }
                input.write_marked(mark(path, &plain[start..]), text);
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
            plain_etag: OnceCell::new(),
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
                ..Reply::with_etag(&self.plain, self.plain_etag())
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
        *self.plain_etag.get_or_init(|| Etag::of_bytes(self.plain.as_bytes()))
    }
}

/// How a reply would break the contract in its larger form, the marked one. Writes are checked for that.
pub(crate) fn breach(kind: &Kind, view: &View<'_>) -> Option<Breach> {
    let check = |body: Body| Breach::check_size(body.plain.len() + body.marks * MARK_BYTES, body.inputs);
    Body::new(kind, view, Form::Plain).and_then(check).err()
}

/// Passes on each input with its position. Returns how many there are.
fn each_input(kind: &Kind, view: &View<'_>, mut pass: impl FnMut(usize, Input<'_>)) -> Result<usize, Breach> {
    let Some(definitions) = view.definitions(&kind.name) else {
        return Ok(0);
    };
    let document = view.effective_for(kind);
    let head = view.cluster().head();
    let block = cluster_block(kind, head).to_text();
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
        let common = definition.common(kind);
        let input = match common.filter(|common| common.is_all(kind, reference, &document)) {
            Some(common) => Input::Common(common, &block),
            None => Input::Merged(Effective::new(kind, definition.value(), reference, &document).input(Some(head))),
        };
        pass(seen.len() - 1, input);
    }
    Ok(seen.len())
}
