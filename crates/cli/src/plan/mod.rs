//! A plan: what a write would change, or what differs between two revisions, as text.

mod effect;
mod groups;
pub(crate) mod guards;
mod objects;
mod overwrites;
mod resources;
mod rollouts;
pub(crate) mod whole;

use std::collections::HashSet;

use fleet::diff::{Difference, differences};
use serde_json::{Map, Value, json};

pub(crate) use self::groups::clusters;
use self::overwrites::Overwrites;
use crate::error::Failure;
use crate::output::{Printer, Table, Tone};
use crate::session::text;

/// How many entries of a section are shown; the rest is counted. `-o wide` shows all.
const MOST: usize = 40;

#[derive(Debug)]
pub(crate) struct Plan {
    /// As the server returned it.
    document: Value,
    pub(crate) changes: Vec<Planned>,
}

/// One resource that changes, field by field.
#[derive(Debug)]
pub(crate) struct Planned {
    action: Action,
    kind: String,
    pub(crate) id: String,
    fields: Vec<Difference>,
    overwrites: Overwrites,
}

impl Planned {
    /// Whether the resource exists now.
    fn existed(&self) -> bool {
        self.action != Action::Create
    }

    /// Whether a field goes back to an earlier value.
    fn reverts(&self) -> bool {
        !self.overwrites.reverts.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
    fn read(name: &str) -> Action {
        match name {
            "create" => Action::Create,
            "delete" => Action::Delete,
            _ => Action::Update,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }

    fn sign(self) -> (char, Tone) {
        match self {
            Action::Create => ('+', Tone::Good),
            Action::Update => ('~', Tone::Attention),
            Action::Delete => ('-', Tone::Bad),
        }
    }
}

/// Warnings without a plan.
pub(crate) fn warnings(all: &[Value], wide: bool) -> Table {
    let mut table = Table::default();
    effect::warnings(&json!({ "warnings": all }), wide, &mut table);
    table
}

/// Shows the first entries of a section, and counts the rest.
fn section<T>(table: &mut Table, entries: &[T], wide: bool, mut show: impl FnMut(&mut Table, &T)) {
    let shown = if wide { entries.len() } else { MOST };
    for entry in entries.iter().take(shown) {
        show(table, entry);
    }
    if let Some(more) = entries.len().checked_sub(shown).filter(|more| *more > 0) {
        table.line(format!("... and {more} more; -o wide shows all"), Tone::Quiet);
    }
}

impl Plan {
    pub(crate) fn read(document: Value) -> Plan {
        let some = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
        let records = document["changes"].as_array().into_iter().flatten();
        let changes = records.map(|record| Planned {
            action: Action::read(text(&record["action"])),
            kind: text(&record["kind"]).to_owned(),
            id: text(&record["id"]).to_owned(),
            fields: differences(some(&record["before"]).as_ref(), some(&record["after"]).as_ref()),
            overwrites: Overwrites::read(record),
        });
        Plan {
            changes: changes.collect(),
            document,
        }
    }

    /// Whether nothing changes or differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The digest of the effect.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.document["plan"].as_str()
    }

    pub(crate) fn base(&self) -> &Value {
        &self.document["base"]
    }

    /// From how many clusters something is removed.
    pub(crate) fn removals(&self) -> u64 {
        self.document["removals"]["count"].as_u64().unwrap_or_default()
    }

    /// How many clusters leave a wave that a rollout has promoted.
    pub(crate) fn demotions(&self) -> u64 {
        self.document["demotions"]["count"].as_u64().unwrap_or_default()
    }

    /// As the server returned it.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// How many clusters get other inputs, or may be matched differently by selectors.
    pub(crate) fn reach(&self) -> usize {
        let told = effect::items(&self.document["clusters"]).iter();
        let relabelled = effect::items(&self.document["relabelled"]["clusters"]).iter();
        let all: HashSet<&str> = told
            .map(|cluster| text(&cluster["id"]))
            .chain(relabelled.map(text))
            .collect();
        all.len()
    }

    /// Whether the removals are more than the budget allows without a confirmation.
    pub(crate) fn is_beyond_budget(&self) -> bool {
        let number = |name: &str| self.document["removals"][name].as_u64();
        let most = number("count").max(number("window"));
        number("budget").is_some_and(|budget| most > Some(budget))
    }

    /// Why guards refuse the write, if they do.
    pub(crate) fn guarded(&self) -> Option<Failure> {
        let refusing = self.refusing();
        (!refusing.is_empty()).then(|| guards::failure(&refusing))
    }

    /// The limits of guards that refuse the write.
    pub(crate) fn refusing(&self) -> Vec<&Value> {
        let checks = effect::items(&self.document["guards"]).iter();
        checks.filter(|check| guards::refuses(check)).collect()
    }

    /// How many resources of a kind are created.
    pub(crate) fn created(&self, kind: &str) -> u64 {
        let new = |change: &&Planned| change.action == Action::Create && change.kind == kind;
        self.changes.iter().filter(new).count() as u64
    }

    /// Adds how many resources of each kind exist only on the server.
    pub(crate) fn only_on_server(&mut self, counts: Vec<(String, u64)>) {
        let counts: Map<String, Value> = counts.into_iter().map(|(kind, count)| (kind, count.into())).collect();
        self.document["only_on_server"] = counts.into();
    }

    /// Adds warnings to those of the server.
    pub(crate) fn warn(&mut self, warnings: &[Value]) {
        if let Some(all) = self.document["warnings"].as_array_mut() {
            all.extend(warnings.iter().cloned());
            let total = self.document["totals"]["warnings"].as_u64().unwrap_or_default();
            self.document["totals"]["warnings"] = (total + warnings.len() as u64).into();
        }
    }

    /// The whole plan, for people.
    pub(crate) fn table(&self, wide: bool) -> Table {
        let mut table = Table::default();
        self.resources(wide, &mut table);
        overwrites::unknown(&self.document["history"], &mut table);
        rollouts::heading(&self.document, &mut table);
        effect::changes(&self.document, wide, &mut table);
        objects::changes(&self.document, wide, &mut table);
        if !self.is_empty() {
            effect::sums(&self.document, &mut table);
        }
        rollouts::waves(&self.document, wide, &mut table);
        effect::removals(&self.document, wide, &mut table);
        rollouts::demotions(&self.document, wide, &mut table);
        guards::checks(effect::items(&self.document["guards"]), &mut table);
        effect::relabelled(&self.document, wide, &mut table);
        effect::memberships(&self.document, wide, &mut table);
        effect::warnings(&self.document, wide, &mut table);
        effect::only_on_server(&self.document, &mut table);
        if let Some(digest) = self.digest().filter(|_| !self.is_empty()) {
            table.line(format!("plan {digest}"), Tone::Quiet);
        }
        table
    }

    /// The resources that change.
    pub(crate) fn resources(&self, wide: bool, table: &mut Table) {
        let all: Vec<&Planned> = self.changes.iter().collect();
        resources::changes(&all, &self.document["history"], wide, table);
    }

    /// A warning about the resources that go back to earlier values; empty if there are none.
    pub(crate) fn reverts(&self, wide: bool) -> Table {
        let mut table = Table::default();
        let reverting = self.changes.iter().filter(|change| change.reverts());
        let reverting: Vec<&Planned> = reverting.collect();
        if !reverting.is_empty() {
            table.line("warning: this reverts earlier changes", Tone::Attention);
            resources::changes(&reverting, &self.document["history"], wide, &mut table);
        }
        table
    }

    /// Shows the result of a dry run.
    pub(crate) fn show(&self, printer: &Printer) -> Result<(), Failure> {
        self.print(printer, &self.dry_run(), "dry run: nothing was changed")
    }

    /// Shows the plan as the server returned it.
    pub(crate) fn show_document(&self, printer: &Printer) -> Result<(), Failure> {
        self.print(printer, &self.document, "nothing was changed yet")
    }

    /// Shows what differs between two revisions.
    pub(crate) fn show_difference(&self, printer: &Printer) -> Result<(), Failure> {
        let table = |wide| match self.is_empty() {
            true => {
                let mut table = Table::default();
                table.line("nothing differs", Tone::Quiet);
                table
            }
            false => self.table(wide),
        };
        printer.print(&self.document, table, || self.names())
    }

    fn print(&self, printer: &Printer, value: &Value, closing: &str) -> Result<(), Failure> {
        let table = |wide| {
            let mut table = self.table(wide);
            let closing = if self.is_empty() {
                "nothing would change"
            } else {
                closing
            };
            table.line(closing, Tone::Quiet);
            table
        };
        printer.print(value, table, || self.names())
    }

    fn names(&self) -> Vec<String> {
        let names = self.changes.iter();
        names.map(|change| format!("{}/{}", change.kind, change.id)).collect()
    }

    /// The changes field by field, and the effect as the server returned it.
    fn dry_run(&self) -> Value {
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|change| {
                let fields: Vec<Value> = change.fields.iter().map(Difference::to_json).collect();
                json!({
                    "action": change.action.name(), "kind": change.kind, "id": change.id, "fields": fields,
                    "last_change": change.overwrites.last_change, "reverts": change.overwrites.reverts,
                })
            })
            .collect();
        let mut out = Map::from_iter([
            ("dry_run".to_owned(), true.into()),
            ("base".to_owned(), self.base().clone()),
            ("changes".to_owned(), changes.into()),
        ]);
        let parts = [
            "plan",
            "clusters",
            "totals",
            "history",
            "removals",
            "guards",
            "rollouts",
            "demotions",
            "relabelled",
            "profiles",
            "warnings",
            "only_on_server",
        ];
        for name in parts {
            if let Some(part) = self.document.get(name) {
                out.insert(name.to_owned(), part.clone());
            }
        }
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(document: Value, wide: bool) -> Vec<String> {
        let text = Plan::read(document).table(wide).render(false, true);
        text.lines().map(str::to_owned).collect()
    }

    fn cluster(n: usize, after: &str) -> Value {
        let field = json!({"pointer": "/component_version", "before": "6.4", "after": after});
        let changed = json!([{"id": "podinfo", "fields": [field]}]);
        json!({
            "id": format!("c-{n:04}"), "dns": format!("c-{n}.example.com"), "environment": "dev", "deleted": false,
            "inputs": {"platform-components": {"added": [], "removed": [], "changed": changed}},
        })
    }

    #[test]
    fn three_thousand_clusters_take_as_many_lines_as_three() {
        for count in [3, 3000] {
            let clusters: Vec<Value> = (0..count).map(|n| cluster(n, "6.5")).collect();
            let lines = shown(json!({"plan": "d", "changes": [], "clusters": clusters}), false);
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert_eq!(
                lines[1],
                "    ~ platform-components/podinfo /component_version: \"6.4\" -> \"6.5\""
            );
        }
    }

    #[test]
    fn equal_changes_are_grouped() {
        let mut clusters: Vec<Value> = (0..48).map(|n| cluster(n, "6.5")).collect();
        clusters[7]["inputs"]["namespaces"] = json!({"added": ["x"], "removed": ["y"], "changed": []});
        let lines = shown(json!({"changes": [], "clusters": clusters}), false);
        assert_eq!(
            lines,
            [
                "the same on 48 clusters: c-0000, c-0001, c-0002, c-0003, c-0004 and 43 more",
                "    ~ platform-components/podinfo /component_version: \"6.4\" -> \"6.5\"",
                "on c-0007",
                "    + namespaces/x",
                "    - namespaces/y",
            ]
        );
    }

    #[test]
    fn many_groups_are_shortened_unless_wide() {
        let clusters: Vec<Value> = (0..100).map(|n| cluster(n, &n.to_string())).collect();
        let document = json!({"changes": [], "clusters": clusters});
        let lines = shown(document.clone(), false);
        assert_eq!(lines.len(), 2 * MOST + 1);
        assert_eq!(
            lines.last().map(String::as_str),
            Some("... and 60 more; -o wide shows all")
        );
        assert_eq!(shown(document, true).len(), 200);
    }

    #[test]
    fn resources_with_the_same_change_are_grouped() {
        let record = |action: &str, n: usize, before: Value, after: Value| json!({"action": action, "kind": "clusters", "id": format!("c{n}"), "before": before, "after": after});
        let mut changes: Vec<Value> = (0..20)
            .map(|n| record("create", n, Value::Null, json!({"id": format!("c{n}")})))
            .collect();
        changes.extend((20..23).map(|n| record("update", n, json!({"tag": "1"}), json!({"tag": "2"}))));
        changes.push(record("delete", 23, json!({"id": "c23"}), Value::Null));
        let lines = shown(json!({ "changes": changes }), false);
        assert_eq!(
            lines,
            [
                "+ 20 clusters: c0, c1, c2, c3, c4 and 15 more",
                "~ 3 clusters: c20, c21, c22",
                "    /tag: \"1\" -> \"2\"",
                "- clusters/c23",
            ]
        );
    }

    /// A resource whose tag changes from 2 to 1; last changed in a revision, in which its tag may have become 2.
    fn overwriting(n: usize, revision: u64, reverts: bool) -> Value {
        let change = json!({"revision": revision, "actor": "anna", "reason": format!("fix {revision}")});
        let mut revert = change.clone();
        revert["pointer"] = "/tag".into();
        let reverts: Vec<Value> = reverts.then_some(revert).into_iter().collect();
        json!({
            "action": "update", "kind": "clusters", "id": format!("c{n}"), "before": {"tag": "2"}, "after": {"tag": "1"},
            "last_change": change, "reverts": reverts,
        })
    }

    #[test]
    fn what_is_overwritten_is_named_once_for_many() {
        let mut changes: Vec<Value> = (0..371).map(|n| overwriting(n, 5, false)).collect();
        assert_eq!(
            shown(json!({ "changes": changes }), false),
            [
                "~ 371 clusters: c0, c1, c2, c3, c4 and 366 more",
                "    last changed in revision 5 by anna, \"fix 5\"",
                "    /tag: \"2\" -> \"1\"",
            ]
        );
        // One of them has a hotfix, which must not be hidden by the others.
        changes[200] = overwriting(200, 7, true);
        assert_eq!(
            shown(json!({ "changes": changes }), false),
            [
                "~ 371 clusters: c0, c1, c2, c3, c4 and 366 more",
                "    last changed in revision 7 by anna, \"fix 7\"; others in revision 5",
                "    /tag: \"2\" -> \"1\"",
                "        reverts revision 7, on c200",
            ]
        );
        let alone = shown(json!({ "changes": [overwriting(1, 7, true)] }), false);
        assert_eq!(alone[3], "        reverts revision 7");
    }

    #[test]
    fn what_is_not_known_of_the_past_is_said() {
        let mut change = overwriting(1, 5, false);
        change["last_change"] = Value::Null;
        let with = |history: Value| shown(json!({"changes": [change.clone()], "history": history}), false);
        assert_eq!(
            with(json!({"status": "compacted", "through": 4})),
            [
                "~ clusters/c1",
                "    last changed in a revision that the log no longer has: it was compacted up to 4",
                "    /tag: \"2\" -> \"1\"",
                "changes up to revision 4 were compacted: what goes back to an earlier value is not known for all resources",
            ]
        );
        let unavailable = with(json!({"status": "unavailable"}));
        assert_eq!(
            unavailable[2],
            "the log cannot be read now: what this overwrites is not known"
        );
        assert_eq!(with(json!({"status": "complete"})).len(), 2);
    }

    #[test]
    fn removals_are_listed_separately() {
        let mut clusters: Vec<Value> = (0..3).map(|n| cluster(n, "6.5")).collect();
        clusters[0]["inputs"]["namespaces"] = json!({"added": [], "removed": ["y"], "changed": []});
        clusters[2]["deleted"] = true.into();
        let removals = json!({"count": 3, "window": 5, "budget": 2, "clusters": ["c-0000", "c-0001", "c-0002"]});
        let lines = shown(
            json!({"changes": [], "clusters": clusters, "removals": removals}),
            false,
        );
        let start = lines.iter().position(|line| line.starts_with("Flux removes"));
        assert_eq!(
            lines[start.unwrap_or_default()..],
            [
                "Flux removes something from 3 clusters",
                "    - namespaces/y, on c-0000",
                "    - platform-components/podinfo: turned off, or rendered to other objects, on c-0001",
                "    - everything: the cluster is decommissioned, on c-0002",
                "    more than the budget of 2: use --confirm-removals 3 to go ahead",
            ]
        );
    }

    #[test]
    fn removed_paths_and_relabelled_clusters_are_shown() {
        let mut one = cluster(0, "6.5");
        one["inputs"] = json!({"namespaces": {"added": [], "removed": ["y"], "changed": [], "unanswered": true}});
        let relabelled = json!({"count": 2, "keys": ["environment", "tier"], "clusters": ["a", "b"]});
        let lines = shown(
            json!({"changes": [], "clusters": [one], "relabelled": relabelled}),
            false,
        );
        assert_eq!(
            lines,
            [
                "on c-0000",
                "    - namespaces/y: no kind has this path any more",
                "2 clusters change for selectors on environment or tier: a, b",
            ]
        );
    }

    #[test]
    fn any_document_can_be_shown() {
        for odd in [
            json!(null),
            json!([]),
            json!({"changes": 1, "clusters": {"a": 1}, "totals": [], "removals": "x", "relabelled": [1], "warnings": [1]}),
            json!({"changes": [null], "clusters": [null, {"inputs": [1]}, {"inputs": {"p": null}}]}),
        ] {
            shown(odd, false);
        }
    }
}
