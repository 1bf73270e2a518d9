//! Rows of a store that were damaged. The first byte says whether the log is there, the others what happens to the rows of the
//! demo fleet, six bytes per event.

use fleet::Fleet;
use fleet::damage::{BadRow, Replay, localise};
use fleet::integrity::{Total, item};
use fleet::json::Json;
use fleet::log::{Digest, Head, Resource, State};
use fleet::snapshot::Poll;

use crate::demo;

const MOST_EVENTS: usize = 16;

/// A row, and the digest that was stored with it.
#[derive(Clone)]
struct Row {
    resource: Resource,
    stored: Digest,
}

/// A damaged store is loaded or refused, never a panic; and every reply is the one from before the damage.
pub fn stored_rows(bytes: &[u8]) {
    let Some((with_log, events)) = bytes.split_first() else {
        return;
    };
    let mut rows: Vec<Row> = demo::fleet().resources().map(row).collect();
    let mut total = Total::default();
    total.extend(rows.iter().map(|row| row.stored));
    for event in events.chunks_exact(6).take(MOST_EVENTS) {
        damage(&mut rows, event);
    }
    let record = demo::log();
    let mut log = Replay::new(Head::default());
    if with_log % 2 == 1 {
        log.record(&record);
    }
    let (mut sound, mut bad) = (Vec::new(), Vec::new());
    for row in rows {
        match item_of(&row.resource) == row.stored {
            true => sound.push(row.resource),
            false => bad.push(BadRow {
                found: Some(row.resource),
                stored: Some(row.stored),
                detail: "it does not match its digest".to_owned(),
            }),
        }
    }
    let (resources, damage) = localise(record.head(), Some(total), sound, bad, &log);
    let state = State {
        head: record.head(),
        resources,
        damage,
    };
    if let Ok(fleet) = Fleet::load(state) {
        assert_same_replies(&fleet);
    }
}

fn assert_same_replies(fleet: &Fleet) {
    let demo = demo::fleet();
    for cluster in demo.clusters().values() {
        for kind in demo.kinds().definitions() {
            let path = kind.path.as_deref().expect("a definition has a path");
            let dns = &cluster.head().dns;
            if let (Poll::Reply(reply), Poll::Reply(before)) = (fleet.poll(dns, path), demo.poll(dns, path)) {
                assert_eq!(reply.identity(), before.identity(), "{dns} {path}");
            }
        }
    }
}

fn row(resource: Resource) -> Row {
    Row {
        stored: item_of(&resource),
        resource,
    }
}

fn item_of(resource: &Resource) -> Digest {
    item(&resource.kind, &resource.id, &resource.body)
}

/// One event: what happens, to which row, and where in it.
fn damage(rows: &mut Vec<Row>, event: &[u8]) {
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
            if let Some(flipped) = flipped(rows[row].resource.body.as_str(), at, value) {
                rows[row].resource.body = body(flipped);
            }
        }
        1 => {
            if let Some(id) = flipped(&rows[row].resource.id, at, value) {
                rows[row].resource.id = id.into();
            }
        }
        2 => {
            if let Some(kind) = flipped(&rows[row].resource.kind, at, value) {
                rows[row].resource.kind = kind.into();
            }
        }
        3 => {
            let body = rows[row].resource.body.clone();
            rows[row].resource.body = std::mem::replace(&mut rows[other].resource.body, body);
        }
        4 => drop(rows.remove(row)),
        5 => rows.push(rows[row].clone()),
        6 => rows[row].resource.kind = rows[other].resource.kind.clone(),
        7 => {
            if let Some(replaced) = replaced(rows[row].resource.body.as_str(), at, value) {
                rows[row].resource.body = body(replaced);
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
