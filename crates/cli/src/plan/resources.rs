//! The resources that a plan changes.

use fleet::kind::name_record;

use super::groups::{group, names};
use super::{Action, Planned, section};
use crate::output::{Table, Tone};

/// Up to this number, created or deleted resources of a kind are shown one by one; more are grouped.
const MOST_ALONE: usize = 10;

/// The resources that change; those with the same change are grouped.
pub(super) fn changes(all: &[Planned], wide: bool, table: &mut Table) {
    let alone = |action: Action, kind: &str| {
        let alike = |change: &&Planned| change.action == action && change.kind == kind;
        wide || all.iter().filter(alike).count() <= MOST_ALONE
    };
    let kinds = group(all.iter().map(|change| ((change.action, &*change.kind), ())));
    let single: Vec<(Action, &str)> = kinds.into_iter().map(|(key, _)| key).collect();
    let single: Vec<_> = single
        .into_iter()
        .filter(|(action, kind)| alone(*action, kind))
        .collect();
    let groups = group(all.iter().map(|change| {
        let fields = change.fields.iter();
        let fields = fields.map(|field| format!("    {}: {}", field.pointer, field.describe()));
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
        ((change.action, &*change.kind, fields, own), &*change.id)
    }));
    section(table, &groups, wide, |table, ((action, kind, fields, _), ids)| {
        let (sign, tone) = action.sign();
        let names = match ids.as_slice() {
            [one] => format!("{sign} {kind}/{one}"),
            many => format!("{sign} {} {kind}: {}", many.len(), names(many, wide)),
        };
        table.line(names, tone);
        section(table, fields, wide, |table, field| table.line(field, Tone::Plain));
    });
}
