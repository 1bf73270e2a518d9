//! The resources that a plan changes.

use fleet::diff::Difference;
use fleet::kind::{ROLLOUTS, name_record};
use serde_json::Value;

use super::groups::{group, names};
use super::{Action, Planned, overwrites, section};
use crate::output::{Table, Tone};

/// Up to this number, created or deleted resources of a kind are shown one by one; more are grouped.
const MOST_ALONE: usize = 10;

/// Whether a field of a new rollout is worth a line: the server's are empty, or the same for each.
fn says_something(field: &Difference) -> bool {
    let given = [
        "/description",
        "/gate",
        "/on_failure",
        "/operations",
        "/removals",
        "/waves",
    ];
    given.contains(&&*field.pointer) && field.after.as_ref().is_some_and(|value| !value.is_null())
}

/// The resources that change; those with the same change are grouped.
pub(super) fn changes(all: &[&Planned], history: &Value, wide: bool, table: &mut Table) {
    let alone = |action: Action, kind: &str| {
        let alike = |change: &&&Planned| change.action == action && change.kind == kind;
        wide || all.iter().filter(alike).count() <= MOST_ALONE
    };
    let kinds = group(all.iter().map(|change| ((change.action, &*change.kind), ())));
    let single: Vec<(Action, &str)> = kinds.into_iter().map(|(key, _)| key).collect();
    let single: Vec<_> = single
        .into_iter()
        .filter(|(action, kind)| alone(*action, kind))
        .collect();
    let groups = group(all.iter().map(|change| {
        let is_new_rollout = change.kind == ROLLOUTS && change.action == Action::Create;
        let fields = change.fields.iter();
        let fields = fields.filter(|field| !is_new_rollout || says_something(field));
        let fields = fields.map(|field| (&*field.pointer, format!("    {}: {}", field.pointer, field.describe())));
        let alone = single.contains(&(change.action, &*change.kind));
        let (fields, own) = match change.action {
            // The change of the cluster is listed already.
            _ if name_record(&change.kind).is_some() => (Vec::new(), None),
            Action::Update => (fields.collect(), None),
            // The fields of many new resources would be too long, and a deletion removes all fields.
            Action::Create if alone => (fields.collect(), Some(&*change.id)),
            Action::Delete if alone => (Vec::new(), Some(&*change.id)),
            Action::Create | Action::Delete => (Vec::new(), None),
        };
        ((change.action, &*change.kind, fields, own), *change)
    }));
    section(table, &groups, wide, |table, ((action, kind, fields, _), members)| {
        let (sign, tone) = action.sign();
        let ids: Vec<&str> = members.iter().map(|member| &*member.id).collect();
        let names = match ids.as_slice() {
            [one] => format!("{sign} {kind}/{one}"),
            many => format!("{sign} {} {kind}: {}", many.len(), names(many, wide)),
        };
        table.line(names, tone);
        let named = overwrites::last_changes(members, history, table);
        overwrites::reverts(members, "", named, wide, table);
        section(table, fields, wide, |table, (pointer, field)| {
            table.line(field, Tone::Plain);
            overwrites::reverts(members, pointer, named, wide, table);
        });
    });
}
