//! The Kubernetes objects that a plan changes, as a unified diff.

use serde_json::Value;
use similar::TextDiff;

use super::effect::lines;
use super::groups::{clusters, group};
use super::section;
use crate::output::{Table, Tone};
use crate::session::text;

/// Shows the objects of the clusters that have any in the plan. Of clusters whose inputs change in the same way, one is shown as an
/// example; `-o wide` shows all.
pub(super) fn changes(document: &Value, wide: bool, table: &mut Table) {
    let all = document["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (rendered, others): (Vec<_>, Vec<_>) = all.iter().partition(|cluster| cluster.get("objects").is_some());
    if rendered.is_empty() && document["unrendered"] != true {
        return;
    }
    let groups = match wide {
        true => rendered.into_iter().map(|cluster| vec![cluster]).collect(),
        false => alike(rendered),
    };
    section(table, &groups, wide, |table, group| {
        if let Some((first, rest)) = group.split_first() {
            let alike = match rest.len() {
                0 => String::new(),
                more => format!(", and in the same way on {more} more; -o wide shows all"),
            };
            table.line(format!("objects on {}{alike}", text(&first["id"])), Tone::Head);
            of_cluster(first, table);
        }
    });
    if !others.is_empty() {
        let count = clusters(others.len() as u64);
        table.line(format!("the objects of {count} were not rendered"), Tone::Attention);
    }
}

fn alike(rendered: Vec<&Value>) -> Vec<Vec<&Value>> {
    let groups = group(rendered.into_iter().map(|cluster| (lines(cluster), cluster)));
    groups.into_iter().map(|(_, members)| members).collect()
}

fn of_cluster(cluster: &Value, table: &mut Table) {
    if let Some(error) = cluster["objects"]["error"].as_str() {
        table.line(format!("cannot be rendered: {error}"), Tone::Bad);
        return;
    }
    let manifests = cluster["manifests"].as_array().map(Vec::as_slice).unwrap_or_default();
    if manifests.is_empty() {
        table.line("no object changes", Tone::Quiet);
    }
    for manifest in manifests {
        for line in unified(manifest).lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Quiet,
                _ => Tone::Plain,
            };
            table.line(line, tone);
        }
    }
}

/// One object before and after, as `diff -u` shows it.
fn unified(manifest: &Value) -> String {
    let id = text(&manifest["id"]);
    let side = |name: &str| match &manifest[name] {
        Value::Null => ("/dev/null", String::new()),
        object => (
            id,
            resourceset::to_yaml(object).unwrap_or_else(|_| format!("{object}\n")),
        ),
    };
    let ((old_name, old), (new_name, new)) = (side("before"), side("after"));
    let diff = TextDiff::from_lines(&old, &new);
    diff.unified_diff().header(old_name, new_name).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_compared_line_by_line() {
        let object = |tag: &str| json!({"kind": "ConfigMap", "data": {"tag": tag, "other": "x"}});
        let changed = json!({"id": "ConfigMap/a/b", "before": object("1"), "after": object("2")});
        assert_eq!(
            unified(&changed),
            "--- ConfigMap/a/b\n+++ ConfigMap/a/b\n@@ -1,4 +1,4 @@\n data:\n   other: x\n-  tag: \"1\"\n+  tag: \"2\"\n kind: ConfigMap\n"
        );
        let added = json!({"id": "ConfigMap/a/b", "before": null, "after": {"kind": "ConfigMap"}});
        assert_eq!(
            unified(&added),
            "--- /dev/null\n+++ ConfigMap/a/b\n@@ -0,0 +1 @@\n+kind: ConfigMap\n"
        );
        let removed = json!({"id": "ConfigMap/a/b", "before": {"kind": "ConfigMap"}, "after": null});
        assert_eq!(
            unified(&removed),
            "--- ConfigMap/a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-kind: ConfigMap\n"
        );
    }
}
