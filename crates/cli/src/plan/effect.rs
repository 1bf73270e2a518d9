//! The effect on the clusters: which inputs change, what Flux removes, what will stall. One section each, short enough for
//! thousands of clusters.

use std::collections::HashSet;

use fleet::diff::Difference;
use serde_json::Value;

use super::groups::{clusters, group, names};
use super::section;
use crate::output::{Table, Tone};
use crate::session::text;

/// One change on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    text: String,
    tone: Sign,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sign {
    Added,
    Changed,
    Removed,
}

impl Sign {
    fn tone(self) -> Tone {
        match self {
            Sign::Added => Tone::Good,
            Sign::Changed => Tone::Attention,
            Sign::Removed => Tone::Bad,
        }
    }
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The lists of inputs of a cluster that change, by their path.
fn lists(cluster: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let lists = cluster["inputs"].as_object().into_iter().flatten();
    lists.map(|(path, list)| (path.as_str(), list))
}

fn is_deleted(cluster: &Value) -> bool {
    cluster["deleted"] == true
}

/// A changed field of a plan; null stands for a missing value.
fn difference(field: &Value) -> Difference {
    let some = |name: &str| Some(field[name].clone()).filter(|value| !value.is_null());
    Difference {
        pointer: text(&field["pointer"]).to_owned(),
        before: some("before"),
        after: some("after"),
    }
}

pub(super) fn lines(cluster: &Value) -> Vec<Line> {
    let mut out = Vec::new();
    let mut add = |tone, text: String| out.push(Line { text, tone });
    if is_deleted(cluster) {
        // All inputs are removed, so they are not listed.
        add(Sign::Removed, "- everything: the cluster is decommissioned".to_owned());
        return out;
    }
    for (path, list) in lists(cluster) {
        for id in items(&list["added"]) {
            add(Sign::Added, format!("+ {path}/{}", text(id)));
        }
        let unanswered = match list["unanswered"] == true {
            true => ": no kind has this path any more",
            false => "",
        };
        for id in items(&list["removed"]) {
            add(Sign::Removed, format!("- {path}/{}{unanswered}", text(id)));
        }
        for input in items(&list["changed"]) {
            for field in items(&input["fields"]).iter().map(difference) {
                let (id, pointer) = (text(&input["id"]), &field.pointer);
                add(Sign::Changed, format!("~ {path}/{id} {pointer}: {}", field.describe()));
            }
        }
    }
    out
}

/// The changes on the clusters; equal ones are grouped, the largest group first.
pub(super) fn changes(document: &Value, wide: bool, table: &mut Table) {
    let affected = items(&document["clusters"]);
    let numbered = affected.iter().enumerate();
    let by_line = group(numbered.flat_map(|(n, cluster)| lines(cluster).into_iter().map(move |line| (line, n))));
    let mut sets = group(by_line.into_iter().map(|(line, set)| (set, line)));
    sets.sort_by_key(|(set, _)| std::cmp::Reverse(set.len()));
    section(table, &sets, wide, |table, (set, lines)| {
        let ids: Vec<&str> = set.iter().map(|n| text(&affected[*n]["id"])).collect();
        let heading = match ids.as_slice() {
            [one] => format!("on {one}"),
            many => format!("the same on {} clusters: {}", many.len(), names(many, wide)),
        };
        table.line(heading, Tone::Head);
        section(table, lines, wide, |table, line| {
            table.line(format!("    {}", line.text), line.tone.tone());
        });
    });
}

/// The totals: `40 dev, 8 prod`, and the number of inputs of each kind.
pub(super) fn sums(document: &Value, table: &mut Table) {
    let totals = &document["totals"];
    let count = match totals["clusters"].as_u64() {
        Some(0) => return table.line("this reaches no cluster", Tone::Quiet),
        Some(count) => count,
        None => return,
    };
    let tiers = totals["by_environment"].as_object().into_iter().flatten();
    let tiers: Vec<String> = tiers.map(|(name, count)| format!("{count} {name}")).collect();
    table.line(format!("{}: {}", clusters(count), tiers.join(", ")), Tone::Head);
    for (path, sums) in totals["by_kind"].as_object().into_iter().flatten() {
        let parts = ["added", "changed", "removed"].map(|name| (name, sums[name].as_u64().unwrap_or_default()));
        let parts = parts.into_iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts.map(|(name, count)| format!("{count} {name}")).collect();
        let count = sums["clusters"].as_u64().unwrap_or_default();
        table.line(
            format!("    {path}: {} on {}", parts.join(", "), clusters(count)),
            Tone::Plain,
        );
    }
}

/// What Flux removes, and whether it exceeds the removal budget.
pub(super) fn removals(document: &Value, wide: bool, table: &mut Table) {
    let removals = &document["removals"];
    let number = |name: &str| removals[name].as_u64();
    let Some(count) = number("count").filter(|count| *count > 0) else {
        return;
    };
    table.line(format!("Flux removes something from {}", clusters(count)), Tone::Bad);
    let losing: HashSet<&str> = items(&removals["clusters"]).iter().map(text).collect();
    let affected = items(&document["clusters"]).iter();
    let affected = affected.filter(|cluster| losing.contains(text(&cluster["id"])));
    let lost = group(affected.flat_map(|cluster| {
        let id = text(&cluster["id"]);
        lost(cluster).into_iter().map(move |line| (line, id))
    }));
    section(table, &lost, wide, |table, (line, ids)| {
        table.line(format!("    {line}, on {}", names(ids, wide)), Tone::Bad);
    });
    let Some(budget) = number("budget") else { return };
    let window = number("window").unwrap_or(count);
    let beyond = match (count > budget, window > budget) {
        (true, _) => format!("more than the budget of {budget}"),
        (false, true) => {
            format!("with recent removals this makes {window}, more than the budget of {budget}")
        }
        (false, false) => return,
    };
    table.line(
        format!("    {beyond}: use --confirm-removals {count} to go ahead"),
        Tone::Bad,
    );
}

/// What is removed from a cluster. If no input is removed, one of the changed inputs renders to fewer objects.
fn lost(cluster: &Value) -> Vec<String> {
    let removed = |line: &Line| line.tone == Sign::Removed;
    let gone: Vec<String> = lines(cluster)
        .into_iter()
        .filter(removed)
        .map(|line| line.text)
        .collect();
    if !gone.is_empty() {
        return gone;
    }
    let changed = lists(cluster).flat_map(|(path, list)| {
        let ids = items(&list["changed"]).iter().map(|input| text(&input["id"]));
        ids.map(move |id| format!("- {path}/{id}: turned off, or rendered to other objects"))
    });
    changed.collect()
}

/// Clusters whose labels change: selectors may match them differently.
pub(super) fn relabelled(document: &Value, wide: bool, table: &mut Table) {
    let relabelled = &document["relabelled"];
    let ids: Vec<&str> = items(&relabelled["clusters"]).iter().map(text).collect();
    if ids.is_empty() {
        return;
    }
    let keys: Vec<&str> = items(&relabelled["keys"]).iter().map(text).collect();
    table.line(
        format!(
            "{} change for selectors on {}: {}",
            clusters(ids.len() as u64),
            keys.join(" or "),
            names(&ids, wide)
        ),
        Tone::Attention,
    );
}

/// The profiles that clusters enter and leave.
pub(super) fn memberships(document: &Value, wide: bool, table: &mut Table) {
    for membership in items(&document["profiles"]) {
        let part = |name: &str, verb: &str| {
            let count = membership[name]["count"].as_u64().unwrap_or_default();
            let ids: Vec<&str> = items(&membership[name]["clusters"]).iter().map(text).collect();
            let verb = format!("{verb}{}", if count == 1 { "s" } else { "" });
            (count > 0).then(|| format!("{} {verb} ({})", clusters(count), names(&ids, wide)))
        };
        let parts: Vec<String> = [part("entered", "enter"), part("left", "leave")]
            .into_iter()
            .flatten()
            .collect();
        let line = format!("profile {}: {}", text(&membership["profile"]), parts.join(", "));
        table.line(line, Tone::Attention);
    }
}

/// How many resources the files of a comparison do not hold.
pub(super) fn only_on_server(document: &Value, table: &mut Table) {
    let counts = document["only_on_server"].as_object().into_iter().flatten();
    let counts: Vec<String> = counts.map(|(kind, count)| format!("{kind} {count}")).collect();
    if !counts.is_empty() {
        let line = format!(
            "only on the server: {} (--prune --kind KIND deletes them)",
            counts.join(", ")
        );
        table.line(line, Tone::Attention);
    }
}

/// Warnings: dependencies that will never be ready, and what the command warns of.
pub(super) fn warnings(document: &Value, wide: bool, table: &mut Table) {
    let all = items(&document["warnings"]);
    let groups = group(all.iter().map(|warning| {
        let part = |name: &str| text(&warning[name]).to_owned();
        ((part("kind"), part("id"), part("detail")), text(&warning["cluster"]))
    }));
    section(table, &groups, wide, |table, ((kind, id, detail), ids)| {
        let place = match ids.as_slice() {
            // It is about the resource itself.
            [""] => {
                table.line(format!("warning: {kind}/{id} {detail}"), Tone::Attention);
                return;
            }
            [one] => (*one).to_owned(),
            many => format!("{} clusters ({})", many.len(), names(many, wide)),
        };
        table.line(format!("warning: on {place}, {kind}/{id} {detail}"), Tone::Attention);
    });
    let total = document["totals"]["warnings"].as_u64().unwrap_or_default();
    let listed = all.len() as u64;
    if total > listed {
        table.line(format!("... and {} more warnings", total - listed), Tone::Attention);
    }
}
