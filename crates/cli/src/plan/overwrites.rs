//! What a plan overwrites: who last changed each resource, and which fields go back to an earlier value.

use std::collections::BTreeMap;

use fleet::refusal::some_of;
use serde_json::Value;

use super::Planned;
use super::groups::names;
use crate::output::{Table, Tone};
use crate::session::text;

/// What the server says about one resource.
#[derive(Debug, Default)]
pub(super) struct Overwrites {
    /// The last change; null if it is not known, or there was none.
    pub(super) last_change: Value,
    pub(super) reverts: Vec<Value>,
}

impl Overwrites {
    pub(super) fn read(record: &Value) -> Overwrites {
        Overwrites {
            last_change: record["last_change"].clone(),
            reverts: record["reverts"].as_array().cloned().unwrap_or_default(),
        }
    }
}

/// Says who last changed the resources of a group: the newest change in full, the others by their revisions. Returns the
/// revision that was named in full.
pub(super) fn last_changes(group: &[&Planned], history: &Value, table: &mut Table) -> Option<u64> {
    let changes = group.iter().map(|one| &one.overwrites.last_change);
    let known = changes.filter(|change| !change.is_null());
    let by_revision: BTreeMap<u64, &Value> = known.map(|change| (revision(change), change)).collect();
    let mut newest = by_revision.iter().rev();
    let named = newest.next();
    if let Some((_, last)) = named {
        let others: Vec<String> = newest.map(|(revision, _)| revision.to_string()).collect();
        let others = match others.as_slice() {
            [] => String::new(),
            [one] => format!("; others in revision {one}"),
            many => format!("; others in revisions {}", some_of(many)),
        };
        table.line(format!("    last changed in {}{others}", source(last)), Tone::Quiet);
    }
    let unknown = |one: &&&Planned| one.overwrites.last_change.is_null() && one.existed();
    if history["status"] == "compacted" && group.iter().any(|one| unknown(&one)) {
        let line = format!(
            "    last changed in a revision that the log no longer has: it was compacted up to {}",
            history["through"]
        );
        table.line(line, Tone::Quiet);
    }
    named.map(|(revision, _)| *revision)
}

/// Says which changes a field of a group reverts, and on which resources if not on all. The pointer is empty for the whole
/// resource. `named` is the revision that was already named in full.
pub(super) fn reverts(group: &[&Planned], pointer: &str, named: Option<u64>, wide: bool, table: &mut Table) {
    let mut by_revision: BTreeMap<u64, (&Value, Vec<&str>)> = BTreeMap::new();
    for one in group {
        let reverts = one.overwrites.reverts.iter();
        for revert in reverts.filter(|revert| revert["pointer"] == pointer) {
            let entry = by_revision.entry(revision(revert)).or_insert((revert, Vec::new()));
            entry.1.push(&one.id);
        }
    }
    for (revision, (revert, ids)) in by_revision.into_iter().rev() {
        let source = match named == Some(revision) {
            true => format!("revision {revision}"),
            false => source(revert),
        };
        let place = match ids.len() == group.len() {
            true => String::new(),
            false => format!(", on {}", names(&ids, wide)),
        };
        table.line(format!("        reverts {source}{place}"), Tone::Bad);
    }
}

/// Says what is not known about the past.
pub(super) fn unknown(history: &Value, table: &mut Table) {
    let line = match text(&history["status"]) {
        "compacted" => format!(
            "changes up to revision {} were compacted: what goes back to an earlier value is not known for all resources",
            history["through"]
        ),
        "partial" => "there are too many earlier changes to compare all: some reverts may not be marked".to_owned(),
        "unavailable" => "the log cannot be read now: what this overwrites is not known".to_owned(),
        _ => return,
    };
    table.line(line, Tone::Attention);
}

fn revision(change: &Value) -> u64 {
    change["revision"].as_u64().unwrap_or_default()
}

/// `revision 57 by anna, "hotfix"`
fn source(change: &Value) -> String {
    let reason = change["reason"].as_str();
    let reason = reason.map(|reason| format!(", \"{reason}\"")).unwrap_or_default();
    format!("revision {} by {}{reason}", change["revision"], text(&change["actor"]))
}
