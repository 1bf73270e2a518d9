//! Rows of a store that were damaged. The bytes say what happens to the rows of the demo fleet, six bytes per event.

use fleet::Fleet;
use fleet::json::Json;
use fleet::log::Resource;
use fleet::snapshot::Poll;

use crate::{accepted, demo};

const MOST_EVENTS: usize = 16;

/// A damaged store is loaded or refused, never a panic; and what is loaded answers polls with valid replies or not at all.
pub fn stored_rows(bytes: &[u8]) {
    let mut state = demo::state(demo::fleet());
    for event in bytes.chunks_exact(6).take(MOST_EVENTS) {
        damage(&mut state.resources, event);
    }
    // Text that is no JSON does not match its digest, and never reaches this point.
    let is_json = |row: &Resource| Json::from_elsewhere(row.body.as_str()).is_some();
    if !state.resources.iter().all(is_json) {
        return;
    }
    let Ok(fleet) = Fleet::load(state) else { return };
    let names = demo::fleet().clusters().values().map(|cluster| &*cluster.head().dns);
    for dns in names {
        for kind in fleet.kinds().definitions() {
            let path = kind.path.as_deref().expect("a definition has a path");
            if let Poll::Reply(reply) = fleet.poll(dns, path) {
                accepted::assert_valid(&reply.identity());
            }
        }
    }
}

/// One event: what happens, to which row, and where in it.
fn damage(rows: &mut Vec<Resource>, event: &[u8]) {
    let [what, row, other, low, high, value] = *event else {
        return;
    };
    if rows.is_empty() {
        return;
    }
    let (row, other) = (usize::from(row) % rows.len(), usize::from(other) % rows.len());
    let at = usize::from(u16::from_le_bytes([low, high]));
    let body = |text: String| Json::from_canonical(text);
    match what % 9 {
        0 => {
            if let Some(flipped) = flipped(rows[row].body.as_str(), at, value) {
                rows[row].body = body(flipped);
            }
        }
        1 => {
            if let Some(id) = flipped(&rows[row].id, at, value) {
                rows[row].id = id.into();
            }
        }
        2 => {
            if let Some(kind) = flipped(&rows[row].kind, at, value) {
                rows[row].kind = kind.into();
            }
        }
        3 => {
            let body = rows[row].body.clone();
            rows[row].body = std::mem::replace(&mut rows[other].body, body);
        }
        4 => drop(rows.remove(row)),
        5 => rows.push(rows[row].clone()),
        6 => rows[row].kind = rows[other].kind.clone(),
        7 => {
            if let Some(replaced) = replaced(rows[row].body.as_str(), at, value) {
                rows[row].body = body(replaced);
            }
        }
        _ => rows.swap(row, other),
    }
}

/// The text with one bit changed; none if it is no text afterwards.
fn flipped(text: &str, at: usize, value: u8) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let at = at.checked_rem(bytes.len())?;
    bytes[at] ^= 1 << (value % 8);
    String::from_utf8(bytes).ok()
}

/// The text with one of its JSON values replaced by another, so that it stays JSON more often.
fn replaced(text: &str, at: usize, value: u8) -> Option<String> {
    const VALUES: [&str; 8] = ["null", "true", "0", "-1.5e300", "\"\"", "[]", "{}", "[{\"id\":\"x\"}]"];
    let colons: Vec<usize> = text.match_indices(':').map(|(at, _)| at + 1).collect();
    let start = *colons.get(at.checked_rem(colons.len())?)?;
    let mut values = serde_json::Deserializer::from_str(text.get(start..)?).into_iter::<serde_json::Value>();
    values.next()?.ok()?;
    let end = start + values.byte_offset();
    let value = VALUES[usize::from(value) % VALUES.len()];
    Some(format!("{}{value}{}", &text[..start], &text[end..]))
}
