//! The three forms of PATCH. The first line says which, and of what: `merge clusters/demo-cluster-01`. The rest is the body.

use fleet::json;
use fleet::operation::{Operation, Target, Verb};
use fleet::patch::Form;

use crate::accepted;

pub fn patches(bytes: &[u8]) {
    let Some(operation) = parse(bytes) else { return };
    accepted::write(&[operation]);
}

fn parse(bytes: &[u8]) -> Option<Operation> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (form, name) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let (kind, id) = name.split_once('/')?;
    let form = match form {
        "merge" => Form::Merge,
        "merge-patch" => Form::MergePatch,
        "json-patch" => Form::JsonPatch,
        _ => return None,
    };
    let value = json::parse(&bytes[end + 1..]).ok()?;
    let on = Target::Id(id.to_owned());
    Some(Operation::new(kind, Verb::Merge { on, form, value }))
}
